/* `cairn cancel`. */
#include "run/cluster.h"
#include "cli/facts.h"
#include "cli/server.h"
#include "run/cancel.h"
#include "run/run.h"
#include "runners/kubernetes/runner.h"

/* Nobody is there to be asked, but what it started on a cluster goes on. */
static int cancel_jobs(struct cli *cli, struct db *db, const struct run_row *r, struct err *err)
{
	struct clock *clock = clock_system();
	const struct config *config;
	struct kube_client *client = NULL;
	struct kube_access access;
	struct kube_profile profile;
	size_t n = 0;
	int result = cli_config(cli, &config, err);

	if (result == 0)
		result = cluster_access(config, cli->arena, &access, err);
	if (result == 0)
		result = cluster_profile(config, &access, cli->arena, &profile, err);
	if (result == 0)
		result = kube_client_new(&access, &(struct kube_client_options){ 0 }, &client, err);
	if (result == 0)
		result = kube_delete_run(client, access.namespace_, profile.project, r->id, &n, err);
	kube_client_free(client);
	if (result < 0 || run_cancel_dead(db, r, clock->wall_ns(clock), cli->arena, err) < 0)
		return -1;
	if (!cli->json)
		cli_printf(cli, "%s: cancelled; %zu Job%s deleted\n", r->id, n, n == 1 ? "" : "s");
	return 0;
}

static bool has_jobs(struct cli *cli, const struct run_row *r)
{
	return (facts_engine_died(r) || r->state == RUN_INTERRUPTED) && str_eq(run_durable_runner(r->options_json, cli->arena), "kubernetes");
}

static int cancel(struct cli *cli, struct db *db, const struct run_row *r, bool now, struct err *err)
{
	if (has_jobs(cli, r))
		return cancel_jobs(cli, db, r, err);
	if (run_cancel(db, r, now, err) < 0)
		return -1;
	if (!cli->json)
		cli_printf(cli, "%s: asked to stop\n", r->id);
	return 0;
}

/* Those whose engine lives. */
static int find_running(struct cli *cli, struct db *db, struct run_row **ret, size_t *ret_n, struct err *err)
{
	size_t n, kept = 0;

	if (record_running(db, cli->arena, ret, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!facts_engine_died(&(*ret)[i]))
			(*ret)[kept++] = (*ret)[i];
	*ret_n = kept;
	return 0;
}

int cmd_cancel(struct cli *cli, const struct cli_args *args)
{
	size_t n = args->n_operands;
	struct err err = { 0 };
	struct run_row *rows;
	struct db *db;
	json_t *done;
	int r;

	if (cli_flag(args, "server"))
		return server_cancel(cli, args);
	done = json_array();
	r = server_unused(args, &err);
	if (r == 0)
		r = cli_db(cli, DB_WRITE, &db, &err);
	if (r == 0 && n == 0) {
		r = find_running(cli, db, &rows, &n, &err);
		if (r == 0 && n != 1)
			r = n ? err_set(&err, ERR_INVALID, "%zu runs are running: name one (`cairn runs --state running`)", n) :
				err_set(&err, ERR_NOT_FOUND, "no run is running");
	} else if (r == 0) {
		rows = arena_alloc(cli->arena, n * sizeof(*rows));
		for (size_t i = 0; i < n && r == 0; i++)
			r = record_find_run(db, args->operands[i], cli->arena, &rows[i], &err);
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = cancel(cli, db, &rows[i], cli_flag(args, "now"), &err);
		if (r == 0)
			json_array_append_new(done, json_string(rows[i].id));
	}
	if (r < 0) {
		json_decref(done);
		return cli_fail(cli, &err);
	}
	if (cli->json)
		cli_print_json(cli, json_pack("{s:o}", "cancelled", done));
	else
		json_decref(done);
	return CLI_OK;
}

/* `cairn run --detach`: everything that the start of a run needs goes into the shared store, where
 * a remote server finds it. */
#include "cli/serve/server.h"
#include "cli/session.h"
#include "run/handover/handover.h"

static int check_use(const struct cli_args *args, const struct run_options *o, struct err *err)
{
	static const char *const here[] = { "schedule",       "shell", "twice",
					    "keep-workspace", "audit", "on" };

	for (size_t i = 0; i < ARRAY_LEN(here); i++)
		if (cli_flag(args, here[i]))
			return err_set(
				err, ERR_USAGE,
				"--detach hands the run to a server: --%s has no meaning there",
				here[i]);
	return o->firing.times ? err_set(err, ERR_USAGE, "a schedule's run can't be handed over")
			       : 0;
}

/* A server on another machine can't use a directory of this one. A server on this machine finds out
 * itself whether it sees the same directory. */
static int check_store(struct session *s, const struct server *to, struct err *err)
{
	bool near = strstr(to->url, "://127.") || strstr(to->url, "://localhost") ||
		    strstr(to->url, "://[::1]");

	if (store_is_shared(s->store) || near ||
	    !str_eq(s->config->store.uri, s->config->store.local))
		return 0;
	return err_set(err, ERR_INVALID,
		       "--detach needs a store that the server sees as well: name an s3:// or "
		       "gs:// store in cairn.yaml; this one is %s",
		       s->config->store.uri);
}

static int hand_over(struct cli *cli, struct server *to, const struct handover *h, struct err *err)
{
	_cleanup_(json_decrefp) json_t *body = handover_to_json(h), *answer = NULL;
	const char *run, *project;
	bool named = cli->config && str_eq(cli->config->serve.url, to->url);
	const char *server = named ? "--server" : arena_printf(cli->arena, "--server %s", to->url);
	bool is_new = true;

	if (server_ask(to, "POST", "/api/v1/handovers", body, true, &answer, err) < 0)
		return -1;
	if (json_get_str(answer, "run", &run, err) < 0 ||
	    json_get_str(answer, "project", &project, err) < 0 ||
	    json_get_bool(answer, "new", &is_new, err) < 0)
		return err_wrap(err, "%s: its answer", to->url);
	if (run[strspn(run, "abcdefghijklmnopqrstuvwxyz0123456789-")] || *run == '-')
		return err_set(err, ERR_INVALID, "%s: its answer has no valid run id",
			       to->url); /* the id is printed for the user to type */
	if (cli->json) {
		cli_print_json(cli, "cairn.detached/1",
			       json_pack("{s:s, s:s, s:s}", "run", run, "project", project,
					 "server", to->url));
		return 0;
	}
	if (to->project && !(named && str_eq(cli->config->serve.project, to->project)))
		server = arena_printf(cli->arena, "%s --project %s", server, to->project);
	cli_printf(cli, "%s%s%s: %s %s\n", cli_style(cli, STYLE_BOLD), run,
		   cli_style(cli, STYLE_PLAIN),
		   is_new ? "handed over to" : "was handed over already to", to->url);
	cli_printf(cli,
		   "  cairn status %s %s\n  cairn logs TASK -f --run %s %s\n  cairn cancel %s %s\n",
		   run, server, run, server, run, server);
	return 0;
}

int server_run(struct cli *cli, const struct cli_args *args, const struct pipeline *p,
	       const struct run_options *o)
{
	struct session s = { .leases_fd = -1 };
	struct server to = { 0 };
	struct handover h;
	struct err err = { 0 };
	int r = check_use(args, o, &err);

	if (r == 0)
		r = server_open(cli, args, &to, &err);
	if (r == 0)
		r = session_open(&s, cli, false, &err);
	if (r == 0)
		r = check_store(&s, &to, &err);
	if (r == 0) {
		const struct run_context ctx = { .config = s.config,
						 .db = s.db,
						 .store = s.store,
						 .cache = s.cache,
						 .steps_program = s.steps_program,
						 .leases_fd = -1,
						 .hash_threads = session_cpus() };

		r = handover_prepare(&ctx, p, o, cli->arena, &h, &err);
	}
	if (r == 0)
		r = handover_send(s.store, &h, &err);
	if (r == 0)
		r = hand_over(cli, &to, &h, &err);
	session_close(&s);
	server_close(&to);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}

#include "cli/run/execution.h"
#include <string.h>
#include "base/map.h"
#include "base/text/text.h"
#include "cli/cli.h"
#include "record/facts.h"
#include "run/task/secret.h"

int execution_open(struct execution *e, struct cli *cli, struct err *err)
{
	*e = (struct execution){ 0 };
	if (session_open(&e->s, cli, true, err) < 0)
		return -1;
	e->progress = progress_for(cli, clock_system());
	e->notices = notices_new(cli, &e->s);
	if (!e->s.runner->ops->durable)
		progress_follow(e->progress, e->s.config->state_dir, e->s.store);
	e->ctx = (struct run_context){ .config = e->s.config,
				       .loop = e->s.loop,
				       .db = e->s.db,
				       .store = e->s.store,
				       .cache = e->s.cache,
				       .ahead = cli->ahead,
				       .runner = e->s.runner,
				       .cluster = e->s.cluster,
				       .images = cli_images_plan(e->s.images),
				       .leases_fd = e->s.leases_fd,
				       .steps_program = e->s.steps_program,
				       .launch_program = e->s.launch_program,
				       .steps_here = e->s.steps_here,
				       .observer = progress_observer(e->progress),
				       .notices = notices_ops(e->notices),
				       .hash_threads = session_cpus(),
				       .handle_signals = true };
	return progress_attach(e->progress, e->s.loop, err);
}

void execution_close(struct execution *e)
{
	if (e->progress)
		progress_detach(e->progress);
	progress_free(e->progress);
	notices_finish(TAKE_PTR(e->notices));
	session_close(&e->s);
	e->progress = NULL;
	e->ctx = (struct run_context){ 0 };
}

int execution_conclude(struct cli *cli, struct execution *e, int result, const struct run_row *row,
		       const struct err *err)
{
	int code;

	execution_close(e);
	if (result < 0)
		code = cli_fail(cli, err);
	else if (row->state == RUN_FAILED)
		code = row->only_store_failed ? CLI_ENVIRONMENT : CLI_TASK_FAILED;
	else
		code = row->state == RUN_SUCCEEDED ? CLI_OK : CLI_INTERRUPTED;
	if (result < 0 && row->id)
		cli_note(cli, "the run %s can go on where it stopped: cairn resume %s", row->id,
			 row->id);
	if (cli->json && row->id) {
		json_t *o = facts_run(row);

		json_object_set_new(o, "cache_failures",
				    json_integer((json_int_t)row->cache_failures));
		cli_print_json(cli, "cairn.run/1", o);
	}
	return code;
}

/* Only for local tasks: a cluster's secrets can't be read from here, and process 1 of the pod
 * writes a warning to the log. */
static void warn_of_secrets(struct cli *cli, const struct execution *e, const struct pipeline *p)
{
	struct map *seen = map_new();

	for (size_t i = 0; i < p->n_steps; i++)
		for (size_t k = 0; k < p->steps[i].reads->n_secrets; k++) {
			_cleanup_(str_wipe) struct str value = { 0 };
			const char *name = p->steps[i].reads->secrets[k];
			bool is_new;

			map_slot(seen, name, strlen(name), &is_new);
			if (is_new && secret_get(e->s.config, name, &value, NULL) == 0 &&
			    value.len && !secret_is_maskable(value.s, value.len))
				cli_warn(cli,
					 "the value of secret %s is too short to be masked: logs "
					 "show it",
					 name);
		}
	map_free(seen);
}

/* What `cairn get` names to fetch the result that the pipeline is for, as far as it is known before
 * the run: the first output of the last step that nothing follows, if that isn't skipped; of all
 * its tasks. NULL: none. With chosen steps, the user knows which. */
static const char *result_of(struct cli *cli, const struct pipeline *p, const struct run_options *o)
{
	_cleanup_(freep) bool *followed = xcalloc(p->n_steps + 1, sizeof(*followed));
	const struct step *last = NULL;

	for (size_t i = 0; i < p->n_steps; i++)
		for (size_t k = 0; k < p->steps[i].n_deps; k++)
			followed[p->steps[i].deps[k].step] |= p->steps[i].deps[k].data;
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *s = &p->steps[p->order[i]];

		if (s->n_outputs && !s->finally && !followed[s->index] && !s->condition)
			last = s;
	}
	return !last || o->select.n_targets || o->select.from || o->select.until
		       ? NULL
		       : arena_printf(cli->arena, "%s/%s", last->name, last->outputs[0].name);
}

int execution_begin(struct execution *e, struct cli *cli, const struct pipeline *p,
		    const struct run_options *o, struct run_row *row, struct err *err)
{
	*row = (struct run_row){ 0 };
	if (execution_open(e, cli, err) < 0)
		return -1;
	for (size_t i = 0; i < p->n_steps; i++)
		if (p->steps[i].measured->metrics)
			progress_has_metrics(e->progress);
	progress_has_result(e->progress, result_of(cli, p, o));
	if (!e->ctx.runner->ops->durable)
		warn_of_secrets(cli, e, p);
	if (o->shell_step)
		progress_plain(e->progress); /* the shell takes the terminal */
	return run_start(&e->ctx, p, o, cli->arena, row, err);
}

int execution_run(struct cli *cli, const struct pipeline *p, const struct run_options *o,
		  struct run_row *row)
{
	struct err err = { 0 };
	struct execution e;
	int result = execution_begin(&e, cli, p, o, row, &err);

	return execution_conclude(cli, &e, result, row, &err);
}

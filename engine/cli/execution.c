#include "base/text.h"
#include "cli/execution.h"

static json_t *json_time(int64_t ns)
{
	struct str text = { 0 };
	json_t *j;

	if (ns == 0)
		return json_null();
	text_add_time(&text, ns, 3);
	j = json_string(text.s);
	str_deinit(&text);
	return j;
}

static json_t *run_json(const struct run_row *r)
{
	const struct run_counts *c = &r->counts;
	char hex[DIGEST_HEX_MAX];
	json_t *o = json_object();

	json_object_set_new(o, "id", json_string(r->id));
	json_object_set_new(o, "hash", r->has_hash ? json_string(digest_hex(&r->hash, hex)) : json_null());
	json_object_set_new(o, "pipeline", json_string(r->pipeline));
	json_object_set_new(o, "state", json_string(run_state_name(r->state)));
	json_object_set_new(o, "started", json_time(r->started_ns));
	json_object_set_new(o, "duration_ns", json_integer(r->ended_ns - r->started_ns));
	json_object_set_new(o, "saved_ns", json_integer(c->saved_ns));
	json_object_set_new(o, "counts", json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)c->total, "executed", (json_int_t)c->executed,
						    "hits", (json_int_t)c->hits, "failed", (json_int_t)c->failed, "skipped", (json_int_t)c->skipped,
						    "blocked", (json_int_t)c->blocked));
	json_object_set_new(o, "message", r->message ? json_name(r->message, strlen(r->message)) : json_null());
	return o;
}

static int exit_code(const struct run_row *r)
{
	switch (r->state) {
	case RUN_SUCCEEDED:
		return CLI_OK;
	case RUN_FAILED:
		return CLI_TASK_FAILED;
	default:
		return CLI_INTERRUPTED;
	}
}

int execution_open(struct execution *e, struct cli *cli, struct err *err)
{
	*e = (struct execution){ 0 };
	if (session_open(&e->s, cli, true, err) < 0)
		return -1;
	e->progress = progress_for(cli, clock_system());
	e->ctx = (struct run_context){ .config = e->s.config, .loop = e->s.loop, .db = e->s.db, .store = e->s.store, .cache = e->s.cache,
				       .runner = e->s.runner, .leases_fd = e->s.leases_fd, .observer = progress_observer(e->progress),
				       .hash_threads = (unsigned)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1), .handle_signals = true };
	return progress_attach(e->progress, e->s.loop, err);
}

static void execution_close(struct execution *e)
{
	if (e->progress)
		progress_detach(e->progress);
	progress_free(e->progress);
	session_close(&e->s);
}

int execution_conclude(struct cli *cli, struct execution *e, int result, const struct run_row *row, const struct err *err)
{
	int code;

	execution_close(e);
	if (result < 0)
		code = cli_fail(cli, err);
	else
		code = exit_code(row);
	if (result < 0 && row->id)
		cli_note(cli, "the run %s can go on where it stopped: cairn resume %s", row->id, row->id);
	if (cli->json && row->id)
		cli_print_json(cli, run_json(row));
	return code;
}

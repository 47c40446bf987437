/* `cairn store verify | gc | stat`. */
#include "base/clock.h"
#include "base/map.h"
#include "base/text.h"
#include "cli/facts.h"
#include "record/manifest.h"
#include "storage/maintain.h"

static const char *const space_names[STORE_SPACES] = { "blobs", "trees", "actions", "runs" };

/* --- stat ------------------------------------------------------------------------------------------------------------------ */

static json_t *stat_json(const struct store *s, const struct store_stat *st)
{
	json_t *o = json_object();

	for (int i = 0; i < STORE_SPACES; i++)
		json_object_set_new(o, space_names[i], json_pack("{s:I, s:I}", "objects", (json_int_t)st->objects[i], "bytes", (json_int_t)st->bytes[i]));
	json_object_set_new(o, "temporaries", json_integer((json_int_t)st->temporaries));
	json_object_set_new(o, "set_aside", json_integer((json_int_t)st->set_aside));
	json_object_set_new(o, "uri", json_name(store_uri(s), strlen(store_uri(s))));
	return o;
}

int cmd_store_stat(struct cli *cli, const struct cli_args *args)
{
	struct err err = { 0 };
	struct store_stat st;
	struct store *s;

	if (cli_store(cli, false, &s, &err) < 0 || store_stat_all(s, &st, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json(cli, stat_json(s, &st));
		return CLI_OK;
	}
	cli_printf(cli, "%s\n", cli_text(cli, store_uri(s)));
	for (int i = 0; i < STORE_SPACES; i++)
		cli_printf(cli, "  %-8s %10llu  %s\n", space_names[i], (unsigned long long)st.objects[i], cli_bytes(cli, st.bytes[i]));
	if (st.temporaries)
		cli_printf(cli, "  %llu temporaries (%s), left by writers that are at work or were killed\n", (unsigned long long)st.temporaries,
			   cli_bytes(cli, st.temporary_bytes));
	if (st.set_aside)
		cli_printf(cli, "  %llu damaged copies set aside in corrupt/\n", (unsigned long long)st.set_aside);
	return CLI_OK;
}

/* --- verify ---------------------------------------------------------------------------------------------------------------- */

struct verification {
	struct cli *cli;
	json_t *problems;
	uint64_t total;
};

static void on_problem(void *arg, const struct store_problem *p)
{
	struct verification *v = arg;
	char hex[DIGEST_HEX_MAX];

	digest_hex(&p->name, hex);
	if (v->cli->json)
		json_array_append_new(v->problems, json_pack("{s:s, s:s, s:s}", "space", space_names[p->space], "name", hex, "problem", p->err.msg));
	else
		cli_printf(v->cli, "%s sha256:%s: %s\n", space_names[p->space], hex, cli_text(v->cli, p->err.msg));
}

static void on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct verification *v = arg;

	v->total = total;
	if (v->cli->tty_err && v->cli->verbosity >= 0 && !v->cli->json && (done % 256 == 0 || done == total))
		fprintf(v->cli->err, "\r%llu of %llu%s", (unsigned long long)done, (unsigned long long)total, done == total ? "\r\033[K" : "");
}

/* Keys that gave different bytes: the database knows. None when nothing was run from here. */
static json_t *nondeterminism(struct cli *cli, size_t *ret_n)
{
	struct nondeterminism_row *rows;
	json_t *list = json_array();
	char hex[DIGEST_HEX_MAX];
	struct db *db;

	*ret_n = 0;
	if (cli_db(cli, DB_READ, &db, NULL) < 0 || record_nondeterminism(db, cli->arena, &rows, ret_n, NULL) < 0) {
		*ret_n = 0;
		return list;
	}
	for (size_t i = 0; i < *ret_n; i++) {
		json_array_append_new(list, json_pack("{s:s, s:o}", "key", digest_hex(&rows[i].key, hex), "task", json_name(rows[i].task, strlen(rows[i].task))));
		if (!cli->json)
			cli_printf(cli, "nondeterministic: %s gave %llu different results under key %.12s\n", cli_text(cli, rows[i].task),
				   (unsigned long long)rows[i].n_results, hex);
	}
	return list;
}

int cmd_store_verify(struct cli *cli, const struct cli_args *args)
{
	struct verification v = { .cli = cli, .problems = json_array() };
	struct err err = { 0 };
	struct store *s;
	int64_t n = -1;
	json_t *findings;
	size_t n_findings;

	if (cli_store(cli, false, &s, &err) == 0)
		n = store_verify(s, on_problem, on_progress, &v, &err);
	if (n < 0) {
		json_decref(v.problems);
		return cli_fail(cli, &err);
	}
	findings = nondeterminism(cli, &n_findings);
	if (cli->json) {
		cli_print_json(cli, json_pack("{s:I, s:o, s:o}", "objects", (json_int_t)v.total, "problems", v.problems, "nondeterminism", findings));
	} else {
		cli_printf(cli, "%llu objects read back, %lld problem%s\n", (unsigned long long)v.total, (long long)n, n == 1 ? "" : "s");
		json_decref(v.problems);
		json_decref(findings);
	}
	return n ? CLI_TASK_FAILED : CLI_OK;
}

/* --- gc ---------------------------------------------------------------------------------------------------------------------- */

struct retention {
	uint64_t keep_runs; /* 0: all */
	int64_t keep_ns;    /* 0: for ever */
	int64_t now_ns;
};

/* Per pipeline, newest first: kept while there are fewer than N newer ones, or while it is young. Neither given: all. */
static bool keeps(const struct retention *r, const struct run_row *row, uint64_t newer)
{
	if (!r->keep_runs && !r->keep_ns)
		return true;
	return (r->keep_runs && newer < r->keep_runs) || (r->keep_ns && row->started_ns > r->now_ns - r->keep_ns);
}

struct roots {
	VEC(struct digest) manifests;
	VEC(struct content_id) contents;
	bool unfinished; /* some run: what it hit isn't on record yet, so that no action record may go */
};

/* A run that goes on has no manifest yet: all that it pinned and all that its attempts made. */
static int add_running(struct db *db, const struct run_row *row, struct arena *arena, struct roots *roots, struct err *err)
{
	struct run_input_row *inputs;
	struct attempt_row *attempts;
	size_t n;

	VEC_PUSH(&roots->contents, row->pipeline_blob);
	if (record_run_inputs(db, row->rowid, arena, &inputs, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		VEC_PUSH(&roots->contents, inputs[i].id);
	if (record_run_attempts(db, row->rowid, arena, &attempts, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct cached_result res;

		VEC_PUSH(&roots->contents, attempts[i].log);
		if (record_outputs(db, attempts[i].id, arena, &res, err) < 0)
			return -1;
		for (size_t k = 0; k < res.n_outputs; k++)
			VEC_PUSH(&roots->contents, res.outputs[k].id);
	}
	return 0;
}

/* One that stopped without a manifest can still be resumed: kept like the others. */
static bool is_unfinished(const struct run_row *row, bool keep)
{
	return !row->has_hash && (keep || (row->state == RUN_RUNNING && !facts_engine_died(row)));
}

static bool keep_all(void *arg, const struct digest *key)
{
	return true;
}

static int find_roots(struct db *db, const struct retention *ret, struct arena *arena, struct roots *roots, struct err *err)
{
	_cleanup_(map_freep) struct map *newer = map_new();
	struct run_row *rows;
	size_t n;

	if (record_all_runs(db, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		void **seen = map_slot_str(newer, rows[i].pipeline);
		bool keep = keeps(ret, &rows[i], (uint64_t)(uintptr_t)*seen);

		*seen = (void *)((uintptr_t)*seen + 1);
		if (rows[i].has_hash && keep)
			VEC_PUSH(&roots->manifests, rows[i].hash);
		if (!is_unfinished(&rows[i], keep))
			continue;
		roots->unfinished = true;
		if (add_running(db, &rows[i], arena, roots, err) < 0)
			return -1;
	}
	return 0;
}

static int gc_options(struct cli *cli, const struct cli_args *args, const struct config *config, struct store_gc_options *o, struct retention *ret, struct err *err)
{
	struct clock *c = clock_system();

	*ret = (struct retention){ .keep_runs = config->keep_runs, .keep_ns = config->keep_ns, .now_ns = c->wall_ns(c) };
	*o = (struct store_gc_options){ .now_ns = ret->now_ns, .grace_ns = 3600 * NS_PER_S, .mark_gap_ns = 3600 * NS_PER_S, .manifest_refs = manifest_refs,
					.manifest_walk = manifest_walk, .dry_run = cli_flag(args, "dry-run") };
	if (cli_uint(args, "keep-runs", 1, UINT32_MAX, &ret->keep_runs, err) < 0 || cli_duration_value(args, "keep", &ret->keep_ns, err) < 0)
		return -1;
	return cli_duration_value(args, "grace", &o->grace_ns, err);
}

static void print_gc(struct cli *cli, const struct store_gc_options *o, const struct store_gc_result *r)
{
	struct str when = { 0 };

	text_add_time(&when, r->sweep_after_ns, 0);
	if (cli->json) {
		cli_print_json(cli, json_pack("{s:I, s:I, s:b, s:I, s:I, s:o}", "deleted", (json_int_t)r->deleted, "deleted_bytes", (json_int_t)r->deleted_bytes,
					      "dry_run", o->dry_run, "live", (json_int_t)r->live, "condemned", (json_int_t)r->condemned, "sweep_after",
					      r->first_mark ? json_string(when.s) : json_null()));
	} else {
		cli_printf(cli, "%llu in use, %llu too young, %llu not needed\n", (unsigned long long)r->live, (unsigned long long)r->young,
			   (unsigned long long)r->condemned);
		if (r->first_mark)
			cli_printf(cli, "nothing is removed at the first look: type `cairn store gc` again after %s\n", when.s);
		else
			cli_printf(cli, "%s %llu objects, %s\n", o->dry_run ? "would remove" : "removed", (unsigned long long)r->deleted,
				   cli_bytes(cli, r->deleted_bytes));
	}
	str_deinit(&when);
}

int cmd_store_gc(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	const struct config *config;
	struct store_gc_options o;
	struct store_gc_result res;
	struct retention ret;
	struct roots roots = { 0 };
	struct err err = { 0 };
	struct store *s;
	struct db *db;
	int r = -1;

	if (cli_config(cli, &config, &err) == 0 && gc_options(cli, args, config, &o, &ret, &err) == 0 && cli_db(cli, DB_WRITE, &db, &err) == 0 &&
	    cli_store(cli, false, &s, &err) == 0)
		r = find_roots(db, &ret, arena, &roots, &err);
	if (r == 0) {
		o.manifests = roots.manifests.v;
		o.n_manifests = roots.manifests.n;
		o.contents = roots.contents.v;
		o.n_contents = roots.contents.n;
		o.keep_action = roots.unfinished ? keep_all : NULL;
		r = store_gc(s, &o, &res, &err);
	}
	VEC_FREE(&roots.manifests);
	VEC_FREE(&roots.contents);
	if (r < 0)
		return cli_fail(cli, &err);
	print_gc(cli, &o, &res);
	return CLI_OK;
}

/* engine/cli/upkeep/cmd_store.c — `cairn store verify | gc | stat`: for a directory, and for the
 * remote behind it when the store is shared.
 *
 * `stat` counts. `verify` reads everything back: first the directory, whose damaged blobs are then
 * fetched from the remote; then the remote itself, where a sound local copy repairs a damaged one.
 * The database adds keys that gave different results, and origins.c checks inputs by reference.
 *
 * `gc` decides what stays; storage/ marks and sweeps. Roots are manifests that retention keeps,
 * tagged runs, reproductions until they are dropped, and everything that an unfinished run pinned
 * or made. add_shared() adds other manifests by the same retention: in a directory, which several
 * projects may share, those that the database doesn't know; in a remote, all.
 *
 * Invariants of gc: roots_ns, the remote's time, is taken before the roots are gathered, so that
 * newer objects are safe. While any run is unfinished, no action record is removed (keep_all),
 * since its hits aren't on record yet. Signatures don't matter here: a record that this user
 * doesn't trust still belongs to someone.
 *
 * Threads: one. What it doesn't do: push and pull (cmd_store_remote.c), rebuild the database
 * (cmd_store_reindex.c).
 */
#include "base/map.h"
#include "base/mem.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "cli/cli.h"
#include "cli/upkeep/origins.h"
#include "record/facts.h"
#include "record/manifest/manifest.h"
#include "record/manifest/tag_store.h"
#include "record/rows/reproductions.h"
#include "run/task/environment.h"
#include "storage/content/view.h"
#include "storage/remote/tier.h"
#include "storage/signature.h"

static const char *const space_names[STORE_SPACES] = { "blobs", "trees", "actions", "runs",
						       "tags" };

/* Stat. */

static json_t *stat_json(const struct store *s, const struct store_stat *st)
{
	json_t *o = json_object();

	for (int i = 0; i < STORE_SPACES; i++)
		json_object_set_new(o, space_names[i],
				    json_pack("{s:I, s:I}", "objects", (json_int_t)st->objects[i],
					      "bytes", (json_int_t)st->bytes[i]));
	json_object_set_new(o, "temporaries", json_integer((json_int_t)st->temporaries));
	json_object_set_new(o, "set_aside", json_integer((json_int_t)st->set_aside));
	json_object_set_new(o, "uri", json_name(store_uri(s), strlen(store_uri(s))));
	return o;
}

static void print_shared(struct cli *cli, const struct store *s, const struct remote_stat *st)
{
	cli_printf(cli, "%s\n", cli_text(cli, store_uri(s)));
	cli_printf(cli, "  packs    %10llu  %s, with %llu small objects\n",
		   (unsigned long long)st->packs, cli_bytes(cli, st->pack_bytes),
		   (unsigned long long)st->packed);
	cli_printf(cli, "  blobs    %10llu  %s\n", (unsigned long long)st->loose,
		   cli_bytes(cli, st->loose_bytes));
	cli_printf(cli, "  actions  %10llu\n  runs     %10llu\n", (unsigned long long)st->actions,
		   (unsigned long long)st->runs);
	cli_printf(cli, "  %llu process%s at work, %llu objects condemned\n",
		   (unsigned long long)st->leases, st->leases == 1 ? "" : "es",
		   (unsigned long long)st->condemned);
}

int cmd_store_stat(struct cli *cli, const struct cli_args *args)
{
	struct remote_stat shared = { 0 };
	struct err err = { 0 };
	struct store_stat st;
	struct store *s;

	if (cli_store(cli, false, &s, &err) < 0 || store_stat_all(s, &st, &err) < 0 ||
	    (tier_remote(s) && remote_stat(tier_remote(s), &shared, &err) < 0))
		return cli_fail(cli, &err);
	if (cli->json) {
		json_t *o = stat_json(s, &st);

		if (tier_remote(s))
			json_object_set_new(
				o, "shared",
				json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "packs",
					  (json_int_t)shared.packs, "pack_bytes",
					  (json_int_t)shared.pack_bytes, "packed",
					  (json_int_t)shared.packed, "blobs",
					  (json_int_t)shared.loose, "blob_bytes",
					  (json_int_t)shared.loose_bytes, "actions",
					  (json_int_t)shared.actions, "runs",
					  (json_int_t)shared.runs, "leases",
					  (json_int_t)shared.leases, "condemned",
					  (json_int_t)shared.condemned));
		cli_print_json(cli, "cairn.store-stat/1", o);
		return CLI_OK;
	}
	if (tier_remote(s))
		print_shared(cli, s, &shared);
	cli_printf(cli, "%s\n", cli_text(cli, store_uri(tier_remote(s) ? tier_local(s) : s)));
	for (int i = 0; i < STORE_SPACES; i++)
		cli_printf(cli, "  %-8s %10llu  %s\n", space_names[i],
			   (unsigned long long)st.objects[i], cli_bytes(cli, st.bytes[i]));
	if (st.temporaries)
		cli_printf(cli,
			   "  %llu temporaries (%s), left by writers that are at work or were "
			   "killed\n",
			   (unsigned long long)st.temporaries, cli_bytes(cli, st.temporary_bytes));
	if (st.set_aside)
		cli_printf(cli, "  %llu damaged copies set aside in corrupt/\n",
			   (unsigned long long)st.set_aside);
	return CLI_OK;
}

/* Verify. */

struct verification {
	struct cli *cli;
	json_t *problems;
	uint64_t total;
	VEC(struct store_problem) damaged; /* in the directory; the remote may have a sound copy */
	bool behind;
};

static void on_problem(void *arg, const struct store_problem *p)
{
	struct verification *v = arg;
	char hex[DIGEST_HEX_MAX];

	if (!v->behind && p->err.code == ERR_CORRUPT)
		VEC_PUSH(&v->damaged, *p);
	digest_hex(&p->name, hex);
	if (v->cli->json)
		json_array_append_new(v->problems,
				      json_pack("{s:s, s:s, s:s}", "space", space_names[p->space],
						"name", hex, "problem", p->err.msg));
	else
		cli_printf(v->cli, "%s sha256:%s: %s\n", space_names[p->space], hex,
			   cli_text(v->cli, p->err.msg));
}

static void on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct verification *v = arg;

	v->total = total;
	if (v->cli->tty_err && v->cli->verbosity >= 0 && !v->cli->json &&
	    (done % 256 == 0 || done == total))
		fprintf(v->cli->err, "\r%llu of %llu%s", (unsigned long long)done,
			(unsigned long long)total, done == total ? "\r\033[K" : "");
}

/* Keys that gave different bytes, from the database. None when nothing was run from here. */
static json_t *nondeterminism(struct cli *cli, size_t *ret_n)
{
	struct nondeterminism_row *rows;
	json_t *list = json_array();
	char hex[DIGEST_HEX_MAX];
	struct db *db;

	*ret_n = 0;
	if (cli_db(cli, DB_READ, &db, NULL) < 0 ||
	    record_nondeterminism(db, cli->arena, &rows, ret_n, NULL) < 0) {
		*ret_n = 0;
		return list;
	}
	for (size_t i = 0; i < *ret_n; i++) {
		json_array_append_new(
			list, json_pack("{s:s, s:o}", "key", digest_hex(&rows[i].key, hex), "task",
					json_name(rows[i].task, strlen(rows[i].task))));
		if (!cli->json)
			cli_printf(cli,
				   "nondeterministic: %s gave %llu different results under key "
				   "%.12s\n",
				   cli_text(cli, rows[i].task),
				   (unsigned long long)rows[i].n_results, hex);
	}
	return list;
}

/* "5%", "0.05" */
static int sample_of(const struct cli_args *args, double *ret, struct err *err)
{
	const char *text = cli_value(args, "sample");
	_cleanup_(freep) char *number = text ? xstrdup(text) : NULL;
	size_t n = number ? strlen(number) : 0;
	bool percent = n && number[n - 1] == '%';

	*ret = 1;
	if (!text)
		return 0;
	if (percent)
		number[n - 1] = '\0';
	if (!text_parse_double(number, ret) || !(*ret > 0) || *ret > (percent ? 100 : 1))
		return err_set(err, ERR_USAGE,
			       "--sample needs a part such as 5%% or 0.05, not `%s`", text);
	if (percent)
		*ret /= 100;
	return 0;
}

struct verified {
	int64_t problems;
	uint64_t objects, repaired;
};

static int verify_all(struct verification *v, struct store *s, double sample, struct verified *ret,
		      struct err *err)
{
	struct tier_verify behind = { .sample = sample,
				      .names = &manifest_names,
				      .on_problem = on_problem,
				      .on_progress = on_progress,
				      .arg = v };

	ret->problems = store_verify(s, &manifest_names, on_problem, on_progress, v, err);
	if (ret->problems < 0)
		return -1;
	ret->objects = v->total;
	if (!tier_remote(s))
		return 0;
	v->behind = true;
	for (size_t i = 0; i < v->damaged.n; i++) {
		bool there = false;

		if (tier_repair(s, v->damaged.v[i].space, &v->damaged.v[i].name, &there, err) < 0)
			return -1;
		ret->repaired += there;
	}
	if (tier_verify(s, &behind, err) < 0)
		return -1;
	ret->objects += behind.checked;
	ret->problems += (int64_t)behind.problems;
	ret->repaired += behind.repaired;
	return 0;
}

int cmd_store_verify(struct cli *cli, const struct cli_args *args)
{
	struct verification v = { .cli = cli, .problems = json_array() };
	struct verified res = { 0 };
	struct err err = { 0 };
	struct store *s;
	json_t *findings, *origins;
	size_t n_findings;
	double sample;
	int r = sample_of(args, &sample, &err);

	if (r == 0 && (r = cli_store(cli, false, &s, &err)) == 0)
		r = verify_all(&v, s, sample, &res, &err);
	VEC_FREE(&v.damaged);
	if (r < 0) {
		json_decref(v.problems);
		return cli_fail(cli, &err);
	}
	findings = nondeterminism(cli, &n_findings);
	origins = origins_check(cli, s);
	if (cli->json) {
		cli_print_json(cli, "cairn.store-verify/1",
			       json_pack("{s:I, s:o, s:I, s:o, s:o}", "objects",
					 (json_int_t)res.objects, "problems", v.problems,
					 "repaired", (json_int_t)res.repaired, "nondeterminism",
					 findings, "origins", origins));
	} else {
		cli_printf(cli, "%llu objects read back, %lld problem%s",
			   (unsigned long long)res.objects, (long long)res.problems,
			   res.problems == 1 ? "" : "s");
		cli_printf(cli, res.repaired ? ", %llu repaired from the other side\n" : "\n",
			   (unsigned long long)res.repaired);
		json_decref(v.problems);
		json_decref(findings);
		json_decref(origins);
	}
	return res.problems > (int64_t)res.repaired ? CLI_TASK_FAILED : CLI_OK;
}

/* Gc. */

struct retention {
	uint64_t keep_runs; /* 0: all */
	int64_t keep_ns;    /* 0: for ever */
	int64_t now_ns;
};

/* Per pipeline, newest first: kept while there are fewer than N newer ones, or while it is young
 * enough. Without either limit, all are kept. */
static bool keeps(const struct retention *r, const struct run_row *row, uint64_t newer)
{
	if (!r->keep_runs && !r->keep_ns)
		return true;
	return (r->keep_runs && newer < r->keep_runs) ||
	       (r->keep_ns && row->started_ns > r->now_ns - r->keep_ns);
}

struct roots {
	VEC(struct digest) manifests;
	VEC(struct content_id) contents;
	struct map *own; /* run_key() of each run that the database knows */
	/* A run is unfinished: its hits aren't on record yet, so no action record may be removed */
	bool unfinished;
};

/* An unfinished run has no manifest yet: its roots are all that it pinned and all that its attempts
 * made. */
static int add_running(struct db *db, const struct run_row *row, struct arena *arena,
		       struct roots *roots, struct err *err)
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

static bool keep_all(void *arg, const struct digest *key)
{
	return true;
}

/* Both runs stay until the reproduction is dropped (`cairn reproduce --drop`). */
static int add_reproductions(struct db *db, struct arena *arena, struct roots *roots,
			     struct err *err)
{
	struct reproduction_row *rows;
	size_t n;

	if (record_reproductions(db, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		VEC_PUSH(&roots->manifests, rows[i].original);
		VEC_PUSH(&roots->contents, rows[i].report);
		if (rows[i].has_hash)
			VEC_PUSH(&roots->manifests, rows[i].hash);
	}
	return 0;
}

/* A run with a name stays, whoever gave the name. */
static int add_tagged(struct db *db, struct arena *arena, struct roots *roots, struct err *err)
{
	struct tag_row *tags;
	struct run_row run;
	size_t n;

	if (record_tags(db, NULL, arena, &tags, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		int found = record_find_run_named(db, tags[i].name, arena, &run, NULL);

		VEC_PUSH(&roots->manifests, tags[i].run);
		if (found > 0 && run.has_hash &&
		    !digest_eq(&run.hash, &tags[i].run)) /* it was resumed since */
			VEC_PUSH(&roots->manifests, run.hash);
	}
	return 0;
}

/* Another project may have a run with the same id. */
static void run_key(const struct run_row *r, struct str *ret)
{
	str_reset(ret);
	str_addf(ret, "%s %lld", r->id, (long long)r->started_ns);
}

static int find_roots(struct db *db, const struct retention *ret, struct arena *arena,
		      struct roots *roots, struct err *err)
{
	_cleanup_(map_freep) struct map *newer = map_new();
	_cleanup_(str_deinit) struct str key = { 0 };
	struct run_row *rows;
	size_t n;

	if (add_tagged(db, arena, roots, err) < 0 || record_all_runs(db, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		void **seen = map_slot_str(newer, rows[i].pipeline);
		bool keep = keeps(ret, &rows[i], (uint64_t)(uintptr_t)*seen);

		*seen = (void *)((uintptr_t)*seen + 1);
		run_key(&rows[i], &key);
		*map_slot_str(roots->own, key.s) = roots;
		if (rows[i].has_hash && keep)
			VEC_PUSH(&roots->manifests, rows[i].hash);
		/* A run that stopped without a manifest can still be resumed: it is kept like the
		 * others. */
		if (rows[i].has_hash ||
		    (!keep && (rows[i].state != RUN_RUNNING || facts_engine_died(&rows[i]))))
			continue;
		roots->unfinished = true;
		if (rows[i].has_reproduces)
			VEC_PUSH(&roots->manifests, rows[i].reproduces);
		if (add_running(db, &rows[i], arena, roots, err) < 0)
			return -1;
	}
	return add_reproductions(db, arena, roots, err);
}

/* Roots that others made.
 *
 * A shared store belongs to all its users. A directory may belong to several projects, and after a
 * database was lost it holds runs that the new database doesn't know. */

/* Manifests that are fetched in one batch. */
#define MANIFESTS_AT_ONCE 1024

struct shared_run {
	struct digest hash;
	const char *pipeline;
	int64_t started_ns;
};

struct shared_runs {
	VEC(struct digest) hashes;
	VEC(struct shared_run) runs;
};

static int see_shared_run(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct shared_runs *s = arg;

	VEC_PUSH(&s->hashes, *name);
	return 0;
}

static int newest_first(const void *a, const void *b)
{
	const struct shared_run *x = a, *y = b;

	return x->started_ns > y->started_ns ? -1 : x->started_ns < y->started_ns;
}

/* own: runs of which the database knows the manifest, and whether it is kept. */
static int read_shared_runs(struct shared_runs *s, const struct map *own, struct store *store,
			    struct arena *arena, struct err *err)
{
	_cleanup_(str_deinit) struct str key = { 0 };

	for (size_t i = 0; i < s->hashes.n; i++) {
		_cleanup_(arena_freep) struct arena *mine = arena_new();
		struct shared_run run = { .hash = s->hashes.v[i], .pipeline = "" };
		struct manifest m = { 0 };
		struct err e = { 0 };

		if (i % MANIFESTS_AT_ONCE == 0)
			store_expect(store, STORE_RUN, s->hashes.v + i,
				     MIN(s->hashes.n - i, (size_t)MANIFESTS_AT_ONCE));
		if (manifest_load(store, &run.hash, mine, &m, &e) == 0) {
			run_key(m.run, &key);
			if (own && map_has(own, key.s, key.len))
				continue;
			run.pipeline = arena_strdup(arena, m.run->pipeline);
			run.started_ns = m.run->started_ns;
		} else if (e.code != ERR_NOT_FOUND && e.code != ERR_CORRUPT) {
			return err_pass(err, &e);
		}
		VEC_PUSH(&s->runs, run);
	}
	if (s->runs.n)
		qsort(s->runs.v, s->runs.n, sizeof(*s->runs.v), newest_first);
	return 0;
}

/* Uses this project's retention: the user who runs gc decides for all users of the store. */
static int add_shared(const struct retention *ret, struct store *store, struct arena *arena,
		      struct roots *roots, struct err *err)
{
	_cleanup_(map_freep) struct map *newer = map_new();
	struct remote *remote = tier_remote(store);
	struct shared_runs s = { 0 };
	bool all = remote && !ret->keep_runs && !ret->keep_ns;
	int r = remote ? remote_list(remote, STORE_RUN, see_shared_run, &s, err)
		       : store_list(store, STORE_RUN, see_shared_run, &s, err);

	if (r == 0 && !all)
		r = read_shared_runs(&s, remote ? NULL : roots->own, store, arena, err);
	for (size_t i = 0; i < s.hashes.n && r == 0 && all; i++)
		VEC_PUSH(&roots->manifests, s.hashes.v[i]);
	for (size_t i = 0; i < s.runs.n && r == 0; i++) {
		const struct run_row row = { .started_ns = s.runs.v[i].started_ns };
		void **seen = map_slot_str(newer, s.runs.v[i].pipeline);

		if (keeps(ret, &row, (uint64_t)(uintptr_t)*seen))
			VEC_PUSH(&roots->manifests, s.runs.v[i].hash);
		*seen = (void *)((uintptr_t)*seen + 1);
	}
	VEC_FREE(&s.hashes);
	VEC_FREE(&s.runs);
	return r;
}

static int gc_options(const struct cli_args *args, const struct config *config,
		      struct store_gc_options *o, struct retention *ret, struct err *err)
{
	*ret = (struct retention){ .keep_runs = config->retention.runs,
				   .keep_ns = config->retention.ns,
				   .now_ns = clock_wall_ns() };
	*o = (struct store_gc_options){ .now_ns = ret->now_ns,
					.grace_ns = 3600 * NS_PER_S,
					.names = &manifest_names,
					.mark_gap_ns = cli_test_duration("CAIRN_TEST_MARK_GAP",
									 3600 * NS_PER_S),
					.dry_run = cli_flag(args, "dry-run") };
	if (cli_uint(args, "keep-runs", 1, UINT32_MAX, &ret->keep_runs, err) < 0 ||
	    cli_duration_value(args, "keep", &ret->keep_ns, err) < 0)
		return -1;
	return cli_duration_value(args, "grace", &o->grace_ns, err);
}

/* A removed environment is made again when a step needs it, which takes time, so those of the last
 * month stay, or of the time that runs are kept. An unfinished run may be using one. */
#define ENVIRONMENT_KEEP_NS (30 * 24 * 3600 * NS_PER_S)

static int collect_environments(const struct config *config, const struct store_gc_options *o,
				const struct retention *ret, bool unfinished,
				struct environment_gc_result *res, struct err *err)
{
	*res = (struct environment_gc_result){ 0 };
	return unfinished ? 0
			  : environment_gc(config,
					   o->now_ns - MAX(ret->keep_ns ? ret->keep_ns
									: ENVIRONMENT_KEEP_NS,
							   o->grace_ns),
					   o->dry_run, res, err);
}

static int collect(struct store *s, const struct store_gc_options *o, int64_t roots_ns,
		   struct store_gc_result *ret, struct err *err)
{
	struct remote_gc_options ro = { .base = *o, .roots_ns = roots_ns, .reader = s };
	struct remote_gc_result res;

	if (!tier_remote(s))
		return store_gc(s, o, ret, err);
	if (remote_gc(tier_remote(s), &ro, &res, err) < 0)
		return -1;
	*ret = res.base;
	if (!o->dry_run)
		ret->views = view_evict(s, o->now_ns - o->grace_ns);
	return 0;
}

static void print_gc(struct cli *cli, const struct store_gc_options *o,
		     const struct store_gc_result *r, const struct environment_gc_result *e)
{
	struct str when = { 0 };

	text_add_time(&when, r->sweep_after_ns, 0);
	if (cli->json) {
		cli_print_json(
			cli, "cairn.store-gc/1",
			json_pack("{s:I, s:I, s:b, s:I, s:I, s:I, s:o, s:I, s:I, s:I}", "deleted",
				  (json_int_t)r->deleted, "deleted_bytes",
				  (json_int_t)r->deleted_bytes, "dry_run", o->dry_run, "live",
				  (json_int_t)r->live, "condemned", (json_int_t)r->condemned,
				  "condemned_bytes", (json_int_t)r->condemned_bytes, "sweep_after",
				  r->first_mark ? json_string(when.s) : json_null(), "lost",
				  (json_int_t)r->lost, "environments", (json_int_t)e->removed,
				  "environment_bytes", (json_int_t)e->bytes));
	} else {
		cli_printf(cli, "%llu in use, %llu too young, %llu not needed\n",
			   (unsigned long long)r->live, (unsigned long long)r->young,
			   (unsigned long long)r->condemned);
		if (r->first_mark)
			cli_printf(cli,
				   "nothing is removed at the first look: type `cairn store gc` "
				   "again after %s\n",
				   when.s);
		else
			cli_printf(cli, "%s %llu objects, %s\n",
				   o->dry_run ? "would remove" : "removed",
				   (unsigned long long)r->deleted,
				   cli_bytes(cli, r->deleted_bytes));
		if (r->views)
			cli_printf(cli, "removed %llu views of content, which no step uses\n",
				   (unsigned long long)r->views);
		if (e->removed)
			cli_printf(cli, "%s %llu environments that no run has used for long, %s\n",
				   o->dry_run ? "would remove" : "removed",
				   (unsigned long long)e->removed, cli_bytes(cli, e->bytes));
	}
	str_deinit(&when);
	if (r->unlisted)
		cli_warn(cli,
			 "%llu more objects aren't needed; a later `cairn store gc` removes them",
			 (unsigned long long)r->unlisted);
	if (r->lost)
		cli_warn(cli,
			 "%llu manifests and trees of runs that are kept are missing from this "
			 "store, "
			 "or damaged; what they name isn't protected by them",
			 (unsigned long long)r->lost);
}

static void add_manifest(void *arg, const struct digest *run)
{
	struct roots *roots = arg;

	VEC_PUSH(&roots->manifests, *run);
}

int cmd_store_gc(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	const struct config *config;
	struct store_gc_options o;
	struct store_gc_result res;
	struct environment_gc_result environments;
	struct retention ret;
	struct roots roots = { .own = map_new() };
	struct err err = { 0 };
	int64_t roots_ns = 0;
	struct store *s;
	struct db *db;
	int r = -1;

	if (cli_config(cli, &config, &err) == 0 && gc_options(args, config, &o, &ret, &err) == 0 &&
	    cli_db(cli, DB_WRITE, &db, &err) == 0 && cli_store(cli, false, &s, &err) == 0) {
		roots_ns = tier_remote(s) ? remote_boottime_ns(tier_remote(s)) : 0;
		r = tag_store_take_in(db, s, &err);
	}
	if (r >= 0)
		r = find_roots(db, &ret, arena, &roots, &err);
	if (r == 0 && signature_is_wanted(s)) { /* an untrusted record still belongs to someone */
		signature_believe_all(s);
		r = tag_store_each_run(s, add_manifest, &roots, &err);
	}
	if (r == 0)
		r = add_shared(&ret, s, arena, &roots, &err);
	if (r == 0) {
		o.manifests = roots.manifests.v;
		o.n_manifests = roots.manifests.n;
		o.contents = roots.contents.v;
		o.n_contents = roots.contents.n;
		o.keep_action = roots.unfinished ? keep_all : NULL;
		r = collect(s, &o, roots_ns, &res, &err);
	}
	if (r == 0)
		r = collect_environments(config, &o, &ret, roots.unfinished, &environments, &err);
	VEC_FREE(&roots.manifests);
	VEC_FREE(&roots.contents);
	map_free(roots.own);
	if (r < 0)
		return cli_fail(cli, &err);
	print_gc(cli, &o, &res, &environments);
	return CLI_OK;
}

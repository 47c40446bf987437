/* record/manifest: what was stored is read back; gc keeps all that a run gave, by way of its table
 * and its attempts; hostile bytes. */
#include <stdio.h>
#include <string.h>
#include "base/time/clock.h"
#include "record/manifest/manifest.h"
#include "storage/action.h"
#include "storage/local/maintain.h"
#include "unit.h"

#define HOUR_NS (3600 * NS_PER_S)

static struct content_id put(struct store *s, const char *text)
{
	struct content_id id;

	assert_int_equal(content_put_bytes(s, text, strlen(text), &id, NULL), 0);
	return id;
}

static struct content_id put_tree(struct store *s, const char *member)
{
	struct tree_builder *b = tree_builder_new();
	struct tree_entry e = {
		.name = "f", .name_len = 1, .kind = TREE_FILE, .id = put(s, member)
	};
	struct content_id id;

	assert_int_equal(tree_builder_add(b, &e, NULL), 0);
	assert_int_equal(tree_builder_store(b, s, &id, NULL), 0);
	tree_builder_free(b);
	return id;
}

/* One run of each kind of thing that a manifest leads to; `kept` is all of it. */
struct fixture {
	struct store *s;
	struct run_row run;
	struct attempt_record attempt;
	struct manifest_input input;
	struct manifest_code code;
	struct manifest m;
	struct content_id kept[8];
	size_t n_kept;
	struct digest hash;
};

static struct content_id keep(struct fixture *f, struct content_id id)
{
	f->kept[f->n_kept++] = id;
	return id;
}

static struct content_id table(struct fixture *f, const struct digest *key)
{
	static const char *const names[] = { "model", "report" };
	struct results_writer *w = results_writer_new(NULL);
	struct content_id outputs[2] = { keep(f, put(f->s, "the model")),
					 keep(f, put_tree(f->s, "the report's member")) },
			  id;

	results_writer_step(w, "train", 2, names);
	results_writer_task(w, "train", RESULT_SUCCEEDED, key, 5, 1, outputs, NULL, 0);
	assert_int_equal(results_writer_store(w, f->s, &id, NULL), 0);
	results_writer_free(w);
	return keep(f, id);
}

static struct content_id attempts(struct fixture *f)
{
	_cleanup_(str_deinit) struct str line = { 0 };
	struct content_id id;

	attempt_record_encode(&f->attempt, &line);
	assert_int_equal(content_put_bytes(f->s, line.s, line.len, &id, NULL), 0);
	return id;
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));
	static const struct manifest_variable threads = { "OMP_NUM_THREADS", "3" },
					      tool = { "python3 --version", "Python 3.11.2" };
	static const char *const secrets[] = { "TOKEN" };
	static struct manifest_step step = { .name = "train",
					     .secrets = secrets,
					     .n_secrets = 1,
					     .threads = &threads,
					     .n_threads = 1 };
	struct digest key = { { 7 } };

	assert_int_equal(store_open("memory:", true, &f->s, NULL), 0);
	f->run = (struct run_row){ .id = "p-22222",
				   .pipeline = "p",
				   .path = "p\xff.yaml",
				   .state = RUN_FAILED,
				   .started_ns = 3,
				   .ended_ns = 9,
				   .params_json = "{\"lr\":0.1}",
				   .options_json = "{}",
				   .counts = { .total = 2, .executed = 1, .saved_ns = 4 },
				   .git.commit = "abc",
				   .git.dirty = true,
				   .message = "it failed" };
	f->run.pipeline_blob = keep(f, put_tree(f->s, "pipeline: p"));
	f->attempt = (struct attempt_record){ .row = { .id = 1,
						       .task = "train",
						       .step = "train",
						       .number = 1,
						       .key = key,
						       .log = keep(f, put(f->s, "said")) } };
	f->input = (struct manifest_input){ "raw", "path:data/", keep(f, put(f->s, "raw data")) };
	f->code = (struct manifest_code){ "train", keep(f, put_tree(f->s, "train.py")) };
	f->m = (struct manifest){ .run = &f->run,
				  .pipeline_tree = f->run.pipeline_blob,
				  .inputs = &f->input,
				  .n_inputs = 1,
				  .code = &f->code,
				  .n_code = 1,
				  .attempts_blob = attempts(f) };
	f->run.results = f->m.results = table(f, &key);
	f->run.git.submodules = "[{\"commit\":null,\"dirty\":false,\"path\":\"m\"}]";
	f->m.steps = &step;
	f->m.tools = &tool;
	f->m.n_steps = f->m.n_tools = 1;
	step.code = f->code.tree;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_free(f->s);
	free(f);
	return 0;
}

static void test_round_trip(void **state)
{
	struct fixture *f = *state;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct manifest got;

	assert_int_equal(manifest_store(f->s, &f->m, &f->hash, NULL), 0);
	assert_int_equal(manifest_load(f->s, &f->hash, arena, &got, NULL), 0);
	assert_string_equal(got.run->id, "p-22222");
	assert_string_equal(got.run->path, "p\xff.yaml");
	assert_string_equal(got.run->params_json, "{\"lr\":0.1}");
	assert_string_equal(got.run->message, "it failed");
	assert_string_equal(got.run->git.commit, "abc");
	assert_true(got.run->git.dirty);
	assert_int_equal(got.run->state, RUN_FAILED);
	assert_int_equal(got.run->started_ns, 3);
	assert_int_equal(got.run->counts.executed, 1);
	assert_int_equal(got.run->counts.saved_ns, 4);
	assert_true(got.run->has_hash && digest_eq(&got.run->hash, &f->hash));
	assert_true(content_id_eq(&got.results, &f->m.results));
	assert_true(content_id_eq(&got.pipeline_tree, &f->m.pipeline_tree));
	assert_int_equal(got.n_inputs, 1);
	assert_string_equal(got.inputs[0].origin, "path:data/");
	assert_true(content_id_eq(&got.inputs[0].id, &f->input.id));
	assert_int_equal(got.n_code, 1);
	assert_true(content_id_eq(&got.code[0].tree, &f->code.tree));
	assert_int_equal(got.n_steps, 1);
	assert_string_equal(got.steps[0].name, "train");
	assert_true(content_id_eq(&got.steps[0].code, &f->code.tree));
	assert_string_equal(got.steps[0].secrets[0], "TOKEN");
	assert_string_equal(got.steps[0].threads[0].value, "3");
	assert_string_equal(got.tools[0].value, "Python 3.11.2");
	assert_true(strstr(got.environment_json, "\"kernel\":") &&
		    strstr(got.environment_json, "\"cpus\":"));
	assert_string_equal(got.run->git.submodules,
			    "[{\"commit\":null,\"dirty\":false,\"path\":\"m\"}]");
}

static int same_attempt(void *arg, const struct attempt_record *r, struct err *err)
{
	const struct fixture *f = arg;
	const struct attempt_record *want = &f->attempt;
	_cleanup_(str_deinit) struct str a = { 0 }, b = { 0 };

	attempt_record_encode(want, &a);
	attempt_record_encode(r, &b);
	assert_string_equal(a.s, b.s);
	assert_true(r->has_result && r->cacheable);
	assert_int_equal(r->n_inputs, 2);
	assert_true(content_id_eq(&r->inputs[1].id, &want->inputs[1].id));
	assert_true(r->metrics[0].value == 0.1);
	assert_string_equal(r->row.message, want->row.message);
	assert_string_equal(r->row.continues, "3 4");
	assert_int_equal(r->row.max_rss_bytes, 1ULL << 40);
	return 7;
}

/* All that is on record of an attempt comes back, whatever bytes its names are of. */
static void test_attempts(void **state)
{
	struct fixture *f = *state;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct named_content in[] = { { "(code)", f->code.tree }, { "d\xff\\", f->input.id } },
			     out[] = { { "model", put(f->s, "the model") } };
	struct metric_value metric = { "val.\"x\"", 0.1 };
	struct manifest got;

	f->attempt.has_result = f->attempt.cacheable = true;
	f->attempt.inputs = in;
	f->attempt.n_inputs = 2;
	f->attempt.outputs = out;
	f->attempt.n_outputs = 1;
	f->attempt.metrics = &metric;
	f->attempt.n_metrics = 1;
	f->attempt.key_record_bytes = 5;
	f->attempt.row.message = "line\nline\x01";
	f->attempt.row.continues = "3 4";
	f->attempt.row.max_rss_bytes = 1ULL << 40;
	f->attempt.row.failure = FAILURE_GATE;
	f->m.attempts_blob = attempts(f);
	assert_int_equal(manifest_store(f->s, &f->m, &f->hash, NULL), 0);
	assert_int_equal(manifest_load(f->s, &f->hash, arena, &got, NULL), 0);
	assert_int_equal(manifest_each_attempt(f->s, &got.attempts_blob, same_attempt, f, NULL), 7);
}

/* Attempts with an input, outputs, a metric and a key record here and there; of two runs that wrote
 * in turns. */
static void add_attempts(struct db *db, int64_t run, int64_t other, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct attempt_row a = { .run = run,
					 .task = "t",
					 .step = "s",
					 .number = i + 1,
					 .started_ns = 1,
					 .key.b = { 1, (uint8_t)i, (uint8_t)(i >> 8) } },
				   b = a;
		struct named_content in = {
			"i",
			{ .kind = CONTENT_BLOB, .size_bytes = i, .digest.b = { 2, (uint8_t)i } }
		};
		struct named_content out[2] = {
			{ "a", { .kind = CONTENT_BLOB, .size_bytes = 1, .digest.b = { 3 } } },
			{ "b", { .kind = CONTENT_TREE, .digest.b = { 4 } } }
		};
		struct metric_value metric = { "loss", i };

		assert_int_equal(record_attempt_start(db, &a, NULL), 0);
		b.run = other;
		assert_int_equal(record_attempt_start(db, &b, NULL), 0);
		a.ended_ns = 2 + i;
		assert_int_equal(record_attempt_end(db, &a, NULL), 0);
		if (i % 7 == 0)
			assert_int_equal(record_key(db, &a.key, "key", 3, NULL), 0);
		if (i % 3 != 2)
			assert_int_equal(
				record_result(db,
					      &(struct observation){ .attempt = a.id,
								     .key = &a.key,
								     .cacheable = i % 3 == 0,
								     .inputs = &in,
								     .n_inputs = i % 2,
								     .outputs = out,
								     .n_outputs = i % 5 ? 2 : 1 },
					      NULL),
				0);
		if (i % 11 == 0)
			assert_int_equal(record_metrics(db, a.id, &metric, 1, NULL), 0);
	}
}

/* What was written while the machine's clock stood before 1970 can be read: else nothing could be
 * collected any more. */
static void test_times_before_1970(void **state)
{
	struct attempt_record r = { .row = { .id = 1,
					     .number = 1,
					     .task = "t",
					     .step = "s",
					     .started_ns = -5 * NS_PER_S,
					     .ended_ns = -1 } },
			      back;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str line = { 0 };
	struct err err = { 0 };

	(void)state;
	attempt_record_encode(&r, &line);
	if (attempt_record_decode(line.s, line.len - 1, arena, &back, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(back.row.started_ns, -5 * NS_PER_S);
	assert_int_equal(back.row.ended_ns, -1);
}

static int take_line(void *arg, const struct attempt_record *r, struct err *err)
{
	struct str *lines = arg;

	(void)err;
	attempt_record_encode(r, lines);
	return lines->len > 4 * MIB ? 5 : 0;
}

/* Read in pages or all at once, kept by way of a file or not: the same lines. */
static void test_put_attempts(void **state)
{
	static const unsigned of[] = { 0, 1, 999, 1000, 1001, 2500 };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(of); i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		_cleanup_(str_deinit) struct str want = { 0 }, paged = { 0 }, told = { 0 },
						 kept = { 0 };
		struct run_row run = { .pipeline = "p", .started_ns = 1 },
			       other = { .pipeline = "q", .started_ns = 1 };
		struct attempt_record *all;
		struct content_id id;
		struct db *db;
		size_t n;

		assert_int_equal(db_open(":memory:", DB_WRITE, &db, NULL), 0);
		assert_int_equal(db_begin(db, NULL), 0);
		assert_int_equal(record_run_add(db, &run, arena, NULL), 0);
		assert_int_equal(record_run_add(db, &other, arena, NULL), 0);
		add_attempts(db, run.rowid, other.rowid, of[i]);
		assert_int_equal(record_run_records(db, run.rowid, arena, &all, &n, NULL), 0);
		assert_int_equal(n, of[i]);
		for (size_t k = 0; k < n; k++) {
			assert_int_equal(all[k].row.number, k + 1);
			assert_int_equal(all[k].n_outputs, k % 3 == 2 ? 0 : k % 5 ? 2 : 1);
			attempt_record_encode(&all[k], &want);
		}
		assert_int_equal(record_each_record(db, run.rowid, take_line, &paged, NULL), 0);
		assert_int_equal(
			manifest_put_attempts(db, f->s, run.rowid, take_line, &told, &id, NULL), 0);
		assert_int_equal(content_read(f->s, &id, 16 * MIB, &kept, NULL), 0);
		assert_int_equal(paged.len, want.len);
		assert_int_equal(kept.len, want.len);
		assert_int_equal(told.len, want.len);
		assert_true(want.len == 0 || (memcmp(paged.s, want.s, want.len) == 0 &&
					      memcmp(kept.s, want.s, want.len) == 0));
		assert_int_equal(db_commit(db, NULL), 0);
		db_close(db);
	}
}

/* Of a run that was stopped the manifest has what it had come to, and the run's row no table: it
 * can go on. */
static void test_stopped(void **state)
{
	struct fixture *f = *state;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct manifest got;

	f->run.state = RUN_INTERRUPTED;
	assert_int_equal(manifest_store(f->s, &f->m, &f->hash, NULL), 0);
	assert_int_equal(manifest_load(f->s, &f->hash, arena, &got, NULL), 0);
	assert_int_equal(got.run->results.kind, CONTENT_NONE);
	assert_true(content_id_eq(&got.results, &f->m.results));
}

/* The same run has the same hash; anything else in it has another. */
static void test_hash(void **state)
{
	struct fixture *f = *state;
	struct digest again;

	assert_int_equal(manifest_store(f->s, &f->m, &f->hash, NULL), 0);
	assert_true(manifest_store(f->s, &f->m, &again, NULL) >= 0);
	assert_true(digest_eq(&again, &f->hash));
	f->run.params_json = "{\"lr\":0.2}";
	assert_int_equal(manifest_store(f->s, &f->m, &again, NULL), 0);
	assert_false(digest_eq(&again, &f->hash));
	f->attempt.row.exit_status = 1;
	f->m.attempts_blob = attempts(f);
	f->run.params_json = "{\"lr\":0.1}";
	assert_int_equal(manifest_store(f->s, &f->m, &again, NULL), 0);
	assert_false(digest_eq(&again, &f->hash));
}

/* Twice two hours later, so that all that isn't reached goes. */
static void collect_all(struct fixture *f, const struct digest *manifest)
{
	struct store_gc_options o = { .names = &manifest_names,
				      .manifests = manifest,
				      .n_manifests = manifest != NULL,
				      .grace_ns = HOUR_NS,
				      .mark_gap_ns = HOUR_NS };
	struct store_gc_result res;
	struct err err = { 0 };

	o.now_ns = clock_system()->wall_ns(clock_system());
	for (int i = 0; i < 3; i++) {
		o.now_ns += 2 * HOUR_NS;
		if (store_gc(f->s, &o, &res, &err) < 0)
			fail_msg("%s", err.msg);
	}
}

static bool is_complete(struct fixture *f, const struct content_id *id)
{
	bool there;

	assert_int_equal(content_complete(f->s, id, 1, &there, NULL), 0);
	return there;
}

static void test_gc_keeps_what_a_run_gave(void **state)
{
	struct fixture *f = *state;
	struct content_id dead = put(f->s, "nobody's");

	assert_int_equal(manifest_store(f->s, &f->m, &f->hash, NULL), 0);
	collect_all(f, &f->hash);
	assert_false(is_complete(f, &dead));
	for (size_t i = 0; i < f->n_kept; i++)
		if (!is_complete(f, &f->kept[i]))
			fail_msg("what a kept run needs was collected (%zu)", i);
	collect_all(f, NULL); /* the manifest is no root any more: all goes */
	for (size_t i = 0; i < f->n_kept; i++)
		assert_false(is_complete(f, &f->kept[i]));
}

/* A run that was stopped has no table: what its attempts gave is found by their keys. */
static void test_gc_keeps_what_a_stopped_run_gave(void **state)
{
	struct fixture *f = *state;
	struct action_output out = { "model", put(f->s, "of a stopped run") };
	struct action_record a = { .key = f->attempt.row.key,
				   .outputs = &out,
				   .n_outputs = 1,
				   .run_id = "p-22222",
				   .task = "train",
				   .node = "n" };

	assert_int_equal(action_put(f->s, &a, NULL), 0);
	f->run.results = f->m.results = (struct content_id){ .kind = CONTENT_NONE };
	assert_int_equal(manifest_store(f->s, &f->m, &f->hash, NULL), 0);
	collect_all(f, &f->hash);
	assert_true(is_complete(f, &out.id));
	collect_all(f, NULL);
	assert_false(is_complete(f, &out.id));
}

/* A table that is gone names nothing, and isn't in the way of collecting what is dead. */
static void test_gc_without_the_table(void **state)
{
	struct fixture *f = *state;
	struct content_id dead = put(f->s, "nobody's");

	assert_int_equal(manifest_store(f->s, &f->m, &f->hash, NULL), 0);
	assert_int_equal(store_delete(f->s, STORE_BLOB, &f->m.results.digest, NULL), 0);
	collect_all(f, &f->hash);
	assert_false(is_complete(f, &dead));
	assert_true(is_complete(f, &f->input.id));
}

static void test_hostile(void **state)
{
	static const struct {
		const char *bytes;
		enum err_code code;
	} bad[] = {
		{ "", ERR_CORRUPT },
		{ "[]", ERR_CORRUPT },
		{ "{}", ERR_CORRUPT },
		{ "{\"cairn_manifest\":1}", ERR_CORRUPT },
		{ "{\"cairn_manifest\":2}", ERR_NEWER },
		{ "{\"cairn_manifest\":1,\"run\":[],\"pipeline\":{}}", ERR_CORRUPT },
		{ "{\"cairn_manifest\":1,\"run\":\"r\"", ERR_CORRUPT },
	};
	struct fixture *f = *state;
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = { 0 };
		struct manifest m;
		struct digest d;

		digest_bytes(bad[i].bytes, strlen(bad[i].bytes), &d);
		assert_int_equal(
			store_put(f->s, STORE_RUN, &d, bad[i].bytes, strlen(bad[i].bytes), NULL),
			0);
		assert_int_equal(manifest_load(f->s, &d, arena, &m, &err), -1);
		if (err.code != bad[i].code)
			fail_msg("%s gave error %d: %s", bad[i].bytes, err.code, err.msg);
	}
}

/* Any byte of a good one changed: refused, or another manifest; never a crash. */
static void test_damaged(void **state)
{
	struct fixture *f = *state;
	struct str bytes = { 0 };
	struct digest d;

	assert_int_equal(manifest_store(f->s, &f->m, &f->hash, NULL), 0);
	assert_int_equal(store_get(f->s, STORE_RUN, &f->hash, MIB, &bytes, NULL), 0);
	for (size_t i = 0; i < bytes.len; i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct manifest m;

		bytes.s[i] ^= 0x15;
		digest_bytes(bytes.s, bytes.len, &d);
		assert_true(store_put(f->s, STORE_RUN, &d, bytes.s, bytes.len, NULL) >= 0);
		if (manifest_load(f->s, &d, arena, &m, NULL) == 0)
			assert_true(m.run->id && m.run->pipeline);
		bytes.s[i] ^= 0x15;
	}
	str_deinit(&bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, setup, teardown),
		cmocka_unit_test_setup_teardown(test_attempts, setup, teardown),
		cmocka_unit_test_setup_teardown(test_put_attempts, setup, teardown),
		cmocka_unit_test(test_times_before_1970),
		cmocka_unit_test_setup_teardown(test_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hash, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gc_keeps_what_a_run_gave, setup, teardown),
		cmocka_unit_test_setup_teardown(test_gc_keeps_what_a_stopped_run_gave, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_gc_without_the_table, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hostile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

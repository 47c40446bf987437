/* What comes with a handover is hostile: each member is held against what it may be, and content
 * against the store. */
#include "unit.h"

#include "run/handover/handover.h"
#include "run/handover/served.h"
#include "run/internal.h"

static const char pipeline_text[] =
	"pipeline: one\nparams: {n: {type: int, default: 1, min: 0}}\nsteps:\n  s: {run: \"echo "
	"${{ params.n }} >o\", outputs: {o: o}}\n";

static struct store *store;
static char files_hex[DIGEST_HEX_MAX];
static struct content_id files;

/* The pipeline's files as pipeline_files_store() lays them out. */
static int setup(void **state)
{
	struct tree_builder *b = tree_builder_new();
	struct tree_entry text = { .kind = TREE_FILE, .name = "0", .name_len = 1 },
			  paths = { .kind = TREE_FILE, .name = "paths", .name_len = 5 };

	assert_int_equal(store_open("memory:", true, &store, NULL), 0);
	assert_int_equal(
		content_put_bytes(store, pipeline_text, strlen(pipeline_text), &text.id, NULL), 0);
	assert_int_equal(content_put_bytes(store, "pipeline.yaml\n", 14, &paths.id, NULL), 0);
	assert_int_equal(tree_builder_add(b, &text, NULL), 0);
	assert_int_equal(tree_builder_add(b, &paths, NULL), 0);
	assert_int_equal(tree_builder_store(b, store, &files, NULL), 0);
	tree_builder_free(b);
	digest_hex(&files.digest, files_hex);
	return 0;
}

static int teardown(void **state)
{
	store_free(store);
	return 0;
}

static json_t *good(void)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:s, s:I}, s:{s:i}, s:{}, s:[]}", "request",
			 "0123456789abcdef0123456789abcdef", "store", "s3://other/x", "pipeline",
			 "one", "path", "pipeline.yaml", "files", "id", files_hex, "kind", "tree",
			 "size", (json_int_t)files.size_bytes, "params", "n", 7, "options",
			 "inputs");
}

static int take(json_t *body, struct arena *arena, struct handover *ret, struct err *err)
{
	int r = handover_from_json(body, store, arena, ret, err);

	json_decref(body);
	return r;
}

static void test_good(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct handover h;
	struct err err = { 0 };

	if (take(good(), arena, &h, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(h.row.pipeline, "one");
	assert_string_equal(h.row.params_json, "{\"n\":7}");
	assert_int_equal(h.row.state, RUN_INTERRUPTED);
	assert_non_null(strstr(h.row.options_json, "\"served\":true"));
	assert_non_null(
		strstr(h.row.options_json, "\"request\":\"0123456789abcdef0123456789abcdef\""));
}

/* What is this side's to say: how often it was tried, and where it executes. */
static void test_what_is_ours_to_say(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct err err = { 0 };
	struct handover h;
	json_t *body = good();

	json_object_set_new(body, "options",
			    json_pack("{s:i, s:s, s:b, s:i}", "unbegun", 99, "runner", "kubernetes",
				      "keep_workspace", 1, "jobs", 3));
	if (take(body, arena, &h, &err) < 0)
		fail_msg("%s", err.msg);
	assert_null(strstr(h.row.options_json, "unbegun"));
	assert_null(strstr(h.row.options_json, "kubernetes"));
	assert_non_null(strstr(h.row.options_json, "\"keep_workspace\":false"));
	assert_non_null(strstr(h.row.options_json, "\"jobs\":3"));
}

/* What takes the place of a member, as JSON; what is said then. */
static const struct {
	const char *key, *value, *want;
} bad[] = {
	{ "request", "\"short\"", "`request` must be 32 hexadecimal digits" },
	{ "request", "7", "`request` must be a string" },
	{ "request", "\"0123456789ABCDEF0123456789abcdef\"", "32 hexadecimal digits" },
	{ "store", "null", "`store`" },
	{ "path", "\"a\\\\x00b\"", "`path`" },
	{ "pipeline", "\"two\"", "`pipeline` says two, but its file is that of one" },
	{ "files", "{\"id\": \"sha256:12\", \"kind\": \"tree\", \"size\": 1}", "`files`" },
	{ "files",
	  "{\"id\": \"0000000000000000000000000000000000000000000000000000000000000000\", "
	  "\"kind\": \"none\", \"size\": 1}",
	  "`kind` must be" },
	{ "files",
	  "{\"id\": \"0000000000000000000000000000000000000000000000000000000000000000\", "
	  "\"kind\": \"blob\", \"size\": 1}",
	  "`files` must be a tree" },
	{ "files",
	  "{\"id\": \"0000000000000000000000000000000000000000000000000000000000000000\", "
	  "\"kind\": \"tree\", \"size\": 1}",
	  "the pipeline isn't in this server's store, memory:; it came from s3://other/x" },
	{ "files",
	  "{\"id\": \"0000000000000000000000000000000000000000000000000000000000000000\", "
	  "\"kind\": \"tree\", \"size\": -1}",
	  "`size`" },
	{ "params", "{\"n\": -1}", "`params`: `n`" },
	{ "params", "{\"n\": \"x\"}", "`params`: `n`" },
	{ "params", "{\"n\": null}", "`params`: `n`" },
	{ "params", "{}", "`params`: `n`" },
	{ "params", "{\"n\": 1, \"m\": 2}", "pipeline one has no param `m`" },
	{ "params", "[]", "`params` must be an object" },
	{ "options", "7", "`options` must be an object" },
	{ "options", "{\"reproduces\": \"isolated\"}", "can't be handed over" },
	{ "options", "{\"targets\": [\"t\"]}", "has no step `t`" },
	{ "options", "{\"from\": \"nothing\"}", "has no step `nothing`" },
	{ "inputs", "{}", "`inputs` must be an array" },
	{ "inputs", "[7]", "`inputs[0]` must be an object" },
	{ "inputs",
	  "[{\"name\": \"tool:sh\", \"origin\": \"\", \"content\": {\"id\": "
	  "\"0000000000000000000000000000000000000000000000000000000000000000\", \"kind\": "
	  "\"blob\", \"size\": 1}}]",
	  "must be environment:sandbox or begin with input:, code: or lock:" },
	{ "inputs",
	  "[{\"name\": \"input:x\", \"origin\": \"\", \"content\": {\"id\": "
	  "\"0000000000000000000000000000000000000000000000000000000000000000\", \"kind\": "
	  "\"blob\", \"size\": 1}}]",
	  "input:x isn't in this server's store" },
	{ "git", "7", "`git` must be an object" },
	{ "git", "{\"commit\": \"zz\"}", "`commit` must be 40 or 64" },
	{ "git", "{\"submodules\": \"{}\"}", "`submodules` must be an array" },
};

static void test_bad(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		json_t *body = good(), *v = json_loads(bad[i].value, JSON_DECODE_ANY, NULL);
		struct handover h;
		struct err err = { 0 };

		assert_non_null(v);
		json_object_set_new(body, bad[i].key, v);
		if (take(body, arena, &h, &err) == 0)
			fail_msg("%s: %s was taken", bad[i].key, bad[i].value);
		if (!strstr(err.msg, bad[i].want))
			fail_msg("%s: %s gives: %s", bad[i].key, bad[i].value, err.msg);
	}
}

/* Twice is once; another request gets another id, also when the first letters meet. */
static void test_record(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(db_closep) struct db *db = NULL;
	struct handover a, b, c;
	json_t *other = good();

	assert_int_equal(db_open(":memory:", DB_WRITE, &db, NULL), 0);
	json_object_set_new(other, "request", json_string("ffffffffffffffffffffffffffffffff"));
	assert_int_equal(take(good(), arena, &a, NULL), 0);
	assert_int_equal(take(good(), arena, &b, NULL), 0);
	assert_int_equal(take(other, arena, &c, NULL), 0);
	assert_int_equal(handover_record(db, &a, arena, NULL), 0);
	assert_int_equal(handover_record(db, &b, arena, NULL), 1);
	assert_int_equal(handover_record(db, &c, arena, NULL), 0);
	assert_string_equal(a.row.id, b.row.id);
	assert_string_not_equal(a.row.id, c.row.id);
}

/* What a reindex takes out of the store has no host, whatever its options say: no server begins
 * it. */
static void test_a_run_out_of_the_store_is_not_served(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(db_closep) struct db *db = NULL;
	struct served_run *served;
	struct handover h;
	size_t n;

	assert_int_equal(db_open(":memory:", DB_WRITE, &db, NULL), 0);
	assert_int_equal(take(good(), arena, &h, NULL), 0);
	assert_int_equal(handover_record(db, &h, arena, NULL), 0);
	assert_int_equal(served_runs(db, arena, &served, &n, NULL), 0);
	assert_int_equal(n, 1);
	h.row.engine.host = NULL;
	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_update(db, &h.row, NULL), 0);
	assert_int_equal(db_commit(db, NULL), 0);
	assert_int_equal(served_runs(db, arena, &served, &n, NULL), 0);
	assert_int_equal(n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good), cmocka_unit_test(test_what_is_ours_to_say),
		cmocka_unit_test(test_bad), cmocka_unit_test(test_record),
		cmocka_unit_test(test_a_run_out_of_the_store_is_not_served)
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

/* record/reindex: a database that was lost comes back from the store as it was: every table, every
 * column. What can't come back is named here, so that a new column that no manifest has fails this
 * test. */
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "record/manifest/manifest.h"
#include "record/manifest/reindex.h"
#include "record/run_query.h"
#include "unit.h"

/* table.column: of the machine and the moment, or of nothing that a manifest could have; they may
 * differ afterwards. */
static const char *const not_kept[] = {
	"run.pid",           "run.pid_start",
	"run.host",          "run.cancel",      /* the engine that had it */
	"attempt.workspace", "attempt.waiting", /* a place of one machine; of attempts that run */
	"run.plan_digest",                      /* without it the next plan is made task by task */
};
/* Only in the database; or, tags, in the store by themselves (tests/cli/store/reindex.t). */
static const char *const other_tables[] = { "tag",    "firing",  "schedule",
					    "server", "notice",  "reproduction",
					    "export", "run_end", "sqlite_sequence" };

static char dir[TEST_DIR_MAX];

static bool listed(const char *const *v, size_t n, const char *what)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i], what) == 0)
			return true;
	return false;
}

static struct content_id put(struct store *s, const char *text)
{
	struct content_id id;

	assert_int_equal(content_put_bytes(s, text, strlen(text), &id, NULL), 0);
	return id;
}

/* A run of which nothing is left out: an attempt with each of its columns, that read by reference.
 */
static void fill(struct db *db, struct store *s, struct arena *arena)
{
	static const char *const outputs[] = { "model" };
	struct content_id ref = put(s, "what an origin has"), blob = put(s, "the model");
	const struct named_content in = { "raw",
					  { .digest = ref.digest,
					    .size_bytes = 77,
					    .kind = CONTENT_REFERENCE } },
				   out = { "model", blob };
	const struct metric_value metrics[] = { { "gain", -INFINITY },
						{ "loss", INFINITY },
						{ "score", 0.5 } },
				  metric = metrics[2];
	struct digest key;
	struct run_row run = { .pipeline = "p",
			       .path = "pipeline.yaml",
			       .state = RUN_SUCCEEDED,
			       .started_ns = 5,
			       .ended_ns = 99,
			       .params_json = "{\"lr\":0.1}",
			       .options_json = "{\"jobs\":3,\"trial\":{\"id\":\"1f\","
					       "\"number\":2,\"sweep\":\"tune\"}}",
			       .counts = { 7, 1, 2, 3, 4, 5, 6 },
			       .git.commit = "abc",
			       .git.dirty = true,
			       .message = "said",
			       .schedule = "nightly",
			       .nominal_ns = 4,
			       .has_reproduces = true,
			       .reproduces = { { 9 } },
			       .git.author = "A",
			       .git.remote = "git.example/x",
			       .git.submodules =
				       "[{\"commit\":null,\"dirty\":false,\"path\":\"m\"}]",
			       .engine.pid = 7,
			       .engine.start = 8,
			       .engine.host = "here" };
	struct attempt_row a = { .task = "train",
				 .step = "train",
				 .number = 1,
				 .started_ns = 6,
				 .ended_ns = 9,
				 .failure = FAILURE_GATE,
				 .exit_status = 3,
				 .signo = 4,
				 .max_rss_bytes = 11,
				 .cpu_ns = 12,
				 .log = put(s, "log"),
				 .node = "n1",
				 .message = "why",
				 .workspace = "/w",
				 .continues = "1",
				 .reason = "first run",
				 .image = "registry.example/a@sha256:1" };
	struct manifest_input pin = { "input:raw", "https://x.example/raw", ref };
	struct manifest m = { .run = &run, .inputs = &pin, .n_inputs = 1 };
	struct results_writer *w = results_writer_new(NULL);

	digest_bytes("the key", 7, &key);
	a.key = key;
	assert_int_equal(put(s, "the key").digest.b[0], key.b[0]);
	run.pipeline_blob = m.pipeline_tree = put(s, "pipeline");
	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_add(db, &run, arena, NULL), 0);
	assert_int_equal(record_run_input(db, run.rowid, pin.name, pin.origin, &pin.id, NULL), 0);
	a.run = run.rowid;
	for (uint32_t i = 1; i <= 2; i++) { /* the second gives something else under the same key */
		struct content_id other = put(s, "another model");
		const struct named_content made = { "model", i == 1 ? out.id : other };

		a.number = i;
		assert_int_equal(record_attempt_start(db, &a, NULL), 0);
		assert_int_equal(record_attempt_end(db, &a, NULL), 0);
		assert_true(record_result(db,
					  &(struct observation){ .attempt = a.id,
								 .key = &a.key,
								 .cacheable = true,
								 .inputs = &in,
								 .n_inputs = 1,
								 .outputs = &made,
								 .n_outputs = 1 },
					  NULL) >= 0);
		assert_int_equal(record_metrics(db, a.id, metrics, ARRAY_LEN(metrics), NULL), 0);
	}
	assert_int_equal(record_key(db, &a.key, "the key", 7, NULL), 0);
	assert_int_equal(db_commit(db, NULL), 0);
	results_writer_step(w, "train", 1, outputs);
	results_writer_task(w, "train", RESULT_SUCCEEDED, &a.key, 3, a.id, &blob, &metric, 1);
	assert_int_equal(results_writer_store(w, s, &m.results, NULL), 0);
	results_writer_free(w);
	run.results = m.results;
	assert_int_equal(
		manifest_put_attempts(db, s, run.rowid, NULL, NULL, &m.attempts_blob, NULL), 0);
	assert_int_equal(manifest_store(s, &m, &run.hash, NULL), 0);
	run.has_hash = true;
	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_update(db, &run, NULL), 0);
	assert_int_equal(record_run_results(db, s, &run, NULL), 0);
	assert_int_equal(db_commit(db, NULL), 0);
}

static int one_row(void *arg, int n, char **values, char **names)
{
	struct str *out = arg;

	for (int i = 0; i < n; i++)
		str_addf(out, "%s\n", values[i] ? values[i] : "");
	return 0;
}

/* "table.column: values", a line a column, of all but other_tables, or of only these; each column
 * must have said something. */
static void dump(const char *path, bool others, bool check_full, struct str *out)
{
	_cleanup_(str_deinit) struct str columns = { 0 };
	sqlite3 *sql;

	assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(
			sql,
			"SELECT m.name || '.' || c.name FROM sqlite_schema m, "
			"pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY m.name, c.cid",
			one_row, &columns, NULL),
		SQLITE_OK);
	for (char *at = columns.s, *end; *at; at = end + 1) {
		_cleanup_(freep) char *query = NULL, *table = NULL;
		_cleanup_(str_deinit) struct str values = { 0 };
		const char *dot;

		end = strchr(at, '\n');
		*end = '\0';
		dot = strchr(at, '.');
		table = xstrndup(at, (size_t)(dot - at));
		if (listed(other_tables, ARRAY_LEN(other_tables), table) != others ||
		    listed(not_kept, ARRAY_LEN(not_kept), at))
			continue;
		query = xasprintf(
			"SELECT group_concat(quote(%s), ' ') FROM (SELECT %s FROM %s ORDER BY 1)",
			dot + 1, dot + 1, table);
		assert_int_equal(sqlite3_exec(sql, query, one_row, &values, NULL), SQLITE_OK);
		if (check_full && (values.len < 2 || strcmp(values.s, "NULL\n") == 0))
			fail_msg("%s is empty: this test must fill it, or name it as not kept", at);
		str_addf(out, "%s: %s", at, values.s);
	}
	sqlite3_close(sql);
}

/* A store with a run, and the database of it at `path`. */
static struct store *filled(const char *path)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct store *s;
	struct db *db;

	assert_int_equal(store_open("memory:", true, &s, NULL), 0);
	assert_int_equal(db_open(path, DB_WRITE, &db, NULL), 0);
	fill(db, s, arena);
	db_close(db);
	return s;
}

static void on_warning(void *arg, const char *text)
{
	(void)arg;
	print_message("# %s\n", text);
}

static void reindex(const char *path, struct store *s)
{
	const struct reindex_options o = { 0 };
	struct reindex_result res;
	struct err err = { 0 };

	if (record_reindex(path, s, &o, &res, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(res.runs, 1);
}

static void test_every_column_comes_back(void **state)
{
	_cleanup_(freep) char *path = xasprintf("%s/cairn.db", dir),
			      *wal = xasprintf("%s-wal", path), *shm = xasprintf("%s-shm", path);
	_cleanup_(str_deinit) struct str before = { 0 }, after = { 0 };
	struct store *s = filled(path);

	dump(path, false, true, &before);
	unlink(path);
	unlink(wal);
	unlink(shm);
	reindex(path, s);
	dump(path, false, false, &after);
	for (char *b = before.s, *a = after.s; *b && *a;
	     b = strchr(b, '\n') + 1, a = strchr(a, '\n') + 1)
		if (strncmp(b, a, (size_t)(strchr(b, '\n') - b) + 1) != 0)
			fail_msg("was  %.*s\nis   %.*s", (int)(strchr(b, '\n') - b), b,
				 (int)(strchr(a, '\n') - a), a);
	assert_string_equal(before.s, after.s);
	store_free(s);
}

/* One row of each of other_tables, with something in each of its columns; what points at a run, at
 * the first one. */
static void fill_others(const char *path)
{
	_cleanup_(str_deinit) struct str inserts = { 0 };
	sqlite3 *sql;

	assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
	assert_int_equal(
		sqlite3_exec(
			sql,
			"SELECT 'INSERT INTO ' || m.name || ' VALUES (' || group_concat(CASE "
			"c.type WHEN 'TEXT' THEN quote(c.name) WHEN 'BLOB' THEN 'zeroblob(32)' "
			"ELSE '1' END) || ');' FROM sqlite_schema m, pragma_table_info(m.name) c "
			"WHERE m.type = 'table' AND m.name <> 'sqlite_sequence' GROUP BY m.name",
			one_row, &inserts, NULL),
		SQLITE_OK);
	for (char *at = inserts.s, *end; *at; at = end + 1) {
		char table[64];

		end = strchr(at, '\n');
		*end = '\0';
		assert_int_equal(sscanf(at, "INSERT INTO %63[a-z_]", table), 1);
		if (listed(other_tables, ARRAY_LEN(other_tables), table))
			assert_int_equal(sqlite3_exec(sql, at, NULL, NULL, NULL), SQLITE_OK);
	}
	sqlite3_close(sql);
}

/* Names, times of schedules and notices that haven't arrived yet are in no manifest: a reindex
 * takes them over. */
static void test_what_only_the_database_has_stays(void **state)
{
	_cleanup_(freep) char *path = xasprintf("%s/other.db", dir);
	_cleanup_(str_deinit) struct str before = { 0 }, after = { 0 };
	struct store *s = filled(path);

	fill_others(path);
	dump(path, true, true, &before);
	reindex(path, s);
	dump(path, true, false, &after);
	assert_string_equal(before.s, after.s);
	store_free(s);
}

/* A run as others say it was; what the store is given stays as it is written here. */
static void put_run(struct store *s, const char *run, const char *members)
{
	_cleanup_(freep) char *bytes =
		xasprintf("{\"cairn_manifest\":1,\"run\":\"%s\",\"pipeline\":\"p\",\"counts\":{},"
			  "\"started_ns\":4%s%s}",
			  run, *members ? "," : "", members);
	struct digest d;

	digest_bytes(bytes, strlen(bytes), &d);
	assert_int_equal(store_put(s, STORE_RUN, &d, bytes, strlen(bytes), NULL), 0);
}

/* The member that names content of this kind and size; NULL: the bytes are put too. */
static char *naming(struct store *s, const char *member, const char *kind, const char *bytes,
		    const char *size)
{
	char hex[DIGEST_HEX_MAX], len[32];
	struct content_id id = put(s, bytes);

	(void)snprintf(len, sizeof(len), "%zu", strlen(bytes));
	return xasprintf(
		"\"state\":\"failed\",\"ended_ns\":9,\"%s\":{\"digest\":\"%s\",\"kind\":\"%s\","
		"\"size\":%s}",
		member, digest_hex(&id.digest, hex), kind, size ? size : len);
}

static char *attempts_of(struct store *s, const char *id, const char *ended, const char *more)
{
	_cleanup_(freep) char *line =
		xasprintf("{\"id\":%s,\"number\":1,\"task\":\"t\",\"step\":\"t\",\"class\":"
			  "\"none\",\"log\":null,\"key\":"
			  "\"0000000000000000000000000000000000000000000000000000000000000001\","
			  "\"started_ns\":7,\"ended_ns\":%s,\"exit_status\":0,\"signal\":0%s}\n",
			  id, ended, more);

	return naming(s, "attempts", "blob", line, NULL);
}

static int64_t count(const char *path, const char *query)
{
	sqlite3_stmt *stmt;
	int64_t n;
	sqlite3 *sql;

	assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(sql, query, -1, &stmt, NULL), SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	n = sqlite3_column_int64(stmt, 0);
	sqlite3_finalize(stmt);
	sqlite3_close(sql);
	return n;
}

/* What others wrote costs only itself: the run that is ours comes back, no row says that a run or
 * an attempt goes on, the next reindex works too, and so does the next attempt. */
static void test_manifests_of_strangers(void **state)
{
	static const char ended[] = "\"state\":\"succeeded\",\"ended_ns\":9";
	_cleanup_(freep) char *path = xasprintf("%s/strangers.db", dir);
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct store *s = filled(path);
	struct run_row stopped = { .id = "p-stops",
				   .pipeline = "p",
				   .started_ns = 6,
				   .state = RUN_INTERRUPTED },
		       ours, found;
	struct db *db;
	struct attempt_row next = { .task = "t", .step = "t", .number = 1, .started_ns = 8 };
	const struct {
		const char *run;
		char *members;
	} of_strangers[] = {
		{ "no-state", xstrdup("") },
		{ "running", xstrdup("\"state\":\"running\"") },
		{ "unknown", xstrdup("\"state\":\"paused\"") },
		{ "no-end", xstrdup("\"state\":\"failed\"") },
		{ "last", xstrdup(ended) },
		{ "last:p", xstrdup(ended) },
		{ "00000000000000000000000000000000000000000000000000000000000000ab",
		  xstrdup(ended) },
		{ "twice", xstrdup(ended) },
		{ "twice", xasprintf("%s,\"message\":\"again\",\"path\":\"q\"", ended) },
		{ "no-line", naming(s, "attempts", "blob", "not JSON\n", NULL) },
		{ "odd-line", naming(s, "attempts", "blob", "{\"id\":0}\n", NULL) },
		{ "a-tree", naming(s, "attempts", "tree", "x", NULL) },
		{ "of-nothing", naming(s, "attempts", "blob", "y", "9007199254740993") },
		{ "no-table", naming(s, "results", "blob", "cairn-results/1\nT", NULL) },
		{ "large-table", naming(s, "results", "blob", "z", "9223372036854775807") },
		{ "last-number", attempts_of(s, "9223372036854775807", "9", "") },
		{ "goes-on", attempts_of(s, "77", "0", "") },
		{ "large-key", attempts_of(s, "78", "9", ",\"key_record\":17825792") },
	};

	for (size_t i = 0; i < ARRAY_LEN(of_strangers); i++) {
		put_run(s, of_strangers[i].run, of_strangers[i].members);
		free(of_strangers[i].members);
	}
	assert_int_equal(db_open(path, DB_WRITE, &db, NULL), 0);
	assert_int_equal(record_find_run(db, "last", arena, &ours, NULL), 0);
	put_run(s, ours.id, ended);
	put_run(s, "p-stops", ended);
	assert_int_equal(db_begin(db, NULL), 0);
	assert_int_equal(record_run_insert(db, &stopped, NULL), 0);
	assert_int_equal(db_commit(db, NULL), 0);
	db_close(db);
	for (int i = 0; i < 2; i++) {
		const struct reindex_options o = { .on_warning = on_warning };
		struct reindex_result res;
		struct err err = { 0 };

		if (record_reindex(path, s, &o, &res, &err) < 0)
			fail_msg("%s", err.msg);
		assert_int_equal(res.damaged, 6);
		assert_int_equal(count(path, "SELECT count(*) FROM run"), 15);
		assert_int_equal(count(path, "SELECT count(*) FROM attempt"), 5);
		assert_int_equal(count(path, "SELECT count(*) FROM attempt WHERE ended_ns = 0"), 0);
		assert_int_equal(count(path, "SELECT count(*) FROM run WHERE state = 0 OR "
					     "(ended_ns = 0 AND id <> 'p-stops')"),
				 0);
		assert_int_equal(db_open(path, DB_WRITE, &db, NULL), 0);
		assert_int_equal(record_find_run_named(db, ours.id, arena, &found, NULL), 1);
		assert_true(found.has_hash && digest_eq(&found.hash, &ours.hash));
		assert_int_equal(record_find_run_named(db, "p-stops", arena, &found, NULL), 1);
		assert_int_equal(found.started_ns, stopped.started_ns);
		next.run = found.rowid;
		assert_int_equal(db_begin(db, NULL), 0);
		if (record_attempt_start(db, &next, &err) < 0)
			fail_msg("%s", err.msg);
		db_rollback(db);
		db_close(db);
	}
	store_free(s);
}

static int set_up(void **state)
{
	test_dir(dir, sizeof(dir), "reindex");
	return 0;
}

static int tear_down(void **state)
{
	return fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_column_comes_back),
					    cmocka_unit_test(test_what_only_the_database_has_stays),
					    cmocka_unit_test(test_manifests_of_strangers) };

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

/* record/reindex: a database that was lost comes back from the store as it was: every table, every column. What can't come back is named here, so that a new
 * column that no manifest has fails this test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>
#include "base/fs.h"
#include "record/manifest.h"
#include "record/reindex.h"
#include "record/run_query.h"

/* table.column: of the machine and the moment, or of nothing that a manifest could have; they may differ afterwards. */
static const char *const not_kept[] = {
	"run.pid", "run.pid_start", "run.host", "run.cancel", /* the engine that had it */
	"attempt.workspace", "attempt.waiting",		      /* a place of one machine; of attempts that run */
};
/* Only in the database; or, tags, in the store by themselves (tests/cli/reindex.t). */
static const char *const other_tables[] = { "tag", "firing", "schedule", "server", "notice",
					    "reproduction", "export", "sqlite_sequence" };

static char dir[] = "/tmp/cairn-reindex-XXXXXX";

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

/* A run of which nothing is left out: an attempt with each of its columns, that read by reference. */
static void fill(struct db *db, struct store *s, struct arena *arena)
{
	static const char *const outputs[] = { "model" };
	struct content_id ref = put(s, "what an origin has"), blob = put(s, "the model");
	const struct named_content in = { "raw", { .digest = ref.digest, .size_bytes = 77, .kind = CONTENT_REFERENCE } }, out = { "model", blob };
	const struct metric_value metric = { "score", 0.5 };
	struct digest key;
	struct run_row run = { .pipeline = "p", .path = "pipeline.yaml", .state = RUN_SUCCEEDED, .started_ns = 5, .ended_ns = 99, .params_json = "{\"lr\":0.1}",
			       .options_json = "{\"jobs\":3}", .counts = { 7, 1, 2, 3, 4, 5, 6 }, .git_commit = "abc", .git_dirty = true, .message = "said",
			       .schedule = "nightly", .nominal_ns = 4, .has_reproduces = true, .reproduces = { { 9 } }, .git_remote = "git.example/x",
			       .git_submodules = "[{\"commit\":null,\"dirty\":false,\"path\":\"m\"}]", .pid = 7, .pid_start = 8, .host = "here" };
	struct attempt_row a = { .task = "train", .step = "train", .number = 1, .started_ns = 6, .ended_ns = 9, .failure = FAILURE_GATE, .exit_status = 3, .signo = 4,
				 .max_rss_bytes = 11, .cpu_ns = 12, .log = put(s, "log"), .node = "n1", .message = "why", .workspace = "/w", .continues = "1",
				 .reason = "first run", .image = "registry.example/a@sha256:1" };
	struct manifest_input pin = { "input:raw", "https://x.example/raw", ref };
	struct manifest m = { .run = &run, .inputs = &pin, .n_inputs = 1 };
	struct results_writer *w = results_writer_new();

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
		assert_true(record_result(db, a.id, &a.key, true, &in, 1, &made, 1, NULL) >= 0);
		assert_int_equal(record_metrics(db, a.id, &metric, 1, NULL), 0);
	}
	assert_int_equal(record_key(db, &a.key, "the key", 7, NULL), 0);
	assert_int_equal(db_commit(db, NULL), 0);
	results_writer_step(w, "train", 1, outputs);
	results_writer_task(w, "train", RESULT_SUCCEEDED, &a.key, 3, a.id, &blob, &metric, 1);
	assert_int_equal(results_writer_store(w, s, &m.results, NULL), 0);
	results_writer_free(w);
	run.results = m.results;
	assert_int_equal(manifest_put_attempts(db, s, run.rowid, NULL, NULL, &m.attempts_blob, NULL), 0);
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

/* "table.column: values", a line a column, of all but other_tables, or of only these; each column must have said something. */
static void dump(const char *path, bool others, bool check_full, struct str *out)
{
	_cleanup_(str_deinit) struct str columns = { 0 };
	sqlite3 *sql;

	assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
	assert_int_equal(sqlite3_exec(sql, "SELECT m.name || '.' || c.name FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table' ORDER BY m.name, c.cid",
				      one_row, &columns, NULL), SQLITE_OK);
	for (char *at = columns.s, *end; *at; at = end + 1) {
		_cleanup_(freep) char *query = NULL, *table = NULL;
		_cleanup_(str_deinit) struct str values = { 0 };
		const char *dot;

		end = strchr(at, '\n');
		*end = '\0';
		dot = strchr(at, '.');
		table = xstrndup(at, (size_t)(dot - at));
		if (listed(other_tables, ARRAY_LEN(other_tables), table) != others || listed(not_kept, ARRAY_LEN(not_kept), at))
			continue;
		query = xasprintf("SELECT group_concat(quote(%s), ' ') FROM (SELECT %s FROM %s ORDER BY 1)", dot + 1, dot + 1, table);
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
	_cleanup_(freep) char *path = xasprintf("%s/cairn.db", dir), *wal = xasprintf("%s-wal", path), *shm = xasprintf("%s-shm", path);
	_cleanup_(str_deinit) struct str before = { 0 }, after = { 0 };
	struct store *s = filled(path);

	dump(path, false, true, &before);
	unlink(path);
	unlink(wal);
	unlink(shm);
	reindex(path, s);
	dump(path, false, false, &after);
	for (char *b = before.s, *a = after.s; *b && *a; b = strchr(b, '\n') + 1, a = strchr(a, '\n') + 1)
		if (strncmp(b, a, (size_t)(strchr(b, '\n') - b) + 1) != 0)
			fail_msg("was  %.*s\nis   %.*s", (int)(strchr(b, '\n') - b), b, (int)(strchr(a, '\n') - a), a);
	assert_string_equal(before.s, after.s);
	store_free(s);
}

/* One row of each of other_tables, with something in each of its columns; what points at a run, at the first one. */
static void fill_others(const char *path)
{
	_cleanup_(str_deinit) struct str inserts = { 0 };
	sqlite3 *sql;

	assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
	assert_int_equal(sqlite3_exec(sql,
				      "SELECT 'INSERT INTO ' || m.name || ' VALUES (' || group_concat(CASE c.type WHEN 'TEXT' THEN quote(c.name) WHEN 'BLOB'"
				      " THEN 'zeroblob(32)' ELSE '1' END) || ');' FROM sqlite_schema m, pragma_table_info(m.name) c WHERE m.type = 'table'"
				      " AND m.name <> 'sqlite_sequence' GROUP BY m.name",
				      one_row, &inserts, NULL), SQLITE_OK);
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

/* Names, times of schedules and notices that haven't arrived yet are in no manifest: a reindex takes them over. */
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

static int set_up(void **state)
{
	return mkdtemp(dir) ? 0 : -1;
}

static int tear_down(void **state)
{
	return fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_column_comes_back), cmocka_unit_test(test_what_only_the_database_has_stays) };

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

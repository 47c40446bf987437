/* SQL over both databases at once. Attempts get new numbers when theirs are taken; temp.carried
 * maps old to new. */
#include "record/manifest/carry.h"
#include "record/db_sql.h"

#define RUN_COPIED                                                                             \
	"id, pipeline, path, state, started_ns, ended_ns, hash, pipeline_blob, results, "      \
	"params_json, options_json, total, executed, hits, failed, "                           \
	"skipped, blocked, saved_ns, git_commit, git_dirty, message, cancel, pid, pid_start, " \
	"host, schedule, nominal_ns, reproduces, git_remote, git_submodules, sweep, "          \
	"git_author"

int carry_attach(struct db *db, const char *old_path, struct err *err)
{
	if (db_do(db, "ATTACH ? AS old", DB_IN(old_path), err) < 0)
		return -1;
	return db_exec(db,
		       "CREATE TEMP TABLE carried (was INTEGER PRIMARY KEY, now INTEGER NOT NULL)",
		       err);
}

int carry_detach(struct db *db, struct err *err)
{
	db_drop_statements(db);
	return db_exec(db, "DROP TABLE temp.carried; DETACH old", err);
}

static const struct db_row carry_run_of_columns = DB_ROW(
	struct carry_run, NULL, DB_COLUMN(struct carry_run, rowid),
	DB_COLUMN(struct carry_run, started_ns), DB_COLUMN(struct carry_run, id),
	DB_COLUMN(struct carry_run, unfinished), DB_OPTIONAL(struct carry_run, hash, has_hash));

int carry_list(struct db *db, struct arena *arena, struct carry_run **ret, size_t *ret_n,
	       struct err *err)
{
	return db_get_rows(db,
			   "SELECT rowid_, started_ns, id, state = 0, hash FROM old.run ORDER BY "
			   "started_ns, rowid_",
			   DB_IN(), arena, &carry_run_of_columns, ret, ret_n, err);
}

/* Each has ?1, the run's old row. */
static const char *const steps_of_one[] = {
	/* It keeps its id; a run from a manifest with the same id gets another one. */
	"UPDATE run SET id = id || '-' || lower(substr(hex(hash), 1, 6)) || '-' || rowid_ WHERE id "
	"= (SELECT id FROM old.run WHERE rowid_ = ?1)",
	"INSERT INTO run (" RUN_COPIED ") SELECT " RUN_COPIED " FROM old.run WHERE rowid_ = ?1",
	"INSERT OR IGNORE INTO result_set (results) SELECT results FROM old.run WHERE rowid_ = ?1 "
	"AND results IS NOT NULL",
	"UPDATE run SET result_set = (SELECT id FROM result_set WHERE result_set.results = "
	"run.results) WHERE id = (SELECT id FROM old.run WHERE rowid_ = ?1)",
	"INSERT OR IGNORE INTO set_metric SELECT n.result_set, m.name, m.task, m.step, m.value "
	"FROM old.run o JOIN old.set_metric m ON m.result_set = o.result_set JOIN main.run n ON "
	"n.id = o.id WHERE o.rowid_ = ?1 AND n.result_set IS NOT NULL",
	"INSERT INTO run_param SELECT n.rowid_, p.name, p.value FROM old.run o JOIN old.run_param "
	"p ON p.run = o.rowid_ JOIN main.run n ON n.id = o.id WHERE o.rowid_ = ?1",
	"INSERT INTO run_input SELECT n.rowid_, i.name, i.origin, i.content FROM old.run o JOIN "
	"old.run_input i ON i.run = o.rowid_ JOIN main.run n ON n.id = o.id WHERE o.rowid_ = ?1",
	"DELETE FROM temp.carried WHERE ?1",
	"INSERT INTO temp.carried SELECT a.id, CASE WHEN EXISTS (SELECT 1 FROM main.attempt t "
	"WHERE t.id = a.id) THEN (SELECT max(id) FROM main.attempt) + row_number() OVER (ORDER BY "
	"a.id) + (SELECT max(id) FROM old.attempt) ELSE a.id END FROM old.attempt a WHERE a.run = "
	"?1",
	"INSERT INTO attempt (id, run, task, step, pipeline, number, key, started_ns, ended_ns, "
	"failure, exit_status, signo, max_rss_bytes, cpu_ns, log, node, message, workspace, "
	"reason, continues, waiting, image) SELECT c.now, n.rowid_, a.task, a.step, a.pipeline, "
	"a.number, a.key, a.started_ns, a.ended_ns, a.failure, a.exit_status, a.signo, "
	"a.max_rss_bytes, a.cpu_ns, a.log, a.node, a.message, a.workspace, a.reason, a.continues, "
	"a.waiting, a.image FROM old.attempt a JOIN temp.carried c ON c.was = a.id JOIN old.run o "
	"ON o.rowid_ = a.run JOIN main.run n ON n.id = o.id WHERE a.run = ?1 ORDER BY a.id",
	"INSERT OR IGNORE INTO key_record SELECT k.key, k.bytes FROM old.attempt a JOIN "
	"old.key_record k ON k.key = a.key WHERE a.run = ?1",
	"INSERT OR IGNORE INTO content (digest, kind, size) SELECT x.digest, x.kind, x.size FROM "
	"old.attempt a JOIN old.io ON io.attempt = a.id JOIN old.content x ON x.id = io.content "
	"WHERE a.run = ?1",
	"INSERT INTO io SELECT c.now, i.dir, i.name, n.id FROM old.attempt a JOIN temp.carried c "
	"ON c.was = a.id JOIN old.io i ON i.attempt = a.id JOIN old.content x ON x.id = i.content "
	"JOIN main.content n ON n.digest = x.digest AND n.kind = x.kind WHERE a.run = ?1",
	"INSERT OR IGNORE INTO nondeterministic SELECT r.key FROM old.attempt a JOIN old.result r "
	"ON r.attempt = a.id JOIN main.result t ON t.key = r.key WHERE a.run = ?1 AND t.outputs <> "
	"r.outputs",
	"INSERT INTO result SELECT c.now, r.key, r.cacheable, r.outputs FROM temp.carried c JOIN "
	"old.result r ON r.attempt = c.was WHERE ?1",
	"INSERT INTO metric SELECT c.now, m.name, m.value FROM temp.carried c JOIN old.metric m ON "
	"m.attempt = c.was WHERE ?1",
};

int carry_one(struct db *db, int64_t rowid, struct err *err)
{
	for (size_t i = 0; i < ARRAY_LEN(steps_of_one); i++)
		if (db_do(db, steps_of_one[i], DB_IN(rowid), err) < 0)
			return -1;
	return 0;
}

int carry_rest(struct db *db, struct err *err)
{
	/* The same attempt in both databases: same run, task and number. */
	static const char rest[] =
		"CREATE TEMP TABLE same AS SELECT o.id AS was, n.id AS now FROM old.attempt o JOIN "
		"old.run r ON r.rowid_ = o.run JOIN main.run q ON q.id = r.id JOIN main.attempt n "
		"ON n.run = q.rowid_ AND n.task = o.task AND n.number = o.number AND n.started_ns "
		"= o.started_ns WHERE o.workspace IS NOT NULL;"
		"UPDATE attempt SET workspace = (SELECT o.workspace FROM temp.same s JOIN "
		"old.attempt o ON o.id = s.was WHERE s.now = attempt.id) WHERE id IN (SELECT now "
		"FROM temp.same);"
		"DROP TABLE temp.same;"
		"INSERT OR IGNORE INTO export (run, task, output, uri, content, at_ns, message) "
		"SELECT n.rowid_, e.task, e.output, e.uri, e.content, e.at_ns, e.message FROM "
		"old.export e JOIN old.run o ON o.rowid_ = e.run JOIN main.run n ON n.id = o.id;"
		"INSERT OR IGNORE INTO reproduction (run, original, mode, verdict, report) SELECT "
		"n.rowid_, p.original, p.mode, p.verdict, p.report FROM old.reproduction p JOIN "
		"old.run o ON o.rowid_ = p.run JOIN main.run n ON n.id = o.id;"
		"INSERT OR IGNORE INTO tag SELECT * FROM old.tag;"
		"INSERT OR REPLACE INTO schedule SELECT * FROM old.schedule;"
		"INSERT OR REPLACE INTO firing SELECT * FROM old.firing;"
		"INSERT OR REPLACE INTO run_end SELECT * FROM old.run_end;"
		"INSERT OR REPLACE INTO server SELECT * FROM old.server;"
		"INSERT OR REPLACE INTO notice SELECT * FROM old.notice;"
		"UPDATE sqlite_sequence SET seq = max(seq, coalesce((SELECT seq FROM "
		"old.sqlite_sequence o WHERE o.name = sqlite_sequence.name), 0)) WHERE name IN "
		"('run', 'attempt');"
		"INSERT INTO sqlite_sequence (name, seq) SELECT o.name, o.seq FROM "
		"old.sqlite_sequence o WHERE o.name IN ('run', 'attempt') AND NOT EXISTS (SELECT 1 "
		"FROM main.sqlite_sequence t WHERE t.name = o.name);";

	return db_exec(db, rest, err);
}

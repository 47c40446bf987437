/* engine/record/schema.h — the database's versions. Once released, a migration is never edited; a
 * change is a new one. */
#ifndef CAIRN_RECORD_SCHEMA_H
#define CAIRN_RECORD_SCHEMA_H

#define DB_APPLICATION_ID 0x4341524e /* "CARN" */

static const char *const db_migrations[] = {
	/* 1 */
	"CREATE TABLE run (rowid_ INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE,"
	" pipeline TEXT NOT NULL, path TEXT, state INTEGER NOT NULL, started_ns INTEGER NOT NULL,"
	" ended_ns INTEGER NOT NULL DEFAULT 0, hash BLOB, pipeline_blob BLOB, results BLOB,"
	" params_json TEXT, options_json TEXT, total INTEGER NOT NULL DEFAULT 0,"
	" executed INTEGER NOT NULL DEFAULT 0, hits INTEGER NOT NULL DEFAULT 0,"
	" failed INTEGER NOT NULL DEFAULT 0, skipped INTEGER NOT NULL DEFAULT 0,"
	" blocked INTEGER NOT NULL DEFAULT 0, saved_ns INTEGER NOT NULL DEFAULT 0,"
	" git_commit TEXT, git_dirty INTEGER NOT NULL DEFAULT 0, message TEXT,"
	" cancel INTEGER NOT NULL DEFAULT 0, pid INTEGER NOT NULL DEFAULT 0,"
	" pid_start INTEGER NOT NULL DEFAULT 0, host TEXT) STRICT;"
	"CREATE INDEX run_pipeline ON run(pipeline, rowid_);"
	"CREATE INDEX run_hash ON run(hash);"
	"CREATE INDEX run_state ON run(state) WHERE state = 0;"
	"CREATE TABLE run_input (run INTEGER NOT NULL REFERENCES run, name TEXT NOT NULL,"
	" origin TEXT, content BLOB NOT NULL, PRIMARY KEY (run, name)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE attempt (id INTEGER PRIMARY KEY AUTOINCREMENT,"
	" run INTEGER NOT NULL REFERENCES run, task TEXT NOT NULL, step TEXT NOT NULL,"
	" pipeline TEXT NOT NULL, number INTEGER NOT NULL, key BLOB NOT NULL,"
	" started_ns INTEGER NOT NULL, ended_ns INTEGER NOT NULL DEFAULT 0,"
	" failure INTEGER NOT NULL DEFAULT 0, exit_status INTEGER, signo INTEGER,"
	" max_rss_bytes INTEGER, cpu_ns INTEGER, log BLOB, node TEXT, message TEXT,"
	" workspace TEXT, reason TEXT) STRICT;"
	"CREATE INDEX attempt_run ON attempt(run);"
	"CREATE INDEX attempt_task ON attempt(pipeline, task, id);"
	"CREATE INDEX attempt_step ON attempt(pipeline, step, id);"
	"CREATE TABLE key_record (key BLOB PRIMARY KEY, bytes BLOB NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE content (id INTEGER PRIMARY KEY, digest BLOB NOT NULL,"
	" kind INTEGER NOT NULL, size INTEGER NOT NULL, UNIQUE (digest, kind)) STRICT;"
	"CREATE TABLE result (attempt INTEGER PRIMARY KEY REFERENCES attempt, key BLOB NOT NULL,"
	" cacheable INTEGER NOT NULL, outputs BLOB NOT NULL) STRICT;"
	"CREATE INDEX result_key ON result(key, attempt);"
	/* dir 0: read, 1: made */
	"CREATE TABLE io (attempt INTEGER NOT NULL, dir INTEGER NOT NULL, name TEXT NOT NULL,"
	" content INTEGER NOT NULL REFERENCES content, PRIMARY KEY (attempt, dir, name)) STRICT,"
	" WITHOUT ROWID;"
	"CREATE INDEX io_content ON io(content, dir, attempt);"
	"CREATE TABLE metric (attempt INTEGER NOT NULL, name TEXT NOT NULL, value REAL NOT NULL,"
	" PRIMARY KEY (attempt, name)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX metric_name ON metric(name, value);",
	/* 2: results that continue the checkpoint of earlier attempts */
	"ALTER TABLE attempt ADD COLUMN continues TEXT;",
	/* 3: what made a run; names; schedules; reproductions; origins */
	/* What made a run: a schedule at a nominal time, or a past run that it reproduces. */
	"ALTER TABLE run ADD COLUMN schedule TEXT;"
	"ALTER TABLE run ADD COLUMN nominal_ns INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE run ADD COLUMN reproduces BLOB;"
	"ALTER TABLE run ADD COLUMN git_remote TEXT;"
	"ALTER TABLE run ADD COLUMN git_submodules TEXT;"
	/* For finding runs: their params; the metrics of their results tables, which many runs may
	 * share; time, state, commit, schedule. */
	"ALTER TABLE run ADD COLUMN result_set INTEGER;"
	"CREATE TABLE run_param (run INTEGER NOT NULL REFERENCES run, name TEXT NOT NULL,"
	" value ANY NOT NULL, PRIMARY KEY (run, name)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX run_param_value ON run_param(name, value, run);"
	"CREATE TABLE result_set (id INTEGER PRIMARY KEY, results BLOB NOT NULL UNIQUE) STRICT;"
	"CREATE TABLE set_metric (result_set INTEGER NOT NULL REFERENCES result_set,"
	" name TEXT NOT NULL, task TEXT NOT NULL, step TEXT NOT NULL, value REAL NOT NULL,"
	" PRIMARY KEY (result_set, name, task)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX set_metric_value ON set_metric(name, value, step);"
	"CREATE INDEX run_result_set ON run(result_set);"
	"CREATE INDEX run_started ON run(started_ns);"
	"CREATE INDEX run_by_state ON run(state);"
	"CREATE INDEX run_commit ON run(git_commit) WHERE git_commit IS NOT NULL;"
	"CREATE INDEX run_schedule ON run(schedule) WHERE schedule IS NOT NULL;"
	"INSERT INTO run_param SELECT run.rowid_, p.key,"
	" CASE p.type WHEN 'true' THEN 'true' WHEN 'false' THEN 'false' ELSE p.value END FROM run,"
	" json_each(CASE WHEN json_valid(run.params_json) THEN run.params_json ELSE '{}' END) p"
	" WHERE p.type IN ('integer', 'real', 'text', 'true', 'false');"
	"INSERT INTO result_set (results) SELECT DISTINCT results FROM run WHERE results IS NOT"
	" NULL;"
	"UPDATE run SET result_set = (SELECT id FROM result_set WHERE result_set.results ="
	" run.results);"
	"INSERT OR IGNORE INTO set_metric SELECT run.result_set, metric.name, attempt.task,"
	" attempt.step, metric.value FROM metric JOIN attempt ON attempt.id = metric.attempt JOIN"
	" run ON run.rowid_ = attempt.run WHERE run.result_set IS NOT NULL;"
	/* Keys whose executions gave different outputs. Recorded when found, because a list of runs
	 * can't search all results. */
	"CREATE TABLE nondeterministic (key BLOB PRIMARY KEY) STRICT, WITHOUT ROWID;"
	"INSERT INTO nondeterministic SELECT key FROM result GROUP BY key HAVING count(DISTINCT"
	" outputs) > 1;"
	/* Names of runs: the newest row of a name says what it means; a row without a run removes
	 * the name. digest: of the change's object in the store (record/rows/tags.h); it decides
	 * between two rows of one instant. */
	"CREATE TABLE tag (digest BLOB PRIMARY KEY, name TEXT NOT NULL, run BLOB, run_id TEXT,"
	" at_ns INTEGER NOT NULL, author TEXT, note TEXT) STRICT, WITHOUT ROWID;"
	"CREATE INDEX tag_name ON tag(name, at_ns, digest);"
	"CREATE INDEX tag_run ON tag(run);"
	/* Firings: the row exists before anything starts, and only once. */
	"CREATE TABLE firing (path TEXT NOT NULL, schedule TEXT NOT NULL,"
	" nominal_ns INTEGER NOT NULL, cause INTEGER NOT NULL, state INTEGER NOT NULL,"
	" number INTEGER NOT NULL DEFAULT 0, resumes INTEGER NOT NULL DEFAULT 0,"
	" claimed_ns INTEGER NOT NULL, started_ns INTEGER NOT NULL DEFAULT 0,"
	" ended_ns INTEGER NOT NULL DEFAULT 0, run TEXT, server TEXT, message TEXT,"
	" PRIMARY KEY (path, schedule, nominal_ns)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX firing_state ON firing(state) WHERE state < 3;"
	"CREATE TABLE schedule (path TEXT NOT NULL, name TEXT NOT NULL,"
	" seen_ns INTEGER NOT NULL DEFAULT 0, paused_ns INTEGER NOT NULL DEFAULT 0, rule TEXT,"
	" inputs TEXT, alerted_ns INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (path, name)) STRICT,"
	" WITHOUT ROWID;"
	"CREATE TABLE server (name TEXT PRIMARY KEY, beat_ns INTEGER NOT NULL) STRICT,"
	" WITHOUT ROWID;"
	/* Reproductions: run (the new one) of original. */
	"CREATE TABLE reproduction (run INTEGER PRIMARY KEY REFERENCES run,"
	" original BLOB NOT NULL, mode INTEGER NOT NULL, verdict INTEGER NOT NULL,"
	" report BLOB) STRICT;"
	"CREATE INDEX reproduction_original ON reproduction(original);"
	/* Exports: what a run copied out, and where to; with a message: a failed one. */
	"CREATE TABLE export (run INTEGER NOT NULL REFERENCES run, task TEXT NOT NULL,"
	" output TEXT NOT NULL, uri TEXT NOT NULL, content BLOB NOT NULL, at_ns INTEGER NOT NULL,"
	" message TEXT, PRIMARY KEY (run, task, output)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX export_uri ON export(uri, at_ns);",
	/* 4: attempts on a cluster: why a submitted one doesn't run yet; the image that it ran in,
	 * by digest */
	("ALTER TABLE attempt ADD COLUMN waiting TEXT;"
	 "ALTER TABLE attempt ADD COLUMN image TEXT;"),
	/* 5: firings for several nominal times (from first_ns; 0: only its own), and those that
	 * ended without a server to report them; notices, from the transaction of the change that
	 * they report until they have arrived */
	("ALTER TABLE firing ADD COLUMN first_ns INTEGER NOT NULL DEFAULT 0;"
	 "ALTER TABLE firing ADD COLUMN times INTEGER NOT NULL DEFAULT 1;"
	 "ALTER TABLE firing ADD COLUMN untold INTEGER NOT NULL DEFAULT 0;"
	 "CREATE INDEX firing_untold ON firing(untold) WHERE untold = 1;"
	 "CREATE TABLE notice (id TEXT PRIMARY KEY, kind INTEGER NOT NULL, state INTEGER NOT NULL, "
	 "path TEXT, schedule TEXT, nominal_ns INTEGER NOT NULL,"
	 " event TEXT NOT NULL, receiver TEXT NOT NULL, body TEXT NOT NULL, made_ns INTEGER NOT "
	 "NULL, tries INTEGER NOT NULL DEFAULT 0,"
	 " next_ns INTEGER NOT NULL DEFAULT 0, ended_ns INTEGER NOT NULL DEFAULT 0, server TEXT, "
	 "message TEXT) STRICT, WITHOUT ROWID;"
	 "CREATE INDEX notice_state ON notice(state, made_ns);"),
	/* 6: the sweep that a run is a trial of */
	"ALTER TABLE run ADD COLUMN sweep TEXT;"
	"CREATE INDEX run_sweep ON run(sweep) WHERE sweep IS NOT NULL;",
	/* 7: what an attempt asks people, and the answer */
	"ALTER TABLE attempt ADD COLUMN approval TEXT;"
	"CREATE INDEX attempt_approval ON attempt(run) WHERE approval IS NOT NULL;",
	/* 8: events: the ends of runs in their order, whatever clocks say, from the transaction
	 * that ends the run; up to where a schedule has looked at them; which event fired a firing
	 */
	"CREATE TABLE run_end (seq INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL,"
	" state INTEGER NOT NULL, ended_ns INTEGER NOT NULL) STRICT;"
	"CREATE TRIGGER run_ends AFTER UPDATE OF state ON run WHEN old.state IN (0, 4) AND"
	" new.state IN (1, 2, 3) BEGIN INSERT INTO run_end (run, state, ended_ns) VALUES (new.id,"
	" new.state, new.ended_ns); END;"
	"ALTER TABLE schedule ADD COLUMN seen_end INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE firing ADD COLUMN event TEXT;"
	"CREATE UNIQUE INDEX firing_event ON firing(path, schedule, event) WHERE event IS NOT"
	" NULL;",
	/* 9: who wrote the commit that a run was of */
	"ALTER TABLE run ADD COLUMN git_author TEXT;",
	/* 10: what the plan of a run's results was made from (plan.h) */
	"ALTER TABLE run ADD COLUMN plan_digest BLOB;",
};

#endif

/* record/db.h — the project's database: journal of running runs, index of everything that was.
 *
 * One SQLite file, `.cairn/cairn.db`, WAL. Debian 12's SQLite 3.40.1 can corrupt a WAL when two processes write and checkpoint
 * at the same instant, so every write transaction and every checkpoint holds `.cairn/db.lock`, automatic checkpoints are off
 * and closing doesn't checkpoint. Readers take no lock. On a network file system: rollback journal. The database is an index:
 * what it says of content can be rebuilt from the manifests in the store.
 *
 * A handle belongs to one thread. Errors: ERR_CORRUPT (not a database, or a damaged one: says what to do), ERR_NEWER (written
 * by a newer cairn), ERR_NO_SPACE, ERR_READ_ONLY, ERR_BUSY (the database was replaced by another one, or is
 * held by a program that isn't cairn), ERR_IO. A writer waits for the lock as long as another one has it: transactions hold rows only and are short. A failed transaction is rolled
 * back whole.
 */
#ifndef CAIRN_RECORD_DB_H
#define CAIRN_RECORD_DB_H

#include "base/digest.h"
#include "base/failure.h"
#include "base/mem.h"
#include "base/str.h"

struct db;

enum db_open_flags { DB_READ = 0, DB_WRITE = 1 /* creates and migrates */ };
int db_open(const char *path, enum db_open_flags flags, struct db **ret, struct err *err); /* ":memory:" for tests */
void db_close(struct db *db);
static inline void db_closep(struct db **db)
{
	db_close(*db);
}
/* Write transactions; they don't nest. All record_* functions below that write need one open. */
int db_begin(struct db *db, struct err *err);
/* How much of the file it may keep in memory (64 MiB where nobody says otherwise): for those who hold many handles. */
void db_limit_cache(struct db *db, uint64_t bytes);
bool db_in_transaction(const struct db *db);
int db_commit(struct db *db, struct err *err);	     /* visible to others; survives kill -9 */
int db_commit_durable(struct db *db, struct err *err); /* and power loss */
void db_rollback(struct db *db);

/* Many reads as of one moment: each by itself would lock and unlock the file. Best effort, and nothing inside of a transaction. End it before anything
 * that can take long, like printing: as long as it lasts the WAL can't be emptied. */
void db_snapshot(struct db *db);
void db_snapshot_end(struct db *db);
int db_check(struct db *db, struct err *err); /* integrity_check, foreign keys, application id */

/* --- runs ------------------------------------------------------------------------------------------------------ */

enum run_state { RUN_RUNNING = 0, RUN_SUCCEEDED, RUN_FAILED, RUN_CANCELLED, RUN_INTERRUPTED };
const char *run_state_name(enum run_state s);

struct run_counts {
	uint64_t total, executed, hits, failed, skipped, blocked; /* tasks */
	int64_t saved_ns;					   /* time that the hits took when they were executed */
};

struct run_row {
	int64_t rowid;
	const char *id; /* "digits-7kq2m": pipeline name and five letters, unique in the project */
	const char *pipeline;
	const char *path; /* of the pipeline file, relative to the project root */
	enum run_state state;
	int64_t started_ns, ended_ns; /* wall; ended 0 while it runs */
	bool has_hash;
	struct digest hash;		/* the manifest's digest: the run hash */
	struct content_id pipeline_blob; /* tree with the pipeline file and its step files */
	struct content_id results;	/* results table (record/results.h), when it ended */
	const char *params_json;	/* canonical object of all resolved params */
	const char *options_json;	/* targets, force, keep_going …: what resume needs */
	struct run_counts counts;
	const char *git_commit; /* or NULL */
	bool git_dirty;
	const char *message; /* first error, when it failed; or NULL */
	bool cancel_requested; /* 1 gentle */
	bool cancel_now;
	int32_t pid;	    /* engine process while it runs */
	uint64_t pid_start; /* its start time in ticks */
	const char *host;
	const char *schedule; /* name of the schedule that made it, or NULL */
	int64_t nominal_ns;   /* the time that the schedule meant; 0 without one */
	bool has_reproduces;
	struct digest reproduces; /* the past run that it is a reproduction of */
	const char *git_remote;	  /* without credentials; or NULL */
	uint64_t cache_failures;  /* not on record: what the engine that just ended couldn't write where others find it */
	bool only_store_failed;	  /* not on record: no task failed by itself; content couldn't be brought or kept */
	const char *git_submodules; /* JSON: [{"path", "commit", "dirty"}]; or NULL: none */
};

/* Makes a fresh id from r->pipeline, sets r->id (in arena) and r->rowid. */
int record_run_add(struct db *db, struct run_row *r, struct arena *arena, struct err *err);
/* The same under the id that r->id says (record/reindex); 1 when there is a run of that id already. */
int record_run_insert(struct db *db, struct run_row *r, struct err *err);
int record_run_input(struct db *db, int64_t run, const char *name, const char *origin, const struct content_id *id, struct err *err);
/* state, ended, hash, results, counts, message, pid. */
int record_run_update(struct db *db, const struct run_row *r, struct err *err);
int record_run_set_options(struct db *db, int64_t run, const char *options_json, struct err *err);
int record_run_request_cancel(struct db *db, int64_t run, bool now, struct err *err);
int record_run_forget_cancel(struct db *db, int64_t run, struct err *err); /* it is to go on */

/* --- attempts and lineage ----------------------------------------------------------------------------------------- */

struct attempt_row {
	int64_t id; /* unique in the project; never reused */
	int64_t run;
	const char *task; /* "train[fold=0]" */
	const char *step;
	uint32_t number;
	struct digest key;
	int64_t started_ns, ended_ns; /* ended 0 while it runs */
	enum failure_class failure;
	int32_t exit_status, signo;
	uint64_t max_rss_bytes;
	int64_t cpu_ns;
	struct content_id log;
	const char *node, *message, *workspace; /* NULL when none */
	const char *continues; /* earlier attempts whose checkpoint it went on from: "12 15"; NULL: it began from nothing */
	const char *reason; /* why the task ran: "input data changed: …" (plan/reason) */
	const char *waiting; /* while it hasn't ended: why it doesn't run yet, in words; or NULL */
	const char *image;   /* "registry/name@sha256:…" that its program ran in; NULL: none, or Cairn's own */
};

struct named_content {
	const char *name;
	struct content_id id;
};

/* Allocates a->id. */
int record_attempt_start(struct db *db, struct attempt_row *a, struct err *err);
int record_attempt_end(struct db *db, const struct attempt_row *a, struct err *err);
/* What holds up an attempt that was submitted; NULL: nothing any more. Its end takes it away. */
int record_attempt_waiting(struct db *db, int64_t id, const char *why, struct err *err);
/* The key record's bytes, once per key; for `why`. */
int record_key(struct db *db, const struct digest *key, const void *bytes, size_t n, struct err *err);
/* What an attempt that succeeded (or failed only at its gate) read and made; one observation. Returns 1 when an earlier
 * observation under the same key has other outputs (nondeterminism), else 0. `cacheable`: later runs may take it as a hit. */
int record_result(struct db *db, int64_t attempt, const struct digest *key, bool cacheable, const struct named_content *inputs, size_t n_inputs,
		  const struct named_content *outputs, size_t n_outputs, struct err *err);
struct metric_value {
	const char *name; /* flattened: "val.accuracy" */
	double value;
};
int record_metrics(struct db *db, int64_t attempt, const struct metric_value *m, size_t n, struct err *err);

/* The cacheable result under a key, the first that was observed: what the local index knows; the store's action record is asked
 * when this has none. 1 found, 0 not. Outputs sorted by name, metrics sorted by name, in arena. */
struct cached_result {
	int64_t attempt;
	int64_t duration_ns;
	struct named_content *outputs;
	size_t n_outputs;
	struct metric_value *metrics;
	size_t n_metrics;
};
int record_lookup(struct db *db, const struct digest *key, struct arena *arena, struct cached_result *ret, struct err *err);
int record_forget(struct db *db, const struct digest *key, struct err *err); /* its blobs are gone: not a hit any more */

/* --- reading, for the engine --------------------------------------------------------------------------------------- */

/* Id, run hash, name (record/tags.h), "last" (newest), "last:PIPELINE", or an unambiguous beginning of an id or hash (of the latter at least four
 * digits). ERR_NOT_FOUND / ERR_INVALID when ambiguous (lists them). */
int record_find_run(struct db *db, const char *what, struct arena *arena, struct run_row *ret, struct err *err);
/* The same without beginnings: only what is named in full. 1 found, 0 not; ERR_NOT_FOUND for a name whose run isn't known here. */
int record_find_run_named(struct db *db, const char *what, struct arena *arena, struct run_row *ret, struct err *err);
int record_run_by_hash(struct db *db, const struct digest *hash, struct arena *arena, struct run_row *ret, struct err *err); /* 1 found, 0 not */
int record_running(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n, struct err *err); /* state says running */
/* Where a run's engine is. Of another machine nobody can tell from here. */
enum run_engine { RUN_ENGINE_NONE /* it has ended */, RUN_ENGINE_LIVES, RUN_ENGINE_DIED, RUN_ENGINE_ELSEWHERE };
enum run_engine record_run_engine(const struct run_row *r);
int record_all_runs(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n, struct err *err); /* newest first */
/* Keys under which executions gave different outputs. */
struct nondeterminism_row {
	struct digest key;
	const char *task;
	uint64_t n_results;
};
int record_nondeterminism(struct db *db, struct arena *arena, struct nondeterminism_row **ret, size_t *ret_n, struct err *err);
/* Newest first: those that were interrupted, or say that they run (their engine may be dead). */
int record_resumable(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n, struct err *err);
struct run_input_row {
	const char *name, *origin;
	struct content_id id;
};
int record_run_inputs(struct db *db, int64_t run, struct arena *arena, struct run_input_row **ret, size_t *ret_n, struct err *err);
/* What an attempt read, sorted by name. */
int record_inputs(struct db *db, int64_t attempt, struct arena *arena, struct named_content **ret, size_t *ret_n, struct err *err);
/* Newest run of the pipeline that has a results table; 1 found, 0 none. */
int record_last_results(struct db *db, const char *pipeline, struct arena *arena, struct run_row *ret, struct err *err);
/* Steps of which that run executed tasks whose results no later run may take (cache: false). fn's result other than 0 stops and is returned. */
int record_each_uncached_step(struct db *db, int64_t run, int (*fn)(void *arg, const char *step), void *arg, struct err *err);
/* How each attempt of the run ended, in the order of their ids; `task` is borrowed for the call. fn's result other than 0 stops and is returned. */
struct attempt_end {
	int64_t id, ended_ns;
	const char *task;
	struct digest key;
	enum failure_class failure;
};
int record_each_end(struct db *db, int64_t run, int (*fn)(void *arg, const struct attempt_end *e, struct err *err), void *arg, struct err *err);
int record_run_attempts(struct db *db, int64_t run, struct arena *arena, struct attempt_row **ret, size_t *ret_n, struct err *err);
/* One attempt with its run; 1 found, 0 none. */
int record_attempt(struct db *db, int64_t id, struct arena *arena, struct attempt_row *ret, struct run_row *ret_run, struct err *err);
/* Newest ended attempt of this task of this pipeline before `before_attempt` (0: any), whatever its run; 1 found, 0 none. */
int record_previous_attempt(struct db *db, const char *pipeline, const char *task, int64_t before_attempt, struct arena *arena, struct attempt_row *ret, struct err *err);
int record_key_bytes(struct db *db, const struct digest *key, struct str *ret, struct err *err); /* ERR_NOT_FOUND */
/* Median duration of the last 20 successful attempts of a step; 1 known, 0 not. */
int record_step_duration(struct db *db, const char *pipeline, const char *step, int64_t *ret_ns, struct err *err);
int record_outputs(struct db *db, int64_t attempt, struct arena *arena, struct cached_result *ret, struct err *err);

#endif

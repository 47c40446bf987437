/* engine/record/facts.h — facts about runs, attempts and tasks, and their JSON forms for commands
 * and the HTTP API.
 *
 * JSON values are new and the caller's. Strings live in the arena that is passed, or where the rows
 * have them. Names may hold any bytes, which JSON can't: all text goes through facts_text().
 * Functions with a handle or a store read it, on the threads that may use it; the others are pure.
 */
#ifndef CAIRN_RECORD_FACTS_H
#define CAIRN_RECORD_FACTS_H

#include "base/text/json.h"
#include "model/pipeline.h"
#include "record/manifest/results.h"

json_t *facts_counts(const struct run_counts *c); /* {"total", "executed", "hits", …} */
json_t *facts_time(int64_t wall_ns);              /* ISO 8601 with milliseconds; null for 0 */
json_t *facts_run(const struct run_row *r);       /* documented at `cairn runs --json` */
/* The same with "tags", the run's names. */
json_t *facts_named_run(struct db *db, const struct run_row *r, struct arena *arena);
json_t *facts_text(const char *s); /* null for NULL; any bytes */
/* The reverse, in `arena`: NULL when facts_text() didn't make it, or a C string can't hold it. */
const char *facts_read_text(const char *text, struct arena *arena);
/* A member of `o` made by facts_text(); NULL also when it is missing. */
const char *facts_get_text(const json_t *o, const char *key, struct arena *arena);

/* The trial that a run's options name; false: none. Strings in `arena`. */
bool facts_trial(const char *options_json, struct arena *arena, struct run_trial *ret);
json_t *facts_trial_json(const struct run_trial *t);
bool facts_read_trial(const json_t *j, struct arena *arena, struct run_trial *ret);

/* What fires a schedule, null without `on`: {"pipeline", "state"} or {"webhook"}. */
json_t *facts_event(const struct event_decl *on);

/* A reason with several causes, "param lr changed: 0.1 → 0.2; code changed", as a list of them. */
json_t *facts_causes(const char *reason);

json_t *facts_number(double v); /* null for NaN and infinities, which JSON lacks */

/* True when the run's row says running, but its engine is gone. */
bool facts_engine_died(const struct run_row *r);
/* "running", "succeeded", …, or "died" when the engine is gone. */
const char *facts_state(const struct run_row *r);

/* Documented at `cairn status --json`. */
json_t *facts_attempt(const struct attempt_row *a, bool died);

/* The run's exports, failed ones too: [{"task", "output", "uri", "state": "exported" or "failed",
 * "message" when failed}]. */
int facts_exports(struct db *db, const struct run_row *run, struct arena *arena, json_t **ret,
		  struct err *err);

/* One task of a run with its results. */
struct facts_task {
	const char *task, *step;
	enum result_state state;
	struct digest key;
	int64_t duration_ns;
	struct named_content *outputs;
	size_t n_outputs;
	struct metric_value *metrics;
	size_t n_metrics;
};
void facts_of_entry(const struct results *r, const struct result_entry *e, struct arena *arena,
		    struct facts_task *ret);
/* The execution that made the task's results in this run: its last attempt; for a hit, the one that
 * made the result. 1: known, 0: not. */
int facts_made_by(struct db *db, const struct run_row *run, const struct facts_task *t,
		  struct arena *arena, struct attempt_row *ret, struct err *err);
/* The same for the log. When only another project knows the execution, the store's record is used
 * (s may be NULL), with no more than task, step, key, ended_ns and log. */
int facts_logged_by(struct db *db, struct store *s, const struct run_row *run,
		    const struct facts_task *t, struct arena *arena, struct attempt_row *ret,
		    struct err *err);

const char *facts_result_state(enum result_state s); /* "succeeded", "failed", … */
json_t *facts_id(const struct content_id *id);       /* "sha256:<hex>", or null for none */
/* {"id": "sha256:…", "kind": content_kind_name(), "size"}; null for none */
json_t *facts_content(const struct content_id *id);
json_t *facts_metrics(const struct facts_task *t); /* {NAME: NUMBER|null} */
/* {"task", "step", "state", "key", "duration_ns", "outputs": {NAME: content}, "metrics"} */
json_t *facts_task_json(const struct facts_task *t);
/* Reads tasks from the results table in `s`. For a run without one (then `s` may be NULL), from its
 * attempts that succeeded or failed only at their gate. In `arena`. */
int facts_read_tasks(struct db *db, struct store *s, const struct run_row *run, struct arena *arena,
		     struct facts_task **ret, size_t *ret_n, struct err *err);

#endif

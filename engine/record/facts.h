/* engine/record/facts.h — facts about runs, attempts and tasks, and the JSON shapes in which
 * commands and the HTTP API give them. */
#ifndef CAIRN_RECORD_FACTS_H
#define CAIRN_RECORD_FACTS_H

#include "base/text/json.h"
#include "record/manifest/results.h"

json_t *facts_time(int64_t wall_ns);        /* ISO 8601 with milliseconds; null for 0 */
json_t *facts_run(const struct run_row *r); /* as `cairn runs --json` documents */
/* The same and "tags", the names that it has. */
json_t *facts_named_run(struct db *db, const struct run_row *r, struct arena *arena);
json_t *facts_text(const char *s); /* null for NULL; any bytes */
/* And back, in `arena`: NULL when it isn't what facts_text() gives, or C can't hold it. */
const char *facts_read_text(const char *text, struct arena *arena);
/* A member of `o` that facts_text() gave; NULL also when there is none. */
const char *facts_get_text(const json_t *o, const char *key, struct arena *arena);

json_t *facts_number(double v); /* null for NaN and the infinities, which JSON has not */

/* A run that says it is running, but whose engine is gone. */
bool facts_engine_died(const struct run_row *r);
/* "running", "succeeded", …, or "died" for the above. */
const char *facts_state(const struct run_row *r);

/* As `cairn status --json` documents. */
json_t *facts_attempt(const struct attempt_row *a, bool died);

/* What the run exported or couldn't: [{"task", "output", "uri", "state": "exported" or "failed",
 * "message" where it failed}]. */
int facts_exports(struct db *db, const struct run_row *run, struct arena *arena, json_t **ret,
		  struct err *err);

/* One task of a run with what it gave. */
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
/* The execution that made what the run has of this task: its last attempt in the run; of a hit, the
 * one whose result it was. 1 known, 0 not. */
int facts_made_by(struct db *db, const struct run_row *run, const struct facts_task *t,
		  struct arena *arena, struct attempt_row *ret, struct err *err);
/* The same for its log: of an execution that only another project knows there is what the store has
 * (s: may be NULL), with no more than task, step, key, ended_ns and log. */
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
/* From the results table in `s`; for a run that has none yet (then `s` may be NULL), from its
 * attempts that ended well or failed only at their gate. In `arena`. */
int facts_read_tasks(struct db *db, struct store *s, const struct run_row *run, struct arena *arena,
		     struct facts_task **ret, size_t *ret_n, struct err *err);

#endif

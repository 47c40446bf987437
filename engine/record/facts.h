/* engine/record/facts.h — facts about runs, attempts and tasks, and the JSON shapes in which commands and the HTTP API give them. */
#ifndef CAIRN_RECORD_FACTS_H
#define CAIRN_RECORD_FACTS_H

#include "base/json.h"
#include "record/results.h"

json_t *facts_time(int64_t wall_ns); /* ISO 8601 with milliseconds; null for 0 */
json_t *facts_run(const struct run_row *r); /* as `cairn runs --json` documents */
/* The same and "tags", the names that it has. */
json_t *facts_named_run(struct db *db, const struct run_row *r, struct arena *arena);
json_t *facts_text(const char *s);	     /* null for NULL; any bytes */

/* A run that says it is running, but whose engine is gone. */
bool facts_engine_died(const struct run_row *r);
/* "running", "succeeded", …, or "died" for the above. */
const char *facts_state(const struct run_row *r);

/* "running", "lost" (its engine died), "succeeded" or "failed". */
const char *facts_attempt_state(const struct attempt_row *a, bool died);
int64_t facts_attempt_duration(const struct attempt_row *a); /* so far, when it runs */
json_t *facts_attempt(const struct attempt_row *a, bool died); /* as `cairn status --json` documents */

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
void facts_of_entry(const struct results *r, const struct result_entry *e, struct arena *arena, struct facts_task *ret);
json_t *facts_content(const struct content_id *id); /* {"id": "sha256:…", "kind": content_kind_name(), "size"}; null for none */
json_t *facts_metrics(const struct facts_task *t);  /* {NAME: NUMBER|null} */
json_t *facts_task_json(const struct facts_task *t); /* {"task", "step", "state", "key", "duration_ns", "outputs": {NAME: content}, "metrics"} */
/* From the results table in `s`; for a run that has none yet (then `s` may be NULL), from its attempts that ended well. In `arena`. */
int facts_read_tasks(struct db *db, struct store *s, const struct run_row *run, struct arena *arena, struct facts_task **ret, size_t *ret_n, struct err *err);

#endif

/* engine/run/view/cause.h — why two runs differ: for each task the differences of its key, and for
 * each input that differs the task that made it.
 *
 * A difference begins at a cause that isn't an input: a param, code, a pipeline input, a tool; or
 * at "nondeterminism": the same key gave other bytes. Tasks are explained on demand, each once.
 */
#ifndef CAIRN_RUN_VIEW_CAUSE_H
#define CAIRN_RUN_VIEW_CAUSE_H

#include "base/map.h"
#include "record/facts.h"

enum cause_kind {
	CAUSE_FACT /* a fact of the key */,
	CAUSE_MADE /* an input that a task made */,
	CAUSE_PINNED /* an input of the pipeline */,
	CAUSE_NONDETERMINISM,
	CAUSE_OUTCOME /* one of them failed or was skipped */,
	CAUSE_ABSENT /* only one run has the task */,
	CAUSE_UNKNOWN /* its key record is gone */
};

struct cause {
	enum cause_kind kind;
	const char *what;   /* kind of the fact: "param", "code", "env", "tool", "input", … */
	const char *name;   /* "lr", "train/model" */
	const char *a, *b;  /* values for people, or NULL */
	const char *detail; /* "lib/net.py", first file that differs; or NULL */
	const struct facts_task
		*task; /* CAUSE_MADE: the task that made it, in run a or b; else NULL */
};
struct explanation {
	struct cause *v;
	size_t n;
};

/* One of the two runs. */
struct cause_side {
	struct run_row run;
	struct facts_task *tasks;
	size_t n_tasks;
	struct run_input_row *pins;
	size_t n_pins;
	/* set by causes_open() */
	struct map *by_name;    /* task → struct facts_task */
	struct map *by_content; /* digest → struct producer: the first task with that output */
	struct map *attempts;   /* task → struct attempt_row: its last one in this run */
};
struct causes {
	struct arena *arena;
	struct db *db;
	struct store *store; /* or NULL: trees aren't compared */
	struct cause_side *a, *b;
	struct map *explained; /* task → struct explanation */
};
/* The caller fills in run, tasks and pins of both sides. Call causes_close() even after a
 * failure. */
int causes_open(struct causes *c, struct arena *arena, struct db *db, struct store *store,
		struct cause_side *a, struct cause_side *b, struct err *err);
void causes_close(struct causes *c);

/* One cause as text: "param lr 0.1 → 0.2", "train/model", … */
const char *cause_text(struct arena *arena, const struct cause *c);
/* {"task", "kind", "what", "name", "a", "b", "detail"} */
json_t *cause_json(const char *task, const struct cause *c);
/* Explains a task that at least one run has (the other is NULL): {"task", "differs", "sentence",
 * "causes"}, and the causes themselves. 1: it differs; 0: it doesn't. */
int causes_explain(struct causes *c, const struct facts_task *a, const struct facts_task *b,
		   json_t **ret, const struct explanation **ret_causes, struct err *err);

#endif

/* engine/cli/run/planned.h — a plan as a person sees it; shared by `plan` and `why`. */
#ifndef CAIRN_CLI_RUN_PLANNED_H
#define CAIRN_CLI_RUN_PLANNED_H

#include "cli/render/table.h"
#include "cli/session.h"

struct planned {
	struct cli *cli;
	struct session *s;
	struct plan *plan;
	const struct pipeline *p;
	json_t *tasks; /* --json: the caller takes it; else NULL */
	struct table *table;
	bool all;
	struct str label, reason;
	uint64_t hits, run, waiting, skipped;
	int64_t estimate_ns;
	bool estimate_known;
};

void planned_open(struct planned *pl, struct cli *cli, struct session *s, struct plan *plan,
		  const struct pipeline *p);
void planned_close(struct planned *pl);
const char *planned_word(enum task_state s); /* "hit", "run", "waiting", "skipped", "blocked" */
enum cli_style planned_style(enum task_state s);
/* Writes into pl->reason why the task would run, what it waits for, or why it won't run. */
int planned_reason(struct planned *pl, const struct plan_task *t, struct err *err);
void planned_reason_of_others(const struct planned *pl, const struct plan_task *t, struct str *out);

#endif

/* cli/runs_table.h — `cairn runs` for people, whoever has the runs: this machine's database or a server. */
#ifndef CAIRN_CLI_RUNS_TABLE_H
#define CAIRN_CLI_RUNS_TABLE_H

#include "cli/table.h"

struct runs_line {
	const char *id, *hash; /* as it is shown, or "" */
	const char *state;     /* as facts_state() names it */
	const char *names;     /* tags, or "" */
	const char *message;   /* or NULL */
	int64_t started_ns, took_ns; /* 0: not yet */
	uint64_t executed, hits;
};

struct table *runs_table_new(void);
void runs_table_add(struct table *t, struct cli *cli, const struct runs_line *line);

/* --since and --until: "2d": so long ago; or a date, or a time. *ret stays 0 without text. */
int runs_parse_when(const char *option, const char *text, int64_t *ret, struct err *err);

#endif

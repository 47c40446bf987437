/* engine/cli/past/past.h — shared by commands of past runs and their --server forms: the options of
 * `logs`, its choice of logs, and the times of `runs`. */
#ifndef CAIRN_CLI_PAST_PAST_H
#define CAIRN_CLI_PAST_PAST_H

#include "cli/cli.h"
#include "record/rows/attempts.h"
#include "run/task/log_part.h"

struct logs_options {
	struct log_wanted part; /* --lines, --rank */
	uint64_t attempt;       /* 0: the last */
	bool follow;
};
int logs_options(const struct cli_args *args, struct logs_options *ret, struct err *err);

/* A log of a run: of an attempt, or of a hit. */
struct logged {
	const char *task, *step; /* step: or NULL */
	uint64_t attempt;        /* 0: a hit */
	bool unfinished; /* it runs, was lost, or failed for another reason than a cancellation */
	bool running;
	const void *of; /* for the caller's use */
};
typedef VEC(struct logged) logged_list;

/* Reduces `all` (hits first, attempts in the order of their starts) to the logs to print: those
 * that the operands name, in that order; without operands the unfinished ones, or the run's only
 * task. For each task that is the last one, or the one of `attempt`. ERR_NOT_FOUND when none is
 * left; the message names `run`. */
int logs_choose(const struct cli_args *args, uint64_t attempt, const char *run, logged_list *all,
		struct err *err);
/* Whether to call logs_follow() for the running ones: several are to be followed. */
bool logs_are_followed(const struct logs_options *o, const logged_list *logs);
/* Finds logs that begin later: appends those that are chosen now, with strings in `arena`. 1: more
 * may come; 0: none will. */
struct logs_later {
	int (*look)(void *arg, struct arena *arena, logged_list *ret, struct err *err);
	void *arg;
};
/* Follows all running tasks of the list at once, each line behind the name of its task, until they
 * end; with `later` (or NULL) also those that begin meanwhile. Returns the exit code; errors were
 * printed. */
int logs_follow(struct cli *cli, const struct cli_args *args, const char *run,
		const logged_list *logs, const struct logs_later *later);
/* Prints the line above a log, when there are several. */
void logs_print_head(struct cli *cli, const struct logged *l);

/* Parses --since and --until: "2d" means two days ago; else a date, or a time. *ret stays 0 without
 * text. */
int runs_parse_when(const char *option, const char *text, int64_t *ret, struct err *err);

#endif

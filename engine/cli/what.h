/* engine/cli/what.h — what a user means by WHAT: one grammar for get, lineage, diff, tag, export.
 *
 *	RUN                      id, run hash or its beginning, tag name, last, last:PIPELINE
 *	RUN/TASK  RUN:TASK       a task (or step) of that run; without RUN: of --run, or the newest
 *	RUN/TASK/OUTPUT  RUN/TASK.OUTPUT  TASK/OUTPUT …   content that it made; OUTPUT may be left
 *	                 out when there is only one
 *	RUN/TASK@log  @code      its log; the tree of its code
 *	RUN@input.NAME           an input of the pipeline as that run pinned it
 *	RUN@metric.NAME  TASK@metric.NAME   a metric
 *	sha256:HEX…              content, by at least eight digits
 *	./PATH                   a file or directory on disk (anything that exists, where the
 *	                         command allows it)
 *
 * A full name wins over the beginning of another: the step `train` isn't hidden by a run of the
 * pipeline `training`. RUN:OUTPUT works too, when one task of that run has an output of that name:
 * fashion/best:model.
 */
#ifndef CAIRN_CLI_WHAT_H
#define CAIRN_CLI_WHAT_H

#include "cli/named.h"

/* WHAT_STEP: an output of each task of a step that has several; where it isn't allowed, the user
 * is asked to name the task. */
enum what_kind {
	WHAT_RUN = 1,
	WHAT_TASK = 2,
	WHAT_CONTENT = 4,
	WHAT_METRIC = 8,
	WHAT_FILE = 16,
	WHAT_STEP = 32,
};

struct what {
	enum what_kind kind;
	bool has_run;
	struct run_row run;
	/* WHAT_TASK; WHAT_CONTENT and WHAT_METRIC when they were named by one; else NULL. */
	const struct facts_task *task;
	struct content_id id;             /* WHAT_CONTENT; WHAT_FILE: of its bytes */
	const char *name;                 /* what a copy would be called: "model", "train.log" */
	const struct named_output *parts; /* WHAT_STEP: of each task that has the output */
	size_t n_parts, n_tasks;          /* n_tasks: of the step */
	const char *metric;               /* WHAT_METRIC: flattened name */
	double value;
};

/* Opens the database for `text`, which may mean a run that only the store knows (a run hash or its
 * beginning, with a task or output behind it). Such a run is imported into the database first, so
 * that every command finds it. Opens it as cli_db(DB_READ), or for writing when a run was imported.
 * text may be NULL. */
int what_db(struct cli *cli, const char *text, struct db **ret, struct err *err);

/* Finds what `text` means. `allowed`: kinds that make sense to the caller, or'ed. Of several
 * meanings the first wins: a path that begins with ./, ../ or /; a run named in full, alone or with
 * something behind it; something of `run` or the newest run; a content id; the beginning of a run's
 * name; any other path. Within a run a task comes before an output. `run`: the value of --run, or
 * NULL. ERR_NOT_FOUND names the allowed kinds; ERR_INVALID names two when several match. In
 * cli->arena. */
int what_find(struct cli *cli, struct db *db, const char *text, unsigned allowed, const char *run,
	      struct what *ret, struct err *err);

/* The log of a task of that run: of its last attempt there. For a hit, the log of the attempt that
 * made the result. ERR_NOT_FOUND when none is on record. */
int what_task_log(struct cli *cli, struct db *db, const struct run_row *run,
		  const struct facts_task *t, struct content_id *ret, struct err *err);

#endif

/* engine/run/view/live.h — what a running engine knows of its tasks, for other processes to read.
 *
 * The database has attempts only: a million hits write no row. So the engine of a run that takes
 * longer than a moment also keeps a file, `live/RUN` in the state directory, with every task of its
 * plan and the task's state. It is replaced as a whole, now and then while something changes. It
 * is a hint for people and decides nothing: attempts in the database are newer. When the run has
 * its results table, the file is removed; an interrupted or cancelled run keeps it until some
 * dozens of newer ones are there.
 *
 * The writer is the loop's thread of the engine. Readers may be anybody; the file is hostile.
 */
#ifndef CAIRN_RUN_VIEW_LIVE_H
#define CAIRN_RUN_VIEW_LIVE_H

#include "base/crypto/digest.h"
#include "base/map.h"
#include "record/rows/runs.h"

/* A run with more tasks has only its steps in the file. */
#define LIVE_TASKS_MAX 100000

/* States of a task, as letters of the file. */
enum live_state {
	LIVE_WAITING = 'w', /* for what it needs */
	LIVE_READY = 'r',
	LIVE_TAKEN = 't',  /* it begins, or runs */
	LIVE_BEHIND = 'k', /* behind a task with the same key */
	LIVE_LINE = 'l',   /* for a place in its concurrency group */
	LIVE_ROOM = 'm',   /* until others of the run have ended */
	LIVE_ELSEWHERE =
		'e',      /* another engine executes its key, or its environment is being made */
	LIVE_RETRY = 'y', /* it failed and waits for its retry */
	LIVE_HIT = 'h',
	LIVE_DONE = 'd',
	LIVE_FAILED = 'f',
	LIVE_SKIPPED = 's',
	LIVE_BLOCKED = 'b',
	LIVE_CANCELLED = 'c',
};

struct live_task {
	const char *name;
	enum live_state state;
	int64_t attempt, duration_ns; /* of the execution behind a hit; attempt 0: unknown */
	struct digest key;            /* all zero: not known yet */
};
struct live_step {
	const char *name;
	bool expanded;  /* false: its tasks aren't known yet */
	uint64_t total; /* tasks; those in the list may be fewer */
	struct live_task *tasks;
	size_t n_tasks;
};
struct live_head {
	struct run_counts counts;
	int64_t expected_end_ns; /* wall, from past runs; 0: unknown */
};
struct live {
	struct live_head head;
	struct live_step *steps; /* in the pipeline's order */
	size_t n_steps;
};

/* 1 read, in `arena`; 0: there is no such file, or no usable one. */
int live_read(const char *state_dir, const char *run, struct arena *arena, struct live *ret);
/* Reads only the beginning. */
int live_read_head(const char *state_dir, const char *run, struct live_head *ret);

/* The writing side: called by the run. */
struct run;
void live_changed(struct run *r); /* something happened: the file will be replaced soon */
void live_end(struct run *r);     /* writes it a last time, or removes it; NULL plan is fine */

#endif

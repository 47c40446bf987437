/* engine/cli/progress/progress.h — what a person sees while a run goes on, and at its end.
 *
 * Implements struct run_observer (run/run.h). Two forms. Live, on a terminal: lines that scroll
 * above (failures with the end of their log, notices), and below them a block that is redrawn in
 * place at most ten times a second: one line per running task with its time, last metric and last
 * line of output, and a bar with counts and what is left. Plain, anywhere else: a line per event
 * that matters; hits are only counted. Verbose (-v): a line per task, also one that isn't executed,
 * and all output of tasks on this machine. Quiet (-q): failures and the last line.
 *
 * The display doesn't know its surroundings: it writes to a FILE and gets its time from a clock, so
 * that tests feed events and compare frames. An event costs O(1); only frames cost more.
 */
#ifndef CAIRN_CLI_PROGRESS_PROGRESS_H
#define CAIRN_CLI_PROGRESS_PROGRESS_H

#include "cli/cli.h"
#include "run/run.h"

struct progress_options {
	FILE *out;     /* everything during the run */
	FILE *summary; /* the end; NULL: none (--json) */
	/* --json: failures and notices go there, and nothing is written; or NULL. */
	void (*finding)(void *arg, enum diag_severity severity, const char *text);
	void *arg;
	bool color_summary;
	struct clock *clock;
	bool live, color, utf8;
	int verbosity;
	/* Of tasks on this machine, whose output is followed; NULL: none is. */
	const char *state_dir;
	struct store *store;     /* has the logs of attempts that have ended */
	unsigned columns, lines; /* 0: ask the terminal, again after every SIGWINCH */
};

struct progress;
struct progress *progress_new(const struct progress_options *o);
/* Takes the command's streams: cli->err, live when it is a terminal (and not -q); the end goes to
 * cli->out. With --json nothing is shown; failures and notices become findings. */
struct progress *progress_for(struct cli *cli, struct clock *clock);
void progress_free(struct progress *p); /* NULL is fine; restores the terminal */

/* For run_context.observer; valid as long as p. */
const struct run_observer *progress_observer(struct progress *p);
/* Follows the output of tasks on this machine (progress_options). Call it before the run starts. */
void progress_follow(struct progress *p, const char *state_dir, struct store *store);
/* Starts the timer that redraws, and watches SIGWINCH. The block appears once there is something to
 * show. */
int progress_attach(struct progress *p, struct loop *loop, struct err *err);
void progress_detach(struct progress *p);

/* The last metric line that a running task reported: "loss=0.31". */
void progress_metric(struct progress *p, uint64_t attempt, const char *name, double value);
/* Writes only lines from now on: another program uses the terminal (`run --shell`). */
void progress_plain(struct progress *p);
/* The run's tasks have metrics: its end names the command that shows them. */
void progress_has_metrics(struct progress *p);
/* Its end names the command that fetches this output ("train/model", borrowed; NULL: none). */
void progress_has_result(struct progress *p, const char *output);
/* Draws if something changed and the last frame is at least 100 ms old (the timer calls it). With
 * `now`, draws whatever the frame's age. */
void progress_draw(struct progress *p, bool now);

/* Removes the block and prints the end: counts, time, time saved, run id and hash, what to type
 * next. observer.ended calls it. */
void progress_finish(struct progress *p, const struct run_row *run);

#endif

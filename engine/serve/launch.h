/* serve/launch.h — runs as processes of their own: `cairn run …`, started, watched, asked to stop.
 *
 * A run that crashes, leaks or is killed takes nothing with it; the daemon stays small for months.
 * A run outlives the daemon: after kill -9 it goes on, and the database says so to the next one.
 * What it prints goes to .cairn/serve/NAME.log, its facts (`--json`) to NAME.json; the newest
 * LAUNCH_KEPT of them are kept, and a log that grows over LAUNCH_LOG_MAX is emptied.
 *
 * The loop's thread, where it doesn't say otherwise.
 */
#ifndef CAIRN_SERVE_LAUNCH_H
#define CAIRN_SERVE_LAUNCH_H

#include "base/os/loop.h"
#include "base/text/json.h"
#include "serve/project/project.h"

#define LAUNCH_KEPT    200
#define LAUNCH_LOG_MAX (4 * MIB)

struct launches;
struct launch;

struct launch_end {
	const char *name;
	int exit;          /* status, or -1 */
	int signo;         /* that ended it, or 0 */
	const char *run;   /* id, or NULL when no run came of it */
	const char *state; /* of the run, as `cairn runs` says it; or NULL */
	/* When it told of no run: the last line that it printed, and what killed it; or NULL. */
	const char *problem;
};
typedef void (*launch_end_fn)(void *arg, const struct launch_end *end);

int launches_new(struct loop *l, struct launches **ret, struct err *err);
void launches_free(struct launches *v); /* NULL is fine; leaves the processes alone */

struct launch_options {
	struct project *project;
	const char *what;        /* for its name, such as a schedule's */
	const char *const *args; /* what stands behind `cairn`, NULL-terminated, without -C */
	launch_end_fn on_end;    /* called once, later; or NULL */
	void *arg;
};
int launch_start(struct launches *v, const struct launch_options *o, struct launch **ret,
		 struct err *err);
const char *launch_name(const struct launch *l);
/* Once: stop in order; twice: at once. Its run stays resumable. */
void launch_stop(struct launch *l);

/* From now on runs die with this process, for a server that must be the only one. Before the first
 * run. */
void launches_leash(struct launches *v);
size_t launches_running(struct launches *v); /* any thread */
/* Kills the runs of `p` as a crash would: what they started elsewhere goes on. NULL: all runs, and
 * none is started afterwards. Any thread. */
void launches_kill(struct launches *v, const struct project *p);
void launches_stop_all(struct launches *v);

/* What is known of a launch by its name, an object: {"launch", "project", "state":
 * "running"|"ended", "pid", "started", "ended", "exit", "run", "run_state", "problem"}; NULL when
 * it is unknown or long gone. Any thread. */
json_t *launches_find(struct launches *v, const struct project *p, const char *name);

#endif

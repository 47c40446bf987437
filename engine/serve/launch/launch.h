/* engine/serve/launch/launch.h — starts runs as processes of their own, `cairn run …`, watches and
 * stops them.
 *
 * A run that crashes, leaks or is killed takes nothing with it; the daemon stays small for months.
 * A run outlives the daemon: after kill -9 it goes on, and the next daemon finds it in the
 * database. Its error output goes to .cairn/serve/NAME.log, its facts (`--json`) to NAME.json. The
 * newest LAUNCH_KEPT of them are kept, and a log that grows over LAUNCH_LOG_MAX is emptied.
 *
 * The loop's thread, except where a function says otherwise.
 */
#ifndef CAIRN_SERVE_LAUNCH_LAUNCH_H
#define CAIRN_SERVE_LAUNCH_LAUNCH_H

#include "base/os/loop.h"
#include "base/text/json.h"
#include "serve/project/project.h"

#define LAUNCH_KEPT    200
#define LAUNCH_LOG_MAX (4 * MIB)

struct launches;
struct launch;

struct launch_end {
	const char *name;
	int exit;          /* exit status, or -1 */
	int signo;         /* signal that ended it, or 0 */
	const char *run;   /* id, or NULL when it made no run */
	const char *state; /* of the run, as `cairn runs` shows it; or NULL */
	/* When there is no run: the last line of output, and the signal that killed it; or NULL. */
	const char *problem;
};
typedef void (*launch_end_fn)(void *arg, const struct launch_end *end);

int launches_new(struct loop *l, struct launches **ret, struct err *err);
void launches_free(struct launches *v); /* NULL is fine; leaves the processes alone */

struct launch_options {
	struct project *project;
	const char *what;        /* part of the launch's name, such as a schedule's name */
	const char *const *args; /* the words after `cairn`, NULL-terminated, without -C */
	launch_end_fn on_end;    /* called once, later; or NULL */
	void *arg;
};
int launch_start(struct launches *v, const struct launch_options *o, struct launch **ret,
		 struct err *err);
const char *launch_name(const struct launch *l);
/* First call: stop in order; second: at once. The run stays resumable. */
void launch_stop(struct launch *l);

/* From now on runs die with this process, for a server that must be the only one. Call it before
 * the first run. */
void launches_end_with_server(struct launches *v);
size_t launches_running(struct launches *v); /* any thread */
/* Kills the runs of `p` as a crash would: their remote tasks go on. NULL: kills all runs, and
 * starts no more. Any thread. */
void launches_kill(struct launches *v, const struct project *p);
void launches_stop_all(struct launches *v);

/* Finds a launch by name. Returns an object: {"launch", "project", "state": "running"|"ended",
 * "pid", "started", "ended", "exit", "run", "run_state", "problem"}; NULL when it is unknown or
 * long gone. Any thread. */
json_t *launches_find(struct launches *v, const struct project *p, const char *name);

/* The process of a launch that goes on, by which its run is found in the database; 0: it has ended
 * or is unknown. Any thread. */
pid_t launches_pid(struct launches *v, const struct project *p, const char *name);

/* What it printed so far, with `--json` its facts. `name` is one that launches_find() knows. Any
 * thread. */
int launch_output(const struct project *p, const char *name, uint64_t max_bytes, struct str *ret,
		  struct err *err);

#endif

/* serve/schedule/scheduler.h — fires the schedules of several projects, each firing once, whatever
 * stops or doubles the server.
 *
 * The owner (the daemon, a test) gives a loop and a table of functions; the scheduler asks it to
 * start and stop runs and to tell people. It keeps all that matters in each project's database
 * (record/rows/firings.h): a row is committed before start() is called, and everything in memory
 * can be lost at any moment. On the next scheduler_add_project() what was left open is taken up: a
 * firing that never started is started; one whose run exists and is running elsewhere is followed;
 * one whose run was interrupted is started again with firing.run set, which means `cairn resume`.
 *
 * What a schedule does:
 * - Nominal times come from serve/schedule/calendar.h: cron rule, time zone, what `dst` says,
 * [start, end). A firing is due at its nominal time plus its jitter, which is the same for the same
 * nominal time and ends where the next nominal time begins.
 * - Due times are looked at on the wall clock, at least every 30 seconds: a clock that was set or a
 * machine that slept shows then. Of several due at once the newest is on time if it is at most 60
 * seconds late; all else was missed, and `catch_up` says what becomes of it: `none`: nothing;
 * `latest`: only the newest of all is run; `all`: each, oldest first, the newest 1,000 of them.
 * Only nominal times within `catch_up_window` (default 7 days) count.
 * - Every nominal time has a row, or one that counts it: what was not run is MISSED, in one row for
 * each reason and absence (firing.times, first_ns). A pause is the exception: it makes nothing.
 * - A clock that goes back makes nothing fire twice: the rows are there. It stops nothing either:
 * whatever comes "in n seconds" waits on the monotonic clock.
 * - overlap, when an earlier firing is still open: `allow` starts, `skip` notes it as SKIPPED,
 * `queue` waits its turn, `replace` cancels the running one and drops those that wait. Caught-up
 * and backfilled firings wait their turn unless `allow`; triggers by hand do the same. Firings that
 * are made up for together wait for each other: for the newest of them, `skip` and `replace` look
 * only at what was open before.
 * - A pause makes nothing; its end leaves no backlog. Both are rows, so that the command line and
 * the API do the same.
 * - A run that fails is tried again `retry.max` times; the firing stays open meanwhile. A cancelled
 * run ends its firing.
 * - alert_after: no firing of this or a later nominal time has succeeded so long after a nominal
 * time: MISSED is told, once for that time.
 * - A schedule is known by (pipeline path, name). One whose rule was changed begins at the time of
 * the change.
 *
 * Pipeline files are looked at every few seconds and loaded again when they, or their step files,
 * change. A broken edit keeps the old schedules and tells RELOAD_BROKEN once; the next good one
 * tells RELOAD_OK.
 *
 * One thread: the loop's. Several schedulers, in one process or many, may serve one project.
 */
#ifndef CAIRN_SERVE_SCHEDULE_SCHEDULER_H
#define CAIRN_SERVE_SCHEDULE_SCHEDULER_H

#include "base/os/loop.h"
#include "model/pipeline.h"
#include "record/rows/firings.h"

struct scheduler;
struct scheduler_project;

/* What a call is about. Borrowed for the call; `decl` is NULL when it is about a file, or the file
 * has no such schedule any more; `pipeline`, the last good one of the file, while there was none.
 */
struct scheduled {
	struct scheduler_project *project;
	const struct pipeline *pipeline;
	const struct schedule_decl *decl;
	struct firing firing; /* for alerts about a whole schedule or file only path (and schedule)
				 are set */
};

enum schedule_alert {
	SCHEDULE_ALERT_FAILED,    /* a run failed and no retry is left, or it couldn't be started */
	SCHEDULE_ALERT_RECOVERED, /* succeeded after FAILED or MISSED */
	SCHEDULE_ALERT_SUCCEEDED, /* any other success: for `on: success` and metric rules;
				     firing.run names the run */
	SCHEDULE_ALERT_MISSED,    /* alert_after went by */
	SCHEDULE_ALERT_RELOAD_BROKEN, /* text: every diagnostic, a line each */
	SCHEDULE_ALERT_RELOAD_OK,
	SCHEDULE_ALERT_TROUBLE, /* the database can't be used: nothing fires until it can; told once
				 */
};

struct scheduler_ops {
	/* Begin `cairn run PATH --schedule NAME@TIME` in the project, or `cairn resume firing.run`
	 * when that is set. 0: begun, and scheduler_run_ended() will be called; -1: it can't be,
	 * which counts as a failed run. Not called inside of a transaction. */
	int (*start)(void *arg, const struct scheduled *f, struct err *err);
	/* Ask one that was begun here to stop (overlap: replace). scheduler_run_ended() is still
	 * called. */
	void (*stop)(void *arg, const struct scheduled *f);
	/* Write down who is to be told, in the transaction in which it happened (it is open):
	 * FAILED, RECOVERED, SUCCEEDED, MISSED. -1 rolls it back, and it is done again. May be
	 * NULL. scheduler_alert() follows when it is committed. */
	int (*tell)(void *arg, enum schedule_alert kind, const struct scheduled *f,
		    const char *text, struct err *err);
	void (*alert)(void *arg, enum schedule_alert kind, const struct scheduled *f,
		      const char *text);
	/* Anything to log, a line: fired, skipped, taken up, loaded. May be NULL. */
	void (*note)(void *arg, const struct scheduled *f, const char *text);
};

struct scheduler_options {
	const char *server; /* NULL: server_name_self() */
	/* Is this one of the servers that live? NULL: record_server_lives(). For tests, whose
	 * servers are no processes. */
	bool (*server_lives)(void *arg, const char *server);
	unsigned max_runs; /* at once, over all projects; 0: no limit. The others wait */
	int64_t poll_ns;   /* how often rows that others made and files are looked at; 0: 2 s */
};

int scheduler_new(struct loop *l, const struct scheduler_ops *ops, void *arg,
		  const struct scheduler_options *o, struct scheduler **ret, struct err *err);
/* Forgets everything, writes nothing: what a crash does. NULL is fine. Projects go with it. */
void scheduler_free(struct scheduler *s);

/* A project's root (absolute) and its open database (DB_WRITE), which stays the owner's and must
 * outlive the scheduler. Takes up what was left open there. cache_dir as in pipeline_load_options.
 * `owner` is for the owner. */
int scheduler_add_project(struct scheduler *s, const char *root, const char *cache_dir,
			  struct db *db, void *owner, struct scheduler_project **ret,
			  struct err *err);
void *scheduler_project_owner(const struct scheduler_project *p);

/* Loads a pipeline file (relative to the root) and watches it from now on. 1: it can't be loaded
 * now (told by an alert with every diagnostic); it is tried again when it changes. -1: the database
 * can't be used. */
int scheduler_add_pipeline(struct scheduler_project *p, const char *path, struct err *err);
/* No longer: its schedules don't fire any more; what runs is followed to its end. */
void scheduler_drop_pipeline(struct scheduler_project *p, const char *path);
/* Looks at every file now (SIGHUP), also at those that look unchanged. Returns how many couldn't be
 * loaded. */
int scheduler_reload(struct scheduler *s);

/* What start() began has ended, or was never more than begun: the database says how the run ended.
 * `problem`: why there is no run, for the row's message (NULL: "it began no run"). Unknown
 * firings are ignored. */
void scheduler_run_ended(struct scheduler *s, struct scheduler_project *p, const char *path,
			 const char *schedule, int64_t nominal_ns, const char *problem);

/* A firing by hand, now. Its nominal time is now. ERR_NOT_FOUND for an unknown schedule, with the
 * nearest name. */
int scheduler_trigger(struct scheduler_project *p, const char *path, const char *schedule,
		      int64_t *ret_nominal_ns, struct err *err);
/* ERR_NOT_FOUND likewise. Idempotent. */
int scheduler_pause(struct scheduler_project *p, const char *path, const char *schedule,
		    bool paused, struct err *err);

/* Begins nothing any more and gives what waits back to other servers; what runs is followed. */
void scheduler_drain(struct scheduler *s);

/* For listing. */

struct schedule_facts {
	const struct scheduler_project *project;
	const char *path;
	const struct pipeline *pipeline;
	const struct schedule_decl *decl;
	int64_t next_ns;     /* nominal; 0: none (paused, ended, only on_change) */
	int64_t next_due_ns; /* with jitter */
	int64_t paused_ns;
	unsigned open; /* firings that wait, run or are tried again */
	bool broken;   /* its file can't be loaded at present: these are the old rules */
};
/* Every schedule, projects and files in the order in which they were added. Borrowed until the next
 * call into the scheduler. */
void scheduler_each(struct scheduler *s, void (*fn)(void *arg, const struct schedule_facts *f),
		    void *arg);

struct scheduler_counts { /* since scheduler_new(), for metrics */
	uint64_t fired, started, succeeded, failed, skipped, missed, retried, taken_up, alerts,
		reloads, reloads_broken;
	uint64_t schedules, open, running;
	int64_t lag_ns; /* how late the last due firing was handled */
};
struct scheduler_counts scheduler_counts(const struct scheduler *s);

#endif

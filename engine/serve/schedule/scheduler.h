/* engine/serve/schedule/scheduler.h — fires the schedules of several projects. Each firing happens
 * once, even when the server stops or several servers run.
 *
 * The owner (the daemon, a test) passes a loop and a table of functions, through which the
 * scheduler starts and stops runs and reports. It keeps all that matters in each project's database
 * (record/rows/firings.h): a row is committed before start() is called, and everything in memory
 * can be lost at any moment. The next scheduler_add_project() takes up open firings: one that never
 * started is started; one whose run is running elsewhere is followed; one whose run was interrupted
 * is started again with firing.run set, which means `cairn resume`.
 *
 * What a schedule does:
 * - Nominal times come from serve/schedule/calendar.h: cron rule, time zone, `dst`, [start, end). A
 * firing is due at its nominal time plus its jitter, which is the same for the same nominal time
 * and ends where the next nominal time begins.
 * - Due times are compared with the wall clock at least every 30 seconds, so a clock that was set
 * or a machine that slept is noticed then. Of several due at once the newest is on time if it is at
 * most 60 seconds late. The others were missed, and `catch_up` decides about them: `none`: nothing
 * runs; `latest`: only the newest of all runs; `all`: each runs, oldest first, the newest 1,000 of
 * them. Only nominal times within `catch_up_window` (default 7 days) count.
 * - Every nominal time has a row, or is counted by one: times that were not run are MISSED, in one
 * row for each reason and absence (firing.times, first_ns). Times during a pause are the exception:
 * they have no row.
 * - A clock that goes back makes nothing fire twice, because the rows exist. Nor does it block
 * anything: delays in seconds run on the monotonic clock.
 * - overlap, when an earlier firing is still open: `allow` starts, `skip` records it as SKIPPED,
 * `queue` waits its turn, `replace` cancels the running one and drops those that wait. Caught-up
 * and backfilled firings and triggers by hand wait their turn unless `allow`. Firings that are
 * caught up together wait for each other: for the newest of them, `skip` and `replace` look only at
 * firings that were open before.
 * - Events (`on`) fire without a calendar. The end of a run is a row of its own in the transaction
 * that ends the run (record/rows/firings.h), whoever ran it. Each poll looks at those rows that a
 * schedule hasn't seen; `catch_up` decides about ends that are older than 60 seconds as about
 * missed times. A delivery to a webhook is a firing before it is answered. (path, schedule, event)
 * is unique, so an event never fires twice.
 * - A pause makes no firings; its end leaves no backlog. Both are rows, so that the command line
 * and the API do the same.
 * - A run that fails is retried `retry.max` times; the firing stays open meanwhile. A cancelled run
 * ends its firing.
 * - alert_after: MISSED is reported when, this long after a nominal time, no firing of this or a
 * later nominal time has succeeded; once for that time.
 * - A schedule is identified by (pipeline path, name). When its rule changes, it begins at the time
 * of the change.
 *
 * Pipeline files are checked every few seconds and loaded again when they, or their step files,
 * change. A broken edit keeps the old schedules and reports RELOAD_BROKEN once; the next good one
 * reports RELOAD_OK. What a file uses from elsewhere is brought by another process; meanwhile the
 * old schedules stay, and nothing is reported.
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

/* The subject of a call, borrowed for the call. `decl` is NULL when it is about a file, or when the
 * file no longer has this schedule. `pipeline` is the file's last good one; NULL: never loaded. */
struct scheduled {
	struct scheduler_project *project;
	const struct pipeline *pipeline;
	const struct schedule_decl *decl;
	/* Alerts about a whole schedule or file set only path (and schedule). */
	struct firing firing;
};

enum schedule_alert {
	SCHEDULE_ALERT_FAILED,    /* a run failed without a retry left, or couldn't start */
	SCHEDULE_ALERT_RECOVERED, /* succeeded after FAILED or MISSED */
	/* Any other success: for `on: success` and metric rules; firing.run names the run. */
	SCHEDULE_ALERT_SUCCEEDED,
	SCHEDULE_ALERT_MISSED,        /* alert_after has passed */
	SCHEDULE_ALERT_RELOAD_BROKEN, /* text: every diagnostic, a line each */
	SCHEDULE_ALERT_RELOAD_OK,
	SCHEDULE_ALERT_TROUBLE, /* the database can't be used, so nothing fires; reported once */
};

struct scheduler_ops {
	/* Starts `cairn run PATH --schedule NAME@TIME` in the project, or `cairn resume firing.run`
	 * when that is set. 0: started, and scheduler_run_ended() will be called; -1: it can't
	 * start, which counts as a failed run. Never called inside a transaction. */
	int (*start)(void *arg, const struct scheduled *f, struct err *err);
	/* Asks a run that start() started to stop (overlap: replace). scheduler_run_ended() is
	 * still called. */
	void (*stop)(void *arg, const struct scheduled *f);
	/* Starts a command that reads PATH in the project, which brings what the file's steps use
	 * from elsewhere (model/external.h). 0: started, and scheduler_brought() will be called.
	 * NULL: such a file is broken until somebody brings it. */
	int (*bring)(void *arg, const struct scheduled *f, struct err *err);
	/* Writes notices for FAILED, RECOVERED, SUCCEEDED, MISSED, in the open transaction of the
	 * change. -1 rolls it back, and it is done again. May be NULL. alert() follows the
	 * commit. */
	int (*tell)(void *arg, enum schedule_alert kind, const struct scheduled *f,
		    const char *text, struct err *err);
	void (*alert)(void *arg, enum schedule_alert kind, const struct scheduled *f,
		      const char *text);
	/* A line to log: fired, skipped, taken up, loaded. May be NULL. */
	void (*note)(void *arg, const struct scheduled *f, const char *text);
};

struct scheduler_options {
	const char *server; /* NULL: server_name_self() */
	/* Whether this server is alive; NULL: record_server_lives(). For tests, whose servers are
	 * no processes. */
	bool (*server_lives)(void *arg, const char *server);
	unsigned max_runs; /* at once, over all projects; 0: no limit. The others wait */
	int64_t poll_ns;   /* how often to look at files and at rows that others made; 0: 2 s */
};

int scheduler_new(struct loop *l, const struct scheduler_ops *ops, void *arg,
		  const struct scheduler_options *o, struct scheduler **ret, struct err *err);
/* Frees everything and writes nothing, like a crash. NULL is fine. Frees its projects too. */
void scheduler_free(struct scheduler *s);

/* Adds a project: its root (absolute) and its open database (DB_WRITE), which stays the owner's and
 * must outlive the scheduler. Takes up open firings. cache_dir as in pipeline_load_options. `owner`
 * is for the owner. */
int scheduler_add_project(struct scheduler *s, const char *root, const char *cache_dir,
			  struct db *db, void *owner, struct scheduler_project **ret,
			  struct err *err);
/* Where its pipelines find what they use from elsewhere (pipeline_load_options.uses_dir). The
 * scheduler fetches nothing: its loop doesn't wait for other machines. */
void scheduler_project_uses(struct scheduler_project *p, const char *uses_dir);
void *scheduler_project_owner(const struct scheduler_project *p);

/* Loads a pipeline file (relative to the root) and watches it. 1: it can't be loaded now (an alert
 * has every diagnostic); it is tried again when it changes. -1: the database can't be used. */
int scheduler_add_pipeline(struct scheduler_project *p, const char *path, struct err *err);
/* Stops watching: its schedules don't fire any more; running firings are followed to their end. */
void scheduler_drop_pipeline(struct scheduler_project *p, const char *path);
/* Checks every file now (SIGHUP), even if it looks unchanged. Returns how many failed. */
int scheduler_reload(struct scheduler *s);

/* Reports the end of what start() started. The database says how the run ended. `problem`: why
 * there is no run, for the row's message (NULL: "it began no run"). Unknown firings are ignored. */
void scheduler_run_ended(struct scheduler *s, struct scheduler_project *p, const char *path,
			 const char *schedule, int64_t nominal_ns, const char *problem);

/* Reports the end of what bring() started, and loads the file. `problem`: NULL, or its error. */
void scheduler_brought(struct scheduler_project *p, const char *path, const char *problem);

/* Fires by hand; the nominal time is now. ERR_NOT_FOUND for an unknown schedule, with the nearest
 * name. */
int scheduler_trigger(struct scheduler_project *p, const char *path, const char *schedule,
		      int64_t *ret_nominal_ns, struct err *err);
/* Makes every past nominal time of the range, both ends included, wait that hasn't succeeded and
 * isn't under way; *ret in `arena`: these times, ascending. With dry_run nothing is written.
 * ERR_TOO_LARGE: the range has more than a thousand times. */
struct scheduler_range {
	int64_t from_ns, to_ns;
	bool dry_run;
};
int scheduler_backfill(struct scheduler_project *p, const char *path, const char *schedule,
		       const struct scheduler_range *range, struct arena *arena, int64_t **ret,
		       size_t *ret_n, struct err *err);
/* Fires for a delivery to the schedule's webhook, once: a delivery that came before only gives its
 * firing. The row is on disk when this returns. ERR_BUSY: the schedule is paused. */
int scheduler_deliver(struct scheduler_project *p, const char *path, const char *schedule,
		      const char *delivery, struct arena *arena, struct firing *ret,
		      struct err *err);
/* Pauses or resumes a schedule. ERR_NOT_FOUND as above. Idempotent. */
int scheduler_pause(struct scheduler_project *p, const char *path, const char *schedule,
		    bool paused, struct err *err);
/* Takes over pauses that others wrote, such as `cairn schedule pause`. Costs little while nobody
 * else has written to the database: call it before a listing that must be true now. */
void scheduler_see_pauses(struct scheduler_project *p);

/* Starts nothing more and gives waiting firings back to others; running ones are followed. */
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
	unsigned open; /* firings that wait, run or will be retried */
	bool broken;   /* its file can't be loaded now: these are the old rules */
};
/* Calls fn for every schedule; projects and files in the order in which they were added. Facts are
 * borrowed until the next call into the scheduler. */
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

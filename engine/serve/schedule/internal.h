/* engine/serve/schedule/internal.h — the scheduler's state, for the files of serve/schedule.
 *
 *	scheduler ─▶ projects ─▶ files ─▶ schedules
 *	                    └──▶ started: firings that start() began here and that have not ended
 *
 * Two heaps hold an entry for each thing that waits. `wall` holds times of the calendar: a
 * schedule's next firing and its dead man's check. `mono` holds delays in seconds: looks at
 * databases, files, inputs and zones, retries. Delays are never kept as wall times: after the clock
 * goes back, such a time would be far in the future. One loop timer stands for the first entry of
 * both. It fires at least every LOOK_NS, and so notices when the wall clock went back: rebase()
 * then computes every entry of `wall` anew from the rows.
 *
 * Times in rows are wall times of the server that wrote them. A time in the future counts as now
 * (seen_ns in rebase(), the end of a failed run in scheduler_sweep()). serve/health/peers.h judges
 *whether another machine's server lives.
 *
 * Decisions are made inside a transaction, from rows (another server may have changed them);
 * start(), stop() and scheduler_alert() are called after it.
 */
#ifndef CAIRN_SERVE_SCHEDULE_INTERNAL_H
#define CAIRN_SERVE_SCHEDULE_INTERNAL_H

#include <sys/stat.h>
#include "base/map.h"
#include "base/text/text.h"
#include "serve/health/peers.h"
#include "serve/schedule/calendar.h"
#include "serve/schedule/due.h"
#include "serve/schedule/scheduler.h"

/* The clock may jump and the machine may sleep, so look again after this time. */
#define LOOK_NS            (30 * NS_PER_S)
#define POLL_NS            (2 * NS_PER_S)
#define BEAT_NS            (30 * NS_PER_S)
#define ZONES_NS           (60 * NS_PER_S) /* how often tzdata is checked */
#define GRACE_NS           (60 * NS_PER_S) /* a firing this late is still on time */
#define CATCH_UP_WINDOW_NS (7 * 86400 * NS_PER_S)
#define CATCH_UP_MAX       1000   /* firings caught up at once */
#define COUNT_MAX          100000 /* missed nominal times are counted one by one up to this */
#define OPEN_MAX           1000   /* open firings of one schedule; more are skipped */
#define BACKFILL_MAX       1000   /* nominal times of one backfill by the API */
#define AGAIN_NS           (5 * NS_PER_S)  /* after trouble with the database */
#define BRING_AGAIN_NS     (30 * NS_PER_S) /* after what a file uses couldn't be brought */
#define RESUMES_MAX        20              /* of one run, against endless interruptions */

/* Message of a running firing that a later one replaces. */
#define REPLACED "replaced by a later firing"

struct schedule {
	struct watched_file *file;
	const struct schedule_decl *decl; /* in file->pipeline */
	char *name;
	struct calendar calendar;
	bool unusable; /* its time zone is gone */
	struct due fire, dead_man, look, retry;
	int64_t seen_ns, next_ns; /* nominal; next CALENDAR_NEVER: none */
	int64_t due_ns;           /* when next_ns is due, with its jitter */
	int64_t watch_ns;         /* the nominal time whose success is waited for; 0: none */
	int64_t paused_ns;
	int64_t seen_end;            /* ends of runs up to this one are handled, as the row says */
	unsigned open;               /* at the last look */
	bool starved;                /* something waits only because max_runs run */
	struct input_check *looking; /* the worker's job, while it runs */
	char candidate[DIGEST_HEX_MAX]; /* digest of inputs that was seen once */
};

struct watched_file {
	struct scheduler_project *project;
	char *path;                /* relative to the root */
	struct pipeline *pipeline; /* NULL: never loaded */
	struct stat *seen;         /* of the pipeline's files, or of the broken file */
	size_t n_seen;
	bool broken, dropped;
	char *broken_text;     /* the error that was reported */
	bool bringing;         /* bring() runs for it */
	char *bring_problem;   /* of the last bring() */
	int64_t bring_mono_ns; /* no earlier again */
	struct map *schedules; /* name → struct schedule * */
};

/* A firing that start() started here. */
struct started_run {
	char *path, *schedule;
	int64_t nominal_ns;
	bool stopping;
	bool ended; /* but its end isn't in the database yet */
	char *problem;
};

struct scheduler_project {
	struct scheduler *s;
	char *root, *cache_dir, *uses_dir;
	struct db *db;
	void *owner;
	VEC(struct watched_file *) files;
	VEC(struct started_run *) started;
	bool trouble;
	int64_t rows_version; /* of the database, when pauses were taken over last */
	int64_t beat_mono_ns; /* this server's last sign of life in the database */
	struct peers *peers;  /* the other servers */
};

struct scheduler {
	struct loop *loop;
	struct clock *clock;
	const struct scheduler_ops *ops;
	void *arg;
	struct scheduler_options options;
	struct arena *arena;
	const char *server;
	struct zone_set *zones;
	struct pool *pool;
	struct due_heap wall, mono;
	struct due poll, refresh;
	struct loop_source *timer;
	int64_t timer_at_ns; /* monotonic */
	int64_t last_wall_ns;
	VEC(struct scheduler_project *) projects;
	struct scheduler_counts counts;
	unsigned running;
	bool draining, closing, ticking;
};

/* --- scheduler.c */
int64_t scheduler_wall_ns(const struct scheduler *s);
int64_t scheduler_mono_ns(const struct scheduler *s);
/* At a time of the wall clock. */
void scheduler_due_at(struct scheduler *s, struct due *d, int64_t wall_ns);
/* After this time, whatever the wall clock shows. */
void scheduler_due_in(struct scheduler *s, struct due *d, int64_t ns);
void scheduler_rearm(struct scheduler *s);
void scheduler_note(struct scheduler_project *p, const struct schedule *sc, const struct firing *f,
		    const char *fmt, ...) _printf_(4, 5);
int scheduler_notify(struct scheduler_project *p, enum schedule_alert kind,
		     const struct schedule *sc, const struct firing *f, const char *text,
		     struct err *err);
void scheduler_alert(struct scheduler_project *p, enum schedule_alert kind,
		     const struct schedule *sc, const struct firing *f, const char *text);
/* Also finds a dropped file. */
struct watched_file *scheduler_find_file(const struct scheduler_project *p, const char *path);
void scheduler_each_schedule(struct scheduler *s, void (*fn)(struct schedule *sc));
struct schedule *scheduler_find_schedule(const struct scheduler_project *p, const char *path,
					 const char *name);
/* Transactions that report trouble: when they return -1, the trouble was reported. project_end()
 * commits when `result` isn't negative. */
int project_begin(struct scheduler_project *p);
int project_end(struct scheduler_project *p, int result, const struct err *err);
void project_trouble(struct scheduler_project *p, const struct err *err);

/* --- schedule/files.c */
/* 0 loaded or unchanged, 1 broken, -1: the database can't be used. */
int scheduler_file_load(struct watched_file *f, bool always, struct err *err);
void scheduler_file_free(struct watched_file *f);
void schedule_arm(struct schedule *sc); /* sets its next firing, from seen_ns */
void schedule_arm_dead_man(struct schedule *sc, int64_t nominal_ns);
/* Takes over the row: times handled, pause, and the nominal time whose success is watched. */
void schedule_follow(struct schedule *sc, const struct schedule_row *row);

/* --- schedule/fire.c: from a time to rows */
void scheduler_on_fire(void *arg);
void scheduler_on_dead_man(void *arg);
void scheduler_on_poll(void *arg);
int schedule_claim(struct schedule *sc, int64_t nominal_ns, enum firing_cause cause,
		   struct err *err); /* call it in a transaction */
/* Likewise; see scheduler_backfill(). */
int schedule_backfill(struct schedule *sc, const struct scheduler_range *range, struct arena *arena,
		      int64_t **ret, size_t *ret_n, struct err *err);
/* Likewise: makes the event's firing unless there is one. */
int schedule_claim_event(struct schedule *sc, const char *event, struct err *err);
/* `on: {pipeline: …}`: fires for the ends of runs that it hasn't seen, up to this one. */
void schedule_poll_ends(struct schedule *sc, int64_t until);

/* --- schedule/run.c: from rows to runs and back */
void schedule_pump(struct schedule *sc);
void scheduler_on_retry(void *arg);
void scheduler_sweep(struct scheduler_project *p);
struct started_run *scheduler_find_started(const struct scheduler_project *p, const char *path,
					   const char *schedule, int64_t nominal_ns);
void started_run_free(struct started_run *b);
void scheduler_finish(struct scheduler_project *p, struct started_run *b);

/* --- inputs.c */
/* Starts a look at the inputs of on_change on a worker. Calls done(sc, hex) on the loop; after an
 * error with NULL and *err. */
void scheduler_inputs_poll(struct schedule *sc, void (*done)(struct schedule *sc, const char *hex,
							     const struct err *err));
void scheduler_inputs_forget(struct schedule *sc); /* done isn't called any more */

#endif

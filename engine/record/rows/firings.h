/* engine/record/rows/firings.h — firings of schedules: one row a firing, made before anything
 * starts, and one row a schedule.
 *
 * A firing is identified by the pipeline's path in the project, the schedule's name and the nominal
 * time: the time that the rule gives, in nanoseconds, whenever it is handled. The row's primary key
 * makes it fire once: the server that inserts it owns it. `server` is its owner ("host:pid:start");
 * NULL: none (a trigger that waits for a server).
 *
 *   WAITING ──start──▶ STARTED ──▶ SUCCEEDED | FAILED | CANCELLED
 *      │                  └──failed, tries left──▶ RETRYING ──start──▶ STARTED
 *      └──▶ SKIPPED (overlap)              MISSED: never started, only recorded
 *
 * The engine of a run writes the run into the row (`run`), in the transaction that makes the run's
 * own row, and only if the row has none: two engines that are started for one firing make one run.
 *
 * Functions that write need an open transaction (record/db.h). Returned strings live in `arena`.
 */
#ifndef CAIRN_RECORD_ROWS_FIRINGS_H
#define CAIRN_RECORD_ROWS_FIRINGS_H

#include "record/rows/runs.h"

enum firing_cause {
	FIRING_TIME,
	FIRING_CATCH_UP,
	FIRING_CHANGE,
	FIRING_MANUAL,
	FIRING_BACKFILL,
	FIRING_EVENT
};
/* Those below FIRING_SUCCEEDED are open. */
enum firing_state {
	FIRING_WAITING,
	FIRING_STARTED,
	FIRING_RETRYING,
	FIRING_SUCCEEDED,
	FIRING_FAILED,
	FIRING_CANCELLED,
	FIRING_SKIPPED,
	FIRING_MISSED
};
/* "time", "catch-up", "change", "manual", "backfill", "event" */
const char *firing_cause_name(enum firing_cause c);
const char *firing_state_name(enum firing_state s); /* "waiting", "started", … */

struct firing {
	const char *path, *schedule;
	int64_t nominal_ns;
	enum firing_cause cause;
	enum firing_state state;
	uint32_t number;  /* runs started for it */
	uint32_t resumes; /* how often the last of them was resumed */
	/* Of the last start; 0: not yet. RETRYING: ended_ns is when the last run failed. */
	int64_t claimed_ns, started_ns, ended_ns;
	const char *run;     /* id of the run of the last start, or NULL */
	const char *server;  /* or NULL */
	const char *message; /* or NULL */
	/* The row stands for `times` nominal times, from first_ns to its own (1 and nominal_ns for
	 * most). The earlier ones were missed: nothing ran for them. */
	int64_t first_ns;
	uint64_t times;
	/* What fired it, of a schedule with `on`: "run:ID" or "delivery:ID"; or NULL. A schedule
	 * has one firing for an event. */
	const char *event;
};
/* The id behind FIRING_EVENT_*; NULL when the firing has no such event. */
#define FIRING_EVENT_RUN      "run:"
#define FIRING_EVENT_DELIVERY "delivery:"
static inline const char *firing_event_id(const struct firing *f, const char *kind)
{
	return f->event && str_has_prefix(f->event, kind) ? f->event + strlen(kind) : NULL;
}

/* 1: made; 0: there is one already (a MISSED one is replaced: 1). number is 0 until it is
 * started. */
int record_firing_claim(struct db *db, const struct firing *f, struct err *err);
/* Records that nothing ran for `times` nominal times, from first_ns to nominal_ns. An existing row
 * keeps its state and counts the other times as well. */
int record_firing_missed(struct db *db, const struct firing *f, struct err *err);
/* 1 found, 0 none. */
int record_firing(struct db *db, const char *path, const char *schedule, int64_t nominal_ns,
		  struct arena *arena, struct firing *ret, struct err *err);
/* The firing that an event made: 1 found, 0 none. */
int record_firing_of_event(struct db *db, const char *path, const char *schedule, const char *event,
			   struct arena *arena, struct firing *ret, struct err *err);
/* Writes all fields except the key, event, cause and claimed_ns. */
int record_firing_update(struct db *db, const struct firing *f, struct err *err);
/* Changes the owner if it is still `from` (NULL: none) and the firing is open: 1 changed, 0 not. */
int record_firing_take(struct db *db, const struct firing *f, const char *from, const char *to,
		       struct err *err);
/* The run of a firing begins: call it in the transaction that makes the run's row. A server's
 * firing gets the run's id. A firing that doesn't exist, or that has no owner, is made and belongs
 * to this process. ERR_EXISTS when it has fired, ERR_BUSY when another process has it. */
struct firing_begin {
	const char *path, *schedule;
	int64_t nominal_ns, wall_ns;
	enum firing_cause cause; /* for a firing made here */
	bool again;              /* a failed, cancelled or skipped one may run again */
	const char *run;
};
int record_firing_begin(struct db *db, const struct firing_begin *b, struct arena *arena,
			struct err *err);
/* The run has ended, and so has its firing. A live server that owns the firing ends or retries it
 * itself. When its server is dead, the firing is marked as untold: the next server reports it, and
 * retries it if the schedule says so. */
int record_firing_ended(struct db *db, const struct run_row *run, struct arena *arena,
			struct err *err);
/* Marked firings, oldest nominal time first. */
int record_firings_unreported(struct db *db, struct arena *arena, struct firing **ret,
			      size_t *ret_n, struct err *err);
/* Removes the mark: 1 when this caller must report it, 0 when another one does. */
int record_firing_reported(struct db *db, const struct firing *f, struct err *err);
/* Gives up all firings of `server` that aren't started: they have no owner again. */
int record_firing_release(struct db *db, const char *server, struct err *err);

struct firing_filter {
	const char *path, *schedule; /* or NULL */
	bool open;                   /* only open ones, oldest nominal time first */
	bool ended_runs;             /* only SUCCEEDED and FAILED ones */
	int64_t before_ns;           /* nominal < before; 0: any */
	const char
		*before_path; /* with schedule: also nominal == before_ns, later paths; or NULL */
	int64_t since_ns;     /* nominal >= since */
	uint64_t limit;       /* 0: all */
};
/* "nightly@2026-03-29T01:00:00Z", as `cairn run --schedule` takes it; nanoseconds only if not 0. */
void firing_add_name(struct str *out, const char *schedule, int64_t nominal_ns);
/* Newest nominal time first, unless `open`; at one time by path, then schedule. */
int record_firings(struct db *db, const struct firing_filter *f, struct arena *arena,
		   struct firing **ret, size_t *ret_n, struct err *err);

/* Schedules. */

struct schedule_row {
	const char *path, *name;
	int64_t seen_ns;   /* every nominal time up to this one has been handled */
	int64_t paused_ns; /* when the pause began; 0: not paused */
	/* The rule that seen_ns belongs to: a changed rule starts anew; or NULL. */
	const char *rule;
	/* Digest of the inputs of `on_change` when it last fired; or NULL. */
	const char *inputs;
	int64_t alerted_ns; /* the last nominal time whose missing success was reported */
	int64_t seen_end;   /* every end of a run up to this one has been handled */
};
/* 1 found, 0 none (*ret is zero but for its key). */
int record_schedule(struct db *db, const char *path, const char *name, struct arena *arena,
		    struct schedule_row *ret, struct err *err);
int record_schedule_put(struct db *db, const struct schedule_row *s, struct err *err);

/* Sets or ends a pause: times during it make no firings. Idempotent. */
void schedule_row_pause(struct schedule_row *s, bool paused, int64_t wall_ns);

/* Ends of runs: the database writes one in the transaction in which a run succeeds, fails or is
 * cancelled. `seq` is the order of these transactions. A run that goes on after its end has another
 * one later. */
struct ended_run {
	int64_t seq;
	const char *run;
	enum run_state state;
	int64_t ended_ns;
};
int record_last_end(struct db *db, int64_t *ret, struct err *err); /* 0: none yet */
/* Those of the pipeline at `path` with after < seq <= until, in order. Reproductions are none. */
int record_ends(struct db *db, const char *path, int64_t after, int64_t until, struct arena *arena,
		struct ended_run **ret, size_t *ret_n, struct err *err);

/* Servers. */

/* This process's name, "host:pid:start", in `arena`. */
const char *server_name_self(struct arena *arena);
/* Records a sign of life. */
int record_server_heartbeat(struct db *db, const char *server, int64_t wall_ns, struct err *err);
int record_server_gone(struct db *db, const char *server, struct err *err);
/* Tells whether the server is alive, for a command that looks once. For a server of this machine,
 * checks the process. A server of another machine counts as alive for SERVER_SILENT_NS after its
 * last sign of life; one without any is a `cairn run`, and counts as alive. A server that watches
 * others for long uses serve/health/peers.h. */
#define SERVER_SILENT_NS (300 * NS_PER_S)
int record_server_lives(struct db *db, const char *server, int64_t wall_ns, bool *ret,
			struct err *err);
/* 1 or 0 for a process of this machine, -1 for one of another machine. */
int server_lives_here(const char *server);
/* 1: *ret_beat_ns is the last sign of life, by the server's own clock (negative: it ended in
 * order). 0: there was none. */
int record_server_heartbeat_of(struct db *db, const char *server, int64_t *ret_beat_ns,
			       struct err *err);
struct server_row {
	const char *name;
	int64_t beat_ns;
};
int record_servers(struct db *db, struct arena *arena, struct server_row **ret, size_t *ret_n,
		   struct err *err);
/* A live server of this project; NULL: none. */
int record_server_any(struct db *db, int64_t wall_ns, struct arena *arena, const char **ret,
		      struct err *err);

#endif

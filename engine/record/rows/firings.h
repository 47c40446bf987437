/* record/rows/firings.h — what schedules did: one row a firing, made before anything starts, and
 * one row a schedule.
 *
 * A firing is named by the pipeline's path in the project, the schedule's name and the nominal
 * time: the time that the rule means, in nanoseconds, whenever it came to be handled. The row's
 * primary key is what makes it fire once: whoever inserts it owns it. `server` says who that is
 * ("host:pid:start"); NULL is nobody (a trigger that waits for a server).
 *
 *	WAITING ──start──▶ STARTED ──▶ SUCCEEDED | FAILED | CANCELLED
 *	   │                  └──failed, tries left──▶ RETRYING ──start──▶ STARTED
 *	   └──▶ SKIPPED (overlap)              MISSED: never was to start, for the record only
 *
 * The run that a start gave is written into the row (`run`) by the engine of that run, in the
 * transaction that makes the run's own row, and only if none is there: two engines that are
 * started for one firing give one run.
 *
 * Everything that writes needs an open transaction (record/db.h). Strings that are returned live in
 * `arena`.
 */
#ifndef CAIRN_RECORD_ROWS_FIRINGS_H
#define CAIRN_RECORD_ROWS_FIRINGS_H

#include "record/rows/runs.h"

enum firing_cause { FIRING_TIME, FIRING_CATCH_UP, FIRING_CHANGE, FIRING_MANUAL, FIRING_BACKFILL };
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
/* "time", "catch-up", "change", "manual", "backfill" */
const char *firing_cause_name(enum firing_cause c);
const char *firing_state_name(enum firing_state s); /* "waiting", "started", … */

struct firing {
	const char *path, *schedule;
	int64_t nominal_ns;
	enum firing_cause cause;
	enum firing_state state;
	uint32_t number;  /* runs that were started for it */
	uint32_t resumes; /* how often the last of them was taken up again */
	int64_t claimed_ns, started_ns, ended_ns; /* of the last start; 0: not yet. RETRYING: ended
						     is when the last one failed */
	const char *run;                          /* id of the run of the last start, or NULL */
	const char *server;                       /* or NULL */
	const char *message;                      /* or NULL */
	/* The row stands for `times` nominal times, from first_ns to its own (1 and nominal_ns for
	 * most). Those before its own were missed: nothing ran for them. */
	int64_t first_ns;
	uint64_t times;
};

/* 1 made, 0 there is one already (a MISSED one gives way: 1). number is 0 until it is started. */
int record_firing_claim(struct db *db, const struct firing *f, struct err *err);
/* For the record: nothing ran for `times` nominal times, from first_ns to nominal_ns. A row that is
 * there keeps what came of it and stands for the others as well. */
int record_firing_missed(struct db *db, const struct firing *f, struct err *err);
/* 1 found, 0 none. */
int record_firing(struct db *db, const char *path, const char *schedule, int64_t nominal_ns,
		  struct arena *arena, struct firing *ret, struct err *err);
/* Everything but the key, cause and claimed_ns. */
int record_firing_update(struct db *db, const struct firing *f, struct err *err);
/* Changes the owner if it still is `from` (NULL: nobody) and the firing is open: 1 changed, 0 not.
 */
int record_firing_take(struct db *db, const struct firing *f, const char *from, const char *to,
		       struct err *err);
/* The run of a firing begins: in the transaction that makes its row. A server's firing gets its
 * run's name; one that nobody has made, or that waits for nobody, is made and belongs to this
 * process. ERR_EXISTS when it has fired, ERR_BUSY when somebody has it. */
struct firing_begin {
	const char *path, *schedule;
	int64_t nominal_ns, wall_ns;
	enum firing_cause cause; /* for one that is made here */
	bool again;              /* one that failed, was cancelled or skipped may run again */
	const char *run;
};
int record_firing_begin(struct db *db, const struct firing_begin *b, struct arena *arena,
			struct err *err);
/* The run has ended: so has its firing, unless a server that lives looks after it: that ends it, or
 * tries again. Where its server is dead the firing is marked as untold: the next server tells of
 * it, and tries again where the schedule says so. */
int record_firing_ended(struct db *db, const struct run_row *run, struct arena *arena,
			struct err *err);
/* Those that are marked, oldest nominal time first. */
int record_firings_untold(struct db *db, struct arena *arena, struct firing **ret, size_t *ret_n,
			  struct err *err);
/* Takes the mark away: 1 it is ours to tell, 0 somebody else did. */
int record_firing_told(struct db *db, const struct firing *f, struct err *err);
/* All that `server` owns and that aren't started: nobody's again. */
int record_firing_release(struct db *db, const char *server, struct err *err);

struct firing_filter {
	const char *path, *schedule; /* or NULL */
	bool open;                   /* only open ones, oldest nominal time first */
	bool ended_runs;             /* only SUCCEEDED and FAILED ones */
	int64_t before_ns;           /* nominal < before; 0: any */
	const char *before_path;     /* with schedule: also nominal == before_ns, where the path
					comes behind this one; or NULL */
	int64_t since_ns;            /* nominal >= since */
	uint64_t limit;              /* 0: all */
};
/* "nightly@2026-03-29T01:00:00Z": what `cairn run --schedule` takes; nanoseconds only where there
 * are some. */
void firing_add_name(struct str *out, const char *schedule, int64_t nominal_ns);
/* Newest nominal time first, unless `open`; of one time by path, then schedule. */
int record_firings(struct db *db, const struct firing_filter *f, struct arena *arena,
		   struct firing **ret, size_t *ret_n, struct err *err);

/* Schedules. */

struct schedule_row {
	const char *path, *name;
	int64_t seen_ns;   /* every nominal time up to this one has been handled */
	int64_t paused_ns; /* since when it is paused; 0: it isn't */
	const char *rule;  /* the rule that seen_ns belongs to: another one starts anew; or NULL */
	/* Fingerprint of the inputs of `on_change` when it last fired; or NULL. */
	const char *inputs;
	int64_t alerted_ns; /* the nominal time whose absence was told last */
};
/* 1 found, 0 none (*ret is zero but for its key). */
int record_schedule(struct db *db, const char *path, const char *name, struct arena *arena,
		    struct schedule_row *ret, struct err *err);
int record_schedule_put(struct db *db, const struct schedule_row *s, struct err *err);

/* A pause, or its end: what would have fired meanwhile is nobody's. Idempotent. */
void schedule_row_pause(struct schedule_row *s, bool paused, int64_t wall_ns);

/* Servers. */

/* This process: "host:pid:start", in arena. */
const char *server_name_self(struct arena *arena);
/* Notes that it lives. */
int record_server_beat(struct db *db, const char *server, int64_t wall_ns, struct err *err);
int record_server_gone(struct db *db, const char *server, struct err *err);
/* Tells whether the server is alive, for a command that looks once. A process of this machine is
 * looked for; a server of another machine counts as alive for SERVER_SILENT_NS after it was last
 * heard of, and one that never was is a `cairn run`, and trusted. A server that watches the others
 * for long asks serve/peers.h. */
#define SERVER_SILENT_NS (300 * NS_PER_S)
int record_server_lives(struct db *db, const char *server, int64_t wall_ns, bool *ret,
			struct err *err);
/* 1 or 0 for a process of this machine, -1 for one of another. */
int server_lives_here(const char *server);
/* 1 and when it noted last that it lives, by its own clock (negative: it ended in order); 0: it
 * never did. */
int record_server_beat_of(struct db *db, const char *server, int64_t *ret_beat_ns, struct err *err);
struct server_row {
	const char *name;
	int64_t beat_ns;
};
int record_servers(struct db *db, struct arena *arena, struct server_row **ret, size_t *ret_n,
		   struct err *err);
/* The server of this project that lives, if any; NULL when none. */
int record_server_any(struct db *db, int64_t wall_ns, struct arena *arena, const char **ret,
		      struct err *err);

#endif

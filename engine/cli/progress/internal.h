/* engine/cli/progress/internal.h — shared by progress.c (events, lines, the end), progress/live.c
 * (the block that is redrawn) and progress/followed.c (output of running tasks). */
#ifndef CAIRN_CLI_PROGRESS_INTERNAL_H
#define CAIRN_CLI_PROGRESS_INTERNAL_H

#include "cli/progress/progress.h"

#define FRAME_NS       (100 * NS_PER_MS) /* at most ten frames a second */
#define FIRST_FRAME_NS (200 * NS_PER_MS) /* a shorter run needs no block */
#define ROWS_MAX       20                /* running tasks shown: more can't be read at a glance */

/* A running task. There are few at once (as many as jobs), so a lookup is a short scan; slots keep
 * their memory. */
struct row {
	uint64_t attempt;
	unsigned number;
	int64_t started_ns;
	struct str name; /* printable */
	struct str metric;
	struct {
		int fd;          /* of the log, once it was found; -1 */
		char *path;      /* of it */
		off_t at;        /* read so far */
		bool cut;        /* up to the next newline it belongs to a line that wasn't read */
		struct str line; /* the unfinished one */
		struct str last; /* printable: the newest that isn't empty */
	} output;
	struct str last_shown; /* the last reason for waiting that got a line; "": none did */
};

/* What is known of the run. */
struct progress_run {
	struct str id;
	int64_t started_ns;
	struct run_counts counts;
	uint64_t n_running;
	int64_t remaining_ns;
	bool finished, has_metrics;
	const char *result; /* or NULL */
};

/* The first lines of a list at the end. */
struct progress_summary {
	struct str v[3];
	size_t n;
};

/* State of the plain form. */
struct progress_lines {
	double tokens; /* a token bucket that fills with time */
	int64_t tokens_at, last_ns;
	uint64_t unsaid;
};

/* The block on the terminal. */
struct progress_block {
	bool dirty;
	int64_t frame_ns;
	unsigned *drawn; /* columns of each line on the screen */
	size_t n_drawn;
};

struct progress {
	struct progress_options o;
	struct run_observer observer;
	struct loop *loop;
	struct loop_source *timer, *winch;
	int64_t timer_at;
	bool fixed_size;
	struct progress_run run;
	VEC(struct row) rows; /* in order of start; slots from n_rows on are free */
	size_t n_rows;
	struct progress_summary failed;   /* names of tasks, for the advice on what to type next */
	struct progress_summary exported; /* what was exported, and where it is */
	uint64_t failed_attempt;          /* this one was shown already */
	struct progress_lines lines;
	struct progress_block block;
	struct str buf; /* bytes that are written together */
};

static inline int64_t progress_now(const struct progress *p)
{
	return p->o.clock->mono_ns(p->o.clock);
}
static inline uint64_t progress_ended(const struct run_counts *c) /* tasks */
{
	return c->executed + c->hits + c->failed + c->skipped + c->blocked;
}
/* Adds the bytes that remove the block; the cursor is then where the block began. */
void live_clear(struct progress *p);
/* Something changed: draws when the last frame is old enough, else makes sure that the timer
 * draws. */
void live_touch(struct progress *p);
/* end.c: of the observer. */
void progress_exported(void *arg, const char *task, const char *output, const char *place);
/* Writes p->buf. */
void progress_flush(struct progress *p);
/* followed.c: reads what running tasks wrote since the last look. */
#define FOLLOW_NS (200 * NS_PER_MS)
void followed_poll(struct progress *p);
/* The attempt has ended: the rest of its output comes from its stored log. */
void followed_ended(struct progress *p, struct row *r, const struct content_id *log);
void followed_drop(struct row *r); /* frees, so that the slot can be used again */
/* Writes a line of its own in plain mode, as a sign of life. */
void progress_status_line(struct progress *p);
const char *progress_style(const struct progress *p, enum cli_style s);

#endif

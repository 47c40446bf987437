/* engine/serve/events/events.h — what changes, told live: runs, tasks, schedules.
 *
 * One thread looks at the databases and the scheduler, compares, and puts each change as a frame of
 * server-sent events (HTML standard, section 9.2) into a ring. Readers copy frames from the ring;
 * none asks the database. So a reader costs only the bytes that it gets. Without readers the thread
 * sleeps.
 *
 * Each frame has an id. A reader that comes again with the last id that it got goes on behind it.
 * When the ring doesn't have these frames any more, or a former server gave the id, it gets the
 * event `reset`: read everything again.
 *
 * Events: `run` and `schedule`, the objects of the API with "project"; `task`, what its newest
 * attempt tells of a task's row, without members that are null, with "project" and "run", and only
 * of runs that the reader watches. Tags of a run that has ended are not watched.
 */
#ifndef CAIRN_SERVE_EVENTS_EVENTS_H
#define CAIRN_SERVE_EVENTS_EVENTS_H

#include "serve/internal.h"

#define EVENTS_RUNS_MAX 32 /* that one reader watches */
#define EVENTS_PING_NS  (15 * NS_PER_S)

struct events;
struct events *events_new(struct daemon *d);
void events_free(struct events *e); /* NULL is fine; all readers are gone */

struct events_wanted {
	const struct project *project; /* NULL: all */
	const char *const *runs;       /* whose tasks to tell */
	size_t n_runs;
	const char *last_id; /* NULL: only what is new */
};
struct events_reader;
/* Any thread; may wait shortly. NULL: no thread can be started. */
struct events_reader *events_subscribe(struct events *e, const struct events_wanted *w,
				       struct err *err);
void events_unsubscribe(struct events_reader *r);
/* Whole or parts of frames; 0: nothing is new. */
size_t events_read(struct events_reader *r, char *buf, size_t max);
bool events_are_new(struct events_reader *r); /* a read would give something */

/* For the thread that polls (poll.c). */
struct events_watch {
	char *run;
	const struct project *project; /* NULL: any */
	int64_t since_ns;              /* wall: the first reader came then */
};
/* `run`: only for readers that watch it; NULL: for all of the project. Takes the reference. */
void events_add(struct events *e, const struct project *p, const char *run, const char *event,
		json_t *data);

struct poller;
struct poller *poller_new(struct daemon *d, struct events *e);
void poller_free(struct poller *l);
void poller_poll(struct poller *l, const struct events_watch *w, size_t n);

#endif

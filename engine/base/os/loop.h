/* engine/base/os/loop.h — one event loop (epoll), timers, signals, and a pool of workers that hand
 * results back.
 *
 * One thread owns the loop and everything that its callbacks touch. Only loop_post() and the pool's
 * workers cross threads. Each turn handles a limited number of events. With a virtual clock the
 * loop never sleeps while there is a timer: when nothing is ready and no job is running, it moves
 * the clock to the next timer.
 */
#ifndef CAIRN_BASE_OS_LOOP_H
#define CAIRN_BASE_OS_LOOP_H

#include <stdbool.h>
#include <sys/types.h>
#include "base/err.h"
#include "base/time/clock.h"

struct loop;
struct loop_source; /* an fd, timer or signal that is being watched */

typedef void (*loop_fd_fn)(void *arg, int fd, uint32_t epoll_events);
typedef void (*loop_fn)(void *arg);
typedef void (*loop_signal_fn)(void *arg, int signo);

int loop_new(struct clock *clock, struct loop **ret, struct err *err);
void loop_free(struct loop *l);
struct clock *loop_clock(struct loop *l);

/* Each returned source belongs to the loop until loop_remove(); removing inside its own callback is
 * fine. */
int loop_add_fd(struct loop *l, int fd, uint32_t epoll_events, loop_fd_fn fn, void *arg,
		struct loop_source **ret, struct err *err);
struct loop_source *loop_add_timer(struct loop *l, int64_t at_mono_ns, loop_fn fn,
				   void *arg); /* fires once, then is gone */
/* Blocks the signal in this thread, for good: only the loop receives it from now on. One source per
 * signal. */
int loop_add_signal(struct loop *l, int signo, loop_signal_fn fn, void *arg,
		    struct loop_source **ret, struct err *err);
void loop_remove(struct loop *l, struct loop_source *s); /* NULL is fine */

/* fn runs once before the loop would sleep, after all ready events: for batching (commit, then
 * act). At most 8 hooks. */
void loop_add_idle(struct loop *l, loop_fn fn, void *arg);

void loop_remove_idle(struct loop *l, loop_fn fn, void *arg);

/* Any thread: runs fn(arg) on the loop's thread soon; calls posted by one thread run in order. */
void loop_post(struct loop *l, loop_fn fn, void *arg);
/* The loop's thread: drops posted calls of fn(arg) that haven't run. Call it before you free `arg`,
 * so that no call can run afterwards. Nobody may post it any more. */
void loop_unpost(struct loop *l, loop_fn fn, void *arg);

/* Handles ready events. When there are none, sleeps at most until the next timer (or `max_wait_ns`,
 * -1 for no limit). Returns 1, also when the wait ended without an event; 0 when no event can ever
 * come (no sources, no mail, no pending jobs); -1 on error. */
int loop_turn(struct loop *l, int64_t max_wait_ns, struct err *err);
/* Turns until loop_stop() or nothing is left. */
int loop_run(struct loop *l, struct err *err);
void loop_stop(struct loop *l);

/* While `run` is on a worker, the job owns all that it touches. `done` is called on the loop's
 * thread with the same arg. */
struct pool;
int pool_new(struct loop *l, unsigned n_threads, struct pool **ret,
	     struct err *err); /* 0 threads: jobs run in loop_turn */
/* NULL is fine; first runs and finishes every submitted job, also those that `done` submits. */
void pool_free(struct pool *p);
void pool_submit(struct pool *p, loop_fn run, loop_fn done, void *arg);
size_t pool_pending(const struct pool *p);

#endif

/* engine/base/time/clock.h — time behind a small interface, so that no test sleeps.
 *
 * `mono_ns` never goes back and is for durations and timers; `wall_ns` is Unix time for records. To
 * wait n seconds, use `mono_ns`: the wall clock may be set at any moment, back or forth. The
 * virtual clock only moves when clock_virtual_advance() or a loop that uses it moves it.
 */
#ifndef CAIRN_BASE_TIME_CLOCK_H
#define CAIRN_BASE_TIME_CLOCK_H

#include "base/macros.h"

struct clock {
	int64_t (*mono_ns)(struct clock *c);
	int64_t (*wall_ns)(struct clock *c);
	int is_virtual;
	/* Virtual clock only. */
	int64_t now_ns;       /* monotonic; and wall time, until somebody sets the clock */
	int64_t wall_step_ns; /* sum of all changes of the wall clock */
};

struct clock *clock_system(void);
/* clock_system()'s, for code without a virtual clock. */
static inline int64_t clock_mono_ns(void)
{
	struct clock *c = clock_system();

	return c->mono_ns(c);
}
static inline int64_t clock_wall_ns(void)
{
	struct clock *c = clock_system();

	return c->wall_ns(c);
}
void clock_virtual_init(struct clock *c, int64_t start_ns);
void clock_virtual_advance(struct clock *c, int64_t delta_ns);
/* Sets the wall clock by delta_ns at once, back or forth, as NTP, an operator, a leap second or a
 * sleeping machine do. Monotonic time doesn't change. */
void clock_virtual_step(struct clock *c, int64_t delta_ns);

/* The calling thread sleeps in real time, and signals don't end the sleep. For threads that wait
 * for another machine and have no loop. */
void clock_sleep(int64_t ns);
/* Exponential back-off: the pause after the `failures`th failure in a row (from 1 on) doubles from
 * `first_ns` up to `max_ns`. The caller adds jitter. */
int64_t backoff_ns(int64_t first_ns, int64_t max_ns, uint32_t failures);

#endif

/* engine/base/clock.h — time behind a narrow table, so that no test sleeps.
 *
 * `mono_ns` never goes back and is for durations and timers; `wall_ns` is Unix time for records.
 * The virtual clock only moves when clock_virtual_advance() or a loop that uses it moves it.
 */
#ifndef CAIRN_BASE_CLOCK_H
#define CAIRN_BASE_CLOCK_H

#include "base/macros.h"

struct clock {
	int64_t (*mono_ns)(struct clock *c);
	int64_t (*wall_ns)(struct clock *c);
	int is_virtual;
	int64_t now_ns; /* virtual clock only: both times, starting where it was initialised */
};

struct clock *clock_system(void);
void clock_virtual_init(struct clock *c, int64_t start_ns);
void clock_virtual_advance(struct clock *c, int64_t delta_ns);

#endif

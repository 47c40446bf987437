#include "base/time/clock.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

static int64_t read_clock(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static int64_t system_mono_ns(struct clock *c)
{
	return read_clock(CLOCK_MONOTONIC);
}

static int64_t system_wall_ns(struct clock *c)
{
	return read_clock(CLOCK_REALTIME);
}

static int64_t virtual_now_ns(struct clock *c)
{
	return c->now_ns;
}

static int64_t virtual_wall_ns(struct clock *c)
{
	return c->now_ns + c->wall_step_ns;
}

struct clock *clock_system(void)
{
	static struct clock system = { .mono_ns = system_mono_ns, .wall_ns = system_wall_ns };

	return &system;
}

/* lint: unused but by tests: it stands in for the machine */
void clock_virtual_init(struct clock *c, int64_t start_ns)
{
	*c = (struct clock){
		.mono_ns = virtual_now_ns,
		.wall_ns = virtual_wall_ns,
		.is_virtual = 1,
		.now_ns = start_ns,
	};
}

void clock_virtual_advance(struct clock *c, int64_t delta_ns)
{
	assert(c->is_virtual && delta_ns >= 0);
	c->now_ns += delta_ns;
}

/* lint: unused but by tests: it stands in for the machine */
void clock_virtual_step(struct clock *c, int64_t delta_ns)
{
	assert(c->is_virtual);
	c->wall_step_ns += delta_ns;
}

void clock_sleep(int64_t ns)
{
	int64_t end = read_clock(CLOCK_MONOTONIC) + ns;
	const struct timespec at = { .tv_sec = end / NS_PER_S, .tv_nsec = end % NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

int64_t backoff_ns(int64_t first_ns, int64_t max_ns, uint32_t failures)
{
	int64_t ns = first_ns;

	for (uint32_t i = 1; i < failures && ns < max_ns; i++)
		ns = ns > max_ns / 2 ? max_ns : ns * 2;
	return MIN(ns, max_ns);
}

#include "base/clock.h"

#include <assert.h>
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

void clock_virtual_step(struct clock *c, int64_t delta_ns)
{
	assert(c->is_virtual);
	c->wall_step_ns += delta_ns;
}

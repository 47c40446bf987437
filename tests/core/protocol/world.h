/* core/protocol/world.h — the world in which test_protocol.c runs its clients: who they are, what
 * they see of clocks, threads and random numbers, and the list of numbers that decides everything.
 *
 * `W` is the world that goes on now; NULL between two. Only test_protocol.c and its headers include
 * this.
 */
#ifndef CAIRN_TESTS_CORE_PROTOCOL_WORLD_H
#define CAIRN_TESTS_CORE_PROTOCOL_WORLD_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/random.h>
#include <ucontext.h>
#include "base/os/thread.h"
#include "storage/bucket/memory.h"
#include "storage/remote/internal.h"

#define NAME        "sim"
#define BUCKET      "mem-bucket://sim/p"
#define MINUTE      (60 * NS_PER_S)
#define HOUR        (60 * MINUTE)
#define CLIENTS_MAX 4
#define TREES       6
#define KEPT        3
#define RUNS_MAX    64
#define STACK_BYTES (256 * KIB)
#define STEPS_MAX   4000
/* Whoever gave up on a request may rely on that it has no effect after this. */
#define LATE_MAX_NS MINUTE

struct client {
	struct clock clock;
	ucontext_t context;
	char *stack;
	struct store *disk, *s;             /* s: NULL while it has no process */
	bool running, dead, asleep, faulty; /* faulty: a fault hit its process */
	int number;
	unsigned process; /* how many it had */
	char *journal;    /* directory of what it left unsent; or NULL */
	const char *command;
};

struct published {
	struct digest hash;
	unsigned tree;
	bool pinned;
};

/* A manifest that was put, noted in a journal, and wasn't seen in the bucket yet. */
struct noted {
	struct digest hash;
	unsigned tree, process;
	const struct client *by;
	bool was_here; /* all that it names */
};

struct world {
	uint64_t seed, random; /* what schedules choose; what the code asks the kernel for */
	bool replays;
	VEC(uint32_t) choices;
	size_t at;
	struct clock clock; /* the bucket's */
	int64_t late_since_ns;
	struct client clients[CLIENTS_MAX];
	int n_clients, turn;
	struct client *now; /* whose turn it is; NULL: the scheduler's */
	ucontext_t scheduler;
	struct published runs[RUNS_MAX];
	size_t n_runs;
	VEC(struct digest) tags;
	VEC(struct noted) noted;
	bool damages, damaged, quiet; /* quiet: no faults, nobody else */
	unsigned damage_number;
	enum bucket_memory_fate fate;
	bool check; /* something was taken away since it was last checked */
	char *failure;
	struct str trace;
	bool traces;
	uint64_t commands, faults, deletes;
};

static struct world *W;
static struct content_id trees[TREES], blobs[TREES][2];
static struct store_ops disk_ops;

/* The world as the code under test sees it. */

int __wrap_thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg),
			void *arg);
ssize_t __wrap_getrandom(void *buf, size_t n, unsigned flags);
struct clock *__wrap_clock_system(void);
struct clock *__real_clock_system(void);

int __wrap_thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg),
			void *arg)
{
	return EAGAIN;
}

static uint64_t next(uint64_t *x)
{
	*x += 0x9e3779b97f4a7c15ULL;
	uint64_t z = *x;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

ssize_t __wrap_getrandom(void *buf, size_t n, unsigned flags)
{
	static uint64_t fallback;

	for (size_t i = 0; i < n; i++)
		((uint8_t *)buf)[i] = (uint8_t)next(W ? &W->random : &fallback);
	return (ssize_t)n;
}

struct clock *__wrap_clock_system(void)
{
	return W && W->now ? &W->now->clock : W ? &W->clock : __real_clock_system();
}

/* Choosing. */

/* 0 is always the plainest: shrinking leads there. */
static uint32_t choose(uint32_t n)
{
	uint32_t v = 0;

	if (W->quiet || n < 2)
		return 0;
	if (W->replays) {
		v = W->at < W->choices.n ? W->choices.v[W->at] % n : 0;
		W->at++;
		return v;
	}
	v = (uint32_t)(next(&W->seed) % n);
	VEC_PUSH(&W->choices, v);
	return v;
}

static void say(const char *fmt, ...) _printf_(1, 2);
static void say(const char *fmt, ...)
{
	char line[400];
	va_list ap;

	if (!W->traces)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	str_addf(&W->trace, "%6lld min  %s%.0d: %s\n",
		 (long long)((W->clock.now_ns / MINUTE) % 1000000), W->now ? "client " : "",
		 W->now ? W->now->number : 0, line);
}

static void broken(const char *fmt, ...) _printf_(1, 2);
static void broken(const char *fmt, ...)
{
	char line[600];
	va_list ap;

	if (W->failure)
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	W->failure = xstrdup(line);
	say("FAILS: %s", line);
}

#endif

/* Cost of the scheduler at many schedules: bench_ticks N. N schedules in one pipeline, a virtual
 * clock, and a day in which 288 firings come, one at a time; then one moment at which all N are
 * due. Prints N, cpu microseconds of a firing that comes alone (claim, start, end: four
 * transactions), of a look at the clock that finds nothing due, and of one among N at once, between
 * tabs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "serve/schedule/scheduler.h"

#define START_NS (1767225600 * NS_PER_S)

struct bench {
	struct clock clock;
	struct scheduler *s;
	struct scheduler_project *p;
	unsigned started;
	VEC(int64_t) ended;
};

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int start(void *arg, const struct scheduled *d, struct err *err)
{
	struct bench *b = arg;

	b->started++;
	return err_set(err, ERR_FAILED,
		       "only measured"); /* ends at once: what is measured is the scheduler */
}

static const struct scheduler_ops ops = { .start = start };

static void die(const struct err *err)
{
	fprintf(stderr, "bench_ticks: %s\n", err->msg);
	exit(1);
}

/* One in five minutes during the first day; all others on the second day at noon, with those. */
static void write_pipeline(const char *dir, int n)
{
	_cleanup_(freep) char *path = xasprintf("%s/pipeline.yaml", dir);
	struct str y = { 0 };
	struct err err = { 0 };

	str_add(&y, "pipeline: ticks\nsteps:\n  a: {run: x}\nschedules:\n  often: {cron: \"*/5 * * "
		    "* *\", overlap: allow, end: \"2026-01-02T00:00:01Z\"}\n");
	for (int i = 1; i < n; i++)
		str_addf(&y, "  s%d: {cron: \"0 12 2 1 *\", overlap: allow}\n", i);
	if (fs_write_atomic(path, y.s, y.len, &err) < 0)
		die(&err);
	str_deinit(&y);
}

static double run_until(struct bench *b, struct loop *l, int64_t until_ns, unsigned *ret_started)
{
	double before = cpu_us();
	unsigned started = b->started;
	struct err err = { 0 };

	while (b->clock.now_ns < until_ns)
		if (loop_turn(l, -1, &err) < 0)
			die(&err);
	*ret_started = b->started - started;
	return cpu_us() - before;
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 10000;
	char dir[] = "/tmp/cairn-ticks-XXXXXX";
	struct scheduler_options o = { .poll_ns = 86400 * NS_PER_S };
	_cleanup_(freep) char *path = NULL;
	struct bench b = { 0 };
	struct loop *l;
	struct err err = { 0 };
	struct db *db;
	unsigned day, none, once;
	double quiet, busy, noon;

	if (!mkdtemp(dir))
		return 1;
	write_pipeline(dir, n);
	path = xasprintf("%s/cairn.db", dir);
	clock_virtual_init(&b.clock, START_NS + NS_PER_S);
	if (loop_new(&b.clock, &l, &err) < 0 || db_open(path, DB_WRITE, &db, &err) < 0 ||
	    scheduler_new(l, &ops, &b, &o, &b.s, &err) < 0 ||
	    scheduler_add_project(b.s, dir, NULL, db, NULL, &b.p, &err) < 0 ||
	    scheduler_add_pipeline(b.p, "pipeline.yaml", &err) != 0)
		die(&err);
	busy = run_until(&b, l, START_NS + 86402 * NS_PER_S, &day);
	quiet = run_until(&b, l, START_NS + 86400 * NS_PER_S + 43100 * NS_PER_S, &none);
	noon = run_until(&b, l, START_NS + 86400 * NS_PER_S + 43300 * NS_PER_S, &once);
	if (day != 288 || none != 0 || once != (unsigned)n - 1) {
		fprintf(stderr, "bench_ticks: %u, %u and %u firings\n", day, none, once);
		return 1;
	}
	printf("%d\t%.1f\t%.2f\t%.1f\n", n, busy / day, quiet / (43100 / 30), noon / once);
	scheduler_free(b.s);
	db_close(db);
	loop_free(l);
	return fs_remove_tree(dir, NULL) < 0;
}

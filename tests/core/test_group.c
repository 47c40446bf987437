/* Concurrency groups: never more at once than they allow, nobody forgotten in the line, and no
 * dearer than without. */
#include <stdio.h>
#include <time.h>
#include "base/map.h"
#include "core/fixture.h"
#include "core/seeds.h"
#include "unit.h"

#define SEEDS     150
#define STEPS_MAX 4
#define WIDTH_MAX 12

struct world {
	uint64_t dice;
	struct engine e;
	unsigned n, width, jobs;
	unsigned group[STEPS_MAX]; /* of a step; two may share one */
	unsigned max[STEPS_MAX];   /* of a group */
	bool fails;
	unsigned executed;
};

struct running {
	int64_t until_ns;
	char group[8];
};

/* What is known of those that run: until when, and where. */
static VEC(struct running) running;

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	int64_t now = w->e.clock.mono_ns(&w->e.clock);
	unsigned step, x, at_once = 1;
	struct running me;

	assert_int_equal(sscanf(a->task, "s%u[x=%u]", &step, &x), 2);
	snprintf(me.group, sizeof(me.group), "g%u", w->group[step]);
	for (size_t i = 0; i < running.n; i++)
		at_once += running.v[i].until_ns > now && strcmp(running.v[i].group, me.group) == 0;
	if (at_once > w->max[w->group[step]])
		fail_msg("%u of %s at once, %u are allowed", at_once, me.group,
			 w->max[w->group[step]]);
	*ret_duration_ns = (int64_t)(1 + pick(&w->dice, 3000)) * NS_PER_MS;
	me.until_ns = now + *ret_duration_ns;
	VEC_PUSH(&running, me);
	w->executed++;
	if (w->fails && pick(&w->dice, 15) == 0)
		*ret_failure = FAILURE_FAILED;
}

static void add_steps(const struct world *w, struct str *out)
{
	str_add(out, "pipeline: groups\nsteps:\n");
	for (unsigned s = 0; s < w->n; s++) {
		str_addf(out, "  s%u:\n    run: work %u ${{ matrix.x }}\n    matrix: {x: [", s, s);
		for (unsigned x = 0; x < w->width; x++)
			str_addf(out, "%s%u", x ? ", " : "", x);
		str_addf(out, "]}\n    concurrency: {group: \"g%u\", max: %u}\n", w->group[s],
			 w->max[w->group[s]]);
	}
}

static void one_seed(uint64_t seed, const char *dir)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str yaml = { 0 };
	struct world w = { .dice = mix(seed, 9) };
	struct runner_fake_options fake = { .seed = seed, .script = execute, .arg = &w };
	struct config config = engine_config(dir);
	struct run_options o = { 0 };
	struct run_context ctx;
	struct pipeline *p;
	struct err err = { 0 };
	struct run_row row;

	w.n = 1 + pick(&w.dice, STEPS_MAX);
	w.width = 1 + pick(&w.dice, WIDTH_MAX);
	w.fails = pick(&w.dice, 3) == 0;
	for (unsigned s = 0; s < STEPS_MAX; s++) {
		w.group[s] = pick(&w.dice, 3);
		w.max[s] = 1 + pick(&w.dice, 4);
	}
	o.jobs = 1 + pick(&w.dice, 8);
	o.keep_going = pick(&w.dice, 2);
	running.n = 0;
	engine_open(&w.e, &fake);
	ctx = engine_context(&w.e, &config);
	add_steps(&w, &yaml);
	p = engine_pipeline(dir, yaml.s);
	if (run_start(&ctx, p, &o, arena, &row, &err) < 0)
		fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
	assert_int_equal(row.counts.total, w.n * w.width);
	assert_int_equal(row.counts.executed + row.counts.failed + row.counts.blocked,
			 row.counts.total);
	if (!w.fails || o.keep_going)
		assert_int_equal(w.executed, row.counts.total);
	pipeline_free(p);
	engine_close(&w.e);
}

static void test_random_groups(void **state)
{
	char dir[TEST_DIR_MAX];

	test_dir(dir, sizeof(dir), "group");
	for (struct seeds s = seeds_of(0, SEEDS); s.from < s.to; s.from++)
		one_seed(s.from, dir);
	VEC_FREE(&running);
	fs_remove_tree(dir, NULL);
}

/* Seconds of this thread that a run of so many tasks takes. */
static double cost(const char *dir, unsigned n, const char *concurrency)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str yaml = { 0 };
	struct config config = engine_config(dir);
	struct run_options o = { .jobs = 1 };
	struct runner_fake_options fake = { 0 };
	struct run_context ctx;
	struct timespec from, to;
	struct pipeline *p;
	struct engine e;
	struct run_row row;

	str_addf(&yaml, "pipeline: many\nsteps:\n  s:\n    run: work ${{ item }}\n%s    each: [",
		 concurrency);
	for (unsigned i = 0; i < n; i++)
		str_addf(&yaml, "%s%u", i ? ", " : "", i);
	str_add(&yaml, "]\n");
	engine_open(&e, &fake);
	ctx = engine_context(&e, &config);
	p = engine_pipeline(dir, yaml.s);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	assert_int_equal(run_start(&ctx, p, &o, arena, &row, NULL), 0);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	assert_int_equal(row.counts.executed, n);
	pipeline_free(p);
	engine_close(&e);
	return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

/* A group of one costs what no group costs. Scanning all attempts or all that wait at each event
 * would cost many times as much here. */
static void test_a_group_is_not_dearer(void **state)
{
	char dir[TEST_DIR_MAX];
	double without, with;

	test_dir(dir, sizeof(dir), "group");
	cost(dir, 100, ""); /* warm */
	without = cost(dir, 3000, "");
	with = cost(dir, 3000, "    concurrency: {group: g, max: 1}\n");
	print_message("3000 tasks: %.2f s without a group, %.2f s in a group of one\n", without,
		      with);
	assert_true(with < without * 2 + 0.1);
	fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_groups),
					    cmocka_unit_test(test_a_group_is_not_dearer) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

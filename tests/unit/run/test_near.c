/* The hint that a large input lies on a node already: who gets it, from what, and who doesn't. */
#include <stdio.h>
#include <string.h>
#include "core/fixture.h"
#include "unit.h"

#define TASKS_MAX 16

struct seen {
	char task[40];
	unsigned number;
	char node[40]; /* of the heaviest */
	unsigned weight;
	size_t n;
};
struct world {
	struct seen seen[TASKS_MAX];
	size_t n;
};

/* The node is always called "fake" (runners/fake_world.c). */
static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	struct seen *s = &w->seen[w->n++];

	assert_in_range(w->n, 1, TASKS_MAX);
	snprintf(s->task, sizeof(s->task), "%s", a->task);
	s->number = a->number;
	s->n = a->on.n_near;
	if (s->n) {
		snprintf(s->node, sizeof(s->node), "%s", a->on.near[0].node);
		s->weight = a->on.near[0].weight;
	}
	if (strcmp(a->task, "fails") == 0 && a->number == 1)
		*ret_failure = FAILURE_FAILED;
}

static const struct seen *seen_of(const struct world *w, const char *task, unsigned number)
{
	for (size_t i = 0; i < w->n; i++)
		if (strcmp(w->seen[i].task, task) == 0 && w->seen[i].number == number)
			return &w->seen[i];
	fail_msg("%s was not executed", task);
	return NULL;
}

static void assert_hint(const struct world *w, const char *task, unsigned number, unsigned percent)
{
	const struct seen *s = seen_of(w, task, number);

	if (s->n != (percent > 0))
		fail_msg("%s: %zu nodes", task, s->n);
	if (percent) {
		assert_string_equal(s->node, "fake");
		assert_int_equal(s->weight, percent);
	}
}

/* A run of its own over the same database; its steps print `word`, so they have other keys. */
static void run(struct engine *e, const struct config *config, struct world *w, const char *dir,
		const char *word)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str yaml = { 0 };
	struct run_options o = { .jobs = 4 };
	struct run_context ctx = engine_context(e, config);
	struct pipeline *p;
	struct run_row row;
	struct err err = { 0 };

	str_addf(&yaml,
		 "pipeline: near\n"
		 "inputs: {dir: dir/, other: other/, small: small.txt}\n"
		 "steps:\n"
		 "  first: {run: \"echo first %s\", inputs: {d: \"${{ inputs.dir }}\"}}\n"
		 "  same: {run: \"echo same %s\", needs: [first], inputs: {d: \"${{ inputs.dir "
		 "}}\"}}\n"
		 "  half:\n"
		 "    run: echo half %s\n"
		 "    needs: [first]\n"
		 "    inputs: {d: \"${{ inputs.dir }}\", o: \"${{ inputs.other }}\"}\n"
		 "  small:\n"
		 "    run: echo small %s\n"
		 "    needs: [first]\n"
		 "    inputs: {s: \"${{ inputs.small }}\"}\n"
		 "  fails:\n"
		 "    run: echo fails %s\n"
		 "    needs: [first]\n"
		 "    retry: {max: 1, backoff: 1s}\n"
		 "    inputs: {d: \"${{ inputs.dir }}\"}\n"
		 "  gang:\n"
		 "    run: echo gang %s\n"
		 "    needs: [first]\n"
		 "    distributed: {framework: torch, nodes: 2}\n"
		 "    inputs: {d: \"${{ inputs.dir }}\"}\n",
		 word, word, word, word, word, word);
	w->n = 0;
	p = engine_pipeline(dir, yaml.s);
	if (run_start(&ctx, p, &o, arena, &row, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(row.counts.failed, 0);
	pipeline_free(p);
}

static void put(const char *dir, const char *name, const char *text)
{
	_cleanup_(freep) char *path = fs_join(dir, name), *parent = fs_dirname(path);

	assert_int_equal(fs_mkdir_p(parent, NULL), 0);
	assert_int_equal(fs_write_atomic(path, text, strlen(text), NULL), 0);
}

/* A cluster has one runner for each run. */
static void with_cluster(const char *dir, const char *cache)
{
	struct config config = engine_config(dir);
	struct world w = { 0 };
	struct runner_fake_options fake = { .script = execute, .arg = &w };
	struct runner_fake_world *cluster;
	struct runner *unused;
	struct engine e;

	config.kubernetes.cache.host_path = cache;
	engine_open(&e, &fake);
	cluster = runner_fake_world_new(&e.clock, &fake);
	unused = e.runner;
	assert_int_equal(runner_fake_durable_new(e.loop, cluster, &e.runner, NULL), 0);
	run(&e, &config, &w, dir, "one");
	assert_hint(&w, "first", 1, 0); /* nothing is known yet */
	assert_hint(&w, "same", 1, cache ? 100 : 0);
	assert_hint(&w, "half", 1, cache ? 50 : 0);
	assert_hint(&w, "small", 1, 0);
	assert_hint(&w, "fails", 1, cache ? 100 : 0);
	assert_hint(&w, "fails", 2, 0);
	assert_hint(&w, "gang", 1, 0);
	e.runner->ops->free(e.runner);
	assert_int_equal(runner_fake_durable_new(e.loop, cluster, &e.runner, NULL), 0);
	run(&e, &config, &w, dir, "two");
	assert_hint(&w, "first", 1, cache ? 100 : 0); /* from the record of the run before */
	assert_hint(&w, "half", 1, cache ? 100 : 0);
	e.runner->ops->free(e.runner);
	runner_fake_world_free(cluster);
	e.runner = unused;
	engine_close(&e);
}

static void test_hints(void **state)
{
	char dir[TEST_DIR_MAX];

	test_dir(dir, sizeof(dir), "near");
	put(dir, "dir/a.txt", "a");
	put(dir, "other/b.txt", "b");
	put(dir, "small.txt", "c");
	with_cluster(dir, "/var/cache/cairn");
	with_cluster(dir, NULL);
	fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_hints) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

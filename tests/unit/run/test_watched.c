/* Series that somebody looks at: who asks is seen, for a while; what is kept is bounded, ends with
 * a whole line, and goes with the attempt. */
#include <dirent.h>
#include <string.h>
#include <sys/stat.h>
#include "unit.h"

#include "base/os/fs.h"
#include "run/internal.h"
#include "run/view/watched.h"

#define ID    7
#define OTHER 8

struct world {
	char root[TEST_DIR_MAX];
	struct clock clock;
	struct config config;
	struct run_context ctx;
	struct run run;
	struct arena *arena;
};

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));
	uint64_t id = ID;

	test_dir(w->root, sizeof(w->root), "watched");
	clock_virtual_init(&w->clock, 100 * NS_PER_S);
	w->clock.is_virtual = 0; /* its time is the test's, its files are real */
	w->config.state_dir = w->root;
	w->ctx.config = &w->config;
	assert_int_equal(loop_new(&w->clock, &w->ctx.loop, NULL), 0);
	w->run.ctx = &w->ctx;
	w->run.tasks.by_attempt = map_new();
	*map_slot(w->run.tasks.by_attempt, &id, sizeof(id), NULL) = w; /* any task */
	w->arena = arena_new();
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	watched_deinit(&w->run);
	map_free(w->run.tasks.by_attempt);
	loop_free(w->ctx.loop);
	arena_free(w->arena);
	assert_int_equal(fs_remove_tree(w->root, NULL), 0);
	free(w);
	return 0;
}

static size_t files_in(const struct world *w, const char *dir)
{
	_cleanup_(freep) char *path = fs_join(w->root, dir);
	_cleanup_(closedirp) DIR *d = fs_list_at(AT_FDCWD, path, 0);
	struct dirent *e;
	size_t n = 0;

	while (d && fs_next(d, path, &e, NULL) > 0)
		n++;
	return n;
}

/* The points of the only metric; 0: nothing is there. */
static size_t points(struct world *w, double *ret_last)
{
	struct series s = { 0 };

	if (!watched_read(w->root, ID, w->arena, &s))
		return 0;
	assert_int_equal(s.n_metrics, 1);
	assert_string_equal(s.metrics[0].name, "loss");
	*ret_last = s.metrics[0].v[s.metrics[0].n - 1].x;
	return s.metrics[0].n;
}

static void pass(struct world *w, int64_t ns)
{
	w->clock.is_virtual = 1;
	clock_virtual_advance(&w->clock, ns);
	w->clock.is_virtual = 0;
}

static void add(struct world *w, const char *lines)
{
	watched_points(&w->run, ID, lines, strlen(lines));
}

static void who_asks_is_seen_for_a_minute(void **state)
{
	struct world *w = *state;

	assert_false(watched_now(&w->run, ID));
	pass(w, NS_PER_S);
	watched_ask(w->root, ID);
	watched_ask(w->root, ID);
	watched_ask(w->root, OTHER); /* another run's */
	assert_int_equal(files_in(w, "live/watched"), 2);
	assert_true(watched_now(&w->run, ID));
	assert_false(watched_now(&w->run, OTHER));
	assert_int_equal(files_in(w, "live/watched"), 1);
	pass(w, WATCHED_NS - 1);
	assert_true(watched_now(&w->run, ID));
	pass(w, 1);
	assert_false(watched_now(&w->run, ID));
	/* Who still looks says so again. */
	watched_ask(w->root, ID);
	pass(w, NS_PER_S);
	assert_true(watched_now(&w->run, ID));
}

static void names_that_are_no_attempts_are_left(void **state)
{
	static const char *const names[] = { "x", "-7", "7x", "99999999999999999999" };
	struct world *w = *state;
	_cleanup_(freep) char *dir = fs_join(w->root, "live/watched");

	assert_int_equal(fs_mkdir_p(dir, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		_cleanup_(freep) char *path = fs_join(dir, names[i]);

		assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
	}
	assert_false(watched_now(&w->run, ID));
	assert_int_equal(files_in(w, "live/watched"), ARRAY_LEN(names));
}

static void points_are_kept_until_the_end_is_on_record(void **state)
{
	struct world *w = *state;
	_cleanup_(freep) char *path = xasprintf("%s/live/series/%d", w->root, ID);
	double last = 0;

	add(w, "{\"step\":1,\"loss\":0.5}\n"); /* nobody looks: there is no file */
	assert_int_equal(files_in(w, "live/series"), 0);
	/* An earlier engine's file is replaced: the runner begins anew. */
	watched_ask(w->root, ID);
	assert_true(watched_now(&w->run, ID));
	_cleanup_(freep) char *dir = fs_dirname(path);
	assert_int_equal(fs_mkdir_p(dir, NULL), 0);
	assert_int_equal(fs_write_atomic(path, "{\"step\":9,\"loss\":1}\n", 20, NULL), 0);
	assert_int_equal(points(w, &last), 1);
	add(w, "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":0.4}\n");
	add(w, "{\"step\":3,\"loss\":0.3}\n");
	assert_int_equal(points(w, &last), 3);
	assert_true(last == 3);
	/* What is half there isn't read; what is no series is none. */
	add(w, "{\"step\":4,\"lo");
	assert_int_equal(points(w, &last), 3);
	add(w, "nonsense\n");
	assert_int_equal(points(w, &last), 0);
	watched_ask(w->root, ID);
	watched_settled(&w->run, ID);
	assert_int_equal(files_in(w, "live/series"), 0);
	assert_int_equal(files_in(w, "live/watched"), 0);
	assert_false(watched_now(&w->run, ID));
}

static void a_long_series_is_thinned(void **state)
{
	struct world *w = *state;
	_cleanup_(freep) char *path = xasprintf("%s/live/series/%d", w->root, ID);
	double last = 0;
	struct stat st;
	int step = 0;

	watched_ask(w->root, ID);
	assert_true(watched_now(&w->run, ID));
	for (int round = 0; round < 60; round++) { /* 12 MiB */
		_cleanup_(str_deinit) struct str lines = { 0 };

		for (int i = 0; i < 4000; i++)
			str_addf(&lines, "{\"step\":%d,\"loss\":0.5,\"wall_time\":1700000000.25}\n",
				 ++step);
		watched_points(&w->run, ID, lines.s, lines.len);
		assert_int_equal(stat(path, &st), 0);
		assert_true(st.st_size <= 4 * (off_t)MIB);
	}
	assert_true(points(w, &last) > 10000);
	assert_true(last == step);
	/* One call with more than a file may have, and a line that is longer. */
	_cleanup_(str_deinit) struct str line = { 0 };
	str_add(&line, "{\"step\":1,\"loss\":");
	while (line.len < 5 * MIB)
		str_addc(&line, '1');
	str_add(&line, "}\n");
	watched_points(&w->run, ID, line.s, line.len);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_size <= 4 * (off_t)MIB);
	add(w, "{\"step\":1,\"loss\":2}\n");
	assert_int_equal(points(w, &last), 1);
}

static void files_of_dead_engines_are_bounded(void **state)
{
	struct world *w = *state;

	for (uint64_t id = 1000; id < 1400; id++)
		watched_ask(w->root, id);
	assert_int_equal(files_in(w, "live/watched"), 256);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(who_asks_is_seen_for_a_minute, setup, teardown),
		cmocka_unit_test_setup_teardown(names_that_are_no_attempts_are_left, setup,
						teardown),
		cmocka_unit_test_setup_teardown(points_are_kept_until_the_end_is_on_record, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_long_series_is_thinned, setup, teardown),
		cmocka_unit_test_setup_teardown(files_of_dead_engines_are_bounded, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

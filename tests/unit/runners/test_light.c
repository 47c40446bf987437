/* Pods without a sidecar: what the engine packs for them, and what it takes from their messages,
 * which a program may have written. */
#include "unit.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/crypto/base64.h"
#include "base/os/fs.h"
#include "runners/kubernetes/init/light.h"
#include "runners/kubernetes/job/light.h"

/* Parcels. */

static int dir_at(const char *dir)
{
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void put(int fd, const char *name, const char *text, mode_t mode)
{
	assert_int_equal(fs_write_atomic_at(fd, name, text, strlen(text), 0600, 0, NULL), 0);
	assert_int_equal(fchmodat(fd, name, mode, 0), 0);
}

static void test_a_parcel_keeps_what_counts(void **state)
{
	char from[TEST_DIR_MAX], to[TEST_DIR_MAX];
	_cleanup_(str_deinit) struct str bytes = { 0 }, got = { 0 };
	struct parcel p = { .bytes = &bytes, .max = 4096 };
	char target[64] = "";
	struct stat st;
	int a, b;

	test_dir(from, sizeof(from), "parcel-from");
	test_dir(to, sizeof(to), "parcel-to");
	a = dir_at(from);
	b = dir_at(to);
	assert_int_equal(mkdirat(a, "d", 0755), 0);
	put(a, "d/one", "the same", 0755);
	put(a, "d/two", "the same", 0444);
	put(a, "empty", "", 0644);
	assert_int_equal(symlinkat("../elsewhere", a, "d/link"), 0);
	assert_int_equal(fchmodat(a, "d", 0555, 0), 0);
	assert_int_equal(parcel_add_all(&p, a), 0);
	assert_int_equal(bytes.len, strlen("the same") + strlen("../elsewhere"));
	assert_int_equal(parcel_lay(b, p.entries.s, p.entries.len, bytes.s, bytes.len), 0);
	assert_int_equal(fs_read_file_at(b, "d/two", 100, &got, NULL), 0);
	assert_string_equal(got.s, "the same");
	assert_int_equal(fstatat(b, "d/one", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0755);
	assert_int_equal(fstatat(b, "d", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0555);
	assert_int_equal(fstatat(b, "empty", &st, 0), 0);
	assert_int_equal(readlinkat(b, "d/link", target, sizeof(target)), strlen("../elsewhere"));
	/* What was cut off is refused, wherever. */
	for (size_t n = 1; n < p.entries.len; n++) {
		char again[TEST_DIR_MAX];
		int c;

		test_dir(again, sizeof(again), "parcel-cut");
		c = dir_at(again);
		if (parcel_lay(c, p.entries.s, n, bytes.s, bytes.len) == 0)
			assert_true(n < p.entries.len); /* between two entries */
		assert_int_equal(parcel_lay(c, p.entries.s, p.entries.len, bytes.s, 3) == 0, false);
		close(c);
		assert_int_equal(fs_remove_tree(again, NULL), 0);
	}
	str_deinit(&p.entries);
	close(a);
	close(b);
	assert_int_equal(fs_remove_tree(from, NULL), 0);
	assert_int_equal(fs_remove_tree(to, NULL), 0);
}

static void test_a_parcel_has_a_limit(void **state)
{
	char from[TEST_DIR_MAX];
	int a;

	test_dir(from, sizeof(from), "parcel-max");
	a = dir_at(from);
	put(a, "f", "0123456789", 0644);
	for (size_t max = 0; max < 60; max++) {
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct parcel p = { .bytes = &bytes, .max = max };
		int r = parcel_add(&p, a, "f");

		/* 4 and 4 and 1 of the path, 8 and 8, and 10 of content */
		assert_int_equal(r, max < 35 ? 1 : 0);
		str_deinit(&p.entries);
	}
	close(a);
	assert_int_equal(fs_remove_tree(from, NULL), 0);
}

static void entry(struct str *out, unsigned kind, const char *path, uint64_t at, uint64_t n)
{
	str_add_u32(out, kind << 16 | 0644);
	str_add_field(out, path, strlen(path));
	str_add_u64(out, at);
	str_add_u64(out, n);
}

static void test_a_hostile_parcel_stays_inside(void **state)
{
	static const struct {
		unsigned kind;
		const char *path;
		uint64_t at, n;
	} bad[] = {
		{ 1, "../out", 0, 1 },      { 1, "/out", 0, 1 },
		{ 1, "a/../../out", 0, 1 }, { 1, "", 0, 1 },
		{ 1, ".", 0, 1 },           { 2, "..", 0, 0 },
		{ 1, "a//b", 0, 1 },        { 1, "a/", 0, 1 },
		{ 0, "a", 0, 1 },           { 5, "a", 0, 1 },
		{ 1, "a", 0, 5 },           { 1, "a", 5, 0 },
		{ 1, "a", UINT64_MAX, 2 },  { 1, "a", 2, UINT64_MAX },
		{ 1, "missing/a", 0, 1 },   { 1, "link/passwd", 0, 1 },
		{ 1, "link", 0, 1 },        { 1, "there", 0, 1 },
	};
	char dir[TEST_DIR_MAX];
	int fd;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(str_deinit) struct str entries = { 0 }, left = { 0 };
		_cleanup_(freep) char *w = NULL;
		struct stat st;

		test_dir(dir, sizeof(dir), "parcel-hostile");
		fd = dir_at(dir);
		assert_int_equal(mkdirat(fd, "w", 0755), 0);
		assert_int_equal(mkdirat(fd, "other", 0755), 0);
		put(fd, "w/there", "old", 0644);
		entry(&entries, 3, "link", 0, 4);
		entry(&entries, bad[i].kind, bad[i].path, bad[i].at, bad[i].n);
		close(fd);
		w = xasprintf("%s/w", dir);
		fd = dir_at(w);
		if (parcel_lay(fd, entries.s, entries.len, "/tmp", 4) == 0)
			fail_msg("%s was laid out", bad[i].path);
		assert_true(fstatat(fd, "../out", &st, AT_SYMLINK_NOFOLLOW) < 0);
		assert_int_equal(fs_read_file_at(fd, "there", 10, &left, NULL), 0);
		assert_string_equal(left.s, "old");
		close(fd);
		assert_int_equal(fs_remove_tree(dir, NULL), 0);
	}
}

/* Results. */

static int no_collect(void *arg, const struct runner_attempt *a, int dir_fd, enum runner_place did,
		      struct content_id *ret_ids, struct err *err)
{
	bool *called = arg;

	*called = true;
	return err_set(err, ERR_NOT_FOUND, "nothing is there");
}

static const struct runner_output an_output[] = { { "o", "o.txt", false } };

static int take(const void *raw, size_t n, struct kube_light_result *ret, struct arena *arena,
		bool *called)
{
	const struct runner_staging staging = { .collect = no_collect, .arg = called };
	const struct runner_attempt a = {
		.id = 3, .outputs = an_output, .n_outputs = 1, .timeout_ns = 5 * NS_PER_S
	};
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err err = { 0 };

	str_add(&text, LIGHT_PREFIX);
	base64_add(&text, raw, n);
	return kube_light_take(text.s, &a, &staging, arena, ret, &err);
}

static void test_results(void **state)
{
	static const struct {
		struct init_exit exit;
		bool too_large;
		enum failure_class want;
		bool stopped;
	} cases[] = {
		{ { .status = 3 }, false, FAILURE_FAILED },
		{ { .status = -1, .signo = 9 }, false, FAILURE_FAILED },
		{ { .status = -1, .signo = 9, .oom = true }, false, FAILURE_OOM },
		{ { .status = -1, .signo = 15, .timed_out = true }, false, FAILURE_TIMEOUT },
		{ { .status = 0, .told_to_end = true }, false, FAILURE_FAILED, true },
		{ { .status = 0 }, true, FAILURE_LOST },
		{ { .status = 0 }, false, FAILURE_OUTPUT },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str raw = { 0 };
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		const struct light_result r = { .exit = cases[i].exit,
						.too_large = cases[i].too_large,
						.log = "the log",
						.n_log = 7,
						.log_bytes = 7 };
		struct kube_light_result got;
		bool called = false;

		light_result_encode(&r, &raw);
		assert_int_equal(take(raw.s, raw.len, &got, arena, &called), 0);
		assert_int_equal(got.result.r.failure, cases[i].want);
		assert_int_equal(got.result.stopped, cases[i].stopped);
		assert_int_equal(got.result.attempt_id, 3);
		assert_int_equal(called, cases[i].want == FAILURE_OUTPUT);
		assert_int_equal(got.result.r.err.code == ERR_TOO_LARGE, cases[i].too_large);
		assert_int_equal(got.n_log, 7);
		for (size_t n = 0; n < raw.len; n++)
			assert_true(take(raw.s, n, &got, arena, &called) < 0);
		for (size_t n = 0; n < raw.len; n++) { /* anything, but no crash */
			raw.s[n] ^= 0x5a;
			(void)take(raw.s, raw.len, &got, arena, &called);
			raw.s[n] ^= 0x5a;
		}
	}
}

/* The kubelet cuts off what is longer. */
static void test_a_full_message_fits(void **state)
{
	_cleanup_(freep) char *log = xcalloc(LIGHT_RESULT_MAX, 1);
	_cleanup_(str_deinit) struct str raw = { 0 }, text = { 0 };
	struct light_result r = { .exit = { .status = -1,
					    .signo = 128,
					    .started_ns = INT64_MAX,
					    .ended_ns = INT64_MAX,
					    .cpu_ns = INT64_MAX,
					    .max_rss_bytes = INT64_MAX },
				  .log = log,
				  .n_log = LIGHT_RESULT_MAX,
				  .log_bytes = UINT64_MAX },
			    got;

	for (size_t n = 0; n <= light_room(); n += light_room() / 3) {
		r.bytes = log;
		r.n_bytes = n;
		str_reset(&raw);
		str_reset(&text);
		light_result_encode(&r, &raw);
		str_add(&text, LIGHT_PREFIX);
		base64_add(&text, raw.s, raw.len);
		assert_true(text.len <= LIGHT_MESSAGE);
		assert_int_equal(light_result_decode(raw.s, raw.len, &got), 0);
		assert_int_equal(got.n_bytes, n);
		assert_int_equal(got.n_log, light_room() - n);
	}
}

/* Plans. */

static void test_who_may_be_light(void **state)
{
	const struct kube_light_program program = { "x", 1, "amd64" };
	const struct kube_profile p = { .arch = "amd64" };
	const struct runner_attempt good = { .number = 1, .on = { .small = true, .image = "i" } };
	struct runner_attempt a;
	static const struct runner_input volume[] = { { "v", "inputs/v", .volume = "claim://v" } };

	assert_true(kube_light_suits(&p, &good, &program));
	assert_false(kube_light_suits(&p, &good, &(struct kube_light_program){ 0 }));
	assert_false(
		kube_light_suits(&p, &good, &(struct kube_light_program){ "x", 2 * MIB, "amd64" }));
	assert_false(kube_light_suits(&(struct kube_profile){ .arch = "arm64" }, &good, &program));
#define NOT(change)                                               \
	do {                                                      \
		a = good;                                         \
		change;                                           \
		assert_false(kube_light_suits(&p, &a, &program)); \
	} while (0)
	NOT(a.on.small = false);
	NOT(a.number = 2);
	NOT(a.on.pack = 2);
	NOT(a.on.gang.nodes = 2);
	NOT(a.checkpoint_path = "ckpt");
	NOT(a.series_path = "s.jsonl");
	NOT((a.inputs = volume, a.n_inputs = 1));
	NOT(a.on.placement_json = "{\"pod_template\":{\"spec\":{}}}");
	NOT(a.on.placement_json = "{\"node_selector\":{\"kubernetes.io/arch\":\"arm64\"}}");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_parcel_keeps_what_counts),
		cmocka_unit_test(test_a_parcel_has_a_limit),
		cmocka_unit_test(test_a_hostile_parcel_stays_inside),
		cmocka_unit_test(test_results),
		cmocka_unit_test(test_a_full_message_fits),
		cmocka_unit_test(test_who_may_be_light),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The part of a log that is wanted: random logs, cut anywhere, against a naive reading of their
 * lines; files that are longer than what is looked at for last lines. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "base/mem.h"
#include "base/text/str.h"
#include "run/task/log_part.h"
#include "unit.h"

#define ROUNDS 20000

static uint64_t rnd_state = 7;

static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(rnd_state >> 33) % n;
}

/* Of pieces that are, begin or nearly are marks. */
static void random_log(struct str *out)
{
	static const char *const pieces[] = { "[rank 1] ", "[rank 12] ", "[rank 1",        "[",
					      "rank 1] ",  "x",          "a longer text ", "\n",
					      "\n",        "\n" };

	str_reset(out);
	str_add(out, "");
	for (uint32_t n = rnd(40); n; n--)
		str_add(out, pieces[rnd(ARRAY_LEN(pieces))]);
}

static void naive(const char *log, const struct log_wanted *w, struct str *out)
{
	_cleanup_(freep) char *mark = w->of_rank ? xasprintf("[rank %u] ", w->rank) : xstrdup("");
	const char *lines[64];
	size_t lens[64], n = 0;

	str_reset(out);
	str_add(out, "");
	while (*log) {
		size_t len = strcspn(log, "\n");

		len += log[len] == '\n';
		if (strncmp(log, mark, strlen(mark)) == 0) {
			lines[n] = log + strlen(mark);
			lens[n++] = len - strlen(mark);
		}
		log += len;
	}
	for (size_t i = w->lines && n > w->lines ? n - (size_t)w->lines : 0; i < n; i++)
		str_addn(out, lines[i], lens[i]);
}

static void feed(struct log_part *p, const struct str *log, struct str *out)
{
	char buf[512];

	str_reset(out);
	str_add(out, "");
	for (size_t at = 0; at < log->len;) {
		size_t n = MIN(1 + rnd(rnd(2) ? 3 : sizeof(buf)), log->len - at);

		memcpy(buf, log->s + at, n);
		str_addn(out, buf, log_part_keep(p, buf, n));
		at += n;
	}
}

static void test_random(void **state)
{
	_cleanup_(str_deinit) struct str log = { 0 }, want = { 0 }, got = { 0 };

	for (unsigned i = 0; i < ROUNDS; i++) {
		const struct log_wanted w = { .lines = rnd(3) ? rnd(5) : 0,
					      .of_rank = rnd(2),
					      .rank = rnd(2) ? 1 : 12 };
		struct log_part p;

		random_log(&log);
		naive(log.s, &w, &want);
		log_part_init(&p, &w);
		feed(&p, &log, &got);
		if (w.lines) {
			log_part_last(&p);
			feed(&p, &log, &got);
		}
		assert_string_equal(got.s, want.s);
	}
}

static void test_what_comes_later_is_kept(void **state)
{
	const struct log_wanted w = { .lines = 2, .of_rank = true, .rank = 3 };
	char first[] = "[rank 3] a\n[rank 3] b\n[rank 4] z\n[rank 3] c", again[sizeof(first)],
	     more[] = "ontinued\n[rank 3] d\n[rank 30] y\n";
	struct log_part p;

	memcpy(again, first, sizeof(first));
	log_part_init(&p, &w);
	log_part_keep(&p, first, strlen(first));
	log_part_last(&p);
	assert_int_equal(log_part_keep(&p, again, strlen(again)), 3);
	assert_memory_equal(again, "b\nc", 3);
	assert_int_equal(log_part_keep(&p, more, strlen(more)), 11);
	assert_memory_equal(more, "ontinued\nd\n", 11);
}

/* [from, its last lines] of a file whose beginning is a hole. */
static void test_long_file(void **state)
{
	static const char text[] = "\n[rank 0] one\n[rank 1] two\n[rank 0] three\n";
	const struct log_wanted w = { .lines = 1, .of_rank = true, .rank = 1 };
	int fd = memfd_create("log", MFD_CLOEXEC);
	struct log_part p;
	char buf[4096];
	struct str got = { 0 };
	ssize_t n;
	off_t at;

	assert_int_equal(pwrite(fd, text, strlen(text), (off_t)LOG_TAIL_MAX), strlen(text));
	log_part_init(&p, &w);
	at = log_part_seek(&p, fd);
	assert_int_equal(at, strlen(text));
	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		str_addn(&got, buf, log_part_keep(&p, buf, (size_t)n));
		at += n;
	}
	assert_string_equal(got.s, "two\n");
	str_deinit(&got);
	close(fd);
}

/* So much of a file's end is looked at, to the byte. */
static void test_so_much_is_looked_at(void **state)
{
	const struct log_wanted w = { .lines = 9 };
	int fd = memfd_create("log", MFD_CLOEXEC);

	for (int over = -1; over <= 1; over++) {
		struct log_part p;

		assert_int_equal(ftruncate(fd, (off_t)LOG_TAIL_MAX + over), 0);
		log_part_init(&p, &w);
		assert_int_equal(log_part_seek(&p, fd), over > 0 ? 1 : 0);
	}
	close(fd);
}

static void test_all_of_it(void **state)
{
	struct log_part p;
	char text[] = "a\nb";

	log_part_init(&p, &(struct log_wanted){ 0 });
	assert_int_equal(log_part_seek(&p, -1), 0);
	assert_int_equal(log_part_keep(&p, text, 3), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random),
					    cmocka_unit_test(test_what_comes_later_is_kept),
					    cmocka_unit_test(test_long_file),
					    cmocka_unit_test(test_so_much_is_looked_at),
					    cmocka_unit_test(test_all_of_it) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

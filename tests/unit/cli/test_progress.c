/* Events go in with a virtual clock; what a terminal of a few columns would show comes out. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "cli/progress/internal.h"
#include "unit.h"

/* A terminal that knows what the display uses: text, \n, \r, up, clear line, clear below. */

#define COLUMNS 60
#define LINES   200

struct screen {
	char cell[LINES][COLUMNS * 4 + 1][5];
	int x, y, columns, wrapped;
};

static void screen_clear(struct screen *s, int from_y, int to_y, int from_x)
{
	for (int y = from_y; y < to_y; y++)
		for (int x = y == from_y ? from_x : 0; x < COLUMNS * 4; x++)
			s->cell[y][x][0] = 0;
}

static const char *screen_escape(struct screen *s, const char *p)
{
	int n = (int)strtol(p, (char **)(uintptr_t)&p, 10);

	assert_non_null(strchr("AJKm", *p));
	if (*p == 'A') {
		s->y -= n;
		assert_true(s->y >= 0); /* never above what it wrote */
	} else if (*p == 'K') {
		screen_clear(s, s->y, s->y + 1, s->x);
	} else if (*p == 'J') {
		screen_clear(s, s->y, LINES, s->x);
	}
	return p + 1;
}

static void screen_feed(struct screen *s, const char *p, size_t n)
{
	const char *end = p + n;

	while (p < end) {
		uint32_t cp;
		size_t len = text_utf8_decode(p, (size_t)(end - p), &cp);

		assert_true(len > 0);
		if (*p == '\n') {
			s->y++;
			s->x = 0;
			assert_true(s->y < LINES);
		} else if (*p == '\r') {
			s->x = 0;
		} else if (*p == '\033') {
			assert_int_equal(p[1], '[');
			p = screen_escape(s, p + 2);
			continue;
		} else {
			memcpy(s->cell[s->y][s->x], p, len);
			s->cell[s->y][s->x][len] = 0;
			if (text_width(p, len) == 2)
				memcpy(s->cell[s->y][s->x + 1], "\001", 2);
			s->x += (int)text_width(p, len);
			if (s->x >= s->columns)
				s->wrapped++;
		}
		p += len;
	}
}

static char *screen_text(const struct screen *s)
{
	struct str out = { 0 };
	size_t end = 0;

	str_add(&out, "");
	for (int y = 0; y < LINES; y++) {
		size_t keep;
		for (int x = 0; x < COLUMNS * 4; x++)
			if (s->cell[y][x][0] != 1)
				str_add(&out, s->cell[y][x][0] ? s->cell[y][x] : " ");
		for (keep = out.len; keep > end && out.s[keep - 1] == ' '; keep--)
			;
		out.len = keep;
		out.s[out.len] = 0;
		if (keep > end) {
			str_addc(&out, '\n');
			end = out.len;
		}
	}
	out.len = end;
	out.s[end] = 0;
	return str_take(&out);
}

/* A run. */

struct fixture {
	struct clock clock;
	struct progress *p;
	const struct run_observer *o;
	char *bytes;
	size_t size, seen;
	FILE *out;
	struct screen screen;
};

static void open_fixture(struct fixture *f, bool live, int verbosity, unsigned columns,
			 unsigned lines)
{
	struct progress_options o = { .live = live,
				      .utf8 = true,
				      .verbosity = verbosity,
				      .columns = columns,
				      .lines = lines };

	memset(f, 0, sizeof(*f));
	clock_virtual_init(&f->clock, 1000 * NS_PER_S);
	f->out = o.out = o.summary = open_memstream(&f->bytes, &f->size);
	o.clock = &f->clock;
	f->p = progress_new(&o);
	f->o = progress_observer(f->p);
	f->screen.columns = (int)columns;
}

static void close_fixture(struct fixture *f)
{
	progress_free(f->p);
	fclose(f->out);
	free(f->bytes);
}

static void look(struct fixture *f)
{
	fflush(f->out);
	screen_feed(&f->screen, f->bytes + f->seen, f->size - f->seen);
	f->seen = f->size;
	assert_int_equal(f->screen.wrapped, 0); /* no line may wrap: it couldn't be drawn over */
}

static void shows(struct fixture *f, const char *want)
{
	char *got;

	look(f);
	got = screen_text(&f->screen);
	assert_string_equal(got, want);
	free(got);
}

static void pass(struct fixture *f, int64_t ms)
{
	clock_virtual_advance(&f->clock, ms * NS_PER_MS);
}

static const struct run_row *row(enum run_state state, struct run_counts counts)
{
	static struct run_row r;

	memset(&r, 0, sizeof(r));
	r.id = "digits-7kq2m";
	r.path = "pipeline.yaml";
	r.state = state;
	r.started_ns = 1;
	r.ended_ns = state == RUN_RUNNING ? 0 : 1 + 83 * NS_PER_S;
	r.counts = counts;
	r.has_hash = state != RUN_RUNNING;
	memset(r.hash.b, 0xab, sizeof(r.hash.b));
	return &r;
}

static void failed(struct fixture *f, uint64_t attempt, const char *task, const char *message,
		   const char *tail, bool retry)
{
	struct runner_result r = { .failure = FAILURE_FAILED,
				   .exit_status = 1,
				   .started_ns = 0,
				   .ended_ns = 2400 * NS_PER_MS };

	err_set(&r.err, ERR_FAILED, "%s", message);
	r.log_tail = (char *)(uintptr_t)tail;
	f->o->attempt_failed(f->o->arg, attempt, task, 1, &r, retry, retry ? 10 * NS_PER_S : 0);
	if (!retry)
		f->o->task_ended(f->o->arg, attempt, task, OUTCOME_FAILED, 2400 * NS_PER_MS);
}

#define COUNTS(...) ((struct run_counts){ __VA_ARGS__ })
#define PROGRESS(f, totals, running, remaining) \
	(f)->o->progress((f)->o->arg, &totals, running, remaining)

/* The block shows the last line of a running task's log, without what a terminal would obey. */
static void test_live_output(void **state)
{
	static struct fixture f;
	struct store *const unused = (struct store *)&f; /* only logs that have ended need it */
	_cleanup_(freep) char *work = NULL, *log = NULL;
	char dir[TEST_DIR_MAX];
	FILE *out;

	test_dir(dir, sizeof(dir), "progress");
	work = fs_join(dir, "work/1");
	log = fs_join(work, "log");
	assert_int_equal(fs_mkdir_p(work, NULL), 0);
	open_fixture(&f, true, 0, 60, 24);
	progress_follow(f.p, dir, unused);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 0);
	f.o->task_started(f.o->arg, 1, "train", 1, NULL);
	followed_poll(f.p); /* there is no log yet */
	out = fopen(log, "w");
	assert_non_null(out);
	fputs("epoch 1\n  10%\r\033[32m  55%\033[0m\r", out);
	fflush(out);
	followed_poll(f.p);
	PROGRESS(&f, COUNTS(.total = 1), 1, -1);
	pass(&f, 1000);
	progress_draw(f.p, true);
	shows(&f, "digits-7kq2m: pipeline.yaml\n"
		  "  train       1s    55%\n"
		  "────────────────────────────── 0/1  1s\n");
	fputs("\nepoch 2\n\n", out);
	fflush(out);
	followed_poll(f.p);
	pass(&f, 1000);
	progress_draw(f.p, true);
	shows(&f, "digits-7kq2m: pipeline.yaml\n"
		  "  train       2s  epoch 2\n"
		  "────────────────────────────── 0/1  2s\n");
	/* Another attempt's file has taken the path's place. */
	assert_int_equal(unlink(log), 0);
	fputs("not ours\n", out);
	fclose(out);
	followed_poll(f.p);
	pass(&f, 1000);
	progress_draw(f.p, true);
	shows(&f, "digits-7kq2m: pipeline.yaml\n"
		  "  train       3s  epoch 2\n"
		  "────────────────────────────── 0/1  3s\n");
	close_fixture(&f);
	assert_int_equal(fs_remove_tree(dir, NULL), 0);
}

static void test_live(void **state)
{
	static struct fixture f;

	open_fixture(&f, true, 0, 60, 24);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 90 * NS_PER_S);
	f.o->task_started(f.o->arg, 1, "train[fold=0]", 1, "first run");
	f.o->task_started(f.o->arg, 2, "shard", 1, NULL);
	PROGRESS(&f, COUNTS(.total = 8, .hits = 3, .saved_ns = 123 * NS_PER_S), 2, 65 * NS_PER_S);
	pass(&f, 12000);
	progress_metric(f.p, 1, "loss", 0.31);
	shows(&f, "digits-7kq2m: pipeline.yaml, about 1m30s\n"
		  "  train[fold=0]      12s  loss=0.31\n"
		  "  shard              12s\n"
		  "━━━━━━──────────── 3/8  12s  1m05s left  3 hits saved 2m03s\n");
	/* Nothing is drawn again within 100 ms. */
	fflush(f.out);
	f.seen = f.size;
	pass(&f, 50);
	progress_metric(f.p, 1, "loss", 0.3);
	fflush(f.out);
	assert_int_equal(f.seen, f.size);
	pass(&f, 50);
	progress_metric(f.p, 1, "loss", 0.29);
	f.o->task_ended(f.o->arg, 2, "shard", OUTCOME_DONE, 12 * NS_PER_S);
	pass(&f, 100);
	PROGRESS(&f, COUNTS(.total = 8, .hits = 3, .executed = 1, .saved_ns = 123 * NS_PER_S), 1,
		 -1);
	shows(&f, "digits-7kq2m: pipeline.yaml, about 1m30s\n"
		  "  train[fold=0]      12s  loss=0.29\n"
		  "━━━━━━━━━━━━━━━─────────────── 4/8  12s  3 hits saved 2m03s\n");
	close_fixture(&f);
}

static void test_live_failures_scroll(void **state)
{
	static struct fixture f;

	open_fixture(&f, true, 0, 80, 24);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 0);
	f.o->task_started(f.o->arg, 1, "a", 1, NULL);
	f.o->task_started(f.o->arg, 2, "b", 1, NULL);
	PROGRESS(&f, COUNTS(.total = 2), 2, -1);
	pass(&f, 1000);
	failed(&f, 1, "a", "exit status 1", "line 1\nline 2\nbad \x1b[2Jbyte \xff\n", false);
	PROGRESS(&f, COUNTS(.total = 2, .failed = 1), 1, -1);
	pass(&f, 1000);
	progress_draw(f.p, true);
	shows(&f, "digits-7kq2m: pipeline.yaml\n"
		  "✗ a failed after 2.4s: exit status 1\n"
		  "    line 1\n"
		  "    line 2\n"
		  "    bad \\e[2Jbyte \\xff\n"
		  "  b       2s\n"
		  "━━━━━━━━━━━━━━━─────────────── 1/2  2s  1 failed\n");
	f.o->notice(f.o->arg, "waiting for another run");
	failed(&f, 2, "b", "out of memory", NULL, true);
	f.o->task_started(f.o->arg, 3, "b", 2, NULL);
	pass(&f, 100);
	progress_draw(f.p, true);
	shows(&f, "digits-7kq2m: pipeline.yaml\n"
		  "✗ a failed after 2.4s: exit status 1\n"
		  "    line 1\n"
		  "    line 2\n"
		  "    bad \\e[2Jbyte \\xff\n"
		  "· waiting for another run\n"
		  "↻ b had to stop after 2.4s: out of memory; attempt 2 follows in 10s\n"
		  "  b       0s  attempt 2\n"
		  "━━━━━━━━━━━━━━━─────────────── 1/2  2s  1 failed\n");
	close_fixture(&f);
}

static void test_live_many_rows(void **state)
{
	static struct fixture f;
	char name[64];

	open_fixture(&f, true, 0, 60, 8);
	for (unsigned i = 1; i <= 9; i++) {
		snprintf(name, sizeof(name),
			 "step-%u[a-rather-long-value=0.0001,and-another=abcdef]", i);
		f.o->task_started(f.o->arg, i,
				  i == 2 ? "evil\n\x1b[2Jname"
				  : i == 3 ? "日本語のタスク名がとても長いので切られます"
					   : name,
				  1, NULL);
	}
	progress_metric(f.p, 1, "validation.accuracy.top.five", 0.123456789);
	PROGRESS(&f, COUNTS(.total = 1000, .executed = 400, .blocked = 5), 9, 3700 * NS_PER_S);
	progress_draw(f.p, true);
	shows(&f, "  step-1[a-rath…nother=abcdef]       0s  validati…e=0.12346\n"
		  "  evil\\n\\e[2Jname                    0s\n"
		  "  日本語のタス…ので切られます        0s\n"
		  "  step-4[a-rath…nother=abcdef]       0s\n"
		  "  and 5 more running\n"
		  "━━━━━━━━━────────────── 405/1000  0s  1h01m left  5 not run\n");
	close_fixture(&f);
}

/* After progress_plain() the block is gone and doesn't come back. */
static void test_plain_from_now_on(void **state)
{
	static struct fixture f;

	open_fixture(&f, true, 0, 60, 24);
	PROGRESS(&f, COUNTS(.total = 2), 1, -1);
	progress_draw(f.p, true);
	progress_plain(f.p);
	pass(&f, 1000);
	PROGRESS(&f, COUNTS(.total = 2, .executed = 1), 1, -1);
	progress_draw(f.p, true);
	f.o->task_ended(f.o->arg, 1, "a", OUTCOME_DONE, NS_PER_S);
	shows(&f, "✓ a 1.0s\n");
	close_fixture(&f);
}

/* A run that is over in no time shows no block at all. */
static void test_live_short(void **state)
{
	static struct fixture f;

	open_fixture(&f, true, 0, 60, 24);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 0);
	f.o->task_started(f.o->arg, 1, "a", 1, NULL);
	PROGRESS(&f, COUNTS(.total = 1), 1, -1);
	pass(&f, 150);
	PROGRESS(&f, COUNTS(.total = 1, .executed = 1), 0, -1);
	fflush(f.out);
	assert_string_equal(f.bytes, "digits-7kq2m: pipeline.yaml\n");
	close_fixture(&f);
}

/* The timer draws without events, and a terminal that got narrower is drawn on anew. */
static void test_timer_and_resize(void **state)
{
	static struct fixture f;
	struct progress_options o = { .live = true, .utf8 = true };
	struct loop *loop;
	struct err err = { 0 };

	memset(&f, 0, sizeof(f));
	setenv("COLUMNS", "80", 1);
	setenv("LINES", "24", 1);
	clock_virtual_init(&f.clock, 1000 * NS_PER_S);
	f.out = o.out = open_memstream(&f.bytes, &f.size);
	o.clock = &f.clock;
	f.p = progress_new(&o);
	f.o = progress_observer(f.p);
	f.screen.columns = 80;
	assert_int_equal(loop_new(&f.clock, &loop, &err), 0);
	assert_int_equal(progress_attach(f.p, loop, &err), 0);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 0);
	f.o->task_started(f.o->arg, 1, "a-name-that-needs-most-of-the-width-of-a-terminal", 1,
			  NULL);
	PROGRESS(&f, COUNTS(.total = 4), 1, -1);
	for (int i = 0; i < 20 && f.clock.now_ns < 1003 * NS_PER_S; i++)
		assert_int_equal(loop_turn(loop, -1, &err), 1);
	shows(&f, "digits-7kq2m: pipeline.yaml\n"
		  "  a-name-that-needs-most-of-the-width-of-a-terminal       3s\n"
		  "────────────────────────────── 0/4  3s\n");
	setenv("COLUMNS", "40", 1);
	raise(SIGWINCH);
	assert_int_equal(loop_turn(loop, 0, &err), 1);
	fflush(f.out);
	assert_non_null(strstr(f.bytes + f.seen, "\033[3A")); /* the row takes two lines now */
	assert_non_null(strstr(f.bytes + f.seen, "  a-name-that-n…-of-a-terminal       3s"));
	progress_detach(f.p);
	loop_free(loop);
	close_fixture(&f);
	unsetenv("COLUMNS");
	unsetenv("LINES");
}

/* Any events, any size of terminal: no line wraps, the cursor never goes above the display's own
 * lines, all that was written is text. */
static void test_live_random(void **state)
{
	static const char *const names[] = {
		"a",           "train[fold=0]", "日本語日本語日本語日本語日本語",
		"x\n\x1b[1Ay", "e\xcc\x81",     "a-name-that-is-really-much-too-long-for-it"
	};
	unsigned seed = 11;

	for (int round = 0; round < 60; round++) {
		static struct fixture f;
		uint64_t next = 1, ended = 0;

		open_fixture(&f, true, 0, 20 + (unsigned)rand_r(&seed) % 100,
			     2 + (unsigned)rand_r(&seed) % 30);
		for (int event = 0; event < 150; event++) {
			switch (rand_r(&seed) % 5) {
			case 0:
				f.o->task_started(f.o->arg, next,
						  names[(size_t)rand_r(&seed) % ARRAY_LEN(names)],
						  1 + (unsigned)rand_r(&seed) % 3, NULL);
				next++;
				break;
			case 1:
				f.o->task_ended(f.o->arg, 1 + (uint64_t)rand_r(&seed) % next, "t",
						OUTCOME_DONE, 5);
				ended++;
				break;
			case 2:
				progress_metric(f.p, 1 + (uint64_t)rand_r(&seed) % next, "val.loss",
						(double)rand_r(&seed) / 7);
				break;
			case 3:
				PROGRESS(&f,
					 COUNTS(.total = next + ended, .executed = ended, .hits = 2,
						.saved_ns = (int64_t)rand_r(&seed) * 1000,
						.failed = 1),
					 next,
					 rand_r(&seed) % 3 ? (int64_t)rand_r(&seed) * 1000 : -1);
				break;
			default:
				pass(&f, rand_r(&seed) % 300);
			}
			look(&f);
		}
		close_fixture(&f);
	}
}

/* No terminal. */

static void prints(struct fixture *f, const char *want)
{
	fflush(f->out);
	assert_string_equal(f->bytes, want);
}

static void test_plain(void **state)
{
	static struct fixture f;

	open_fixture(&f, false, 0, 80, 24);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 0);
	f.o->task_started(f.o->arg, 1, "a", 1, "first run");
	f.o->task_ended(f.o->arg, 1, "a", OUTCOME_DONE, 1500 * NS_PER_MS);
	for (int i = 0; i < 5000; i++) /* hits are summed up, never listed */
		f.o->task_ended(f.o->arg, 0, "h", OUTCOME_HIT, NS_PER_S);
	f.o->task_started(f.o->arg, 2, "b", 1, NULL);
	failed(&f, 2, "b", "exit status 1", "Traceback\nValueError\n", false);
	f.o->ended(f.o->arg,
		   row(RUN_FAILED, COUNTS(.total = 5003, .hits = 5000, .executed = 1, .failed = 1,
					  .blocked = 1, .saved_ns = 5000 * NS_PER_S)));
	prints(&f, "digits-7kq2m: pipeline.yaml\n"
		   "✓ a 1.5s\n"
		   "✗ b failed after 2.4s: exit status 1\n"
		   "    Traceback\n"
		   "    ValueError\n"
		   "✗ digits-7kq2m failed in 1m23s\n"
		   "  5,003 tasks, 1 executed, 1 failed, 1 not run, 5,000 on record, which saved "
		   "1h23m\n"
		   "  run hash abababababab\n"
		   "  next: cairn logs -r digits-7kq2m b\n");
	close_fixture(&f);
}

static void test_plain_waiting(void **state)
{
	static struct fixture f;

	open_fixture(&f, false, 0, 80, 24);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 0);
	f.o->task_started(f.o->arg, 1, "a", 1, NULL);
	f.o->task_started(f.o->arg, 2, "b", 1, NULL);
	f.o->waiting(f.o->arg, 1, "a", "no room: 0/3 nodes");
	f.o->waiting(f.o->arg, 1, "a", "no room: 0/12 nodes"); /* the same reason */
	f.o->waiting(f.o->arg, 1, "a", NULL);
	f.o->waiting(f.o->arg, 1, "a", "no room: 1/3 nodes");
	f.o->waiting(f.o->arg, 2, "b", "no room: 0/3 nodes"); /* another task */
	f.o->waiting(f.o->arg, 1, "a", "no image");
	f.o->waiting(f.o->arg, 1, "a", "no image, nor room");
	f.o->task_ended(f.o->arg, 1, "a", OUTCOME_DONE, 1500 * NS_PER_MS);
	f.o->task_started(f.o->arg, 3, "a", 2, NULL);
	f.o->waiting(f.o->arg, 3, "a", "no image, nor room"); /* another attempt */
	prints(&f, "digits-7kq2m: pipeline.yaml\n"
		   "  a waits: no room: 0/3 nodes\n"
		   "  b waits: no room: 0/3 nodes\n"
		   "  a waits: no image\n"
		   "  a waits: no image, nor room\n"
		   "✓ a 1.5s\n"
		   "  a waits: no image, nor room\n");
	close_fixture(&f);
}

static void test_quiet(void **state)
{
	static struct fixture f;

	open_fixture(&f, false, -1, 80, 24);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 0);
	f.o->task_started(f.o->arg, 1, "a", 1, NULL);
	f.o->notice(f.o->arg, "nothing that matters");
	f.o->task_ended(f.o->arg, 1, "a", OUTCOME_DONE, 5);
	f.o->ended(f.o->arg, row(RUN_SUCCEEDED, COUNTS(.total = 1, .executed = 1)));
	prints(&f, "✓ digits-7kq2m succeeded in 1m23s\n");
	close_fixture(&f);
}

static void test_verbose(void **state)
{
	static struct fixture f;

	open_fixture(&f, false, 1, 80, 24);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 0);
	f.o->task_ended(f.o->arg, 0, "h", OUTCOME_HIT, NS_PER_S);
	f.o->task_started(f.o->arg, 1, "a", 1, "param lr changed: 0.1 → 0.2");
	f.o->task_ended(f.o->arg, 1, "a", OUTCOME_DONE, 5 * NS_PER_S);
	f.o->task_ended(f.o->arg, 0, "c", OUTCOME_SKIPPED, 0);
	f.o->task_ended(f.o->arg, 0, "d", OUTCOME_BLOCKED, 0);
	prints(&f, "digits-7kq2m: pipeline.yaml\n"
		   "= h on record, saves 1.0s\n"
		   "▶ a param lr changed: 0.1 → 0.2\n"
		   "✓ a 5.0s\n"
		   "- c skipped\n"
		   "- d not run\n");
	close_fixture(&f);
}

static void test_plain_is_bounded(void **state)
{
	static struct fixture f;
	size_t lines = 0;

	open_fixture(&f, false, 0, 80, 24);
	for (uint64_t i = 1; i <= 10000; i++) {
		f.o->task_started(f.o->arg, i, "t", 1, NULL);
		f.o->task_ended(f.o->arg, i, "t", OUTCOME_DONE, NS_PER_MS);
		pass(&f, 1);
	}
	fflush(f.out);
	for (size_t i = 0; i < f.size; i++)
		lines += f.bytes[i] == '\n';
	assert_in_range(lines, 60, 140); /* a burst of 40, then 4 a second for 10 s, and as many
					    counts of what wasn't said */
	assert_non_null(strstr(f.bytes, "more tasks"));
	close_fixture(&f);
}

static void test_ends(void **state)
{
	static const struct {
		enum run_state state;
		struct run_counts counts;
		const char *want;
		bool metrics;
	} cases[] = {
		{ RUN_SUCCEEDED,
		  { .total = 8, .hits = 8, .saved_ns = 90 * NS_PER_S },
		  "✓ digits-7kq2m succeeded in 1m23s\n  8 tasks: nothing to do, all on record, "
		  "which saved 1m30s\n  run hash abababababab\n"
		  "  next: cairn metrics digits-7kq2m\n",
		  true },
		{ RUN_SUCCEEDED,
		  { .total = 1, .executed = 1 },
		  "✓ digits-7kq2m succeeded in 1m23s\n  1 task, 1 executed\n  run hash "
		  "abababababab\n" },
		{ RUN_INTERRUPTED,
		  { .total = 8, .executed = 2 },
		  "■ digits-7kq2m interrupted in 1m23s\n  8 tasks, 2 executed\n  run hash "
		  "abababababab\n  next: cairn resume digits-7kq2m\n" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		static struct fixture f;
		open_fixture(&f, false, 0, 80, 24);
		if (cases[i].metrics)
			progress_has_metrics(f.p);
		f.o->ended(f.o->arg, row(cases[i].state, cases[i].counts));
		f.o->ended(f.o->arg, row(cases[i].state, cases[i].counts)); /* once is enough */
		prints(&f, cases[i].want);
		close_fixture(&f);
	}
}

/* A task whose name the shell would read differently is quoted in what to type next. */
static void test_next_is_quoted(void **state)
{
	static struct fixture f;

	open_fixture(&f, false, 0, 80, 24);
	f.o->started(f.o->arg, row(RUN_RUNNING, COUNTS(0)), 0);
	for (uint64_t i = 1; i <= 5; i++)
		failed(&f, i, "train[fold=0]", "x", NULL, false);
	f.o->ended(f.o->arg, row(RUN_FAILED, COUNTS(.total = 5, .failed = 5)));
	fflush(f.out);
	assert_non_null(strstr(
		f.bytes,
		"  next: cairn logs -r digits-7kq2m 'train[fold=0]'\n        cairn logs -r"));
	close_fixture(&f);
}

/* 10,000 quick tasks on a terminal: frames are bounded by time, so the rest must be next to nothing
 * (a few ms without sanitizers). */
static void test_cost(void **state)
{
	static struct fixture f;
	struct timespec a, b;
	int64_t spent;

	open_fixture(&f, true, 0, 80, 24);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
	for (uint64_t i = 1; i <= 10000; i++) {
		f.o->task_started(f.o->arg, i, "t[i=12345]", 1, NULL);
		PROGRESS(&f, COUNTS(.total = 10000, .executed = i), 1, -1);
		f.o->task_ended(f.o->arg, i, "t[i=12345]", OUTCOME_DONE, NS_PER_MS);
		clock_virtual_advance(&f.clock, 50000);
	}
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
	spent = (b.tv_sec - a.tv_sec) * NS_PER_S + b.tv_nsec - a.tv_nsec;
	print_message("10,000 tasks: %lld us, %zu bytes\n", (long long)spent / 1000, f.size);
	assert_in_range(spent, 0, 200 * NS_PER_MS);
	fflush(f.out);
	assert_in_range(f.size, 1, 5000);
	close_fixture(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_live),
		cmocka_unit_test(test_live_output),
		cmocka_unit_test(test_live_failures_scroll),
		cmocka_unit_test(test_live_many_rows),
		cmocka_unit_test(test_live_random),
		cmocka_unit_test(test_live_short),
		cmocka_unit_test(test_plain_from_now_on),
		cmocka_unit_test(test_timer_and_resize),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_plain_waiting),
		cmocka_unit_test(test_quiet),
		cmocka_unit_test(test_verbose),
		cmocka_unit_test(test_plain_is_bounded),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_next_is_quoted),
		cmocka_unit_test(test_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What is shown of the end of a file, at the limit and one beside it. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "runners/series/series.h"
#include "runners/series/tensorboard.h"
#include "runners/workspace.h"
#include "unit.h"

#define TAIL_BYTES 4096
#define LINE_BYTES 8192

static char *tail_of(const char *first, size_t n, const char *last)
{
	_cleanup_(fd_closep) int fd = memfd_create("log", MFD_CLOEXEC);
	_cleanup_(str_deinit) struct str text = { 0 };

	str_add(&text, first);
	while (text.len < n - strlen(last))
		str_addc(&text, 'x');
	str_add(&text, last);
	assert_int_equal(write(fd, text.s, text.len), text.len);
	return workspace_log_tail(fd);
}

static void a_log_is_shown_from_a_whole_line(void **state)
{
	for (int over = -1; over <= 1; over++) {
		const size_t n = (size_t)(TAIL_BYTES + over);
		_cleanup_(freep) char *lines = tail_of("first\n", n, "\nlast\n"),
				      *one = tail_of("first", n, "end\n"),
				      *open_end = tail_of("first", n, "end");

		assert_int_equal(strlen(lines), over > 0 ? n - strlen("first\n") : n);
		assert_true(str_has_suffix(lines, "\nlast\n"));
		/* One line that is too long: its end, as it ends or not. */
		assert_int_equal(strlen(one), MIN(n, TAIL_BYTES));
		assert_true(str_has_suffix(one, "end\n"));
		assert_int_equal(strlen(open_end), MIN(n, TAIL_BYTES));
	}
}

static void note(void *arg, const char *name, double value)
{
	*(double *)arg = value;
}

/* Wherever the line stands: at the beginning of the file, behind others. */
static void a_line_of_a_series_has_a_length(void **state)
{
	char root[TEST_DIR_MAX];
	int dir_fd;

	test_dir(root, sizeof(root), "tails");
	dir_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int before = 0; before <= 2; before++)
		for (int over = -1; over <= 1; over++) {
			_cleanup_(freep) char *path = fs_join(root, "m.jsonl");
			_cleanup_(str_deinit) struct str text = { 0 };
			struct series_tail t = { .fd = -1 };
			double got = 0;
			size_t from;

			for (int i = 0; i < before; i++)
				str_add(&text, "{\"loss\": 1}\n");
			from = text.len;
			str_add(&text, "{\"loss\": 2, \"s\": \"");
			while (text.len - from < (size_t)(LINE_BYTES + over) - 3)
				str_addc(&text, 'x');
			str_add(&text, "\"}\n");
			assert_int_equal(fs_write_atomic(path, text.s, text.len, NULL), 0);
			series_poll(&t, dir_fd, "m.jsonl", note, &got);
			assert_int_equal((int)got, over > 0 ? 0 : 2);
			series_close(&t);
		}
	close(dir_fd);
	fs_remove_tree(root, NULL);
}

static void collect(void *arg, const char *name, double value)
{
	str_addf(arg, "%s=%g ", name, value);
}

/* The newest whole line of a CSV, under the names of its header. */
static void a_series_in_csv(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = { { "step,loss,acc\n", "" },
		      { "step,loss,acc\n1,2,3\n", "step=1 loss=2 acc=3 " },
		      { "epoch,loss,acc\r\n1,2,3\r\n2,0.5,nan\r\n3,", "step=2 loss=0.5 " },
		      { "loss,epoch,step\n1,2,3\n", "step=3 loss=1 " },
		      { "step,loss\n1,2,3,4\n", "step=1 loss=2 " },
		      { "step,\xff,,x\n1,2,3\n", "step=1 " },
		      { "\n\n", "" } };
	char root[TEST_DIR_MAX];
	int dir_fd;

	test_dir(root, sizeof(root), "tails");
	dir_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) char *path = fs_join(root, "m.csv");
		_cleanup_(str_deinit) struct str got = { 0 };
		struct series_tail t = { .fd = -1 };

		str_add(&got, "");
		assert_int_equal(fs_write_atomic(path, cases[i].text, strlen(cases[i].text), NULL),
				 0);
		series_poll(&t, dir_fd, "m.csv", collect, &got);
		assert_string_equal(got.s, cases[i].want);
		series_close(&t);
	}
	close(dir_fd);
	fs_remove_tree(root, NULL);
}

static void add_le(struct str *out, uint64_t v, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		str_addc(out, (char)(v >> 8 * i));
}

static void add_record(struct str *out, const struct str *data)
{
	size_t at = out->len;

	add_le(out, data->len, 8);
	add_le(out, tensorboard_checksum(out->s + at, 8), 4);
	str_addn(out, data->s, data->len);
	add_le(out, tensorboard_checksum(data->s, data->len), 4);
}

/* An Event with one scalar, as cli/past/tensorboard.c describes it; tag and step are short. */
static void add_event(struct str *out, const char *tag, unsigned step, float value)
{
	_cleanup_(str_deinit) struct str event = { 0 };
	uint32_t bits;

	assert_true(strlen(tag) < 100 && step < 128);
	memcpy(&bits, &value, sizeof(bits));
	str_addc(&event, 2 << 3 | TB_VARINT);
	str_addc(&event, (char)step);
	str_addc(&event, 5 << 3 | TB_BYTES);
	str_addc(&event, (char)(strlen(tag) + 9)); /* the Value has 7 bytes beside its tag */
	str_addc(&event, 1 << 3 | TB_BYTES);
	str_addc(&event, (char)(strlen(tag) + 7));
	str_addc(&event, 1 << 3 | TB_BYTES);
	str_addc(&event, (char)strlen(tag));
	str_add(&event, tag);
	str_addc(&event, 2 << 3 | TB_FIXED32);
	add_le(&event, bits, 4);
	add_record(out, &event);
}

struct logdir {
	char root[TEST_DIR_MAX];
	int fd;
	struct series_tail tail;
	struct str got;
};

static void write_to(struct logdir *d, const char *name, const struct str *bytes, int flags)
{
	_cleanup_(freep) char *path = fs_join(d->root, name), *dir = fs_dirname(path);
	_cleanup_(fd_closep) int fd = -1;

	assert_int_equal(fs_mkdir_p(dir, NULL), 0);
	fd = open(path, O_WRONLY | O_CREAT | flags, 0644);
	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, bytes->s, bytes->len, NULL), 0);
}

/* What the next look tells. */
static const char *look(struct logdir *d)
{
	str_reset(&d->got);
	str_add(&d->got, "");
	series_poll(&d->tail, d->fd, "tb", collect, &d->got);
	return d->got.s;
}

static void begin(struct logdir *d)
{
	*d = (struct logdir){ .tail.fd = -1 };
	test_dir(d->root, sizeof(d->root), "tails");
	d->fd = open(d->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_string_equal(look(d), "");
}

static void end(struct logdir *d)
{
	series_close(&d->tail);
	close(d->fd);
	str_deinit(&d->got);
	assert_int_equal(fs_remove_tree(d->root, NULL), 0);
}

/* The newest value of each tag, once, by step; a record only when it is whole. */
static void event_files_are_followed(void **state)
{
	_cleanup_(str_deinit) struct str a = { 0 }, b = { 0 }, half = { 0 }, rest = { 0 };
	struct logdir d;

	begin(&d);
	add_event(&a, "loss", 1, 0.5F);
	add_event(&a, "loss", 9, 0.25F);
	add_event(&a, "lr", 9, 2);
	add_event(&b, "accuracy", 2, 0.75F);
	write_to(&d, "tb/events.out.tfevents.1.h", &a, 0);
	write_to(&d, "tb/val/events.out.tfevents.2.h", &b, 0);
	write_to(&d, "tb/other", &a, 0);
	assert_string_equal(look(&d), "step=2 val/accuracy=0.75 step=9 loss=0.25 lr=2 ");
	assert_string_equal(look(&d), "");
	str_reset(&a);
	add_event(&a, "loss", 10, 0.125F);
	str_addn(&half, a.s, 20);
	str_addn(&rest, a.s + 20, a.len - 20);
	write_to(&d, "tb/events.out.tfevents.1.h", &half, O_APPEND);
	assert_string_equal(look(&d), "");
	write_to(&d, "tb/events.out.tfevents.1.h", &rest, O_APPEND);
	assert_string_equal(look(&d), "step=10 loss=0.125 ");
	/* A file that begins anew, and a directory that does. */
	write_to(&d, "tb/events.out.tfevents.1.h", &a, O_TRUNC);
	assert_string_equal(look(&d), "step=10 loss=0.125 ");
	_cleanup_(freep) char *tb = fs_join(d.root, "tb");
	assert_int_equal(fs_remove_tree(tb, NULL), 0);
	assert_string_equal(look(&d), "");
	write_to(&d, "tb/events.out.tfevents.3.h", &b, 0);
	assert_string_equal(look(&d), "step=2 accuracy=0.75 ");
	end(&d);
}

/* Images are passed over; what is no event file, or a link, is no more than skipped. */
static void event_files_are_hostile(void **state)
{
	_cleanup_(str_deinit) struct str image = { 0 }, bytes = { 0 }, bad = { 0 }, tags = { 0 };
	_cleanup_(freep) char *outside = NULL, *link = NULL;
	struct logdir d;

	begin(&d);
	while (image.len < MIB)
		str_addc(&image, 'x');
	for (unsigned i = 1; i <= 40; i++) { /* more than a look reads */
		add_record(&bytes, &image);
		add_event(&bytes, "loss", i, (float)i);
	}
	write_to(&d, "tb/a.tfevents", &bytes, 0);
	assert_string_not_equal(look(&d), "step=40 loss=40 ");
	assert_string_not_equal(d.got.s, "");
	assert_string_equal(look(&d), "step=40 loss=40 ");
	/* Beginnings of a record that never comes: of any length. */
	for (unsigned i = 0; i < 64; i++) {
		str_reset(&bad);
		add_le(&bad, UINT64_MAX >> i, 8);
		add_le(&bad, tensorboard_checksum(bad.s, 8), 4);
		write_to(&d, "tb/b.tfevents", &bad, O_TRUNC);
		assert_string_equal(look(&d), "");
	}
	/* Each byte wrong: what comes behind isn't believed, and nothing is read again. */
	str_reset(&bytes);
	add_event(&bytes, "x", 1, 1);
	for (size_t i = 0; i < bytes.len; i++) {
		bytes.s[i] ^= 1;
		write_to(&d, "tb/c.tfevents", &bytes, O_TRUNC);
		assert_string_equal(look(&d), "");
		bytes.s[i] ^= 1;
		write_to(&d, "tb/c.tfevents", &(struct str){ 0 }, O_TRUNC);
		assert_string_equal(look(&d), "");
	}
	outside = fs_join(d.root, "outside.tfevents");
	link = fs_join(d.root, "tb/link.tfevents");
	write_to(&d, "outside.tfevents", &bytes, 0);
	assert_int_equal(symlink(outside, link), 0);
	assert_string_equal(look(&d), "");
	/* More files than are followed, more tags and steps than are told, names that are none. */
	for (int i = 0; i < 100; i++) {
		_cleanup_(freep) char *name = xasprintf("tb/%d.tfevents", i);

		write_to(&d, name, &bytes, 0);
	}
	assert_string_equal(look(&d), "step=1 x=1 ");
	for (unsigned i = 0; i < 1000; i++) {
		_cleanup_(freep) char *name = xasprintf("t%u", i);

		add_event(&tags, name, i % 100, 1);
	}
	add_event(&tags, "step", 127, 1);
	add_event(&tags, "", 127, 1);
	write_to(&d, "tb/a.tfevents", &tags, O_TRUNC);
	assert_true(strncmp(look(&d), "step=92 t192=1 t92=1 step=93 ", 29) == 0);
	assert_null(strstr(d.got.s, "127"));
	end(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_is_shown_from_a_whole_line),
		cmocka_unit_test(a_line_of_a_series_has_a_length),
		cmocka_unit_test(a_series_in_csv),
		cmocka_unit_test(event_files_are_followed),
		cmocka_unit_test(event_files_are_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

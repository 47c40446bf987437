/* steps/shards: what is written is read back; what is hostile is refused by name. */
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "steps/shards/shards.h"
#include "unit.h"

static char dir[TEST_DIR_MAX];

static char *at(const char *name)
{
	static char path[4][256];
	static unsigned turn;
	char *p = path[turn++ % 4];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static int set_up(void **state)
{
	test_dir(dir, sizeof(dir), "shards");
	return 0;
}

static int tear_down(void **state)
{
	return fs_remove_tree(dir, NULL);
}

/* Round trips. */

static void write_set(const char *path, int zstd_level, size_t n, struct shard_written *ret)
{
	struct shard_writer_options o = { .zstd_level = zstd_level,
					  .hash_apart = strstr(path, "again") };
	struct shard_writer *w;
	struct err err = { 0 };

	assert_int_equal(shard_writer_open(path, &o, &w, &err), 0);
	for (size_t i = 0; i < n; i++) {
		char key[400], cls[8];
		char *data = xcalloc(1, i * 37 + 1);
		struct shard_field f[] = { { "cls", cls,
					     (size_t)snprintf(cls, sizeof(cls), "%zu", i % 7) },
					   { "bin.raw", data, i * 37 } };

		memset(data, (int)i, i * 37);
		/* names of every length around what ustar can hold */
		snprintf(key, sizeof(key), "f\303\266lder %zu/%0*zu", i % 3, (int)(1 + i % 300), i);
		assert_int_equal(shard_writer_add(w, key, f, 2, NULL, &err), 0);
		free(data);
	}
	assert_int_equal(shard_writer_close(w, ret, &err), 0);
}

static void round_trip(int zstd_level, const char *path)
{
	struct shard_written written, again;
	struct shard_reader *r;
	struct shard_sample *s;
	struct err err = { 0 };
	struct digest d;
	struct str bytes = { 0 };
	size_t n = 0;

	write_set(path, zstd_level, 700, &written);
	write_set(at("again"), zstd_level, 700, &again); /* and hashed by another thread */
	assert_true(digest_eq(&written.sha256, &again.sha256));
	assert_int_equal(fs_read_file(path, GIB, &bytes, &err), 0);
	digest_bytes(bytes.s, bytes.len, &d);
	assert_true(digest_eq(&written.sha256, &d));
	assert_int_equal(written.bytes, bytes.len);
	assert_int_equal(written.samples, 700);

	assert_int_equal(shard_reader_open(path, &r, &err), 0);
	while (shard_reader_next(r, &s, &err) == 1) {
		char key[400];

		snprintf(key, sizeof(key), "f\303\266lder %zu/%0*zu", n % 3, (int)(1 + n % 300), n);
		assert_string_equal(s->key, key);
		assert_int_equal(s->n_fields, 2);
		assert_string_equal(s->fields[0].name, "cls");
		assert_int_equal(shard_sample_field(s, "bin.raw")->n, n * 37);
		assert_null(shard_sample_field(s, "bin"));
		if (!zstd_level)
			assert_memory_equal(bytes.s + s->offset + 257, "ustar", 6);
		shard_sample_free(s);
		n++;
	}
	assert_int_equal(err.code, ERR_NONE);
	assert_int_equal(n, 700);
	shard_reader_free(r);
	str_deinit(&bytes);
}

static void plain_round_trip(void **state)
{
	round_trip(0, at("a.tar"));
}

static void zstd_round_trip(void **state)
{
	round_trip(3, at("a.tar.zst"));
}

static void empty_shard(void **state)
{
	struct shard_written written;
	struct shard_reader *r;
	struct shard_sample *s;
	struct err err = { 0 };

	write_set(at("none.tar"), 0, 0, &written);
	assert_int_equal(written.bytes, 1024);
	assert_int_equal(shard_reader_open(at("none.tar"), &r, &err), 0);
	assert_int_equal(shard_reader_next(r, &s, &err), 0);
	shard_reader_free(r);
}

static void writer_leaves_nothing(void **state)
{
	struct shard_writer *w;
	struct shard_field f = { "txt", "x", 1 };
	char **list;
	size_t n;
	struct err err = { 0 };

	assert_int_equal(fs_mkdir_p(at("given-up"), NULL), 0);
	assert_int_equal(shard_writer_open(at("given-up/a.tar"), NULL, &w, &err), 0);
	assert_int_equal(shard_writer_add(w, "a", &f, 1, NULL, &err), 0);
	shard_writer_free(w);
	assert_int_equal(shard_list(at("given-up"), &list, &n, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(rmdir(at("given-up")), 0);
}

/* Names. */

static const struct {
	const char *name;
	int key_len;
	const char *want;
} names[] = {
	{ "a.jpg", 1, NULL },
	{ "a/b.c/d.seg.png", 7, NULL },
	{ "with space/\303\244.txt", 13, NULL },
	{ "a", -1, "no suffix" },
	{ "a.b/c", -1, "no suffix" },
	{ "a.", -1, "no suffix" },
	{ ".jpg", -1, "no key" },
	{ "d/.jpg", -1, "no key" },
	{ "/a.jpg", -1, "absolute" },
	{ "../a.jpg", -1, "`..`" },
	{ "a/../b.jpg", -1, "`..`" },
	{ "a/./b.jpg", -1, "`..`" },
	{ "a//b.jpg", -1, "empty part" },
	{ "a\nb.jpg", -1, "control character" },
	{ "a\\b.jpg", -1, "backslash" },
	{ "a\377.jpg", -1, "not UTF-8" },
	{ "", -1, "empty part" },
	{ "../suffix.jpg", -1, "`..`" },
};

static void names_are_split(void **state)
{
	char long_name[SHARD_NAME_MAX + 2];
	size_t len;

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct err err = { 0 };
		int r = shard_name_split(names[i].name, &len, &err);

		if (names[i].want) {
			assert_int_equal(r, strstr(names[i].want, "suffix") ||
							    strstr(names[i].want, "key")
						    ? 1
						    : -1);
			assert_int_equal(err.code, ERR_INVALID);
			assert_non_null(strstr(err.msg, names[i].want));
		} else {
			assert_int_equal(r, 0);
			assert_int_equal(len, names[i].key_len);
		}
	}
	memset(long_name, '.', sizeof(long_name));
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(shard_name_split(long_name, &len, NULL), -1);
}

static void writer_refuses(void **state)
{
	static const struct {
		const char *key, *a, *b, *want;
	} bad[] = {
		{ "a.b", "txt", "cls", "has a dot" }, { "../a", "txt", "cls", "unsafe" },
		{ "a", "", "cls", "no suffix" },      { "a", "txt", "txt", "twice" },
		{ "", "txt", "cls", "no key" },       { "a", "x/y", "cls", "no suffix" },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct shard_field f[] = { { bad[i].a, "x", 1 }, { bad[i].b, "y", 1 } };
		struct shard_writer *w;
		struct err err = { 0 };

		assert_int_equal(shard_writer_open(at("bad.tar"), NULL, &w, &err), 0);
		assert_int_equal(shard_writer_add(w, bad[i].key, f, 2, NULL, &err), -1);
		assert_non_null(strstr(err.msg, bad[i].want));
		shard_writer_free(w);
	}
}

static int never_read(const void *arg, uint64_t at, void *to, size_t n, struct err *err)
{
	fail_msg("a sample that is refused was read");
	return -1;
}

/* What a reader would refuse isn't written, nor any part of it. */
static void writer_refuses_a_large_sample(void **state)
{
	static const struct {
		uint64_t bytes[2];
		bool ok;
	} samples[] = {
		{ { SHARD_SAMPLE_MAX, 0 }, true },     { { SHARD_SAMPLE_MAX, 1 }, false },
		{ { 1, SHARD_SAMPLE_MAX - 1 }, true }, { { 1, SHARD_SAMPLE_MAX }, false },
		{ { 3 * GIB, 3 * GIB }, false },       { { 0, SHARD_MEMBER_MAX + 1 }, false },
		{ { SIZE_MAX, SIZE_MAX }, false },
	};
	struct shard_writer *w;

	assert_int_equal(shard_writer_open(at("large.tar"), NULL, &w, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		struct shard_field f[] = {
			{ .name = "a", .n = samples[i].bytes[0], .read = never_read },
			{ .name = "b", .n = samples[i].bytes[1], .read = never_read },
		};
		struct err err = { 0 };

		assert_int_equal(shard_check_sample("k", f, 2, &err), samples[i].ok ? 0 : -1);
		assert_int_equal(err.code, samples[i].ok ? ERR_NONE : ERR_TOO_LARGE);
		if (!samples[i].ok)
			assert_int_equal(shard_writer_add(w, "k", f, 2, NULL, &err), -1);
		assert_int_equal(shard_writer_size(w), 0);
	}
	shard_writer_free(w);
}

/* Hostile tars. */

static size_t read_all(const char *path, struct err *err)
{
	struct shard_reader *r;
	struct shard_sample *s;
	size_t n = 0;

	if (shard_reader_open(path, &r, err) < 0)
		return 0;
	while (shard_reader_next(r, &s, err) == 1) {
		shard_sample_free(s);
		n++;
	}
	assert_int_equal(shard_reader_next(r, &s, NULL), 0); /* an end or an error stays one */
	shard_reader_free(r);
	return n;
}

/* Whatever is cut off, it is noticed: a shorter tar never looks like a smaller one. Only within the
 * end mark may a cut hide, behind a last block that is zero itself. */
static void truncated(void **state)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct shard_written written;

	write_set(at("whole.tar"), 0, 20, &written);
	assert_int_equal(fs_read_file(at("whole.tar"), GIB, &bytes, NULL), 0);
	for (size_t n = 0; n <= bytes.len - 1024; n += n % 512 < 500 ? 251 : 13) {
		struct err err = { 0 };

		assert_int_equal(fs_write_atomic_at(AT_FDCWD, at("cut.tar"), bytes.s, n, 0644,
						    FS_WRITE_NO_SYNC, NULL),
				 0);
		read_all(at("cut.tar"), &err);
		if (err.code != ERR_INVALID)
			fail_msg("cut at %zu of %zu: not noticed", n, bytes.len);
	}
}

static void truncated_zstd(void **state)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct shard_written written;

	write_set(at("whole.tar.zst"), 1, 20, &written);
	assert_int_equal(fs_read_file(at("whole.tar.zst"), GIB, &bytes, NULL), 0);
	for (size_t n = 0; n < bytes.len; n += 7) {
		struct err err = { 0 };

		assert_int_equal(fs_write_atomic_at(AT_FDCWD, at("cut.tar.zst"), bytes.s, n, 0644,
						    FS_WRITE_NO_SYNC, NULL),
				 0);
		read_all(at("cut.tar.zst"), &err);
		if (err.code != ERR_INVALID)
			fail_msg("cut at %zu of %zu: not noticed", n, bytes.len);
	}
}

/* A tar header by hand: what no honest writer writes. */
static void add_header(struct str *tar, const char *name, char type, const char *link,
		       const char *data)
{
	char h[512] = { 0 };
	unsigned sum = 0;
	size_t n = data ? strlen(data) : 0;

	snprintf(h, 100, "%s", name);
	memcpy(h + 100, "0000644\0000000000\0000000000", 24);
	snprintf(h + 124, 12, "%011o", (unsigned)n);
	memcpy(h + 136, "00000000000", 12);
	memset(h + 148, ' ', 8);
	h[156] = type;
	snprintf(h + 157, 100, "%s", link ? link : "");
	memcpy(h + 257, "ustar\00000", 8);
	for (size_t i = 0; i < sizeof(h); i++)
		sum += (unsigned char)h[i];
	snprintf(h + 148, 8, "%06o", sum);
	str_addn(tar, h, sizeof(h));
	if (!n)
		return;
	str_addn(tar, data, n);
	memset(h, 0, sizeof(h));
	str_addn(tar, h, (512 - n % 512) % 512);
}

static const struct {
	const char *name;
	char type;
	const char *link, *want;
} bad_members[] = {
	{ "../../etc/passwd.txt", '0', NULL, "unsafe path" },
	{ "/etc/passwd.txt", '0', NULL, "unsafe path" },
	{ "link.txt", '2', "/etc/passwd", "is a link" },
	{ "hard.txt", '1', "ok.txt", "is a link" },
	{ "null.dev", '3', NULL, "not a plain file" },
	{ "pipe.fifo", '6', NULL, "not a plain file" },
	{ "plain", '0', NULL, "no suffix" },
	{ "ok.txt", '0', NULL, "twice" },
	{ "ok.TXT", '0', NULL, "twice" },
	{ "bad\001name.txt", '0', NULL, "control character" },
	{ "latin\344.txt", '0', NULL, "not UTF-8" },
};

static void hostile_members(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_members); i++) {
		_cleanup_(str_deinit) struct str tar = { 0 };
		struct err err = { 0 };
		char end[1024] = { 0 };

		add_header(&tar, "ok.txt", '0', NULL, "fine");
		add_header(&tar, "folder/", '5', NULL, NULL);
		add_header(&tar, bad_members[i].name, bad_members[i].type, bad_members[i].link,
			   bad_members[i].type == '0' ? "x" : NULL);
		str_addn(&tar, end, sizeof(end));
		assert_int_equal(fs_write_atomic(at("hostile.tar"), tar.s, tar.len, NULL), 0);
		read_all(at("hostile.tar"), &err);
		if (err.code != ERR_INVALID || !strstr(err.msg, bad_members[i].want) ||
		    !strstr(err.msg, "hostile.tar"))
			fail_msg("%s: %s", bad_members[i].name, err.msg);
	}
}

static void samples_are_adjacent_members(void **state)
{
	_cleanup_(str_deinit) struct str tar = { 0 };
	struct err err = { 0 };
	char end[1024] = { 0 };

	add_header(&tar, "./a.txt", '0', NULL, "1");
	add_header(&tar, "./a.CLS", '0', NULL, "2");
	add_header(&tar, "./b.txt", '0', NULL, "3");
	add_header(&tar, "./a.txt", '0', NULL, "4");
	str_addn(&tar, end, sizeof(end));
	assert_int_equal(fs_write_atomic(at("adjacent.tar"), tar.s, tar.len, NULL), 0);
	assert_int_equal(read_all(at("adjacent.tar"), &err), 3);
	assert_int_equal(err.code, ERR_NONE);
}

static void bomb(void **state)
{
	struct shard_writer_options o = { .zstd_level = 19 };
	size_t n = 256 * MIB;
	void *zeros = xcalloc(1, n);
	struct shard_field f = { "bin", zeros, n };
	struct shard_writer *w;
	struct err err = { 0 };

	assert_int_equal(shard_writer_open(at("bomb.tar.zst"), &o, &w, &err), 0);
	assert_int_equal(shard_writer_add(w, "a", &f, 1, NULL, &err), 0);
	assert_int_equal(shard_writer_close(w, NULL, &err), 0);
	free(zeros);
	assert_int_equal(read_all(at("bomb.tar.zst"), &err), 0);
	assert_non_null(strstr(err.msg, "bomb?"));
}

static void listing(void **state)
{
	static const char *const files[] = { "l/b.tar",      "l/a.tar.zst",   "l/sub/c.tgz",
					     "l/index.json", "l/.hidden.tar", "l/d.tar.gz" };
	static const char *const want[] = { "l/a.tar.zst", "l/b.tar", "l/d.tar.gz", "l/sub/c.tgz" };
	char **list;
	size_t n;

	assert_int_equal(fs_mkdir_p(at("l/sub"), NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		assert_int_equal(fs_write_atomic(at(files[i]), "", 0, NULL), 0);
	assert_int_equal(shard_list(at("l"), &list, &n, NULL), 0);
	assert_int_equal(n, ARRAY_LEN(want));
	for (size_t i = 0; i < n; i++)
		assert_string_equal(list[i], at(want[i]));
	shard_list_free(list, n);
	assert_int_equal(shard_list(at("l/index.json"), &list, &n, NULL), 0);
	assert_int_equal(n, 1);
	shard_list_free(list, n);
	assert_int_equal(shard_list(at("l/none"), &list, &n, NULL), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_round_trip),
		cmocka_unit_test(zstd_round_trip),
		cmocka_unit_test(empty_shard),
		cmocka_unit_test(writer_leaves_nothing),
		cmocka_unit_test(names_are_split),
		cmocka_unit_test(writer_refuses),
		cmocka_unit_test(writer_refuses_a_large_sample),
		cmocka_unit_test(truncated),
		cmocka_unit_test(truncated_zstd),
		cmocka_unit_test(hostile_members),
		cmocka_unit_test(samples_are_adjacent_members),
		cmocka_unit_test(bomb),
		cmocka_unit_test(listing),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

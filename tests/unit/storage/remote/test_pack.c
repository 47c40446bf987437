/* Packs and their indexes: golden bytes, hostile indexes, encodings. */
#include <stdio.h>
#include <sys/mman.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "storage/content/content.h"
#include "storage/remote/internal.h"
#include "unit.h"

static void must(int r, const struct err *err)
{
	if (r < 0)
		fail_msg("%s", err->msg);
}

static void put_u64(struct str *s, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		str_addc(s, (char)(v >> (8 * i)));
}

/* As FORMAT.md says it, byte by byte, but for the random ones. */
static void test_golden(void **state)
{
	struct pack_writer *w;
	struct str index = { 0 }, want = { 0 }, pack = { 0 };
	struct digest name, hello, again;
	struct content_id id;
	struct err err = { 0 };
	uint64_t size;
	char path[64];
	int fd;

	content_id_of_bytes("hello", 5, &id);
	hello = id.digest;
	must(pack_writer_new(-1, &w, &err), &err);
	must(pack_writer_add(w, STORE_TREE, &hello, "tree!", 5, &err),
	     &err); /* sorted behind the blob, whatever its place */
	must(pack_writer_add(w, STORE_BLOB, &hello, "hello", 5, &err), &err);
	pack_writer_finish(w, &fd, &size, &index, &name);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	must(fs_read_file(path, MIB, &pack, &err), &err);
	assert_int_equal(pack.len, 13 + 16 + 10);
	assert_int_equal(size, pack.len);
	assert_memory_equal(pack.s, "cairn-pack/1\n", 13);
	assert_memory_equal(pack.s + 29, "tree!hello", 10);

	str_add(&want, "cairn-pack-index/1\n");
	str_addn(&want, pack.s + 13, 16);
	str_addn(&want, "\2\0\0\0", 4);
	str_addn(&want, "\0\0", 2);
	str_addn(&want, hello.b, 32);
	put_u64(&want, 5), put_u64(&want, 34), put_u64(&want, 5);
	str_addn(&want, "\1\0", 2);
	str_addn(&want, hello.b, 32);
	put_u64(&want, 5), put_u64(&want, 29), put_u64(&want, 5);
	assert_int_equal(index.len, want.len);
	assert_memory_equal(index.s, want.s, want.len);
	digest_bytes(want.s, want.len, &again);
	assert_true(digest_eq(&again, &name));
	must(pack_index_check(&name, index.s, index.len, STORE_TREE, &err), &err);
	assert_int_equal(pack_index_pack_size(index.s), size);
	pack_writer_free(w);
	str_deinit(&index);
	str_deinit(&want);
	str_deinit(&pack);
}

static void test_golden_condemned(void **state)
{
	static const struct {
		enum condemned_form form;
		const char *magic;
		size_t entry;
		const char *times;
	} cases[] = {
		{ CONDEMNED_BUCKET, "cairn-bucket-condemned/1\n", 41, "\2\1\0\0\0\0\0\0" },
		{ CONDEMNED_DIRECTORY, "cairn-condemned/2\n", 49,
		  "\1\1\0\0\0\0\0\0\2\1\0\0\0\0\0\0" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct condemned list = { .form = cases[i].form }, again = list;
		struct condemned_entry dated = { .dead_ns = 0x0101, .listed_ns = 0x0102 },
				       fresh = { 0 }, got;
		struct digest a, b;
		const size_t head = strlen(cases[i].magic);

		memset(a.b, 0xaa, 32);
		memset(b.b, 0xbb, 32);
		condemned_list_key(KIND_PACK, &a, dated.key);
		condemned_list_key(KIND_BLOB, &b, fresh.key);
		condemned_list_end(&again);
		assert_int_equal(again.bytes.len, head); /* an empty one is a file, too */
		assert_int_equal(condemned_list_len(&again), 0);
		condemned_list_add(&list, &fresh);
		condemned_list_add(&list, &dated);
		condemned_list_end(&list);
		assert_int_equal(list.bytes.len, head + 2 * cases[i].entry);
		assert_memory_equal(list.bytes.s, cases[i].magic, head);
		assert_memory_equal(list.bytes.s + head, "\3\xaa\xaa", 3); /* the highest first */
		assert_memory_equal(list.bytes.s + head + 33, cases[i].times, cases[i].entry - 33);
		/* Readers take any order. */
		str_reset(&again.bytes);
		str_addn(&again.bytes, list.bytes.s, head);
		str_addn(&again.bytes, list.bytes.s + head + cases[i].entry, cases[i].entry);
		str_addn(&again.bytes, list.bytes.s + head, cases[i].entry);
		assert_true(condemned_list_check(&again));
		assert_int_equal(condemned_list_len(&again), 2);
		assert_true(condemned_list_find(&again, dated.key, &got));
		assert_int_equal(got.listed_ns, 0x0102);
		assert_true(condemned_list_find(&again, fresh.key, &got));
		assert_int_equal(got.listed_ns, 0);
		again.bytes.len--;
		assert_false(condemned_list_check(&again));
		str_add(&again.bytes, "cairn");
		assert_false(condemned_list_check(&again));
		assert_int_equal(condemned_list_len(&again), 0);
		condemned_list_deinit(&list);
		condemned_list_deinit(&again);
	}
}

/* Whatever is changed in an index, and its name made to fit: refused, or all places that it names
 * are within bounds. */
static void test_hostile_index(void **state)
{
	struct pack_writer *w;
	struct str index = { 0 };
	struct digest name;
	struct err err = { 0 };
	uint64_t size, random = 1;
	size_t refused = 0;
	int fd;

	must(pack_writer_new(-1, &w, &err), &err);
	for (int i = 0; i < 4; i++) {
		struct content_id id;

		content_id_of_bytes(&i, sizeof(i), &id);
		must(pack_writer_add(w, STORE_BLOB, &id.digest, &i, sizeof(i), &err), &err);
	}
	pack_writer_finish(w, &fd, &size, &index, &name);
	assert_int_equal(pack_index_check(&name, index.s, index.len - 1, STORE_TREE, NULL), -1);
	for (int i = 0; i < 20000; i++) {
		_cleanup_(freep) char *copy = xmalloc(index.len);
		size_t n = index.len, at;

		memcpy(copy, index.s, n);
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		at = (size_t)(random >> 33) % n;
		copy[at] = (char)(random >> 20);
		if (i % 7 == 0)
			n = at;
		digest_bytes(copy, n, &name);
		if (pack_index_check(&name, copy, n, STORE_TREE, NULL) < 0) {
			refused++;
			continue;
		}
		for (size_t k = 0; k < pack_index_len(copy); k++) {
			struct pack_member m;

			pack_index_at(copy, k, &m);
			assert_true(m.space <= STORE_TREE && m.encoding <= PACK_ZSTD);
			assert_true(m.offset + m.stored < 1ULL << 48);
		}
	}
	assert_true(refused > 5000);
	pack_writer_free(w);
	str_deinit(&index);
}

/* However small members are, a pack ends before readers would refuse its index. */
static void test_members_are_bounded(void **state)
{
	struct pack_writer *w;
	struct str index = { 0 };
	struct digest name = { { 0 } };
	struct err err = { 0 };
	uint64_t size;
	uint32_t n = 0;
	int fd;

	must(pack_writer_new(-1, &w, &err), &err);
	assert_false(pack_writer_is_full(w, GIB)); /* one large object alone is fine */
	while (!pack_writer_is_full(w, 1)) {
		memcpy(name.b, &n, sizeof(n));
		must(pack_writer_add(w, STORE_BLOB, &name, "", 0, &err), &err);
		assert_true(++n <= PACK_MEMBERS_FULL);
	}
	pack_writer_finish(w, &fd, &size, &index, &name);
	must(pack_index_check(&name, index.s, index.len, STORE_TREE, &err), &err);
	assert_int_equal(pack_index_len(index.s), n);
	pack_writer_free(w);
	must(pack_writer_new(-1, &w, &err), &err);
	must(pack_writer_add(w, STORE_BLOB, &name, "x", 1, &err), &err);
	assert_false(pack_writer_is_full(w, PACK_BYTES_MAX / 2));
	assert_true(pack_writer_is_full(w, PACK_BYTES_MAX));
	pack_writer_free(w);
	str_deinit(&index);
}

static void fill(char *p, size_t n, bool text)
{
	uint32_t x = 7;

	for (size_t i = 0; i < n; i++) {
		x = x * 1664525 + 1013904223;
		p[i] = text ? "abc \n"[(x >> 24) % 5] : (char)(x >> 24);
	}
}

/* Compressed only when it pays; either way what comes out is what went in. */
static void test_encoding(void **state)
{
	static const size_t sizes[] = { 0, 1, 255, 256, 5000, 40000, 200000 };

	for (size_t i = 0; i < ARRAY_LEN(sizes) * 2; i++) {
		size_t n = sizes[i / 2];
		_cleanup_(freep) char *bytes = xmalloc(n + 1);
		_cleanup_(str_deinit) struct str index = { 0 }, pack = { 0 }, got = { 0 };
		struct pack_writer *w;
		struct pack_member m;
		struct content_id id;
		struct err err = { 0 };
		struct digest name;
		uint64_t size;
		char path[64];
		int fd;

		fill(bytes, n, i % 2);
		content_id_of_bytes(bytes, n, &id);
		must(pack_writer_new(-1, &w, &err), &err);
		must(pack_writer_add(w, STORE_BLOB, &id.digest, bytes, n, &err), &err);
		pack_writer_finish(w, &fd, &size, &index, &name);
		pack_index_at(index.s, 0, &m);
		assert_int_equal(m.encoding, i % 2 && n >= 256 ? PACK_ZSTD : PACK_PLAIN);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		must(fs_read_file(path, GIB, &pack, &err), &err);
		must(pack_decode(m.encoding, pack.s + m.offset, m.stored, m.size, &got, &err),
		     &err);
		assert_int_equal(got.len, n);
		if (n)
			assert_memory_equal(got.s, bytes, n);
		if (m.encoding == PACK_ZSTD) { /* a frame that gives more or less than the index
						  says is refused */
			assert_int_equal(pack_decode(m.encoding, pack.s + m.offset, m.stored,
						     m.size - 1, &got, &err),
					 -1);
			assert_int_equal(pack_decode(m.encoding, pack.s + m.offset, m.stored,
						     m.size + 1, &got, &err),
					 -1);
			assert_int_equal(pack_decode(m.encoding, pack.s + m.offset, m.stored - 1,
						     m.size, &got, &err),
					 -1);
		}
		pack_writer_free(w);
	}
}

static int file_of(const void *bytes, size_t n)
{
	int fd = memfd_create("test", MFD_CLOEXEC);

	assert_int_equal(fs_write_all(fd, bytes, n, NULL), 0);
	return fd;
}

static void test_whole_files(void **state)
{
	static const size_t sizes[] = { 0, 1, 131072, 131073, 3000000, CONTENT_PART_BYTES + 1 };

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		size_t n = sizes[i];
		_cleanup_(freep) char *bytes = xmalloc(n + 1);
		_cleanup_(str_deinit) struct str got = { 0 };
		int in, coded = file_of("", 0), out = file_of("", 0);
		uint64_t stored, size;
		struct content_id want;
		struct err err = { 0 };
		struct digest d;
		char path[64];

		fill(bytes, n, true);
		content_id_of_bytes(bytes, n, &want);
		in = file_of(bytes, n);
		must(pack_encode_file(in, n, coded, &stored, &err), &err);
		assert_int_equal(lseek(coded, 0, SEEK_END), (off_t)stored);
		must(pack_decode_file(coded, out, n, &size, &d, &err), &err);
		assert_true(digest_eq(&d, &want.digest));
		assert_int_equal(size, n);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", out);
		must(fs_read_file(path, GIB, &got, &err), &err);
		assert_int_equal(got.len, n);
		if (n)
			assert_memory_equal(got.s, bytes, n);
		if (n > 1) { /* bounded, and noticed when it is cut */
			assert_int_equal(pack_decode_file(coded, out, n - 1, &size, &d, &err), -1);
			assert_int_equal(ftruncate(coded, (off_t)stored - 3), 0);
			assert_int_equal(pack_decode_file(coded, out, n, &size, &d, &err), -1);
		}
		close(in), close(coded), close(out);
	}
}

/* A reader refuses an index that names one thing twice: none is written. */
static void test_each_once(void **state)
{
	struct pack_writer *w;
	struct str index = { 0 };
	struct content_id id;
	struct digest name;
	struct err err = { 0 };
	uint64_t size;
	int fd, file = file_of("hello", 5);

	content_id_of_bytes("hello", 5, &id);
	must(pack_writer_new(-1, &w, &err), &err);
	must(pack_writer_add(w, STORE_BLOB, &id.digest, "hello", 5, &err), &err);
	must(pack_writer_add(w, STORE_BLOB, &id.digest, "hello", 5, &err), &err);
	must(pack_writer_add_fd(w, STORE_BLOB, &id.digest, file, 5, &err), &err);
	must(pack_writer_add(w, STORE_TREE, &id.digest, "hello", 5, &err), &err);
	assert_int_equal(pack_writer_members(w), 2);
	pack_writer_finish(w, &fd, &size, &index, &name);
	must(pack_index_check(&name, index.s, index.len, STORE_TREE, &err), &err);
	assert_int_equal(size, 13 + 16 + 10);
	pack_writer_free(w);
	str_deinit(&index);
	close(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_golden),        cmocka_unit_test(test_golden_condemned),
		cmocka_unit_test(test_hostile_index), cmocka_unit_test(test_encoding),
		cmocka_unit_test(test_whole_files),   cmocka_unit_test(test_members_are_bounded),
		cmocka_unit_test(test_each_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

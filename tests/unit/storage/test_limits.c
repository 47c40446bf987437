/* The table of limits, at each limit and one beside it: what is fetched in ranges, what is packed, what a record may have. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/fs.h"
#include "base/mem.h"
#include "storage/action.h"
#include "storage/bucket_memory.h"
#include "storage/internal.h"
#include "storage/ranged.h"
#include "storage/remote/internal.h"
#include "storage/remote/tier.h"

#define BUCKET "mem-bucket://limits/prefix"

static char root[64];

static void ok(int r, const struct err *err)
{
	if (r < 0)
		fail_msg("%s", err->msg);
}

static int setup(void **state)
{
	snprintf(root, sizeof(root), "/tmp/cairn-limits-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
	fs_remove_tree(root, NULL);
	bucket_memory_forget("limits");
	return 0;
}

/* --- ranges ------------------------------------------------------------------------------------------------------- */

/* An object of `size` bytes, of which each request gives the first and the last: nothing in between is looked at here. */
static int request(void *store, const struct bucket_get *g, struct ranged_part *p, struct err *err)
{
	const uint64_t size = *(const uint64_t *)store;
	struct http_request reply = { .reply = { .status = 206 } };
	unsigned long long first, last;

	assert_int_equal(sscanf(p->range, "bytes=%llu-%llu", &first, &last), 2);
	last = MIN(last, size - 1);
	str_addf(&reply.reply.headers, "Content-Range: bytes %llu-%llu/%llu\r\n", first, last, (unsigned long long)size);
	p->reply = &reply;
	p->rewind(p);
	if (p->sink(p, "x", 1, err) < 0) {
		str_deinit(&reply.reply.headers);
		return -1;
	}
	str_deinit(&reply.reply.headers);
	return 0;
}

/* The last part of an object of `size` bytes begins, and for these sizes is, its last byte. */
static int get(uint64_t size, bool in_memory, uint64_t max_bytes, struct bucket_get *g)
{
	atomic_bool no_ranges = false;
	const struct ranged r = { .request = request, .store = &size, .no_ranges = &no_ranges };

	*g = (struct bucket_get){ .key = "k", .size = UINT64_MAX, .fd = -1, .max_bytes = max_bytes };
	if (!in_memory)
		g->fd = memfd_create("limits", MFD_CLOEXEC);
	ranged_get_many(&r, 2, &g, 1);
	str_deinit(&g->body);
	if (g->fd >= 0)
		close(g->fd);
	return g->result;
}

static void test_ranges(void **state)
{
	static const struct {
		uint64_t size, max_bytes;
		bool in_memory, good;
	} cases[] = {
		{ BUCKET_BODY_MAX - CONTENT_PART_BYTES + 1, 0, true, true },
		{ BUCKET_BODY_MAX, 0, true, true },
		{ BUCKET_BODY_MAX + 1, 0, true, false },
		{ BUCKET_BODY_MAX, 0, false, true },
		{ BUCKET_BODY_MAX + 1, 0, false, true },
		{ 5 * GIB + 1, 0, false, true },
		{ 5 * GIB + 1, 5 * GIB + 1, false, true },
		{ 5 * GIB + 1, 5 * GIB, false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct bucket_get g;
		int r = get(cases[i].size, cases[i].in_memory, cases[i].max_bytes, &g);

		if ((r == 0) != cases[i].good)
			fail_msg("%llu bytes: %s", (unsigned long long)cases[i].size, r ? g.err.msg : "taken");
		if (r < 0)
			assert_int_equal(g.err.code, ERR_TOO_LARGE);
	}
}

/* --- blobs ------------------------------------------------------------------------------------------------------------ */

static struct store *machine(const char *name)
{
	_cleanup_(freep) char *local = fs_join(root, name);
	const struct store_options o = { .local = local, .mode = STORE_READ_WRITE };
	struct err err = { 0 };
	struct store *s = NULL;

	ok(store_open_with(BUCKET, &o, true, &s, &err), &err);
	return s;
}

/* A file of zeros but for its last byte, nearly all a hole. */
static struct content_id put_zeros(struct store *s, uint64_t size, char last)
{
	_cleanup_(freep) char *path = fs_join(root, "zeros");
	_cleanup_(fd_closep) int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	struct content_id id = { 0 };
	struct err err = { 0 };

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)size), 0);
	assert_int_equal(pwrite(fd, &last, 1, (off_t)size - 1), 1);
	ok(content_put_fd(s, fd, &id, &err), &err);
	return id;
}

static int damage(void *arg, const struct bucket_object *o)
{
	_cleanup_(freep) char *key = xasprintf("prefix/%s", o->key);

	bucket_memory_damage("limits", key, o->size / 2);
	return 0;
}

static void damage_blobs(void)
{
	struct bucket *b;

	assert_int_equal(bucket_open(BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_list(b, "blobs/", NULL, 0, damage, NULL, NULL), 0);
	bucket_free(b);
}

/* A large blob whose name can't be used goes into a pack, and there its compressed bytes may be few. */
static void test_large_members_of_packs(void **state)
{
	static const uint64_t sizes[] = { PACK_MEMORY_MAX, PACK_MEMORY_MAX + 1, TREE_LISTING_MAX + 1 };

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		_cleanup_(freep) char *first = xasprintf("a%zu", i), *second = xasprintf("b%zu", i);
		struct store *a = machine(first), *b;
		struct content_id id = put_zeros(a, sizes[i], (char)('a' + i));
		struct tier_verify v = { .sample = 1 };
		struct err err = { 0 }, why;

		ok(store_sync(a, &err), &err);
		assert_int_equal(store_unsent(a, &why), 0);
		damage_blobs();
		ok(tier_verify(a, &v, &err), &err);
		assert_int_equal(v.problems, 1);
		assert_int_equal(v.repaired, 1);
		store_free(a);
		b = machine(second);
		ok(content_verify(b, &id, &err), &err);
		store_free(b);
		bucket_memory_forget("limits");
	}
}

/* The most memory that this process had since forget_peak(). */
static uint64_t peak_kib(void)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *line;

	assert_int_equal(fs_read_file("/proc/self/status", 64 * KIB, &text, NULL), 0);
	line = strstr(text.s, "VmHWM:");
	assert_non_null(line);
	return strtoull(line + strlen("VmHWM:"), NULL, 10);
}

static uint64_t forget_peak(void)
{
	int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, "5", 1), 1);
	close(fd);
	return peak_kib();
}

/* Packs that are small are written together anew. One of them is a large blob that compressed well. */
static void test_repacking_takes_little_memory(void **state)
{
	enum { SMALL = 16 };
	struct store *a = machine("a"), *b;
	struct content_id ids[SMALL + 1] = { put_zeros(a, TREE_LISTING_MAX + 1, 'r') };
	struct remote_gc_options o = { .reader = a, .base = { .grace_ns = 1, .mark_gap_ns = 1, .contents = ids, .n_contents = SMALL + 1 } };
	struct remote_gc_result res;
	struct tier_verify v = { .sample = 1 };
	struct err err = { 0 };
	uint64_t before_kib;

	ok(store_sync(a, &err), &err);
	damage_blobs();
	ok(tier_verify(a, &v, &err), &err);
	assert_int_equal(v.repaired, 1);
	for (int i = 1; i <= SMALL; i++) { /* a pack each */
		ok(content_put_bytes(a, &i, sizeof(i), &ids[i], &err), &err);
		ok(store_sync(a, &err), &err);
	}
	before_kib = forget_peak();
	ok(remote_gc(tier_remote(a), &o, &res, &err), &err);
	assert_true(peak_kib() < before_kib + TREE_LISTING_MAX / KIB / 2);
	assert_int_equal(res.moved, SMALL + 1);
	assert_true(res.packs_written >= 1 && res.packs_written < SMALL);
	store_free(a);
	b = machine("b");
	for (int i = 0; i <= SMALL; i++)
		ok(content_verify(b, &ids[i], &err), &err);
	store_free(b);
	bucket_memory_forget("limits");
}

/* Who asks for a blob to be sent may not know its size: it goes its way all the same. */
static void test_a_large_blob_of_unknown_size(void **state)
{
	struct store *a = machine("a"), *b;
	struct content_id id = put_zeros(tier_local(a), TREE_LISTING_MAX + 1, 'z'), found;
	struct err err = { 0 }, why;

	ok(content_find(a, &id.digest, &found, &err), &err); /* what is found is offered */
	assert_true(content_id_eq(&found, &id));
	ok(store_sync(a, &err), &err);
	if (store_unsent(a, &why))
		fail_msg("%s", why.msg);
	store_free(a);
	b = machine("b");
	ok(content_verify(b, &id, &err), &err);
	store_free(b);
}

/* --- compressed bytes ----------------------------------------------------------------------------------------------------- */

static void test_what_compressed_bytes_announce(void **state)
{
	_cleanup_(fd_closep) int plain = memfd_create("plain", MFD_CLOEXEC), small = memfd_create("small", MFD_CLOEXEC);
	struct err err = { 0 };
	uint64_t stored, size;
	/* A frame that announces 2^46 bytes (RFC 8878, 3.1.1: magic, single segment, 8 bytes of size), then an empty last block. */
	static const uint8_t bomb[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0x40, 0, 0, 1, 0, 0 };

	assert_int_equal(ftruncate(plain, 10 * MIB), 0);
	ok(encode_file(plain, 10 * MIB, small, &stored, &err), &err);
	for (int over = -1; over <= 1; over++) {
		_cleanup_(fd_closep) int out = memfd_create("out", MFD_CLOEXEC);
		int r = decode_file(small, out, (uint64_t)((int64_t)(10 * MIB) + over), &size, &err);

		assert_int_equal(r, over < 0 ? -1 : 0);
		if (r < 0)
			assert_int_equal(err.code, ERR_TOO_LARGE);
		assert_int_equal(lseek(out, 0, SEEK_END), r < 0 ? 0 : (off_t)(10 * MIB));
	}
	assert_int_equal(ftruncate(small, 0), 0);
	assert_int_equal(pwrite(small, bomb, sizeof(bomb), 0), sizeof(bomb));
	assert_int_equal(decode_file(small, plain, UINT64_MAX, &size, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
}

/* --- records ----------------------------------------------------------------------------------------------------------------- */

/* What no reader takes is never written. */
static void test_records(void **state)
{
	static const struct {
		enum store_space space;
		uint64_t max;
	} cases[] = { { STORE_TREE, TREE_LISTING_MAX }, { STORE_RUN, RUN_MANIFEST_MAX }, { STORE_ACTION, ACTION_RECORD_MAX } };
	struct store *s = store_memory_new();
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (int over = -1; over <= 1; over++) {
			/* Refused before a byte of it is looked at. */
			const size_t n = over > 0 ? (size_t)cases[i].max + 1 : (size_t)(ACTION_RECORD_MAX - 1) + (size_t)(over + 1);
			_cleanup_(freep) uint8_t *bytes = over > 0 ? NULL : xcalloc(n, 1);
			_cleanup_(str_deinit) struct str got = { 0 };
			struct digest d = { .b = { (uint8_t)n } };

			if (bytes)
				digest_bytes(bytes, n, &d);
			assert_int_equal(store_check_size(cases[i].space, cases[i].max + (uint64_t)(int64_t)over, NULL), over > 0 ? -1 : 0);
			assert_int_equal(store_put(s, cases[i].space, &d, bytes, n, &err), over > 0 ? -1 : 0);
			if (over > 0)
				assert_int_equal(err.code, ERR_TOO_LARGE);
			else
				ok(store_get(s, cases[i].space, &d, cases[i].max, &got, &err), &err);
		}
	store_free(s);
}

/* A file that no bucket takes is refused by its size, before it is read. */
static void test_the_largest_blob(void **state)
{
	struct content_put_options o = { .flags = CONTENT_PUT_HASH_ONLY };
	char path[80];
	struct content_id id;
	struct err err = { 0 };

	snprintf(path, sizeof(path), "%s/huge", root);
	assert_int_equal(content_part_bytes(CONTENT_PART_BYTES * CONTENT_PARTS_MAX), CONTENT_PART_BYTES);
	assert_int_equal(content_part_bytes(CONTENT_PART_BYTES * CONTENT_PARTS_MAX + 1), 2 * CONTENT_PART_BYTES);
	assert_true(content_part_bytes(CONTENT_BLOB_MAX) <= S3_PART_MAX);
	assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
	if (truncate(path, (off_t)CONTENT_BLOB_MAX + 1) < 0)
		skip(); /* ext4 has no files of 32 TiB */
	assert_int_equal(content_put_at(NULL, AT_FDCWD, path, &o, &id, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test_setup_teardown(test_large_members_of_packs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_repacking_takes_little_memory, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_large_blob_of_unknown_size, setup, teardown),
		cmocka_unit_test(test_what_compressed_bytes_announce),
		cmocka_unit_test(test_records),
		cmocka_unit_test_setup_teardown(test_the_largest_blob, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

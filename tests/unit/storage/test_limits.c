/* The table of limits, at each limit and one beside it: what is fetched in ranges, what is packed,
 * what a record may have. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "core/seeds.h"
#include "storage/action.h"
#include "storage/bucket/memory.h"
#include "storage/bucket/ranged.h"
#include "storage/internal.h"
#include "storage/remote/internal.h"
#include "storage/remote/tier.h"
#include "unit.h"

#define BUCKET "mem-bucket://limits/prefix"

static char root[TEST_DIR_MAX];

static void ok(int r, const struct err *err)
{
	if (r < 0)
		fail_msg("%s", err->msg);
}

static int setup(void **state)
{
	test_dir(root, sizeof(root), "limits");
	return 0;
}

static int teardown(void **state)
{
	fs_remove_tree(root, NULL);
	bucket_memory_forget("limits");
	return 0;
}

/* Ranges. */

/* An object of `size` bytes, of which each request gives the first and the last: nothing in between
 * is looked at here. */
static int request(void *store, const struct bucket_get *g, struct ranged_part *p, struct err *err)
{
	const uint64_t size = *(const uint64_t *)store;
	struct http_request reply = { .reply = { .status = 206 } };
	unsigned long long first, last;

	assert_int_equal(sscanf(p->range, "bytes=%llu-%llu", &first, &last), 2);
	last = MIN(last, size - 1);
	str_addf(&reply.reply.headers, "Content-Range: bytes %llu-%llu/%llu\r\n", first, last,
		 (unsigned long long)size);
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

	*g = (struct bucket_get){
		.key = "k", .size = UINT64_MAX, .fd = -1, .max_bytes = max_bytes
	};
	if (!in_memory)
		g->fd = memfd_create("limits", MFD_CLOEXEC);
	ranged_get_many(&r, 2, &g, 1);
	str_deinit(&g->body);
	if (g->fd >= 0)
		close(g->fd);
	return g->result;
}

/* What is asked for with a limit of its own, one below it, at it, and one above. */
static void test_asked_with_a_limit(void **state)
{
	static const uint64_t limits[] = { REMOTE_RECORD_MAX, CONDEMNED_MAX, RUN_MANIFEST_MAX,
					   ACTION_RECORD_MAX, PACK_INDEX_MAX };

	for (size_t i = 0; i < ARRAY_LEN(limits); i++)
		for (int over = -1; over <= 1; over++) {
			const uint64_t size = limits[i] + (uint64_t)(int64_t)over;
			struct bucket_get g;

			assert_int_equal(get(size, true, limits[i], &g), over > 0 ? -1 : 0);
			if (over > 0)
				assert_int_equal(g.err.code, ERR_TOO_LARGE);
		}
}

static void test_ranges(void **state)
{
	static const struct {
		uint64_t size, max_bytes;
		bool in_memory, good;
	} cases[] = {
		{ BUCKET_BODY_MAX - CONTENT_PART_BYTES + 1, 0, true, true },
		{ BUCKET_BODY_MAX - 1, 0, true, true },
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
			fail_msg("%llu bytes: %s", (unsigned long long)cases[i].size,
				 r ? g.err.msg : "taken");
		if (r < 0)
			assert_int_equal(g.err.code, ERR_TOO_LARGE);
	}
}

/* Blobs. */

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

static int count_object(void *arg, const struct bucket_object *o)
{
	++*(size_t *)arg;
	return 0;
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

/* A large blob whose name can't be used goes into a pack, and there its compressed bytes may be
 * few. */
static void large_members(const uint64_t *sizes, size_t n)
{
	for (size_t i = 0; i < n; i++) {
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

static void test_large_members_of_packs(void **state)
{
	if (seeds_quick())
		skip();

	static const uint64_t sizes[] = { PACK_MEMORY_MAX - 1, PACK_MEMORY_MAX, PACK_MEMORY_MAX + 1,
					  TREE_LISTING_MAX + 1 };
	large_members(sizes, ARRAY_LEN(sizes));
}

/* A member that S3 takes in one request no more. */
static void test_a_member_of_5_gib(void **state)
{
	const char *full = getenv("CAIRN_TEST_FULL");
	const uint64_t size = S3_PART_MAX + 1;

	if (!full || !str_eq(full, "1")) {
		print_message("a member of 5 GiB takes half a minute: set CAIRN_TEST_FULL=1\n");
		skip();
	}
	large_members(&size, 1);
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

/* Packs that are small are written together anew. One of them is a large blob that compressed well.
 */
static void test_repacking_takes_little_memory(void **state)
{
	if (seeds_quick())
		skip();

	enum { SMALL = 16 };
	struct store *a = machine("a"), *b;
	struct content_id ids[SMALL + 1] = { put_zeros(a, TREE_LISTING_MAX + 1, 'r') };
	struct remote_gc_options o = { .reader = a,
				       .base = { .grace_ns = 1,
						 .mark_gap_ns = 3600 * NS_PER_S,
						 .contents = ids,
						 .n_contents = SMALL + 1 } };
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
	if (seeds_quick())
		skip();

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

/* Compressed bytes. */

static void test_what_compressed_bytes_announce(void **state)
{
	_cleanup_(fd_closep) int plain = memfd_create("plain", MFD_CLOEXEC),
				 small = memfd_create("small", MFD_CLOEXEC);
	struct err err = { 0 };
	uint64_t stored, size;
	struct digest d;
	/* A frame that announces 2^46 bytes (RFC 8878, 3.1.1: magic, single segment, 8 bytes of
	 * size), then an empty last block. */
	static const uint8_t bomb[] = { 0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0,
					0,    0,    0x40, 0,    0,    1, 0, 0 };

	assert_int_equal(ftruncate(plain, 10 * MIB), 0);
	ok(pack_encode_file(plain, 10 * MIB, small, &stored, &err), &err);
	for (int over = -1; over <= 1; over++) {
		_cleanup_(fd_closep) int out = memfd_create("out", MFD_CLOEXEC);
		int r = pack_decode_file(small, out, (uint64_t)((int64_t)(10 * MIB) + over), &size,
					 &d, &err);

		assert_int_equal(r, over < 0 ? -1 : 0);
		if (r < 0)
			assert_int_equal(err.code, ERR_TOO_LARGE);
		assert_int_equal(lseek(out, 0, SEEK_END), r < 0 ? 0 : (off_t)(10 * MIB));
	}
	assert_int_equal(ftruncate(small, 0), 0);
	assert_int_equal(pwrite(small, bomb, sizeof(bomb), 0), sizeof(bomb));
	assert_int_equal(pack_decode_file(small, plain, UINT64_MAX, &size, &d, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
}

/* Records. */

/* What no reader takes is never written. */
static void test_records(void **state)
{
	static const struct {
		enum store_space space;
		uint64_t max;
	} cases[] = { { STORE_TREE, TREE_LISTING_MAX },
		      { STORE_RUN, RUN_MANIFEST_MAX },
		      { STORE_ACTION, ACTION_RECORD_MAX },
		      { STORE_TAG, REMOTE_RECORD_MAX } };
	struct store *s = store_memory_new();
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		for (int over = -1; over <= 1; over++) {
			/* Refused before a byte of it is looked at. */
			const size_t n =
				over > 0 ? (size_t)cases[i].max + 1
					 : (size_t)(ACTION_RECORD_MAX - 1) + (size_t)(over + 1);
			_cleanup_(freep) uint8_t *bytes = over > 0 ? NULL : xcalloc(n, 1);
			_cleanup_(str_deinit) struct str got = { 0 };
			struct digest d = { .b = { (uint8_t)n } };

			if (bytes)
				digest_bytes(bytes, n, &d);
			assert_int_equal(store_check_size(cases[i].space,
							  cases[i].max + (uint64_t)(int64_t)over,
							  NULL),
					 over > 0 ? -1 : 0);
			assert_int_equal(store_put(s, cases[i].space, &d, bytes, n, &err),
					 over > 0 ? -1 : 0);
			if (over > 0)
				assert_int_equal(err.code, ERR_TOO_LARGE);
			else
				ok(store_get(s, cases[i].space, &d, cases[i].max, &got, &err),
				   &err);
		}
	store_free(s);
}

/* Of each size that a blob may have there are few enough parts, none too large. They double where
 * there would be one too many. */
static void test_parts(void **state)
{
	for (uint64_t part = CONTENT_PART_BYTES;; part *= 2) {
		const uint64_t full = part * CONTENT_PARTS_MAX;

		for (int over = -1; over <= 1; over++) {
			const uint64_t size = full + (uint64_t)(int64_t)over,
				       n = content_part_bytes(size);

			if (size > CONTENT_BLOB_MAX)
				return;
			assert_int_equal(n, over > 0 ? 2 * part : part);
			assert_true(n <= S3_PART_MAX);
			assert_true((size + n - 1) / n <=
				    (uint64_t)MIN(CONTENT_PARTS_MAX, S3_PARTS_MAX));
		}
	}
}

/* A file that no bucket takes is refused by its size, before it is read. */
static void test_the_largest_blob(void **state)
{
	struct content_put_options o = { .flags = CONTENT_PUT_HASH_ONLY };
	char path[TEST_DIR_MAX + 8];
	struct content_id id;
	struct err err = { 0 };
	struct store *s;

	snprintf(path, sizeof(path), "%s/huge", root);
	assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
	if (truncate(path, (off_t)CONTENT_BLOB_MAX + 1) < 0)
		skip(); /* ext4 has no files of 32 TiB */
	s = machine("here");
	assert_int_equal(content_put_at(s, AT_FDCWD, path, &o, &id, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	store_free(s);
}

static size_t n_below(const char *prefix)
{
	size_t n = 0;
	struct bucket *b;

	assert_int_equal(bucket_open(BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_list(b, prefix, NULL, 0, count_object, &n, NULL), 0);
	bucket_free(b);
	return n;
}

/* What is hashed whole and goes up in one piece, and what doesn't; what lies alone, and what is
 * packed. */
static void test_sizes_of_blobs(void **state)
{
	static const struct {
		uint64_t size;
		bool alone, whole;
	} rows[] = {
		{ REMOTE_LOOSE_MIN - 1, false, true }, { REMOTE_LOOSE_MIN, true, true },
		{ REMOTE_LOOSE_MIN + 1, true, true },  { CONTENT_PART_BYTES - 1, true, true },
		{ CONTENT_PART_BYTES, true, true },    { CONTENT_PART_BYTES + 1, true, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *first = xasprintf("s%zu", i), *second = xasprintf("t%zu", i);
		_cleanup_(freep) uint8_t *bytes = xcalloc(rows[i].size, 1);
		struct store *a = machine(first), *b;
		struct content_id id, of_bytes;
		struct digest whole;
		struct err err = { 0 }, why;

		bytes[rows[i].size - 1] = 'x';
		id = put_zeros(a, rows[i].size, 'x');
		content_id_of_bytes(bytes, rows[i].size, &of_bytes);
		assert_true(content_id_eq(&id, &of_bytes));
		digest_bytes(bytes, rows[i].size, &whole);
		assert_int_equal(digest_eq(&whole, &id.digest), rows[i].whole);
		ok(store_sync(a, &err), &err);
		assert_int_equal(store_unsent(a, &why), 0);
		assert_int_equal(n_below("blobs/"), rows[i].alone);
		store_free(a);
		b = machine(second);
		ok(content_verify(b, &id, &err), &err);
		store_free(b);
		bucket_memory_forget("limits");
	}
}

static void test_names(void **state)
{
	char text[BUCKET_KEY_MAX + 64];
	struct content_id id;
	struct bucket *b;
	struct err err = { 0 };

	for (int over = -1; over <= 1; over++) {
		_cleanup_(freep) char *name = xcalloc(TREE_NAME_MAX + 2, 1),
				      *bucket = xcalloc(BUCKET_NAME_MAX + 2, 1);
		_cleanup_(freep) char *prefix = xcalloc(BUCKET_KEY_MAX, 1);
		const struct tree_entry e = { .name = name,
					      .name_len = (size_t)(TREE_NAME_MAX + over),
					      .kind = TREE_SYMLINK,
					      .target = "x",
					      .target_len = 1 };
		struct tree_builder *t = tree_builder_new();

		memset(name, 'n', (size_t)(TREE_NAME_MAX + over));
		memset(bucket, 'b', (size_t)(BUCKET_NAME_MAX + over));
		memset(prefix, 'p', (size_t)(BUCKET_KEY_MAX / 2 + over));
		assert_int_equal(tree_builder_add(t, &e, &err) == 0 &&
					 tree_builder_store(t, NULL, &id, &err) == 0,
				 over <= 0);
		tree_builder_free(t);
		snprintf(text, sizeof(text), "s3://%s", bucket);
		assert_int_equal(bucket_open(text, &(struct bucket_options){ .anonymous = true },
					     &b, &err) == 0,
				 over <= 0);
		if (over <= 0)
			bucket_free(b);
		snprintf(text, sizeof(text), "s3://b/%s", prefix);
		assert_int_equal(bucket_open(text, &(struct bucket_options){ .anonymous = true },
					     &b, &err) == 0,
				 over <= 0);
		if (over <= 0)
			bucket_free(b);
	}
}

/* Of directories in each other as many can be taken in as are laid out. */
static void test_depth(void **state)
{
	_cleanup_(fd_closep) int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct store *s = store_memory_new();

	for (int over = -1; over <= 1; over++) {
		struct content_id top, again;
		struct err err = { 0 };

		ok(content_put_bytes(s, "x", 1, &top, &err), &err);
		for (int i = 0; i < CONTENT_DEPTH_MAX + over; i++) {
			struct tree_entry e = { .name = "d",
						.name_len = 1,
						.kind = i ? TREE_DIR : TREE_FILE,
						.id = top };
			struct tree_builder *t = tree_builder_new();

			ok(tree_builder_add(t, &e, &err), &err);
			ok(tree_builder_store(t, s, &top, &err), &err);
			tree_builder_free(t);
		}
		assert_int_equal(
			content_materialise_at(s, &top, CONTENT_COPY_WRITABLE, fd, "deep", &err),
			over > 0 ? -1 : 0);
		if (over > 0) {
			assert_int_equal(err.code, ERR_TOO_LARGE);
			continue;
		}
		ok(content_put_at(s, fd, "deep", NULL, &again, &err), &err);
		assert_true(content_id_eq(&again, &top));
		ok(fs_remove_tree_at(fd, "deep", &err), &err);
	}
	store_free(s);
}

static void test_outputs_of_a_record(void **state)
{
	_cleanup_(freep) struct action_output *outputs =
		xcalloc(ACTION_OUTPUTS_MAX + 1, sizeof(*outputs));
	struct store *s = store_memory_new();

	for (uint32_t i = 0; i <= ACTION_OUTPUTS_MAX; i++)
		outputs[i] = (struct action_output){ .name = xasprintf("o%06u", i),
						     .id = { .kind = CONTENT_BLOB } };
	for (int over = -1; over <= 1; over++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct action_record r = { .key.b = { (uint8_t)(over + 2) },
					   .run_id = "r",
					   .task = "t",
					   .node = "n",
					   .outputs = outputs,
					   .n_outputs = (size_t)(ACTION_OUTPUTS_MAX + over) },
				     got;
		struct err err = { 0 };

		assert_int_equal(action_put(s, &r, &err), over > 0 ? -1 : 0);
		assert_int_equal(action_get(s, &r.key, arena, &got, NULL), over > 0 ? -1 : 0);
		if (over > 0)
			assert_int_equal(err.code, ERR_TOO_LARGE);
		else
			assert_int_equal(got.n_outputs, r.n_outputs);
	}
	for (uint32_t i = 0; i <= ACTION_OUTPUTS_MAX; i++)
		free((char *)outputs[i].name);
	store_free(s);
}

/* Packs. */

static void put_u64(char *at, uint64_t v)
{
	for (int i = 0; i < 8; i++)
		at[i] = (char)(v >> 8 * i);
}

/* Writers end a pack long before readers refuse its index. */
static void test_members_of_a_pack(void **state)
{
	enum { HEADER = 39, MEMBER = 58 };
	_cleanup_(str_deinit) struct str index = { 0 };
	struct pack_writer *w;
	struct digest name = { { 0 } };
	struct err err = { 0 };

	ok(pack_writer_new(-1, &w, &err), &err);
	for (uint32_t i = 1; i <= PACK_MEMBERS_FULL + 1; i++) {
		memcpy(name.b, &i, sizeof(i));
		ok(pack_writer_add(w, STORE_BLOB, &name, "", 0, &err), &err);
		assert_int_equal(pack_writer_is_full(w, 1), i >= PACK_MEMBERS_FULL);
	}
	pack_writer_free(w);
	str_addn(&index, "cairn-pack-index/1\n", 19);
	str_reserve(&index, HEADER + (size_t)MEMBER * (PACK_MEMBERS_MAX + 2));
	memset(index.s + index.len, 0, HEADER + (size_t)MEMBER * (PACK_MEMBERS_MAX + 1) - 19);
	for (uint32_t i = 0; i <= PACK_MEMBERS_MAX; i++) { /* empty ones; names rise */
		char *m = index.s + HEADER + (size_t)MEMBER * i;

		for (int k = 0; k < 4; k++)
			m[2 + k] = (char)(i >> (24 - 8 * k));
		m[2 + DIGEST_BYTES + 8] = 64;
	}
	for (int over = -1; over <= 1; over++) {
		const uint32_t n = (uint32_t)(PACK_MEMBERS_MAX + over);
		const size_t len = HEADER + (size_t)MEMBER * n;

		for (int k = 0; k < 4; k++)
			index.s[HEADER - 4 + k] = (char)(n >> 8 * k);
		assert_true(len <= PACK_INDEX_MAX);
		digest_bytes(index.s, len, &name);
		assert_int_equal(pack_index_check(&name, index.s, len, STORE_TREE, &err),
				 over > 0 ? -1 : 0);
	}
}

static void put_object(const char *key, uint64_t size)
{
	_cleanup_(freep) uint8_t *bytes = xcalloc(size, 1);
	struct bucket_put p = { .key = key, .bytes = bytes, .fd = -1, .size = size }, *v = &p;
	struct bucket *b;
	struct err err = { 0 };

	ok(bucket_open(BUCKET, NULL, &b, &err), &err);
	ok(bucket_put_many(b, &v, 1, &err), &err);
	assert_int_equal(p.result, 0);
	bucket_free(b);
}

/* A bucket that somebody else writes to: what is larger than anything that is read there harms
 * nothing that lies beside it. */
static void test_too_large_in_a_bucket(void **state)
{
	struct store *a = machine("a"), *b;
	const struct digest index = { .b = { 9 } };
	struct tier_verify v = { .sample = 1 };
	struct content_id good;
	struct err err = { 0 };
	char key[REMOTE_KEY_MAX];

	ok(content_put_bytes(a, "good", 4, &good, &err), &err);
	ok(store_sync(a, &err), &err);
	store_free(a);
	put_object(remote_pack_key(key, &index, true), PACK_INDEX_MAX + 1);
	b = machine("b");
	ok(content_verify(b, &good, &err), &err);
	for (int over = -1; over <= 1; over++) {
		const struct digest action = { .b = { 2, (uint8_t)(over + 1) } };
		_cleanup_(str_deinit) struct str got = { 0 };

		put_object(remote_key(key, STORE_ACTION, &action),
			   ACTION_RECORD_MAX + (uint64_t)(int64_t)over);
		assert_int_equal(store_get(b, STORE_ACTION, &action, ACTION_RECORD_MAX, &got, &err),
				 over > 0 ? -1 : 0);
		if (over > 0) /* as one that is damaged: the task runs again */
			assert_int_equal(err.code, ERR_NOT_FOUND);
	}
	ok(tier_verify(b, &v, &err), &err);
	assert_true(v.problems >= 2);
	store_free(b);
}

/* An index says where its pack's members lie, the last 24 bytes for the last of them: size, place,
 * and what is stored. */
static void test_places_in_a_pack(void **state)
{
	struct pack_writer *w;
	struct str index = { 0 };
	struct digest name = { { 1 } };
	struct err err = { 0 };
	uint64_t size;
	int fd;

	ok(pack_writer_new(-1, &w, &err), &err);
	ok(pack_writer_add(w, STORE_BLOB, &name, "x", 1, &err), &err);
	for (int over = -1; over <= 1; over++) {
		const uint64_t rest = PACK_BYTES_MAX - pack_writer_bytes(w);

		assert_int_equal(pack_writer_is_full(w, rest + (uint64_t)(int64_t)over), over > 0);
	}
	pack_writer_finish(w, &fd, &size, &index, &name);
	for (int member = 0; member < 3; member++)
		for (int over = -1; over <= 1; over++) {
			_cleanup_(str_deinit) struct str changed = { 0 };
			const uint64_t v = PACK_PLACE_MAX + (uint64_t)(int64_t)over;

			str_addn(&changed, index.s, index.len);
			if (member == 1) {
				put_u64(changed.s + changed.len - 16, v);
			} else { /* plain bytes are as many as are stored */
				put_u64(changed.s + changed.len - 24, v);
				put_u64(changed.s + changed.len - 8, member ? v + 1 : v);
			}
			digest_bytes(changed.s, changed.len, &name);
			assert_int_equal(
				pack_index_check(&name, changed.s, changed.len, STORE_TREE, &err),
				over < 0 && member < 2 ? 0 : -1);
		}
	pack_writer_free(w);
	str_deinit(&index);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_asked_with_a_limit),
		cmocka_unit_test_setup_teardown(test_large_members_of_packs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_member_of_5_gib, setup, teardown),
		cmocka_unit_test_setup_teardown(test_repacking_takes_little_memory, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_large_blob_of_unknown_size, setup, teardown),
		cmocka_unit_test(test_what_compressed_bytes_announce),
		cmocka_unit_test(test_records),
		cmocka_unit_test(test_parts),
		cmocka_unit_test_setup_teardown(test_the_largest_blob, setup, teardown),
		cmocka_unit_test_setup_teardown(test_sizes_of_blobs, setup, teardown),
		cmocka_unit_test(test_names),
		cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
		cmocka_unit_test(test_outputs_of_a_record),
		cmocka_unit_test(test_members_of_a_pack),
		cmocka_unit_test_setup_teardown(test_too_large_in_a_bucket, setup, teardown),
		cmocka_unit_test(test_places_in_a_pack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

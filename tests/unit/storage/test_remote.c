/* A directory in front of a bucket: what one machine puts another one gets; packs; what goes wrong
 * with the bucket. */
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "storage/action.h"
#include "storage/bucket/memory.h"
#include "storage/internal.h"
#include "storage/remote/evict.h"
#include "storage/remote/tier.h"
#include "unit.h"

#define BUCKET "mem-bucket://team/some/prefix"

static char root[TEST_DIR_MAX];

static void ok(int r, const struct err *err)
{
	if (r < 0)
		fail_msg("%s", err->msg);
}

static struct store *machine(const char *name, enum store_mode mode)
{
	_cleanup_(freep) char *local = fs_join(root, name);
	const struct store_options o = { .local = local, .mode = mode };
	struct err err = { 0 };
	struct store *s = NULL;

	ok(store_open_with(BUCKET, &o, true, &s, &err), &err);
	return s;
}

static int setup(void **state)
{
	test_dir(root, sizeof(root), "remote");
	return 0;
}

static int teardown(void **state)
{
	fs_remove_tree(root, NULL);
	bucket_memory_forget("team");
	return 0;
}

static void faults(struct bucket_memory_faults f)
{
	bucket_memory_faults("team", &f);
}

static struct bucket_memory_counts counts(void)
{
	struct bucket_memory_counts c;

	bucket_memory_count("team", &c);
	return c;
}

static void fill(char *p, size_t n, uint32_t seed, bool text)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = text ? "abcdefgh \n"[(seed >> 28) % 10] : (char)(seed >> 24);
	}
}

/* A directory of n small files, three large ones (one of them text), an empty one, a link and a
 * deeper directory. */
static char *make_dir(const char *name, size_t n)
{
	char *dir = fs_join(root, name);
	_cleanup_(freep) char *sub = fs_join(dir, "sub/deeper");
	_cleanup_(freep) char *big = xmalloc(MIB);
	char path[512];

	assert_int_equal(fs_mkdir_p(sub, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		char text[64];
		int len = snprintf(text, sizeof(text), "file %zu of %s, with some words in it\n", i,
				   name);

		snprintf(path, sizeof(path), "%s/f%zu", i % 2 ? sub : dir, i);
		assert_int_equal(fs_write_atomic(path, text, (size_t)len, NULL), 0);
	}
	for (uint32_t i = 0; i < 3; i++) {
		fill(big, MIB, i + (uint32_t)n, i == 0);
		snprintf(path, sizeof(path), "%s/big%u", dir, i);
		assert_int_equal(fs_write_atomic(path, big, MIB - i, NULL), 0);
	}
	snprintf(path, sizeof(path), "%s/empty", dir);
	assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
	snprintf(path, sizeof(path), "%s/link", dir);
	assert_int_equal(symlink("f0", path), 0);
	return dir;
}

static struct content_id put_dir(struct store *s, const char *name, size_t n)
{
	_cleanup_(freep) char *dir = make_dir(name, n);
	struct err err = { 0 };
	struct content_id id;

	ok(content_put_at(s, AT_FDCWD, dir, NULL, &id, &err), &err);
	return id;
}

static void same_dir(const char *a, const char *b)
{
	_cleanup_(freep) char *cmd =
		xasprintf("diff -r --no-dereference %s/%s %s/%s", root, a, root, b);

	assert_int_equal(system(cmd), 0); /* lint: system because diff says it best */
}

static struct action_record record_of(uint8_t key, struct action_output *out)
{
	struct action_record a = { .outputs = out,
				   .n_outputs = 1,
				   .run_id = "r",
				   .task = "t",
				   .node = "n",
				   .started_ns = 1,
				   .ended_ns = 2 };

	memset(a.key.b, key, sizeof(a.key.b));
	return a;
}

static void publish(struct store *s, uint8_t key, const struct content_id *id)
{
	struct action_output out = { "o", *id };
	struct action_record a = record_of(key, &out);
	struct err err = { 0 };

	ok(store_sync(s, &err), &err);
	ok(action_put(s, &a, &err), &err);
	ok(store_sync(s, &err), &err);
}

static bool finds(struct store *s, uint8_t key, struct content_id *ret)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct action_record a;
	struct digest d;
	struct err err = { 0 };
	bool complete = false;

	memset(d.b, key, sizeof(d.b));
	if (action_get(s, &d, arena, &a, &err) < 0) {
		assert_int_equal(err.code, ERR_NOT_FOUND);
		return false;
	}
	*ret = a.outputs[0].id;
	ok(content_complete(s, ret, 1, &complete, &err), &err);
	return complete;
}

static void test_a_colleague_gets_it(void **state)
{
	struct store *a = machine("a", STORE_READ_WRITE), *b;
	struct content_id id = put_dir(a, "in", 300), got;
	struct err err = { 0 }, first;
	struct bucket_memory_counts c;

	publish(a, 7, &id);
	assert_int_equal(store_unsent(a, &first), 0);
	store_free(a);
	c = counts();
	assert_true(c.puts < 20); /* 300 files in one pack */

	b = machine("b", STORE_READ_WRITE);
	assert_true(finds(b, 7, &got));
	assert_true(content_id_eq(&got, &id));
	assert_false(finds(b, 8, &got));
	{
		_cleanup_(freep) char *out = fs_join(root, "out");

		ok(content_materialise_at(b, &id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err),
		   &err);
	}
	same_dir("in", "out");
	assert_true(counts().gets - c.gets < 20);
	ok(content_verify(b, &id, &err), &err);
	store_free(b);
	assert_true(counts().deletes >= 2); /* both leases were given back */
}

static void test_nothing_is_sent_twice(void **state)
{
	struct store *a = machine("a", STORE_READ_WRITE), *b;
	struct content_id id = put_dir(a, "in", 50), again;
	struct bucket_memory_counts c;

	publish(a, 1, &id);
	store_free(a);
	c = counts();
	b = machine("b", STORE_READ_WRITE);
	again = put_dir(b, "in2", 50);
	assert_false(content_id_eq(&id, &again)); /* other names in the files */
	publish(b, 2, &again);
	store_free(b);
	assert_true(counts().bytes_in - c.bytes_in < MIB); /* the large files were there */
}

/* Only the trees, the record and what small content is: packs say it without a request for each. */
static void test_existence_is_cheap(void **state)
{
	struct store *a = machine("a", STORE_READ_WRITE), *b;
	struct content_id id = put_dir(a, "in", 2000), got;
	struct bucket_memory_counts c;

	publish(a, 1, &id);
	store_free(a);
	b = machine("b", STORE_READ_WRITE);
	c = counts();
	assert_true(finds(b, 1, &got));
	assert_true(counts().heads - c.heads < 8);
	assert_true(counts().gets - c.gets < 8);
	store_free(b);
	b = machine("b", STORE_READ_WRITE); /* remembers */
	c = counts();
	assert_true(finds(b, 1, &got));
	assert_true(counts().heads - c.heads <= 2); /* the lease and the list of the condemned */
	store_free(b);
}

static void test_modes(void **state)
{
	struct store *a = machine("a", STORE_READ_WRITE), *b;
	struct content_id id = put_dir(a, "in", 5), got;
	struct bucket_memory_counts c;

	publish(a, 1, &id);
	store_free(a);
	c = counts();
	b = machine("b", STORE_READ_ONLY);
	assert_true(finds(b, 1, &got));
	publish(b, 2, &id);
	store_free(b);
	assert_int_equal(counts().puts, c.puts);
	b = machine("c", STORE_OFF);
	c = counts();
	assert_false(finds(b, 1, &got));
	publish(b, 2, &(struct content_id){ .kind = CONTENT_BLOB });
	store_free(b);
	assert_int_equal(counts().puts, c.puts);
	assert_int_equal(counts().gets, c.gets);
}

static void test_failures_are_counted_and_made_good(void **state)
{
	struct store *a = machine("a", STORE_READ_WRITE), *b;
	struct content_id id, got;
	struct err first = { 0 };

	faults((struct bucket_memory_faults){ .down = true });
	id = put_dir(a, "in", 5);
	publish(a, 1, &id);
	assert_true(store_unsent(a, &first) > 5);
	assert_non_null(strstr(first.msg, "reset"));
	assert_true(finds(a, 1, &got));
	store_free(a);
	faults((struct bucket_memory_faults){ 0 });
	b = machine("b", STORE_READ_WRITE);
	assert_false(finds(b, 1, &got));
	store_free(b);
}

/* Whoever may only read still hits, and is told that nothing was sent. */
static void test_read_only_credentials(void **state)
{
	struct store *a = machine("a", STORE_READ_WRITE), *b;
	struct content_id id = put_dir(a, "in", 5), got;
	struct err first = { 0 };

	publish(a, 1, &id);
	store_free(a);
	faults((struct bucket_memory_faults){ .refuses_writes = true });
	b = machine("b", STORE_READ_WRITE);
	assert_true(finds(b, 1, &got));
	publish(b, 2, &id);
	assert_true(store_unsent(b, &first) > 0);
	assert_int_equal(first.code, ERR_READ_ONLY);
	store_free(b);
	faults((struct bucket_memory_faults){ 0 });
}

/* Cut off after each number of writes: whatever record arrived, all that it names had arrived
 * before. */
static void test_cut_off_anywhere(void **state)
{
	for (uint64_t after = 1;; after++) {
		struct store *a, *b;
		struct content_id id, got;
		struct err first;
		bool sent;
		char name[16];

		bucket_memory_forget("team");
		faults((struct bucket_memory_faults){ .fail_after_writes = after });
		snprintf(name, sizeof(name), "a%llu", (unsigned long long)after);
		a = machine(name, STORE_READ_WRITE);
		snprintf(name, sizeof(name), "in%llu", (unsigned long long)after);
		id = put_dir(a, name, 5);
		publish(a, 1, &id);
		sent = store_unsent(a, &first) == 0;
		store_free(a);
		faults((struct bucket_memory_faults){ 0 });
		b = machine("b", STORE_READ_WRITE);
		{
			_cleanup_(arena_freep) struct arena *arena = arena_new();
			struct action_record rec;
			struct digest key;

			memset(key.b, 1, sizeof(key.b));
			if (action_get(b, &key, arena, &rec, NULL) == 0)
				assert_true(finds(b, 1, &got));
			else
				assert_false(sent);
		}
		store_free(b);
		{
			_cleanup_(freep) char *dir = fs_join(root, "b");

			fs_remove_tree(dir, NULL);
		}
		if (sent)
			break;
		assert_true(after < 50);
	}
}

/* One wrong byte, anywhere in what lies in the bucket: never content that doesn't match. */
static int damage(void *arg, const struct bucket_object *o)
{
	char key[256];

	snprintf(key, sizeof(key), "some/prefix/%s", o->key);
	if (o->size > *(uint64_t *)arg)
		bucket_memory_damage("team", key, *(uint64_t *)arg);
	return 0;
}

/* Whoever has it finds what is damaged there, and sends it again. */
static void repair_from(char name[16], size_t i, const struct content_id *id)
{
	struct tier_verify v = { .sample = 1 };
	struct content_id got;
	struct err err = { 0 };
	struct store *s;

	snprintf(name, 16, "a%zu", i);
	s = machine(name, STORE_READ_WRITE);
	ok(tier_verify(s, &v, &err), &err);
	assert_int_equal(v.repaired, v.problems);
	if (i == 1 || i == 2)
		assert_true(v.problems > 0);
	store_free(s);
	snprintf(name, 16, "c%zu", i);
	s = machine(name, STORE_READ_WRITE);
	assert_true(finds(s, 1, &got));
	{
		_cleanup_(freep) char *out = xasprintf("%s/out%zu", root, i);

		ok(content_materialise_at(s, id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err), &err);
	}
	ok(content_verify(s, id, &err), &err);
	store_free(s);
}

static void test_damage_is_seen(void **state)
{
	static const uint64_t places[] = { 0, 30, 100, 200, 5000 };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct store *a, *b;
		struct content_id id, got;
		struct bucket *bucket;
		uint64_t at = places[i];
		char name[16];

		bucket_memory_forget("team");
		snprintf(name, sizeof(name), "a%zu", i);
		a = machine(name, STORE_READ_WRITE);
		snprintf(name, sizeof(name), "in%zu", i);
		id = put_dir(a, name, 60);
		publish(a, 1, &id);
		store_free(a);
		assert_int_equal(bucket_open(BUCKET, NULL, &bucket, NULL), 0);
		bucket_list(bucket, "packs/", NULL, 0, damage, &at, NULL);
		bucket_list(bucket, "blobs/", NULL, 0, damage, &at, NULL);
		bucket_free(bucket);
		snprintf(name, sizeof(name), "b%zu", i);
		b = machine(name, STORE_READ_WRITE);
		if (finds(b, 1, &got)) {
			struct err err = { 0 };

			assert_int_equal(content_verify(b, &id, &err), -1);
			assert_true(err.code == ERR_NOT_FOUND || err.code == ERR_CORRUPT);
		}
		store_free(b);
		repair_from(name, i, &id);
	}
}

static bool materialises(struct store *s, const struct content_id *id, const char *name)
{
	_cleanup_(freep) char *out = fs_join(root, name);
	struct err err = { 0 };
	int r = content_materialise_at(s, id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err);

	assert_true(r == 0 || err.code == ERR_CORRUPT);
	return r == 0;
}

/* What was hashed as it came in is laid out without another look, once; from then on each copy is
 * hashed. */
static void test_what_arrives_is_hashed_once(void **state)
{
	struct store *a = machine("a", STORE_READ_WRITE), *b;
	_cleanup_(freep) char *bytes = xmalloc(MIB), *blob = NULL;
	struct err err = { 0 };
	struct content_id id;
	char hex[DIGEST_HEX_MAX];

	fill(bytes, MIB, 1, false);
	ok(content_put_bytes(a, bytes, MIB, &id, &err), &err);
	publish(a, 3, &id);
	store_free(a);

	b = machine("b", STORE_READ_WRITE);
	assert_false(store_take_arrived(b, &id.digest));
	ok(store_bring(b, &id, 1, BRING_ALL, &err), &err);
	assert_true(store_is_verified(b->here, &id.digest));
	assert_true(materialises(b, &id, "out1"));
	assert_false(store_take_arrived(b, &id.digest));
	digest_hex(&id.digest, hex);
	blob = xasprintf("%s/b/blobs/%.2s/%s", root, hex, hex);
	assert_int_equal(chmod(blob, 0644), 0);
	bytes[4711] ^= 1;
	ok(fs_write_atomic(blob, bytes, MIB, &err), &err);
	assert_false(materialises(b, &id, "out2"));
	assert_true(materialises(b, &id, "out3")); /* the damaged one was set aside */
	ok(store_delete(b, STORE_BLOB, &id.digest, &err), &err);
	ok(store_bring(b, &id, 1, BRING_ALL, &err), &err);
	assert_true(store_take_arrived(b, &id.digest));
	assert_false(store_take_arrived(b, &id.digest));
	store_free(b);
}

/* How many of the blobs of files named PREFIX0, PREFIX1, … in `in` the directory has. */
static size_t blobs_here(struct store *s, const char *prefix, size_t from, size_t to)
{
	size_t n = 0;

	for (size_t i = from; i < to; i++) {
		_cleanup_(freep) char *path = xasprintf("%s/in/%s%zu", root, prefix, i);
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct content_id id;
		bool there;

		assert_int_equal(fs_read_file(path, MIB, &bytes, NULL), 0);
		content_id_of_bytes(bytes.s, bytes.len, &id);
		assert_int_equal(
			store_has_object(s->here, STORE_BLOB, &id.digest, bytes.len, &there, NULL),
			0);
		n += there;
	}
	return n;
}

/* Neither a file nor a directory is left of what can't be had whole. */
static void assert_nothing_is_made(struct store *s, const struct content_id *id)
{
	_cleanup_(freep) char *out = fs_join(root, "nothing");
	struct err err = { 0 };

	assert_int_equal(content_materialise_at(s, id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err),
			 -1);
	assert_true(err.code == ERR_NOT_FOUND || err.code == ERR_CORRUPT);
	assert_int_equal(access(out, F_OK), -1);
}

/* What a user gets is written once: the directory in front has no copy of large blobs, unless they
 * were compressed on the way. Damage is found all the same. */
static void test_large_blobs_go_into_their_place(void **state)
{
	enum { MANY = 70 }; /* more than are fetched at once */
	_cleanup_(freep) char *in = make_dir("in", 4), *bytes = xmalloc(REMOTE_LOOSE_MIN);
	_cleanup_(freep) char *big = fs_join(in, "big1"), *out = fs_join(root, "out"),
			      *one = fs_join(root, "one");
	struct store *a = machine("a", STORE_READ_WRITE), *b;
	struct content_id id, file;
	struct bucket *bucket;
	struct err err = { 0 };
	uint64_t at = 4711;
	struct stat st;

	assert_int_equal(chmod(big, 0755), 0);
	for (uint32_t i = 0; i < MANY; i++) {
		_cleanup_(freep) char *path = xasprintf("%s/many%u", in, i);

		fill(bytes, REMOTE_LOOSE_MIN, i + 1000, false);
		ok(fs_write_atomic(path, bytes, REMOTE_LOOSE_MIN, &err), &err);
	}
	ok(content_put_at(a, AT_FDCWD, in, NULL, &id, &err), &err);
	ok(content_put_at(a, AT_FDCWD, big, NULL, &file, &err), &err);
	publish(a, 1, &id);
	store_free(a);

	b = machine("b", STORE_READ_WRITE);
	ok(content_materialise_at(b, &id, CONTENT_COPY_WRITABLE, AT_FDCWD, out, &err), &err);
	same_dir("in", "out");
	ok(content_materialise_at(b, &file, CONTENT_COPY_WRITABLE, AT_FDCWD, one, &err), &err);
	same_dir("in/big1", "one");
	assert_int_equal(stat(one, &st), 0);
	assert_true(st.st_mode & 0100);
	assert_int_equal(blobs_here(b, "many", 0, MANY) + blobs_here(b, "big", 1, 3), 0);
	assert_int_equal(blobs_here(b, "big", 0, 1), 1);
	store_free(b);

	/* A listing that says another size than the blob has is wrong, and so is its copy. */
	b = machine("c", STORE_READ_WRITE);
	file.size_bytes--;
	assert_nothing_is_made(b, &file);
	file.size_bytes++;
	ok(store_delete(b, STORE_BLOB, &file.digest, &err), &err); /* it was fetched to be judged */
	assert_int_equal(bucket_open(BUCKET, NULL, &bucket, NULL), 0);
	bucket_list(bucket, "blobs/", NULL, 0, damage, &at, NULL);
	bucket_free(bucket);
	assert_nothing_is_made(b, &id);
	assert_nothing_is_made(b, &file);
	assert_int_equal(blobs_here(b, "many", 0, MANY), 0);
	faults((struct bucket_memory_faults){ .down = true });
	assert_nothing_is_made(b, &file);
	faults((struct bucket_memory_faults){ 0 });
	store_free(b);
}

/* The object that says what it is: damaged, it is written anew by whoever may, and others read on.
 * A bucket that holds something else stays as it is. */
static void test_a_damaged_version(void **state)
{
	struct bucket_put p = { .key = "version",
				.bytes = "cairn bucket st0re 1",
				.fd = -1,
				.size = 20 },
			  *v = &p;
	struct store *a = machine("a", STORE_READ_WRITE);
	struct content_id id = put_dir(a, "in", 5), got;
	struct err err = { 0 };
	struct bucket *b;

	publish(a, 1, &id);
	store_free(a);
	assert_int_equal(bucket_open(BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_put_many(b, &v, 1, NULL), 0);
	a = machine("reader", STORE_READ_ONLY);
	assert_true(finds(a, 1, &got));
	assert_int_equal(store_healed(a), 0);
	store_free(a);
	a = machine("writer", STORE_READ_WRITE);
	ok(store_attach(a, &err), &err);
	assert_int_equal(store_healed(a), 1);
	store_free(a);
	a = machine("next", STORE_READ_WRITE);
	assert_true(finds(a, 1, &got));
	assert_int_equal(store_healed(a), 0);
	store_free(a);
	bucket_free(b);

	bucket_memory_forget("team");
	assert_int_equal(bucket_open(BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_put_many(b, &v, 1, NULL), 0);
	a = machine("elsewhere", STORE_READ_WRITE);
	assert_int_equal(store_attach(a, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	store_free(a);
	bucket_free(b);
}

/* A manifest of these tests: the content id of one tree, and one key. */
struct test_manifest {
	struct content_id id;
	struct digest key;
};

static int refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		void *arg, struct err *err)
{
	return emit(arg, &((const struct test_manifest *)bytes)->id);
}

static int keys(const void *bytes, size_t n, int (*emit)(void *arg, const struct digest *key),
		void *arg, struct err *err)
{
	return emit(arg, &((const struct test_manifest *)bytes)->key);
}

static const struct closure_names names = { .refs = refs, .keys = keys };

static struct digest put_manifest(struct store *s, uint8_t key, const struct content_id *id)
{
	struct test_manifest m;
	struct digest hash;

	memset(&m, 0, sizeof(m));
	m.id = *id;
	memset(m.key.b, key, sizeof(m.key.b));
	digest_bytes(&m, sizeof(m), &hash);
	assert_int_equal(store_put(s, STORE_RUN, &hash, &m, sizeof(m), NULL), 0);
	return hash;
}

static void test_push_and_pull_of_runs(void **state)
{
	struct store *plain = machine("a", STORE_OFF), *a,
		     *b; /* was used for itself before the team shared a store */
	struct content_id one = put_dir(plain, "one", 30), two = put_dir(plain, "two", 30), got;
	struct digest runs[2];
	struct remote_sent sent;
	struct tier_pulled pulled;
	struct err err = { 0 };

	publish(plain, 1, &one);
	publish(plain, 2, &two);
	runs[0] = put_manifest(plain, 1, &one);
	runs[1] = put_manifest(plain, 2, &two);
	store_free(plain);

	a = machine("a", STORE_READ_WRITE);
	ok(tier_push(a,
		     &(struct tier_wanted){
			     .manifests = &runs[0], .n_manifests = 1, .names = &names },
		     &sent, &err),
	   &err);
	assert_int_equal(sent.missing, 0);
	assert_true(sent.objects >= 34);
	b = machine("b", STORE_READ_WRITE);
	assert_true(finds(b, 1, &got));
	assert_false(finds(b, 2, &got));
	ok(tier_push(a, &(struct tier_wanted){ .names = &names }, &sent, &err), &err);
	assert_int_equal(sent.missing, 0);
	ok(tier_push(a, &(struct tier_wanted){ .names = &names }, &sent, &err), &err);
	assert_int_equal(sent.objects, 0);
	store_free(a);

	ok(tier_pull(b,
		     &(struct tier_wanted){
			     .manifests = &runs[1], .n_manifests = 1, .names = &names },
		     &pulled, &err),
	   &err);
	assert_int_equal(pulled.missing, 0);
	faults((struct bucket_memory_faults){ .down = true });
	assert_true(finds(b, 2, &got)); /* all of it is here */
	ok(content_verify(b, &two, &err), &err);
	faults((struct bucket_memory_faults){ 0 });
	store_free(b);

	b = machine("c", STORE_READ_WRITE);
	ok(tier_pull(b, &(struct tier_wanted){ .names = &names }, &pulled, &err), &err);
	assert_int_equal(pulled.missing, 0);
	store_free(b);
	b = machine("c", STORE_OFF);
	ok(content_verify(b, &one, &err), &err);
	ok(content_verify(b, &two, &err), &err);
	assert_int_equal(store_verify(b, &names, NULL, NULL, NULL, &err), 0);
	store_free(b);
}

/* The bound of the directory. */

static struct store *bounded(const char *name, uint64_t max)
{
	_cleanup_(freep) char *local = fs_join(root, name);
	const struct store_options o = { .local = local, .cache_max = max };
	struct err err = { 0 };
	struct store *s = NULL;

	ok(store_open_with(BUCKET, &o, true, &s, &err), &err);
	return s;
}

static bool is_here(struct store *s, const struct content_id *id)
{
	struct store *local = tier_local(s);
	bool there = false;

	assert_int_equal(store_has(local, id, 1, &there, NULL), 0);
	return there;
}

static struct content_id put_random(struct store *s, uint32_t seed, size_t n)
{
	_cleanup_(freep) char *bytes = xmalloc(n);
	struct content_id id;

	fill(bytes, n, seed, false);
	assert_int_equal(content_put_bytes(s, bytes, n, &id, NULL), 0);
	return id;
}

/* File systems' clocks tick every few milliseconds: until what is touched next is younger than what
 * was touched last. */
static void wait_for_tick(void)
{
	_cleanup_(freep) char *path = fs_join(root, "tick");
	struct stat first, now;

	assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
	assert_int_equal(stat(path, &first), 0);
	do {
		assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
		assert_int_equal(stat(path, &now), 0);
	} while (now.st_ctim.tv_sec == first.st_ctim.tv_sec &&
		 now.st_ctim.tv_nsec == first.st_ctim.tv_nsec);
}

/* As if `id` had last been used so many hours ago. */
static void age(const char *name, const struct content_id *id, int hours)
{
	char hex[DIGEST_HEX_MAX];
	_cleanup_(freep) char *path = NULL;
	struct timespec t[2] = { 0 };

	digest_hex(&id->digest, hex);
	path = xasprintf("%s/%s/blobs/%.2s/%s", root, name, hex, hex);
	t[0].tv_sec = t[1].tv_sec =
		clock_system()->wall_ns(clock_system()) / NS_PER_S - hours * 3600;
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void test_least_recently_used_goes(void **state)
{
	struct store *s = bounded("a", 0), *other;
	struct content_id v[10], unsent;
	struct err err = { 0 };
	char byte;
	int fd;

	for (uint32_t i = 0; i < 10; i++)
		v[i] = put_random(s, i + 1, 300000);
	ok(store_sync(s, &err), &err);
	store_free(s);
	other = machine("a", STORE_OFF);
	unsent = put_random(other, 77, 300000); /* the bucket never got it */
	store_free(other);
	for (int i = 0; i < 10; i++)
		age("a", &v[i], 20 - i);
	age("a", &unsent, 99);
	wait_for_tick();

	s = bounded("a", 1800000);                   /* six of eleven may stay, a tenth less */
	ok(content_open(s, &v[0], &fd, &err), &err); /* the oldest is used now */
	assert_int_equal(read(fd, &byte, 1), 1);
	close(fd);
	put_random(s, 5000, 1000);
	ok(store_sync(s, &err), &err);
	assert_true(is_here(s, &v[0]));
	assert_true(is_here(s, &unsent));
	assert_false(is_here(s, &v[1]));
	assert_true(is_here(s, &v[9]));
	for (int i = 0; i < 10; i++) /* all of it can still be had */
		ok(content_verify(s, &v[i], &err), &err);
	store_free(s);
}

/* A run that goes on elsewhere keeps what was used since it began. */
static void test_what_is_in_use_stays(void **state)
{
	struct store *running = bounded("a", 0), *s;
	struct content_id v[10];
	struct err err = { 0 };

	for (uint32_t i = 0; i < 10; i++)
		v[i] = put_random(running, i + 1, 300000);
	ok(store_sync(running, &err), &err);
	s = bounded("a", 600000);
	put_random(s, 5000, 1000);
	ok(store_sync(s, &err), &err);
	store_free(s);
	for (int i = 0; i < 10; i++)
		assert_true(is_here(running, &v[i]));
	store_free(running);
}

/* Many threads, one store. */

struct hand {
	struct store *s;
	uint32_t number;
	struct content_id ids[40];
	pthread_t thread;
	bool failed;
};

static void *work(void *arg)
{
	struct hand *h = arg;
	struct err err = { 0 };

	for (uint32_t i = 0; i < 40 && !h->failed; i++) {
		char text[64];
		int n = snprintf(text, sizeof(text), "%u of %u", i / 2 * 2,
				 h->number % 3); /* some by several threads */
		bool there = false;

		h->failed |= content_put_bytes(h->s, text, (size_t)n, &h->ids[i], &err) < 0;
		h->failed |= store_has(h->s, &h->ids[i / 2], 1, &there, &err) < 0 || !there;
		if (i % 10 == h->number % 10)
			h->failed |= store_sync(h->s, &err) < 0 ||
				     remote_renew(tier_remote(h->s), &err) < 0;
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct store *s = bounded("a", GIB), *b; /* so that each sync looks at what was added */
	struct hand hands[6];
	struct err err = { 0 };

	for (uint32_t i = 0; i < 6; i++) {
		hands[i] = (struct hand){ .s = s, .number = i };
		assert_int_equal(pthread_create(&hands[i].thread, NULL, work, &hands[i]), 0);
	}
	for (size_t i = 0; i < 6; i++) {
		pthread_join(hands[i].thread, NULL);
		assert_false(hands[i].failed);
	}
	ok(store_sync(s, &err), &err);
	assert_int_equal(store_unsent(s, &err), 0);
	store_free(s);
	b = machine("b", STORE_READ_WRITE);
	for (size_t i = 0; i < 6; i++)
		for (size_t k = 0; k < 40; k++)
			ok(content_verify(b, &hands[i].ids[k], &err), &err);
	store_free(b);
}

struct other {
	struct store *s;
	struct content_id news;
	bool went;
};

/* Another thread of ours, which reads what is new, and so lists the packs. */
static void other_reads(void *arg, const char *what, const char *key)
{
	struct other *o = arg;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err err = { 0 };

	if (o->went || !str_eq(what, "get"))
		return;
	o->went = true;
	ok(content_read(o->s, &o->news, 100, &bytes, &err), &err);
}

/* That the news were listed by somebody else meanwhile is no reason not to look again. */
static void test_news_that_another_found(void **state)
{
	struct store *w = machine("a", STORE_READ_WRITE), *s, *to = store_memory_new();
	struct other o = { 0 };
	struct content_id old, news[2];
	struct remote_object v[2] = { { 0 } };
	struct err err = { 0 };

	ok(content_put_bytes(w, "old", 3, &old, &err), &err);
	ok(store_sync(w, &err), &err);
	o.s = s = machine("b", STORE_READ_WRITE);
	v[0] = (struct remote_object){ .space = STORE_BLOB, .name = old.digest, .size = 3 };
	ok(remote_has(tier_remote(s), v, 1, &err), &err);
	assert_true(v[0].there);

	for (int i = 0; i < 2; i++)
		ok(content_put_bytes(w, i ? "new1" : "new0", 4, &news[i], &err), &err);
	ok(store_sync(w, &err), &err);
	ok(store_refresh(s, STORE_ACTION, NULL, 0, &err), &err); /* news are expected */
	o.news = news[1];
	v[1] = (struct remote_object){ .space = STORE_BLOB, .name = news[0].digest, .size = 4 };
	faults((struct bucket_memory_faults){ .before = other_reads, .arg = &o });
	ok(remote_fetch(tier_remote(s), to, v, 2, &err), &err);
	faults((struct bucket_memory_faults){ 0 });
	assert_true(o.went && v[0].there && v[1].there);
	store_free(to);
	store_free(s);
	store_free(w);
}

/* A name that was given while the bucket was away reaches it with the next process, as runs and
 * results do. */
static void test_tags_arrive_later(void **state)
{
	static const char text[] = "a change of a name";
	_cleanup_(str_deinit) struct str got = { 0 };
	struct store *s = machine("a", STORE_READ_WRITE), *other;
	struct remote_sent sent;
	struct err err = { 0 };
	struct digest name;

	digest_bytes(text, sizeof(text), &name);
	faults((struct bucket_memory_faults){ .down = true });
	ok(store_put(s, STORE_TAG, &name, text, sizeof(text), &err), &err);
	ok(store_sync(s, &err), &err);
	assert_int_equal(store_unsent(s, &err), 1);
	store_free(s);
	faults((struct bucket_memory_faults){ 0 });
	s = machine("a", STORE_READ_WRITE);
	ok(tier_send_unsent(s, &names, &sent, &err), &err);
	assert_int_equal(sent.objects, 1);
	store_free(s);
	other = machine("b", STORE_READ_WRITE);
	ok(store_get(other, STORE_TAG, &name, 100, &got, &err), &err);
	assert_int_equal(got.len, sizeof(text));
	store_free(other);
}

/* A record that can't be read today (a bad disk, no descriptors) isn't one that is gone: it waits.
 */
static void test_unread_records_wait(void **state)
{
	_cleanup_(freep) char *path = NULL, *aside = fs_join(root, "aside");
	struct store *s = machine("a", STORE_READ_WRITE), *other;
	char hex[DIGEST_HEX_MAX];
	_cleanup_(str_deinit) struct str got = { 0 };
	struct remote_sent sent;
	struct err err = { 0 };
	struct content_id id;
	struct digest hash;

	faults((struct bucket_memory_faults){ .down = true });
	ok(content_put_bytes(s, "text", 4, &id, &err), &err);
	publish(s, 7, &id);
	memset(hash.b, 7, sizeof(hash.b));
	store_free(s);
	faults((struct bucket_memory_faults){ 0 });
	digest_hex(&hash, hex);
	path = xasprintf("%s/a/%s/%.2s/%s", root, store_space_names[STORE_ACTION], hex, hex);
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(symlink(hex, path), 0);
	s = machine("a", STORE_READ_WRITE);
	assert_int_equal(tier_send_unsent(s, &names, &sent, &err), -1);
	store_free(s);
	assert_int_equal(rename(aside, path), 0);
	s = machine("a", STORE_READ_WRITE);
	ok(tier_send_unsent(s, &names, &sent, &err), &err);
	store_free(s);
	other = machine("b", STORE_READ_WRITE);
	ok(store_get(other, STORE_ACTION, &hash, 1000, &got, &err), &err);
	store_free(other);
}

/* Evicting. */

static char *user_path(const char *local, unsigned long number)
{
	return xasprintf("%s/remote/users/%ld-%lu", local, (long)getpid(), number);
}

/* The number in the name of the only user. */
static unsigned long only_user(const char *local)
{
	_cleanup_(freep) char *dir = fs_join(local, "remote/users");
	DIR *d = opendir(dir);
	unsigned long number = 0;
	struct dirent *e;

	assert_non_null(d);
	while (fs_next(d, dir, &e, NULL) > 0)
		number = strtoul(strchr(e->d_name, '-') + 1, NULL, 10);
	closedir(d);
	return number;
}

/* An evictor holds each file for a moment, and may have removed it: who comes then takes another
 * name. */
static void test_a_user_beside_an_evictor(void **state)
{
	_cleanup_(freep) char *local = fs_join(root, "a"), *held = NULL, *mine = NULL;
	_cleanup_(fd_closep) int fd = -1;
	struct evict_user *u = NULL;
	struct err err = { 0 };
	unsigned long number;

	ok(evict_user_new(local, &u, &err), &err);
	number = only_user(local);
	evict_user_free(u);
	held = user_path(local, number + 1);
	mine = user_path(local, number + 2);
	assert_int_equal(fs_lock_path(held, false, &fd, NULL), 0);
	ok(evict_user_new(local, &u, &err), &err);
	assert_int_equal(access(mine, F_OK), 0);
	evict_user_free(u);
}

static int refuse_del(struct store *s, enum store_space space, const struct digest *name,
		      struct err *err)
{
	return err_set(err, ERR_READ_ONLY, "not here");
}

/* What couldn't be removed isn't counted as evicted. */
static void test_a_directory_that_keeps_all(void **state)
{
	_cleanup_(freep) char *local = fs_join(root, "a");
	struct store *s = machine("a", STORE_READ_WRITE);
	const struct store_ops *own;
	struct store_ops ops;
	struct evicted res;
	struct err err = { 0 };

	put_dir(s, "in", 4);
	ok(store_sync(s, &err), &err);
	store_free(s);
	s = machine("a", STORE_READ_WRITE); /* what is older than it may go */
	own = tier_local(s)->ops;
	ops = *own;
	ops.del = refuse_del;
	tier_local(s)->ops = &ops;
	assert_int_equal(evict(tier_local(s), local, tier_remote(s), 1, &res, &err), -1);
	tier_local(s)->ops = own;
	assert_int_equal(err.code, ERR_READ_ONLY);
	assert_true(res.objects > 0);
	assert_int_equal(res.evicted, 0);
	assert_int_equal(res.evicted_bytes, 0);
	store_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_colleague_gets_it, setup, teardown),
		cmocka_unit_test_setup_teardown(test_nothing_is_sent_twice, setup, teardown),
		cmocka_unit_test_setup_teardown(test_existence_is_cheap, setup, teardown),
		cmocka_unit_test_setup_teardown(test_modes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_failures_are_counted_and_made_good, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_read_only_credentials, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cut_off_anywhere, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damage_is_seen, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_arrives_is_hashed_once, setup, teardown),
		cmocka_unit_test_setup_teardown(test_large_blobs_go_into_their_place, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_a_damaged_version, setup, teardown),
		cmocka_unit_test_setup_teardown(test_push_and_pull_of_runs, setup, teardown),
		cmocka_unit_test_setup_teardown(test_least_recently_used_goes, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_in_use_stays, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_user_beside_an_evictor, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_directory_that_keeps_all, setup, teardown),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
		cmocka_unit_test_setup_teardown(test_news_that_another_found, setup, teardown),
		cmocka_unit_test_setup_teardown(test_tags_arrive_later, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unread_records_wait, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

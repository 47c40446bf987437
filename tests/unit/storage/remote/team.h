/* unit/storage/remote/team.h — a team's machines: each has a directory on disk in front of one
 * bucket, in memory, that can be slow, lossy or damaged.
 *
 * Include it after cmocka.h. What goes wrong here fails the test. machine.h is the same without a
 * disk.
 */
#ifndef CAIRN_TESTS_UNIT_STORAGE_REMOTE_TEAM_H
#define CAIRN_TESTS_UNIT_STORAGE_REMOTE_TEAM_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "storage/action.h"
#include "storage/bucket/memory.h"
#include "storage/internal.h"
#include "storage/remote/tier.h"
#include "unit.h"

#define TEAM_BUCKET "mem-bucket://team/some/prefix"

static char team_root[TEST_DIR_MAX]; /* of all machines */

static inline void ok(int r, const struct err *err)
{
	if (r < 0)
		fail_msg("%s", err->msg);
}

static inline struct store *team_machine(const char *name, enum store_mode mode)
{
	_cleanup_(freep) char *local = fs_join(team_root, name);
	const struct store_options o = { .local = local, .mode = mode };
	struct err err = { 0 };
	struct store *s = NULL;

	ok(store_open_with(TEAM_BUCKET, &o, true, &s, &err), &err);
	return s;
}

/* One whose directory has a bound; 0: none. */
static inline struct store *team_bounded(const char *name, uint64_t max)
{
	_cleanup_(freep) char *local = fs_join(team_root, name);
	const struct store_options o = { .local = local, .cache_max = max };
	struct err err = { 0 };
	struct store *s = NULL;

	ok(store_open_with(TEAM_BUCKET, &o, true, &s, &err), &err);
	return s;
}

static inline int team_setup(void **state)
{
	test_dir(team_root, sizeof(team_root), "team");
	return 0;
}

static inline int team_teardown(void **state)
{
	fs_remove_tree(team_root, NULL);
	bucket_memory_forget("team");
	return 0;
}

static inline void team_faults(struct bucket_memory_faults f)
{
	bucket_memory_faults("team", &f);
}

static inline struct bucket_memory_counts team_counts(void)
{
	struct bucket_memory_counts c;

	bucket_memory_count("team", &c);
	return c;
}

static inline void team_fill(char *p, size_t n, uint32_t seed, bool text)
{
	for (size_t i = 0; i < n; i++) {
		seed = seed * 1664525 + 1013904223;
		p[i] = text ? "abcdefgh \n"[(seed >> 28) % 10] : (char)(seed >> 24);
	}
}

/* A directory of n small files, three large ones (one of them text), an empty one, a link and a
 * deeper directory. */
static inline char *team_make_dir(const char *name, size_t n)
{
	char *dir = fs_join(team_root, name);
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
		team_fill(big, MIB, i + (uint32_t)n, i == 0);
		snprintf(path, sizeof(path), "%s/big%u", dir, i);
		assert_int_equal(fs_write_atomic(path, big, MIB - i, NULL), 0);
	}
	snprintf(path, sizeof(path), "%s/empty", dir);
	assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
	snprintf(path, sizeof(path), "%s/link", dir);
	assert_int_equal(symlink("f0", path), 0);
	return dir;
}

static inline struct content_id team_put_dir(struct store *s, const char *name, size_t n)
{
	_cleanup_(freep) char *dir = team_make_dir(name, n);
	struct err err = { 0 };
	struct content_id id;

	ok(content_put_at(s, AT_FDCWD, dir, NULL, &id, &err), &err);
	return id;
}

static inline void team_same_dir(const char *a, const char *b)
{
	_cleanup_(freep) char *cmd =
		xasprintf("diff -r --no-dereference %s/%s %s/%s", team_root, a, team_root, b);

	assert_int_equal(system(cmd), 0); /* lint: system because diff says it best */
}

/* The result of one task, under the key whose bytes are all `key`. */
static inline void team_publish(struct store *s, uint8_t key, const struct content_id *id)
{
	struct action_output out = { "o", *id };
	struct action_record a = { .outputs = &out,
				   .n_outputs = 1,
				   .run_id = "r",
				   .task = "t",
				   .node = "n",
				   .started_ns = 1,
				   .ended_ns = 2 };
	struct err err = { 0 };

	memset(a.key.b, key, sizeof(a.key.b));
	ok(store_sync(s, &err), &err);
	ok(action_put(s, &a, &err), &err);
	ok(store_sync(s, &err), &err);
}

static inline bool team_finds(struct store *s, uint8_t key, struct content_id *ret)
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

static inline int team_damage_one(void *arg, const struct bucket_object *o)
{
	char key[256];

	snprintf(key, sizeof(key), "some/prefix/%s", o->key);
	if (o->size > *(uint64_t *)arg)
		bucket_memory_damage("team", key, *(uint64_t *)arg);
	return 0;
}

/* Changes the byte at `at` of every object below `prefix` that is so long. */
static inline void team_damage(const char *prefix, uint64_t at)
{
	struct bucket *b;

	assert_int_equal(bucket_open(TEAM_BUCKET, NULL, &b, NULL), 0);
	bucket_list(b, prefix, NULL, 0, team_damage_one, &at, NULL);
	bucket_free(b);
}

/* A manifest of these tests: the content id of one tree, and one key. */
struct team_manifest {
	struct content_id id;
	struct digest key;
};

static inline int team_refs(const void *bytes, size_t n,
			    int (*emit)(void *arg, const struct content_id *id), void *arg,
			    struct err *err)
{
	return emit(arg, &((const struct team_manifest *)bytes)->id);
}

static inline int team_keys(const void *bytes, size_t n,
			    int (*emit)(void *arg, const struct digest *key), void *arg,
			    struct err *err)
{
	return emit(arg, &((const struct team_manifest *)bytes)->key);
}

static const struct closure_names team_names = { .refs = team_refs, .keys = team_keys };

static inline struct digest team_put_manifest(struct store *s, uint8_t key,
					      const struct content_id *id)
{
	struct team_manifest m;
	struct digest hash;

	memset(&m, 0, sizeof(m));
	m.id = *id;
	memset(m.key.b, key, sizeof(m.key.b));
	digest_bytes(&m, sizeof(m), &hash);
	assert_int_equal(store_put(s, STORE_RUN, &hash, &m, sizeof(m), NULL), 0);
	return hash;
}

#endif

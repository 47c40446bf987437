/* Packs of a directory store: what is in the files, what a crash or damage leaves, gc and merges
 * beside others who use the store. */
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/time/clock.h"
#include "storage/action.h"
#include "storage/local/maintain.h"
#include "storage/local/packs.h"
#include "storage/remote/pack.h"
#include "unit/storage/store_fixture.h"

#define HOUR_NS (3600 * NS_PER_S)
#define MANY    100

/* Objects of a test: blobs with a number as their text, and the record of that name. */
struct things {
	struct store_item v[2 * MANY];
	struct str bytes[2 * MANY];
	struct content_id ids[MANY];
	size_t n;
};

static void make_things(struct things *t, unsigned from, size_t n)
{
	*t = (struct things){ .n = 2 * n };
	for (size_t i = 0; i < n; i++) {
		struct action_record rec = { .run_id = "r", .task = "t", .node = "n" };

		str_addf(&t->bytes[2 * i], "%u", from + (unsigned)i);
		content_id_of_bytes(t->bytes[2 * i].s, t->bytes[2 * i].len, &t->ids[i]);
		rec.key = rec.key_record.digest = t->ids[i].digest;
		rec.key_record = t->ids[i];
		action_encode(&rec, &t->bytes[2 * i + 1]);
		for (size_t k = 2 * i; k < 2 * i + 2; k++)
			t->v[k] = (struct store_item){ k % 2 ? STORE_ACTION : STORE_BLOB,
						       t->ids[i].digest, t->bytes[k].s,
						       t->bytes[k].len };
	}
}

static void free_things(struct things *t)
{
	for (size_t i = 0; i < t->n; i++)
		str_deinit(&t->bytes[i]);
}

static void put_things(struct store *s, const struct things *t)
{
	struct err err = { 0 };

	if (store_put_many(s, t->v, t->n, &err) < 0)
		fail_msg("%s", err.msg);
}

/* How many of them the store has, with the right bytes. */
static size_t count(struct store *s, const struct things *t)
{
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		_cleanup_(str_deinit) struct str got = { 0 };
		bool there;

		assert_int_equal(
			store_has_object(s, t->v[i].space, &t->v[i].name, t->v[i].n, &there, NULL),
			0);
		if (store_get(s, t->v[i].space, &t->v[i].name, MIB, &got, NULL) < 0) {
			assert_false(there);
			continue;
		}
		assert_true(there);
		assert_int_equal(got.len, t->v[i].n);
		assert_memory_equal(got.s, t->v[i].bytes, got.len);
		n++;
	}
	return n;
}

/* Counts entries of packs/ with this suffix; the last one's name goes to `ret`. */
static size_t files(const struct fixture *f, const char *suffix, char ret[280])
{
	_cleanup_(freep) char *path = xasprintf("%s/store/packs", f->dir);
	DIR *d = opendir(path);
	struct dirent *e;
	size_t n = 0;

	while (d && fs_next(d, path, &e, NULL) > 0)
		if (str_has_suffix(e->d_name, suffix)) {
			n++;
			if (ret)
				snprintf(ret, 280, "store/packs/%s", e->d_name);
		}
	if (d)
		closedir(d);
	return n;
}

static void age_packs(const struct fixture *f, int64_t by_ns)
{
	_cleanup_(freep) char *path = xasprintf("%s/store/packs", f->dir);
	DIR *d = opendir(path);
	struct dirent *e;

	assert_non_null(d);
	while (fs_next(d, path, &e, NULL) > 0) {
		struct timespec t[2];
		struct stat st;

		assert_int_equal(fstatat(dirfd(d), e->d_name, &st, 0), 0);
		t[0] = t[1] = (struct timespec){ st.st_mtim.tv_sec - by_ns / NS_PER_S, 0 };
		assert_int_equal(utimensat(dirfd(d), e->d_name, t, 0), 0);
	}
	closedir(d);
}

static struct store *open_again(const struct fixture *f)
{
	_cleanup_(freep) char *path = fs_join(f->dir, "store");
	struct store *s;

	assert_int_equal(store_open(path, false, &s, NULL), 0);
	return s;
}

static void a_pack_is_two_files_and_the_store_has_version_2(void **state)
{
	struct fixture *f = *state;
	_cleanup_(str_deinit) struct str version = { 0 }, index = { 0 }, pack = { 0 };
	struct pack_member m;
	struct digest name;
	struct things t;
	char path[280];

	make_things(&t, 0, MANY);
	assert_int_equal(store_put_many(f->s, t.v, PACKS_WORTH - 1, NULL), 0);
	assert_int_equal(files(f, "", NULL), 0); /* few objects are files of their own */
	put_things(f->s, &t);
	assert_int_equal(files(f, "", path), 2);
	assert_int_equal(files(f, ".idx", path), 1);
	assert_int_equal(fs_read_file_at(f->fd, "store/version", 64, &version, NULL), 0);
	assert_string_equal(version.s, "cairn store 2\n");
	assert_int_equal(fs_read_file_at(f->fd, path, MIB, &index, NULL), 0);
	path[strlen(path) - 4] = '\0';
	assert_int_equal(fs_read_file_at(f->fd, path, MIB, &pack, NULL), 0);
	assert_int_equal(digest_parse(strrchr(path, '/') + 1, &name, NULL), 0);
	assert_int_equal(pack_index_check(&name, index.s, index.len, STORE_ACTION, NULL), 0);
	/* What the bucket's readers must refuse. */
	assert_int_equal(pack_index_check(&name, index.s, index.len, STORE_TREE, NULL), -1);
	assert_int_equal(pack_index_pack_size(index.s), pack.len);
	assert_memory_equal(pack.s, "cairn-pack/1\n", 13);
	assert_true(pack_index_find(index.s, STORE_BLOB, &t.ids[MANY - 1].digest, &m));
	assert_int_equal(m.encoding, PACK_PLAIN);
	assert_memory_equal(pack.s + m.offset, "99", 2);
	assert_false(pack_index_find(index.s, STORE_TREE, &t.ids[0].digest, &m));
	assert_int_equal(count(f->s, &t), t.n);
	free_things(&t);
}

static void others_find_it_at_once(void **state)
{
	struct fixture *f = *state;
	struct store *other = open_again(f);
	struct things t, u;

	make_things(&t, 0, MANY);
	make_things(&u, 1000, MANY);
	assert_int_equal(count(other, &t), 0);
	put_things(f->s, &t);
	assert_int_equal(count(other, &t), t.n);
	put_things(f->s, &u);
	assert_int_equal(count(other, &u), u.n);
	store_free(other);
	free_things(&t);
	free_things(&u);
}

/* The content of a pack by the other functions: content and its file, a tree, the first record. */
static void members_are_content_like_others(void **state)
{
	struct fixture *f = *state;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str out = { 0 };
	struct action_record rec;
	struct content_id id;
	struct things t;
	bool there;

	make_things(&t, 0, MANY);
	put_things(f->s, &t);
	assert_int_equal(
		content_materialise_at(f->s, &t.ids[42], CONTENT_HARD_LINK, f->fd, "out", NULL), 0);
	assert_int_equal(fs_read_file_at(f->fd, "out", 64, &out, NULL), 0);
	assert_string_equal(out.s, "42");
	assert_int_equal(content_find(f->s, &t.ids[7].digest, &id, NULL), 0);
	assert_true(content_id_eq(&id, &t.ids[7]));
	assert_int_equal(content_complete(f->s, &t.ids[7], 1, &there, NULL), 0);
	assert_true(there);
	assert_int_equal(action_get(f->s, &t.ids[7].digest, arena, &rec, NULL), 0);
	/* The first record of a key stays, and another one replaces it only on request. */
	rec.task = "other";
	assert_int_equal(action_put(f->s, &rec, NULL), 1);
	assert_int_equal(action_get(f->s, &t.ids[7].digest, arena, &rec, NULL), 0);
	assert_string_equal(rec.task, "t");
	rec.task = "other";
	assert_int_equal(action_replace(f->s, &rec, NULL), 0);
	assert_int_equal(action_get(f->s, &t.ids[7].digest, arena, &rec, NULL), 0);
	assert_string_equal(rec.task, "other");
	assert_int_equal(store_delete(f->s, STORE_ACTION, &rec.key, NULL), 0);
	assert_int_equal(action_get(f->s, &t.ids[7].digest, arena, &rec, NULL), -1);
	assert_int_equal(count(f->s, &t), t.n - 1);
	free_things(&t);
}

/* What a crash, a power cut or a disk can leave. None of it is believed, and all can be put again.
 */
static void damaged_packs_are_absent(void **state)
{
	struct fixture *f = *state;
	struct things t;
	char idx[280], pack[280];
	static const char *const how[] = { "no index", "half an index", "zeros", "half a pack" };

	make_things(&t, 0, MANY);
	for (size_t i = 0; i < ARRAY_LEN(how); i++) {
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct store *s = open_again(f);
		struct stat st;
		int fd;

		put_things(s, &t);
		store_free(s);
		assert_int_equal(files(f, ".idx", idx), 1);
		snprintf(pack, sizeof(pack), "%.*s", (int)strlen(idx) - 4, idx);
		assert_int_equal(fstatat(f->fd, i == 3 ? pack : idx, &st, 0), 0);
		assert_int_equal(fchmodat(f->fd, i == 3 ? pack : idx, 0644, 0), 0);
		fd = openat(f->fd, i == 3 ? pack : idx, O_RDWR);
		assert_true(fd >= 0);
		if (i == 0)
			assert_int_equal(unlinkat(f->fd, idx, 0), 0);
		else if (i == 2)
			assert_true(ftruncate(fd, 0) == 0 && ftruncate(fd, st.st_size) == 0);
		else
			assert_int_equal(ftruncate(fd, st.st_size / 2), 0);
		close(fd);
		s = open_again(f);
		assert_int_equal(count(s, &t), 0);
		put_things(s, &t);
		assert_int_equal(count(s, &t), t.n);
		store_free(s);
		assert_int_equal(fs_remove_tree_at(f->fd, "store/packs", NULL), 0);
	}
	free_things(&t);
}

static void a_damaged_member_goes_alone(void **state)
{
	struct fixture *f = *state;
	_cleanup_(str_deinit) struct str got = { 0 }, pack = { 0 };
	struct err err = { 0 };
	struct things t;
	char path[280];
	char *at;
	int fd;

	make_things(&t, 100, MANY);
	put_things(f->s, &t);
	assert_int_equal(files(f, ".idx", path), 1);
	path[strlen(path) - 4] = '\0';
	assert_int_equal(fs_read_file_at(f->fd, path, MIB, &pack, NULL), 0);
	at = memmem(pack.s, pack.len, "177", 3);
	assert_non_null(at);
	assert_int_equal(fchmodat(f->fd, path, 0644, 0), 0);
	fd = openat(f->fd, path, O_RDWR);
	assert_int_equal(pwrite(fd, "X", 1, at - pack.s), 1);
	close(fd);
	assert_int_equal(store_get(f->s, STORE_BLOB, &t.ids[77].digest, MIB, &got, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_int_equal(count(f->s, &t), t.n - 1);
	assert_int_equal(store_put(f->s, STORE_BLOB, &t.ids[77].digest, "177", 3, NULL), 0);
	assert_int_equal(count(f->s, &t), t.n);
	free_things(&t);
}

static void a_put_that_fails_leaves_nothing(void **state)
{
	struct fixture *f = *state;
	struct err err = { 0 };
	struct things t;

	make_things(&t, 0, MANY);
	close(openat(f->fd, "store/packs", O_CREAT | O_WRONLY, 0644));
	assert_int_equal(store_put_many(f->s, t.v, t.n, &err), -1);
	assert_true(err.code != ERR_NONE);
	assert_int_equal(count(f->s, &t), 0);
	assert_int_equal(unlinkat(f->fd, "store/packs", 0), 0);
	put_things(f->s, &t);
	assert_int_equal(count(f->s, &t), t.n);
	free_things(&t);
}

static struct store_gc_result collect(struct store *s, const struct things *live, size_t n,
				      int64_t now_ns)
{
	struct store_gc_options o = {
		.now_ns = now_ns, .grace_ns = HOUR_NS, .contents = live->ids, .n_contents = n
	};
	struct store_gc_result r;
	struct err err = { 0 };

	if (store_gc(s, &o, &r, &err) < 0)
		fail_msg("%s", err.msg);
	return r;
}

static void gc_writes_packs_again_without_the_dead(void **state)
{
	struct fixture *f = *state;
	struct store *other = open_again(f);
	int64_t now_ns = clock_wall_ns();
	struct store_gc_result r;
	struct things t, young;

	make_things(&t, 0, MANY);
	make_things(&young, 1000, MANY);
	put_things(f->s, &t);
	assert_int_equal(count(other, &t), t.n);
	age_packs(f, 3 * HOUR_NS);
	store_free(f->s); /* times are read when a pack is opened */
	f->s = open_again(f);
	put_things(f->s, &young);
	r = collect(f->s, &t, 10, now_ns);
	assert_true(r.first_mark);
	assert_int_equal(count(f->s, &t), t.n);
	r = collect(f->s, &t, 10, now_ns);
	/* 90 blobs, and 100 records that nothing names. */
	assert_int_equal(r.deleted, t.n - 10);
	assert_int_equal(count(f->s, &t), 10);
	assert_int_equal(count(other, &t), 10);
	assert_int_equal(count(other, &young), young.n);
	assert_int_equal(files(f, ".idx", NULL), 2);
	r = collect(f->s, &t, 0, now_ns);
	r = collect(f->s, &t, 0, now_ns);
	assert_int_equal(r.deleted, 10);
	assert_int_equal(count(other, &t), 0);
	assert_int_equal(files(f, "", NULL), 2); /* an empty pack is no file */
	store_free(other);
	free_things(&t);
	free_things(&young);
}

/* As if a run that begins now began long after the last collection. */
static void age_list(struct fixture *f)
{
	_cleanup_(freep) char *path = xasprintf("%s/store/condemned", f->dir);
	const struct timespec before = { clock_wall_ns() / NS_PER_S - 10, 0 };

	assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){ before, before }, 0), 0);
}

/* A run that uses an old member keeps it, whatever gc does. */
static void what_a_run_uses_stays(void **state)
{
	struct fixture *f = *state;
	_cleanup_(str_deinit) struct str got = { 0 };
	int64_t now_ns = clock_wall_ns();
	struct store *run;
	struct things t;
	bool there;

	make_things(&t, 0, MANY);
	put_things(f->s, &t);
	age_packs(f, 3 * HOUR_NS);
	store_free(f->s);
	f->s = open_again(f);
	run = open_again(f);
	collect(f->s, &t, 0, now_ns);
	age_list(f);
	assert_int_equal(store_use(run, NULL), 0);
	assert_int_equal(store_has(run, &t.ids[3], 1, &there, NULL), 0);
	assert_int_equal(store_get(run, STORE_ACTION, &t.ids[4].digest, MIB, &got, NULL), 0);
	collect(f->s, &t, 0, now_ns);
	assert_int_equal(store_has(run, &t.ids[3], 1, &there, NULL), 0);
	assert_true(there);
	/* The record is young again, and keeps what it names. */
	assert_int_equal(store_has(run, &t.ids[4], 1, &there, NULL), 0);
	assert_true(there);
	assert_int_equal(count(f->s, &t), 3);
	store_free(run);
	free_things(&t);
}

static void many_small_packs_become_one(void **state)
{
	struct fixture *f = *state;
	struct store *other = open_again(f);
	static struct things t[PACKS_MERGE_AT + 4];
	size_t n = ARRAY_LEN(t);

	for (size_t i = 0; i < n; i++) {
		make_things(&t[i], (unsigned)i * 1000, PACKS_WORTH / 2);
		if (i == n - 6) { /* the rest is young and stays as it is */
			age_packs(f, 3 * HOUR_NS);
			store_free(f->s);
			f->s = open_again(f);
		}
		put_things(f->s, &t[i]);
		assert_int_equal(count(other, &t[i]), t[i].n);
	}
	assert_in_range(files(f, ".idx", NULL), 2, 10);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(count(f->s, &t[i]), t[i].n);
		assert_int_equal(count(other, &t[i]), t[i].n);
		free_things(&t[i]);
	}
	store_free(other);
}

static void leftovers_of_crashes_go(void **state)
{
	struct fixture *f = *state;
	struct store_leftovers left;
	struct things t;
	char path[280];
	int64_t later_ns;

	make_things(&t, 0, MANY);
	put_things(f->s, &t);
	assert_int_equal(files(f, ".idx", path), 1);
	assert_int_equal(unlinkat(f->fd, path, 0), 0);
	close(openat(f->fd, "store/packs/.tmp-x", O_CREAT | O_WRONLY, 0444));
	put_things(f->s, &t);
	later_ns = clock_wall_ns() + HOUR_NS;
	assert_int_equal(f->s->ops->gc->leftovers(f->s, LEFTOVER_TEMPORARY, later_ns - 2 * HOUR_NS,
						  false, &left, NULL),
			 0);
	assert_int_equal(left.n, 0); /* its index may be on the way */
	assert_int_equal(
		f->s->ops->gc->leftovers(f->s, LEFTOVER_TEMPORARY, later_ns, false, &left, NULL),
		0);
	assert_int_equal(left.n, 2);
	assert_int_equal(files(f, "", NULL), 2);
	assert_int_equal(count(f->s, &t), t.n);
	free_things(&t);
}

/* A project that gets a bucket keeps its directory, in front of it. */
static void a_directory_with_packs_may_get_a_bucket(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *path = fs_join(f->dir, "store");
	const struct store_options o = { .local = path };
	struct things t, u;
	struct store *tier;
	struct err err = { 0 };

	make_things(&t, 0, MANY);
	make_things(&u, 1000, MANY);
	put_things(f->s, &t);
	if (store_open_with("mem-bucket://packs", &o, true, &tier, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(count(tier, &t), t.n);
	put_things(tier, &u);
	assert_int_equal(files(f, ".idx", NULL), 1); /* a tier makes none */
	assert_int_equal(count(tier, &u), u.n);
	assert_int_equal(store_delete(tier, STORE_BLOB, &t.ids[0].digest, NULL), 0);
	assert_int_equal(count(f->s, &t), t.n - 1);
	store_free(tier);
	free_things(&t);
	free_things(&u);
}

/* Writers, a reader and a collector at once, each with a store of its own. */
struct busy {
	const struct fixture *f;
	unsigned from;
	struct things *t;
	size_t n;
};

static void *put_busily(void *arg)
{
	struct busy *b = arg;
	struct store *s = open_again(b->f);

	for (size_t i = 0; i < b->n; i++) {
		make_things(&b->t[i], b->from + (unsigned)i * 1000, MANY);
		put_things(s, &b->t[i]);
		assert_int_equal(count(s, &b->t[i]), b->t[i].n);
	}
	store_free(s);
	return NULL;
}

static void writers_and_collectors_at_once(void **state)
{
	struct fixture *f = *state;
	static struct things t[2][40], old;
	struct busy b[2] = { { f, 1000000, t[0], 40 }, { f, 2000000, t[1], 40 } };
	int64_t now_ns = clock_wall_ns();
	pthread_t threads[2];

	make_things(&old, 0, MANY);
	put_things(f->s, &old);
	age_packs(f, 3 * HOUR_NS);
	store_free(f->s);
	f->s = open_again(f);
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, put_busily, &b[i]), 0);
	for (size_t left = MANY; left > 0; left -= 10) {
		collect(f->s, &old, left, now_ns);
		collect(f->s, &old, left, now_ns);
		assert_int_equal(count(f->s, &old), left);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 2; i++)
		for (size_t k = 0; k < 40; k++) {
			assert_int_equal(count(f->s, &t[i][k]), t[i][k].n);
			free_things(&t[i][k]);
		}
	free_things(&old);
}

#define T(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(a_pack_is_two_files_and_the_store_has_version_2),
		T(others_find_it_at_once),
		T(members_are_content_like_others),
		T(damaged_packs_are_absent),
		T(a_damaged_member_goes_alone),
		T(a_put_that_fails_leaves_nothing),
		T(gc_writes_packs_again_without_the_dead),
		T(what_a_run_uses_stays),
		T(many_small_packs_become_one),
		T(leftovers_of_crashes_go),
		T(a_directory_with_packs_may_get_a_bucket),
		T(writers_and_collectors_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

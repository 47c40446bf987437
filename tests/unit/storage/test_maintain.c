/* Verify and gc: what is kept, what is condemned, what goes, on a directory and in memory; time is
 * given, not waited for. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "storage/action.h"
#include "storage/internal.h"
#include "storage/local/maintain.h"
#include "unit.h"

#define HOUR (3600 * NS_PER_S)

struct fixture {
	char dir[TEST_DIR_MAX];
	char *path;
	struct store *s;
	int64_t now_ns; /* a year from now: what is made in a test is old, unless it says otherwise
			 */
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	test_dir(f->dir, sizeof(f->dir), "maintain");
	f->path = xasprintf("%s/store", f->dir);
	f->now_ns = clock_system()->wall_ns(clock_system()) + 365 * 24 * HOUR;
	assert_int_equal(store_open(f->path, true, &f->s, NULL), 0);
	*state = f;
	return 0;
}

static int setup_memory(void **state)
{
	struct fixture *f;

	setup((void **)&f);
	store_free(f->s);
	assert_int_equal(store_open("memory:", true, &f->s, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_free(f->s);
	fs_remove_tree(f->dir, NULL);
	free(f->path);
	free(f);
	return 0;
}

static char *object_path(const struct fixture *f, const char *space, const struct digest *d)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(d, hex);
	return xasprintf("%s/%s/%.2s/%s", f->path, space, hex, hex);
}

static void set_mtime(const struct fixture *f, const char *space, const struct digest *d,
		      int64_t ns)
{
	_cleanup_(freep) char *path = object_path(f, space, d);
	const struct timespec t[2] = { { ns / NS_PER_S, ns % NS_PER_S },
				       { ns / NS_PER_S, ns % NS_PER_S } };

	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static struct content_id blob(struct fixture *f, const char *text)
{
	struct content_id id;

	assert_true(content_put_bytes(f->s, text, strlen(text), &id, NULL) >= 0);
	return id;
}

static struct content_id tree_of(struct fixture *f, const struct content_id *member)
{
	struct tree_builder *b = tree_builder_new();
	struct content_id id;
	struct tree_entry e = { .name = "m",
				.name_len = 1,
				.kind = member->kind == CONTENT_TREE ? TREE_DIR : TREE_FILE,
				.id = *member };

	assert_int_equal(tree_builder_add(b, &e, NULL), 0);
	assert_int_equal(tree_builder_store(b, f->s, &id, NULL), 0);
	tree_builder_free(b);
	return id;
}

static bool has(struct fixture *f, struct content_id id)
{
	bool present = false;

	assert_int_equal(store_has(f->s, &id, 1, &present, NULL), 0);
	return present;
}

static bool has_object(struct fixture *f, enum store_space space, const struct digest *d)
{
	struct str bytes = { 0 };
	bool r = store_get(f->s, space, d, MIB, &bytes, NULL) == 0;

	str_deinit(&bytes);
	return r;
}

/* A manifest of these tests is a list of content ids, then a key. */
static struct digest manifest(struct fixture *f, const struct content_id *ids, size_t n, char key)
{
	struct str bytes = { 0 };
	struct digest hash, k;

	str_addn(&bytes, ids, n * sizeof(*ids));
	memset(k.b, key, DIGEST_BYTES);
	str_addn(&bytes, k.b, DIGEST_BYTES);
	digest_bytes(bytes.s, bytes.len, &hash);
	assert_true(store_put(f->s, STORE_RUN, &hash, bytes.s, bytes.len, NULL) >= 0);
	str_deinit(&bytes);
	return hash;
}

static int refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		void *arg, struct err *err)
{
	for (size_t at = 0; at + DIGEST_BYTES < n; at += sizeof(struct content_id)) {
		struct content_id id;

		memcpy(&id, (const uint8_t *)bytes + at, sizeof(id));
		emit(arg, &id);
	}
	return 0;
}

static int keys(const void *bytes, size_t n, int (*emit)(void *arg, const struct digest *key),
		void *arg, struct err *err)
{
	struct digest key;

	memcpy(key.b, (const uint8_t *)bytes + n - DIGEST_BYTES, DIGEST_BYTES);
	return emit(arg, &key);
}

/* The first content that it names is a blob that holds one more id: the way of a table of results.
 */
static int walk(struct store *s, const void *bytes, size_t n, const struct closure_sink *sink,
		struct err *err)
{
	struct content_id table, id;
	struct str text = { 0 };

	memcpy(&table, bytes, sizeof(table));
	if (content_read(s, &table, MIB, &text, err) < 0)
		return -1;
	memcpy(&id, text.s, sizeof(id));
	str_deinit(&text);
	sink->content(sink->arg, &id);
	return 0;
}

static int refuses(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		   void *arg, struct err *err)
{
	return err_set(err, ERR_NEWER, "written by a newer cairn");
}

static const struct closure_names names = { .refs = refs, .keys = keys };

static struct store_gc_options options(const struct fixture *f)
{
	return (struct store_gc_options){
		.now_ns = f->now_ns, .grace_ns = HOUR, .mark_gap_ns = HOUR, .names = &names
	};
}

/* Both marks, an hour apart. */
static struct store_gc_result collect(struct fixture *f, struct store_gc_options o)
{
	struct store_gc_result r;

	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_int_equal(r.deleted, 0);
	o.now_ns += HOUR;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	return r;
}

static struct action_record action(char key, struct action_output *outputs, size_t n)
{
	struct action_record r = {
		.outputs = outputs, .n_outputs = n, .run_id = "r", .task = "t", .node = "n"
	};

	memset(r.key.b, key, DIGEST_BYTES);
	return r;
}

/* What is kept. */

static void test_reach(void **state)
{
	struct fixture *f = *state;
	struct content_id leaf = blob(f, "leaf"), inner = tree_of(f, &leaf),
			  outer = tree_of(f, &inner), program = blob(f, "program"),
			  in_use = blob(f, "in use"), dead = blob(f, "dead"),
			  dead_tree = tree_of(f, &dead);
	struct content_id named[] = { outer,
				      { .digest = program.digest,
					.size_bytes = program.size_bytes,
					.kind = CONTENT_EXECUTABLE } };
	struct digest run = manifest(f, named, 2, 'k'), old_run = manifest(f, &dead_tree, 1, 'x');
	struct store_gc_options o = options(f);
	struct store_gc_result r;

	o.manifests = &run;
	o.n_manifests = 1;
	o.contents = &in_use;
	o.n_contents = 1;
	r = collect(f, o);
	assert_true(has(f, leaf) && has(f, inner) && has(f, outer) && has(f, named[1]) &&
		    has(f, in_use) && has_object(f, STORE_RUN, &run));
	assert_false(has(f, dead) || has(f, dead_tree) || has_object(f, STORE_RUN, &old_run));
	assert_int_equal(r.live, 6);
	assert_int_equal(r.deleted, 3);
	assert_int_equal(r.lost, 0);
	assert_false(r.first_mark);
}

static bool keeps_b(void *arg, const struct digest *key)
{
	return key->b[0] == 'b' && arg;
}

static void test_actions(void **state)
{
	struct fixture *f = *state;
	struct action_output oa = { "o", blob(f, "out a") }, ob = { "o", blob(f, "out b") },
			     oc = { "o", blob(f, "out c") }, od = { "o", blob(f, "out d") },
			     other = { "o", blob(f, "seen once too") };
	struct action_record a = action('a', &oa, 1), b = action('b', &ob, 1),
			     c = action('c', &oc, 1), d = action('d', &od, 1),
			     none = action('n', NULL, 0), a2 = action('a', &other, 1);
	struct digest run = manifest(f, &od.id, 1, 'a');
	struct store_gc_options o = options(f);

	a.log = blob(f, "log of a");
	d.key_record = blob(f, "key of d");
	od.id.kind =
		CONTENT_EXECUTABLE; /* what the manifest calls a blob: the bytes are the same */
	assert_int_equal(action_put(f->s, &a, NULL), 0);
	assert_int_equal(action_put(f->s, &a2, NULL),
			 2); /* an observation goes and stays with its key */
	assert_int_equal(action_put(f->s, &b, NULL), 0);
	assert_int_equal(action_put(f->s, &c, NULL), 0);
	assert_int_equal(action_put(f->s, &d, NULL), 0);
	assert_int_equal(action_put(f->s, &none, NULL), 0);
	o.manifests = &run;
	o.n_manifests = 1;
	o.keep_action = keeps_b;
	o.arg = f;
	assert_int_equal(collect(f, o).deleted, 3);
	assert_true(has_object(f, STORE_ACTION, &a.key) && has(f, oa.id) && has(f, a.log) &&
		    has(f, other.id)); /* the manifest names its key */
	assert_true(has_object(f, STORE_ACTION, &b.key) && has(f, ob.id)); /* the caller wants it */
	assert_true(has_object(f, STORE_ACTION, &d.key) &&
		    has(f, d.key_record)); /* what it gave is kept anyway */
	assert_false(has_object(f, STORE_ACTION, &c.key) || has(f, oc.id) ||
		     has_object(f, STORE_ACTION, &none.key));
	o.manifests = NULL;
	o.n_manifests = 0;
	o.keep_action = NULL;
	assert_true(collect(f, o).deleted >= 9);
	assert_false(has_object(f, STORE_ACTION, &a.key) || has(f, oa.id) || has(f, other.id) ||
		     has_object(f, STORE_ACTION, &b.key));
}

static void test_walk(void **state)
{
	struct fixture *f = *state;
	const struct closure_names walked = { .refs = refs, .keys = keys, .walk = walk };
	struct content_id out = blob(f, "named by a table"), table;
	struct store_gc_options o = options(f);
	struct digest run;

	assert_int_equal(content_put_bytes(f->s, &out, sizeof(out), &table, NULL), 0);
	run = manifest(f, &table, 1, 'k');
	o.manifests = &run;
	o.n_manifests = 1;
	o.names = &walked;
	assert_int_equal(collect(f, o).deleted, 0);
	assert_true(has(f, out));
	o.names = &names; /* the test can fail: nobody reaches what the table names */
	assert_int_equal(collect(f, o).deleted, 1);
	assert_false(has(f, out));
}

/* A record or manifest that was just written isn't known to the caller yet, but to somebody. */
static void test_young_records_are_roots(void **state)
{
	struct fixture *f = *state;
	struct content_id out = blob(f, "young out"), named = blob(f, "young manifest");
	struct action_output o1 = { "o", out };
	struct action_record a = action('a', &o1, 1);
	struct digest run = manifest(f, &named, 1, 'k');
	struct store_gc_options o = options(f);

	assert_int_equal(action_put(f->s, &a, NULL), 0);
	set_mtime(f, "actions", &a.key, f->now_ns + HOUR);
	set_mtime(f, "runs", &run, f->now_ns + HOUR);
	assert_int_equal(collect(f, o).deleted, 0);
	assert_true(has(f, out) && has(f, named));
	f->now_ns += 5 * HOUR;
	assert_int_equal(collect(f, options(f)).deleted, 4);
}

/* When it goes. */

static void gc_at(struct fixture *f, int64_t now_ns, uint64_t want_deleted, uint64_t want_condemned,
		  uint64_t want_young)
{
	struct store_gc_options o = options(f);
	struct store_gc_result r;

	o.now_ns = now_ns;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_int_equal(r.deleted, want_deleted);
	assert_int_equal(r.condemned, want_condemned);
	assert_int_equal(r.young, want_young);
	assert_int_equal(r.first_mark, want_condemned > 0 && want_deleted == 0);
}

static void set_dates(struct fixture *f, const char *space, struct content_id *ids, size_t n,
		      int64_t ns)
{
	for (size_t i = 0; i < n; i++)
		set_mtime(f, space, &ids[i].digest, ns);
}

/* A run found content that was condemned while it ran, and its owner keeps the run no longer when
 * the next mark comes: what a record names stays as long as the record. */
static void test_a_record_that_stays_holds_what_it_names(void **state)
{
	struct fixture *f = *state;
	int64_t t = f->now_ns;
	struct content_id ids[] = { blob(f, "inner"), blob(f, "out"), blob(f, "other") }, dir;
	struct action_output o = { "o", ids[1] };
	struct action_record a = action('a', &o, 1);
	struct digest run;

	dir = tree_of(f, &ids[0]);
	set_dates(f, "blobs", ids, 3, t - 2 * HOUR);
	set_dates(f, "trees", &dir, 1, t - 2 * HOUR);
	gc_at(f, t, 0, 4, 0);
	run = manifest(f, &dir, 1, 'k');
	assert_int_equal(action_put(f->s, &a, NULL), 0);
	set_mtime(f, "runs", &run, t + 1);
	set_mtime(f, "actions", &a.key, t + 1);
	gc_at(f, t + HOUR * 3 / 2, 1, 6, 0); /* the other blob */
	assert_true(has(f, dir) && has(f, ids[0]) && has(f, ids[1]) && !has(f, ids[2]));
	gc_at(f, t + HOUR * 2, 0, 5, 0);
	assert_true(has(f, dir) && has(f, ids[0]) && has(f, ids[1]));
	gc_at(f, t + HOUR * 5 / 2, 5, 5, 0);
	assert_false(has_object(f, STORE_RUN, &run));
}

/* A dead manifest that can't be understood holds nothing, and goes. */
static void test_a_dead_manifest_of_a_newer_version_goes(void **state)
{
	static const struct closure_names newer = { .refs = refuses, .keys = keys };
	struct fixture *f = *state;
	struct content_id a = blob(f, "a");
	struct digest run = manifest(f, &a, 1, 'k');
	struct store_gc_options o = options(f);

	o.names = &newer;
	assert_int_equal(collect(f, o).deleted, 2);
	assert_false(has_object(f, STORE_RUN, &run));
}

/* Each object has its own first mark; one that is touched in between begins anew. */
static void test_two_marks(void **state)
{
	struct fixture *f = *state;
	int64_t t = f->now_ns;
	struct content_id a = blob(f, "a"), b, c = blob(f, "c");

	set_mtime(f, "blobs", &a.digest, t - 2 * HOUR);
	set_mtime(f, "blobs", &c.digest, t - HOUR / 2);
	gc_at(f, t, 0, 1, 1);
	gc_at(f, t + HOUR / 2, 0, 2, 0); /* a waits, c is old enough to be condemned */
	b = blob(f, "b");
	set_mtime(f, "blobs", &b.digest, t - 2 * HOUR);
	gc_at(f, t + HOUR - 1, 0, 3, 0);
	gc_at(f, t + HOUR, 1, 3, 0); /* a goes, by the first mark; c waits for its own */
	assert_false(has(f, a));
	set_mtime(f, "blobs", &c.digest, t + HOUR + 1); /* a put found it */
	gc_at(f, t + HOUR * 3 / 2, 0, 1, 1);
	gc_at(f, t + HOUR * 5 / 2, 1, 2, 0); /* b goes; c is condemned again, from now on */
	assert_true(has(f, c));
	gc_at(f, t + HOUR * 3, 0, 1, 0);
	gc_at(f, t + HOUR * 7 / 2, 1, 1, 0);
	assert_false(has(f, c));
	gc_at(f, t + HOUR * 7 / 2, 0, 0, 0);
}

/* However much is dead, the list stays one that is read, and all goes in the end. */
static void test_a_full_list(void **state)
{
	struct fixture *f = *state;
	struct store_gc_options o = options(f);
	struct store_gc_result r;

	for (char c = 'a'; c < 'a' + 5; c++)
		blob(f, (char[]){ c, '\0' });
	o.now_ns += 2 * HOUR;
	for (int over = -1; over <= 1; over++) {
		o.list_max = (size_t)(5 + over);
		o.dry_run = true;
		assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
		assert_int_equal(r.condemned, 5);
		assert_int_equal(r.unlisted, over < 0);
	}
	o.dry_run = false;
	o.list_max = 2;
	for (uint64_t left = 5;; left -= r.deleted, o.now_ns += HOUR) {
		assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
		assert_int_equal(r.condemned, left);
		if (left == 0)
			break;
		assert_true(r.deleted == MIN(left, 2U) || r.first_mark);
		assert_int_equal(r.unlisted, left - r.deleted > 2 ? left - r.deleted - 2 : 0);
	}
}

/* A list that is longer than what is read counts as none. */
static void test_a_list_that_is_too_long(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *path = fs_join(f->path, "condemned");
	struct store_gc_options o = options(f);
	struct content_id dead = blob(f, "dead");

	o.now_ns += 2 * HOUR;
	assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
	assert_int_equal(truncate(path, (off_t)CONDEMNED_MAX + 1), 0);
	for (int i = 0; i < 2; i++, o.now_ns += HOUR) {
		struct store_gc_result r;
		struct err err = { 0 };

		if (store_gc(f->s, &o, &r, &err) < 0)
			fail_msg("%s", err.msg);
		assert_true(i ? r.deleted == 1 : r.first_mark);
	}
	assert_false(has(f, dead));
}

static void test_dry_run(void **state)
{
	struct fixture *f = *state;
	struct content_id dead = blob(f, "12345");
	struct store_gc_options o = options(f);
	struct store_gc_result r;

	o.dry_run = true;
	for (int i = 0; i < 3; i++, o.now_ns += 2 * HOUR) { /* a dry mark is no mark */
		assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
		assert_true(r.first_mark && r.condemned == 1 && r.condemned_bytes == 5 &&
			    r.deleted == 0);
		assert_int_equal(r.sweep_after_ns, o.now_ns + HOUR);
	}
	o.dry_run = false;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_true(r.first_mark);
	o.now_ns += HOUR;
	o.dry_run = true;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
		assert_true(!r.first_mark && r.deleted == 1 && r.deleted_bytes == 5);
		assert_true(has(f, dead));
	}
	o.dry_run = false;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_true(r.deleted == 1 && r.deleted_bytes == 5);
	assert_false(has(f, dead));
}

static int64_t mtime_of(const struct fixture *f, const struct content_id *id)
{
	_cleanup_(freep) char *path = object_path(f, "blobs", &id->digest);
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return ns_of(st.st_mtim);
}

static struct store *run_begins(const struct fixture *f)
{
	struct store *run;

	assert_int_equal(store_open(f->path, false, &run, NULL), 0);
	assert_int_equal(store_use(run, NULL), 0);
	return run;
}

static bool finds(struct store *run, struct content_id id)
{
	bool present = false;

	assert_int_equal(store_has(run, &id, 1, &present, NULL), 0);
	return present;
}

/* A run renews only what was condemned when it began. What is condemned later waits for its end. */
static void test_runs_and_the_list(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *path = xasprintf("%s/condemned", f->path);
	const int64_t now_ns = clock_wall_ns(), old_ns = now_ns - 3 * HOUR;
	const struct timespec before = { (now_ns - 10 * NS_PER_S) / NS_PER_S, 0 };
	struct content_id used = blob(f, "used"), dead = blob(f, "dead"), later;
	struct store *run;

	set_mtime(f, "blobs", &used.digest, old_ns);
	set_mtime(f, "blobs", &dead.digest, old_ns);
	gc_at(f, now_ns, 0, 2, 0);
	/* The list is there before the run, which clocks of files tell only after a tick. */
	assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){ before, before }, 0), 0);
	later = blob(f, "later");
	set_mtime(f, "blobs", &later.digest, old_ns);
	run = run_begins(f);
	assert_true(finds(run, used) && finds(run, later));
	assert_true(mtime_of(f, &used) >= now_ns - NS_PER_S);
	assert_int_equal(mtime_of(f, &later), old_ns);
	gc_at(f, now_ns + HOUR, 1, 2, 1);
	assert_false(has(f, dead));
	gc_at(f, now_ns + 2 * HOUR + 1, 0, 1, 1);
	gc_at(f, now_ns + 3 * HOUR, 0, 1, 1);
	assert_true(finds(run, later) && finds(run, used));
	assert_int_equal(mtime_of(f, &later), old_ns);
	store_free(run);
	gc_at(f, now_ns + 3 * HOUR, 1, 2, 0);
	assert_false(has(f, later));
}

/* Without a list that it can read, a run renews all that it finds; a collector that died before it
 * dated its list doesn't know which runs read it. */
static void test_doubtful_lists(void **state)
{
	static const char older[] = "cairn-condemned/1\n";
	struct fixture *f = *state;
	_cleanup_(freep) char *path = xasprintf("%s/condemned", f->path);
	const int64_t now_ns = clock_wall_ns(), old_ns = now_ns - 3 * HOUR;
	const struct timespec future = { now_ns / NS_PER_S + 24 * 3600, 0 };
	struct content_id a = blob(f, "a");
	struct store *run;

	set_mtime(f, "blobs", &a.digest, old_ns);
	run = run_begins(f);
	assert_true(finds(run, a));
	assert_int_equal(mtime_of(f, &a), old_ns);
	store_free(run);
	assert_int_equal(fs_write_atomic(path, older, sizeof(older) - 1, NULL), 0);
	run = run_begins(f);
	assert_true(finds(run, a));
	assert_true(mtime_of(f, &a) >= now_ns - NS_PER_S);
	set_mtime(f, "blobs", &a.digest, old_ns);
	gc_at(f, now_ns, 0, 1, 0);
	store_free(run);
	run = run_begins(f);
	assert_int_equal(utimensat(AT_FDCWD, path, (struct timespec[2]){ future, future }, 0), 0);
	gc_at(f, now_ns + HOUR, 0, 1, 0);
	assert_true(has(f, a));
	store_free(run);
	gc_at(f, now_ns + HOUR, 1, 1, 0);
}

/* A clock that was wrong for a while must not keep things for ever; a damaged list is none. */
static void test_condemned_list(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *path = xasprintf("%s/condemned", f->path);
	struct content_id dead = blob(f, "dead");
	struct store_gc_options o = options(f);
	struct store_gc_result r;

	o.now_ns += 1000 * HOUR;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_int_equal(access(path, F_OK), 0);
	o.now_ns -= 1000 * HOUR;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_int_equal(r.deleted, 0);
	o.now_ns += HOUR;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_int_equal(r.deleted, 1);
	assert_int_equal(access(path, F_OK), -1); /* nothing is condemned, nothing is written */
	dead = blob(f, "dead");
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_int_equal(truncate(path, 18 + 41 - 1), 0);
	o.now_ns += HOUR;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_true(r.first_mark && has(f, dead));
}

static void test_one_collector(void **state)
{
	struct fixture *f = *state;
	struct store_gc_options o = options(f);
	struct store_gc_result r;
	struct err err = { 0 };
	int lock = -1;

	assert_int_equal(f->s->ops->gc->lock(f->s, &lock, NULL), 0);
	assert_int_equal(store_gc(f->s, &o, &r, &err), -1);
	assert_int_equal(err.code, ERR_BUSY);
	o.dry_run = true; /* looking is free */
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	close(lock);
	o.dry_run = false;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
}

static void age(const struct fixture *f, const char *name, int64_t ns)
{
	_cleanup_(freep) char *path = xasprintf("%s/%s", f->path, name);
	const struct timespec t[2] = { { ns / NS_PER_S, 0 }, { ns / NS_PER_S, 0 } };

	assert_int_equal(
		fs_write_atomic_at(AT_FDCWD, path, "12345", 5, 0644, FS_WRITE_NO_SYNC, NULL), 0);
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* What a `store verify` that was killed leaves: a store of its own. */
static void age_scratch(const struct fixture *f, int64_t ns)
{
	_cleanup_(freep) char *path = xasprintf("%s/tmp/verify-1", f->path);
	const struct timespec t[2] = { { ns / NS_PER_S, 0 }, { ns / NS_PER_S, 0 } };
	struct store *s;

	assert_int_equal(store_dir_open(path, true, &s, NULL), 0);
	assert_int_equal(store_put(s, STORE_BLOB, &(struct digest){ { 1 } }, "x", 1, NULL), 0);
	store_free(s);
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void test_leftovers(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *corrupt = xasprintf("%s/corrupt", f->path);
	struct store_gc_options o = options(f);
	struct store_gc_result r;
	struct store_stat st;

	assert_int_equal(mkdir(corrupt, 0777), 0);
	age(f, "tmp/1-2-3", f->now_ns - 2 * HOUR);
	age(f, "tmp/4-5-6", f->now_ns - HOUR / 2);
	age_scratch(f, f->now_ns - 2 * HOUR);
	age(f, "corrupt/blobs-x", f->now_ns - 8 * 24 * HOUR);
	age(f, "corrupt/blobs-y", f->now_ns - 6 * 24 * HOUR);
	assert_int_equal(store_stat_all(f->s, &st, NULL), 0);
	assert_true(st.temporaries == 3 && st.temporary_bytes >= 10 && st.set_aside == 2);
	o.grace_ns = 0; /* an hour all the same: somebody may be writing */
	o.dry_run = true;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_true(r.temporaries == 3 && r.temporary_bytes >= 10);
	assert_int_equal(store_stat_all(f->s, &st, NULL), 0);
	assert_int_equal(st.temporaries, 3);
	o.dry_run = false;
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_int_equal(r.temporaries, 3);
	assert_int_equal(store_stat_all(f->s, &st, NULL), 0);
	assert_true(st.temporaries == 1 && st.set_aside == 1);
}

/* However old an object was, its damaged copy is kept from when it was found. */
static void test_set_aside_now(void **state)
{
	struct fixture *f = *state;
	struct content_id id = blob(f, "damaged");
	struct store_gc_options o = options(f);
	struct store_stat st;

	o.now_ns = clock_system()->wall_ns(clock_system());
	set_mtime(f, "blobs", &id.digest, o.now_ns - 30 * 24 * HOUR);
	assert_true(f->s->ops->set_aside(f->s, STORE_BLOB, &id.digest));
	assert_int_equal(store_gc(f->s, &o, &(struct store_gc_result){ 0 }, NULL), 0);
	assert_int_equal(store_stat_all(f->s, &st, NULL), 0);
	assert_int_equal(st.set_aside, 1);
}

static void test_unreadable_roots(void **state)
{
	struct fixture *f = *state;
	struct content_id dead = blob(f, "dead"), member = blob(f, "m"), tree = tree_of(f, &member);
	struct digest run = manifest(f, &dead, 1, 'k'), missing = { { 9 } };
	struct digest both[] = { run, missing };
	struct store_gc_options o = options(f);
	struct store_gc_result r;
	struct err err = { 0 };

	o.manifests = both;
	o.n_manifests = 1;
	o.names = &(const struct closure_names){ .refs = refuses };
	for (int i = 0; i < 3;
	     i++, o.now_ns +=
		  2 * HOUR) { /* nobody knows what it needs: nothing goes, nothing is condemned */
		assert_int_equal(store_gc(f->s, &o, &r, &err), -1);
		assert_int_equal(err.code, ERR_NEWER);
		assert_int_equal(store_gc(f->s, &o, &r, NULL), -1);
	}
	assert_true(has(f, dead) && has(f, tree));
	o.names = &names; /* what is missing can't name anything */
	o.n_manifests = 2;
	o.contents = &tree;
	o.n_contents = 1;
	assert_int_equal(store_delete(f->s, STORE_TREE, &tree.digest, NULL), 0);
	assert_int_equal(store_gc(f->s, &o, &r, NULL), 0);
	assert_true(r.first_mark);
	assert_int_equal(r.lost, 2);
}

/* Verify. */

struct found {
	size_t n;
	struct store_problem p[16];
	uint64_t done, total;
};

static void note_problem(void *arg, const struct store_problem *p)
{
	struct found *f = arg;

	assert_true(f->n < ARRAY_LEN(f->p));
	f->p[f->n++] = *p;
}

static void note_progress(void *arg, uint64_t done, uint64_t total)
{
	struct found *f = arg;

	assert_int_equal(done, f->done + 1);
	f->done = done;
	f->total = total;
}

static void damage(const struct fixture *f, const char *space, const struct digest *d)
{
	_cleanup_(freep) char *path = object_path(f, space, d);
	struct stat st;
	uint8_t byte;
	int fd;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(chmod(path, 0644), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_int_equal(pread(fd, &byte, 1, st.st_size / 2), 1);
	byte ^= 1;
	assert_int_equal(pwrite(fd, &byte, 1, st.st_size / 2), 1);
	close(fd);
}

static const struct store_problem *problem_of(const struct found *found, enum store_space space,
					      const struct digest *d)
{
	for (size_t i = 0; i < found->n; i++)
		if (found->p[i].space == space && digest_eq(&found->p[i].name, d))
			return &found->p[i];
	fail_msg("a problem wasn't found");
	return NULL;
}

static void test_verify(void **state)
{
	struct fixture *f = *state;
	struct content_id good = blob(f, "good"), bad = blob(f, "bad"), gone = blob(f, "gone"),
			  bad_tree = tree_of(f, &good), tree_of_gone = tree_of(f, &gone);
	struct action_output names_gone = { "o", gone }, fine = { "o", good };
	struct action_record a = action('a', &names_gone, 1), b = action('b', &fine, 1),
			     c = action('c', &fine, 1);
	struct digest run = manifest(f, &good, 1, 'k');
	struct found found = { 0 };
	struct str moved = { 0 };

	assert_int_equal(action_put(f->s, &a, NULL), 0);
	assert_int_equal(action_put(f->s, &b, NULL), 0);
	action_encode(&c,
		      &moved); /* c's record under another name: an answer to the wrong question */
	c.key.b[0] = 'd';
	assert_int_equal(store_put(f->s, STORE_ACTION, &c.key, moved.s, moved.len, NULL), 0);
	str_deinit(&moved);
	assert_int_equal(store_delete(f->s, STORE_BLOB, &gone.digest, NULL), 0);
	damage(f, "blobs", &bad.digest);
	damage(f, "trees", &bad_tree.digest);
	damage(f, "runs", &run);
	assert_int_equal(store_verify(f->s, NULL, note_problem, note_progress, &found, NULL), 6);
	assert_int_equal(found.n, 6);
	assert_int_equal(found.done, found.total);
	assert_int_equal(problem_of(&found, STORE_BLOB, &bad.digest)->err.code, ERR_CORRUPT);
	assert_int_equal(problem_of(&found, STORE_TREE, &bad_tree.digest)->err.code, ERR_CORRUPT);
	assert_int_equal(problem_of(&found, STORE_TREE, &tree_of_gone.digest)->err.code,
			 ERR_NOT_FOUND);
	assert_int_equal(problem_of(&found, STORE_ACTION, &a.key)->err.code, ERR_NOT_FOUND);
	assert_int_equal(problem_of(&found, STORE_ACTION, &c.key)->err.code, ERR_CORRUPT);
	assert_int_equal(problem_of(&found, STORE_RUN, &run)->err.code, ERR_CORRUPT);
	assert_true(has(f, good));
	assert_false(has(f, bad) || has(f, bad_tree));
	assert_int_equal(store_verify(f->s, NULL, NULL, NULL, NULL, NULL),
			 2); /* the damaged ones are set aside; what is missing is missing */
}

/* Observations have names of their own. */
static void test_verify_observations(void **state)
{
	struct fixture *f = *state;
	struct action_output o1 = { "o", blob(f, "1") }, o2 = { "o", blob(f, "2") };
	struct action_record a = action('a', &o1, 1), b = action('a', &o2, 1);

	assert_int_equal(action_put(f->s, &a, NULL), 0);
	assert_int_equal(action_put(f->s, &b, NULL), 2);
	assert_int_equal(store_verify(f->s, NULL, NULL, NULL, NULL, NULL), 0);
}

static int refs_of(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		   void *arg, struct err *err)
{
	for (size_t i = 0; i < n / sizeof(struct content_id); i++)
		emit(arg, (const struct content_id *)bytes + i);
	return 0;
}

/* A manifest that contents what isn't there can't be reproduced from. */
static void test_verify_manifests(void **state)
{
	const struct closure_names contents = { .refs = refs_of };
	struct fixture *f = *state;
	struct content_id ids[2] = { blob(f, "code"), blob(f, "results") };
	struct digest run = manifest(f, ids, 2, 'k');
	struct found found = { 0 };

	assert_int_equal(store_verify(f->s, &contents, NULL, NULL, NULL, NULL), 0);
	assert_int_equal(store_delete(f->s, STORE_BLOB, &ids[1].digest, NULL), 0);
	assert_int_equal(store_verify(f->s, &contents, note_problem, note_progress, &found, NULL),
			 1);
	assert_int_equal(problem_of(&found, STORE_RUN, &run)->err.code, ERR_NOT_FOUND);
}

/* A lost log or lost metrics are told once: the record goes on without the log, and without metrics
 * its task is to run again. */
static void test_lost_log_and_metrics(void **state)
{
	struct fixture *f = *state;

	for (int metrics = 0; metrics < 2; metrics++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct action_output out = { "o", blob(f, "out") };
		struct action_record a = { .key.b = { (uint8_t)(9 + metrics) },
					   .outputs = &out,
					   .n_outputs = 1,
					   .run_id = "r",
					   .task = "t",
					   .node = "n" },
				     got;
		struct content_id lost = blob(f, "lost");

		*(metrics ? &a.metrics : &a.log) = lost;
		assert_int_equal(action_put(f->s, &a, NULL), 0);
		assert_int_equal(store_verify(f->s, NULL, NULL, NULL, NULL, NULL), 0);
		assert_int_equal(store_delete(f->s, STORE_BLOB, &lost.digest, NULL), 0);
		assert_int_equal(store_verify(f->s, NULL, NULL, NULL, NULL, NULL), 1);
		assert_int_equal(store_verify(f->s, NULL, NULL, NULL, NULL, NULL), 0);
		assert_int_equal(action_get(f->s, &a.key, arena, &got, NULL), metrics ? -1 : 0);
		if (!metrics)
			assert_int_equal(got.log.kind, CONTENT_NONE);
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define M(name)                                                        \
	{                                                              \
#name " in memory", name, setup_memory, teardown, NULL \
	}
	const struct CMUnitTest tests[] = {
		T(test_reach),
		M(test_reach),
		T(test_actions),
		M(test_actions),
		T(test_walk),
		M(test_walk),
		T(test_young_records_are_roots),
		T(test_a_record_that_stays_holds_what_it_names),
		T(test_a_dead_manifest_of_a_newer_version_goes),
		T(test_two_marks),
		T(test_a_full_list),
		M(test_a_full_list),
		T(test_a_list_that_is_too_long),
		T(test_dry_run),
		M(test_dry_run),
		T(test_runs_and_the_list),
		T(test_doubtful_lists),
		T(test_condemned_list),
		T(test_one_collector),
		T(test_leftovers),
		T(test_set_aside_now),
		T(test_lost_log_and_metrics),
		T(test_unreadable_roots),
		M(test_unreadable_roots),
		T(test_verify),
		T(test_verify_observations),
		M(test_verify_observations),
		T(test_verify_manifests),
		M(test_verify_manifests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

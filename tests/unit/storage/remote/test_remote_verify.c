/* Reading a bucket back and repairing it: beside a collector, with nothing to repair from, and into
 * what records name. */
#include <stdio.h>
#include "base/mem.h"
#include "storage/remote/internal.h"
#include "unit.h"
#include "unit/storage/remote/machine.h"

#define NAME   "verify"
#define BUCKET "mem-bucket://verify/p"
#define HOUR   (3600 * NS_PER_S)

struct world {
	struct clock clock;
	bool inside, removed;
};

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	clock_virtual_init(&w->clock, 1000000 * HOUR);
	bucket_memory_clock(NAME, &w->clock);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	bucket_memory_forget(NAME);
	free(*state);
	return 0;
}

/* A manifest of these tests is one content id. */
static int refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		void *arg, struct err *err)
{
	return emit(arg, bytes);
}

static const struct closure_names names = { .refs = refs };

static struct digest publish(struct store *s, const struct content_id *id)
{
	struct err err = { 0 };
	struct digest hash;

	digest_bytes(id, sizeof(*id), &hash);
	assert_int_equal(store_sync(s, &err), 0);
	assert_true(store_put(s, STORE_RUN, &hash, id, sizeof(*id), &err) >= 0);
	assert_int_equal(store_sync(s, &err), 0);
	assert_int_equal(store_unsent(s, &err), 0);
	return hash;
}

static struct remote_gc_result collect(struct world *w, struct store *s, const struct digest *kept,
				       size_t n)
{
	struct remote_gc_options o = { .reader = s };
	struct remote_gc_result res;
	struct err err = { 0 };

	o.base = (struct store_gc_options){ .grace_ns = HOUR,
					    .mark_gap_ns = HOUR,
					    .manifests = kept,
					    .n_manifests = n,
					    .names = &names };
	if (remote_gc(tier_remote(s), &o, &res, &err) < 0)
		fail_msg("%s", err.msg);
	return res;
}

static struct tier_verify verify(struct store *s)
{
	struct tier_verify v = { .sample = 1, .names = &names };
	struct err err = { 0 };

	if (tier_verify(s, &v, &err) < 0)
		fail_msg("%s", err.msg);
	return v;
}

/* What lies in the bucket. */

struct found {
	const char *prefix, *suffix;
	char keys[64][256];
	size_t n;
};

static int find(void *arg, const struct bucket_object *o)
{
	struct found *f = arg;

	if (f->n < ARRAY_LEN(f->keys) && str_has_suffix(o->key, f->suffix))
		snprintf(f->keys[f->n++], sizeof(f->keys[0]), "%s", o->key);
	return 0;
}

static struct found list(const char *prefix, const char *suffix)
{
	struct found f = { .prefix = prefix, .suffix = suffix };
	struct bucket *b;

	assert_int_equal(bucket_open(BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_list(b, prefix, NULL, 0, find, &f, NULL), 0);
	bucket_free(b);
	return f;
}

static void drop(const char *key)
{
	struct bucket *b;

	assert_int_equal(bucket_open(BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_delete_many(b, &key, 1, NULL), 0);
	bucket_free(b);
}

static void no_ghosts(void)
{
	struct found indexes = list("packs/", ".idx"), all = list("packs/", "");

	assert_int_equal(all.n, 2 * indexes.n);
}

/* Tests. */

/* At the moment when the index of a pack is read, a collector removes what it had condemned long
 * ago. */
static void collect_meanwhile(void *arg, const char *what, const char *key)
{
	struct world *w = arg;
	struct store *s;

	if (w->inside || w->removed || !str_eq(what, "get") || !str_has_suffix(key, ".idx"))
		return;
	w->inside = true;
	s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	assert_int_equal(collect(w, s, NULL, 0).packs_removed, 1);
	store_free(s);
	w->removed = true;
	w->inside = false;
}

static void test_beside_a_collector(void **state)
{
	struct world *w = *state;
	struct store *s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	struct content_id id = machine_put_model(s, "nobody needs it");
	struct tier_verify v;

	assert_int_equal(store_sync(s, NULL), 0);
	clock_virtual_advance(&w->clock, 3 * HOUR);
	collect(w, s, NULL, 0);
	store_free(s);
	clock_virtual_advance(&w->clock, 2 * HOUR);
	s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	assert_int_equal(remote_attach(tier_remote(s), NULL), 0);
	bucket_memory_faults(
		NAME, &(struct bucket_memory_faults){ .before = collect_meanwhile, .arg = w });
	v = verify(s);
	bucket_memory_faults(NAME, &(struct bucket_memory_faults){ 0 });
	assert_true(w->removed);
	assert_int_equal(v.problems, 0);
	store_free(s);
	no_ghosts();
	/* Whoever comes now makes it anew, and everybody can read it. */
	s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	id = machine_put_model(s, "nobody needs it");
	publish(s, &id);
	store_free(s);
	s = machine_open(BUCKET, STORE_READ_ONLY, &w->clock);
	assert_int_equal(content_verify(s, &id, NULL), 0);
	store_free(s);
}

/* A verifier of the past put indexes back: it names nothing, and goes. */
static void test_ghosts_go(void **state)
{
	struct world *w = *state;
	struct store *s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock), *other;
	struct content_id id = machine_put_model(s, "is made by another again"), again;
	struct found packs;
	struct tier_verify v;

	publish(s, &id);
	packs = list("packs/", "");
	assert_int_equal(packs.n, 2);
	drop(packs.keys[0]); /* the pack: its name is a beginning of the index's */
	other = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	v = verify(other); /* it has nothing to repair from */
	assert_true(v.problems > 1);
	assert_int_equal(v.repaired, 1); /* the ghost */
	no_ghosts();
	v = verify(other);
	assert_true(v.problems > 0); /* the run still names what isn't there */
	assert_int_equal(v.repaired, 0);
	again = machine_put_model(other, "is made by another again");
	assert_true(digest_eq(&again.digest, &id.digest));
	v = verify(other);
	assert_int_equal(v.repaired, v.problems);
	assert_int_equal(verify(other).problems, 0);
	store_free(other);
	store_free(s);
}

/* The index is damaged, and nobody here knows what was in its pack: that isn't repaired by saying
 * so. */
static void test_no_repair_without_content(void **state)
{
	struct world *w = *state;
	struct store *s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock), *stranger;
	struct content_id id = machine_put_model(s, "only its maker has it");
	struct found packs;
	struct tier_verify v;
	char key[512];

	publish(s, &id);
	packs = list("packs/", ".idx");
	snprintf(key, sizeof(key), "p/%s", packs.keys[0]);
	assert_true(bucket_memory_damage(NAME, key, 60));
	stranger = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	v = verify(stranger);
	assert_true(v.problems > 0);
	assert_int_equal(v.repaired, 0);
	store_free(stranger);
	v = verify(s); /* who knows the index saves what is in the pack */
	assert_int_equal(v.problems, 1);
	assert_int_equal(v.repaired, 1);
	stranger = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	assert_int_equal(verify(stranger).problems, 0);
	assert_int_equal(content_verify(stranger, &id, NULL), 0);
	store_free(stranger);
	store_free(s);
}

/* The index is gone, the pack is there: what is in it is saved, under a new name. */
static void test_lost_index(void **state)
{
	struct world *w = *state;
	struct store *s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock), *other;
	struct content_id id = machine_put_model(s, "its index is lost");
	struct found packs;
	struct tier_verify v;

	publish(s, &id);
	packs = list("packs/", ".idx");
	drop(packs.keys[0]);
	v = verify(s);
	assert_int_equal(v.problems, 1);
	assert_int_equal(v.repaired, 1);
	assert_false(str_eq(list("packs/", ".idx").keys[0], packs.keys[0]));
	other = machine_open(BUCKET, STORE_READ_ONLY, &w->clock);
	assert_int_equal(content_verify(other, &id, NULL), 0);
	store_free(other);
	store_free(s);
}

/* What a manifest names is gone, with the index and the pack that held it: no list of objects shows
 * that. */
static void test_what_manifests_name(void **state)
{
	struct world *w = *state;
	struct store *s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock), *other;
	struct content_id id = machine_put_model(s, "a code tree");
	struct digest run = publish(s, &id);
	struct found packs = list("packs/", "");
	struct tier_pulled pulled;
	struct tier_verify v;

	for (size_t i = 0; i < packs.n; i++)
		drop(packs.keys[i]);
	other = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	assert_int_equal(tier_pull(other, &(struct tier_wanted){ .names = &names }, &pulled, NULL),
			 0);
	assert_int_equal(pulled.missing, 1); /* the tree: nobody knows what is in it */
	v = verify(other);
	assert_int_equal(v.problems, 1);
	assert_int_equal(v.repaired, 0);
	store_free(other);
	v = verify(s);
	assert_int_equal(v.problems, 2); /* the tree and the file: this machine can read the tree */
	assert_int_equal(v.repaired, 2);
	other = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	assert_int_equal(tier_pull(other, &(struct tier_wanted){ .names = &names }, &pulled, NULL),
			 0);
	assert_int_equal(pulled.missing, 0);
	assert_int_equal(verify(other).problems, 0);
	assert_int_equal(content_verify(other, &id, NULL), 0);
	(void)run;
	store_free(other);
	store_free(s);
}

/* Two machines make the same content at once, many times: it lies in two packs, and is written
 * together once. */
static void test_content_that_lies_twice(void **state)
{
	struct world *w = *state;
	struct digest runs[40];
	struct content_id ids[40];
	struct store *s;
	size_t n = 0;

	for (int i = 0; i < 20; i++) {
		struct store *a = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
		struct store *b = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
		char text[32];

		snprintf(text, sizeof(text), "model %d", i);
		assert_int_equal(remote_attach(tier_remote(a), NULL), 0);
		assert_int_equal(remote_attach(tier_remote(b), NULL), 0);
		ids[n] = machine_put_model(a, text);
		machine_put_model(b, text);
		runs[n] = publish(a, &ids[n]);
		publish(b, &ids[n]);
		n++;
		store_free(a);
		store_free(b);
	}
	assert_int_equal(list("packs/", ".idx").n, 40);
	for (int i = 0; i < 4; i++) {
		clock_virtual_advance(&w->clock, 3 * HOUR);
		s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
		collect(w, s, runs, n);
		store_free(s);
	}
	assert_int_equal(list("packs/", ".idx").n, 1);
	no_ghosts();
	s = machine_open(BUCKET, STORE_READ_ONLY, &w->clock);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(content_verify(s, &ids[i], NULL), 0);
	assert_int_equal(verify(s).problems, 0);
	store_free(s);
}

/* What lay alone, was believed to be there, and isn't, is sent again. */
static void test_belief_ends(void **state)
{
	struct world *w = *state;
	struct store *s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock), *other;
	_cleanup_(freep) char *big = xcalloc(1, REMOTE_LOOSE_MIN + 1);
	struct content_id id;
	struct tier_verify v;

	assert_int_equal(content_put_bytes(s, big, REMOTE_LOOSE_MIN + 1, &id, NULL), 0);
	publish(s, &id);
	drop(list("blobs/", "").keys[0]);
	v = verify(s);
	assert_int_equal(v.problems, 1);
	assert_int_equal(v.repaired, 1);
	other = machine_open(BUCKET, STORE_READ_ONLY, &w->clock);
	assert_int_equal(content_verify(other, &id, NULL), 0);
	store_free(other);
	store_free(s);
}

/* Who found that a name's object is damaged counts it as absent, as with any other record. */
static void test_a_damaged_name(void **state)
{
	static const char text[] = "a change of a name";
	_cleanup_(str_deinit) struct str got = { 0 };
	struct world *w = *state;
	struct store *s = machine_open(BUCKET, STORE_READ_WRITE, &w->clock), *other;
	struct err err = { 0 };
	struct digest name;
	struct found tags;
	char key[300];

	digest_bytes(text, sizeof(text), &name);
	assert_int_equal(store_put(s, STORE_TAG, &name, text, sizeof(text), NULL), 0);
	assert_int_equal(store_sync(s, NULL), 0);
	store_free(s);
	tags = list("tags/", "");
	assert_int_equal(tags.n, 1);
	snprintf(key, sizeof(key), "p/%s", tags.keys[0]);
	assert_true(bucket_memory_damage(NAME, key, 3));
	other = machine_open(BUCKET, STORE_READ_WRITE, &w->clock);
	assert_int_equal(store_get(other, STORE_TAG, &name, 100, &got, NULL), -1);
	assert_int_equal(store_put(other, STORE_TAG, &name, text, sizeof(text), NULL), 0);
	assert_int_equal(store_sync(other, NULL), 0);
	store_free(other);
	other = machine_open(BUCKET, STORE_READ_ONLY, &w->clock);
	str_reset(&got);
	if (store_get(other, STORE_TAG, &name, 100, &got, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(got.len, sizeof(text));
	store_free(other);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_beside_a_collector),
		T(test_ghosts_go),
		T(test_no_repair_without_content),
		T(test_lost_index),
		T(test_what_manifests_name),
		T(test_content_that_lies_twice),
		T(test_belief_ends),
		T(test_a_damaged_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Collecting in a bucket while others write: random interleavings against a naive walker, and the
 * rules one by one. Time is given, not waited for. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include "base/mem.h"
#include "core/seeds.h"
#include "storage/remote/internal.h"
#include "unit.h"
#include "unit/storage/remote/machine.h"

#define NAME        "gc"
#define BUCKET      "mem-bucket://gc/p"
#define MINUTE      (60 * NS_PER_S)
#define HOUR        (60 * MINUTE)
#define TREES       12
#define BLOBS_EACH  3
#define LARGE_EVERY 4 /* the first blob of each such tree lies alone */
#define RUNS_KEPT   5
#define WRITERS     3

struct writer {
	struct store *s;
	int step;
	unsigned tree;
	struct content_id id;
};

struct world {
	struct clock clock;
	uint64_t random;
	struct writer writers[WRITERS];
	VEC(struct digest) runs;
	VEC(unsigned) trees_of_runs;
	uint64_t number;
	bool inside; /* somebody acts in the middle of a collection */
	unsigned act_per_mille;
	uint64_t deleted, condemned, kept_for_leases, anew, unlisted;
	uint64_t outlived; /* runs that were whole although nobody keeps them */
	size_t list_max;   /* of collectors; 0: theirs */
};

static uint64_t pick(struct world *w, uint64_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % n;
}

struct manifest {
	struct content_id id;
	uint64_t number;
};

static int refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		void *arg, struct err *err)
{
	return emit(arg, &((const struct manifest *)bytes)->id);
}

static const struct closure_names names = { .refs = refs };

static struct store *open_store(struct world *w, enum store_mode mode)
{
	return machine_open_with(BUCKET, mode, &w->clock, &names);
}

/* Contents. */

static void blob_bytes(unsigned tree, unsigned i, struct str *ret)
{
	uint32_t x = tree * 100 + i + 1;
	size_t n = i == 0 && tree % LARGE_EVERY == 0 ? 257 * KIB : 300 + 100 * i;

	str_reset(ret);
	/* Trees share their last blob in pairs. */
	if (i == BLOBS_EACH - 1)
		x = tree / 2 * 100 + 99;
	while (ret->len < n) {
		x = x * 1664525 + 1013904223;
		str_addn(ret, &x, sizeof(x));
	}
}

static struct content_id build(struct store *s, unsigned tree, struct err *err, int *ret)
{
	struct tree_builder *b = tree_builder_new();
	struct str bytes = { 0 };
	struct content_id id = { 0 };

	*ret = 0;
	for (unsigned i = 0; i < BLOBS_EACH; i++) {
		char name[8];
		struct tree_entry e = { .name = name, .kind = TREE_FILE };

		e.name_len = (size_t)snprintf(name, sizeof(name), "b%u", i);
		blob_bytes(tree, i, &bytes);
		content_id_of_bytes(bytes.s, bytes.len, &e.id);
		if (s && content_put_bytes(s, bytes.s, bytes.len, &e.id, err) < 0)
			*ret = -1;
		assert_int_equal(tree_builder_add(b, &e, err), 0);
	}
	if (tree_builder_store(b, s, &id, err) < 0)
		*ret = -1;
	tree_builder_free(b);
	str_deinit(&bytes);
	return id;
}

/* Writers: a run in steps, so that others come in between. */

static void begin_run(struct world *w, struct writer *r)
{
	struct err err = { 0 };
	bool there = false;
	int got;

	r->s = open_store(w, STORE_READ_WRITE);
	r->tree = (unsigned)pick(w, TREES);
	r->id = build(NULL, r->tree, &err, &got);
	if (pick(w, 2) && content_complete(r->s, &r->id, 1, &there, &err) < 0)
		fail_msg("%s", err.msg);
	if (!there) {
		build(r->s, r->tree, &err, &got);
		assert_int_equal(got, 0);
	} /* else a hit: it relies on what is there */
	r->step = 1;
}

static void publish_run(struct world *w, struct writer *r)
{
	struct manifest m;
	struct digest hash;
	struct err err = { 0 };

	memset(&m, 0, sizeof(m));
	m.id = r->id;
	m.number = ++w->number;
	digest_bytes(&m, sizeof(m), &hash);
	assert_int_equal(store_sync(r->s, &err), 0);
	assert_int_equal(store_put(r->s, STORE_RUN, &hash, &m, sizeof(m), &err), 0);
	assert_int_equal(store_sync(r->s, &err), 0);
	if (store_unsent(r->s, &err))
		fail_msg("%s", err.msg);
	VEC_PUSH(&w->runs, hash);
	VEC_PUSH(&w->trees_of_runs, r->tree);
	r->step = 3;
}

static void act(struct world *w)
{
	struct writer *r = &w->writers[pick(w, WRITERS)];
	struct err err = { 0 };

	switch (r->step) {
	case 0:
		begin_run(w, r);
		break;
	case 1: /* a checkpoint: part of it goes up */
		assert_int_equal(store_sync(r->s, &err), 0);
		r->step = 2;
		break;
	case 2:
		publish_run(w, r);
		break;
	default:
		store_free(TAKE_PTR(r->s));
		r->step = 0;
	}
}

/* As the threads that keep leases do. */
static void pass_time(struct world *w, int64_t ns)
{
	while (ns > 0) {
		int64_t d = MIN(ns, 9 * MINUTE);

		clock_virtual_advance(&w->clock, d);
		ns -= d;
		for (size_t i = 0; i < WRITERS; i++)
			if (w->writers[i].s)
				assert_int_equal(remote_renew(tier_remote(w->writers[i].s), NULL),
						 0);
	}
}

static void in_between(void *arg, const char *what, const char *key)
{
	struct world *w = arg;

	if (w->inside || pick(w, 1000) >= w->act_per_mille)
		return;
	w->inside = true;
	if (pick(w, 4) == 0)
		pass_time(w, (int64_t)pick(w, 3) * MINUTE);
	act(w);
	w->inside = false;
}

/* The collector and the walker. */

static void collect(struct world *w, bool dry)
{
	struct store *s = open_store(w, STORE_READ_WRITE);
	size_t from = w->runs.n > RUNS_KEPT ? w->runs.n - RUNS_KEPT : 0, n = w->runs.n - from;
	struct digest kept[RUNS_KEPT];
	struct remote_gc_options o = { .reader = s };
	struct remote_gc_result res;
	struct err err = { 0 };

	if (n) /* others may end runs meanwhile */
		memcpy(kept, w->runs.v + from, n * sizeof(*kept));
	o.base = (struct store_gc_options){ .dry_run = dry,
					    .grace_ns = HOUR,
					    .mark_gap_ns = HOUR,
					    .manifests = kept,
					    .n_manifests = n,
					    .names = &names,
					    .list_max = w->list_max };
	bucket_memory_faults(
		NAME, &(struct bucket_memory_faults){ .before = in_between,
						      .arg = w,
						      .ignores_if_absent = w->random % 2,
						      .ignores_delete_if = w->random % 3 == 0 });
	if (remote_gc(tier_remote(s), &o, &res, &err) < 0)
		fail_msg("%s", err.msg);
	bucket_memory_faults(NAME, &(struct bucket_memory_faults){ 0 });
	assert_int_equal(res.base.lost, 0);
	w->deleted += res.base.deleted;
	w->condemned += res.base.condemned;
	w->kept_for_leases += res.kept_for_leases;
	w->anew += res.packs_written;
	w->unlisted = res.base.unlisted;
	store_free(s);
}

/* All that is kept is there, and all that is there is whole, as somebody sees it who has nothing.
 */
static void walk(struct world *w)
{
	struct store *s = open_store(w, STORE_READ_ONLY);
	size_t from = w->runs.n > RUNS_KEPT ? w->runs.n - RUNS_KEPT : 0;

	for (size_t i = 0; i < w->runs.n; i++) {
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct err err = { 0 };

		if (store_get(s, STORE_RUN, &w->runs.v[i], MIB, &bytes, &err) < 0) {
			if (i < from && err.code == ERR_NOT_FOUND)
				continue;
			fail_msg("run %zu of %zu: %s", i, w->runs.n, err.msg);
		}
		w->outlived += i < from;
		if (content_verify(s, &((struct manifest *)bytes.s)->id, &err) < 0)
			fail_msg("run %zu of %zu, tree %u: %s", i, w->runs.n, w->trees_of_runs.v[i],
				 err.msg);
	}
	store_free(s);
}

static void world_init(struct world *w, uint64_t seed)
{
	*w = (struct world){ .random = seed * 0x9e3779b97f4a7c15ULL + 1, .act_per_mille = 100 };
	clock_virtual_init(&w->clock, 1000000 * HOUR);
	bucket_memory_clock(NAME, &w->clock);
}

static void world_deinit(struct world *w)
{
	for (size_t i = 0; i < WRITERS; i++)
		store_free(w->writers[i].s);
	VEC_FREE(&w->runs);
	VEC_FREE(&w->trees_of_runs);
	bucket_memory_forget(NAME);
}

static void test_nothing_live_is_lost(void **state)
{
	uint64_t deleted = 0, kept = 0, anew = 0, outlived = 0;

	for (uint64_t seed = 1; seed <= 40; seed += seeds_stride(8)) {
		struct world w;

		world_init(&w, seed);
		for (int i = 0; i < 150; i++) {
			uint64_t what = pick(&w, 10);

			if (what < 6)
				act(&w);
			else if (what < 8)
				pass_time(&w, (int64_t)pick(&w, 120) * MINUTE);
			else {
				collect(&w, pick(&w, 8) == 0);
				walk(&w);
			}
		}
		walk(&w);
		deleted += w.deleted;
		kept += w.kept_for_leases;
		anew += w.anew;
		outlived += w.outlived;
		world_deinit(&w);
	}
	/* Else nothing was tried. */
	assert_true(deleted > 1000 / seeds_stride(8));
	assert_true(kept > 10 / seeds_stride(8));
	assert_true(anew > 10 / seeds_stride(8));
	assert_true(outlived > 100 / seeds_stride(8));
	print_message("%llu objects deleted, %llu kept for leases, %llu packs written anew\n",
		      (unsigned long long)deleted, (unsigned long long)kept,
		      (unsigned long long)anew);
}

/* What nobody needs does go, to the last object. */
static void test_garbage_goes(void **state)
{
	struct bucket_memory_counts before, after;
	struct world w;

	world_init(&w, 7);
	w.act_per_mille = 0;
	for (int i = 0; i < 40; i++)
		act(&w);
	for (size_t i = 0; i < WRITERS; i++) {
		store_free(TAKE_PTR(w.writers[i].s));
		w.writers[i].step = 0;
	}
	bucket_memory_count(NAME, &before);
	w.runs.n = 0; /* retention keeps none */
	pass_time(&w, 3 * HOUR);
	collect(&w, false);
	assert_int_equal(w.deleted, 0); /* the first look only marks */
	pass_time(&w, 50 * MINUTE);
	collect(&w, false);
	assert_int_equal(w.deleted, 0); /* too soon */
	pass_time(&w, 11 * MINUTE);
	collect(&w, true);
	bucket_memory_count(NAME, &after);
	assert_true(w.deleted > 10); /* would go */
	w.deleted = 0;
	collect(&w, false);
	assert_true(w.deleted > 10);
	pass_time(&w, 61 * MINUTE);
	collect(&w, false);
	bucket_memory_count(NAME, &after);
	assert_int_equal(after.objects, 2); /* the version, and an empty list of the condemned */
	world_deinit(&w);
}

/* Whether the newest run is there; if it is, it is whole. */
static bool newest_is_whole(struct world *w)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct store *s = open_store(w, STORE_READ_ONLY);
	struct err err = { 0 };
	bool there = store_get(s, STORE_RUN, &w->runs.v[w->runs.n - 1], MIB, &bytes, &err) == 0;

	if (there && content_verify(s, &((struct manifest *)bytes.s)->id, &err) < 0)
		fail_msg("%s", err.msg);
	store_free(s);
	return there;
}

/* Problems that somebody sees who has read only the tree's listing. */
static int64_t problems_of_a_reader(struct world *w, const struct content_id *id)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	struct store *s = open_store(w, STORE_READ_ONLY);
	struct err err = { 0 };
	int64_t n;

	if (tree_load(s, id, &t, &err) < 0)
		fail_msg("%s", err.msg);
	n = store_verify(s, &names, NULL, NULL, NULL, &err);
	store_free(s);
	return n;
}

/* A run found content that a collector then lists, and when the next one comes, nobody keeps the
 * run any more: what it names stays as long as its record. */
static void test_a_record_that_stays_holds_what_it_names(void **state)
{
	struct err err = { 0 };
	bool there = false;
	struct world w;
	int got;

	world_init(&w, 7);
	w.act_per_mille = 0;
	for (size_t i = 0; i < 2; i++) {
		struct writer *r = &w.writers[i];

		r->s = open_store(&w, STORE_READ_WRITE);
		r->id = build(i ? NULL : r->s, 0, &err, &got);
		if (i) {
			assert_int_equal(content_complete(r->s, &r->id, 1, &there, &err), 0);
			assert_true(there);
			w.runs.n = 0;
			collect(&w, false);
		}
		publish_run(&w, r);
		store_free(TAKE_PTR(r->s));
		assert_int_equal(problems_of_a_reader(&w, &r->id), 0);
		pass_time(&w, 3 * HOUR);
	}
	w.deleted = 0;
	for (int i = 0; i < 2; i++) {
		const size_t n = w.runs.n;

		w.runs.n = 0; /* retention keeps none */
		collect(&w, false);
		w.runs.n = n;
		assert_int_equal(newest_is_whole(&w), i == 0);
		pass_time(&w, 61 * MINUTE);
	}
	assert_true(w.deleted > 3);
	world_deinit(&w);
}

struct there {
	size_t runs, contents, listed; /* objects; entries of the list */
};

static void see_object(void *arg, const char *key, const uint8_t *bytes, uint64_t size)
{
	struct there *t = arg;
	struct condemned list = { .form = CONDEMNED_BUCKET };

	t->runs += str_has_prefix(key, "p/runs/");
	t->contents += str_has_prefix(key, "p/blobs/") || str_has_prefix(key, "p/packs/");
	if (str_eq(key, "p/gc/condemned")) {
		str_addn(&list.bytes, bytes, size);
		assert_true(condemned_list_check(&list));
		t->listed = condemned_list_len(&list);
		condemned_list_deinit(&list);
	}
}

/* However much is dead, the list stays one that is read; and all goes in the end, records before
 * what they name. */
static void test_a_full_list(void **state)
{
	const size_t most = condemned_list_max(CONDEMNED_BUCKET);
	struct there was, is = { 0 };
	struct world w;

	assert_true(strlen("cairn-bucket-condemned/1\n") + 41 * most <= CONDEMNED_MAX);
	assert_true(strlen("cairn-bucket-condemned/1\n") + 41 * (most + 1) > CONDEMNED_MAX);
	world_init(&w, 7);
	w.act_per_mille = 0;
	for (int i = 0; i < 40; i++)
		act(&w);
	for (size_t i = 0; i < WRITERS; i++) {
		store_free(TAKE_PTR(w.writers[i].s));
		w.writers[i].step = 0;
	}
	w.runs.n = 0;
	pass_time(&w, 3 * HOUR);
	collect(&w, true);
	for (int over = -1; over <= 1; over++) {
		w.list_max = (size_t)w.condemned + (size_t)over;
		collect(&w, true);
		w.condemned /= 2; /* the same objects once more */
		assert_int_equal(w.unlisted, over < 0);
	}
	w.list_max = 3;
	w.deleted = 0;
	bucket_memory_each(NAME, see_object, &is);
	assert_true(is.runs > w.list_max && is.contents > w.list_max);
	for (int i = 0; is.runs + is.contents; i++) {
		assert_true(i < 100);
		collect(&w, false);
		pass_time(&w, 61 * MINUTE);
		was = is;
		is = (struct there){ 0 };
		bucket_memory_each(NAME, see_object, &is);
		assert_true(is.listed <= w.list_max);
		assert_true(is.runs == 0 || is.contents == was.contents);
	}
	assert_true(w.deleted > 10);
	world_deinit(&w);
}

/* A process that holds a lease keeps what it may believe in, however long it takes; one that is
 * dead doesn't. */
static void test_leases(void **state)
{
	struct world w;
	struct writer sleeper = { 0 };
	struct err err = { 0 };
	bool there = false;
	int got;

	world_init(&w, 3);
	w.act_per_mille = 0;
	begin_run(&w, &w.writers[0]);
	w.writers[0].step = 2;
	act(&w), act(&w), act(&w); /* whichever: runs are begun and published */
	while (w.runs.n == 0)
		act(&w);
	for (size_t i = 0; i < WRITERS; i++) {
		store_free(TAKE_PTR(w.writers[i].s));
		w.writers[i].step = 0;
	}
	/* One looks, and believes that the tree is there. */
	sleeper.s = open_store(&w, STORE_READ_WRITE);
	sleeper.tree = w.trees_of_runs.v[0];
	sleeper.id = build(NULL, sleeper.tree, &err, &got);
	assert_int_equal(content_complete(sleeper.s, &sleeper.id, 1, &there, &err), 0);
	assert_true(there);
	w.writers[0] = sleeper;
	w.runs.n = w.trees_of_runs.n = 0;
	for (int i = 0; i < 5; i++) {
		pass_time(&w, 3 * HOUR);
		collect(&w, false);
	}
	assert_int_equal(w.deleted, 0);
	assert_true(w.kept_for_leases > 0);
	publish_run(&w, &w.writers[0]);
	walk(&w);
	store_free(TAKE_PTR(w.writers[0].s));
	collect(&w, false); /* a run needs it again: it is pardoned */
	/* Another one that sleeps without giving its lease back: it expires. */
	sleeper.s = open_store(&w, STORE_READ_WRITE);
	assert_int_equal(content_complete(sleeper.s, &sleeper.id, 1, &there, &err), 0);
	assert_true(there);
	w.runs.n = w.trees_of_runs.n = 0;
	for (int i = 0; i < 3; i++) {
		pass_time(&w, 3 * HOUR);
		collect(&w, false);
	}
	assert_true(w.deleted > 0);
	/* It wakes: finds its lease lapsed, and believes in nothing any more. */
	build(sleeper.s, sleeper.tree, &err, &got);
	publish_run(&w, &sleeper);
	walk(&w);
	store_free(sleeper.s);
	world_deinit(&w);
}

/* A sync that finds the lease lapsed takes a new one, and sends what waits all the same: also
 * contents that no record of the queue names. */
static void test_woken_sync(void **state)
{
	struct content_id ids[2];
	struct err err = { 0 };
	struct store *s, *other;
	bool there[2];
	struct world w;

	world_init(&w, 1);
	s = open_store(&w, STORE_READ_WRITE);
	assert_int_equal(content_put_bytes(s, "before", 6, &ids[0], &err), 0);
	assert_int_equal(store_sync(s, &err), 0);
	pass_time(&w, 3 * HOUR);
	assert_int_equal(content_put_bytes(s, "after", 5, &ids[1], &err), 0);
	assert_int_equal(store_sync(s, &err), 0);
	other = open_store(&w, STORE_READ_ONLY);
	assert_int_equal(store_has(other, ids, 2, there, &err), 0);
	assert_true(there[0] && there[1]);
	store_free(other);
	store_free(s);
	world_deinit(&w);
}

static void test_one_collector_at_a_time(void **state)
{
	struct remote_gc_result res;
	struct remote_gc_options o = { .base = { .grace_ns = HOUR, .mark_gap_ns = HOUR } };
	struct err err = { 0 };
	struct world w;
	struct bucket *b;

	world_init(&w, 1);
	o.reader = open_store(&w, STORE_READ_WRITE);
	assert_int_equal(remote_gc(tier_remote(o.reader), &o, &res, &err), 0);
	assert_int_equal(bucket_open(BUCKET, NULL, &b, &err), 0);
	{
		struct bucket_put p = { .key = "gc/lock-someone", .bytes = "", .fd = -1 }, *v = &p;

		assert_int_equal(bucket_put_many(b, &v, 1, &err), 0);
	}
	assert_int_equal(remote_gc(tier_remote(o.reader), &o, &res, &err), -1);
	assert_int_equal(err.code, ERR_BUSY);
	pass_time(&w, 2 * HOUR); /* whoever it was is dead */
	assert_int_equal(remote_gc(tier_remote(o.reader), &o, &res, &err), 0);
	bucket_free(b);
	store_free(o.reader);
	world_deinit(&w);
}

/* Two threads that find the same lease lapsed. */

struct both {
	struct clock clock; /* first: it is the store's */
	struct remote *r;
	pthread_t thread;
	pthread_t second; /* the same, as it calls itself */
	sem_t looked;
	bool begun;
};

/* The time is the first thing that a renewal looks at. */
static int64_t tell_that_it_looks(struct clock *c)
{
	struct both *b = CONTAINER_OF(c, struct both, clock);

	if (b->begun && pthread_equal(pthread_self(), b->second))
		sem_post(&b->looked);
	return c->now_ns;
}

static void *renew(void *arg)
{
	struct both *b = arg;

	b->second = pthread_self();
	b->begun = true;
	assert_true(remote_renew(b->r, NULL) >= 0);
	return NULL;
}

/* While the first writes its new lease, the second finds the old one lapsed. */
static void let_the_second_look(void *arg, const char *what, const char *key)
{
	struct both *b = arg;

	if (b->begun || !str_eq(what, "put") || !strstr(key, "leases/"))
		return;
	assert_int_equal(pthread_create(&b->thread, NULL, renew, b), 0);
	while (sem_wait(&b->looked) < 0)
		;
}

static int count_object(void *arg, const struct bucket_object *o)
{
	++*(int *)arg;
	return 0;
}

static void test_one_new_lease(void **state)
{
	struct both both = { .begun = false };
	struct store *s;
	struct bucket *b;
	int n = 0;

	clock_virtual_init(&both.clock, 1000000 * HOUR);
	both.clock.mono_ns = tell_that_it_looks;
	assert_int_equal(sem_init(&both.looked, 0, 0), 0);
	bucket_memory_clock(NAME, &both.clock);
	s = machine_open(BUCKET, STORE_READ_WRITE, &both.clock);
	both.r = tier_remote(s);
	assert_int_equal(remote_attach(both.r, NULL), 0);
	clock_virtual_advance(&both.clock, HOUR);
	bucket_memory_faults(NAME, &(struct bucket_memory_faults){ .before = let_the_second_look,
								   .arg = &both });
	assert_int_equal(remote_renew(both.r, NULL), 1);
	pthread_join(both.thread, NULL);
	bucket_memory_faults(NAME, &(struct bucket_memory_faults){ 0 });
	assert_int_equal(bucket_open(BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_list(b, "leases/", NULL, 0, count_object, &n, NULL), 0);
	assert_int_equal(n, 2); /* the lapsed one, and one */
	bucket_free(b);
	store_free(s);
	sem_destroy(&both.looked);
	bucket_memory_forget(NAME);
}

/* An attempt to attach that fails behind its lease leaves that to the next one. */
static enum bucket_memory_fate no_list(void *arg, const char *what, const char *key)
{
	return str_eq(what, "list") ? FATE_LOST : FATE_PASSES;
}

static void test_attaching_again(void **state)
{
	struct clock clock;
	struct store *s;
	struct bucket *b;
	int n = 0;

	clock_virtual_init(&clock, 1000000 * HOUR);
	bucket_memory_clock(NAME, &clock);
	s = machine_open(BUCKET, STORE_READ_WRITE, &clock);
	bucket_memory_faults(NAME, &(struct bucket_memory_faults){ .fate = no_list });
	for (int i = 0; i < 3; i++)
		assert_int_equal(remote_attach(tier_remote(s), NULL), -1);
	bucket_memory_faults(NAME, &(struct bucket_memory_faults){ 0 });
	assert_int_equal(remote_attach(tier_remote(s), NULL), 0);
	assert_true(lease_is_good(tier_remote(s)));
	assert_int_equal(bucket_open(BUCKET, NULL, &b, NULL), 0);
	assert_int_equal(bucket_list(b, "leases/", NULL, 0, count_object, &n, NULL), 0);
	assert_int_equal(n, 1);
	bucket_free(b);
	store_free(s);
	bucket_memory_forget(NAME);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_garbage_goes),
		cmocka_unit_test(test_a_record_that_stays_holds_what_it_names),
		cmocka_unit_test(test_a_full_list),
		cmocka_unit_test(test_leases),
		cmocka_unit_test(test_one_new_lease),
		cmocka_unit_test(test_attaching_again),
		cmocka_unit_test(test_woken_sync),
		cmocka_unit_test(test_one_collector_at_a_time),
		cmocka_unit_test(test_nothing_live_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* core/protocol/commands.h — what clients do in the world of test_protocol.c: the commands of Cairn
 * that touch a shared store, each as small as it can be and still the real code of storage/.
 *
 * Each judges what it was told (judge.h). Only test_protocol.c includes this.
 */
#ifndef CAIRN_TESTS_CORE_PROTOCOL_COMMANDS_H
#define CAIRN_TESTS_CORE_PROTOCOL_COMMANDS_H

#include "base/os/fs.h"
#include "core/protocol/judge.h"

static int refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		void *arg, struct err *err)
{
	return n == sizeof(struct manifest) ? emit(arg, &((const struct manifest *)bytes)->id)
					    : err_set(err, ERR_INVALID, "no manifest");
}

static const struct closure_names manifest_names = { .refs = refs };

static void blob_text(unsigned tree, int i, char text[32])
{
	snprintf(text, 32, "blob %u", i ? 100 + tree / 2 : tree); /* pairs of trees share one */
}

static int build(struct store *s, unsigned tree, struct content_id *ret, struct err *err)
{
	struct tree_builder *b = tree_builder_new();
	int r = 0;

	for (int i = 0; i < 2 && r >= 0; i++) {
		struct tree_entry e = { .name = i ? "b" : "a", .name_len = 1, .kind = TREE_FILE };
		char text[32];

		blob_text(tree, i, text);
		r = content_put_bytes(s, text, strlen(text), &e.id, err);
		blobs[tree][i] = e.id;
		if (r >= 0)
			r = tree_builder_add(b, &e, err);
	}
	if (r >= 0)
		r = tree_builder_store(b, s, ret, err);
	tree_builder_free(b);
	return r < 0 ? -1 : 0;
}

static void key_of(unsigned tree, struct digest *ret)
{
	memset(ret->b, 0x40 + (int)tree, sizeof(ret->b));
}

/* Another task's result, which travels in the same pack; the run doesn't name it. */
static void build_others(struct client *c)
{
	struct content_id id;

	for (unsigned n = choose(3) == 2 ? 1 + choose(4) : 0; n; n--)
		build(c->s, choose(TREES), &id, NULL);
}

/* A run: what is there is believed, what isn't is made; the manifest is published. */
static void run(struct client *c)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	unsigned tree = choose(TREES);
	struct content_id id = trees[tree];
	struct action_record a;
	struct manifest m;
	struct digest key, hash;
	struct err err = { 0 };
	bool there = false;

	key_of(tree, &key);
	if (action_get(c->s, &key, arena, &a, NULL) == 0 &&
	    content_complete(c->s, &id, 1, &there, &err) < 0)
		return;
	if (!there) {
		struct action_output out = { "o", id };
		struct action_record made = { .key = key,
					      .outputs = &out,
					      .n_outputs = 1,
					      .run_id = "r",
					      .task = "t",
					      .node = "n" };

		build_others(c);
		if (build(c->s, tree, &id, &err) < 0 || store_sync(c->s, &err) < 0 ||
		    action_put(c->s, &made, &err) < 0)
			return;
		if (choose(2) && store_sync(c->s, &err) < 0)
			return;
	}
	say("run of tree %u%s", tree, there ? " (a hit)" : "");
	memset(&m, 0, sizeof(m));
	m.id = id;
	m.number = W->commands;
	digest_bytes(&m, sizeof(m), &hash);
	if (store_put(c->s, STORE_RUN, &hash, &m, sizeof(m), &err) < 0)
		return;
	if (c->journal)
		VEC_PUSH(&W->noted, ((struct noted){ hash, tree, c->process, c }));
	if (store_sync(c->s, &err) < 0)
		return;
	if (store_unsent(c->s, &err) == 0 && !is_excused(c) && W->n_runs < RUNS_MAX) {
		W->runs[W->n_runs++] = (struct published){ .hash = hash, .tree = tree };
		say("run %zu is published", W->n_runs - 1);
		W->check = true;
	}
}

static bool has_all_here(const struct client *c, unsigned tree)
{
	const struct digest *names[] = { &blobs[tree][0].digest, &blobs[tree][1].digest,
					 &trees[tree].digest };
	const uint64_t any = UINT64_MAX;
	bool all = true, here = false;

	for (int i = 0; i < 3; i++) {
		c->disk->ops->has(c->disk, i < 2 ? STORE_BLOB : STORE_TREE, names[i], &any, 1,
				  &here, NULL);
		all &= here;
	}
	return all;
}

/* What its earlier processes left unsent. */
static void send_left(struct client *c)
{
	struct remote_sent sent;
	struct err err = { 0 };
	struct facts f;
	size_t kept = 0;
	bool excused;
	int r;

	/* What lies only in a pack that is condemned may be given up. */
	for (size_t i = 0; i < W->noted.n; i++)
		if (W->noted.v[i].by == c)
			W->noted.v[i].was_here = has_all_here(c, W->noted.v[i].tree);
	r = tier_send_unsent(c->s, &manifest_names, &sent, &err);
	say("unsent: %llu objects sent, %llu missing; %s", (unsigned long long)sent.objects,
	    (unsigned long long)sent.missing, err.msg);
	if (r < 0)
		return;
	excused = is_excused(c) || W->damaged || tier_failure(c->s, &err) < 0;
	facts_init(&f, NAME);
	forget_arrived(&f);
	facts_deinit(&f);
	for (size_t i = 0; i < W->noted.n; i++) {
		const struct noted *n = &W->noted.v[i];
		bool taken_over = n->by == c && n->process < c->process;

		if (taken_over && n->was_here && !excused)
			broken("a run of tree %u, which a process left unsent, isn't sent by the "
			       "next",
			       n->tree);
		if (!taken_over)
			W->noted.v[kept++] = *n;
	}
	W->noted.n = kept; /* what can't be sent is given up */
}

static void gc(struct client *c)
{
	struct remote_gc_options o = { .reader = c->s };
	struct remote_gc_result res;
	struct digest kept[RUNS_MAX];
	struct err err = { 0 };
	size_t n = 0;

	o.roots_ns = remote_boottime_ns(tier_remote(c->s));
	for (size_t i = 0; i < W->n_runs; i++)
		if (is_kept(i))
			kept[n++] = W->runs[i].hash;
	o.base = (struct store_gc_options){ .grace_ns = HOUR,
					    .mark_gap_ns = HOUR,
					    .manifests = kept,
					    .n_manifests = n,
					    .names = &manifest_names };
	if (remote_gc(tier_remote(c->s), &o, &res, &err) < 0) {
		if (!is_excused(c) && !W->damaged && err.code != ERR_BUSY)
			broken("gc: %s", err.msg);
		return;
	}
	say("gc: %llu condemned, %llu deleted, %llu packs written",
	    (unsigned long long)res.base.condemned, (unsigned long long)res.base.deleted,
	    (unsigned long long)res.packs_written);
	if (!W->damaged && res.base.lost)
		broken("gc lost %llu of its roots", (unsigned long long)res.base.lost);
}

static void verify(struct client *c)
{
	_cleanup_(digest_set_freep) struct digest_set *were =
		W->damages ? keys_now() : NULL; /* what comes meanwhile isn't judged */
	struct tier_verify v = { .sample = 1, .names = &manifest_names };
	unsigned before = W->damage_number;
	struct err err = { 0 };
	struct facts f;

	if (tier_verify(c->s, &v, &err) < 0) {
		if (!is_excused(c) && !W->damaged && err.code != ERR_CHANGED)
			broken("verify: %s", err.msg);
		return;
	}
	say("verify: %llu problems, %llu repaired", (unsigned long long)v.problems,
	    (unsigned long long)v.repaired);
	if (is_excused(c) || W->damage_number != before)
		return;
	if (v.repaired > v.problems)
		broken("verify repaired %llu of %llu problems", (unsigned long long)v.repaired,
		       (unsigned long long)v.problems);
	if (!W->damaged && v.problems)
		broken("verify finds %llu problems in a store that is sound",
		       (unsigned long long)v.problems);
	if (!W->damaged || v.problems != v.repaired)
		return;
	facts_init(&f, NAME);
	if (!records_are_whole(&f, were))
		broken("verify found and repaired %llu, and a record names what isn't there",
		       (unsigned long long)v.problems);
	facts_deinit(&f);
}

static void push(struct client *c)
{
	struct remote_sent sent;

	tier_push(c->s, &(struct tier_wanted){ .names = &manifest_names }, &sent, NULL);
}

static void pull(struct client *c)
{
	struct tier_pulled pulled = { 0 };
	struct err err = { 0 };

	if (tier_pull(c->s, &(struct tier_wanted){ .names = &manifest_names }, &pulled, &err) == 0)
		say("pull: %llu missing", (unsigned long long)pulled.missing);
}

/* An export reads all of a run; nothing that is kept may be missing. */
static void export(struct client *c)
{
	size_t i = W->n_runs ? W->n_runs - 1 - choose((uint32_t)MIN(W->n_runs, (size_t)KEPT)) : 0;
	struct err err = { 0 };

	if (!W->n_runs || !is_kept(i))
		return;
	if (store_refresh(c->s, STORE_RUN, &W->runs[i].hash, 1, &err) < 0)
		return;
	if (content_verify(c->s, &trees[W->runs[i].tree], &err) < 0 && !is_excused(c) &&
	    !W->damaged && is_kept(i))
		broken("export of run %zu, which is kept: %s", i, err.msg);
}

static void pin(struct client *c)
{
	if (W->n_runs) {
		W->runs[W->n_runs - 1].pinned = true;
		say("run %zu has a name from now on", W->n_runs - 1);
	}
}

static void unpin(struct client *c)
{
	for (size_t i = 0; i < W->n_runs; i++)
		W->runs[i].pinned = false;
}

static void tag(struct client *c)
{
	char text[32];
	struct digest d;
	int n = snprintf(text, sizeof(text), "change %llu", (unsigned long long)W->commands);

	digest_bytes(text, (size_t)n, &d);
	if (store_put(c->s, STORE_TAG, &d, text, (size_t)n, NULL) < 0 ||
	    store_sync(c->s, NULL) < 0 || is_excused(c))
		return;
	if (store_unsent(c->s, &(struct err){ 0 }) == 0)
		VEC_PUSH(&W->tags, d);
}

/* As evict.c: what the bucket has may go here. */
static void evict_all(struct client *c)
{
	struct remote_object o[3 * TREES];
	size_t n = 0;

	for (unsigned t = 0; t < TREES; t++) {
		for (int i = 0; i < 2; i++)
			o[n++] = (struct remote_object){ .space = STORE_BLOB,
							 .name = blobs[t][i].digest,
							 .size = blobs[t][i].size_bytes };
		o[n++] = (struct remote_object){ .space = STORE_TREE,
						 .name = trees[t].digest,
						 .size = trees[t].size_bytes };
	}
	if (remote_has(tier_remote(c->s), o, n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (o[i].there)
			c->disk->ops->del(c->disk, o[i].space, &o[i].name, NULL);
}

static void leave(struct client *c)
{
	store_free(TAKE_PTR(c->s));
}

static const struct {
	const char *name;
	void (*fn)(struct client *c);
} commands[] = {
	{ "run", run },         { "gc", gc },
	{ "verify", verify },   { "leave", leave },
	{ "run", run },         { "gc", gc },
	{ "push", push },       { "pull", pull },
	{ "export", export },   { "pin", pin },
	{ "evict", evict_all }, { "tag", tag },
	{ "unpin", unpin },     { "unsent", send_left },
};

static void open_client(struct client *c)
{
	const struct remote_options ro = { .writes = true,
					   .clock = &c->clock,
					   .lease_every_ns = -1 };
	const struct store_options o = { .mode = STORE_READ_WRITE, .names = &manifest_names };
	struct remote *r = NULL;
	struct bucket *b;

	if (bucket_open(BUCKET, NULL, &b, NULL) < 0 || remote_open(b, &ro, &r, NULL) < 0)
		abort();
	c->s = tier_new(c->disk, r, &o);
	if (c->journal)
		tier_keep_unsent(c->s, c->journal);
	c->process++;
	c->faulty = false;
}

#endif

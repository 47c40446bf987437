/* core/protocol/judge.h — what must hold in the world of test_protocol.c: of the bucket, by a
 * reader that knows only the format, and of what each client believes.
 *
 * Only test_protocol.c and its headers include this.
 */
#ifndef CAIRN_TESTS_CORE_PROTOCOL_JUDGE_H
#define CAIRN_TESTS_CORE_PROTOCOL_JUDGE_H

#include "core/protocol/facts.h"
#include "core/protocol/world.h"
#include "storage/action.h"
#include "storage/remote/tier.h"

static bool is_kept(size_t run)
{
	return run + KEPT >= W->n_runs || W->runs[run].pinned;
}

static bool is_whole(const struct facts *f, unsigned tree)
{
	return digest_set_has(f->contents, &trees[tree].digest) &&
	       digest_set_has(f->contents, &blobs[tree][0].digest) &&
	       digest_set_has(f->contents, &blobs[tree][1].digest);
}

struct manifest {
	struct content_id id;
	uint64_t number;
};

static int tree_of(const struct digest *d)
{
	for (int i = 0; i < TREES; i++)
		if (digest_eq(&trees[i].digest, d))
			return i;
	return -1;
}

/* The keys of all objects that there are now, by their digests. */
static struct digest_set *keys_now(void)
{
	struct digest_set *keys = digest_set_new();
	struct facts f;

	facts_init(&f, NAME);
	for (size_t i = 0; i < f.objects.n; i++) {
		struct digest d;

		digest_bytes(f.objects.v[i].key, strlen(f.objects.v[i].key), &d);
		digest_set_add(keys, &d);
	}
	facts_deinit(&f);
	return keys;
}

static bool is_among(const struct digest_set *keys, const char *key)
{
	struct digest d;

	digest_bytes(key, strlen(key), &d);
	return !keys || digest_set_has(keys, &d);
}

/* Does every record in the bucket that counts have what it names? `only`: of those; or NULL. */
static bool records_are_whole(const struct facts *f, const struct digest_set *only)
{
	for (size_t i = 0; i < f->objects.n; i++) {
		_cleanup_(arena_freep) struct arena *arena = NULL;
		const struct seen_object *o = &f->objects.v[i];
		struct action_record a;
		struct digest name;
		int tree = -1;

		if (!is_among(only, o->key))
			continue;
		/* One that is listed to go may outlive what it names: retention has given it up. */
		if ((remote_name_in(o->key, strlen("runs/ab/"), &name) &&
		     digest_set_has(f->condemned, &name)) ||
		    (remote_name_in(o->key, MIN(strlen("actions/ab/"), strlen(o->key)), &name) &&
		     digest_set_has(f->condemned, &name)))
			continue;
		if (str_has_prefix(o->key, "runs/") && o->size == sizeof(struct manifest)) {
			tree = tree_of(
				&((const struct manifest *)(const void *)o->bytes)->id.digest);
		} else if (str_has_prefix(o->key, "actions/")) {
			arena = arena_new();
			if (action_decode(o->bytes, o->size, arena, &a, NULL) < 0 ||
			    a.n_outputs != 1)
				return false;
			tree = tree_of(&a.outputs[0].id.digest);
		} else {
			continue;
		}
		if (tree < 0 || !is_whole(f, (unsigned)tree))
			return false;
	}
	return true;
}

/* Its machine slept: that is told, and what it does then need not succeed. */
static bool is_excused(const struct client *c)
{
	struct err e = { 0 };

	return c->faulty || c->dead ||
	       (c->s && tier_failure(c->s, &e) < 0 && strstr(e.msg, "lapsed"));
}

static void check_beliefs(const struct client *c, const struct facts *f)
{
	struct remote *r = c->s ? tier_remote(c->s) : NULL;

	if (!r || c->dead || !lease_is_good(r))
		return;
	for (unsigned t = 0; t < TREES; t++)
		for (int i = 0; i < 3; i++) {
			const struct content_id *id = i < 2 ? &blobs[t][i] : &trees[t];
			struct remote_object o = { .space = i < 2 ? STORE_BLOB : STORE_TREE,
						   .name = id->digest,
						   .size = UINT64_MAX };
			struct pack_member m;
			uint32_t pack;

			if (presence_find_locked(r, &o, false, &pack, &m) &&
			    !digest_set_has(f->contents, &id->digest))
				broken("client %d believes in %s of tree %u, which isn't there",
				       c->number, i < 2 ? "a blob" : "the listing", t);
		}
}

static void forget_arrived(const struct facts *f)
{
	size_t n = 0;

	for (size_t i = 0; i < W->noted.n; i++)
		if (!digest_set_has(f->records, &W->noted.v[i].hash))
			W->noted.v[n++] = W->noted.v[i];
	W->noted.n = n;
}

static void check(void)
{
	struct facts f;

	W->check = false;
	if (W->damaged || W->failure)
		return;
	facts_init(&f, NAME);
	if (*f.wrong)
		broken("%s", f.wrong);
	for (size_t i = 0; i < W->n_runs; i++)
		if (is_kept(i) && (!digest_set_has(f.records, &W->runs[i].hash) ||
				   !is_whole(&f, W->runs[i].tree)))
			broken("run %zu of %zu, of tree %u, is kept%s, and lost", i, W->n_runs,
			       W->runs[i].tree, W->runs[i].pinned ? " by a name" : "");
	for (size_t i = 0; i < W->tags.n; i++)
		if (!digest_set_has(f.records, &W->tags.v[i]))
			broken("a name that was given is lost");
	if (!W->failure && !records_are_whole(&f, NULL))
		broken("a record names what isn't there");
	for (int i = 0; i < W->n_clients; i++)
		check_beliefs(&W->clients[i], &f);
	forget_arrived(&f);
	facts_deinit(&f);
}

#endif

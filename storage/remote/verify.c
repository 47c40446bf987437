/* Reading a bucket back: everything goes through a scratch store, a batch at a time, so that any size fits and the directory stays as it is. */
#include <stdio.h>
#include <sys/random.h>
#include "base/fs.h"
#include "storage/action.h"
#include "storage/remote/internal.h"
#include "storage/remote/tier.h"

#define BATCH_BYTES (256 * MIB)
#define BATCH_OBJECTS 4096

struct verifier {
	struct store *tier;
	struct tier_verify *v;
	struct remote *r;
	struct store *scratch;
	char *scratch_path;
	uint64_t seed, total;
	enum store_space space;
	bool counting;
	uint64_t bytes;
	VEC(struct remote_object) batch, damaged;
	struct err *err;
};

static void problem(struct verifier *v, const struct remote_object *o)
{
	struct store_problem p = { .space = o->space, .name = o->name };

	v->v->problems++;
	err_set(&p.err, ERR_CORRUPT, "damaged in %s, or gone from it", remote_uri(v->r));
	if (v->v->on_problem)
		v->v->on_problem(v->v->arg, &p);
	VEC_PUSH(&v->damaged, *o);
}

static bool in_sample(const struct verifier *v, const struct digest *name)
{
	uint64_t x;

	memcpy(&x, name->b, sizeof(x));
	x = (x ^ v->seed) * 0x9e3779b97f4a7c15ULL;
	return (double)(x >> 11) / (double)(1ULL << 53) < v->v->sample;
}

static void index_problem(struct verifier *v, const struct digest *name)
{
	struct store_problem p = { .space = STORE_BLOB, .name = *name };

	v->v->problems++;
	err_set(&p.err, ERR_CORRUPT, "the index of a pack is damaged in %s: for whoever doesn't know it, what is in it counts as missing", remote_uri(v->r));
	if (v->v->on_problem)
		v->v->on_problem(v->v->arg, &p);
}

/* One that we have is sent again. */
static int verify_index(struct verifier *v, const struct pack *p, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	char key[REMOTE_KEY_MAX];
	struct err e = { 0 };

	remote_pack_key(key, &p->name, true);
	if (remote_get_bytes(v->r, key, PACK_INDEX_MAX, &bytes, &e) < 0 && e.code != ERR_NOT_FOUND)
		return err_set(err, e.code, "%s", e.msg);
	if (bytes.s && pack_index_check(&p->name, bytes.s, bytes.len, NULL) == 0)
		return 0;
	index_problem(v, &p->name);
	if (v->r->o.writes && remote_put_bytes(v->r, key, p->index, p->index_len, false, err) < 0)
		return -1;
	v->v->repaired += v->r->o.writes;
	return 0;
}

/* What lies in a pack whose index nobody can read lies nowhere: all that the directory has is offered again. */
static int verify_indexes(struct verifier *v, struct err *err)
{
	const struct tier_wanted everything = { 0 };
	struct remote_sent sent;
	size_t n = v->r->packs.n, n_bad = v->r->bad_indexes.n;

	for (size_t i = 0; i < n; i++) {
		const struct pack p = v->r->packs.v[i];

		if (!p.gone && in_sample(v, &p.name) && verify_index(v, &p, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < n_bad; i++)
		index_problem(v, &v->r->bad_indexes.v[i]);
	if (n_bad == 0 || !v->r->o.writes)
		return 0;
	if (tier_push(v->tier, &everything, &sent, err) < 0)
		return -1;
	v->v->repaired += n_bad;
	return 0;
}

/* A record is named by what it answers, so that its bytes must be looked at. */
static bool is_sound(struct verifier *v, const struct remote_object *o)
{
	_cleanup_(arena_freep) struct arena *arena = NULL;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct action_record a;

	if (!o->there || o->space != STORE_ACTION)
		return o->there;
	arena = arena_new();
	return store_get(v->scratch, STORE_ACTION, &o->name, ACTION_RECORD_MAX, &bytes, NULL) == 0 &&
	       action_decode(bytes.s ? bytes.s : "", bytes.len, arena, &a, NULL) == 0;
}

static int open_scratch(struct verifier *v, struct err *err)
{
	return store_dir_open(v->scratch_path, true, &v->scratch, err);
}

static void drop_scratch(struct verifier *v)
{
	store_free(TAKE_PTR(v->scratch));
	fs_remove_tree(v->scratch_path, NULL);
}

static int check_batch(struct verifier *v)
{
	int got;

	if (v->batch.n == 0)
		return 0;
	if (open_scratch(v, v->err) < 0)
		return -1;
	got = remote_fetch(v->r, v->scratch, v->batch.v, v->batch.n, v->err);
	for (size_t i = 0; i < v->batch.n && got == 0; i++)
		if (!is_sound(v, &v->batch.v[i])) {
			if (v->batch.v[i].space == STORE_ACTION && v->batch.v[i].there)
				presence_note_bad(v->r, STORE_ACTION, &v->batch.v[i].name, BAD_ALONE);
			problem(v, &v->batch.v[i]);
		}
	v->v->checked += v->batch.n;
	if (v->v->on_progress)
		v->v->on_progress(v->v->arg, v->v->checked, v->total);
	v->batch.n = 0;
	v->bytes = 0;
	drop_scratch(v);
	return got;
}

static int take(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct remote_object o = { .name = *name, .size = UINT64_MAX };
	struct verifier *v = arg;

	if (!in_sample(v, name))
		return 0;
	if (v->counting) {
		v->total++;
		return 0;
	}
	o.space = v->space;
	VEC_PUSH(&v->batch, o);
	v->bytes += size;
	return v->batch.n >= BATCH_OBJECTS || v->bytes >= BATCH_BYTES ? check_batch(v) : 0;
}

static int each_space(struct verifier *v, bool counting, struct err *err)
{
	int got = 0;

	v->counting = counting;
	for (int space = 0; space < STORE_SPACES && got == 0; space++) {
		v->space = (enum store_space)space;
		got = remote_list(v->r, v->space, take, v, err);
		if (got == 0)
			got = check_batch(v);
	}
	return got;
}

/* Only what the directory has, and sound: sending looks at it. */
static int repair(struct verifier *v, struct err *err)
{
	struct store *local = tier_local(v->tier);
	struct remote_sent sent = { 0 };
	size_t m = 0;

	for (size_t i = 0; i < v->damaged.n; i++) {
		struct remote_object o = v->damaged.v[i];
		const uint64_t any = UINT64_MAX;
		bool here = false;
		int fd;

		o.there = false;
		o.replace = true;
		if (local->ops->has(local, o.space, &o.name, &any, 1, &here, err) < 0)
			return -1;
		if (!here)
			continue;
		if (o.space == STORE_BLOB && local->ops->open(local, &o.name, UINT64_MAX, &fd, &o.size, NULL) == 0)
			close(fd);
		v->damaged.v[m++] = o;
	}
	if (m && remote_send(v->r, local, v->damaged.v, m, &sent, err) < 0)
		return -1;
	for (size_t i = 0; i < m; i++)
		v->v->repaired += v->damaged.v[i].there;
	return 0;
}

int tier_verify(struct store *s, struct tier_verify *tv, struct err *err)
{
	struct verifier v = { .tier = s, .v = tv, .r = tier_remote(s), .err = err };
	int got;

	if (!v.r)
		return err_set(err, ERR_USAGE, "%s is no shared store", s->uri);
	tv->checked = tv->problems = tv->repaired = 0;
	while (getrandom(&v.seed, sizeof(v.seed), 0) != (ssize_t)sizeof(v.seed))
		;
	v.scratch_path = xasprintf("%s/tmp/verify-%ld", tier_local(s)->uri, (long)getpid());
	fs_remove_tree(v.scratch_path, NULL);
	got = each_space(&v, true, err);
	if (got == 0)
		got = each_space(&v, false, err);
	if (got == 0 && v.damaged.n && v.r->o.writes)
		got = repair(&v, err);
	if (got == 0)
		got = verify_indexes(&v, err);
	drop_scratch(&v);
	free(v.scratch_path);
	VEC_FREE(&v.batch);
	VEC_FREE(&v.damaged);
	return got;
}

int tier_repair(struct store *s, enum store_space space, const struct digest *name, bool *ret_there, struct err *err)
{
	struct remote_object o = { .space = space, .name = *name, .size = UINT64_MAX };

	if (!tier_remote(s) || remote_fetch(tier_remote(s), tier_local(s), &o, 1, err) < 0)
		return -1;
	*ret_there = o.there;
	return 0;
}

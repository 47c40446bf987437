/* storage/remote/verify.c — reads a bucket back, and repairs it, while others write and collect.
 *
 * 1. Indexes of packs. The name of a pack is written only once, because a collector may be removing
 * it. So a damaged or lost index is never restored: the members of its pack go into a new pack, and
 * the bad index is removed. An index whose pack is gone is removed.
 * 2. Every object, in batches, through a scratch store, so that any size fits. An object that was
 * listed and is now gone was collected: no problem. An object that doesn't match its name is
 * damaged.
 * 3. What records name. A record that names missing content is the worst fault, and no listing of
 * objects shows it. Missing content is reported once, under its own name.
 * 4. Repair from the directory: contents first, then records whose contents are all there. Only
 * objects that can be read back afterwards count as repaired.
 *
 * One thread, under a lease that was renewed at the beginning. Earlier knowledge of the bucket is
 * forgotten (presence_forget()).
 */
#include <stdio.h>
#include "base/os/machine.h"
#include "storage/closure.h"
#include "storage/remote/internal.h"
#include "storage/remote/tier.h"

#define BATCH_BYTES   (256 * MIB)
#define BATCH_OBJECTS 4096
/* Tries, if what records name changes while it is checked. */
#define CHANGES_MAX 8

struct record {
	enum store_space space;
	struct digest name;
	/* Start of an action's contents in `contents`; they end where the next record's
	 * begin. */
	size_t contents;
};

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
	VEC(struct digest) lost_indexes; /* whose packs couldn't be saved completely */
	VEC(struct record) records;
	VEC(struct content_id) contents;
	struct digest_set *reported[STORE_SPACES];
	struct err *err;
};

static void problem(struct verifier *v, const struct remote_object *o, enum err_code code,
		    const char *what)
{
	struct store_problem p = { .space = o->space, .name = o->name };

	if (!digest_set_add(v->reported[o->space], &o->name))
		return;
	v->v->problems++;
	err_set(&p.err, code, "%s in %s", what, remote_uri(v->r));
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

static int open_scratch(struct verifier *v, struct err *err)
{
	return tier_scratch(v->tier, v->scratch_path, &v->scratch, err);
}

static void drop_scratch(struct verifier *v)
{
	tier_scratch_drop(v->tier, v->scratch_path, &v->scratch);
}

/* Indexes. */

static void index_problem(struct verifier *v, const struct digest *name, const char *what)
{
	struct store_problem p = { .space = STORE_BLOB, .name = *name };

	v->v->problems++;
	err_set(&p.err, ERR_CORRUPT, "in %s %s", remote_uri(v->r), what);
	if (v->v->on_problem)
		v->v->on_problem(v->v->arg, &p);
}

static int is_there(struct verifier *v, const char *key, bool *ret, struct err *err)
{
	uint64_t size;

	return bucket_head_many(v->r->bucket, &key, 1, ret, &size, err);
}

/* Moves all readable members of the pack into a new one. *ret_all: all members were readable. */
static int salvage(struct verifier *v, const struct pack *p, bool *ret_all, struct err *err)
{
	_cleanup_(pack_writer_freep) struct pack_writer *w = NULL;
	struct remote_object *o = xcalloc(p->n + 1, sizeof(*o));
	uint64_t bytes;
	int got;

	for (size_t i = 0; i < p->n; i++) {
		struct pack_member m;

		pack_index_at(p->index, i, &m);
		o[i] = (struct remote_object){ .space = m.space, .name = m.name, .size = m.size };
	}
	*ret_all = true;
	got = open_scratch(v, err);
	if (got == 0)
		got = remote_fetch(v->r, v->scratch, o, p->n, err);
	if (got == 0)
		got = pack_writer_new(v->r->dir, &w, err);
	for (size_t i = 0; i < p->n && got == 0; i++) {
		*ret_all &= o[i].there;
		got = o[i].there ? tier_pack_add(w, v->scratch, &o[i], err) : 0;
	}
	if (got == 0 && pack_writer_members(w))
		got = remote_send_pack(v->r, w, &bytes, err);
	drop_scratch(v);
	free(o);
	return got;
}

static int drop_index(struct verifier *v, size_t at, struct err *err)
{
	char key[REMOTE_KEY_MAX];
	const char *k;

	k = remote_pack_key(key, &v->r->packs.v[at].name, true);
	pthread_mutex_lock(&v->r->lock);
	v->r->packs.v[at].gone = v->r->slots.old = true;
	pthread_mutex_unlock(&v->r->lock);
	return bucket_delete_many(v->r->bucket, &k, 1, err);
}

static int repair_index(struct verifier *v, size_t at, const struct pack *p, struct err *err)
{
	bool all;

	if (!v->r->o.writes)
		return 0;
	if (salvage(v, p, &all, err) < 0)
		return -1;
	if (!all) { /* others may need the pack until the unreadable members are repaired */
		VEC_PUSH(&v->lost_indexes, p->name);
		return 0;
	}
	if (drop_index(v, at, err) < 0)
		return -1;
	v->v->repaired++;
	return 0;
}

/* A collector condemns before it removes, and removes an index before its pack. So if an index is
 * gone, and its pack exists and isn't on the current list, the index was lost. */
static int judge_lost_index(struct verifier *v, size_t at, const struct pack *p, struct err *err)
{
	char key[REMOTE_KEY_MAX];
	bool there = false, condemned;

	if (condemned_load(v->r, err) < 0)
		return -1;
	pthread_mutex_lock(&v->r->lock);
	condemned = condemned_since(v->r, KIND_PACK, &p->name) != 0;
	pthread_mutex_unlock(&v->r->lock);
	if (!condemned && is_there(v, remote_pack_key(key, &p->name, false), &there, err) < 0)
		return -1;
	if (!there) {
		pthread_mutex_lock(&v->r->lock);
		v->r->packs.v[at].gone = v->r->slots.old = true;
		pthread_mutex_unlock(&v->r->lock);
		return 0;
	}
	index_problem(v, &p->name,
		      "the index of a pack is gone: what is in the pack counts as missing");
	return repair_index(v, at, p, err);
}

/* The pack can't be read. A collector removes the index before the pack, so a present index with an
 * absent pack isn't a collection in progress. */
static int judge_lost_pack(struct verifier *v, size_t at, const struct pack *p, struct err *err)
{
	char key[REMOTE_KEY_MAX];
	bool there = true;

	if (is_there(v, remote_pack_key(key, &p->name, true), &there, err) < 0 || !there)
		return there ? -1 : 0;
	index_problem(v, &p->name,
		      "a pack is missing, but its index is there: other machines take its contents "
		      "for present");
	if (!v->r->o.writes)
		return 0;
	if (drop_index(v, at, err) < 0)
		return -1;
	/* No process relies on it any more; members that are needed are reported as missing. */
	v->v->repaired++;
	return 0;
}

static int verify_index(struct verifier *v, size_t at, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	const struct pack p = v->r->packs.v[at]; /* the list may grow */
	char key[REMOTE_KEY_MAX];
	struct err e = { 0 };
	bool there = false;

	remote_pack_key(key, &p.name, true);
	if (remote_get_bytes(v->r, key, PACK_INDEX_MAX, &bytes, &e) < 0 && e.code != ERR_TOO_LARGE)
		return e.code == ERR_NOT_FOUND ? judge_lost_index(v, at, &p, err)
					       : err_pass(err, &e);
	if (!bytes.s || pack_index_check(&p.name, bytes.s, bytes.len, STORE_TREE, NULL) < 0) {
		index_problem(v, &p.name,
			      "the index of a pack is damaged: on machines without a copy of the "
			      "index, what is in the pack counts as missing");
		return repair_index(v, at, &p, err);
	}
	if (is_there(v, remote_pack_key(key, &p.name, false), &there, err) < 0)
		return -1;
	return there ? 0 : judge_lost_pack(v, at, &p, err);
}

static int verify_indexes(struct verifier *v, struct err *err)
{
	size_t n = v->r->packs.n;

	for (size_t i = 0; i < v->r->bad_indexes.n; i++) {
		VEC_PUSH(&v->lost_indexes, v->r->bad_indexes.v[i]);
		index_problem(v, &v->r->bad_indexes.v[i],
			      "the index of a pack is damaged: what is in it counts as missing");
	}
	for (size_t i = 0; i < n; i++)
		if (!v->r->packs.v[i].gone && in_sample(v, &v->r->packs.v[i].name) &&
		    verify_index(v, i, err) < 0)
			return -1;
	return 0;
}

/* Objects. */

static int note_content(void *arg, const struct content_id *id)
{
	struct verifier *v = arg;

	VEC_PUSH(&v->contents, *id);
	return 0;
}

/* A record's name isn't the digest of its bytes, so the bytes must be decoded. `names`: also notes
 * what it names. */
static bool is_sound_action(struct verifier *v, const struct digest *name, bool names)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct action_record a;

	if (store_get(v->scratch, STORE_ACTION, name, ACTION_RECORD_MAX, &bytes, NULL) < 0 ||
	    action_decode(bytes.s ? bytes.s : "", bytes.len, arena, &a, NULL) < 0)
		return false;
	if (names)
		closure_of_action(&a, &(struct closure_sink){ note_content, NULL, v });
	return true;
}

static void judge(struct verifier *v, const struct remote_object *o)
{
	const struct record rec = { .space = o->space, .name = o->name, .contents = v->contents.n };

	bool sound = o->there;

	if (sound && o->space == STORE_ACTION && !is_sound_action(v, &o->name, true)) {
		presence_note_bad(v->r, STORE_ACTION, &o->name, BAD_ALONE);
		sound = false;
	} else if (sound && (o->space == STORE_ACTION || o->space == STORE_RUN)) {
		VEC_PUSH(&v->records, rec);
	}
	/* A damaged copy beside an intact one is harmless. */
	if (!sound && presence_is_damaged(v->r, o->space, &o->name))
		problem(v, o, ERR_CORRUPT, "damaged");
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
		judge(v, &v->batch.v[i]);
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

/* What records name. */

/* Checks in the bucket itself, whatever is condemned, known or remembered. */
static int look_for(struct verifier *v, struct remote_object *o, size_t n, struct err *err)
{
	char(*keys)[REMOTE_KEY_MAX] = xcalloc(n + 1, sizeof(*keys));
	_cleanup_(freep) const char **ask = xcalloc(n + 1, sizeof(*ask));
	_cleanup_(freep) size_t *place = xcalloc(n + 1, sizeof(*place));
	_cleanup_(freep) bool *there = xcalloc(n + 1, sizeof(*there));
	_cleanup_(freep) uint64_t *sizes = xcalloc(n + 1, sizeof(*sizes));
	size_t m = 0;
	int got;

	pthread_mutex_lock(&v->r->io);
	got = presence_load(v->r, err);
	pthread_mutex_unlock(&v->r->io);
	pthread_mutex_lock(&v->r->lock);
	for (size_t i = 0; i < n; i++) {
		struct pack_member member;
		uint32_t pack;

		o[i].there = o[i].space <= STORE_TREE &&
			     presence_find_locked(v->r, &o[i], true, &pack, &member);
		if (!o[i].there && o[i].space != STORE_TREE &&
		    (o[i].space != STORE_BLOB || o[i].size >= REMOTE_LOOSE_MIN)) {
			ask[m] = remote_key(keys[m], o[i].space, &o[i].name);
			place[m++] = i;
		}
	}
	pthread_mutex_unlock(&v->r->lock);
	if (got == 0 && m)
		got = bucket_head_many(v->r->bucket, ask, m, there, sizes, err);
	for (size_t i = 0; i < m && got == 0; i++)
		o[place[i]].there = there[i];
	free(keys);
	return got;
}

typedef VEC(struct remote_object) object_list;

static int take_name(void *arg, enum store_space space, const struct digest *name, uint64_t size)
{
	object_list *l = arg;
	struct remote_object o = { .space = space, .name = *name, .size = size };

	VEC_PUSH(l, o);
	return 0;
}

/* Lists what these records name, as far as readable now. Skips records with gone[i]. */
static int list_named(struct verifier *v, const bool *gone, struct digest_set *unread,
		      object_list *ret, struct err *err)
{
	VEC(struct digest) manifests = { 0 };
	VEC(struct content_id) contents = { 0 };
	struct transfer_named named = { .names = v->v->names, .unread = unread };
	int got;

	for (size_t i = 0; i < v->records.n; i++) {
		const struct record *rec = &v->records.v[i];
		size_t end = i + 1 < v->records.n ? v->records.v[i + 1].contents : v->contents.n;

		if (gone[i])
			continue;
		if (rec->space == STORE_RUN)
			VEC_PUSH(&manifests, rec->name);
		for (size_t k = rec->contents; rec->space == STORE_ACTION && k < end; k++)
			VEC_PUSH(&contents, v->contents.v[k]);
	}
	named.manifests = manifests.v;
	named.n_manifests = manifests.n;
	named.contents = contents.v;
	named.n_contents = contents.n;
	got = transfer_each_named(v->tier, &named, take_name, ret, err);
	if (got == 0)
		got = tier_failure(v->tier, err); /* objects that couldn't be read named nothing */
	VEC_FREE(&manifests);
	VEC_FREE(&contents);
	return got;
}

static int keeps_changing(struct verifier *v, struct err *err)
{
	return err_set(
		err, ERR_CHANGED,
		"%s kept changing while it was verified; verify again when fewer runs write to it",
		remote_uri(v->r));
}

/* Lists what these records name that is missing. A listing that arrives during the check names
 * objects that weren't checked, so all are checked again. */
static int list_missing(struct verifier *v, const bool *gone, object_list *ret, struct err *err)
{
	bool again = true;

	for (int tries = 0; again; tries++) {
		_cleanup_(digest_set_freep) struct digest_set *unread = digest_set_new();
		size_t m = 0;

		if (tries == CHANGES_MAX)
			return keeps_changing(v, err);
		again = false;
		ret->n = 0;
		remote_expect_changes(v->r);
		if (list_named(v, gone, unread, ret, err) < 0 ||
		    look_for(v, ret->v, ret->n, err) < 0)
			return -1;
		for (size_t i = 0; i < ret->n; i++) {
			again |= ret->v[i].there && ret->v[i].space == STORE_TREE &&
				 digest_set_has(unread, &ret->v[i].name);
			if (!ret->v[i].there)
				ret->v[m++] = ret->v[i];
		}
		ret->n = m;
	}
	return 0;
}

/* gone[i]: the record is absent now, or condemned. */
static int see_which_are_gone(struct verifier *v, bool *gone, struct err *err)
{
	struct remote_object *o = xcalloc(v->records.n + 1, sizeof(*o));
	int got;

	for (size_t i = 0; i < v->records.n; i++)
		o[i] = (struct remote_object){ .space = v->records.v[i].space,
					       .name = v->records.v[i].name,
					       .size = UINT64_MAX };
	got = look_for(v, o, v->records.n, err);
	if (got == 0)
		got = condemned_load(v->r, err);
	pthread_mutex_lock(&v->r->lock);
	for (size_t i = 0; i < v->records.n && got == 0; i++)
		gone[i] = !o[i].there || presence_is_unusable_locked(v->r, o[i].space, &o[i].name);
	pthread_mutex_unlock(&v->r->lock);
	free(o);
	return got;
}

/* A collector condemns records before it removes what they name. So an object is really missing if
 * it was missing twice, and in between a record that names it was present and not condemned. An
 * object that is missing only now (a new listing names it) must be checked twice too. */
static int verify_named(struct verifier *v, struct err *err)
{
	_cleanup_(freep) bool *gone = xcalloc(v->records.n + 1, sizeof(*gone));
	object_list before = { 0 }, after = { 0 }, tmp;
	bool again = true;
	int got = list_missing(v, gone, &before, err);

	for (int tries = 0; got == 0 && before.n && again; tries++) {
		struct digest_set *was[2] = { digest_set_new(), digest_set_new() };

		again = false;
		for (size_t i = 0; i < before.n; i++)
			digest_set_add(was[before.v[i].space], &before.v[i].name);
		got = see_which_are_gone(v, gone, err);
		if (got == 0)
			got = list_missing(v, gone, &after, err);
		for (size_t i = 0; i < after.n && got == 0; i++)
			if (digest_set_has(was[after.v[i].space], &after.v[i].name))
				problem(v, &after.v[i], ERR_NOT_FOUND,
					"missing, though a record names it,");
			else
				again = true;
		tmp = before;
		before = after;
		after = tmp;
		digest_set_free(was[STORE_BLOB]);
		digest_set_free(was[STORE_TREE]);
		if (got == 0 && again && tries == CHANGES_MAX)
			got = keeps_changing(v, err);
	}
	VEC_FREE(&before);
	VEC_FREE(&after);
	return got;
}

/* Repair. */

/* Lists damaged objects that the directory has: contents, or records. */
static int list_here(struct verifier *v, bool records, object_list *ret, struct err *err)
{
	struct store *local = tier_local(v->tier);

	for (size_t i = 0; i < v->damaged.n; i++) {
		struct remote_object o = v->damaged.v[i];
		bool here = false;
		int fd;

		if ((o.space > STORE_TREE) != records)
			continue;
		o.there = false;
		o.replace = true;
		if (store_has_object(local, o.space, &o.name, UINT64_MAX, &here, err) < 0)
			return -1;
		if (!here)
			continue;
		if (o.space == STORE_BLOB &&
		    local->ops->open(local, &o.name, UINT64_MAX, &fd, &o.size, NULL) == 0)
			close(fd);
		VEC_PUSH(ret, o);
	}
	return 0;
}

/* Reads back what was sent: nothing else shows that it is there now. */
static int read_back(struct verifier *v, struct err *err)
{
	int got = 0;

	for (size_t from = 0; from < v->damaged.n && got == 0; from += BATCH_OBJECTS) {
		struct remote_object *o = v->damaged.v + from;
		size_t n = MIN(v->damaged.n - from, (size_t)BATCH_OBJECTS);

		got = open_scratch(v, err);
		if (got == 0)
			got = remote_fetch(v->r, v->scratch, o, n, err);
		for (size_t i = 0; i < n && got == 0; i++) {
			o[i].there = o[i].there && (o[i].space != STORE_ACTION ||
						    is_sound_action(v, &o[i].name, false));
			v->v->repaired += o[i].there;
		}
		drop_scratch(v);
	}
	return got;
}

static int repair(struct verifier *v, struct err *err)
{
	struct store *local = tier_local(v->tier);
	object_list contents = { 0 }, records = { 0 };
	struct remote_sent sent = { 0 };
	bool whole = true;
	int got;

	presence_forget(v->r);
	got = list_here(v, false, &contents, err);
	if (got == 0 && contents.n)
		got = remote_send(v->r, local, contents.v, contents.n, &sent, err);
	if (got == 0)
		got = list_here(v, true, &records, err);
	if (got == 0)
		got = transfer_send_whole(v->tier, v->v->names, records.v, records.n, &sent, err);
	VEC_FREE(&contents);
	VEC_FREE(&records);
	if (got == 0)
		got = read_back(v, err);
	for (size_t i = 0; i < v->damaged.n; i++)
		whole &= v->damaged.v[i].there;
	/* All needed content is present, so these indexes can go. */
	for (size_t i = 0; i < v->lost_indexes.n && got == 0 && whole; i++) {
		char key[REMOTE_KEY_MAX];
		const char *k = remote_pack_key(key, &v->lost_indexes.v[i], true);

		got = bucket_delete_many(v->r->bucket, &k, 1, err);
		v->v->repaired += got == 0;
	}
	return got;
}

int tier_verify(struct store *s, struct tier_verify *tv, struct err *err)
{
	struct verifier v = { .tier = s, .v = tv, .r = tier_remote(s), .err = err };
	int got;

	if (!v.r)
		return err_set(err, ERR_USAGE, "%s is no shared store", s->uri);
	tv->checked = tv->problems = tv->repaired = 0;
	random_bytes(&v.seed, sizeof(v.seed));
	v.scratch_path = xasprintf("%s/tmp/verify-%ld", tier_local(s)->uri, (long)getpid());
	drop_scratch(&v);
	for (int space = 0; space < STORE_SPACES; space++)
		v.reported[space] = digest_set_new();
	remote_expect_changes(v.r);
	got = remote_attach(v.r, err);
	if (got == 0 && remote_renew(v.r, err) < 0) /* packs are written under the lease */
		got = -1;
	presence_forget(v.r); /* this command trusts no earlier knowledge */
	if (got ==
	    0) /* loads new packs, forgets none: an index that only we have may save a pack */
		got = presence_load_new(v.r, err);
	if (got == 0)
		got = verify_indexes(&v, err);
	if (got == 0)
		got = each_space(&v, true, err);
	if (got == 0)
		got = each_space(&v, false, err);
	if (got == 0)
		got = verify_named(&v, err);
	if (got == 0 && (v.damaged.n || v.lost_indexes.n) && v.r->o.writes)
		got = repair(&v, err);
	drop_scratch(&v);
	free(v.scratch_path);
	for (int space = 0; space < STORE_SPACES; space++)
		digest_set_free(v.reported[space]);
	VEC_FREE(&v.batch);
	VEC_FREE(&v.damaged);
	VEC_FREE(&v.lost_indexes);
	VEC_FREE(&v.records);
	VEC_FREE(&v.contents);
	return got;
}

int tier_repair(struct store *s, enum store_space space, const struct digest *name, bool *ret_there,
		struct err *err)
{
	struct remote_object o = { .space = space, .name = *name, .size = UINT64_MAX };

	if (!tier_remote(s) || remote_fetch(tier_remote(s), tier_local(s), &o, 1, err) < 0)
		return -1;
	*ret_there = o.there;
	return 0;
}

/* storage/remote/collect.c — collects garbage in a bucket. remote.h says what makes it safe. The
 * steps, and the reasons for their order:
 *
 * 1. Take a lock, which also tells the server's time.
 * 2. Read the leases. A holder may believe present anything that wasn't on the list when its lease
 * began.
 * 3. Read the condemned list, and the packs.
 * 4. Mark. A process that ended after its lease was read published its records before it gave the
 * lease back, so the mark sees them.
 * 5. Rewrite packs that are mostly dead, or small, into new ones; the old packs are then dead.
 * 6. Publish the new list of all dead objects, including those of this sweep, because processes
 * that start now must treat them as absent. What doesn't fit is left to a later collector. Objects
 * are listed in the order of judging, so that no content is listed before the records that name it.
 * 7. Sweep what was on the old list for long enough, if no lease is older than its entry, and no
 * dead record that stays for now names it. Records go before what they name, indexes before their
 * packs.
 *
 * An entry's time is the time of the first published list that has the entry, because only then
 * could others see it. One thread. still_locked() runs before each write and each batch of
 * deletions, because this machine may have slept. local/gc.c does the mark, on a view (struct view)
 * with the records that the bucket lists.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <unistd.h>
#include "base/os/machine.h"
#include "storage/remote/internal.h"
#include "storage/remote/tier.h"

#define LOCK_PREFIX "gc/lock-"
/* Servers report whole seconds. */
#define CLOCK_GRAIN_NS  (2 * NS_PER_S)
#define DELETES_AT_ONCE 1000
/* A multipart upload this old will never be continued. */
#define UPLOAD_STALE_NS (7 * 24 * 3600 * NS_PER_S)
/* Packs below this size are merged when there are many. */
#define SMALL_PACK      (8 * MIB)
#define SMALL_PACKS_MIN 16
/* Fetched together into memory; large objects are moved one by one, through a file. */
#define REPACK_BYTES   (32 * MIB)
#define REPACK_OBJECTS 8192

struct doomed {
	uint8_t kind;
	struct digest name;
	uint64_t size;
	char version[64]; /* of a manifest */
};

struct collector {
	struct remote *r;
	const struct remote_gc_options *o;
	struct store_gc_options base;
	struct remote_gc_result *res;
	char *lock;
	/* Server time; boot time (base.now_ns: server time when the roots were named). */
	int64_t now_ns, locked_at_ns;
	int64_t oldest_lease_ns; /* INT64_MAX: no live leases */
	bool fresh;              /* this process only collects, so its own lease doesn't count */
	struct digest_set *live[STORE_SPACES];
	struct digest_set *held[STORE_SPACES]; /* named by dead records that stay for now */
	struct condemned next;                 /* the next list */
	int64_t sweep_after_ns; /* when the first of them may be removed; 0: it is empty */
	size_t fresh_left;      /* how many new entries still fit */
	VEC(struct doomed) doomed;
	/* Keys that are deleted without being condemned: leases and locks of dead processes, packs
	 * without an index. */
	VEC(char *) plain;
	struct map *pack_sizes; /* packs that have an index */
	enum store_space space;
};

/* A lock or lease of this age belongs to a dead process. */
static int64_t expiry_ns(const struct collector *c)
{
	return c->o->lease_expiry_ns ? c->o->lease_expiry_ns : c->r->o.lease_ns;
}

/* Lock and leases. */

struct other_lock {
	char *key;
	int64_t mtime_ns;
};

struct lock_state {
	struct collector *c;
	int64_t others_ns; /* newest lock of the others */
	int64_t mine_ns;
	VEC(struct other_lock) others;
};

static int see_lock(void *arg, const struct bucket_object *o)
{
	struct lock_state *l = arg;
	struct other_lock other = { .mtime_ns = o->mtime_ns };

	if (str_eq(o->key, l->c->lock)) {
		l->mine_ns = o->mtime_ns;
		return 0;
	}
	l->others_ns = MAX(l->others_ns, o->mtime_ns);
	other.key = xstrdup(o->key);
	VEC_PUSH(&l->others, other);
	return 0;
}

static int write_lock(struct collector *c, struct err *err)
{
	int64_t before_ns = remote_boottime_ns(c->r);

	if (remote_put_bytes(c->r, c->lock, "", 0, false, err) < 0)
		return -1;
	c->locked_at_ns = before_ns;
	return 0;
}

static int held_up(struct err *err)
{
	return err_set(err, ERR_BUSY,
		       "this `cairn store gc` took too long and lost its lease; start it again");
}

/* Each collector writes its own lock, then looks for others. Of two that start at once, at least
 * one sees the other. */
static int take_lock(struct collector *c, struct err *err)
{
	struct lock_state look = { .c = c };
	int got;

	c->lock = xasprintf(LOCK_PREFIX "%016llx", (unsigned long long)random_u64());
	got = write_lock(c, err);
	if (got == 0)
		got = bucket_list(c->r->bucket, LOCK_PREFIX, NULL, 0, see_lock, &look, err);
	for (size_t i = 0; i < look.others.n; i++) {
		struct other_lock *other = &look.others.v[i];

		if (got == 0 && other->mtime_ns < look.mine_ns - expiry_ns(c))
			VEC_PUSH(&c->plain, TAKE_PTR(other->key)); /* of a dead process */
		free(other->key);
	}
	VEC_FREE(&look.others);
	if (got < 0)
		return -1;
	if (look.mine_ns == 0 && remote_boottime_ns(c->r) - c->locked_at_ns > expiry_ns(c) / 2)
		return held_up(err); /* others took us for dead */
	if (look.mine_ns == 0)
		return err_set(err, ERR_IO,
			       "%s doesn't list what was just written; collecting isn't safe there",
			       remote_uri(c->r));
	c->now_ns = look.mine_ns;
	/* Objects that the caller may not have known when it named the roots must count as young,
	 * however long it slept since. */
	c->base.now_ns = c->now_ns;
	if (c->o->roots_ns && c->o->roots_ns < c->locked_at_ns)
		c->base.now_ns -= c->locked_at_ns - c->o->roots_ns;
	if (look.others_ns > c->now_ns - expiry_ns(c))
		return err_set(err, ERR_BUSY, "another `cairn store gc` is at work in %s",
			       remote_uri(c->r));
	return 0;
}

/* The condition of writes: we must not overwrite a list that another collector has published. */
static bool lock_holds(void *arg)
{
	const struct collector *c = arg;

	return remote_boottime_ns(c->r) - c->locked_at_ns <= expiry_ns(c) / 2;
}

/* We may have slept longer than other collectors wait. */
static int still_locked(struct collector *c, struct err *err)
{
	int64_t age_ns = remote_boottime_ns(c->r) - c->locked_at_ns;

	if (age_ns > expiry_ns(c) / 2)
		return held_up(err);
	return age_ns > expiry_ns(c) / 6 ? write_lock(c, err) : 0;
}

static int see_lease(void *arg, const struct bucket_object *o)
{
	struct collector *c = arg;
	int64_t started_ns = o->mtime_ns;
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err e = { 0 };

	if (c->fresh && c->r->lease.key && str_eq(o->key, c->r->lease.key))
		return 0; /* our own lease */
	if (o->mtime_ns < c->now_ns - expiry_ns(c)) {
		VEC_PUSH(&c->plain, xstrdup(o->key));
		return 0;
	}
	if (remote_get_bytes(c->r, o->key, 64, &text, &e) < 0)
		started_ns = e.code == ERR_NOT_FOUND ? INT64_MAX
						     : INT64_MIN; /* given back; or unknown */
	else if (text.len)
		started_ns = MIN(started_ns, (int64_t)strtoll(text.s, NULL, 10));
	c->res->leases += started_ns != INT64_MAX;
	c->oldest_lease_ns = MIN(c->oldest_lease_ns, started_ns);
	return 0;
}

/* The store that the mark reads: records as the bucket lists them, contents from anywhere. */

struct view {
	struct store base;
	struct store *reader;
	struct remote *r;
	int64_t locked_ns; /* server time from before the packs were listed */
};

static int view_get(struct store *s, enum store_space space, const struct digest *name,
		    uint64_t max_bytes, struct str *ret, struct err *err)
{
	struct store *reader = CONTAINER_OF(s, struct view, base)->reader;
	struct err e = { 0 };

	if (reader->ops->get(reader, space, name, max_bytes, ret, &e) == 0)
		return 0;
	/* An object that can't be fetched now isn't lost. If the mark took it as lost, it would
	 * condemn what it names. */
	return tier_failure(reader, err) < 0 ? -1 : err_pass(err, &e);
}

struct view_listing {
	struct view *view;
	store_list_fn *fn;
	void *arg;
};

/* A record written after the packs were listed may name content in a newer pack. Reading it doesn't
 * reveal that, because the directory may have the content. */
static int view_listed(void *arg, const struct digest *name, uint64_t size_bytes, int64_t mtime_ns)
{
	struct view_listing *l = arg;

	if (mtime_ns >= l->view->locked_ns - CLOCK_GRAIN_NS)
		remote_expect_changes(l->view->r);
	return l->fn(l->arg, name, size_bytes, mtime_ns);
}

static int view_list(struct store *s, enum store_space space, store_list_fn *fn, void *arg,
		     struct err *err)
{
	struct view_listing l = { CONTAINER_OF(s, struct view, base), fn, arg };

	return remote_list(l.view->r, space, view_listed, &l, err);
}

static bool view_set_aside(struct store *s, enum store_space space, const struct digest *name)
{
	struct store *reader = CONTAINER_OF(s, struct view, base)->reader;

	return reader->ops->set_aside(reader, space, name);
}

static int view_open(struct store *s, const struct digest *name, uint64_t size, int *ret_fd,
		     uint64_t *ret_size, struct err *err)
{
	struct store *reader = CONTAINER_OF(s, struct view, base)->reader;

	return reader->ops->open(reader, name, size, ret_fd, ret_size, err);
}

static int view_bring(struct store *s, const struct content_id *ids, size_t n,
		      enum store_bring what, struct err *err)
{
	struct store *reader = CONTAINER_OF(s, struct view, base)->reader;

	return store_bring(reader, ids, n, what, err);
}

static int view_bring_records(struct store *s, enum store_space space, const struct digest *names,
			      size_t n, struct err *err)
{
	struct store *reader = CONTAINER_OF(s, struct view, base)->reader;

	return store_bring_records(reader, space, names, n, err);
}

/* Since when it is on the list, if it wasn't written since; else 0. */
static int64_t still_condemned(const struct collector *c, enum remote_kind kind,
			       const struct digest *name, int64_t mtime_ns)
{
	int64_t since_ns = condemned_since(c->r, kind, name);

	return mtime_ns <= since_ns ? since_ns : 0;
}

static bool is_young(const struct collector *c, int64_t mtime_ns)
{
	return mtime_ns > c->base.now_ns - c->base.grace_ns;
}

/* Whether a dead object, on the list since then, was there for long enough. It may be young here,
 * if this collector slept between its roots and its lock. Then it stays, and stays listed. */
static bool is_due(const struct collector *c, int64_t since_ns, int64_t mtime_ns)
{
	return since_ns && since_ns + c->base.mark_gap_ns <= c->now_ns && !is_young(c, mtime_ns);
}

/* Whether all live processes read a list with it when they began. */
static bool all_know(const struct collector *c, int64_t since_ns)
{
	return c->oldest_lease_ns > since_ns + CLOCK_GRAIN_NS;
}

/* For the mark: whether this collection removes that dead record. */
static bool goes(void *arg, enum store_space space, const struct digest *name, int64_t mtime_ns)
{
	const struct collector *c = arg;
	int64_t since_ns = still_condemned(c, remote_kind_of(space), name, mtime_ns);

	return is_due(c, since_ns, mtime_ns) && all_know(c, since_ns);
}

static int mark(struct collector *c, struct err *err)
{
	static const struct store_shared_ops shared = {
		.bring = view_bring,
		.bring_records = view_bring_records,
	};
	static const struct store_ops ops = {
		.get = view_get,
		.list = view_list,
		.set_aside = view_set_aside,
		.open = view_open,
		.shared = &shared,
	};
	struct view v = { .reader = c->o->reader, .r = c->r, .locked_ns = c->now_ns };
	int got;

	if (condemned_list_len(&c->r->condemned.list)) {
		c->base.goes = goes;
		c->base.goes_arg = c;
	}
	store_base_init(&v.base, &ops, remote_uri(c->r));
	got = store_mark(&v.base, &c->base, c->live, c->held, &c->res->base, err);
	store_base_deinit(&v.base);
	return got;
}

/* Judging. */

static bool is_live(const struct collector *c, enum store_space space, const struct digest *name)
{
	return digest_set_has(c->live[space], name);
}

static bool is_held(const struct collector *c, enum store_space space, const struct digest *name)
{
	return space <= STORE_TREE && digest_set_has(c->held[space], name);
}

/* An object that isn't reached and isn't young. */
struct dead_object {
	enum remote_kind kind;
	const struct digest *name;
	uint64_t size;
	int64_t mtime_ns;
	const char *version; /* of a manifest: only this one is deleted, where the store can */
	bool held;           /* a record that stays names it */
};

/* Lists it. Dooms it if it was on the last list for long enough, no lease is older, and it isn't
 * held. */
static void judge_dead(struct collector *c, const struct dead_object *o)
{
	const int64_t since_ns = still_condemned(c, o->kind, o->name, o->mtime_ns);
	const int64_t due_ns = (since_ns ? since_ns : c->now_ns) + c->base.mark_gap_ns;
	struct condemned_entry entry = { .dead_ns = since_ns, .listed_ns = since_ns };
	struct doomed d = { .kind = (uint8_t)o->kind, .name = *o->name, .size = o->size };

	c->res->base.condemned++;
	c->res->base.condemned_bytes += o->size;
	/* What is held makes room for the records that hold it, if they found none. */
	if (c->fresh_left == 0 && (!since_ns || o->held)) {
		c->res->base.unlisted++;
		return;
	}
	c->fresh_left -= !since_ns;
	if (is_due(c, since_ns, o->mtime_ns) && !o->held) {
		if (all_know(c, since_ns)) {
			snprintf(d.version, sizeof(d.version), "%s", o->version);
			VEC_PUSH(&c->doomed, d);
		} else {
			c->res->kept_for_leases++;
		}
	}
	condemned_list_key((uint8_t)o->kind, o->name, entry.key);
	condemned_list_add(&c->next, &entry);
	if (c->sweep_after_ns == 0 || due_ns < c->sweep_after_ns)
		c->sweep_after_ns = due_ns;
}

static int judge_alone(void *arg, const struct bucket_object *o)
{
	struct collector *c = arg;
	struct digest name;

	if (!remote_name_in(o->key, strlen(store_space_names[c->space]) + 4, &name))
		return 0;
	if (is_live(c, c->space, &name))
		c->res->base.live++;
	else if (is_young(c, o->mtime_ns))
		c->res->base.young++;
	else
		judge_dead(c, &(struct dead_object){ .kind = remote_kind_of(c->space),
						     .name = &name,
						     .size = o->size,
						     .mtime_ns = o->mtime_ns,
						     .version = *o->version ? o->version : o->etag,
						     .held = is_held(c, c->space, &name) });
	return 0;
}

/* Packs. */

/* Bytes of the members needed from this pack: live ones that no better pack has. *ret_all: bytes of
 * all members. The pack's own size isn't used, because a tiny pack is mostly header. */
static uint64_t needed_bytes(struct collector *c, size_t i, uint64_t *ret_all)
{
	const struct pack *p = &c->r->packs.v[i];
	uint64_t n = 0;

	*ret_all = 0;
	for (size_t k = 0; k < p->n; k++) {
		struct pack_member m, first;
		struct remote_object o = { .size = UINT64_MAX };
		uint32_t pack;

		pack_index_at(p->index, k, &m);
		*ret_all += m.stored + 1;
		if (!is_live(c, m.space, &m.name))
			continue;
		o.space = m.space;
		o.name = m.name;
		if (presence_find_locked(c->r, &o, false, &pack, &first) && pack != i)
			continue;
		n += m.stored + 1;
	}
	return n;
}

struct repack {
	struct collector *c;
	struct pack_writer *w;
	uint64_t bytes; /* of the batch */
	VEC(struct remote_object) batch;
	struct digest_set *taken[2]; /* by space: members moved, or in a pack that is kept */
	struct digest_set
		*unread[2]; /* by space: members that couldn't be read; their packs are kept */
};

static int write_repacked(struct repack *rp, struct err *err)
{
	uint64_t sent;
	int got = 0;

	if (rp->w && pack_writer_members(rp->w)) {
		got = remote_send_pack(rp->c->r, rp->w, &sent, err);
		rp->c->res->packs_written += got == 0;
	}
	pack_writer_free(TAKE_PTR(rp->w));
	return got;
}

/* A copy that can't be read counts as missing, and its pack is kept. */
static int move_member(struct repack *rp, struct store *scratch, const struct remote_object *o,
		       struct err *err)
{
	struct err e = { 0 };

	if (rp->w && pack_writer_is_full(rp->w, o->size) && write_repacked(rp, err) < 0)
		return -1;
	if (!rp->w && pack_writer_new(rp->c->r->dir, &rp->w, err) < 0)
		return -1;
	if (!o->there || tier_pack_add(rp->w, scratch, o, &e) < 0) {
		if (o->there && e.code != ERR_NOT_FOUND && e.code != ERR_CORRUPT)
			return err_pass(err, &e);
		digest_set_add(rp->unread[o->space], &o->name);
		return 0;
	}
	rp->c->res->moved++;
	rp->c->res->moved_bytes += o->size;
	return 0;
}

/* Large objects are moved one by one, through a file. */
static bool is_large(const struct remote_object *o)
{
	return o->space == STORE_BLOB && o->size >= REMOTE_LOOSE_MIN;
}

static int repack_batch(struct repack *rp, struct err *err)
{
	struct store *reader = rp->c->o->reader, *scratch = NULL;
	_cleanup_(freep) char *path = NULL;
	int got = 0;

	if (rp->batch.n == 0)
		return 0;
	if (is_large(&rp->batch.v[0]) && tier_local(reader)) {
		path = xasprintf("%s/tmp/gc-%ld", tier_local(reader)->uri, (long)getpid());
		tier_scratch_drop(reader, path, &scratch); /* left by a killed process of this id */
		got = tier_scratch(reader, path, &scratch, err);
	} else {
		scratch = store_memory_new();
	}
	if (got == 0)
		got = remote_fetch(rp->c->r, scratch, rp->batch.v, rp->batch.n, err);
	for (size_t i = 0; i < rp->batch.n && got == 0; i++)
		got = move_member(rp, scratch, &rp->batch.v[i], err);
	rp->batch.n = 0;
	rp->bytes = 0;
	if (path)
		tier_scratch_drop(reader, path, &scratch);
	store_free(scratch);
	return got;
}

static int repack_pack(struct repack *rp, size_t i, struct err *err)
{
	const struct pack p = rp->c->r->packs.v[i]; /* the list may grow */

	for (size_t k = 0; k < p.n; k++) {
		struct remote_object o = { 0 };
		struct pack_member m;

		pack_index_at(p.index, k, &m);
		if (!is_live(rp->c, m.space, &m.name) ||
		    !digest_set_add(rp->taken[m.space], &m.name))
			continue;
		o = (struct remote_object){ .space = m.space, .name = m.name, .size = m.size };
		if (is_large(&o) && repack_batch(rp, err) < 0)
			return -1;
		VEC_PUSH(&rp->batch, o);
		rp->bytes += m.size;
		if ((is_large(&o) || rp->bytes >= REPACK_BYTES || rp->batch.n >= REPACK_OBJECTS) &&
		    repack_batch(rp, err) < 0)
			return -1;
	}
	return 0;
}

enum pack_verdict {
	PACK_KEPT,
	PACK_DEAD,    /* nothing needs it */
	PACK_REWRITE, /* what is needed of it moves into a new pack; then it is dead */
};

/* One for each of the n packs; the caller frees them. *ret_anew: how many are to be rewritten. */
static enum pack_verdict *judge_packs(struct collector *c, size_t n, size_t *ret_anew)
{
	enum pack_verdict *verdict = xcalloc(n + 1, sizeof(*verdict));
	size_t n_small = 0;

	*ret_anew = 0;
	for (size_t i = 0; i < n; i++) {
		const struct pack *p = &c->r->packs.v[i];

		n_small += !p->gone && !p->condemned && !is_young(c, p->mtime_ns) &&
			   p->size < SMALL_PACK;
	}
	for (size_t i = 0; i < n; i++) {
		const struct pack *p = &c->r->packs.v[i];
		uint64_t needed, all;

		if (p->gone || is_young(c, p->mtime_ns))
			continue;
		needed = needed_bytes(c, i, &all);
		if (needed == 0)
			verdict[i] = PACK_DEAD;
		else if (!p->condemned && p->size <= 4 * PACK_BYTES_MAX &&
			 (needed < all / 2 || (p->size < SMALL_PACK && n_small >= SMALL_PACKS_MIN)))
			verdict[i] = PACK_REWRITE;
		*ret_anew += verdict[i] == PACK_REWRITE;
	}
	return verdict;
}

/* True when all needed members could be read, and are in a new pack. */
static bool is_moved(const struct repack *rp, size_t i)
{
	const struct pack *p = &rp->c->r->packs.v[i];
	struct pack_member m;

	for (size_t k = 0; k < p->n; k++) {
		pack_index_at(p->index, k, &m);
		if (digest_set_has(rp->unread[m.space], &m.name))
			return false;
	}
	return true;
}

/* Members of a kept pack aren't moved. Else they would be in two packs, and the next collectors
 * would rewrite one of them again and again. */
static void take_kept(struct repack *rp, const enum pack_verdict *verdict, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct pack *p = &rp->c->r->packs.v[i];
		struct pack_member m;

		for (size_t k = 0; k < p->n && verdict[i] == PACK_KEPT && !p->gone && !p->condemned;
		     k++) {
			pack_index_at(p->index, k, &m);
			if (is_live(rp->c, m.space, &m.name))
				digest_set_add(rp->taken[m.space], &m.name);
		}
	}
}

/* Rewrites, and changes those verdicts to DEAD or KEPT. No old pack is given up before all new
 * packs are written. */
static int write_anew(struct collector *c, enum pack_verdict *verdict, size_t n, struct err *err)
{
	struct repack rp = { .c = c };
	int got = 0;

	for (int space = STORE_BLOB; space <= STORE_TREE; space++) {
		rp.taken[space] = digest_set_new();
		rp.unread[space] = digest_set_new();
	}
	take_kept(&rp, verdict, n);
	for (size_t i = 0; i < n && got == 0; i++)
		if (verdict[i] == PACK_REWRITE)
			got = repack_pack(&rp, i, err);
	if (got == 0)
		got = repack_batch(&rp, err);
	if (got == 0)
		got = write_repacked(&rp, err);
	for (size_t i = 0; i < n; i++)
		if (verdict[i] == PACK_REWRITE)
			verdict[i] = got == 0 && is_moved(&rp, i) ? PACK_DEAD : PACK_KEPT;
	for (int space = STORE_BLOB; space <= STORE_TREE; space++) {
		digest_set_free(rp.taken[space]);
		digest_set_free(rp.unread[space]);
	}
	pack_writer_free(rp.w);
	VEC_FREE(&rp.batch);
	return got;
}

static bool holds_any(const struct collector *c, const struct pack *p)
{
	bool held = false;

	for (size_t k = 0; k < p->n && !held; k++) {
		struct pack_member m;

		pack_index_at(p->index, k, &m);
		held = is_held(c, m.space, &m.name);
	}
	return held;
}

static int collect_packs(struct collector *c, struct err *err)
{
	size_t n, anew;
	enum pack_verdict *verdict;
	int got = 0;

	pthread_mutex_lock(&c->r->lock);
	n = c->r->packs.n;
	verdict = judge_packs(c, n, &anew);
	pthread_mutex_unlock(&c->r->lock);
	if (anew && !c->base.dry_run)
		got = write_anew(c, verdict, n, err);
	for (size_t i = 0; i < n && got == 0; i++) {
		const struct pack *p = &c->r->packs.v[i];

		*map_slot(c->pack_sizes, p->name.b, DIGEST_BYTES, NULL) = c;
		if (p->gone)
			continue;
		if (verdict[i] == PACK_DEAD)
			judge_dead(c, &(struct dead_object){ .kind = KIND_PACK,
							     .name = &p->name,
							     .size = p->size + p->index_len,
							     .mtime_ns = p->mtime_ns,
							     .version = "",
							     .held = holds_any(c, p) });
		else if (is_young(c, p->mtime_ns))
			c->res->base.young += p->n;
		else
			c->res->base.live += p->n;
	}
	free(verdict);
	return got;
}

/* Handles a pack without an index (its writer died, or is about to write the index), and an
 * unreadable index with its pack. */
static int see_orphan(void *arg, const struct bucket_object *o)
{
	struct collector *c = arg;
	struct digest name;

	if (!remote_name_in(o->key, strlen("packs/"), &name) ||
	    map_has(c->pack_sizes, name.b, DIGEST_BYTES))
		return 0;
	if (o->mtime_ns <= c->base.now_ns - MAX(c->base.grace_ns, expiry_ns(c)) &&
	    o->mtime_ns + CLOCK_GRAIN_NS < c->oldest_lease_ns) {
		VEC_PUSH(&c->plain, xstrdup(o->key));
		c->res->base.temporaries++;
		c->res->base.temporary_bytes += o->size;
	}
	return 0;
}

/* The list and the sweep. */

static int publish_list(struct collector *c, struct err *err)
{
	struct bucket_put p = { .key = CONDEMNED_KEY, .fd = -1, .may = lock_holds, .may_arg = c };

	if (condemned_list_len(&c->next) == 0 && condemned_list_len(&c->r->condemned.list) == 0)
		return 0;
	condemned_list_end(&c->next);
	p.bytes = c->next.bytes.s;
	p.size = c->next.bytes.len;
	return still_locked(c, err) < 0 || bucket_put(c->r->bucket, &p, err) < 0 ? -1 : 0;
}

struct deletion {
	struct collector *c;
	struct arena *arena;
	VEC(const char *) keys;
};

static int flush_deletes(struct deletion *d, struct err *err)
{
	if (d->keys.n && (still_locked(d->c, err) < 0 ||
			  bucket_delete_many(d->c->r->bucket, d->keys.v, d->keys.n, err) < 0))
		return -1;
	d->keys.n = 0;
	arena_free(d->arena);
	d->arena = arena_new();
	return 0;
}

static int delete_later(struct deletion *d, const char *key, struct err *err)
{
	VEC_PUSH(&d->keys, (const char *)arena_strdup(d->arena, key));
	return d->keys.n >= DELETES_AT_ONCE ? flush_deletes(d, err) : 0;
}

/* A manifest may have been pushed again meanwhile, under the same name; with the same bytes, and so
 * with the same etag. */
static int delete_run(struct collector *c, const struct doomed *d, const char *key, struct err *err)
{
	_cleanup_(str_deinit) struct str strings = { 0 };
	struct bucket_object o;
	struct err e = { 0 };

	if (still_locked(c, err) < 0)
		return -1;
	if (bucket_head(c->r->bucket, key, &o, &strings, &e) < 0)
		return e.code == ERR_NOT_FOUND ? 0 : err_pass(err, &e);
	if (is_young(c, o.mtime_ns))
		return 0;
	if (c->r->delete_if && *d->version)
		return bucket_delete_if(c->r->bucket, key, d->version, err) < 0 ? -1 : 0;
	return bucket_delete_many(c->r->bucket, &key, 1, err);
}

static int sweep_kind(struct deletion *del, enum remote_kind kind, bool index, struct err *err)
{
	static const enum store_space spaces[] = {
		[KIND_BLOB] = STORE_BLOB, [KIND_ACTION] = STORE_ACTION, [KIND_RUN] = STORE_RUN
	};
	struct collector *c = del->c;

	for (size_t i = 0; i < c->doomed.n; i++) {
		const struct doomed *d = &c->doomed.v[i];
		char key[REMOTE_KEY_MAX];

		if (d->kind != kind)
			continue;
		if (kind == KIND_PACK)
			remote_pack_key(key, &d->name, index);
		else
			remote_key(key, spaces[kind], &d->name);
		if ((kind == KIND_RUN ? delete_run(c, d, key, err) : delete_later(del, key, err)) <
		    0)
			return -1;
	}
	return flush_deletes(del, err);
}

/* Deletes records before what they name, indexes before their packs. */
static int sweep(struct collector *c, struct err *err)
{
	struct deletion del = { .c = c, .arena = arena_new() };
	uint64_t n;
	int got = 0;

	if (sweep_kind(&del, KIND_RUN, false, err) < 0 ||
	    sweep_kind(&del, KIND_ACTION, false, err) < 0 ||
	    sweep_kind(&del, KIND_PACK, true, err) < 0 ||
	    sweep_kind(&del, KIND_PACK, false, err) < 0 ||
	    sweep_kind(&del, KIND_BLOB, false, err) < 0)
		got = -1;
	for (size_t i = 0; i < c->plain.n && got == 0; i++)
		got = delete_later(&del, c->plain.v[i], err);
	if (got == 0)
		got = flush_deletes(&del, err);
	if (got == 0)
		got = bucket_abort_stale(c->r->bucket,
					 MIN(c->now_ns - UPLOAD_STALE_NS, c->oldest_lease_ns), &n,
					 err);
	arena_free(del.arena);
	VEC_FREE(&del.keys);
	return got;
}

static void count_doomed(struct collector *c)
{
	struct store_gc_result *res = &c->res->base;

	for (size_t i = 0; i < c->doomed.n; i++) {
		res->deleted++;
		res->deleted_bytes += c->doomed.v[i].size;
		c->res->packs_removed += c->doomed.v[i].kind == KIND_PACK;
	}
	res->first_mark = c->doomed.n == 0 && res->condemned > 0;
	res->sweep_after_ns = c->sweep_after_ns;
}

/* All. */

static int judge_all(struct collector *c, struct err *err)
{
	static const enum store_space spaces[] = { STORE_RUN, STORE_ACTION, STORE_BLOB };

	for (size_t i = 0; i < ARRAY_LEN(spaces); i++) {
		char prefix[16];

		c->space = spaces[i];
		snprintf(prefix, sizeof(prefix), "%s/", store_space_names[c->space]);
		if (bucket_list(c->r->bucket, prefix, NULL, 0, judge_alone, c, err) < 0)
			return -1;
	}
	if (collect_packs(c, err) < 0)
		return -1;
	return bucket_list(c->r->bucket, "packs/", NULL, 0, see_orphan, c, err);
}

static int reload(struct collector *c, struct err *err)
{
	size_t list_max =
		c->base.list_max ? c->base.list_max : condemned_list_max(CONDEMNED_BUCKET);
	int got;

	pthread_mutex_lock(&c->r->io);
	got = condemned_load(c->r, err);
	if (got == 0)
		got = presence_load(c->r, err);
	pthread_mutex_unlock(&c->r->io);
	c->fresh_left = list_max - MIN(list_max, condemned_list_len(&c->r->condemned.list));
	return got;
}

/* Removes what crashes left in the directory, because no other gc runs there. */
static int sweep_directory(struct collector *c, struct err *err)
{
	struct store *here = c->o->reader->here;
	struct clock *clock = c->r->o.clock;
	int64_t now_ns = clock->wall_ns(clock);
	struct store_leftovers l;

	if (!here->ops->gc->leftovers)
		return 0;
	if (here->ops->gc->leftovers(here, LEFTOVER_TEMPORARY,
				     now_ns - MAX(c->base.grace_ns, expiry_ns(c)), false, &l,
				     err) < 0 ||
	    here->ops->gc->leftovers(here, LEFTOVER_CORRUPT, now_ns - UPLOAD_STALE_NS, false, &l,
				     err) < 0)
		return -1;
	return 0;
}

static int collect(struct collector *c, struct err *err)
{
	if (take_lock(c, err) < 0 ||
	    bucket_list(c->r->bucket, LEASES_PREFIX, NULL, 0, see_lease, c, err) < 0 ||
	    reload(c, err) < 0 || mark(c, err) < 0 || still_locked(c, err) < 0 ||
	    judge_all(c, err) < 0)
		return -1;
	count_doomed(c);
	if (c->base.dry_run)
		return 0;
	return publish_list(c, err) < 0 || sweep(c, err) < 0 ? -1 : sweep_directory(c, err);
}

int remote_gc(struct remote *r, const struct remote_gc_options *o, struct remote_gc_result *ret,
	      struct err *err)
{
	struct collector c = { .r = r,
			       .next.form = CONDEMNED_BUCKET,
			       .o = o,
			       .base = o->base,
			       .res = ret,
			       .oldest_lease_ns = INT64_MAX,
			       .pack_sizes = map_new() };
	struct err e = { 0 };
	int got;

	assert(o->reader && o->lease_expiry_ns >= 0 && o->base.mark_gap_ns >= r->o.mark_gap_ns - 1);
	*ret = (struct remote_gc_result){ 0 };
	c.fresh = lease_number(r) == 0;
	got = remote_attach(r, err);
	if (got == 0 && !r->o.writes)
		got = err_set(err, ERR_READ_ONLY, "%s is used read-only: nothing can be collected",
			      remote_uri(r));
	if (got == 0 && remote_renew(r, err) < 0)
		got = -1;
	if (got == 0)
		got = collect(&c, err ? err : &e);
	if (got < 0 && err && err->code == ERR_CHANGED)
		held_up(err);
	if (c.lock) {
		const char *key = c.lock;

		bucket_delete_many(r->bucket, &key, 1, NULL);
	}
	free(c.lock);
	for (int i = 0; i < STORE_SPACES; i++) {
		digest_set_free(c.live[i]);
		digest_set_free(c.held[i]);
	}
	for (size_t i = 0; i < c.plain.n; i++)
		free(c.plain.v[i]);
	VEC_FREE(&c.plain);
	condemned_list_deinit(&c.next);
	VEC_FREE(&c.doomed);
	map_free(c.pack_sizes);
	return got;
}

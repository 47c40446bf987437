/* storage/remote/transfer.c — push and pull, of what manifests reach or of everything.
 *
 * What records reach (struct closure) is found level by level: in the directory for a push, through
 * the tier for a pull, which fetches each level of trees in one batch. Only the name and size of
 * each object are kept, by space. Objects are moved in batches. A push sends contents before
 * records. A pull begins with the records, which tell what to fetch: a directory in front of a
 * bucket may have records whose contents are only there.
 *
 * A push of everything needs no closure. A push trusts a closure only if all its listings could be
 * read and all its contents arrived. Else send_whole() checks, record by record, whether the bucket
 * has all that the record names. If a lease lapses meanwhile (ERR_CHANGED), the push starts again,
 * at most PUSH_TRIES times.
 *
 * An object that is gone or damaged names nothing, and is counted. Any other failure ends the call,
 * because then we don't know what is named.
 *
 * A call belongs to one thread. send.c and fetch.c move the bytes; tier_queue.c has the queue of a
 * running process.
 */
#include "storage/closure.h"
#include "storage/remote/internal.h"
#include "storage/remote/tier.h"
#include "storage/remote/unsent.h"

/* Objects per batch; limits the memory. */
#define BATCH_MAX 100000
/* Gives up when leases lapse this often during a push. */
#define PUSH_TRIES 3

struct found_object {
	struct digest name;
	uint64_t size;
	bool replace;
};

struct closure {
	struct store *s;
	const struct closure_names *names;
	struct digest_set *seen[STORE_SPACES];
	struct found {
		VEC(struct found_object) v;
	} objects[STORE_SPACES];
	closure_trees trees;             /* still to walk */
	bool unread;                     /* a tree couldn't be read */
	struct digest_set *unread_names; /* trees that couldn't be read; or NULL */
	VEC(struct digest) keys;
};

static bool add_object(struct closure *c, enum store_space space, const struct digest *name,
		       uint64_t size)
{
	struct found_object o = { .name = *name, .size = size };
	bool is_new = digest_set_add(c->seen[space], name);

	if (is_new)
		VEC_PUSH(&c->objects[space].v, o);
	return is_new;
}

static int add_content(void *arg, const struct content_id *id)
{
	struct closure *c = arg;
	enum store_space space = content_space(id);

	if (space != STORE_SPACES && add_object(c, space, &id->digest, id->size_bytes) &&
	    space == STORE_TREE)
		VEC_PUSH(&c->trees, *id);
	return 0;
}

static int add_key(void *arg, const struct digest *key)
{
	struct closure *c = arg;

	VEC_PUSH(&c->keys, *key);
	return 0;
}

static int add_manifest(struct closure *c, const struct digest *hash, struct err *err)
{
	const struct closure_sink sink = { add_content, add_key, c };
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (!add_object(c, STORE_RUN, hash, UINT64_MAX))
		return 0;
	if (store_get(c->s, STORE_RUN, hash, RUN_MANIFEST_MAX, &bytes, err) < 0)
		return err_wrap(err, "reading the manifest of a run");
	return closure_of_manifest(c->s, c->names, bytes.s, bytes.len, &sink, err);
}

/* Tells whether the object is absent or damaged. */
static bool is_gone(const struct err *e)
{
	return e->code == ERR_NOT_FOUND || e->code == ERR_CORRUPT || e->code == ERR_INVALID ||
	       e->code == ERR_TOO_LARGE;
}

/* An absent record names nothing, but we must know that it is absent. */
static int add_record(struct closure *c, const struct digest *key, struct err *err)
{
	const struct closure_sink sink = { add_content, NULL, c };
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct action_record *v;
	struct digest *names;
	struct err e = { 0 };
	size_t n;

	if (action_observations(c->s, key, arena, &v, &names, &n, &e) < 0)
		return is_gone(&e) ? 0 : err_set(err, e.code, "reading a record: %s", e.msg);
	for (size_t i = 0; i < n; i++) {
		add_object(c, STORE_ACTION, &names[i], UINT64_MAX);
		closure_of_action(&v[i], &sink);
	}
	return 0;
}

static int add_records(struct closure *c, struct err *err)
{
	action_expect(c->s, c->keys.v, c->keys.n);
	for (size_t i = 0; i < c->keys.n; i++)
		if (add_record(c, &c->keys.v[i], err) < 0)
			return -1;
	c->keys.n = 0;
	return 0;
}

/* The tree counts as missing later, when it is moved itself. */
static int note_unread(void *arg, const struct content_id *tree, const struct err *why,
		       struct err *err)
{
	struct closure *c = arg;

	c->unread = true;
	if (c->unread_names)
		digest_set_add(c->unread_names, &tree->digest);
	return 0;
}

static int add_trees(struct closure *c, struct err *err)
{
	const struct closure_sink sink = { add_content, NULL, c };

	return closure_of_trees(c->s, &c->trees, &sink, note_unread, err);
}

static void closure_init(struct closure *c)
{
	for (int space = 0; space < STORE_SPACES; space++)
		c->seen[space] = digest_set_new();
}

/* The manifests, and the records of their keys. */
static int find_records(struct closure *c, const struct tier_wanted *w, struct err *err)
{
	c->names = w->names;
	closure_init(c);
	for (size_t i = 0; i < w->n_manifests; i++)
		if (add_manifest(c, &w->manifests[i], err) < 0)
			return -1;
	return add_records(c, err);
}

static void closure_deinit(struct closure *c)
{
	for (int space = 0; space < STORE_SPACES; space++) {
		digest_set_free(c->seen[space]);
		VEC_FREE(&c->objects[space].v);
	}
	VEC_FREE(&c->trees);
	VEC_FREE(&c->keys);
}

int transfer_each_named(struct store *s, const struct transfer_named *named, transfer_name_fn *fn,
			void *arg, struct err *err)
{
	struct closure c = { .s = s, .names = named->names, .unread_names = named->unread };
	int r = 0;

	closure_init(&c);
	for (size_t i = 0; i < named->n_manifests && named->names && r == 0; i++) {
		struct err e = { 0 };

		/* A manifest that can't be read must not hide what the others name. */
		if (add_manifest(&c, &named->manifests[i], &e) < 0 && !is_gone(&e))
			r = err_pass(err, &e);
	}
	for (size_t i = 0; i < named->n_contents; i++)
		add_content(&c, &named->contents[i]);
	if (r == 0)
		r = add_trees(&c, err);
	for (int space = STORE_BLOB; space <= STORE_TREE && r == 0; space++)
		for (size_t i = 0; i < c.objects[space].v.n && r == 0; i++) {
			const struct found_object *o = &c.objects[space].v.v[i];

			r = fn(arg, (enum store_space)space, &o->name, o->size);
		}
	closure_deinit(&c);
	return r;
}

/* Batches. */

struct mover {
	enum store_space space;
	VEC(struct remote_object) batch;
	int (*move)(void *arg, struct remote_object *v, size_t n, struct err *err);
	void *arg;
	struct err *err;
};

static int flush(struct mover *e)
{
	int r = e->batch.n ? e->move(e->arg, e->batch.v, e->batch.n, e->err) : 0;

	e->batch.n = 0;
	return r;
}

static int add_to_batch(struct mover *e, const struct remote_object *o)
{
	VEC_PUSH(&e->batch, *o);
	return e->batch.n >= BATCH_MAX ? flush(e) : 0;
}

static int take_listed(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct mover *e = arg;

	return add_to_batch(
		e, &(struct remote_object){ .space = e->space, .name = *name, .size = size });
}

/* Moves what is listed from a space on: contents before the first record, because a pushed record
 * must not become visible before what it names. */
static int move_listed(struct mover *e, enum store_space from, struct store *local,
		       struct remote *remote, struct err *err)
{
	int r = 0;

	e->err = err;
	for (int space = from; space < STORE_SPACES && r == 0; space++) {
		e->space = (enum store_space)space;
		r = local ? store_list(local, e->space, take_listed, e, err)
			  : remote_list(remote, e->space, take_listed, e, err);
		if (r == 0)
			r = flush(e);
	}
	VEC_FREE(&e->batch);
	return r;
}

static int move_closure(struct mover *e, const struct closure *c, struct err *err)
{
	int r = 0;

	e->err = err;
	for (int space = 0; space < STORE_SPACES && r == 0; space++) {
		e->space = (enum store_space)space;
		for (size_t i = 0; i < c->objects[space].v.n && r == 0; i++) {
			const struct found_object *f = &c->objects[space].v.v[i];

			r = add_to_batch(e, &(struct remote_object){ .space = e->space,
								     .name = f->name,
								     .size = f->size,
								     .replace = f->replace });
		}
		if (r == 0)
			r = flush(e);
	}
	VEC_FREE(&e->batch);
	return r;
}

/* Push. */

struct push {
	struct store *local;
	struct remote *remote;
	struct remote_sent *sent;
	const struct closure_names *names;
	struct store *tier;
	bool closed;  /* the closure is complete: it has all that its records name */
	bool lacking; /* some content to send is in neither place */
};

/* Adds a record and what it names. A record that is gone (collected, damaged) is skipped. */
static int add_named(struct closure *c, const struct unsent_record *u, struct err *err)
{
	const struct closure_sink sink = { add_content, NULL, c };
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct action_record a;
	size_t before = c->objects[u->space].v.n;
	int r = 0;

	if (u->space == STORE_RUN)
		r = add_manifest(c, &u->name, err);
	else if (u->space == STORE_TAG)
		add_object(c, STORE_TAG, &u->name, UINT64_MAX); /* its manifest has its own entry */
	else if ((r = store_get(c->s, STORE_ACTION, &u->name, ACTION_RECORD_MAX, &bytes, err)) ==
			 0 &&
		 action_decode(bytes.s, bytes.len, arena, &a, NULL) == 0) {
		add_object(c, STORE_ACTION, &u->name, UINT64_MAX);
		closure_of_action(&a, &sink);
	}
	if (c->objects[u->space].v.n > before)
		c->objects[u->space].v.v[before].replace = u->replace;
	return r;
}

/* Checks whether the bucket has all contents of the closure. */
static int contents_are_there(struct push *p, const struct closure *c, bool *ret, struct err *err)
{
	VEC(struct remote_object) v = { 0 };
	int r = 0;

	for (int space = STORE_BLOB; space <= STORE_TREE; space++)
		for (size_t i = 0; i < c->objects[space].v.n; i++) {
			const struct found_object *f = &c->objects[space].v.v[i];
			struct remote_object o = { .space = (enum store_space)space,
						   .name = f->name,
						   .size = f->size };

			VEC_PUSH(&v, o);
		}
	if (v.n)
		r = remote_has(p->remote, v.v, v.n, err);
	for (size_t i = 0; i < v.n; i++)
		*ret &= v.v[i].there;
	VEC_FREE(&v);
	return r;
}

/* Checks whether the bucket has all that this record names. */
static int is_whole(struct push *p, const struct remote_object *o, bool *ret, struct err *err)
{
	struct closure c = { .s = p->tier,
			     .names = p->names }; /* the tier also looks in the bucket */
	const struct unsent_record u = { .space = o->space, .name = o->name };
	uint64_t failures = tier_failures(p->tier);
	int r;

	closure_init(&c);
	*ret = add_named(&c, &u, NULL) == 0 && c.objects[o->space].v.n > 0;
	r = add_trees(&c, err);
	*ret &= !c.unread;
	if (r == 0 && !*ret)
		r = tier_failed_since(p->tier, failures, err);
	if (r == 0)
		r = contents_are_there(p, &c, ret,
				       err); /* records of its keys are sent separately */
	closure_deinit(&c);
	return r;
}

/* Sends only records whose contents are all in the bucket. Content that the directory lacks (after
 * a pull during a gc, or damage) may be gone from the bucket too. Sets `there` of each; changes
 * their order. */
static int send_whole(struct push *p, struct remote_object *v, size_t n, struct err *err)
{
	size_t m = 0;

	if (remote_has(p->remote, v, n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		bool whole = true;

		if (v[i].there && !v[i].replace) {
			p->sent->skipped++;
			continue;
		}
		v[i].there = false;
		if (v[i].space == STORE_RUN && !p->names)
			continue; /* what it names is unknown */
		if (is_whole(p, &v[i], &whole, err) < 0)
			return -1;
		if (whole) {
			struct remote_object o = v[i];

			v[i] = v[m];
			v[m++] = o;
		} else {
			p->sent->missing++;
		}
	}
	return m ? remote_send(p->remote, p->local, v, m, p->sent, err) : 0;
}

/* A batch is of one space; contents are sent before records. */
static int send_batch(void *arg, struct remote_object *v, size_t n, struct err *err)
{
	struct push *p = arg;
	bool records = v[0].space == STORE_ACTION || v[0].space == STORE_RUN;

	if (records && (p->lacking || !p->closed))
		return send_whole(p, v, n, err);
	if (remote_send(p->remote, p->local, v, n, p->sent, err) < 0)
		return -1;
	for (size_t i = 0; i < n && v[i].space <= STORE_TREE; i++)
		p->lacking |= !v[i].there;
	return 0;
}

int transfer_send_whole(struct store *tier, const struct closure_names *names,
			struct remote_object *v, size_t n, struct remote_sent *ret, struct err *err)
{
	struct push p = { .local = tier_local(tier),
			  .remote = tier_remote(tier),
			  .sent = ret,
			  .names = names,
			  .tier = tier };

	return n ? send_whole(&p, v, n, err) : 0;
}

/* What a push sends: the unsent records with what they name, or else what is wanted. */
struct outgoing {
	struct tier_wanted wanted;
	const struct unsent_record *unsent;
	size_t n_unsent;
};

static int find_unsent(struct closure *c, const struct outgoing *outgoing, struct err *err)
{
	closure_init(c);
	for (size_t i = 0; i < outgoing->n_unsent; i++) {
		struct err e = { 0 };

		/* A record that can't be read now fails the call, to be retried later. */
		if (add_named(c, &outgoing->unsent[i], &e) < 0 && !is_gone(&e))
			return err_pass(err, &e);
	}
	return add_records(c, err);
}

static int push_once(struct store *s, const struct outgoing *outgoing, struct remote_sent *ret,
		     struct err *err)
{
	struct push p = { .local = tier_local(s),
			  .remote = tier_remote(s),
			  .sent = ret,
			  .names = outgoing->wanted.names,
			  .tier = s };
	struct mover all = { .move = send_batch, .arg = &p };
	struct closure c = { .s = p.local, .names = p.names };
	int r;

	*ret = (struct remote_sent){ 0 };
	if (outgoing->n_unsent == 0 && outgoing->wanted.n_manifests == 0)
		return move_listed(&all, STORE_BLOB, p.local, NULL, err);
	r = outgoing->n_unsent ? find_unsent(&c, outgoing, err)
			       : find_records(&c, &outgoing->wanted, err);
	if (r == 0)
		r = add_trees(&c, err);
	p.closed = !c.unread; /* members of an evicted listing weren't checked */
	if (r == 0)
		r = move_closure(&all, &c, err);
	closure_deinit(&c);
	return r;
}

/* If the lease lapsed meanwhile (this machine slept), objects in the bucket may be gone. So all is
 * checked and sent again. */
static int push(struct store *s, const struct outgoing *outgoing, struct remote_sent *ret,
		struct err *err)
{
	struct err e = { 0 };
	int r = 0;

	for (int tries = 0; tries < PUSH_TRIES; tries++) {
		r = push_once(s, outgoing, ret, &e);
		if (r == 0 || e.code != ERR_CHANGED || remote_renew(tier_remote(s), NULL) < 0)
			break;
	}
	return r < 0 ? err_pass(err, &e) : 0;
}

int tier_push(struct store *s, const struct tier_wanted *w, struct remote_sent *ret,
	      struct err *err)
{
	if (!tier_remote(s))
		return err_set(err, ERR_USAGE,
			       "%s is a directory: there is nowhere to push to; name an object "
			       "store (`store:` in cairn.yaml, or --store)",
			       s->uri);
	return push(s, &(struct outgoing){ .wanted = *w }, ret, err);
}

int tier_send_unsent(struct store *s, const struct closure_names *names, struct remote_sent *ret,
		     struct err *err)
{
	_cleanup_(freep) struct unsent_record *v = NULL;
	struct outgoing outgoing = { .wanted.names = names };
	struct err e = { 0 };
	int r;

	*ret = (struct remote_sent){ 0 };
	if (tier_remote(s))
		tier_take_unsent(s, &v, &outgoing.n_unsent);
	if (outgoing.n_unsent == 0)
		return 0;
	outgoing.unsent = v;
	r = push(s, &outgoing, ret, &e);
	tier_sent_unsent(s, r < 0 ? &e : NULL);
	return r < 0 ? err_pass(err, &e) : 0;
}

/* Pull. */

struct pull {
	struct store *local;
	struct remote *remote;
	struct tier_pulled *pulled;
	VEC(struct unsent_record) records; /* all that the bucket lists */
};

/* Sets `there` of each; changes their order. */
static int fetch_absent(struct pull *p, struct remote_object *v, size_t n, struct err *err)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		struct remote_object o = v[i];

		if (store_has_object(p->local, o.space, &o.name, o.size, &o.there, err) < 0)
			return -1;
		v[i] = v[m];
		v[o.there ? i : m++] = o;
	}
	if (m && remote_fetch(p->remote, p->local, v, m, err) < 0)
		return -1;
	for (size_t i = 0; i < m; i++)
		p->pulled->fetched += v[i].there;
	return 0;
}

static int fetch_batch(void *arg, struct remote_object *v, size_t n, struct err *err)
{
	struct pull *p = arg;

	if (fetch_absent(p, v, n, err) < 0)
		return -1;
	p->pulled->objects += n;
	for (size_t i = 0; i < n; i++)
		p->pulled->missing += !v[i].there;
	return 0;
}

/* For separate objects the listing has only the stored size. */
static int fetch_listed(void *arg, struct remote_object *v, size_t n, struct err *err)
{
	struct pull *p = arg;

	for (size_t i = 0; i < n; i++) {
		const struct unsent_record rec = { .space = v[i].space, .name = v[i].name };

		v[i].size = UINT64_MAX;
		VEC_PUSH(&p->records, rec);
	}
	return fetch_absent(p, v, n, err);
}

/* All records that the bucket lists, with what they name. Contents aren't listed: of a dead run a
 * pack may still have the listing of a tree, whose members are gone, because others need the pack.
 */
static int find_everything(struct pull *p, struct closure *c, const struct closure_names *names,
			   struct err *err)
{
	struct mover all = { .move = fetch_listed, .arg = p };

	c->names = names;
	closure_init(c);
	if (move_listed(&all, STORE_ACTION, NULL, p->remote, err) < 0)
		return -1;
	for (size_t i = 0; i < p->records.n; i++) {
		const struct unsent_record *rec = &p->records.v[i];
		struct err e = { 0 };

		if (add_named(c, rec, &e) < 0 && !is_gone(&e))
			return err_pass(err, &e);
		add_object(c, rec->space, &rec->name, UINT64_MAX); /* also one that is damaged */
	}
	return 0;
}

/* Level by level, since only a tree that is here tells its members. */
static int fetch_trees(struct pull *p, struct closure *c, struct err *err)
{
	const struct closure_sink sink = { add_content, NULL, c };

	while (c->trees.n) {
		closure_trees level = { 0 };
		VEC(struct remote_object) v = { 0 };
		int r;

		while (c->trees.n && level.n < BATCH_MAX) {
			const struct content_id id = c->trees.v[--c->trees.n];
			const struct remote_object o = { .space = STORE_TREE,
							 .name = id.digest,
							 .size = id.size_bytes };

			VEC_PUSH(&level, id);
			VEC_PUSH(&v, o);
		}
		r = fetch_batch(p, v.v, v.n, err);
		if (r == 0)
			r = closure_of_trees(p->local, &level, &sink, note_unread, err);
		VEC_FREE(&v);
		VEC_FREE(&level);
		if (r < 0)
			return -1;
	}
	c->objects[STORE_TREE].v.n = 0;
	return 0;
}

int tier_pull(struct store *s, const struct tier_wanted *w, struct tier_pulled *ret,
	      struct err *err)
{
	struct pull p = { .local = tier_local(s), .remote = tier_remote(s), .pulled = ret };
	struct mover all = { .move = fetch_batch, .arg = &p };
	struct closure c = { .s = s };
	uint64_t failures;
	int r;

	*ret = (struct tier_pulled){ 0 };
	if (!p.remote)
		return err_set(err, ERR_USAGE,
			       "%s is a directory: there is nowhere to pull from; name an object "
			       "store (`store:` in cairn.yaml, or --store)",
			       s->uri);
	if (remote_attach(p.remote, err) < 0)
		return -1;
	failures = tier_failures(s);
	r = w->n_manifests ? find_records(&c, w, err) : find_everything(&p, &c, w->names, err);
	if (r == 0) /* a record that couldn't be read named nothing */
		r = tier_failed_since(s, failures, err);
	if (r == 0)
		r = fetch_trees(&p, &c, err);
	if (r == 0)
		r = move_closure(&all, &c, err);
	closure_deinit(&c);
	VEC_FREE(&p.records);
	return r == 0 ? p.local->ops->sync(p.local, err) : r;
}

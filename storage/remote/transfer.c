/* storage/remote/transfer.c — push and pull, of what manifests reach or of everything.
 *
 * What manifests reach (struct closure) is found level by level, in one store: the directory for a
 * push, the tier for a pull (which then fetches each level of trees in one batch). Only the name
 * and size of each object are kept, by space. Objects are moved in batches, contents before
 * records.
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

struct closure {
	struct store *s;
	const struct closure_names *names;
	struct digest_set *seen[STORE_SPACES];
	struct found {
		VEC(struct found_object {
			struct digest name;
			uint64_t size;
			bool replace;
		})
		v;
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

static int find_closure(struct closure *c, const struct tier_wanted *w, struct err *err)
{
	c->names = w->names;
	closure_init(c);
	for (size_t i = 0; i < w->n_manifests; i++)
		if (add_manifest(c, &w->manifests[i], err) < 0)
			return -1;
	return add_records(c, err) < 0 ? -1 : add_trees(c, err);
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

/* Everything. */

struct everything {
	enum store_space space;
	VEC(struct remote_object) batch;
	int (*move)(void *arg, struct remote_object *v, size_t n, struct err *err);
	void *arg;
	struct err *err;
};

static int flush(struct everything *e)
{
	int r = e->batch.n ? e->move(e->arg, e->batch.v, e->batch.n, e->err) : 0;

	e->batch.n = 0;
	return r;
}

static int add_to_batch(struct everything *e, const struct remote_object *o)
{
	VEC_PUSH(&e->batch, *o);
	return e->batch.n >= BATCH_MAX ? flush(e) : 0;
}

static int take_listed(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct everything *e = arg;

	return add_to_batch(
		e, &(struct remote_object){ .space = e->space, .name = *name, .size = size });
}

/* Moves all contents before the first record, because records must not become visible before what
 * they name. */
static int move_everything(struct everything *e, struct store *local, struct remote *remote,
			   struct err *err)
{
	int r = 0;

	e->err = err;
	for (int space = 0; space < STORE_SPACES && r == 0; space++) {
		e->space = (enum store_space)space;
		r = local ? store_list(local, e->space, take_listed, e, err)
			  : remote_list(remote, e->space, take_listed, e, err);
		if (r == 0)
			r = flush(e);
	}
	VEC_FREE(&e->batch);
	return r;
}

static int move_closure(struct everything *e, const struct closure *c, struct err *err)
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

/* Adds an unsent record and what it names. A record that is gone (collected, damaged) is
 * skipped. */
static int add_unsent(struct closure *c, const struct unsent_record *u, struct err *err)
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
	*ret = add_unsent(&c, &u, NULL) == 0 && c.objects[o->space].v.n > 0;
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
		if (add_unsent(c, &outgoing->unsent[i], &e) < 0 && !is_gone(&e))
			return err_pass(err, &e);
	}
	return add_records(c, err) < 0 ? -1 : add_trees(c, err);
}

static int push_once(struct store *s, const struct outgoing *outgoing, struct remote_sent *ret,
		     struct err *err)
{
	struct push p = { .local = tier_local(s),
			  .remote = tier_remote(s),
			  .sent = ret,
			  .names = outgoing->wanted.names,
			  .tier = s };
	struct everything all = { .move = send_batch, .arg = &p };
	struct closure c = { .s = p.local, .names = p.names };
	int r;

	*ret = (struct remote_sent){ 0 };
	if (outgoing->n_unsent == 0 && outgoing->wanted.n_manifests == 0)
		return move_everything(&all, p.local, NULL, err);
	r = outgoing->n_unsent ? find_unsent(&c, outgoing, err)
			       : find_closure(&c, &outgoing->wanted, err);
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
	struct digest_set *not_had[2]; /* by space: contents that couldn't be fetched; or NULL */
};

static int fetch_batch(void *arg, struct remote_object *v, size_t n, struct err *err)
{
	struct pull *p = arg;
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		if (store_has_object(p->local, v[i].space, &v[i].name, v[i].size, &v[i].there,
				     err) < 0)
			return -1;
		if (!v[i].there)
			v[m++] = v[i];
	}
	p->pulled->objects += n;
	if (m && remote_fetch(p->remote, p->local, v, m, err) < 0)
		return -1;
	for (size_t i = 0; i < m; i++) {
		p->pulled->fetched += v[i].there;
		p->pulled->missing += !v[i].there;
		if (!v[i].there && v[i].space <= STORE_TREE && p->not_had[v[i].space])
			digest_set_add(p->not_had[v[i].space], &v[i].name);
	}
	return 0;
}

/* What the bucket's records name. Listed objects were already fetched; only this shows content that
 * records need but the bucket doesn't list. */
struct named {
	struct pull *pull;
	VEC(struct digest) manifests, actions;
	VEC(struct content_id) contents;
	uint64_t missing;
	struct err *err;
};

/* For separate objects the listing has only the stored size. */
static int fetch_listed(void *arg, struct remote_object *v, size_t n, struct err *err)
{
	struct named *named = arg;

	for (size_t i = 0; i < n; i++) {
		v[i].size = UINT64_MAX;
		if (v[i].space == STORE_RUN)
			VEC_PUSH(&named->manifests, v[i].name);
		else if (v[i].space == STORE_ACTION)
			VEC_PUSH(&named->actions, v[i].name);
	}
	return fetch_batch(named->pull, v, n, err);
}

static int note_content(void *arg, const struct content_id *id)
{
	struct named *n = arg;

	VEC_PUSH(&n->contents, *id);
	return 0;
}

/* An absent record was already counted as missing. A record that can't be read now may name more,
 * so that is an error. */
static int name_contents(struct named *n, const struct digest *action, struct err *err)
{
	const struct closure_sink sink = { note_content, NULL, n };
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct action_record a;
	struct err e = { 0 };

	if (store_get(n->pull->local, STORE_ACTION, action, ACTION_RECORD_MAX, &bytes, &e) < 0 ||
	    action_decode(bytes.s ? bytes.s : "", bytes.len, arena, &a, &e) < 0)
		return is_gone(&e) ? 0 : err_set(err, e.code, "reading a record: %s", e.msg);
	return closure_of_action(&a, &sink);
}

static int count_missing(void *arg, enum store_space space, const struct digest *name,
			 uint64_t size)
{
	struct named *n = arg;
	bool here = false;

	if (store_has_object(n->pull->local, space, name, size, &here, n->err) < 0)
		return -1;
	n->missing += !here && !digest_set_has(n->pull->not_had[space], name);
	return 0;
}

static int count_named(struct named *n, const struct closure_names *names, struct err *err)
{
	struct transfer_named what = { .names = names };

	n->err = err;
	for (size_t i = 0; i < n->actions.n; i++)
		if (name_contents(n, &n->actions.v[i], err) < 0)
			return -1;
	what.manifests = n->manifests.v;
	what.n_manifests = n->manifests.n;
	what.contents = n->contents.v;
	what.n_contents = n->contents.n;
	return transfer_each_named(n->pull->local, &what, count_missing, n, err);
}

static int pull_everything(struct pull *p, const struct closure_names *names, struct err *err)
{
	struct named n = { .pull = p };
	struct everything all = { .move = fetch_listed, .arg = &n };
	int r;

	p->not_had[STORE_BLOB] = digest_set_new();
	p->not_had[STORE_TREE] = digest_set_new();
	r = move_everything(&all, NULL, p->remote, err);
	if (r == 0)
		r = count_named(&n, names, err);
	p->pulled->objects += n.missing;
	p->pulled->missing += n.missing;
	digest_set_free(p->not_had[STORE_BLOB]);
	digest_set_free(p->not_had[STORE_TREE]);
	VEC_FREE(&n.manifests);
	VEC_FREE(&n.actions);
	VEC_FREE(&n.contents);
	return r;
}

int tier_pull(struct store *s, const struct tier_wanted *w, struct tier_pulled *ret,
	      struct err *err)
{
	struct pull p = { .local = tier_local(s), .remote = tier_remote(s), .pulled = ret };
	struct everything all = { .move = fetch_batch, .arg = &p };
	struct closure c = { .s = s };
	int r;

	*ret = (struct tier_pulled){ 0 };
	if (!p.remote)
		return err_set(err, ERR_USAGE,
			       "%s is a directory: there is nowhere to pull from; name an object "
			       "store (`store:` in cairn.yaml, or --store)",
			       s->uri);
	if (remote_attach(p.remote, err) < 0)
		return -1;
	if (w->n_manifests == 0)
		r = pull_everything(&p, w->names, err);
	else {
		r = find_closure(&c, w, err);
		if (r == 0)
			r = move_closure(&all, &c, err);
		closure_deinit(&c);
	}
	return r == 0 ? p.local->ops->sync(p.local, err) : r;
}

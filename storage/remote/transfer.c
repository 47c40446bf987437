/* Pushing and pulling: what manifests reach, or everything.
 *
 * What manifests reach is found by going through them level by level, in one store: the directory when it is to be sent, the tier when it is to be brought (then
 * each level of trees comes in one batch). Of each object only its name and size are kept, by space; either way they go on in batches, contents before records.
 */
#include "storage/action.h"
#include "storage/remote/internal.h"
#include "storage/remote/tier.h"
#include "storage/remote/unsent.h"

/* Objects that go through one call: bounds what it keeps in memory. */
#define BATCH_MAX 100000
/* A machine that sleeps so often while it sends doesn't send. */
#define PUSH_TRIES 3

struct closure {
	struct store *s;
	const struct store_gc_options *walk;
	struct digest_set *seen[STORE_SPACES];
	struct found {
		VEC(struct found_object {
			struct digest name;
			uint64_t size;
			bool replace;
		}) v;
	} objects[STORE_SPACES];
	VEC(struct content_id) trees; /* still to be gone through */
	bool unread;		      /* one of them couldn't be */
	VEC(struct digest) keys;
};

static bool add_object(struct closure *c, enum store_space space, const struct digest *name, uint64_t size)
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

	if (space != STORE_SPACES && add_object(c, space, &id->digest, id->size_bytes) && space == STORE_TREE)
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
	const struct store_gc_sink sink = { add_content, add_key, c };
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (!add_object(c, STORE_RUN, hash, UINT64_MAX))
		return 0;
	if (store_get(c->s, STORE_RUN, hash, RUN_MANIFEST_MAX, &bytes, err) < 0)
		return err_wrap(err, "reading the manifest of a run");
	if ((c->walk->manifest_refs && c->walk->manifest_refs(bytes.s, bytes.len, add_content, c, err) < 0) ||
	    (c->walk->manifest_keys && c->walk->manifest_keys(bytes.s, bytes.len, add_key, c, err) < 0))
		return -1;
	return c->walk->manifest_walk ? c->walk->manifest_walk(c->s, bytes.s, bytes.len, &sink, err) : 0;
}

static void add_named(struct closure *c, const struct action_record *a)
{
	for (size_t k = 0; k < a->n_outputs; k++)
		add_content(c, &a->outputs[k].id);
	add_content(c, &a->key_record);
	add_content(c, &a->metrics);
	add_content(c, &a->log);
}

/* A record that isn't there names nothing. */
static void add_record(struct closure *c, const struct digest *key)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct action_record *v;
	size_t n;

	if (action_observations(c->s, key, arena, &v, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		struct digest name = *key;

		if (i)
			action_observation_name(key, (unsigned)i, &name);
		add_object(c, STORE_ACTION, &name, UINT64_MAX);
		add_named(c, &v[i]);
	}
}

static void add_records(struct closure *c)
{
	if (c->s->ops->bring_records)
		c->s->ops->bring_records(c->s, STORE_ACTION, c->keys.v, c->keys.n, NULL);
	for (size_t i = 0; i < c->keys.n; i++)
		add_record(c, &c->keys.v[i]);
	c->keys.n = 0;
}

static int next_level(struct closure *c, struct err *err)
{
	size_t n = c->trees.n;
	_cleanup_(freep) struct content_id *trees = c->trees.v;

	memset(&c->trees, 0, sizeof(c->trees));
	if (c->s->ops->bring && c->s->ops->bring(c->s, trees, n, true, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		_cleanup_(tree_freep) struct tree *t = NULL;

		if (tree_load(c->s, &trees[i], &t, NULL) < 0) {
			c->unread = true; /* counted as missing when it is to be moved itself */
			continue;
		}
		for (size_t k = 0; k < tree_len(t); k++)
			if (tree_entry_is_kept(tree_at(t, k)))
				add_content(c, &tree_at(t, k)->id);
	}
	return 0;
}

static int add_trees(struct closure *c, struct err *err)
{
	while (c->trees.n)
		if (next_level(c, err) < 0)
			return -1;
	return 0;
}

static void closure_init(struct closure *c)
{
	for (int space = 0; space < STORE_SPACES; space++)
		c->seen[space] = digest_set_new();
}

static int find_closure(struct closure *c, const struct tier_wanted *w, struct err *err)
{
	c->walk = w->walk;
	closure_init(c);
	for (size_t i = 0; i < w->n_manifests; i++)
		if (add_manifest(c, &w->manifests[i], err) < 0)
			return -1;
	add_records(c);
	return add_trees(c, err);
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

/* One manifest that can't be read names nothing, and doesn't hide what the others name. */
static int add_readable_manifest(struct closure *c, const struct digest *hash, struct err *err)
{
	struct err e = { 0 };

	if (add_manifest(c, hash, &e) == 0 || e.code == ERR_NOT_FOUND || e.code == ERR_CORRUPT || e.code == ERR_INVALID)
		return 0;
	return err_set(err, e.code, "%s", e.msg);
}

int transfer_each_named(struct store *s, const struct transfer_named *named,
			int (*fn)(void *arg, enum store_space space, const struct digest *name, uint64_t size),
			void *arg, struct err *err)
{
	struct closure c = { .s = s, .walk = named->walk };
	int r = 0;

	closure_init(&c);
	for (size_t i = 0; i < named->n_manifests && named->walk && r == 0; i++)
		r = add_readable_manifest(&c, &named->manifests[i], err);
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

/* --- everything ------------------------------------------------------------------------------------------------------------------- */

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

static int take_listed(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct everything *e = arg;
	struct remote_object o = { .space = e->space, .name = *name, .size = size };

	VEC_PUSH(&e->batch, o);
	return e->batch.n >= BATCH_MAX ? flush(e) : 0;
}

/* Contents first, and all of them before the first record: the order in which things may become visible. */
static int move_everything(struct everything *e, struct store *local, struct remote *remote, struct err *err)
{
	int r = 0;

	e->err = err;
	for (int space = 0; space < STORE_SPACES && r == 0; space++) {
		e->space = (enum store_space)space;
		r = local ? store_list(local, e->space, take_listed, e, err) : remote_list(remote, e->space, take_listed, e, err);
		if (r == 0)
			r = flush(e);
	}
	VEC_FREE(&e->batch);
	return r;
}

static int take_found(struct everything *e, const struct found_object *f)
{
	struct remote_object o = { .space = e->space, .name = f->name, .size = f->size, .replace = f->replace };

	VEC_PUSH(&e->batch, o);
	return e->batch.n >= BATCH_MAX ? flush(e) : 0;
}

static int move_closure(struct everything *e, const struct closure *c, struct err *err)
{
	int r = 0;

	e->err = err;
	for (int space = 0; space < STORE_SPACES && r == 0; space++) {
		e->space = (enum store_space)space;
		for (size_t i = 0; i < c->objects[space].v.n && r == 0; i++)
			r = take_found(e, &c->objects[space].v.v[i]);
		if (r == 0)
			r = flush(e);
	}
	VEC_FREE(&e->batch);
	return r;
}

/* --- push --------------------------------------------------------------------------------------------------------------------------- */

struct push {
	struct store *local;
	struct remote *remote;
	struct remote_sent *sent;
	const struct store_gc_options *walk;
	struct store *tier;
	bool closed;  /* what is moved has all that its records name */
	bool lacking; /* some content that was to be moved is in neither place */
};

/* One that is gone meanwhile (collected, damaged) can't be sent, and isn't waited for. */
static int add_unsent(struct closure *c, const struct unsent_record *u, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct action_record a;
	size_t before = c->objects[u->space].v.n;
	int r = 0;

	if (u->space == STORE_RUN)
		r = add_manifest(c, &u->name, err);
	else if (u->space == STORE_TAG)
		add_object(c, STORE_TAG, &u->name, UINT64_MAX); /* its run goes by itself */
	else if ((r = store_get(c->s, STORE_ACTION, &u->name, ACTION_RECORD_MAX, &bytes, err)) == 0 &&
		 action_decode(bytes.s, bytes.len, arena, &a, NULL) == 0) {
		add_object(c, STORE_ACTION, &u->name, UINT64_MAX);
		add_named(c, &a);
	}
	if (c->objects[u->space].v.n > before)
		c->objects[u->space].v.v[before].replace = u->replace;
	return r;
}

/* Are all contents that were found in the bucket? */
static int contents_are_there(struct push *p, const struct closure *c, bool *ret, struct err *err)
{
	VEC(struct remote_object) v = { 0 };
	int r = 0;

	for (int space = STORE_BLOB; space <= STORE_TREE; space++)
		for (size_t i = 0; i < c->objects[space].v.n; i++) {
			const struct found_object *f = &c->objects[space].v.v[i];
			struct remote_object o = { .space = (enum store_space)space, .name = f->name, .size = f->size };

			VEC_PUSH(&v, o);
		}
	if (v.n)
		r = remote_has(p->remote, v.v, v.n, err);
	for (size_t i = 0; i < v.n; i++)
		*ret &= v.v[i].there;
	VEC_FREE(&v);
	return r;
}

/* Does the bucket have all that this record names? */
static int is_whole(struct push *p, const struct remote_object *o, bool *ret, struct err *err)
{
	struct closure c = { .s = p->tier, .walk = p->walk }; /* what isn't here is looked for there */
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
		r = contents_are_there(p, &c, ret, err); /* records of its keys go by themselves */
	closure_deinit(&c);
	return r;
}

/* Only those that are whole there: what a directory lacks (it was pulled while somebody collected, it is damaged) may be
 * gone from the bucket, too. `there` of each says whether it is there afterwards; their order changes. */
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
		if (v[i].space == STORE_RUN && !p->walk)
			continue; /* nobody says what it names */
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

/* A batch is of one space; contents come before what names them. */
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

static int push_once(struct store *s, const struct tier_wanted *w, struct remote_sent *ret, struct err *err)
{
	struct push p = { .local = tier_local(s), .remote = tier_remote(s), .sent = ret, .walk = w->walk, .tier = s };
	struct everything all = { .move = send_batch, .arg = &p };
	struct closure c = { .s = p.local };
	int r;

	*ret = (struct remote_sent){ 0 };
	if (!p.remote)
		return err_set(err, ERR_USAGE, "%s is a directory: there is nowhere to push to; name an object store (`store:` in cairn.yaml, or --store)", s->uri);
	if (w->n_manifests == 0)
		return move_everything(&all, p.local, NULL, err);
	r = find_closure(&c, w, err);
	p.closed = !c.unread;
	if (r == 0)
		r = move_closure(&all, &c, err);
	closure_deinit(&c);
	return r;
}

int transfer_send_whole(struct store *tier, const struct store_gc_options *walk, struct remote_object *v,
			size_t n, struct remote_sent *ret, struct err *err)
{
	struct push p = {
		.local = tier_local(tier), .remote = tier_remote(tier), .sent = ret, .walk = walk, .tier = tier
	};

	return n ? send_whole(&p, v, n, err) : 0;
}

/* A lease that lapsed meanwhile (this machine slept): what was there needn't be there any more. All again. */
int tier_push(struct store *s, const struct tier_wanted *w, struct remote_sent *ret, struct err *err)
{
	struct err e = { 0 };
	int r = 0;

	for (int tries = 0; tries < PUSH_TRIES && (r = push_once(s, w, ret, &e)) < 0 && e.code == ERR_CHANGED; tries++)
		if (remote_renew(tier_remote(s), NULL) < 0)
			break;
	return r < 0 ? err_set(err, e.code, "%s", e.msg) : 0;
}

/* --- what was left unsent -------------------------------------------------------------------------------------------------------------- */

static int send_unsent_once(struct store *s, const struct store_gc_options *walk, const struct unsent_record *v, size_t n,
			    struct remote_sent *ret, struct err *err)
{
	struct closure c = { .s = tier_local(s), .walk = walk };
	struct push p = { .local = c.s, .remote = tier_remote(s), .sent = ret, .walk = walk, .tier = s };
	struct everything all = { .move = send_batch, .arg = &p };
	int r = 0;

	*ret = (struct remote_sent){ 0 };
	closure_init(&c);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct err why = { 0 };

		/* One that can't be read today is waited for. */
		if (add_unsent(&c, &v[i], &why) < 0 && why.code == ERR_IO)
			r = err_set(err, why.code, "%s", why.msg);
	}
	add_records(&c);
	if (r == 0)
		r = add_trees(&c, err);
	p.closed = !c.unread; /* a listing that was evicted names what nobody has looked for */
	if (r == 0)
		r = move_closure(&all, &c, err);
	closure_deinit(&c);
	return r;
}

/* As tier_push() when a lease lapses. */
int tier_send_unsent(struct store *s, const struct store_gc_options *walk, struct remote_sent *ret, struct err *err)
{
	_cleanup_(freep) struct unsent_record *v = NULL;
	struct err e = { 0 };
	size_t n = 0;
	int r = 0;

	*ret = (struct remote_sent){ 0 };
	if (tier_remote(s))
		tier_take_unsent(s, &v, &n);
	if (n == 0)
		return 0;
	for (int tries = 0; tries < PUSH_TRIES && (r = send_unsent_once(s, walk, v, n, ret, &e)) < 0 && e.code == ERR_CHANGED; tries++)
		if (remote_renew(tier_remote(s), NULL) < 0)
			break;
	tier_sent_unsent(s, r < 0 ? &e : NULL);
	return r < 0 ? err_set(err, e.code, "%s", e.msg) : 0;
}

/* --- pull --------------------------------------------------------------------------------------------------------------------------- */

struct pull {
	struct store *local;
	struct remote *remote;
	struct tier_pulled *pulled;
	struct digest_set *not_had[2]; /* by space: contents that were asked for in vain; or NULL */
};

static int look_locally(struct store *local, struct remote_object *v, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		if (local->ops->has(local, v[i].space, &v[i].name, &v[i].size, 1, &v[i].there, err) < 0)
			return -1;
	return 0;
}

static int fetch_batch(void *arg, struct remote_object *v, size_t n, struct err *err)
{
	struct pull *p = arg;
	size_t m = 0;

	if (look_locally(p->local, v, n, err) < 0)
		return -1;
	p->pulled->objects += n;
	for (size_t i = 0; i < n; i++)
		if (!v[i].there)
			v[m++] = v[i];
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

/* What records of the bucket name. What the bucket lists was asked for already; what it doesn't list, though a
 * record needs it, shows only here. */
struct named {
	struct pull *pull;
	VEC(struct digest) manifests, actions;
	VEC(struct content_id) contents;
	uint64_t missing;
	struct err *err;
};

/* Of what lies alone only the stored size is listed. */
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

static void name_contents(struct named *n, const struct digest *action)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct action_record a;

	if (store_get(n->pull->local, STORE_ACTION, action, ACTION_RECORD_MAX, &bytes, NULL) < 0 ||
	    action_decode(bytes.s ? bytes.s : "", bytes.len, arena, &a, NULL) < 0)
		return;
	for (size_t i = 0; i < a.n_outputs; i++)
		VEC_PUSH(&n->contents, a.outputs[i].id);
	VEC_PUSH(&n->contents, a.key_record);
	VEC_PUSH(&n->contents, a.metrics);
	VEC_PUSH(&n->contents, a.log);
}

static int count_missing(void *arg, enum store_space space, const struct digest *name, uint64_t size)
{
	struct named *n = arg;
	bool here = false;

	if (n->pull->local->ops->has(n->pull->local, space, name, &size, 1, &here, n->err) < 0)
		return -1;
	n->missing += !here && !digest_set_has(n->pull->not_had[space], name);
	return 0;
}

static int count_named(struct named *n, const struct store_gc_options *walk, struct err *err)
{
	struct transfer_named what = { .walk = walk };

	n->err = err;
	for (size_t i = 0; i < n->actions.n; i++)
		name_contents(n, &n->actions.v[i]);
	what.manifests = n->manifests.v;
	what.n_manifests = n->manifests.n;
	what.contents = n->contents.v;
	what.n_contents = n->contents.n;
	return transfer_each_named(n->pull->local, &what, count_missing, n, err);
}

static int pull_everything(struct pull *p, const struct store_gc_options *walk, struct err *err)
{
	struct named n = { .pull = p };
	struct everything all = { .move = fetch_listed, .arg = &n };
	int r;

	p->not_had[STORE_BLOB] = digest_set_new();
	p->not_had[STORE_TREE] = digest_set_new();
	r = move_everything(&all, NULL, p->remote, err);
	if (r == 0)
		r = count_named(&n, walk, err);
	p->pulled->objects += n.missing;
	p->pulled->missing += n.missing;
	digest_set_free(p->not_had[STORE_BLOB]);
	digest_set_free(p->not_had[STORE_TREE]);
	VEC_FREE(&n.manifests);
	VEC_FREE(&n.actions);
	VEC_FREE(&n.contents);
	return r;
}

int tier_pull(struct store *s, const struct tier_wanted *w, struct tier_pulled *ret, struct err *err)
{
	struct pull p = { .local = tier_local(s), .remote = tier_remote(s), .pulled = ret };
	struct everything all = { .move = fetch_batch, .arg = &p };
	struct closure c = { .s = s };
	int r;

	*ret = (struct tier_pulled){ 0 };
	if (!p.remote)
		return err_set(err, ERR_USAGE, "%s is a directory: there is nowhere to pull from; name an object store (`store:` in cairn.yaml, or --store)", s->uri);
	if (remote_attach(p.remote, err) < 0)
		return -1;
	if (w->n_manifests == 0)
		r = pull_everything(&p, w->walk, err);
	else {
		r = find_closure(&c, w, err);
		if (r == 0)
			r = move_closure(&all, &c, err);
		closure_deinit(&c);
	}
	return r == 0 ? p.local->ops->sync(p.local, err) : r;
}

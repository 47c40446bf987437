/* storage/local/maintain.c — counts and verifies a whole store (gc: gc.c).
 *
 * store_verify() lists each space and checks one object at a time: a blob's bytes, a tree and
 * whether its members are there, a record and whether all that it names is there. It checks
 * presence for one level only, because the listing reaches every tree anyway.
 *
 * A damaged object is set aside, so that the next run makes it again. A record whose metrics are
 * lost is set aside too. A record whose log is lost is written again without the log: no run can
 * make that log again, and the outputs are still good. This breaks the signature, so only the user
 * whose key signed the record rewrites it; an unsigned record stays unsigned.
 *
 * One thread. Other processes may write and collect meanwhile, so an object that disappears while
 * it is read isn't a problem.
 */
#include "storage/local/maintain.h"
#include "base/os/fs.h"
#include "storage/closure.h"
#include "storage/internal.h"

/* Stat. */

struct counter {
	uint64_t *objects, *bytes;
};

static int count_object(void *arg, const struct digest *name, uint64_t size_bytes, int64_t mtime_ns)
{
	struct counter *c = arg;

	++*c->objects;
	*c->bytes += size_bytes;
	return 0;
}

int store_stat_all(struct store *s, struct store_stat *ret, struct err *err)
{
	struct store *here = s->here;
	struct store_stat st = { 0 };
	struct store_leftovers temporary = { 0 }, corrupt = { 0 };

	for (int space = 0; space < STORE_SPACES; space++) {
		struct counter c = { &st.objects[space], &st.bytes[space] };

		if (store_list(s, (enum store_space)space, count_object, &c, err) < 0)
			return -1;
	}
	if (here->ops->gc->leftovers &&
	    (here->ops->gc->leftovers(here, LEFTOVER_TEMPORARY, INT64_MAX, true, &temporary, err) <
		     0 ||
	     here->ops->gc->leftovers(here, LEFTOVER_CORRUPT, INT64_MAX, true, &corrupt, err) < 0))
		return -1;
	st.temporaries = temporary.n;
	st.temporary_bytes = temporary.bytes;
	st.set_aside = corrupt.n;
	*ret = st;
	return 0;
}

/* Verify. */

struct verifier {
	struct store *s;
	const struct closure_names *names;
	enum store_space space;
	void (*on_problem)(void *arg, const struct store_problem *p);
	void (*on_progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	uint64_t done, total;
	int64_t problems;
};

/* store_has(), but nothing is called missing before fetching it failed: what a bucket lists as
 * condemned doesn't count as present there, although records may name it. */
static int has(struct verifier *v, const struct content_id *ids, size_t n, bool *present,
	       struct err *e)
{
	bool whole = true;

	if (store_has(v->s, ids, n, present, e) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		whole = whole && (present[i] || ids[i].kind == CONTENT_NONE);
	if (whole)
		return 0;
	return store_bring(v->s, ids, n, BRING_THESE, e) < 0 ||
			       store_has(v->s, ids, n, present, e) < 0
		       ? -1
		       : 0;
}

static int verify_tree(struct verifier *v, const struct content_id *id, struct err *e)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	_cleanup_(freep) struct content_id *ids = NULL;
	_cleanup_(freep) bool *present = NULL;

	if (tree_load(v->s, id, &t, e) < 0) {
		if (e->code ==
		    ERR_CORRUPT) /* its digest may be right, but the listing is unreadable */
			v->s->ops->set_aside(v->s, STORE_TREE, &id->digest);
		return -1;
	}
	ids = xcalloc(tree_len(t) + 1, sizeof(*ids));
	present = xcalloc(tree_len(t) + 1, sizeof(*present));
	for (size_t i = 0; i < tree_len(t); i++)
		ids[i] = tree_at(t, i)->id; /* CONTENT_NONE for a symbolic link */
	if (has(v, ids, tree_len(t), present, e) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++)
		if (ids[i].kind != CONTENT_NONE && !present[i])
			return err_set(e, ERR_NOT_FOUND, "its member `%s` is missing",
				       tree_at(t, i)->name);
	return 0;
}

/* A record's name is its key, or the name of one of the key's observations. */
static bool is_name_of(const struct digest *name, const struct digest *key)
{
	struct digest d;

	if (digest_eq(name, key))
		return true;
	for (unsigned i = 1; i <= ACTION_OBSERVATIONS_MAX; i++) {
		action_observation_name(key, i, &d);
		if (digest_eq(name, &d))
			return true;
	}
	return false;
}

static int has_named(struct verifier *v, const char *what, const char *name,
		     const struct action_record *a, const struct content_id *id, struct err *e)
{
	bool present = false;

	if (id->kind == CONTENT_NONE)
		return 0;
	if (has(v, id, 1, &present, e) < 0)
		return -1;
	return present ? 0
		       : err_set(e, ERR_NOT_FOUND, "the %s%s of task %s is missing", what, name,
				 a->task);
}

/* Rewrites the record without its lost log, and reports the loss once. Only the writer can sign the
 * changed record, so records of others stay as they are. */
static int go_on_without_log(struct verifier *v, const struct digest *name, const struct str *bytes,
			     struct action_record *a, struct err *e)
{
	_cleanup_(str_deinit) struct str changed = { 0 };

	if (a->signature && !action_is_own(v->s, bytes->s, bytes->len, a))
		return err_set(e, ERR_NOT_FOUND,
			       "the log of task %s is lost; its record is signed by another "
			       "writer, who can remove the log from it with `cairn store verify`",
			       a->task);
	a->log = (struct content_id){ .kind = CONTENT_NONE };
	if (a->signature)
		action_encode_signed(v->s, a, &changed);
	else
		action_encode(a, &changed);
	if (v->s->ops->put(v->s, STORE_ACTION, name, changed.s, changed.len, true, NULL) < 0)
		return -1;
	return err_set(e, ERR_NOT_FOUND,
		       "the log of task %s is lost; its record was written again without it",
		       a->task);
}

static int verify_action(struct verifier *v, const struct digest *name, struct err *e)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct action_record a;

	if (store_get(v->s, STORE_ACTION, name, ACTION_RECORD_MAX, &bytes, e) < 0)
		return -1;
	if (action_decode(bytes.len ? bytes.s : "", bytes.len, arena, &a, e) < 0 ||
	    (!is_name_of(name, &a.key) &&
	     err_set(e, ERR_CORRUPT, "an action record belongs to another key") < 0)) {
		v->s->ops->set_aside(v->s, STORE_ACTION, name);
		return -1;
	}
	for (size_t i = 0; i < a.n_outputs; i++)
		if (has_named(v, "output ", a.outputs[i].name, &a, &a.outputs[i].id, e) < 0)
			return -1;
	if (has_named(v, "key record", "", &a, &a.key_record, e) < 0)
		return -1;
	if (has_named(v, "metrics", "", &a, &a.metrics, e) < 0) {
		if (e->code != ERR_NOT_FOUND || !v->s->ops->set_aside(v->s, STORE_ACTION, name))
			return -1;
		return err_set(e, ERR_CORRUPT,
			       "the metrics of task %s are lost; its record was set aside, so that "
			       "it runs again",
			       a.task);
	}
	if (has_named(v, "log", "", &a, &a.log, e) == 0)
		return 0;
	return e->code == ERR_NOT_FOUND ? go_on_without_log(v, name, &bytes, &a, e) : -1;
}

static int note_named(void *arg, const struct content_id *id)
{
	closure_trees *named = arg;

	if (id->kind != CONTENT_NONE)
		VEC_PUSH(named, *id);
	return 0;
}

/* A run can be reproduced only from all that its manifest names. */
static int verify_manifest(struct verifier *v, const struct digest *name, struct err *e)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	_cleanup_(freep) bool *present = NULL;
	closure_trees named = { 0 };
	const struct closure_sink sink = { note_named, NULL, &named };
	const struct digest *first = NULL;
	char hex[DIGEST_HEX_MAX];
	size_t n_missing = 0;
	int r = store_get(v->s, STORE_RUN, name, RUN_MANIFEST_MAX, &bytes, e);

	if (r == 0)
		r = closure_of_manifest(v->s, v->names, bytes.s, bytes.len, &sink, e);
	present = xcalloc(named.n + 1, sizeof(*present));
	if (r == 0 && named.n)
		r = has(v, named.v, named.n, present, e);
	for (size_t i = 0; r == 0 && i < named.n; i++)
		if (!present[i]) {
			first = first ? first : &named.v[i].digest;
			n_missing++;
		}
	if (first)
		r = err_set(e, ERR_NOT_FOUND,
			    "%zu of the contents that it names are missing, one is sha256:%s",
			    n_missing, digest_hex(first, hex));
	VEC_FREE(&named);
	return r < 0 ? -1 : 0;
}

static int verify_object(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct verifier *v = arg;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct content_id id = { .digest = *name,
				 .size_bytes = size,
				 .kind = v->space == STORE_TREE ? CONTENT_TREE : CONTENT_BLOB };
	struct err e = { 0 };
	bool present = true;
	int r;

	switch (v->space) {
	case STORE_BLOB:
		r = content_verify(v->s, &id, &e);
		break;
	case STORE_TREE:
		r = verify_tree(v, &id, &e);
		break;
	case STORE_ACTION:
		r = verify_action(v, name, &e);
		break;
	case STORE_RUN:
		r = verify_manifest(v, name, &e);
		break;
	default:
		r = store_get(v->s, v->space, name, RUN_MANIFEST_MAX, &bytes, &e);
	}
	/* Another process may have removed or replaced the object while we read it. */
	if (r < 0 && e.code == ERR_NOT_FOUND &&
	    store_has_object(v->s, v->space, name, UINT64_MAX, &present, NULL) == 0 && !present)
		r = 0;
	if (r < 0) {
		v->problems++;
		if (v->on_problem)
			v->on_problem(v->arg, &(struct store_problem){ v->space, *name, e });
	}
	v->done++;
	if (v->on_progress)
		v->on_progress(v->arg, v->done, v->total);
	return 0;
}

int64_t store_verify(struct store *s, const struct closure_names *names,
		     void (*on_problem)(void *arg, const struct store_problem *p),
		     void (*on_progress)(void *arg, uint64_t done, uint64_t total), void *arg,
		     struct err *err)
{
	struct verifier v = { .s = s,
			      .names = names,
			      .on_problem = on_problem,
			      .on_progress = on_progress,
			      .arg = arg };
	struct store_stat st;

	if (store_stat_all(s, &st, err) < 0)
		return -1;
	for (int space = 0; space < STORE_SPACES; space++)
		v.total += st.objects[space];
	for (int space = 0; space < STORE_SPACES; space++) {
		v.space = (enum store_space)space;
		if (store_list(s, v.space, verify_object, &v, err) < 0)
			return -1;
	}
	return v.problems;
}

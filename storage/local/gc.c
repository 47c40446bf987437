/* storage/local/gc.c — garbage collection: marks from the roots, condemns what isn't reached, and
 * sweeps what two marks condemned.
 *
 * It is safe while others write. An object is removed only if all of these hold. No root reaches it
 * now; young action records and manifests are roots too, because a run may be about to build on
 * them. It is older than the grace time, and was so when the oldest active run began (store_use); a
 * put that finds the object renews its time, and gc checks the time again right before it removes
 * the object. An earlier mark, at least the gap ago, found it dead, and nobody renewed it since. It
 * was on the list of the condemned before the oldest active run began: that run read the list, and
 * renews what is on it when it finds it.
 *
 * The list lies beside the spaces; each object in it has the time of the mark that first found it
 * dead. Every record that is there can be read: records are removed before what they name, so that
 * a crash leaves only content that nothing names; and what a dead record names is held while the
 * record stays. It may have been listed before the record, which a run published since. Changes of
 * names (tags) are never collected.
 *
 * One thread, and one collector per store (store_gc_ops.lock). If an object can't be read, and
 * isn't just missing or damaged, gc fails before the sweep. store_mark() runs only the mark, for
 * remote/collect.c.
 */
#include <assert.h>
#include "base/os/fs.h"
#include "storage/checkpoint.h"
#include "storage/closure.h"
#include "storage/condemned.h"
#include "storage/content/view.h"
#include "storage/internal.h"
#include "storage/local/maintain.h"

/* Records fetched and read in one batch. */
#define BATCH_MAX 1024
/* The least age, however short the grace time: a large file may still be being written or
 * hashed. */
#define TEMPORARY_MIN_NS (3600 * NS_PER_S)
/* Damaged copies are kept this long, so that a person can examine the damage. */
#define CORRUPT_KEEP_NS (7 * 24 * 3600 * NS_PER_S)

struct listed {
	struct digest name;
	int64_t mtime_ns;
};

struct collector {
	struct store *s;
	const struct store_gc_options *o;
	struct store_gc_result *res;
	int64_t young_ns; /* objects made after this are young */
	struct digest_set *live[STORE_SPACES];
	struct digest_set *held[STORE_SPACES]; /* named by dead records that stay for now */
	struct digest_set **into;              /* where a walk marks: live or held */
	bool holds;                            /* false: this collection removes nothing */
	struct digest_set *keys;               /* of action records to keep */
	closure_trees trees;                   /* marked trees still to walk */
	struct condemned condemned;            /* the last list: objects found dead before */
	struct condemned next;                 /* the next one */
	int64_t listed_ns; /* the last list was out by then; 0: that isn't known, maybe not yet */
	int64_t used_ns;   /* when the oldest active run began; INT64_MAX: none */
	VEC(struct listed) records; /* the next batch */
	enum store_space space;     /* being listed */
	uint64_t eligible;
	struct err err;
};

/* Mark. */

static bool is_young(const struct collector *c, int64_t mtime_ns)
{
	return mtime_ns > c->young_ns;
}

static bool is_live(const struct collector *c, enum store_space space, const struct digest *d)
{
	return digest_set_has(c->live[space], d);
}

static bool mark(struct collector *c, enum store_space space, const struct digest *d)
{
	return (c->into == c->live || !is_live(c, space, d)) && digest_set_add(c->into[space], d);
}

static int mark_content(void *arg, const struct content_id *id)
{
	struct collector *c = arg;
	enum store_space space = content_space(id);

	if (space != STORE_SPACES && mark(c, space, &id->digest) && space == STORE_TREE)
		VEC_PUSH(&c->trees, *id);
	return 0;
}

static int mark_key(void *arg, const struct digest *key)
{
	struct collector *c = arg;

	digest_set_add(c->keys, key);
	return 0;
}

/* An object that is missing or damaged names nothing. Any other error means that we don't know what
 * it names, and gc fails. */
static int lost(struct collector *c, const struct err *e, struct err *err)
{
	if (e->code == ERR_NOT_FOUND || e->code == ERR_CORRUPT) {
		c->res->lost++;
		return 0;
	}
	return err_pass(err, e);
}

static int lost_tree(void *arg, const struct content_id *tree, const struct err *why,
		     struct err *err)
{
	return lost(arg, why, err);
}

static int mark_trees(struct collector *c, struct err *err)
{
	const struct closure_sink sink = { mark_content, NULL, c };

	return closure_of_trees(c->s, &c->trees, &sink, lost_tree, err);
}

static int mark_named(struct collector *c, const struct digest *hash,
		      int (*key)(void *arg, const struct digest *key), struct err *err)
{
	const struct closure_sink sink = { mark_content, key, c };
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err e = { 0 };

	if (store_get(c->s, STORE_RUN, hash, RUN_MANIFEST_MAX, &bytes, &e) < 0)
		return lost(c, &e, err);
	if (closure_of_manifest(c->s, c->o->names, bytes.s, bytes.len, &sink, err) < 0)
		return err_wrap(
			err, "nothing was collected, because the manifest of a run can't be read");
	return mark_trees(c, err);
}

static int mark_manifest(struct collector *c, const struct digest *hash, struct err *err)
{
	return mark(c, STORE_RUN, hash) ? mark_named(c, hash, mark_key, err) : 0;
}

static int mark_young_manifest(void *arg, const struct digest *name, uint64_t size_bytes,
			       int64_t mtime_ns)
{
	struct collector *c = arg;

	return is_young(c, mtime_ns) && c->o->names ? mark_manifest(c, name, &c->err) : 0;
}

static bool outputs_are_live(const struct collector *c, const struct action_record *a)
{
	for (size_t i = 0; i < a->n_outputs; i++) {
		enum store_space space = content_space(&a->outputs[i].id);

		if (space == STORE_SPACES || !is_live(c, space, &a->outputs[i].id.digest))
			return false;
	}
	return a->n_outputs > 0;
}

/* Whether each active run read a list with this entry when it began. Such a run renews the object
 * if it finds it; one that began earlier may use the object as it is. */
static bool all_runs_know(const struct collector *c, const struct condemned_entry *e)
{
	int64_t tick_ns = ns_of_tick(c->used_ns % NS_PER_S == 0);

	return c->used_ns == INT64_MAX || (e->listed_ns && e->listed_ns + tick_ns < c->used_ns);
}

/* For a dead object: its entry on the next list, and whether it was on the last one for long enough
 * to go now. */
static bool is_due(const struct collector *c, enum store_space space, const struct digest *name,
		   int64_t mtime_ns, struct condemned_entry *ret)
{
	const int64_t now_ns = c->o->now_ns;

	condemned_list_key((uint8_t)space, name, ret->key);
	if (!condemned_list_find(&c->condemned, ret->key, ret)) {
		ret->dead_ns = now_ns;
		ret->listed_ns = 0;
		return false;
	}
	ret->listed_ns = ret->listed_ns ? ret->listed_ns : c->listed_ns;
	ret->dead_ns = MIN(ret->dead_ns, now_ns); /* one in the future: the clock was wrong */
	if (mtime_ns > ret->dead_ns)
		ret->dead_ns = now_ns;
	return ret->dead_ns <= now_ns - c->o->mark_gap_ns && all_runs_know(c, ret);
}

/* Whether this collection removes that dead record. */
static bool goes(const struct collector *c, enum store_space space, const struct digest *name,
		 int64_t mtime_ns)
{
	struct condemned_entry e;

	return c->o->goes ? c->o->goes(c->o->goes_arg, space, name, mtime_ns)
			  : is_due(c, space, name, mtime_ns, &e);
}

/* For a dead record that stays: marks what it names as held. What is lost already isn't counted,
 * and a record that can't be understood names nothing. `r`: of the walk. */
static int end_hold(struct collector *c, int r, uint64_t lost, const struct err *e)
{
	const bool unreadable = e->code == ERR_CORRUPT || e->code == ERR_INVALID ||
				e->code == ERR_TOO_LARGE || e->code == ERR_NEWER;

	c->into = c->live;
	c->res->lost = lost;
	c->trees.n = 0;
	return r < 0 && !unreadable ? err_pass(&c->err, e) : 0;
}

static int hold_manifest(void *arg, const struct digest *name, uint64_t size_bytes,
			 int64_t mtime_ns)
{
	struct collector *c = arg;
	const uint64_t lost = c->res->lost;
	struct err e = { 0 };

	if (!c->o->names || is_live(c, STORE_RUN, name) || goes(c, STORE_RUN, name, mtime_ns))
		return 0;
	c->into = c->held;
	return end_hold(c, mark_named(c, name, NULL, &e), lost, &e);
}

static int hold_action(struct collector *c, const struct action_record *a)
{
	const struct closure_sink sink = { mark_content, NULL, c };
	const uint64_t lost = c->res->lost;
	struct err e = { 0 };

	c->into = c->held;
	closure_of_action(a, &sink);
	return end_hold(c, mark_trees(c, &e), lost, &e);
}

static int mark_action(struct collector *c, const struct digest *name, int64_t mtime_ns)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	const struct closure_sink sink = { mark_content, NULL, c };
	struct action_record a;
	struct err e = { 0 };

	if (store_get(c->s, STORE_ACTION, name, ACTION_RECORD_MAX, &bytes, &e) < 0 ||
	    action_decode(bytes.s, bytes.len, arena, &a, &e) < 0)
		return e.code == ERR_NOT_FOUND || e.code == ERR_CORRUPT
			       ? 0
			       : err_pass(&c->err, &e); /* damaged, so dead */
	if (!(checkpoint_is_record(&a) && mtime_ns > c->o->now_ns - CHECKPOINT_KEEP_NS) &&
	    !is_young(c, mtime_ns) && !digest_set_has(c->keys, &a.key) &&
	    !(c->o->keep_action && c->o->keep_action(c->o->arg, &a.key)) &&
	    !outputs_are_live(c, &a))
		return c->holds && !goes(c, STORE_ACTION, name, mtime_ns) ? hold_action(c, &a) : 0;
	mark(c, STORE_ACTION, name);
	closure_of_action(&a, &sink);
	return mark_trees(c, &c->err);
}

static int mark_records(struct collector *c)
{
	_cleanup_(freep) struct digest *names = xcalloc(c->records.n + 1, sizeof(*names));

	for (size_t i = 0; i < c->records.n; i++)
		names[i] = c->records.v[i].name;
	if (store_bring_records(c->s, STORE_ACTION, names, c->records.n, &c->err) < 0)
		return -1;
	for (size_t i = 0; i < c->records.n; i++)
		if (mark_action(c, &names[i], c->records.v[i].mtime_ns) < 0)
			return -1;
	c->records.n = 0;
	return 0;
}

static int mark_action_later(void *arg, const struct digest *name, uint64_t size_bytes,
			     int64_t mtime_ns)
{
	struct collector *c = arg;
	struct listed l = { *name, mtime_ns };

	VEC_PUSH(&c->records, l);
	return c->records.n >= BATCH_MAX ? mark_records(c) : 0;
}

/* Errors of a visitor are in c->err; errors of the listing are in err. */
static int visit(struct collector *c, enum store_space space, store_list_fn *fn, struct err *err)
{
	c->space = space;
	c->err.code = ERR_NONE;
	if (store_list(c->s, space, fn, c, err) == 0)
		return 0;
	return c->err.code ? err_pass(err, &c->err) : -1;
}

static int mark_all(struct collector *c, struct err *err)
{
	for (size_t i = 0; i < c->o->n_contents; i++)
		mark_content(c, &c->o->contents[i]);
	if (mark_trees(c, err) < 0)
		return -1;
	for (size_t i = 0; i < c->o->n_manifests; i++)
		if (mark_manifest(c, &c->o->manifests[i], err) < 0)
			return -1;
	if (visit(c, STORE_RUN, mark_young_manifest, err) < 0 ||
	    (c->holds && visit(c, STORE_RUN, hold_manifest, err) < 0))
		return -1;
	if (visit(c, STORE_ACTION, mark_action_later, err) < 0)
		return -1;
	return mark_records(c) < 0 ? err_pass(err, &c->err) : 0;
}

/* The list. */

/* One that is damaged or too long counts as absent: the marks begin anew. */
static int read_list(struct collector *c, struct err *err)
{
	struct store *here = c->s->here;
	struct err e = { 0 };

	if (here->ops->gc->read_note(here, &c->condemned.bytes, &c->listed_ns, &e) < 0 &&
	    e.code != ERR_NOT_FOUND && e.code != ERR_TOO_LARGE)
		return err_pass(err, &e);
	(void)condemned_list_check(&c->condemned);
	if (c->listed_ns > c->o->now_ns) /* a crash left it so (write_note) */
		c->listed_ns = 0;
	return 0;
}

/* A list too long for readers would stop all later collections, so a full list takes no more. Its
 * first entries are removed before the rest, so records still go before what they name. */
static void list_dead(struct collector *c, const struct condemned_entry *e)
{
	size_t max = c->o->list_max ? c->o->list_max : condemned_list_max(CONDEMNED_DIRECTORY);

	if (condemned_list_len(&c->next) >= max) {
		c->res->unlisted++;
		return;
	}
	condemned_list_add(&c->next, e);
	if (c->res->sweep_after_ns == 0 || e->dead_ns + c->o->mark_gap_ns < c->res->sweep_after_ns)
		c->res->sweep_after_ns = e->dead_ns + c->o->mark_gap_ns;
}

static int write_list(struct collector *c, struct err *err)
{
	struct store *here = c->s->here;

	condemned_list_end(&c->next);
	return here->ops->gc->write_note(here, condemned_list_len(&c->next) ? &c->next.bytes : NULL,
					 err);
}

/* Sweep. */

static int sweep_dead(struct collector *c, const struct digest *name, uint64_t size,
		      const struct condemned_entry *e)
{
	struct store *here = c->s->here;
	int r = 0;

	c->eligible++;
	if (!c->o->dry_run) {
		store_forget(c->s, name);
		r = here->ops->gc->del_old(here, c->space, name, c->young_ns + 1, &c->err);
	}
	if (r < 0)
		return -1;
	if (r > 0) { /* a put renewed it meanwhile */
		c->res->condemned--;
		c->res->condemned_bytes -= size;
		c->res->young++;
		return 0;
	}
	if (c->o->dry_run)
		list_dead(c, e);
	c->res->deleted++;
	c->res->deleted_bytes += size;
	return 0;
}

static int sweep_object(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct collector *c = arg;
	struct condemned_entry e;

	if (is_live(c, c->space, name)) {
		c->res->live++;
		return 0;
	}
	if (is_young(c, mtime_ns)) {
		c->res->young++;
		return 0;
	}
	c->res->condemned++;
	c->res->condemned_bytes += size;
	if (!is_due(c, c->space, name, mtime_ns, &e) || digest_set_has(c->held[c->space], name)) {
		list_dead(c, &e);
		return 0;
	}
	return sweep_dead(c, name, size, &e);
}

static int sweep_leftovers(struct collector *c, struct err *err)
{
	int64_t temporary_ns = c->o->now_ns - MAX(c->o->grace_ns, TEMPORARY_MIN_NS);
	struct store *here = c->s->here;
	struct store_leftovers temporary, corrupt;

	if (!here->ops->gc->leftovers)
		return 0;
	if (here->ops->gc->leftovers(here, LEFTOVER_TEMPORARY, temporary_ns, c->o->dry_run,
				     &temporary, err) < 0 ||
	    here->ops->gc->leftovers(here, LEFTOVER_CORRUPT, c->o->now_ns - CORRUPT_KEEP_NS,
				     c->o->dry_run, &corrupt, err) < 0)
		return -1;
	c->res->temporaries = temporary.n + corrupt.n;
	c->res->temporary_bytes = temporary.bytes + corrupt.bytes;
	return 0;
}

static int sweep(struct collector *c, struct err *err)
{
	static const enum store_space order[] = { STORE_RUN, STORE_ACTION, STORE_TREE, STORE_BLOB };
	struct store *here = c->s->here;

	for (size_t i = 0; i < ARRAY_LEN(order); i++) {
		if (visit(c, order[i], sweep_object, err) < 0)
			return -1;
		/* Records are gone before what they name is removed. */
		if (!c->o->dry_run && here->ops->gc->swept && here->ops->gc->swept(here, err) < 0)
			return -1;
	}
	c->res->first_mark = c->eligible == 0 && c->res->condemned > 0;
	if (!c->o->dry_run && write_list(c, err) < 0)
		return -1;
	return sweep_leftovers(c, err);
}

static int collect(struct collector *c, struct err *err)
{
	_cleanup_(fd_closep) int lock = -1;
	struct store *here = c->s->here;
	int r = c->o->dry_run ? 0 : here->ops->gc->lock(here, &lock, err);

	if (r > 0)
		return err_set(err, ERR_BUSY, "another `cairn store gc` is at work in %s",
			       c->s->uri);
	if (r < 0 ||
	    (here->ops->gc->oldest_use && here->ops->gc->oldest_use(here, &c->used_ns, err) < 0))
		return -1;
	/* What an active run put, or found on the list and renewed, is at most STORE_FRESH_NS older
	 * than the run. */
	if (c->used_ns != INT64_MAX)
		c->young_ns = MIN(c->young_ns, c->used_ns - STORE_FRESH_NS - NS_PER_S);
	if (read_list(c, err) < 0)
		return -1;
	c->holds = condemned_list_len(&c->condemned) > 0;
	if (mark_all(c, err) < 0)
		return -1;
	if (!c->o->dry_run) /* before the blobs: a link keeps a blob's bytes */
		c->res->views = view_evict(c->s, c->young_ns);
	return sweep(c, err);
}

static void collector_deinit(struct collector *c)
{
	for (int space = 0; space < STORE_SPACES; space++) {
		digest_set_free(c->live[space]);
		digest_set_free(c->held[space]);
	}
	digest_set_free(c->keys);
	condemned_list_deinit(&c->condemned);
	VEC_FREE(&c->trees);
	VEC_FREE(&c->records);
	condemned_list_deinit(&c->next);
}

static void collector_init(struct collector *c, struct store *s, const struct store_gc_options *o,
			   struct store_gc_result *res)
{
	assert(o->grace_ns >= 0 && o->mark_gap_ns >= 0);
	assert(o->names || !o->n_manifests);
	*c = (struct collector){ .s = s,
				 .o = o,
				 .res = res,
				 .keys = digest_set_new(),
				 .young_ns = o->now_ns - o->grace_ns,
				 .used_ns = INT64_MAX,
				 .holds = o->goes != NULL,
				 .into = c->live };
	*res = (struct store_gc_result){ 0 };
	for (int space = 0; space < STORE_SPACES; space++) {
		c->live[space] = digest_set_new();
		c->held[space] = digest_set_new();
	}
}

int store_gc(struct store *s, const struct store_gc_options *o, struct store_gc_result *ret,
	     struct err *err)
{
	struct collector c;
	struct err e = { 0 };
	int r;

	collector_init(&c, s, o, ret);
	r = collect(&c, err ? err : &e);
	collector_deinit(&c);
	return r;
}

int store_mark(struct store *s, const struct store_gc_options *o,
	       struct digest_set *ret_live[STORE_SPACES], struct digest_set *ret_held[STORE_SPACES],
	       struct store_gc_result *ret, struct err *err)
{
	struct collector c;
	struct err e = { 0 };
	int r;

	collector_init(&c, s, o, ret);
	r = mark_all(&c, err ? err : &e);
	for (int space = 0; space < STORE_SPACES && r == 0; space++) {
		ret_live[space] = TAKE_PTR(c.live[space]);
		ret_held[space] = TAKE_PTR(c.held[space]);
	}
	collector_deinit(&c);
	return r;
}

/* Verify, gc and stat of a whole store.
 *
 * Collecting is safe while others write, because nothing is removed that (a) any root reaches now, or (b) is younger than the grace
 * time — a put that finds an object instead of writing it makes it young again —, or (c) was not found dead by an earlier mark at least
 * the gap ago. Condemned names are kept in the store between the two marks, in `condemned`.
 */
#include <errno.h>
#include "base/fs.h"
#include "storage/action.h"
#include "storage/internal.h"
#include "storage/maintain.h"

/* --- stat ---------------------------------------------------------------------------------------------------------------- */

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
	*ret = (struct store_stat){ 0 };
	for (int space = 0; space < STORE_SPACES; space++) {
		struct counter c = { &ret->objects[space], &ret->bytes[space] };

		if (store_list(s, (enum store_space)space, count_object, &c, err) < 0)
			return -1;
	}
	if (s->ops->stat_extra)
		s->ops->stat_extra(s, &ret->temporaries, &ret->temporary_bytes, &ret->set_aside);
	return 0;
}

/* --- verify ---------------------------------------------------------------------------------------------------------------- */

struct verifier {
	struct store *s;
	enum store_space space;
	void (*on_problem)(void *arg, const struct store_problem *p);
	void (*on_progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	uint64_t done, total;
	int64_t problems;
};

static void problem(struct verifier *v, const struct digest *name, const struct err *e)
{
	struct store_problem p = { .space = v->space, .name = *name, .err = *e };

	v->problems++;
	if (v->on_problem)
		v->on_problem(v->arg, &p);
}

static int verify_blob(struct verifier *v, const struct digest *name, uint64_t size, struct err *e)
{
	_cleanup_(fd_closep) int fd = -1;
	struct content_id id = { .digest = *name, .size_bytes = size, .kind = CONTENT_BLOB };
	struct digest d;

	if (content_open(v->s, &id, &fd, e) < 0 || content_hash_fd(fd, size, 1, &d, e) < 0)
		return -1;
	if (digest_eq(&d, name))
		return 0;
	v->s->ops->set_aside(v->s, STORE_BLOB, name);
	return err_set(e, ERR_CORRUPT, "its bytes don't match its digest; the copy was set aside");
}

static int verify_tree(struct verifier *v, const struct digest *name, uint64_t size, struct err *e)
{
	struct content_id id = { .digest = *name, .size_bytes = size, .kind = CONTENT_TREE };
	_cleanup_(tree_freep) struct tree *t = NULL;

	if (tree_load(v->s, &id, &t, e) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++) {
		const struct tree_entry *m = tree_at(t, i);
		bool present = false;

		if (m->kind == TREE_SYMLINK)
			continue;
		if (store_has(v->s, &m->id, 1, &present, e) < 0)
			return -1;
		if (!present)
			return err_set(e, ERR_NOT_FOUND, "its member `%s` is missing", m->name);
	}
	return 0;
}

static int verify_action(struct verifier *v, const struct digest *name, struct err *e)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct action_record a;

	if (store_get(v->s, STORE_ACTION, name, 16 * MIB, &bytes, e) < 0)
		return -1;
	if (action_decode(bytes.s ? bytes.s : "", bytes.len, arena, &a, e) < 0) {
		v->s->ops->set_aside(v->s, STORE_ACTION, name);
		return -1;
	}
	for (size_t i = 0; i < a.n_outputs; i++) {
		bool present = false;

		if (store_has(v->s, &a.outputs[i].id, 1, &present, e) < 0)
			return -1;
		if (!present)
			return err_set(e, ERR_NOT_FOUND, "output `%s` of %s is missing", a.outputs[i].name, a.task);
	}
	return 0;
}

static int verify_object(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct verifier *v = arg;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err e = { 0 };
	int r;

	switch (v->space) {
	case STORE_BLOB:
		r = verify_blob(v, name, size, &e);
		break;
	case STORE_TREE:
		r = verify_tree(v, name, size, &e);
		break;
	case STORE_ACTION:
		r = verify_action(v, name, &e);
		break;
	default:
		r = store_get(v->s, v->space, name, GIB, &bytes, &e);
	}
	if (r < 0)
		problem(v, name, &e);
	v->done++;
	if (v->on_progress)
		v->on_progress(v->arg, v->done, v->total);
	return 0;
}

int64_t store_verify(struct store *s, void (*on_problem)(void *arg, const struct store_problem *p), void (*on_progress)(void *arg, uint64_t done, uint64_t total),
		     void *arg, struct err *err)
{
	struct verifier v = { .s = s, .on_problem = on_problem, .on_progress = on_progress, .arg = arg };
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

/* --- gc: mark -------------------------------------------------------------------------------------------------------------------- */

#define CONDEMNED_MAGIC "cairn-condemned/1\n"
#define CONDEMNED_MAX (2 * GIB)

struct marker {
	struct store *s;
	const struct store_gc_options *o;
	struct map *live[STORE_SPACES];
	struct err err;
};

static bool mark(struct marker *m, enum store_space space, const struct digest *d)
{
	bool is_new;

	*map_slot(m->live[space], d->b, DIGEST_BYTES, &is_new) = m;
	return is_new;
}

/* What is missing can't be kept; what can't be read is kept by name and goes no deeper. */
static int mark_content(void *arg, const struct content_id *id)
{
	struct marker *m = arg;
	_cleanup_(tree_freep) struct tree *t = NULL;

	if (id->kind == CONTENT_NONE || !mark(m, id->kind == CONTENT_TREE ? STORE_TREE : STORE_BLOB, &id->digest) || id->kind != CONTENT_TREE)
		return 0;
	if (tree_load(m->s, id, &t, NULL) < 0)
		return 0;
	for (size_t i = 0; i < tree_len(t); i++)
		if (tree_at(t, i)->kind != TREE_SYMLINK)
			mark_content(m, &tree_at(t, i)->id);
	return 0;
}

static int mark_manifest(struct marker *m, const struct digest *hash)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (!mark(m, STORE_RUN, hash) || store_get(m->s, STORE_RUN, hash, GIB, &bytes, NULL) < 0)
		return 0;
	/* A manifest that can't be read: nobody knows what it needs. Keep everything rather than guess. */
	return m->o->manifest_refs(bytes.s, bytes.len, mark_content, m, &m->err);
}

/* A record is kept when its caller says so, or when all that it names is kept anyway: then it costs nothing and still answers. */
static int mark_action(void *arg, const struct digest *name, uint64_t size_bytes, int64_t mtime_ns)
{
	struct marker *m = arg;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct action_record a;
	bool keep = true;

	if (store_get(m->s, STORE_ACTION, name, 16 * MIB, &bytes, NULL) < 0 || action_decode(bytes.s ? bytes.s : "", bytes.len, arena, &a, NULL) < 0)
		return 0;
	if (!m->o->keep_action || !m->o->keep_action(m->o->arg, &a.key)) {
		for (size_t i = 0; i < a.n_outputs && keep; i++)
			keep = map_has(m->live[a.outputs[i].id.kind == CONTENT_TREE ? STORE_TREE : STORE_BLOB], a.outputs[i].id.digest.b, DIGEST_BYTES);
		if (!keep || a.n_outputs == 0)
			return 0;
	}
	mark(m, STORE_ACTION, name);
	for (size_t i = 0; i < a.n_outputs; i++)
		mark_content(m, &a.outputs[i].id);
	mark_content(m, &a.key_record);
	mark_content(m, &a.metrics);
	mark_content(m, &a.log);
	return 0;
}

static int mark_all(struct marker *m, struct err *err)
{
	for (size_t i = 0; i < m->o->n_contents; i++)
		mark_content(m, &m->o->contents[i]);
	for (size_t i = 0; i < m->o->n_manifests; i++)
		if (mark_manifest(m, &m->o->manifests[i]) < 0) {
			*err = m->err;
			return err_wrap(err, "collecting nothing, because a run's manifest can't be read");
		}
	return store_list(m->s, STORE_ACTION, mark_action, m, err);
}

/* --- gc: condemned -------------------------------------------------------------------------------------------------------------- */

static char *condemned_path(struct store *s)
{
	return *s->uri == '/' ? xasprintf("%s/condemned", s->uri) : NULL;
}

/* File: magic, time of the mark (u64), then per object its space (1 byte) and digest. A damaged file is no mark. */
static struct map *read_condemned(struct store *s, int64_t *ret_marked_ns)
{
	_cleanup_(freep) char *path = condemned_path(s);
	_cleanup_(str_deinit) struct str bytes = { 0 };
	const size_t head = sizeof(CONDEMNED_MAGIC) - 1 + 8;
	uint64_t when = 0;
	struct map *m;

	*ret_marked_ns = 0;
	if (!path || fs_read_file(path, CONDEMNED_MAX, &bytes, NULL) < 0 || bytes.len < head || memcmp(bytes.s, CONDEMNED_MAGIC, head - 8) != 0 ||
	    (bytes.len - head) % (1 + DIGEST_BYTES))
		return NULL;
	for (int i = 7; i >= 0; i--)
		when = when << 8 | (uint8_t)bytes.s[head - 8 + (size_t)i];
	*ret_marked_ns = (int64_t)when;
	m = map_new();
	for (size_t at = head; at < bytes.len; at += 1 + DIGEST_BYTES)
		*map_slot(m, bytes.s + at, 1 + DIGEST_BYTES, NULL) = m;
	return m;
}

static int write_condemned(struct store *s, int64_t now_ns, const struct str *entries, struct err *err)
{
	_cleanup_(freep) char *path = condemned_path(s);
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (!path)
		return 0;
	str_add(&bytes, CONDEMNED_MAGIC);
	str_add_u64(&bytes, (uint64_t)now_ns);
	str_addn(&bytes, entries->len ? entries->s : "", entries->len);
	return fs_write_atomic(path, bytes.s, bytes.len, err);
}

/* --- gc: sweep --------------------------------------------------------------------------------------------------------------------- */

struct sweeper {
	struct marker *m;
	enum store_space space;
	struct map *condemned; /* by an earlier mark that is old enough, or NULL */
	struct str dead;       /* for the next one */
	struct store_gc_result *res;
	struct err err;
};

static int sweep_object(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct sweeper *w = arg;
	uint8_t key[1 + DIGEST_BYTES] = { (uint8_t)w->space };

	memcpy(key + 1, name->b, DIGEST_BYTES);
	if (map_has(w->m->live[w->space], name->b, DIGEST_BYTES)) {
		w->res->live++;
		return 0;
	}
	if (mtime_ns > w->m->o->now_ns - w->m->o->grace_ns) {
		w->res->young++;
		return 0;
	}
	w->res->condemned++;
	if (!w->condemned || !map_has(w->condemned, key, sizeof(key))) {
		str_addn(&w->dead, key, sizeof(key));
		return 0;
	}
	w->res->deleted++;
	w->res->deleted_bytes += size;
	return w->m->o->dry_run ? 0 : store_delete(w->m->s, w->space, name, &w->err);
}

static int sweep(struct marker *m, struct map *condemned, struct store_gc_result *res, struct str *ret_dead, struct err *err)
{
	struct sweeper w = { .m = m, .condemned = condemned, .res = res };
	int r = 0;

	/* Records before what they name: a crash in between leaves only content that nothing names. */
	static const enum store_space order[] = { STORE_RUN, STORE_ACTION, STORE_TREE, STORE_BLOB };

	for (size_t i = 0; i < ARRAY_LEN(order) && r == 0; i++) {
		w.space = order[i];
		r = store_list(m->s, w.space, sweep_object, &w, err);
	}
	if (r < 0 && w.err.code && err)
		*err = w.err;
	*ret_dead = w.dead;
	return r;
}

int store_gc(struct store *s, const struct store_gc_options *o, struct store_gc_result *ret, struct err *err)
{
	struct marker m = { .s = s, .o = o };
	struct str dead = { 0 };
	struct map *condemned;
	int64_t marked_ns;
	int r;

	*ret = (struct store_gc_result){ 0 };
	for (int space = 0; space < STORE_SPACES; space++)
		m.live[space] = map_new();
	condemned = read_condemned(s, &marked_ns);
	ret->first_mark = !condemned || o->now_ns - marked_ns < o->mark_gap_ns;
	r = mark_all(&m, err);
	if (r == 0)
		r = sweep(&m, ret->first_mark ? NULL : condemned, ret, &dead, err);
	/* A mark that is waiting for its gap isn't replaced by a younger one: it would never come to a sweep. */
	if (r == 0 && !o->dry_run && (!condemned || !ret->first_mark))
		r = write_condemned(s, o->now_ns, &dead, err);
	ret->sweep_after_ns = (ret->first_mark && condemned ? marked_ns : o->now_ns) + o->mark_gap_ns;
	str_deinit(&dead);
	map_free(condemned);
	for (int space = 0; space < STORE_SPACES; space++)
		map_free(m.live[space]);
	return r;
}

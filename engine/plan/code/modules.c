/* engine/plan/code/modules.c — what a script brings along: the modules of the project that it
 * imports, the files that it sources, and what those ask for in turn.
 *
 * A graph belongs to one list of roots: the folders of sys.path that lie in the project. Its nodes
 * are files. What a file asks for is resolved at its first visit and kept. A walk goes breadth
 * first from one node, so that the reason given for a file is a shortest one. Each walk has a
 * number, which marks the nodes it has visited; so marks needn't be cleared, and cycles end.
 *
 * resolve_parts() is Python's import system with files only (PEP 420). In each root it looks for a
 * package with an __init__.py, then a module, then a folder that may be a part of a namespace. The
 * first two win over the third in whichever root they are. Each package on the way is included,
 * since Python executes it. A relative import starts at the folder of the file and never goes above
 * its root, as in Python.
 *
 * A name that isn't found is no error: it is installed, or built in, or the script does without it.
 */
#include <string.h>
#include "base/os/fs.h"
#include "plan/code/code.h"
#include "plan/code/scan.h"

/* Files that one script may bring along: the list and the tree must stay affordable for each
 * step. */
#define FILES_MAX 65536

struct edge {
	uint32_t to;
	unsigned line;
};

struct node {
	const char *path;
	uint32_t root; /* where it was found: index into roots */
	enum code_language language;
	bool resolved;
	VEC(struct edge) edges;
	uint32_t walk; /* the last walk that visited it */
};

struct graph {
	struct code_roots roots;
	VEC(struct node) nodes;
	struct map *by_path; /* → index + 1 */
	struct map *answers; /* earlier question → struct answer */
	uint32_t walk;
};

struct answer {
	struct plan_code_file *v;
	size_t n;
};

struct code_modules {
	struct plan *p;
	struct code_project *project;
	struct map *by_roots;
	VEC(struct graph *) graphs;
};

struct code_modules *code_modules_new(struct plan *p, struct code_project *project)
{
	struct code_modules *m = xcalloc(1, sizeof(*m));

	m->p = p;
	m->project = project;
	m->by_roots = map_new();
	return m;
}

void code_modules_free(struct code_modules *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->graphs.n; i++) {
		struct graph *g = m->graphs.v[i];

		for (size_t k = 0; k < g->nodes.n; k++)
			VEC_FREE(&g->nodes.v[k].edges);
		VEC_FREE(&g->nodes);
		map_free(g->by_path);
		map_free(g->answers);
		free(g);
	}
	VEC_FREE(&m->graphs);
	map_free(m->by_roots);
	free(m);
}

static struct graph *graph_of(struct code_modules *m, const struct code_roots *roots)
{
	_cleanup_(str_deinit) struct str key = { 0 };
	struct graph *g;
	void **slot;

	str_add(&key, "");
	for (size_t i = 0; i < roots->n; i++)
		str_add_field(&key, roots->v[i], strlen(roots->v[i]));
	slot = map_slot(m->by_roots, key.s, key.len, NULL);
	if (*slot)
		return *slot;
	g = *slot = xcalloc(1, sizeof(*g));
	g->by_path = map_new();
	g->answers = map_new();
	g->roots.v = arena_alloc(m->p->arena, (roots->n + 1) * sizeof(*g->roots.v));
	for (g->roots.n = 0; g->roots.n < roots->n; g->roots.n++)
		g->roots.v[g->roots.n] = arena_strdup(m->p->arena, roots->v[g->roots.n]);
	VEC_PUSH(&m->graphs, g);
	return g;
}

/* Finding. */

/* One search; results are appended to `found`. */
struct search {
	struct code_modules *m;
	struct graph *g;
	enum code_language language;
	VEC(uint32_t) found;
};

static const char *below(struct search *s, const char *dir, const char *name, const char *suffix)
{
	return arena_printf(s->m->p->arena, "%s%s%s%s", dir, *dir ? "/" : "", name, suffix);
}

static bool add_file(struct search *s, const char *path, uint32_t root)
{
	void **slot;
	struct node *n;

	if (!code_project_script(s->m->project, path, s->language)->exists)
		return false;
	slot = map_slot_str(s->g->by_path, path);
	if (!*slot) {
		n = VEC_ADD(&s->g->nodes);
		n->path = path;
		n->root = root;
		n->language = s->language;
		*slot = (void *)(uintptr_t)s->g->nodes.n;
	}
	VEC_PUSH(&s->found, (uint32_t)((uintptr_t)*slot - 1));
	return true;
}

enum module_kind { NOTHING, MODULE, PACKAGE, NAMESPACE };

/* Tells what `name` is in folder `dir`. For a package or a namespace, *ret is its folder. */
static enum module_kind find_part(struct search *s, const char *dir, uint32_t root,
				  const char *name, const char **ret)
{
	_cleanup_(freep) char *file = xasprintf("%s.py", name);
	bool folder = code_project_has(s->m->project, dir, name);
	const char *path;

	if (folder) {
		path = below(s, dir, name, "");
		folder = code_project_is_dir(s->m->project, path);
	}
	if (folder && code_project_has(s->m->project, path, "__init__.py") &&
	    add_file(s, below(s, path, "__init__", ".py"), root)) {
		*ret = path;
		return PACKAGE;
	}
	if (code_project_has(s->m->project, dir, file) &&
	    add_file(s, below(s, dir, name, ".py"), root))
		return MODULE;
	if (folder)
		*ret = path;
	return folder ? NAMESPACE : NOTHING;
}

/* Follows the parts of a dotted name from `at` on, below folder `dir`; then `name`, which may be a
 * module of that package, or something in it. Returns what the last part is, and its folder. */
static enum module_kind resolve_rest(struct search *s, const char *dir, uint32_t root,
				     const char *at, const char *name, const char **ret)
{
	enum module_kind kind = PACKAGE;

	while (*at && (kind == PACKAGE || kind == NAMESPACE)) {
		size_t n = strcspn(at, ".");
		_cleanup_(freep) char *part = xstrndup(at, n);

		kind = find_part(s, dir, root, part, &dir);
		at += n;
		at += *at == '.';
	}
	if (*at)
		return NOTHING;
	*ret = dir;
	if (name && (kind == PACKAGE || kind == NAMESPACE))
		find_part(s, dir, root, name, &dir);
	return kind;
}

/* The same, starting at the roots. */
static enum module_kind resolve_parts(struct search *s, const char *module, const char *name,
				      const char **ret, uint32_t *ret_root)
{
	size_t n = strcspn(module, "."), before = s->found.n;
	_cleanup_(freep) char *first = xstrndup(module, n);
	const char *rest = module + n + (module[n] == '.'), *dir;
	bool namespace = false;
	enum module_kind kind = NOTHING;

	for (uint32_t i = 0; i < s->g->roots.n; i++) {
		kind = find_part(s, s->g->roots.v[i], i, first, &dir);
		*ret_root = i;
		if (kind == PACKAGE)
			return resolve_rest(s, dir, i, rest, name, ret);
		if (kind == MODULE)
			return *rest ? NOTHING : MODULE;
		namespace |= kind == NAMESPACE;
	}
	for (uint32_t i = 0; i < s->g->roots.n && namespace; i++) {
		if (find_part(s, s->g->roots.v[i], i, first, &dir) != NAMESPACE)
			continue;
		*ret_root = i;
		kind = resolve_rest(s, dir, i, rest, name, ret);
		if (s->found.n > before)
			break;
	}
	return kind;
}

static void resolve_relative(struct search *s, const struct node *from,
			     const struct code_request *a)
{
	const char *root = s->g->roots.v[from->root], *dir;
	size_t root_len = strlen(root), len = strlen(from->path), up = a->level;

	/* The first dot is the folder of the file; each further dot is one above it. */
	for (; up; up--) {
		while (len > root_len && from->path[len - 1] != '/')
			len--;
		if (len <= root_len + (root_len ? 1 : 0))
			return; /* no package is above the root */
		len--;
	}
	dir = arena_strndup(s->m->p->arena, from->path, len);
	resolve_rest(s, dir, from->root, a->module, a->name, &dir);
}

static void resolve_node(struct code_modules *m, struct graph *g, uint32_t at)
{
	struct node from = g->nodes.v[at]; /* a copy: nodes move when the list grows */
	const struct code_script *script =
		code_project_script(m->project, from.path, from.language);
	struct search s = { .m = m, .g = g, .language = from.language };
	const char *dir;
	uint32_t root;

	g->nodes.v[at].resolved = true;
	for (size_t i = 0; i < script->n; i++) {
		const struct code_request *a = &script->asks[i];

		s.found.n = 0;
		if (from.language == CODE_SHELL) {
			_cleanup_(freep) char *path = fs_normalise(a->module);

			if (*path != '/' && fs_is_inside(".", path) &&
			    code_project_may_have(m->project, path))
				add_file(&s, arena_strdup(m->p->arena, path), 0);
		} else if (a->level)
			resolve_relative(&s, &from, a);
		else
			resolve_parts(&s, a->module, a->name, &dir, &root);
		for (size_t k = 0; k < s.found.n; k++)
			VEC_PUSH(&g->nodes.v[at].edges, ((struct edge){ s.found.v[k], a->line }));
	}
	VEC_FREE(&s.found);
}

/* Walks. */

struct walk {
	struct code_modules *m;
	struct graph *g;
	VEC(uint32_t) queue;
	VEC(struct plan_code_file) files;
};

static void visit(struct walk *w, uint32_t at, const char *by, unsigned line)
{
	struct node *n = &w->g->nodes.v[at];
	enum plan_code_why why = !by                          ? PLAN_CODE_NAMED
				 : n->language == CODE_PYTHON ? PLAN_CODE_IMPORTED
							      : PLAN_CODE_SOURCED;
	struct plan_code_file f = { n->path, why, by, line };

	if (n->walk == w->g->walk)
		return;
	n->walk = w->g->walk;
	VEC_PUSH(&w->queue, at);
	VEC_PUSH(&w->files, f);
}

static int walk_all(struct walk *w, struct err *err)
{
	for (size_t i = 0; i < w->queue.n; i++) {
		uint32_t at = w->queue.v[i];

		if (!w->g->nodes.v[at].resolved)
			resolve_node(w->m, w->g, at);
		for (size_t k = 0; k < w->g->nodes.v[at].edges.n; k++) {
			struct edge e = w->g->nodes.v[at].edges.v[k];

			visit(w, e.to, w->g->nodes.v[at].path, e.line);
		}
		if (w->queue.n > FILES_MAX)
			return err_set(err, ERR_INVALID,
				       "%s brings more than %d files of the project along",
				       w->files.v[0].path, FILES_MAX);
	}
	return 0;
}

/* Walks from what a search found; keeps the answer under `key`. */
static int walk_from(struct search *s, const char *key, const struct plan_code_file **ret,
		     size_t *ret_n, struct err *err)
{
	struct walk w = { .m = s->m, .g = s->g };
	struct answer *a = arena_alloc(s->m->p->arena, sizeof(*a));
	int r;

	s->g->walk++;
	for (size_t i = 0; i < s->found.n; i++)
		visit(&w, s->found.v[i], NULL, 0);
	VEC_FREE(&s->found);
	r = walk_all(&w, err);
	VEC_FREE(&w.queue);
	VEC_TO_ARENA(&w.files, s->m->p->arena, &a->v, &a->n);
	*map_slot_str(s->g->answers, key) = a;
	*ret = a->v;
	*ret_n = a->n;
	return r;
}

static bool answered(const struct graph *g, const char *key, const struct plan_code_file **ret,
		     size_t *ret_n)
{
	const struct answer *a = map_get_str(g->answers, key);

	if (a) {
		*ret = a->v;
		*ret_n = a->n;
	}
	return a != NULL;
}

int code_modules_of_script(struct code_modules *m, const struct code_roots *roots, const char *path,
			   enum code_language language, const struct plan_code_file **ret,
			   size_t *ret_n, struct err *err)
{
	_cleanup_(freep) char *key = xasprintf("%d %s", language, path);
	struct search s = { .m = m, .g = graph_of(m, roots), .language = language };

	if (answered(s.g, key, ret, ret_n))
		return 0;
	add_file(&s, arena_strdup(m->p->arena, path), 0);
	return walk_from(&s, key, ret, ret_n, err);
}

int code_modules_of_module(struct code_modules *m, const struct code_roots *roots, const char *name,
			   const struct plan_code_file **ret, size_t *ret_n, struct err *err)
{
	_cleanup_(freep) char *key = xasprintf("-m %s", name);
	struct search s = { .m = m, .g = graph_of(m, roots), .language = CODE_PYTHON };
	const char *dir, *main;
	uint32_t root = 0;
	enum module_kind kind;

	if (answered(s.g, key, ret, ret_n))
		return 0;
	kind = resolve_parts(&s, name, NULL, &dir, &root);
	/* Python executes a package's __main__.py; without one, the package isn't the project's. */
	if ((kind == PACKAGE || kind == NAMESPACE) &&
	    find_part(&s, dir, root, "__main__", &main) != MODULE)
		kind = NOTHING;
	if (kind == NOTHING)
		s.found.n = 0;
	return walk_from(&s, key, ret, ret_n, err);
}

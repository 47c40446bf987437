/* engine/plan/code/code.c — which files of the project belong to a step: its code.
 *
 * What a step wants is read from its command and its keys (struct wanted): the paths of `code` and
 * `env_file`, the files that the command names, modules after `-m`, and the folders of PYTHONPATH.
 * Steps that want the same share one answer (struct plan_code). So the imports of a script are
 * followed, and its tree is made, once a plan.
 *
 * A word of a command is a Python script when its name, its first line, or the word before it says
 * so; a shell script likewise. Python finds modules in the script's folder, then in the folders of
 * PYTHONPATH; with `-m`, in the project's root.
 *
 * A resumed or reproduced run reads nothing here: its code is pinned.
 */
#include "plan/code/code.h"
#include <string.h>
#include "base/os/fs.h"

struct named {
	const char *text; /* a path, or with `module` a dotted name */
	enum code_language language;
	bool module;
	bool launched; /* by a module: `-m torch.distributed.run train.py` */
};

struct wanted {
	const struct step *step;
	VEC(struct named) named;
	VEC(const char *) pythonpath;
	struct str key; /* all of it, as bytes */
};

struct item {
	struct plan_code_file file;
	struct code_entry *entry;
	size_t order; /* of several reasons, the first is reported */
};

struct code {
	struct plan *p;
	const char *root;  /* what lies elsewhere; NULL: the project */
	struct code *next; /* of another root */
	struct code_project *project;
	struct code_modules *modules;
	struct map *answers;
	struct map *stored; /* trees that several steps have in their code */
	/* Of the current step. */
	struct wanted wanted;
	VEC(struct item) items;
	struct str scratch;
	/* What each byte is in a command, as bits. A plan looks at every byte of every command. */
	unsigned char byte_is[256];
};
enum {
	IS_SIGN = 1,   /* of the shell: a path in a command doesn't hold it */
	ENDS_WORD = 2, /* a word ends before it */
};

static struct code *code_of_root(struct plan *p, const char *root)
{
	struct code *c = xcalloc(1, sizeof(*c));

	c->p = p;
	c->root = root;
	c->project = code_project_new(p, root);
	c->modules = code_modules_new(p, c->project);
	c->answers = map_new();
	c->stored = map_new();
	for (const char *at = "\n$*?[]{}<>|&;()=!\\\"'`#"; *at; at++)
		c->byte_is[(unsigned char)*at] |= IS_SIGN;
	for (const char *at = " \t\n;|&()<>\"'`"; *at; at++)
		c->byte_is[(unsigned char)*at] |= ENDS_WORD;
	c->byte_is[0] |= IS_SIGN;
	return c;
}

struct code *code_new(struct plan *p)
{
	return code_of_root(p, NULL);
}

void code_free(struct code *c)
{
	if (!c)
		return;
	code_free(c->next);
	code_modules_free(c->modules);
	code_project_free(c->project);
	map_free(c->answers);
	map_free(c->stored);
	VEC_FREE(&c->wanted.named);
	VEC_FREE(&c->wanted.pythonpath);
	str_deinit(&c->wanted.key);
	VEC_FREE(&c->items);
	str_deinit(&c->scratch);
	free(c);
}

/* What the command names. */

/* Whether this word of a command may be the path of a file in the project. */
static bool may_be_path(const struct code *c, const char *w, size_t n)
{
	if (n == 0 || n > 512 || w[0] == '/' || w[0] == '-' || w[0] == '~')
		return false;
	for (size_t i = 0; i < n; i++)
		if (c->byte_is[(unsigned char)w[i]] & IS_SIGN)
			return false;
	return memmem(w, n, "..", 2) == NULL;
}

static bool may_be_module(const struct code *c, const char *w, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strchr("/-", w[i]) || (w[i] == '.' && (i == 0 || i + 1 == n)))
			return false;
	return may_be_path(c, w, n);
}

/* A word of a command. */
struct word {
	const char *at;
	size_t n;
};

static bool word_is(const struct word *w, const char *text)
{
	return w->n == strlen(text) && memcmp(w->at, text, w->n) == 0;
}

/* The language that the program expects of a file it is given. */
static enum code_language language_of_program(const struct word *w)
{
	static const char *const shells[] = { ".", "source", "sh", "bash", "dash", "ksh", "zsh" };
	const char *slash = w->n ? memrchr(w->at, '/', w->n) : NULL;
	struct word base = { slash ? slash + 1 : w->at,
			     slash ? (size_t)(w->at + w->n - slash - 1) : w->n };

	if (base.n >= 6 && memcmp(base.at, "python", 6) == 0)
		return CODE_PYTHON;
	for (size_t i = 0; base.n && i < ARRAY_LEN(shells); i++)
		if (word_is(&base, shells[i]))
			return CODE_SHELL;
	return CODE_OTHER;
}

/* Adds the folders of PYTHONPATH that lie in the project. A command runs in the project's root, as
 * the command sees it, so $PWD is the root. */
static void add_pythonpath(struct code *c, const char *at, size_t n, bool in_command)
{
	for (const char *end = at + n, *stop; at <= end; at = stop + 1) {
		_cleanup_(freep) char *dir = NULL, *plain = NULL;

		stop = memchr(at, ':', (size_t)(end - at));
		stop = stop ? stop : end;
		dir = xstrndup(at, (size_t)(stop - at));
		plain = fs_normalise(in_command && str_has_prefix(dir, "$PWD/")
					     ? dir + strlen("$PWD/")
				     : in_command && str_eq(dir, "$PWD") ? "."
									 : dir);
		if (*plain == '/' || strchr(plain, '$') || !fs_is_inside(".", plain))
			continue;
		VEC_PUSH(&c->wanted.pythonpath,
			 arena_strdup(c->p->arena, str_eq(plain, ".") ? "" : plain));
	}
}

/* Adds a word of a command; up to two words before it in the same command matter. */
static void add_word(struct code *c, const struct word *w, const struct word *program,
		     bool behind_m, bool launched)
{
	static const char variable[] = "PYTHONPATH=";
	struct named named = { .launched = launched };
	struct word path = *w;

	if (path.n > strlen(variable) && memcmp(path.at, variable, strlen(variable)) == 0) {
		add_pythonpath(c, path.at + strlen(variable), path.n - strlen(variable), true);
		return;
	}
	while (path.n > 2 && path.at[0] == '.' && path.at[1] == '/')
		path.at += 2, path.n -= 2;
	str_reset(&c->scratch);
	str_addn(&c->scratch, path.at, path.n);
	if (behind_m && may_be_module(c, w->at, w->n)) {
		named.module = true;
	} else if (!may_be_path(c, path.at, path.n) ||
		   !code_project_may_have(c->project, c->scratch.s)) {
		return;
	} else {
		named.language = str_has_suffix(c->scratch.s, ".py") ? CODE_PYTHON
				 : str_has_suffix(c->scratch.s, ".sh") ||
						 str_has_suffix(c->scratch.s, ".bash")
					 ? CODE_SHELL
					 : language_of_program(program);
	}
	named.text = arena_strndup(c->p->arena, path.at, path.n);
	VEC_PUSH(&c->wanted.named, named);
}

static void add_words(struct code *c, const struct expr_template *run)
{
	static const char commands[] = "\n;|&()";
	struct word program = { 0 };
	bool behind_m = false, launched = false;

	for (size_t i = 0; run && i < run->n_parts; i++) {
		const char *at = run->parts[i].text, *end;

		if (run->parts[i].expr)
			continue;
		for (end = at + run->parts[i].len; at < end; at++) {
			struct word w = { at, 0 };

			while (at < end && !(c->byte_is[(unsigned char)*at] & ENDS_WORD))
				at++;
			w.n = (size_t)(at - w.at);
			/* A word that continues in an expression isn't a name by itself. */
			if (w.n && !(at == end && i + 1 < run->n_parts)) {
				add_word(c, &w, &program, behind_m, launched);
				launched |= behind_m;
				behind_m = word_is(&w, "-m");
				if (*w.at != '-')
					program = w;
			}
			if (at < end && strchr(commands, *at)) {
				program.n = 0;
				behind_m = launched = false;
			}
		}
	}
}

static void add_list(struct str *key, const char *const *v, size_t n)
{
	str_add_u32(key, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		str_add_field(key, v[i], strlen(v[i]));
}

static void want(struct code *c, const struct step *s)
{
	struct wanted *w = &c->wanted;

	w->step = s;
	w->named.n = w->pythonpath.n = 0;
	str_reset(&w->key);
	for (size_t i = 0; i < s->reads->n_env; i++) {
		const struct named_template *e = &s->reads->env[i];

		if (str_eq(e->name, "PYTHONPATH") && e->value->n_parts == 1 &&
		    !e->value->parts[0].expr)
			add_pythonpath(c, e->value->parts[0].text, e->value->parts[0].len, false);
	}
	add_words(c, s->program.run);
	str_addc(&w->key, s->reads->no_imports ? 'n' : 'i');
	add_list(&w->key, s->reads->code, s->reads->n_code);
	add_list(&w->key, s->reads->env_files, s->reads->n_env_files);
	add_list(&w->key, w->pythonpath.v, w->pythonpath.n);
	for (size_t i = 0; i < w->named.n; i++) {
		const struct named *n = &w->named.v[i];

		str_addc(&w->key, (char)('a' + n->language * 4 + n->module * 2 + n->launched));
		str_add_field(&w->key, n->text, strlen(n->text));
	}
}

/* Resolving it. */

static int add_item(struct code *c, struct plan_code_file file, struct err *err)
{
	struct item i = { .file = file, .order = c->items.n };
	bool must_exist = file.why == PLAN_CODE_DECLARED;

	if (code_project_entry(c->project, file.path, must_exist, &i.entry, err) < 0)
		return -1;
	if (i.entry->exists)
		VEC_PUSH(&c->items, i);
	return 0;
}

static int add_modules(struct code *c, const struct named *n, struct err *err)
{
	const char **roots =
		arena_alloc(c->p->arena, (c->wanted.pythonpath.n + 2) * sizeof(*roots));
	struct code_roots where = { .v = roots };
	const struct plan_code_file *files;
	size_t n_files;
	int r;

	if (!n->module && n->language == CODE_PYTHON) {
		const char *slash = strrchr(n->text, '/');

		roots[where.n++] =
			slash ? arena_strndup(c->p->arena, n->text, (size_t)(slash - n->text)) : "";
	}
	if (n->module || (n->launched && n->language == CODE_PYTHON))
		roots[where.n++] = "";
	for (size_t i = 0; i < c->wanted.pythonpath.n && n->language != CODE_SHELL; i++)
		roots[where.n++] = c->wanted.pythonpath.v[i];
	r = n->module ? code_modules_of_module(c->modules, &where, n->text, &files, &n_files, err)
		      : code_modules_of_script(c->modules, &where, n->text, n->language, &files,
					       &n_files, err);
	for (size_t i = 0; i < n_files && r == 0; i++)
		r = add_item(c, files[i], err);
	return r;
}

static int add_named(struct code *c, struct named n, struct err *err)
{
	size_t before = c->items.n;

	if (n.module)
		return c->wanted.step->reads->no_imports ? 0 : add_modules(c, &n, err);
	if (add_item(c, (struct plan_code_file){ .path = n.text, .why = PLAN_CODE_NAMED }, err) < 0)
		return -1;
	if (c->items.n == before || c->wanted.step->reads->no_imports)
		return 0;
	if (n.language == CODE_OTHER && c->items.v[before].entry->id.kind == CONTENT_EXECUTABLE)
		n.language = code_project_language(c->project, n.text);
	return n.language == CODE_OTHER ? 0 : add_modules(c, &n, err);
}

static int by_path(const void *a, const void *b)
{
	const struct item *x = a, *y = b;
	int order = strcmp(x->file.path, y->file.path);

	return order ? order : (x->order > y->order) - (x->order < y->order);
}

/* Keeps each path once, and drops those in a directory that is included whole. */
static void drop_covered(struct code *c)
{
	_cleanup_(map_freep) struct map *dirs = map_new();
	size_t kept = 0;

	qsort(c->items.v, c->items.n, sizeof(*c->items.v), by_path);
	for (size_t i = 0; i < c->items.n; i++)
		if (c->items.v[i].entry->id.kind == CONTENT_TREE)
			*map_slot_str(dirs, c->items.v[i].file.path) = dirs;
	for (size_t i = 0; i < c->items.n; i++) {
		const char *path = c->items.v[i].file.path;
		bool covered = map_get_str(dirs, ".") && !str_eq(path, ".");

		covered |= kept && str_eq(path, c->items.v[kept - 1].file.path);
		for (const char *at = path; map_len(dirs) && !covered && (at = strchr(at, '/'));
		     at++)
			covered = map_get(dirs, path, (size_t)(at - path)) != NULL;
		if (!covered)
			c->items.v[kept++] = c->items.v[i];
	}
	c->items.n = kept;
}

/* Adds what the step's own keys name. */
static int add_declared(struct code *c, const struct step *s, struct err *err)
{
	for (size_t i = 0; i < s->reads->n_code; i++)
		if (add_item(c,
			     (struct plan_code_file){ .path = s->reads->code[i],
						      .why = PLAN_CODE_DECLARED },
			     err) < 0)
			return -1;
	for (size_t i = 0; i < s->reads->n_env_files; i++) {
		const char *path = s->reads->env_files[i];
		size_t before = c->items.n;

		if (add_item(c, (struct plan_code_file){ .path = path, .why = PLAN_CODE_ENV_FILE },
			     err) < 0)
			return -1;
		if (c->items.n == before)
			return err_set(err, ERR_NOT_FOUND, "`env_file`: %s is no file of the %s",
				       path, s->root ? "commit or run that uses it" : "project");
	}
	return 0;
}

static int make_answer(struct code *c, struct plan_code *a, struct err *err)
{
	const struct step *s = c->wanted.step;
	struct plan_code_file *files;
	_cleanup_(freep) struct path_entry *entries = NULL;

	c->items.n = 0;
	if (add_declared(c, s, err) < 0)
		return err_wrap(err, "%s:%d:%d: step `%s`", s->pos.file, s->pos.line, s->pos.col,
				s->name);
	for (size_t i = 0; i < c->wanted.named.n; i++)
		if (add_named(c, c->wanted.named.v[i], err) < 0)
			return err_wrap(err, "step `%s`", s->name);
	if (c->items.n == 0)
		return 0;
	drop_covered(c);
	a->files = files = arena_alloc(c->p->arena, c->items.n * sizeof(*files));
	entries = xcalloc(c->items.n, sizeof(*entries));
	for (; a->n_files < c->items.n; a->n_files++) {
		const struct item *i = &c->items.v[a->n_files];

		files[a->n_files] = i->file;
		entries[a->n_files] =
			(struct path_entry){ .path = i->file.path,
					     .id = i->entry->id,
					     .kind = tree_entry_kind_of(&i->entry->id) };
	}
	if (a->n_files == 1 && str_eq(files[0].path, "."))
		a->tree = entries[0].id;
	else if (plan_tree_of_paths(c->p->ctx.store, c->stored, entries, a->n_files, &a->tree,
				    err) < 0)
		return err_wrap(err, "code of step `%s`", s->name);
	return 0;
}

/* Refuses code where the step writes an output: the old output would be part of its code. For paths
 * of `code`, `cairn check` reports this. */
static int check_outputs(const struct step *s, const struct plan_code *a, struct err *err)
{
	for (size_t i = 0; i < a->n_files; i++) {
		const struct plan_code_file *f = &a->files[i];

		for (size_t k = 0; f->by && k < s->n_outputs; k++)
			if (fs_is_inside(s->outputs[k].path, f->path))
				return err_set(err, ERR_INVALID,
					       "%s:%d:%d: output `%s` of step `%s` is made at %s, "
					       "where its code has %s (%s by %s:%u): give the "
					       "output another path",
					       s->outputs[k].pos.file, s->outputs[k].pos.line,
					       s->outputs[k].pos.col, s->outputs[k].name, s->name,
					       s->outputs[k].path, f->path,
					       f->why == PLAN_CODE_SOURCED ? "sourced" : "imported",
					       f->by, f->line);
	}
	return 0;
}

int code_pin(struct plan *p, struct plan_step *s, struct err *err)
{
	struct code *c = p->code;
	struct plan_code *a;
	void **slot;

	while (!str_eq(c->root, s->decl->root)) {
		c->next = c->next ? c->next : code_of_root(p, s->decl->root);
		c = c->next;
	}
	if (plan_is_resumed(p)) {
		const struct plan_pin *pin;

		str_reset(&c->scratch);
		str_addf(&c->scratch, "code:%s", s->decl->name);
		pin = plan_pin_find(p, c->scratch.s);
		if (pin) {
			a = arena_alloc(p->arena, sizeof(*a));
			a->tree = pin->id;
			s->facts.code = a;
		}
		return 0;
	}
	want(c, s->decl);
	slot = map_slot(c->answers, c->wanted.key.s, c->wanted.key.len, NULL);
	a = *slot;
	if (!a) {
		a = arena_alloc(p->arena, sizeof(*a));
		if (make_answer(c, a, err) < 0)
			return -1;
		*slot = a;
	}
	if (a->n_files == 0)
		return 0;
	if (check_outputs(s->decl, a, err) < 0)
		return -1;
	s->facts.code = a;
	str_reset(&c->scratch);
	str_addf(&c->scratch, "code:%s", s->decl->name);
	plan_pin_add(p, c->scratch.s, "code", &a->tree);
	return 0;
}

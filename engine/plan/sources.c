/* What comes from the project when a run starts: code and tool versions (the pipeline's inputs: pin.c). Each is pinned under a name, so that a
 * resumed run (and later a reproduced one) is given the same content without the project. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/command.h"
#include "base/fs.h"
#include "plan/internal.h"

/* What a tool says while nobody may run it. */
#define TOOL_UNKNOWN "(not known until a run asks it)\n"
/* What a tool says of its version is kept whole up to this size: enough for any --version. */
#define TOOL_TEXT_MAX (64 * KIB)
#define TOOL_TIMEOUT_NS (300 * NS_PER_S)

const struct plan_pin *find_pin(const struct plan *p, const char *name)
{
	void *i = map_get_str(p->pin_by_name, name);

	return i ? &p->pins.v[(uintptr_t)i - 1] : NULL;
}

void add_pin(struct plan *p, const char *name, const char *origin, const struct content_id *id)
{
	struct plan_pin pin = { arena_strdup(p->arena, name), arena_strdup(p->arena, origin), *id };

	VEC_PUSH(&p->pins, pin);
	*map_slot_str(p->pin_by_name, name) = (void *)(uintptr_t)p->pins.n;
}

static int take_given_pins(struct plan *p)
{
	for (size_t i = 0; i < p->ctx.n_pins; i++)
		add_pin(p, p->ctx.pins[i].name, p->ctx.pins[i].origin, &p->ctx.pins[i].id);
	return 0;
}

bool plan_is_resumed(const struct plan *p)
{
	return p->ctx.pins != NULL;
}

int put_path(struct plan *p, const char *path, bool hash_only, struct content_id *ret, struct err *err)
{
	struct content_put_options o = { .flags = hash_only ? CONTENT_PUT_HASH_ONLY : 0, .cache = p->ctx.cache,
					 .n_threads = p->options.hash_threads, .exclude = config_not_content,
					 .ignore = p->ctx.config->ignore };
	_cleanup_(fd_closep) int root = open(p->ctx.config->project_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return err_errno(err, "cannot open the project %s", p->ctx.config->project_root);
	return content_put_at(p->ctx.store, root, path, &o, ret, err);
}

/* --- code ------------------------------------------------------------------------------------------------------------- */

struct code_entry {
	bool exists;
	struct content_id id;
};

/* Paths of code are asked for again and again by steps that share it: what was put is not looked at again in this plan. That a word of a command is no file says
 * nothing of the same word under `code`, which may be a directory, and must be there. */
static int code_entry(struct plan *p, const char *path, bool must_exist, struct code_entry **ret, struct err *err)
{
	void **slot = map_slot_str(p->code_memo, path);
	struct code_entry *c = *slot;
	_cleanup_(freep) char *full = NULL;
	struct stat st;

	if (!c)
		c = *slot = arena_alloc(p->arena, sizeof(*c));
	*ret = c;
	if (c->exists)
		return 0;
	full = xasprintf("%s/%s", p->ctx.config->project_root, path);
	if (stat(full, &st) < 0)
		return must_exist ? err_errno(err, "code `%s`", path) : 0;
	if (!S_ISREG(st.st_mode) && !must_exist)
		return 0;
	if (put_path(p, path, p->options.hash_only, &c->id, err) < 0)
		return -1;
	c->exists = true;
	return 0;
}

/* Commands have many words, most of which are no files: one look at a directory's names answers for all. */
struct listing {
	struct map *names;
	bool too_large; /* then each is looked at by itself */
};
#define LISTING_MAX 8192

static struct listing *listing_of(struct plan *p, const char *dir)
{
	_cleanup_(freep) char *key = xasprintf("%s/", dir), *full = xasprintf("%s/%s", p->ctx.config->project_root, dir);
	void **slot = map_slot_str(p->code_memo, key); /* no path of code ends in a slash */
	struct listing *l = *slot;
	struct dirent *e;
	DIR *d;

	if (l)
		return l;
	l = *slot = arena_alloc(p->arena, sizeof(*l));
	l->names = map_new();
	VEC_PUSH(&p->listings, l->names);
	d = opendir(full);
	while (d && !l->too_large && (e = readdir(d))) {
		*map_slot_str(l->names, e->d_name) = l;
		l->too_large = map_len(l->names) > LISTING_MAX;
	}
	if (d)
		closedir(d);
	return l;
}

static bool may_exist(struct plan *p, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_(freep) char *dir = slash ? fs_dirname(path) : NULL;
	struct listing *l = slash ? listing_of(p, dir) : p->top;

	if (!l)
		l = p->top = listing_of(p, ".");
	return l->too_large || map_get_str(l->names, slash ? slash + 1 : path);
}

struct code_set {
	VEC(struct path_entry) entries;
	struct str joined;
};

static int add_code(struct plan *p, struct code_set *set, const char *path, bool must_exist, struct err *err)
{
	struct code_entry *c;
	struct path_entry e = { .path = path };

	for (size_t i = 0; i < set->entries.n; i++)
		if (str_eq(set->entries.v[i].path, path))
			return 0;
	if (code_entry(p, path, must_exist, &c, err) < 0)
		return -1;
	if (!c->exists)
		return 0;
	e.id = c->id;
	e.kind = tree_entry_kind_of(&c->id);
	VEC_PUSH(&set->entries, e);
	return 0;
}

/* Could this word of a command be the path of a file in the project? */
static bool may_be_path(const char *w, size_t n)
{
	if (n == 0 || n > 512 || w[0] == '/' || w[0] == '-' || w[0] == '~')
		return false;
	for (size_t i = 0; i < n; i++)
		if (w[i] == '\n' || strchr("$*?[]{}<>|&;()=!\\\"'`#", w[i]))
			return false;
	return memmem(w, n, "..", 2) == NULL;
}

/* Files that the command names: words that are regular files in the project. */
static int add_named_files(struct plan *p, const struct step *s, struct code_set *set, struct err *err)
{
	static const char separators[] = " \t\n;|&()<>\"'`";

	for (size_t i = 0; s->run && i < s->run->n_parts; i++) {
		const char *at = s->run->parts[i].text, *end;

		if (s->run->parts[i].expr)
			continue;
		for (end = at + s->run->parts[i].len; at < end;) {
			const char *w = at;
			size_t n;

			while (at < end && !strchr(separators, *at))
				at++;
			n = (size_t)(at - w);
			while (n > 2 && w[0] == '.' && w[1] == '/')
				w += 2, n -= 2;
			/* A word that goes on in an expression isn't a name by itself. */
			if (may_be_path(w, n) && !(at == end && i + 1 < s->run->n_parts)) {
				const char *path = arena_strndup(p->arena, w, n);

				if (may_exist(p, path) && add_code(p, set, path, false, err) < 0)
					return -1;
			}
			at++;
		}
	}
	return 0;
}

static int by_entry_path(const void *a, const void *b)
{
	return strcmp(((const struct path_entry *)a)->path, ((const struct path_entry *)b)->path);
}

/* "lib" covers "lib/a.py". */
static void drop_covered(struct code_set *set)
{
	size_t kept = 0;

	qsort(set->entries.v, set->entries.n, sizeof(*set->entries.v), by_entry_path);
	for (size_t i = 0; i < set->entries.n; i++) {
		bool covered = false;

		for (size_t k = 0; k < kept && !covered; k++) {
			size_t n = strlen(set->entries.v[k].path);

			covered = set->entries.v[k].kind == TREE_DIR && strncmp(set->entries.v[i].path, set->entries.v[k].path, n) == 0 &&
				  set->entries.v[i].path[n] == '/';
		}
		if (!covered)
			set->entries.v[kept++] = set->entries.v[i];
	}
	set->entries.n = kept;
}

static int pin_code(struct plan *p, struct plan_step *s, struct code_set *set, struct err *err)
{
	const struct plan_pin *pin;

	set->entries.n = 0;
	str_reset(&set->joined);
	if (plan_is_resumed(p)) {
		str_addf(&set->joined, "code:%s", s->decl->name);
		pin = find_pin(p, set->joined.s);
		if (pin)
			s->code = pin->id;
		return 0;
	}
	for (size_t i = 0; i < s->decl->n_code; i++)
		if (add_code(p, set, s->decl->code[i], true, err) < 0)
			return err_wrap(err, "%s:%d:%d: step `%s`", s->decl->pos.file, s->decl->pos.line, s->decl->pos.col, s->decl->name);
	if (add_named_files(p, s->decl, set, err) < 0)
		return err_wrap(err, "step `%s`", s->decl->name);
	if (set->entries.n == 0)
		return 0;
	drop_covered(set);
	if (tree_of_paths(p->ctx.store, set->entries.v, set->entries.n, &s->code, err) < 0)
		return err_wrap(err, "code of step `%s`", s->decl->name);
	str_addf(&set->joined, "code:%s", s->decl->name);
	add_pin(p, set->joined.s, "code", &s->code);
	return 0;
}

/* --- tools ------------------------------------------------------------------------------------------------------------- */

/* The file that the command's first word means, as PATH has it; false when there is none. */
static bool find_program(const char *command, struct stat *ret)
{
	size_t n = strcspn(command, " \t\n;|&<>()");
	const char *path = getenv("PATH");

	if (memchr(command, '/', n)) {
		_cleanup_(freep) char *file = xstrndup(command, n);

		return *file == '/' && stat(file, ret) == 0; /* tools are asked in the root directory */
	}
	while (n && path && *path) {
		size_t dir_n = strcspn(path, ":");
		_cleanup_(freep) char *file = xasprintf("%.*s/%.*s", (int)dir_n, path, (int)n, command);

		if (*file == '/' && access(file, X_OK) == 0 && stat(file, ret) == 0 && S_ISREG(ret->st_mode))
			return true;
		path += dir_n + (path[dir_n] == ':');
	}
	return false;
}

/* A project names the command: it gets no more of our environment than its steps do. */
static int run_tool(const struct plan *p, const char *command, struct str *out, struct err *err)
{
	static const char *const env[] = { "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", NULL };
	_cleanup_(freep) char *full = xasprintf("cd '/' && { %s\n} 2>&1 </dev/null", command);
	const char *argv[] = { "/bin/sh", "-c", full, NULL };
	struct command c = { .argv = argv, .env = env, .bare = true, .timeout_ns = TOOL_TIMEOUT_NS, .max_bytes = TOOL_TEXT_MAX };
	int status;

	if (command_output(&c, out, &status, err) < 0)
		return err_wrap(err, "tool `%s` can't say its version", command);
	if (status != 0)
		return err_set(err, ERR_NOT_FOUND, "tool `%s` can't say its version (exit status %d): %.200s", command, status, out->len ? out->s : "");
	return 0;
}

/* Whoever only looks runs nothing: the tool says what it said to a run, while its program is the same file. */
static void remember_tool(const struct plan *p, const char *name, struct str *out)
{
	struct content_id id;
	struct err lost = { 0 };
	struct stat st;

	if (!p->ctx.cache || !find_program(name + strlen("tool:"), &st) || !statcache_get(p->ctx.cache, name, &st, &id) ||
	    content_read(p->ctx.store, &id, TOOL_TEXT_MAX, out, &lost) < 0)
		str_add(out, TOOL_UNKNOWN);
}

static int ask_tool(struct plan *p, const char *name, struct str *text, struct err *err)
{
	const char *command = name + strlen("tool:");
	int64_t now = clock_system()->wall_ns(clock_system());
	struct stat before, after;
	bool found = find_program(command, &before);
	struct content_id id;
	struct err why = { 0 };

	if (run_tool(p, command, text, p->ctx.again ? &why : err) < 0) {
		if (!p->ctx.again)
			return -1;
		/* The tasks may do without it: what they make is held against what they made. */
		found = false;
		str_reset(text);
		str_addf(text, "(%s)\n", why.msg);
	}
	if (content_put_bytes(p->ctx.store, text->len ? text->s : "", text->len, &id, err) < 0)
		return -1;
	add_pin(p, name, "tool", &id);
	if (p->ctx.cache && found && find_program(command, &after) && before.st_ino == after.st_ino)
		statcache_put(p->ctx.cache, name, &before, now, &id);
	return 0;
}

static int pin_tool(struct plan *p, const char *command, const char **ret, struct err *err)
{
	_cleanup_(freep) char *name = xasprintf("tool:%s", command);
	_cleanup_(str_deinit) struct str text = { 0 };
	const struct plan_pin *pin = find_pin(p, name);
	int r = 0;

	if (pin)
		r = content_read(p->ctx.store, &pin->id, TOOL_TEXT_MAX, &text, err);
	else if (p->options.hash_only)
		remember_tool(p, name, &text);
	else
		r = ask_tool(p, name, &text, err);
	if (r == 0)
		*ret = arena_strndup(p->arena, text.len ? text.s : "", text.len);
	return r;
}

static int pin_tools(struct plan *p, struct plan_step *s, struct err *err)
{
	s->tool_text = arena_alloc(p->arena, (s->decl->n_tools + 1) * sizeof(*s->tool_text));
	for (size_t i = 0; i < s->decl->n_tools; i++)
		if (pin_tool(p, s->decl->tools[i], &s->tool_text[i], err) < 0)
			return err_wrap(err, "%s:%d:%d: step `%s`", s->decl->pos.file, s->decl->pos.line, s->decl->pos.col, s->decl->name);
	return 0;
}

/* --- the active environment ------------------------------------------------------------------------------------------- */

#define PACKAGES_TEXT_MAX (4 * MIB)

/* Once a run: a run that goes on, or is made again, keeps what its start found. */
static int pin_packages(struct plan *p, const char **ret, struct err *err)
{
	static const char name[] = "environment:packages";
	const struct plan_pin *pin = find_pin(p, name);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct content_id id;

	if (pin ? content_read(p->ctx.store, &pin->id, PACKAGES_TEXT_MAX, &text, err) < 0 : false)
		return -1;
	if (!pin && (p->ctx.pins || p->ctx.again))
		return 0;
	if (!pin)
		packages_on_path(getenv("PATH"), &text);
	if (!text.len)
		return 0;
	if (!pin && content_put_bytes(p->ctx.store, text.s, text.len, &id, err) < 0)
		return -1;
	if (!pin)
		add_pin(p, name, "PATH", &id);
	*ret = arena_strndup(p->arena, text.s, text.len);
	return 0;
}

int sources_pin(struct plan *p, struct err *err)
{
	const char *packages = NULL;
	struct code_set set = { 0 };
	int r;

	take_given_pins(p);
	r = pin_inputs(p, err);
	if (r == 0 && !p->ctx.images)
		r = pin_packages(p, &packages, err);
	for (size_t i = 0; i < p->n_steps && r == 0; i++) {
		if (!p->steps[i].selected || !p->steps[i].decl->run)
			continue;
		r = pin_code(p, &p->steps[i], &set, err);
		if (r == 0 && p->steps[i].decl->n_tools && !p->ctx.images)
			r = pin_tools(p, &p->steps[i], err);
		if (p->steps[i].decl->n_tools == 0)
			p->steps[i].packages = packages;
	}
	VEC_FREE(&set.entries);
	str_deinit(&set.joined);
	return r < 0 ? -1 : images_pin(p, err);
}

/* engine/plan/sources.c — what comes from the project when a run starts: code, the versions of
 * tools, installed packages (the pipeline's inputs: pin.c; images: image.c).
 *
 * Each is pinned under a name, so that a resumed run, and later a reproduced one, is given the
 * same content without the project. plan_pin_sources() goes once over the selected steps that have
 * a command.
 *
 * Code is a tree of the paths under `code` and of the files that the command names: words that
 * are regular files in the project. Each path is put once a plan (code_memo), and listings of
 * directories answer for the many words that are no files.
 *
 * A tool is asked by running its command, in the root directory, with no more of our environment
 * than a step gets. It runs once a plan. With hash_only nothing is run: the answer of the last
 * run counts while the files that the command's words mean are the same (find_programs()), else
 * the version is unknown.
 *
 * Where commands run in images (plan_context.images), neither tools nor packages are asked: the
 * key has the image.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/os/command.h"
#include "base/os/fs.h"
#include "plan/internal.h"

/* A tool's version while nobody may run it. */
#define TOOL_UNKNOWN "(not known until a run asks it)\n"
/* What a tool prints is kept whole up to this size: enough for any --version. */
#define TOOL_TEXT_MAX   (64 * KIB)
#define TOOL_TIMEOUT_NS (300 * NS_PER_S)

const struct plan_pin *plan_pin_find(const struct plan *p, const char *name)
{
	void *i = map_get_str(p->pin_by_name, name);

	return i ? &p->pins.v[(uintptr_t)i - 1] : NULL;
}

void plan_pin_add(struct plan *p, const char *name, const char *origin, const struct content_id *id)
{
	struct plan_pin pin = { arena_strdup(p->arena, name), arena_strdup(p->arena, origin), *id };

	VEC_PUSH(&p->pins, pin);
	*map_slot_str(p->pin_by_name, name) = (void *)(uintptr_t)p->pins.n;
}

static int take_given_pins(struct plan *p)
{
	for (size_t i = 0; i < p->ctx.n_pins; i++)
		plan_pin_add(p, p->ctx.pins[i].name, p->ctx.pins[i].origin, &p->ctx.pins[i].id);
	return 0;
}

bool plan_is_resumed(const struct plan *p)
{
	return p->ctx.pins != NULL;
}

int plan_put_path(struct plan *p, const char *path, bool hash_only, struct content_id *ret,
		  struct err *err)
{
	struct content_put_options o = { .flags = hash_only ? CONTENT_PUT_HASH_ONLY : 0,
					 .cache = p->ctx.cache,
					 .n_threads = p->options.hash_threads,
					 .exclude = config_not_content,
					 .ignore = p->ctx.config->ignore };
	_cleanup_(fd_closep) int root =
		open(p->ctx.config->project_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (root < 0)
		return err_errno(err, "cannot open the project %s", p->ctx.config->project_root);
	return content_put_at(p->ctx.store, root, path, &o, ret, err);
}

/* Code. */

struct code_entry {
	bool exists;
	struct content_id id;
};

/* Paths of code are asked for again and again by steps that share it: what was put is not looked at
 * again in this plan. That a word of a command is no file says nothing of the same word under
 * `code`, which may be a directory, and must be there. */
static int code_entry(struct plan *p, const char *path, bool must_exist, struct code_entry **ret,
		      struct err *err)
{
	void **slot = map_slot_str(p->code.memo, path);
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
	if (plan_put_path(p, path, p->options.hash_only, &c->id, err) < 0)
		return -1;
	c->exists = true;
	return 0;
}

/* Commands have many words, most of which are no files: one look at a directory's names answers for
 * all. */
struct listing {
	struct map *names;
	bool unknown; /* too large, or it can't be read: each is looked at by itself */
};
#define LISTING_MAX 8192

static struct listing *listing_of(struct plan *p, const char *dir)
{
	_cleanup_(freep) char *key = xasprintf("%s/", dir),
			      *full = xasprintf("%s/%s", p->ctx.config->project_root, dir);
	void **slot = map_slot_str(p->code.memo, key); /* no path of code ends in a slash */
	struct listing *l = *slot;
	struct dirent *e;
	DIR *d;
	int r;

	if (l)
		return l;
	l = *slot = arena_alloc(p->arena, sizeof(*l));
	l->names = map_new();
	VEC_PUSH(&p->code.listings, l->names);
	d = opendir(full);
	l->unknown = !d && errno != ENOENT && errno != ENOTDIR;
	while (d && !l->unknown && (r = fs_next(d, full, &e, NULL)) != 0) {
		if (r > 0)
			*map_slot_str(l->names, e->d_name) = l;
		l->unknown = r < 0 || map_len(l->names) > LISTING_MAX;
	}
	if (d)
		closedir(d);
	return l;
}

static bool may_exist(struct plan *p, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_(freep) char *dir = slash ? fs_dirname(path) : NULL;
	struct listing *l = slash ? listing_of(p, dir) : p->code.top;

	if (!l)
		l = p->code.top = listing_of(p, ".");
	return l->unknown || map_get_str(l->names, slash ? slash + 1 : path);
}

struct code_set {
	VEC(struct path_entry) entries;
	struct str joined;
};

static int add_code(struct plan *p, struct code_set *set, const char *path, bool must_exist,
		    struct err *err)
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
static int add_named_files(struct plan *p, const struct step *s, struct code_set *set,
			   struct err *err)
{
	static const char separators[] = " \t\n;|&()<>\"'`";

	for (size_t i = 0; s->program.run && i < s->program.run->n_parts; i++) {
		const char *at = s->program.run->parts[i].text, *end;

		if (s->program.run->parts[i].expr)
			continue;
		for (end = at + s->program.run->parts[i].len; at < end;) {
			const char *w = at;
			size_t n;

			while (at < end && !strchr(separators, *at))
				at++;
			n = (size_t)(at - w);
			while (n > 2 && w[0] == '.' && w[1] == '/')
				w += 2, n -= 2;
			/* A word that goes on in an expression isn't a name by itself. */
			if (may_be_path(w, n) && !(at == end && i + 1 < s->program.run->n_parts)) {
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

			covered = set->entries.v[k].kind == TREE_DIR &&
				  strncmp(set->entries.v[i].path, set->entries.v[k].path, n) == 0 &&
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
		pin = plan_pin_find(p, set->joined.s);
		if (pin)
			s->code = pin->id;
		return 0;
	}
	for (size_t i = 0; i < s->decl->reads.n_code; i++)
		if (add_code(p, set, s->decl->reads.code[i], true, err) < 0)
			return err_wrap(err, "%s:%d:%d: step `%s`", s->decl->pos.file,
					s->decl->pos.line, s->decl->pos.col, s->decl->name);
	if (add_named_files(p, s->decl, set, err) < 0)
		return err_wrap(err, "step `%s`", s->decl->name);
	if (set->entries.n == 0)
		return 0;
	drop_covered(set);
	if (plan_tree_of_paths(p->ctx.store, set->entries.v, set->entries.n, &s->code, err) < 0)
		return err_wrap(err, "code of step `%s`", s->decl->name);
	str_addf(&set->joined, "code:%s", s->decl->name);
	plan_pin_add(p, set->joined.s, "code", &s->code);
	return 0;
}

/* Tools. */

/* The file that a word of a command means, as PATH has it; false when there is none. */
static bool find_program(const char *word, size_t n, struct stat *ret)
{
	const char *path = getenv("PATH");

	if (memchr(word, '/', n)) {
		_cleanup_(freep) char *file = xasprintf(
			"/%.*s", (int)n, word); /* tools are asked in the root directory */

		return stat(file, ret) == 0 && S_ISREG(ret->st_mode);
	}
	while (n && path && *path) {
		size_t dir_n = strcspn(path, ":");
		_cleanup_(freep) char *file =
			xasprintf("%.*s/%.*s", (int)dir_n, path, (int)n, word);

		if (*file == '/' && access(file, X_OK) == 0 && stat(file, ret) == 0 &&
		    S_ISREG(ret->st_mode))
			return true;
		path += dir_n + (path[dir_n] == ':');
	}
	return false;
}

static void mix(uint64_t *sum, uint64_t v)
{
	*sum = (*sum ^ v) * 0x9e3779b97f4a7c15ULL;
	*sum ^= *sum >> 32;
}

static void mix_time(uint64_t *sum, const struct timespec *t, struct timespec *latest)
{
	mix(sum, (uint64_t)t->tv_sec);
	mix(sum, (uint64_t)t->tv_nsec);
	if (t->tv_sec > latest->tv_sec ||
	    (t->tv_sec == latest->tv_sec && t->tv_nsec > latest->tv_nsec))
		*latest = *t;
}

/* The files that a command's words mean, as if they were one, so that what was remembered of them
 * is forgotten when any is another: `time -p gcc --version` and `python3 /opt/version.py` depend on
 * the later word as on the first. False when the first word is none: a shell's own command may do
 * anything. */
static bool find_programs(const char *command, struct stat *ret)
{
	static const char ends[] = " \t\n;|&<>()'\"`";
	uint64_t mixed = 0;
	size_t found = 0;

	for (const char *word = command; *word;) {
		size_t n = strcspn(word, ends);
		struct stat st;

		if (n && find_program(word, n, &st)) {
			if (!found++)
				*ret = st;
			mix(&mixed, (uint64_t)st.st_ino);
			mix(&mixed, (uint64_t)st.st_dev);
			mix(&mixed, (uint64_t)st.st_size);
			mix_time(&mixed, &st.st_mtim, &ret->st_mtim);
			mix_time(&mixed, &st.st_ctim, &ret->st_ctim);
		}
		if (n && !found)
			return false;
		word += n;
		word += strspn(word, ends);
	}
	if (found > 1)
		ret->st_ino = (ino_t)mixed;
	return found > 0;
}

/* A project names the command: it gets no more of our environment than its steps do. */
static int run_tool(const struct plan *p, const char *command, struct str *out, struct err *err)
{
	static const char *const env[] = { "LANG=C.UTF-8", "LC_ALL=C.UTF-8", "TZ=UTC", NULL };
	_cleanup_(freep) char *full = xasprintf("cd '/' && { %s\n} 2>&1 </dev/null", command);
	const char *argv[] = { "/bin/sh", "-c", full, NULL };
	struct command c = { .argv = argv,
			     .env = env,
			     .bare = true,
			     .timeout_ns = TOOL_TIMEOUT_NS,
			     .max_bytes = TOOL_TEXT_MAX };
	int status;

	if (command_output(&c, out, &status, err) < 0)
		return err_wrap(err, "tool `%s` can't say its version", command);
	if (status != 0)
		return err_set(err, ERR_NOT_FOUND,
			       "tool `%s` can't say its version (exit status %d): %.200s", command,
			       status, out->len ? out->s : "");
	return 0;
}

/* With hash_only nothing is run: what the tool printed to the last run counts, while its program is
 * the same file. */
static void remember_tool(const struct plan *p, const char *name, struct str *out)
{
	struct content_id id;
	struct err lost = { 0 };
	struct stat st;

	if (!p->ctx.cache || !find_programs(name + strlen("tool:"), &st) ||
	    !statcache_get(p->ctx.cache, name, &st, &id) ||
	    content_read(p->ctx.store, &id, TOOL_TEXT_MAX, out, &lost) < 0)
		str_add(out, TOOL_UNKNOWN);
}

static int ask_tool(struct plan *p, const char *name, struct str *text, struct err *err)
{
	const char *command = name + strlen("tool:");
	int64_t now = clock_system()->wall_ns(clock_system());
	struct stat before, after;
	bool found = find_programs(command, &before);
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
	plan_pin_add(p, name, "tool", &id);
	if (p->ctx.cache && found && find_programs(command, &after) &&
	    before.st_ino == after.st_ino)
		statcache_put(p->ctx.cache, name, &before, now, &id);
	return 0;
}

static int pin_tool(struct plan *p, const char *command, const char **ret, struct err *err)
{
	_cleanup_(freep) char *name = xasprintf("tool:%s", command);
	_cleanup_(str_deinit) struct str text = { 0 };
	const struct plan_pin *pin = plan_pin_find(p, name);
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
	s->tool_text = arena_alloc(p->arena, (s->decl->reads.n_tools + 1) * sizeof(*s->tool_text));
	for (size_t i = 0; i < s->decl->reads.n_tools; i++)
		if (pin_tool(p, s->decl->reads.tools[i], &s->tool_text[i], err) < 0)
			return err_wrap(err, "%s:%d:%d: step `%s`", s->decl->pos.file,
					s->decl->pos.line, s->decl->pos.col, s->decl->name);
	return 0;
}

/* The active environment. */

#define PACKAGES_TEXT_MAX (4 * MIB)

/* Once a run: a run that goes on, or is made again, keeps what its start found. */
static int pin_packages(struct plan *p, const char **ret, struct err *err)
{
	static const char name[] = "environment:packages";
	const struct plan_pin *pin = plan_pin_find(p, name);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct content_id id;

	if (pin ? content_read(p->ctx.store, &pin->id, PACKAGES_TEXT_MAX, &text, err) < 0 : false)
		return -1;
	if (!pin && (p->ctx.pins || p->ctx.again))
		return 0;
	if (!pin && plan_packages_on_path(getenv("PATH"), &text, err) < 0)
		return -1;
	if (!text.len)
		return 0;
	if (!pin && content_put_bytes(p->ctx.store, text.s, text.len, &id, err) < 0)
		return -1;
	if (!pin)
		plan_pin_add(p, name, "PATH", &id);
	*ret = arena_strndup(p->arena, text.s, text.len);
	return 0;
}

int plan_pin_sources(struct plan *p, struct err *err)
{
	const char *packages = NULL;
	struct code_set set = { 0 };
	int r;

	take_given_pins(p);
	r = plan_pin_inputs(p, err);
	if (r == 0 && !p->ctx.images)
		r = pin_packages(p, &packages, err);
	for (size_t i = 0; i < p->n_steps && r == 0; i++) {
		if (!p->steps[i].selected || !p->steps[i].decl->program.run)
			continue;
		r = pin_code(p, &p->steps[i], &set, err);
		if (r == 0 && p->steps[i].decl->reads.n_tools && !p->ctx.images)
			r = pin_tools(p, &p->steps[i], err);
		if (p->steps[i].decl->reads.n_tools == 0)
			p->steps[i].packages = packages;
	}
	VEC_FREE(&set.entries);
	str_deinit(&set.joined);
	return r < 0 ? -1 : plan_pin_images(p, err);
}

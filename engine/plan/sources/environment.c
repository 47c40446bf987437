/* engine/plan/sources/environment.c — the lock files that environments are made from.
 *
 * One rule says what a lock file is: it names every package with its hash. uv.lock always does. A
 * requirements file must have `--hash` at each requirement, and a conda file must be an explicit
 * one whose URLs end in a digest. Anything else would give other packages on another day under the
 * same key, so it is an error with the command that writes the right file. For the same reason a
 * file stands alone: it can't include others or name files of the project.
 *
 * The pin "lock:PATH" is a tree with the bytes that the tool reads. The key has the lock file
 * alone: uv is told to take the packages from there, and pyproject.toml, which people edit for
 * other reasons, only has to be present. Python's version is pinned as that of a declared tool is.
 *
 * No state. lock_*() may be called by any thread.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "plan/internal.h"

#define PIN_PREFIX   "lock:"
#define PROJECT_FILE "pyproject.toml"
/* Shorter digests (crc32) don't say which bytes are meant. */
#define HEX_MIN 32

const char *lock_kind_name(enum lock_kind k)
{
	static const char *const names[] = {
		[LOCK_UV] = "uv", [LOCK_PIP] = "pip", [LOCK_CONDA] = "conda"
	};

	assert(k < ARRAY_LEN(names));
	return names[k];
}

char *lock_tool(enum lock_kind k, const char **ret_name)
{
	static const char *const condas[] = { "micromamba", "mamba", "conda" };
	char *found = NULL;

	*ret_name = k == LOCK_UV ? "uv" : k == LOCK_PIP ? "python3" : "micromamba, mamba or conda";
	if (k != LOCK_CONDA)
		return command_find(*ret_name);
	for (size_t i = 0; i < ARRAY_LEN(condas) && !found; i++)
		found = command_find(condas[i]);
	return found;
}

/* What is a lock file. */

static int wrong_line(const char *path, size_t line, const char *what, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s:%zu: %s", path, line, what);
}

/* The next logical line: a backslash at the end continues it, a `#` after a blank begins a comment.
 * False at the end. */
static bool next_requirement(const char **at, size_t *lines, struct str *ret)
{
	str_reset(ret);
	str_add(ret, "");
	for (bool more = true; more && **at; (*lines)++) {
		size_t n = strcspn(*at, "\n"), kept = n;

		for (size_t i = 0; i < n; i++)
			if ((*at)[i] == '#' &&
			    (i == 0 || (*at)[i - 1] == ' ' || (*at)[i - 1] == '\t')) {
				kept = i;
				break;
			}
		while (kept && strchr(" \t\r", (*at)[kept - 1]))
			kept--;
		more = kept && kept <= n && (*at)[kept - 1] == '\\';
		str_addn(ret, *at, kept - more);
		*at += n + ((*at)[n] == '\n');
	}
	return ret->len || **at;
}

static bool is_option(const char *line, const char *brief, const char *full)
{
	size_t n = strlen(full);

	return str_has_prefix(line, brief) ||
	       (str_has_prefix(line, full) && (line[n] == ' ' || line[n] == '=' || !line[n]));
}

static int check_requirements(const char *path, const char *text, struct err *err)
{
	_cleanup_(str_deinit) struct str line = { 0 };
	size_t lines = 0;

	for (size_t first = 1; next_requirement(&text, &lines, &line); first = lines + 1) {
		const char *s = line.s + strspn(line.s, " \t");

		if (!*s)
			continue;
		if (is_option(s, "-r", "--requirement") || is_option(s, "-c", "--constraint"))
			return wrong_line(path, first,
					  "a lock file stands alone and can't include another "
					  "file",
					  err);
		if (is_option(s, "-e", "--editable") || *s == '.' || *s == '/' ||
		    strstr(s, "file:"))
			return wrong_line(path, first,
					  "an environment is made of packages by name: code of the "
					  "project belongs to the step (`code`)",
					  err);
		if (*s == '-' || strstr(s, "--hash=") || strstr(s, "--hash "))
			continue;
		return wrong_line(path, first,
				  "the requirement has no --hash, so it may be another package "
				  "tomorrow: `uv pip compile --generate-hashes` or `pip-compile "
				  "--generate-hashes` writes a file with hashes",
				  err);
	}
	return 0;
}

static int check_explicit(const char *path, const char *text, struct err *err)
{
	for (size_t line = 1; *text; line++) {
		size_t n = strcspn(text, "\n");
		const char *hash = memrchr(text, '#', n);
		size_t hex = 0;

		if (hash && str_has_prefix(hash + 1, "sha256:"))
			hash += strlen("sha256:");
		while (hash && hash + 1 + hex < text + n &&
		       strchr("0123456789abcdefABCDEF", hash[1 + hex]))
			hex++;
		if (n && *text != '#' && *text != '@' && *text != '\r' && hex < HEX_MIN)
			return wrong_line(path, line,
					  "the package has no digest behind a #: `conda list "
					  "--explicit --md5` writes a file with them",
					  err);
		text += n + (text[n] == '\n');
	}
	return 0;
}

/* uv writes one file of a package a line. Those of a local directory have no hash. */
static int check_uv(const char *path, const char *text, struct err *err)
{
	for (size_t line = 1; *text; line++) {
		size_t n = strcspn(text, "\n");
		_cleanup_(freep) char *s = xstrndup(text, n);
		const char *at = s + strspn(s, " ");

		if ((*at == '{' || str_has_prefix(at, "sdist = {")) &&
		    (strstr(at, "url = ") || strstr(at, "path = ")) && !strstr(at, "hash = "))
			return wrong_line(path, line,
					  "the package has no hash, so it may be another one "
					  "tomorrow: lock it from an index that gives hashes",
					  err);
		text += n + (text[n] == '\n');
	}
	return 0;
}

static bool is_explicit(const char *text)
{
	const char *at = strstr(text, "@EXPLICIT");

	return at && (at == text || at[-1] == '\n');
}

int lock_check(const char *path, const char *text, enum lock_kind *ret, struct err *err)
{
	*ret = str_eq(fs_basename(path), "uv.lock") ? LOCK_UV
	       : is_explicit(text)                  ? LOCK_CONDA
						    : LOCK_PIP;
	return *ret == LOCK_PIP     ? check_requirements(path, text, err)
	       : *ret == LOCK_CONDA ? check_explicit(path, text, err)
				    : check_uv(path, text, err);
}

static int read_beneath(int root, const char *path, struct str *ret, struct err *err)
{
	struct stat st;
	struct err why = { 0 };
	_cleanup_(fd_closep) int fd = fs_open_file_beneath(root, path, true, &st, &why);
	_cleanup_(freep) char *itself = fd < 0 ? NULL : xasprintf("/proc/self/fd/%d", fd);

	if (fd < 0)
		return err_set(err, why.code,
			       why.code == ERR_NOT_FOUND ? "%s isn't in the project"
							 : "%s can't be read",
			       path);
	str_add(ret, "");
	if (fs_read_file(itself, LOCK_MAX, ret, err) < 0)
		return err_wrap(err, "%s", path);
	if (strlen(ret->s) != ret->len)
		return err_set(err, ERR_INVALID, "%s isn't a text file", path);
	return 0;
}

/* Where uv looks for it. */
static char *project_file_of(const char *path)
{
	_cleanup_(freep) char *dir = fs_dirname(path);

	return str_eq(dir, ".") ? xstrdup(PROJECT_FILE) : fs_join(dir, PROJECT_FILE);
}

int lock_read(const char *project_root, const char *path, struct lock *ret, struct err *err)
{
	_cleanup_(fd_closep) int root = open(project_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_(lock_deinit) struct lock l = { 0 };

	if (root < 0)
		return err_errno(err, "cannot open the project %s", project_root);
	if (read_beneath(root, path, &l.text, err) < 0 ||
	    lock_check(path, l.text.s, &l.kind, err) < 0)
		return -1;
	if (l.kind == LOCK_UV) {
		_cleanup_(freep) char *project = project_file_of(path);

		if (read_beneath(root, project, &l.project, err) < 0)
			return err_wrap(err, "uv needs it beside %s", path);
	}
	*ret = l;
	l = (struct lock){ 0 };
	return 0;
}

void lock_deinit(struct lock *l)
{
	str_deinit(&l->text);
	str_deinit(&l->project);
}

bool environment_is_first(const struct pipeline *p, size_t step)
{
	const char *path = p->steps[step].reads->environment;

	for (size_t i = 0; path && i < step; i++)
		if (str_eq(p->steps[i].reads->environment, path) &&
		    str_eq(p->steps[i].root, p->steps[step].root))
			return false;
	return path != NULL;
}

/* Pinning. */

static int pin_files(struct plan *p, const char *name, struct plan_environment *e, struct err *err)
{
	_cleanup_(lock_deinit) struct lock l = { 0 };
	_cleanup_(freep) char *dir = config_root(p->ctx.config, e->root);
	struct path_entry v[] = { { .path = fs_basename(e->path), .kind = TREE_FILE },
				  { .path = PROJECT_FILE, .kind = TREE_FILE } };

	if (lock_read(dir, e->path, &l, err) < 0 ||
	    content_put_bytes(p->ctx.store, l.text.s, l.text.len, &e->lock, err) < 0)
		return -1;
	v[0].id = e->lock;
	e->kind = l.kind;
	if (l.kind == LOCK_UV &&
	    content_put_bytes(p->ctx.store, l.project.s, l.project.len, &v[1].id, err) < 0)
		return -1;
	if (plan_tree_of_paths(p->ctx.store, NULL, v, l.kind == LOCK_UV ? 2 : 1, &e->files, err) <
	    0)
		return -1;
	plan_pin_add(p, name, "environment", &e->files);
	return 0;
}

static int take_pin(struct plan *p, const struct plan_pin *pin, struct plan_environment *e,
		    struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct tree_entry entry;

	e->files = pin->id;
	if (tree_lookup(p->ctx.store, &pin->id, fs_basename(e->path), p->arena, &entry, err) < 0 ||
	    content_read(p->ctx.store, &entry.id, LOCK_MAX, &text, err) < 0)
		return -1;
	e->lock = entry.id;
	return lock_check(e->path, text.s ? text.s : "", &e->kind, err);
}

static int make(struct plan *p, const struct step *s, struct plan_environment *e, struct err *err)
{
	_cleanup_(freep) char *name = xasprintf(PIN_PREFIX "%s%s%s", s->root ? s->root : "",
						s->root ? "/" : "", s->reads->environment),
			      *python = NULL;
	const struct plan_pin *pin = plan_pin_find(p, name);

	*e = (struct plan_environment){ .path = s->reads->environment, .root = s->root };
	if ((pin ? take_pin(p, pin, e, err) : pin_files(p, name, e, err)) < 0)
		return -1;
	if (e->kind == LOCK_CONDA || p->ctx.images)
		return 0;
	if (!plan_pin_find(p, "tool:" PLAN_PYTHON) && !(python = command_find("python3")))
		return err_set(err, ERR_NOT_FOUND,
			       "its packages are for the python3 on PATH, and there is none");
	return plan_pin_tool(p, PLAN_PYTHON, &e->python, err);
}

int plan_pin_environment(struct plan *p, struct plan_step *s, struct err *err)
{
	const struct step *d = s->decl;
	struct plan_environment *e;

	for (size_t i = 0; i < p->n_steps; i++) {
		const struct plan_environment *made = p->steps[i].facts.environment;

		if (made && str_eq(made->path, d->reads->environment) &&
		    str_eq(made->root, d->root)) {
			s->facts.environment = made;
			return 0;
		}
	}
	e = arena_alloc(p->arena, sizeof(*e));
	if (make(p, d, e, err) < 0)
		return err_wrap(err, "environment");
	s->facts.environment = e;
	return 0;
}

const struct plan_environment *plan_step_environment(const struct plan *p, size_t step)
{
	assert(step < p->n_steps);
	return p->steps[step].facts.environment;
}

void plan_environment_key(const struct plan_environment *e, struct str *record)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	char hex[DIGEST_HEX_MAX];

	if (!e)
		return;
	str_addf(&text, "%s sha256:%s", lock_kind_name(e->kind), digest_hex(&e->lock.digest, hex));
	key_record_add(record, KEY_ENVIRONMENT, "lock", text.s, text.len);
	if (e->python)
		key_record_add(record, KEY_ENVIRONMENT, "python", e->python, strlen(e->python));
}

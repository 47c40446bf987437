/* engine/plan/code/project.c — the project as it lies there: names, files, what scripts ask for.
 *
 * Commands and imports hold many names, most of which are no files. One listing of a directory
 * answers for all names in it. A directory with more than LISTING_MAX entries isn't kept: there
 * each name is looked up by itself.
 *
 * Scripts are read to find what they ask for. Whatever they say, only regular files that are
 * reached without leaving the project are opened. At most SCAN_BYTES_MAX of a file are read: a
 * larger one wasn't written by hand.
 *
 * Everything is remembered until the plan ends.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "plan/code/code.h"
#include "plan/code/scan.h"

#define LISTING_MAX    8192
#define SCAN_BYTES_MAX (4 * MIB)
#define FIRST_LINE_MAX 256

struct listing {
	struct map *names;
	bool unknown; /* too large, or unreadable: each name is looked up by itself */
	bool is_dir;  /* reached without leaving the project */
};

struct code_project {
	struct plan *p;
	const char *below; /* model/external.h; NULL: the project */
	char *dir;
	int root; /* -1: it can't be opened; then no file can be read */
	struct map *listings, *entries, *python, *shell;
	VEC(struct map *) names; /* of listings */
};

struct code_project *code_project_new(struct plan *p, const char *root)
{
	struct code_project *c = xcalloc(1, sizeof(*c));

	c->p = p;
	c->below = root;
	c->dir = config_root(p->ctx.config, root);
	c->root = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	c->listings = map_new();
	c->entries = map_new();
	c->python = map_new();
	c->shell = map_new();
	return c;
}

void code_project_free(struct code_project *c)
{
	if (!c)
		return;
	if (c->root >= 0)
		close(c->root);
	for (size_t i = 0; i < c->names.n; i++)
		map_free(c->names.v[i]);
	VEC_FREE(&c->names);
	map_free(c->listings);
	map_free(c->entries);
	map_free(c->python);
	map_free(c->shell);
	free(c->dir);
	free(c);
}

int code_project_entry(struct code_project *c, const char *path, bool must_exist,
		       struct code_entry **ret, struct err *err)
{
	struct plan *p = c->p;
	void **slot = map_slot_str(c->entries, path);
	struct code_entry *e = *slot;
	_cleanup_(freep) char *full = NULL;
	struct stat st;

	if (!e)
		e = *slot = arena_alloc(p->arena, sizeof(*e));
	*ret = e;
	if (e->exists)
		return 0;
	full = xasprintf("%s/%s", c->dir, path);
	if (stat(full, &st) < 0)
		return must_exist ? err_errno(err, "code `%s`", path) : 0;
	if (!S_ISREG(st.st_mode) && !must_exist)
		return 0;
	if (plan_put_at(p, c->below, c->root, path,
			p->options.hash_only ? CONTENT_PUT_HASH_ONLY : 0, &e->id, err) < 0)
		return -1;
	e->exists = true;
	return 0;
}

/* Names. */

static struct listing *listing_of(struct code_project *c, const char *dir)
{
	void **slot = map_slot_str(c->listings, dir);
	struct listing *l = *slot;
	_cleanup_(closedirp) DIR *d = NULL;
	struct dirent *e;
	int r;

	if (l)
		return l;
	l = *slot = arena_alloc(c->p->arena, sizeof(*l));
	l->names = map_new();
	VEC_PUSH(&c->names, l->names);
	d = fs_list(fs_open_beneath(c->root, *dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				    true));
	l->is_dir = d != NULL;
	l->unknown = !d && errno != ENOENT && errno != ENOTDIR;
	while (d && !l->unknown && (r = fs_next(d, dir, &e, NULL)) != 0) {
		if (r > 0)
			*map_slot_str(l->names, e->d_name) = l;
		l->unknown = r < 0 || map_len(l->names) > LISTING_MAX;
	}
	return l;
}

bool code_project_may_have(struct code_project *c, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_(freep) char *dir = slash ? fs_dirname(path) : NULL;
	struct listing *l = listing_of(c, slash ? dir : "");

	return l->unknown || map_get_str(l->names, slash ? slash + 1 : path);
}

bool code_project_has(struct code_project *c, const char *dir, const char *name)
{
	struct listing *l = listing_of(c, dir);

	return l->is_dir && (l->unknown || map_get_str(l->names, name));
}

bool code_project_is_dir(struct code_project *c, const char *dir)
{
	return listing_of(c, dir)->is_dir;
}

/* Scripts. */

struct asked {
	struct arena *arena;
	VEC(struct code_request) v;
};

static void note_import(void *arg, const struct scan_import *i)
{
	struct asked *a = arg;
	struct code_request request = { arena_strdup(a->arena, i->module),
					i->name ? arena_strdup(a->arena, i->name) : NULL, i->level,
					i->line };

	VEC_PUSH(&a->v, request);
}

static void note_source(void *arg, const char *path, unsigned line)
{
	struct asked *a = arg;
	struct code_request request = { .module = arena_strdup(a->arena, path), .line = line };

	VEC_PUSH(&a->v, request);
}

/* Reads its beginning; false when it is no regular file of the project. */
static bool read_beginning(struct code_project *c, const char *path, size_t max, struct str *out)
{
	struct err none = { 0 };
	struct stat st;
	_cleanup_(fd_closep) int fd = fs_open_file_beneath(c->root, path, true, &st, &none);
	size_t want;
	ssize_t n;

	if (fd < 0)
		return false;
	want = (size_t)MIN((uint64_t)st.st_size, (uint64_t)max);
	str_reserve(out, want + 1);
	n = fs_read_at(fd, out->s, want, 0);
	out->len = n > 0 ? (size_t)n : 0; /* a read error is reported when the file is hashed */
	out->s[out->len] = '\0';
	return true;
}

const struct code_script *code_project_script(struct code_project *c, const char *path,
					      enum code_language language)
{
	void **slot = map_slot_str(language == CODE_PYTHON ? c->python : c->shell, path);
	struct code_script *s = *slot;
	_cleanup_(str_deinit) struct str text = { 0 };
	struct asked a = { .arena = c->p->arena };

	if (s)
		return s;
	s = *slot = arena_alloc(c->p->arena, sizeof(*s));
	s->exists = read_beginning(c, path, SCAN_BYTES_MAX, &text);
	if (s->exists && language == CODE_PYTHON)
		scan_python(text.s, text.len, note_import, &a);
	else if (s->exists)
		scan_shell(text.s, text.len, note_source, &a);
	VEC_TO_ARENA(&a.v, c->p->arena, &s->asks, &s->n);
	return s;
}

enum code_language code_project_language(struct code_project *c, const char *path)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	size_t n;

	if (!read_beginning(c, path, FIRST_LINE_MAX, &text) || !str_has_prefix(text.s, "#!"))
		return CODE_OTHER;
	n = strcspn(text.s, "\n");
	if (memmem(text.s, n, "python", 6))
		return CODE_PYTHON;
	return memmem(text.s, n, "sh", 2) ? CODE_SHELL : CODE_OTHER;
}

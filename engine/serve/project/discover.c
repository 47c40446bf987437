#include "serve/project/discover.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include "base/os/fs.h"

#define PIPELINE_FILE_MAX  (16 * MIB)
#define PIPELINE_FILES_MAX 10000

static bool has_line(const char *text, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = text; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, word, n) == 0)
			return true;
	}
	return false;
}

/* Looks at the text only, so that broken pipelines are found too. False for a path that is gone,
 * isn't a file, or is too large for a pipeline; -1: it can't be read now. */
static int is_pipeline(const char *path, bool scheduled, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err e = { 0 };

	if (fs_read_file(path, PIPELINE_FILE_MAX, &text, &e) < 0)
		return e.code == ERR_NOT_FOUND || e.code == ERR_INVALID || e.code == ERR_TOO_LARGE
			       ? 0
			       : err_pass(err, &e);
	return text.len && has_line(text.s, "pipeline:") &&
	       (!scheduled || has_line(text.s, "schedules:"));
}

struct found {
	bool scheduled; /* only those */
	VEC(const char *) v;
};

static int look_in(const char *root, const char *folder, struct arena *arena, struct found *f,
		   struct err *err)
{
	_cleanup_(freep) char *dir = xasprintf("%s/%s", root, folder);
	DIR *d = opendir(dir);
	struct dirent *e;
	int r, result = 0;

	if (!d)
		return errno == ENOENT || errno == ENOTDIR ? 0
							   : err_errno(err, "cannot read %s", dir);
	while (f->v.n < PIPELINE_FILES_MAX && (r = fs_next(d, dir, &e, err)) != 0) {
		_cleanup_(freep) char *path = r < 0 ? NULL : xasprintf("%s/%s", dir, e->d_name);

		if (r > 0 &&
		    (e->d_name[0] == '.' || str_eq(e->d_name, "cairn.yaml") ||
		     (!str_has_suffix(e->d_name, ".yaml") && !str_has_suffix(e->d_name, ".yml"))))
			continue;
		if (r > 0)
			r = is_pipeline(path, f->scheduled, err);
		if (r > 0)
			VEC_PUSH(&f->v, arena_printf(arena, "%s%s%s", folder, *folder ? "/" : "",
						     e->d_name));
		if (r < 0)
			result = -1;
		if (r < 0 && !path)
			break;
	}
	closedir(d);
	return result;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int project_discover(const char *root, bool scheduled, struct arena *arena, const char ***ret,
		     size_t *ret_n, struct err *err)
{
	struct found f = { .scheduled = scheduled };
	int r = look_in(root, "", arena, &f, err);

	if (look_in(root, "pipelines", arena, &f, err) < 0)
		r = -1;
	if (f.v.n)
		qsort(f.v.v, f.v.n, sizeof(*f.v.v), by_text);
	VEC_TO_ARENA(&f.v, arena, ret, ret_n);
	return r;
}

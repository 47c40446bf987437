/* Paths as text: only fs_find_project_root() looks at the disk. */
#include <errno.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"

char *fs_join(const char *dir, const char *path)
{
	size_t n = strlen(dir);

	if (*path == '/' || n == 0)
		return xstrdup(path);
	return xasprintf("%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", path);
}

/* Removes the last component of `out`; false when there is none to remove. */
static bool pop(struct str *out, size_t root)
{
	size_t at = out->len;

	while (at > root && out->s[at - 1] != '/')
		at--;
	if (out->len == root || (out->len - at == 2 && memcmp(out->s + at, "..", 2) == 0))
		return false;
	out->len = at > root ? at - 1 : root;
	out->s[out->len] = '\0';
	return true;
}

char *fs_normalise(const char *path)
{
	struct str out = { 0 };
	size_t root = *path == '/';

	str_add(&out, root ? "/" : "");
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n == 2 && memcmp(path, "..", 2) == 0) {
			if (!pop(&out, root) && !root)
				str_addf(&out, "%s..", out.len ? "/" : "");
		} else if (n > 0 && !(n == 1 && *path == '.')) {
			if (out.len > root)
				str_addc(&out, '/');
			str_addn(&out, path, n);
		}
		path += n;
		path += strspn(path, "/");
	}
	if (out.len == 0)
		str_addc(&out, '.');
	return str_take(&out);
}

char *fs_relative(const char *root, const char *path)
{
	_cleanup_(freep) char *r = fs_normalise(root), *p = fs_normalise(path);
	size_t n = strlen(r);

	if ((*r == '/') != (*p == '/') || strcmp(p, "..") == 0 || strncmp(p, "../", 3) == 0)
		return NULL;
	if (strcmp(r, p) == 0)
		return xstrdup(".");
	if (strcmp(r, ".") == 0)
		return xstrdup(p);
	if (strcmp(r, "/") == 0)
		return xstrdup(p + 1);
	return strncmp(p, r, n) == 0 && p[n] == '/' ? xstrdup(p + n + 1) : NULL;
}

bool fs_is_inside(const char *root, const char *path)
{
	_cleanup_(freep) char *r = fs_relative(root, path);

	return r != NULL;
}

const char *fs_basename(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *fs_dirname(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	while (slash > path && slash[-1] == '/')
		slash--;
	return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

static bool is_root(const char *dir)
{
	static const char *const marks[] = { "cairn.yaml", ".cairn", ".git" };

	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		_cleanup_(freep) char *p = fs_join(dir, marks[i]);

		if (access(p, F_OK) == 0)
			return true;
	}
	return false;
}

int fs_find_project_root(const char *start_dir, char **ret, struct err *err)
{
	char *dir = realpath(start_dir, NULL);

	if (!dir)
		return err_errno(err, "cannot find directory %s", start_dir);
	while (!is_root(dir)) {
		char *slash = strrchr(dir, '/');

		if (strcmp(dir, "/") == 0) {
			free(dir);
			return err_set(err, ERR_NOT_FOUND,
				       "no project here or above: type `cairn init` in the "
				       "directory that should be one");
		}
		slash[slash == dir] = '\0';
	}
	*ret = dir;
	return 0;
}

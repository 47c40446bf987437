/* The installed packages of the Python environments on PATH.
 *
 * PATH passes to tasks on this machine, so an activated environment decides which program `python3`
 * is and which torch it imports. Without this file, both would be missing from the key. For a
 * directory of PATH that belongs to a venv or a conda environment, the key gets a text: Python's
 * version and the names and versions of the installed packages, sorted, no paths. Two machines with
 * the same packages have the same text. Without an active environment the key doesn't change.
 *
 * Not covered: files of a package changed by hand, packages installed as editable, other kinds of
 * programs. They are what `tools` is for. A step that declares some names itself what matters: it
 * gets no such text.
 */
#include <dirent.h>
#include <errno.h>
#include "base/os/fs.h"
#include "plan/internal.h"

#define CFG_MAX      (64 * KIB)
#define PACKAGES_MAX 100000

struct names {
	VEC(char *) v;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* It doesn't exist, or a user who only runs programs may not read it. */
static bool is_none(int sys)
{
	return sys == ENOENT || sys == ENOTDIR || sys == EACCES || sys == ELOOP;
}

static int open_dir(const char *path, DIR **ret, struct err *err)
{
	*ret = opendir(path);
	if (*ret || is_none(errno))
		return 0;
	return err_errno(err, "cannot read %s, whose packages decide what runs", path);
}

/* Collects the names in a directory that end with `ending`. */
static int add_names(struct names *n, const char *path, const char *ending, struct err *err)
{
	struct dirent *e;
	DIR *d;
	int r = open_dir(path, &d, err);

	while (d && n->v.n < PACKAGES_MAX && (r = fs_next(d, path, &e, err)) > 0)
		if (str_has_suffix(e->d_name, ending))
			VEC_PUSH(&n->v, xstrdup(e->d_name));
	if (d)
		closedir(d);
	return r < 0 ? -1 : 0;
}

/* Collects the packages in lib/python3.11/site-packages of a venv. */
static int add_site_packages(struct names *n, const char *root, struct err *err)
{
	_cleanup_(freep) char *lib = xasprintf("%s/lib", root);
	struct dirent *e;
	DIR *d;
	int r = open_dir(lib, &d, err);

	while (d && r >= 0 && (r = fs_next(d, lib, &e, err)) > 0) {
		_cleanup_(freep) char *path = NULL;

		if (!str_has_prefix(e->d_name, "python"))
			continue;
		path = xasprintf("%s/%s/site-packages", lib, e->d_name);
		if (add_names(n, path, ".dist-info", err) < 0 ||
		    add_names(n, path, ".egg-info", err) < 0)
			r = -1;
	}
	if (d)
		closedir(d);
	return r < 0 ? -1 : 0;
}

/* The environment that the directory of programs `bin` belongs to, if any. */
static int add_environment(struct str *out, const char *bin, struct err *err)
{
	_cleanup_(freep) char *root = xasprintf("%s/..", bin),
			      *cfg = xasprintf("%s/pyvenv.cfg", root),
			      *conda = xasprintf("%s/conda-meta", root);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct names n = { 0 };
	struct err why = { 0 };
	size_t len;
	int r = 0;

	if (fs_read_file(cfg, CFG_MAX, &text, &why) < 0) {
		if (!is_none(why.sys) && why.code != ERR_INVALID)
			return err_set(err, why.code, "%s, which says what Python commands run",
				       why.msg);
	} else {
		/* Keep Python's version, and whether packages from outside are seen; other lines
		 * name places. */
		for (const char *line = text.s; line && *line; line += line[len] ? len + 1 : len) {
			len = strcspn(line, "\n");
			if (str_has_prefix(line, "version") ||
			    str_has_prefix(line, "include-system-site-packages"))
				VEC_PUSH(&n.v, xstrndup(line, len));
		}
		r = add_site_packages(&n, root, err);
	}
	if (r == 0)
		r = add_names(&n, conda, ".json", err);
	if (n.v.n)
		qsort(n.v.v, n.v.n, sizeof(*n.v.v), by_name);
	for (size_t i = 0; i < n.v.n; i++) {
		str_addf(out, "%s\n", n.v.v[i]);
		free(n.v.v[i]);
	}
	VEC_FREE(&n.v);
	return r;
}

int plan_packages_on_path(const char *path, struct str *out, struct err *err)
{
	while (path && *path) {
		size_t len = strcspn(path, ":");
		_cleanup_(freep) char *bin = xstrndup(path, len);

		if (*bin == '/' && add_environment(out, bin, err) < 0)
			return -1;
		path += len + (path[len] == ':');
	}
	return 0;
}

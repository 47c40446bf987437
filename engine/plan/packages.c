/* The Python environments that commands find on PATH, by what is installed in them.
 *
 * PATH passes to tasks on this machine, so an activated environment decides which program `python3` is and which torch it
 * imports. Both would be missing from the key. A directory of PATH that belongs to a venv or to a conda environment therefore
 * puts a text into it: Python's version and the names of the installed packages with their versions, sorted, no paths. Two
 * machines with the same packages have the same text. What no environment is active for keeps its key.
 *
 * Not covered: files of a package changed by hand or installed as editable, programs of other kinds. `tools` is for them, and
 * a step that declares some says itself what matters: it gets no such text.
 */
#include <dirent.h>
#include "base/fs.h"
#include "plan/internal.h"

#define CFG_MAX (64 * KIB)
#define PACKAGES_MAX 100000

struct names {
	VEC(char *) v;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names in a directory that end so. */
static void add_names(struct names *n, const char *path, const char *ending)
{
	DIR *d = opendir(path);
	struct dirent *e;

	while (d && (e = readdir(d)) && n->v.n < PACKAGES_MAX)
		if (str_has_suffix(e->d_name, ending))
			VEC_PUSH(&n->v, xstrdup(e->d_name));
	if (d)
		closedir(d);
}

/* lib/python3.11/site-packages of a venv. */
static void add_site_packages(struct names *n, const char *root)
{
	_cleanup_(freep) char *lib = xasprintf("%s/lib", root);
	DIR *d = opendir(lib);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		_cleanup_(freep) char *path = NULL;

		if (!str_has_prefix(e->d_name, "python"))
			continue;
		path = xasprintf("%s/%s/site-packages", lib, e->d_name);
		add_names(n, path, ".dist-info");
		add_names(n, path, ".egg-info");
	}
	if (d)
		closedir(d);
}

/* Lines of pyvenv.cfg that say which Python it is, and whether packages from outside are seen; the others are places. */
static void add_settings(struct names *n, const char *text)
{
	while (*text) {
		size_t len = strcspn(text, "\n");

		if (str_has_prefix(text, "version") || str_has_prefix(text, "include-system-site-packages"))
			VEC_PUSH(&n->v, xstrndup(text, len));
		text += len + (text[len] == '\n');
	}
}

/* The environment that the directory of programs `bin` belongs to, if any. */
static void add_environment(struct str *out, const char *bin)
{
	_cleanup_(freep) char *root = xasprintf("%s/..", bin), *cfg = xasprintf("%s/pyvenv.cfg", root), *conda = xasprintf("%s/conda-meta", root);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct names n = { 0 };

	if (fs_read_file(cfg, CFG_MAX, &text, NULL) == 0) {
		add_settings(&n, text.len ? text.s : "");
		add_site_packages(&n, root);
	}
	add_names(&n, conda, ".json");
	if (n.v.n)
		qsort(n.v.v, n.v.n, sizeof(*n.v.v), by_name);
	for (size_t i = 0; i < n.v.n; i++) {
		str_addf(out, "%s\n", n.v.v[i]);
		free(n.v.v[i]);
	}
	VEC_FREE(&n.v);
}

void packages_on_path(const char *path, struct str *out)
{
	while (path && *path) {
		size_t len = strcspn(path, ":");
		_cleanup_(freep) char *bin = xstrndup(path, len);

		if (*bin == '/')
			add_environment(out, bin);
		path += len + (path[len] == ':');
	}
}

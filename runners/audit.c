/* runners/audit.c — from the files that an attempt opened to what its step should declare.
 *
 * Paths come sorted, so what lies in one directory stands together: from MANY files on, one line
 * says the directory. Packages are said once for the directory that pip filled. A compiled module
 * is said as its source, which is what a person would declare. Everything is pure but for one look
 * at whether a file is a program.
 */
#include "runners/audit.h"
#include <ctype.h>
#include <string.h>
#include <unistd.h>
#include "base/map.h"
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/text.h"

#define MANY      8
#define LINES_MAX 100

static const char *const of_the_system[] = { "/usr", "/lib",  "/lib32", "/lib64", "/libx32",
					     "/bin", "/sbin", "/etc",   "/opt",   "/proc",
					     "/sys", "/dev",  "/run",   "/nix",   "/gnu" };
static const char *const of_code[] = { ".py",  ".sh", ".bash", ".pl",  ".R",  ".r", ".jl",
				       ".lua", ".rb", ".js",   ".mjs", ".ts", ".m", ".sql" };

/* The directory of packages that the file lies in, or NULL. */
static char *packages_of(const char *path)
{
	const char *at = strstr(path, "/site-packages/");
	size_t end = strlen("/site-packages");

	if (!at && str_has_prefix(path, "/usr/local/")) {
		at = strstr(path, "/dist-packages/");
		end = strlen("/dist-packages");
	}
	return at ? xstrndup(path, (size_t)(at - path) + end) : NULL;
}

static bool is_of_the_system(const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(of_the_system); i++)
		if (fs_is_inside(of_the_system[i], path))
			return true;
	/* Only says which Python a virtual environment is of. */
	return str_has_suffix(path, "/pyvenv.cfg");
}

/* DIR/__pycache__/NAME.cpython-311.pyc is what Python made of DIR/NAME.py. */
static char *source_of(const char *path)
{
	const char *cache = strstr(path, "/__pycache__/"), *name = cache ? cache + 13 : NULL;

	if (!cache || strchr(name, '/') || !str_has_suffix(name, ".pyc"))
		return xstrdup(path);
	return xasprintf("%.*s/%.*s.py", (int)(cache - path), path, (int)strcspn(name, "."), name);
}

/* A name for an input, of the file's: letters, digits, underscores. */
static char *name_of(const char *path)
{
	const char *base = strrchr(path, '/');
	char *name;

	base = base ? base + 1 : path;
	name = xstrndup(base, strcspn(base, "."));
	for (char *c = name; *c; c++)
		*c = isalnum((unsigned char)*c) ? *c : '_';
	if (!isalpha((unsigned char)*name)) {
		free(name);
		return xstrdup("data");
	}
	return name;
}

static void add_shown(struct str *to, const char *path)
{
	text_add_printable(to, path, strlen(path));
}

/* One line: the file or directory (with its number of files), and what declares it. */
static void say(const struct runner_audit *a, const char *path, size_t n_files, struct str *ret)
{
	_cleanup_(freep) char *inside = a->project_dir ? fs_relative(a->project_dir, path) : NULL,
			      *name = name_of(path);
	const char *in = inside ? inside : path;
	bool is_code = false;

	add_shown(ret, in);
	if (n_files)
		str_addf(ret, "/ (%zu files)", n_files);
	str_add(ret, " isn't declared: ");
	for (size_t i = 0; i < ARRAY_LEN(of_code) && !n_files; i++)
		is_code |= str_has_suffix(path, of_code[i]);
	if (!n_files && !is_code && access(path, X_OK) == 0) {
		str_add(ret, "add `tools: [");
		add_shown(ret, in);
		str_add(ret, " --version]`, or whatever prints its version");
	} else if (!inside) {
		str_add(ret, "it lies outside of the project; bring it in and add it to `inputs:`");
	} else {
		str_addf(ret, is_code ? "add `code: [" : "add `inputs: {%s: ", name);
		add_shown(ret, in);
		str_add(ret, is_code ? "]`" : n_files ? "/}`" : "}`");
	}
	str_add(ret, "\n");
}

/* What lies in one directory stands together. */
static int by_directory(const void *a, const void *b)
{
	const char *x = *(const char *const *)a, *y = *(const char *const *)b;
	size_t n = (size_t)(strrchr(x, '/') - x), m = (size_t)(strrchr(y, '/') - y);
	int order = memcmp(x, y, MIN(n, m));

	return order ? order : n != m ? (n > m) - (n < m) : strcmp(x, y);
}

static bool in_one_directory(const char *x, const char *y)
{
	size_t n = (size_t)(strrchr(x, '/') - x);

	return strncmp(x, y, n + 1) == 0 && !strchr(y + n + 1, '/');
}

void audit_say(const struct runner_audit *a, const char *const *paths, size_t n, size_t untold,
	       struct str *ret)
{
	_cleanup_(map_freep) struct map *files = map_new();
	_cleanup_(freep) char *packages = NULL;
	_cleanup_(freep) const char **v = NULL;
	size_t lines = 0, n_more = 0, n_files;

	for (size_t i = 0; i < n; i++) {
		_cleanup_(freep) char *of = packages_of(paths[i]);

		if (!of && !is_of_the_system(paths[i]) && !str_eq(a->program, paths[i])) {
			_cleanup_(freep) char *source = source_of(paths[i]);

			*map_slot_str(files, source) = files;
		} else if (of && !a->packages && !str_eq(of, packages)) {
			add_shown(ret, of);
			str_add(ret, " holds packages that aren't declared: add their lock file "
				     "(`env_file: requirements.txt`)\n");
			free(packages);
			packages = TAKE_PTR(of);
			lines++;
		}
	}
	n_files = map_len(files);
	v = xcalloc(n_files + 1, sizeof(*v));
	for (size_t i = 0; i < n_files; i++) {
		const void *key;
		size_t len;

		map_at(files, i, &key, &len);
		v[i] = xstrndup(key, len);
	}
	qsort(v, n_files, sizeof(*v), by_directory);
	for (size_t i = 0, same; i < n_files; i += same) {
		_cleanup_(freep) char *dir = fs_dirname(v[i]);

		for (same = 1; i + same < n_files && in_one_directory(v[i], v[i + same]); same++)
			;
		if (same < MANY)
			same = 1;
		if (lines++ < LINES_MAX)
			say(a, same > 1 ? dir : v[i], same > 1 ? same : 0, ret);
		else
			n_more += same;
	}
	for (size_t i = 0; i < n_files; i++)
		free((char *)v[i]);
	if (n_more)
		str_addf(ret, "%zu more files aren't declared\n", n_more);
	if (untold)
		str_addf(ret, "%zu more files were opened, and can't be told\n", untold);
}

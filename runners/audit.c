/* runners/audit.c — turns the files that an attempt opened into declarations that its step lacks.
 *
 * Paths are sorted, so files of one directory are adjacent: for MANY or more of them, one line
 * names the directory. All packages get one line with the directory that pip filled. A compiled
 * module is reported as its source, which a person would declare. All functions are pure, except
 * that access() and stat() tell programs, directories and what doesn't exist from other files.
 */
#include "runners/audit.h"
#include <ctype.h>
#include <string.h>
#include <sys/stat.h>
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

/* A project may lie in such a directory: /opt/project, /dev/shm/project. */
static bool is_of_the_system(const char *project_dir, const char *path)
{
	for (size_t i = 0; i < ARRAY_LEN(of_the_system); i++)
		if (fs_is_inside(of_the_system[i], path) && !fs_is_inside(project_dir, path))
			return true;
	/* It only tells which Python a virtual environment uses. */
	return str_has_suffix(path, "/pyvenv.cfg");
}

/* Python made DIR/__pycache__/NAME.cpython-311.pyc from DIR/NAME.py. */
static char *source_of(const char *path)
{
	const char *cache = strstr(path, "/__pycache__/"), *name = cache ? cache + 13 : NULL;

	if (!cache || strchr(name, '/') || !str_has_suffix(name, ".pyc"))
		return xstrdup(path);
	return xasprintf("%.*s/%.*s.py", (int)(cache - path), path, (int)strcspn(name, "."), name);
}

static bool is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* A name for an input, made from the file's: letters, digits, underscores. */
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

/* One line: the file of the project, or the directory and its number of files (0: not counted). */
static void say_inside(const char *inside, bool is_dir, size_t n_files, struct str *ret)
{
	_cleanup_(freep) char *name = name_of(inside);
	bool is_code = false;

	for (size_t i = 0; i < ARRAY_LEN(of_code) && !is_dir; i++)
		is_code |= str_has_suffix(inside, of_code[i]);
	add_shown(ret, inside);
	if (n_files)
		str_addf(ret, "/ (%zu files)", n_files);
	else if (is_dir)
		str_addc(ret, '/');
	str_addf(ret,
		 is_code ? " isn't declared: add `code: [" : " isn't declared: add `inputs: {%s: ",
		 name);
	add_shown(ret, inside);
	str_add(ret, is_code ? "]`\n" : is_dir ? "/}`\n" : "}`\n");
}

/* Files outside of the project are often an installed program with all its files. One line names
 * where it begins: /opt2/tool, /home/user/data. */
static size_t outside_len(const char *path)
{
	int depth = str_has_prefix(path, "/home/") ? 3 : 2;
	const char *at = path;

	while (depth-- > 0 && *at)
		at += 1 + strcspn(at + 1, "/");
	return (size_t)(at - path);
}

static void say_outside(const char *path, size_t n_files, bool has_programs, struct str *ret)
{
	_cleanup_(freep) char *shown =
		n_files > 1 ? xstrndup(path, outside_len(path)) : xstrdup(path);

	add_shown(ret, shown);
	if (n_files > 1)
		str_addf(ret, "/ (%zu files)", n_files);
	str_add(ret, has_programs
			     ? " holds programs that aren't declared: add what prints their "
			       "version (`tools: [python3 --version]`)\n"
			     : " isn't declared: it lies outside of the project; bring it in and "
			       "add it to `inputs:`\n");
}

/* Something that doesn't exist: it was to be made. */
static void say_made(const char *path, struct str *ret)
{
	add_shown(ret, path);
	str_add(ret,
		" can't be made: a strict step writes to its outputs, the rest of its workspace "
		"and $TMPDIR\n");
}

static void say_state(const char *inside, struct str *ret)
{
	add_shown(ret, inside);
	str_add(ret, " is Cairn's own: add what the step reads to `inputs:` (`${{ "
		     "steps.NAME.outputs.NAME }}`)\n");
}

/* Python refuses to be the environment's without this file. */
static void say_environment(const char *cfg, struct str *ret)
{
	_cleanup_(freep) char *dir = fs_dirname(cfg);

	add_shown(ret, dir);
	str_add(ret, " is a Python environment that isn't declared: add `tools: [");
	add_shown(ret, dir);
	str_add(ret, "/bin/python3 --version]`\n");
}

/* Files of one directory become adjacent. */
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

		if (a->refused && str_has_suffix(paths[i], "/pyvenv.cfg")) {
			say_environment(paths[i], ret);
			lines++;
		} else if (!of && (a->refused || !is_of_the_system(a->project_dir, paths[i])) &&
			   !str_eq(a->program, paths[i])) {
			_cleanup_(freep) char *source = source_of(paths[i]);
			void **slot = map_slot_str(files, source);

			if (!*slot)
				*slot = TAKE_PTR(source);
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
	for (size_t i = 0; i < n_files; i++)
		v[i] = map_at(files, i, NULL, NULL);
	qsort(v, n_files, sizeof(*v), by_directory);
	for (size_t i = 0, same; i < n_files; i += same) {
		_cleanup_(freep) char *dir = fs_dirname(v[i]),
				      *inside = fs_relative(a->project_dir, v[i]),
				      *inside_dir = fs_relative(a->project_dir, dir);
		bool programs = false;

		if (inside) {
			for (same = 1; i + same < n_files && in_one_directory(v[i], v[i + same]);)
				same++;
			if (same < MANY)
				same = 1;
		} else {
			size_t len = outside_len(v[i]);

			for (same = 0; i + same < n_files &&
				       (same == 0 || (strncmp(v[i], v[i + same], len) == 0 &&
						      v[i + same][len] == '/'));
			     same++)
				programs |= access(v[i + same], X_OK) == 0 &&
					    !is_directory(v[i + same]);
			if (programs && a->packages)
				continue;
		}
		if (lines++ >= LINES_MAX)
			n_more += same;
		else if (inside && a->refused && fs_is_inside(".cairn", inside))
			say_state(inside, ret);
		else if (a->refused && access(v[i], F_OK) < 0)
			say_made(inside ? inside : v[i], ret);
		else if (inside)
			say_inside(same > 1 ? inside_dir : inside, same > 1 || is_directory(v[i]),
				   same > 1 ? same : 0, ret);
		else
			say_outside(v[i], same, programs, ret);
	}
	for (size_t i = 0; i < n_files; i++)
		free((char *)v[i]);
	if (n_more)
		str_addf(ret, "%zu more files aren't declared\n", n_more);
	if (untold)
		str_addf(ret, "%zu more files were opened, and can't be told\n", untold);
}

/* runners/sandbox.c — the rules of a strict attempt, and its network.
 *
 * Landlock has only rules that allow. So the rules name the system's directories, the same that an
 * audit takes for the system, except where other things are mounted (/run) or all processes' things
 * lie (/proc, /dev). Block devices stay closed: they hold the disks. Nothing is remembered between
 * attempts, so that a device or a tool that comes later is seen.
 *
 * A tool belongs to the directory in which it is installed: for DIR/bin/tool that is DIR. Its link
 * and the file behind it may lie in two such directories (a virtual environment and its Python).
 * Of tools, a directory that holds the project or the home directory is never opened as a whole,
 * and inside the home directory (~/.local) only what programs consist of, unless it is an
 * environment.
 */
#include "runners/sandbox.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/text/str.h"

static const char *const system_dirs[] = { "/usr", "/lib", "/lib32", "/lib64", "/libx32", "/bin",
					   "/sbin", "/etc", "/opt", "/sys", "/nix/store",
					   "/nix/var/nix/profiles", "/gnu/store",
					   /* Where links from /etc and PATH lead. */
					   "/run/systemd/resolve", "/run/resolvconf",
					   "/run/NetworkManager", "/run/current-system",
					   "/run/opengl-driver" };
/* What programs consist of. */
static const char *const of_programs[] = { "bin",   "sbin",    "lib",     "lib32",
					   "lib64", "libexec", "include", "etc" };

static void add(struct sandbox_paths *p, char *path, enum landlock_use use)
{
	VEC_PUSH(&p->list, ((struct sandbox_path){ path, use }));
}

void sandbox_paths_deinit(struct sandbox_paths *p)
{
	for (size_t i = 0; i < p->list.n; i++)
		free(p->list.v[i].path);
	VEC_FREE(&p->list);
}

/* A directory is allowed with all below it, so those with block devices (/dev/mapper) are left
 * out. */
static bool holds_disks(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;
	bool found = false;

	while (d && !found && fs_next(d, dir, &e, NULL) > 0)
		found = fstatat(dirfd(d), e->d_name, &st, 0) == 0 && S_ISBLK(st.st_mode);
	if (d)
		closedir(d);
	return found;
}

static void add_devices(struct sandbox_paths *p)
{
	DIR *d = opendir("/dev");
	struct dirent *e;
	struct stat st;

	while (d && fs_next(d, "/dev", &e, NULL) > 0) {
		_cleanup_(freep) char *path = fs_join("/dev", e->d_name);
		bool shared = str_eq(e->d_name, "shm") || str_eq(e->d_name, "mqueue");

		/* /dev/fd and the like lead to /proc. */
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    S_ISBLK(st.st_mode) || S_ISLNK(st.st_mode) ||
		    (S_ISDIR(st.st_mode) && holds_disks(path)))
			continue;
		add(p, TAKE_PTR(path), shared ? LANDLOCK_WRITE : LANDLOCK_DEVICE);
	}
	if (d)
		closedir(d);
}

static bool is_environment(const char *dir)
{
	_cleanup_(freep) char *venv = fs_join(dir, "pyvenv.cfg"),
			      *conda = fs_join(dir, "conda-meta");

	return access(venv, F_OK) == 0 || access(conda, F_OK) == 0;
}

/* The program at `path` and what is installed with it. */
static void add_installed(struct sandbox_paths *p, const struct runner_sandbox *s, const char *path)
{
	_cleanup_(freep) char *bin = fs_dirname(path), *dir = fs_dirname(bin);
	const char *home = getenv("HOME"), *name = fs_basename(bin);

	add(p, xstrdup(path), LANDLOCK_READ);
	if ((!str_eq(name, "bin") && !str_eq(name, "sbin")) || str_eq(dir, "/") ||
	    fs_is_inside(dir, s->project_dir) || (home && fs_is_inside(dir, home)))
		return;
	if (!home || !fs_is_inside(home, dir) || is_environment(dir)) {
		add(p, TAKE_PTR(dir), LANDLOCK_READ);
		return;
	}
	for (size_t i = 0; i < ARRAY_LEN(of_programs); i++)
		add(p, fs_join(dir, of_programs[i]), LANDLOCK_READ);
}

static void add_program(struct sandbox_paths *p, const struct runner_sandbox *s, const char *path)
{
	_cleanup_(freep) char *real = realpath(path, NULL);

	if (!real)
		return;
	add_installed(p, s, path);
	if (!str_eq(real, path))
		add_installed(p, s, real);
}

/* Calls `add_program` for the program of this name in each directory of PATH up to the first that
 * has it; without a name, for python3 of each environment. */
static void search_path(struct sandbox_paths *p, const struct runner_sandbox *s, const char *path,
			const char *name)
{
	bool found = false;

	for (size_t len; path && *path && !found; path += len + (path[len] == ':')) {
		_cleanup_(freep) char *bin = NULL, *root = NULL, *full = NULL;

		len = strcspn(path, ":");
		if (*path != '/')
			continue;
		bin = xstrndup(path, len);
		root = fs_dirname(bin);
		full = fs_join(bin, name ? name : "python3");
		if (name ? access(full, X_OK) == 0 : is_environment(root)) {
			add_program(p, s, full);
			if (access(full, F_OK) < 0) /* one without Python */
				add_installed(p, s, full);
			found = name != NULL;
		}
	}
}

/* `tool` is a command that prints a version: `time -p gcc --version`. All of its words that name
 * files are meant, as in the key (plan/sources/sources.c); tools run in the root directory. */
static void add_tool(struct sandbox_paths *p, const struct runner_sandbox *s, const char *path,
		     const char *tool)
{
	static const char ends[] = " \t\n;|&<>()'\"`";

	for (const char *at = tool + strspn(tool, ends); *at; at += strspn(at, ends)) {
		_cleanup_(freep) char *word = xstrndup(at, strcspn(at, ends)),
				      *full = fs_join("/", word);

		if (strchr(word, '/'))
			add_program(p, s, full);
		else
			search_path(p, s, path, word);
		at += strlen(word);
	}
}

/* The PATH that the program will have. */
static const char *path_of(const struct runner_attempt *a)
{
	for (const char *const *e = a->env; e && *e; e++)
		if (str_has_prefix(*e, "PATH="))
			return *e + strlen("PATH=");
	return getenv("PATH");
}

void sandbox_paths(const struct runner_attempt *a, const struct workspace *w, const char *state_dir,
		   struct sandbox_paths *ret)
{
	const struct runner_sandbox *s = a->local.sandbox;
	char hex[DIGEST_HEX_MAX];

	assert(s && s->strict && s->project_dir[0] == '/');
	add(ret, xstrdup(w->path), LANDLOCK_WRITE);
	add(ret, xasprintf("%s/tmp", w->dir), LANDLOCK_WRITE);
	if (a->checkpoint_path)
		add(ret, xasprintf("%s/checkpoints/%s/data", state_dir, digest_hex(a->key, hex)),
		    LANDLOCK_WRITE);
	for (size_t i = 0; i < ARRAY_LEN(system_dirs); i++)
		add(ret, xstrdup(system_dirs[i]), LANDLOCK_READ);
	/* Programs write to files below /proc/self, such as comm and oom_score_adj. */
	add(ret, xstrdup("/proc"), LANDLOCK_READ);
	add(ret, xstrdup("/proc"), LANDLOCK_DEVICE);
	add_devices(ret);
	if (a->argv[0][0] == '/') /* the engine's own program, or the person's shell */
		add(ret, xstrdup(a->argv[0]), LANDLOCK_READ);
	for (const char *const *t = s->tools; t && *t; t++)
		add_tool(ret, s, path_of(a), *t);
	search_path(ret, s, path_of(a), NULL);
}

int sandbox_rules(const struct sandbox_paths *p, const char *project_dir, int *ret_fd,
		  struct err *err)
{
	_cleanup_(fd_closep) int rules = -1;

	for (size_t i = 0; i < p->list.n; i++)
		if (fs_is_inside(p->list.v[i].path, project_dir))
			return err_set(err, ERR_UNSUPPORTED,
				       "`sandbox: strict` can't hide the project %s, since steps "
				       "may use %s: move the project",
				       project_dir, p->list.v[i].path);
	if (landlock_close_all(&rules, err) < 0)
		return err_wrap(err, "`sandbox: strict` isn't possible here");
	for (size_t i = 0; i < p->list.n; i++)
		if (landlock_open(rules, p->list.v[i].path, p->list.v[i].use, err) < 0)
			return err_wrap(err, "`sandbox: strict`");
	*ret_fd = TAKE_FD(rules);
	return 0;
}

/* Network. */

static const char *network_name(enum runner_network n)
{
	return n == RUNNER_NETWORK_NONE       ? "none"
	       : n == RUNNER_NETWORK_LOOPBACK ? "loopback"
					      : "host";
}

int sandbox_network(const struct runner_attempt *a, struct namespace_plan *p, struct err *err)
{
	enum runner_network n = a->local.sandbox ? a->local.sandbox->network : RUNNER_NETWORK_HOST;

	if (n == RUNNER_NETWORK_HOST)
		return 0;
	if (p->users < 0 && namespace_users_new(&p->users, err) < 0)
		return err_wrap(err,
				"`network: %s` isn't possible here: it needs root or user "
				"namespaces (kernel.unprivileged_userns_clone, "
				"kernel.apparmor_restrict_unprivileged_userns)",
				network_name(n));
	p->network = true;
	p->loopback = n == RUNNER_NETWORK_LOOPBACK;
	return 0;
}

int sandbox_check_network(struct err *err)
{
	_cleanup_(fd_closep) int users = -1;

	if (namespace_users_new(&users, err) < 0)
		return -1;
	return namespace_try(&(struct namespace_plan){ .users = users, .network = true }, NULL,
			     err);
}

/* Telling. */

void sandbox_explain(const struct runner_attempt *a, const char *refused, struct err *err)
{
	struct err why = *err;
	size_t first = refused ? strcspn(refused, "\n") : 0, more = 0;

	if (first) {
		for (const char *c = refused + first + 1; *c; c++)
			more += *c == '\n';
		err_set(err, why.code, "%s; `sandbox: strict` refused: %.*s", why.msg, (int)first,
			refused);
		why = *err;
		if (more)
			err_set(err, why.code, "%s (and %zu more: see the end of its log)", why.msg,
				more);
		why = *err;
	}
	if (a->local.sandbox->network != RUNNER_NETWORK_HOST)
		err_set(err, why.code, "%s; it had %s (`network: %s`)", why.msg,
			a->local.sandbox->network == RUNNER_NETWORK_NONE
				? "no network"
				: "a network of its own, with nothing but a loopback",
			network_name(a->local.sandbox->network));
}

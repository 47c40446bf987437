/* engine/run/task/environment.c — the environments that steps run in: made once from their lock
 * files, kept, and activated.
 *
 * The first task that needs an environment has it made, before anything else of that task. A tool
 * (uv, pip, conda) does that in two programs on the loop: STAGES[0] installs, STAGES[1] takes away
 * the permission to write and brings all to the disk. Then `made` is written (environment.h).
 * Meanwhile tasks that need it are ELSEWHERE, and others run.
 *
 * Invariants: without `made` an environment counts as not there, so `kill -9` at any point leaves
 * nothing that is used. Who looks at it, makes it or removes it holds the lock on `log`. The
 * programs inherit the locked file as their input and output: a tool that outlives a killed engine
 * still holds the lock, and the next engine waits for it. The tool reads the lock file from the
 * store, as pinned.
 *
 * A task that failed for its environment may be retried like any other. A failed build is tried
 * again only by a task that has had all earlier failures: others that need it fail with the same
 * message.
 *
 * Threads: the loop's. On a cluster none of this is used: there the image brings the environment.
 */
#include "run/task/environment.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/os/process/process.h"
#include "run/internal.h"
#include "runners/workspace.h"

/* Changes when an environment is made in another way. */
#define RECIPE   "cairn-environment/1"
#define MADE_MAX (4 * MIB)
/* Of the tool's output in an error. */
#define TAIL_LINES 4

extern char **environ;

enum environment_state { NOT_SEEN, MAKING, WHOLE };

struct environment {
	struct run *run;
	const struct plan_environment *of;
	char *dir, *tool, *python, *marker;
	enum environment_state state;
	unsigned failed; /* builds */
	struct err why;  /* the last one */
	struct content_id log;
	int lock_fd;
	size_t stage;
	struct process *process;
	bool reported_waiting;
};

struct environments {
	VEC(struct environment *) v;
	char *path; /* our PATH without environments; NULL: not known yet */
};

/* On disk. */

static char *python_of(const struct plan_environment *e)
{
	return e->kind == LOCK_CONDA ? NULL : command_find("python3");
}

char *environment_dir(const struct config *c, const struct plan_environment *e)
{
	_cleanup_(freep) char *python = python_of(e),
			      *real = python ? realpath(python, NULL) : NULL;
	_cleanup_(str_deinit) struct str text = { 0 };
	char hex[DIGEST_HEX_MAX];
	struct digest d;

	str_add_field(&text, RECIPE, strlen(RECIPE));
	str_add_field(&text, lock_kind_name(e->kind), strlen(lock_kind_name(e->kind)));
	str_addn(&text, e->lock.digest.b, DIGEST_BYTES);
	str_add_field(&text, e->python ? e->python : "", e->python ? strlen(e->python) : 0);
	/* A virtual environment has links to the Python that made it. */
	str_add_field(&text, real ? real : "", real ? strlen(real) : 0);
	digest_bytes(text.s, text.len, &d);
	return xasprintf("%s/environments/%.20s", c->state_dir, digest_hex(&d, hex));
}

/* The packages that are installed there, as text. */
static int packages_in(const char *dir, struct str *ret, struct err *err)
{
	_cleanup_(freep) char *bin = xasprintf("%s/env/bin", dir);

	str_add(ret, RECIPE "\n");
	return plan_packages_on_path(bin, ret, err);
}

bool environment_is_whole(const char *dir)
{
	_cleanup_(freep) char *made = fs_join(dir, "made"), *cfg = fs_join(dir, "env/pyvenv.cfg"),
			      *python = fs_join(dir, "env/bin/python3");
	_cleanup_(str_deinit) struct str was = { 0 }, is = { 0 };

	return fs_read_file(made, MADE_MAX, &was, NULL) == 0 && packages_in(dir, &is, NULL) == 0 &&
	       str_eq(was.s, is.s) &&
	       /* Its Python may be gone. */
	       (access(cfg, F_OK) < 0 || access(python, X_OK) == 0);
}

/* 0: locked; 1: another has it. */
static int lock(const char *dir, int *ret_fd, struct err *err)
{
	_cleanup_(freep) char *log = fs_join(dir, "log");
	int r;

	if (fs_mkdir_p(dir, err) < 0)
		return -1;
	r = fs_lock_path(log, false, ret_fd, err);
	if (r == 0 && !fs_leads_to(log, *ret_fd)) { /* it was removed meanwhile */
		fd_closep(ret_fd);
		return 1;
	}
	return r;
}

/* Making. */

static const char python_is_right[] = "v=$({ \"$3\" --version; uname -m; } 2>&1)\n"
				      "[ \"$v\" = \"$4\" ] || { echo \"python3 is \"$v\", and this "
				      "run began with \"$4; exit 1; }\n";
static const char starts_anew[] = "set -e\n"
				  "[ ! -e \"$1\" ] || { chmod -R u+w \"$1\"; rm -rf \"$1\"; }\n";
/* $1: where; $2: the directory with the files; $3: python3; $4: what it must print; $5: the tool;
 * $6: the lock file. Each ends in `exec`, so that the tool ends with us. */
static const char *const install[] = {
	[LOCK_UV] = "export UV_PROJECT_ENVIRONMENT=\"$1\" UV_PYTHON_DOWNLOADS=never\n"
		    "export UV_COMPILE_BYTECODE=1 UV_NO_PROGRESS=1\n"
		    "exec \"$5\" sync --frozen --no-install-project --no-install-workspace "
		    "--no-default-groups --project \"$2\" --python \"$3\"\n",
	[LOCK_PIP] =
		"\"$3\" -m venv \"$1\"\n"
		"exec \"$1/bin/python3\" -m pip --disable-pip-version-check --no-input install "
		"--require-hashes --progress-bar off -r \"$6\"\n",
	[LOCK_CONDA] = "exec \"$5\" create --yes --prefix \"$1\" --file \"$6\"\n",
};
static const char finish[] = "set -e\n"
			     "find \"$1\" -type d -exec chmod a-w {} +\n"
			     "sync -f \"$1\" || sync\n";
#define STAGES 2

static const char *variables_of_tools[] = {
	"PIP_",
	"UV_",
	"MAMBA_",
	"CONDA_",
	"XDG_",
	"http_proxy=",
	"https_proxy=",
	"no_proxy=",
	"all_proxy=",
	"HTTP_PROXY=",
	"HTTPS_PROXY=",
	"NO_PROXY=",
	"ALL_PROXY=",
	"SSL_CERT_FILE=",
	"SSL_CERT_DIR=",
	"NETRC=",
	"TMPDIR=",
	"REQUESTS_CA_BUNDLE=",
	"CURL_CA_BUNDLE=",
};

/* What a tool gets of our variables: a step's, and those that say how to reach an index. None that
 * says which environment is active. */
static bool passes(const char *entry)
{
	static const char *const not_these[] = {
		"VIRTUAL_ENV=", "CONDA_PREFIX", "CONDA_DEFAULT_ENV=", "CONDA_SHLVL=",
		"PIP_TARGET=",  "PIP_PREFIX=",  "PIP_ROOT=",          "PIP_USER="
	};

	for (size_t i = 0; i < ARRAY_LEN(not_these); i++)
		if (str_has_prefix(entry, not_these[i]))
			return false;
	for (const char *const *v = command_step_variables; *v; v++)
		if (str_has_prefix(entry, *v) && entry[strlen(*v)] == '=')
			return true;
	for (size_t i = 0; i < ARRAY_LEN(variables_of_tools); i++)
		if (str_has_prefix(entry, variables_of_tools[i]))
			return true;
	return false;
}

static void on_stage_end(void *arg, const struct process_exit *ex);

static int start_stage(struct environment *e, struct err *err)
{
	const struct plan_environment *of = e->of;
	_cleanup_(freep) char *env_dir = fs_join(e->dir, "env"), *files = fs_join(e->dir, "files"),
			      *lock_file = fs_join(files, fs_basename(of->path));
	_cleanup_(freep) char *must =
		of->python ? xstrndup(of->python, str_len_without(of->python, '\n')) : xstrdup("");
	_cleanup_(freep) char *script =
		e->stage ? xstrdup(finish)
			 : xasprintf("%s%s%s", starts_anew, of->python ? python_is_right : "",
				     install[of->kind]);
	const char *argv[] = { "/bin/sh",
			       "-c",
			       script,
			       "environment",
			       env_dir,
			       files,
			       e->python ? e->python : "",
			       must,
			       e->tool,
			       lock_file,
			       NULL };
	struct process_spec spec = { .argv = argv,
				     .cwd = "/",
				     .stdin_fd = e->lock_fd,
				     .stdout_fd = e->lock_fd,
				     .stderr_fd = e->lock_fd,
				     .marker = e->marker,
				     .umask = RUNNER_UMASK };
	VEC(const char *) env = { 0 };
	int r;

	for (char **v = environ; *v; v++)
		if (passes(*v))
			VEC_PUSH(&env, *v);
	VEC_PUSH(&env, "LANG=C.UTF-8");
	VEC_PUSH(&env, "LC_ALL=C.UTF-8");
	VEC_PUSH(&env, e->marker);
	VEC_PUSH(&env, NULL);
	spec.env = env.v;
	r = process_start(e->run->ctx->loop, &spec, on_stage_end, e, &e->process, err);
	VEC_FREE(&env);
	return r;
}

/* The last lines, as one. */
static void add_tail(const struct environment *e, struct str *out)
{
	_cleanup_(freep) char *text = workspace_log_tail(e->lock_fd);
	const char *from;
	size_t lines = 0;

	if (!text)
		return;
	text[str_len_without(text, '\n')] = '\0';
	for (from = text + strlen(text); from > text; from--)
		if (from[-1] == '\n' && ++lines == TAIL_LINES)
			break;
	str_add(out, *from ? ": " : "");
	for (; *from; from++)
		str_add(out, *from == '\n' ? " | " : (char[]){ *from, '\0' });
}

static void set_failed(struct environment *e, const struct err *why)
{
	struct err ignored = { 0 };

	e->failed++;
	e->why = *why;
	e->log = (struct content_id){ 0 };
	if (e->lock_fd >= 0 && lseek(e->lock_fd, 0, SEEK_END) > 0 &&
	    content_put_fd(e->run->ctx->store, e->lock_fd, &e->log, &ignored) < 0)
		e->log = (struct content_id){ 0 };
	e->state = NOT_SEEN;
	fd_closep(&e->lock_fd);
}

static void made(struct environment *e)
{
	_cleanup_(freep) char *path = fs_join(e->dir, "made");
	_cleanup_(str_deinit) struct str packages = { 0 };
	struct err err = { 0 };

	if (packages_in(e->dir, &packages, &err) < 0 ||
	    fs_write_atomic(path, packages.s, packages.len, &err) < 0) {
		set_failed(e, &err);
		return;
	}
	e->state = WHOLE;
	fd_closep(&e->lock_fd);
}

static void on_stage_end(void *arg, const struct process_exit *ex)
{
	struct environment *e = arg;
	_cleanup_(str_deinit) struct str tail = { 0 };
	struct err err = { 0 };

	if (process_left_orphans(e->process))
		process_kill_leftovers(e->process);
	process_free(TAKE_PTR(e->process));
	if (ex->status != 0) {
		add_tail(e, &tail);
		err_set(&err, ERR_FAILED,
			"environment %s: %s can't make it (%s %d)%.600s; all that it printed: "
			"%s/log",
			e->of->path, lock_kind_name(e->of->kind),
			ex->signo ? "signal" : "exit status", ex->signo ? ex->signo : ex->status,
			tail.len ? tail.s : "", e->dir);
		set_failed(e, &err);
	} else if (++e->stage == STAGES) {
		made(e);
	} else if (start_stage(e, &err) < 0) {
		set_failed(e, &err);
	}
	if (e->state != MAKING)
		start_recheck(e->run);
}

static int lay_out_files(struct environment *e, struct err *err)
{
	_cleanup_(fd_closep) int dir = open(e->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return err_errno(err, "cannot open %s", e->dir);
	if (unlinkat(dir, "made", 0) < 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s/made", e->dir);
	return fs_remove_tree_at(dir, "files", err) < 0 ||
			       content_materialise_at(e->run->ctx->store, &e->of->files,
						      CONTENT_COPY_WORKSPACE, dir, "files", err) < 0
		       ? -1
		       : 0;
}

static int begin(struct environment *e, struct err *err)
{
	const char *name;

	free(e->tool);
	free(e->python);
	e->python = python_of(e->of);
	e->tool = lock_tool(e->of->kind, &name);
	if (!e->tool)
		return err_set(err, ERR_NOT_FOUND,
			       "environment %s is made with %s, which isn't on PATH: install it",
			       e->of->path, name);
	if (e->of->python && !e->python)
		return err_set(err, ERR_NOT_FOUND,
			       "environment %s is for the python3 on PATH, and there is none",
			       e->of->path);
	if (lay_out_files(e, err) < 0)
		return err_wrap(err, "environment %s", e->of->path);
	if (ftruncate(e->lock_fd, 0) < 0 || lseek(e->lock_fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot write %s/log", e->dir);
	e->stage = 0;
	if (start_stage(e, err) < 0)
		return err_wrap(err, "environment %s", e->of->path);
	e->state = MAKING;
	run_notice(e->run, "making the environment of %s with %s, once (%s/log)", e->of->path,
		   fs_basename(e->tool), e->dir);
	return 0;
}

/* Looks at what is on disk; starts to make it if it isn't whole. */
static int look(struct environment *e, struct err *err)
{
	_cleanup_(freep) char *mark = fs_join(e->dir, "made");
	int busy = lock(e->dir, &e->lock_fd, err);

	if (busy < 0)
		return -1;
	if (busy) {
		if (!e->reported_waiting)
			run_notice(e->run, "another run is making the environment of %s: waiting",
				   e->of->path);
		e->reported_waiting = true;
		return 0;
	}
	if (!environment_is_whole(e->dir))
		return begin(e, err);
	if (utimensat(AT_FDCWD, mark, NULL, 0) < 0)
		return err_errno(err, "cannot note the use of %s", e->dir);
	e->state = WHOLE;
	fd_closep(&e->lock_fd);
	return 0;
}

static struct environment *of_task(struct run *r, const struct plan_environment *of)
{
	struct environments *all = r->environments;
	struct environment *e;

	if (!all)
		all = r->environments = xcalloc(1, sizeof(*all));
	for (size_t i = 0; i < all->v.n; i++)
		if (all->v.v[i]->of == of)
			return all->v.v[i];
	e = xcalloc(1, sizeof(*e));
	e->run = r;
	e->of = of;
	e->lock_fd = -1;
	e->dir = environment_dir(r->ctx->config, of);
	e->marker = xasprintf("CAIRN_ENVIRONMENT=%d/%s", (int)getpid(), fs_basename(e->dir));
	VEC_PUSH(&all->v, e);
	return e;
}

int environment_ready(struct task *t, struct content_id *ret_log, struct err *ret_why)
{
	struct run *r = t->run;
	const struct plan_environment *of = plan_step_environment(r->plan, t->plan->step);
	struct environment *e;
	struct err why = { 0 };

	if (!of || r->ctx->runner->ops->durable)
		return 1;
	e = of_task(r, of);
	if (e->state == NOT_SEEN && e->failed <= (t->history ? t->history->attempts : 0) &&
	    look(e, &why) < 0)
		set_failed(e, &why);
	if (e->state == WHOLE)
		return 1;
	if (e->state == NOT_SEEN && e->failed > (t->history ? t->history->attempts : 0)) {
		*ret_why = e->why;
		*ret_log = e->log;
		return -1;
	}
	task_set_phase(t, PHASE_ELSEWHERE);
	if (e->state != MAKING) /* else its end wakes the task */
		start_recheck(r);
	return 0;
}

void environments_free(struct run *r)
{
	struct environments *all = TAKE_PTR(r->environments);

	if (!all)
		return;
	for (size_t i = 0; i < all->v.n; i++) {
		struct environment *e = all->v.v[i];

		if (e->process)
			process_signal_tree(e->process, SIGKILL);
		process_free(e->process);
		fd_closep(&e->lock_fd);
		free(e->dir);
		free(e->tool);
		free(e->python);
		free(e->marker);
		free(e);
	}
	VEC_FREE(&all->v);
	free(all->path);
	free(all);
}

/* Using. */

/* PATH without the directories of other environments: what is active there mustn't matter. */
static char *path_without_environments(const char *path)
{
	_cleanup_(str_deinit) struct str kept = { 0 };

	str_add(&kept, "");
	for (size_t len; path && *path; path += len + (path[len] == ':')) {
		_cleanup_(str_deinit) struct str packages = { 0 };
		_cleanup_(freep) char *bin = NULL;

		len = strcspn(path, ":");
		bin = xstrndup(path, len);
		if (plan_packages_on_path(bin, &packages, NULL) == 0 && packages.len == 0)
			str_addf(&kept, "%s%s", kept.len ? ":" : "", bin);
	}
	return str_take(&kept);
}

const char *const *environment_activate(struct run *r, const struct plan_task *t,
					const char *const *env, struct arena *arena)
{
	const struct plan_environment *of = plan_step_environment(r->plan, t->step);
	const struct environment *e = of ? of_task(r, of) : NULL;
	const char *rest = NULL, **v;
	bool is_conda = of && of->kind == LOCK_CONDA;
	size_t n = 0, m = 0;

	if (!e)
		return env;
	if (!r->environments->path)
		r->environments->path = path_without_environments(getenv("PATH"));
	rest = r->environments->path;
	while (env && env[n])
		n++;
	v = arena_alloc(arena, (n + 4) * sizeof(*v));
	for (size_t i = 0; i < n; i++)
		if (str_has_prefix(env[i], "PATH="))
			rest = env[i] + strlen("PATH=");
		else if (!str_has_prefix(env[i], "VIRTUAL_ENV=") &&
			 !str_has_prefix(env[i], "CONDA_PREFIX="))
			v[m++] = env[i];
	v[m++] = arena_printf(arena, "PATH=%s/env/bin:%s", e->dir, rest);
	v[m++] = arena_printf(arena, "VIRTUAL_ENV=%s%s", is_conda ? "" : e->dir,
			      is_conda ? "" : "/env");
	v[m++] = arena_printf(arena, "CONDA_PREFIX=%s%s", is_conda ? e->dir : "",
			      is_conda ? "/env" : "");
	v[m] = NULL;
	return v;
}

/* Collecting. */

/* Deeper directories aren't counted: a bound for descriptors. */
#define COUNTED_DEPTH 40

static uint64_t tree_bytes(int dir_fd, const char *name, unsigned depth)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(dir_fd, name, O_NOFOLLOW);
	struct dirent *e;
	struct stat st;
	uint64_t sum = 0;

	while (d && fs_next(d, name, &e, NULL) > 0)
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
			sum += (uint64_t)st.st_blocks * 512 +
			       (S_ISDIR(st.st_mode) && depth < COUNTED_DEPTH
					? tree_bytes(dirfd(d), e->d_name, depth + 1)
					: 0);
	return sum;
}

int environment_gc(const struct config *c, int64_t before_ns, bool dry_run,
		   struct environment_gc_result *ret, struct err *err)
{
	_cleanup_(freep) char *all = fs_join(c->state_dir, "environments");
	DIR *d = opendir(all);
	struct dirent *e;
	int r = 0;

	*ret = (struct environment_gc_result){ 0 };
	if (!d)
		return errno == ENOENT ? 0 : err_errno(err, "cannot read %s", all);
	while (r >= 0 && (r = fs_next(d, all, &e, err)) > 0) {
		_cleanup_(freep) char *dir = fs_join(all, e->d_name), *mark = fs_join(dir, "made");
		_cleanup_(fd_closep) int lock_fd = -1;
		struct stat st;

		if (stat(mark, &st) < 0 && stat(dir, &st) < 0)
			continue;
		if ((int64_t)st.st_mtim.tv_sec * NS_PER_S >= before_ns)
			continue;
		r = lock(dir, &lock_fd, err);
		if (r != 0)
			continue;
		ret->removed++;
		ret->bytes += tree_bytes(dirfd(d), e->d_name, 0);
		/* `made` goes first: what is left after a crash isn't whole. */
		if (!dry_run && ((unlink(mark) < 0 && errno != ENOENT)
					 ? err_errno(err, "cannot remove %s", mark) < 0
					 : fs_remove_tree(dir, err) < 0))
			r = -1;
	}
	closedir(d);
	return r < 0 ? -1 : 0;
}

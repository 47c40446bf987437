#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fs.h"
#include "base/mem.h"
#include "runners/workspace.h"

#define TAIL_BYTES 4096

char *workspace_dir(const char *state_dir, uint64_t attempt_id)
{
	return xasprintf("%s/work/%llu", state_dir, (unsigned long long)attempt_id);
}

char *runner_local_log_path(const char *state_dir, uint64_t attempt_id)
{
	return xasprintf("%s/work/%llu/log", state_dir, (unsigned long long)attempt_id);
}

static int make_dir(const char *dir, struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(dir);

	if (mkdir(dir, 0777) == 0)
		return 0;
	if (errno == ENOENT && fs_mkdir_p(parent, err) < 0)
		return -1;
	if (errno == EEXIST && workspace_remove(dir, err) < 0)
		return -1;
	return mkdir(dir, 0777) < 0 ? err_errno(err, "cannot make workspace %s", dir) : 0;
}

int workspace_make(struct workspace *w, const char *state_dir, uint64_t attempt_id, struct err *err)
{
	_cleanup_(fd_closep) int top = -1;

	*w = (struct workspace){ .dir_fd = -1, .log_fd = -1 };
	w->dir = workspace_dir(state_dir, attempt_id);
	w->path = xasprintf("%s/w", w->dir);
	if (make_dir(w->dir, err) < 0)
		return -1;
	top = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || mkdirat(top, "w", 0777) < 0 || mkdirat(top, "tmp", 0777) < 0)
		return err_errno(err, "cannot make workspace %s", w->dir);
	w->dir_fd = openat(top, "w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->log_fd = openat(top, "log", O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
	return w->dir_fd < 0 || w->log_fd < 0 ? err_errno(err, "cannot make workspace %s", w->dir) : 0;
}

void workspace_close(struct workspace *w)
{
	fd_closep(&w->dir_fd);
	fd_closep(&w->log_fd);
	free(w->dir);
	free(w->path);
	*w = (struct workspace){ .dir_fd = -1, .log_fd = -1 };
}

int workspace_remove(const char *dir, struct err *err)
{
	return fs_remove_tree(dir, err);
}

/* --- environment ------------------------------------------------------------------------------------------------------- */

/* What a program may know of the host without being told: where programs and libraries are, who runs it, the zone. Everything
 * else would be an input that no key has. */
static const char *const passed[] = { "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX" };

static bool names(const char *assignment, const char *name, size_t n)
{
	return strncmp(assignment, name, n) == 0 && assignment[n] == '=';
}

static bool given(const char *const *env, const char *name)
{
	for (; env && *env; env++)
		if (names(*env, name, strlen(name)))
			return true;
	return false;
}

struct env_list {
	VEC(char *) v;
	const struct runner_attempt *a;
};

/* Unless the attempt says otherwise. */
static void add_default(struct env_list *l, const char *name, const char *value)
{
	if (value && !given(l->a->env, name) && !given(l->a->secrets, name))
		VEC_PUSH(&l->v, xasprintf("%s=%s", name, value));
}

static void add_gpus(struct env_list *l)
{
	struct str ids = { 0 };

	str_add(&ids, "");
	for (uint32_t i = 0; i < l->a->resources.gpus && i < ARRAY_LEN(l->a->resources.gpu_ids); i++)
		str_addf(&ids, "%s%u", i ? "," : "", l->a->resources.gpu_ids[i]);
	add_default(l, "CUDA_VISIBLE_DEVICES", ids.s);
	str_deinit(&ids);
}

char **workspace_env(const struct runner_attempt *a, const struct workspace *w, const char *attempt_marker, const char *engine_marker)
{
	struct env_list l = { .a = a };
	_cleanup_(freep) char *tmp = xasprintf("%s/tmp", w->dir);

	for (size_t i = 0; i < ARRAY_LEN(passed); i++)
		add_default(&l, passed[i], getenv(passed[i]));
	add_default(&l, "LC_ALL", "C.UTF-8");
	add_default(&l, "TMPDIR", tmp);
	add_gpus(&l);
	for (const char *const *e = a->env; e && *e; e++)
		VEC_PUSH(&l.v, xstrdup(*e));
	for (const char *const *e = a->secrets; e && *e; e++)
		VEC_PUSH(&l.v, xstrdup(*e));
	VEC_PUSH(&l.v, xstrdup(attempt_marker));
	VEC_PUSH(&l.v, xstrdup(engine_marker));
	VEC_PUSH(&l.v, NULL);
	return l.v.v;
}

void workspace_env_free(char **env)
{
	for (char **e = env; e && *e; e++)
		free(*e);
	free(env);
}

char *workspace_log_tail(int log_fd)
{
	char buf[TAIL_BYTES + 1], *start = buf;
	struct stat st;
	off_t from;
	ssize_t n;

	if (fstat(log_fd, &st) < 0 || st.st_size == 0)
		return NULL;
	from = st.st_size > TAIL_BYTES ? st.st_size - TAIL_BYTES : 0;
	n = pread(log_fd, buf, TAIL_BYTES, from);
	if (n <= 0)
		return NULL;
	buf[n] = '\0';
	if (from && memchr(buf, '\n', (size_t)n)) /* begin at a whole line */
		start = (char *)memchr(buf, '\n', (size_t)n) + 1;
	for (char *c = start; c < buf + n; c++)
		if (*c == '\0')
			*c = ' ';
	return *start ? xstrdup(start) : NULL;
}

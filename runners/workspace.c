/* runners/workspace.c — directories of attempts, and the environment of their programs.
 *
 * A workspace is a frame: a directory with w/, tmp/ and log. When its attempt has ended,
 * workspace_recycle() empties the frame and puts it into the pool, where workspace_make() takes
 * it for the next attempt: a rename instead of a dozen calls. Small content moves into the trash
 * directory, which is removed when the runner ends, or after it (workspace.h says why); large
 * content is deleted at once. Directories are used again if nobody can tell that they were used:
 * w/, tmp/, and that of inputs. So are the files of small inputs (make_spare()). The trash and the
 * pool have ceilings (TRASH_*, POOL_MAX); beyond them a frame is deleted.
 *
 * The names of the trash and of frames in the pool contain our process and its start time. So
 * workspace_pool_init() can tell what a dead engine left from what is a living one's.
 *
 * Workers call these functions at the same time. The pool's lock covers all of it; a frame
 * that was taken from the pool belongs to one attempt. The pool is best effort: after an
 * error, a frame is removed, and a new directory is made.
 */
#include "runners/workspace.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/os/process/process.h"

#define TAIL_BYTES 4096

char *workspace_dir(const char *state_dir, uint64_t attempt_id)
{
	return xasprintf("%s/work/%llu", state_dir, (unsigned long long)attempt_id);
}

char *runner_local_log_path(const char *state_dir, uint64_t attempt_id)
{
	return xasprintf("%s/work/%llu/log", state_dir, (unsigned long long)attempt_id);
}

char *runner_local_workspace(const char *state_dir, uint64_t attempt_id)
{
	return xasprintf("%s/work/%llu/w", state_dir, (unsigned long long)attempt_id);
}

size_t workspace_list(const char *state_dir, uint64_t **ret)
{
	_cleanup_(freep) char *work = xasprintf("%s/work", state_dir);
	DIR *d = opendir(work);
	VEC(uint64_t) ids = { 0 };
	struct dirent *e;

	while (d && fs_next(d, work, &e, NULL) > 0) {
		char *end;
		uint64_t id = strtoull(e->d_name, &end, 10);

		if (e->d_name[0] >= '1' && e->d_name[0] <= '9' && !*end)
			VEC_PUSH(&ids, id);
	}
	if (d)
		closedir(d);
	*ret = ids.v;
	return ids.n;
}

static int make_dir(const char *dir, struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(dir);

	if (mkdir(dir, 0777) == 0)
		return 0;
	if (errno == ENOENT && fs_mkdir_p(parent, err) < 0)
		return -1;
	if (errno == EEXIST && fs_remove_tree(dir, err) < 0)
		return -1;
	return mkdir(dir, 0777) < 0 ? err_errno(err, "cannot make workspace %s", dir) : 0;
}

/* Recycling. */

/* Frames in the pool: more than can work at once on one machine are no use. */
#define POOL_MAX 64
/* Limits of the trash: bytes and entries from one workspace, number of workspaces. */
#define TRASH_BYTES   (64 * KIB)
#define TRASH_ENTRIES 32
#define TRASH_MAX     50000
/* So many are removed while the user waits. Where freeing a block takes a millisecond (ext4 with
 * `discard` on a slow disk), ten thousand take longer than many a run. */
#define TRASH_AT_ONCE 256
/* Where programs find their inputs, in w/. */
#define INPUTS_DIR "inputs"

static char *trash_of(const char *work, pid_t pid)
{
	return xasprintf("%s/trash-%d-%llu", work, (int)pid,
			 (unsigned long long)process_start_time(pid));
}

void workspace_pool_init(struct workspace_pool *s, const char *state_dir)
{
	_cleanup_(freep) char *work = xasprintf("%s/work", state_dir);
	DIR *d = opendir(work);
	struct dirent *e;

	*s = (struct workspace_pool){ .lock = PTHREAD_MUTEX_INITIALIZER };
	s->trash = trash_of(work, getpid());
	s->prefix = xasprintf("%s/frame-%d-%llu", work, (int)getpid(),
			      (unsigned long long)process_start_time(getpid()));
	while (d && fs_next(d, work, &e, NULL) > 0) {
		_cleanup_(freep) char *path = xasprintf("%s/%s", work, e->d_name);
		unsigned long long start;
		int pid;

		if ((sscanf(e->d_name, "trash-%d-%llu", &pid, &start) == 2 ||
		     sscanf(e->d_name, "frame-%d-%llu-", &pid, &start) == 2) &&
		    process_start_time(pid) != start) /* its process is gone */
			fs_remove_tree(path, NULL);
	}
	if (d)
		closedir(d);
}

bool workspace_pool_give_trash(struct workspace_pool *s, pid_t to)
{
	_cleanup_(freep) char *work = fs_dirname(s->trash), *theirs = trash_of(work, to);

	if (!s->has_trash || s->n_trash <= TRASH_AT_ONCE || rename(s->trash, theirs) < 0)
		return false;
	s->has_trash = false;
	return true;
}

void workspace_remove_trash(const char *state_dir)
{
	_cleanup_(freep) char *work = fs_join(state_dir, "work"), *own = trash_of(work, getpid());

	fs_remove_tree(own, NULL);
}

void workspace_pool_deinit(struct workspace_pool *s)
{
	for (size_t i = 0; i < s->frames.n; i++) {
		fs_remove_tree(s->frames.v[i].dir, NULL);
		free(s->frames.v[i].dir);
		free(s->frames.v[i].inputs);
	}
	VEC_FREE(&s->frames);
	free(s->prefix);
	if (s->has_trash)
		fs_remove_tree(s->trash, NULL);
	free(s->trash);
	pthread_mutex_destroy(&s->lock);
}

/* Adds up the content of a directory with one level of subdirectories; false when it is too large.
 */
static bool is_small(int fd, const char *name, int depth, uint64_t *bytes, unsigned *entries)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(fd, name, O_NOFOLLOW);
	struct dirent *e;
	struct stat st;
	bool small = d != NULL;

	while (small && fs_next(d, name, &e, NULL) > 0) {
		small = ++*entries <= TRASH_ENTRIES &&
			fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			(*bytes += (uint64_t)st.st_blocks * 512) <= TRASH_BYTES;
		if (small && S_ISDIR(st.st_mode))
			small = depth > 0 &&
				is_small(dirfd(d), e->d_name, depth - 1, bytes, entries);
	}
	return small;
}

/* A free name in the trash directory; NULL when it is full. Under the lock. */
static char *place_in_trash(struct workspace_pool *pool)
{
	if (!pool->has_trash)
		pool->has_trash = mkdir(pool->trash, 0700) == 0;
	if (!pool->has_trash || pool->n_trash >= TRASH_MAX)
		return NULL;
	return xasprintf("%s/%llu", pool->trash, (unsigned long long)pool->n_trash++);
}

/* The program sees this mode, so it must not depend on the user's umask. */
static int make_open(int top, const char *name)
{
	_cleanup_(fd_closep) int fd =
		mkdirat(top, name, 0755) < 0
			? -1
			: openat(top, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	return fd < 0 ? -1 : fs_set_mode(fd, 0755);
}

/* Tells whether an open file or directory is as it was made, with that mode, so that nobody can
 * tell that it was used before. */
static bool is_as_made(int fd, mode_t mode, struct stat *st)
{
	char names[256];
	ssize_t n = flistxattr(fd, names, sizeof(names)); /* access lists are among them */

	for (const char *s = names; n > 0 && s < names + n; s += strlen(s) + 1)
		if (!str_has_prefix(s, "security."))
			return false;
	return (n >= 0 || errno == ENOTSUP) && fstat(fd, st) == 0 && st->st_mode == mode &&
	       st->st_uid == geteuid() && st->st_gid == getegid();
}

static bool is_made_dir(int fd)
{
	struct stat st;

	return is_as_made(fd, S_IFDIR | 0755, &st);
}

/* Makes a used input ready for other bytes. To write over a file costs ext4 a tenth of making and
 * removing one. False: it isn't as it was made, or is linked, perhaps as an output. */
static bool make_spare(int dir_fd, const char *name)
{
	_cleanup_(fd_closep) int fd =
		openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;

	return fd >= 0 && is_as_made(fd, S_IFREG | 0444, &st) && st.st_nlink == 1 &&
	       fchmod(fd, 0644) == 0;
}

static bool is_one_of(const char *inputs, const char *name)
{
	const size_t n = strlen(name);

	for (const char *s = inputs; *s; s += strcspn(s, "/") + 1)
		if (strncmp(s, name, n) == 0 && s[n] == '/')
			return true;
	return false;
}

static size_t count_names(const char *inputs)
{
	size_t n = 0;

	for (const char *s = inputs; *s; s++)
		n += *s == '/';
	return n;
}

static int move_to_trash(struct workspace_pool *pool, int dir_fd, const char *name)
{
	_cleanup_(freep) char *to = NULL;

	pthread_mutex_lock(&pool->lock);
	to = place_in_trash(pool);
	pthread_mutex_unlock(&pool->lock);
	return to ? renameat(dir_fd, name, AT_FDCWD, to) : -1;
}

static int open_dir(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Moves all that is in the directory to the trash, but for spares of these names. */
static int empty_inputs(struct workspace_pool *pool, int fd, const char *names, bool *ret_all)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(fd, ".", O_NOFOLLOW); /* from the start */
	struct dirent *e;
	size_t n = 0;
	int r = d ? 0 : -1;

	while (r == 0 && (r = fs_next(d, ".", &e, NULL)) > 0) {
		const bool spare = is_one_of(names, e->d_name) && make_spare(fd, e->d_name);

		n += spare;
		r = spare ? 0 : move_to_trash(pool, fd, e->d_name);
	}
	*ret_all = r == 0 && n == count_names(names);
	return r;
}

/* Moves all that is in the directory to the trash, but for that of inputs if it is wanted, which is
 * emptied and stays. A new one would cost an inode and a block, and later their removal. Adds to
 * *frame what stays. */
static int empty(struct workspace_pool *pool, int fd, const char *inputs,
		 struct workspace_frame *frame)
{
	_cleanup_(closedirp) DIR *d = fs_list(dup(fd));
	struct dirent *e;
	int r = d ? 0 : -1;

	while (r == 0 && (r = fs_next(d, ".", &e, NULL)) > 0) {
		_cleanup_(fd_closep) int sub =
			inputs && str_eq(e->d_name, INPUTS_DIR) ? open_dir(fd, INPUTS_DIR) : -1;
		bool all = false, none;

		if (sub >= 0 && is_made_dir(sub) && empty_inputs(pool, sub, inputs, &all) == 0 &&
		    (all || empty_inputs(pool, sub, "", &none) == 0)) {
			frame->inputs = xstrdup(all ? inputs : "");
			r = 0;
		} else {
			r = move_to_trash(pool, fd, e->d_name);
		}
	}
	return r;
}

/* Makes `name` an empty directory again, but for what empty() leaves. */
static int renew(struct workspace_pool *pool, int top, const char *name, const char *inputs,
		 struct workspace_frame *frame)
{
	unsigned entries = 0;
	uint64_t bytes = 0;

	if (is_small(top, name, 1, &bytes, &entries)) {
		_cleanup_(fd_closep) int fd = open_dir(top, name);

		if (fd >= 0 && is_made_dir(fd) &&
		    (entries == 0 || empty(pool, fd, inputs, frame) == 0))
			return 0;
		free(TAKE_PTR(frame->inputs));
		if (move_to_trash(pool, top, name) == 0)
			return make_open(top, name);
	}
	return fs_remove_tree_at(top, name, NULL) < 0 ? -1 : make_open(top, name);
}

static int clear_log(int top)
{
	struct stat st;
	int fd;

	if (fstatat(top, "log", &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size == 0)
		return 0;
	fd = openat(top, "log", O_WRONLY | O_TRUNC | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

int workspace_split(struct workspace *w, struct err *err)
{
	static const char *const names[] = { "w", "tmp" };
	static const char note[] =
		"The step's files are here only for the step itself and what it starts: its inputs "
		"are mounted.\nA container or another service can't see them. `workspace: copy` on "
		"the step gives it a plain directory.\n";
	_cleanup_(fd_closep) int top = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int r = top < 0 ? -1 : 0;

	if (r == 0 &&
	    (mkdirat(top, WORKSPACE_UPPER, 0755) < 0 || mkdirat(top, WORKSPACE_WORK, 0700) < 0))
		r = -1;
	for (size_t i = 0; i < ARRAY_LEN(names) && r == 0; i++) {
		_cleanup_(freep) char *to = fs_join(WORKSPACE_UPPER, names[i]);

		r = renameat(top, names[i], top, to);
		if (r == 0 && fs_write_atomic_at(top, names[i], note, sizeof(note) - 1, 0444,
						 FS_WRITE_NO_SYNC, err) < 0)
			return -1;
	}
	return r < 0 ? err_errno(err, "cannot prepare workspace %s", w->dir) : 0;
}

void workspace_recycle(struct workspace_pool *pool, const char *dir, const char *inputs)
{
	_cleanup_(fd_closep) int top = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct workspace_frame frame = { 0 };
	bool kept = false;
	struct stat st;

	if (top >= 0 && fstatat(top, WORKSPACE_UPPER, &st, 0) < 0 &&
	    renew(pool, top, "w", inputs, &frame) == 0 &&
	    renew(pool, top, "tmp", NULL, &frame) == 0 && clear_log(top) == 0) {
		/* In the same directory: to rename a directory into another one takes a lock of
		 * the whole file system. */
		pthread_mutex_lock(&pool->lock);
		if (pool->frames.n < POOL_MAX)
			frame.dir = xasprintf("%s-%llu", pool->prefix,
					      (unsigned long long)pool->n_frames++);
		kept = frame.dir && rename(dir, frame.dir) == 0;
		if (kept)
			VEC_PUSH(&pool->frames, frame);
		pthread_mutex_unlock(&pool->lock);
	}
	if (kept)
		return;
	free(frame.dir);
	free(frame.inputs);
	fs_remove_tree(dir, NULL);
}

/* The newest frame whose inputs/ is like this one; else the newest one. Under the lock. */
static struct workspace_frame choose(struct workspace_pool *pool, const char *inputs)
{
	size_t i = pool->frames.n;
	struct workspace_frame f;

	while (i > 0 && !str_eq(pool->frames.v[i - 1].inputs, inputs))
		i--;
	i = i ? i - 1 : pool->frames.n - 1;
	f = pool->frames.v[i];
	pool->frames.v[i] = pool->frames.v[--pool->frames.n];
	return f;
}

/* An attempt must not see the inputs of others, nor, without any, their directory. */
static int fit(struct workspace_pool *pool, const char *dir, const struct workspace_frame *f,
	       const char *inputs)
{
	_cleanup_(freep) char *path = xasprintf("%s/w/" INPUTS_DIR, dir);
	_cleanup_(fd_closep) int fd = -1;
	bool all;

	if (!f->inputs || str_eq(f->inputs, inputs))
		return 0;
	fd = *f->inputs ? open_dir(AT_FDCWD, path) : -1;
	if (*f->inputs && (fd < 0 || empty_inputs(pool, fd, "", &all) < 0))
		return -1;
	return inputs ? 0 : rmdir(path);
}

static bool take_from_pool(struct workspace_pool *pool, const char *dir, const char *inputs,
			   bool *ret_spares)
{
	struct workspace_frame f = { 0 };
	bool taken;

	pthread_mutex_lock(&pool->lock);
	if (pool->frames.n)
		f = choose(pool, inputs);
	pthread_mutex_unlock(&pool->lock);
	taken = f.dir && renameat2(AT_FDCWD, f.dir, AT_FDCWD, dir, RENAME_NOREPLACE) == 0;
	if (f.dir && !taken)
		fs_remove_tree(f.dir, NULL);
	if (taken && fit(pool, dir, &f, inputs) < 0) {
		fs_remove_tree(dir, NULL);
		taken = false;
	}
	*ret_spares = taken && inputs && *inputs && str_eq(f.inputs, inputs);
	free(f.dir);
	free(f.inputs);
	return taken;
}

int workspace_make(struct workspace *w, struct workspace_pool *pool, const char *state_dir,
		   uint64_t attempt_id, const char *inputs, struct err *err)
{
	_cleanup_(fd_closep) int top = -1;
	bool recycled;

	assert(attempt_id > 0); /* workspace_list() skips 0 */
	*w = (struct workspace){ .dir_fd = -1, .log_fd = -1 };
	w->dir = workspace_dir(state_dir, attempt_id);
	w->path = xasprintf("%s/w", w->dir);
	w->inputs = inputs ? xstrdup(inputs) : NULL;
	recycled = take_from_pool(pool, w->dir, inputs, &w->has_spares);
	if (!recycled && make_dir(w->dir, err) < 0)
		return -1;
	top = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (top < 0 || (!recycled && (make_open(top, "w") < 0 || make_open(top, "tmp") < 0)))
		return err_errno(err, "cannot make workspace %s", w->dir);
	w->dir_fd = openat(top, "w", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	w->log_fd = openat(top, "log", O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
	return w->dir_fd < 0 || w->log_fd < 0 ? err_errno(err, "cannot make workspace %s", w->dir)
					      : 0;
}

void workspace_close(struct workspace *w)
{
	fd_closep(&w->dir_fd);
	fd_closep(&w->log_fd);
	free(w->dir);
	free(w->path);
	free(w->inputs);
	*w = (struct workspace){ .dir_fd = -1, .log_fd = -1 };
}

/* Environment. */

/* From the host, a program gets only the paths of programs and the user's identity. The key
 * includes a Python environment that PATH leads to (plan/sources/packages.c). Time zone, language
 * and libraries would be inputs outside of the key. So the first two are the same everywhere, and
 * `env` must declare a search path of libraries. */

static bool given(const char *const *env, const char *name)
{
	for (; env && *env; env++)
		if (str_has_prefix(*env, name) && (*env)[strlen(name)] == '=')
			return true;
	return false;
}

struct env_list {
	VEC(char *) v;
	const struct runner_attempt *a;
};

/* Unless the attempt sets it. */
static void add_default(struct env_list *l, const char *name, const char *value)
{
	if (value && !given(l->a->env, name) && !given(l->a->secrets, name))
		VEC_PUSH(&l->v, xasprintf("%s=%s", name, value));
}

char **workspace_env(const struct runner_attempt *a, const struct workspace *w,
		     const char *attempt_marker, const char *engine_marker)
{
	struct env_list l = { .a = a };
	_cleanup_(freep) char *tmp = xasprintf("%s/tmp", w->dir);
	_cleanup_(str_deinit) struct str gpus = { 0 };

	for (const char *const *v = command_step_variables; *v; v++)
		/* A strict attempt can't see the person's home. */
		add_default(&l, *v,
			    a->local.sandbox && a->local.sandbox->strict && str_eq(*v, "HOME")
				    ? tmp
				    : getenv(*v));
	add_default(&l, "LANG", "C.UTF-8");
	add_default(&l, "LC_ALL", "C.UTF-8");
	add_default(&l, "TZ", "UTC");
	add_default(&l, "TMPDIR", tmp);
	str_add(&gpus, "");
	for (uint32_t i = 0; i < a->resources.gpus && i < ARRAY_LEN(a->resources.gpu_ids); i++)
		str_addf(&gpus, "%s%u", i ? "," : "", a->resources.gpu_ids[i]);
	add_default(&l, "CUDA_VISIBLE_DEVICES", gpus.s);
	for (const char *const *e = a->env; e && *e; e++)
		VEC_PUSH(&l.v, xstrdup(*e));
	for (const char *const *e = a->secrets; e && *e; e++)
		VEC_PUSH(&l.v, xstrdup(*e));
	assert(strchr(attempt_marker, '=') && strchr(engine_marker, '='));
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
	char buf[TAIL_BYTES + 1], *start = buf, *eol;
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
	eol = from ? memchr(buf, '\n', (size_t)n) : NULL;
	if (eol && eol + 1 < buf + n) /* begin at a complete line, if there is one */
		start = eol + 1;
	for (char *c = start; c < buf + n; c++)
		if (*c == '\0')
			*c = ' ';
	return *start ? xstrdup(start) : NULL;
}

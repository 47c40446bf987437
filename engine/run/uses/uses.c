/* engine/run/uses/uses.c — makes the directories of what lies elsewhere. */
#include "run/uses/uses.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/process/command.h"

#define TEMP_PREFIX ".tmp-"
#define MESSAGE_MAX (4 * KIB)
#define TREE        "tree"

/* What a kill left. The lock is ours, so nobody else is at work. */
static int remove_left(int dir, const char *name, struct err *err)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(dir, ".", 0);
	struct dirent *e;
	int r = 0;

	if (!d)
		return err_errno(err, "cannot list %s", name);
	while (r == 0 && (r = fs_next(d, name, &e, err)) > 0)
		r = str_has_prefix(e->d_name, TEMP_PREFIX) ? fs_remove_tree_at(dir, e->d_name, err)
							   : 0;
	return r;
}

static int fetch(const struct external *what, const char *temp, struct err *err)
{
	const char *argv[] = { "/proc/self/exe", "fetch-commit", what->url, what->id, temp, NULL };
	struct command c = { .argv = argv, .timeout_ns = USES_FETCH_NS, .max_bytes = MESSAGE_MAX };
	_cleanup_(str_deinit) struct str said = { 0 };
	int status;

	if (command_output(&c, &said, &status, err) < 0)
		return err_wrap(err, "fetching the commit");
	if (status == 0)
		return 0;
	return err_set(err, ERR_IO, "%.*s", said.len ? (int)strcspn(said.s, "\n") : 26,
		       said.len ? said.s : "fetching the commit failed");
}

static int make(const struct uses *u, const struct external *what, int dir, const char *temp,
		struct err *err)
{
	_cleanup_(freep) char *whole = fs_join(u->config->uses_dir, temp),
			      *tree = fs_join(temp, TREE);
	_cleanup_(fd_closep) int fd = -1;

	if (what->kind == EXTERNAL_GIT) {
		if (u->on_fetch)
			u->on_fetch(u->fetch_arg, what);
		if (fetch(what, whole, err) < 0)
			return -1;
	} else if (mkdirat(dir, tree, 0755) < 0) {
		return err_errno(err, "cannot make %s/" TREE, whole);
	}
	fd = openat(dir, tree, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot open %s/" TREE, whole);
	if (what->kind == EXTERNAL_RUN && uses_take_run(u->config, what, fd, err) < 0)
		return -1;
	/* A name that stands must have its bytes, also after a power cut. */
	if (syncfs(fd) < 0 || renameat(dir, tree, dir, what->root) < 0)
		return err_errno(err, "cannot make %s/%s", u->config->uses_dir, what->root);
	return fs_sync_dir_at(dir, ".", err);
}

int uses_bring(void *arg, const struct external *what, struct err *err)
{
	const struct uses *u = arg;
	const char *uses_dir = u->config->uses_dir;
	_cleanup_(freep) char *lock = fs_join(uses_dir, ".lock"),
			      *temp = fs_join(uses_dir, TEMP_PREFIX "XXXXXX");
	_cleanup_(fd_closep) int dir = -1, lock_fd = -1;
	struct stat st;
	int r;

	if (fs_mkdir_p(uses_dir, err) < 0)
		return -1;
	dir = open(uses_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return err_errno(err, "cannot open %s", uses_dir);
	if (fs_lock_path(lock, true, &lock_fd, err) < 0)
		return -1;
	if (fstatat(dir, what->root, &st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0; /* another process made it */
	if (remove_left(dir, uses_dir, err) < 0)
		return -1;
	if (!mkdtemp(temp))
		return err_errno(err, "cannot make a directory in %s", uses_dir);
	r = make(u, what, dir, fs_basename(temp), err);
	fs_remove_tree_at(dir, fs_basename(temp), NULL);
	return r;
}

/* runners/kubernetes/init/make_readable.c — lets the sidecar read what the program made. */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "runners/kubernetes/init/init.h"

/* The program chooses how deep directories nest; each level costs two descriptors. */
#define DEPTH_MAX 200

static void make_dir_readable(int fd, int depth);

/* Leaves links alone, because their targets aren't ours to change. */
static void make_entry_readable(int dir, const char *name, int depth)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	mode_t want;

	if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_uid != geteuid() ||
	    (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
		return;
	want = (st.st_mode & 07777) | (S_ISDIR(st.st_mode) ? 0555 : 0444);
	/* No process of the program lives any more, so nobody can put a link here now. */
	if (want != (st.st_mode & 07777))
		(void)!fchmodat(dir, name, want, 0);
	if (!S_ISDIR(st.st_mode) || depth >= DEPTH_MAX)
		return;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0)
		make_dir_readable(fd, depth + 1);
}

static void make_dir_readable(int fd, int depth)
{
	int own = dup(fd);
	/* lint: fdopendir because fs_list() isn't linked here */
	DIR *d = own < 0 ? NULL : fdopendir(own);
	struct dirent *e;

	if (!d) {
		if (own >= 0)
			close(own);
		return;
	}
	while ((e = readdir(d))) /* lint: readdir because fs_next() isn't linked here */
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			make_entry_readable(fd, e->d_name, depth);
	closedir(d);
}

void init_make_readable(const char *path)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		make_dir_readable(fd, 0);
}

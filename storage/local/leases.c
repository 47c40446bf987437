/* storage/local/leases.c — see leases.h. */
#include "storage/local/leases.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "storage/internal.h"

#define DIRECTORY "leases"
#define TRIES_MAX 1000

int dir_lease_take(struct dir_lease *lease, int root)
{
	static atomic_ulong counter;

	assert(lease->fd < 0);
	if (mkdirat(root, DIRECTORY, 0777) < 0 && errno != EEXIST)
		return -1;
	for (int tries = 0; tries < TRIES_MAX; tries++) {
		_cleanup_(freep) char *name = xasprintf(DIRECTORY "/%ld-%lx", (long)getpid(),
							atomic_fetch_add(&counter, 1));
		_cleanup_(fd_closep) int fd =
			openat(root, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
		struct stat st;
		int r = fd < 0 ? -1 : fs_lock(fd, false, NULL);

		if (r < 0)
			return -1;
		/* gc may see the file before it is locked, and remove it. */
		if (r == 0 && futimens(fd, NULL) == 0 && fstat(fd, &st) == 0 && st.st_nlink) {
			*lease = (struct dir_lease){ .fd = TAKE_FD(fd), .name = TAKE_PTR(name) };
			return 0;
		}
	}
	errno = EBUSY;
	return -1;
}

void dir_lease_give_back(struct dir_lease *lease, int root)
{
	if (lease->fd >= 0)
		(void)unlinkat(root, lease->name, 0);
	fd_closep(&lease->fd);
	freep(&lease->name);
}

/* Another user's lease that can't be opened counts as held. A lease that isn't locked belongs to a
 * dead run, and is removed. */
static int look_at(int dir, const char *name, int64_t *oldest_ns, struct err *err)
{
	_cleanup_(fd_closep) int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;
	int r = fd < 0 ? 1 : fs_lock(fd, false, err);

	if (r == 0)
		return unlinkat(dir, name, 0) < 0 && errno != ENOENT
			       ? err_errno(err, "cannot remove " DIRECTORY "/%s", name)
			       : 0;
	if (r > 0 && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		*oldest_ns = MIN(*oldest_ns, ns_of(st.st_mtim));
	else if (r > 0 && errno != ENOENT)
		return err_errno(err, "cannot look at " DIRECTORY "/%s", name);
	return r < 0 ? -1 : 0;
}

int dir_leases_oldest(int root, int64_t *ret_ns, struct err *err)
{
	_cleanup_(closedirp) DIR *dir = fs_list_at(root, DIRECTORY, 0);
	struct dirent *e;
	int r = 0;

	*ret_ns = INT64_MAX;
	if (!dir)
		return errno == ENOENT ? 0
				       : err_errno(err, "cannot look into the store's " DIRECTORY);
	while (r == 0 && (r = fs_next(dir, DIRECTORY, &e, err)) == 1)
		r = look_at(dirfd(dir), e->d_name, ret_ns, err);
	return r;
}

/* engine/base/os/process/landlock.c — Landlock by its system calls.
 *
 * open_beside() goes down from the root. In each directory on the path to a closed one, it allows
 * every entry except those on the path. Symbolic links are skipped and never followed: a rule is
 * for a file, and a link's target is covered at its own place.
 *
 * A rule applies to every path to a file that goes through the rule's directory. A second mount of
 * a closed directory would be such a path, so the caller checks for second mounts.
 */
#include "base/os/process/landlock.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"

/* The first ABI that can refuse truncate(): Linux 6.2. */
#define ABI_MIN 3
/* The headers may be older than the kernel. */
#define ACCESS_TRUNCATE        (1ULL << 14)
#define ACCESS_IOCTL_DEV       (1ULL << 15)
#define SCOPE_ABSTRACT_SOCKETS (1ULL << 0)
#define SCOPE_SIGNALS          (1ULL << 1)
/* The first ABIs that know the last ones. */
#define ABI_IOCTL_DEV 5
#define ABI_SCOPES    6

#define ON_FILES (LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE)
#define ON_DIRS                                                                      \
	(ON_FILES | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR |                \
	 LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |                \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |              \
	 LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)

#define TO_READ \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
/* What a rule for a file that is no directory can allow. */
#define OF_A_FILE \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | ON_FILES | ACCESS_IOCTL_DEV)

/* Most rules of a ruleset; with more, attempts would start slowly. */
#define ENTRIES_MAX 20000

/* The version of the kernel's Landlock, or -1. */
static long find_abi(struct err *err)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);

	if (abi < 0)
		return err_set(err, ERR_UNSUPPORTED, "the kernel has no Landlock (%s)",
			       errno == EOPNOTSUPP
				       ? "it is switched off: see `lsm=` of its command "
					 "line"
				       : strerrordesc_np(errno));
	if (abi < ABI_MIN)
		return err_set(err, ERR_UNSUPPORTED,
			       "the kernel's Landlock (version %ld) doesn't refuse truncate: Linux "
			       "6.2 does",
			       abi);
	return abi;
}

int landlock_check(struct err *err)
{
	return find_abi(err) < 0 ? -1 : 0;
}

int landlock_enter(int rules)
{
	if (syscall(SYS_landlock_restrict_self, rules, 0) == 0)
		return 0;
	/* Users other than root must give up set-user-ID programs first. */
	if (errno != EPERM || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return (int)syscall(SYS_landlock_restrict_self, rules, 0);
}

/* An entry that vanished or can't be opened stays closed. */
static int open_entry(int rules, int dir_fd, const char *name, struct err *err)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = { .parent_fd = fd };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 || S_ISLNK(st.st_mode))
		return 0;
	rule.allowed_access = S_ISDIR(st.st_mode) ? ON_DIRS : ON_FILES;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
		return err_errno(err, "cannot allow writing to %s", name);
	return 0;
}

int landlock_open_entries(int rules, int dir_fd, const char *except, struct err *err)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(dir_fd, ".", O_NOFOLLOW);
	struct dirent *e;
	int r = 0;

	if (!d)
		return err_errno(err, "cannot list the working directory");
	while (r >= 0 && (r = fs_next(d, "the working directory", &e, err)) > 0)
		if (!except || strcmp(e->d_name, except) != 0)
			r = open_entry(rules, dirfd(d), e->d_name, err);
	return r;
}

struct closing {
	const char *const *closed;
	size_t n;
	int rules;
	size_t entries;
};

enum side { BESIDE, ON_THE_WAY, CLOSED };

static enum side side_of(const struct closing *c, const char *path)
{
	enum side side = BESIDE;

	for (size_t i = 0; i < c->n; i++)
		if (fs_is_inside(c->closed[i], path))
			return CLOSED;
		else if (fs_is_inside(path, c->closed[i]))
			side = ON_THE_WAY;
	return side;
}

static int open_beside(struct closing *c, const char *path, struct err *err)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(AT_FDCWD, path, O_NOFOLLOW);
	struct dirent *e;
	int r = 0;

	if (!d)
		return err_set(err, ERR_UNSUPPORTED, "%s can't be listed: %s", path,
			       strerrordesc_np(errno));
	while (r >= 0 && (r = fs_next(d, path, &e, err)) > 0) {
		_cleanup_(freep) char *full = fs_join(path, e->d_name);

		switch (side_of(c, full)) {
		case CLOSED:
			break;
		case ON_THE_WAY:
			r = open_beside(c, full, err);
			break;
		case BESIDE:
			if (++c->entries > ENTRIES_MAX)
				r = err_set(err, ERR_UNSUPPORTED,
					    "the directories from / to %s have more than %d "
					    "entries",
					    c->closed[0], ENTRIES_MAX);
			else
				r = open_entry(c->rules, dirfd(d), e->d_name, err);
		}
	}
	return r < 0 ? -1 : 0;
}

int landlock_close_dirs(const char *const *closed, size_t n, int *ret_fd, struct err *err)
{
	struct landlock_ruleset_attr attr = { .handled_access_fs = ON_DIRS };
	struct closing c = { .closed = closed, .n = n };
	long fd;

	if (landlock_check(err) < 0)
		return -1;
	fd = syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr), 0);
	if (fd < 0)
		return err_errno(err, "cannot make a Landlock ruleset");
	c.rules = (int)fd;
	if (open_beside(&c, "/", err) < 0) {
		close(c.rules);
		return -1;
	}
	*ret_fd = c.rules;
	return 0;
}

/* Opening only what is named. */

/* struct landlock_ruleset_attr as Linux 6.12 has it. */
struct ruleset {
	uint64_t handled_fs, handled_net, scoped;
};

int landlock_close_all(int *ret_fd, struct err *err)
{
	struct ruleset r = { .handled_fs = TO_READ | ON_DIRS };
	long abi = find_abi(err), fd;

	if (abi < 0)
		return -1;
	if (abi >= ABI_IOCTL_DEV)
		r.handled_fs |= ACCESS_IOCTL_DEV;
	if (abi >= ABI_SCOPES)
		r.scoped = SCOPE_ABSTRACT_SOCKETS | SCOPE_SIGNALS;
	fd = syscall(SYS_landlock_create_ruleset, &r,
		     abi >= ABI_SCOPES ? sizeof(r) : sizeof(r.handled_fs), 0);
	if (fd < 0)
		return err_errno(err, "cannot make a Landlock ruleset");
	*ret_fd = (int)fd;
	return 0;
}

static uint64_t access_for(enum landlock_use use)
{
	switch (use) {
	case LANDLOCK_READ:
		return TO_READ;
	case LANDLOCK_WRITE:
		return (TO_READ | ON_DIRS) &
		       ~(LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK);
	case LANDLOCK_DEVICE:
		return LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR | ON_FILES |
		       ACCESS_IOCTL_DEV;
	}
	return 0;
}

int landlock_open(int rules, const char *path, enum landlock_use use, struct err *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr rule = { .parent_fd = fd,
						   .allowed_access = access_for(use) };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return 0;
	if (!S_ISDIR(st.st_mode))
		rule.allowed_access &= OF_A_FILE;
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0)
		return 0;
	/* A kernel whose rulesets don't know this right doesn't restrict it, either. */
	rule.allowed_access &= ~ACCESS_IOCTL_DEV;
	if (errno == EINVAL &&
	    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0)
		return 0;
	return err_errno(err, "cannot allow the use of %s", path);
}

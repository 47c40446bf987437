/* engine/base/os/process/namespace.c — user, mount and network namespaces by their system calls.
 *
 * An ordinary user's maps can only be written from outside, through /proc/PID/uid_map of a process
 * with readable memory, and ours is hidden (process_hide()). So one shell enters a new user
 * namespace and waits while we write its maps and open the namespace. Children enter that later.
 *
 * The kernel wants an overlay's directories to be reached through mounts of the child's own
 * namespace: it opens them itself, after unshare(). Lower directories are names in its working
 * directory, and the upper one is found by the number of a descriptor. So no path needs the
 * overlay's escapes.
 *
 * Entering a user namespace makes the memory of the process unreadable to others (PR_SET_DUMPABLE).
 * A child shares its memory with us until exec, so the caller restores the flag.
 */
#include "base/os/process/namespace.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/process/process.h"

#define CHILD_STACK (64 * KIB)
/* The headers may be older than the kernel (linux/mount.h). */
#define ATTR_READ_ONLY 0x00000001
#define AT_ALL_BELOW   0x8000

/* The child runs on our stack in our memory: sanitizers would take its frames for the parent's. */
#define _in_child_ __attribute__((no_sanitize("address", "undefined", "thread"), noinline))

_in_child_ static int make_read_only(const char *dir)
{
	struct {
		uint64_t set, clear, propagation, users;
	} attr = { .set = ATTR_READ_ONLY };

	if (mount(dir, dir, NULL, MS_BIND | MS_REC, NULL) < 0)
		return -1;
	return (int)syscall(SYS_mount_setattr, AT_FDCWD, dir, AT_ALL_BELOW, &attr, sizeof(attr));
}

_in_child_ static int enter_mounts(const struct namespace_mounts *m, const char **failed_at)
{
	int fd;

	*failed_at = "cannot make a mount namespace for";
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
		return -1;
	*failed_at = "cannot mount the inputs of";
	fd = open(m->dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || dup3(fd, m->dir_number, O_CLOEXEC) < 0 || chdir(m->layers) < 0 ||
	    mount("cairn", m->dir, "overlay", MS_NOSUID | MS_NODEV, m->options) < 0)
		return -1;
	close(fd);
	close(m->dir_number);
	*failed_at = "cannot protect the store from";
	for (const char *const *dir = m->read_only; *dir; dir++)
		if (make_read_only(*dir) < 0)
			return -1;
	return 0;
}

_in_child_ static int raise_loopback(void)
{
	struct ifreq r = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), saved;

	/* A kernel without IPv4 has no loopback to raise. */
	if (fd < 0)
		return errno == EAFNOSUPPORT ? 0 : -1;
	if (ioctl(fd, SIOCGIFFLAGS, &r) == 0) {
		r.ifr_flags |= IFF_UP | IFF_RUNNING;
		if (ioctl(fd, SIOCSIFFLAGS, &r) == 0) {
			close(fd);
			return 0;
		}
	}
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

_in_child_ int namespace_enter(const struct namespace_plan *p, const char **failed_at)
{
	*failed_at = "cannot enter a user namespace for";
	if (p->users >= 0 && setns(p->users, CLONE_NEWUSER) < 0)
		return -1;
	*failed_at = "cannot make a network of its own for";
	if ((p->network && unshare(CLONE_NEWNET) < 0) || (p->loopback && raise_loopback() < 0))
		return -1;
	return p->mounts ? enter_mounts(p->mounts, failed_at) : 0;
}

/* A short child in our memory. */

struct trial {
	const struct namespace_plan *plan;
	const char *path;
	const char *failed_at;
	int failed_errno;
	int wait_fd, ready_fd;
};

static pid_t start(int (*main)(void *), int flags, struct trial *t)
{
	void *stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
	int dumpable = prctl(PR_GET_DUMPABLE);
	sigset_t all, old;
	pid_t pid;
	int e;

	if (stack == MAP_FAILED)
		return -1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(main, (char *)stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD | flags, t);
	e = errno;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (dumpable == 0 || dumpable == 1)
		prctl(PR_SET_DUMPABLE, dumpable);
	munmap(stack, CHILD_STACK);
	errno = e;
	return pid;
}

_in_child_ static int try_main(void *arg)
{
	struct trial *t = arg;
	char c;
	int fd;

	if (namespace_enter(t->plan, &t->failed_at) < 0)
		goto fail;
	if (!t->plan->mounts)
		_exit(0);
	t->failed_at = "cannot write into an overlay";
	if (chdir(t->plan->mounts->dir) < 0)
		goto fail;
	fd = open(t->path, O_RDWR | O_CLOEXEC);
	if (fd < 0 || read(fd, &c, 1) != 1 || write(fd, "x", 1) != 1)
		goto fail;
	_exit(0);
fail:
	t->failed_errno = errno ? errno : EIO;
	_exit(1);
}

int namespace_try(const struct namespace_plan *p, const char *path, struct err *err)
{
	struct trial t = { .plan = p, .path = path };
	pid_t pid = start(try_main, 0, &t);

	if (pid < 0)
		return err_errno(err, "cannot start a process");
	process_note_child(pid);
	waitpid(pid, NULL, 0);
	process_forget_child(pid);
	if (!t.failed_errno)
		return 0;
	return err_set(err, ERR_UNSUPPORTED, "%s a program: %s", t.failed_at,
		       strerrordesc_np(t.failed_errno));
}

/* User namespaces. */

bool namespace_needs_users(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	return syscall(SYS_capget, &head, data) < 0 || !(data[0].effective & (1U << CAP_SYS_ADMIN));
}

/* Says when it runs, and waits until its standard input ends. */
_in_child_ static int hold_main(void *arg)
{
	struct trial *t = arg;
	static char *const argv[] = { "sh", "-c", "echo; read x", NULL }, *const env[] = { NULL };
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && dup2(t->wait_fd, 0) == 0 &&
	    dup2(t->ready_fd, 1) == 1)
		execve("/bin/sh", argv, env);
	t->failed_errno = errno;
	_exit(127);
}

static int write_text(pid_t pid, const char *name, const char *text)
{
	char path[64];
	_cleanup_(fd_closep) int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1;
}

static int map_ids(pid_t pid)
{
	char users[64], groups[64];

	snprintf(users, sizeof(users), "%u %u 1\n", (unsigned)geteuid(), (unsigned)geteuid());
	snprintf(groups, sizeof(groups), "%u %u 1\n", (unsigned)getegid(), (unsigned)getegid());
	return write_text(pid, "setgroups", "deny") < 0 || write_text(pid, "uid_map", users) < 0 ||
			       write_text(pid, "gid_map", groups) < 0
		       ? -1
		       : 0;
}

int namespace_users_new(int *ret_fd, struct err *err)
{
	struct trial t = { .wait_fd = -1 };
	_cleanup_(fd_closep) int hold = -1, ready = -1;
	char path[64], c;
	int in[2], out[2], fd = -1, e = 0;
	pid_t pid;

	*ret_fd = -1;
	if (!namespace_needs_users())
		return 0;
	if (pipe2(in, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	t.wait_fd = in[0];
	hold = in[1];
	if (pipe2(out, O_CLOEXEC) < 0) {
		close(in[0]);
		return err_errno(err, "cannot make a pipe");
	}
	ready = out[0];
	t.ready_fd = out[1];
	pid = start(hold_main, CLONE_NEWUSER, &t);
	e = pid < 0 ? errno : t.failed_errno;
	close(t.wait_fd);
	close(t.ready_fd);
	if (pid > 0) {
		process_note_child(pid);
		snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
		errno = EIO;
		if (!e && read(ready, &c, 1) == 1 && map_ids(pid) == 0)
			fd = open(path, O_RDONLY | O_CLOEXEC);
		if (!e && fd < 0)
			e = errno;
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		process_forget_child(pid);
	}
	if (fd < 0)
		return err_set(err, ERR_UNSUPPORTED, "user namespaces aren't allowed here (%s)",
			       strerrordesc_np(e));
	*ret_fd = fd;
	return 0;
}

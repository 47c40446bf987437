/* engine/base/os/process/opens.c — records opened files, by seccomp's user notification.
 *
 * The child installs the filter itself, just before exec, and sends the listener through a socket
 * pair. The watching thread receives it and answers one notification after another, until no
 * process is left under the filter, or opens_stop() wakes it. The child's exec waits for an answer
 * too, so the thread must start before the child.
 *
 * Another thread of the program may change the path after we have read it. So this records what an
 * honest program does; it is no security barrier. After the path is read, we check that the
 * notification is still valid, because the pid may belong to another process by then.
 *
 * The path is looked up as the program sees it, below /proc/PID/root, /proc/PID/cwd or
 * /proc/PID/fd/N. A link that leads out of another root is resolved wrongly; programs of an attempt
 * have our root.
 *
 * Threads: the watching thread owns `files` and `untold` until opens_stop() has joined it.
 */
#include "base/os/process/opens.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/map.h"
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/thread.h"
#include "base/time/clock.h"

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#endif

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5) /* Linux 5.19 */
#endif

#define PAGE_BYTES 4096

struct opens {
	int ours, childs; /* the two ends of the socket pair */
	int wake;         /* eventfd: ends the watch */
	enum opens_what what;
	char **except;
	size_t n_except;
	struct statx_timestamp since;
	pthread_t thread;
	bool running;
	struct map *files; /* path → its copy, ours */
	const char **paths;
	size_t untold;
};

/* Runs in the child, which may borrow our memory: sanitizers would take its frames for ours. */

__attribute__((no_sanitize("address", "undefined", "thread"), noinline)) int opens_enter(int fd)
{
#ifdef ARCH
#define TELL(call)                                       \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_open
		TELL(SYS_open),
#endif
		TELL(SYS_openat),
		TELL(SYS_openat2),
		TELL(SYS_execve),
		TELL(SYS_execveat),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
#undef TELL
	struct sock_fprog program = { .len = ARRAY_LEN(code), .filter = code };
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec one = { .iov_base = "", .iov_len = 1 };
	struct msghdr m = { .msg_iov = &one,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	/* WAIT_KILLABLE_RECV: else each signal to the program restarts the call, and Go's runtime
	 * sends many signals. */
	unsigned long flags =
		SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
	int listener;

	for (;;) {
		listener = (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
		if (listener >= 0)
			break;
		if (errno == EINVAL && (flags & SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV))
			flags = SECCOMP_FILTER_FLAG_NEW_LISTENER;
		/* Users other than root must give up set-user-ID programs first. */
		else if (errno != EACCES || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1 ||
			 prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
			return -1;
	}
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	*(int *)(void *)CMSG_DATA(c) = listener;
	return syscall(SYS_sendmsg, fd, &m, MSG_NOSIGNAL) == 1 ? 0 : -1;
#else
	errno = ENOSYS;
	return -1;
#endif
}

/* The watching thread. */

/* Reads the string at `at` in the program; false when it can't be read or isn't terminated. */
static bool read_string(pid_t pid, uint64_t at, char ret[static PATH_MAX])
{
	size_t n = 0;

	while (n < PATH_MAX) {
		/* Don't read across the end of a page: the next one may not be mapped. */
		size_t want = MIN(PATH_MAX - n, PAGE_BYTES - (at + n) % PAGE_BYTES);
		struct iovec to = { ret + n, want };
		struct iovec from = { (void *)(uintptr_t)(at + n), want };
		ssize_t got = process_vm_readv(pid, &to, 1, &from, 1, 0);

		if (got <= 0)
			return false;
		if (memchr(ret + n, '\0', (size_t)got))
			return true;
		n += (size_t)got;
	}
	return false;
}

struct asked {
	int dir; /* AT_FDCWD, or a descriptor of the program */
	uint64_t path;
	bool reads; /* or executes */
	bool makes; /* a file that isn't there */
};

static struct asked what_is_asked(enum opens_what what, pid_t pid, const struct seccomp_data *d)
{
	struct asked a = { .dir = (int)d->args[0], .path = d->args[1], .reads = true };
	uint64_t flags = 0;

	switch (d->nr) {
#ifdef SYS_open
	case SYS_open:
		a.dir = AT_FDCWD;
		a.path = d->args[0];
		flags = d->args[1];
		break;
#endif
	case SYS_openat:
		flags = d->args[2];
		break;
	case SYS_openat2: {
		struct iovec to = { &flags, sizeof(flags) };
		struct iovec from = { (void *)(uintptr_t)d->args[2], sizeof(flags) };

		process_vm_readv(pid, &to, 1, &from, 1, 0); /* open_how begins with `flags` */
		break;
	}
	case SYS_execve:
		a.dir = AT_FDCWD;
		a.path = d->args[0];
		break;
	}
	if (what == OPENS_ALL)
		a.reads = !(flags & O_PATH);
	else
		a.reads = (flags & O_ACCMODE) != O_WRONLY && !(flags & (O_DIRECTORY | O_PATH));
	a.makes = what == OPENS_ALL && (flags & O_CREAT);
	return a;
}

static bool is_later(const struct statx_timestamp *a, const struct statx_timestamp *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec >= b->tv_nsec;
}

/* Resolves the path to one without links. False: no such file, or one that isn't recorded. */
static bool find_file(const struct opens *o, pid_t pid, const struct asked *a, const char *path,
		      char ret[static PATH_MAX])
{
	_cleanup_(fd_closep) int fd = -1;
	char from[64 + PATH_MAX], self[64], *made = NULL;
	struct statx st;
	ssize_t n;

	if (*path == '/')
		snprintf(from, sizeof(from), "/proc/%d/root%s", (int)pid, path);
	else if (a->dir == AT_FDCWD)
		snprintf(from, sizeof(from), "/proc/%d/cwd/%s", (int)pid, path);
	else
		snprintf(from, sizeof(from), *path ? "/proc/%d/fd/%d/%s" : "/proc/%d/fd/%d%s",
			 (int)pid, a->dir, path);
	fd = open(from, O_PATH | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && a->makes && *path) { /* record its directory and name */
		made = strrchr(from, '/');
		*made++ = '\0';
		fd = open(from, O_PATH | O_CLOEXEC);
	}
	if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_BTIME, &st) < 0 ||
	    !(S_ISREG(st.stx_mode) || (o->what == OPENS_ALL && S_ISDIR(st.stx_mode))) ||
	    ((st.stx_mask & STATX_BTIME) && is_later(&st.stx_btime, &o->since)))
		return false;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	n = readlink(self, ret, PATH_MAX - 1);
	if (n <= 0 || *ret != '/')
		return false;
	ret[n] = '\0';
	if (made &&
	    (size_t)snprintf(ret + n, PATH_MAX - (size_t)n, "/%s", made) >= PATH_MAX - (size_t)n)
		return false;
	for (size_t i = 0; i < o->n_except; i++)
		if (fs_is_inside(o->except[i], ret))
			return false;
	return true;
}

/* Handles one call of the program; false: no process is left under the filter. */
static bool answer(struct opens *o, int listener, struct seccomp_notif *q,
		   struct seccomp_notif_resp *reply)
{
	char path[PATH_MAX], file[PATH_MAX];
	struct asked a;
	void **slot;
	bool known;

	if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, q) < 0)
		return errno == EINTR || errno == ENOENT; /* it was killed meanwhile */
	a = what_is_asked(o->what, (pid_t)q->pid, &q->data);
	if (a.reads) {
		known = read_string((pid_t)q->pid, a.path, path);
		if (ioctl(listener, SECCOMP_IOCTL_NOTIF_ID_VALID, &q->id) < 0)
			return true;
		if (!known)
			o->untold++;
		else if (find_file(o, (pid_t)q->pid, &a, path, file)) {
			if (map_len(o->files) >= OPENS_MAX && !map_get_str(o->files, file))
				o->untold++;
			else if (!*(slot = map_slot_str(o->files, file)))
				*slot = xstrdup(file);
		}
	}
	*reply = (struct seccomp_notif_resp){ .id = q->id,
					      .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
	ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, reply); /* fails when it was killed meanwhile */
	return true;
}

/* Waits for `fd` or the end; false: the end. */
static bool wait_for(const struct opens *o, int fd)
{
	struct pollfd p[] = { { .fd = fd, .events = POLLIN }, { .fd = o->wake, .events = POLLIN } };
	int r;

	do
		r = poll(p, ARRAY_LEN(p), -1);
	while (r < 0 && errno == EINTR);
	return r > 0 && !p[1].revents && (p[0].revents & POLLIN);
}

static int receive_listener(const struct opens *o)
{
	char byte, room[CMSG_SPACE(sizeof(int))];
	struct iovec one = { &byte, 1 };
	struct msghdr m = { .msg_iov = &one,
			    .msg_iovlen = 1,
			    .msg_control = room,
			    .msg_controllen = sizeof(room) };
	struct cmsghdr *c;

	if (!wait_for(o, o->ours) || recvmsg(o->ours, &m, MSG_CMSG_CLOEXEC) != 1)
		return -1;
	c = CMSG_FIRSTHDR(&m);
	return c && c->cmsg_type == SCM_RIGHTS ? *(int *)(void *)CMSG_DATA(c) : -1;
}

static void *watch(void *arg)
{
	struct opens *o = arg;
	_cleanup_(fd_closep) int listener = receive_listener(o);
	struct seccomp_notif_sizes sizes = { 0 };
	void *q, *reply;

	if (listener < 0)
		return NULL;
	/* A newer kernel may write larger structs than our headers have. */
	syscall(SYS_seccomp, SECCOMP_GET_NOTIF_SIZES, 0, &sizes);
	sizes.seccomp_notif = MAX(sizes.seccomp_notif, sizeof(struct seccomp_notif));
	sizes.seccomp_notif_resp = MAX(sizes.seccomp_notif_resp, sizeof(struct seccomp_notif_resp));
	q = xmalloc(sizes.seccomp_notif);
	reply = xcalloc(1, sizes.seccomp_notif_resp);
	do
		memset(q, 0, sizes.seccomp_notif);
	while (wait_for(o, listener) && answer(o, listener, q, reply));
	free(q);
	free(reply);
	return NULL;
}

/* Open and close. */

int opens_new(enum opens_what what, const char *const *except, size_t n, struct opens **ret,
	      struct err *err)
{
	struct opens *o;
	int64_t now_ns;
	int pair[2], r;
#ifdef ARCH
	uint32_t action = SECCOMP_RET_USER_NOTIF;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) < 0)
		return err_set(err, ERR_UNSUPPORTED,
			       "the kernel can't tell what a program opens (seccomp user "
			       "notification, Linux 5.5): %s",
			       strerrordesc_np(errno));
#else
	return err_set(err, ERR_UNSUPPORTED,
		       "what a program opens can be told on x86-64 and arm64 only");
#endif
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_errno(err, "cannot make a socket pair");
	o = xcalloc(1, sizeof(*o));
	o->what = what;
	o->ours = pair[0];
	o->childs = pair[1];
	o->files = map_new();
	o->except = xcalloc(n + 1, sizeof(*o->except));
	for (o->n_except = 0; o->n_except < n; o->n_except++)
		o->except[o->n_except] = xstrdup(except[o->n_except]);
	now_ns = clock_wall_ns();
	o->since = (struct statx_timestamp){ .tv_sec = now_ns / NS_PER_S,
					     .tv_nsec = (uint32_t)(now_ns % NS_PER_S) };
	o->wake = eventfd(0, EFD_CLOEXEC);
	r = o->wake < 0 ? errno : thread_start(&o->thread, NULL, watch, o);
	if (r) {
		opens_free(o);
		errno = r;
		return err_errno(err, "cannot watch what a program opens");
	}
	o->running = true;
	*ret = o;
	return 0;
}

int opens_fd(const struct opens *o)
{
	assert(o->childs >= 0);
	return o->childs;
}

void opens_started(struct opens *o)
{
	fd_closep(&o->childs); /* so the thread that waits for the listener sees that none comes */
	o->childs = -1;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

size_t opens_stop(struct opens *o, const char *const **ret, size_t *ret_untold)
{
	uint64_t one = 1;
	size_t n;

	if (o->running) {
		while (write(o->wake, &one, sizeof(one)) < 0 && errno == EINTR)
			;
		pthread_join(o->thread, NULL);
		o->running = false;
	}
	n = map_len(o->files);
	if (!o->paths) {
		o->paths = xcalloc(n + 1, sizeof(*o->paths));
		for (size_t i = 0; i < n; i++)
			o->paths[i] = map_at(o->files, i, NULL, NULL);
		qsort(o->paths, n, sizeof(*o->paths), by_name);
	}
	*ret = o->paths;
	*ret_untold = o->untold;
	return n;
}

void opens_free(struct opens *o)
{
	const char *const *paths;
	size_t n, untold;

	if (!o)
		return;
	n = opens_stop(o, &paths, &untold);
	for (size_t i = 0; i < n; i++)
		free((char *)o->paths[i]);
	free(o->paths);
	map_free(o->files);
	for (size_t i = 0; i < o->n_except; i++)
		free(o->except[i]);
	free(o->except);
	fd_closep(&o->ours);
	fd_closep(&o->childs);
	fd_closep(&o->wake);
	free(o);
}

/* runners/kubernetes/init/main.c — `cairn-init`: runs the programs of a plan, reports how each
 * ended, and stays until the sidecar has stored their results.
 *
 * cairn-init [--root DIR] [--cgroup DIR] [--stale SECONDS] [--flush SECONDS]; the options are for
 * tests.
 *
 * The order is: signals blocked and read by signalfd, the lock on `alive`, the plan (read_plan()
 * waits for `ready` or `failed`), each program in turn (run_one(), init_run()), then all `saved`
 * files (wait_saved()). After a signal to end, it starts no further program. The record of a
 * program's end is written into space reserved before the start, so that a full disk can't hide it.
 *
 * All waits for the sidecar are in wait_for_sidecar(): poll() on inotify and signals, a check of
 * the beat, and reaping. Nobody checks the beat while a program runs; the sidecar's time restarts
 * after the last one.
 *
 * One thread. Every failure of the helper itself ends in stop() with an exit status that the engine
 * knows (INIT_EXIT_*). program.c runs one program; protocol.h lists the files.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/mem.h"
#include "runners/kubernetes/init/init.h"

/* pod_spec.h's POD_ROOT; that header belongs to the engine. */
#define DEFAULT_ROOT "/cairn"
#define PLAN_MAX     (64 * MIB)
/* How long the output's reader may take for the rest. */
#define FLUSH_NS (10 * NS_PER_S)
/* How often the sidecar's beat is checked. */
#define LOOK_NS   (5 * NS_PER_S)
#define EXIT_ROOM 512

struct helper {
	const char *root;
	struct init_surroundings s;
	int64_t stale_ns;
	int run, inotify;     /* POD_RUN */
	struct timespec beat; /* its last seen time … */
	int64_t beat_seen_ns; /* … and when that changed */
	struct init_program *programs;
	size_t n;
	bool ran;
};

_noreturn_ static void stop(int status, const char *what, const char *why)
{
	/* The helper's own errors belong into the container's log, like the program's. */
	dprintf(1, "%s%s%s\n", what, *why ? ": " : "", why);
	_exit(status);
}

/* The sidecar. */

static bool is_there(const struct helper *h, const char *path)
{
	return faccessat(h->run, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool has_fallen_silent(struct helper *h)
{
	struct stat st;
	int64_t now = init_now_ns();

	if (fstatat(h->run, "beat", &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	    memcmp(&st.st_mtim, &h->beat, sizeof(h->beat)) != 0) {
		h->beat = st.st_mtim;
		h->beat_seen_ns = now;
	}
	return now - h->beat_seen_ns >= h->stale_ns;
}

/* Waits until something happens in a watched directory, or the beat must be checked. A signal ends
 * the helper before the programs start. After them it is ignored: the helper ends when the sidecar
 * is done. */
static void wait_for_sidecar(struct helper *h)
{
	struct pollfd fds[] = { { .fd = h->inotify, .events = POLLIN },
				{ .fd = h->s.signals, .events = POLLIN } };
	struct signalfd_siginfo info;
	char events[4096] __attribute__((__aligned__(8)));

	if (poll(fds, ARRAY_LEN(fds),
		 (int)(MIN(LOOK_NS, MAX(h->stale_ns / 2, NS_PER_MS)) / NS_PER_MS)) > 0) {
		while (read(h->inotify, events, sizeof(events)) > 0)
			;
		while (read(h->s.signals, &info, sizeof(info)) > 0)
			if (!h->ran && (info.ssi_signo == SIGTERM || info.ssi_signo == SIGINT))
				_exit(128 + (int)info.ssi_signo);
	}
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
	if (has_fallen_silent(h))
		stop(INIT_EXIT_SIDECAR,
		     "cairn-init: the sidecar has fallen silent: outputs aren't kept", "");
}

static void watch_dir(struct helper *h, const char *name)
{
	_cleanup_(freep) char *path =
		name ? xasprintf("%s/run/%s", h->root, name) : xasprintf("%s/run", h->root);

	(void)inotify_add_watch(h->inotify, path, IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE);
}

/* The plan. */

static char *read_whole(const struct helper *h, const char *name, uint64_t max, size_t *ret_n)
{
	_cleanup_(fd_closep) int fd = openat(h->run, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	size_t done = 0;
	char *bytes;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > max)
		return NULL;
	bytes = xmalloc((size_t)st.st_size + 1);
	while (done < (size_t)st.st_size) {
		ssize_t n = read(fd, bytes + done, (size_t)st.st_size - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	bytes[done] = '\0';
	*ret_n = done;
	return bytes;
}

static void read_plan(struct helper *h)
{
	char *bytes;
	size_t len;

	while (!is_there(h, "ready") && !is_there(h, "failed"))
		wait_for_sidecar(h);
	if (is_there(h, "failed")) {
		bytes = read_whole(h, "failed", 64 * KIB, &len);
		stop(INIT_EXIT_REFUSED, "cairn-init: the program can't start", bytes ? bytes : "");
	}
	bytes = read_whole(h, "plan", PLAN_MAX, &len);
	if (!bytes || init_plan_decode(bytes, len, &h->programs, &h->n) < 0)
		stop(INIT_EXIT_REFUSED, "cairn-init: the plan can't be read", "");
}

/* The ends. */

/* false: the sidecar won't learn how it ended. */
static bool run_one(struct helper *h, size_t i, bool *stopped, struct init_exit *ret)
{
	_cleanup_(fd_closep) int dir = -1, exit_fd = -1;
	char name[32], text[EXIT_ROOM];
	size_t n;

	snprintf(name, sizeof(name), "%zu", i);
	dir = openat(h->run, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		stop(INIT_EXIT_REFUSED, "cairn-init: cannot open the directory of the program",
		     strerrordesc_np(errno));
	watch_dir(h, name);
	/* Reserves space for the exit record before the start, so that a disk that the program
	 * fills can't prevent it. */
	exit_fd = openat(dir, ".exit", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	memset(text, ' ', sizeof(text));
	if (exit_fd >= 0)
		(void)!write(exit_fd, text, sizeof(text));
	init_run(&h->programs[i], &h->s, dir, stopped, ret);
	init_make_readable(h->programs[i].dir);
	n = init_exit_encode(ret, text, sizeof(text));
	return exit_fd >= 0 && pwrite(exit_fd, text, n, 0) == (ssize_t)n &&
	       ftruncate(exit_fd, (off_t)n) == 0 && renameat(dir, ".exit", dir, "exit") == 0;
}

/* 0: its outputs are stored. */
static int wait_saved(struct helper *h, size_t i)
{
	char name[48];
	size_t n;

	snprintf(name, sizeof(name), "%zu/saved", i);
	for (;;) {
		_cleanup_(freep) char *text = read_whole(h, name, 64, &n);

		if (text && n)
			return text[0] != '0';
		wait_for_sidecar(h);
	}
}

static int run_all(struct helper *h)
{
	_cleanup_(freep) bool *heard = xcalloc(h->n, sizeof(*heard));
	struct init_exit last = { 0 };
	bool stopped = false;
	int unsaved = 0;
	size_t n = 0;

	h->ran = true;
	for (; n < h->n && !stopped; n++)
		heard[n] = run_one(h, n, &stopped, &last);
	h->beat_seen_ns = init_now_ns(); /* nobody checked while the programs ran */
	for (size_t i = 0; i < n; i++)
		unsaved |= heard[i] ? wait_saved(h, i) : 1;
	if (last.signo)
		return 128 + last.signo;
	return last.status == 0 && unsaved ? INIT_EXIT_UPLOAD : last.status;
}

/* Life. */

static void read_options(struct helper *h, int argc, char **argv)
{
	*h = (struct helper){ .root = DEFAULT_ROOT,
			      .s = { .cgroup = "/sys/fs/cgroup", .flush_ns = FLUSH_NS },
			      .stale_ns = INIT_STALE_S * NS_PER_S };
	for (int i = 1; i < argc; i++) {
		if (i + 1 < argc && strcmp(argv[i], "--root") == 0)
			h->root = argv[++i];
		else if (i + 1 < argc && strcmp(argv[i], "--cgroup") == 0)
			h->s.cgroup = argv[++i];
		else if (i + 1 < argc && strcmp(argv[i], "--stale") == 0)
			h->stale_ns = (int64_t)(strtod(argv[++i], NULL) * NS_PER_S);
		else if (i + 1 < argc && strcmp(argv[i], "--flush") == 0)
			h->s.flush_ns = (int64_t)(strtod(argv[++i], NULL) * NS_PER_S);
		else if (strcmp(argv[i], "--") == 0)
			return; /* an operator's words for an image's own entry point follow */
		else
			stop(2,
			     "usage: cairn-init [--root DIR] [--cgroup DIR] [--stale SECONDS] "
			     "[--flush SECONDS]",
			     "");
	}
}

int main(int argc, char **argv)
{
	_cleanup_(freep) char *run = NULL;
	struct helper h;
	sigset_t set;
	int alive;

	read_options(&h, argc, argv);
	init_signals(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN); /* lint: signal because ignoring needs no handler */
	h.s.alone = getpid() == 1;
	if (!h.s.alone)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	run = xasprintf("%s/run", h.root);
	h.s.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	h.inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	h.run = open(run, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (h.s.signals < 0 || h.inotify < 0 || h.run < 0)
		stop(INIT_EXIT_REFUSED, "cairn-init: cannot begin", strerrordesc_np(errno));
	/* The kernel unlocks it when this process ends. The byte shows that it was here. */
	alive = openat(h.run, "alive", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	if (alive >= 0 && flock(alive, LOCK_EX) == 0)
		(void)!write(alive, "1", 1);
	h.beat_seen_ns = init_now_ns();
	watch_dir(&h, NULL);
	read_plan(&h);
	return run_all(&h);
}

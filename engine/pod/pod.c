/* engine/pod/pod.c — the sidecar's life: lay out inputs → wait for each program's end → collect →
 * write the result → end with the helper.
 *
 * Slow work (fetching, sending) is done on the main thread. A ticker thread touches the beat that
 * the helper checks, and receives SIGTERM. A waiter thread waits for the lock that the helper holds
 * as long as it lives. Both wake the main thread by `wake`.
 *
 * The container must not end by itself while the helper's runs, because the kubelet would start it
 * again. So after the result is written it waits for the helper's end, or for SIGTERM. A restarted
 * sidecar finds the file `ready` and continues where the last one was (serve()).
 *
 * Invariants: signals are blocked before any other thread starts. Until `work` is POD_SERVING,
 * SIGTERM ends the process at once, on the ticker's thread (end_before_start()). The result is
 * written before the helper gets its last `saved` (conclude()). Slots are collected in order, and
 * none starts after one that was stopped or died.
 *
 * Threads: as above; other threads share only atomics, `wake` and, before the start, the slots. Not
 * here: laying out (stage.c), collecting (collect.c), checkpoints (checkpoint.c).
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "pod/internal.h"

#define BEAT_S              5
#define RENEW_BEATS         60
#define CHECKPOINT_EVERY_NS (300 * NS_PER_S)
#define SERIES_EVERY_NS     (10 * NS_PER_S)
#define SAVE_WITHIN_NS      (12 * 3600 * NS_PER_S)

void pod_say(const struct pod *p, const char *fmt, ...)
{
	char text[1200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (p->o.say)
		p->o.say(text);
}

/* Another process of the same container reads it: `cairn pod --well`. */
static char *trouble_path(const char *state_dir)
{
	return xasprintf("%s/cairn-trouble", state_dir ? state_dir : "/tmp");
}

void pod_trouble(const struct pod *p, const char *fmt, ...)
{
	_cleanup_(freep) char *path = trouble_path(p->o.state_dir);
	char text[1200];
	va_list ap;

	if (!fmt) {
		(void)unlink(path);
		return;
	}
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pod_say(p, "%s", text);
	(void)fs_write_atomic(path, text, strlen(text), NULL);
}

int pod_is_well(const char *state_dir, struct err *err)
{
	_cleanup_(freep) char *path = trouble_path(state_dir);
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err e = { 0 };

	if (fs_read_file(path, 4096, &text, &e) < 0)
		return 0;
	return err_set(err, ERR_IO, "%s", text.s ? text.s : "");
}

/* The ticker. */

/* Nothing runs yet, so nothing is worth waiting for: fetches in progress are dropped. */
_noreturn_ static void end_before_start(struct pod *p)
{
	struct err e = { 0 };

	pod_say(p, "stopped before the program began");
	if (!atomic_load(&p->knows)) {
		(void)pod_tell_text(p, "it had not yet read its instructions from the store", &e);
	} else {
		struct pod_slot *s = &p->slots[0];

		err_set(&e, ERR_FAILED, "the pod was asked to stop before the program began");
		s->result.stopped = true;
		s->result.r.failure = FAILURE_FAILED;
		s->result.r.err = e;
		s->ended = true;
		(void)pod_tell(p, &e);
	}
	pod_views_close(p);
	_exit(0);
}

static void wake(struct pod *p, atomic_bool *what)
{
	atomic_store(what, true);
	(void)!write(p->wake, &(uint64_t){ 1 }, sizeof(uint64_t));
}

static void *tick(void *arg)
{
	struct pod *p = arg;
	sigset_t term;
	unsigned beats = 0;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigaddset(&term, SIGINT);
	while (!atomic_load(&p->done)) {
		int signo;

		if (beats++ % RENEW_BEATS == 0)
			pod_views_renew(p);
		if (utimensat(p->run_fd, "beat", NULL, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT)
			(void)fs_write_atomic_at(p->run_fd, "beat", "", 0, 0644, FS_WRITE_NO_SYNC,
						 NULL);
		signo = sigtimedwait(&term, NULL, &(struct timespec){ .tv_sec = BEAT_S });
		if (signo < 0 || atomic_load(&p->done))
			continue;
		if (atomic_load(&p->work) == POD_LAYING_OUT)
			end_before_start(p);
		wake(p, &p->terminating);
	}
	return NULL;
}

/* The waiter. */

static void ignore_nudge(int signo)
{
}

static void end_waiter(struct pod *p)
{
	struct timespec until;

	do { /* repeated, because a signal just before its wait is lost */
		pthread_kill(p->waiter, SIGUSR1);
		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += 10 * NS_PER_MS;
		until.tv_sec += until.tv_nsec / NS_PER_S;
		until.tv_nsec %= NS_PER_S;
	} while (pthread_clockjoin_np(p->waiter, NULL, CLOCK_MONOTONIC, &until) == ETIMEDOUT);
}

/* The helper writes a byte when it has the lock. A program that also takes the lock only keeps the
 * sidecar longer, until its container is gone. */
static void *wait_for_helper(void *arg)
{
	struct pod *p = arg;
	_cleanup_(fd_closep) int inotify = inotify_init1(IN_CLOEXEC);
	char path[64], buf[512] __attribute__((__aligned__(8)));
	struct sigaction act = { .sa_handler = ignore_nudge };
	struct stat st;
	sigset_t nudges;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", p->alive_fd);
	if (inotify < 0 || inotify_add_watch(inotify, path, IN_MODIFY) < 0)
		return NULL;
	/* Only a handled signal interrupts a wait for a lock. */
	sigaction(SIGUSR1, &act, NULL);
	sigemptyset(&nudges);
	sigaddset(&nudges, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &nudges, NULL);
	while (fstat(p->alive_fd, &st) == 0 && st.st_size == 0)
		if (read(inotify, buf, sizeof(buf)) < 0 &&
		    (errno != EINTR || atomic_load(&p->done)))
			return NULL;
	while (flock(p->alive_fd, LOCK_EX) < 0)
		if (errno != EINTR || atomic_load(&p->done))
			return NULL;
	flock(p->alive_fd, LOCK_UN);
	wake(p, &p->gone);
	return NULL;
}

static int start_threads(struct pod *p, struct err *err)
{
	sigset_t term;

	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigaddset(&term, SIGINT);
	sigaddset(&term, SIGUSR1); /* the waiter's */
	/* Before any other thread starts, so that all inherit the mask. */
	pthread_sigmask(SIG_BLOCK, &term, NULL);
	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->alive_fd = openat(p->run_fd, "alive",
			     O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
	if (p->wake < 0 || p->alive_fd < 0)
		return err_errno(err, "cannot make %s/run/alive", p->o.root);
	p->has_ticker = thread_start(&p->ticker, NULL, tick, p) == 0;
	p->has_waiter = thread_start(&p->waiter, NULL, wait_for_helper, p) == 0;
	return p->has_ticker && p->has_waiter ? 0 : err_set(err, ERR_IO, "cannot start a thread");
}

/* While programs run. */

static bool has_exit(const struct pod_slot *s)
{
	return faccessat(s->run_fd, "exit", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The slot whose turn it is; NULL: none is left. None starts after one that was told to end. */
static struct pod_slot *current(struct pod *p)
{
	for (size_t i = 0; i < p->n; i++) {
		if (!p->slots[i].ended)
			return &p->slots[i];
		if (p->slots[i].result.stopped || p->slots[i].result.main_died)
			return NULL;
	}
	return NULL;
}

/* Writes the result before the helper gets its last `saved`, because the pod can be over a moment
 * later. */
static int conclude(struct pod *p, struct pod_slot *s, struct err *err)
{
	bool kept = s->result.r.failure != FAILURE_STORE;

	if (!current(p) && pod_tell(p, err) < 0)
		return -1;
	s->saved = true;
	return fs_write_atomic_at(s->run_fd, "saved", kept ? "0" : "1", 1, 0644, FS_WRITE_NO_SYNC,
				  err);
}

/* On an error (a full disk, a link in place of a file), the helper gets no answer, and ends when
 * the beat has stopped. */
static int conclude_all(struct pod *p, struct err *err)
{
	struct pod_slot *s;

	while ((s = current(p)) && has_exit(s)) {
		pod_collect(p, s);
		if (conclude(p, s, err) < 0)
			return -1;
	}
	return 0;
}

static void drain(int fd)
{
	char buf[4096] __attribute__((__aligned__(8)));

	while (read(fd, buf, sizeof(buf)) > 0)
		;
}

static int watch(struct pod *p, struct err *err)
{
	_cleanup_(fd_closep) int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	int64_t save_at = clock_mono_ns() + p->o.checkpoint_every_ns,
		say_at = clock_mono_ns() + p->o.series_every_ns;
	struct pod_slot *s;

	if (inotify < 0)
		return err_errno(err, "cannot watch %s/run", p->o.root);
	for (size_t i = 0; i < p->n; i++) {
		char path[64]; /* by descriptor: the program may have replaced the name */

		snprintf(path, sizeof(path), "/proc/self/fd/%d", p->slots[i].run_fd);
		(void)inotify_add_watch(inotify, path, IN_MOVED_TO | IN_CREATE | IN_CLOSE_WRITE);
	}
	while (conclude_all(p, err) == 0 && (s = current(p))) {
		struct pollfd fds[] = { { .fd = inotify, .events = POLLIN },
					{ .fd = p->wake, .events = POLLIN } };
		int64_t now = clock_mono_ns(),
			left = s->a->series_path ? MIN(save_at, say_at) - now : save_at - now;

		/* The kubelet ends us after main's container. The helper's exit file may have come
		 * between the two checks. */
		if ((atomic_load(&p->terminating) || atomic_load(&p->gone)) && !has_exit(s)) {
			pod_collect_remains(p, s);
			return conclude(p, s, err);
		}
		if (save_at <= now) {
			struct err e = { 0 };
			int r = s->a->checkpoint_path ? pod_checkpoint_save(p, s, &e) : 0;

			/* Logged only: the next save may succeed. */
			if (r < 0)
				pod_say(p, "saving the checkpoint of %s: %s", s->a->task, e.msg);
			save_at = clock_mono_ns() + p->o.checkpoint_every_ns / (r > 0 ? 16 : 1);
		} else if (left <= 0) {
			pod_series_look(p, s);
			say_at = now + p->o.series_every_ns;
		} else if (poll(fds, ARRAY_LEN(fds), (int)MIN(left / NS_PER_MS + 1, 60000LL)) > 0) {
			drain(inotify);
		}
	}
	return err->code ? -1 : 0;
}

static void wait_for_the_end(struct pod *p)
{
	while (!atomic_load(&p->terminating) && !atomic_load(&p->gone))
		poll(&(struct pollfd){ .fd = p->wake, .events = POLLIN }, 1, -1);
}

/* Life. */

static void fill_in(struct pod_options *o)
{
	o->root = o->root ? o->root : POD_ROOT;
	o->message_path = o->message_path ? o->message_path : "/dev/termination-log";
	o->init_program = o->init_program ? o->init_program : "/usr/lib/cairn/cairn-init";
	o->launch_program = o->launch_program ? o->launch_program : "/usr/lib/cairn/cairn-launch";
	o->state_dir = o->state_dir ? o->state_dir : "/tmp";
	o->checkpoint_every_ns =
		o->checkpoint_every_ns ? o->checkpoint_every_ns : CHECKPOINT_EVERY_NS;
	o->series_every_ns = o->series_every_ns ? o->series_every_ns : SERIES_EVERY_NS;
	o->save_within_ns = o->save_within_ns ? o->save_within_ns : SAVE_WITHIN_NS;
}

static int open_root(struct pod *p, struct err *err)
{
	p->root_fd = open(p->o.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (p->root_fd < 0)
		return err_errno(err, "cannot open %s", p->o.root);
	if (mkdirat(p->root_fd, "run", 0755) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make %s/run", p->o.root);
	p->run_fd = fs_open_beneath(p->root_fd, "run", O_RDONLY | O_DIRECTORY, false);
	if (p->run_fd < 0)
		return err_errno(err, "cannot open %s/run", p->o.root);
	p->resumed = faccessat(p->run_fd, "ready", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
	return 0;
}

/* Blames the first attempt without a result of its own; if the specification was unreadable, a
 * result without a name. */
static void blame(struct pod *p, const struct err *why)
{
	struct pod_slot *s;

	if (!p->slots) {
		p->slots = arena_alloc(p->arena, sizeof(*p->slots));
		p->slots[0] =
			(struct pod_slot){ .run_fd = -1, .w_fd = -1, .result.index = p->o.index };
		p->n = 1;
	}
	for (size_t i = 0; i < p->n; i++)
		if (p->slots[i].ended)
			return;
	s = &p->slots[0];
	s->result.r.failure = FAILURE_STORE;
	s->result.r.err = *why;
	s->ended = true;
}

/* The container starts all the same, so that its helper reports the reason and the pod ends: a pod
 * that never gets ready would wait until somebody looks. */
static int refuse(struct pod *p, const struct err *why, struct err *err)
{
	pod_say(p, "%s", why->msg);
	blame(p, why);
	if (pod_tell(p, err) < 0 ||
	    fs_write_atomic_at(p->run_fd, "failed", why->msg, strlen(why->msg), 0644,
			       FS_WRITE_NO_SYNC, err) < 0)
		return -1;
	wait_for_the_end(p);
	return 0;
}

static int serve(struct pod *p, struct err *err)
{
	struct err why = { 0 };

	if (p->resumed) {
		atomic_store(&p->work, POD_SERVING);
		pod_say(p, "started again; the program goes on");
		if (pod_read_spec(p, err) < 0 || pod_reopen(p, err) < 0 ||
		    pod_state_read(p, err) < 0)
			return -1;
	} else {
		(void)unlinkat(p->run_fd, "failed", 0); /* an earlier sidecar's */
		if (pod_stage(p, &why) < 0) {
			atomic_store(&p->work, POD_SERVING);
			return refuse(p, &why, err);
		}
		atomic_store(&p->work, POD_SERVING);
		if (fs_write_atomic_at(p->run_fd, "ready", "", 0, 0644, FS_WRITE_NO_SYNC, err) < 0)
			return -1;
	}
	if (watch(p, err) < 0)
		return -1;
	wait_for_the_end(p);
	return 0;
}

static void pod_deinit(struct pod *p)
{
	atomic_store(&p->done, true);
	if (p->has_ticker) {
		pthread_kill(p->ticker, SIGTERM);
		pthread_join(p->ticker, NULL);
	}
	if (p->has_waiter)
		end_waiter(p);
	for (size_t i = 0; i < p->n && p->slots; i++) {
		pod_checkpoint_deinit(&p->slots[i].ck);
		pod_series_deinit(&p->slots[i]);
		fd_closep(&p->slots[i].run_fd);
		fd_closep(&p->slots[i].w_fd);
	}
	fd_closep(&p->views_fd);
	fd_closep(&p->wake);
	fd_closep(&p->alive_fd);
	fd_closep(&p->run_fd);
	fd_closep(&p->root_fd);
	arena_free(p->arena);
}

static int pod_init(struct pod *p, const struct pod_options *o, struct err *err)
{
	p->root_fd = p->run_fd = p->wake = p->alive_fd = p->views_fd = -1;
	if (o)
		p->o = *o;
	fill_in(&p->o);
	p->arena = arena_new();
	umask(0); /* modes are set exactly as given: the program can be another user */
	if (open_root(p, err) < 0)
		return -1;
	pod_views_open(p);
	return start_threads(p, err);
}

int pod_serve(struct store *store, const char *spec, const struct pod_options *o, struct err *err)
{
	struct pod p = { .store = store, .spec = spec };
	int r = pod_init(&p, o, err);

	if (r == 0)
		r = serve(&p, err);
	if (r == 0) /* else another sidecar goes on, and perhaps the program */
		pod_views_close(&p);
	pod_deinit(&p);
	return r;
}

int pod_refuse(const struct pod_options *o, const struct err *why, struct err *err)
{
	struct pod p = { 0 };
	int r = pod_init(&p, o, err);

	atomic_store(&p.work, POD_SERVING);
	if (r == 0)
		r = pod_put_programs(&p, err);
	if (r == 0)
		r = refuse(&p, why, err);
	if (r == 0)
		pod_views_close(&p);
	pod_deinit(&p);
	return r;
}

/* The hook. */

#define HOOK_NS (20 * NS_PER_S)

static bool is_there(int run, const char *name)
{
	return run >= 0 && faccessat(run, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

int pod_wait_ready(const char *root, struct err *err)
{
	_cleanup_(freep) char *path = xasprintf("%s/run", root ? root : POD_ROOT);
	_cleanup_(fd_closep) int inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), run = -1;
	int64_t until = clock_mono_ns() + HOOK_NS;

	if (inotify < 0 || inotify_add_watch(inotify, root ? root : POD_ROOT, IN_CREATE) < 0)
		return err_errno(err, "cannot watch %s", root ? root : POD_ROOT);
	for (;;) {
		if (run < 0 && (run = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0)
			(void)inotify_add_watch(inotify, path, IN_CREATE | IN_MOVED_TO);
		if (is_there(run, "placed") || is_there(run, "failed"))
			return 0;
		if (clock_mono_ns() >= until)
			return err_set(err, ERR_BUSY,
				       "the sidecar hasn't prepared the program's inputs yet");
		poll(&(struct pollfd){ .fd = inotify, .events = POLLIN }, 1, 1000);
		drain(inotify);
	}
}

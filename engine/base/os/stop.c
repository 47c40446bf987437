#include "base/os/stop.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include "base/mem.h"
#include "base/os/thread.h"

#define EXIT_INTERRUPTED 130

/* The only one, because signals belong to the process. */
static struct {
	pthread_t thread;
	bool started;
	sigset_t set;
	int pipe[2]; /* signal numbers, a byte each, to the loop */
	struct loop *loop;
	struct loop_source *source;
	loop_signal_fn fn;
	void *arg;
	pthread_mutex_t lock; /* guards the fields below */
	bool listening;
	unsigned asked;
	bool hung_up; /* of this listener: a closing terminal may send SIGHUP several times */
	char last_words[400];
} watch = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void end_process(void)
{
	ssize_t ignored = write(2, watch.last_words, strlen(watch.last_words));

	(void)ignored;
	_exit(EXIT_INTERRUPTED);
}

/* Tells whether the process must end soon. */
static bool note(int signo)
{
	uint8_t byte = (uint8_t)signo;
	bool at_once;

	pthread_mutex_lock(&watch.lock);
	if (signo == SIGHUP && watch.hung_up) {
		pthread_mutex_unlock(&watch.lock);
		return false;
	}
	watch.hung_up |= signo == SIGHUP;
	if (!watch.listening)
		end_process();
	at_once = ++watch.asked > 1;
	if (write(watch.pipe[1], &byte, 1) < 0) /* the pipe is full of requests */
		at_once = true;
	pthread_mutex_unlock(&watch.lock);
	return at_once;
}

static void *receive(void *arg)
{
	struct clock *clock = clock_system();
	int64_t end_at_ns = 0;

	for (;;) {
		int64_t left_ns = end_at_ns ? MAX(end_at_ns - clock->mono_ns(clock), 0) : 0;
		struct timespec left = { .tv_sec = left_ns / NS_PER_S,
					 .tv_nsec = left_ns % NS_PER_S };
		int signo = end_at_ns ? sigtimedwait(&watch.set, NULL, &left)
				      : sigwaitinfo(&watch.set, NULL);

		if (signo > 0 && note(signo) && !end_at_ns)
			end_at_ns = clock->mono_ns(clock) + STOP_AT_ONCE_NS;
		if (end_at_ns && clock->mono_ns(clock) >= end_at_ns) {
			pthread_mutex_lock(&watch.lock);
			end_process();
		}
	}
	return NULL;
}

static int start(struct err *err)
{
	struct sigaction hup;
	sigset_t before;

	if (pipe2(watch.pipe, O_CLOEXEC | O_NONBLOCK) < 0)
		return err_errno(err, "cannot listen for signals");
	sigemptyset(&watch.set);
	sigaddset(&watch.set, SIGINT);
	sigaddset(&watch.set, SIGTERM);
	if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
		sigaddset(&watch.set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &watch.set, &before);
	errno = thread_start(&watch.thread, NULL, receive, NULL);
	if (errno) { /* no thread would receive the signals */
		err_errno(err, "cannot listen for signals");
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		fd_closep(&watch.pipe[0]);
		fd_closep(&watch.pipe[1]);
		return -1;
	}
	pthread_detach(watch.thread);
	watch.started = true;
	return 0;
}

static void pass_on(void *arg, int fd, uint32_t events)
{
	uint8_t signo;

	while (watch.source && read(fd, &signo, 1) == 1)
		watch.fn(watch.arg, signo);
}

int stop_listen(struct loop *l, const char *last_words, loop_signal_fn fn, void *arg,
		struct err *err)
{
	uint8_t old;

	stop_unlisten();
	pthread_mutex_lock(&watch.lock);
	watch.asked = 0;
	watch.hung_up = false;
	watch.listening = true;
	snprintf(watch.last_words, sizeof(watch.last_words), "\n%s\n", last_words);
	pthread_mutex_unlock(&watch.lock);
	watch.loop = l;
	watch.fn = fn;
	watch.arg = arg;
	if (watch.started || start(err) == 0) {
		while (read(watch.pipe[0], &old, 1) == 1)
			;
		if (loop_add_fd(l, watch.pipe[0], EPOLLIN, pass_on, NULL, &watch.source, err) == 0)
			return 0;
	}
	stop_unlisten();
	return -1;
}

void stop_unlisten(void)
{
	pthread_mutex_lock(&watch.lock);
	watch.listening = false;
	pthread_mutex_unlock(&watch.lock);
	if (watch.source)
		loop_remove(watch.loop, watch.source);
	watch.source = NULL;
}

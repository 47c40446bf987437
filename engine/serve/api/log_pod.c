#include "serve/api/log_pod.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include "base/os/fs.h"
#include "base/os/thread.h"
#include "serve/event.h"
#include "serve/web/web.h"

struct api_log_pod {
	struct pod_log_options o;
	struct pod_log *log; /* under lock; or NULL */
	bool gone;           /* under lock: the reader has left */
	pthread_mutex_t lock;
	pthread_t thread;
	bool threaded;
	struct api_log_pod_options asked;
	char *run_options;
	int ours, theirs; /* the thread's end of the socket, and the stream's */
	/* The thread's, until `ended` is set. */
	atomic_bool ended;
	int result;
	bool any;
	struct err err;
};

static bool runs(void *arg)
{
	struct api_log_pod *p = arg;

	return p->asked.runs(p->asked.arg);
}

static int hand_on(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct api_log_pod *p = arg;
	const char *at = bytes;

	while (n) {
		ssize_t sent = send(p->ours, at, n, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0)
			return err_set(err, ERR_CANCELLED, "nobody reads on");
		p->any = true;
		at += sent;
		n -= (size_t)sent;
	}
	return 0;
}

static void *run(void *arg)
{
	struct api_log_pod *p = arg;
	struct pod_log *log = NULL;
	bool gone;

	p->result = pod_log_open(p->asked.config, p->run_options, &log, &p->err);
	if (p->result == 0) {
		pthread_mutex_lock(&p->lock);
		p->log = log;
		gone = p->gone;
		pthread_mutex_unlock(&p->lock);
		p->result = gone ? err_set(&p->err, ERR_CANCELLED, "nobody reads on")
				 : pod_log_print(log, &p->o, &p->err);
	}
	if (p->result < 0 && p->err.code != ERR_CANCELLED)
		event_err("log-not-followed", NULL, &p->err);
	/* Order matters: first the log's bytes, then the result, then the end. */
	p->ended = true;
	shutdown(p->ours, SHUT_WR);
	return NULL;
}

struct api_log_pod *api_log_pod_new(const struct api_log_pod_options *o)
{
	struct api_log_pod *p = xcalloc(1, sizeof(*p));
	int ends[2] = { -1, -1 };

	*p = (struct api_log_pod){ .asked = *o, .ours = -1, .theirs = -1, .result = -1 };
	p->run_options = o->run_options ? xstrdup(o->run_options) : NULL;
	pthread_mutex_init(&p->lock, NULL);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
		return p;
	p->ours = ends[0];
	p->theirs = ends[1];
	p->o = (struct pod_log_options){ o->attempt_id, o->wanted, o->follow, p->ours,
					 runs,          hand_on,   p };
	p->threaded = thread_start(&p->thread, NULL, run, p) == 0;
	if (!p->threaded)
		fd_closep(&p->ours);
	return p;
}

void api_log_pod_free(struct api_log_pod *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->gone = true;
	if (p->log)
		pod_log_cancel(p->log);
	pthread_mutex_unlock(&p->lock);
	fd_closep(&p->theirs);
	if (p->threaded)
		pthread_join(p->thread, NULL);
	fd_closep(&p->ours);
	pod_log_close(p->log);
	pthread_mutex_destroy(&p->lock);
	free(p->run_options);
	free(p);
}

ssize_t api_log_pod_read(struct api_log_pod *p, char *buf, size_t max)
{
	ssize_t n = p->theirs >= 0 ? recv(p->theirs, buf, max, MSG_DONTWAIT) : -1;

	if (n > 0)
		return n;
	if (n < 0)
		return p->theirs >= 0 && (errno == EAGAIN || errno == EINTR) ? WEB_STREAM_WAIT
									     : WEB_STREAM_FAILED;
	return !p->ended || p->result < 0 ? WEB_STREAM_FAILED : WEB_STREAM_END;
}

const char *api_log_pod_why(const struct api_log_pod *p)
{
	return p->ended && p->err.code && p->err.code != ERR_CANCELLED ? p->err.msg : NULL;
}

bool api_log_pod_was_missing(const struct api_log_pod *p)
{
	return p->ended && p->result == POD_LOG_NO_POD && !p->any;
}

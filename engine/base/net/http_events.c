/* engine/base/net/http_events.c — epoll for libcurl (CURLMOPT_SOCKETFUNCTION,
 * CURLMOPT_TIMERFUNCTION): the cost of a turn depends only on what is ready. curl_multi_poll() and
 * curl_multi_perform() would check some hundred connections, with a system call for each, whenever
 * one has a packet. */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include "base/net/http_internal.h"
#include "base/time/clock.h"

#define EVENTS_A_TURN 256

/* libcurl calls this with the events that it waits for on a socket, and with REMOVE before it
 * closes one. */
static int on_socket(CURL *easy, curl_socket_t fd, int what, void *arg, void *known)
{
	struct http_events *e = arg;
	struct epoll_event ev = { .data.fd = fd };

	if (what == CURL_POLL_REMOVE) {
		epoll_ctl(e->epoll, EPOLL_CTL_DEL, fd, NULL);
		return 0;
	}
	ev.events = (what & CURL_POLL_IN ? (uint32_t)EPOLLIN : 0) |
		    (what & CURL_POLL_OUT ? (uint32_t)EPOLLOUT : 0);
	if (epoll_ctl(e->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) < 0)
		return -1;
	e->api->multi_assign(e->multi, fd, e);
	return 0;
}

static int on_timer(CURLM *multi, long ms, void *arg)
{
	struct http_events *e = arg;

	e->timer_ns = ms < 0 ? -1 : clock_mono_ns() + ms * NS_PER_MS;
	return 0;
}

int http_events_init(struct http_events *e, const struct curl_api *api, CURLM *multi,
		     struct err *err)
{
	struct epoll_event ev = { .events = EPOLLIN };

	*e = (struct http_events){ .api = api, .multi = multi, .timer_ns = -1 };
	e->epoll = epoll_create1(EPOLL_CLOEXEC);
	e->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ev.data.fd = e->wake;
	if (e->epoll < 0 || e->wake < 0 || epoll_ctl(e->epoll, EPOLL_CTL_ADD, e->wake, &ev) < 0) {
		err_errno(err, "cannot wait for the network");
		http_events_deinit(e);
		return -1;
	}
	api->multi_setopt(multi, CURLMOPT_SOCKETFUNCTION, on_socket);
	api->multi_setopt(multi, CURLMOPT_SOCKETDATA, e);
	api->multi_setopt(multi, CURLMOPT_TIMERFUNCTION, on_timer);
	api->multi_setopt(multi, CURLMOPT_TIMERDATA, e);
	return 0;
}

void http_events_deinit(struct http_events *e)
{
	fd_closep(&e->epoll);
	fd_closep(&e->wake);
}

void http_events_wake(struct http_events *e)
{
	ssize_t n = write(e->wake, &(uint64_t){ 1 }, sizeof(uint64_t));

	assert(n > 0 || errno == EAGAIN); /* EAGAIN: it was woken 2^64 times */
}

void http_events_turn(struct http_events *e, int max_ms)
{
	struct epoll_event v[EVENTS_A_TURN];
	int64_t left = (e->timer_ns - clock_mono_ns() + NS_PER_MS - 1) / NS_PER_MS;
	int n, running, wait_ms = max_ms;
	uint64_t woken;

	if (e->timer_ns >= 0)
		wait_ms = (int)MAX(MIN(left, (int64_t)max_ms), 0);
	n = epoll_wait(e->epoll, v, ARRAY_LEN(v), wait_ms);
	for (int i = 0; i < n; i++) {
		/* A broken connection: let libcurl read and write, and so find the error. */
		uint32_t broken = v[i].events & (EPOLLERR | EPOLLHUP);
		int bits = (v[i].events & EPOLLIN || broken ? CURL_CSELECT_IN : 0) |
			   (v[i].events & EPOLLOUT || broken ? CURL_CSELECT_OUT : 0);

		if (v[i].data.fd == e->wake)
			(void)!read(e->wake, &woken, sizeof(woken));
		else
			e->api->multi_socket_action(e->multi, v[i].data.fd, bits, &running);
	}
	if (e->timer_ns >= 0 && e->timer_ns <= clock_mono_ns()) {
		e->timer_ns = -1;
		e->api->multi_socket_action(e->multi, CURL_SOCKET_TIMEOUT, 0, &running);
	}
}

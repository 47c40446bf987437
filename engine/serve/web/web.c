/* engine/serve/web/web.c — HTTP/1.1 by libmicrohttpd: the limits that it lacks, and the common
 * parts of requests and answers.
 *
 * libmicrohttpd's own timeout is one of inactivity: a client that sends a byte a second never
 * reaches it. So every connection is in one of three phases, each with a deadline, and the loop's
 * tick shuts down late ones. A descriptor is shut down only while its connection is in our list;
 * libmicrohttpd reports the end before it closes it.
 *
 * libmicrohttpd's threads only move bytes. Work that may wait (a database, a store, the loop) is
 * done by a pool, while the connection is suspended: a request by handle(), a stream's next block
 * by its read(). Health has a pool of its own, so that it is answered however busy the other is. A
 * stream without new bytes goes on a list (`waiting`); the tick submits those that are ready to the
 * pool again, so no thread polls for new bytes. A stream whose bytes are in memory (take()) needs
 * no pool: the tick resumes its connection, and libmicrohttpd's thread takes them. With hundreds of
 * readers, the changes of threads would cost more than the bytes.
 *
 * Invariants: a suspended connection is either a pool's job or on that list, and stopping empties
 * both before libmicrohttpd is stopped. A stream's block belongs to the pool or to libmicrohttpd's
 * thread, never to both. Bytes that another server could frame differently are refused, and the
 * connection with them (check_framing()).
 *
 * Threads: libmicrohttpd's, the pools', and the loop's for tick and end; fields of struct web and
 * struct connection say what is under `lock`. Not here: routes and answers (serve/api/), listening
 * sockets (listen.c).
 */
#include "serve/web/web.h"
#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include "base/crypto/digest.h"
#include "base/os/thread.h"
#include "base/text/text.h"
#include "serve/event.h"
#include "serve/web/mhd.h"
#include "serve/web/pool.h"
#include "serve/web/tls.h"

#define TICK_NS               (250 * NS_PER_MS)
#define INACTIVE_S            60
#define MEMORY_PER_CONNECTION 32768
/* Accepted only to answer 503. */
#define CONNECTIONS_OVER 64
#define STREAM_BLOCK     16384
#define DROP_MAX         (16 * MIB) /* a longer body isn't waited for, to say that it is too long */
#define STREAM_MAX_S     86400
/* A stream is asked by the pool after so many ticks all the same: its client may be gone, or may
 * not read any more. */
#define HANG_UP_TICKS 20
/* How often the certificate's files are looked at. */
#define CERTIFICATE_NS (10 * NS_PER_S)
/* When the server ends: time for streams to send their last bytes. */
#define LAST_WORDS_S 2
#define STOPPING     "the server is stopping"

enum phase { PHASE_HEADERS, PHASE_BODY, PHASE_ANSWER };

struct connection {
	struct web *web;
	struct listener *listener;
	int fd;
	enum phase phase;
	int64_t since_ns;
	bool asked; /* a request line has come since the last answer */
	bool shut;
	bool streams;
	int64_t offered_ns; /* since when a client that must not be slow has bytes to take; or 0 */
	bool peer_known;    /* `peer` is filled; the threads of the connection's requests only */
	struct web_peer peer;
	enum { UID_UNASKED, UID_KNOWN, UID_UNKNOWN } uid_state;
	uid_t uid;
};

struct request {
	struct web_exchange x;
	struct connection *connection;
	struct MHD_Connection *mhd;
	bool is_head;
	bool close; /* close after the answer: the start of the next request is not certain */
	bool handled;
	struct web_job job;
};

struct web {
	const struct mhd_api *api;
	struct loop *loop;
	struct loop_source *tick;
	int64_t certificate_ns; /* the loop's thread */
	bool certificate_bad;
	struct web_options o;
	struct listener *listeners;
	size_t n_listeners, connections_max;
	struct MHD_Daemon *daemons[16];
	struct web_pool *work, *health;
	bool stopping, stopped; /* under lock; stopped: the pools take no more jobs */
	pthread_mutex_t lock;
	VEC(struct connection *) connections; /* under lock */
	VEC(struct streaming *) waiting;      /* suspended, without new bytes; under lock */
	atomic_uint_least64_t status[600];
	atomic_uint_least64_t connections_total, timeouts;
	atomic_int_least64_t busy_ns;
	atomic_uint n_streams;
	pthread_cond_t stream_ended;
};

/* Connections. */

static struct connection *connection_of(struct web *w, struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info =
		w->api->get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void set_phase(struct connection *c, enum phase phase)
{
	pthread_mutex_lock(&c->web->lock);
	c->phase = phase;
	c->since_ns = clock_mono_ns();
	if (phase == PHASE_HEADERS)
		c->asked = c->streams = false;
	c->offered_ns = 0;
	pthread_mutex_unlock(&c->web->lock);
}

struct daemon_arg {
	struct web *web;
	struct listener *listener;
};

static void on_connection(void *arg, struct MHD_Connection *mhd, void **context,
			  enum MHD_ConnectionNotificationCode what)
{
	struct daemon_arg *d = arg;
	struct web *w = d->web;
	struct connection *c = *context;

	pthread_mutex_lock(&w->lock);
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		const union MHD_ConnectionInfo *info =
			w->api->get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);

		c = xcalloc(1, sizeof(*c));
		*c = (struct connection){ .web = w,
					  .listener = d->listener,
					  .fd = info ? info->connect_fd : -1,
					  .since_ns = clock_mono_ns() };
		VEC_PUSH(&w->connections, c);
		*context = c;
		atomic_fetch_add(&w->connections_total, 1);
	} else {
		for (size_t i = 0; i < w->connections.n; i++)
			if (w->connections.v[i] == c)
				w->connections.v[i--] = w->connections.v[--w->connections.n];
		free(c);
		*context = NULL;
	}
	pthread_mutex_unlock(&w->lock);
}

static int64_t time_allowed(const struct connection *c)
{
	if (c->phase != PHASE_ANSWER)
		return WEB_REQUEST_S * NS_PER_S;
	return (c->streams ? STREAM_MAX_S : WEB_ANSWER_S) * NS_PER_S;
}

/* Call it with `lock` held. A client that has sent part of a request gets 408; an idle connection
 * is just closed. */
static void shut_late(struct web *w, int64_t now)
{
	static const char late[] =
		"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

	for (size_t i = 0; i < w->connections.n; i++) {
		struct connection *c = w->connections.v[i];

		if (c->shut || c->fd < 0 ||
		    (now - c->since_ns < time_allowed(c) &&
		     (!c->offered_ns || now - c->offered_ns < WEB_SLOW_S * NS_PER_S)))
			continue;
		if (c->phase == PHASE_BODY || (c->phase == PHASE_HEADERS && c->asked))
			atomic_fetch_add(&w->status[408], 1);
		if (c->phase != PHASE_ANSWER &&
		    send(c->fd, late, sizeof(late) - 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
			/* The client doesn't read either. */
		}
		shutdown(c->fd, SHUT_RDWR);
		c->shut = true;
		atomic_fetch_add(&w->timeouts, 1);
	}
}

static void ask_waiting(struct web *w);

/* A renewed certificate is taken by itself. One that can't be used is reported once. */
static void look_at_certificate(struct web *w, int64_t now)
{
	struct err err = { 0 };
	int r;

	if (!w->o.tls_cert || now - w->certificate_ns < CERTIFICATE_NS)
		return;
	w->certificate_ns = now;
	r = tls_reload(false, &err);
	if (r > 0)
		event(EVENT_INFO, "certificate-renewed", NULL);
	if (r < 0 && !w->certificate_bad)
		event_err("certificate-unusable", w->o.tls_cert, &err);
	w->certificate_bad = r < 0;
}

static void on_tick(void *arg)
{
	struct web *w = arg;
	int64_t now = clock_mono_ns();

	look_at_certificate(w, now);

	pthread_mutex_lock(&w->lock);
	shut_late(w, now);
	pthread_mutex_unlock(&w->lock);
	ask_waiting(w);
	w->tick = loop_add_timer(w->loop, now + TICK_NS, on_tick, w);
}

/* Facts about a request. */

static const char *header(struct request *r, const char *name)
{
	return r->connection->web->api->lookup_connection_value(r->mhd, MHD_HEADER_KIND, name);
}

/* While a handler runs, the connection is suspended: nothing else reads the headers. */
const char *web_header(struct web_exchange *x, const char *name)
{
	return header(CONTAINER_OF(x, struct request, x), name);
}

const struct web_peer *web_peer(struct web_exchange *x)
{
	struct connection *c = CONTAINER_OF(x, struct request, x)->connection;

	if (!c->peer_known) {
		c->peer = (struct web_peer){ .local = c->listener->local,
					     .is_unix = c->listener->is_unix };
		peer_name(c->fd, &c->peer.name);
		c->peer_known = true;
	}
	return &c->peer;
}

bool web_peer_uid(struct web_exchange *x, uid_t *ret)
{
	struct connection *c = CONTAINER_OF(x, struct request, x)->connection;

	if (c->uid_state == UID_UNASKED)
		c->uid_state =
			c->listener->local && peer_uid(c->fd, &c->uid) ? UID_KNOWN : UID_UNKNOWN;
	*ret = c->uid;
	return c->uid_state == UID_KNOWN;
}

bool web_is_secure(struct web_exchange *x)
{
	struct connection *c = CONTAINER_OF(x, struct request, x)->connection;

	return c->web->o.tls_cert && !c->listener->is_unix;
}

int web_reload(struct web *w, struct err *err)
{
	return w->o.tls_cert && tls_reload(true, err) < 0 ? -1 : 0;
}

/* A request. */

static enum MHD_Result add_param(void *arg, enum MHD_ValueKind kind, const char *name,
				 const char *value)
{
	struct request *r = arg;
	struct web_exchange *x = &r->x;

	if (x->n_params == WEB_PARAMS_MAX)
		web_problem(x, 400, "more than %d parameters", WEB_PARAMS_MAX);
	else if (web_param(x, name))
		web_problem(x, 400, "parameter `%s` was given twice", name);
	else
		x->params[x->n_params++] =
			(struct web_param){ arena_strdup(x->arena, name),
					    arena_strdup(x->arena, value ? value : "") };
	return x->status ? MHD_NO : MHD_YES;
}

/* All headers about the request's end and host: libmicrohttpd acts only on the first of a name. */
struct framing {
	unsigned hosts, lengths, encodings;
	const char *length, *encoding;
	bool bad_name; /* also a folded line (obs-fold), which becomes part of a name or a value */
};

static enum MHD_Result look_at_header(void *arg, enum MHD_ValueKind kind, const char *name,
				      const char *value)
{
	struct framing *f = arg;

	f->bad_name |= !*name || strpbrk(name, " \t\r\n:") || (value && strpbrk(value, "\r\n"));
	if (strcasecmp(name, "Host") == 0)
		f->hosts++;
	if (strcasecmp(name, "Content-Length") == 0 && f->lengths++ == 0)
		f->length = value ? value : "";
	if (strcasecmp(name, "Transfer-Encoding") == 0 && f->encodings++ == 0)
		f->encoding = value ? value : "";
	return MHD_YES;
}

/* RFC 9112, 3.2, 5.1, 6.1 and 6.3. A proxy before us may see other requests in such bytes than we
 * do: they are refused, and so is everything after them on the connection. */
static void check_framing(struct web *w, struct request *r, const char *version)
{
	struct framing f = { 0 };
	size_t digits;

	w->api->get_connection_values(r->mhd, MHD_HEADER_KIND, look_at_header, &f);
	digits = f.length ? strspn(f.length, "0123456789") : 0;
	if (f.bad_name)
		web_problem(&r->x, 400, "a header line is malformed");
	else if (f.hosts > 1 || (f.hosts == 0 && strcmp(version, "HTTP/1.0") != 0))
		web_problem(&r->x, 400, "a request has one Host header");
	else if (f.lengths > 1 || (f.length && (digits == 0 || f.length[digits])))
		web_problem(&r->x, 400, "a request has at most one Content-Length, a number");
	else if (f.encodings && (f.encodings > 1 || f.lengths || strcmp(version, "HTTP/1.1") != 0 ||
				 strcasecmp(f.encoding, "chunked") != 0))
		web_problem(&r->x, 400,
			    "the only Transfer-Encoding is chunked, without a Content-Length, in "
			    "HTTP/1.1");
	else if (f.length && (digits > 15 || strtoull(f.length, NULL, 10) > WEB_BODY_MAX))
		web_problem(&r->x, 413, "a body has at most %llu bytes", WEB_BODY_MAX);
	r->close = r->x.status == 400;
}

static struct request *request_new(struct web *w, struct MHD_Connection *mhd, const char *path,
				   const char *method, const char *version)
{
	struct request *r = xcalloc(1, sizeof(*r));
	bool crowded;

	r->mhd = mhd;
	r->connection = connection_of(w, mhd);
	r->is_head = strcmp(method, "HEAD") == 0;
	r->x.arena = arena_new();
	r->x.method = r->is_head ? "GET" : arena_strdup(r->x.arena, method);
	r->x.path = arena_strdup(r->x.arena, path);
	r->x.content_type = header(r, "Content-Type");
	check_framing(w, r, version);
	pthread_mutex_lock(&w->lock);
	crowded = w->stopping || w->connections.n > w->connections_max;
	pthread_mutex_unlock(&w->lock);
	if (crowded) {
		r->x.head.retry_after_s = 1;
		web_problem(&r->x, 503, "too many connections: try again");
	}
	w->api->get_connection_values(mhd, MHD_GET_ARGUMENT_KIND, add_param, r);
	if (!r->x.status)
		w->o.route(w->o.arg, &r->x);
	return r;
}

/* Streams. */

/* The pool fills the block, libmicrohttpd's thread empties it, never at the same time: from
 * STREAM_ASKED until the bytes are there, the connection is suspended. */
struct streaming {
	struct web *web;
	struct connection *connection;
	struct MHD_Connection *mhd;
	struct web_stream s;
	struct MHD_Response *response; /* outlives this struct */
	bool trailers;                 /* the client accepts them */
	int fd;
	enum { STREAM_EMPTY, STREAM_ASKED, STREAM_FILLED } state;
	struct web_job job;
	unsigned waited; /* ticks without a look; under the server's lock */
	ssize_t came;    /* bytes in the block, or read()'s other result */
	size_t sent;     /* of them */
	char block[];    /* STREAM_BLOCK bytes */
};

static ssize_t fail_stream(struct streaming *s, const char *why)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (!why || !s->trailers)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	text_add_printable(&text, why, MIN(strlen(why), (size_t)WEB_PROBLEM_MAX));
	return s->web->api->add_response_footer(s->response, WEB_PROBLEM_TRAILER, text.s) == MHD_YES
		       ? MHD_CONTENT_READER_END_OF_STREAM
		       : MHD_CONTENT_READER_END_WITH_ERROR;
}

static bool is_stopping(struct web *w)
{
	bool stopping;

	pthread_mutex_lock(&w->lock);
	stopping = w->stopping;
	pthread_mutex_unlock(&w->lock);
	return stopping;
}

/* The connection continues when the job resumes it. False: the server has stopped. */
static bool suspend_for(struct web *w, struct MHD_Connection *mhd, struct web_pool *pool,
			struct web_job *job)
{
	bool stopped;

	pthread_mutex_lock(&w->lock);
	stopped = w->stopped;
	if (!stopped) {
		w->api->suspend_connection(mhd);
		web_pool_submit(pool, job);
	}
	pthread_mutex_unlock(&w->lock);
	return !stopped;
}

static void offer(struct streaming *s, int64_t at_ns)
{
	pthread_mutex_lock(&s->web->lock);
	s->connection->offered_ns = at_ns;
	pthread_mutex_unlock(&s->web->lock);
}

/* On a pool's thread. */
static void fill(void *arg)
{
	struct streaming *s = arg;
	struct web *w = s->web;
	bool waits;
	char c;

	s->came = s->s.read(s->s.arg, s->block, STREAM_BLOCK);
	s->sent = 0;
	if (s->came == WEB_STREAM_WAIT && recv(s->fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		s->came = WEB_STREAM_FAILED;
	pthread_mutex_lock(&w->lock);
	waits = s->came == WEB_STREAM_WAIT && !w->stopping;
	if (waits)
		VEC_PUSH(&w->waiting, s);
	pthread_mutex_unlock(&w->lock);
	if (waits)
		return;
	if (s->s.drops_slow)
		offer(s, clock_mono_ns());
	s->state = STREAM_FILLED;
	w->api->resume_connection(s->mhd);
}

static void ask_waiting(struct web *w)
{
	size_t kept = 0;

	pthread_mutex_lock(&w->lock);
	for (size_t i = 0; i < w->waiting.n; i++) {
		struct streaming *s = w->waiting.v[i];
		bool asks = !s->s.is_ready || w->stopping || ++s->waited >= HANG_UP_TICKS;
		bool ready = !asks && s->s.is_ready(s->s.arg);

		if (ready && s->s.take) {
			w->api->resume_connection(s->mhd);
		} else if (asks || ready) {
			s->waited = 0;
			web_pool_submit(w->work, &s->job);
		} else {
			w->waiting.v[kept++] = s;
		}
	}
	w->waiting.n = kept;
	pthread_mutex_unlock(&w->lock);
}

/* What take() gives; 0: nothing yet, and the connection waits for the tick. */
static ssize_t take(struct streaming *s, char *buf, size_t max)
{
	struct web *w = s->web;
	bool waits;
	ssize_t n;

	if (is_stopping(w))
		return fail_stream(s, STOPPING);
	n = s->s.take(s->s.arg, buf, max);
	offer(s, s->s.drops_slow && n > 0 ? clock_mono_ns() : 0);
	if (n != 0)
		return n;
	pthread_mutex_lock(&w->lock);
	waits = !w->stopping;
	if (waits) {
		w->api->suspend_connection(s->mhd);
		VEC_PUSH(&w->waiting, s);
	}
	pthread_mutex_unlock(&w->lock);
	return waits ? 0 : fail_stream(s, STOPPING);
}

static ssize_t on_stream_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct streaming *s = arg;
	size_t n;

	if (s->state != STREAM_FILLED && s->s.take)
		return take(s, buf, max);
	if (s->state != STREAM_FILLED) {
		s->state = STREAM_ASKED;
		if (s->s.drops_slow)
			offer(s, 0); /* libmicrohttpd has sent the last block */
		return suspend_for(s->web, s->mhd, s->web->work, &s->job)
			       ? 0
			       : fail_stream(s, STOPPING);
	}
	if (s->came == WEB_STREAM_WAIT || (s->came > 0 && s->s.follows && is_stopping(s->web)))
		return fail_stream(s, STOPPING);
	if (s->came == WEB_STREAM_FAILED)
		return fail_stream(s, s->s.why ? s->s.why(s->s.arg) : NULL);
	if (s->came == WEB_STREAM_END)
		return MHD_CONTENT_READER_END_OF_STREAM;
	n = MIN((size_t)s->came - s->sent, max);
	memcpy(buf, s->block + s->sent, n);
	s->sent += n;
	if (s->sent == (size_t)s->came)
		s->state = STREAM_EMPTY;
	return (ssize_t)n;
}

static void on_stream_free(void *arg)
{
	struct streaming *s = arg;
	struct web *w = s->web;

	if (s->s.free)
		s->s.free(s->s.arg);
	pthread_mutex_lock(&w->lock);
	atomic_fetch_sub(&w->n_streams, s->s.follows);
	pthread_cond_signal(&w->stream_ended);
	pthread_mutex_unlock(&w->lock);
	free(s);
}

static bool takes_trailers(struct request *r)
{
	const char *te = header(r, "TE");

	for (; te && *te; te += strcspn(te, ","), te += *te == ',') {
		te += strspn(te, " \t");
		if (strncasecmp(te, "trailers", 8) == 0 && strchr(" \t,", te[8]))
			return true;
	}
	return false;
}

static struct MHD_Response *stream_response(struct web *w, struct request *r)
{
	struct streaming *s = xmalloc(sizeof(*s) + STREAM_BLOCK);

	*s = (struct streaming){ .web = w };
	s->connection = r->connection;
	s->mhd = r->mhd;
	s->s = r->x.stream;
	s->trailers = takes_trailers(r);
	s->fd = r->connection->fd;
	s->job = (struct web_job){ .run = fill, .arg = s };
	r->x.stream = (struct web_stream){ 0 };
	atomic_fetch_add(&w->n_streams, s->s.follows);
	pthread_mutex_lock(&w->lock);
	r->connection->streams = s->s.follows;
	pthread_mutex_unlock(&w->lock);
	s->response = w->api->create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK,
							    on_stream_read, s, on_stream_free);
	return s->response;
}

/* Answers. */

static void add_header(struct web *w, struct MHD_Response *response, const char *name,
		       const char *value)
{
	if (value)
		w->api->add_response_header(response, name, value);
}

/* An ETag for the answer to a GET: a client that has the same one gets no body. */
static void tag(struct web *w, struct request *r, struct MHD_Response **response)
{
	const char *known = header(r, "If-None-Match"), *etag = r->x.head.etag;
	char hex[DIGEST_HEX_MAX];
	struct digest d;

	if (!etag) {
		digest_bytes(r->x.out.s ? r->x.out.s : "", r->x.out.len, &d);
		etag = arena_printf(r->x.arena, "\"%.32s\"", digest_hex(&d, hex));
	}
	if (known && strstr(known, etag)) {
		w->api->destroy_response(*response);
		*response =
			w->api->create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
		r->x.status = 304;
	}
	add_header(w, *response, "ETag", etag);
}

static void add_headers(struct web *w, struct request *r, struct MHD_Response *response)
{
	char seconds[16];

	if (r->x.status != 304 && r->x.status != 204)
		add_header(w, response, "Content-Type", r->x.type ? r->x.type : "application/json");
	add_header(w, response, "Cache-Control", r->x.head.cache ? r->x.head.cache : "no-store");
	add_header(w, response, "X-Content-Type-Options", "nosniff");
	add_header(w, response, "Referrer-Policy", "no-referrer");
	add_header(w, response, "Cross-Origin-Resource-Policy",
		   r->x.head.shared ? "cross-origin" : "same-origin");
	add_header(w, response, "Content-Security-Policy",
		   r->x.head.policy ? r->x.head.policy
				    : "default-src 'none'; frame-ancestors 'none'");
	for (size_t i = 0; i < r->x.n_headers; i++)
		add_header(w, response, r->x.headers[i].name, r->x.headers[i].value);
	add_header(w, response, "Allow", r->x.head.allow);
	add_header(w, response, "Location", r->x.head.location);
	if (r->close)
		add_header(w, response, "Connection", "close");
	if (r->x.status == 401)
		add_header(w, response, "WWW-Authenticate", "Bearer realm=\"cairn\"");
	if (r->x.head.retry_after_s) {
		snprintf(seconds, sizeof(seconds), "%u", r->x.head.retry_after_s);
		add_header(w, response, "Retry-After", seconds);
	}
}

static enum MHD_Result answer(struct web *w, struct request *r)
{
	struct MHD_Response *response;
	enum MHD_Result result;

	if (!r->x.status)
		web_problem(&r->x, 500, "no answer was found");
	if (r->x.stream.follows && atomic_load(&w->n_streams) >= WEB_STREAMS_MAX) {
		r->x.stream.free(r->x.stream.arg);
		r->x.stream = (struct web_stream){ 0 };
		r->x.status = 0;
		r->x.head.retry_after_s = 5;
		web_problem(&r->x, 503, "too many streams: try again");
	}
	set_phase(r->connection, PHASE_ANSWER);
	if (r->x.stream.read)
		response = stream_response(w, r);
	else if (r->x.file.fd > 0)
		response = w->api->create_response_from_fd_at_offset64(
			r->x.file.n, TAKE_FD(r->x.file.fd), r->x.file.at);
	else if (r->x.bytes)
		response = w->api->create_response_from_buffer(
			r->x.n_bytes, (void *)(uintptr_t)r->x.bytes, MHD_RESPMEM_PERSISTENT);
	else
		response = w->api->create_response_from_buffer(
			r->x.out.len, r->x.out.s ? r->x.out.s : (void *)"", MHD_RESPMEM_MUST_COPY);
	if (!response)
		return MHD_NO;
	if ((r->x.status == 200 || r->x.status == 206) && !r->x.stream.read &&
	    (r->x.out.len || r->x.bytes || r->x.head.etag) && strcmp(r->x.method, "GET") == 0)
		tag(w, r, &response);
	add_headers(w, r, response);
	assert(r->x.status < ARRAY_LEN(w->status));
	atomic_fetch_add(&w->status[r->x.status], 1);
	result = w->api->queue_response(r->mhd, r->x.status, response);
	w->api->destroy_response(response);
	return result;
}

/* On a pool's thread. Once resumed, the request may be freed before this returns. */
static void handle(void *arg)
{
	struct request *r = arg;
	struct web *w = r->connection->web;
	struct MHD_Connection *mhd = r->mhd;
	int64_t begun = clock_mono_ns();

	w->o.handle(w->o.arg, &r->x);
	atomic_fetch_add(&w->busy_ns, clock_mono_ns() - begun);
	r->handled = true;
	w->api->resume_connection(mhd);
}

/* Whether an error waits until the request's body has come, and was dropped. A connection that is
 * closed while bytes lie unread is reset, and then the client may never see the answer. Nothing
 * comes from a client that waits for "100 Continue". Deadlines are those of any body. */
static bool drops_body(struct request *r)
{
	const char *length = header(r, "Content-Length");

	if (r->close || r->x.status >= 500 || header(r, "Expect"))
		return false;
	return length ? strtoull(length, NULL, 10) <= DROP_MAX
		      : header(r, "Transfer-Encoding") != NULL;
}

static enum MHD_Result on_request(void *arg, struct MHD_Connection *mhd, const char *path,
				  const char *method, const char *version, const char *bytes,
				  size_t *n_bytes, void **context)
{
	struct web *w = ((struct daemon_arg *)arg)->web;
	struct request *r = *context;

	if (!r) {
		*context = r = request_new(w, mhd, path, method, version);
		set_phase(r->connection, PHASE_BODY);
		return r->x.status >= 400 && !drops_body(r) ? answer(w, r) : MHD_YES;
	}
	if (*n_bytes) {
		if (!r->x.status && r->x.body.len + *n_bytes > WEB_BODY_MAX)
			web_problem(&r->x, 413, "a body has at most %llu bytes", WEB_BODY_MAX);
		if (!r->x.status)
			str_addn(&r->x.body, bytes, *n_bytes);
		*n_bytes = 0; /* drop the excess; the answer follows the body's end */
		return MHD_YES;
	}

	if (!r->x.status && !r->handled) {
		set_phase(r->connection, PHASE_ANSWER);
		r->job = (struct web_job){ .run = handle, .arg = r };
		if (suspend_for(w, mhd, r->x.health ? w->health : w->work, &r->job))
			return MHD_YES; /* we are called again later */
		web_problem(&r->x, 503, STOPPING);
	}
	return answer(w, r);
}

static void on_completed(void *arg, struct MHD_Connection *mhd, void **context,
			 enum MHD_RequestTerminationCode why)
{
	struct request *r = *context;

	if (!r)
		return;
	set_phase(r->connection, PHASE_HEADERS);
	if (r->x.stream.free)
		r->x.stream.free(r->x.stream.arg);
	if (r->x.file.fd > 0)
		close(r->x.file.fd);
	str_deinit(&r->x.body);
	str_deinit(&r->x.out);
	arena_free(r->x.arena);
	free(r);
	*context = NULL;
}

static void *on_request_line(void *arg, const char *uri, struct MHD_Connection *mhd)
{
	struct web *w = ((struct daemon_arg *)arg)->web;
	struct connection *c = connection_of(w, mhd);

	if (c) {
		pthread_mutex_lock(&w->lock);
		c->asked = true;
		c->since_ns = MIN(c->since_ns, clock_mono_ns());
		pthread_mutex_unlock(&w->lock);
	}
	return NULL;
}

/* Clients' errors are logged only for debugging, so that they can't fill a disk. */
static void on_log(void *arg, const char *fmt, va_list ap) _printf_(2, 0);
static void on_log(void *arg, const char *fmt, va_list ap)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	str_addv(&text, fmt, ap);
	while (text.len && text.s[text.len - 1] == '\n')
		text.s[--text.len] = '\0';
	event(EVENT_DEBUG, "http", "{s:o}", "message", json_name(text.s ? text.s : "", text.len));
}

/* Start and end. */

static int start(struct web *w, size_t i, struct err *err)
{
	struct daemon_arg *d = xcalloc(1, sizeof(*d));
	struct listener *l = &w->listeners[i];
	bool secure = w->o.tls_cert && !l->is_unix;
	struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_CERT_CALLBACK, 0, tls_callback() },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES },
		{ MHD_OPTION_END, 0, NULL },
	};

	*d = (struct daemon_arg){ w, l };
	l->arg = d;
	w->daemons[i] = w->api->start_daemon(
		MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG |
			(secure ? MHD_USE_TLS : 0),
		0, NULL, NULL, on_request, d, MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL,
		MHD_OPTION_LISTEN_SOCKET, l->fd, MHD_OPTION_THREAD_POOL_SIZE,
		(unsigned)WEB_IO_THREADS, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)(w->connections_max + CONNECTIONS_OVER), MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned)INACTIVE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)MEMORY_PER_CONNECTION, MHD_OPTION_NOTIFY_CONNECTION, on_connection, d,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, d, MHD_OPTION_URI_LOG_CALLBACK,
		on_request_line, d, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_ARRAY,
		secure ? tls : &tls[2], MHD_OPTION_END);
	if (!w->daemons[i])
		return err_set(err, ERR_IO, "the HTTP server at %s cannot start", l->text);
	l->fd = -1; /* libmicrohttpd closes it */
	return 0;
}

int web_new(struct loop *l, const struct web_options *o, struct web **ret, struct err *err)
{
	struct web *w = xcalloc(1, sizeof(*w));
	struct rlimit files;

	assert(o->n_listeners <= ARRAY_LEN(w->daemons));
	w->loop = l;
	w->o = *o;
	/* Half of our descriptors are for databases, logs and runs. */
	w->connections_max = WEB_CONNECTIONS_MAX;
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		w->connections_max = MIN(w->connections_max, (size_t)files.rlim_cur / 2);
	pthread_mutex_init(&w->lock, NULL);
	thread_cond_init(&w->stream_ended);
	w->listeners = o->listeners;
	if (mhd_api_get(&w->api, err) < 0 ||
	    (o->tls_cert && tls_open(o->tls_cert, o->tls_key, err) < 0) ||
	    web_pool_new(WEB_THREADS, &w->work, err) < 0 || web_pool_new(1, &w->health, err) < 0) {
		web_free(w);
		return -1;
	}
	*ret = w; /* a request may come before this returns */

	for (w->n_listeners = 0; w->n_listeners < o->n_listeners; w->n_listeners++)
		if (start(w, w->n_listeners, err) < 0) {
			w->n_listeners++;
			*ret = NULL;
			web_free(w);
			return -1;
		}
	w->tick = loop_add_timer(l, clock_mono_ns() + TICK_NS, on_tick, w);
	return 0;
}

void web_free(struct web *w)
{
	struct timespec until;

	if (!w)
		return;
	loop_remove(w->loop, w->tick);
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_mutex_unlock(&w->lock);
	ask_waiting(w);
	/* libmicrohttpd cuts off answers when it is stopped, so streams end before. */
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LAST_WORDS_S;
	pthread_mutex_lock(&w->lock);
	while (atomic_load(&w->n_streams) &&
	       pthread_cond_timedwait(&w->stream_ended, &w->lock, &until) == 0)
		;
	w->stopped = true;
	pthread_mutex_unlock(&w->lock);
	web_pool_free(w->work);
	web_pool_free(w->health);

	for (size_t i = 0; i < w->n_listeners; i++) {
		if (w->daemons[i])
			w->api->stop_daemon(w->daemons[i]);
		free(w->listeners[i].arg);
		listener_close(&w->listeners[i]);
	}
	VEC_FREE(&w->connections);
	VEC_FREE(&w->waiting);
	pthread_cond_destroy(&w->stream_ended);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void web_counts(struct web *w, struct web_counts *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(ret->requests); i++)
		ret->requests[i] = atomic_load_explicit(&w->status[i], memory_order_relaxed);
	ret->connections_total = atomic_load(&w->connections_total);
	ret->timeouts = atomic_load(&w->timeouts);
	ret->busy_ns = atomic_load(&w->busy_ns);
	ret->streams = atomic_load(&w->n_streams);
	pthread_mutex_lock(&w->lock);
	ret->connections = w->connections.n;
	pthread_mutex_unlock(&w->lock);
}

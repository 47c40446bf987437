/* engine/base/net/http.c — clients and batches of requests.
 *
 * A client is one thread with one multi handle, which no other thread touches. Other threads hand
 * it batches under `lock` and wake it. client_main() repeats: take new batches, begin requests, let
 * libcurl work (http_events.c), collect ended transfers, end stalled ones.
 *
 * A batch lives on its caller's stack until the last of its requests has ended. release_batches()
 * hands it back under the lock and doesn't touch it afterwards. Batches take turns in starting
 * requests, each up to its own `parallel`, together up to the client's connections, so that libcurl
 * never queues by itself and a long batch doesn't starve a short one.
 *
 * A sink with `piece_bytes` runs on its caller's thread: the client's thread fills a piece and puts
 * it on the batch's list, and http_run() takes it from there. At PIECES_AHEAD pieces, over all
 * batches, the client's thread waits, and the network with it. Errors of such a sink go through
 * `refusals`, because the client's thread owns the request until the batch is done.
 *
 * Handles are kept in `idle` and reused. http_transfer.c handles one request, http_text.c headers
 * and escaping, http_curl.c loads libcurl. Only http_transfer_again() retries.
 */
#include "base/net/http.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include "base/net/http_internal.h"
#include "base/os/thread.h"
#include "base/time/clock.h"

#define CONNECTIONS_DEFAULT     64
#define CONNECT_TIMEOUT_DEFAULT (10 * NS_PER_S)
#define STALL_TIMEOUT_DEFAULT   (30 * NS_PER_S)
#define STALL_LOOKS             4 /* in the shortest patience of a running transfer */
#define STALL_LOOK_MAX          (5 * NS_PER_S)
/* Full pieces that wait for their sinks: 8 MiB of 256 KiB each. */
#define PIECES_AHEAD 32
#define IDLE_POLL_MS 3600000 /* no running transfers: until woken */

/* A sink on its caller's thread takes no more. */
struct refusal {
	struct http_request *r;
	struct err err;
};

struct http_batch {
	struct http_client *client;
	struct http_request *const *v;
	size_t n, next;
	VEC(struct http_request *)
	extra; /* requests from `more`; those from extra_next on haven't begun */
	size_t extra_next;
	unsigned parallel, running;
	struct http_request *(*more)(void *arg, struct http_request *ended);
	void *arg;
	bool done;
	struct http_piece *pieces, **last_piece; /* under the client's lock */
	VEC(struct refusal) refusals;            /* likewise */
	pthread_cond_t news;                     /* the batch is done, or there are pieces */
	struct http_batch *following;
};

struct http_client {
	const struct curl_api *api;
	struct http_settings settings;
	unsigned max_connections;
	CURLM *multi;
	struct http_events events;
	pthread_t thread;
	atomic_bool cancelled;

	pthread_mutex_t lock;
	struct http_batch *incoming; /* under lock */
	bool stop;                   /* under lock */
	struct http_piece *spare;    /* under lock: pieces for reuse */
	size_t n_ahead;              /* under lock: pieces on lists */
	pthread_cond_t taken;        /* a piece was taken */

	/* only for the client's thread */
	struct http_batch *batches;
	VEC(struct http_transfer *) running;
	VEC(CURL *) idle;
	int64_t next_look_ns;
};

/* Batches. */

static struct http_request *batch_pop(struct http_batch *b)
{
	struct http_request *r;

	if (b->extra_next < b->extra.n) {
		r = b->extra.v[b->extra_next++];
		if (b->extra_next == b->extra.n)
			b->extra_next = b->extra.n = 0;
		return r;
	}
	return b->next < b->n ? b->v[b->next++] : NULL;
}

static void batch_ended_one(struct http_batch *b, struct http_request *r)
{
	struct http_request *more = b->more ? b->more(b->arg, r) : NULL;

	if (more)
		VEC_PUSH(&b->extra, more);
}

/* Hands finished batches back to their callers. They are on the callers' stacks, so don't touch
 * them after the unlock. */
static void release_batches(struct http_client *c)
{
	for (struct http_batch **p = &c->batches, *b; (b = *p);) {
		if (b->running || b->next < b->n || b->extra_next < b->extra.n) {
			p = &b->following;
			continue;
		}
		*p = b->following;
		pthread_mutex_lock(&c->lock);
		b->done = true;
		pthread_cond_signal(&b->news);
		pthread_mutex_unlock(&c->lock);
	}
}

/* Appends new batches in their order of arrival. False: stop. */
static bool take_batches(struct http_client *c)
{
	struct http_batch *new, **tail = &c->batches;
	bool stop;

	pthread_mutex_lock(&c->lock);
	new = TAKE_PTR(c->incoming);
	stop = c->stop;
	pthread_mutex_unlock(&c->lock);
	while (*tail)
		tail = &(*tail)->following;
	*tail = new;
	return !stop;
}

/* Pieces. */

static struct http_piece *piece_new(struct http_client *c, struct http_request *r)
{
	struct http_piece *p;

	pthread_mutex_lock(&c->lock);
	p = c->spare;
	c->spare = p ? p->following : NULL;
	pthread_mutex_unlock(&c->lock);
	if (p && p->room < r->piece_bytes)
		free(TAKE_PTR(p));
	if (!p) {
		p = xmalloc(sizeof(*p) + r->piece_bytes);
		p->room = r->piece_bytes;
	}
	p->following = NULL;
	p->r = r;
	p->n = 0;
	return p;
}

static void spare_locked(struct http_client *c, struct http_piece *p)
{
	p->following = c->spare;
	c->spare = p;
}

static const struct refusal *refusal_locked(const struct http_batch *b,
					    const struct http_request *r)
{
	for (size_t i = 0; i < b->refusals.n; i++)
		if (b->refusals.v[i].r == r)
			return &b->refusals.v[i];
	return NULL;
}

/* `keep`: gives the piece to the sink; else drops it. */
static int hand_over(struct http_transfer *t, bool keep)
{
	struct http_piece *p = TAKE_PTR(t->piece);
	struct http_batch *b = t->batch;
	struct http_client *c = b->client;

	pthread_mutex_lock(&c->lock);
	while (keep && c->n_ahead >= PIECES_AHEAD)
		pthread_cond_wait(&c->taken, &c->lock);
	keep = keep && !refusal_locked(b, t->r);
	if (keep) {
		*b->last_piece = p;
		b->last_piece = &p->following;
		c->n_ahead++;
		pthread_cond_signal(&b->news);
	} else {
		spare_locked(c, p);
	}
	pthread_mutex_unlock(&c->lock);
	return keep ? 0 : -1;
}

int http_pieces_add(struct http_transfer *t, const char *bytes, size_t n)
{
	while (n) {
		struct http_piece *p;
		size_t take;

		if (!t->piece)
			t->piece = piece_new(t->batch->client, t->r);
		p = t->piece;
		take = MIN(n, t->r->piece_bytes - p->n);
		memcpy(p->bytes + p->n, bytes, take);
		p->n += take;
		bytes += take;
		n -= take;
		if (p->n == t->r->piece_bytes && hand_over(t, true) < 0)
			return -1;
	}
	return 0;
}

/* Runs sinks until the batch is done and all its pieces are taken. */
static void take_pieces(struct http_batch *b)
{
	struct http_client *c = b->client;

	pthread_mutex_lock(&c->lock);
	while (!b->done || b->pieces) {
		struct http_piece *p = b->pieces;
		struct refusal no = { 0 };

		if (!p) {
			pthread_cond_wait(&b->news, &c->lock);
			continue;
		}
		b->pieces = p->following;
		if (!b->pieces)
			b->last_piece = &b->pieces;
		if (!refusal_locked(b, p->r)) {
			pthread_mutex_unlock(&c->lock);
			if (p->r->sink(p->r->arg, p->bytes, p->n, &no.err) != 0)
				no.r = p->r;
			pthread_mutex_lock(&c->lock);
		}
		if (no.r && !no.err.code)
			err_set(&no.err, ERR_IO, "the answer cannot be taken");
		if (no.r)
			VEC_PUSH(&b->refusals, no);
		spare_locked(c, p);
		c->n_ahead--;
		pthread_cond_signal(&c->taken);
	}
	pthread_mutex_unlock(&c->lock);
}

/* A sink's error wins over the request's result, which it may have caused. */
static void note_refusals(struct http_batch *b)
{
	for (size_t i = 0; i < b->refusals.n; i++) {
		struct refusal *no = &b->refusals.v[i];
		struct str place = { 0 };

		http_add_place(&place, no->r->method, no->r->url);
		no->r->err = no->err;
		err_wrap(&no->r->err, "%s", place.s);
		str_deinit(&place);
	}
	VEC_FREE(&b->refusals);
}

static void free_spare(struct http_client *c)
{
	struct http_piece *spare;

	pthread_mutex_lock(&c->lock);
	spare = TAKE_PTR(c->spare);
	pthread_mutex_unlock(&c->lock);
	for (struct http_piece *p; (p = spare);) {
		spare = p->following;
		free(p);
	}
}

/* Transfers. */

static void end_transfer(struct http_client *c, struct http_transfer *t, CURLcode code)
{
	struct http_batch *b = t->batch;
	struct http_request *r = t->r;

	if (t->piece)
		hand_over(t, code == CURLE_OK && !r->err.code);
	http_transfer_end(t, code);
	if (t->easy)
		VEC_PUSH(&c->idle, t->easy);
	free(t);
	b->running--;
	batch_ended_one(b, r);
}

/* Also removes it from the list of running transfers. */
static void finish(struct http_client *c, struct http_transfer *t, CURLcode code)
{
	struct http_transfer *last = c->running.v[--c->running.n];

	c->running.v[t->index] = last;
	last->index = t->index;
	c->api->multi_remove_handle(c->multi, t->easy);
	end_transfer(c, t, code);
}

/* Transfers are looked at for stalls a few times in the patience of each. */
static void look_soon(struct http_client *c, const struct http_transfer *t, int64_t now_ns)
{
	int64_t wait = MIN(http_transfer_stall_ns(t) / STALL_LOOKS, STALL_LOOK_MAX);

	c->next_look_ns = MIN(c->next_look_ns, now_ns + MAX(wait, NS_PER_MS));
}

static void begin(struct http_client *c, struct http_batch *b, struct http_request *r)
{
	struct http_transfer *t = xcalloc(1, sizeof(*t));

	t->api = c->api;
	t->settings = &c->settings;
	t->batch = b;
	t->r = r;
	t->easy = c->idle.n ? c->idle.v[--c->idle.n] : http_easy_new(c->api, &c->settings);
	b->running++;
	if (!t->easy)
		mem_die(0);
	if (http_transfer_setup(t) < 0 || c->api->multi_add_handle(c->multi, t->easy) != CURLM_OK) {
		end_transfer(c, t, CURLE_FAILED_INIT);
		return;
	}
	t->index = c->running.n;
	VEC_PUSH(&c->running, t);
	look_soon(c, t, clock_mono_ns());
}

static void begin_some(struct http_client *c)
{
	bool any = true;

	while (any && c->running.n < c->max_connections) {
		any = false;
		for (struct http_batch *b = c->batches; b && c->running.n < c->max_connections;
		     b = b->following) {
			struct http_request *r = b->running < b->parallel ? batch_pop(b) : NULL;

			if (r) {
				begin(c, b, r);
				any = true;
			}
		}
	}
}

static void cancel_all(struct http_client *c)
{
	while (c->running.n) {
		struct http_transfer *t = c->running.v[c->running.n - 1];

		if (!t->r->err.code)
			err_set(&t->r->err, ERR_CANCELLED, "cancelled");
		finish(c, t, CURLE_ABORTED_BY_CALLBACK);
	}
	for (struct http_batch *b = c->batches; b; b = b->following) {
		for (struct http_request *r; (r = batch_pop(b));) {
			err_set(&r->err, ERR_CANCELLED, "cancelled");
			batch_ended_one(b, r);
		}
	}
}

static void collect(struct http_client *c)
{
	struct http_transfer *t;
	const CURLMsg *m;
	CURLcode code;
	int left;

	while ((m = c->api->multi_info_read(c->multi, &left))) {
		if (m->msg != CURLMSG_DONE)
			continue;
		code = m->data.result; /* before the handle, which owns the message, is removed */
		c->api->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
		if (http_transfer_again(t, code)) {
			c->api->multi_remove_handle(c->multi, t->easy);
			if (c->api->multi_add_handle(c->multi, t->easy) == CURLM_OK)
				continue;
		}
		finish(c, t, code);
	}
}

static void end_stalled(struct http_client *c)
{
	int64_t now = clock_mono_ns();

	if (now < c->next_look_ns)
		return;
	c->next_look_ns = INT64_MAX;
	for (size_t i = c->running.n; i-- > 0;) {
		if (http_transfer_stalled(c->running.v[i], now))
			finish(c, c->running.v[i], CURLE_OPERATION_TIMEDOUT);
		else
			look_soon(c, c->running.v[i], now);
	}
}

static int poll_ms(const struct http_client *c)
{
	int64_t left;

	if (!c->running.n)
		return IDLE_POLL_MS;
	left = (c->next_look_ns - clock_mono_ns()) / NS_PER_MS + 1;
	return (int)MAX(MIN(left, (int64_t)IDLE_POLL_MS), 0);
}

static void *client_main(void *arg)
{
	struct http_client *c = arg;

	while (take_batches(c)) {
		if (atomic_load(&c->cancelled))
			cancel_all(c);
		else
			begin_some(c);
		release_batches(c); /* also those that ended without beginning */
		if (!c->running.n)
			free_spare(c);
		http_events_turn(&c->events, poll_ms(c));
		collect(c);
		end_stalled(c);
		release_batches(c);
	}
	return NULL;
}

/* Functions for other threads. */

static char *environment(const char *lower, const char *upper)
{
	const char *v = getenv(lower);

	if (!v || !*v)
		v = upper ? getenv(upper) : NULL;
	return v && *v ? xstrdup(v) : NULL;
}

/* Reads the environment here, once: libcurl would call getenv() on its thread. libcurl also ignores
 * HTTP_PROXY, which is dangerous only in CGI programs. */
static void settings_init(struct http_settings *s, const struct http_options *o)
{
	/* The program may have been built on another distribution. */
	const char *system = http_ca_file();

	*s = (struct http_settings){
		.ca_file = o->ca_file ? xstrdup(o->ca_file) : environment("SSL_CERT_FILE", NULL),
		.user_agent = xstrdup(o->user_agent ? o->user_agent : "cairn/" CAIRN_VERSION),
		.connect_timeout_ms = (long)MAX(
			(o->connect_timeout_ns ? o->connect_timeout_ns : CONNECT_TIMEOUT_DEFAULT) /
				NS_PER_MS,
			1),
		.stall_timeout_ns =
			o->stall_timeout_ns ? o->stall_timeout_ns : STALL_TIMEOUT_DEFAULT,
		.ca_pem = o->ca_pem ? xstrdup(o->ca_pem) : NULL,
		.cert_pem = o->cert_pem ? xstrdup(o->cert_pem) : NULL,
		.key_pem = o->key_pem ? xstrdup(o->key_pem) : NULL,
		.server_name = o->server_name ? xstrdup(o->server_name) : NULL,
		.insecure = o->insecure,
	};
	if (!s->ca_file && system)
		s->ca_file = xstrdup(system);
	if (o->proxy) {
		s->proxy_http = xstrdup(o->proxy);
		s->proxy_https = xstrdup(o->proxy);
	} else {
		s->proxy_http = environment("http_proxy", "HTTP_PROXY");
		s->proxy_https = environment("https_proxy", "HTTPS_PROXY");
		s->no_proxy = environment("no_proxy", "NO_PROXY");
	}
	s->proxy_http = s->proxy_http ? s->proxy_http : environment("all_proxy", "ALL_PROXY");
	s->proxy_https = s->proxy_https ? s->proxy_https : environment("all_proxy", "ALL_PROXY");
	s->proxy_http = s->proxy_http ? s->proxy_http : xstrdup("");
	s->proxy_https = s->proxy_https ? s->proxy_https : xstrdup("");
	s->no_proxy = s->no_proxy ? s->no_proxy : xstrdup("");
}

static void settings_deinit(struct http_settings *s)
{
	free(s->ca_file);
	free(s->user_agent);
	free(s->proxy_http);
	free(s->proxy_https);
	free(s->no_proxy);
	free(s->ca_pem);
	free(s->cert_pem);
	if (s->key_pem)
		explicit_bzero(s->key_pem, strlen(s->key_pem));
	free(s->key_pem);
	free(s->server_name);
}

static void client_deinit(struct http_client *c)
{
	for (size_t i = 0; i < c->idle.n; i++)
		c->api->easy_cleanup(c->idle.v[i]);
	c->api->multi_cleanup(c->multi);
	http_events_deinit(&c->events);
	VEC_FREE(&c->idle);
	VEC_FREE(&c->running);
	free_spare(c);
	pthread_cond_destroy(&c->taken);
	pthread_mutex_destroy(&c->lock);
	settings_deinit(&c->settings);
	free(c);
}

int http_client_new(const struct http_options *o, struct http_client **ret, struct err *err)
{
	const struct curl_api *api;
	struct http_client *c;
	int r;

	if (curl_api_get(&api, err) < 0)
		return -1;
	c = xcalloc(1, sizeof(*c));
	c->api = api;
	settings_init(&c->settings, o);
	c->max_connections = o->max_connections ? o->max_connections : CONNECTIONS_DEFAULT;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->taken, NULL);
	c->multi = api->multi_init();
	if (!c->multi)
		mem_die(0);
	api->multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)c->max_connections);
	api->multi_setopt(c->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)c->max_connections);
	api->multi_setopt(c->multi, CURLMOPT_PIPELINING, CURLPIPE_NOTHING);
	r = http_events_init(&c->events, api, c->multi, err);
	if (r == 0 && (errno = thread_start(&c->thread, NULL, client_main, c)) != 0)
		r = err_errno(err, "cannot start a thread for the network");
	if (r < 0) {
		client_deinit(c);
		return -1;
	}
	*ret = c;
	return 0;
}

void http_client_free(struct http_client *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->stop = true;
	pthread_mutex_unlock(&c->lock);
	http_events_wake(&c->events);
	pthread_join(c->thread, NULL);
	assert(!c->batches && !c->incoming && !c->running.n);
	client_deinit(c);
}

void http_run(struct http_client *c, struct http_request *const *v, size_t n, unsigned parallel,
	      struct http_request *(*more)(void *arg, struct http_request *ended), void *arg)
{
	struct http_batch b = { .client = c,
				.v = v,
				.n = n,
				.parallel = parallel ? parallel : c->max_connections,
				.more = more,
				.arg = arg };
	struct http_batch **tail = &c->incoming;

	for (size_t i = 0; i < n; i++)
		assert(v[i]->sink || !v[i]->piece_bytes);
	assert(!pthread_equal(pthread_self(),
			      c->thread)); /* a sink or `more` would wait for its own thread */
	if (!n)
		return;
	b.last_piece = &b.pieces;
	pthread_cond_init(&b.news, NULL);
	pthread_mutex_lock(&c->lock);
	while (*tail)
		tail = &(*tail)->following;
	*tail = &b;
	pthread_mutex_unlock(&c->lock);
	http_events_wake(&c->events);
	take_pieces(&b);
	note_refusals(&b);
	pthread_cond_destroy(&b.news);
	VEC_FREE(&b.extra);
}

int http_do(struct http_client *c, struct http_request *r, struct err *err)
{
	http_run(c, &r, 1, 1, NULL, NULL);
	if (!r->err.code)
		return 0;
	if (err)
		*err = r->err;
	return -1;
}

void http_cancel(struct http_client *c)
{
	atomic_store(&c->cancelled, true);
	http_events_wake(&c->events);
}

void http_request_deinit(struct http_request *r)
{
	str_deinit(&r->reply.headers);
	str_deinit(&r->reply.trailers);
	str_deinit(&r->reply.body);
}

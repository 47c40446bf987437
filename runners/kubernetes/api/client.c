/* runners/kubernetes/api/client.c — requests to the API server: rate, credentials, retries, errors.
 *
 * kube_do() writes the body once and runs tries. try_once() waits for a token of the bucket, fills
 * the headers, borrows a connection and blocks in http_do(). again_ns() decides whether another try
 * follows, and when; a 401 leads to one more try with new credentials. refuse() turns an answer
 * that isn't 2xx into an error (code_of()) with the server's message.
 *
 * A connection is an HTTP client with one client certificate. When a credential program gives a new
 * certificate, a new connection replaces it; an older one stays in the list as long as requests use
 * it (`users`).
 *
 * Any number of threads. The lock covers the list of connections and the token bucket; no request
 * is made under it. All sleeps wait on `wake`, so that kube_client_cancel() ends them; `cancelled`
 * never goes back to false. credential.c provides the identity, access.c the cluster. This file
 * doesn't know what an answer means for a Job.
 */
#include "runners/kubernetes/api/client.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/os/machine.h"
#include "base/os/thread.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "runners/kubernetes/api/credential.h"

#define TRIES_MAX            10
#define TIMEOUT_DEFAULT_NS   (60 * NS_PER_S)
#define RETRY_FOR_DEFAULT_NS (60 * NS_PER_S)
#define WAIT_MIN_NS          (200 * NS_PER_MS)
#define WAIT_MAX_NS          (10 * NS_PER_S)
#define RETRY_AFTER_MAX_NS   (120 * NS_PER_S)
#define LIST_PAGE            500 /* client-go's */
/* A list that expires on the server this often before its end is too slow to be read at all. */
#define LISTS_MAX 3

/* An HTTP client with one client certificate. A new one replaces it when the certificate is
 * renewed. */
struct connection {
	struct http_client *http;
	uint64_t generation;
	unsigned users; /* under the client's lock */
	struct connection *older;
};

struct kube_client {
	const struct kube_access *access;
	struct kube_client_options o;
	struct kube_credential *credential;
	atomic_bool cancelled;
	atomic_uint_fast64_t requests;

	pthread_mutex_t lock;
	pthread_cond_t wake;           /* cancelled */
	struct connection *connection; /* under lock: the newest, and older ones in use */
	double tokens;                 /* under lock */
	int64_t tokens_at_ns;          /* under lock */
};

/* Connections. */

struct certificate {
	struct str cert, key; /* PEM; empty: none is sent */
	uint64_t generation;
};

static void certificate_deinit(struct certificate *t)
{
	str_deinit(&t->cert);
	str_wipe(&t->key);
}

static int connect_new(struct kube_client *c, const struct certificate *t, struct connection **ret,
		       struct err *err)
{
	const struct kube_access *a = c->access;
	struct http_options o = { .ca_pem = a->ca_pem,
				  .server_name = a->tls_server_name,
				  .insecure = a->insecure,
				  .proxy = a->proxy,
				  .max_connections =
					  c->o.max_connections ? c->o.max_connections : 16 };
	struct connection *n = xcalloc(1, sizeof(*n));

	n->generation = t->generation;
	if (t->cert.len) {
		o.cert_pem = t->cert.s;
		o.key_pem = t->key.s;
	}
	if (http_client_new(&o, &n->http, err) < 0) {
		free(n);
		return -1;
	}
	*ret = n;
	return 0;
}

static void drop_unused(struct kube_client *c)
{
	for (struct connection **p = &c->connection->older, *old; (old = *p);) {
		if (old->users) {
			p = &old->older;
			continue;
		}
		*p = old->older;
		http_client_free(old->http);
		free(old);
	}
}

/* The connection to use now; a new certificate from the program gives a new one. The program may
 * take a minute, so it runs before the lock is taken: kube_client_cancel() needs the lock. */
static int take_connection(struct kube_client *c, struct connection **ret, struct err *err)
{
	_cleanup_(certificate_deinit) struct certificate t = { 0 };
	struct connection *n = NULL;
	int r = 0;

	if (c->access->exec &&
	    kube_credential_certificate(c->credential, &t.cert, &t.key, &t.generation, err) < 0)
		return -1;
	pthread_mutex_lock(&c->lock);
	/* Another thread may have set a newer one. */
	if (t.generation > c->connection->generation) {
		r = connect_new(c, &t, &n, err);
		if (r == 0) {
			n->older = c->connection;
			c->connection = n;
			drop_unused(c);
		}
	}
	if (r == 0) {
		c->connection->users++;
		*ret = c->connection;
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

int kube_client_new(const struct kube_access *a, const struct kube_client_options *o,
		    struct kube_client **ret, struct err *err)
{
	_cleanup_(certificate_deinit) struct certificate t = { 0 };
	struct kube_client *c = xcalloc(1, sizeof(*c));

	c->access = a;
	c->o = *o;
	c->o.qps = o->qps > 0 ? o->qps : 100;
	c->o.burst = o->burst ? o->burst : 200;
	c->o.retry_for_ns = o->retry_for_ns ? o->retry_for_ns : RETRY_FOR_DEFAULT_NS;
	c->tokens = c->o.burst;
	c->tokens_at_ns = clock_mono_ns();
	c->credential = kube_credential_new(a);
	pthread_mutex_init(&c->lock, NULL);
	thread_cond_init(&c->wake);
	if (kube_credential_certificate(c->credential, &t.cert, &t.key, &t.generation, err) < 0 ||
	    connect_new(c, &t, &c->connection, err) < 0) {
		kube_client_free(c);
		return -1;
	}
	*ret = c;
	return 0;
}

void kube_client_free(struct kube_client *c)
{
	if (!c)
		return;
	for (struct connection *n = c->connection, *older; n; n = older) {
		older = n->older;
		http_client_free(n->http);
		free(n);
	}
	kube_credential_free(c->credential);
	pthread_cond_destroy(&c->wake);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void kube_client_cancel(struct kube_client *c)
{
	atomic_store(&c->cancelled, true);
	pthread_mutex_lock(&c->lock);
	for (struct connection *n = c->connection; n; n = n->older)
		http_cancel(n->http);
	pthread_cond_broadcast(&c->wake);
	pthread_mutex_unlock(&c->lock);
}

const struct kube_access *kube_client_access(const struct kube_client *c)
{
	return c->access;
}

/* lint: unused but by tests: they count */
uint64_t kube_client_requests(const struct kube_client *c)
{
	return atomic_load(&c->requests);
}

/* Waiting. */

static int cancelled(struct err *err)
{
	return err_set(err, ERR_CANCELLED, "cancelled");
}

/* Under lock. -1: cancelled meanwhile. */
static int sleep_locked(struct kube_client *c, int64_t ns)
{
	int64_t end = clock_mono_ns() + ns;
	struct timespec t = { .tv_sec = end / NS_PER_S, .tv_nsec = end % NS_PER_S };

	while (!atomic_load(&c->cancelled) && clock_mono_ns() < end)
		pthread_cond_timedwait(&c->wake, &c->lock, &t);
	return atomic_load(&c->cancelled) ? -1 : 0;
}

/* The rate limit. */
static int take_token(struct kube_client *c, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&c->lock);
	for (;;) {
		int64_t now = clock_mono_ns();

		c->tokens = MIN(c->tokens + c->o.qps * (double)(now - c->tokens_at_ns) /
						    (double)NS_PER_S,
				(double)c->o.burst);
		c->tokens_at_ns = now;
		if (atomic_load(&c->cancelled)) {
			r = cancelled(err);
			break;
		}
		if (c->tokens >= 1) {
			c->tokens--;
			break;
		}
		sleep_locked(c,
			     (int64_t)((1 - c->tokens) / c->o.qps * (double)NS_PER_S) + NS_PER_MS);
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}

static int pause_for(struct kube_client *c, int64_t ns, struct err *err)
{
	int r;

	pthread_mutex_lock(&c->lock);
	r = sleep_locked(c, ns);
	pthread_mutex_unlock(&c->lock);
	return r < 0 ? cancelled(err) : 0;
}

/* Doubling, with full jitter. */
static int64_t wait_ns(unsigned tries)
{
	int64_t top = backoff_ns(WAIT_MIN_NS, WAIT_MAX_NS, tries + 1);

	return WAIT_MIN_NS / 4 + (int64_t)(random_u64() % (uint64_t)top);
}

/* One try. */

/* One header for each group to act as: without one, the identity would be another. */
struct headers {
	VEC(char *) v; /* NULL-terminated when complete */
};

static void add_header(struct headers *h, const char *name, const char *value)
{
	if (value)
		VEC_PUSH(&h->v, xasprintf("%s: %s", name, value));
}

static void headers_deinit(struct headers *h)
{
	for (size_t i = 0; i < h->v.n; i++) {
		if (h->v.v[i])
			explicit_bzero(h->v.v[i], strlen(h->v.v[i]));
		free(h->v.v[i]);
	}
	VEC_FREE(&h->v);
}

static int fill_headers(struct kube_client *c, const struct kube_call *call, bool refused,
			struct headers *h, struct err *err)
{
	const struct kube_access *a = c->access;
	struct str auth = { 0 };
	int r = kube_credential_header(c->credential, refused, &auth, err);

	if (r == 0) {
		add_header(h, "Accept", call->accept ? call->accept : "application/json");
		if (call->body)
			add_header(h, "Content-Type",
				   call->content_type ? call->content_type : "application/json");
		if (auth.len)
			add_header(h, "Authorization", auth.s);
		add_header(h, "Impersonate-User", a->as_user);
		add_header(h, "Impersonate-Uid", a->as_uid);
		for (size_t i = 0; a->as_groups && a->as_groups[i]; i++)
			add_header(h, "Impersonate-Group", a->as_groups[i]);
	}
	VEC_PUSH(&h->v, NULL);
	str_wipe(&auth);
	return r;
}

static int try_once(struct kube_client *c, const struct kube_call *call, const struct str *body,
		    bool refused, struct http_request *r, struct err *err)
{
	_cleanup_(freep) char *url = xasprintf("%s%s", c->access->server, call->path);
	_cleanup_(headers_deinit) struct headers h = { 0 };
	struct connection *n = NULL;
	int result;

	if (take_token(c, err) < 0 || fill_headers(c, call, refused, &h, err) < 0 ||
	    take_connection(c, &n, err) < 0)
		return -1;
	*r = (struct http_request){ .method = call->method,
				    .url = url,
				    .headers = (const char *const *)h.v.v,
				    .body = body->s,
				    .body_len = body->len,
				    .body_fd = -1,
				    .max_bytes = call->sink ? UINT64_MAX : KUBE_ANSWER_MAX,
				    .sink = call->sink,
				    .arg = call->arg,
				    .quiet_timeout_ns = call->quiet_timeout_ns,
				    .timeout_ns = call->sink         ? call->timeout_ns
						  : call->timeout_ns ? call->timeout_ns
								     : TIMEOUT_DEFAULT_NS };
	atomic_fetch_add(&c->requests, 1);
	result = http_do(n->http, r, err);
	pthread_mutex_lock(&c->lock);
	n->users--;
	pthread_mutex_unlock(&c->lock);
	r->url = NULL;
	r->headers = NULL;
	return result;
}

/* The answer. */

/* Only the text of the message tells. The API server refuses a request over quota in the same way
 * as one that RBAC or Pod Security forbids: 403, reason "Forbidden" and no causes in its details
 * (k8s.io/apiserver, admission/plugin/resourcequota: "exceeded quota: NAME, requested: ..."; a
 * webhook's own message comes after "admission webhook ... denied the request"). A wrong guess
 * changes the message, and whether the attempt waits. */
static bool is_over_quota(const struct kube_call *call, const char *message)
{
	return str_eq(call->reason, "Forbidden") &&
	       !str_has_prefix(message, "admission webhook ") &&
	       strstr(message, " is forbidden: exceeded quota: ");
}

static enum err_code code_of(const struct kube_call *call, const char *message)
{
	switch (call->status) {
	case 404:
		return ERR_NOT_FOUND;
	case 409:
		return str_eq(call->reason, "AlreadyExists") ? ERR_EXISTS : ERR_CHANGED;
	case 410:
		return ERR_CHANGED;
	case 413:
		return ERR_TOO_LARGE;
	case 403:
		return is_over_quota(call, message) ? ERR_NO_SPACE : ERR_INVALID;
	case 400:
	case 401:
	case 405:
	case 415:
	case 422:
		return ERR_INVALID;
	default:
		return ERR_IO;
	}
}

/* An answer that isn't 2xx: a Status object has the server's message. */
static int refuse(struct kube_client *c, struct kube_call *call, struct err *err)
{
	const char *message = NULL, *reason = NULL;

	if (json_is_object(call->json)) {
		message = json_string_value(json_object_get(call->json, "message"));
		reason = json_string_value(json_object_get(call->json, "reason"));
	}
	if (reason)
		snprintf(call->reason, sizeof(call->reason), "%s", reason);
	if (!message)
		message = call->text.len ? call->text.s : "no reason is given";
	return err_set(
		err, code_of(call, message), "Kubernetes at %s: %s %.*s: %ld: %.600s%s",
		c->access->server, call->method, (int)strcspn(call->path, "?"), call->path,
		call->status, message,
		call->status == 401
			? " (the credentials were refused: see `cairn doctor --on kubernetes`)"
			: "");
}

static void take_answer(struct kube_call *call, struct http_request *r)
{
	kube_call_deinit(call);
	call->status = r->reply.status;
	if (json_parse("answer", r->reply.body.s ? r->reply.body.s : "", r->reply.body.len,
		       &call->json, NULL) < 0)
		call->json = NULL;
	if (!call->json)
		str_addn(&call->text, r->reply.body.s ? r->reply.body.s : "", r->reply.body.len);
}

/* The pause before the next try; -1: no next try. `result`: of this try. */
static int64_t again_ns(const struct kube_call *call, const struct http_request *r, int result,
			unsigned tries, int64_t left_ns)
{
	bool safe = call->repeatable || str_eq(call->method, "GET");
	int64_t asked = MIN(r->reply.retry_after_ns, RETRY_AFTER_MAX_NS);
	size_t n;

	if (call->once || (call->sink && r->reply.body_bytes))
		return -1;
	if (result == 0 && (r->reply.status == 429 || r->reply.status >= 500) &&
	    http_header(r, "Retry-After", &n)) /* also "0": not processed at all */
		return tries < TRIES_MAX ? asked + wait_ns(0) : -1;
	if (!safe || left_ns <= 0 || (result < 0 && r->err.code != ERR_IO))
		return -1;
	return result < 0 || r->reply.status == 429 || r->reply.status >= 500 ? wait_ns(tries) : -1;
}

int kube_do(struct kube_client *c, struct kube_call *call, struct err *err)
{
	_cleanup_(str_deinit) struct str body = { 0 };
	int64_t end = clock_mono_ns() + c->o.retry_for_ns;
	bool refused = false;

	assert(call->method && call->path);
	if (call->body)
		json_add_canonical(&body, call->body);
	for (unsigned tries = 0;; tries++) {
		struct http_request r = { 0 };
		struct err why = { 0 };
		int result = try_once(c, call, &body, refused, &r, &why);
		int64_t wait =
			r.method ? again_ns(call, &r, result, tries, end - clock_mono_ns()) : -1;
		bool new_credentials = result == 0 && r.reply.status == 401 && !refused &&
				       (c->access->exec || c->access->token_file);

		if (wait < 0 && !new_credentials) {
			if (result == 0)
				take_answer(call, &r);
			else
				call->status = call->sink ? r.reply.status : 0;
			http_request_deinit(&r);
			if (result < 0)
				return err_set(err, why.code, "Kubernetes at %s: %s",
					       c->access->server, why.msg);
			return call->status >= 200 && call->status < 300 ? 0 : refuse(c, call, err);
		}
		http_request_deinit(&r);
		refused |= new_credentials;
		if (!new_credentials && pause_for(c, wait, err) < 0)
			return -1;
	}
}

void kube_call_deinit(struct kube_call *call)
{
	json_decref(call->json);
	call->json = NULL;
	str_deinit(&call->text);
	call->text = (struct str){ 0 };
	call->reason[0] = '\0';
}

/* *token: the next page; "" after the last one, and when the list begins again. */
static int list_page(struct kube_client *c, const struct kube_list *l, struct str *token,
		     bool *ret_forgotten, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 }, next = { 0 };
	struct kube_call call = { .method = "GET",
				  .accept = l->accept,
				  .timeout_ns = l->timeout_ns };
	const json_t *items;
	const char *more;
	int r;

	kube_add_path(&path, l->group, l->version, l->ns, l->resource, NULL);
	str_addf(&path, "?limit=%d&", LIST_PAGE);
	kube_add_selector(&path, l->label_selector);
	if (token->len)
		str_addf(&path, "&continue=%s", token->s);
	call.path = path.s;
	r = kube_do(c, &call, err);
	items = json_object_get(call.json, "items");
	for (size_t i = 0; r == 0 && i < json_array_size(items); i++)
		r = l->item(l->arg, json_array_get(items, i), err);
	more = r == 0 ? json_string_value(
				json_object_get(json_object_get(call.json, "metadata"), "continue"))
		      : NULL;
	*ret_forgotten = call.status == 410 && token->len;
	if (more)
		http_escape(&next, more, strlen(more), false);
	if (next.len && next.len == token->len && memcmp(next.s, token->s, next.len) == 0)
		r = err_set(err, ERR_INVALID,
			    "Kubernetes: a list says each time that it goes on at the same place");
	str_reset(token);
	str_addn(token, next.s ? next.s : "", next.len);
	kube_call_deinit(&call);
	return r;
}

int kube_list_each(struct kube_client *c, const struct kube_list *l, struct err *err)
{
	_cleanup_(str_deinit) struct str token = { 0 };

	assert(l->item && l->label_selector);
	for (unsigned begun = 1;;) {
		struct err why = { 0 };
		bool forgotten;
		int r = list_page(c, l, &token, &forgotten, &why);

		if (forgotten && begun++ < LISTS_MAX)
			continue;
		if (r < 0 && err)
			*err = why;
		if (r != 0 || !token.len)
			return r;
	}
}

void kube_add_path(struct str *out, const char *group, const char *version, const char *ns,
		   const char *resource, const char *name)
{
	if (*group)
		str_addf(out, "/apis/%s/%s", group, version);
	else
		str_addf(out, "/api/%s", version);
	if (ns) {
		str_add(out, "/namespaces/");
		http_escape(out, ns, strlen(ns), false);
	}
	str_addf(out, "/%s", resource);
	if (name) {
		str_addc(out, '/');
		http_escape(out, name, strlen(name), false);
	}
}

void kube_add_selector(struct str *out, const char *selector)
{
	str_add(out, "labelSelector=");
	http_escape(out, selector, strlen(selector), false);
}

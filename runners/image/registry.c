/* runners/image/registry.c — one request to a registry, with its host, authentication, redirects
 * and retries.
 *
 * registry_do() sends, and judge() decides on the answer: it answers a challenge, follows a
 * redirect, and waits after 429 and 5xx. The request ends with any other answer, or when
 * `retry_for_ns` is over. A call that can't be repeated (`once`) isn't retried.
 *
 * Requests use TLS, unless plain_http names the host, or it is on this machine and doesn't speak
 * TLS (find_base()). Our credentials go only to the registry's own scheme and authority (is_at()):
 * a redirect to another place is followed without them, and never from https to http.
 *
 * A 401 is answered with the first credential for the image; if the registry refuses it, with the
 * next one (answer_challenge(), offer_login()). `refused` collects the names of refused
 * credentials, for the message. A grant is kept by host, path and scope until it expires.
 *
 * Any thread. The lock covers the maps `bases` and `grants` and is never held during a request; a
 * base stays until registry_free(), so that it can be lent. token.c gets tokens, challenge.c reads
 * challenges, docker_config.c finds credentials.
 */
#include "runners/image/registry.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include "base/crypto/trust.h"
#include "base/os/fs.h"
#include "base/os/thread.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "runners/image/registry_internal.h"

#define RETRY_FOR_NS  (30 * NS_PER_S)
#define PAUSE_NS      (200 * NS_PER_MS)
#define PAUSE_MAX_NS  (5 * NS_PER_S)
#define REDIRECTS_MAX 5
#define PROBE_NS      (5 * NS_PER_S)
#define REQUEST_NS    (60 * NS_PER_S) /* when no body comes from a file */

/* Retries. */

void registry_retry_begin(struct registry_retry *p, const struct registry *r)
{
	*p = (struct registry_retry){ .until_ns = clock_mono_ns() + r->retry_for_ns };
}

bool registry_retry_wait(struct registry_retry *p, const struct http_request *answer)
{
	int64_t pause = answer ? answer->reply.retry_after_ns : 0;

	pause = MAX(pause, backoff_ns(PAUSE_NS, PAUSE_MAX_NS, ++p->failures));
	if (clock_mono_ns() + pause > p->until_ns)
		return false;
	clock_sleep(pause);
	return true;
}

/* Life. */

static const char **copy_list(struct arena *arena, const char *const *v)
{
	size_t n = 0;
	const char **copy;

	while (v && v[n])
		n++;
	copy = arena_alloc(arena, (n + 1) * sizeof(*copy));
	for (size_t i = 0; i < n; i++)
		copy[i] = arena_strdup(arena, v[i]);
	return copy;
}

int registry_new(const struct registry_options *o, struct registry **ret, struct err *err)
{
	struct registry *r = xcalloc(1, sizeof(*r));

	r->retry_for_ns = o->retry_for_ns ? o->retry_for_ns : RETRY_FOR_NS;
	r->arena = arena_new();
	r->plain_http = copy_list(r->arena, o->plain_http);
	r->bases = map_new();
	r->grants = map_new();
	pthread_mutex_init(&r->lock, NULL);
	if (docker_config_new(o->docker_configs, &r->docker, err) < 0 ||
	    http_client_new(&(struct http_options){ .ca_pem = o->ca_pem }, &r->http, err) < 0) {
		registry_free(r);
		return -1;
	}
	*ret = r;
	return 0;
}

void registry_free(struct registry *r)
{
	if (!r)
		return;
	http_client_free(r->http);
	docker_config_free(r->docker);
	for (size_t i = 0; i < map_len(r->bases); i++)
		free(map_at(r->bases, i, NULL, NULL));
	for (size_t i = 0; i < map_len(r->grants); i++)
		registry_grant_free(map_at(r->grants, i, NULL, NULL));
	map_free(r->bases);
	map_free(r->grants);
	arena_free(r->arena);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

/* Hosts. */

static char *find_base(struct registry *r, const char *host)
{
	_cleanup_(freep) char *url = xasprintf("https://%s/v2/", host);
	struct http_request probe = {
		.method = "GET", .url = url, .body_fd = -1, .timeout_ns = PROBE_NS
	};
	bool tls = true;

	for (const char **plain = r->plain_http; *plain; plain++)
		if (strcmp(*plain, host) == 0)
			return xasprintf("http://%s", host);
	if (strcmp(host, "docker.io") == 0)
		return xstrdup("https://registry-1.docker.io");
	if (trust_is_loopback(host)) {
		tls = http_do(r->http, &probe, NULL) == 0;
		http_request_deinit(&probe);
	}
	return xasprintf("%s://%s", tls ? "https" : "http", host);
}

/* Lent by the map. */
static const char *base_of(struct registry *r, const char *host)
{
	char *base, *found;

	pthread_mutex_lock(&r->lock);
	found = map_get_str(r->bases, host);
	pthread_mutex_unlock(&r->lock);
	if (found)
		return found;
	base = find_base(r, host);
	pthread_mutex_lock(&r->lock);
	found = map_get_str(r->bases, host);
	if (!found)
		*map_slot_str(r->bases, host) = found = TAKE_PTR(base);
	pthread_mutex_unlock(&r->lock);
	free(base);
	return found;
}

/* Authentication. */

static char *grant_key(const struct registry_call *c)
{
	return xasprintf("%s %s %s", c->ref->host, c->ref->path, c->scope);
}

/* The authentication of one call. */
struct login {
	struct arena *arena; /* of the challenge */
	struct auth_challenge challenge;
	bool challenged;
	bool named;   /* the last request had a credential, … */
	size_t which; /* … this one */
};

/* An earlier grant; the caller frees. NULL: none, or it has expired. */
static char *known_grant(const struct registry_call *c, struct login *l)
{
	_cleanup_(freep) char *key = grant_key(c);
	const struct grant *g;
	char *header = NULL;

	pthread_mutex_lock(&c->r->lock);
	g = map_get_str(c->r->grants, key);
	if (g && g->until_ns > clock_mono_ns()) {
		header = xstrdup(g->header);
		l->named = g->named;
		l->which = g->which;
	}
	pthread_mutex_unlock(&c->r->lock);
	return header;
}

static void keep_grant(const struct registry_call *c, const struct grant *g)
{
	_cleanup_(freep) char *key = grant_key(c);
	void **slot;

	pthread_mutex_lock(&c->r->lock);
	slot = map_slot_str(c->r->grants, key);
	registry_grant_free(*slot);
	*slot = xmalloc(sizeof(*g));
	memcpy(*slot, g, sizeof(*g));
	pthread_mutex_unlock(&c->r->lock);
}

static void note_refused(struct registry_call *c, size_t which)
{
	const char *name = docker_config_name(c->r->docker, which);

	str_addf(&c->refused, "%s%s", c->refused.len ? ", " : "", name);
}

/* 1: there is a new header to send. It tries the next credentials until one isn't refused at once,
 * or none is left for this registry. */
static int offer_login(struct registry_call *c, const struct login *l, const char *base,
		       size_t from, struct err *err)
{
	for (;;) {
		struct grant g;
		int r = registry_grant_get(c, base, &l->challenge, from, &g, err);

		if (r < 0)
			return c->refused.len ? err_wrap(err, "%s refuses the credentials from %s",
							 c->ref->host, c->refused.s)
					      : -1;
		if (r == GRANT_GIVEN && g.header) {
			keep_grant(c, &g);
			return 1;
		}
		if (!g.named)
			return 0;
		if (r == GRANT_REFUSED)
			note_refused(c, g.which);
		from = g.which + 1;
	}
}

/* After a 401. The first 401 asks for a credential, or an earlier token has expired. A second one
 * means that the credential is refused. */
static int answer_challenge(struct registry_call *c, struct login *l, const char *base,
			    struct err *err)
{
	const struct str *headers = &c->reply.reply.headers;
	bool first = !l->challenged;

	if (first) {
		l->challenged = true;
		registry_challenge_parse(headers->len ? headers->s : "", headers->len, l->arena,
					 &l->challenge);
		return l->challenge.scheme == AUTH_NONE
			       ? 0
			       : offer_login(c, l, base, l->named ? l->which : 0, err);
	}
	if (!l->named)
		return 0;
	note_refused(c, l->which);
	return offer_login(c, l, base, l->which + 1, err);
}

/* One request. */

static int send_once(struct registry_call *c, const char *authorization, struct err *err)
{
	_cleanup_(freep) char *accept = c->accept ? xasprintf("Accept: %s", c->accept) : NULL,
			      *type = c->type ? xasprintf("Content-Type: %s", c->type) : NULL,
			      *range = c->range ? xasprintf("Content-Range: %s", c->range) : NULL;
	const char *headers[5], *all[] = { authorization, accept, type, range };
	size_t n = 0;
	int r;

	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i])
			headers[n++] = all[i];
	headers[n] = NULL;
	http_request_deinit(&c->reply);
	c->reply = (struct http_request){ .method = c->method,
					  .url = c->at,
					  .headers = headers,
					  .body = c->body,
					  .body_len = c->body_len,
					  .body_fd = c->body_from_fd ? c->body_fd : -1,
					  .body_offset = c->body_offset,
					  .max_bytes = REGISTRY_DOCUMENT_MAX,
					  .timeout_ns = c->body_from_fd ? 0 : REQUEST_NS };
	r = http_do(c->r->http, &c->reply, err);
	c->reply.headers = NULL;
	return r;
}

char *registry_location(const struct registry_call *c)
{
	char *to = http_location(&c->reply, c->at, REGISTRY_URL_MAX);

	if (to && !str_has_prefix(to, "https://") &&
	    !(str_has_prefix(to, "http://") && str_has_prefix(c->at, "http://"))) {
		free(to);
		return NULL;
	}
	return to;
}

static int follow(struct registry_call *c, unsigned *redirects, struct err *err)
{
	_cleanup_(freep) char *to = registry_location(c);

	if (!to || ++*redirects > REDIRECTS_MAX)
		return err_set(err, ERR_INVALID, "%s redirects us %s", c->ref->host,
			       to ? "round in circles" : "to a URL that is not allowed");
	free(c->at);
	c->at = TAKE_PTR(to);
	if (c->reply.reply.status == 303) {
		c->method = strcmp(c->method, "HEAD") == 0 ? "HEAD" : "GET";
		c->body = NULL;
		c->body_len = 0;
		c->body_from_fd = false;
		c->type = c->range = NULL;
	}
	return 0;
}

/* Whether the URL's scheme and authority are `base`. */
static bool is_at(const char *url, const char *base)
{
	size_t n = strlen(base);

	return strncmp(url, base, n) == 0 && strchr("/?#", url[n]);
}

/* 0: the answer is final; 1: send again. */
static int judge(struct registry_call *c, const char *base, struct registry_retry *p,
		 struct login *l, unsigned *redirects, struct err *err)
{
	long status = c->reply.reply.status;

	if ((status == 401 || (status == 403 && l->challenged)) && is_at(c->at, base))
		return answer_challenge(c, l, base, err);
	if (http_is_redirect(status))
		return follow(c, redirects, err) < 0 ? -1 : 1;
	return http_is_transient(&c->reply) && !c->once && registry_retry_wait(p, &c->reply);
}

int registry_do(struct registry_call *c, struct err *err)
{
	const char *base = base_of(c->r, c->ref->host);
	struct login l = { .arena = arena_new() };
	unsigned redirects = 0;
	struct registry_retry p;
	int r;

	assert(c->scope && !c->below != !c->url);
	registry_retry_begin(&p, c->r);
	str_reset(&c->refused);
	free(c->at);
	c->at = c->url ? xstrdup(c->url) : xasprintf("%s/v2/%s/%s", base, c->ref->path, c->below);
	do {
		char *authorization = is_at(c->at, base) ? known_grant(c, &l) : NULL;
		struct err why = { 0 };

		r = send_once(c, authorization, &why);
		registry_secret_free(authorization);
		if (r == 0)
			r = judge(c, base, &p, &l, &redirects, err);
		else if (why.code == ERR_IO && !c->once && registry_retry_wait(&p, NULL))
			r = 1;
		else if (err)
			*err = why;
	} while (r == 1);
	arena_free(l.arena);
	return r;
}

void registry_call_deinit(struct registry_call *c)
{
	http_request_deinit(&c->reply);
	str_deinit(&c->refused);
	free(c->at);
	c->at = NULL;
}

/* Errors. */

/* {"errors": [{"code", "message"}]}, after ": ", or nothing. */
static void add_reason(struct str *out, const struct registry_call *c)
{
	const struct str *body = &c->reply.reply.body;
	const json_t *first;
	const char *text;
	json_t *j;

	if (body->len == 0 || json_parse("answer", body->s, body->len, &j, NULL) < 0)
		return;
	first = json_array_get(json_object_get(j, "errors"), 0);
	text = json_string_value(json_object_get(first, "message"));
	if (!text || !*text)
		text = json_string_value(json_object_get(first, "code"));
	if (text && *text) {
		str_add(out, ": ");
		text_add_printable(out, text, strnlen(text, 200));
	}
	json_decref(j);
}

int registry_refused(const struct registry_call *c, struct err *err)
{
	_cleanup_(str_deinit) struct str name = { 0 }, why = { 0 };
	long status = c->reply.reply.status;
	const char *host = c->ref->host;

	image_ref_add(&name, c->ref);
	str_add(&why, "");
	add_reason(&why, c);
	if (c->refused.len && (status == 401 || status == 403))
		return err_set(err, ERR_INVALID,
			       "%s refuses the credentials for %s from %s (status %ld%s); log in "
			       "with `docker login %s`, or put working credentials into a Secret",
			       host, name.s, c->refused.s, status, why.s, host);
	if (status == 401)
		return err_set(err, ERR_INVALID,
			       "%s does not give %s without credentials (status 401%s); log "
			       "in with `docker login %s`",
			       host, name.s, why.s, host);
	if (status == 403)
		return err_set(err, ERR_INVALID, "%s doesn't allow us %s of %s (status 403%s)",
			       host, c->scope, name.s, why.s);
	if (status == 404)
		return err_set(err, ERR_NOT_FOUND, "%s has no image %s%s", host, name.s, why.s);
	return err_set(err, http_is_transient(&c->reply) ? ERR_IO : ERR_INVALID,
		       "%s answers %ld about %s%s", host, status, name.s, why.s);
}

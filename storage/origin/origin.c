/* storage/origin/origin.c — finds the bucket of a URI, and keeps what a store knows about origins.
 *
 * struct origins belongs to a store and is made when it is first needed. It keeps buckets open, one
 * for each address and options; URLs with signatures, by their public URI; the endpoints that the
 * project trusts; and the memo (memo.c). `lock` guards all of it, also while a bucket is opened,
 * because that sends no request.
 *
 * options_for() decides which servers get our credentials. A reference may come from a stranger. So
 * its endpoint gets no credentials unless the project names it too, and must be https.
 *
 * origin_public_uri() removes credentials from a URL; is_secret() has the list of their names.
 * Records hold the public URI; requests use the URL that the user wrote.
 */
#include <strings.h>
#include "base/os/fs.h"
#include "storage/origin/internal.h"
#include "storage/remote/tier.h"

/* Tries per request: about three seconds when an origin can't be reached at all. */
#define TRIES 7

struct origins {
	pthread_mutex_t lock;
	struct arena *arena;
	const char *scheme; /* of the buckets to which the defaults apply */
	struct bucket_options defaults;
	struct map *buckets; /* options, address → struct bucket * */
	struct map *urls;    /* public URI → the URL with its credentials */
	struct map *trusted; /* endpoints that may get our credentials */
	struct origin_memo *memo;
};

/* Life. */

/* Owned by the store; created at the first call. */
static struct origins *origins_of(struct store *s)
{
	struct origins *o;

	pthread_mutex_lock(&s->lock);
	o = s->origins;
	if (!o) {
		o = s->origins = xcalloc(1, sizeof(*o));
		pthread_mutex_init(&o->lock, NULL);
		o->arena = arena_new();
		o->scheme = str_has_prefix(s->uri, "gs://") ? "gs://" : "s3://";
		o->buckets = map_new();
		o->urls = map_new();
		o->trusted = map_new();
		o->defaults.tries = TRIES;
	}
	pthread_mutex_unlock(&s->lock);
	return o;
}

void origins_free(struct origins *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < map_len(o->buckets); i++)
		bucket_free(map_at(o->buckets, i, NULL, NULL));
	map_free(o->buckets);
	map_free(o->urls);
	map_free(o->trusted);
	origin_memo_free(o->memo);
	arena_free(o->arena);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

static const char *keep(struct arena *arena, const char *s)
{
	return s ? arena_strdup(arena, s) : NULL;
}

void store_set_origins(struct store *s, const struct bucket_options *b)
{
	struct origins *o = origins_of(s);

	pthread_mutex_lock(&o->lock);
	o->defaults = *b;
	o->defaults.endpoint = keep(o->arena, b->endpoint);
	o->defaults.region = keep(o->arena, b->region);
	o->defaults.profile = keep(o->arena, b->profile);
	o->defaults.ca_file = keep(o->arena, b->ca_file);
	if (!o->defaults.tries)
		o->defaults.tries = TRIES;
	pthread_mutex_unlock(&o->lock);
}

void store_trust_endpoint(struct store *s, const char *endpoint)
{
	struct origins *o = origins_of(s);

	pthread_mutex_lock(&o->lock);
	*map_slot_str(o->trusted, endpoint) = o;
	pthread_mutex_unlock(&o->lock);
}

struct store *origin_cache(struct store *s)
{
	struct store *local = tier_local(s);

	return local ? local : s;
}

struct origin_memo *origin_memo_of(struct store *s)
{
	struct origins *o = origins_of(s);
	const char *dir = origin_cache(s)->uri;

	pthread_mutex_lock(&o->lock);
	if (!o->memo) {
		_cleanup_(freep) char *path = *dir == '/' ? fs_join(dir, "origins") : NULL;

		o->memo = origin_memo_open(path);
	}
	pthread_mutex_unlock(&o->lock);
	return o->memo;
}

/* URLs that hold credentials. */

static bool is_secret(const char *name, size_t n)
{
	static const char *const prefixes[] = { "x-amz-", "x-goog-", "x-oss-", "x-ms-" };
	static const char *const names[] = { "signature",
					     "sig",
					     "sign",
					     "expires",
					     "awsaccesskeyid",
					     "googleaccessid",
					     "key-pair-id",
					     "policy",
					     "token",
					     "access_token",
					     "auth",
					     "auth_token",
					     "authorization",
					     "api_key",
					     "apikey",
					     "api-key",
					     "key",
					     "password",
					     "passwd",
					     "secret",
					     "se",
					     "sp",
					     "st",
					     "spr",
					     "sv",
					     "sr",
					     "skoid",
					     "sktid",
					     "skt",
					     "ske",
					     "sks",
					     "skv",
					     "jwt",
					     "session" };

	for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
		if (n >= strlen(prefixes[i]) &&
		    strncasecmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (n == strlen(names[i]) && strncasecmp(name, names[i], n) == 0)
			return true;
	return false;
}

void origin_public_uri(const char *uri, struct str *out)
{
	const char *rest = strstr(uri, "://"), *at;
	char before = '?';
	size_t host, path;

	str_add(out, "");
	if (!rest || origin_in_bucket(uri)) {
		str_add(out, uri);
		return;
	}
	rest += 3;
	host = strcspn(rest, "/?#");
	at = memrchr(rest, '@', host);
	str_addn(out, uri, (size_t)(rest - uri));
	str_addn(out, at ? at + 1 : rest, at ? host - (size_t)(at + 1 - rest) : host);
	path = strcspn(rest + host, "?#");
	str_addn(out, rest + host, path);
	if (rest[host + path] != '?')
		return;
	for (const char *q = rest + host + path + 1; *q && *q != '#';) {
		size_t n = strcspn(q, "&#");

		if (n && !is_secret(q, strcspn(q, "=&#"))) {
			str_addc(out, before);
			str_addn(out, q, n);
			before = '&';
		}
		q += n + (q[n] == '&');
	}
}

void store_know_origin(struct store *s, const char *uri)
{
	_cleanup_(str_deinit) struct str public = { 0 };
	struct origins *o = origins_of(s);

	origin_public_uri(uri, &public);
	if (str_eq(public.s, uri))
		return;
	pthread_mutex_lock(&o->lock);
	*map_slot_str(o->urls, public.s) = arena_strdup(o->arena, uri);
	pthread_mutex_unlock(&o->lock);
}

/* Buckets. */

bool origin_in_bucket(const char *uri)
{
	return !str_has_prefix(uri, "https://") && !str_has_prefix(uri, "http://");
}

/* The options of an input replace all defaults but the CA file and the tries, which depend on the
 * machine. */
static int options_for(const struct origins *o, const char *uri, const char *text,
		       struct arena *arena, struct bucket_options *ret, struct err *err)
{
	struct reference_options own = { 0 };
	bool named;

	*ret = *text || !str_has_prefix(uri, o->scheme)
		       ? (struct bucket_options){ .ca_file = o->defaults.ca_file,
						  .tries = o->defaults.tries }
		       : o->defaults;
	if (!*text)
		return 0;
	if (!reference_options_parse(text, arena, &own))
		return err_set(err, ERR_CORRUPT, "the options of a reference are damaged");
	/* Anyone who can write to a shared store can write references, so their endpoints must not
	 * get our credentials. */
	named = !own.endpoint ||
		(o->defaults.endpoint && str_eq(own.endpoint, o->defaults.endpoint)) ||
		map_get_str(o->trusted, own.endpoint);
	if (!named && !own.anonymous)
		return err_set(err, ERR_INVALID,
			       "%s at %s: neither the pipeline nor store_options in cairn.yaml "
			       "names this endpoint, so no credentials are sent to it",
			       uri, own.endpoint);
	/* Nor may they make us send requests into networks that only we can reach. */
	if (!named && !str_has_prefix(own.endpoint, "https://"))
		return err_set(err, ERR_INVALID,
			       "%s at %s: neither the pipeline nor store_options in cairn.yaml "
			       "names this endpoint, so it is asked over https:// only",
			       uri, own.endpoint);
	ret->endpoint = own.endpoint;
	ret->endpoint_given = own.endpoint && o->defaults.endpoint_given &&
			      str_eq(own.endpoint, o->defaults.endpoint);
	ret->region = own.region;
	ret->profile = own.profile;
	ret->anonymous = own.anonymous;
	return 0;
}

int origin_locate(struct store *s, const char *uri, const char *options, struct arena *arena,
		  struct bucket **ret, const char **ret_key, struct err *err)
{
	struct origins *o = origins_of(s);
	const char *rest, *address, *name, *url;
	int r = 0;
	void **slot;

	if (reference_is_volume(uri))
		return err_set(
			err, ERR_UNSUPPORTED,
			"%.300s is a volume of a Kubernetes cluster, which only pods can read",
			uri);
	pthread_mutex_lock(&o->lock);
	url = map_get_str(o->urls, uri);
	uri = url ? url : uri;
	rest = strstr(uri, "://");
	rest = rest ? rest + 3 : uri;
	rest += strcspn(rest, "/?#");
	address = arena_strndup(arena, uri, (size_t)(rest - uri));
	name = arena_printf(arena, "%s\n%s", address, options);
	slot = map_slot_str(o->buckets, name);
	if (!*slot) {
		struct bucket_options bo = { .tries = o->defaults.tries };
		struct bucket *b = NULL;

		if (!origin_in_bucket(address))
			r = bucket_https_open(address, &bo, &b, err);
		else if ((r = options_for(o, address, options, arena, &bo, err)) == 0)
			r = bucket_open(address, &bo, &b, err);
		*slot = r == 0 ? b : NULL;
	}
	if (r == 0) {
		*ret = *slot;
		*ret_key = origin_in_bucket(uri)   ? arena_strdup(arena, *rest ? rest + 1 : "")
			   : *rest && *rest != '#' ? arena_strndup(arena, rest, strcspn(rest, "#"))
						   : "/";
	}
	pthread_mutex_unlock(&o->lock);
	return r;
}

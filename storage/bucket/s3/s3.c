/* storage/bucket/s3/s3.c — opens a bucket of S3: endpoint, addressing, region, HTTP clients.
 *
 * This file sends no request. If no region is configured, it starts as us-east-1; client.c corrects
 * it from the first answer. Addressing is by virtual host on AWS, unless the bucket's name has a
 * dot, and by path elsewhere.
 *
 * An endpoint from a project's files gets our credentials only if the user trusts it, or if the
 * user's own profile names the same one. Two HTTP clients: `http` for the bucket and STS, `near`
 * without a proxy and with short timeouts for metadata services.
 */
#include "storage/bucket/s3/client.h"

#include <stdio.h>
#include "base/crypto/trust.h"
#include "base/os/fs.h"

#define METADATA_CONNECT_NS (2 * NS_PER_S)

static int fetch_near(void *arg, struct http_request *r, struct err *err)
{
	struct s3 *s = arg;

	/* STS requests use the proxy, if there is one; the metadata services are on this machine's
	 * own network. */
	return http_do(str_has_prefix(r->url, "http://") ? s->near : s->http, r, err);
}

static void s3_free(struct bucket *b)
{
	struct s3 *s = CONTAINER_OF(b, struct s3, base);

	http_client_free(s->http);
	http_client_free(s->near);
	transfer_free(s->transfer);
	credentials_chain_free(s->chain);
	pthread_mutex_destroy(&s->lock);
	free(s->host);
	free(s->base_path);
	free(s->region);
	free(s);
}

static const struct bucket_ops s3_ops = {
	.put_many = s3_put_many,
	.get_many = s3_get_many,
	.head_many = s3_head_many,
	.head = s3_head,
	.delete_many = s3_delete_many,
	.delete_if = s3_delete_if,
	.list = s3_list,
	.abort_stale = s3_abort_stale,
	.probe = s3_probe,
	.free = s3_free,
};

/* The endpoint from option, environment or profile; NULL: AWS. An option may come from a project's
 * files or a shared store. Such an endpoint gets credentials only if the user trusts it, or the
 * user's profile names it. */
static int find_endpoint(const struct bucket_options *o, const struct credentials_options *co,
			 char **ret, struct err *err)
{
	_cleanup_(freep) char *own = NULL;

	if (credentials_endpoint(co, "s3", &own, err) < 0)
		return -1;
	if (o->endpoint && *o->endpoint) {
		if (!o->anonymous && !o->endpoint_given && !str_eq(own, o->endpoint) &&
		    trust_check_endpoint(o->endpoint, err) < 0)
			return -1;
		*ret = xstrdup(o->endpoint);
		return 0;
	}
	*ret = TAKE_PTR(own);
	return 0;
}

static int find_region(const struct bucket_options *o, const struct credentials_options *co,
		       char **ret, struct err *err)
{
	const char *v = o->region && *o->region ? o->region : NULL;

	for (const char *const *p =
		     (const char *const[]){ "AWS_REGION", "AWS_DEFAULT_REGION", NULL };
	     !v && *p; p++)
		v = getenv(*p) && *getenv(*p) ? getenv(*p) : NULL;
	*ret = v ? xstrdup(v) : NULL;
	if (!*ret && credentials_profile_setting(co, "region", ret, err) < 0)
		return -1;
	if (!*ret)
		*ret = xstrdup("us-east-1"); /* an answer corrects it */
	if (strspn(*ret, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") !=
	    strlen(*ret))
		return err_set(err, ERR_INVALID,
			       "the region `%s` may have only letters, digits, `-` and `_`", *ret);
	return 0;
}

static int make_clients(struct s3 *s, const struct bucket_options *o, struct err *err)
{
	const char *ca = o->ca_file ? o->ca_file : getenv("AWS_CA_BUNDLE");
	struct http_options far = { .ca_file = ca && *ca ? ca : NULL,
				    .max_connections = o->max_connections };
	struct http_options near = { .proxy = "",
				     .max_connections = 2,
				     .connect_timeout_ns = METADATA_CONNECT_NS };

	return http_client_new(&far, &s->http, err) < 0 || http_client_new(&near, &s->near, err) < 0
		       ? -1
		       : 0;
}

/* AWS_MAX_ATTEMPTS, as in other clients. Other texts than numbers are ignored. */
static unsigned tries(const struct bucket_options *o)
{
	const char *v = getenv("AWS_MAX_ATTEMPTS");
	unsigned long n = v ? strtoul(v, NULL, 10) : 0;

	return o->tries ? o->tries : n <= 100 ? (unsigned)n : 0;
}

static int set_up(struct s3 *s, const struct bucket_options *o, struct err *err)
{
	struct credentials_options co = {
		.profile = o->profile, .region = o->region, .fetch = fetch_near, .arg = s
	};
	_cleanup_(freep) char *endpoint = NULL;

	if (find_endpoint(o, &co, &endpoint, err) < 0 || find_region(o, &co, &s->region, err) < 0 ||
	    make_clients(s, o, err) < 0)
		return -1;
	if (endpoint && !sigv4_split_endpoint(endpoint, &s->scheme, &s->host, &s->base_path))
		return err_set(err, ERR_INVALID,
			       "the S3 endpoint must be http:// or https://, a host, and perhaps a "
			       "port and a path");
	s->aws = !endpoint;
	s->plain = endpoint && str_has_prefix(endpoint, "http://") && !trust_is_loopback(endpoint);
	if (s->aws)
		s->scheme = "https";
	if (o->style == BUCKET_STYLE_AUTO) /* a dot in the name wouldn't match the certificate */
		s->virtual_host = s->aws && !strchr(s->base.name, '.');
	else
		s->virtual_host = o->style == BUCKET_STYLE_VIRTUAL;
	if (!o->anonymous)
		s->chain = credentials_chain_new(&co);
	s->transfer = transfer_new(o->max_connections, tries(o));
	return 0;
}

int bucket_s3_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		   struct err *err)
{
	struct s3 *s = xcalloc(1, sizeof(*s));

	s->base.ops = &s3_ops;
	pthread_mutex_init(&s->lock, NULL);
	if (bucket_base_init(&s->base, uri, "s3://", err) < 0 || set_up(s, o, err) < 0) {
		bucket_base_deinit(&s->base);
		s3_free(&s->base);
		return err_wrap(err, "%s", uri);
	}
	*ret = &s->base;
	return 0;
}

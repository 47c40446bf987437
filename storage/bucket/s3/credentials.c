/* storage/bucket/s3/credentials.c — the chain of credentials: tries the sources in order, and keeps
 * the result.
 *
 * look() tries the sources once, in the header's order. A source returns 1 when it has no
 * credentials, and only then the next is tried. Each look() reads the files again, because users
 * change them during a run.
 *
 * `have` holds the credentials found last. credentials_get() renews it when it is absent, refused
 * by the server, or nearly expired. A renewal that fails while the old credentials are good is
 * tried again after RENEW_PAUSE_NS. The lock is held during look(), so that one thread renews and
 * the others wait for its result.
 *
 * Sources: credentials_file.c and credentials_profile.c (shared files), credentials_sts.c (roles),
 * credentials_metadata.c (containers and instances).
 */
#include "storage/bucket/s3/credentials_internal.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include "base/mem.h"

/* Credentials are renewed this long before they expire; short-lived ones after three quarters of
 * their remaining time. AWS accepts old ones that long. */
#define RENEW_BEFORE_NS (5 * 60 * NS_PER_S)
/* The pause after a failed renewal while the old ones are valid, so that not every request
 * tries. */
#define RENEW_PAUSE_NS (30 * NS_PER_S)

struct credentials_chain {
	struct credentials_options o;
	char *profile, *region;
	pthread_mutex_t lock; /* guards the fields below; held during look() */
	struct credentials have;
	int64_t renew_at_ns;
};

void credentials_wipe(char **secret)
{
	if (*secret)
		OPENSSL_cleanse(*secret, strlen(*secret));
	free(*secret);
	*secret = NULL;
}

void credentials_deinit(struct credentials *c)
{
	credentials_wipe(&c->key_id);
	credentials_wipe(&c->secret);
	credentials_wipe(&c->token);
	memset(c, 0, sizeof(*c));
}

void credentials_set(struct credentials *c, const char *key_id, const char *secret,
		     const char *token, int64_t expires_ns, const char *source)
{
	*c = (struct credentials){
		.key_id = xstrdup(key_id),
		.secret = xstrdup(secret),
		.token = token && *token ? xstrdup(token) : NULL,
		.expires_ns = expires_ns,
		.source = source,
	};
}

void credentials_copy(struct credentials *to, const struct credentials *from)
{
	credentials_set(to, from->key_id, from->secret, from->token, from->expires_ns,
			from->source);
}

const char *credentials_env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

static int64_t wall_ns(const struct credentials_options *o)
{
	struct clock *c = o->clock ? o->clock : clock_system();

	return c->wall_ns(c);
}

/* One look through the chain. */

static int from_environment(const struct credentials_search *s, struct credentials *ret,
			    struct err *err)
{
	const char *id = credentials_env("AWS_ACCESS_KEY_ID"),
		   *secret = credentials_env("AWS_SECRET_ACCESS_KEY");

	if (s->o->profile || (!id && !secret))
		return 1;
	if (!id || !secret)
		return err_set(err, ERR_INVALID,
			       "the environment has %s but not %s: set both or none",
			       id ? "AWS_ACCESS_KEY_ID" : "AWS_SECRET_ACCESS_KEY",
			       id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
	credentials_set(ret, id, secret, credentials_env("AWS_SESSION_TOKEN"), INT64_MAX,
			"the environment");
	return 0;
}

static int search(const struct credentials_search *s, const struct ini *ini,
		  struct credentials *ret, struct err *err)
{
	const char *file = credentials_env("AWS_WEB_IDENTITY_TOKEN_FILE"),
		   *role = credentials_env("AWS_ROLE_ARN");
	int r = from_environment(s, ret, err);

	if (r == 1 && !s->o->profile && file && role)
		r = credentials_from_web_identity(
			s, file, role, credentials_env("AWS_ROLE_SESSION_NAME"), ret, err);
	if (r == 1 && ini_has_profile(ini, s->profile))
		r = credentials_from_profile(s, ini, s->profile, ret, err);
	else if (r == 1 && s->asked)
		return err_set(err, ERR_INVALID,
			       "profile `%s` is in neither ~/.aws/credentials nor ~/.aws/config",
			       s->profile);
	if (r == 1)
		r = credentials_from_container(s, ret, err);
	if (r == 1)
		r = credentials_from_instance(s, ret, err);
	if (r == 1)
		return err_set(err, ERR_INVALID,
			       "no credentials for S3: not in the environment (AWS_ACCESS_KEY_ID), "
			       "the profile `%s`, web identity, container or instance metadata; "
			       "set them, or run `aws configure`",
			       s->profile);
	return r;
}

static const char *profile_name(const struct credentials_options *o, bool *ret_asked)
{
	const char *name = o->profile ? o->profile : credentials_env("AWS_PROFILE");

	if (!name)
		name = credentials_env("AWS_DEFAULT_PROFILE");
	*ret_asked = name != NULL;
	return name ? name : "default";
}

static char *region_name(const struct credentials_options *o, const struct ini *ini,
			 const char *profile)
{
	const char *r = o->region;

	if (!r)
		r = credentials_env("AWS_REGION");
	if (!r)
		r = credentials_env("AWS_DEFAULT_REGION");
	if (!r)
		r = ini_get(ini, profile, "region");
	return xstrdup(r ? r : "us-east-1");
}

static int look(const struct credentials_options *o, struct credentials *ret, struct err *err)
{
	struct credentials_search s = { .o = o, .now_ns = wall_ns(o) };
	struct ini *ini = NULL;
	int r;

	if (ini_load(&ini, err) < 0)
		return -1;
	s.profile = profile_name(o, &s.asked);
	s.region = region_name(o, ini, s.profile);
	r = search(&s, ini, ret, err);
	free(s.region);
	ini_free(ini);
	return r;
}

/* The chain. */

struct credentials_chain *credentials_chain_new(const struct credentials_options *o)
{
	struct credentials_chain *c = xcalloc(1, sizeof(*c));

	c->o = *o;
	c->o.profile = c->profile = o->profile ? xstrdup(o->profile) : NULL;
	c->o.region = c->region = o->region ? xstrdup(o->region) : NULL;
	pthread_mutex_init(&c->lock, NULL);
	return c;
}

void credentials_chain_free(struct credentials_chain *c)
{
	if (!c)
		return;
	credentials_deinit(&c->have);
	pthread_mutex_destroy(&c->lock);
	free(c->profile);
	free(c->region);
	free(c);
}

static int renew(struct credentials_chain *c, bool must, struct err *err)
{
	struct credentials fresh = { 0 };
	int64_t now = wall_ns(&c->o);
	struct err why = { 0 };

	if (look(&c->o, &fresh, &why) == 0) {
		int64_t left = fresh.expires_ns - now;

		credentials_deinit(&c->have);
		c->have = fresh;
		c->renew_at_ns = fresh.expires_ns == INT64_MAX
					 ? INT64_MAX
					 : now + MAX(left - RENEW_BEFORE_NS, left / 4 * 3);
		return 0;
	}
	if (!must && c->have.key_id && now < c->have.expires_ns) {
		c->renew_at_ns = now + RENEW_PAUSE_NS;
		return 0;
	}
	if (err)
		*err = why;
	return -1;
}

int credentials_get(struct credentials_chain *c, const char *refused_key_id,
		    struct credentials *ret, struct err *err)
{
	bool refused;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	refused = refused_key_id && str_eq(refused_key_id, c->have.key_id);
	if (!c->have.key_id || refused || wall_ns(&c->o) >= c->renew_at_ns)
		r = renew(c, refused, err);
	if (r == 0)
		credentials_copy(ret, &c->have);
	pthread_mutex_unlock(&c->lock);
	return r;
}

int credentials_profile_setting(const struct credentials_options *o, const char *name, char **ret,
				struct err *err)
{
	struct ini *ini = NULL;
	const char *profile, *v;
	bool asked;

	if (ini_load(&ini, err) < 0)
		return -1;
	profile = profile_name(o, &asked);
	v = ini_get(ini, profile, name);
	*ret = v && *v ? xstrdup(v) : NULL;
	ini_free(ini);
	return 0;
}

int credentials_endpoint(const struct credentials_options *o, const char *service, char **ret,
			 struct err *err)
{
	const char *ignore = credentials_env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"), *v;
	_cleanup_(freep) char *own = xasprintf("AWS_ENDPOINT_URL_%s", service);
	struct ini *ini = NULL;
	bool asked;

	*ret = NULL;
	if (ignore && strcasecmp(ignore, "true") == 0)
		return 0;
	for (char *p = own; *p; p++)
		if (*p >= 'a' && *p <= 'z')
			*p = (char)(*p - 32);
	v = credentials_env(own);
	if (!v)
		v = credentials_env("AWS_ENDPOINT_URL");
	if (v) {
		*ret = xstrdup(v);
		return 0;
	}
	if (ini_load(&ini, err) < 0)
		return -1;
	*ret = ini_service_endpoint(ini, profile_name(o, &asked), service);
	ini_free(ini);
	return 0;
}

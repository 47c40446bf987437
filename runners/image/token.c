/* runners/image/token.c — the header that answers a registry's challenge.
 *
 * registry_grant_get() takes the next credential of docker_config.c and makes the header from it: a
 * token as it is, name and password (basic), or a token from the realm that the registry names
 * (distribution's "Token Authentication Specification", "OAuth2"). The realm gets a POST with a
 * refresh token, else a GET with basic authentication, or an anonymous GET without a credential.
 *
 * A realm gets secrets without TLS only if the registry itself has no TLS, or the realm is on this
 * machine (may_get_credentials()). A realm that answers 400, 401 or 403 has refused this credential
 * (GRANT_REFUSED), and the caller tries the next; 5xx are retried. Strings with secrets are wiped.
 *
 * Nothing is kept here: registry.c keeps grants under its lock. Any thread.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/crypto/base64.h"
#include "base/crypto/trust.h"
#include "base/os/process/command.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "runners/image/registry_internal.h"

#define TOKEN_BYTES_MAX (256 * KIB)
#define TOKEN_S         60 /* "if omitted, this defaults to 60 seconds" */
#define TOKEN_S_MAX     86400
#define TOKEN_NS        (30 * NS_PER_S)

void registry_secret_free(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

void registry_grant_free(struct grant *g)
{
	if (!g)
		return;
	registry_secret_free(g->header);
	free(g);
}

static void add_basic(struct str *out, const struct registry_credential *c)
{
	struct str pair = { 0 };

	str_addf(&pair, "%s:%s", c->user.s, c->password.len ? c->password.s : "");
	str_add(out, "Authorization: Basic ");
	base64_add(out, pair.s, pair.len);
	str_wipe(&pair);
}

static void add_query(struct str *out, const char *name, const char *text)
{
	if (!text)
		return;
	str_addf(out, "%s%s=", out->len ? "&" : "", name);
	http_escape(out, text, strlen(text), false);
}

/* The realm's answer. */

static int take_token(const struct http_request *q, const char *realm, struct grant *ret,
		      struct err *err)
{
	const char *token = NULL, *other = NULL;
	int64_t seconds = TOKEN_S;
	json_t *j;
	int r;

	if (json_parse("token", q->reply.body.len ? q->reply.body.s : "", q->reply.body.len, &j,
		       NULL) < 0)
		return err_set(err, ERR_INVALID,
			       "%s answers with something else than JSON when asked for a token",
			       realm);
	r = json_get_str_opt(j, "token", NULL, &token, err) < 0 ||
			    json_get_str_opt(j, "access_token", NULL, &other, err) < 0 ||
			    json_get_int_opt(j, "expires_in", TOKEN_S, &seconds, err) < 0
		    ? err_wrap(err, "%s", realm)
		    : 0;
	token = token && *token ? token : other;
	if (r == 0 && (!token || !*token))
		r = err_set(err, ERR_INVALID, "%s gives no token", realm);
	if (r == 0) {
		seconds = MIN(MAX(seconds, TOKEN_S), TOKEN_S_MAX);
		ret->header = xasprintf("Authorization: Bearer %s", token);
		ret->until_ns = clock_mono_ns() + seconds * NS_PER_S * 4 / 5;
	}
	json_decref(j);
	return r;
}

static int judge(const struct http_request *q, const char *realm, const char *host,
		 struct grant *ret, struct err *err)
{
	if (q->reply.status >= 200 && q->reply.status < 300)
		return take_token(q, realm, ret, err);
	if (ret->named &&
	    (q->reply.status == 400 || q->reply.status == 401 || q->reply.status == 403))
		return GRANT_REFUSED;
	return err_set(err, http_is_transient(q) ? ERR_IO : ERR_INVALID,
		       "%s answers %ld when asked for a token for %s", realm, q->reply.status,
		       host);
}

static int ask_realm(const struct registry_call *c, const char *realm, const struct str *query,
		     const struct registry_credential *who, struct grant *ret, struct err *err)
{
	struct str url = { 0 }, body = { 0 }, basic = { 0 };
	const char *headers[] = { NULL, NULL };
	struct http_request ask = { .method = "GET",
				    .body_fd = -1,
				    .max_bytes = TOKEN_BYTES_MAX,
				    .timeout_ns = TOKEN_NS,
				    .headers = headers };
	struct registry_retry p;
	bool again;
	int result;

	str_add(&url, realm);
	if (who->identity.len) {
		str_add(&body, query->s);
		add_query(&body, "grant_type", "refresh_token");
		add_query(&body, "client_id", "cairn");
		add_query(&body, "refresh_token", who->identity.s);
		ask.method = "POST";
		ask.body = body.s;
		ask.body_len = body.len;
		headers[0] = "Content-Type: application/x-www-form-urlencoded";
	} else {
		str_addf(&url, "%c%s", strchr(realm, '?') ? '&' : '?', query->s);
		if (who->user.len)
			add_basic(&basic, who);
		headers[0] = who->user.len ? basic.s : NULL;
	}
	ask.url = url.s;
	registry_retry_begin(&p, c->r);
	do {
		struct http_request q = ask;
		struct err why = { 0 };

		result = http_do(c->r->http, &q, &why) < 0
				 ? -1
				 : judge(&q, realm, c->ref->host, ret, &why);
		again = result < 0 && why.code == ERR_IO && registry_retry_wait(&p, &q);
		if (result < 0 && !again)
			*err = why;
		str_wipe(&q.reply.body);
		http_request_deinit(&q);
	} while (again);
	str_deinit(&url);
	str_wipe(&body);
	str_wipe(&basic);
	return result;
}

/* All. */

/* A registry that speaks TLS must not make us send a password without TLS. */
static bool may_get_credentials(const char *realm, const char *base)
{
	if (strlen(realm) > REGISTRY_URL_MAX)
		return false;
	return str_has_prefix(realm, "https://") ||
	       (str_has_prefix(realm, "http://") &&
		(str_has_prefix(base, "http://") || trust_is_loopback(realm)));
}

static int get_bearer(const struct registry_call *c, const char *base,
		      const struct auth_challenge *challenge, const struct registry_credential *who,
		      struct grant *ret, struct err *err)
{
	_cleanup_(freep) char *own_scope = xasprintf("repository:%s:%s", c->ref->path, c->scope);
	_cleanup_(str_deinit) struct str query = { 0 };

	if (!may_get_credentials(challenge->realm, base))
		return err_set(err, ERR_INVALID,
			       "%s wants tokens from `%.200s`, which isn't reached over TLS",
			       c->ref->host, challenge->realm);
	add_query(&query, "service", challenge->service);
	add_query(&query, "scope", challenge->scope ? challenge->scope : own_scope);
	return ask_realm(c, challenge->realm, &query, who, ret, err);
}

int registry_grant_get(const struct registry_call *c, const char *base,
		       const struct auth_challenge *challenge, size_t from, struct grant *ret,
		       struct err *err)
{
	struct registry_credential who = { 0 };
	int result;

	assert(challenge->scheme != AUTH_NONE);
	*ret = (struct grant){ .until_ns = INT64_MAX };
	result = docker_config_find(c->r->docker, c->ref, from, &who, &ret->which, err);
	if (result < 0)
		return -1;
	ret->named = result > 0;
	result = 0;
	if (!ret->named && from)
		return GRANT_GIVEN;
	if (who.bearer.len) {
		ret->header = xasprintf("Authorization: Bearer %s", who.bearer.s);
	} else if (challenge->scheme == AUTH_BEARER) {
		result = get_bearer(c, base, challenge, &who, ret, err);
	} else if (who.user.len) {
		struct str header = { 0 };

		add_basic(&header, &who);
		ret->header = str_take(&header);
	}
	registry_credential_wipe(&who);
	return result;
}

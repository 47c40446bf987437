/* Token authentication (distribution's "Token Authentication Specification", "OAuth2"): credentials go to the realm that the registry names, over TLS unless the registry itself
 * has none, and what comes back goes to the registry. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include "base/base64.h"
#include "base/clock.h"
#include "base/command.h"
#include "base/json.h"
#include "base/text.h"
#include "runners/image/registry_internal.h"

#define TOKEN_BYTES_MAX (256 * KIB)
#define TOKEN_S 60 /* "if omitted, this defaults to 60 seconds" */
#define TOKEN_S_MAX 86400
#define TOKEN_NS (30 * NS_PER_S)

static int64_t now_ns(void)
{
	return clock_system()->mono_ns(clock_system());
}

void grant_free(struct grant *g)
{
	if (!g)
		return;
	if (g->header)
		explicit_bzero(g->header, strlen(g->header));
	free(g->header);
	free(g);
}

static void add_basic(struct str *out, const struct registry_credential *c)
{
	struct str pair = { 0 };

	str_addf(&pair, "%s:%s", c->user.s, c->password.len ? c->password.s : "");
	str_add(out, "Authorization: Basic ");
	base64_add(out, pair.s, pair.len);
	command_wipe(&pair);
}

static void add_query(struct str *out, const char *name, const char *text)
{
	if (!text)
		return;
	str_addf(out, "%s%s=", out->len ? "&" : "", name);
	http_escape(out, text, strlen(text), false);
}

/* --- the realm's answer ------------------------------------------------------------------------------------------------------------------- */

static int take_token(const struct http_request *q, const char *realm, struct grant *ret, struct err *err)
{
	const char *token = NULL, *other = NULL;
	int64_t seconds = TOKEN_S;
	json_t *j;
	int r;

	if (json_parse("token", q->reply.body.len ? q->reply.body.s : "", q->reply.body.len, &j, NULL) < 0)
		return err_set(err, ERR_INVALID, "%s gives something that isn't JSON instead of a token", realm);
	r = json_get_str_opt(j, "token", NULL, &token, err) < 0 || json_get_str_opt(j, "access_token", NULL, &other, err) < 0 ||
			    json_get_int_opt(j, "expires_in", TOKEN_S, &seconds, err) < 0
		    ? err_wrap(err, "%s", realm)
		    : 0;
	token = token && *token ? token : other;
	if (r == 0 && (!token || !*token))
		r = err_set(err, ERR_INVALID, "%s gives no token", realm);
	if (r == 0) {
		seconds = MIN(MAX(seconds, TOKEN_S), TOKEN_S_MAX);
		ret->header = xasprintf("Authorization: Bearer %s", token);
		ret->until_ns = now_ns() + seconds * NS_PER_S * 4 / 5;
	}
	json_decref(j);
	return r;
}

static void compose(struct http_request *q, const char *realm, const struct str *query, const struct registry_credential *who, const char **headers, struct str *url,
		    struct str *body, struct str *basic)
{
	*q = (struct http_request){ .method = "GET", .body_fd = -1, .max_bytes = TOKEN_BYTES_MAX, .timeout_ns = TOKEN_NS, .headers = headers };
	str_add(url, realm);
	if (who->identity.len) {
		str_add(body, query->s);
		add_query(body, "grant_type", "refresh_token");
		add_query(body, "client_id", "cairn");
		add_query(body, "refresh_token", who->identity.s);
		q->method = "POST";
		q->body = body->s;
		q->body_len = body->len;
		headers[0] = "Content-Type: application/x-www-form-urlencoded";
	} else {
		str_addf(url, "%c%s", strchr(realm, '?') ? '&' : '?', query->s);
		if (who->user.len)
			add_basic(basic, who);
		headers[0] = who->user.len ? basic->s : NULL;
	}
	q->url = url->s;
}

static int judge(const struct http_request *q, const char *realm, const char *host, struct grant *ret, struct err *err)
{
	if (q->reply.status >= 200 && q->reply.status < 300)
		return take_token(q, realm, ret, err);
	if (ret->named && (q->reply.status == 400 || q->reply.status == 401 || q->reply.status == 403))
		return GRANT_REFUSED;
	return err_set(err, status_passes(q->reply.status) ? ERR_IO : ERR_INVALID, "%s answers %ld when asked for a token for %s", realm, q->reply.status, host);
}

static int ask_realm(struct registry *r, const char *host, const char *realm, const struct str *query, const struct registry_credential *who, struct grant *ret, struct err *err)
{
	struct patience p;
	bool again;
	int result;

	patience_begin(&p, r);
	do {
		struct str url = { 0 }, body = { 0 }, basic = { 0 };
		const char *headers[] = { NULL, NULL };
		struct http_request q;
		struct err why = { 0 };

		compose(&q, realm, query, who, headers, &url, &body, &basic);
		result = http_do(r->http, &q, &why) < 0 ? -1 : judge(&q, realm, host, ret, &why);
		again = result < 0 && why.code == ERR_IO && patience_wait(&p, &q);
		if (result < 0 && !again)
			*err = why;
		command_wipe(&q.reply.body);
		http_request_deinit(&q);
		str_deinit(&url);
		command_wipe(&body);
		command_wipe(&basic);
	} while (again);
	return result;
}

/* --- all ------------------------------------------------------------------------------------------------------------------------------------- */

/* An address, not a name that looks like one ("127.0.0.1.example"). */
bool is_loopback(const char *host)
{
	_cleanup_(freep) char *name = xstrndup(host, *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#"));
	struct in_addr a;

	if (strcmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0)
		return true;
	return inet_pton(AF_INET, name, &a) == 1 && ntohl(a.s_addr) >> 24 == 127;
}

/* A registry that speaks TLS must not make us say a password in the clear. */
static bool may_be_told(const char *realm, const char *base)
{
	if (strlen(realm) > REGISTRY_URL_MAX)
		return false;
	return str_has_prefix(realm, "https://") || (str_has_prefix(realm, "http://") && (str_has_prefix(base, "http://") || is_loopback(realm + strlen("http://"))));
}

static int get_bearer(struct registry *r, const struct image_ref *ref, const char *scope, const char *base, const struct auth_challenge *challenge,
		      const struct registry_credential *who, struct grant *ret, struct err *err)
{
	_cleanup_(freep) char *own_scope = xasprintf("repository:%s:%s", ref->path, scope);
	_cleanup_(str_deinit) struct str query = { 0 };

	if (!may_be_told(challenge->realm, base))
		return err_set(err, ERR_INVALID, "%s wants tokens from `%.200s`, which isn't reached over TLS", ref->host, challenge->realm);
	add_query(&query, "service", challenge->service);
	add_query(&query, "scope", challenge->scope ? challenge->scope : own_scope);
	return ask_realm(r, ref->host, challenge->realm, &query, who, ret, err);
}

int grant_get(struct registry *r, const struct image_ref *ref, const char *scope, const char *base, const struct auth_challenge *challenge, size_t from, struct grant *ret,
	      struct err *err)
{
	struct registry_credential who = { 0 };
	int result;

	*ret = (struct grant){ .until_ns = INT64_MAX };
	result = docker_config_find(r->docker, ref->host, ref->path, from, &who, &ret->which, err);
	if (result < 0)
		return -1;
	ret->named = result > 0;
	result = 0;
	if (!ret->named && from)
		return GRANT_GIVEN;
	if (who.bearer.len) {
		ret->header = xasprintf("Authorization: Bearer %s", who.bearer.s);
	} else if (challenge->scheme == AUTH_BEARER) {
		result = get_bearer(r, ref, scope, base, challenge, &who, ret, err);
	} else if (challenge->scheme == AUTH_BASIC && who.user.len) {
		struct str header = { 0 };

		add_basic(&header, &who);
		ret->header = str_take(&header);
	}
	credential_wipe(&who);
	return result;
}

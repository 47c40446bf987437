/* storage/bucket/gcs/token.c — bearer tokens: finds credentials, and exchanges them for a token.
 *
 * look() tries the sources in the header's order. A file that the environment names must exist;
 * gcloud's own file and the metadata server may be absent. For a service account we post a JWT
 * signed with its key; for a user, the refresh token. Both go to the file's `token_uri`, over TLS
 * only.
 *
 * The last token is kept until shortly before it expires, or until the server refuses it. A renewal
 * that fails while the old token is good is tried again after RENEW_PAUSE_NS. The lock is held
 * during look(), so that only one thread renews.
 *
 * JSON errors are not passed on, since they may quote a key; buffers that held secrets are wiped.
 */
#include "storage/bucket/gcs/token.h"

#include <jansson.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <string.h>
#include "base/crypto/base64.h"
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "storage/bucket/transfer.h"

#define SCOPE_PATH "/auth/devstorage.read_write"
#define TOKEN_URI        \
	"https://oauth2" \
	"."              \
	"googleapis.com/token"
#define SCOPE_HOST    \
	"https://www" \
	"."           \
	"googleapis.com"
#define METADATA_HOST       "metadata.google.internal"
#define METADATA_PATH       "/computeMetadata/v1/instance/service-accounts/default/token"
#define FILE_MAX            MIB
#define TIMEOUT_NS          (30 * NS_PER_S)
#define METADATA_TIMEOUT_NS (3 * NS_PER_S)
#define RENEW_BEFORE_NS     (5 * 60 * NS_PER_S)
#define RENEW_PAUSE_NS      (30 * NS_PER_S)
#define JWT_LIFE_S          3600 /* the longest that Google allows */

struct token_source {
	struct token_options o;
	pthread_mutex_t lock; /* guards the fields below; held during look() */
	char *token;
	int64_t expires_ns, renew_at_ns;
};

static void wipe(char *s)
{
	if (s)
		OPENSSL_cleanse(s, strlen(s));
	free(s);
}

static const char *env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

/* JWT (RFC 7515, 7519). */

static int sign_rs256(const char *what, const char *pem, const struct str *text, struct str *out,
		      struct err *err)
{
	BIO *bio = BIO_new_mem_buf(pem, -1);
	EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)"") : NULL;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	unsigned char *sig = NULL;
	size_t n = 0;
	int r = -1;

	if (!key || EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA)
		err_set(err, ERR_INVALID, "%s: `private_key` is no RSA key in PEM", what);
	else if (!ctx || EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) != 1 ||
		 EVP_DigestSign(ctx, NULL, &n, (const unsigned char *)text->s, text->len) != 1 ||
		 !(sig = xmalloc(n)) ||
		 EVP_DigestSign(ctx, sig, &n, (const unsigned char *)text->s, text->len) != 1)
		err_set(err, ERR_INVALID, "%s: signing with `private_key` failed", what);
	else
		r = 0;
	if (r == 0)
		base64_add_url(out, sig, n);
	free(sig);
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	BIO_free(bio);
	return r;
}

static void add_json_part(struct str *out, json_t *j)
{
	struct str text = { 0 };

	json_add_canonical(&text, j);
	base64_add_url(out, text.s, text.len);
	str_deinit(&text);
	json_decref(j);
}

static int sign_jwt(const char *what, const json_t *key, int64_t now_ns, struct str *out,
		    const char **ret_uri, struct err *err)
{
	const char *email, *pem, *id, *uri;
	json_int_t now = now_ns / NS_PER_S;
	struct str text = { 0 };
	int r;

	if (json_get_str(key, "client_email", &email, err) < 0 ||
	    json_get_str(key, "private_key", &pem, err) < 0 ||
	    json_get_str_opt(key, "private_key_id", "", &id, err) < 0 ||
	    json_get_str_opt(key, "token_uri", TOKEN_URI, &uri, err) < 0)
		return err_wrap(err, "%s", what);
	add_json_part(out, json_pack("{s:s, s:s, s:s}", "alg", "RS256", "typ", "JWT", "kid", id));
	str_addc(out, '.');
	add_json_part(out, json_pack("{s:s, s:s, s:s, s:I, s:I}", "iss", email, "scope",
				     SCOPE_HOST SCOPE_PATH, "aud", uri, "iat", now, "exp",
				     now + JWT_LIFE_S));
	str_addn(&text, out->s, out->len);
	str_addc(out, '.');
	*ret_uri = uri;
	r = sign_rs256(what, pem, &text, out, err);
	str_deinit(&text);
	return r;
}

static int parse_object(const char *what, const char *bytes, size_t n, json_t **ret,
			struct err *err)
{
	struct err why = { 0 };

	/* Not the parser's message: it may quote a secret. */
	if (json_parse(what, bytes, n, ret, &why) < 0)
		return err_set(err, ERR_INVALID, "%s isn't JSON", what);
	if (json_is_object(*ret))
		return 0;
	json_decref(*ret);
	*ret = NULL;
	return err_set(err, ERR_INVALID, "%s isn't a JSON object", what);
}

/* lint: unused but by tests: with a key and a time that are known */
int token_sign_jwt(const char *what, const char *key_json, size_t n, int64_t now_ns,
		   struct str *ret_jwt, char **ret_token_uri, struct err *err)
{
	const char *uri;
	json_t *j = NULL;
	int r;

	if (parse_object(what, key_json, n, &j, err) < 0)
		return -1;
	r = sign_jwt(what, j, now_ns, ret_jwt, &uri, err);
	if (r == 0)
		*ret_token_uri = xstrdup(uri);
	json_decref(j);
	return r;
}

/* Answers. */

static int read_answer(const struct http_request *r, const char *what, struct token_source *s,
		       int64_t now, struct err *err)
{
	const char *token, *why = "", *description = "";
	json_t *j = NULL;
	double seconds;
	int result = -1;

	if (parse_object(what, r->reply.body.s ? r->reply.body.s : "", r->reply.body.len, &j, err) <
	    0) {
		if (r->reply.status == 200)
			return -1;
		return err_set(err, r->reply.status >= 500 ? ERR_IO : ERR_INVALID,
			       "%s answers with status %ld", what, r->reply.status);
	}
	if (r->reply.status != 200) {
		json_get_str_opt(j, "error", "", &why, NULL);
		json_get_str_opt(j, "error_description", "", &description, NULL);
		err_set(err, r->reply.status >= 500 ? ERR_IO : ERR_INVALID,
			"%s refuses a token: status %ld %.100s: %.300s", what, r->reply.status, why,
			description);
	} else if (json_get_str(j, "access_token", &token, err) < 0 ||
		   json_get_real_opt(j, "expires_in", 300, &seconds, err) < 0) {
		err_wrap(err, "%s", what);
	} else if (!*token || strpbrk(token, "\r\n") || !(seconds > 0 && seconds < 1e6)) {
		err_set(err, ERR_INVALID, "%s answers without a usable token", what);
	} else {
		int64_t life = (int64_t)(seconds * 1e9);

		wipe(s->token);
		s->token = xstrdup(token);
		s->expires_ns = now + life;
		s->renew_at_ns = now + MAX(life - RENEW_BEFORE_NS, life / 4 * 3);
		result = 0;
	}
	json_decref(j);
	return result;
}

static int post(struct token_source *s, const char *what, const char *url, const struct str *form,
		int64_t now, struct err *err)
{
	const char *headers[] = { "Content-Type: application/x-www-form-urlencoded", NULL };
	struct http_request r = { .method = "POST",
				  .url = url,
				  .headers = headers,
				  .body = form->s,
				  .body_len = form->len,
				  .body_fd = -1,
				  .timeout_ns = TIMEOUT_NS };
	int result = -1;

	/* The request holds a secret: plain http only to this machine. */
	if (!str_has_prefix(url, "https://") && !str_has_prefix(url, "http://127.0.0.1:") &&
	    !str_has_prefix(url, "http://localhost:"))
		return err_set(err, ERR_INVALID, "%s: `token_uri` must be https", what);
	if (s->o.fetch(s->o.arg, &r, err) < 0)
		err_wrap(err, "asking for a token with %s", what);
	else
		result = read_answer(&r, what, s, now, err);
	if (r.reply.body.s)
		OPENSSL_cleanse(r.reply.body.s, r.reply.body.len);
	http_request_deinit(&r);
	return result;
}

/* Files. */

static int from_service_account(struct token_source *s, const char *path, const json_t *j,
				int64_t now, struct err *err)
{
	struct str jwt = { 0 }, form = { 0 };
	const char *uri;
	int r = sign_jwt(path, j, now, &jwt, &uri, err);

	if (r == 0) {
		transfer_add_param(&form, "grant_type",
				   "urn:ietf:params:oauth:grant-type:jwt-bearer");
		transfer_add_param(&form, "assertion", jwt.s);
		r = post(s, path, uri, &form, now, err);
	}
	str_wipe(&jwt);
	str_wipe(&form);
	return r;
}

static int from_user(struct token_source *s, const char *path, const json_t *j, int64_t now,
		     struct err *err)
{
	const char *id, *secret, *refresh, *uri;
	struct str form = { 0 };
	int r;

	if (json_get_str(j, "client_id", &id, err) < 0 ||
	    json_get_str(j, "client_secret", &secret, err) < 0 ||
	    json_get_str(j, "refresh_token", &refresh, err) < 0 ||
	    json_get_str_opt(j, "token_uri", TOKEN_URI, &uri, err) < 0)
		return err_wrap(err, "%s", path);
	transfer_add_param(&form, "grant_type", "refresh_token");
	transfer_add_param(&form, "client_id", id);
	transfer_add_param(&form, "client_secret", secret);
	transfer_add_param(&form, "refresh_token", refresh);
	r = post(s, path, uri, &form, now, err);
	str_wipe(&form);
	return r;
}

/* 1: there is no such file. */
static int from_file(struct token_source *s, const char *path, int64_t now, struct err *err)
{
	struct str text = { 0 };
	struct err why = { 0 };
	const char *type = "";
	json_t *j = NULL;
	int r = -1;

	if (fs_read_file(path, FILE_MAX, &text, &why) < 0) {
		str_deinit(&text);
		return why.code == ERR_NOT_FOUND ? 1 : err_set(err, ERR_INVALID, "%s", why.msg);
	}
	if (parse_object(path, text.s ? text.s : "", text.len, &j, err) == 0 &&
	    json_get_str_opt(j, "type", "", &type, err) == 0) {
		if (str_eq(type, "service_account"))
			r = from_service_account(s, path, j, now, err);
		else if (str_eq(type, "authorized_user"))
			r = from_user(s, path, j, now, err);
		else
			err_set(err, ERR_INVALID,
				"%s: credentials of the type `%.40s` aren't supported: use a "
				"service account's key, or `gcloud auth application-default login`",
				path, type);
	}
	json_decref(j);
	str_wipe(&text);
	return r;
}

static char *user_file(void)
{
	const char *config = env("CLOUDSDK_CONFIG"), *home = env("HOME");

	if (config)
		return fs_join(config, "application_default_credentials.json");
	return home ? fs_join(home, ".config/gcloud/application_default_credentials.json") : NULL;
}

/* Metadata server. */

static int from_metadata(struct token_source *s, int64_t now, struct err *err)
{
	const char *host = env("GCE_METADATA_HOST");
	_cleanup_(freep) char *url =
		xasprintf("http://%s" METADATA_PATH, host ? host : METADATA_HOST);
	const char *headers[] = { "Metadata-Flavor: Google", NULL };
	struct http_request r = { .method = "GET",
				  .url = url,
				  .headers = headers,
				  .body_fd = -1,
				  .timeout_ns = METADATA_TIMEOUT_NS };
	const char *off = env("NO_GCE_CHECK");
	size_t n;
	int result = 1;

	if (off && strcasecmp(off, "true") == 0)
		return 1;
	if (s->o.fetch(s->o.arg, &r, NULL) == 0 && http_header(&r, "Metadata-Flavor", &n))
		result = read_answer(&r, "the metadata server", s, now, err);
	http_request_deinit(&r);
	return result;
}

/* The chain. */

static int look(struct token_source *s, int64_t now, struct err *err)
{
	const char *named = env("GOOGLE_APPLICATION_CREDENTIALS");
	_cleanup_(freep) char *user = user_file();
	int r = 1;

	if (named) {
		r = from_file(s, named, now, err);
		return r == 1 ? err_set(err, ERR_INVALID,
					"GOOGLE_APPLICATION_CREDENTIALS names %s, which doesn't "
					"exist",
					named)
			      : r;
	}
	if (user)
		r = from_file(s, user, now, err);
	if (r == 1)
		r = from_metadata(s, now, err);
	if (r == 1)
		return err_set(err, ERR_INVALID,
			       "no credentials for Google Cloud Storage: set "
			       "GOOGLE_APPLICATION_CREDENTIALS, or run `gcloud auth "
			       "application-default login`");
	return r;
}

struct token_source *token_source_new(const struct token_options *o)
{
	struct token_source *s = xcalloc(1, sizeof(*s));

	s->o = *o;
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

void token_source_free(struct token_source *s)
{
	if (!s)
		return;
	wipe(s->token);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static int renew(struct token_source *s, bool refused, int64_t now, struct err *err)
{
	struct err why = { 0 };

	if (look(s, now, &why) == 0)
		return 0;
	if (!refused && s->token && now < s->expires_ns) {
		s->renew_at_ns = now + RENEW_PAUSE_NS;
		return 0;
	}
	if (err)
		*err = why;
	return -1;
}

int token_get(struct token_source *s, const char *refused, char **ret, struct err *err)
{
	struct clock *c = s->o.clock ? s->o.clock : clock_system();
	int64_t now = c->wall_ns(c);
	bool again;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	again = refused && str_eq(refused, s->token);
	if (!s->token || again || now >= s->renew_at_ns)
		r = renew(s, again, now, err);
	if (r == 0)
		*ret = xstrdup(s->token);
	pthread_mutex_unlock(&s->lock);
	return r;
}

/* storage/bucket/s3/credentials_sts.c — assumes roles by STS: AssumeRoleWithWebIdentity (unsigned)
 * and AssumeRole (signed).
 *
 * Both are one POST of a form and one XML answer. The request goes to the endpoint that the user's
 * configuration names for `sts`, else to AWS's endpoint of the region. A role that requires an MFA
 * code is refused; the message says what to do.
 *
 * Nothing is retried here: the chain asks again when it needs credentials.
 */
#include "storage/bucket/s3/credentials_internal.h"

#include <stdio.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "storage/bucket/s3/sigv4.h"
#include "storage/bucket/s3/xml.h"
#include "storage/bucket/transfer.h"

#define TIMEOUT_NS (30 * NS_PER_S)

static char *sts_endpoint(const struct credentials_search *s)
{
	char *given = NULL;

	if (credentials_endpoint(s->o, "sts", &given, NULL) == 0 && given)
		return given;
	return xasprintf("https://sts.%s.%s", s->region,
			 str_has_prefix(s->region, "cn-") ? "amazonaws.com.cn" : "amazonaws.com");
}

struct answer {
	char *id, *secret, *token;
	int64_t expires_ns;
};

static void replace(char **slot, const char *text)
{
	free(*slot);
	*slot = xstrdup(text);
}

static int answer_element(void *arg, const char *path, const char *text, struct err *err)
{
	struct answer *a = arg;

	if (str_has_suffix(path, "/Credentials/AccessKeyId"))
		replace(&a->id, text);
	else if (str_has_suffix(path, "/Credentials/SecretAccessKey"))
		replace(&a->secret, text);
	else if (str_has_suffix(path, "/Credentials/SessionToken"))
		replace(&a->token, text);
	else if (str_has_suffix(path, "/Credentials/Expiration"))
		return text_parse_time(text, &a->expires_ns, err);
	return 0;
}

static int read_answer(const struct http_request *r, const char *role, struct credentials *ret,
		       struct err *err)
{
	struct answer a = { .expires_ns = 0 };
	struct xml_error e;
	int result = -1;

	if (r->reply.status != 200) {
		if (xml_read_error(r->reply.body.s, r->reply.body.len, &e))
			return err_set(err, r->reply.status >= 500 ? ERR_IO : ERR_INVALID,
				       "STS refuses the role %s: %s: %s", role, e.code, e.message);
		return err_set(err, r->reply.status >= 500 ? ERR_IO : ERR_INVALID,
			       "STS refuses the role %s: status %ld", role, r->reply.status);
	}
	if (xml_read("STS", r->reply.body.s, r->reply.body.len, answer_element, &a, err) == 0) {
		if (a.id && a.secret && a.token && *a.id && *a.secret && a.expires_ns) {
			credentials_set(ret, a.id, a.secret, a.token, a.expires_ns, "STS");
			result = 0;
		} else {
			err_set(err, ERR_CORRUPT, "STS answered without credentials");
		}
	}
	free(a.id);
	credentials_wipe(&a.secret);
	credentials_wipe(&a.token);
	return result;
}

static void session_name(struct str *form, const char *given)
{
	char name[32];

	snprintf(name, sizeof(name), "cairn-%ld", (long)getpid());
	transfer_add_param(form, "RoleSessionName", given ? given : name);
}

/* Posts the form; signed when `by` is given. */
static int post(const struct credentials_search *s, const char *role, const struct str *form,
		const struct credentials *by, struct credentials *ret, struct err *err)
{
	_cleanup_(freep) char *endpoint = sts_endpoint(s), *host = NULL, *base = NULL, *url = NULL,
			      *path = NULL;
	const char *headers[6] = { "Content-Type: application/x-www-form-urlencoded" }, *scheme;
	struct str authorization = { 0 }, date_line = { 0 }, token_line = { 0 };
	struct http_request r = { .method = "POST",
				  .headers = headers,
				  .body = form->s,
				  .body_len = form->len,
				  .body_fd = -1,
				  .timeout_ns = TIMEOUT_NS };
	char date[SIGV4_DATE_BYTES], hash[DIGEST_HEX_MAX];
	struct digest d;
	int result = -1;

	if (!sigv4_split_endpoint(endpoint, &scheme, &host, &base))
		return err_set(err, ERR_INVALID,
			       "the endpoint of STS must be http:// or https://, a host, and "
			       "perhaps a port and a path");
	path = xasprintf("%s/", base);
	url = xasprintf("%s://%s%s", scheme, host, path);
	r.url = url;
	if (by) {
		struct sigv4_header signed_headers[] = { { "content-type",
							   "application/x-www-form-urlencoded" },
							 { "host", host },
							 { "x-amz-date", date },
							 { "x-amz-security-token", by->token } };
		struct sigv4_request q = { .method = "POST",
					   .path = path,
					   .headers = signed_headers,
					   .n_headers = by->token ? 4 : 3,
					   .payload_hash = hash,
					   .region = s->region,
					   .service = "sts",
					   .key_id = by->key_id,
					   .secret = by->secret,
					   .time_ns = s->now_ns };

		sigv4_date(s->now_ns, date);
		digest_bytes(form->s, form->len, &d);
		digest_hex(&d, hash);
		str_add(&authorization, "Authorization: ");
		sigv4_authorization(&q, &authorization);
		str_addf(&date_line, "X-Amz-Date: %s", date);
		headers[1] = authorization.s;
		headers[2] = date_line.s;
		if (by->token) {
			str_addf(&token_line, "X-Amz-Security-Token: %s", by->token);
			headers[3] = token_line.s;
		}
	}
	if (s->o->fetch(s->o->arg, &r, err) < 0)
		err_wrap(err, "asking STS for the role %s", role);
	else
		result = read_answer(&r, role, ret, err);
	str_wipe(&r.reply.body);
	http_request_deinit(&r);
	str_wipe(&authorization);
	str_deinit(&date_line);
	str_wipe(&token_line);
	return result;
}

int credentials_from_web_identity(const struct credentials_search *s, const char *token_file,
				  const char *role, const char *session, struct credentials *ret,
				  struct err *err)
{
	struct str token = { 0 }, form = { 0 };
	int r = -1;

	if (fs_read_file(token_file, CREDENTIALS_FILE_MAX, &token, err) < 0) {
		str_deinit(&token);
		err_wrap(err, "the web identity's token");
		if (err)
			err->code = ERR_INVALID;
		return -1;
	}
	while (token.len && strchr(" \t\r\n", token.s[token.len - 1]))
		token.s[--token.len] = '\0';
	transfer_add_param(&form, "Action", "AssumeRoleWithWebIdentity");
	transfer_add_param(&form, "Version", "2011-06-15");
	transfer_add_param(&form, "RoleArn", role);
	session_name(&form, session);
	transfer_add_param(&form, "WebIdentityToken", token.s ? token.s : "");
	r = post(s, role, &form, NULL, ret, err);
	str_wipe(&token);
	str_wipe(&form);
	return r;
}

int credentials_assume_role(const struct credentials_search *s, const struct ini *ini,
			    const char *profile, const struct credentials *by,
			    struct credentials *ret, struct err *err)
{
	const char *role = ini_get(ini, profile, "role_arn"),
		   *external = ini_get(ini, profile, "external_id"),
		   *duration = ini_get(ini, profile, "duration_seconds");
	struct str form = { 0 };
	int r;

	if (ini_get(ini, profile, "mfa_serial"))
		return err_set(
			err, ERR_INVALID,
			"the role of the profile `%s` wants an MFA code: use credential_process, "
			"or export session credentials into the environment",
			profile);
	transfer_add_param(&form, "Action", "AssumeRole");
	transfer_add_param(&form, "Version", "2011-06-15");
	transfer_add_param(&form, "RoleArn", role);
	session_name(&form, ini_get(ini, profile, "role_session_name"));
	if (external)
		transfer_add_param(&form, "ExternalId", external);
	if (duration)
		transfer_add_param(&form, "DurationSeconds", duration);
	r = post(s, role, &form, by, ret, err);
	str_deinit(&form);
	return r;
}

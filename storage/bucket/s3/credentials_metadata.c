/* storage/bucket/s3/credentials_metadata.c — credentials from a container's endpoint (ECS, EKS Pod
 * Identity) and from the instance's metadata service, version 2.
 *
 * The environment names a container's endpoint. Plain HTTP is allowed only to the addresses in
 * may_ask(), because the request carries a token. If an endpoint is named, its failure is an error.
 *
 * The instance needs three requests: a token, the role's name, the role's credentials. If one of
 * the first two fails, there is no metadata service, and so no credentials here. The timeout is
 * short, because outside AWS nothing answers.
 */
#include "storage/bucket/s3/credentials_internal.h"

#include "base/mem.h"
#include "base/os/fs.h"

#define CONTAINER_HOST       "http://169.254.170.2"
#define INSTANCE_HOST        "http://169.254.169.254"
#define INSTANCE_TIMEOUT_NS  (2 * NS_PER_S) /* outside AWS nothing answers */
#define CONTAINER_TIMEOUT_NS (5 * NS_PER_S)
#define ROLE_PATH            "/latest/meta-data/iam/security-credentials/"

/* Sends *r, with at most one header. 0 with an answer of any status. */
static int ask(const struct credentials_search *s, struct http_request *r, const char *header,
	       struct err *err)
{
	const char *headers[] = { header, NULL };
	int got;

	r->headers = headers;
	r->body_fd = -1;
	got = s->o->fetch(s->o->arg, r, err);
	r->headers = NULL;
	return got;
}

/* Container. */

/* Plain HTTP only to this machine and to the addresses of ECS and EKS, so that the token isn't sent
 * in the clear. */
static bool may_ask(const char *url)
{
	static const char *const hosts[] = { "127.0.0.1",     "localhost",      "[::1]",
					     "169.254.170.2", "169.254.170.23", "[fd00:ec2::23]" };
	const char *host = url + strlen("http://");
	size_t n;

	if (str_has_prefix(url, "https://"))
		return true;
	if (!str_has_prefix(url, "http://"))
		return false;
	n = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
	for (size_t i = 0; i < ARRAY_LEN(hosts); i++)
		if (strlen(hosts[i]) == n && strncmp(hosts[i], host, n) == 0)
			return true;
	return str_has_prefix(host, "127.") && strspn(host, "0123456789.") == n;
}

static int container_token(struct str *ret, struct err *err)
{
	const char *file = credentials_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
		   *token = credentials_env("AWS_CONTAINER_AUTHORIZATION_TOKEN");

	if (file) {
		if (fs_read_file(file, CREDENTIALS_FILE_MAX, ret, err) < 0) {
			if (err)
				err->code = ERR_INVALID;
			return err_wrap(err, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
		}
		while (ret->len && strchr(" \t\r\n", ret->s[ret->len - 1]))
			ret->s[--ret->len] = '\0';
	} else if (token) {
		str_add(ret, token);
	}
	if (ret->len && (strlen(ret->s) != ret->len || strpbrk(ret->s, "\r\n")))
		return err_set(err, ERR_INVALID,
			       "the container's authorization token has a line break in it");
	return 0;
}

int credentials_from_container(const struct credentials_search *s, struct credentials *ret,
			       struct err *err)
{
	const char *relative = credentials_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
		   *full = credentials_env("AWS_CONTAINER_CREDENTIALS_FULL_URI");
	_cleanup_(freep) char *url = relative ? xasprintf(CONTAINER_HOST "%s", relative)
				     : full   ? xstrdup(full)
					      : NULL;
	struct str token = { 0 }, header = { 0 };
	struct http_request r = { .method = "GET", .url = url, .timeout_ns = CONTAINER_TIMEOUT_NS };
	int result = -1;

	if (!url)
		return 1;
	if (!may_ask(url))
		return err_set(err, ERR_INVALID,
			       "AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or an address of "
			       "this machine or of its container service");
	if (container_token(&token, err) < 0)
		goto out;
	if (token.len)
		str_addf(&header, "Authorization: %s", token.s);
	if (ask(s, &r, header.s, err) < 0)
		err_wrap(err, "asking the container's credential endpoint");
	else if (r.reply.status != 200)
		err_set(err, r.reply.status >= 500 ? ERR_IO : ERR_INVALID,
			"the container's credential endpoint answers with status %ld",
			r.reply.status);
	else
		result = credentials_from_json("the container's credential endpoint",
					       r.reply.body.s ? r.reply.body.s : "",
					       r.reply.body.len, "the container", ret, err);
out:
	str_wipe(&r.reply.body);
	http_request_deinit(&r);
	str_wipe(&token);
	str_wipe(&header);
	return result;
}

/* Instance. */

static char *instance_url(const char *path)
{
	const char *own = credentials_env("AWS_EC2_METADATA_SERVICE_ENDPOINT"),
		   *host = own ? own : INSTANCE_HOST;
	size_t n = str_len_without(host, '/');

	return xasprintf("%.*s%s", (int)MIN(n, (size_t)1024), host, path);
}

/* 0: a header with a token; 1: no metadata service here. */
static int instance_token(const struct credentials_search *s, struct str *header)
{
	_cleanup_(freep) char *url = instance_url("/latest/api/token");
	struct http_request r = { .method = "PUT", .url = url, .timeout_ns = INSTANCE_TIMEOUT_NS };
	int result = 1;

	if (ask(s, &r, "X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL) == 0 &&
	    r.reply.status == 200 && r.reply.body.len && r.reply.body.len < 4096 &&
	    !strpbrk(r.reply.body.s, "\r\n")) {
		str_addf(header, "X-aws-ec2-metadata-token: %s", r.reply.body.s);
		result = 0;
	}
	str_wipe(&r.reply.body);
	http_request_deinit(&r);
	return result;
}

static int instance_role(const struct credentials_search *s, const char *header, const char *role,
			 struct credentials *ret, struct err *err)
{
	_cleanup_(freep) char *path = xasprintf(ROLE_PATH "%s", role), *url = instance_url(path);
	struct http_request r = { .method = "GET", .url = url, .timeout_ns = INSTANCE_TIMEOUT_NS };
	int result = -1;

	if (ask(s, &r, header, err) < 0)
		err_wrap(err, "asking the instance's metadata for the role %s", role);
	else if (r.reply.status != 200)
		err_set(err, ERR_INVALID,
			"the instance's metadata answers with status %ld for the role %s",
			r.reply.status, role);
	else
		result = credentials_from_json("the instance's metadata",
					       r.reply.body.s ? r.reply.body.s : "",
					       r.reply.body.len, "instance metadata", ret, err);
	str_wipe(&r.reply.body);
	http_request_deinit(&r);
	return result;
}

int credentials_from_instance(const struct credentials_search *s, struct credentials *ret,
			      struct err *err)
{
	_cleanup_(freep) char *url = instance_url(ROLE_PATH);
	struct http_request r = { .method = "GET", .url = url, .timeout_ns = INSTANCE_TIMEOUT_NS };
	struct str header = { 0 };
	const char *off = credentials_env("AWS_EC2_METADATA_DISABLED");
	int result = 1;

	if (off && strcasecmp(off, "true") == 0)
		return 1;
	if (instance_token(s, &header) == 0 && ask(s, &r, header.s, err) == 0 &&
	    r.reply.status == 200 && r.reply.body.len) {
		char *role = r.reply.body.s;

		role[strcspn(role, "\r\n")] = '\0';
		if (*role && strspn(role, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123"
					  "456789+=,.@_-") == strlen(role))
			result = instance_role(s, header.s, role, ret, err);
	}
	http_request_deinit(&r);
	str_wipe(&header);
	return result;
}

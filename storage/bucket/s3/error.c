/* storage/bucket/s3/error.c — explains refused requests, and what to do. Messages show only the
 * object of the request, and the code and message of the answer. */
#include "storage/bucket/s3/client.h"

#define UNKNOWN_KEY                                                                               \
	"the server doesn't know the access key: check which credentials are used (AWS_PROFILE, " \
	"AWS_ACCESS_KEY_ID), and whether they are "                                               \
	"for this endpoint"

/* One row per code. The message ends with what to do. */
static const struct {
	const char *code;
	enum err_code kind;
	const char *text;
} meanings[] = {
	{ "NoSuchBucket", ERR_NOT_FOUND, "the bucket doesn't exist: check its name, or make it" },
	{ "InvalidBucketName", ERR_INVALID, "this is no name for a bucket" },
	{ "InvalidAccessKeyId", ERR_INVALID, UNKNOWN_KEY },
	{ "XAdminUserNotFound", ERR_INVALID, UNKNOWN_KEY },
	{ "SignatureDoesNotMatch", ERR_INVALID,
	  "the signature doesn't match: the secret key is wrong, or a proxy changes requests" },
	{ "ExpiredToken", ERR_INVALID, "the session's credentials have expired: get new ones" },
	{ "TokenRefreshRequired", ERR_INVALID,
	  "the session's credentials have expired: get new ones" },
	{ "InvalidToken", ERR_INVALID, "the session token is refused: get new credentials" },
	{ "RequestTimeTooSkewed", ERR_INVALID,
	  "this machine's clock is too far from the server's: set it right" },
	{ "AuthorizationHeaderMalformed", ERR_INVALID,
	  "the request was signed for another region: set `region`, or AWS_REGION" },
	{ "PermanentRedirect", ERR_INVALID,
	  "the bucket is at another endpoint: set `region` or `endpoint`" },
	{ "TemporaryRedirect", ERR_IO,
	  "the bucket is moving to another endpoint: try again later" },
	{ "AccountProblem", ERR_INVALID, "there is a problem with the account" },
	{ "AllAccessDisabled", ERR_INVALID, "all access to the bucket is disabled" },
	{ "InvalidObjectState", ERR_INVALID, "the object is archived: restore it first" },
	{ "QuotaExceeded", ERR_NO_SPACE, "the quota is used up: make room, or raise it" },
	{ "QuotaExceededException", ERR_NO_SPACE, "the quota is used up: make room, or raise it" },
	{ "XMinioAdminBucketQuotaExceeded", ERR_NO_SPACE,
	  "the bucket's quota is used up: make room, or raise it" },
	{ "XMinioStorageFull", ERR_NO_SPACE, "the server's disks are full" },
	{ "InsufficientStorage", ERR_NO_SPACE, "the server's disks are full" },
	{ "EntityTooLarge", ERR_TOO_LARGE, "the object is larger than the server accepts" },
	{ "KeyTooLongError", ERR_INVALID, "the name is longer than the server takes" },
	{ "BadDigest", ERR_CORRUPT, "the server got other bytes than were sent, several times" },
	{ "XAmzContentSHA256Mismatch", ERR_CORRUPT,
	  "the server got other bytes than were sent, several times" },
	{ "NotImplemented", ERR_UNSUPPORTED, "the server can't do this" },
	{ "PreconditionFailed", ERR_CHANGED, "another version has taken its place" },
};

static int say(const struct s3 *s, const struct s3_call *c, enum err_code kind, const char *text,
	       struct err *err)
{
	const char *key = c->key ? c->key : "", *code = c->error.code;

	if (code[0] && c->error.message[0])
		return err_set(err, kind, "s3://%s/%s: %s (%s: %s)", s->base.name, key, text, code,
			       c->error.message);
	if (code[0])
		return err_set(err, kind, "s3://%s/%s: %s (%s)", s->base.name, key, text, code);
	if (c->reply.reply.status)
		return err_set(err, kind, "s3://%s/%s: %s (status %ld)", s->base.name, key, text,
			       c->reply.reply.status);
	return err_set(err, kind, "s3://%s/%s: %s", s->base.name, key, text);
}

static int denied(const struct s3 *s, const struct s3_call *c, struct err *err)
{
	if (!s->chain)
		return say(s, c, ERR_INVALID, "this isn't public: credentials are needed", err);
	if (!str_eq(c->method, "GET") && !str_eq(c->method, "HEAD"))
		return say(s, c, ERR_READ_ONLY, "these credentials may not write here", err);
	return say(s, c, ERR_INVALID,
		   "these credentials may not read here (or, without the right to list, it doesn't "
		   "exist)",
		   err);
}

static int by_status(const struct s3 *s, const struct s3_call *c, struct err *err)
{
	switch (c->reply.reply.status) {
	case 404:
		return say(s, c, ERR_NOT_FOUND,
			   c->key ? "it doesn't exist"
				  : "the bucket doesn't exist: check its name, or make it",
			   err);
	case 401:
	case 403:
		return denied(s, c, err);
	case 405:
	case 501:
		return say(s, c, ERR_UNSUPPORTED, "the server can't do this", err);
	case 412:
		return say(s, c, ERR_CHANGED, "another version has taken its place", err);
	case 413:
		return say(s, c, ERR_TOO_LARGE, "the object is larger than the server accepts",
			   err);
	case 507:
		return say(s, c, ERR_NO_SPACE, "the server's disks are full", err);
	case 301:
	case 302:
	case 307:
	case 308:
		return say(
			s, c, ERR_INVALID,
			"the server redirects to another region without naming it: set `region` or "
			"`endpoint`",
			err);
	default:
		if (c->reply.reply.status >= 500 || s3_code_transient(c->error.code))
			return say(s, c, ERR_IO, "the server fails, also after several tries", err);
		return say(s, c, ERR_INVALID, "the server refuses the request", err);
	}
}

int s3_error(const struct s3 *s, const struct s3_call *c, struct err *err)
{
	if (c->reply.err.code) {
		if (err)
			*err = c->reply.err;
		return err_wrap(err, "s3://%s/%s", s->base.name, c->key ? c->key : "");
	}
	for (size_t i = 0; i < ARRAY_LEN(meanings); i++)
		if (str_eq(meanings[i].code, c->error.code))
			return say(s, c, meanings[i].kind, meanings[i].text, err);
	return by_status(s, c, err);
}

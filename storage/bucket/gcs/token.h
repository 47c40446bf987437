/* storage/bucket/gcs/token.h — bearer tokens for Google Cloud Storage, as Google's own tools find
 * them.
 *
 * In order, the first that is there: the file of GOOGLE_APPLICATION_CREDENTIALS · gcloud's
 * application_default_credentials.json · the metadata server of the machine. A file is a service
 * account's key (a JWT is signed with it) or a user's credentials (a refresh token). Renewed before
 * they expire; while that fails and the old one is still good, the old is given. Any thread. No
 * secret is ever in an error.
 */
#ifndef CAIRN_STORAGE_BUCKET_GCS_TOKEN_H
#define CAIRN_STORAGE_BUCKET_GCS_TOKEN_H

#include "base/clock.h"
#include "base/net/http.h"

struct token_options {
	struct clock *clock; /* NULL: the system's */
	/* 0 with an answer of any status, -1 with *err. */
	int (*fetch)(void *arg, struct http_request *r, struct err *err);
	void *arg;
};
struct token_source;
struct token_source *token_source_new(const struct token_options *o);
void token_source_free(struct token_source *s);
/* A copy; the caller wipes and frees. `refused`, if set: this one was refused. ERR_INVALID when
 * there are no credentials, with what to do. */
int token_get(struct token_source *s, const char *refused, char **ret, struct err *err);

/* The signed JWT that a service account's key (its JSON) gives at a time; appended. For tests too.
 */
int token_sign_jwt(const char *what, const char *key_json, size_t n, int64_t now_ns,
		   struct str *ret_jwt, char **ret_token_uri, struct err *err);

#endif

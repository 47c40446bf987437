/* storage/bucket/gcs/token.h — bearer tokens for Google Cloud Storage, found as Google's own tools
 * do.
 *
 * The first source that exists, in this order: the file of GOOGLE_APPLICATION_CREDENTIALS ·
 * gcloud's application_default_credentials.json · the metadata server of the machine. A file is a
 * service account's key (it signs a JWT) or a user's credentials (a refresh token). A token is
 * renewed before it expires; if that fails, the old token is used while it is valid. Any thread.
 * Errors never contain a secret.
 */
#ifndef CAIRN_STORAGE_BUCKET_GCS_TOKEN_H
#define CAIRN_STORAGE_BUCKET_GCS_TOKEN_H

#include "base/net/http.h"
#include "base/time/clock.h"

struct token_options {
	struct clock *clock; /* NULL: the system's */
	/* Sends a request: 0 with an answer of any status, -1 with *err. */
	int (*fetch)(void *arg, struct http_request *r, struct err *err);
	void *arg;
};
struct token_source;
struct token_source *token_source_new(const struct token_options *o);
void token_source_free(struct token_source *s);
/* Returns a copy; the caller wipes and frees it. `refused`, if set: the server refused this token.
 * ERR_INVALID when there are no credentials; the message says what to do. */
int token_get(struct token_source *s, const char *refused, char **ret, struct err *err);

/* Appends the JWT for a time, signed with a service account's key (its JSON). Also for tests.
 */
int token_sign_jwt(const char *what, const char *key_json, size_t n, int64_t now_ns,
		   struct str *ret_jwt, char **ret_token_uri, struct err *err);

#endif

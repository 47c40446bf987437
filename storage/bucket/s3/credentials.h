/* storage/bucket/s3/credentials.h — credentials for S3, from the chain of sources that users of AWS
 * tools expect.
 *
 * The first source that has credentials, in this order: environment (AWS_ACCESS_KEY_ID; not when
 * credentials_options names a profile) · web identity of the environment
 * (AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN) · the profile of the shared files: keys,
 * credential_process, web_identity_token_file, role_arn with source_profile or credential_source ·
 * container (AWS_CONTAINER_CREDENTIALS_*) · instance metadata (IMDSv2). A source that exists but is
 * wrong is an error; only an absent one leads to the next.
 *
 * A chain keeps the credentials it found, and renews them a few minutes before they expire. If that
 * fails, it gives the old ones while they are valid. Any thread; one thread at a time renews.
 * Errors never contain a secret: they don't show what a program or a server printed.
 */
#ifndef CAIRN_STORAGE_BUCKET_S3_CREDENTIALS_H
#define CAIRN_STORAGE_BUCKET_S3_CREDENTIALS_H

#include "base/net/http.h"
#include "base/time/clock.h"

struct credentials {
	char *key_id, *secret;
	char *token;        /* or NULL */
	int64_t expires_ns; /* Unix; INT64_MAX: never */
	const char *source; /* static: "the environment", … */
};
void credentials_deinit(struct credentials *c); /* wipes */
void credentials_copy(struct credentials *to, const struct credentials *from);

struct credentials_options {
	const char *profile; /* NULL: AWS_PROFILE, AWS_DEFAULT_PROFILE, "default" */
	/* For STS; NULL: AWS_REGION, AWS_DEFAULT_REGION, the profile's, us-east-1. */
	const char *region;
	struct clock *clock; /* NULL: the system's */
	/* Sends requests to STS and metadata services: 0 with an answer of any status, -1 with
	 * *err. */
	int (*fetch)(void *arg, struct http_request *r, struct err *err);
	void *arg;
};
struct credentials_chain;
struct credentials_chain *credentials_chain_new(const struct credentials_options *o);
void credentials_chain_free(struct credentials_chain *c);

/* Returns a copy for the caller. `refused_key_id`, if set: the server refused the credentials of
 * that key id; finds new ones unless another thread has. ERR_INVALID when there are none; the
 * message says where we looked and what to do. */
int credentials_get(struct credentials_chain *c, const char *refused_key_id,
		    struct credentials *ret, struct err *err);

/* The endpoint of a service ("s3", "sts"), in the order of AWS's own tools:
 * AWS_ENDPOINT_URL_<SERVICE>, AWS_ENDPOINT_URL, the profile's `services` section, its endpoint_url.
 * NULL: AWS's own endpoint, also with AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true. The caller
 * frees. */
int credentials_endpoint(const struct credentials_options *o, const char *service, char **ret,
			 struct err *err);
/* A setting of the profile, such as "region"; NULL when there is none. The caller frees. */
int credentials_profile_setting(const struct credentials_options *o, const char *name, char **ret,
				struct err *err);

#endif

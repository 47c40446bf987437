/* storage/bucket/s3/credentials_internal.h — the sources of the chain. Each returns 0 with *ret, 1
 * when it has no credentials, -1 with *err. */
#ifndef CAIRN_STORAGE_BUCKET_S3_CREDENTIALS_INTERNAL_H
#define CAIRN_STORAGE_BUCKET_S3_CREDENTIALS_INTERNAL_H

#include <jansson.h>
#include <string.h>
#include "storage/bucket/s3/credentials.h"

#define CREDENTIALS_FILE_MAX MIB

/* What all sources need, resolved once per look(). The caller owns the strings. */
struct credentials_search {
	const struct credentials_options *o;
	const char *profile; /* name, never NULL */
	bool asked;          /* the profile was named, by option or environment */
	char *region;
	int64_t now_ns;
	int depth; /* of source_profile */
};

/* Non-empty value of an environment variable, or NULL. */
const char *credentials_env(const char *name);
void credentials_set(struct credentials *c, const char *key_id, const char *secret,
		     const char *token, int64_t expires_ns, const char *source);

/* Overwrites a secret, and frees it; NULL is fine. */
void credentials_wipe(char **secret);

/* credentials_file.c */
struct ini;
int ini_load(struct ini **ret, struct err *err); /* both shared files; missing ones are empty */
void ini_free(struct ini *i);
bool ini_has_profile(const struct ini *i, const char *profile);
const char *ini_get(const struct ini *i, const char *profile,
		    const char *key); /* borrowed, or NULL */
/* The endpoint from the profile's `services` section, or else the profile's endpoint_url. The
 * caller frees; or NULL. */
char *ini_service_endpoint(const struct ini *i, const char *profile, const char *service);

/* credentials_profile.c */
int credentials_from_profile(const struct credentials_search *s, const struct ini *ini,
			     const char *profile, struct credentials *ret, struct err *err);
/* {"AccessKeyId", "SecretAccessKey", "Token" or "SessionToken", "Expiration"}: the format of
 * processes and metadata services. */
int credentials_from_json(const char *what, const char *bytes, size_t n, const char *source,
			  struct credentials *ret, struct err *err);

/* credentials_sts.c */
int credentials_from_web_identity(const struct credentials_search *s, const char *token_file,
				  const char *role, const char *session, struct credentials *ret,
				  struct err *err);
int credentials_assume_role(const struct credentials_search *s, const struct ini *ini,
			    const char *profile, const struct credentials *by,
			    struct credentials *ret, struct err *err);

/* credentials_metadata.c */
int credentials_from_container(const struct credentials_search *s, struct credentials *ret,
			       struct err *err);
int credentials_from_instance(const struct credentials_search *s, struct credentials *ret,
			      struct err *err);

#endif

/* runners/image/registry_internal.h — declarations that the files of the registry client share;
 * nothing else includes this. */
#ifndef CAIRN_RUNNERS_IMAGE_REGISTRY_INTERNAL_H
#define CAIRN_RUNNERS_IMAGE_REGISTRY_INTERNAL_H

#include <pthread.h>
#include "base/map.h"
#include "base/net/http.h"
#include "runners/image/registry.h"

#define REGISTRY_DOCUMENT_MAX (4 * MIB) /* of manifests: the specification's limit */
#define REGISTRY_URL_MAX      8192

/* docker_config.c: the credentials. */

struct docker_config;
/* Reads the texts, then the file of DOCKER_CONFIG or ~/.docker. A missing file is fine.
 * ERR_INVALID. */
int docker_config_new(const struct docker_text *texts, struct docker_config **ret, struct err *err);
void docker_config_free(struct docker_config *c); /* NULL is fine */

/* All fields are secret: registry_credential_wipe(). Empty: anonymous. */
struct registry_credential {
	struct str user, password; /* for basic authentication */
	struct str identity;       /* a refresh token instead */
	struct str bearer;         /* a token to send as it is */
};
/* Finds the first credential for this image, from the `from`th text on. 1: found, and *ret_which is
 * its text. 0: there is none. Runs a credential helper when the configuration names one. Any
 * thread. */
int docker_config_find(const struct docker_config *c, const struct image_ref *ref, size_t from,
		       struct registry_credential *ret, size_t *ret_which, struct err *err);
const char *docker_config_name(const struct docker_config *c, size_t which); /* lent */
void registry_credential_wipe(struct registry_credential *c);

/* challenge.c: WWW-Authenticate (RFC 9110, 11.6.1). */

struct auth_challenge {
	enum { AUTH_NONE, AUTH_BASIC, AUTH_BEARER } scheme;
	const char *realm, *service, *scope, *error; /* or NULL; in the arena */
};
/* The best scheme that these headers ("Name: value\r\n" each) offer: bearer before basic, AUTH_NONE
 * when none is understood. Hostile input. */
void registry_challenge_parse(const char *headers, size_t n, struct arena *arena,
			      struct auth_challenge *ret);

/* registry.c */

struct registry {
	struct http_client *http;
	struct docker_config *docker;
	const char **plain_http;
	struct arena *arena; /* holds plain_http */
	int64_t retry_for_ns;
	pthread_mutex_t lock; /* guards the maps */
	struct map *bases;    /* host → char *: "https://host" */
	struct map *grants;   /* host, a space, scope → struct grant * */
};

/* Retries last this long, with pauses that grow. A registry may say how long to wait
 * (Retry-After). */
struct registry_retry {
	int64_t until_ns;
	uint32_t failures;
};
void registry_retry_begin(struct registry_retry *p, const struct registry *r);
bool registry_retry_wait(
	struct registry_retry *p,
	const struct http_request *answer); /* false: patience is over. answer: or NULL */

/* A request to the host of `ref`, below /v2/PATH/, with authentication, redirects and retries. */
struct registry_call {
	struct registry *r;
	const struct image_ref *ref;
	const char *scope; /* "pull" or "pull,push" */
	const char *method;
	const char *below;         /* "manifests/latest"; or NULL and `url` */
	const char *url;           /* instead: what the registry gave as Location */
	const char *accept, *type; /* headers, or NULL */
	const char *range;         /* Content-Range, or NULL */
	const void *body;
	size_t body_len;
	int body_fd; /* used when body_from_fd */
	bool body_from_fd;
	uint64_t body_offset;
	bool once; /* no retry after a failure: the caller asks how far it got */

	struct http_request reply;
	char *at; /* the URL that answered */
	/* Names of the credentials that the registry refused, separated by commas. */
	struct str refused;
};
/* 0: an answer came. Answers 401 with credentials, follows redirects, and retries 429 and 5xx as
 * long as the patience lasts. */
int registry_do(struct registry_call *c, struct err *err);
void registry_call_deinit(struct registry_call *c);
/* Turns an unexpected answer into an error; -1. */
int registry_refused(const struct registry_call *c, struct err *err);
/* The answer's Location as a full URL; the caller frees. NULL: none, or unusable. */
char *registry_location(const struct registry_call *c);

/* token.c: the header ("Authorization: …") that answers a challenge. */

struct grant {
	char *header;     /* NULL: no credential answers the challenge */
	int64_t until_ns; /* monotonic */
	bool named;       /* a credential was used: … */
	size_t which;     /* … this one of docker_config's */
};
enum grant_end { GRANT_GIVEN = 0, GRANT_REFUSED = 1 /* the realm refused the credential */ };
/* Uses the first credential from the `from`th on. Without any it asks anonymously, if `from` is 0.
 */
int registry_grant_get(const struct registry_call *c, const char *base,
		       const struct auth_challenge *challenge, size_t from, struct grant *ret,
		       struct err *err);
void registry_grant_free(struct grant *g);
void registry_secret_free(char *secret); /* overwrites it before the free; NULL is fine */

#endif

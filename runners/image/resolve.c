/* runners/image/resolve.c — the digest that a tag stands for.
 *
 * registry_resolve() uses HEAD when the tag's digest is enough, because many registries count only
 * GETs as pulls. When HEAD isn't supported or gives no digest, and when the caller wants one
 * platform's manifest, it gets the document (get()). It hashes the document and compares the hash
 * with the digest that was requested or announced. pick() finds a platform's manifest in an index;
 * an image without an index stands for every platform.
 *
 * Nothing is kept: images.c remembers answers. Any thread.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include "base/crypto/digest.h"
#include "base/text/text.h"
#include "runners/image/registry_internal.h"

#define OCI_INDEX       "application/vnd.oci.image.index.v1+json"
#define OCI_MANIFEST    "application/vnd.oci.image.manifest.v1+json"
#define DOCKER_INDEX    "application/vnd.docker.distribution.manifest.list.v2+json"
#define DOCKER_MANIFEST "application/vnd.docker.distribution.manifest.v2+json"
#define ACCEPT          OCI_INDEX ", " DOCKER_INDEX ", " OCI_MANIFEST ", " DOCKER_MANIFEST
#define ENTRIES_MAX     4096

struct resolution {
	struct registry_call call;
	struct image_ref ref;
	const char *given, *platform;
	char digest[IMAGE_DIGEST_MAX], below[160];
};

static bool is_digest(const char *s, size_t n)
{
	return n == 7 + 64 && memcmp(s, "sha256:", 7) == 0 &&
	       strspn(s + 7, "0123456789abcdef") >= 64;
}

/* The digest that the registry announces; "" when there is none of a known kind. */
static void announced(const struct registry_call *c, char ret[IMAGE_DIGEST_MAX])
{
	size_t n;
	const char *v = http_header(&c->reply, "Docker-Content-Digest", &n);
	char text[IMAGE_DIGEST_MAX] = "";

	if (v && n < sizeof(text))
		memcpy(text, v, n);
	snprintf(ret, IMAGE_DIGEST_MAX, "%s", is_digest(text, strlen(text)) ? text : "");
}

/* An index has one manifest per platform. */

static int pick(const struct resolution *s, const json_t *list, char ret[IMAGE_DIGEST_MAX],
		struct err *err)
{
	_cleanup_(str_deinit) struct str seen = { 0 }, one = { 0 }, shown = { 0 };
	json_t *entry;
	size_t i;

	if (json_array_size(list) > ENTRIES_MAX)
		return err_set(err, ERR_TOO_LARGE, "%s: more than %d platforms", s->given,
			       ENTRIES_MAX);
	json_array_foreach((json_t *)list, i, entry)
	{
		const char *digest = json_string_value(json_object_get(entry, "digest"));
		const json_t *p = json_object_get(entry, "platform");
		const char *os = json_string_value(json_object_get(p, "os")),
			   *arch = json_string_value(json_object_get(p, "architecture"));

		str_reset(&one);
		str_addf(&one, "%s/%s", os ? os : "unknown", arch ? arch : "unknown");
		if (strcmp(one.s, s->platform) == 0) {
			if (!digest || !is_digest(digest, strlen(digest)))
				return err_set(err, ERR_INVALID, "%s: %s gives no digest for %s",
					       s->given, s->ref.host, s->platform);
			snprintf(ret, IMAGE_DIGEST_MAX, "%s", digest);
			return 0;
		}
		if (!strstr(one.s, "unknown") && seen.len < 200)
			str_addf(&seen, "%s%s", seen.len ? ", " : "", one.s);
	}
	text_add_printable(&shown, seen.len ? seen.s : "nothing", seen.len ? seen.len : 7);
	return err_set(err, ERR_NOT_FOUND, "%s isn't made for %s; there is: %s", s->given,
		       s->platform, shown.s);
}

static int read_manifest(const struct resolution *s, char ret_platform[IMAGE_DIGEST_MAX],
			 struct err *err)
{
	const struct str *body = &s->call.reply.reply.body;
	const json_t *list;
	json_t *j;
	int r = 0;

	if (json_parse("manifest", body->len ? body->s : "", body->len, &j, err) < 0)
		return err_wrap(err, "%s: %s", s->given, s->ref.host);
	list = json_object_get(j, "manifests");
	if (json_is_array(list))
		r = pick(s, list, ret_platform, err);
	else if (json_is_object(json_object_get(j, "config")))
		snprintf(ret_platform, IMAGE_DIGEST_MAX, "%s", s->digest);
	else
		r = err_set(err, ERR_UNSUPPORTED,
			    "%s: %s gives a manifest of a kind that isn't known (schema version 1, "
			    "perhaps)",
			    s->given, s->ref.host);
	json_decref(j);
	return r;
}

/* Requests. */

static int ask(struct resolution *s, const char *method, struct err *err)
{
	registry_call_deinit(&s->call);
	s->call.method = method;
	return registry_do(&s->call, err);
}

/* Gets the document and compares its hash with the digest that was requested or announced. */
static int get(struct resolution *s, struct err *err)
{
	const struct str *body = &s->call.reply.reply.body;
	const char *wanted = s->ref.digest;
	char said[IMAGE_DIGEST_MAX], hex[DIGEST_HEX_MAX];
	struct digest d;

	if (ask(s, "GET", err) < 0)
		return -1;
	if (s->call.reply.reply.status != 200)
		return registry_refused(&s->call, err);
	digest_bytes(body->len ? body->s : "", body->len, &d);
	snprintf(s->digest, sizeof(s->digest), "sha256:%s", digest_hex(&d, hex));
	announced(&s->call, said);
	if (!wanted && *said)
		wanted = said;
	if (wanted && strcmp(wanted, s->digest) != 0)
		return err_set(err, ERR_INVALID,
			       "%s: %s gave a manifest of digest %s instead of %s", s->given,
			       s->ref.host, s->digest, wanted);
	return 0;
}

/* 1: the header of HEAD has the digest; HEAD doesn't count as a pull. 0: it doesn't. */
static int head(struct resolution *s, struct err *err)
{
	long status;

	if (ask(s, "HEAD", err) < 0)
		return -1;
	status = s->call.reply.reply.status;
	if (status == 405 || status == 501)
		return 0;
	if (status != 200)
		return registry_refused(&s->call, err);
	announced(&s->call, s->digest);
	if (*s->digest && s->ref.digest && strcmp(s->digest, s->ref.digest) != 0)
		return err_set(err, ERR_INVALID, "%s: %s says that its digest is %s", s->given,
			       s->ref.host, s->digest);
	return *s->digest != '\0';
}

int registry_resolve(struct registry *r, const char *ref, const char *platform,
		     char ret_digest[IMAGE_DIGEST_MAX], char *ret_platform_digest, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct resolution s = { .given = ref, .platform = platform };
	char for_platform[IMAGE_DIGEST_MAX];
	int result;

	if (image_ref_parse(ref, arena, &s.ref, err) < 0)
		return -1;
	snprintf(s.below, sizeof(s.below), "manifests/%s", s.ref.digest ? s.ref.digest : s.ref.tag);
	s.call = (struct registry_call){
		.r = r, .ref = &s.ref, .scope = "pull", .below = s.below, .accept = ACCEPT
	};
	result = ret_platform_digest ? 0 : head(&s, err);
	if (result == 0)
		result = get(&s, err);
	if (result == 0 && ret_platform_digest)
		result = read_manifest(&s, for_platform, err);
	registry_call_deinit(&s.call);
	if (result < 0)
		return -1;
	memcpy(ret_digest, s.digest, IMAGE_DIGEST_MAX);
	if (ret_platform_digest)
		memcpy(ret_platform_digest, for_platform, IMAGE_DIGEST_MAX);
	return 0;
}

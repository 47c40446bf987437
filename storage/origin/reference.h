/* storage/origin/reference.h — a reference: one version of an object outside the store, with its
 * URI and size.
 *
 * "claim://NAME/PATH" and "image://IMAGE@DIGEST/PATH" are volumes of a cluster, which pods mount.
 * Only they can read it; its version is what the pipeline says (`pin`), or the digest. Its size is
 * 0.
 *
 * A key uses the reference instead of the object's bytes. Canonical: the same version of an object
 * always gives the same record. It holds no credential. Format: storage/FORMAT.md. Input is
 * hostile.
 */
#ifndef CAIRN_STORAGE_ORIGIN_REFERENCE_H
#define CAIRN_STORAGE_ORIGIN_REFERENCE_H

#include "base/crypto/digest.h"
#include "base/text/str.h"

struct arena;
struct store;

#define REFERENCE_URI_MAX     4096
#define REFERENCE_VERSION_MAX 1024
#define REFERENCE_OPTIONS_MAX 2048
#define REFERENCE_RECORD_MAX  (8 * KIB)

struct reference {
	const char
		*uri; /* s3://BUCKET/KEY, gs://BUCKET/KEY, https://HOST/PATH; the key's raw bytes */
	/* Version id or generation; an ETag, with its quotes; or "last-modified:DATE". */
	const char *version;
	const char *options; /* "NAME=VALUE\n", sorted: anonymous, endpoint, profile, region; "":
				the project's options */
	uint64_t size_bytes;
};

bool reference_is_volume(const char *uri);
/* ERR_INVALID when a text is too long, empty (uri, version), or has control characters; or when the
 * URI's kind is unknown. */
int reference_check(const struct reference *r, struct err *err);
void reference_encode(const struct reference *r, struct str *out);
int reference_decode(const void *bytes, size_t n, struct arena *arena, struct reference *ret,
		     struct err *err); /* ERR_CORRUPT */
/* Returns the record's id, and stores the record unless s is NULL. */
int reference_put(struct store *s, const struct reference *r, struct content_id *ret,
		  struct err *err);
int reference_load(struct store *s, const struct content_id *id, struct arena *arena,
		   struct reference *ret, struct err *err);

/* Parsed options, and their canonical text. */
struct reference_options {
	const char *endpoint, *region, *profile; /* NULL: not given */
	bool anonymous;
};
void reference_options_text(const struct reference_options *o, struct str *out);
/* Reads it; strings in `arena`. False when it isn't canonical. */
bool reference_options_parse(const char *text, struct arena *arena, struct reference_options *ret);

#endif

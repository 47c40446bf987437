/* storage/origin/origin.h — content that lies outside: objects in buckets and files at https URLs,
 * as inputs.
 *
 * Pinning says what is there now: either the bytes, copied into the store, or references
 * (reference.h), each naming one version of one object: a tree of them for a prefix or a glob, one
 * for a single object. What was copied or fetched before isn't fetched again: the store's directory
 * remembers which version gave which bytes. Fetching asks for the pinned version and nothing else:
 * when the origin has changed meanwhile, that is ERR_CHANGED.
 *
 * URIs: s3://BUCKET/KEY, gs://BUCKET/KEY, https://HOST/PATH (http:// only on loopback). For the
 * first two: a KEY that ends in `/` is a prefix, with everything below it; one with `*`, `?`, `[`
 * or `**` a glob over keys, as tree_glob()'s; what they match is laid out by the path from the last
 * `/` before the first such character. Objects whose name ends in `/` are marks that programs leave
 * for directories, and are no files.
 *
 * Credentials come from where the store's come from, never from a record. Any thread. Errors:
 * ERR_NOT_FOUND (nothing there), ERR_CHANGED, ERR_INVALID (refused; can't be referenced; names that
 * no file can have), ERR_IO (can't be reached).
 */
#ifndef CAIRN_STORAGE_ORIGIN_ORIGIN_H
#define CAIRN_STORAGE_ORIGIN_ORIGIN_H

#include "storage/content/content.h"
#include "storage/origin/reference.h"

struct bucket_options;
/* How buckets are reached that no input says more about: those of the store's own kind (s3:// for a
 * directory). Strings are copied. */
void store_set_origins(struct store *s, const struct bucket_options *o);
/* An endpoint that the project itself names: references may be asked for there with our
 * credentials. At any other, and none is the store's own, it is refused. */
void store_trust_endpoint(struct store *s, const char *endpoint);
/* A URL whose query holds a signature or a token: it is known by origin_public_uri() from here on,
 * and asked for as it is. */
void store_know_origin(struct store *s, const char *uri);
/* The URI without user, fragment, and those parameters of the query that are credentials
 * (signatures, tokens, keys, expiry): what is recorded. */
void origin_public_uri(const char *uri, struct str *out);

enum origin_mode { ORIGIN_AUTO, ORIGIN_COPY, ORIGIN_REFERENCE };
struct origin_ask {
	const char *uri;
	const char *options; /* as in struct reference */
	enum origin_mode mode;
	uint64_t copy_max; /* auto: more bytes than this in all are referenced */
};
struct origin_pinned {
	struct content_id id;
	bool by_reference;
	uint64_t objects, bytes,
		fetched; /* there; their size; fetched now, because they weren't known */
};
int origin_pin(struct store *s, const struct origin_ask *ask, struct origin_pinned *ret,
	       struct err *err);

/* The blobs of these references, fetched as far as the store lacks them. They are kept here only: a
 * shared store doesn't get them. */
int origin_fetch(struct store *s, const struct reference *refs, size_t n, struct content_id *ret,
		 struct err *err);
/* The same for everything that a tree reaches, or for one reference: afterwards materialising finds
 * all of it. */
int origin_bring(struct store *s, const struct content_id *id, struct err *err);

enum origin_state {
	ORIGIN_UNCHANGED,
	ORIGIN_CHANGED,
	ORIGIN_GONE,
	ORIGIN_UNREACHABLE,
	ORIGIN_STATES
};
struct origin_check {
	/* Not for unchanged ones. `why` is a sentence, or "". */
	void (*on_problem)(void *arg, const struct reference *r, enum origin_state state,
			   const char *why);
	void *arg;
	/* answered, added to what is there */
	uint64_t n[ORIGIN_STATES];
};
/* Compares each reference of a content with what is there now, and counts it by state in c->n. A
 * content without references counts nothing. Objects of one prefix are listed, not asked for one by
 * one. -1 only when the store fails. */
int origin_check(struct store *s, const struct content_id *id, struct origin_check *c,
		 struct err *err);

#endif

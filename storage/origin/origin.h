/* storage/origin/origin.h — inputs from outside the store: objects in buckets, and files at https
 * URLs.
 *
 * Pinning records the current objects. Either it copies the bytes into the store, or it makes
 * references (reference.h), each to one version of one object: a tree of references for a prefix or
 * a glob, one reference for a single object. Nothing is fetched twice: the store's directory
 * remembers which version gave which bytes. A fetch gets exactly the pinned version, or ERR_CHANGED
 * when the origin has changed meanwhile.
 *
 * URIs: s3://BUCKET/KEY, gs://BUCKET/KEY, https://HOST/PATH (http:// only on loopback). For the
 * first two, a KEY that ends in `/` is a prefix, with everything below it. A KEY with `*`, `?`, `[`
 * or `**` is a glob over keys, with the rules of tree_glob(); the paths of its matches begin after
 * the last `/` before the first such character. Objects whose name ends in `/` are directory marks
 * of other programs, and are skipped.
 *
 * Credentials come from the same sources as the store's, never from a record. Any thread. Errors:
 * ERR_NOT_FOUND (nothing there), ERR_CHANGED, ERR_INVALID (refused; can't be referenced; invalid
 * file names), ERR_IO (can't be reached).
 */
#ifndef CAIRN_STORAGE_ORIGIN_ORIGIN_H
#define CAIRN_STORAGE_ORIGIN_ORIGIN_H

#include "storage/content/content.h"
#include "storage/origin/reference.h"

struct bucket_options;
/* Sets the default options of inputs' buckets. They apply to buckets of the store's own kind (s3://
 * for a directory). Strings are copied. */
void store_set_origins(struct store *s, const struct bucket_options *o);
/* Trusts an endpoint that the project itself names: requests there may carry our credentials. At
 * other endpoints, except the store's own, credentials are refused. */
void store_trust_endpoint(struct store *s, const char *endpoint);
/* Registers a URL whose query holds a signature or a token. From now on references name its
 * origin_public_uri(), and requests use the URL as given. */
void store_know_origin(struct store *s, const char *uri);
/* The form of a URI in records: without user, fragment, and query parameters that are credentials
 * (signatures, tokens, keys, expiry). */
void origin_public_uri(const char *uri, struct str *out);

enum origin_mode { ORIGIN_AUTO, ORIGIN_COPY, ORIGIN_REFERENCE };
struct origin_request {
	const char *uri;
	const char *options; /* as in struct reference */
	enum origin_mode mode;
	uint64_t copy_max; /* ORIGIN_AUTO: references if all objects together have more bytes */
};
struct origin_pinned {
	struct content_id id;
	bool by_reference;
	uint64_t objects, bytes,
		fetched; /* found; their bytes; objects fetched now, because they weren't known */
};
int origin_pin(struct store *s, const struct origin_request *request, struct origin_pinned *ret,
	       struct err *err);

/* Returns the blobs of these references, and fetches those that the store lacks. They stay in the
 * local directory; a shared store doesn't get them. */
int origin_fetch(struct store *s, const struct reference *refs, size_t n, struct content_id *ret,
		 struct err *err);
/* The same for all that a tree reaches, or for one reference, so that materialising needs no more
 * requests. */
int origin_bring(struct store *s, const struct content_id *id, struct err *err);

enum origin_state {
	ORIGIN_UNCHANGED,
	ORIGIN_CHANGED,
	ORIGIN_GONE,
	ORIGIN_UNREACHABLE,
	ORIGIN_STATES
};
struct origin_check {
	/* Not called for unchanged references. `why` is a sentence, or "". */
	void (*on_problem)(void *arg, const struct reference *r, enum origin_state state,
			   const char *why);
	void *arg;
	/* output, added to */
	uint64_t n[ORIGIN_STATES];
};
/* Compares each reference of a content with the current object, and counts the states in c->n.
 * Objects of one prefix need one listing, not single requests. -1 only when the store fails. */
int origin_check(struct store *s, const struct content_id *id, struct origin_check *c,
		 struct err *err);

#endif

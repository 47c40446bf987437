/* storage/store.h — where content lives: the interface of all kinds of stores. Reads are verified
 * by digest.
 *
 * Objects are in five spaces. Blobs and trees are named by their content (content is truth); an
 * action record is named by the key under which a task's result was found (a claim); a manifest by
 * the run hash; a change of a run's name by the digest of its record. Objects never change once
 * they are there. A put is atomic: it writes a temporary, then renames or links it. A crash leaves
 * only a temporary.
 *
 * Durability is batched: an object is visible at once after a put, and durable after store_sync().
 * Call store_sync() before you publish a record that names blobs (write order: blobs, trees, action
 * records, manifests).
 *
 * Any thread may call any function on one store at the same time.
 * Errors: ERR_NOT_FOUND; ERR_CORRUPT (bytes don't match; the copy is set aside, never returned);
 * ERR_NO_SPACE; ERR_READ_ONLY; ERR_NEWER (layout version); ERR_UNSUPPORTED (store kinds that this
 * build doesn't have); ERR_IO.
 */
#ifndef CAIRN_STORAGE_STORE_H
#define CAIRN_STORAGE_STORE_H

#include "base/crypto/digest.h"
#include "base/text/str.h"

enum store_space { STORE_BLOB, STORE_TREE, STORE_ACTION, STORE_RUN, STORE_TAG, STORE_SPACES };

/* The space of content of this kind; STORE_SPACES for CONTENT_NONE. */
static inline enum store_space content_space(const struct content_id *id)
{
	switch ((enum content_kind)id->kind) {
	case CONTENT_BLOB:
	case CONTENT_EXECUTABLE:
	case CONTENT_REFERENCE:
		return STORE_BLOB;
	case CONTENT_TREE:
		return STORE_TREE;
	case CONTENT_NONE:
		break;
	}
	return STORE_SPACES;
}

struct store;

struct bucket_options;
struct closure_names;
/* How a shared store (an s3:// or gs:// address) is used. A local directory is in front of the
 * bucket. A put writes into the directory; store_sync() sends the object to the bucket. A read that
 * doesn't find an object in the directory fetches it from the bucket, verifies it and keeps it. */
struct store_options {
	const char *local; /* absolute path of the directory in front */
	/* Most bytes in the directory; the least recently used objects are evicted; 0: no limit. */
	uint64_t cache_max;
	enum store_mode {
		STORE_READ_WRITE,
		STORE_READ_ONLY,
		STORE_OFF
	} mode;                              /* of the bucket. STORE_OFF: use only the directory */
	const struct bucket_options *bucket; /* or NULL */
	int64_t lease_ns, mark_gap_ns;       /* remote/remote.h; 0: an hour */
	/* Reads what a manifest names (closure.h). After this machine slept, a manifest is sent
	 * only if this can check its contents. NULL: it isn't sent then, and counts as unsent. */
	const struct closure_names *names;
};
/* `uri`: an absolute directory path, "memory:", or an object store's address (ERR_INVALID without
 * o->local). create: makes the layout when it is absent (else ERR_NOT_FOUND). o may be NULL. Sends
 * no request to a bucket yet. */
int store_open_with(const char *uri, const struct store_options *o, bool create, struct store **ret,
		    struct err *err);
int store_open(const char *uri, bool create, struct store **ret, struct err *err);
void store_free(struct store *s);
static inline void store_freep(struct store **s)
{
	store_free(*s);
}
const char *store_uri(const struct store *s);

/* Batched existence of content: ret[i] says whether ids[i] is there with its stated size (contents
 * aren't read). A directory checks one by one; a shared store needs few requests. */
int store_has(struct store *s, const struct content_id *ids, size_t n, bool *ret, struct err *err);

/* Small objects as bytes. The bytes are verified, except for action records: their names aren't
 * digests of their bytes, so the decoder checks them (action.h). */
int store_get(struct store *s, enum store_space space, const struct digest *name,
	      uint64_t max_bytes, struct str *ret, struct err *err);
/* Returns 1 when an object of that name existed (it stays as it was), 0 when the object was
 * written. A damaged object is replaced: 0. */
int store_put(struct store *s, enum store_space space, const struct digest *name, const void *bytes,
	      size_t n, struct err *err);
/* A small object that is to be put. */
struct store_item {
	enum store_space space; /* STORE_BLOB or STORE_ACTION */
	struct digest name;
	const void *bytes;
	size_t n;
};
/* Puts many small objects together. What exists stays as it is, but for action records: the caller
 * knows that there are none of these names. A directory makes them durable with what was put
 * before, so that a record may be among them with what it names. Other stores put one after the
 * other, in order. */
int store_put_many(struct store *s, const struct store_item *v, size_t n, struct err *err);
/* Removes an object from the directory; no error when it is absent. A shared store keeps its copy:
 * see store_drop().
 */
int store_delete(struct store *s, enum store_space space, const struct digest *name,
		 struct err *err);
typedef int store_list_fn(void *arg, const struct digest *name, uint64_t size_bytes,
			  int64_t mtime_ns);
/* Calls fn for each object. If fn returns other than 0, the listing stops and returns that.
 * Streams, in no defined order.
 */
int store_list(struct store *s, enum store_space space, store_list_fn *fn, void *arg,
	       struct err *err);

/* Makes everything that was put before the call durable, with as few flushes as the file system
 * allows. Also sends it to the shared store, if there is one. A failure to send is no error here:
 * store_unsent() counts it, and the next call tries again. */
int store_sync(struct store *s, struct err *err);
/* How many bytes were put since the last store_sync() began, for those who begin one early. 0 for
 * other stores than directories. */
uint64_t store_unsynced(struct store *s);
/* Checks whether this process may use the shared store. ERR_INVALID, ERR_NEWER…: why not. A shared
 * store that can't be reached now is no error: the directory works without it, and later calls try
 * again. 0 for other stores. */
int store_attach(struct store *s, struct err *err);
/* Registers a run that uses the store until the store is freed. Meanwhile `gc` of another project
 * removes nothing that the run finds in a directory. -1 when the directory isn't writable. Does
 * nothing for other stores: writers of a bucket have leases. */
int store_use(struct store *s, struct err *err);
/* Prefetches records: a shared store fetches them in one batch. A failure is no error: each is
 * fetched when it is needed. */
void store_expect(struct store *s, enum store_space space, const struct digest *names, size_t n);
/* Brings these records up to date with the shared store: fetches its current ones, and removes
 * local copies that it lacks. Also forgets which content was missing, so it is looked for again.
 * Does nothing for other stores. */
int store_refresh(struct store *s, enum store_space space, const struct digest *names, size_t n,
		  struct err *err);
/* Notes that another process put this content, and all that it reaches, into the shared store. From
 * now on it counts as present without a request. n = 0: a note was wrong; forgets all of them. Does
 * nothing for other stores. */
void store_note_present(struct store *s, const struct content_id *ids, size_t n);
/* Removes a record, from the directory and from the shared store. No error when it is absent. */
int store_drop(struct store *s, enum store_space space, const struct digest *name, struct err *err);
bool store_is_shared(const struct store *s);
/* How many damaged objects were replaced: this process put the same content again, or could make it
 * itself. */
uint64_t store_healed(struct store *s);
/* How many objects didn't reach the shared store, and the first reason. 0 for other stores. */
uint64_t store_unsent(struct store *s, struct err *ret_first);

#endif

/* storage/store.h — where content lives: one interface, few verbs, each verified by digest.
 *
 * Objects lie in five spaces. Blobs and trees are named by their content (content is truth); an
 * action record is named by the key under which a task's result was found (a claim); a manifest by
 * the run hash; a change of a run's name by the digest of its record. Objects never change once
 * they are there. Puts publish atomically: temporary name, then rename or link; a crash leaves only
 * a temporary.
 *
 * Durability is batched: an object that was put is visible at once and durable after store_sync().
 * Whoever publishes a record that names blobs calls store_sync() first (write order: blobs, trees,
 * action records, manifests).
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

/* Where content of this kind lies; STORE_SPACES for CONTENT_NONE. */
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
/* How a shared store (an s3:// or gs:// address) is used. Objects are in a local directory first,
 * and behind it in the bucket: what is put is there at once, and goes up with store_sync(); what
 * isn't there is fetched, verified and kept. */
struct store_options {
	const char *local;  /* absolute path of the directory in front */
	uint64_t cache_max; /* bytes that the directory may take, least recently used out; 0: any
			       number */
	enum store_mode {
		STORE_READ_WRITE,
		STORE_READ_ONLY,
		STORE_OFF
	} mode;                              /* of the bucket. Off: only the directory */
	const struct bucket_options *bucket; /* or NULL */
	int64_t lease_ns;                    /* remote/remote.h; 0: an hour */
	/* What manifests name (closure.h): a manifest is sent
	 * after this machine slept only when it can be asked. NULL: it isn't sent then, and counted
	 * as unsent. */
	const struct closure_names *names;
};
/* `uri`: an absolute directory path, "memory:", or an object store's address (ERR_INVALID without
 * o->local). create: make the layout when it is absent (else ERR_NOT_FOUND). o may be NULL. Doesn't
 * talk to a bucket yet. */
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
 * aren't read). A directory is asked for each; a shared store in few requests. */
int store_has(struct store *s, const struct content_id *ids, size_t n, bool *ret, struct err *err);

/* Small objects as bytes. What is got is verified, but for action records: their names aren't
 * digests of their bytes, and whoever decodes one checks it (action.h). */
int store_get(struct store *s, enum store_space space, const struct digest *name,
	      uint64_t max_bytes, struct str *ret, struct err *err);
/* Returns 1 when an object of that name was there already (left as it was), 0 when it was written:
 * also in place of a damaged one. */
int store_put(struct store *s, enum store_space space, const struct digest *name, const void *bytes,
	      size_t n, struct err *err);
/* Removes an object of the directory; absent is fine. A shared store keeps its own: store_drop().
 */
int store_delete(struct store *s, enum store_space space, const struct digest *name,
		 struct err *err);
typedef int store_list_fn(void *arg, const struct digest *name, uint64_t size_bytes,
			  int64_t mtime_ns);
/* Calls fn for each object; fn's return != 0 stops and is returned. Streams; order is not stated.
 */
int store_list(struct store *s, enum store_space space, store_list_fn *fn, void *arg,
	       struct err *err);

/* Makes all that was put before the call durable, in as few flushes as the file system allows. With
 * a shared store, sends it there too. A failure to send is no error here: store_unsent() counts it,
 * and the next call tries again. */
int store_sync(struct store *s, struct err *err);
/* Asks a shared store whether this process may use it. ERR_INVALID, ERR_NEWER…: no, and why not.
 * One that can't be reached now is no error: everything works without it, and it is tried again. 0
 * elsewhere. */
int store_attach(struct store *s, struct err *err);
/* A run is at work with the store until the store is freed. Meanwhile no `gc` of another project
 * removes what the run finds in a directory. -1 when the directory can't be written to. Nothing to
 * do elsewhere: a bucket's writers have leases. */
int store_use(struct store *s, struct err *err);
/* Prefetches records: a shared store brings them in one batch. A failure is no error: each is
 * fetched when it is asked for. */
void store_expect(struct store *s, enum store_space space, const struct digest *names, size_t n);
/* Takes in what others wrote to a shared store: brings these records as they are there now, and
 * removes here those that aren't there. Content that the store was found to lack is looked for
 * again from now on. Nothing to do elsewhere. */
int store_refresh(struct store *s, enum store_space space, const struct digest *names, size_t n,
		  struct err *err);
/* Another process says that it put this content, and all that it reaches, into a shared store. From
 * now on it counts as there, and the store isn't asked. n = 0: such a statement was wrong, and none
 * counts any more. Nothing to do elsewhere. */
void store_told(struct store *s, const struct content_id *ids, size_t n);
/* Removes a record, from the directory and from the shared store. What doesn't exist is fine. */
int store_drop(struct store *s, enum store_space space, const struct digest *name, struct err *err);
bool store_is_shared(const struct store *s);
/* Damaged objects that have been replaced: this process put the same content again, or could make
 * them itself. */
uint64_t store_healed(struct store *s);
/* Objects that a shared store should have got and has not, and why not. 0 elsewhere. */
uint64_t store_unsent(struct store *s, struct err *ret_first);

#endif

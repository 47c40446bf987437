/* storage/remote/remote.h — a shared store in a bucket. The layout is in FORMAT.md.
 *
 * Small content (blobs under 256 KiB, and all trees) is in packs. Larger blobs, action records and
 * manifests are separate objects under their names. Everything fetched is checked against its
 * digest before it is put into the local store. An action record's name isn't its digest, so the
 * decoder checks it.
 *
 * Removal. A collector removes only objects on the condemned list that was published before the
 * last mark, and only if no process holds a lease older than that list. A process that opens the
 * store for writing first takes a lease, then reads that list. It treats condemned objects as
 * absent, and sends their content again under a new name (in a pack). So an object that a live
 * process believes present is never removed, on any server, with or without conditional requests.
 * Only times of the server's clock are compared with each other.
 *
 * The first call that needs the bucket attaches: it reads the version and the list of packs, and
 * takes the lease. Any thread may call any function.
 *
 * Errors: as bucket.h; ERR_NEWER when a newer cairn made the store; ERR_NOT_FOUND when there is no
 * store and we can't make one; ERR_CORRUPT.
 */
#ifndef CAIRN_STORAGE_REMOTE_REMOTE_H
#define CAIRN_STORAGE_REMOTE_REMOTE_H

#include "base/time/clock.h"
#include "storage/bucket/bucket.h"
#include "storage/content/content.h"
#include "storage/local/maintain.h"

struct remote;

struct remote_options {
	/* A directory that keeps knowledge between processes (indexes, objects seen); NULL: none */
	const char *dir;
	bool writes;         /* may make the store, send, and hold a lease */
	struct clock *clock; /* NULL: the system's */
	/* How long a lease counts without renewal; 0: an hour. All users of the store must agree */
	int64_t lease_ns;
	/* How long any collector leaves an object on the list of the condemned before it removes
	 * it, at least; 0: an hour. All users must agree. */
	int64_t mark_gap_ns;
	/* How often the lease is renewed; 0: a sixth of that; -1: only by remote_renew(). */
	int64_t lease_every_ns;
};
/* Takes ownership of `b`, also on failure. Sends no request yet. */
int remote_open(struct bucket *b, const struct remote_options *o, struct remote **ret,
		struct err *err);
void remote_free(struct remote *r); /* gives the lease back; NULL is allowed */
const char *remote_uri(const struct remote *r);
struct bucket *remote_bucket(struct remote *r); /* borrowed */
/* How many damaged objects this process has replaced on its own. */
uint64_t remote_healed(struct remote *r);
int remote_attach(struct remote *r, struct err *err);
/* Renews the lease. 1: it had lapsed (this machine slept, the network was gone), so all knowledge
 * was void: it was forgotten, and a new lease taken. */
int remote_renew(struct remote *r, struct err *err);

struct remote_object {
	enum store_space space;
	struct digest name;
	uint64_t size;             /* of the content; UINT64_MAX: not known */
	bool verified;             /* send: this process has already hashed its bytes */
	bool replace;              /* send: a record that replaces the existing one */
	unsigned again;            /* how often such a record was queued again (tier_queue.c) */
	struct store_place *place; /* fetch: into this file, if it can be; or NULL */
	bool there;                /* answered */
};
/* Sets `there` of each; false for condemned objects. Few requests: pack indexes answer for small
 * content; the rest needs parallel requests or a listing. */
int remote_has(struct remote *r, struct remote_object *v, size_t n, struct err *err);
/* The same without a new listing of packs, so it may miss what others have written since the last
 * one. */
int remote_has_as_listed(struct remote *r, struct remote_object *v, size_t n, struct err *err);
/* Fetches each into `to`, verified; `there` says which are in `to` now, or placed. Damaged objects
 * aren't, and are counted. */
int remote_fetch(struct remote *r, struct store *to, struct remote_object *v, size_t n,
		 struct err *err);

struct remote_sent {
	uint64_t objects, bytes; /* contents and records, before they were packed and compressed */
	uint64_t requests, sent_bytes; /* requests and bytes that wrote objects */
	uint64_t skipped;              /* already in the bucket */
	uint64_t missing;              /* absent or damaged in `from` */
};
/* Sends what the bucket lacks, in this order: contents, action records, manifests, changes of
 * names. Action records and manifests are sent only if all contents before them arrived (their
 * `there` says so). All contents have arrived when this returns 0; after a failure, those that
 * arrived stay. ERR_CHANGED: the lease lapsed meanwhile; check and send again. Adds to *ret. */
int remote_send(struct remote *r, struct store *from, struct remote_object *v, size_t n,
		struct remote_sent *ret, struct err *err);

/* Notes that others have written since packs were listed, so that missing objects are looked for in
 * a new listing. */
void remote_expect_changes(struct remote *r);

/* Lists all objects of a space, each once, including condemned ones. The size is the content's
 * where known, else the stored size. */
int remote_list(struct remote *r, enum store_space space, store_list_fn *fn, void *arg,
		struct err *err);
/* For a damaged object: forgets it, and deletes it if it is a separate object. */
int remote_drop(struct remote *r, enum store_space space, const struct digest *name,
		struct err *err);

struct remote_stat {
	uint64_t packs, pack_bytes, packed, loose, loose_bytes, actions, runs, leases, others;
	bool has_condemned;
	uint64_t condemned;
};
int remote_stat(struct remote *r, struct remote_stat *ret, struct err *err);

/* Collecting. */

/* A clock that also runs while the machine sleeps. */
int64_t remote_boottime_ns(struct remote *r);

struct remote_gc_options { /* base.mark_gap_ns: not less than that of the store's options */
	/* Roots, as for a local store: the caller chooses which manifests in the bucket to keep,
	 * also those of others (young ones are kept anyway). `now_ns` is ignored: the server's
	 * clock counts. */
	struct store_gc_options base;
	/* remote_boottime_ns() from before the caller looked for the roots. Objects made since, or
	 * in the grace time before, are young. 0: there was nothing to look for. */
	int64_t roots_ns;
	/* Reads the bucket (a tier; its directory keeps what was read). */
	struct store *reader;
	int64_t lease_expiry_ns; /* 0: lease_ns of the options */
};
struct remote_gc_result {
	struct store_gc_result base;
	uint64_t leases;                       /* of live processes */
	uint64_t kept_for_leases;              /* objects kept only because of leases */
	uint64_t packs_written, packs_removed; /* packs that were mostly dead, or small */
	uint64_t moved, moved_bytes;
};
/* ERR_BUSY when another collector is active. Safe while others write, also from other machines.
 * Objects condemned for the first time are removed by a later call, at least base.mark_gap_ns after
 * this one. */
int remote_gc(struct remote *r, const struct remote_gc_options *o, struct remote_gc_result *ret,
	      struct err *err);

#endif

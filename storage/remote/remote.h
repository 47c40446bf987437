/* storage/remote/remote.h — one shared store in a bucket, as this process knows it. Layout in
 * FORMAT.md.
 *
 * Small content (blobs under 256 KiB, and all trees) lies in packs, larger blobs alone, action
 * records and manifests each under its name. Nothing is believed: what comes is checked against its
 * digest before it is put into the local store. An action record has no digest for its name, and is
 * checked by whoever decodes it.
 *
 * Removal. A collector removes only what is on the list of the condemned that was published before
 * the last mark, and only when no process holds a lease that is older than that list. Whoever opens
 * the store for writing takes a lease first and reads that list then: what is on it counts as
 * absent here, and is sent again under a new name (in a pack). So nothing that a live process
 * believes to be there is ever removed, on whatever store, with or without conditional requests;
 * only the server's clock is compared with itself.
 *
 * The first call that needs the bucket attaches: it reads the version and the list of packs, and
 * takes the lease. Any thread may call anything.
 *
 * Errors: as bucket.h; ERR_NEWER when a newer cairn made the store; ERR_NOT_FOUND when there is
 * none and it can't be made; ERR_CORRUPT.
 */
#ifndef CAIRN_STORAGE_REMOTE_REMOTE_H
#define CAIRN_STORAGE_REMOTE_REMOTE_H

#include "base/clock.h"
#include "storage/bucket/bucket.h"
#include "storage/content/content.h"
#include "storage/local/maintain.h"

struct remote;

struct remote_options {
	const char *dir; /* a directory for what is remembered between processes (indexes, what was
			    seen there); NULL: nothing is */
	bool writes;     /* may make the store, sends, holds a lease */
	struct clock *clock; /* NULL: the system's */
	int64_t lease_ns; /* for how long a lease counts that isn't renewed; 0: an hour. All who use
			     the store must agree */
	int64_t lease_every_ns; /* how often the lease is renewed; 0: a sixth of that; -1: only by
				   remote_renew() */
};
/* `b` becomes the remote's, also when this fails. Doesn't talk to the bucket yet. */
int remote_open(struct bucket *b, const struct remote_options *o, struct remote **ret,
		struct err *err);
void remote_free(struct remote *r); /* gives the lease back; NULL is fine */
const char *remote_uri(const struct remote *r);
struct bucket *remote_bucket(struct remote *r); /* lent */
/* How many damaged objects this process has written anew without being asked to. */
uint64_t remote_healed(struct remote *r);
int remote_attach(struct remote *r, struct err *err);
/* Renews the lease. 1: it had lapsed (this machine slept, the network was gone), so that nothing of
 * what was known holds any more: all was forgotten, and a new lease taken. */
int remote_renew(struct remote *r, struct err *err);

struct remote_object {
	enum store_space space;
	struct digest name;
	uint64_t size; /* content's bytes; UINT64_MAX: not known */
	bool sound;    /* send: its bytes were hashed by this process already */
	bool replace;  /* send: a record that takes the place of one that is there */
	bool there;    /* answered */
};
/* Sets `there` of each. What is condemned isn't. Few requests: packs answer for small content, the
 * rest is asked for in parallel or listed. */
int remote_has(struct remote *r, struct remote_object *v, size_t n, struct err *err);
/* The same without a new list of packs, whatever others have written since the last one: says
 * perhaps of too little that it is there. */
int remote_has_as_listed(struct remote *r, struct remote_object *v, size_t n, struct err *err);
/* Brings each into `to`, verified; `there` says which are there now. What doesn't match its digest
 * isn't, and is counted. */
int remote_fetch(struct remote *r, struct store *to, struct remote_object *v, size_t n,
		 struct err *err);

struct remote_sent {
	uint64_t objects, bytes; /* contents and records, before they were packed and compressed */
	uint64_t requests, sent_bytes; /* objects made in the bucket */
	uint64_t skipped;              /* were there */
	uint64_t missing;              /* aren't in `from`, or are damaged there */
};
/* Sends what the bucket lacks, in this order: contents, action records, manifests, changes of
 * names. Action records and manifests go only when all contents before them arrived (their `there`
 * says so). Contents arrived when this returns 0; a failure leaves what arrived. ERR_CHANGED: the
 * lease lapsed meanwhile; ask and send again. *ret is added to. */
int remote_send(struct remote *r, struct store *from, struct remote_object *v, size_t n,
		struct remote_sent *ret, struct err *err);

/* Others have written since packs were listed: what isn't found is looked for in a new list. */
void remote_expect_news(struct remote *r);

/* All objects of a space, each once, condemned ones too, with the content's size where it is known
 * and else the stored one's. */
int remote_list(struct remote *r, enum store_space space, store_list_fn *fn, void *arg,
		struct err *err);
/* Forgets that it is there, and removes it when it lies alone: it was found damaged. */
int remote_drop(struct remote *r, enum store_space space, const struct digest *name,
		struct err *err);

struct remote_stat {
	uint64_t packs, pack_bytes, packed, loose, loose_bytes, actions, runs, leases, others;
	bool has_condemned;
	uint64_t condemned;
};
int remote_stat(struct remote *r, struct remote_stat *ret, struct err *err);

/* Collecting. */

/* Time that goes on while the machine sleeps. */
int64_t remote_boottime_ns(struct remote *r);

struct remote_gc_options {
	/* Roots, as for a local store: the caller says which of all manifests that lie in the
	 * bucket are to be kept, whoever ran them (young ones are anyway). `now_ns` is not looked
	 * at: the server's clock counts. */
	struct store_gc_options base;
	/* remote_boottime_ns() before the caller began to look for the roots: what came since, and
	 * in the grace time before it, is young. 0: there was nothing to look for. */
	int64_t roots_ns;
	/* Reads what lies in the bucket (a tier; its local part keeps what was read). */
	struct store *reader;
	int64_t lease_expiry_ns; /* 0: lease_ns of the options */
};
struct remote_gc_result {
	struct store_gc_result base;
	uint64_t leases;                       /* of processes that are at work */
	uint64_t kept_for_leases;              /* would have gone but for them */
	uint64_t packs_written, packs_removed; /* packs that were mostly dead, or small */
	uint64_t moved, moved_bytes;
};
/* ERR_BUSY when another collector is at work. Safe while others write, also from other machines.
 * What is condemned for the first time is removed by a later call, at least base.mark_gap_ns after
 * this one. */
int remote_gc(struct remote *r, const struct remote_gc_options *o, struct remote_gc_result *ret,
	      struct err *err);

#endif

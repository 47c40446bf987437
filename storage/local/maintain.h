/* storage/local/maintain.h — verify, gc and stat of a whole store. Progress through a callback;
 * streams. */
#ifndef CAIRN_STORAGE_LOCAL_MAINTAIN_H
#define CAIRN_STORAGE_LOCAL_MAINTAIN_H

#include "storage/closure.h"

struct store_stat {
	uint64_t objects[STORE_SPACES], bytes[STORE_SPACES]; /* apparent size */
	uint64_t temporaries, temporary_bytes, set_aside;    /* left by crashes; corrupt copies */
};
int store_stat_all(struct store *s, struct store_stat *ret, struct err *err);

struct store_problem {
	enum store_space space;
	struct digest name;
	struct err err; /* ERR_CORRUPT, ERR_NOT_FOUND (a record names it, it is missing) */
};
struct store_gc_options {
	bool dry_run;
	int64_t now_ns;      /* wall clock */
	int64_t grace_ns;    /* objects younger than this are kept (default an hour) */
	int64_t mark_gap_ns; /* the two marks must be at least this far apart (default an hour; see
				"Condemned list" in FORMAT.md) */
	/* Roots: run manifests to keep are named by the caller, and content in use by running runs.
	 */
	const struct digest *manifests;
	size_t n_manifests;
	const struct content_id *contents;
	size_t n_contents;
	/* What a manifest names: content, and keys whose action records are to be kept with all
	 * that they name. An error keeps everything. NULL only when there are no manifests. */
	const struct closure_names *names;
	/* Keep this action record, and all that it names, although no manifest names its key? NULL:
	 * no. Also kept are records whose outputs are kept anyway, and those younger than the grace
	 * time. */
	bool (*keep_action)(void *arg, const struct digest *key);
	void *arg;
	/* Was this record found dead before, and not written since? What it names may be gone, so
	 * that only a root that names it brings it back. That it is young, or that its outputs are
	 * kept, keeps no more than the content that is left. NULL: none was. */
	bool (*is_given_up)(void *arg, enum store_space space, const struct digest *name,
			    int64_t mtime_ns);
	void *given_up_arg;
	/* Objects on the list of the condemned; 0: as many as readers take. What is beyond waits
	 * until a later collection has made room. */
	size_t list_max;
};
struct store_gc_result {
	uint64_t live, young; /* objects: reached; not reached, but younger than the grace time */
	uint64_t condemned, condemned_bytes; /* not reached, and old enough to go: now, or once they
						were found so twice */
	uint64_t unlisted;                   /* of these, the ones for which the list has no room */
	uint64_t deleted,
		deleted_bytes; /* of these, the ones that went (dry_run: that would go now) */
	uint64_t temporaries, temporary_bytes; /* that crashes left, and copies set aside more than
						  a week ago: removed too */
	uint64_t lost; /* manifests and trees among the roots that are missing or damaged: what they
			  named is not kept by them */
	bool first_mark; /* nothing was swept, because what is condemned was found dead for the
			    first time; when the second mark may follow: */
	int64_t sweep_after_ns;
};
/* Reads everything back: digests of blobs and trees, decodability of records, presence of what they
 * name. `names` says what a manifest names; NULL: manifests are only read. Corrupt copies are set
 * aside, so that the next run makes them again. Returns the number of problems, or -1. */
int64_t store_verify(struct store *s, const struct closure_names *names,
		     void (*on_problem)(void *arg, const struct store_problem *p),
		     void (*on_progress)(void *arg, uint64_t done, uint64_t total), void *arg,
		     struct err *err);

/* Safe while others write to the store. ERR_BUSY when another collector is at work. When it fails
 * before its sweep, nothing is removed. */
int store_gc(struct store *s, const struct store_gc_options *o, struct store_gc_result *ret,
	     struct err *err);

#endif

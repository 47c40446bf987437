/* storage/local/maintain.h — verify, gc and stat of a whole store. They stream, and report progress
 * through a callback. */
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
	struct err err; /* ERR_CORRUPT; ERR_NOT_FOUND: a record names it, but it is missing */
};
struct store_gc_options {
	bool dry_run;
	int64_t now_ns;   /* wall clock */
	int64_t grace_ns; /* objects younger than this are kept (default an hour) */
	/* The two marks must be at least this far apart (default an hour; see "Condemned list" in
	 * FORMAT.md). */
	int64_t mark_gap_ns;
	/* Roots: run manifests to keep, and content that active runs use. */
	const struct digest *manifests;
	size_t n_manifests;
	const struct content_id *contents;
	size_t n_contents;
	/* Reads what a manifest names: content, and keys whose action records are kept with all
	 * that they name. On an error gc removes nothing. NULL only when there are no manifests. */
	const struct closure_names *names;
	/* Returns true to keep an action record and all that it names, although no manifest names
	 * its key. NULL: false. gc also keeps records whose outputs are kept anyway, and those
	 * younger than the grace time. */
	bool (*keep_action)(void *arg, const struct digest *key);
	void *arg;
	/* For store_mark(): whether the caller removes that record, if the mark finds it dead.
	 * NULL: the caller removes nothing now, and needs no answer. */
	bool (*goes)(void *arg, enum store_space space, const struct digest *name,
		     int64_t mtime_ns);
	void *goes_arg;
	/* Most objects on the condemned list; 0: the readers' limit. The rest waits for a later
	 * collection. */
	size_t list_max;
};
struct store_gc_result {
	uint64_t live,
		young; /* `live`: reached; `young`: not reached, but younger than the grace time */
	/* Not reached, and old enough: removed now, or when a second mark finds them dead. */
	uint64_t condemned, condemned_bytes;
	uint64_t unlisted; /* of these, those that don't fit on the list */
	uint64_t deleted,
		deleted_bytes; /* of these, those deleted (dry_run: that would be deleted) */
	/* Left by crashes, and copies set aside more than a week ago; removed too. */
	uint64_t temporaries, temporary_bytes;
	uint64_t views; /* kept views that were removed because nobody used them (view.h) */
	/* Manifests and trees among the roots that are missing or damaged; they keep nothing that
	 * they name. */
	uint64_t lost;
	/* Nothing was swept, because this mark was the first to find the condemned dead. When the
	 * second may follow: */
	bool first_mark;
	int64_t sweep_after_ns;
};
/* Reads everything back. Checks the digests of blobs and trees, decodes records, and checks that
 * what they name is present. `names` reads what a manifest names; NULL: manifests are only decoded.
 * Corrupt copies are set aside, so that the next run makes them again. Returns the number of
 * problems, or -1. */
int64_t store_verify(struct store *s, const struct closure_names *names,
		     void (*on_problem)(void *arg, const struct store_problem *p),
		     void (*on_progress)(void *arg, uint64_t done, uint64_t total), void *arg,
		     struct err *err);

/* Safe while others write to the store. ERR_BUSY when another collector is active. A failure before
 * the sweep removes nothing. */
int store_gc(struct store *s, const struct store_gc_options *o, struct store_gc_result *ret,
	     struct err *err);

#endif

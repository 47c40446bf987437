/* engine/run/reproduce/compare.h — are two contents the same, and if not, where do they first
 * differ?
 *
 * Content is compared by id first: equal ids are identical bytes. Trees are walked together by
 * name. Some formats record things like times (tar, gzip, zstd, zip, PNG, npz, JSON). Files of
 * these formats that differ are compared again in a normalised form. A separate program does that,
 * `cairn-steps normalise`, because it decodes hostile bytes. A file that is equal only in that form
 * is reported as normalised, with the normaliser's name, never as identical.
 *
 * A file that only one side of a tree has makes the tree different. Content that differs is
 * verified before it is compared: damage is a result too. Blocks; call it from the loop's thread
 * where there is a loop (it starts programs: base/os/process/command.h).
 *
 * Errors: only what stops the whole comparison (ERR_IO, ERR_NO_SPACE). Content that isn't in the
 * store is a result, not an error.
 */
#ifndef CAIRN_RUN_REPRODUCE_COMPARE_H
#define CAIRN_RUN_REPRODUCE_COMPARE_H

#include "base/mem.h"
#include "storage/content/content.h"

/* From best to worst: the verdict of several is the largest. */
enum compare_verdict {
	VERDICT_IDENTICAL,
	VERDICT_NORMALISED, /* the same bytes after a named normalisation */
	VERDICT_TOLERATED,  /* metrics only: within the declared tolerance */
	VERDICT_DIFFERENT,
	VERDICT_EXTRA,   /* only the new side has it */
	VERDICT_MISSING, /* only the old side has it */
	VERDICT_UNKNOWN, /* not compared: content is gone from the store, or damaged */
};
/* "identical", "identical after normalisation", … */
const char *compare_verdict_name(enum compare_verdict v);

struct compare_result {
	enum compare_verdict verdict;
	/* The normaliser after which that file is equal, as "gzip+tar"; else NULL. */
	const char *normaliser;
	const char *path; /* the first file, in tree order, of the worst verdict; "" for a single
			     file; NULL when all are identical */
	bool has_offset;
	uint64_t offset;    /* first differing byte of that file */
	const char *detail; /* one line for people: "array `weights` differs at [3,17]: 0.25 →
			       0.26", "mtime of member a.txt"; or NULL */
	uint64_t n_files;   /* compared */
	uint64_t n_normalised, n_different, n_missing, n_extra; /* of them */
};

struct comparer {
	struct store *store;
	const char *steps_program; /* path of cairn-steps; NULL: on PATH */
	const char *temp_dir;      /* absolute, exists: for the normaliser's temporary files */
	struct arena *arena;       /* holds the strings of results */
};
/* `was` and `is`: CONTENT_NONE when that side has none. */
int compare_contents(const struct comparer *c, const struct content_id *was,
		     const struct content_id *is, struct compare_result *ret, struct err *err);

#endif

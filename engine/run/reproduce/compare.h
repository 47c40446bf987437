/* engine/run/reproduce/compare.h — are two contents the same, and if not, where do they part first?
 *
 * Content is compared by id first: equal ids are identical bytes. Trees are walked together by
 * name. Files that differ, but whose format is one that records things like times (tar, gzip, zstd,
 * zip, PNG, npz, JSON), are held against each other once more in a normalised form by a program of
 * its own, `cairn-steps normalise`, because what it decodes is hostile; what is the same only then
 * is named so, with the normaliser, and is never called identical.
 *
 * A file that only one side of a tree has makes the tree different. Content that differs is
 * verified before it is compared: damaged bytes are an answer too. Blocks; call it from the loop's
 * thread where there is a loop (it starts programs: base/os/command.h).
 *
 * Errors: only what stops the comparison altogether (ERR_IO, ERR_NO_SPACE). Content that isn't in
 * the store is an answer, not an error.
 */
#ifndef CAIRN_RUN_REPRODUCE_COMPARE_H
#define CAIRN_RUN_REPRODUCE_COMPARE_H

#include "base/mem.h"
#include "storage/content/content.h"

/* In the order of how bad it is: the verdict of several is the largest of them. */
enum compare_verdict {
	COMPARE_IDENTICAL,
	COMPARE_NORMALISED, /* the same bytes after a named normalisation */
	COMPARE_TOLERATED,  /* metrics only: within the declared tolerance */
	COMPARE_DIFFERENT,
	COMPARE_EXTRA,   /* only the new one has it */
	COMPARE_MISSING, /* only the old one has it */
	COMPARE_UNKNOWN, /* could not be compared: bytes that aren't in the store any more */
};
/* "identical", "identical after normalisation", … */
const char *compare_verdict_name(enum compare_verdict v);

struct compare_result {
	enum compare_verdict verdict;
	/* Of that file, when it is the same after it: "gzip+tar"; else NULL. */
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
	const char *steps_program; /* path of cairn-steps; NULL: found on PATH */
	const char *temp_dir;      /* absolute, exists: where files lie that the normaliser reads */
	struct arena *arena;       /* holds the strings of results */
};
/* `was` and `is`: CONTENT_NONE when that side has none. */
int compare_contents(const struct comparer *c, const struct content_id *was,
		     const struct content_id *is, struct compare_result *ret, struct err *err);

#endif

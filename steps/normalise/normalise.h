/* steps/normalise/normalise.h — compares two files by their content, ignoring what their format
 * stores besides (times, order, compression).
 *
 * The program `cairn-steps normalise [--max BYTES] A B` compares two files in a normal form and
 * prints one line of JSON. The engine runs it as a child with a time limit, because the decoded
 * files may be hostile. It uses memory and temporary space up to the limits below, and no more.
 *
 * What counts for a format, and what doesn't:
 *
 * - tar: names, kinds, executable bit, set-id bits, devices, link targets, extended attributes,
 *   comments and unknown pax records, content count. Order, times, owners, other permissions and
 *   the dialect don't.
 * - zip: as tar, and comments and extra fields count, except times, owners and sizes among these.
 *   Compression doesn't.
 * - npz: a zip of .npy files; the rules of both.
 * - npy: type, shape and values, bit by bit, count. Byte order, order of the axes (C, Fortran) and
 *   the header's text don't.
 * - gzip, zstd: the content counts. Level, header, checksums, and the division into members or
 *   frames don't.
 * - png: width, height, pixels as 16-bit RGBA and all chunks count, except those of text and time.
 *   Compression, filters, palette and depth don't.
 * - json: values count, numbers by their value as doubles or 64-bit integers. Order of keys, spaces
 *   and escapes don't.
 *
 * A file isn't normalised if it has bytes that no reader of the format reads (after its end,
 * between members). When two files are the same, `detail` names each kind of difference that was
 * ignored, with the first member that has it.
 *
 * The first bytes tell the format. The content of a container is normalised again, to
 * NORMALISE_DEPTH_MAX levels: "gzip+tar+png".
 */
#ifndef CAIRN_STEPS_NORMALISE_NORMALISE_H
#define CAIRN_STEPS_NORMALISE_NORMALISE_H

#include "base/err.h"
#include "base/mem.h"
#include "base/text/str.h"

#define NORMALISE_DEPTH_MAX 4
/* Limit of the bytes that one comparison unpacks, on both sides and all levels together: they lie
 * in TMPDIR. */
#define NORMALISE_UNPACKED_MAX (8 * GIB)
#define NORMALISE_MEMBERS_MAX  1000000

struct span {
	const uint8_t *p;
	size_t n;
};

enum normalised_verdict {
	/* No known common format, or one file can't be read: only bytes can be compared. */
	NORMALISED_NOT,
	NORMALISED_SAME,
	NORMALISED_DIFFERENT,
};

struct normalised {
	enum normalised_verdict verdict;
	const char *normaliser; /* "gzip+tar"; NULL when not normalised */
	const char *member;     /* first one that differs: "data/a.txt", "outer.tar > a.txt"; NULL
				   without members */
	/* For people, one line, printable: what differs; when the same: what was ignored. NOT: why;
	 * or NULL. */
	const char *detail;
};

struct normalise_job {
	struct arena *arena; /* for the results */
	uint64_t bytes_max;
	uint64_t bytes; /* unpacked so far */
	unsigned depth;
};

/* Never fails: files that can't be read are NORMALISED_NOT. */
void normalise_spans(struct normalise_job *j, struct span a, struct span b, struct normalised *ret);
/* The program. Arguments: the two files, and before them optionally --max with the most bytes to
 * unpack. Exit 0 with a line on standard output; 2 for wrong usage, 1 when a file can't be read. */
int normalise_main(int argc, char **argv);

/* Shared by the files of this folder. */

/* Unpacked bytes: a few in memory, more in an unnamed file in TMPDIR. */
struct unpacked {
	struct normalise_job *job;
	struct str small;
	int fd; /* -1: still small */
	uint64_t len;
	void *map;
	struct span all; /* set by unpacked_end() */
};
void unpacked_init(struct unpacked *s, struct normalise_job *j);
void unpacked_deinit(struct unpacked *s);
int unpacked_add(struct unpacked *s, const void *bytes, size_t n,
		 struct err *err); /* ERR_TOO_LARGE beyond the job's limit */
int unpacked_end(struct unpacked *s, struct err *err);

/* Offset of the first differing byte; the shorter length when one begins with the other. */
size_t normalise_differs_at(struct span a, struct span b);
const char *normalise_difference(struct normalise_job *j, struct span a,
				 struct span b); /* "byte 17: 0x61 → 0x62", "12 bytes → 13 bytes" */
/* Made printable, in the job's arena; at most 120 bytes. */
const char *normalise_text(struct normalise_job *j, const char *s, size_t n);
bool normalise_same_bytes(const struct str *a, const struct str *b);

/* layout.c: ERR_INVALID when the file has bytes that belong to no member. `facts` gets what a zip
 * holds besides its members and counts: two zips with equal facts have the same comments and
 * fields. */
int normalise_check_zeros(struct span s, uint64_t from, uint64_t to, struct err *err);
/* For the tar member whose header is at `at`: the records of its pax headers that libarchive
 * skips. */
int normalise_tar_facts(struct span s, uint64_t at, struct str *facts, struct err *err);
int normalise_check_zip(struct span s, struct str *facts, struct err *err);

/* Each compares two files of its format; -1: one can't be read (err says why). */
int normalise_gzip(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		   struct err *err);
int normalise_zstd(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		   struct err *err);
int normalise_tar(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		  struct err *err);
int normalise_zip(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		  struct err *err);
int normalise_png(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		  struct err *err);
int normalise_npy(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		  struct err *err);
int normalise_json(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		   struct err *err);

#endif

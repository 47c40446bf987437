/* steps/shard/internal.h — how shard works: list, assign, write.
 *
 * 	source_read()       every sample of the input: its key, its words (class, group, split), and
 * 	                    where its bytes are
 * 	set_assign()        splits and shards, from hashes of keys
 * 	set_write_shards()  shard by shard, on all threads
 * 	set_write_facts()   index.json, stats.json, metrics
 *
 * Memory grows with the number of samples and the length of their names, never with their bytes:
 * each thread holds a few MiB of bytes, or one array of an IDX file. Bytes stay in their files.
 * Where they can only be read from the front (archives, gzip, tables), they are copied to the
 * spool, an unlinked file next to the output.
 *
 * One thread reads and assigns; set_write_shards() uses all. write.c says what threads share there.
 */
#ifndef CAIRN_STEPS_SHARD_INTERNAL_H
#define CAIRN_STEPS_SHARD_INTERNAL_H

#include <pthread.h>
#include <regex.h>
#include "base/crypto/digest.h"
#include "base/map.h"
#include "base/mem.h"
#include "steps/shards/shards.h"
#include "steps/shards/walk.h"
#include "steps/step.h"

/* Per split: shard-NNNNNN.tar. The setting `shards` has the same limit. */
#define SHARDS_MAX 999999u
#define NO_WORD    UINT32_MAX
#define SMALL_PART 64  /* up to this many bytes stay in memory instead of the spool */
#define WORD_MAX   256 /* a longer class or group name is a mistake */

/* Words: classes, groups. */

struct words {
	struct map *ids; /* word → its number + 1 */
};
uint32_t words_id(struct words *w, const char *s, size_t n);
size_t words_count(const struct words *w);
const char *words_at(const struct words *w, uint32_t id, size_t *ret_n);

/* Removes blanks and line ends at both ends. */
void trim_blanks(const char **s, size_t *n);

/* How to find a word of a sample. */
struct rule {
	enum { RULE_NONE, RULE_AUTO, RULE_FOLDER, RULE_PATTERN, RULE_COLUMN, RULE_FIELD } kind;
	int depth;
	const char *name; /* of a column or field */
	regex_t regex;
};

/* Bytes. */

struct spool {
	int fd;
	uint64_t size, flushed;
	struct str buf;
};
int spool_open(struct spool *s, const char *dir, struct err *err);
/* Makes an unnamed file in `dir`, for writing and reading; it is gone when it is closed. */
int spool_file(const char *dir, int *ret_fd, struct err *err);
int spool_add(struct spool *s, const void *bytes, size_t n, struct err *err);
int spool_flush(struct spool *s, struct err *err);
/* Any thread may call it after the flush; the thread that adds may call it at any time. */
int spool_read(const struct spool *s, uint64_t at, void *to, size_t n, struct err *err);
void spool_close(struct spool *s);

/* An array of an IDX file. */
struct pixels {
	bool png;
	size_t bytes;                     /* of one, raw */
	uint32_t width, height, channels; /* for PNG */
	struct str npy_header;
};

struct part {
	const char *field; /* lower case */
	enum { PART_FILE, PART_LINK, PART_NAMED, PART_MEMORY, PART_SPOOL } where;
	uint32_t run; /* shards: number of the adjacent run of members with one key */
	/* FILE, LINK, NAMED: path below files_fd (LINK and NAMED aren't trusted); MEMORY: the
	 * bytes. */
	const char *at;
	uint64_t offset, n;          /* SPOOL; n for MEMORY too */
	const struct pixels *pixels; /* to be encoded; NULL: bytes are used unchanged */
};

/* Finds samples with the same content, within one execution. Poly1305 under a random key is three
 * times as fast as SHA-256, and an attacker who doesn't know the key can't make collisions. It is
 * never written anywhere. One thread each. */
#define FINGERPRINT_BYTES     16
#define FINGERPRINT_KEY_BYTES 32
struct fingerprint;
struct fingerprint *fingerprint_new(const uint8_t key[FINGERPRINT_KEY_BYTES]);
void fingerprint_free(struct fingerprint *f);
void fingerprint_begin(struct fingerprint *f);
void fingerprint_add(struct fingerprint *f, const void *bytes, size_t n);
void fingerprint_end(struct fingerprint *f, uint8_t ret[FINGERPRINT_BYTES]);

/* Samples. */

struct sample {
	const char *key;
	const struct part *parts; /* sorted by field */
	uint32_t n_parts;
	uint32_t cls, group; /* NO_WORD */
	uint32_t split, shard;
	uint32_t seq; /* order of discovery: of two samples with one key the first counts */
	bool skipped; /* set while writing */
	uint64_t u_split, u_shard, u_order, bytes;
	uint8_t content[FINGERPRINT_BYTES]; /* of fields and bytes */
};

enum bad {
	BAD_PATH,
	BAD_SUFFIX,
	BAD_DUPLICATE,
	BAD_TOO_LARGE,
	BAD_UNREADABLE,
	BAD_DAMAGED,
	BAD_ROW,
	BAD_CLASS,
	BAD_SPLIT,
	BAD_LAST = BAD_SPLIT,
};
#define BAD_EXAMPLES 10

/* 0 for none. Of a shard; of a file; of what an archive unpacks to. */
struct shard_limits {
	uint64_t samples, bytes, file, unpacked, ratio;
};

struct settings {
	size_t source;
	bool last_dot, idx_png, stratify, shuffle, skip_bad, allow_empty;
	enum { CLASS_AS_INDEX, CLASS_AS_NAME, CLASS_AS_NONE } class_as;
	const char *key, *file;
	char separator; /* 0: by the file's name */
	const json_t *include, *exclude, *members, *classes, *split;
	struct rule cls, split_by, group_by;
	uint64_t shards, samples_per_shard; /* shards: 0 for none */
	struct shard_limits max;
	int64_t seed;
	int zstd;
};

struct out_split {
	const char *name, *path;
	double from, to; /* of the range of u, when split by fractions */
	uint32_t n_shards;
	uint64_t n_samples;
};

struct set {
	struct step_args *args;
	struct settings with;
	struct arena *arena;
	VEC(struct sample) samples; /* sorted by key once read */
	struct words classes, groups;
	int64_t *class_numbers; /* by id; the number in the member cls */
	struct spool spool;
	int files_fd;
	const char *files_root;   /* for messages */
	struct out_split *splits; /* sorted by name */
	size_t n_splits;
	uint8_t fingerprint_key[FINGERPRINT_KEY_BYTES];
	pthread_mutex_t bad_lock;
	uint64_t bad[BAD_LAST + 1];
	/* The first in the order of their texts, so that they don't depend on threads. */
	char *bad_examples[BAD_EXAMPLES + 1];
};

int settings_read(struct settings *s, const struct step_args *a, struct err *err);
void settings_deinit(struct settings *s);

/* Handles a bad sample and its error: -1 and the error, or 1 when bad samples are skipped, with
 * *err empty. Any thread. */
int set_bad(struct set *s, enum bad why, struct err *err);
const char *set_bad_name(enum bad why);

/* What a source knows about a sample that has at least one part. `column` may be NULL. */
struct draft {
	const char *key;    /* copied */
	struct part *parts; /* copied, sorted; the data they point to isn't copied */
	size_t n_parts;
	bool (*column)(void *arg, const char *name, const char **ret, size_t *ret_n);
	void *arg;
};
/* 0: added, 1: skipped, -1. */
int set_add(struct set *s, const struct draft *d, struct err *err);
/* The name of the member for the sample's class; NULL when there is no class member to add, or the
 * sample has a member of that name. */
const char *set_class_field(const struct set *s, const struct sample *x);
/* Makes a part from bytes: small ones stay in memory, others go to the spool. */
int set_part(struct set *s, const char *field, const void *bytes, size_t n, struct part *ret,
	     struct err *err);

/* A writing thread doesn't hold a larger member of a file or the spool in memory, nor further
 * members of a sample after this many bytes. */
#define PART_HELD_MAX (8 * MIB)

/* A part whose bytes are read only when needed. */
struct part_bytes {
	const struct set *set;
	const struct part *part;
	int fd; /* -1: the spool */
	uint64_t n;
};
/* 1: the part has more than `most` bytes, is open as *large, and part_read() reads it; 0: as
 * part_load(). */
int part_get(const struct set *s, const struct part *p, uint64_t most, struct str *out,
	     struct part_bytes *large, struct err *err);
void part_close(struct part_bytes *b);
/* The read() of a shard_field: `arg` is the part_bytes. A file that became shorter is an error. */
int part_read(const void *arg, uint64_t at, void *to, size_t n, struct err *err);
/* Appends a part's bytes, encoded. Any thread. ERR_TOO_LARGE: a file over max_file. */
int part_load(const struct set *s, const struct part *p, struct str *out, struct err *err);

/* Finds a rule's text for a sample: 1 and a copy in *out; 0 when there is none; -1. */
int rule_word(const struct set *s, const struct rule *r, const struct draft *d, struct str *out,
	      struct err *err);
/* The text of a string, number or truth value of a JSON line; false for other values. Integers of
 * any size are copied as written. */
struct jsonl_member;
bool jsonl_column_text(const struct jsonl_member *v, size_t n, const char *name, struct str *out);
int rule_read(struct rule *r, const json_t *with, const char *name, struct err *err);
void rule_deinit(struct rule *r);

/* Sources. */

/* Members of a tree or archive that will become samples. */
struct loose {
	const char *key; /* in the arena */
	struct part part;
};
struct loose_list {
	VEC(struct loose) all;
};
/* Splits a name into key and field by the settings; the field becomes lower case. 0, 1 skipped, -1.
 * `where` is for the message. */
int loose_name(struct set *s, const char *where, const char *name, const char **ret_key,
	       const char **ret_field, struct err *err);
/* Turns dots in a key's last part into `_` where a reader would cut the key. */
void loose_hide_dots(char *key);
/* Groups members with one key into samples, and frees the list. `adjacent`: a key whose members
 * weren't adjacent counts as a duplicate. */
int loose_add_all(struct set *s, struct loose_list *l, bool adjacent, struct err *err);

int source_read(struct set *s, struct err *err);
bool source_wants(const struct set *s, const char *path);

struct input_file {
	const char *path; /* path for opening */
	const char *name; /* below `data` */
	bool link;
};
struct input {
	const char *root;
	struct input_file *files;
	size_t n;
	bool is_dir;
};
int source_files(struct set *s, const struct input *in, struct err *err);
int source_archives(struct set *s, const struct input *in, bool shards, struct err *err);
int source_tables(struct set *s, const struct input *in, bool jsonl, struct err *err);
int source_idx(struct set *s, const struct input *in, struct err *err);

/* Functions in the order of use. */

/* Call it before the source is read: set_add() needs the outputs' names. */
int set_read_splits(struct set *s, struct err *err);
/* Sorts, removes duplicates, numbers classes, gives every sample its split and shard. Afterwards
 * samples are in the order in which they are written. */
int set_assign(struct set *s, struct err *err);
void sample_hash(int64_t seed, const char *text, size_t n, uint64_t u[3]);

struct field_stats {
	const char *name;
	uint64_t n, bytes, min, max;
};
struct field_list {
	VEC(struct field_stats) all; /* one per field name */
};
void field_list_add(struct field_list *l, const struct field_stats *f);
struct shard_part { /* one file */
	char *name;
	struct shard_written written;
};
struct shard_result {
	uint32_t split, number; /* number: within the split */
	size_t first, n;        /* range of set->samples */
	VEC(struct shard_part) parts;
	struct field_list fields;
	struct str index; /* JSON of its entries in index.json */
};
/* One result per shard, in order of split and number. */
int set_write_shards(struct set *s, struct shard_result **ret, size_t *ret_n, struct err *err);
void shard_results_free(struct shard_result *v, size_t n);
int set_write_facts(struct set *s, const struct shard_result *v, size_t n, struct err *err);

#endif

/* steps/shards/shards.h — WebDataset shards: tar files in which the members `KEY.FIELD` of one
 * sample are adjacent.
 *
 * The format is that of the Python package webdataset: a member's path is split at the first dot of
 * its last part; everything before is the key (with the directory), everything after the field, in
 * lower case. Adjacent members of one key are one sample. Sources: POSIX.1-1988 ustar and
 * POSIX.1-2001 pax for what ustar can't hold; github.com/webdataset/webdataset (README, "The
 * WebDataset Format").
 *
 * A reader and a writer belong to one thread at a time.
 */
#ifndef CAIRN_STEPS_SHARDS_SHARDS_H
#define CAIRN_STEPS_SHARDS_SHARDS_H

#include "base/crypto/digest.h"
#include "base/err.h"
#include "base/text/str.h"

/* An archive with a larger member, more fields in one sample, or a longer name is treated as
 * malicious. */
#define SHARD_MEMBER_MAX (4 * GIB)
#define SHARD_SAMPLE_MAX (4 * GIB) /* all fields of one sample: a reader holds it in memory */
#define SHARD_FIELDS_MAX 1024
#define SHARD_NAME_MAX   1024
/* A compressed shard that unpacks to more than this many times its size (once that is over
 * SHARD_RATIO_FROM) is a bomb. */
#define SHARD_RATIO_MAX  1000
#define SHARD_RATIO_FROM (64 * MIB)

struct shard_field {
	const char *name; /* "jpg", "cls", "seg.png" */
	const void *data;
	size_t n;
	/* For the writer, instead of large `data`: reads all of to[0..n) from offset `at`. */
	int (*read)(const void *arg, uint64_t at, void *to, size_t n, struct err *err);
	const void *arg;
};

/* Owns its bytes. */
struct shard_sample {
	char *key;
	struct shard_field *fields; /* in the order of the tar */
	size_t n_fields;
	uint64_t offset; /* of its first member's header in the tar (uncompressed) */
};
void shard_sample_free(struct shard_sample *s); /* NULL is fine */
const struct shard_field *shard_sample_field(const struct shard_sample *s, const char *name);

/* Reads a tar, also one compressed by gzip, zstd, xz or bzip2 (libarchive). Errors name the file
 * and the member. ERR_INVALID: unsafe paths, links and devices, truncated archives, duplicate
 * fields of a sample, a name without a field. ERR_TOO_LARGE: an archive bomb. */
struct shard_reader;
int shard_reader_open(const char *path, struct shard_reader **ret, struct err *err);
int shard_reader_next(struct shard_reader *r, struct shard_sample **ret,
		      struct err *err); /* 1: a sample, 0: the end, -1 */
void shard_reader_free(struct shard_reader *r);

/* Whether the name ends in .tar, .tar.gz, .tgz, .tar.zst, .tar.xz or .tar.bz2. */
bool shard_is_name(const char *name);
/* Lists the tar files of an input: the input itself when it is a file; else those below the
 * directory with such a name, sorted. Free the paths with shard_list_free(). ERR_NOT_FOUND when
 * there are none. */
int shard_list(const char *path, char ***ret, size_t *ret_n, struct err *err);
void shard_list_free(char **list, size_t n);

/* Finds the end of the key in a member's name: the index of the first dot of its last part.
 * ERR_INVALID with -1: a name that isn't safe to unpack (absolute, "..", control characters, not
 * UTF-8, too long); with 1: a name without a field, or without a key before it. */
int shard_name_split(const char *name, size_t *ret_key_len, struct err *err);
/* Whether a reader splits KEY.FIELD into these two: 0, or -1 with ERR_INVALID. */
int shard_check_name(const char *key, const char *field, struct err *err);

/* Writes one shard: members in the given order, mtime 0, uid and gid 0, no names, mode 0644, so
 * that the same samples give the same bytes. It has a temporary name until shard_writer_close(). */
struct shard_writer;
struct shard_writer_options {
	int zstd_level; /* 0: not compressed; the offsets are those of the tar before compression */
	bool hash_apart; /* on a separate thread of the writer's; the bytes are the same */
};
int shard_writer_open(const char *path, const struct shard_writer_options *o,
		      struct shard_writer **ret, struct err *err);
/* Whether a shard can hold this sample; a reader refuses the same samples. ERR_INVALID: a key or
 * field that would read back differently. ERR_TOO_LARGE: over SHARD_MEMBER_MAX, SHARD_SAMPLE_MAX or
 * SHARD_FIELDS_MAX. Pure: a caller that skips bad samples calls it before it adds one. */
int shard_check_sample(const char *key, const struct shard_field *fields, size_t n,
		       struct err *err);
/* Writes the fields in the given order, which a reader keeps. Refuses what shard_check_sample()
 * refuses, before anything is written. */
int shard_writer_add(struct shard_writer *w, const char *key, const struct shard_field *fields,
		     size_t n, uint64_t *ret_offset, struct err *err);
/* Bytes of the tar so far, before compression, without its end mark. */
uint64_t shard_writer_size(const struct shard_writer *w);
struct shard_written {
	uint64_t samples, bytes;
	struct digest sha256; /* of the file's bytes */
};
int shard_writer_close(struct shard_writer *w, struct shard_written *ret,
		       struct err *err); /* frees it in any case */
void shard_writer_free(
	struct shard_writer *w); /* aborts: removes the temporary file; NULL is fine */

#endif

/* storage/remote/pack.h — packs: one object that holds many small ones, and an index of their
 * places. The format is in FORMAT.md.
 *
 * A pack's name is the digest of its index, which contains a random number. So two packs never have
 * the same name, even with the same members, and a collector that removes a pack can't collide with
 * a writer that makes it again. Readers treat an index as hostile.
 */
#ifndef CAIRN_STORAGE_REMOTE_PACK_H
#define CAIRN_STORAGE_REMOTE_PACK_H

#include "storage/limits.h"
#include "storage/store.h"

enum pack_encoding { PACK_PLAIN = 0, PACK_ZSTD = 1 };

struct pack_member {
	struct digest name;
	uint8_t space;           /* STORE_BLOB or STORE_TREE; in a directory STORE_ACTION, too */
	uint8_t encoding;        /* enum pack_encoding */
	uint64_t size;           /* of the content */
	uint64_t offset, stored; /* place in the pack, and bytes there */
};

/* Writing: members are added to a file, then its index is made.
 *
 * Readers refuse an index that names a member twice, so adding a member again does nothing. */

struct pack_writer;
/* `dir_fd`: directory of its temporary file; -1: in memory. */
int pack_writer_new(int dir_fd, struct pack_writer **ret, struct err *err);
void pack_writer_free(struct pack_writer *w); /* NULL is fine */
static inline void pack_writer_freep(struct pack_writer **w)
{
	pack_writer_free(*w);
}
/* From now on, members aren't compressed. */
void pack_writer_keep_plain(struct pack_writer *w);
int pack_writer_add(struct pack_writer *w, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, struct err *err);
/* Adds a large member from a file. */
int pack_writer_add_fd(struct pack_writer *w, enum store_space space, const struct digest *name,
		       int fd, uint64_t size, struct err *err);
/* True when there is no room for another `n` bytes. An empty pack has room for anything. */
bool pack_writer_is_full(const struct pack_writer *w, uint64_t n);
uint64_t pack_writer_bytes(const struct pack_writer *w);
size_t pack_writer_members(const struct pack_writer *w);
/* Returns the pack's file (borrowed) and size, its index and its name. */
void pack_writer_finish(struct pack_writer *w, int *ret_fd, uint64_t *ret_size,
			struct str *ret_index, struct digest *ret_name);

/* Reading. */

/* Checks that the bytes are a valid index of this name, with no member of a space after `last`.
 * ERR_CORRUPT. */
int pack_index_check(const struct digest *name, const void *bytes, size_t n, enum store_space last,
		     struct err *err);
/* Of a checked index: */
size_t pack_index_len(const void *bytes);
void pack_index_at(const void *bytes, size_t i, struct pack_member *ret);
/* Of a checked index: whether it has this member. */
bool pack_index_find(const void *bytes, enum store_space space, const struct digest *name,
		     struct pack_member *ret);
/* Of a checked index: the size that the pack must have. */
uint64_t pack_index_pack_size(const void *bytes);

/* Encoding. */

/* Decodes `n` stored bytes that must give exactly `size`. ERR_CORRUPT. */
int pack_decode(enum pack_encoding encoding, const void *stored, size_t n, uint64_t size,
		struct str *ret, struct err *err);
bool pack_encode_pays(int fd, uint64_t size); /* decided from samples of the whole file */
/* Stream a whole file to the current offset of `to`. Decoding needs an empty file, and also returns
 * the digest of the blob (content.h). The output is limited by max_bytes, and by the size in the
 * stored bytes' header (pack_encode_file() always writes it). ERR_TOO_LARGE: the header announces
 * more than max_bytes; ERR_NO_SPACE: more than the free space; ERR_CORRUPT: damaged. */
int pack_encode_file(int from, uint64_t size, int to, uint64_t *ret_stored, struct err *err);
int pack_decode_file(int from, int to, uint64_t max_bytes, uint64_t *ret_size,
		     struct digest *ret_digest, struct err *err);

#endif

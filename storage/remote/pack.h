/* storage/remote/pack.h — packs: many small objects in one, and the index that says where each
 * lies. The format is in FORMAT.md.
 *
 * A pack has a name of its own, made from its index, in which a random number lies: two packs never
 * have the same name, whatever is in them, so that a collector which removes one can't meet a
 * writer who makes it anew. An index is hostile when read.
 */
#ifndef CAIRN_STORAGE_REMOTE_PACK_H
#define CAIRN_STORAGE_REMOTE_PACK_H

#include "storage/limits.h"
#include "storage/store.h"

enum pack_encoding { PACK_PLAIN = 0, PACK_ZSTD = 1 };

struct pack_member {
	struct digest name;
	uint8_t space;           /* STORE_BLOB or STORE_TREE */
	uint8_t encoding;        /* enum pack_encoding */
	uint64_t size;           /* the content's */
	uint64_t offset, stored; /* where in the pack, and how many bytes there */
};

/* Writing: members are added to a file, then its index is made.
 *
 * An index names each member once, and readers refuse one that doesn't: what is in the pack already
 * is not added again. */

struct pack_writer;
/* `dir_fd`: where its temporary file lies; -1: in memory. */
int pack_writer_new(int dir_fd, struct pack_writer **ret, struct err *err);
void pack_writer_free(struct pack_writer *w); /* NULL is fine */
static inline void pack_writer_freep(struct pack_writer **w)
{
	pack_writer_free(*w);
}
int pack_writer_add(struct pack_writer *w, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, struct err *err);
/* A large one, from a file. */
int pack_writer_add_fd(struct pack_writer *w, enum store_space space, const struct digest *name,
		       int fd, uint64_t size, struct err *err);
/* True when there is no room for another `n` bytes. An empty pack has room for anything. */
bool pack_writer_is_full(const struct pack_writer *w, uint64_t n);
uint64_t pack_writer_bytes(const struct pack_writer *w);
size_t pack_writer_members(const struct pack_writer *w);
/* The pack's file (lent) and size, its index and its name. */
void pack_writer_finish(struct pack_writer *w, int *ret_fd, uint64_t *ret_size,
			struct str *ret_index, struct digest *ret_name);

/* Reading. */

/* Checks that this is an index, and the one of that name. ERR_CORRUPT. */
int pack_index_check(const struct digest *name, const void *bytes, size_t n, struct err *err);
/* Of a checked index: */
size_t pack_index_len(const void *bytes);
void pack_index_at(const void *bytes, size_t i, struct pack_member *ret);
/* Of a checked index: the size that the pack must have. */
uint64_t pack_index_pack_size(const void *bytes);

/* Encoding. */

/* Decodes `n` stored bytes that must give exactly `size`. ERR_CORRUPT. */
int pack_decode(enum pack_encoding encoding, const void *stored, size_t n, uint64_t size,
		struct str *ret, struct err *err);
bool pack_encode_pays(int fd, uint64_t size); /* by samples from all over it */
/* Whole files, by streams, to where `to` stands; decoding, into an empty file, also says which blob
 * came out (content.h). max_bytes bounds what comes out, and so does the
 * size that the stored bytes announce (pack_encode_file() always writes it). ERR_TOO_LARGE: they
 * announce more than max_bytes; ERR_NO_SPACE: more than there is room for; ERR_CORRUPT: they are
 * damaged. */
int pack_encode_file(int from, uint64_t size, int to, uint64_t *ret_stored, struct err *err);
int pack_decode_file(int from, int to, uint64_t max_bytes, uint64_t *ret_size,
		     struct digest *ret_digest, struct err *err);

#endif

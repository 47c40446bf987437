/* steps/shards/hasher.h — SHA-256 of written data, on a separate thread: for the one shard of a
 * small set, where the other cpus have nothing to do.
 *
 * The writer fills a buffer, writes it, passes it on to be hashed and fills the next. One thread
 * uses it at a time.
 */
#ifndef CAIRN_STEPS_SHARDS_HASHER_H
#define CAIRN_STEPS_SHARDS_HASHER_H

#include "base/crypto/digest.h"

struct hasher;
/* Makes buffers of `size` bytes. If no thread can be started, hasher_push() hashes at once. */
struct hasher *hasher_new(size_t size);
/* Returns a free buffer; waits for one. */
char *hasher_buffer(struct hasher *h);
/* Passes on the buffer returned last, with n bytes in it. */
void hasher_push(struct hasher *h, size_t n);
void hasher_final(struct hasher *h, struct digest *ret); /* waits; once */
void hasher_free(struct hasher *h);                      /* NULL is fine */

#endif

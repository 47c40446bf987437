/* steps/shards/hasher.h — SHA-256 of what is written, on a thread of its own: for the one shard of
 * a small set, where the other cpus have nothing to do.
 *
 * The writer fills a buffer, writes it, hands it over to be hashed and fills the next. One thread
 * uses it at a time.
 */
#ifndef CAIRN_STEPS_SHARDS_HASHER_H
#define CAIRN_STEPS_SHARDS_HASHER_H

#include "base/crypto/digest.h"

struct hasher;
/* Buffers of `size` bytes. Where no thread can be had, hashing is done at once by the one that
 * hands over. */
struct hasher *hasher_new(size_t size);
/* A buffer that nobody uses; waits for one. */
char *hasher_buffer(struct hasher *h);
/* The buffer that was given last, with n bytes in it. */
void hasher_push(struct hasher *h, size_t n);
void hasher_final(struct hasher *h, struct digest *ret); /* waits; once */
void hasher_free(struct hasher *h);                      /* NULL is fine */

#endif

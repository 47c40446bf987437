/* engine/base/crypto/digest_set.h — a set of digests in little memory: about 42 bytes each, where
 * base/map.h takes 110.
 *
 * A collector holds a million digests at once. They are in 256 tables, so that growing one copies
 * little. 12 to 30 % of a table's places are free, more in a very small table. Not thread-safe. The
 * hash is seeded per process, because strangers write some listings and so choose digests.
 */
#ifndef CAIRN_BASE_CRYPTO_DIGEST_SET_H
#define CAIRN_BASE_CRYPTO_DIGEST_SET_H

#include "base/crypto/digest.h"

struct digest_set;
struct digest_set *digest_set_new(void);
void digest_set_free(struct digest_set *s);
static inline void digest_set_freep(struct digest_set **s)
{
	digest_set_free(*s);
}
bool digest_set_add(struct digest_set *s, const struct digest *d); /* false: it was in it */
bool digest_set_has(const struct digest_set *s, const struct digest *d);
void digest_set_remove(struct digest_set *s, const struct digest *d);
size_t digest_set_len(const struct digest_set *s);

#endif

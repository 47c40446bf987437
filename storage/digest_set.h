/* storage/digest_set.h — a set of digests in little memory: about 42 bytes each, where base/map.h
 * takes 110.
 *
 * A million of them is what a collector holds at once. They lie in 256 tables, so that growing one
 * copies little. Of a table's places 12 to 30 % are free, more of a very small one's. Not
 * thread-safe. The place of a digest is seeded per process, because digests come from listings that
 * strangers write.
 */
#ifndef CAIRN_STORAGE_DIGEST_SET_H
#define CAIRN_STORAGE_DIGEST_SET_H

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

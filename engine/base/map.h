/* engine/base/map.h — hash table from byte strings to pointers, in insertion order.
 *
 * The map copies keys; the caller owns values. Hashing is seeded per process, because keys may be
 * hostile. Iteration: for (size_t i = 0; i < map_len(m); i++) map_at(m, i, &key, &keylen).
 */
#ifndef CAIRN_BASE_MAP_H
#define CAIRN_BASE_MAP_H

#include <stdbool.h>
#include "base/macros.h"

struct map;
struct map *map_new(void);
void map_free(struct map *m);
static inline void map_freep(struct map **m)
{
	map_free(*m);
}
size_t map_len(const struct map *m);
/* Returns the slot of `key`. An absent key gets a new slot with NULL, and *ret_new (may be NULL) is
 * true. Valid until the next map_slot(). */
void **map_slot(struct map *m, const void *key, size_t len, bool *ret_new);
void *map_get(const struct map *m, const void *key, size_t len); /* NULL when absent */
bool map_has(const struct map *m, const void *key, size_t len);
void *map_at(const struct map *m, size_t i, const void **ret_key, size_t *ret_len);

static inline void *map_get_str(const struct map *m, const char *key)
{
	return map_get(m, key, __builtin_strlen(key));
}
static inline void **map_slot_str(struct map *m, const char *key)
{
	return map_slot(m, key, __builtin_strlen(key), NULL);
}

#endif

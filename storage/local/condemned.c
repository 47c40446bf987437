/* storage/local/condemned.c — see condemned.h.
 *
 * A list is in memory in its file format, sorted by space and digest: 49 MB for a million entries.
 * A directory lists shard by shard, so it is enough to sort each shard when it ends. */
#include "storage/local/condemned.h"
#include <string.h>
#include "storage/internal.h"

#define MAGIC     "cairn-condemned/2\n"
#define MAGIC_LEN (sizeof(MAGIC) - 1)

void condemned_list_key(enum store_space space, const struct digest *name,
			uint8_t ret[CONDEMNED_KEY_BYTES])
{
	ret[0] = (uint8_t)space;
	memcpy(ret + 1, name->b, DIGEST_BYTES);
}

/* In the order of the sweep: the highest space first, so that records go before what they name. */
static int by_key(const void *a, const void *b)
{
	const uint8_t *x = a, *y = b;

	return x[0] != y[0] ? y[0] - x[0] : memcmp(x, y, CONDEMNED_KEY_BYTES);
}

static void sort_entries(struct condemned *list, size_t from)
{
	struct str *s = &list->bytes;

	if (s->len > from + CONDEMNED_ENTRY_BYTES)
		qsort(s->s + from, (s->len - from) / CONDEMNED_ENTRY_BYTES, CONDEMNED_ENTRY_BYTES,
		      by_key);
}

static bool is_sorted(const struct condemned *list)
{
	const struct str *s = &list->bytes;

	for (size_t at = MAGIC_LEN; at + 2 * CONDEMNED_ENTRY_BYTES <= s->len;
	     at += CONDEMNED_ENTRY_BYTES)
		if (by_key(s->s + at, s->s + at + CONDEMNED_ENTRY_BYTES) > 0)
			return false;
	return true;
}

size_t condemned_list_len(const struct condemned *list)
{
	return list->bytes.len <= MAGIC_LEN ? 0
					    : (list->bytes.len - MAGIC_LEN) / CONDEMNED_ENTRY_BYTES;
}

bool condemned_list_check(struct condemned *list)
{
	const struct str *s = &list->bytes;

	if (s->len < MAGIC_LEN || memcmp(s->s, MAGIC, MAGIC_LEN) != 0 ||
	    (s->len - MAGIC_LEN) % CONDEMNED_ENTRY_BYTES) {
		condemned_list_deinit(list);
		return false;
	}
	if (!is_sorted(list))
		sort_entries(list, MAGIC_LEN);
	return true;
}

bool condemned_list_find(const struct condemned *list, const uint8_t key[CONDEMNED_KEY_BYTES],
			 struct condemned_entry *ret)
{
	size_t n = condemned_list_len(list);
	const char *found =
		n ? bsearch(key, list->bytes.s + MAGIC_LEN, n, CONDEMNED_ENTRY_BYTES, by_key)
		  : NULL;

	if (!found)
		return false;
	memcpy(ret->key, found, CONDEMNED_KEY_BYTES);
	ret->dead_ns = (int64_t)MIN(get_le64(found + CONDEMNED_KEY_BYTES), (uint64_t)INT64_MAX);
	ret->listed_ns =
		(int64_t)MIN(get_le64(found + CONDEMNED_KEY_BYTES + 8), (uint64_t)INT64_MAX);
	return true;
}

void condemned_list_add(struct condemned *list, const struct condemned_entry *e)
{
	struct str *s = &list->bytes;

	if (s->len == 0) {
		str_addn(s, MAGIC, MAGIC_LEN);
		list->unsorted_from = MAGIC_LEN;
	}
	/* Another space, or another first byte: the shard before has ended. */
	if (s->len > list->unsorted_from && memcmp(s->s + list->unsorted_from, e->key, 2) != 0) {
		sort_entries(list, list->unsorted_from);
		list->unsorted_from = s->len;
	}
	str_addn(s, e->key, CONDEMNED_KEY_BYTES);
	str_add_u64(s, (uint64_t)e->dead_ns);
	str_add_u64(s, (uint64_t)e->listed_ns);
}

void condemned_list_end(struct condemned *list)
{
	sort_entries(list, list->unsorted_from);
	if (!is_sorted(list)) /* some stores list in another order */
		sort_entries(list, MAGIC_LEN);
}

void condemned_list_deinit(struct condemned *list)
{
	str_deinit(&list->bytes);
}

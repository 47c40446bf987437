/* storage/condemned.c — the bytes of a list of condemned objects (condemned.h).
 *
 * A list is in memory in its file format, sorted by kind and digest: 49 MB for a million entries.
 * Stores list shard by shard, so it is enough to sort each shard when it ends.
 *
 * A list that was read is data from outside: condemned_list_check() refuses another format, and
 * sorts what isn't sorted. No files: the owner reads and writes the list.
 */
#include "storage/condemned.h"
#include <assert.h>
#include <string.h>
#include "storage/internal.h"
#include "storage/limits.h"

static const struct form {
	const char *magic;
	size_t times; /* of an entry */
} forms[] = {
	[CONDEMNED_DIRECTORY] = { "cairn-condemned/2\n", 2 },
	[CONDEMNED_BUCKET] = { "cairn-bucket-condemned/1\n", 1 },
};

static size_t head_len(const struct condemned *list)
{
	return strlen(forms[list->form].magic);
}

static size_t entry_len(const struct condemned *list)
{
	return CONDEMNED_KEY_BYTES + 8 * forms[list->form].times;
}

void condemned_list_key(uint8_t kind, const struct digest *name, uint8_t ret[CONDEMNED_KEY_BYTES])
{
	ret[0] = kind;
	memcpy(ret + 1, name->b, DIGEST_BYTES);
}

/* In the order of a directory's sweep: the highest kind first, so that records go before what they
 * name. */
static int by_key(const void *a, const void *b)
{
	const uint8_t *x = a, *y = b;

	return x[0] != y[0] ? y[0] - x[0] : memcmp(x, y, CONDEMNED_KEY_BYTES);
}

static void sort_entries(struct condemned *list, size_t from)
{
	struct str *s = &list->bytes;
	const size_t len = entry_len(list);

	if (s->len > from + len)
		qsort(s->s + from, (s->len - from) / len, len, by_key);
}

static bool is_sorted(const struct condemned *list)
{
	const struct str *s = &list->bytes;
	const size_t len = entry_len(list);

	for (size_t at = head_len(list); at + 2 * len <= s->len; at += len)
		if (by_key(s->s + at, s->s + at + len) > 0)
			return false;
	return true;
}

size_t condemned_list_len(const struct condemned *list)
{
	return list->bytes.len ? (list->bytes.len - head_len(list)) / entry_len(list) : 0;
}

size_t condemned_list_max(enum condemned_form form)
{
	const struct condemned list = { .form = form };

	return (CONDEMNED_MAX - head_len(&list)) / entry_len(&list);
}

bool condemned_list_check(struct condemned *list)
{
	const struct str *s = &list->bytes;
	const size_t head = head_len(list);

	if (s->len < head || memcmp(s->s, forms[list->form].magic, head) != 0 ||
	    (s->len - head) % entry_len(list)) {
		condemned_list_deinit(list);
		return false;
	}
	if (!is_sorted(list))
		sort_entries(list, head);
	return true;
}

static struct condemned_entry decode(const struct condemned *list, const char *bytes)
{
	const char *times = bytes + CONDEMNED_KEY_BYTES;
	struct condemned_entry e;

	memcpy(e.key, bytes, CONDEMNED_KEY_BYTES);
	e.dead_ns = (int64_t)MIN(get_le64(times), (uint64_t)INT64_MAX);
	e.listed_ns = forms[list->form].times == 1
			      ? e.dead_ns
			      : (int64_t)MIN(get_le64(times + 8), (uint64_t)INT64_MAX);
	return e;
}

/* lint: unused but by tests: they look at each entry */
struct condemned_entry condemned_list_at(const struct condemned *list, size_t i)
{
	assert(i < condemned_list_len(list));
	return decode(list, list->bytes.s + head_len(list) + i * entry_len(list));
}

bool condemned_list_find(const struct condemned *list, const uint8_t key[CONDEMNED_KEY_BYTES],
			 struct condemned_entry *ret)
{
	size_t n = condemned_list_len(list);
	const char *found =
		n ? bsearch(key, list->bytes.s + head_len(list), n, entry_len(list), by_key) : NULL;

	if (found)
		*ret = decode(list, found);
	return found;
}

static void begin(struct condemned *list)
{
	if (list->bytes.len == 0) {
		str_add(&list->bytes, forms[list->form].magic);
		list->unsorted_from = list->bytes.len;
	}
}

void condemned_list_add(struct condemned *list, const struct condemned_entry *e)
{
	struct str *s = &list->bytes;

	begin(list);
	/* Another kind, or another first byte: the shard before has ended. */
	if (s->len > list->unsorted_from && memcmp(s->s + list->unsorted_from, e->key, 2) != 0) {
		sort_entries(list, list->unsorted_from);
		list->unsorted_from = s->len;
	}
	str_addn(s, e->key, CONDEMNED_KEY_BYTES);
	if (forms[list->form].times == 2)
		str_add_u64(s, (uint64_t)e->dead_ns);
	str_add_u64(s, (uint64_t)e->listed_ns);
}

void condemned_list_end(struct condemned *list)
{
	begin(list);
	sort_entries(list, list->unsorted_from);
	if (!is_sorted(list)) /* some stores list in another order */
		sort_entries(list, head_len(list));
}

void condemned_list_deinit(struct condemned *list)
{
	str_deinit(&list->bytes);
}

/* steps/shard/loose.c — files, and members of archives, that become samples: splits their names,
 * and sorts them so that members with one key are adjacent. */
#include <ctype.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/shard/internal.h"

#define TWINS_LOOK 32 /* members of a sample to compare each one with */

void loose_hide_dots(char *key)
{
	char *slash = strrchr(key, '/');

	for (char *p = slash ? slash + 1 : key; *p; p++)
		*p = *p == '.' ? '_' : *p;
}

int loose_name(struct set *s, const char *where, const char *name, const char **ret_key,
	       const char **ret_field, struct err *err)
{
	size_t key_len, n = strlen(name);
	int r = shard_name_split(name, &key_len, err);
	char *copy;

	if (r == 0 && s->with.last_dot && name[n - 1] == '.')
		r = -err_set(err, ERR_INVALID, "`%.200s` has no suffix", name);
	if (r != 0) {
		err_wrap(err, "%s", where);
		return set_bad(s, r > 0 ? BAD_SUFFIX : BAD_PATH, err);
	}
	copy = arena_strndup(s->arena, name, n);
	if (s->with.last_dot)
		key_len = (size_t)(strrchr(name, '.') - name);
	copy[key_len] = '\0';
	loose_hide_dots(copy); /* there is one only with last_dot */
	for (char *p = copy + key_len + 1; *p; p++)
		*p = (char)tolower((unsigned char)*p);
	*ret_key = copy;
	*ret_field = copy + key_len + 1;
	return 0;
}

static int by_key(const void *a, const void *b)
{
	const struct loose *x = a, *y = b;
	int c = strcmp(x->key, y->key);

	if (c == 0)
		c = (x->part.run > y->part.run) - (x->part.run < y->part.run);
	return c ? c : strcmp(x->part.field, y->part.field);
}

/* Members `0.jpg` and `1.jpg` come from `scene.0.jpg` and `scene.1.jpg` when the key ends at the
 * first dot: often they were meant to be two samples. */
static bool has_twins(const struct part *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = i + 1; k < n && k < i + TWINS_LOOK; k++) {
			const char *a = strrchr(v[i].field, '.'), *b = strrchr(v[k].field, '.');

			if (a && b && strcmp(a, b) == 0)
				return true;
		}
	return false;
}

int loose_add_all(struct set *s, struct loose_list *l, bool adjacent, struct err *err)
{
	VEC(struct part) parts = { 0 };
	const char *first = NULL;
	uint64_t duplicates = 0;
	int r = 0;

	if (l->all.n)
		qsort(l->all.v, l->all.n, sizeof(*l->all.v), by_key);
	for (size_t i = 0, next; i < l->all.n && r >= 0; i = next) {
		struct draft d = { .key = l->all.v[i].key };

		parts.n = 0;
		for (next = i; next < l->all.n && strcmp(l->all.v[next].key, d.key) == 0; next++) {
			if (adjacent && l->all.v[next].part.run != l->all.v[i].part.run)
				break; /* a second sample with that key: set_assign() handles it */
			VEC_PUSH(&parts, l->all.v[next].part);
		}
		if (has_twins(parts.v, parts.n) && !duplicates++)
			first = d.key;
		d.parts = parts.v;
		d.n_parts = parts.n;
		r = set_add(s, &d, err);
	}
	if (duplicates && !s->with.last_dot) {
		_cleanup_(str_deinit) struct str key = { 0 };

		text_add_printable(&key, first, strlen(first));
		step_note("%llu sample%s, `%s` first, ha%s several members of one kind: names are "
			  "cut at the first dot. If each is a sample, set `suffix: last_dot`",
			  (unsigned long long)duplicates, duplicates == 1 ? "" : "s", key.s,
			  duplicates == 1 ? "s" : "ve");
	}
	VEC_FREE(&parts);
	VEC_FREE(&l->all);
	return r < 0 ? -1 : 0;
}

int source_files(struct set *s, const struct input *in, struct err *err)
{
	struct loose_list list = { 0 };

	for (size_t i = 0; i < in->n; i++) {
		struct loose l = { .part = { .where = in->files[i].link ? PART_LINK : PART_FILE,
					     .at = in->files[i].name } };
		int r = loose_name(s, in->root, in->files[i].name, &l.key, &l.part.field, err);

		if (r < 0) {
			VEC_FREE(&list.all);
			return -1;
		}
		if (r == 0)
			VEC_PUSH(&list.all, l);
	}
	return loose_add_all(s, &list, false, err);
}

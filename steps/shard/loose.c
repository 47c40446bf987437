/* steps/shard/loose.c — files and members that become samples: names taken apart, then sorted, so that what has one key stands together. */
#include <ctype.h>
#include <string.h>
#include "steps/shard/internal.h"

/* Where the key ends, by the setting: the key may then hold dots that readers would cut at. */
static size_t key_end(const struct set *s, const char *name, size_t first_dot)
{
	return s->with.last_dot ? (size_t)(strrchr(name, '.') - name) : first_dot;
}

int loose_name(struct set *s, const char *where, const char *name, const char **ret_key, const char **ret_field, struct err *err)
{
	const char *slash = strrchr(name, '/');
	size_t key_len, n = strlen(name);
	char *copy;

	if (shard_name_split(name, &key_len, err) < 0 || (s->with.last_dot && name[n - 1] == '.' && err_set(err, ERR_INVALID, "`%.200s` has no suffix", name))) {
		enum bad why = strstr(err->msg, "suffix") ? BAD_SUFFIX : BAD_PATH;

		err_wrap(err, "%s", where);
		return set_bad(s, why, err);
	}
	copy = arena_strndup(s->arena, name, n);
	key_len = key_end(s, name, key_len);
	copy[key_len] = '\0';
	for (char *p = copy + (slash ? slash + 1 - name : 0); *p; p++)
		*p = *p == '.' ? '_' : *p; /* only with last_dot is there one */
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

int loose_add_all(struct set *s, struct loose_list *l, bool adjacent, struct err *err)
{
	VEC(struct part) parts = { 0 };
	int r = 0;

	if (l->all.n)
		qsort(l->all.v, l->all.n, sizeof(*l->all.v), by_key);
	for (size_t i = 0, next; i < l->all.n && r >= 0; i = next) {
		struct draft d = { .key = l->all.v[i].key };

		parts.n = 0;
		for (next = i; next < l->all.n && strcmp(l->all.v[next].key, d.key) == 0; next++) {
			if (adjacent && l->all.v[next].part.run != l->all.v[i].part.run)
				break; /* another sample by that key: assign() sees to it */
			VEC_PUSH(&parts, l->all.v[next].part);
		}
		d.parts = parts.v;
		d.n_parts = parts.n;
		r = set_add(s, &d, err);
	}
	VEC_FREE(&parts);
	VEC_FREE(&l->all);
	return r < 0 ? -1 : 0;
}

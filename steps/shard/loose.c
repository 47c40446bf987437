/* steps/shard/loose.c — files and members that become samples: names taken apart, then sorted, so
 * that what has one key stands together. */
#include <ctype.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/shard/internal.h"

#define TWINS_LOOK 32 /* members of a sample that are compared with each one */

/* Where the key ends, by the setting: the key may then hold dots that readers would cut at. */
static size_t key_end(const struct set *s, const char *name, size_t first_dot)
{
	return s->with.last_dot ? (size_t)(strrchr(name, '.') - name) : first_dot;
}

int loose_name(struct set *s, const char *where, const char *name, const char **ret_key,
	       const char **ret_field, struct err *err)
{
	const char *slash = strrchr(name, '/');
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

/* Members `0.jpg` and `1.jpg` are what `scene.0.jpg` and `scene.1.jpg` become when the key ends at
 * the first dot: often samples that were meant to be two. */
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

static void note_twins(uint64_t samples, const char *key, const struct set *s)
{
	_cleanup_(str_deinit) struct str printable = { 0 };

	if (!samples || s->with.last_dot)
		return;
	text_add_printable(&printable, key, strlen(key));
	step_note("%llu sample%s, `%s` first, ha%s several members of one kind: names are cut at "
		  "the first dot. If each is a sample, set `suffix: last_dot`",
		  (unsigned long long)samples, samples == 1 ? "" : "s", printable.s,
		  samples == 1 ? "s" : "ve");
}

int loose_add_all(struct set *s, struct loose_list *l, bool adjacent, struct err *err)
{
	VEC(struct part) parts = { 0 };
	const char *first = NULL;
	uint64_t twins = 0;
	int r = 0;

	if (l->all.n)
		qsort(l->all.v, l->all.n, sizeof(*l->all.v), by_key);
	for (size_t i = 0, next; i < l->all.n && r >= 0; i = next) {
		struct draft d = { .key = l->all.v[i].key };

		parts.n = 0;
		for (next = i; next < l->all.n && strcmp(l->all.v[next].key, d.key) == 0; next++) {
			if (adjacent && l->all.v[next].part.run != l->all.v[i].part.run)
				break; /* another sample by that key: set_assign() sees to it */
			VEC_PUSH(&parts, l->all.v[next].part);
		}
		if (has_twins(parts.v, parts.n) && !twins++)
			first = d.key;
		d.parts = parts.v;
		d.n_parts = parts.n;
		r = set_add(s, &d, err);
	}
	note_twins(twins, first, s);
	VEC_FREE(&parts);
	VEC_FREE(&l->all);
	return r < 0 ? -1 : 0;
}

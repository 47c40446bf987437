/* steps/shard/set.c — the samples that were found, and the bad ones that were refused.
 *
 * A source makes a draft and calls set_add(). It sorts the members by field, checks that a reader
 * of the shard would cut the names at the same places (check_parts()), finds class, group and split
 * (read_words()), and copies the draft into the arena. Bytes aren't read, except those that a rule
 * needs. Duplicate keys are found later, in set_assign().
 *
 * A bad sample goes through set_bad(): with `on_bad: fail` its error ends the step; with `skip` it
 * is counted by reason and its error is cleared. A full disk is never a bad sample. Threads that
 * write call set_bad() too, so counts and examples are under bad_lock. The examples kept are the
 * first in the order of their texts, so that they don't depend on which thread was first.
 *
 * Everything else is for the thread that reads the source.
 */
#include <assert.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/shard/internal.h"

/* Bad samples. */

const char *set_bad_name(enum bad why)
{
	static const char *const names[] = {
		[BAD_PATH] = "unsafe_path",
		[BAD_SUFFIX] = "no_suffix",
		[BAD_DUPLICATE] = "duplicate_key",
		[BAD_TOO_LARGE] = "too_large",
		[BAD_UNREADABLE] = "unreadable",
		[BAD_DAMAGED] = "damaged_archive",
		[BAD_ROW] = "bad_row",
		[BAD_CLASS] = "no_class",
		[BAD_SPLIT] = "no_split",
	};

	return names[why];
}

int set_bad(struct set *s, enum bad why, struct err *err)
{
	size_t n = 0, at = 0;
	char **v = s->bad_examples;

	assert(why <= BAD_LAST && err->code);
	if (!s->with.skip_bad || err->code == ERR_NO_SPACE)
		return -1;
	pthread_mutex_lock(&s->bad_lock);
	s->bad[why]++;
	while (n < BAD_EXAMPLES && v[n])
		n++;
	while (at < n && strcmp(v[at], err->msg) <= 0)
		at++;
	if (at < BAD_EXAMPLES) {
		memmove(v + at + 1, v + at, (n - at) * sizeof(*v));
		v[at] = xstrdup(err->msg);
		free(v[BAD_EXAMPLES]);
		v[BAD_EXAMPLES] = NULL;
	}
	pthread_mutex_unlock(&s->bad_lock);
	*err = (struct err){ 0 };
	return 1;
}

int set_part(struct set *s, const char *field, const void *bytes, size_t n, struct part *ret,
	     struct err *err)
{
	*ret = (struct part){ .field = field, .where = PART_MEMORY, .n = n };
	if (n <= SMALL_PART) {
		ret->at = arena_memdup(s->arena, bytes, n);
		return 0;
	}
	ret->where = PART_SPOOL;
	ret->offset = s->spool.size;
	return spool_add(&s->spool, bytes, n, err);
}

/* Finds class, group and split by their rules. -1: the sample is bad, *ret_why says why. */
static int read_words(struct set *s, const struct draft *d, struct sample *to, enum bad *ret_why,
		      struct err *err)
{
	static const char no_word[] = "sample `%.200s` has no %s by the rule of `%s`";
	_cleanup_(str_deinit) struct str word = { 0 };
	int r = rule_word(s, &s->with.cls, d, &word, err);

	*ret_why = BAD_CLASS;
	if (r < 0)
		return -1;
	if (r > 0)
		to->cls = words_id(&s->classes, word.s, word.len);
	else if (s->with.cls.kind != RULE_AUTO && s->with.cls.kind != RULE_NONE)
		return err_set(err, ERR_INVALID, no_word, d->key, "class", "class");
	*ret_why = BAD_SPLIT;
	if (s->with.group_by.kind != RULE_NONE) {
		r = rule_word(s, &s->with.group_by, d, &word, err);
		if (r <= 0)
			return r < 0 ? -1
				     : err_set(err, ERR_INVALID, no_word, d->key, "group",
					       "group_by");
		to->group = words_id(&s->groups, word.s, word.len);
	}
	if (s->with.split_by.kind != RULE_NONE) {
		r = rule_word(s, &s->with.split_by, d, &word, err);
		if (r <= 0)
			return r < 0 ? -1
				     : err_set(err, ERR_INVALID, no_word, d->key, "split",
					       "split_by");
		while (to->split < s->n_splits && strcmp(s->splits[to->split].name, word.s) != 0)
			to->split++;
		if (to->split == s->n_splits)
			return err_set(err, ERR_INVALID,
				       "sample `%.200s` belongs to `%.100s`, which is no output",
				       d->key, word.s);
	}
	return 0;
}

static int by_field(const void *a, const void *b)
{
	return strcmp(((const struct part *)a)->field, ((const struct part *)b)->field);
}

static int check_parts(const struct draft *d, struct err *err)
{
	for (size_t i = 0; i < d->n_parts; i++) {
		if (shard_check_name(d->key, d->parts[i].field, err) < 0)
			return -1;
		if (i && strcmp(d->parts[i].field, d->parts[i - 1].field) == 0)
			return err_set(err, ERR_INVALID,
				       "sample `%.200s` has the member `%.100s` twice", d->key,
				       d->parts[i].field);
	}
	return 0;
}

const char *set_class_field(const struct set *s, const struct sample *x)
{
	const char *name = s->with.class_as == CLASS_AS_INDEX ? "cls" : "class.txt";

	if (x->cls == NO_WORD || s->with.class_as == CLASS_AS_NONE)
		return NULL;
	for (uint32_t i = 0; i < x->n_parts; i++)
		if (strcmp(x->parts[i].field, name) == 0)
			return NULL;
	return name;
}

int set_add(struct set *s, const struct draft *d, struct err *err)
{
	struct sample sample = { .cls = NO_WORD,
				 .group = NO_WORD,
				 .n_parts = (uint32_t)d->n_parts };
	enum bad why;

	assert(d->key && d->n_parts);
	qsort(d->parts, d->n_parts, sizeof(*d->parts), by_field);
	if (check_parts(d, err) < 0)
		return set_bad(s, BAD_PATH, err);
	if (read_words(s, d, &sample, &why, err) < 0)
		return set_bad(s, why, err);
	sample.parts = d->parts;
	if (d->n_parts + (set_class_field(s, &sample) != NULL) > SHARD_FIELDS_MAX) {
		err_set(err, ERR_INVALID,
			"sample `%.200s` has %zu members%s; a shard holds at most %d of one "
			"sample: are keys cut at the wrong dot? (`suffix: last_dot`)",
			d->key, d->n_parts,
			d->n_parts > SHARD_FIELDS_MAX
				? ""
				: " and its class is one more (`class_as: none`)",
			SHARD_FIELDS_MAX);
		return set_bad(s, BAD_TOO_LARGE, err);
	}
	if (s->samples.n == UINT32_MAX - 1)
		return err_set(err, ERR_TOO_LARGE, "more than %u samples", UINT32_MAX - 1);
	sample.key = arena_strdup(s->arena, d->key);
	sample.parts = arena_memdup(s->arena, d->parts, d->n_parts * sizeof(*d->parts));
	sample.seq = (uint32_t)s->samples.n;
	VEC_PUSH(&s->samples, sample);
	return 0;
}

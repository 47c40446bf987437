/* steps/shard/assign.c — which output, which shard, in which order: from hashes of keys and the
 * seed, so that one sample's place says nothing about another's. The formula is in the step's
 * `about` and must not change without its version.
 *
 * set_assign() sorts the samples by key and drops duplicate keys (sort_and_check(); the first that
 * was found counts), numbers the classes, hashes every key (hash_all()), gives each sample its
 * split and shard, and arranges the samples in the order in which they are written (lay_out()).
 * After that set->samples is sorted by split, then shard, then key, or u_order with `shuffle`.
 *
 * One digest gives three numbers: u_split, u_shard, u_order. With group_by, u_split comes from the
 * group's word, so that a group stays together. With `stratify`, a class's samples are sorted by
 * u_split and cut at the exact fractions. With split_by the split is already known: set_add() found
 * it.
 *
 * Classes have the numbers that `classes` gives; without it, their own numbers if all are decimal
 * numbers, else their rank by name.
 *
 * set_read_splits() runs before the source is read, because set_add() compares words with the
 * outputs' names. One thread; nothing here reads a sample's bytes.
 */
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/shard/internal.h"

/* Hashes. */

void sample_hash(int64_t seed, const char *text, size_t n, uint64_t u[3])
{
	static const char domain[] = "cairn shard 1"; /* with its NUL */
	char small[sizeof(domain) + 8 + SHARD_NAME_MAX];
	struct digest d;

	n = MIN(n, (size_t)SHARD_NAME_MAX); /* keys and words are never longer */
	memcpy(small, domain, sizeof(domain));
	for (size_t i = 0; i < 8; i++)
		small[sizeof(domain) + i] = (char)((uint64_t)seed >> (8 * i));
	memcpy(small + sizeof(domain) + 8, text, n);
	digest_bytes(small, sizeof(domain) + 8 + n, &d);
	for (size_t i = 0; i < 3; i++) {
		u[i] = 0;
		for (size_t b = 0; b < 8; b++)
			u[i] = u[i] << 8 | d.b[8 * i + b];
	}
}

static void hash_all(struct set *s)
{
	for (size_t i = 0; i < s->samples.n; i++) {
		struct sample *x = &s->samples.v[i];
		uint64_t u[3], g[3];
		size_t n;

		sample_hash(s->with.seed, x->key, strlen(x->key), u);
		x->u_split = u[0];
		x->u_shard = u[1];
		x->u_order = u[2];
		if (x->group == NO_WORD)
			continue;
		const char *word = words_at(&s->groups, x->group, &n);

		sample_hash(s->with.seed, word, n, g);
		x->u_split = g[0];
	}
}

/* Duplicate keys. */

static int by_key(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	int c = strcmp(x->key, y->key);

	return c ? c : (x->seq > y->seq) - (x->seq < y->seq);
}

static int sort_and_check(struct set *s, struct err *err)
{
	size_t n = 0;

	if (s->samples.n)
		qsort(s->samples.v, s->samples.n, sizeof(*s->samples.v), by_key);
	for (size_t i = 0; i < s->samples.n; i++) {
		if (n && strcmp(s->samples.v[n - 1].key, s->samples.v[i].key) == 0) {
			err_set(err, ERR_INVALID, "two samples have the key `%.200s`",
				s->samples.v[i].key);
			if (set_bad(s, BAD_DUPLICATE, err) < 0)
				return -1;
			continue;
		}
		s->samples.v[n++] = s->samples.v[i];
	}
	s->samples.n = n;
	return 0;
}

/* Classes. */

/* A decimal number below 10^9, in its usual form. */
static bool is_number(const char *s, size_t n, int64_t *ret)
{
	*ret = 0;
	if (n == 0 || n > 9 || (n > 1 && s[0] == '0'))
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		*ret = *ret * 10 + (s[i] - '0');
	}
	return true;
}

struct class_name {
	const char *s;
	size_t n;
	uint32_t id;
};

static int by_name(const void *a, const void *b)
{
	const struct class_name *x = a, *y = b;
	int c = memcmp(x->s, y->s, MIN(x->n, y->n));

	return c ? c : (x->n > y->n) - (x->n < y->n);
}

static int number_as_given(struct set *s, size_t n, struct err *err)
{
	size_t kept = 0, len;
	const json_t *name;

	for (size_t i = 0; i < n; i++) {
		const char *word = words_at(&s->classes, (uint32_t)i, &len);
		size_t at = 0;

		while ((name = json_array_get(s->with.classes, at)) &&
		       (json_string_length(name) != len ||
			memcmp(json_string_value(name), word, len) != 0))
			at++;
		s->class_numbers[i] = name ? (int64_t)at : -1;
	}
	for (size_t i = 0; i < s->samples.n; i++) {
		const struct sample *x = &s->samples.v[i];

		if (x->cls == NO_WORD || s->class_numbers[x->cls] >= 0) {
			s->samples.v[kept++] = *x;
			continue;
		}
		err_set(err, ERR_INVALID,
			"sample `%.200s` has the class `%.100s`, which `classes` doesn't list",
			x->key, words_at(&s->classes, x->cls, &len));
		if (set_bad(s, BAD_CLASS, err) < 0)
			return -1;
	}
	s->samples.n = kept;
	return 0;
}

static int number_classes(struct set *s, struct err *err)
{
	size_t n = words_count(&s->classes), numbers = 0, len;
	struct class_name *v;

	s->class_numbers = xcalloc(n, sizeof(*s->class_numbers));
	if (s->with.classes)
		return number_as_given(s, n, err);
	for (size_t i = 0; i < n; i++) {
		const char *word = words_at(&s->classes, (uint32_t)i, &len);

		numbers += is_number(word, len, &s->class_numbers[i]);
	}
	if (numbers == n)
		return 0;
	v = xcalloc(n, sizeof(*v)); /* by rank */
	for (size_t i = 0; i < n; i++) {
		v[i].s = words_at(&s->classes, (uint32_t)i, &v[i].n);
		v[i].id = (uint32_t)i;
	}
	qsort(v, n, sizeof(*v), by_name);
	for (size_t i = 0; i < n; i++)
		s->class_numbers[v[i].id] = (int64_t)i;
	free(v);
	return 0;
}

/* Splits. */

static int compare_splits(const void *a, const void *b)
{
	return strcmp(((const struct out_split *)a)->name, ((const struct out_split *)b)->name);
}

static int read_fractions(struct set *s, struct err *err)
{
	const json_t *split = s->with.split;
	double sum = 0;
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)split, name, v)
	{
		if (!step_output(s->args, name))
			return err_set(err, ERR_INVALID, "with.split: there is no output `%.100s`",
				       name);
	}
	for (size_t i = 0; i < s->n_splits; i++) {
		const json_t *fraction = json_object_get(split, s->splits[i].name);

		if (!fraction)
			return err_set(err, ERR_INVALID,
				       "with.split: the output `%s` has no fraction",
				       s->splits[i].name);
		s->splits[i].from = sum;
		sum += json_number_value(fraction);
		s->splits[i].to = sum;
	}
	if (sum < 1 - 1e-6 || sum > 1 + 1e-6)
		return err_set(err, ERR_INVALID, "with.split: the fractions sum to %.6g, not to 1",
			       sum);
	s->splits[s->n_splits - 1].to = 1;
	return 0;
}

int set_read_splits(struct set *s, struct err *err)
{
	const struct step_args *a = s->args;
	bool by = s->with.split_by.kind != RULE_NONE;

	s->n_splits = a->n_outputs;
	s->splits = xcalloc(s->n_splits, sizeof(*s->splits));
	for (size_t i = 0; i < s->n_splits; i++)
		s->splits[i] = (struct out_split){ .name = a->outputs[i].name,
						   .path = a->outputs[i].path,
						   .to = 1 };
	qsort(s->splits, s->n_splits, sizeof(*s->splits), compare_splits);
	if (by && s->with.split)
		return err_set(err, ERR_INVALID, "with: give `split` or `split_by`, not both");
	if (by && (s->with.stratify || s->with.group_by.kind != RULE_NONE))
		return err_set(err, ERR_INVALID,
			       "with: `split_by` decides where each sample goes; remove `stratify` "
			       "and `group_by`");
	if (s->with.stratify && s->with.group_by.kind != RULE_NONE)
		return err_set(err, ERR_INVALID,
			       "with: give `stratify` or `group_by`, not both: stratifying would "
			       "break groups up");
	if (s->with.split)
		return read_fractions(s, err);
	if (s->n_splits > 1 && !by)
		return err_set(
			err, ERR_INVALID,
			"there are %zu outputs: say in `split` or `split_by` what goes where",
			s->n_splits);
	return 0;
}

static uint32_t split_at(const struct set *s, double u)
{
	uint32_t i = 0;

	while (i + 1 < s->n_splits && u >= s->splits[i].to)
		i++;
	return i;
}

static int by_class(const void *a, const void *b)
{
	const struct sample *x = *(const struct sample *const *)a,
			    *y = *(const struct sample *const *)b;

	if (x->cls != y->cls)
		return x->cls < y->cls ? -1 : 1;
	return x->u_split != y->u_split ? (x->u_split < y->u_split ? -1 : 1)
					: strcmp(x->key, y->key);
}

/* The i-th of a class's n samples by u gets the position (i + 1/2) / n. */
static void stratify(struct set *s)
{
	struct sample **v = xcalloc(s->samples.n, sizeof(*v));

	for (size_t i = 0; i < s->samples.n; i++)
		v[i] = &s->samples.v[i];
	qsort(v, s->samples.n, sizeof(*v), by_class);
	for (size_t i = 0, end; i < s->samples.n; i = end) {
		for (end = i; end < s->samples.n && v[end]->cls == v[i]->cls; end++)
			;
		for (size_t k = i; k < end; k++)
			v[k]->split = split_at(s, ((double)(k - i) + 0.5) / (double)(end - i));
	}
	free(v);
}

/* Shards. */

/* Gives between two thirds and four thirds of the requested size: so round numbers of samples are
 * far from where the number of shards doubles. */
static uint32_t shards_for(const struct settings *w, uint64_t samples)
{
	uint64_t n = 1;

	if (w->shards)
		return (uint32_t)w->shards;
	while (n <= SHARDS_MAX && 4 * n * w->samples_per_shard < 3 * samples)
		n *= 2;
	return (uint32_t)n;
}

static int by_order(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return x->u_order != y->u_order ? (x->u_order < y->u_order ? -1 : 1)
					: strcmp(x->key, y->key);
}

/* A counting sort by shard. It is stable, so the samples of a shard stay sorted by key, unless
 * `shuffle` orders them by hash. */
static void lay_out(struct set *s)
{
	size_t n_shards = 0, *ends, *first = xcalloc(s->n_splits, sizeof(*first));
	struct sample *out = xcalloc(s->samples.n, sizeof(*out));

	for (size_t i = 0; i < s->n_splits; i++) {
		first[i] = n_shards;
		n_shards += s->splits[i].n_shards;
	}
	ends = xcalloc(n_shards + 1, sizeof(*ends));
	for (size_t i = 0; i < s->samples.n; i++)
		ends[first[s->samples.v[i].split] + s->samples.v[i].shard + 1]++;
	for (size_t i = 0; i < n_shards; i++)
		ends[i + 1] += ends[i];
	for (size_t i = 0; i < s->samples.n; i++)
		out[ends[first[s->samples.v[i].split] + s->samples.v[i].shard]++] = s->samples.v[i];
	for (size_t i = 0, from = 0; i < n_shards && s->with.shuffle; from = ends[i++])
		qsort(out + from, ends[i] - from, sizeof(*out), by_order);
	free(s->samples.v);
	s->samples.v = out;
	s->samples.cap = s->samples.n;
	free(ends);
	free(first);
}

int set_assign(struct set *s, struct err *err)
{
	if (sort_and_check(s, err) < 0 || number_classes(s, err) < 0)
		return -1;
	if (!s->samples.n && !s->with.allow_empty)
		return err_set(err, ERR_INVALID, "%s holds no samples%s",
			       step_input(s->args, "data")->path,
			       s->with.skip_bad ? " but bad ones"
						: "; say `allow_empty: true` if that is right");
	hash_all(s);
	if (s->with.stratify)
		stratify(s);
	for (size_t i = 0; i < s->samples.n; i++) {
		struct sample *x = &s->samples.v[i];

		if (s->with.split_by.kind == RULE_NONE && !s->with.stratify)
			x->split = split_at(s, (double)(x->u_split >> 11) * 0x1p-53);
		s->splits[x->split].n_samples++;
	}
	for (size_t i = 0; i < s->n_splits; i++) {
		s->splits[i].n_shards = shards_for(&s->with, s->splits[i].n_samples);
		if (s->splits[i].n_shards > SHARDS_MAX)
			return err_set(err, ERR_INVALID,
				       "`%s` would be more than %u shards: samples_per_shard is "
				       "too small",
				       s->splits[i].name, SHARDS_MAX);
		if (!s->splits[i].n_samples)
			step_note("output `%s` gets no samples: one empty shard",
				  s->splits[i].name);
	}
	for (size_t i = 0; i < s->samples.n; i++) {
		struct sample *x = &s->samples.v[i];

		x->shard =
			(uint32_t)(((unsigned __int128)x->u_shard * s->splits[x->split].n_shards) >>
				   64);
	}
	lay_out(s);
	return 0;
}

/* steps/shard/facts.c — index.json, stats.json and metrics, made after all shards are closed.
 *
 * index.json can be as long as all keys together, so it is never one JSON value: write.c has made
 * the text of each shard's entry without its name (a text for each part, a NUL behind it), and
 * put_result() puts the name in front. stats.json is small and goes through jansson.
 *
 * Samples with the same content ("twins") are found by sorting the fingerprints that write.c took.
 * Fingerprints differ from one execution to the next, so what is shown is ordered by keys.
 *
 * Both files are written under a temporary name and renamed. One thread; samples marked `skipped`
 * are in no count. Lines about bad samples come from set->bad_examples (set.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "steps/shard/internal.h"

#define TWIN_GROUPS_MAX 20 /* examples of samples with the same content */
#define TWINS_MAX       8

/* Index.json. */

static void add_classes(const struct set *s, struct str *out)
{
	size_t n = s->classes.ids ? map_len(s->classes.ids) : 0, len;
	json_t *classes = json_object();
	char *text;

	for (size_t i = 0; i < n; i++) {
		const char *word = words_at(&s->classes, (uint32_t)i, &len);

		if (s->class_numbers[i] >= 0)
			json_object_setn_new(classes, word, len, json_integer(s->class_numbers[i]));
	}
	text = json_dumps(classes, JSON_SORT_KEYS);
	str_add(out, text);
	free(text);
	json_decref(classes);
}

static void put_result(FILE *f, const struct shard_result *r, bool *first)
{
	const char *text = r->index.s;

	for (size_t k = 0; k < r->parts.n; k++) {
		_cleanup_(str_deinit) struct str name = { 0 };

		json_add_string(&name, r->parts.v[k].name, strlen(r->parts.v[k].name));
		fprintf(f, "%s\n    {\"name\": %s%s", *first ? "" : ",", name.s, text);
		*first = false;
		text += strlen(text) + 1;
	}
}

static void put_index(FILE *f, const struct set *s, size_t split, const struct shard_result *v,
		      size_t n)
{
	_cleanup_(str_deinit) struct str head = { 0 };
	uint64_t samples = 0, bytes = 0;
	bool first = true;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].parts.n; k++) {
			samples += v[i].parts.v[k].written.samples;
			bytes += v[i].parts.v[k].written.bytes;
		}
	str_add(&head, "{\n  \"format\": \"cairn-shards\",\n  \"version\": 1,\n  \"split\": ");
	json_add_string(&head, s->splits[split].name, strlen(s->splits[split].name));
	str_addf(&head,
		 ",\n  \"seed\": %lld,\n  \"samples\": %llu,\n  \"bytes\": %llu,\n  \"classes\": ",
		 (long long)s->with.seed, (unsigned long long)samples, (unsigned long long)bytes);
	add_classes(s, &head);
	str_add(&head, ",\n  \"shards\": [");
	fputs(head.s, f);
	for (size_t i = 0; i < n; i++)
		put_result(f, &v[i], &first);
	fputs("\n  ]\n}\n", f);
}

static int write_index(const struct set *s, size_t split, const struct shard_result *v, size_t n,
		       struct err *err)
{
	_cleanup_(freep) char *path = fs_join(s->splits[split].path, "index.json"), *temp = NULL;
	FILE *f;
	int fd, failed;

	if (fs_temp_at(AT_FDCWD, path, 0644, &fd, &temp, err) < 0)
		return -1;
	f = fdopen(fd, "w");
	if (!f)
		mem_die(0);
	put_index(f, s, split, v, n);
	failed = ferror(f);
	if (fclose(f) != 0 || failed || rename(temp, path) < 0) {
		err_errno(err, "writing %s", path);
		unlink(temp);
		return -1;
	}
	return 0;
}

/* Samples with the same content. */

struct twin_group {
	size_t from, to;
};

/* Fingerprints differ from one execution to the next, so what is shown is in the order of keys. */
struct twins {
	const struct sample **v; /* all that were written, by content, then split, then key */
	size_t n;
	VEC(struct twin_group) groups; /* of more than one, by the key of their first */
};

static int by_content(const void *a, const void *b)
{
	const struct sample *x = *(const struct sample *const *)a,
			    *y = *(const struct sample *const *)b;
	int c = memcmp(x->content, y->content, sizeof(x->content));

	if (c == 0)
		c = (x->split > y->split) - (x->split < y->split);
	return c ? c : strcmp(x->key, y->key);
}

static int by_first(const void *a, const void *b, void *twins)
{
	const struct twins *t = twins;

	return strcmp(t->v[((const struct twin_group *)a)->from]->key,
		      t->v[((const struct twin_group *)b)->from]->key);
}

static void find_twins(const struct set *s, struct twins *t)
{
	*t = (struct twins){ .v = xcalloc(s->samples.n, sizeof(*t->v)) };
	for (size_t i = 0; i < s->samples.n; i++)
		if (!s->samples.v[i].skipped)
			t->v[t->n++] = &s->samples.v[i];
	qsort(t->v, t->n, sizeof(*t->v), by_content);
	for (size_t i = 0, end; i < t->n; i = end) {
		for (end = i + 1; end < t->n && memcmp(t->v[end]->content, t->v[i]->content,
						       FINGERPRINT_BYTES) == 0;)
			end++;
		if (end - i > 1)
			VEC_PUSH(&t->groups, ((struct twin_group){ i, end }));
	}
	if (t->groups.n)
		qsort_r(t->groups.v, t->groups.n, sizeof(*t->groups.v), by_first, t);
}

static void add_example(json_t *examples, const struct set *s, const struct twins *t, size_t from,
			size_t to)
{
	json_t *group;

	if (json_array_size(examples) >= TWIN_GROUPS_MAX)
		return;
	group = json_array();
	for (size_t i = from; i < to && i < from + TWINS_MAX; i++)
		json_array_append_new(group,
				      json_pack("{ssss}", "split", s->splits[t->v[i]->split].name,
						"key", t->v[i]->key));
	json_array_append_new(examples, group);
}

/* Counts of one split: samples that are there before by another key, and samples that another split
 * has too. */
static json_t *twins_of(const struct set *s, const struct twins *t, size_t split)
{
	uint64_t within = 0, across = 0;
	json_t *examples = json_array();

	for (size_t i = 0; i < t->groups.n; i++) {
		const struct twin_group *g = &t->groups.v[i];
		size_t here = 0;

		for (size_t k = g->from; k < g->to; k++)
			here += t->v[k]->split == split;
		within += here ? here - 1 : 0;
		across += here < g->to - g->from ? here : 0;
		if (here)
			add_example(examples, s, t, g->from, g->to);
	}
	return json_pack("{sIsIso}", "within", (json_int_t)within, "across_splits",
			 (json_int_t)across, "examples", examples);
}

static uint64_t count_twins(const struct twins *t)
{
	uint64_t n = 0;

	for (size_t i = 0; i < t->groups.n; i++)
		n += t->groups.v[i].to - t->groups.v[i].from - 1;
	return n;
}

/* Stats.json. */

static json_t *class_counts(const struct set *s, size_t split)
{
	size_t n = s->classes.ids ? map_len(s->classes.ids) : 0, len;
	uint64_t *counts = xcalloc(n + 1, sizeof(*counts));
	json_t *out = json_object();

	for (size_t i = 0; i < s->samples.n; i++) {
		const struct sample *x = &s->samples.v[i];

		if (x->split == split && !x->skipped)
			counts[x->cls == NO_WORD ? n : x->cls]++;
	}
	for (size_t i = 0; i < n; i++) {
		const char *word = words_at(&s->classes, (uint32_t)i, &len);

		if (counts[i])
			json_object_setn_new(out, word, len, json_integer((json_int_t)counts[i]));
	}
	free(counts);
	return out;
}

static json_t *field_counts(const struct shard_result *v, size_t n)
{
	VEC(struct field_stats) all = { 0 };
	json_t *out = json_object();

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].fields.n; k++) {
			const struct field_stats *f = &v[i].fields.v[k];
			size_t at = 0;

			while (at < all.n && strcmp(all.v[at].name, f->name) != 0)
				at++;
			if (at == all.n)
				VEC_PUSH(&all, ((struct field_stats){ .name = f->name,
								      .min = UINT64_MAX }));
			all.v[at].n += f->n;
			all.v[at].bytes += f->bytes;
			all.v[at].min = MIN(all.v[at].min, f->min);
			all.v[at].max = MAX(all.v[at].max, f->max);
		}
	for (size_t i = 0; i < all.n; i++)
		json_object_set_new(out, all.v[i].name,
				    json_pack("{sIsIsIsI}", "count", (json_int_t)all.v[i].n,
					      "bytes", (json_int_t)all.v[i].bytes, "min_bytes",
					      (json_int_t)all.v[i].min, "max_bytes",
					      (json_int_t)all.v[i].max));
	VEC_FREE(&all);
	return out;
}

struct totals {
	uint64_t samples, bytes, shards;
};

static struct totals add_up(const struct shard_result *v, size_t n)
{
	struct totals t = { 0 };

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].parts.n; k++) {
			t.samples += v[i].parts.v[k].written.samples;
			t.bytes += v[i].parts.v[k].written.bytes;
			t.shards++;
		}
	return t;
}

static int write_stats(const struct set *s, size_t split, const struct shard_result *v, size_t n,
		       const struct twins *t, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(s->splits[split].path, "stats.json");
	struct totals sum = add_up(v, n);
	uint64_t least = UINT64_MAX, most = 0;
	json_t *stats;
	int r;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].parts.n; k++) {
			least = MIN(least, v[i].parts.v[k].written.samples);
			most = MAX(most, v[i].parts.v[k].written.samples);
		}
	stats = json_pack("{sssIsIs{sIsIsI}sososo}", "split", s->splits[split].name, "samples",
			  (json_int_t)sum.samples, "bytes", (json_int_t)sum.bytes, "shards",
			  "count", (json_int_t)sum.shards, "least_samples", (json_int_t)least,
			  "most_samples", (json_int_t)most, "classes", class_counts(s, split),
			  "fields", field_counts(v, n), "duplicates", twins_of(s, t, split));
	r = json_write_file(path, stats, true, err);
	json_decref(stats);
	return r;
}

/* Metrics. */

static void report_split(struct step_args *a, const char *split, const struct totals *t)
{
	static const char *const names[] = { "samples", "bytes", "shards" };
	const uint64_t values[] = { t->samples, t->bytes, t->shards };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		_cleanup_(str_deinit) struct str name = { 0 };

		str_addf(&name, "splits.%.100s.%s", split, names[i]);
		step_metric(a, name.s, (double)values[i]);
	}
}

static void report_bad(struct set *s)
{
	uint64_t total = 0;

	for (unsigned i = 0; i <= BAD_LAST; i++) {
		char name[64];

		total += s->bad[i];
		snprintf(name, sizeof(name), "skipped.%s", set_bad_name((enum bad)i));
		step_metric(s->args, name, (double)s->bad[i]);
	}
	step_metric(s->args, "skipped.total", (double)total);
	for (size_t i = 0; i < BAD_EXAMPLES && s->bad_examples[i]; i++)
		step_note("skipped: %s", s->bad_examples[i]);
	if (total)
		step_note("%llu bad samples skipped", (unsigned long long)total);
}

int set_write_facts(struct set *s, const struct shard_result *v, size_t n, struct err *err)
{
	struct totals all = add_up(v, n);
	struct twins twins;
	size_t at = 0;
	int r = 0;

	find_twins(s, &twins);
	for (size_t i = 0; i < s->n_splits && r == 0; at += s->splits[i++].n_shards) {
		struct totals t = add_up(v + at, s->splits[i].n_shards);

		if (write_index(s, i, v + at, s->splits[i].n_shards, err) < 0 ||
		    write_stats(s, i, v + at, s->splits[i].n_shards, &twins, err) < 0)
			r = -1;
		report_split(s->args, s->splits[i].name, &t);
	}
	step_metric(s->args, "samples", (double)all.samples);
	step_metric(s->args, "bytes", (double)all.bytes);
	step_metric(s->args, "shards", (double)all.shards);
	step_metric(s->args, "classes", s->classes.ids ? (double)map_len(s->classes.ids) : 0);
	step_metric(s->args, "duplicates", (double)count_twins(&twins));
	report_bad(s);
	free(twins.v);
	VEC_FREE(&twins.groups);
	return r;
}

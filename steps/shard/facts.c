/* steps/shard/facts.c — index.json, stats.json and metrics, made after all shards are closed.
 *
 * index.json can be as long as all keys together, so it is never one JSON value: write.c has made
 * the text of each shard's entry without its name (a text for each part, each ended by a NUL), and
 * write_index() puts the name in front. stats.json is small and is made with jansson.
 *
 * Samples with the same content are found by sorting the fingerprints that write.c
 * took. Fingerprints differ from one execution to the next, so the output is ordered by keys.
 *
 * Both files are written under a temporary name and renamed. One thread; samples marked `skipped`
 * aren't counted. Lines about bad samples come from set->bad_examples (set.c).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "steps/shard/internal.h"

#define TWIN_GROUPS_MAX 20 /* examples of samples with the same content */
#define TWINS_MAX       8

struct totals {
	uint64_t samples, bytes, shards;
	uint64_t least, most; /* samples of one shard */
};

static struct totals add_up(const struct shard_result *v, size_t n)
{
	struct totals t = { .least = UINT64_MAX };

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].parts.n; k++) {
			const struct shard_written *w = &v[i].parts.v[k].written;

			t.samples += w->samples;
			t.bytes += w->bytes;
			t.shards++;
			t.least = MIN(t.least, w->samples);
			t.most = MAX(t.most, w->samples);
		}
	return t;
}

/* Index.json. */

static void add_classes(const struct set *s, struct str *out)
{
	size_t n = words_count(&s->classes), len;
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

static int write_index(const struct set *s, size_t split, const struct shard_result *v, size_t n,
		       struct err *err)
{
	_cleanup_(freep) char *path = fs_join(s->splits[split].path, "index.json"), *temp = NULL;
	_cleanup_(str_deinit) struct str text = { 0 };
	struct totals sum = add_up(v, n);
	bool first = true;
	FILE *f;
	int fd, failed;

	if (fs_temp_at(AT_FDCWD, path, 0644, &fd, &temp, err) < 0)
		return -1;
	f = fdopen(fd, "w");
	if (!f)
		mem_die(0);
	str_add(&text, "{\n  \"format\": \"cairn-shards\",\n  \"version\": 1,\n  \"split\": ");
	json_add_string(&text, s->splits[split].name, strlen(s->splits[split].name));
	str_addf(&text,
		 ",\n  \"seed\": %lld,\n  \"samples\": %llu,\n  \"bytes\": %llu,\n  \"classes\": ",
		 (long long)s->with.seed, (unsigned long long)sum.samples,
		 (unsigned long long)sum.bytes);
	add_classes(s, &text);
	str_add(&text, ",\n  \"shards\": [");
	fputs(text.s, f);
	for (size_t i = 0; i < n; i++) {
		const char *entry = v[i].index.s;

		for (size_t k = 0; k < v[i].parts.n; k++, first = false) {
			const char *name = v[i].parts.v[k].name;

			str_reset(&text);
			json_add_string(&text, name, strlen(name));
			fprintf(f, "%s\n    {\"name\": %s%s", first ? "" : ",", text.s, entry);
			entry += strlen(entry) + 1;
		}
	}
	fputs("\n  ]\n}\n", f);
	failed = ferror(f);
	if (fclose(f) != 0 || failed || rename(temp, path) < 0) {
		err_errno(err, "writing %s", path);
		unlink(temp);
		return -1;
	}
	return 0;
}

/* Samples with the same content. */

struct duplicate_group {
	size_t from, to;
};

/* Fingerprints differ from one execution to the next, so the output is in the order of keys. */
struct duplicates {
	const struct sample **v; /* all that were written, by content, then split, then key */
	size_t n;
	VEC(struct duplicate_group) groups; /* groups of more than one, by the key of their first */
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

static int by_first(const void *a, const void *b, void *duplicates)
{
	const struct duplicates *t = duplicates;

	return strcmp(t->v[((const struct duplicate_group *)a)->from]->key,
		      t->v[((const struct duplicate_group *)b)->from]->key);
}

static void find_duplicates(const struct set *s, struct duplicates *t)
{
	*t = (struct duplicates){ .v = xcalloc(s->samples.n, sizeof(*t->v)) };
	for (size_t i = 0; i < s->samples.n; i++)
		if (!s->samples.v[i].skipped)
			t->v[t->n++] = &s->samples.v[i];
	qsort(t->v, t->n, sizeof(*t->v), by_content);
	for (size_t i = 0, end; i < t->n; i = end) {
		for (end = i + 1; end < t->n && memcmp(t->v[end]->content, t->v[i]->content,
						       FINGERPRINT_BYTES) == 0;)
			end++;
		if (end - i > 1)
			VEC_PUSH(&t->groups, ((struct duplicate_group){ i, end }));
	}
	if (t->groups.n)
		qsort_r(t->groups.v, t->groups.n, sizeof(*t->groups.v), by_first, t);
}

/* For one split: how many samples have the content of an earlier one, and how many that of a sample
 * in another split. */
static json_t *duplicates_of(const struct set *s, const struct duplicates *t, size_t split)
{
	uint64_t within = 0, across = 0;
	json_t *examples = json_array(), *group;

	for (size_t i = 0; i < t->groups.n; i++) {
		const struct duplicate_group *g = &t->groups.v[i];
		size_t here = 0;

		for (size_t k = g->from; k < g->to; k++)
			here += t->v[k]->split == split;
		within += here ? here - 1 : 0;
		across += here < g->to - g->from ? here : 0;
		if (!here || json_array_size(examples) >= TWIN_GROUPS_MAX)
			continue;
		group = json_array();
		for (size_t k = g->from; k < g->to && k < g->from + TWINS_MAX; k++)
			json_array_append_new(group, json_pack("{ssss}", "split",
							       s->splits[t->v[k]->split].name,
							       "key", t->v[k]->key));
		json_array_append_new(examples, group);
	}
	return json_pack("{sIsIso}", "within", (json_int_t)within, "across_splits",
			 (json_int_t)across, "examples", examples);
}

/* Stats.json. */

static json_t *class_counts(const struct set *s, size_t split)
{
	size_t n = words_count(&s->classes), len;
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
	struct field_list sum = { 0 };
	json_t *out = json_object();

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].fields.all.n; k++)
			field_list_add(&sum, &v[i].fields.all.v[k]);
	for (size_t i = 0; i < sum.all.n; i++) {
		const struct field_stats *f = &sum.all.v[i];

		json_object_set_new(out, f->name,
				    json_pack("{sIsIsIsI}", "count", (json_int_t)f->n, "bytes",
					      (json_int_t)f->bytes, "min_bytes", (json_int_t)f->min,
					      "max_bytes", (json_int_t)f->max));
	}
	VEC_FREE(&sum.all);
	return out;
}

static int write_stats(const struct set *s, size_t split, const struct shard_result *v, size_t n,
		       const struct duplicates *t, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(s->splits[split].path, "stats.json");
	struct totals sum = add_up(v, n);
	json_t *stats;
	int r;

	stats = json_pack("{sssIsIs{sIsIsI}sososo}", "split", s->splits[split].name, "samples",
			  (json_int_t)sum.samples, "bytes", (json_int_t)sum.bytes, "shards",
			  "count", (json_int_t)sum.shards, "least_samples", (json_int_t)sum.least,
			  "most_samples", (json_int_t)sum.most, "classes", class_counts(s, split),
			  "fields", field_counts(v, n), "duplicates", duplicates_of(s, t, split));
	r = json_write_file(path, stats, true, err);
	json_decref(stats);
	return r;
}

/* Metrics. */

/* `prefix`: "splits.train." or "". */
static void report_totals(struct step_args *a, const char *prefix, const struct totals *t)
{
	static const char *const names[] = { "samples", "bytes", "shards" };
	const uint64_t values[] = { t->samples, t->bytes, t->shards };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		_cleanup_(str_deinit) struct str name = { 0 };

		str_addf(&name, "%s%s", prefix, names[i]);
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
	struct duplicates d;
	uint64_t duplicates = 0;
	size_t at = 0;
	int r = 0;

	find_duplicates(s, &d);
	for (size_t i = 0; i < s->n_splits && r == 0; at += s->splits[i++].n_shards) {
		struct totals t = add_up(v + at, s->splits[i].n_shards);
		_cleanup_(str_deinit) struct str prefix = { 0 };

		if (write_index(s, i, v + at, s->splits[i].n_shards, err) < 0 ||
		    write_stats(s, i, v + at, s->splits[i].n_shards, &d, err) < 0)
			r = -1;
		str_addf(&prefix, "splits.%.100s.", s->splits[i].name);
		report_totals(s->args, prefix.s, &t);
	}
	report_totals(s->args, "", &all);
	for (size_t i = 0; i < d.groups.n; i++)
		duplicates += d.groups.v[i].to - d.groups.v[i].from - 1;
	step_metric(s->args, "classes", (double)words_count(&s->classes));
	step_metric(s->args, "duplicates", (double)duplicates);
	report_bad(s);
	free(d.v);
	VEC_FREE(&d.groups);
	return r;
}

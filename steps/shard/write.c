/* steps/shard/write.c — writes shards, each by one thread from its first sample to its last. So
 * nothing waits for its turn, and the bytes can't depend on the number of threads.
 *
 * For each sample write_sample() loads small parts and leaves large ones where they are
 * (load_sample()), takes the fingerprint, which reads everything once, checks whether a shard can
 * hold it (shard_check_sample()), and only then writes. So a sample that can't be read or held is
 * found before any of it is in the tar. If it changes in between, shard_writer_add() fails and the
 * step ends.
 *
 * A shard over max_samples or max_bytes is cut into parts. The first part is renamed when a second
 * one is closed, since only then it is known to be a part (close_part()).
 *
 * A thread changes its own shard_result and the samples of its shard (`content`, `bytes`,
 * `skipped`). Threads share only the count for the progress line (atomic) and set_bad(), which
 * locks. With more threads than shards each writer hashes on a separate thread (hash_apart).
 *
 * facts.c assembles index.json from the text in shard_result.index; set_assign() decides the order
 * of samples.
 */
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/ustar.h"
#include "steps/shard/internal.h"

#define CLASS_TEXT_MAX (WORD_MAX + 1)
#define READ_STEP      (256 * KIB)
#define TAR_END        (2 * USTAR_BLOCK)

struct writing {
	struct set *set;
	struct shard_result *results;
	bool hash_apart; /* there are more threads than shards */
	atomic_uint_fast64_t done;
};

/* One shard that is being written. */
struct shard_out {
	struct writing *w;
	struct shard_result *r;
	struct shard_writer *writer; /* of the current part */
	uint64_t in_part;
	struct str keys, offsets; /* of that part, JSON */
	struct str bytes;         /* of the current sample */
	struct part_bytes *large; /* those of its parts that aren't in memory */
	size_t n_large;
	struct fingerprint *content;
};

/* Names. */

static char *shard_name(const struct shard_out *o, size_t part, bool cut)
{
	struct str s = { 0 };

	str_addf(&s, "shard-%06u", o->r->number);
	if (cut) { /* -a ... -y, then -za ... -zy, -zza: in order when sorted by name */
		str_addc(&s, '-');
		for (; part >= 25; part -= 25)
			str_addc(&s, 'z');
		str_addc(&s, (char)('a' + part));
	}
	str_add(&s, o->w->set->with.zstd ? ".tar.zst" : ".tar");
	return str_take(&s);
}

static int open_part(struct shard_out *o, struct err *err)
{
	struct shard_writer_options options = { .zstd_level = o->w->set->with.zstd,
						.hash_apart = o->w->hash_apart };
	struct shard_part *p = VEC_ADD(&o->r->parts);
	_cleanup_(freep) char *path = NULL;

	p->name = shard_name(o, o->r->parts.n - 1, o->r->parts.n > 1);
	path = fs_join(o->w->set->splits[o->r->split].path, p->name);
	o->in_part = 0;
	return shard_writer_open(path, &options, &o->writer, err);
}

/* One sample. */

/* Adds the member with the sample's class to its *n fields, which are sorted by name, if it should
 * have one. */
static void add_class(const struct set *s, const struct sample *x, struct shard_field *fields,
		      size_t *n, char text[CLASS_TEXT_MAX])
{
	struct shard_field c = { .name = set_class_field(s, x), .data = text };
	const char *word;
	size_t at = *n;

	if (!c.name)
		return;
	word = words_at(&s->classes, x->cls, &c.n);
	assert(c.n < CLASS_TEXT_MAX);
	if (s->with.class_as == CLASS_AS_INDEX)
		c.n = (size_t)snprintf(text, CLASS_TEXT_MAX, "%lld",
				       (long long)s->class_numbers[x->cls]);
	else
		memcpy(text, word, c.n);
	for (; at > 0 && strcmp(fields[at - 1].name, c.name) > 0; at--)
		fields[at] = fields[at - 1];
	fields[at] = c;
	++*n;
}

/* Loads the bytes of all parts one after the other, except large parts: these are read when they
 * are written. */
static int load_sample(struct shard_out *o, const struct sample *x, struct shard_field *fields,
		       struct err *err)
{
	size_t *begin = xcalloc(x->n_parts + 1, sizeof(*begin));
	int r = 0;

	str_reset(&o->bytes);
	for (uint32_t i = 0; i < x->n_parts && r >= 0; i++) {
		struct part_bytes *large = &o->large[o->n_large];

		fields[i] = (struct shard_field){ .name = x->parts[i].field };
		begin[i] = o->bytes.len;
		r = part_get(o->w->set, &x->parts[i],
			     PART_HELD_MAX - MIN(o->bytes.len, PART_HELD_MAX), &o->bytes, large,
			     err);
		if (r > 0) {
			fields[i].read = part_read;
			fields[i].arg = large;
			fields[i].n = large->n;
			o->n_large++;
		} else {
			fields[i].n = o->bytes.len - begin[i];
		}
	}
	for (uint32_t i = 0; i < x->n_parts; i++)
		fields[i].data = o->bytes.s + begin[i];
	free(begin);
	return r < 0 ? err_wrap(err, "sample `%.200s`", x->key) : 0;
}

/* Also reads parts that aren't in memory: a sample that can't be read is found here, before any of
 * it is written. */
static int take_fingerprint(struct shard_out *o, struct sample *x, const struct shard_field *fields,
			    struct err *err)
{
	_cleanup_(str_deinit) struct str head = { 0 };
	_cleanup_(freep) char *step = o->n_large ? xmalloc(READ_STEP) : NULL;

	fingerprint_begin(o->content);
	for (uint32_t i = 0; i < x->n_parts; i++) {
		str_reset(&head);
		str_add_field(&head, fields[i].name, strlen(fields[i].name));
		str_add_u64(&head, fields[i].n);
		fingerprint_add(o->content, head.s, head.len);
		if (!fields[i].read)
			fingerprint_add(o->content, fields[i].data, fields[i].n);
		for (uint64_t at = 0; fields[i].read && at < fields[i].n; at += READ_STEP) {
			size_t n = (size_t)MIN(fields[i].n - at, READ_STEP);

			if (fields[i].read(fields[i].arg, at, step, n, err) < 0)
				return err_wrap(err, "sample `%.200s`", x->key);
			fingerprint_add(o->content, step, n);
		}
	}
	fingerprint_end(o->content, x->content);
	return 0;
}

void field_list_add(struct field_list *l, const struct field_stats *f)
{
	struct field_stats *to;
	size_t i = 0;

	while (i < l->all.n && strcmp(l->all.v[i].name, f->name) != 0)
		i++;
	if (i == l->all.n)
		VEC_PUSH(&l->all, ((struct field_stats){ .name = f->name, .min = UINT64_MAX }));
	to = &l->all.v[i];
	to->n += f->n;
	to->bytes += f->bytes;
	to->min = MIN(to->min, f->min);
	to->max = MAX(to->max, f->max);
}

/* Parts. */

static int close_part(struct shard_out *o, struct err *err)
{
	struct shard_part *p = &o->r->parts.v[o->r->parts.n - 1];
	struct str *index = &o->r->index;
	char hex[DIGEST_HEX_MAX];

	if (shard_writer_close(TAKE_PTR(o->writer), &p->written, err) < 0)
		return -1;
	if (o->r->parts.n == 2) { /* the shard is cut: the first part's name gets its suffix */
		const char *dir = o->w->set->splits[o->r->split].path;
		char *name = shard_name(o, 0, true), **first = &o->r->parts.v[0].name;
		_cleanup_(freep) char *from = fs_join(dir, *first), *to = fs_join(dir, name);

		free(*first);
		*first = name;
		if (rename(from, to) < 0)
			return err_errno(err, "cannot name %s", to);
	}
	/* The name is left out, since it may still change: set_write_facts() puts it in front. */
	str_addf(index,
		 ", \"samples\": %llu, \"bytes\": %llu, \"sha256\": \"%s\",\n     \"keys\": [",
		 (unsigned long long)p->written.samples, (unsigned long long)p->written.bytes,
		 digest_hex(&p->written.sha256, hex));
	str_addn(index, o->keys.s, o->keys.len);
	str_add(index, "],\n     \"offsets\": [");
	str_addn(index, o->offsets.s, o->offsets.len);
	str_addn(index, "]}", 3); /* with a NUL: it ends a part's text */
	str_reset(&o->keys);
	str_reset(&o->offsets);
	return 0;
}

/* Begins a new part if the sample doesn't fit this one. It takes a header block per member, and its
 * bytes in blocks; extra blocks for long names aren't counted. */
static int cut_when_full(struct shard_out *o, const struct shard_field *fields, size_t n,
			 struct err *err)
{
	const struct settings *w = &o->w->set->with;
	uint64_t size = shard_writer_size(o->writer) + TAR_END;

	for (size_t i = 0; i < n; i++)
		size += USTAR_BLOCK + (fields[i].n + USTAR_BLOCK - 1) / USTAR_BLOCK * USTAR_BLOCK;
	if ((w->max.samples && o->in_part >= w->max.samples) ||
	    (w->max.bytes && o->in_part && size > w->max.bytes))
		return close_part(o, err) < 0 || open_part(o, err) < 0 ? -1 : 0;
	return 0;
}

static int write_sample(struct shard_out *o, struct sample *x, struct shard_field *fields,
			struct err *err)
{
	char text[CLASS_TEXT_MAX];
	size_t n = x->n_parts;
	uint64_t offset;
	int r;

	r = load_sample(o, x, fields, err) < 0 || take_fingerprint(o, x, fields, err) < 0 ? -1 : 0;
	if (r == 0) {
		add_class(o->w->set, x, fields, &n, text);
		r = shard_check_sample(x->key, fields, n, err);
	}
	if (r < 0) {
		r = set_bad(o->w->set, err->code == ERR_TOO_LARGE ? BAD_TOO_LARGE : BAD_UNREADABLE,
			    err);
		x->skipped = r > 0;
		return r < 0 ? -1 : 0;
	}
	if (cut_when_full(o, fields, n, err) < 0 ||
	    shard_writer_add(o->writer, x->key, fields, n, &offset, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const struct field_stats one = { fields[i].name, 1, fields[i].n, fields[i].n,
						 fields[i].n };

		field_list_add(&o->r->fields, &one);
		x->bytes += fields[i].n;
	}
	str_add(&o->keys, o->in_part ? "," : "");
	json_add_string(&o->keys, x->key, strlen(x->key));
	str_addf(&o->offsets, o->in_part ? ",%llu" : "%llu", (unsigned long long)offset);
	o->in_part++;
	return 0;
}

/* Shards. */

static int write_shard(void *arg, size_t i, struct err *err)
{
	struct writing *w = arg;
	struct shard_out o = { .w = w,
			       .r = &w->results[i],
			       .content = fingerprint_new(w->set->fingerprint_key) };
	struct shard_field *fields = xcalloc(SHARD_FIELDS_MAX + 1, sizeof(*fields));
	int r = open_part(&o, err);

	o.large = xcalloc(SHARD_FIELDS_MAX, sizeof(*o.large));
	for (size_t k = 0; k < o.r->n && r == 0; k++) {
		r = write_sample(&o, &w->set->samples.v[o.r->first + k], fields, err);
		while (o.n_large)
			part_close(&o.large[--o.n_large]);
		step_progress(atomic_fetch_add(&w->done, 1) + 1, w->set->samples.n, "samples");
	}
	if (r == 0)
		r = close_part(&o, err);
	shard_writer_free(o.writer);
	fingerprint_free(o.content);
	str_deinit(&o.keys);
	str_deinit(&o.offsets);
	str_deinit(&o.bytes);
	free(o.large);
	free(fields);
	return r;
}

int set_write_shards(struct set *s, struct shard_result **ret, size_t *ret_n, struct err *err)
{
	struct writing w = { .set = s };
	size_t n = 0, at = 0, i = 0;
	int r;

	for (size_t k = 0; k < s->n_splits; k++)
		n += s->splits[k].n_shards;
	if (spool_flush(&s->spool, err) < 0)
		return -1;
	w.results = xcalloc(n, sizeof(*w.results));
	for (uint32_t split = 0; split < s->n_splits; split++)
		for (uint32_t k = 0; k < s->splits[split].n_shards; k++, i++) {
			struct shard_result *one = &w.results[i];

			*one = (struct shard_result){ .split = split, .number = k, .first = at };
			while (at < s->samples.n && s->samples.v[at].split == split &&
			       s->samples.v[at].shard == k)
				at++;
			one->n = at - one->first;
		}
	assert(at == s->samples.n); /* the order of set_assign() */
	w.hash_apart = n < s->args->threads;
	r = step_parallel(s->args->threads, n, write_shard, &w, err);
	*ret = w.results;
	*ret_n = n;
	return r;
}

void shard_results_free(struct shard_result *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		for (size_t k = 0; k < v[i].parts.n; k++)
			free(v[i].parts.v[k].name);
		VEC_FREE(&v[i].parts);
		VEC_FREE(&v[i].fields.all);
		str_deinit(&v[i].index);
	}
	free(v);
}

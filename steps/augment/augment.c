/* steps/augment/augment.c — the step: reads shards, changes their samples on all cores, writes
 * shards in the same order.
 *
 * All shards are one stream (step_stream()), so that small ones keep all threads busy as well. An
 * item of the stream is a sample and up to COPIES_AT_ONCE of its copies; the items of one sample
 * share it by a reference count (struct shared). The number of items in flight bounds the memory.
 *
 * Each part of struct step belongs to one callback: the reader to next_item(), the writer and the
 * counts to write_item(), the idle workspaces, under `lock`, to work_on(). So next_item() and
 * write_item() may run at the same time. A workspace is borrowed for one item and given back.
 *
 * Shards are opened in order as their first item is written (write_up_to()); one without samples
 * becomes an empty shard. `on_bad` decides whether a bad sample ends the step, is left out or is
 * passed on unchanged; count_bad() counts a sample once, however many of its copies were bad.
 *
 * An archive that can't be read always ends the step. sample.c decides which fields are images and
 * changes them; steps/shards/writer.c makes the bytes of a shard.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "steps/augment/sample.h"
#include "steps/step.h"

#define COPIES_AT_ONCE 8
#define NOTES_MAX      10 /* bad samples with a separate note; metrics count all */
#define ZSTD_LEVEL     3
#define NAME_SHOWN     100 /* bytes of a key in a message */

/* A sample that several items share. */
struct shared {
	struct shard_sample *sample;
	atomic_uint refs;
};

struct item {
	struct shared *shared;
	size_t shard;
	uint32_t first, n; /* copies */
	struct augmented made[COPIES_AT_ONCE];
	int images;
	char *bad; /* what is wrong with the sample; NULL: nothing */
};

struct step {
	struct step_args *a;
	struct plan plan;
	char **from, **to; /* shards */
	size_t n_shards;

	/* next() */
	struct shard_reader *reader;
	size_t reading;
	struct shared *current;
	uint32_t next_copy;

	/* work() */
	pthread_mutex_t lock;
	VEC(struct workspace *) idle;

	/* done() */
	struct shard_writer *writer;
	size_t writing; /* number of shards written or begun */
	uint64_t samples_in, samples_out, images, skipped, kept, bytes;
	bool counted_bad; /* for the sample whose copies are being written */
};

static void shared_unref(struct shared *s)
{
	if (!s || atomic_fetch_sub(&s->refs, 1) > 1)
		return;
	shard_sample_free(s->sample);
	free(s);
}

/* Reading. */

/* 1: there is a sample in s->current; 0: the end. */
static int next_sample(struct step *s, struct err *err)
{
	struct shard_sample *sample;
	int r;

	for (;;) {
		if (!s->reader && s->reading == s->n_shards)
			return 0;
		if (!s->reader && shard_reader_open(s->from[s->reading], &s->reader, err) < 0)
			return -1;
		r = shard_reader_next(s->reader, &sample, err);
		if (r < 0)
			return -1;
		if (r > 0)
			break;
		shard_reader_free(TAKE_PTR(s->reader));
		s->reading++;
	}
	s->current = xcalloc(1, sizeof(*s->current));
	s->current->sample = sample;
	atomic_init(&s->current->refs, 1);
	s->next_copy = 0;
	return 1;
}

static void *next_item(void *arg, struct err *err)
{
	struct step *s = arg;
	struct item *item;

	if (!s->current && next_sample(s, err) <= 0)
		return NULL;
	item = xcalloc(1, sizeof(*item));
	item->shared = s->current;
	item->shard = s->reading;
	item->first = s->next_copy;
	item->n = MIN(s->plan.copies - s->next_copy, COPIES_AT_ONCE);
	s->next_copy += item->n;
	if (s->next_copy == s->plan.copies)
		s->current = NULL; /* the item has taken the reference */
	else
		atomic_fetch_add(&item->shared->refs, 1);
	return item;
}

/* Work. */

/* Keys come from an archive: they may hold any bytes, which must not reach a terminal unchanged,
 * and be so long that no room is left for the error. */
static void name_sample(struct err *err, const char *shard, const char *key)
{
	_cleanup_(str_deinit) struct str printable = { 0 };

	text_add_printable(&printable, key, strnlen(key, NAME_SHOWN));
	err_wrap(err, "%s: sample `%s`", shard, printable.s ? printable.s : "");
}

/* Finds here, where `on_bad` still decides, what the writer would refuse: a copy's number makes a
 * name too long, larger images make a sample too large. */
static int check_results(const struct item *item, struct err *err)
{
	for (uint32_t i = 0; i < item->n; i++) {
		const struct augmented *m = &item->made[i];

		if (m->key && shard_check_sample(m->key, m->fields, m->n_fields, err) < 0)
			return err_wrap(err, "what it becomes can't be in a shard");
	}
	return 0;
}

/* Replaces the copies of a bad sample: by nothing, or by the unchanged sample, which may be
 * refused, too. */
static int make_unchanged(struct step *s, struct item *item, struct err *err)
{
	for (uint32_t i = 0; i < item->n; i++)
		augmented_deinit(&item->made[i]);
	if (s->plan.on_bad != ON_BAD_KEEP)
		return 0;
	for (uint32_t i = 0; i < item->n; i++)
		sample_keep(&s->plan, item->shared->sample, item->first + i, &item->made[i]);
	return check_results(item, err);
}

static int work_on(void *arg, void *p, struct err *err)
{
	struct step *s = arg;
	struct item *item = p;
	const struct shard_sample *sample = item->shared->sample;
	struct workspace *ws = NULL;
	struct err bad = { 0 };
	int r;

	pthread_mutex_lock(&s->lock);
	if (s->idle.n > 0)
		ws = s->idle.v[--s->idle.n];
	pthread_mutex_unlock(&s->lock);
	if (!ws)
		ws = workspace_new();
	item->images = sample_augment(&s->plan, sample, item->first, item->n, ws, item->made, &bad);
	pthread_mutex_lock(&s->lock);
	VEC_PUSH(&s->idle, ws);
	pthread_mutex_unlock(&s->lock);
	r = item->images < 0 ? -1 : check_results(item, &bad);
	if (r == 0)
		return 0;
	item->images = -1;
	name_sample(&bad, s->from[item->shard], sample->key);
	if (s->plan.on_bad == ON_BAD_FAIL)
		return err_pass(err, &bad);
	item->bad = xstrdup(bad.msg);
	if (make_unchanged(s, item, &bad) < 0) {
		name_sample(&bad, s->from[item->shard], sample->key);
		return err_pass(err, &bad);
	}
	return 0;
}

/* Writing. */

static int close_writer(struct step *s, struct err *err)
{
	struct shard_written written;

	if (!s->writer)
		return 0;
	if (shard_writer_close(TAKE_PTR(s->writer), &written, err) < 0)
		return -1;
	s->bytes += written.bytes;
	return 0;
}

/* Afterwards the writer is that of shard number n - 1; shards in between were empty. */
static int write_up_to(struct step *s, size_t n, struct err *err)
{
	while (s->writing < n) {
		const char *path = s->to[s->writing];
		struct shard_writer_options o = { .zstd_level = str_has_suffix(path, ".zst")
									? ZSTD_LEVEL
									: 0 };
		_cleanup_(freep) char *dir = fs_dirname(path);

		if (close_writer(s, err) < 0 || fs_mkdir_p(dir, err) < 0 ||
		    shard_writer_open(path, &o, &s->writer, err) < 0)
			return -1;
		s->writing++;
	}
	return 0;
}

static void drop_item(void *arg, void *p)
{
	struct item *item = p;

	for (uint32_t i = 0; i < item->n; i++)
		augmented_deinit(&item->made[i]);
	shared_unref(item->shared);
	free(item->bad);
	free(item);
}

static void count_bad(struct step *s, const struct item *item)
{
	bool skip = s->plan.on_bad == ON_BAD_SKIP;

	s->counted_bad &= item->first > 0;
	if (!item->bad || s->counted_bad) /* a draw may be bad for some copies only */
		return;
	s->counted_bad = true;
	*(skip ? &s->skipped : &s->kept) += 1;
	if (s->skipped + s->kept <= NOTES_MAX)
		step_note("%s: %s", skip ? "skipped" : "kept as it is", item->bad);
}

static int write_item(void *arg, void *p, struct err *err)
{
	struct step *s = arg;
	struct item *item = p;
	int r = write_up_to(s, item->shard + 1, err);

	count_bad(s, item);
	for (uint32_t i = 0; i < item->n && r == 0; i++) {
		const struct augmented *m = &item->made[i];

		if (!m->key)
			continue;
		r = shard_writer_add(s->writer, m->key, m->fields, m->n_fields, NULL, err);
		s->samples_out++;
	}
	s->samples_in += item->first == 0;
	s->images += item->images > 0 ? (uint64_t)item->images * item->n : 0;
	if (item->first == 0)
		step_progress(s->samples_in, 0, "samples");
	drop_item(s, item);
	return r;
}

/* The whole step. */

/* `dir/a.tar.gz` below the input → `out/a.tar`: gzip, xz and bzip2 aren't written. */
static char *name_below(const char *out, const char *root, const char *path)
{
	_cleanup_(freep) char *rel = fs_relative(root, path);
	const char *name = rel && strcmp(rel, ".") != 0 ? rel : fs_basename(path);
	static const char *const unwritten[] = { ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2" };

	for (size_t i = 0; i < ARRAY_LEN(unwritten); i++)
		if (str_has_suffix(name, unwritten[i]))
			return xasprintf("%s%.*s.tar", out,
					 (int)(strlen(name) - strlen(unwritten[i])), name);
	return xasprintf("%s%s", out, name);
}

/* Compares device and inode, since one file may have several names. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int name_results(struct step *s, const struct step_port *in, const struct step_port *out,
			struct err *err)
{
	s->to = xcalloc(s->n_shards, sizeof(*s->to));
	if (!out->is_dir && s->n_shards > 1)
		return err_set(err, ERR_USAGE,
			       "%s has %zu shards: the output must be a directory (a path that "
			       "ends in /), not %s",
			       in->path, s->n_shards, out->path);
	for (size_t i = 0; i < s->n_shards; i++) {
		s->to[i] = out->is_dir ? name_below(out->path, in->path, s->from[i])
				       : xstrdup(out->path);
		for (size_t k = 0; k < i; k++)
			if (strcmp(s->to[i], s->to[k]) == 0)
				return err_set(err, ERR_INVALID, "%s and %s would both become %s",
					       s->from[k], s->from[i], s->to[i]);
		if (is_same_file(s->to[i], s->from[i]))
			return err_set(err, ERR_USAGE, "%s is both input and output", s->to[i]);
	}
	return 0;
}

static int run(struct step_args *a, struct err *err)
{
	const struct step_port *in = step_input(a, "shard"), *out = step_output(a, "shard");
	struct step s = { .a = a, .lock = PTHREAD_MUTEX_INITIALIZER };
	const struct step_stream stream = {
		.next = next_item, .work = work_on, .done = write_item, .drop = drop_item, .arg = &s
	};
	int r = -1;

	if (plan_init(&s.plan, a->with, err) == 0 &&
	    shard_list(in->path, &s.from, &s.n_shards, err) == 0 &&
	    name_results(&s, in, out, err) == 0 && step_stream(a->threads, &stream, err) == 0 &&
	    write_up_to(&s, s.n_shards, err) == 0)
		r = close_writer(&s, err);
	if (r == 0) {
		step_metric(a, "samples_in", (double)s.samples_in);
		step_metric(a, "samples_out", (double)s.samples_out);
		step_metric(a, "images", (double)s.images);
		step_metric(a, "bytes", (double)s.bytes);
		step_metric(a, "errors.skipped", (double)s.skipped);
		step_metric(a, "errors.kept", (double)s.kept);
	}
	shard_reader_free(s.reader);
	shard_writer_free(s.writer);
	shared_unref(s.current);
	for (size_t i = 0; i < s.idle.n; i++)
		workspace_free(s.idle.v[i]);
	VEC_FREE(&s.idle);
	for (size_t i = 0; i < s.n_shards && s.to; i++)
		free(s.to[i]);
	free(s.to);
	shard_list_free(s.from, s.n_shards);
	pthread_mutex_destroy(&s.lock);
	return r;
}

const struct step_impl step_augment = { "augment", run };

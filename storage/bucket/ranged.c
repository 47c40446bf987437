/* storage/bucket/ranged.c — fetches objects in ranges, in parallel; each range is written at its
 * place.
 *
 * A get begins with one range, whose answer gives the object's size. fan_out() then pushes the
 * other ranges onto the same queue of work, and the last part to end sets the result (parts_left).
 * All parts must be of one version: note_answer() compares their ETags or generations.
 *
 * A server that ignores ranges answers 200 with the whole object. The other bytes are skipped, and
 * `no_ranges` is set for later gets.
 *
 * Bytes for a file come in pieces of PIECE_BYTES. The part's thread writes and hashes each piece
 * while more arrives. A blob's digest is made of the digests of its parts of CONTENT_PART_BYTES.
 * Ranges begin at part boundaries, so no byte is read back, whatever the order of arrival. After a
 * failed try the hash of its range starts again.
 *
 * struct fetch has a lock of its own. Bytes are written without the lock: parts don't overlap, and
 * memory is reserved before parts run in parallel. The kind retries in request(); rewind_part()
 * prepares a part for each try.
 */
#include "storage/bucket/ranged.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "storage/bucket/internal.h"

/* Large enough for few writes, small enough to be hashed in the processor's cache. */
#define PIECE_BYTES (256 * KIB)

struct fetch {
	const struct ranged *r;
	struct bucket_get *g;
	pthread_mutex_t lock;       /* guards the fields below */
	uint64_t part_bytes, total; /* of the range asked for; known after the first answer */
	size_t parts_left;
	char etag[RANGED_ETAG_MAX];
	uint64_t end; /* end of the bytes that came, relative to g->offset */
	uint64_t got; /* number of bytes; equal to `end` unless the server left some out */
	VEC(struct digest) digests; /* of the blob's parts, by index, where hashed */
	bool unhashed;              /* some bytes weren't hashed */
	bool failed;
};

/* One request of a fetch. */
struct part {
	struct ranged_part asked; /* must be first: hooks get its address */
	struct fetch *f;
	uint64_t from, n; /* relative to g->offset; n UINT64_MAX: to the end */
	uint64_t skip, got;
	struct digester *hasher; /* of the blob's part that is arriving; NULL: no hash wanted */
	bool started, ignored, hashed;
	uint64_t object_size; /* UINT64_MAX: unknown */
};

/* Bytes. */

static int write_at(struct fetch *f, uint64_t at, const char *bytes, size_t n, struct err *err)
{
	struct bucket_get *g = f->g;

	if (g->fd < 0) {
		if (at + n > g->body.cap - 1) { /* only for an unknown size: then there is one
						   request, so no other thread writes */
			g->body.len = at;
			str_reserve(&g->body, n);
		}
		memcpy(g->body.s + at, bytes, n);
		return 0;
	}
	while (n) {
		ssize_t w = pwrite(g->fd, bytes, n, (off_t)(g->file_offset + at));

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0 && (errno == ENOSPC || errno == EDQUOT))
			return err_set(err, ERR_NO_SPACE,
				       "no space is left for what is fetched; free some, or type "
				       "`cairn store gc`");
		if (w < 0)
			return err_errno(err, "writing what was fetched");
		bytes += w;
		at += (uint64_t)w;
		n -= (size_t)w;
	}
	return 0;
}

/* Digests. */

/* Encoded bytes aren't the blob's bytes, so they aren't hashed. The first answer says whether there
 * is an encoding. */
static bool is_hashed(struct fetch *f)
{
	bool encoded;

	pthread_mutex_lock(&f->lock);
	encoded = f->g->encoding[0];
	pthread_mutex_unlock(&f->lock);
	return f->g->fd >= 0 && f->g->hash && !encoded;
}

static void note_digest(struct part *p, uint64_t at)
{
	struct fetch *f = p->f;
	uint64_t i = at / CONTENT_PART_BYTES;
	struct digest d;

	digester_final(p->hasher, &d);
	if (i >= CONTENT_PARTS_MAX)
		return;
	pthread_mutex_lock(&f->lock);
	while (f->digests.n <= i)
		VEC_PUSH(&f->digests, (struct digest){ 0 });
	f->digests.v[i] = d;
	pthread_mutex_unlock(&f->lock);
}

/* Hashes the next bytes of the part. */
static void hash(struct part *p, const char *bytes, size_t n)
{
	uint64_t at = p->from + p->got;

	while (n) {
		size_t take =
			(size_t)MIN((uint64_t)n, CONTENT_PART_BYTES - at % CONTENT_PART_BYTES);

		digester_update(p->hasher, bytes, take);
		bytes += take;
		n -= take;
		at += take;
		if (at % CONTENT_PART_BYTES == 0)
			note_digest(p, at - 1);
	}
}

/* Computes the digest of the whole blob. Truncates the file, because a failed try may have written
 * more than the one that succeeded. */
static int end_hash(struct fetch *f, struct err *err)
{
	uint64_t n = MAX((f->end + CONTENT_PART_BYTES - 1) / CONTENT_PART_BYTES, 1u);

	if (f->got != f->end) /* the server gave different sizes */
		return err_set(err, ERR_IO, "the answers leave out bytes of %s", f->g->key);
	if (ftruncate(f->g->fd, (off_t)(f->g->file_offset + f->end)) < 0)
		return err_errno(err, "writing what was fetched");
	if (n > CONTENT_PARTS_MAX || f->unhashed)
		return 0;
	f->g->hashed = true;
	if (f->end == 0)
		digest_bytes("", 0, &f->g->digest);
	else if (n == 1)
		f->g->digest = f->digests.v[0];
	else
		digest_bytes(f->digests.v, n * DIGEST_BYTES, &f->g->digest);
	return 0;
}

/* Reads the answer's headers, before its first byte. */
static int start(struct part *p, const struct http_request *r, struct err *err)
{
	uint64_t first, last, total;
	_cleanup_(freep) char *range = transfer_header(r, "Content-Range", 128);

	p->started = true;
	p->object_size = UINT64_MAX;
	if (r->reply.status != 206 &&
	    !range) { /* rclone's server answers a range with 200, but sends Content-Range */
		p->ignored = true;
		p->skip = p->f->g->offset + p->from;
		return 0;
	}
	if (!range || !transfer_parse_range(range, &first, &last, &total) ||
	    first != p->f->g->offset + p->from || (p->n != UINT64_MAX && last - first >= p->n))
		return err_set(err, ERR_IO,
			       "the answer has another range of bytes than was asked for");
	p->object_size = total;
	return 0;
}

static int take_bytes(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct part *p = arg;
	const char *s = bytes;
	uint64_t limit = bucket_get_limit(p->f->g), take;

	if (!p->started && start(p, p->asked.reply, err) < 0)
		return -1;
	take = MIN(p->skip, n);
	p->skip -= take;
	s += take;
	n -= take;
	take = MIN(p->n - p->got, n); /* a 200 may hold more than we asked for */
	if (p->from + p->got + take > limit)
		return err_set(err, ERR_TOO_LARGE, "the object is larger than %llu bytes",
			       (unsigned long long)limit);
	if (take && write_at(p->f, p->from + p->got, s, take, err) < 0)
		return -1;
	if (p->hasher)
		hash(p, s, take);
	p->got += take;
	return 0;
}

static void rewind_part(void *arg)
{
	struct part *p = arg;

	p->started = p->ignored = false;
	p->skip = p->got = 0;
	if (p->hasher) { /* reset what an earlier try left */
		digester_free(p->hasher);
		p->hasher = digester_new();
	}
}

/* Checks that all bytes came. Nothing else notices an answer whose length header is short too. */
static int check_part(void *arg, const struct http_request *r, struct err *err)
{
	struct part *p = arg;
	uint64_t want, from = p->f->g->offset + p->from;

	if (!p->started && start(p, r, err) < 0)
		return -1;
	if (p->object_size == UINT64_MAX)
		return 0;
	want = MIN(p->n, p->object_size - from);
	if (p->got != want)
		return err_set(err, ERR_IO, "the answer has %llu bytes instead of %llu",
			       (unsigned long long)p->got, (unsigned long long)want);
	return 0;
}

/* Requests. */

static void fail(struct fetch *f, const struct err *err)
{
	pthread_mutex_lock(&f->lock);
	if (!f->failed) {
		f->failed = true;
		f->g->err = *err;
	}
	pthread_mutex_unlock(&f->lock);
}

/* Checks that all answers are of one version, and keeps the facts of the first answer. */
static int note_answer(struct fetch *f, const struct part *p, struct err *err)
{
	const struct ranged_part *a = &p->asked;
	const char *asked = f->g->version;
	bool changed;

	pthread_mutex_lock(&f->lock);
	/* Not every server obeys If-Match. */
	changed = asked && *asked == '"' && a->etag[0] == '"' && !str_eq(asked, a->etag);
	changed |= a->etag[0] && f->etag[0] && !str_eq(a->etag, f->etag);
	if (a->etag[0] && !f->etag[0])
		snprintf(f->etag, sizeof(f->etag), "%s", a->etag);
	snprintf(f->g->encoding, sizeof(f->g->encoding), "%s", a->encoding);
	f->end = MAX(f->end, p->from + p->got);
	f->got += p->got;
	f->unhashed |= !p->hashed;
	pthread_mutex_unlock(&f->lock);
	return changed ? err_set(err, ERR_CHANGED, "%s changed while it was fetched", f->g->key)
		       : 0;
}

static int request_part(struct fetch *f, uint64_t from, uint64_t n, struct part *ret,
			struct err *err)
{
	struct part p = {
		.f = f,
		.from = from,
		.n = n,
		.asked = { .sink = take_bytes, .rewind = rewind_part, .check = check_part }
	};
	struct bucket_get *g = f->g;
	char range[64];
	int r;

	if (n != UINT64_MAX) {
		snprintf(range, sizeof(range), "bytes=%llu-%llu",
			 (unsigned long long)(g->offset + from),
			 (unsigned long long)(g->offset + from + n - 1));
		p.asked.range = range;
	}
	if (g->fd >= 0)
		p.asked.piece_bytes = PIECE_BYTES;
	if (is_hashed(f))
		p.hasher = digester_new();
	r = f->r->request(f->r->store, g, &p.asked, err);
	if (r == 0 && p.hasher && (from + p.got) % CONTENT_PART_BYTES)
		note_digest(&p, from + p.got);
	if (r == 0 && p.hasher && g->flush && p.got)
		(void)!sync_file_range(g->fd, (off_t)(g->file_offset + from), (off_t)p.got,
				       SYNC_FILE_RANGE_WRITE);
	p.hashed = p.hasher;
	digester_free(TAKE_PTR(p.hasher));
	if (r == 0)
		r = note_answer(f, &p, err);
	*ret = p;
	ret->asked.range = NULL;
	return r;
}

/* A get. */

static void end_fetch(struct fetch *f)
{
	struct bucket_get *g = f->g;

	if (!f->failed && is_hashed(f))
		f->failed = end_hash(f, &g->err) < 0;
	g->n = f->end;
	g->result = f->failed ? -1 : 0;
	if (g->fd < 0 && !f->failed) {
		g->body.len = f->end;
		if (g->body.s)
			g->body.s[f->end] = '\0';
	}
	VEC_FREE(&f->digests);
	pthread_mutex_destroy(&f->lock);
	free(f);
}

static void part_done(struct fetch *f)
{
	bool last;

	pthread_mutex_lock(&f->lock);
	last = --f->parts_left == 0;
	pthread_mutex_unlock(&f->lock);
	if (last)
		end_fetch(f);
}

static void fetch_part(struct work_queue *q, void *arg, size_t i)
{
	struct fetch *f = arg;
	uint64_t from = (i + 1) * f->part_bytes, n = MIN(f->part_bytes, f->total - from);
	struct err err = { 0 };
	struct part p = { 0 };
	bool failed;
	int r;

	pthread_mutex_lock(&f->lock);
	failed = f->failed;
	pthread_mutex_unlock(&f->lock);
	if (!failed) {
		r = request_part(f, from, n, &p, &err);
		if (r < 0)
			fail(f, &err);
	}
	part_done(f);
}

/* After the first part, pushes the others. */
static void fan_out(struct fetch *f, const struct part *first, struct work_queue *q)
{
	uint64_t there = first->object_size == UINT64_MAX ? 0 : first->object_size - f->g->offset;
	size_t n;

	f->total = MIN(f->g->size, there);
	if (first->ignored || f->total <= f->part_bytes)
		return;
	if (f->g->fd < 0)
		str_reserve(&f->g->body, f->total + 1);
	n = (size_t)((f->total + f->part_bytes - 1) / f->part_bytes) - 1;
	f->parts_left += n;
	work_push(q, (struct work){ fetch_part, f, n });
}

/* One get, run from a queue, to which it may push more work. Sets the outputs in *g when all parts
 * are done. */
static void ranged_get(const struct ranged *store, struct bucket_get *g, struct work_queue *q)
{
	struct fetch *f = xcalloc(1, sizeof(*f));
	struct err err = { 0 };
	struct part p = { 0 };
	uint64_t limit = bucket_get_limit(g), first;
	int r = 0;

	*f = (struct fetch){
		.r = store, .g = g, .part_bytes = CONTENT_PART_BYTES, .parts_left = 1
	};
	pthread_mutex_init(&f->lock, NULL);
	g->err = (struct err){ 0 };
	g->encoding[0] = '\0';
	g->hashed = false;
	first = *store->no_ranges ? g->size : MIN(g->size, f->part_bytes);
	str_reset(&g->body);
	if (g->fd < 0)
		str_reserve(&g->body,
			    (g->size == UINT64_MAX ? 64 * KIB : MIN(first, BUCKET_BODY_MAX)) + 1);
	if (first)
		r = request_part(f, 0, first, &p, &err);
	if (r == 0 && first && p.ignored && g->offset)
		*store->no_ranges = true;
	if (r == 0 && first && p.ignored && first < g->size &&
	    p.got == first) { /* ranges are ignored: fetch everything in one answer */
		*store->no_ranges = true;
		f->end = f->got = 0;
		f->unhashed = false;
		r = request_part(f, 0, g->size, &p, &err);
	}
	/* 416: the object ends before the range. So does an empty object, but only an answer
	 * without a range has its encoding. */
	if (r == 1 && g->offset == 0)
		r = request_part(f, 0, UINT64_MAX, &p, &err);
	else if (r == 0 && first && g->size == UINT64_MAX && p.object_size != UINT64_MAX &&
		 p.object_size - g->offset > limit)
		r = err_set(&err, ERR_TOO_LARGE, "%s is larger than %llu bytes", g->key,
			    (unsigned long long)limit);
	else if (r == 0 && first)
		fan_out(f, &p, q);
	if (r < 0)
		fail(f, &err);
	part_done(f);
}

struct get_batch {
	const struct ranged *store;
	struct bucket_get *const *v;
};

static void get_one(struct work_queue *q, void *arg, size_t i)
{
	struct get_batch *b = arg;

	ranged_get(b->store, b->v[i], q);
}

void ranged_get_many(const struct ranged *store, unsigned threads, struct bucket_get *const *v,
		     size_t n)
{
	struct get_batch batch = { store, v };

	work_run(threads, (struct work){ get_one, &batch, n });
}

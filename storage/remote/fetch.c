/* storage/remote/fetch.c — fetches members of packs by ranges, neighbours together, and separate
 * objects by name.
 *
 * sort_out() decides where each object is: in a pack, separate and small (records), or separate and
 * large. Work is cut into batches, of which THREADS run at once: while the bytes of one arrive,
 * those of another are hashed and written. A batch takes about BATCH_BYTES of memory. Large blobs
 * go through files, and so do blobs that are large when decoded. They are hashed as they arrive, or
 * as they are decoded, and never read back.
 *
 * Everything is verified before it gets a name in the local store (action records by their
 * decoder). A damaged copy is noted as bad and counts as absent; a removed pack is noted as gone.
 * Then remote_fetch() tries again, because another copy may be intact. If something is missing, it
 * first lists packs again.
 *
 * The first failure of the bucket ends the fetch: no more batches begin. r->lock is held only to
 * look up packs, never while bytes arrive.
 */
#include <fcntl.h>
#include <stdio.h>
#include "base/os/fs.h"
#include "storage/bucket/transfer.h"
#include "storage/remote/internal.h"

/* A gap of up to this size between two members is fetched too: it costs less than another request.
 */
#define HOLE_MAX      (128 * KIB)
#define RANGE_MAX     PACK_MEMORY_MAX
#define THREADS       3
#define BATCH_BYTES   (16 * MIB)
#define BATCH_OBJECTS 1024
#define FILES_AT_ONCE 16

struct item {
	struct remote_object *o;
	uint32_t pack;
	struct pack_member m;
};

struct fetcher {
	struct remote *r;
	struct store *to;
	VEC(struct item) packed;
	VEC(struct remote_object *) small, large; /* separate objects, if present at all */
};

/* A batch: a range of one of the lists, by index. */
struct batch {
	size_t first, end;
};

typedef int batch_fn(struct fetcher *f, const struct batch *b, struct err *err);

struct batches {
	struct fetcher *f;
	batch_fn *fn;
	VEC(struct batch) v;
};

static int run_batch(void *arg, size_t i, struct err *err)
{
	struct batches *b = arg;

	return b->fn(b->f, &b->v.v[i], err);
}

static int run_batches(struct batches *b, struct err *err)
{
	int got = work_each(THREADS, b->v.n, false, run_batch, b, err);

	VEC_FREE(&b->v);
	return got;
}

/* Runs fn on batches of a list of n. */
static int in_batches(struct fetcher *f, size_t n, size_t at_once, batch_fn *fn, struct err *err)
{
	struct batches b = { .f = f, .fn = fn };

	for (size_t i = 0; i < n; i += at_once)
		VEC_PUSH(&b.v, ((struct batch){ i, MIN(n, i + at_once) }));
	return run_batches(&b, err);
}

/* Checks the bytes against the name, and puts them. A damaged copy (in a pack, or separate) is
 * noted as absent. */
static int accept(struct fetcher *f, struct remote_object *o, uint32_t pack,
		  const struct str *bytes, struct err *err)
{
	const char *p = bytes->s ? bytes->s : "";
	struct content_id id = { 0 };

	if (o->space == STORE_BLOB)
		content_id_of_bytes(p, bytes->len, &id);
	else if (o->space != STORE_ACTION)
		digest_bytes(p, bytes->len, &id.digest);
	if (o->space != STORE_ACTION && !digest_eq(&id.digest, &o->name)) {
		presence_note_bad(f->r, o->space, &o->name, pack);
		return 0;
	}
	if (f->to->ops->put(f->to, o->space, &o->name, p, bytes->len, false, err) < 0)
		return -1;
	o->there = true;
	return 0;
}

/* Packs. */

static int by_place(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->pack != y->pack)
		return x->pack < y->pack ? -1 : 1;
	return x->m.offset < y->m.offset ? -1 : x->m.offset > y->m.offset;
}

/* The members that one request fetches: [first, ret) */
static size_t range_end(const struct fetcher *f, size_t first, uint64_t *ret_size)
{
	const struct item *v = f->packed.v;
	uint64_t from = v[first].m.offset, end = from + v[first].m.stored;
	size_t i = first + 1;

	for (; i < f->packed.n && v[i].pack == v[first].pack && v[i].m.offset <= end + HOLE_MAX;
	     i++) {
		if (MAX(end, v[i].m.offset + v[i].m.stored) - from > RANGE_MAX)
			break;
		end = MAX(end, v[i].m.offset + v[i].m.stored);
	}
	*ret_size = end - from;
	return i;
}

static int take_member(struct fetcher *f, struct item *it, const struct bucket_get *g,
		       struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	uint64_t at = it->m.offset - g->offset;
	struct err e = { 0 };

	if (at + it->m.stored > g->body.len || it->m.size > TREE_LISTING_MAX ||
	    pack_decode(it->m.encoding, g->body.s + at, (size_t)it->m.stored, it->m.size, &bytes,
			&e) < 0) {
		presence_note_bad(f->r, it->o->space, &it->o->name, it->pack);
		return 0;
	}
	return accept(f, it->o, it->pack, &bytes, err);
}

/* The pack was removed since it was listed; its members may be elsewhere. */
static void pack_is_gone(struct fetcher *f, uint32_t pack)
{
	pthread_mutex_lock(&f->r->lock);
	f->r->packs.v[pack].gone = true;
	f->r->slots.old = f->r->packs_old = true;
	pthread_mutex_unlock(&f->r->lock);
}

/* The members [first, end) arrived by one request. */
static int take_range(struct fetcher *f, size_t first, size_t end, const struct bucket_get *g,
		      struct err *err)
{
	if (g->result < 0 && g->err.code == ERR_NOT_FOUND) {
		pack_is_gone(f, f->packed.v[first].pack);
		return 0;
	}
	if (g->result < 0)
		return err_pass(err, &g->err);
	for (size_t i = first; i < end; i++)
		if (take_member(f, &f->packed.v[i], g, err) < 0)
			return -1;
	return 0;
}

/* Fetches a member that is too large for memory, through a file. */
static int fetch_large_member(struct fetcher *f, struct item *it, struct err *err);

static bool is_large_member(const struct item *it)
{
	return MAX(it->m.stored, it->m.size) > PACK_MEMORY_MAX && it->m.space == STORE_BLOB;
}

static int fetch_packed_batch(struct fetcher *f, const struct batch *b, struct err *err)
{
	struct remote_gets gets;
	size_t n = 0, at = b->first;
	uint64_t size;
	int got;

	if (is_large_member(&f->packed.v[b->first]))
		return fetch_large_member(f, &f->packed.v[b->first], err);
	for (size_t i = b->first; i < b->end; n++)
		i = range_end(f, i, &size);
	remote_gets_init(&gets, n);
	for (size_t i = 0; i < n; i++) {
		const struct item *first = &f->packed.v[at];

		at = range_end(f, at, &size);
		pthread_mutex_lock(&f->r->lock);
		remote_pack_key(gets.keys[i], &f->r->packs.v[first->pack].name, false);
		pthread_mutex_unlock(&f->r->lock);
		gets.v[i] = (struct bucket_get){
			.offset = first->m.offset, .size = size, .fd = -1, .max_bytes = size
		};
	}
	got = remote_gets_run(f->r, &gets, err);
	at = b->first;
	for (size_t i = 0; i < n && got == 0; i++) {
		size_t end = range_end(f, at, &size);

		got = take_range(f, at, end, &gets.v[i], err);
		str_deinit(&gets.v[i].body);
		at = end;
	}
	remote_gets_deinit(&gets);
	return got;
}

static int fetch_packed(struct fetcher *f, struct err *err)
{
	struct batches b = { .f = f, .fn = fetch_packed_batch };

	if (f->packed.n)
		qsort(f->packed.v, f->packed.n, sizeof(*f->packed.v), by_place);
	for (size_t i = 0; i < f->packed.n;) {
		struct batch *one = VEC_ADD(&b.v);
		uint64_t bytes = 0, size;
		size_t n = 0;

		*one = (struct batch){ i, i + 1 };
		for (; i < f->packed.n && n < BATCH_OBJECTS && bytes < BATCH_BYTES &&
		       !is_large_member(&f->packed.v[i]);
		     n++, bytes += size)
			one->end = i = range_end(f, i, &size);
		i = one->end;
	}
	return run_batches(&b, err);
}

/* Small separate objects. */

/* Fetches small records, a batch at once. */
static int fetch_small(struct fetcher *f, const struct batch *b, struct err *err)
{
	struct remote_object *const *v = f->small.v + b->first;
	size_t n = b->end - b->first;
	struct remote_gets gets;
	int got;

	remote_gets_init(&gets, n);
	for (size_t i = 0; i < n; i++) {
		remote_key(gets.keys[i], v[i]->space, &v[i]->name);
		gets.v[i] = (struct bucket_get){ .size = UINT64_MAX,
						 .fd = -1,
						 .max_bytes = MIN(store_max_size(v[i]->space),
								  REMOTE_RECORD_MAX) };
	}
	got = remote_gets_run(f->r, &gets, err);
	for (size_t i = 0; i < n && got == 0; i++) {
		struct bucket_get *g = &gets.v[i];

		if (g->result == 0)
			got = accept(f, v[i], BAD_ALONE, &g->body, err);
		else if (g->err.code == ERR_TOO_LARGE) /* writers never write that size */
			presence_note_bad(f->r, v[i]->space, &v[i]->name, BAD_ALONE);
		else if (g->err.code == ERR_NOT_FOUND)
			presence_lost(f->r, v[i]->space, &v[i]->name);
		else
			got = err_pass(err, &g->err);
		str_deinit(&g->body);
	}
	if (got == 0) { /* records may name content in packs newer than our list */
		pthread_mutex_lock(&f->r->lock);
		f->r->packs_old = true;
		pthread_mutex_unlock(&f->r->lock);
	}
	remote_gets_deinit(&gets);
	return got;
}

/* Large objects, through files. */

/* A file that receives bytes: one of the store that can become the blob, one outside where the blob
 * is wanted, else a scratch file. */
struct target {
	int fd;
	char *temp;                /* NULL: not of the store */
	struct store_place *place; /* whose file it is; or NULL */
};

static int target_open(struct fetcher *f, struct target *l, struct err *err)
{
	*l = (struct target){ .fd = -1 };
	if (f->to->ops->files)
		return f->to->ops->files->open_temp(f->to, &l->fd, &l->temp, err);
	l->fd = fs_unnamed_at(f->r->dir, ".", err); /* source of the decoding */
	return l->fd < 0 ? -1 : 0;
}

static void target_drop(struct fetcher *f, struct target *l)
{
	if (l->temp)
		f->to->ops->files->publish_temp(f->to, l->fd, TAKE_PTR(l->temp), NULL, NULL);
	else if (l->fd >= 0 && !l->place)
		close(l->fd);
	*l = (struct target){ .fd = -1 };
}

/* An object's stored bytes, now in a file. */
struct fetched {
	struct remote_object *o;
	uint32_t pack; /* or BAD_ALONE */
	struct target *l;
	const struct bucket_get *g; /* the get that fetched them */
	bool encoded;
};

static int decode_target(struct fetcher *f, const struct fetched *a, struct digest *ret,
			 struct err *err)
{
	struct target plain;
	uint64_t size;
	int got;

	if (target_open(f, &plain, err) < 0)
		return -1;
	got = pack_decode_file(a->l->fd, plain.fd, a->o->size, &size, ret, err);
	target_drop(f, a->l);
	*a->l = plain;
	return got;
}

/* A damaged copy is noted as absent. If the blob is larger than the record that names it says, the
 * record is wrong, not the blob. */
static int not_taken(struct fetcher *f, const struct fetched *a, const struct err *e,
		     struct err *err)
{
	if (e->code != ERR_CORRUPT && e->code != ERR_TOO_LARGE)
		return err_pass(err, e);
	if (e->code == ERR_CORRUPT)
		presence_note_bad(f->r, a->o->space, &a->o->name, a->pack);
	return 0;
}

/* For a store without files: puts the object from memory. */
static int accept_file_in_memory(struct fetcher *f, const struct fetched *a, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err e = { 0 };
	struct digest ignored; /* accept() hashes the bytes */
	char path[64];
	int got = a->encoded ? decode_target(f, a, &ignored, &e) : 0;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->l->fd);
	if (got == 0)
		got = fs_read_file(path, CONTENT_BLOB_MAX, &bytes, &e);
	target_drop(f, a->l);
	return got == 0 ? accept(f, a->o, a->pack, &bytes, err) : not_taken(f, a, &e, err);
}

/* Checks the object and puts it into the store. Takes ownership of what a->l holds. */
static int accept_file(struct fetcher *f, const struct fetched *a, struct err *err)
{
	struct err e = { 0 };
	struct digest d;
	int got = 0;

	if (!f->to->ops->files && (a->encoded || !a->l->place))
		return accept_file_in_memory(f, a, err);
	if (a->encoded)
		got = decode_target(f, a, &d, &e);
	else if (a->g->hashed)
		d = a->g->digest;
	else
		got = content_hash_fd(a->l->fd, a->g->n, THREADS, &d, &e);
	if (got == 0 && !digest_eq(&d, &a->o->name))
		got = err_set(&e, ERR_CORRUPT, "it doesn't match its name");
	if (got < 0) {
		target_drop(f, a->l);
		return not_taken(f, a, &e, err);
	}
	if (a->l->place) { /* another size than the wanted one is the reader's to judge */
		a->l->place->placed = a->o->there = a->g->n == a->o->size;
		return 0;
	}
	store_note_arrived(f->to, &a->o->name, a->l->fd);
	got = f->to->ops->files->publish_temp(f->to, a->l->fd, TAKE_PTR(a->l->temp), &a->o->name,
					      err);
	a->l->fd = -1;
	if (got < 0)
		return -1;
	a->o->there = true;
	store_note_verified(f->to, &a->o->name);
	return 0;
}

static int fetch_large_member(struct fetcher *f, struct item *it, struct err *err)
{
	char key[REMOTE_KEY_MAX];
	struct bucket_get g = { .key = key,
				.offset = it->m.offset,
				.size = it->m.stored,
				.hash = it->m.encoding == PACK_PLAIN,
				.flush = true };
	struct err e = { 0 };
	struct target l;

	if (target_open(f, &l, err) < 0)
		return -1;
	g.fd = l.fd;
	pthread_mutex_lock(&f->r->lock);
	remote_pack_key(key, &f->r->packs.v[it->pack].name, false);
	pthread_mutex_unlock(&f->r->lock);
	if (bucket_get(f->r->bucket, &g, &e) < 0) {
		target_drop(f, &l);
		if (e.code != ERR_NOT_FOUND)
			return err_pass(err, &e);
		pack_is_gone(f, it->pack);
		return 0;
	}
	it->o->size = it->m.size;
	return accept_file(
		f, &(struct fetched){ it->o, it->pack, &l, &g, it->m.encoding == PACK_ZSTD }, err);
}

static int fetch_large(struct fetcher *f, const struct batch *b, struct err *err)
{
	struct remote_object *const *v = f->large.v + b->first;
	size_t n = b->end - b->first;
	struct target *l = xcalloc(n, sizeof(*l));
	struct remote_gets gets;
	int got = 0;

	remote_gets_init(&gets, n);
	for (size_t i = 0; i < n; i++) {
		uint64_t size = v[i]->size;

		l[i].fd = -1;
		if (v[i]->place)
			l[i] = (struct target){ .fd = v[i]->place->fd, .place = v[i]->place };
		else if (got == 0)
			got = target_open(f, &l[i], err);
		/* Compressed bytes may be slightly more than the content's, because the decision
		 * used only samples. */
		remote_key(gets.keys[i], v[i]->space, &v[i]->name);
		gets.v[i] =
			(struct bucket_get){ .size = UINT64_MAX,
					     .fd = l[i].fd,
					     .hash = true,
					     .flush = !v[i]->place,
					     .max_bytes = size == UINT64_MAX
								  ? CONTENT_BLOB_MAX
								  : size + size / 64 + 64 * KIB };
	}
	if (got == 0)
		got = remote_gets_run(f->r, &gets, err);
	for (size_t i = 0; i < n; i++) {
		const struct bucket_get *g = &gets.v[i];

		if (got == 0 && g->result == 0)
			got = accept_file(f,
					  &(struct fetched){ v[i], BAD_ALONE, &l[i], g,
							     str_eq(g->encoding, "zstd") },
					  err);
		else if (got == 0 && (g->err.code == ERR_NOT_FOUND || g->err.code == ERR_TOO_LARGE))
			presence_lost(f->r, STORE_BLOB, &v[i]->name);
		else if (got == 0)
			got = err_pass(err, &g->err);
		target_drop(f, &l[i]);
	}
	remote_gets_deinit(&gets);
	free(l);
	return got;
}

/* All. */

static void sort_out(struct fetcher *f, struct remote_object *v, size_t n)
{
	pthread_mutex_lock(&f->r->lock);
	for (size_t i = 0; i < n; i++) {
		const struct remote_object any = { .space = v[i].space,
						   .name = v[i].name,
						   .size = UINT64_MAX };
		struct item it = { .o = &v[i] };

		if (v[i].there)
			continue;
		if (v[i].space <= STORE_TREE &&
		    presence_find_locked(f->r, &any, true, &it.pack, &it.m))
			VEC_PUSH(&f->packed, it);
		else if (v[i].space > STORE_TREE)
			VEC_PUSH(&f->small, &v[i]);
		else if (v[i].space == STORE_BLOB && v[i].size >= REMOTE_LOOSE_MIN)
			VEC_PUSH(&f->large, &v[i]);
	}
	pthread_mutex_unlock(&f->r->lock);
}

static int fetch_all(struct fetcher *f, struct remote_object *v, size_t n, struct err *err)
{
	int got;

	f->packed.n = f->small.n = f->large.n = 0;
	sort_out(f, v, n);
	got = fetch_packed(f, err);
	if (got == 0)
		got = in_batches(f, f->small.n, BATCH_OBJECTS, fetch_small, err);
	return got == 0 ? in_batches(f, f->large.n, FILES_AT_ONCE, fetch_large, err) : got;
}

static bool lacks_content(const struct remote_object *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!v[i].there && v[i].space <= STORE_TREE)
			return true;
	return false;
}

int remote_fetch(struct remote *r, struct store *to, struct remote_object *v, size_t n,
		 struct err *err)
{
	struct fetcher f = { .r = r, .to = to };
	bool again = false;
	uint64_t damaged, seen;
	int got;

	if (remote_attach(r, err) < 0)
		return -1;
	damaged = r->damaged;
	for (size_t i = 0; i < n; i++)
		v[i].there = false;
	seen = presence_lists(r);
	got = fetch_all(&f, v, n, err);
	for (int tries = 0; tries < 2 && got == 0; tries++) {
		again = false;
		if (lacks_content(v, n))
			got = presence_refresh_if_old(r, seen, &again, err);
		if (got < 0 ||
		    (!again && r->damaged == damaged)) /* retry: another copy may be intact */
			break;
		damaged = r->damaged;
		seen = presence_lists(r);
		got = fetch_all(&f, v, n, err);
	}
	VEC_FREE(&f.packed);
	VEC_FREE(&f.small);
	VEC_FREE(&f.large);
	return got < 0 ? err_wrap(err, "fetching from %s", remote_uri(r)) : 0;
}

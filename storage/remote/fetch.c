/* Fetching: from packs by ranges, neighbours together; what lies alone by its name. Everything is verified before it gets a name in the local store.
 *
 * One batch takes at most BATCH_BYTES of memory, whatever is asked for; large blobs go through files.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include "base/fs.h"
#include "storage/remote/internal.h"

/* A hole of so many bytes between two members is fetched along: it costs less than another request. */
#define HOLE_MAX (128 * KIB)
#define RANGE_MAX (8 * MIB)
#define BATCH_BYTES (32 * MIB)
#define BATCH_OBJECTS 1024
#define FILES_AT_ONCE 32

struct item {
	struct remote_object *o;
	uint32_t pack;
	struct pack_member m;
};

struct fetcher {
	struct remote *r;
	struct store *to;
	VEC(struct item) packed;
	VEC(struct remote_object *) small, large; /* that lie alone, if anywhere */
};

/* Does it match its name? Then it is put. Damaged: that copy (of a pack, or the one that lies alone) isn't there. */
static int accept(struct fetcher *f, struct remote_object *o, uint32_t pack, const struct str *bytes, struct err *err)
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

/* --- packs --------------------------------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	if (x->pack != y->pack)
		return x->pack < y->pack ? -1 : 1;
	return x->m.offset < y->m.offset ? -1 : x->m.offset > y->m.offset;
}

/* A run of members that one request brings: [first, ret) */
static size_t range_end(const struct fetcher *f, size_t first, uint64_t *ret_size)
{
	const struct item *v = f->packed.v;
	uint64_t from = v[first].m.offset, end = from + v[first].m.stored;
	size_t i = first + 1;

	for (; i < f->packed.n && v[i].pack == v[first].pack && v[i].m.offset <= end + HOLE_MAX; i++) {
		if (MAX(end, v[i].m.offset + v[i].m.stored) - from > RANGE_MAX)
			break;
		end = MAX(end, v[i].m.offset + v[i].m.stored);
	}
	*ret_size = end - from;
	return i;
}

static int take_member(struct fetcher *f, struct item *it, const struct bucket_get *g, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	uint64_t at = it->m.offset - g->offset;
	struct err e = { 0 };

	if (at + it->m.stored > g->body.len || it->m.size > PACK_BYTES_MAX * 4 ||
	    pack_decode(it->m.encoding, g->body.s + at, (size_t)it->m.stored, it->m.size, &bytes, &e) < 0) {
		presence_note_bad(f->r, it->o->space, &it->o->name, it->pack);
		return 0;
	}
	return accept(f, it->o, it->pack, &bytes, err);
}

struct range {
	struct bucket_get g;
	size_t first, end;
	char key[REMOTE_KEY_MAX];
};

static int take_range(struct fetcher *f, struct range *range, struct err *err)
{
	if (range->g.result < 0 && range->g.err.code == ERR_NOT_FOUND) {
		pthread_mutex_lock(&f->r->lock);
		f->r->packs.v[f->packed.v[range->first].pack].gone = true; /* removed meanwhile: its members may lie elsewhere */
		f->r->slots_old = f->r->packs_old = true;
		pthread_mutex_unlock(&f->r->lock);
		return 0;
	}
	if (range->g.result < 0)
		return err_set(err, range->g.err.code, "%s", range->g.err.msg);
	for (size_t i = range->first; i < range->end; i++)
		if (take_member(f, &f->packed.v[i], &range->g, err) < 0)
			return -1;
	return 0;
}

static int fetch_ranges(struct fetcher *f, struct range *v, size_t n, struct err *err)
{
	struct bucket_get **gets = xcalloc(n + 1, sizeof(*gets));
	int got;

	for (size_t i = 0; i < n; i++)
		gets[i] = &v[i].g;
	got = bucket_get_many(f->r->bucket, gets, n, err);
	for (size_t i = 0; i < n; i++) {
		if (got == 0)
			got = take_range(f, &v[i], err);
		str_deinit(&v[i].g.body);
	}
	free(gets);
	return got;
}

/* A member that was too large to come alone: through a file. */
static int fetch_large_member(struct fetcher *f, struct item *it, struct err *err);

static int fetch_packed(struct fetcher *f, struct err *err)
{
	struct range *v = xcalloc(BATCH_OBJECTS, sizeof(*v));
	size_t n = 0;
	uint64_t bytes = 0;
	int got = 0;

	if (f->packed.n)
		qsort(f->packed.v, f->packed.n, sizeof(*f->packed.v), by_place);
	for (size_t i = 0; i < f->packed.n && got == 0;) {
		struct range *range = &v[n];
		uint64_t size;

		if (f->packed.v[i].m.stored > RANGE_MAX && f->packed.v[i].m.space == STORE_BLOB) {
			got = fetch_large_member(f, &f->packed.v[i++], err);
			continue;
		}
		*range = (struct range){ .first = i, .end = range_end(f, i, &size) };
		pthread_mutex_lock(&f->r->lock);
		remote_pack_key(range->key, &f->r->packs.v[f->packed.v[i].pack].name, false);
		pthread_mutex_unlock(&f->r->lock);
		range->g = (struct bucket_get){ .key = range->key, .offset = f->packed.v[i].m.offset, .size = size, .fd = -1, .max_bytes = size };
		i = range->end;
		bytes += size;
		if (++n == BATCH_OBJECTS || bytes >= BATCH_BYTES) {
			got = fetch_ranges(f, v, n, err);
			n = 0;
			bytes = 0;
		}
	}
	if (got == 0 && n)
		got = fetch_ranges(f, v, n, err);
	free(v);
	return got;
}

/* --- alone, in memory ------------------------------------------------------------------------------------------------------------ */

/* Small records, all at once. */
static int fetch_small(struct fetcher *f, struct remote_object *const *v, size_t n, struct err *err)
{
	struct bucket_get *g = xcalloc(n, sizeof(*g)), **gets = xcalloc(n, sizeof(*gets));
	char(*keys)[REMOTE_KEY_MAX] = xcalloc(n, sizeof(*keys));
	int got;

	for (size_t i = 0; i < n; i++) {
		g[i] = (struct bucket_get){ .key = remote_key(keys[i], v[i]->space, &v[i]->name), .size = UINT64_MAX, .fd = -1, .max_bytes = REMOTE_RECORD_MAX };
		gets[i] = &g[i];
	}
	got = bucket_get_many(f->r->bucket, gets, n, err);
	for (size_t i = 0; i < n; i++) {
		if (got == 0 && g[i].result < 0 && g[i].err.code != ERR_NOT_FOUND)
			got = err_set(err, g[i].err.code, "%s", g[i].err.msg);
		if (got == 0 && g[i].result == 0)
			got = accept(f, v[i], BAD_ALONE, &g[i].body, err);
		str_deinit(&g[i].body);
	}
	if (got == 0) { /* what a record names may lie in packs that are newer than our list */
		pthread_mutex_lock(&f->r->lock);
		f->r->packs_old = true;
		pthread_mutex_unlock(&f->r->lock);
	}
	free(g);
	free(gets);
	free(keys);
	return got;
}

/* --- through files ------------------------------------------------------------------------------------------------------------------ */

/* To where bytes go that are decoded first. */
static int scratch_file(struct remote *r, struct err *err)
{
	int fd = r->dir >= 0 ? openat(r->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;

	if (fd < 0)
		fd = memfd_create("cairn-fetch", MFD_CLOEXEC);
	return fd < 0 ? err_errno(err, "cannot make a temporary file") : fd;
}

/* From a file of stored bytes into the store. Takes fd. */
static int accept_file(struct fetcher *f, struct remote_object *o, uint32_t pack, int stored, bool encoded, struct err *err)
{
	_cleanup_(fd_closep) int in = stored;
	struct store *s = f->to;
	struct digest d;
	uint64_t size = 0;
	char *temp = NULL;
	int out, got;
	struct err e = { 0 };

	if (s->ops->open_temp(s, &out, &temp, err) < 0)
		return -1;
	if (encoded)
		got = decode_file(in, out, o->size != UINT64_MAX ? o->size : 1ULL << 46, &size, &e);
	else
		got = fs_copy_fd(in, out, &e);
	if (got == 0) {
		off_t end = lseek(out, 0, SEEK_END);

		size = end < 0 ? 0 : (uint64_t)end;
		got = content_hash_fd(out, size, 2, &d, &e);
	}
	if (got == 0 && !digest_eq(&d, &o->name))
		got = err_set(&e, ERR_CORRUPT, "it doesn't match its name");
	if (s->ops->publish_temp(s, out, temp, got == 0 ? &o->name : NULL, err) < 0)
		return -1;
	if (got == 0) {
		o->there = true;
		store_note_verified(s, &o->name);
		return 0;
	}
	if (e.code == ERR_CORRUPT)
		presence_note_bad(f->r, o->space, &o->name, pack);
	return e.code == ERR_CORRUPT ? 0 : err_set(err, e.code, "%s", e.msg);
}

/* A store without files takes it from memory. */
static int accept_file_in_memory(struct fetcher *f, struct remote_object *o, uint32_t pack, int stored, bool encoded, struct err *err)
{
	_cleanup_(fd_closep) int in = stored;
	_cleanup_(fd_closep) int plain = -1;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err e = { 0 };
	uint64_t size;
	char path[64];

	if (encoded) {
		plain = scratch_file(f->r, err);
		if (plain < 0)
			return -1;
		if (decode_file(in, plain, o->size != UINT64_MAX ? o->size : GIB, &size, &e) < 0) {
			presence_note_bad(f->r, o->space, &o->name, pack);
			return e.code == ERR_CORRUPT ? 0 : err_set(err, e.code, "%s", e.msg);
		}
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", encoded ? plain : in);
	return fs_read_file(path, 4 * GIB, &bytes, err) < 0 ? -1 : accept(f, o, pack, &bytes, err);
}

static int accept_any(struct fetcher *f, struct remote_object *o, uint32_t pack, int stored, bool encoded, struct err *err)
{
	return f->to->ops->open_temp ? accept_file(f, o, pack, stored, encoded, err) : accept_file_in_memory(f, o, pack, stored, encoded, err);
}

static int fetch_large_member(struct fetcher *f, struct item *it, struct err *err)
{
	char key[REMOTE_KEY_MAX];
	struct bucket_get g = { .key = key, .offset = it->m.offset, .size = it->m.stored, .fd = scratch_file(f->r, err) }, *v = &g;

	if (g.fd < 0)
		return -1;
	pthread_mutex_lock(&f->r->lock);
	remote_pack_key(key, &f->r->packs.v[it->pack].name, false);
	pthread_mutex_unlock(&f->r->lock);
	if (bucket_get_many(f->r->bucket, &v, 1, err) < 0 || g.result < 0) {
		close(g.fd);
		if (g.result < 0)
			err_set(err, g.err.code, "%s", g.err.msg);
		return g.result < 0 && g.err.code == ERR_NOT_FOUND ? 0 : -1;
	}
	it->o->size = it->m.size;
	return accept_any(f, it->o, it->pack, g.fd, it->m.encoding == PACK_ZSTD, err);
}

static int fetch_large(struct fetcher *f, struct remote_object *const *v, size_t n, struct err *err)
{
	struct bucket_get *g = xcalloc(n, sizeof(*g)), **gets = xcalloc(n, sizeof(*gets));
	char(*keys)[REMOTE_KEY_MAX] = xcalloc(n, sizeof(*keys));
	int got = 0;

	for (size_t i = 0; i < n; i++) {
		g[i] = (struct bucket_get){ .key = remote_key(keys[i], v[i]->space, &v[i]->name), .size = UINT64_MAX, .fd = got < 0 ? -1 : scratch_file(f->r, err) };
		gets[i] = &g[i];
		if (g[i].fd < 0)
			got = -1;
	}
	if (got == 0)
		got = bucket_get_many(f->r->bucket, gets, n, err);
	for (size_t i = 0; i < n; i++) {
		if (got == 0 && g[i].result < 0 && g[i].err.code != ERR_NOT_FOUND)
			got = err_set(err, g[i].err.code, "%s", g[i].err.msg);
		if (got == 0 && g[i].result == 0)
			got = accept_any(f, v[i], BAD_ALONE, TAKE_FD(g[i].fd), str_eq(g[i].encoding, "zstd"), err);
		if (g[i].fd >= 0)
			close(g[i].fd);
	}
	free(g);
	free(gets);
	free(keys);
	return got;
}

/* --- all ------------------------------------------------------------------------------------------------------------------------------ */

static void sort_out(struct fetcher *f, struct remote_object *v, size_t n)
{
	pthread_mutex_lock(&f->r->lock);
	for (size_t i = 0; i < n; i++) {
		const struct remote_object any = { .space = v[i].space, .name = v[i].name, .size = UINT64_MAX };
		struct item it = { .o = &v[i] };

		if (v[i].there)
			continue;
		if (v[i].space <= STORE_TREE && presence_find_locked(f->r, &any, true, &it.pack, &it.m))
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
	for (size_t i = 0; i < f->small.n && got == 0; i += BATCH_OBJECTS)
		got = fetch_small(f, f->small.v + i, MIN(f->small.n - i, (size_t)BATCH_OBJECTS), err);
	for (size_t i = 0; i < f->large.n && got == 0; i += FILES_AT_ONCE)
		got = fetch_large(f, f->large.v + i, MIN(f->large.n - i, (size_t)FILES_AT_ONCE), err);
	return got;
}

static bool lacks_content(const struct remote_object *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!v[i].there && v[i].space <= STORE_TREE)
			return true;
	return false;
}

int remote_fetch(struct remote *r, struct store *to, struct remote_object *v, size_t n, struct err *err)
{
	struct fetcher f = { .r = r, .to = to };
	bool again = false;
	uint64_t damaged;
	int got;

	if (remote_attach(r, err) < 0)
		return -1;
	damaged = r->damaged;
	for (size_t i = 0; i < n; i++)
		v[i].there = false;
	got = fetch_all(&f, v, n, err);
	if (got == 0 && lacks_content(v, n) && presence_refresh_if_old(r, &again, err) < 0)
		got = -1;
	if (got == 0 && (again || r->damaged != damaged)) /* another copy may be sound */
		got = fetch_all(&f, v, n, err);
	VEC_FREE(&f.packed);
	VEC_FREE(&f.small);
	VEC_FREE(&f.large);
	return got < 0 ? err_wrap(err, "fetching from %s", remote_uri(r)) : 0;
}

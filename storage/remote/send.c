/* Sending: what the bucket lacks goes up, in packs or alone; then records, then manifests. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include "base/fs.h"
#include "storage/remote/internal.h"

/* Large blobs whose files are open at once. */
#define LOOSE_AT_ONCE 64
#define RECORDS_AT_ONCE 512
/* Listings up to this size go through memory; a longer one is a directory of millions of files. */
#define MEMBER_MAX (256 * MIB)

struct sender {
	struct remote *r;
	struct store *from;
	struct remote_sent *sent;
	/* The pack that is being filled */
	struct pack_writer *w;
	VEC(struct remote_object *) in;
	uint64_t in_bytes;
};

static bool is_absent(const struct err *e)
{
	return e->code == ERR_NOT_FOUND || e->code == ERR_CORRUPT;
}

/* What the local store lacks can't be sent; that is no failure of the bucket. */
static int missing(struct sender *s, const struct err *e, struct err *err)
{
	if (!is_absent(e))
		return err_set(err, e->code, "%s", e->msg);
	s->sent->missing++;
	return 0;
}

/* --- packs ------------------------------------------------------------------------------------------------------------------ */

/* The pack, then its index: what an index names lies there. */
int remote_send_pack(struct remote *r, struct pack_writer *w, uint64_t *ret_bytes, struct err *err)
{
	_cleanup_(str_deinit) struct str index = { 0 };
	struct bucket_put p = { .content_type = "application/octet-stream" }, *v = &p;
	char key[REMOTE_KEY_MAX];
	struct digest name;

	pack_writer_finish(w, &p.fd, &p.size, &index, &name);
	p.key = remote_pack_key(key, &name, false);
	if (bucket_put_many(r->bucket, &v, 1, err) < 0 || (p.result < 0 && err_set(err, p.err.code, "%s", p.err.msg) < 0))
		return err_wrap(err, "sending a pack to %s", remote_uri(r));
	if (remote_put_bytes(r, remote_pack_key(key, &name, true), index.s, index.len, false, err) < 0)
		return err_wrap(err, "sending the index of a pack to %s", remote_uri(r));
	*ret_bytes = p.size + index.len;
	presence_add_pack(r, &name, &index);
	return 0;
}

static void drop_pack(struct sender *s)
{
	pack_writer_free(TAKE_PTR(s->w));
	s->in.n = 0;
	s->in_bytes = 0;
}

static int close_pack(struct sender *s, struct err *err)
{
	uint64_t sent = 0;
	int got = 0;

	if (s->w && pack_writer_members(s->w)) {
		got = remote_send_pack(s->r, s->w, &sent, err);
		s->sent->requests += 2;
	}
	for (size_t i = 0; i < s->in.n && got == 0; i++)
		s->in.v[i]->there = true;
	if (got == 0) {
		s->sent->sent_bytes += sent;
		s->sent->objects += s->in.n;
		s->sent->bytes += s->in_bytes;
	}
	drop_pack(s);
	return got;
}

static int room_for(struct sender *s, uint64_t n, struct err *err)
{
	if (s->w && pack_writer_is_full(s->w, n) && close_pack(s, err) < 0)
		return -1;
	return s->w ? 0 : pack_writer_new(s->r->dir, &s->w, err);
}

static int pack_small(struct sender *s, struct remote_object *o, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err e = { 0 };

	if (store_get(s->from, o->space, &o->name, MEMBER_MAX, &bytes, &e) < 0)
		return missing(s, &e, err);
	if (room_for(s, bytes.len, err) < 0)
		return -1;
	VEC_PUSH(&s->in, o);
	s->in_bytes += bytes.len;
	return pack_writer_add(s->w, o->space, &o->name, bytes.s ? bytes.s : "", bytes.len, err);
}

/* --- alone -------------------------------------------------------------------------------------------------------------------- */

/* The blob's file, checked unless this process has hashed it. 1: it isn't there. */
static int open_sound(struct sender *s, const struct remote_object *o, int *ret_fd, uint64_t *ret_size, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct err e = { 0 };
	struct digest d;

	if (s->from->ops->open(s->from, &o->name, &fd, ret_size, &e) < 0)
		return missing(s, &e, err) < 0 ? -1 : 1;
	if (!o->sound && !store_is_verified(s->from, &o->name)) {
		if (content_hash_fd(fd, *ret_size, 1, &d, err) < 0)
			return -1;
		if (!digest_eq(&d, &o->name)) {
			store_damaged(s->from, STORE_BLOB, &o->name, &e);
			return missing(s, &e, err) < 0 ? -1 : 1;
		}
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* A large blob whose own name is condemned goes up under a new one: as a pack of one. */
static int pack_large(struct sender *s, struct remote_object *o, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	uint64_t size;
	int got = open_sound(s, o, &fd, &size, err);

	if (got)
		return got < 0 ? -1 : 0;
	if (room_for(s, size, err) < 0 || pack_writer_add_fd(s->w, STORE_BLOB, &o->name, fd, size, err) < 0)
		return -1;
	VEC_PUSH(&s->in, o);
	s->in_bytes += size;
	return 0;
}

struct loose {
	struct bucket_put p;
	struct remote_object *o;
	char key[REMOTE_KEY_MAX];
	uint64_t size; /* of the content */
};

static int encode_loose(struct sender *s, struct loose *l, struct err *err)
{
	_cleanup_(fd_closep) int to = -1;
	uint64_t stored;

	if (!encode_pays_fd(l->p.fd, l->size))
		return 0;
	to = s->r->dir >= 0 ? openat(s->r->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
	if (to < 0)
		to = memfd_create("cairn-zstd", MFD_CLOEXEC);
	if (to < 0)
		return err_errno(err, "cannot make a temporary file");
	if (encode_file(l->p.fd, l->size, to, &stored, err) < 0)
		return -1;
	close(l->p.fd);
	l->p.fd = TAKE_FD(to);
	l->p.size = stored;
	l->p.encoding = "zstd";
	return 0;
}

static int prepare_loose(struct sender *s, struct loose *l, struct remote_object *o, struct err *err)
{
	int got;

	l->p = (struct bucket_put){ .key = remote_key(l->key, o->space, &o->name), .fd = -1, .if_absent = s->r->if_absent };
	l->o = o;
	got = open_sound(s, o, &l->p.fd, &l->size, err);
	l->p.size = l->size;
	return got ? got : encode_loose(s, l, err);
}

static int sent_loose(struct sender *s, struct loose *l, struct err *err)
{
	s->sent->requests++;
	if (l->p.result < 0)
		return err_set(err, l->p.err.code, "%s", l->p.err.msg);
	l->o->there = true;
	presence_note(s->r, l->o->space, &l->o->name);
	s->sent->objects += l->p.result == 0;
	s->sent->skipped += l->p.result == 1;
	s->sent->bytes += l->p.result == 0 ? l->size : 0;
	s->sent->sent_bytes += l->p.result == 0 ? l->p.size : 0;
	return 0;
}

/* Each that arrived counts, also when others fail. */
static int send_loose(struct sender *s, struct remote_object *const *v, size_t n, struct err *err)
{
	struct loose *l = xcalloc(n, sizeof(*l));
	struct bucket_put **puts = xcalloc(n, sizeof(*puts));
	size_t m = 0;
	int got = 0;

	for (size_t i = 0; i < n && got >= 0; i++) {
		got = prepare_loose(s, &l[m], v[i], err);
		if (got == 0) {
			puts[m] = &l[m].p;
			m++;
		}
	}
	got = got < 0 ? -1 : 0;
	if (got == 0 && m && (got = bucket_put_many(s->r->bucket, puts, m, err)) == 0)
		for (size_t i = 0; i < m; i++)
			if (sent_loose(s, &l[i], got == 0 ? err : NULL) < 0)
				got = -1;
	for (size_t i = 0; i < n; i++)
		if (l[i].o && l[i].p.fd >= 0)
			close(l[i].p.fd);
	free(l);
	free(puts);
	return got < 0 ? err_wrap(err, "sending to %s", remote_uri(s->r)) : 0;
}

/* --- records ------------------------------------------------------------------------------------------------------------------ */

struct record {
	struct bucket_put p;
	struct remote_object *o;
	char key[REMOTE_KEY_MAX];
	struct str bytes;
};

/* A condemned record is written over, so that it is young again. */
static int read_record(struct sender *s, struct record *rec, struct remote_object *o, struct err *err)
{
	struct err e = { 0 };
	bool condemned;

	if (store_get(s->from, o->space, &o->name, REMOTE_RECORD_MAX, &rec->bytes, &e) < 0)
		return missing(s, &e, err) < 0 ? -1 : 1;
	pthread_mutex_lock(&s->r->lock);
	condemned = presence_is_condemned_locked(s->r, remote_kind_of(o->space), &o->name);
	pthread_mutex_unlock(&s->r->lock);
	rec->o = o;
	rec->p = (struct bucket_put){ .key = remote_key(rec->key, o->space, &o->name), .bytes = rec->bytes.s ? rec->bytes.s : "", .fd = -1, .size = rec->bytes.len,
				      .if_absent = s->r->if_absent && !condemned && !o->replace };
	return 0;
}

static int sent_record(struct sender *s, struct record *rec, struct err *err)
{
	s->sent->requests++;
	if (rec->p.result < 0)
		return err_set(err, rec->p.err.code, "%s", rec->p.err.msg);
	rec->o->there = true;
	presence_note(s->r, rec->o->space, &rec->o->name);
	s->sent->objects += rec->p.result == 0;
	s->sent->skipped += rec->p.result == 1;
	s->sent->bytes += rec->p.result == 0 ? rec->p.size : 0;
	s->sent->sent_bytes += rec->p.result == 0 ? rec->p.size : 0;
	return 0;
}

static int send_records(struct sender *s, struct remote_object *const *v, size_t n, struct err *err)
{
	struct record *recs = xcalloc(n, sizeof(*recs));
	struct bucket_put **puts = xcalloc(n, sizeof(*puts));
	size_t m = 0;
	int got = 0;

	for (size_t i = 0; i < n && got >= 0; i++) {
		got = read_record(s, &recs[m], v[i], err);
		if (got == 0) {
			puts[m] = &recs[m].p;
			m++;
		}
	}
	got = got < 0 ? -1 : 0;
	if (got == 0 && m && (got = bucket_put_many(s->r->bucket, puts, m, err)) == 0)
		for (size_t i = 0; i < m; i++)
			if (sent_record(s, &recs[i], got == 0 ? err : NULL) < 0)
				got = -1;
	for (size_t i = 0; i < n; i++)
		str_deinit(&recs[i].bytes);
	free(recs);
	free(puts);
	return got < 0 ? err_wrap(err, "sending records to %s", remote_uri(s->r)) : 0;
}

/* --- all ------------------------------------------------------------------------------------------------------------------------ */

typedef VEC(struct remote_object *) object_list;

static int in_batches(struct sender *s, const object_list *l, size_t at_once, int (*fn)(struct sender *s, struct remote_object *const *v, size_t n, struct err *err),
		      struct err *err)
{
	for (size_t i = 0; i < l->n; i += at_once)
		if (fn(s, l->v + i, MIN(at_once, l->n - i), err) < 0)
			return -1;
	return 0;
}

/* Large ones alone, in parallel; small ones and those whose name can't be used in packs. */
static int send_contents(struct sender *s, struct remote_object *v, size_t n, struct err *err)
{
	object_list alone = { 0 };
	int got = 0;

	for (size_t i = 0; i < n && got == 0; i++) {
		bool large = v[i].space == STORE_BLOB && v[i].size != UINT64_MAX && v[i].size >= REMOTE_LOOSE_MIN, condemned;

		if (v[i].there || v[i].space > STORE_TREE)
			continue;
		pthread_mutex_lock(&s->r->lock);
		condemned = presence_is_condemned_locked(s->r, KIND_BLOB, &v[i].name);
		pthread_mutex_unlock(&s->r->lock);
		if (!large)
			got = pack_small(s, &v[i], err);
		else if (condemned)
			got = pack_large(s, &v[i], err);
		else
			VEC_PUSH(&alone, &v[i]);
	}
	if (got == 0)
		got = close_pack(s, err);
	if (got == 0)
		got = in_batches(s, &alone, LOOSE_AT_ONCE, send_loose, err);
	VEC_FREE(&alone);
	return got;
}

static int send_space(struct sender *s, enum store_space space, struct remote_object *v, size_t n, struct err *err)
{
	object_list l = { 0 };
	int got;

	for (size_t i = 0; i < n; i++)
		if (v[i].space == space && !v[i].there)
			VEC_PUSH(&l, &v[i]);
	got = in_batches(s, &l, RECORDS_AT_ONCE, send_records, err);
	VEC_FREE(&l);
	return got;
}

/* Records aren't asked for: putting them asks. */
static int ask_contents(struct sender *s, struct remote_object *v, size_t n, struct err *err)
{
	struct remote_object *contents = xcalloc(n + 1, sizeof(*contents));
	size_t m = 0, at = 0;
	int got = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].space <= STORE_TREE)
			contents[m++] = v[i];
	if (m)
		got = remote_has(s->r, contents, m, err);
	for (size_t i = 0; i < n && got == 0; i++) {
		v[i].there = v[i].space <= STORE_TREE && contents[at++].there;
		s->sent->skipped += v[i].there;
	}
	free(contents);
	return got;
}

int remote_send(struct remote *r, struct store *from, struct remote_object *v, size_t n, struct remote_sent *ret, struct err *err)
{
	struct sender s = { .r = r, .from = from, .sent = ret };
	int got;

	if (remote_attach(r, err) < 0)
		return -1;
	if (!r->o.writes)
		return r->refused.code ? err_set(err, r->refused.code, "%s", r->refused.msg) : err_set(err, ERR_READ_ONLY, "%s is used read-only", remote_uri(r));
	got = ask_contents(&s, v, n, err);
	if (got == 0)
		got = send_contents(&s, v, n, err);
	/* This machine may have slept since the bucket was asked. */
	if (got == 0 && !lease_is_good(r))
		got = err_set(err, ERR_CHANGED, "the lease in %s lapsed while contents were sent; they are sent again", remote_uri(r));
	if (got == 0)
		got = send_space(&s, STORE_ACTION, v, n, err);
	if (got == 0)
		got = send_space(&s, STORE_RUN, v, n, err);
	drop_pack(&s);
	VEC_FREE(&s.in);
	return got;
}

/* storage/remote/send.c — sends what the bucket lacks: contents (in packs or as separate objects),
 * then records, then manifests, then changes of names.
 *
 * A small content goes into the pack that is being filled; while a thread sends one pack, the next
 * is filled. A large blob is a separate object under its name: batches of LOOSE_AT_ONCE on THREADS
 * threads, so that some are sent while others are hashed and compressed. A large blob whose name is
 * condemned gets a pack of its own.
 *
 * `hold` is the lease under which we checked what the bucket has. The index of a pack, and every
 * record, is written only while that lease holds (`may`); when it lapsed, the call fails with
 * ERR_CHANGED and the caller starts again. Records are sent only if all contents before them
 * arrived. A change of a name needs no content.
 *
 * Bytes are hashed before they are sent, unless this process has hashed them already. Objects that
 * the local store lacks count as missing; that is no error. `lock` guards the counters while
 * threads run. transfer.c and tier_queue.c decide what to send.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include "base/os/fs.h"
#include "base/os/thread.h"
#include "storage/bucket/transfer.h"
#include "storage/remote/internal.h"

/* Large blobs per batch, whose files are open at once; batches at once. */
#define LOOSE_AT_ONCE   32
#define THREADS         2
#define RECORDS_AT_ONCE 512

/* A pack and what is in it. */
struct pending_pack {
	struct pack_writer *w;
	VEC(struct remote_object *) in;
	uint64_t in_bytes;
};

struct sender {
	struct remote *r;
	struct store *from;
	struct lease_hold hold;
	pthread_mutex_t lock; /* guards the counters */
	struct remote_sent *sent;
	struct pending_pack filling, sending; /* sending: owned by the thread until it is joined */
	pthread_t thread;
	bool has_thread;
	struct {
		int result;
		uint64_t bytes;
		struct err err;
	} pack; /* the thread's answer */
};

/* Objects that the local store lacks can't be sent, but that is no failure of the bucket. */
static int missing(struct sender *s, const struct err *e, struct err *err)
{
	if (e->code != ERR_NOT_FOUND && e->code != ERR_CORRUPT)
		return err_pass(err, e);
	pthread_mutex_lock(&s->lock);
	s->sent->missing++;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

/* Counts a separate object that was sent. Hold the lock if other threads send too. `size`: of the
 * content. */
static int count_put(struct sender *s, const struct bucket_put *p, struct remote_object *o,
		     uint64_t size, struct err *err)
{
	s->sent->requests++;
	if (p->result < 0)
		return err_pass(err, &p->err);
	o->there = true;
	presence_note(s->r, o->space, &o->name);
	s->sent->objects += p->result == 0;
	s->sent->skipped += p->result == 1;
	s->sent->bytes += p->result == 0 ? size : 0;
	s->sent->sent_bytes += p->result == 0 ? p->size : 0;
	return 0;
}

/* Packs. */

/* The pack before its index, so that what an index names exists. */
int remote_send_pack(struct remote *r, struct pack_writer *w, uint64_t *ret_bytes, struct err *err)
{
	_cleanup_(str_deinit) struct str index = { 0 };
	struct bucket_put p = { .content_type = "application/octet-stream" };
	struct lease_hold hold = lease_hold(r);
	char key[REMOTE_KEY_MAX];
	struct digest name;

	assert(pack_writer_members(w) > 0);
	pack_writer_finish(w, &p.fd, &p.size, &index, &name);
	p.key = remote_pack_key(key, &name, false);
	if (bucket_put(r->bucket, &p, err) < 0)
		return err_wrap(err, "sending a pack to %s", remote_uri(r));
	*ret_bytes = p.size + index.len;
	p = (struct bucket_put){ .key = remote_pack_key(key, &name, true),
				 .bytes = index.s,
				 .fd = -1,
				 .size = index.len,
				 .may = lease_holds,
				 .may_arg = &hold };
	if (bucket_put(r->bucket, &p, err) < 0)
		return err_wrap(err, "sending the index of a pack to %s", remote_uri(r));
	presence_add_pack(r, &name, &index);
	return 0;
}

static void pending_pack_deinit(struct pending_pack *p)
{
	pack_writer_free(p->w);
	VEC_FREE(&p->in);
	*p = (struct pending_pack){ 0 };
}

static void *send_pack(void *arg)
{
	struct sender *s = arg;

	s->pack.result = remote_send_pack(s->r, s->sending.w, &s->pack.bytes, &s->pack.err);
	return NULL;
}

/* Waits for the pack that is being sent. When this returns 0, its members have arrived. */
static int await_pack(struct sender *s, struct err *err)
{
	if (!s->sending.w)
		return 0;
	if (s->has_thread)
		pthread_join(s->thread, NULL);
	s->has_thread = false;
	s->sent->requests += 2;
	for (size_t i = 0; i < s->sending.in.n && s->pack.result == 0; i++)
		s->sending.in.v[i]->there = true;
	if (s->pack.result == 0) {
		s->sent->sent_bytes += s->pack.bytes;
		s->sent->objects += s->sending.in.n;
		s->sent->bytes += s->sending.in_bytes;
	}
	pending_pack_deinit(&s->sending);
	return s->pack.result < 0 ? err_pass(err, &s->pack.err) : 0;
}

/* Sends the filled pack, after the previous pack has arrived. */
static int close_pack(struct sender *s, struct err *err)
{
	if (await_pack(s, err) < 0)
		return -1;
	if (!s->filling.w)
		return 0;
	s->sending = s->filling;
	s->filling = (struct pending_pack){ 0 };
	s->has_thread = thread_start(&s->thread, NULL, send_pack, s) == 0;
	if (!s->has_thread)
		send_pack(s);
	return 0;
}

static int room_for(struct sender *s, uint64_t n, struct err *err)
{
	if (s->filling.w && pack_writer_is_full(s->filling.w, n) && close_pack(s, err) < 0)
		return -1;
	return s->filling.w ? 0 : pack_writer_new(s->r->dir, &s->filling.w, err);
}

/* Call after the member was written, because a pack without members isn't sent. */
static void note_packed(struct sender *s, struct remote_object *o, uint64_t n)
{
	VEC_PUSH(&s->filling.in, o);
	s->filling.in_bytes += n;
}

static int pack_small(struct sender *s, struct remote_object *o, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err e = { 0 };

	if (store_get(s->from, o->space, &o->name, TREE_LISTING_MAX, &bytes, &e) < 0)
		return missing(s, &e, err);
	if (room_for(s, bytes.len, err) < 0 ||
	    pack_writer_add(s->filling.w, o->space, &o->name, bytes.s ? bytes.s : "", bytes.len,
			    err) < 0)
		return -1;
	note_packed(s, o, bytes.len);
	return 0;
}

/* Separate blobs. */

/* Opens the blob's file, and checks it unless this process has hashed it. 1: absent. */
static int open_verified(struct sender *s, const struct remote_object *o, int *ret_fd,
			 uint64_t *ret_size, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct err e = { 0 };
	struct digest d;

	if (s->from->ops->open(s->from, &o->name, o->size, &fd, ret_size, &e) < 0)
		return missing(s, &e, err) < 0 ? -1 : 1;
	if (!o->verified && !store_is_verified(s->from, &o->name)) {
		if (content_hash_fd(fd, *ret_size, THREADS, &d, err) < 0)
			return -1;
		if (!digest_eq(&d, &o->name)) {
			store_damaged(s->from, STORE_BLOB, &o->name, &e);
			return missing(s, &e, err) < 0 ? -1 : 1;
		}
	}
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* Sends a large blob whose name is condemned under a new name, as the only member of a pack. The
 * pack has no small members, so a collector that moves small members never loads the large one. */
static int pack_large(struct sender *s, struct remote_object *o, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	uint64_t size;
	int got = open_verified(s, o, &fd, &size, err);

	if (got)
		return got < 0 ? -1 : 0;
	if ((s->filling.in.n && close_pack(s, err) < 0) || room_for(s, size, err) < 0 ||
	    pack_writer_add_fd(s->filling.w, STORE_BLOB, &o->name, fd, size, err) < 0)
		return -1;
	note_packed(s, o, size);
	return close_pack(s, err);
}

/* An object that is sent under its own name: a blob's file, or a record's bytes. */
struct outgoing {
	struct bucket_put p;
	struct remote_object *o;
	char key[REMOTE_KEY_MAX];
	uint64_t size; /* of the content */
	struct str bytes;
};
/* 1: the local store lacks it. */
typedef int prepare_fn(struct sender *s, struct outgoing *out, struct remote_object *o,
		       struct err *err);

static int encode_loose(struct sender *s, struct outgoing *l, struct err *err)
{
	_cleanup_(fd_closep) int to = -1;
	uint64_t stored;

	if (!pack_encode_pays(l->p.fd, l->size))
		return 0;
	to = fs_unnamed_at(s->r->dir, ".", err);
	if (to < 0 || pack_encode_file(l->p.fd, l->size, to, &stored, err) < 0)
		return -1;
	close(l->p.fd);
	l->p.fd = TAKE_FD(to);
	l->p.size = stored;
	l->p.encoding = "zstd";
	return 0;
}

static int prepare_loose(struct sender *s, struct outgoing *l, struct remote_object *o,
			 struct err *err)
{
	int got;

	l->p = (struct bucket_put){ .key = remote_key(l->key, o->space, &o->name),
				    .fd = -1,
				    .if_absent = s->r->if_absent };
	l->o = o;
	got = open_verified(s, o, &l->p.fd, &l->size, err);
	l->p.size = l->size;
	return got ? got : encode_loose(s, l, err);
}

/* Records. */

/* A condemned record is overwritten, so that it is young again. */
static int prepare_record(struct sender *s, struct outgoing *rec, struct remote_object *o,
			  struct err *err)
{
	struct err e = { 0 };
	bool condemned;

	if (store_get(s->from, o->space, &o->name, REMOTE_RECORD_MAX, &rec->bytes, &e) < 0)
		return missing(s, &e, err) < 0 ? -1 : 1;
	pthread_mutex_lock(&s->r->lock);
	condemned = presence_is_unusable_locked(s->r, o->space, &o->name);
	pthread_mutex_unlock(&s->r->lock);
	rec->o = o;
	rec->size = rec->bytes.len;
	rec->p = (struct bucket_put){ .key = remote_key(rec->key, o->space, &o->name),
				      .bytes = rec->bytes.s ? rec->bytes.s : "",
				      .fd = -1,
				      .size = rec->bytes.len,
				      .if_absent = s->r->if_absent && !condemned && !o->replace,
				      .may = lease_holds,
				      .may_arg = &s->hold };
	return 0;
}

/* All. */

/* Sends one batch. Counts each that arrived, even if others fail. */
static int send_batch(struct sender *s, prepare_fn *prepare, struct remote_object *const *v,
		      size_t n, struct err *err)
{
	struct outgoing *out = xcalloc(n, sizeof(*out));
	struct bucket_put **puts = xcalloc(n, sizeof(*puts));
	size_t m = 0;
	int got = 0;

	for (size_t i = 0; i < n && got >= 0; i++) {
		got = prepare(s, &out[m], v[i], err);
		if (got == 0) {
			puts[m] = &out[m].p;
			m++;
		}
	}
	got = got < 0 ? -1 : 0;
	if (got == 0 && m)
		got = bucket_put_many(s->r->bucket, puts, m, err);
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0, sent = got == 0 ? m : 0; i < sent; i++)
		if (count_put(s, &out[i].p, out[i].o, out[i].size, got == 0 ? err : NULL) < 0)
			got = -1;
	pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < n; i++) {
		if (out[i].o && out[i].p.fd >= 0)
			close(out[i].p.fd);
		str_deinit(&out[i].bytes);
	}
	free(out);
	free(puts);
	return got < 0 ? err_wrap(err, "sending to %s", remote_uri(s->r)) : 0;
}

struct loose_batches {
	struct sender *s;
	struct remote_object *const *v;
	size_t n;
};

static int send_loose(void *arg, size_t i, struct err *err)
{
	struct loose_batches *c = arg;

	return send_batch(c->s, prepare_loose, c->v + i * LOOSE_AT_ONCE,
			  MIN((size_t)LOOSE_AT_ONCE, c->n - i * LOOSE_AT_ONCE), err);
}

/* Large blobs as separate objects, in parallel. Small ones, and those whose name can't be used, in
 * packs. */
static int send_contents(struct sender *s, struct remote_object *v, size_t n, struct err *err)
{
	VEC(struct remote_object *) alone = { 0 };
	struct loose_batches c = { .s = s };
	int got = 0;

	for (size_t i = 0; i < n && got == 0; i++) {
		struct remote_object *o = &v[i];
		bool unusable;
		int fd;

		if (o->there || o->space > STORE_TREE)
			continue;
		/* The size decides how a blob is sent, but not every caller knows it. */
		if (o->space == STORE_BLOB && o->size == UINT64_MAX &&
		    s->from->ops->open(s->from, &o->name, UINT64_MAX, &fd, &o->size, NULL) == 0)
			close(fd);
		pthread_mutex_lock(&s->r->lock);
		unusable = presence_is_unusable_locked(s->r, o->space, &o->name);
		pthread_mutex_unlock(&s->r->lock);
		if (o->space == STORE_TREE || o->size == UINT64_MAX || o->size < REMOTE_LOOSE_MIN)
			got = pack_small(s, o, err);
		else if (unusable)
			got = pack_large(s, o, err);
		else
			VEC_PUSH(&alone, o);
	}
	if (got == 0)
		got = close_pack(s, err);
	if (got == 0)
		got = await_pack(s, err);
	c.v = alone.v;
	c.n = alone.n;
	if (got == 0)
		got = work_each(THREADS, (c.n + LOOSE_AT_ONCE - 1) / LOOSE_AT_ONCE, false,
				send_loose, &c, err);
	VEC_FREE(&alone);
	return got;
}

/* Sends the records of one space in batches. */
static int send_space(struct sender *s, enum store_space space, struct remote_object *v, size_t n,
		      struct err *err)
{
	VEC(struct remote_object *) l = { 0 };
	int got = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].space == space && !v[i].there)
			VEC_PUSH(&l, &v[i]);
	for (size_t i = 0; i < l.n && got == 0; i += RECORDS_AT_ONCE)
		got = send_batch(s, prepare_record, l.v + i, MIN((size_t)RECORDS_AT_ONCE, l.n - i),
				 err);
	VEC_FREE(&l);
	return got;
}

/* For fewer objects, sending some for nothing costs less than a new listing of packs. */
#define WORTH_A_LIST 64

/* Tells whether all that the bucket lacks can be sent from here. What can't may be in newer packs
 * there. */
static bool can_send(struct sender *s, const struct remote_object *v, size_t n)
{
	size_t lacks = 0;

	for (size_t i = 0; i < n; i++) {
		bool here = false;

		if (v[i].there)
			continue;
		if (++lacks > WORTH_A_LIST ||
		    store_has_object(s->from, v[i].space, &v[i].name, v[i].size, &here, NULL) < 0 ||
		    !here)
			return false;
	}
	return true;
}

/* Only contents are checked: putting a record checks by itself. */
static int ask_contents(struct sender *s, struct remote_object *v, size_t n, struct err *err)
{
	struct remote_object *contents = xcalloc(n + 1, sizeof(*contents));
	size_t m = 0, at = 0;
	int got = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].space <= STORE_TREE)
			contents[m++] = v[i];
	if (m)
		got = remote_has_as_listed(s->r, contents, m, err);
	if (got == 0 && !can_send(s, contents, m))
		got = remote_has(s->r, contents, m, err);
	for (size_t i = 0; i < n && got == 0; i++) {
		v[i].there = v[i].space <= STORE_TREE && contents[at++].there;
		s->sent->skipped += v[i].there;
	}
	free(contents);
	return got;
}

int remote_send(struct remote *r, struct store *from, struct remote_object *v, size_t n,
		struct remote_sent *ret, struct err *err)
{
	struct sender s = { .r = r, .from = from, .sent = ret, .lock = PTHREAD_MUTEX_INITIALIZER };
	bool whole;
	int got;

	if (remote_attach(r, err) < 0)
		return -1;
	s.hold = lease_hold(r);
	if (!r->o.writes)
		return r->refused.code
			       ? err_pass(err, &r->refused)
			       : err_set(err, ERR_READ_ONLY, "%s is used read-only", remote_uri(r));
	got = ask_contents(&s, v, n, err);
	if (got == 0)
		got = send_contents(&s, v, n, err);
	/* This machine may have slept since we checked the bucket. */
	if (got == 0 && !lease_holds(&s.hold))
		got = err_set(err, ERR_CHANGED,
			      "the lease in %s lapsed while contents were sent (did this machine "
			      "sleep?); send them again: `cairn store push`",
			      remote_uri(r));
	/* A record may name content that is missing here too. */
	whole = got == 0;
	for (size_t i = 0; i < n; i++)
		whole &= v[i].space > STORE_TREE || v[i].there;
	if (whole)
		got = send_space(&s, STORE_ACTION, v, n, err);
	if (whole && got == 0)
		got = send_space(&s, STORE_RUN, v, n, err);
	if (got == 0)
		got = send_space(&s, STORE_TAG, v, n, err);
	await_pack(&s, NULL);
	pending_pack_deinit(&s.filling);
	return got;
}

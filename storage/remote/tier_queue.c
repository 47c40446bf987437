/* storage/remote/tier_queue.c — the queue of objects that a directory in front of a bucket must
 * send, and sending them.
 *
 * Objects that are put, or that a put finds in the directory, are queued (`objects`) until the next
 * sync. The sync checks in one batch what the bucket lacks, and sends it. So a manifest or action
 * record that arrives there never names missing content.
 *
 * A process that puts a record has put what it names, or seen it in the bucket. What was seen is
 * certain only while that lease holds. After a lease has lapsed in this process, or when content of
 * the queue is gone, each record is sent only after a check that the bucket has all that it names.
 * A record that lacks something is held back, and store_unsent() counts it.
 *
 * The queue never shrinks: an object that arrived stays in it as `there`, so that it is checked and
 * sent again when the lease lapses. transfer.c sends what ended processes left.
 */
#include <assert.h>
#include "storage/remote/evict.h"
#include "storage/remote/tier_internal.h"

/* Gives up when leases lapse this often during a send. */
#define LAPSES_MAX 3

void tier_enqueue(struct tier *t, const struct remote_object *o)
{
	uint8_t key[NAME_LEN];
	void **slot;

	assert(!o->there);
	if (!t->writes)
		return;
	remote_name_key(key, o->space, &o->name);
	pthread_mutex_lock(&t->base.lock);
	slot = map_slot(t->index, key, NAME_LEN, NULL);
	if (!*slot) {
		VEC_PUSH(&t->objects, *o);
		*slot = (void *)(uintptr_t)t->objects.n;
		t->n_unsent++;
		t->added_bytes += o->verified && o->size != UINT64_MAX ? o->size : 0;
	} else if (o->replace) {
		struct remote_object *old = &t->objects.v[(uintptr_t)*slot - 1];

		t->n_unsent += old->there;
		old->there = false;
		old->replace = true;
		old->again++;
	}
	pthread_mutex_unlock(&t->base.lock);
}

static struct remote_object *take_queue(struct tier *t, size_t *ret_n)
{
	struct remote_object *v;
	size_t n = 0;

	pthread_mutex_lock(&t->base.lock);
	v = xcalloc(t->n_unsent + 1, sizeof(*v));
	for (size_t i = 0; i < t->objects.n && n < t->n_unsent; i++)
		if (!t->objects.v[i].there)
			v[n++] = t->objects.v[i];
	pthread_mutex_unlock(&t->base.lock);
	*ret_n = n;
	return v;
}

/* Notes which objects arrived. One that was put again since the queue was taken has other bytes,
 * and stays in it. `held`: how many records didn't arrive. */
static void settle(struct tier *t, const struct remote_object *v, size_t n, size_t held)
{
	pthread_mutex_lock(&t->base.lock);
	for (size_t i = 0; i < n; i++) {
		uint8_t key[NAME_LEN];
		struct remote_object *o;

		remote_name_key(key, v[i].space, &v[i].name);
		o = &t->objects.v[(uintptr_t)map_get(t->index, key, NAME_LEN) - 1];
		if (!v[i].there || o->there || o->again != v[i].again)
			continue;
		o->there = true;
		o->replace = false;
		t->n_unsent--;
	}
	t->n_held = held;
	pthread_mutex_unlock(&t->base.lock);
}

static size_t records_unsent(const struct remote_object *v, size_t n)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++)
		m += v[i].space > STORE_TREE && !v[i].there;
	return m;
}

/* Sends contents first, then the records whose contents are all there. A change of a name needs no
 * content. */
static int send_carefully(struct tier *t, struct remote_object *v, size_t n,
			  struct remote_sent *sent, struct err *err)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].space <= STORE_TREE || v[i].space == STORE_TAG) {
			struct remote_object o = v[i];

			v[i] = v[m];
			v[m++] = o;
		}
	if (remote_send(t->remote, t->local, v, m, sent, err) < 0)
		return -1;
	return transfer_send_whole(&t->base, t->names, v + m, n - m, sent, err);
}

static int send_queue(struct tier *t, struct err *err)
{
	struct remote_sent sent = { 0 }; /* not reported */
	struct remote_object *v;
	size_t n, held;
	int r = 0;

	if (remote_attach(t->remote, err) < 0 || remote_renew(t->remote, err) < 0)
		return -1;
	/* The lease is a new one, perhaps from an attempt that failed afterwards. So objects that
	 * were in the bucket may be gone. */
	if (lease_number(t->remote) != t->lease) {
		t->lease = lease_number(t->remote);
		t->lapsed = t->lease > 1;
		pthread_mutex_lock(&t->base.lock);
		for (size_t i = 0; i < t->objects.n; i++)
			t->objects.v[i].there = false;
		t->n_unsent = t->objects.n;
		pthread_mutex_unlock(&t->base.lock);
	}
	v = take_queue(t, &n);
	if (n && !t->lapsed)
		r = remote_send(t->remote, t->local, v, n, &sent, err);
	held = records_unsent(v, n);
	if (r == 0 && n &&
	    (t->lapsed || held)) { /* after a lapse also when the queue has no records */
		r = send_carefully(t, v, n, &sent, err);
		held = records_unsent(v, n);
	}
	settle(t, v, n, held);
	free(v);
	return r;
}

/* Scans the directory the first time (a reader: if it has fetched something), and when it has grown
 * by a twentieth of its limit. What can't be evicted now is evicted later. */
static void bound(struct tier *t)
{
	struct evicted res;
	bool due;

	if (!t->cache_max || !t->user)
		return;
	pthread_mutex_lock(&t->base.lock);
	due = t->was_scanned ? t->added_bytes >= t->cache_max / 20
			     : t->writes || t->added_bytes > 0;
	if (due) {
		t->was_scanned = true;
		t->added_bytes = 0;
	}
	pthread_mutex_unlock(&t->base.lock);
	if (due)
		evict(t->local, t->local->uri, t->remote, t->cache_max, &res, NULL);
}

/* The queue may have grown since it was taken. */
static void clear_unsent(struct tier *t, bool taken_over)
{
	pthread_mutex_lock(&t->base.lock);
	if (t->unsent && t->n_unsent == 0)
		unsent_clear(t->unsent, taken_over);
	pthread_mutex_unlock(&t->base.lock);
}

int tier_sync(struct store *s, struct err *err)
{
	struct tier *t = tier_of(s);
	struct err e = { 0 };
	int r = -1;

	if (t->local->ops->sync(t->local, err) < 0)
		return -1;
	if (!t->writes)
		bound(t);
	if (!t->writes || !tier_may_try(t))
		return 0;
	pthread_mutex_lock(&t->sending);
	/* If the lease lapsed meanwhile (this machine slept), the bucket's state is unknown: all is
	 * checked and sent again. */
	for (int tries = 0; r < 0 && tries <= LAPSES_MAX; tries++) {
		r = send_queue(t, &e);
		if (e.code != ERR_CHANGED)
			break;
	}
	if (r < 0)
		tier_note_failure(t, &e);
	else {
		pthread_mutex_lock(&t->base.lock);
		t->failed_at_ns = 0;
		t->failure = (struct err){ 0 };
		pthread_mutex_unlock(&t->base.lock);
		clear_unsent(t, false);
		bound(t);
	}
	pthread_mutex_unlock(&t->sending);
	return 0;
}

/* Doesn't count content that the directory itself lacks (it was set aside or collected since), but
 * counts a record that names it. */
uint64_t tier_unsent(struct store *s, struct err *ret_first)
{
	struct tier *t = tier_of(s);
	uint64_t n;

	pthread_mutex_lock(&t->base.lock);
	n = t->failure.code ? t->n_unsent : t->n_held;
	*ret_first = t->failure;
	if (!t->failure.code && n)
		err_set(ret_first, ERR_NOT_FOUND,
			"a record names content that neither the store nor this machine has any "
			"more: it was collected while this machine slept, or is damaged; run "
			"again");
	pthread_mutex_unlock(&t->base.lock);
	return n;
}

void tier_take_unsent(struct store *s, struct unsent_record **ret, size_t *ret_n)
{
	struct tier *t = tier_of(s);

	*ret = NULL;
	*ret_n = 0;
	if (t->unsent && tier_may_try(t))
		unsent_take_over(t->unsent, ret, ret_n);
}

void tier_sent_unsent(struct store *s, const struct err *failure)
{
	if (failure)
		tier_note_failure(tier_of(s), failure);
	else
		clear_unsent(tier_of(s), true);
}

/* storage/remote/lease.c — leases and the condemned list, which protect writers from collectors.
 * remote.h says what they mean.
 *
 * The lease is an object that the thread keep_lease() rewrites every lease_every_ns. Its age counts
 * from before the last successful write, by CLOCK_BOOTTIME, so that it isn't underestimated when
 * the machine slept. The holder stops relying on it after two thirds of lease_ns; a collector waits
 * for all of lease_ns.
 *
 * A lease that lapsed is never renewed. begin_again() takes a new one, forgets all knowledge, reads
 * the condemned list and the packs, and only then trusts the new lease. keep_lease() never does
 * this; users of the store call remote_renew(), because they must know that the lease lapsed.
 * `leases` counts trusted leases, so that lease_holds() can tell them apart.
 *
 * r->lock guards r->lease; `io` is held while a lapsed lease is replaced. presence.c applies the
 * condemned list; collect.c removes condemned objects.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include "base/os/machine.h"
#include "base/os/thread.h"
#include "storage/remote/internal.h"

/* The list. */

int64_t condemned_since(const struct remote *r, enum remote_kind kind, const struct digest *name)
{
	const int64_t written_ns = r->condemned.written_ns;
	uint8_t key[CONDEMNED_KEY_BYTES];
	struct condemned_entry e;

	assert(kind < REMOTE_KINDS);
	condemned_list_key((uint8_t)kind, name, key);
	if (!condemned_list_find(&r->condemned.list, key, &e))
		return 0;
	return e.listed_ns ? MIN(e.listed_ns, written_ns) : written_ns;
}

int condemned_load(struct remote *r, struct err *err)
{
	_cleanup_(str_deinit) struct str strings = { 0 };
	struct condemned list = { .form = CONDEMNED_BUCKET };
	struct bucket_object o;
	struct err e = { 0 };
	int64_t when = 0;

	if (bucket_head(r->bucket, CONDEMNED_KEY, &o, &strings, &e) == 0) {
		when = o.mtime_ns;
		if (remote_get_bytes(r, CONDEMNED_KEY, CONDEMNED_MAX, &list.bytes, &e) == 0 &&
		    !condemned_list_check(&list))
			return err_set(
				err, ERR_CORRUPT,
				"the list of the condemned in %s is damaged; remove its object %s",
				remote_uri(r), CONDEMNED_KEY);
	}
	if (e.code && e.code != ERR_NOT_FOUND) {
		condemned_list_deinit(&list);
		return err_pass(err, &e);
	}
	pthread_mutex_lock(&r->lock);
	condemned_list_deinit(&r->condemned.list);
	r->condemned.list = list;
	r->condemned.written_ns = list.bytes.len ? when : 0;
	for (size_t i = 0; i < r->packs.n; i++)
		r->packs.v[i].condemned = condemned_since(r, KIND_PACK, &r->packs.v[i].name) != 0;
	r->slots.old = true;
	pthread_mutex_unlock(&r->lock);
	return 0;
}

/* The lease. */

/* The lease's text is its start by the server's clock. The first write leaves it empty, because the
 * start isn't known yet: then it began when it was written. */
static int write_lease(struct remote *r, const char *key, int64_t started_ns, struct err *err)
{
	char text[32] = "";

	if (started_ns)
		snprintf(text, sizeof(text), "%lld\n", (long long)started_ns);
	return remote_put_bytes(r, key, text, strlen(text), false, err) < 0 ? -1 : 0;
}

/* Tries, because this machine may sleep between the two requests until a collector takes the lease
 * as a dead one. */
#define BEGIN_TRIES 3

static int begin_lease(struct remote *r, struct err *err)
{
	_cleanup_(str_deinit) struct str strings = { 0 };
	_cleanup_(freep) char *key = NULL;
	int64_t before_ns = 0;
	struct bucket_object o;
	struct err e = { 0 };
	int got = -1;

	for (int tries = 0;
	     tries < BEGIN_TRIES && got < 0 && (tries == 0 || e.code == ERR_NOT_FOUND); tries++) {
		free(key);
		key = xasprintf(LEASES_PREFIX "%016llx%016llx", (unsigned long long)random_u64(),
				(unsigned long long)random_u64());
		before_ns = remote_boottime_ns(r);
		got = write_lease(r, key, 0, &e);
		if (got == 0)
			got = bucket_head(r->bucket, key, &o, &strings, &e);
	}
	if (got < 0)
		return err_pass(err, &e);
	pthread_mutex_lock(&r->lock);
	free(r->lease.key);
	r->lease.key = TAKE_PTR(key);
	r->lease.trusted = false;
	r->lease.started_ns = o.mtime_ns;
	r->lease.renewed_at_ns = before_ns;
	pthread_mutex_unlock(&r->lock);
	return 0;
}

/* Forgets what is known from the time of the lapsed lease, and reads it again under the new lease.
 * Until then other threads still see the old knowledge, but no valid lease. */
static int begin_again(struct remote *r, const char *lapsed, struct err *err)
{
	bool is_new, trusted;
	int got = 0;

	pthread_mutex_lock(&r->io);
	pthread_mutex_lock(&r->lock);
	is_new = !str_eq(r->lease.key, lapsed); /* another thread took it while we waited */
	trusted = is_new && r->lease.trusted;
	pthread_mutex_unlock(&r->lock);
	if (trusted) {
		pthread_mutex_unlock(&r->io);
		return 1;
	}
	if (!is_new)
		got = begin_lease(r, err);
	if (got == 0) {
		presence_forget(r);
		got = condemned_load(r, err);
	}
	if (got == 0)
		got = presence_load(r, err);
	if (got == 0)
		lease_trust(r);
	r->attached = got == 0;
	pthread_mutex_unlock(&r->io);
	return got < 0 ? -1 : 1;
}

/* A lease that wasn't renewed for this long counts as lapsed. Collectors wait half as long
 * again. */
static int64_t lapses_after_ns(const struct remote *r)
{
	return r->o.lease_ns * 2 / 3;
}

bool lease_is_good(struct remote *r)
{
	int64_t now_ns = remote_boottime_ns(r);
	bool good;

	pthread_mutex_lock(&r->lock);
	good = r->lease.key && r->lease.trusted &&
	       now_ns - r->lease.renewed_at_ns <= lapses_after_ns(r);
	pthread_mutex_unlock(&r->lock);
	return good;
}

void lease_trust(struct remote *r)
{
	pthread_mutex_lock(&r->lock);
	assert(r->lease.key);
	r->leases += !r->lease.trusted;
	r->lease.trusted = true;
	pthread_mutex_unlock(&r->lock);
}

uint64_t lease_number(struct remote *r)
{
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	n = r->leases;
	pthread_mutex_unlock(&r->lock);
	return n;
}

struct lease_hold lease_hold(struct remote *r)
{
	return (struct lease_hold){ r, lease_number(r) };
}

bool lease_holds(void *hold)
{
	const struct lease_hold *h = hold;

	return lease_is_good(h->r) && lease_number(h->r) == h->number;
}

int remote_renew(struct remote *r, struct err *err)
{
	int64_t now_ns = remote_boottime_ns(r), started_ns;
	_cleanup_(freep) char *key = NULL;
	bool lapsed;

	pthread_mutex_lock(&r->lock);
	key = r->lease.key ? xstrdup(r->lease.key) : NULL;
	started_ns = r->lease.started_ns;
	lapsed = key && now_ns - r->lease.renewed_at_ns > lapses_after_ns(r);
	pthread_mutex_unlock(&r->lock);
	if (!key)
		return 0;
	if (lapsed)
		return begin_again(r, key, err);
	if (write_lease(r, key, started_ns, err) < 0)
		return -1;
	pthread_mutex_lock(&r->lock);
	r->lease.renewed_at_ns = now_ns;
	pthread_mutex_unlock(&r->lock);
	return 0;
}

/* The lease's thread. After a failed renewal, it tries again at the next interval. If that is too
 * late, the next sender finds that the lease has lapsed. */
static void *keep_lease(void *arg)
{
	struct remote *r = arg;
	int64_t every_ns = r->o.lease_every_ns ? r->o.lease_every_ns : r->o.lease_ns / 6;

	pthread_mutex_lock(&r->lock);
	while (!r->lease.stop) {
		struct timespec until;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_sec += (time_t)(every_ns / NS_PER_S);
		if (pthread_cond_timedwait(&r->lease.wake, &r->lock, &until) != ETIMEDOUT)
			continue;
		if (remote_boottime_ns(r) - r->lease.renewed_at_ns > lapses_after_ns(r))
			continue; /* users of the store must learn of it */
		pthread_mutex_unlock(&r->lock);
		remote_renew(r, NULL);
		pthread_mutex_lock(&r->lock);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* A lease from an earlier attempt to attach that hasn't lapsed will do: it began before this
 * attempt reads anything. */
int lease_take(struct remote *r, struct err *err)
{
	int64_t now_ns = remote_boottime_ns(r);
	bool have;

	pthread_mutex_lock(&r->lock);
	have = r->lease.key && now_ns - r->lease.renewed_at_ns <= lapses_after_ns(r);
	pthread_mutex_unlock(&r->lock);
	if (!have && begin_lease(r, err) < 0)
		return -1;
	if (r->o.lease_every_ns < 0 || r->lease.has_thread)
		return 0;
	thread_cond_init(&r->lease.wake);
	r->lease.has_thread = thread_start(&r->lease.thread, NULL, keep_lease, r) == 0;
	return 0;
}

void lease_give_back(struct remote *r)
{
	if (r->lease.has_thread) {
		pthread_mutex_lock(&r->lock);
		r->lease.stop = true;
		pthread_cond_signal(&r->lease.wake);
		pthread_mutex_unlock(&r->lock);
		pthread_join(r->lease.thread, NULL);
		pthread_cond_destroy(&r->lease.wake);
	}
	if (r->lease.key) {
		const char *key = r->lease.key;

		bucket_delete_many(r->bucket, &key, 1, NULL); /* on failure it expires */
	}
	free(r->lease.key);
	r->lease.key = NULL;
}

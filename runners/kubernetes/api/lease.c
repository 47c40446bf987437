/* runners/kubernetes/api/lease.c — two threads: one renews, the other one reports.
 *
 * renew_loop() reads the Lease, or replaces the record that it saw last by the next one, every
 * retry_ns (acquire_or_renew()). It may hang in a request for any time: only a write that the
 * server accepted extends `held_until_ns`, counted from before the write was sent. report_loop()
 * sleeps until then and reports the loss if there was no renewal. So the end of holding needs no
 * answer from anybody.
 *
 * `seen` and `changed_ns` belong to the renewing thread. Shared fields are under the lock, which is
 * never held during a request or a call of `on_change`. A lost lease stays lost (is_over()): both
 * threads end. Time is CLOCK_BOOTTIME, because a lease expires while the machine sleeps. The
 * condition variable's clock stops then, so a holder never sleeps longer than retry_ns.
 *
 * kube_lease_free() cancels a running request, joins both threads, and only then gives the Lease
 * back (release_it()) with a client of its own.
 */
#include "runners/kubernetes/api/lease.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/os/machine.h"
#include "base/os/thread.h"
#include "base/text/text.h"
#include "base/time/clock.h"

#define DURATION_NS     (15 * NS_PER_S)
#define RENEW_WITHIN_NS (10 * NS_PER_S)
#define RETRY_NS        (2 * NS_PER_S)
/* Another holder may ask for a long time, but not for ever. */
#define DURATION_MAX_S 3600
#define IDENTITY_MAX   256
#define RELEASE_NS     (3 * NS_PER_S)

struct kube_lease {
	struct kube_client *client;
	struct kube_lease_options o;
	char *identity, *path, *collection;
	pthread_t renewer, reporter;
	bool renews, reports; /* the thread was started */

	/* the renewing thread's */
	json_t *seen;       /* the object as it was last read or written; or NULL */
	int64_t changed_ns; /* when we saw its record change, on our clock */

	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* under lock */
	bool stop;
	bool was_held, taken;  /* this process has held it; another holds it now */
	int64_t held_until_ns; /* this process holds it until then; 0: it never did */
	char holder[IDENTITY_MAX];
	char why[256];
};

/* Runs on while the machine sleeps, because a lease expires then, too. */
static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_BOOTTIME, &ts);
	return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

static const json_t *spec_of(const json_t *object)
{
	return json_object_get(object, "spec");
}

/* "" when there is no holder. Anything but text counts as no holder. */
static const char *holder_of(const json_t *object)
{
	const char *s = json_string_value(json_object_get(spec_of(object), "holderIdentity"));

	return s ? s : "";
}

/* Under lock. */
static void sleep_locked(struct kube_lease *l, int64_t ns)
{
	struct timespec t;
	int64_t at;

	clock_gettime(CLOCK_MONOTONIC, &t);
	at = (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec + ns;
	t = (struct timespec){ .tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S };
	pthread_cond_timedwait(&l->wake, &l->lock, &t);
}

/* Shared state. */

static void know_holder(struct kube_lease *l, const char *holder)
{
	pthread_mutex_lock(&l->lock);
	snprintf(l->holder, sizeof(l->holder), "%s", holder);
	l->why[0] = '\0';
	l->taken = l->was_held && !str_eq(holder, l->identity);
	pthread_cond_broadcast(&l->wake);
	pthread_mutex_unlock(&l->lock);
}

static void know_trouble(struct kube_lease *l, const struct err *why)
{
	pthread_mutex_lock(&l->lock);
	snprintf(l->why, sizeof(l->why), "%.*s", (int)sizeof(l->why) - 1, why->msg);
	pthread_cond_broadcast(&l->wake);
	pthread_mutex_unlock(&l->lock);
}

/* Returns false for a renewal whose answer came too late: the loss may be reported already. */
static bool know_held(struct kube_lease *l, int64_t asked_ns)
{
	bool late;

	pthread_mutex_lock(&l->lock);
	late = l->was_held && now_ns() >= l->held_until_ns;
	if (!late) {
		l->was_held = true;
		l->held_until_ns = asked_ns + l->o.renew_within_ns;
		snprintf(l->holder, sizeof(l->holder), "%s", l->identity);
		l->why[0] = '\0';
		pthread_cond_broadcast(&l->wake);
	}
	pthread_mutex_unlock(&l->lock);
	return !late;
}

static bool is_over(struct kube_lease *l)
{
	bool over;

	pthread_mutex_lock(&l->lock);
	over = l->stop || l->taken || (l->was_held && now_ns() >= l->held_until_ns);
	pthread_mutex_unlock(&l->lock);
	return over;
}

/* Held by the record, and by our clock. */
static bool is_ours(struct kube_lease *l)
{
	bool ours;

	pthread_mutex_lock(&l->lock);
	ours = l->was_held && !l->taken && now_ns() < l->held_until_ns;
	pthread_mutex_unlock(&l->lock);
	return ours;
}

/* The record. */

/* Consumes the reference. Only a changed record counts as a sign of life. */
static void see(struct kube_lease *l, json_t *object)
{
	if (!l->seen || !json_equal(spec_of(l->seen), spec_of(object)))
		l->changed_ns = now_ns();
	json_decref(l->seen);
	l->seen = object;
}

static bool may_take(const struct kube_lease *l)
{
	json_int_t seconds =
		json_integer_value(json_object_get(spec_of(l->seen), "leaseDurationSeconds"));

	if (!*holder_of(l->seen) || str_eq(holder_of(l->seen), l->identity))
		return true;
	seconds = seconds < 1 ? 1 : MIN(seconds, DURATION_MAX_S);
	return now_ns() >= l->changed_ns + (int64_t)seconds * NS_PER_S;
}

static json_t *time_text(void)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	text_add_time(&text, clock_wall_ns(), 6); /* MicroTime */
	return json_string(text.s);
}

/* The record that replaces `old` (NULL: none) when this process holds the Lease. */
static json_t *next_record(const struct kube_lease *l, const json_t *old)
{
	const json_t *spec = spec_of(old), *acquired = json_object_get(spec, "acquireTime");
	json_int_t transitions = json_integer_value(json_object_get(spec, "leaseTransitions"));
	bool same = old && str_eq(holder_of(old), l->identity);
	json_t *now = time_text(),
	       *r = json_pack("{s:s, s:I, s:O}", "holderIdentity", l->identity,
			      "leaseDurationSeconds", (json_int_t)(l->o.duration_ns / NS_PER_S),
			      "renewTime", now);

	json_object_set_new(r, "leaseTransitions",
			    json_integer(MAX(transitions, 0) + (old && !same ? 1 : 0)));
	json_object_set(r, "acquireTime", same && acquired ? (json_t *)acquired : now);
	json_decref(now);
	return r;
}

static int ask(struct kube_lease *l, const char *method, const json_t *body, int64_t within_ns,
	       json_t **ret, struct err *err)
{
	struct kube_call call = { .method = method,
				  .path = str_eq(method, "POST") ? l->collection : l->path,
				  .body = body,
				  .once = true,
				  .timeout_ns = MAX(within_ns, 100 * NS_PER_MS) };
	int r = kube_do(l->client, &call, err);

	if (r == 0 && (!json_is_object(call.json) || !json_is_object(spec_of(call.json))))
		r = err_set(err, ERR_CORRUPT, "the Lease %s: the server's answer is no Lease",
			    l->o.name);
	if (r == 0)
		*ret = json_incref(call.json);
	kube_call_deinit(&call);
	return r;
}

/* Writes a Lease that names this process; consumes the reference. */
static int write_ours(struct kube_lease *l, const char *method, json_t *body, int64_t within_ns,
		      struct err *err)
{
	int64_t asked = now_ns();
	json_t *answer;
	int r = ask(l, method, body, within_ns, &answer, err);

	json_decref(body);
	if (r < 0)
		return -1;
	see(l, answer);
	return know_held(l, asked) ? 0 : err_set(err, ERR_IO, "the answer came too late");
}

/* Replaces the record that was seen; the server refuses if it has changed. */
static int put(struct kube_lease *l, int64_t within_ns, struct err *err)
{
	json_t *body = json_deep_copy(l->seen);

	json_object_set_new(body, "spec", next_record(l, l->seen));
	return write_ours(l, "PUT", body, within_ns, err);
}

static int create(struct kube_lease *l, int64_t within_ns, struct err *err)
{
	return write_ours(l, "POST",
			  json_pack("{s:s, s:s, s:{s:s, s:{s:s}}, s:o}", "apiVersion",
				    "coordination.k8s.io/v1", "kind", "Lease", "metadata", "name",
				    l->o.name, "labels", "app.kubernetes.io/managed-by", "cairn",
				    "spec", next_record(l, NULL)),
			  within_ns, err);
}

static int acquire_or_renew(struct kube_lease *l, struct err *err)
{
	int64_t within = l->o.renew_within_ns / 2;
	json_t *object;

	/* If this write succeeds, nobody else has written: a renewal needs one request. */
	if (is_ours(l) && l->seen && put(l, within, err) == 0)
		return 0;
	*err = (struct err){ 0 };
	if (ask(l, "GET", NULL, within, &object, err) < 0)
		return err->code == ERR_NOT_FOUND && !is_over(l)
			       ? (*err = (struct err){ 0 }, create(l, within, err))
			       : -1;
	see(l, object);
	if (!may_take(l)) {
		know_holder(l, holder_of(l->seen));
		return 0;
	}
	return is_over(l) ? 0 : put(l, within, err);
}

/* The threads. */

static void *renew_loop(void *arg)
{
	struct kube_lease *l = arg;

	while (!is_over(l)) {
		int64_t pause = l->o.retry_ns;
		struct err err = { 0 };

		if (acquire_or_renew(l, &err) < 0 && err.code != ERR_CHANGED &&
		    err.code != ERR_EXISTS) /* those mean that another process was faster */
			know_trouble(l, &err);
		/* Contenders that started together must not ask together for ever. */
		if (!is_ours(l))
			pause += (int64_t)((double)l->o.retry_ns * 0.2 * (double)random_u64() /
					   (double)UINT64_MAX);
		for (int64_t end = now_ns() + pause; now_ns() < end && !is_over(l);) {
			pthread_mutex_lock(&l->lock);
			if (!l->stop)
				sleep_locked(l, end - now_ns());
			pthread_mutex_unlock(&l->lock);
		}
	}
	return NULL;
}

/* The state to report, with its texts, so that only changes are reported. */
struct lease_report {
	enum kube_lease_state state;
	char holder[IDENTITY_MAX], why[256];
};

/* Under lock. */
static void snapshot(const struct kube_lease *l, struct lease_report *n)
{
	bool out = l->was_held && now_ns() >= l->held_until_ns;

	*n = (struct lease_report){ .state = l->taken || out ? KUBE_LEASE_LOST
					     : l->was_held   ? KUBE_LEASE_HELD
							     : KUBE_LEASE_WAITING };
	memcpy(n->holder, l->holder, sizeof(n->holder));
	if (n->state == KUBE_LEASE_WAITING)
		memcpy(n->why, l->why, sizeof(n->why));
	else if (n->state == KUBE_LEASE_LOST && l->taken)
		snprintf(n->why, sizeof(n->why), "another one has taken it");
	else if (n->state == KUBE_LEASE_LOST)
		snprintf(n->why, sizeof(n->why), "it couldn't be renewed in time%s%.200s",
			 l->why[0] ? ": " : "", l->why);
}

static void *report_loop(void *arg)
{
	struct lease_report reported = { .state = KUBE_LEASE_WAITING }, n;
	struct kube_lease *l = arg;

	pthread_mutex_lock(&l->lock);
	while (!l->stop && reported.state != KUBE_LEASE_LOST) {
		snapshot(l, &n);
		if (n.state != reported.state || !str_eq(n.holder, reported.holder) ||
		    (n.state != KUBE_LEASE_HELD && !str_eq(n.why, reported.why))) {
			reported = n;
			pthread_mutex_unlock(&l->lock);
			l->o.on_change(l->o.arg, n.state, n.holder[0] ? n.holder : NULL,
				       n.why[0] ? n.why : NULL);
			pthread_mutex_lock(&l->lock);
			continue;
		}
		/* At most retry_ns, because this clock stops while the machine sleeps. */
		sleep_locked(l, n.state == KUBE_LEASE_HELD
					? MIN(MAX(l->held_until_ns - now_ns(), 0) + NS_PER_MS,
					      l->o.retry_ns)
					: NS_PER_S);
	}
	pthread_mutex_unlock(&l->lock);
	return NULL;
}

/* Life. */

int kube_lease_new(const struct kube_access *a, const struct kube_lease_options *o,
		   struct kube_lease **ret, struct err *err)
{
	const struct kube_client_options co = {
		.qps = 100, .burst = 100, .max_connections = 2, .retry_for_ns = NS_PER_S
	};
	struct kube_lease *l = xcalloc(1, sizeof(*l));
	struct str one = { 0 }, all = { 0 };
	char host[MACHINE_NAME_BYTES];

	assert(o->name && o->on_change);
	l->o = *o;
	l->o.name = xstrdup(o->name);
	l->o.duration_ns = o->duration_ns ? o->duration_ns : DURATION_NS;
	l->o.renew_within_ns = o->renew_within_ns ? o->renew_within_ns : RENEW_WITHIN_NS;
	l->o.retry_ns = o->retry_ns ? o->retry_ns : RETRY_NS;
	l->identity = o->identity ? xstrdup(o->identity)
				  : xasprintf("%.127s_%016llx", machine_name(host),
					      (unsigned long long)random_u64());
	kube_add_path(&one, "coordination.k8s.io", "v1", a->namespace_, "leases", o->name);
	kube_add_path(&all, "coordination.k8s.io", "v1", a->namespace_, "leases", NULL);
	l->path = str_take(&one);
	l->collection = str_take(&all);
	pthread_mutex_init(&l->lock, NULL);
	thread_cond_init(&l->wake);
	if (l->o.renew_within_ns >= l->o.duration_ns || l->o.duration_ns < NS_PER_S ||
	    strlen(l->identity) >= IDENTITY_MAX) {
		kube_lease_free(l, false);
		return err_set(err, ERR_USAGE,
			       "a lease must be renewed within less than its duration, which is at "
			       "least a second");
	}
	if (kube_client_new(a, &co, &l->client, err) < 0) {
		kube_lease_free(l, false);
		return err_wrap(err, "the Lease %s", o->name);
	}
	l->renews = thread_start(&l->renewer, NULL, renew_loop, l) == 0;
	l->reports = l->renews && thread_start(&l->reporter, NULL, report_loop, l) == 0;
	if (!l->reports) {
		kube_lease_free(l, false);
		return err_set(err, ERR_IO, "cannot start a thread");
	}
	*ret = l;
	return 0;
}

static int put_without_holder(struct kube_lease *l, struct err *err)
{
	json_t *body = json_deep_copy(l->seen), *spec = json_object_get(body, "spec"),
	       *answer = NULL;
	int r;

	json_object_del(spec, "holderIdentity");
	json_object_set_new(spec, "leaseDurationSeconds", json_integer(1));
	json_object_set_new(spec, "renewTime", time_text());
	r = ask(l, "PUT", body, RELEASE_NS, &answer, err);
	json_decref(answer);
	json_decref(body);
	return r;
}

/* Writes the record without a holder, so that another process can take it at once. A cancelled
 * renewal may have arrived all the same: then the known record is older than the server's. */
static void release_it(struct kube_lease *l)
{
	const struct kube_client_options co = {
		.qps = 100, .burst = 100, .max_connections = 1, .retry_for_ns = NS_PER_S
	};
	const struct kube_access *a = kube_client_access(l->client);
	struct err err = { 0 };
	json_t *now = NULL;

	kube_client_free(l->client); /* cancelled */
	l->client = NULL;
	if (kube_client_new(a, &co, &l->client, &err) < 0 || put_without_holder(l, &err) == 0 ||
	    err.code != ERR_CHANGED)
		return;
	if (ask(l, "GET", NULL, RELEASE_NS, &now, NULL) < 0)
		return;
	see(l, now);
	if (str_eq(holder_of(now), l->identity))
		put_without_holder(l, NULL);
}

void kube_lease_free(struct kube_lease *l, bool release)
{
	bool ours;

	if (!l)
		return;
	ours = is_ours(l);
	pthread_mutex_lock(&l->lock);
	l->stop = true;
	pthread_cond_broadcast(&l->wake);
	pthread_mutex_unlock(&l->lock);
	if (l->client)
		kube_client_cancel(l->client);
	if (l->renews)
		pthread_join(l->renewer, NULL);
	if (l->reports)
		pthread_join(l->reporter, NULL);
	if (release && ours && l->seen)
		release_it(l);
	kube_client_free(l->client);
	json_decref(l->seen);
	free((char *)l->o.name);
	free(l->identity);
	free(l->path);
	free(l->collection);
	pthread_cond_destroy(&l->wake);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

/* lint: unused but by tests: callers hear of it by their function */
bool kube_lease_is_held(struct kube_lease *l)
{
	return is_ours(l);
}

const char *kube_lease_identity(const struct kube_lease *l)
{
	return l->identity;
}

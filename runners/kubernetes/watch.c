/* runners/kubernetes/watch.c — brings facts from the watches' threads to the loop: the inbox.
 *
 * Two watches, of Jobs and of pods of one run, have a thread each (api/watch.c); so has the watch
 * of each operator's objects that the run uses (job/kind.h). There on_event() turns an object into
 * facts and puts them into the inbox. An eventfd wakes the loop, where take() takes them in, at
 * most EVENTS_A_TURN of them a turn. When the inbox is full, the watch's thread waits, and so does
 * the server.
 *
 * A list has a generation: it grows at SYNC_BEGIN, each fact is marked with it, and at SYNC_END
 * everything with an older one is gone (end_sync()). Facts of a pod are taken only if its
 * controller is the Job that we know. A Job whose deletion is on record is ignored, because news of
 * it may be late.
 *
 * The inbox's lock covers the list and `closed`; all else belongs to the loop's thread.
 * inbox_close() first releases the waiting threads, then ends them. reconcile.c acts on the facts.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include "runners/kubernetes/internal.h"

/* If the loop lags, the watches wait, and so does the server. News are small, but thousands of pods
 * may change at once. */
#define INBOX_MAX 8192
/* Bounded work a turn. */
#define EVENTS_A_TURN 512

static void watch_event_free(struct watch_event *n)
{
	job_facts_deinit(&n->job);
	pod_facts_deinit(&n->pod);
	free(n->text);
	free(n);
}

/* Threads of the watches. */

static void put(struct kube *k, struct watch_event *n)
{
	struct inbox *in = &k->inbox;
	bool closed;

	pthread_mutex_lock(&in->lock);
	while (in->n >= INBOX_MAX && !in->closed)
		pthread_cond_wait(&in->room, &in->lock);
	closed = in->closed;
	if (!closed) {
		*in->last = n;
		in->last = &n->next;
		in->n++;
	}
	pthread_mutex_unlock(&in->lock);
	if (closed)
		watch_event_free(n);
	else
		(void)!write(in->fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

static void on_event(void *arg, enum kube_event e, const json_t *object)
{
	struct view *v = arg;
	struct watch_event *n = xcalloc(1, sizeof(*n));

	n->kind = v->kind;
	n->of = v->of;
	n->event = e;
	if (e != KUBE_SYNC_BEGIN && e != KUBE_SYNC_END &&
	    (v->kind == WATCHED_JOB ? job_facts_of(v->of, object, &n->job)
				    : pod_facts_of(object, &n->pod)) < 0)
		watch_event_free(n);
	else
		put(v->k, n);
}

static void on_trouble(void *arg, const struct err *err, bool denied)
{
	struct view *v = arg;
	struct watch_event *n = xcalloc(1, sizeof(*n));

	n->kind = v->kind;
	n->of = v->of;
	n->trouble = true;
	n->denied = denied;
	n->unknown = err && err->code == ERR_NOT_FOUND;
	n->text = err ? xstrdup(err->msg) : NULL;
	put(v->k, n);
}

/* The loop's thread. */

/* False for a Job whose deletion is on record, because news of it may be late. */
static bool of_interest(struct kube *k, uint64_t id)
{
	return id && map_get(k->by_id.done, &id, sizeof(id)) != DELETED;
}

/* The cluster's clock may differ from ours: its time is at least the newest time stamp. */
static void learn_time(struct kube *k, int64_t stamp_ns)
{
	int64_t skew = stamp_ns - kube_wall(k);

	if (stamp_ns && skew > k->skew_ns)
		k->skew_ns = skew;
}

static void take_job(struct kube *k, struct watch_event *n)
{
	uint64_t id = n->job.attempt_id;
	struct job *j;

	if (!of_interest(k, id))
		return;
	j = job_of(k, id);
	if (*j->uid && strcmp(j->uid, n->job.uid) != 0 && j->state != JOB_SEEN)
		return; /* an earlier Job of that name */
	learn_time(k, n->job.created_ns);
	j->kind = n->of;
	job_facts_deinit(&j->f);
	j->f = n->job;
	n->job = (struct job_facts){ 0 };
	j->seen = true;
	j->generation = k->watches.jobs[kube_kind_number(j->kind)].generation;
	memcpy(j->name, j->f.name, MIN(strlen(j->f.name) + 1, sizeof(j->name) - 1));
	memcpy(j->uid, j->f.uid, sizeof(j->uid));
	if (j->state == JOB_SEEN)
		job_take_layout(j, &j->f);
	j->gone |= n->event == KUBE_DELETED;
	job_purge(j);
	job_reconcile(j);
}

/* An operator that hasn't seen that we deleted its object may make pods once more. They say nothing
 * about the attempt, and NULL is returned for them. */
static struct pod *pod_of(struct bundle *b, const char *uid)
{
	struct pod *p;

	for (size_t i = 0; i < b->pods.n; i++)
		if (str_eq(b->pods.v[i]->f.uid, uid))
			return b->pods.v[i];
	if ((b->j->deleting || b->j->deleted) && !kube_kind_is_job(b->j->kind))
		return NULL;
	p = xcalloc(1, sizeof(*p));
	VEC_PUSH(&b->pods, p);
	return p;
}

static void take_pod(struct kube *k, struct watch_event *n)
{
	struct job *j = job_of(k, n->pod.attempt_id);
	struct bundle *b;
	struct pod *p;
	bool was_gone;

	if (j->state == JOB_SEEN && !j->seen)
		j->kind = n->pod.kind;
	if (j->kind != n->pod.kind || !job_owns(j, &n->pod))
		return; /* of an earlier Job, or with labels copied from ours */
	b = job_bundle(j, n->pod.array ? n->pod.index : 0);
	if (b->state == BUNDLE_REPORTED && b->j->bundles.n == 1)
		return;
	p = pod_of(b, n->pod.uid);
	if (!p)
		return;
	was_gone = p->f.gone;
	pod_facts_deinit(&p->f);
	p->f = n->pod;
	n->pod = (struct pod_facts){ 0 };
	p->f.gone = was_gone || n->event == KUBE_DELETED;
	p->generation = k->watches.pods.generation;
	learn_time(k, p->f.created_ns);
	learn_time(k, p->f.scheduled_ns);
	learn_time(k, p->f.main.started_ns);
	learn_time(k, p->f.main.ended_ns);
	learn_time(k, p->f.sidecar.ended_ns);
	bundle_reconcile(b);
}

/* Objects that the list didn't contain are gone. */
static void end_sync(struct kube *k, struct view *v)
{
	v->synced = true;
	for (size_t i = 0; i < map_len(k->by_id.jobs); i++) {
		struct job *j = map_at(k->by_id.jobs, i, NULL, NULL);

		if (j && v->kind == WATCHED_JOB && j->kind == v->of && j->seen &&
		    j->generation < v->generation)
			j->gone = true;
		for (size_t b = 0; j && v->kind == WATCHED_POD && b < j->bundles.n; b++) {
			struct bundle *of = j->bundles.v[b];

			for (size_t n = 0; n < of->pods.n; n++)
				of->pods.v[n]->f.gone |= of->pods.v[n]->generation < v->generation;
		}
	}
	runner_flush(k);
	runner_reconcile_all(k);
}

static void count_trouble(const struct kube *k, bool *ret_troubled, bool *ret_denied)
{
	*ret_troubled = k->watches.pods.troubled;
	*ret_denied = k->watches.pods.denied_ns != 0;
	for (size_t i = 0; i < KUBE_KINDS; i++) {
		*ret_troubled |= k->watches.jobs[i].troubled;
		*ret_denied |= k->watches.jobs[i].denied_ns != 0;
	}
}

static void take_trouble(struct kube *k, struct view *v, struct watch_event *n)
{
	bool troubled, denied, was_denied;

	/* Without an operator there are no objects of its; to make one is an error (requests.c). */
	if (n->unknown && v->of && !kube_kind_is_job(v->of)) {
		end_sync(k, v);
		return;
	}
	count_trouble(k, &troubled, &was_denied);
	v->troubled = n->text != NULL;
	v->denied_ns = !n->denied ? 0 : v->denied_ns ? v->denied_ns : kube_mono(k);
	count_trouble(k, &troubled, &denied);
	if (!troubled || (n->denied && !was_denied)) {
		free(k->watches.trouble);
		k->watches.trouble = NULL;
	}
	if (n->denied && !k->watches.trouble)
		k->watches.trouble = xasprintf(
			"the cluster does not let this account watch %ss in the namespace %s "
			"(`cairn doctor --on kubernetes` lists missing rights): %s",
			v->of ? v->of->kind : "pod", k->o.profile->namespace_, n->text);
	else if (n->text && !k->watches.trouble)
		k->watches.trouble = xasprintf(
			"the cluster does not answer; what runs there goes on: %s", n->text);
	runner_reconcile_all(k);
}

static void take(struct kube *k, struct watch_event *n)
{
	struct view *v = n->kind == WATCHED_JOB ? &k->watches.jobs[kube_kind_number(n->of)]
						: &k->watches.pods;

	if (n->trouble) {
		take_trouble(k, v, n);
	} else if (n->event == KUBE_SYNC_BEGIN) {
		v->generation++;
	} else if (n->event == KUBE_SYNC_END) {
		end_sync(k, v);
	} else if (n->kind == WATCHED_JOB) {
		take_job(k, n);
	} else if (of_interest(k, n->pod.attempt_id) && (n->pod.job_uid || n->pod.owner)) {
		take_pod(k, n);
	}
}

static struct watch_event *get(struct inbox *in)
{
	struct watch_event *n;

	pthread_mutex_lock(&in->lock);
	n = in->first;
	if (n) {
		in->first = n->next;
		if (!in->first)
			in->last = &in->first;
		in->n--;
		pthread_cond_broadcast(&in->room);
	}
	pthread_mutex_unlock(&in->lock);
	return n;
}

static void on_inbox(void *arg, int fd, uint32_t events)
{
	struct kube *k = arg;
	struct watch_event *n;
	uint64_t count;
	int rounds = 0;

	(void)!read(fd, &count, sizeof(count));
	while (rounds++ < EVENTS_A_TURN && (n = get(&k->inbox))) {
		take(k, n);
		watch_event_free(n);
	}
	if (rounds > EVENTS_A_TURN)
		(void)!write(fd, &(uint64_t){ 1 }, sizeof(uint64_t));
}

/* Life. */

int inbox_open(struct kube *k, struct err *err)
{
	struct inbox *in = &k->inbox;

	for (size_t i = 0; i < KUBE_KINDS; i++)
		k->watches.jobs[i] =
			(struct view){ .k = k, .kind = WATCHED_JOB, .of = &kube_kinds[i] };
	k->watches.pods = (struct view){ .k = k, .kind = WATCHED_POD };
	in->last = &in->first;
	pthread_mutex_init(&in->lock, NULL);
	pthread_cond_init(&in->room, NULL);
	in->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (in->fd < 0)
		return err_errno(err, "cannot make an event descriptor");
	return loop_add_fd(k->loop, in->fd, EPOLLIN, on_inbox, k, &k->inbox_source, err);
}

void inbox_close(struct kube *k)
{
	struct inbox *in = &k->inbox;
	struct watch_event *n;

	pthread_mutex_lock(&in->lock);
	in->closed = true;
	pthread_cond_broadcast(&in->room);
	pthread_mutex_unlock(&in->lock);
	for (size_t i = 0; i < KUBE_KINDS; i++)
		kube_watch_free(k->watches.jobs[i].watch);
	kube_watch_free(k->watches.pods.watch);
	loop_remove(k->loop, k->inbox_source);
	while ((n = get(in)))
		watch_event_free(n);
	if (in->fd >= 0)
		close(in->fd);
	free(k->watches.trouble);
	pthread_cond_destroy(&in->room);
	pthread_mutex_destroy(&in->lock);
}

/* A watch from an earlier call continues. */
static int watch(struct kube *k, struct view *v, const char *selector, struct err *err)
{
	const struct kube_watch_options o = { .group = v->of ? v->of->group : "",
					      .version = v->of ? v->of->version : "v1",
					      .ns = k->o.profile->namespace_,
					      .resource = v->of ? v->of->resource : "pods",
					      .label_selector = selector,
					      .event = on_event,
					      .trouble = on_trouble,
					      .arg = v };

	return v->watch ? 0 : kube_watch_new(k->o.access, &o, &v->watch, err);
}

int runner_watch(struct kube *k, const char *run_id, const struct kube_kind *kind, struct err *err)
{
	struct view *v = &k->watches.jobs[kube_kind_number(kind)];
	_cleanup_(freep) char *selector = NULL;

	if (k->watches.run_id && v->watch)
		return 0;
	selector = kube_selector(k->o.profile->project, KUBE_LABEL_RUN "=%s",
				 k->watches.run_id ? k->watches.run_id : run_id);
	if (watch(k, &k->watches.jobs[0], selector, err) < 0 || watch(k, v, selector, err) < 0 ||
	    watch(k, &k->watches.pods, selector, err) < 0)
		return -1;
	if (!k->watches.run_id)
		k->watches.run_id = xstrdup(run_id);
	return 0;
}

bool runner_has_list(const struct kube *k)
{
	for (size_t i = 0; i < KUBE_KINDS; i++)
		if (k->watches.jobs[i].watch && !k->watches.jobs[i].synced)
			return false;
	return k->watches.jobs[0].watch;
}

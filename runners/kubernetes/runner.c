/* runners/kubernetes/runner.c — the runner's functions for the engine: submit, adopt, settle,
 * cancel.
 *
 * submit() copies the attempt into a member and holds it (runner_hold()), without a request. A
 * moment later flush() puts all held members into Jobs. place() finds the Job that holds the
 * attempt, or room in a Job that is made in this turn, or begins a new one. So neighbours share a
 * Job, and an attempt that is submitted again after a crash finds its own. After a crash nothing is
 * placed before the list of Jobs is complete (`resumed`).
 *
 * A member ends in member_report(), which reports to the engine and frees it. A Job stays until
 * settled() was called for all its attempts (jobs.c). cancel() marks the member; a pod can end only
 * as a whole, so the last member of a bundle decides (reconcile.c).
 *
 * tick() reconciles all Jobs once a second, because deadlines pass without an event. All of this is
 * on the loop's thread. kube_free() leaves the Jobs on the cluster; it sets `closing`, after which
 * workers begin nothing new and no report is made.
 *
 * Facts come in through watch.c, verdicts are made in judge.c, and slow work is done in requests.c,
 * end.c, events.c and series.c.
 */
#include "runners/kubernetes/runner.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "runners/kubernetes/internal.h"

#define WORKERS_DEFAULT 8
#define TICK_NS         NS_PER_S
#define GATHER_NS       (20 * NS_PER_MS)  /* of quiet before Jobs are made for submitted attempts */
#define GATHER_MAX_NS   (100 * NS_PER_MS) /* but at most this long */
#define GATHER_LONG_NS  (500 * NS_PER_MS) /* while BACKLOG attempts wait for their start */
#define BACKLOG         32
#define FRESH_LOOK      64              /* how many of a turn's newest Jobs are searched for room */
#define RETRY_FOR_NS    (10 * NS_PER_S) /* then the user gets a message; it is retried */
#define SKEW_UNKNOWN    (-(1LL << 60))

/* Attempts are copied, because workers read them, and a leaving engine doesn't wait for workers. */

static const char *copy_text(struct arena *arena, const char *s)
{
	return s ? arena_strdup(arena, s) : NULL;
}

static const char *const *copy_texts(struct arena *arena, const char *const *v)
{
	const char **out;
	size_t n = 0;

	while (v && v[n])
		n++;
	out = arena_alloc(arena, (n + 1) * sizeof(*out));
	for (size_t i = 0; i < n; i++)
		out[i] = arena_strdup(arena, v[i]);
	return v ? out : NULL;
}

static struct runner_attempt *copy_attempt(struct arena *arena, const struct runner_attempt *from)
{
	struct runner_attempt *a = arena_memdup(arena, from, sizeof(*from));
	struct runner_input *in = arena_alloc(arena, (a->n_inputs + 1) * sizeof(*in));
	struct runner_output *out = arena_alloc(arena, (a->n_outputs + 1) * sizeof(*out));
	struct runner_near *near = arena_alloc(arena, (a->on.n_near + 1) * sizeof(*near));

	a->run_id = copy_text(arena, from->run_id);
	a->task = copy_text(arena, from->task);
	a->key = arena_memdup(arena, from->key, sizeof(*from->key));
	a->argv = copy_texts(arena, from->argv);
	a->env = copy_texts(arena, from->env);
	a->secrets = copy_texts(arena, from->secrets);
	a->code = from->code ? arena_memdup(arena, from->code, sizeof(*from->code)) : NULL;
	a->metrics_path = copy_text(arena, from->metrics_path);
	a->series_path = copy_text(arena, from->series_path);
	a->checkpoint_path = copy_text(arena, from->checkpoint_path);
	a->on.step = copy_text(arena, from->on.step);
	a->on.image = copy_text(arena, from->on.image);
	a->on.placement_json = copy_text(arena, from->on.placement_json);
	a->on.gang.framework = copy_text(arena, from->on.gang.framework);
	for (size_t i = 0; i < a->on.n_near; i++)
		near[i] = (struct runner_near){ arena_strdup(arena, from->on.near[i].node),
						from->on.near[i].weight };
	a->on.near = near;
	for (size_t i = 0; i < a->n_inputs; i++)
		in[i] = (struct runner_input){ arena_strdup(arena, from->inputs[i].name),
					       arena_strdup(arena, from->inputs[i].path),
					       from->inputs[i].id,
					       copy_text(arena, from->inputs[i].volume),
					       from->inputs[i].view };
	for (size_t i = 0; i < a->n_outputs; i++)
		out[i] = (struct runner_output){ arena_strdup(arena, from->outputs[i].name),
						 arena_strdup(arena, from->outputs[i].path),
						 from->outputs[i].is_dir };
	a->inputs = in;
	a->outputs = out;
	return a;
}

/* Members. */

static void member_free(struct member *m)
{
	uint64_t id = m->a->id;

	m->k->n_waiting -= m->b && !m->started;
	*map_slot(m->k->by_id.members, &id, sizeof(id), NULL) = NULL;
	free(m->waiting);
	arena_free(m->arena);
	free(m);
}

void member_report(struct member *m, struct runner_result *r)
{
	struct kube *k = m->k;

	assert(r->failure < FAILURE_CLASSES);
	for (size_t i = 0; m->b && i < m->b->members.n; i++)
		if (m->b->members.v[i] == m) {
			m->b->members.v[i] = m->b->members.v[--m->b->members.n];
			break;
		}
	if (!atomic_load(&k->closing)) /* the engine is gone by then */
		k->base.events.finished(k->base.events.arg, m->a->id, r);
	member_free(m);
}

/* Jobs for members. */

/* Room in a Job that is made in this turn. NULL: there is none. */
static struct bundle *shared(const struct member *m, struct job *const *fresh, size_t n)
{
	for (size_t i = n; i-- > 0 && n - i <= FRESH_LOOK;) {
		struct job *j = fresh[i]; /* its pods are filled one after the other */
		size_t last = j->bundles.n - 1,
		       there = last * j->capacity.per_pod + j->bundles.v[last]->members.n,
		       index = there / j->capacity.per_pod;

		if (index < j->capacity.pods &&
		    kube_job_takes(j->bundles.v[0]->members.v[0]->a, m->a, j->capacity.pods == 1))
			return job_bundle(j, (unsigned)index);
	}
	return NULL;
}

/* Uses a Job that is known to hold it; else room in one that is made in this turn, or a new one. */
static void place(struct kube *k, struct member *m, struct job ***fresh, size_t *n)
{
	uint64_t id = m->a->id;
	struct bundle *b = map_get(k->by_id.holders, &id, sizeof(id));
	struct job *j = b ? b->j : NULL;

	if (j && (j->state == JOB_SEEN || j->state == JOB_THERE) && (j->seen || b->pods.n)) {
		if (!b->members.n)
			b->stage_ns = kube_mono(k);
		j->incomplete = j->state == JOB_SEEN && m->a->on.gang.nodes > 1;
		j->state = JOB_THERE;
		bundle_join(b, m);
		return;
	}
	b = shared(m, *fresh, *n);
	if (!b) {
		j = job_of(k, id);
		j->state = JOB_PAUSED;
		j->kind = kube_job_kind(k->o.profile, m->a);
		kube_job_capacity(k->o.profile, m->a, &j->capacity);
		*fresh = xreallocarray(*fresh, *n + 1, sizeof(**fresh));
		(*fresh)[(*n)++] = j;
		b = j->bundles.v[0];
	}
	bundle_join(b, m);
}

void runner_flush(struct kube *k)
{
	_cleanup_(freep) struct job **fresh = NULL;
	size_t n = 0, n_held = k->held.n;

	if (k->resumed && !runner_has_list(k))
		return;
	for (size_t i = 0; i < n_held; i++)
		place(k, k->held.v[i], &fresh, &n);
	k->held.n = 0;
	for (size_t i = 0; i < n; i++)
		job_make(fresh[i]);
	if (n_held > n)
		runner_reconcile_all(k);
}

/* Attempts that are submitted within a moment are placed together, because an engine submits ready
 * tasks one by one. When many attempts wait already, a longer moment costs nothing. */
static void flush(void *arg)
{
	struct kube *k = arg;
	bool hurry = k->n_waiting < BACKLOG;
	int64_t until = hurry ? MIN(k->joined_ns + GATHER_NS, k->held_ns + GATHER_MAX_NS)
			      : k->held_ns + GATHER_LONG_NS;

	k->flusher = NULL;
	if (k->held.n < KUBE_ARRAY_DEFAULT && kube_mono(k) < until)
		k->flusher =
			loop_add_timer(k->loop, MIN(until, kube_mono(k) + GATHER_MAX_NS), flush, k);
	else
		runner_flush(k);
}

void runner_hold(struct kube *k, struct member *m)
{
	k->joined_ns = kube_mono(k);
	if (!k->held.n)
		k->held_ns = k->joined_ns;
	k->n_waiting -= m->b && !m->started;
	m->b = NULL;
	VEC_PUSH(&k->held, m);
	if (!k->flusher)
		k->flusher = loop_add_timer(k->loop, k->joined_ns + GATHER_NS, flush, k);
}

static void tick(void *arg)
{
	struct kube *k = arg;

	k->ticker = loop_add_timer(k->loop, kube_mono(k) + TICK_NS, tick, k);
	runner_reconcile_all(k);
	runner_ask_series(k);
}

/* The engine's calls. */

static int kube_submit(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	struct kube *k = kube_of(r);
	void **slot = map_slot(k->by_id.members, &a->id, sizeof(a->id), NULL);
	struct member *m;

	assert(r->events.started && r->events.finished);
	if (*slot)
		return 0;
	if (a->local.shell)
		return err_set(err, ERR_UNSUPPORTED, "a shell needs the local runner (--on local)");
	if (runner_watch(k, a->run_id, kube_job_kind(k->o.profile, a), err) < 0)
		return -1;
	*slot = m = xcalloc(1, sizeof(*m));
	m->k = k;
	m->arena = arena_new();
	m->a = copy_attempt(m->arena, a);
	runner_hold(k, m);
	if (!k->ticker)
		k->ticker = loop_add_timer(k->loop, kube_mono(k) + TICK_NS, tick, k);
	return 0;
}

/* Records only that this run existed before, and its id. A living attempt is found when it is
 * submitted again. */
static int kube_adopt(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	struct kube *k = kube_of(r);

	k->resumed = true;
	return runner_watch(k, a->run_id, kube_job_kind(k->o.profile, a), err);
}

static void kube_settled(struct runner *r, uint64_t attempt_id)
{
	struct kube *k = kube_of(r);
	struct bundle *b = map_get(k->by_id.holders, &attempt_id, sizeof(attempt_id));
	void **done = map_slot(k->by_id.done, &attempt_id, sizeof(attempt_id), NULL);

	if (!*done)
		*done = DONE;
	if (b)
		job_settle(b->j);
}

struct drop {
	struct kube *k;
	struct digest key;
};

static void drop(void *arg)
{
	struct drop *d = arg;
	const struct runner_staging *s = &d->k->o.staging;

	if (s->drop_checkpoint)
		s->drop_checkpoint(s->arg, &d->key, NULL);
}

static void kube_drop_checkpoint(struct runner *r, const struct digest *key)
{
	struct drop *d = xcalloc(1, sizeof(*d));

	d->k = kube_of(r);
	d->key = *key;
	pool_submit(d->k->pool, drop, free, d);
}

/* It isn't in a Job: there is nothing to end. */
static void cancel_held(struct kube *k, struct member *m)
{
	struct runner_result r = { .failure = FAILURE_CANCELLED,
				   .exit_status = -1,
				   .started_ns = kube_wall(k),
				   .ended_ns = kube_wall(k) };

	for (size_t i = 0; i < k->held.n; i++)
		if (k->held.v[i] == m) {
			memmove(&k->held.v[i], &k->held.v[i + 1], (--k->held.n - i) * sizeof(m));
			break;
		}
	err_set(&r.err, ERR_CANCELLED, "stopped on request");
	member_report(m, &r);
}

/* Only a whole pod can be ended, so an attempt of a pack ends when all of the pack are cancelled.
 * Other pods of the Job continue; job_reconcile() later finds those that must be deleted
 * (kubernetes/reconcile.c). */
static void kube_cancel(struct runner *r, uint64_t attempt_id, bool gentle)
{
	struct kube *k = kube_of(r);
	struct member *m = map_get(k->by_id.members, &attempt_id, sizeof(attempt_id));
	struct job *j;

	if (!m)
		return;
	m->cancelled = true;
	m->hard |= !gentle;
	if (!m->b) {
		cancel_held(k, m);
		return;
	}
	for (size_t i = 0; i < m->b->members.n; i++)
		if (!m->b->members.v[i]->cancelled)
			return;
	m->b->cancelled = true;
	j = m->b->j;
	if (!job_is_cancelled(j))
		return;
	if (j->state == JOB_THERE)
		job_delete(j);
	for (size_t i = 0; i < j->bundles.n && j->state == JOB_THERE && !gentle; i++)
		bundle_delete_pods(j->bundles.v[i], true);
	job_reconcile(j);
}

/* Life. */

static void free_all(struct kube *k)
{
	for (size_t i = 0; i < map_len(k->by_id.members); i++) {
		struct member *m = map_at(k->by_id.members, i, NULL, NULL);

		if (m)
			member_free(m);
	}
	for (size_t i = 0; i < map_len(k->by_id.jobs); i++) {
		struct job *j = map_at(k->by_id.jobs, i, NULL, NULL);

		if (j)
			job_free(j);
	}
	VEC_FREE(&k->held);
	map_free(k->by_id.members);
	map_free(k->by_id.jobs);
	map_free(k->by_id.holders);
	map_free(k->by_id.done);
	free(k->watches.run_id);
	free(k);
}

/* Jobs live on. Deletions under way finish if the server answers; creations are given up. */
static void kube_free(struct runner *r)
{
	struct kube *k = kube_of(r);

	k->leaving = true; /* so that nothing waits for the controller to count pods */
	for (size_t i = 0; i < map_len(k->by_id.jobs); i++) {
		struct job *j = map_at(k->by_id.jobs, i, NULL, NULL);

		if (j)
			job_settle(j);
	}
	atomic_store(&k->closing, true);
	loop_remove(k->loop, k->ticker);
	loop_remove(k->loop, k->flusher);
	inbox_close(k);
	pool_free(k->pool);
	if (k->resumed && !runner_has_list(k))
		runner_sweep(k);
	kube_client_free(k->client);
	free_all(k);
}

static const struct runner_ops kube_ops = { .name = "kubernetes",
					    .durable = true,
					    .submit = kube_submit,
					    .adopt = kube_adopt,
					    .settled = kube_settled,
					    .forget = kube_settled,
					    .drop_checkpoint = kube_drop_checkpoint,
					    .cancel = kube_cancel,
					    .free = kube_free };

int runner_kubernetes_new(struct loop *l, const struct runner_kubernetes_options *o,
			  struct runner **ret, struct err *err)
{
	struct kube *k = xcalloc(1, sizeof(*k));
	struct kube_client_options co = o->client;

	assert(o->access && o->profile);
	co.retry_for_ns = co.retry_for_ns ? co.retry_for_ns : RETRY_FOR_NS;
	k->base.ops = &kube_ops;
	k->loop = l;
	k->o = *o;
	k->o.schedule_within_ns =
		o->schedule_within_ns ? o->schedule_within_ns : KUBE_SCHEDULE_DEFAULT_NS;
	k->o.image_within_ns = o->image_within_ns ? o->image_within_ns : KUBE_IMAGE_DEFAULT_NS;
	k->o.gang_within_ns = o->gang_within_ns ? o->gang_within_ns : KUBE_GANG_DEFAULT_NS;
	k->o.lost_within_ns = o->lost_within_ns ? o->lost_within_ns : 30 * NS_PER_S;
	k->save_within_ns = o->profile->save_ns ? o->profile->save_ns : KUBE_SAVE_DEFAULT_NS;
	k->skew_ns = SKEW_UNKNOWN;
	k->by_id.members = map_new();
	k->by_id.jobs = map_new();
	k->by_id.holders = map_new();
	k->by_id.done = map_new();
	if (inbox_open(k, err) < 0 || kube_client_new(o->access, &co, &k->client, err) < 0 ||
	    pool_new(l, o->n_workers ? o->n_workers : WORKERS_DEFAULT, &k->pool, err) < 0) {
		inbox_close(k);
		kube_client_free(k->client);
		free_all(k);
		return -1;
	}
	*ret = &k->base;
	return 0;
}

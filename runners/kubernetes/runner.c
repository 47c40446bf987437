/* runners/kubernetes/runner.c — what the engine asks for. What is submitted in one turn is made into Jobs at its end, so that neighbours can share one. */
#include "runners/kubernetes/runner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "runners/kubernetes/runner_internal.h"

#define WORKERS_DEFAULT 8
#define TICK_NS		NS_PER_S
#define PATIENCE_NS	(10 * NS_PER_S) /* then it is told, and tried again */
#define SKEW_UNKNOWN	(-(1LL << 60))

/* --- bundles ---------------------------------------------------------------------------------------------------------------------- */

void bundle_hold(struct bundle *b, uint64_t attempt_id)
{
	for (size_t i = 0; i < b->ids.n; i++)
		if (b->ids.v[i] == attempt_id)
			return;
	VEC_PUSH(&b->ids, attempt_id);
	*map_slot(b->k->holders, &attempt_id, sizeof(attempt_id), NULL) = b;
}

struct bundle *bundle_of(struct kube *k, uint64_t id)
{
	struct bundle **slot = (struct bundle **)map_slot(k->bundles, &id, sizeof(id), NULL), *b = *slot;

	if (b)
		return b;
	b = xcalloc(1, sizeof(*b));
	b->k = k;
	b->id = id;
	b->nodes = 1;
	b->stage_ns = kube_mono(k);
	*slot = b;
	bundle_hold(b, id);
	return b;
}

void bundle_free(struct bundle *b)
{
	struct kube *k = b->k;

	*map_slot(k->bundles, &b->id, sizeof(b->id), NULL) = NULL;
	for (size_t i = 0; i < b->ids.n; i++)
		if (map_get(k->holders, &b->ids.v[i], sizeof(b->ids.v[i])) == b)
			*map_slot(k->holders, &b->ids.v[i], sizeof(b->ids.v[i]), NULL) = NULL;
	for (size_t i = 0; i < b->pods.n; i++) {
		pod_facts_deinit(&b->pods.v[i]->f);
		free(b->pods.v[i]);
	}
	job_facts_deinit(&b->job);
	VEC_FREE(&b->pods);
	VEC_FREE(&b->ids);
	VEC_FREE(&b->members);
	free(b->trouble);
	free(b);
}

static bool is_settled(const struct bundle *b)
{
	for (size_t i = 0; i < b->ids.n; i++)
		if (!map_get(b->k->done, &b->ids.v[i], sizeof(b->ids.v[i])))
			return false;
	return true;
}

void bundle_settle(struct bundle *b)
{
	if (b->deleting || b->state == BUNDLE_MAKING || b->state == BUNDLE_ENDING || b->members.n || !is_settled(b))
		return;
	if (!b->gone && *b->uid) {
		bundle_delete(b);
	} else if (b->gone || b->state != BUNDLE_SEEN) {
		for (size_t i = 0; i < b->ids.n && b->gone; i++)
			*map_slot(b->k->done, &b->ids.v[i], sizeof(b->ids.v[i]), NULL) = DELETED;
		bundle_free(b);
	}
}

/* --- what was asked for, as a copy: workers read it, and an engine that leaves doesn't wait for them ---------------------------------- */

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

static void copy_io(struct arena *arena, struct runner_attempt *a)
{
	struct runner_input *in = arena_alloc(arena, (a->n_inputs + 1) * sizeof(*in));
	struct runner_output *out = arena_alloc(arena, (a->n_outputs + 1) * sizeof(*out));

	for (size_t i = 0; i < a->n_inputs; i++)
		in[i] = (struct runner_input){ arena_strdup(arena, a->inputs[i].name), arena_strdup(arena, a->inputs[i].path), a->inputs[i].id };
	for (size_t i = 0; i < a->n_outputs; i++)
		out[i] = (struct runner_output){ arena_strdup(arena, a->outputs[i].name), arena_strdup(arena, a->outputs[i].path), a->outputs[i].is_dir };
	a->inputs = in;
	a->outputs = out;
}

static struct runner_attempt *copy_attempt(struct arena *arena, const struct runner_attempt *from)
{
	struct runner_attempt *a = arena_memdup(arena, from, sizeof(*from));

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
	a->step = copy_text(arena, from->step);
	a->image = copy_text(arena, from->image);
	a->placement_json = copy_text(arena, from->placement_json);
	a->gang.framework = copy_text(arena, from->gang.framework);
	copy_io(arena, a);
	return a;
}

static struct member *member_new(struct kube *k, const struct runner_attempt *a)
{
	struct member *m = xcalloc(1, sizeof(*m));

	m->k = k;
	m->arena = arena_new();
	m->a = copy_attempt(m->arena, a);
	return m;
}

/* --- members ------------------------------------------------------------------------------------------------------------------------ */

static void member_free(struct member *m)
{
	uint64_t id = m->a->id;

	*map_slot(m->k->members, &id, sizeof(id), NULL) = NULL;
	free(m->waiting);
	arena_free(m->arena);
	free(m);
}

void member_report(struct member *m, struct runner_result *r)
{
	struct kube *k = m->k;

	for (size_t i = 0; m->b && i < m->b->members.n; i++)
		if (m->b->members.v[i] == m) {
			m->b->members.v[i] = m->b->members.v[--m->b->members.n];
			break;
		}
	if (!atomic_load(&k->closing)) /* whom it would be told is gone by then */
		k->base.events.finished(k->base.events.arg, m->a->id, r);
	member_free(m);
}

static void join(struct member *m, struct bundle *b)
{
	m->b = b;
	VEC_PUSH(&b->members, m);
	bundle_hold(b, m->a->id);
	b->nodes = MAX(m->a->gang.nodes, 1u);
}

/* --- making Jobs --------------------------------------------------------------------------------------------------------------------- */

/* May these two share a pod? What stands in the Job is of the first one. */
static bool alike(const struct runner_attempt *a, const struct runner_attempt *b)
{
	return str_eq(a->step, b->step) && str_eq(a->image, b->image) && str_eq(a->placement_json, b->placement_json) && a->pack == b->pack &&
	       a->resources.cpu_milli == b->resources.cpu_milli && a->resources.memory_bytes == b->resources.memory_bytes && a->resources.gpus == b->resources.gpus &&
	       a->grace_ns == b->grace_ns && a->gang.nodes <= 1 && b->gang.nodes <= 1;
}

static struct bundle *pack_for(const struct member *m, struct bundle *const *fresh, size_t n)
{
	for (size_t i = n; m->a->pack > 1 && i-- > 0;) {
		const struct bundle *b = fresh[i];

		if (b->members.n < MIN(m->a->pack, (uint32_t)PACK_MAX) && alike(b->members.v[0]->a, m->a))
			return fresh[i];
	}
	return NULL;
}

/* Jobs that are known to hold it; else a new one, or a place in one that is made in this turn. */
static void place(struct kube *k, struct member *m, struct bundle ***fresh, size_t *n)
{
	uint64_t id = m->a->id;
	struct bundle *b = map_get(k->holders, &id, sizeof(id));

	if (b && (b->state == BUNDLE_SEEN || b->state == BUNDLE_THERE) && (b->has_job || b->pods.n)) {
		if (b->state == BUNDLE_SEEN)
			b->stage_ns = kube_mono(k);
		b->state = BUNDLE_THERE;
		join(m, b);
		return;
	}
	b = pack_for(m, *fresh, *n);
	if (!b) {
		b = bundle_of(k, id);
		b->state = BUNDLE_PAUSED;
		*fresh = xreallocarray(*fresh, *n + 1, sizeof(**fresh));
		(*fresh)[(*n)++] = b;
	}
	join(m, b);
}

void runner_flush(struct kube *k)
{
	_cleanup_(freep) struct bundle **fresh = NULL;
	size_t n = 0, n_held = k->held.n;

	if (k->resumed && !k->jobs.synced)
		return;
	for (size_t i = 0; i < n_held; i++)
		place(k, k->held.v[i], &fresh, &n);
	k->held.n = 0;
	for (size_t i = 0; i < n; i++)
		bundle_make(fresh[i]);
	if (n_held > n)
		runner_look_all(k);
}

static void flush(void *arg)
{
	struct kube *k = arg;

	k->flusher = NULL;
	runner_flush(k);
}

static void tick(void *arg)
{
	struct kube *k = arg;

	k->ticker = loop_add_timer(k->loop, kube_mono(k) + TICK_NS, tick, k);
	runner_look_all(k);
	runner_ask_series(k);
}

/* --- what the engine asks for ----------------------------------------------------------------------------------------------------------- */

static int kube_submit(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	struct kube *k = kube_of(r);
	struct member **slot = (struct member **)map_slot(k->members, &a->id, sizeof(a->id), NULL);

	if (*slot)
		return 0;
	if (a->shell)
		return err_set(err, ERR_UNSUPPORTED, "a shell needs the local runner (--on local)");
	if (runner_watch(k, a->run_id, err) < 0)
		return -1;
	*slot = member_new(k, a);
	VEC_PUSH(&k->held, *slot);
	if (!k->ticker)
		k->ticker = loop_add_timer(k->loop, kube_mono(k) + TICK_NS, tick, k);
	if (!k->flusher)
		k->flusher = loop_add_timer(k->loop, kube_mono(k), flush, k);
	return 0;
}

/* Nothing is asked for it: it says that this run was there before, and which it is. What lives of it is found when it is submitted again. */
static int kube_adopt(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	struct kube *k = kube_of(r);

	k->resumed = true;
	return runner_watch(k, a->run_id, err);
}

static void kube_settled(struct runner *r, uint64_t attempt_id)
{
	struct kube *k = kube_of(r);
	struct bundle *b = map_get(k->holders, &attempt_id, sizeof(attempt_id));
	void **done = map_slot(k->done, &attempt_id, sizeof(attempt_id), NULL);

	if (!*done)
		*done = DONE;
	if (b)
		bundle_settle(b);
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

static bool all_cancelled(const struct bundle *b)
{
	for (size_t i = 0; i < b->members.n; i++)
		if (!b->members.v[i]->cancelled)
			return false;
	return b->members.n > 0;
}

bool bundle_hard(const struct bundle *b)
{
	for (size_t i = 0; i < b->members.n; i++)
		if (!b->members.v[i]->hard)
			return false;
	return b->members.n > 0;
}

/* It isn't in a Job: nothing has to end. */
static void cancel_held(struct kube *k, struct member *m)
{
	struct runner_result r = { .failure = FAILURE_CANCELLED, .exit_status = -1, .started_ns = kube_wall(k), .ended_ns = kube_wall(k) };

	for (size_t i = 0; i < k->held.n; i++)
		if (k->held.v[i] == m) {
			memmove(&k->held.v[i], &k->held.v[i + 1], (--k->held.n - i) * sizeof(m));
			break;
		}
	err_set(&r.err, ERR_CANCELLED, "stopped on request");
	member_report(m, &r);
}

/* Only a Job as a whole can be ended: one of a pack ends with the last. */
static void kube_cancel(struct runner *r, uint64_t attempt_id, bool gentle)
{
	struct kube *k = kube_of(r);
	struct member *m = map_get(k->members, &attempt_id, sizeof(attempt_id));
	struct bundle *b = m ? m->b : NULL;

	if (!m)
		return;
	m->cancelled = true;
	m->hard |= !gentle;
	if (!b) {
		cancel_held(k, m);
		return;
	}
	if (!all_cancelled(b))
		return;
	b->cancelled = true;
	if (b->state == BUNDLE_THERE)
		bundle_delete(b);
	if (b->state == BUNDLE_THERE && bundle_hard(b))
		bundle_delete_pods(b);
	bundle_look(b);
}

/* --- life -------------------------------------------------------------------------------------------------------------------------------- */

static void free_all(struct kube *k)
{
	for (size_t i = 0; i < map_len(k->members); i++) {
		struct member *m = map_at(k->members, i, NULL, NULL);

		if (m)
			member_free(m);
	}
	for (size_t i = 0; i < map_len(k->bundles); i++) {
		struct bundle *b = map_at(k->bundles, i, NULL, NULL);

		if (b)
			bundle_free(b);
	}
	VEC_FREE(&k->held);
	map_free(k->members);
	map_free(k->bundles);
	map_free(k->holders);
	map_free(k->done);
	free(k->run_id);
	free(k);
}

/* Jobs live on. What is on its way to be deleted is, when the server answers; what was to be made isn't any more. */
static void kube_free(struct runner *r)
{
	struct kube *k = kube_of(r);

	atomic_store(&k->closing, true);
	loop_remove(k->loop, k->ticker);
	loop_remove(k->loop, k->flusher);
	inbox_close(k);
	pool_free(k->pool);
	if (k->resumed && !k->jobs.synced)
		runner_sweep(k);
	kube_client_free(k->client);
	free_all(k);
}

static const struct runner_ops kube_ops = { .name = "kubernetes", .durable = true, .submit = kube_submit, .adopt = kube_adopt, .settled = kube_settled,
					    .forget = kube_settled, .drop_checkpoint = kube_drop_checkpoint, .cancel = kube_cancel, .free = kube_free };

int runner_kubernetes_new(struct loop *l, const struct runner_kubernetes_options *o, struct runner **ret, struct err *err)
{
	struct kube *k = xcalloc(1, sizeof(*k));
	struct kube_client_options co = o->client;

	co.patience_ns = co.patience_ns ? co.patience_ns : PATIENCE_NS;

	k->base.ops = &kube_ops;
	k->loop = l;
	k->o = *o;
	k->o.schedule_within_ns = o->schedule_within_ns ? o->schedule_within_ns : 15 * 60 * NS_PER_S;
	k->o.image_within_ns = o->image_within_ns ? o->image_within_ns : 5 * 60 * NS_PER_S;
	k->o.gang_within_ns = o->gang_within_ns ? o->gang_within_ns : 10 * 60 * NS_PER_S;
	k->o.lost_within_ns = o->lost_within_ns ? o->lost_within_ns : 30 * NS_PER_S;
	k->skew_ns = SKEW_UNKNOWN;
	k->members = map_new();
	k->bundles = map_new();
	k->holders = map_new();
	k->done = map_new();
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

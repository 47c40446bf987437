/* runners/kubernetes/jobs.c — what we know about Jobs, and which attempts each of them holds.
 *
 * A Job is known from the first fact about it (a submission, a watch's event) until it is gone from
 * the cluster and all its attempts are settled. It is found by the id of its first attempt
 * (`known`); its bundles are found by every attempt that they were made for (`holders`). Only this
 * file changes these maps. member_report() also shrinks a bundle's list of members.
 *
 * The annotation on the cluster says which attempts a Job was made for, and it wins over our own
 * view: job_take_layout() rebuilds the bundles, and members that the Job wasn't made for are held
 * again. Pods whose controller is another Job are dropped (job_purge()).
 *
 * job_settle() is called after every change and is idempotent. It deletes the Job when nobody waits
 * for any part of it, and frees the job when it is gone; so a pointer to a job or bundle isn't
 * valid after it. Loop's thread only; a bundle in BUNDLE_ENDING is never freed, because a worker
 * has it.
 */
#include <assert.h>
#include <string.h>
#include "runners/kubernetes/internal.h"

/* An ended pod keeps its files on its node. If its Job continues for others, the pod is deleted
 * this long after its end is on record. */
#define FORGET_NS (30 * NS_PER_S)
/* How long the Job's controller gets to count ended pods. */
#define COUNT_NS (5 * NS_PER_S)

/* Bundles. */

static void bundle_hold(struct bundle *b, uint64_t attempt_id)
{
	for (size_t i = 0; i < b->ids.n; i++)
		if (b->ids.v[i] == attempt_id)
			return;
	VEC_PUSH(&b->ids, attempt_id);
	*map_slot(b->k->by_id.holders, &attempt_id, sizeof(attempt_id), NULL) = b;
}

void bundle_join(struct bundle *b, struct member *m)
{
	b->k->n_waiting += !m->b && !m->started;
	m->b = b;
	VEC_PUSH(&b->members, m);
	bundle_hold(b, m->a->id);
	b->nodes = MAX(m->a->on.gang.nodes, 1u);
	b->min_nodes = kube_is_elastic(m->a) ? m->a->on.gang.min_nodes : 0;
}

static void bundle_let_go(struct bundle *b)
{
	for (size_t i = 0; i < b->ids.n; i++)
		if (map_get(b->k->by_id.holders, &b->ids.v[i], sizeof(b->ids.v[i])) == b)
			*map_slot(b->k->by_id.holders, &b->ids.v[i], sizeof(b->ids.v[i]), NULL) =
				NULL;
	b->ids.n = 0;
}

static void bundle_free(struct bundle *b)
{
	assert(b->state != BUNDLE_ENDING);
	bundle_let_go(b);
	for (size_t i = 0; i < b->pods.n; i++) {
		pod_facts_deinit(&b->pods.v[i]->f);
		free(b->pods.v[i]);
	}
	VEC_FREE(&b->pods);
	VEC_FREE(&b->ids);
	VEC_FREE(&b->members);
	free(b->trouble);
	free(b->imposed_text);
	free(b);
}

bool bundle_hard(const struct bundle *b)
{
	for (size_t i = 0; i < b->members.n; i++)
		if (!b->members.v[i]->hard)
			return false;
	return b->members.n > 0;
}

/* A pod that was seen before its Job may be anybody's. */
static bool on_record(const struct bundle *b)
{
	if (b->ids.n == 0)
		return b->j->seen && b->pods.n == 0;
	for (size_t i = 0; i < b->ids.n; i++)
		if (!map_get(b->k->by_id.done, &b->ids.v[i], sizeof(b->ids.v[i])))
			return false;
	return b->members.n == 0 && b->state != BUNDLE_ENDING;
}

/* Jobs. */

struct bundle *job_bundle(struct job *j, unsigned index)
{
	assert(index < KUBE_JOB_ATTEMPTS_MAX);
	while (j->bundles.n <= index) {
		struct bundle *b = xcalloc(1, sizeof(*b));

		b->k = j->k;
		b->j = j;
		b->index = (unsigned)j->bundles.n;
		b->nodes = 1;
		b->stage_ns = kube_mono(j->k);
		VEC_PUSH(&j->bundles, b);
	}
	return j->bundles.v[index];
}

struct job *job_of(struct kube *k, uint64_t id)
{
	struct job **slot = (struct job **)map_slot(k->by_id.jobs, &id, sizeof(id), NULL),
		   *j = *slot;

	if (j)
		return j;
	j = xcalloc(1, sizeof(*j));
	j->k = k;
	j->id = id;
	j->kind = kube_kinds;
	*slot = j;
	bundle_hold(job_bundle(j, 0), id);
	return j;
}

void job_free(struct job *j)
{
	assert(j->state != JOB_MAKING);
	*map_slot(j->k->by_id.jobs, &j->id, sizeof(j->id), NULL) = NULL;
	for (size_t i = 0; i < j->bundles.n; i++)
		bundle_free(j->bundles.v[i]);
	VEC_FREE(&j->bundles);
	job_facts_deinit(&j->f);
	free(j->trouble);
	free(j);
}

/* Anybody can write labels and annotations. Who may also make pods could name our Job as their
 * controller, too. */
bool job_owns(const struct job *j, const struct pod_facts *f)
{
	if (kube_kind_is_job(j->kind))
		return !*j->uid || str_eq(f->job_uid, j->uid);
	return f->owner && (!j->f.owner || str_eq(f->owner, j->f.owner));
}

void job_purge(struct job *j)
{
	for (size_t i = 0; i < j->bundles.n; i++) {
		struct bundle *b = j->bundles.v[i];

		for (size_t n = b->pods.n; n-- > 0;) {
			struct pod *p = b->pods.v[n];

			if (job_owns(j, &p->f))
				continue;
			pod_facts_deinit(&p->f);
			free(p);
			b->pods.v[n] = b->pods.v[--b->pods.n];
		}
	}
}

bool job_is_cancelled(const struct job *j)
{
	bool any = false;

	for (size_t i = 0; i < j->bundles.n; i++) {
		if (j->bundles.v[i]->members.n && !j->bundles.v[i]->cancelled)
			return false;
		any |= j->bundles.v[i]->members.n > 0;
	}
	return any;
}

/* Layout. */

static bool is_laid_out(const struct job *j, const struct job_facts *f)
{
	size_t at = 0;

	for (size_t i = 0; i < j->bundles.n; i++)
		for (size_t n = 0; n < j->bundles.v[i]->ids.n; n++, at++)
			if (at >= f->n_attempts || f->attempts[at] != j->bundles.v[i]->ids.v[n] ||
			    job_index_of(f, at) != i)
				return false;
	return at == f->n_attempts;
}

void job_take_layout(struct job *j, const struct job_facts *f)
{
	VEC(struct member *) members = { 0 };

	if (f->n_attempts == 0 || is_laid_out(j, f))
		return;
	for (size_t i = 0; i < j->bundles.n; i++) {
		struct bundle *b = j->bundles.v[i];

		for (size_t n = 0; n < b->members.n; n++)
			VEC_PUSH(&members, b->members.v[n]);
		b->members.n = 0;
		bundle_let_go(b);
	}
	for (size_t i = 0; i < f->n_attempts; i++)
		bundle_hold(job_bundle(j, job_index_of(f, i)), f->attempts[i]);
	for (size_t i = 0; i < members.n; i++) {
		struct member *m = members.v[i];
		struct bundle *b = map_get(j->k->by_id.holders, &m->a->id, sizeof(m->a->id));

		if (b && b->j == j)
			bundle_join(b, m);
		else
			runner_hold(j->k, m);
	}
	VEC_FREE(&members);
}

/* The end. */

static void forget(struct job *j)
{
	for (size_t b = 0; b < j->bundles.n && j->gone; b++)
		for (size_t i = 0; i < j->bundles.v[b]->ids.n; i++) {
			const uint64_t *id = &j->bundles.v[b]->ids.v[i];

			*map_slot(j->k->by_id.done, id, sizeof(*id), NULL) = DELETED;
		}
	job_free(j);
}

/* The Job's controller releases each ended pod (a finalizer), about once a second. If the Job is
 * deleted before that, the controller does this work twice. */
static bool is_counting(const struct job *j)
{
	int64_t last_ns = 0;

	if (j->k->leaving || !j->seen || j->f.complete || j->f.failed || j->f.deleted ||
	    j->bundles.n == 1)
		return false;
	for (size_t i = 0; i < j->bundles.n; i++)
		last_ns = MAX(last_ns, j->bundles.v[i]->reported_ns);
	return kube_mono(j->k) - last_ns < COUNT_NS;
}

void job_settle(struct job *j)
{
	bool settled = true;

	if (j->deleting || j->state == JOB_MAKING)
		return;
	for (size_t i = 0; i < j->bundles.n; i++)
		settled &= on_record(j->bundles.v[i]);
	/* Removes the pods of bundles that nobody waits for, while their Job continues. */
	for (size_t i = 0; i < j->bundles.n && !settled && j->bundles.n > 1 && !j->gone; i++) {
		struct bundle *b = j->bundles.v[i];

		if (!on_record(b))
			continue;
		bundle_delete_pods(b, false);
		if (kube_mono(b->k) > b->reported_ns + FORGET_NS)
			bundle_forget_pods(b);
	}
	if (!settled)
		return;
	if (!j->gone && *j->uid) {
		if (!is_counting(j))
			job_delete(j);
	} else if (j->gone || j->state != JOB_SEEN) {
		forget(j);
	}
}

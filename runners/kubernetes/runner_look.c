/* How it stands with a bundle, held against what was told of it; and what follows: words, a start, an end. Idempotent: it may be called at any time. */
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "runners/kubernetes/runner_internal.h"

/* A Job without a pod, and a pod without a sidecar, for so long: events may say why. Asked again so much later. */
#define NO_POD_NS     (2 * NS_PER_S)
#define NO_SIDECAR_NS (15 * NS_PER_S)
#define ASK_AGAIN_NS  (15 * NS_PER_S)
/* The server goes through all events of the namespace for each question: one at a time, this far apart, each bundle in its turn. */
#define ASK_APART_NS	 (1 * NS_PER_S)
#define ASK_AGAIN_MAX_NS (300 * NS_PER_S)

static void tell_waiting(struct member *m, const char *why)
{
	struct runner *r = &m->k->base;

	if (why && !*why)
		why = NULL;
	if (str_eq(m->waiting, why))
		return;
	free(m->waiting);
	m->waiting = why ? xstrdup(why) : NULL;
	if (r->events.waiting)
		r->events.waiting(r->events.arg, m->a->id, why);
}

static void tell_all(struct bundle *b, const char *why)
{
	for (size_t i = 0; i < b->members.n; i++)
		tell_waiting(b->members.v[i], why);
}

static void tell_started(struct bundle *b, int64_t wall_ns)
{
	struct runner *r = &b->k->base;

	for (size_t i = 0; i < b->members.n; i++) {
		if (b->members.v[i]->started)
			continue;
		b->members.v[i]->started = true;
		r->events.started(r->events.arg, b->members.v[i]->a->id, wall_ns ? wall_ns : kube_wall(b->k), 0);
	}
}

static void impose(struct bundle *b, enum failure_class class, const char *fmt, ...) _printf_(3, 4);
static void impose(struct bundle *b, enum failure_class class, const char *fmt, ...)
{
	va_list ap;

	b->imposed = class;
	va_start(ap, fmt);
	vsnprintf(b->imposed_text, sizeof(b->imposed_text), fmt, ap);
	va_end(ap);
}

/* --- time limits ---------------------------------------------------------------------------------------------------------------------- */

static void say_late(struct bundle *b, enum failure_class class, const char *what, int64_t within_ns, const char *why)
{
	_cleanup_(str_deinit) struct str time = { 0 };

	text_add_duration(&time, within_ns);
	impose(b, class, "%s within %s%s%.400s", what, time.s, why && *why ? ": " : "", why ? why : "");
}

static bool no_sidecar(const struct bundle *b)
{
	for (size_t i = 0; i < b->pods.n; i++)
		if (b->pods.v[i]->f.sidecar.state != CONTAINER_WAITING)
			return false;
	return true;
}

/* Pods of several nodes hold each other up, and what they have been given: all of them or none. */
static void limit_gang(struct bundle *b, const struct kube_verdict *v, int64_t now)
{
	unsigned running = 0;
	_cleanup_(str_deinit) struct str time = { 0 };

	for (size_t i = 0; i < b->pods.n; i++)
		running += b->pods.v[i]->f.main.state == CONTAINER_RUNNING && !b->pods.v[i]->f.gone;
	if (running && !b->first_running_ns)
		b->first_running_ns = now;
	if (v->stage >= STAGE_RUNNING || b->imposed != FAILURE_NONE || b->k->trouble || !b->first_running_ns || now - b->first_running_ns <= b->k->o.gang_within_ns)
		return;
	text_add_duration(&time, b->k->o.gang_within_ns);
	impose(b, FAILURE_UNSCHEDULABLE, "%u of %u pods started within %s; released%s%.400s", running, b->nodes, time.s, *v->text ? ": " : "", v->text);
}

static void limit(struct bundle *b, const struct kube_verdict *v)
{
	const struct runner_kubernetes_options *o = &b->k->o;
	int64_t now = kube_mono(b->k), waited = now - b->stage_ns;
	const char *why = *v->text ? v->text : b->trouble;

	if (b->nodes > 1)
		limit_gang(b, v, now);
	if (b->imposed != FAILURE_NONE || b->k->trouble)
		return;
	switch (v->stage) {
	case STAGE_CREATED:
	case STAGE_UNSCHEDULABLE:
		if (waited > o->schedule_within_ns && !(b->has_job && b->job.suspended))
			say_late(b, FAILURE_UNSCHEDULABLE, "it got no place", o->schedule_within_ns, why);
		break;
	case STAGE_STARTING:
		if (waited > o->schedule_within_ns && no_sidecar(b))
			say_late(b, FAILURE_UNSCHEDULABLE, "its pod did not come up", o->schedule_within_ns, b->trouble ? b->trouble : why);
		break;
	case STAGE_IMAGE:
		if (waited > o->image_within_ns)
			say_late(b, FAILURE_IMAGE, "it got no image", o->image_within_ns, why);
		break;
	case STAGE_REFUSED:
		if (waited > o->image_within_ns)
			say_late(b, FAILURE_FAILED, "it could not be started", o->image_within_ns, why);
		break;
	default:
		break;
	}
}

static bool may_ask(const struct bundle *b, int64_t now)
{
	const struct kube *k = b->k;
	int64_t turn = MIN(MAX((int64_t)map_len(k->bundles) * ASK_APART_NS, ASK_AGAIN_NS), ASK_AGAIN_MAX_NS);

	return !(b->asked_ns && now - b->asked_ns < turn) && !k->asking && !(k->asked_ns && now - k->asked_ns < ASK_APART_NS);
}

static void ask_why(struct bundle *b, const struct kube_verdict *v)
{
	int64_t now = kube_mono(b->k), waited = now - b->stage_ns;

	if (!may_ask(b, now) || b->k->trouble)
		return;
	if (v->stage == STAGE_CREATED && b->pods.n == 0 && waited > NO_POD_NS && *b->uid && !(b->has_job && b->job.suspended))
		bundle_ask_events(b, b->uid);
	else if (v->stage == STAGE_STARTING && b->pods.n && waited > NO_SIDECAR_NS && no_sidecar(b))
		bundle_ask_events(b, b->pods.v[b->pods.n - 1]->f.uid);
}

/* --- words -------------------------------------------------------------------------------------------------------------------------------- */

static void say_why(struct bundle *b, const struct kube_verdict *v)
{
	const char *away = b->k->trouble;

	if (away) {
		_cleanup_(freep) char *text = xasprintf("the cluster does not answer, what runs there goes on: %s", away);

		tell_all(b, text);
	} else if (v->stage >= STAGE_RUNNING) {
		tell_all(b, NULL);
	} else if (b->trouble && (v->stage == STAGE_CREATED || (v->stage == STAGE_STARTING && no_sidecar(b)))) {
		tell_all(b, b->trouble);
	} else {
		tell_all(b, v->text);
	}
}

/* --- one bundle ----------------------------------------------------------------------------------------------------------------------------- */

/* A node that is gone never says that its pods have ended. */
static void give_up_pods(struct bundle *b, int64_t now_ns)
{
	for (size_t i = 0; i < b->pods.n; i++) {
		struct pod_facts *f = &b->pods.v[i]->f;

		if (f->deleted_ns && f->phase != POD_SUCCEEDED && f->phase != POD_FAILED && now_ns > f->deleted_ns + b->k->o.lost_within_ns)
			f->gone = true;
	}
}

static void judge(struct bundle *b, struct kube_verdict *v)
{
	_cleanup_(freep) const struct pod_facts **pods = xcalloc(b->pods.n + 1, sizeof(*pods));
	int64_t now = kube_wall(b->k) + b->k->skew_ns;

	give_up_pods(b, now);
	for (size_t i = 0; i < b->pods.n; i++)
		pods[i] = &b->pods.v[i]->f;
	kube_judge(b->has_job ? &b->job : NULL, b->gone, pods, b->pods.n, b->nodes, now, v);
	if (v->stage == b->stage)
		return;
	b->stage = v->stage;
	b->stage_ns = kube_mono(b->k);
	b->asked_ns = 0;
	free(b->trouble);
	b->trouble = NULL;
}

static void look_there(struct bundle *b)
{
	struct kube_verdict v;

	judge(b, &v);
	if (b->members.n == 0)
		return;
	if (b->cancelled && bundle_hard(b) && !b->deleting) /* who reads that it is over finds nothing that goes on */
		impose(b, FAILURE_CANCELLED, "stopped on request");
	if (v.stage != STAGE_ENDED && b->imposed == FAILURE_NONE)
		limit(b, &v);
	if (b->imposed != FAILURE_NONE && v.stage != STAGE_ENDED) {
		v.stage = STAGE_ENDED;
		v.class = b->imposed;
		memcpy(v.text, b->imposed_text, sizeof(v.text));
	}
	if (v.program_ran)
		tell_started(b, v.stage == STAGE_RUNNING ? v.since_ns : 0);
	if (v.stage == STAGE_ENDED) {
		bundle_end(b, &v);
		return;
	}
	ask_why(b, &v);
	say_why(b, &v);
}

/* There is no Job, as far as is known: one whose creation wasn't answered shows up in the watch, and goes then. */
static void look_paused(struct bundle *b)
{
	struct kube_verdict v = { .stage = STAGE_ENDED, .class = FAILURE_CANCELLED, .text = "stopped on request", .exit_code = -1 };
	int64_t now = kube_mono(b->k);

	if (b->cancelled) {
		bundle_end(b, &v);
	} else if (b->no_quota && now - b->stage_ns > b->k->o.schedule_within_ns) {
		say_late(b, FAILURE_UNSCHEDULABLE, "it got no place", b->k->o.schedule_within_ns, b->trouble);
		v.class = b->imposed;
		memcpy(v.text, b->imposed_text, sizeof(v.text));
		bundle_end(b, &v);
	} else {
		tell_all(b, b->trouble);
		if (now >= b->again_ns)
			bundle_make(b);
	}
}

void bundle_look(struct bundle *b)
{
	if (atomic_load(&b->k->closing))
		return;
	switch (b->state) {
	case BUNDLE_PAUSED:
		look_paused(b);
		break;
	case BUNDLE_THERE:
		look_there(b);
		break;
	case BUNDLE_MAKING:
		if (b->cancelled && bundle_hard(b))
			break;
		if (b->k->trouble)
			tell_all(b, b->k->trouble);
		break;
	case BUNDLE_SEEN:
	case BUNDLE_REPORTED:
		bundle_settle(b);
		break;
	case BUNDLE_ENDING:
		break;
	}
}

/* What is held waits for the list of Jobs. */
static void look_held(struct kube *k)
{
	for (size_t i = 0; i < k->held.n; i++)
		tell_waiting(k->held.v[i], k->trouble);
}

void runner_look_all(struct kube *k)
{
	look_held(k);
	for (size_t i = 0; i < map_len(k->bundles); i++) {
		struct bundle *b = map_at(k->bundles, i, NULL, NULL);

		if (b)
			bundle_look(b);
	}
}

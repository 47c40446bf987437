/* runners/kubernetes/reconcile.c — reconciles what was seen of a Job with what was reported.
 *
 * job_reconcile() and bundle_reconcile() are idempotent and may be called at any time: after every
 * event, after every request, once a second. For each open bundle, judge() makes a verdict from the
 * facts, and the actions follow in a fixed order: cancellations, time limits (limit()), missing
 * objects of a gang (job_repair()), the start, the end (bundle_end()), and otherwise a reason why
 * it waits. Only changes are reported: each member remembers its last report.
 *
 * Time limits are one table (`limits`): what each stage waits for, for how long, and which failure
 * it becomes. They are suspended while the server can't be reached (`trouble`), because then nobody
 * knows the stage. A server that answers, but doesn't let us watch, ends attempts (limit_sight()).
 *
 * Two watches are two streams: one may be ahead of the other. So an end without a pod, and a
 * deleted pod without an explanation, count only after a while (is_podless(), await_word()).
 *
 * Loop's thread only. Nothing here blocks: requests.c makes requests, end.c reads results, judge.c
 * judges facts.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "runners/kubernetes/internal.h"

/* After this time, a Job without a pod, or a pod without a sidecar, is a reason to request events.
 * The request is repeated after ASK_AGAIN_NS. */
#define NO_POD_NS     (2 * NS_PER_S)
#define NO_SIDECAR_NS (15 * NS_PER_S)
#define ASK_AGAIN_NS  (15 * NS_PER_S)
/* The server reads all events of the namespace for each request. So there is one request at a time,
 * this far apart, and bundles take turns. */
#define ASK_APART_NS     (1 * NS_PER_S)
#define ASK_AGAIN_MAX_NS (300 * NS_PER_S)
/* News of a pod come at most this long after its Job's, and a Job's after its pod's. */
#define PODLESS_NS (5 * NS_PER_S)
/* A sidecar that isn't ready this long after its start reports trouble; before that, its first
 * probe may not have run (job/pod.c). */
#define UNREADY_NS (90 * NS_PER_S)
/* The same as the helper's, init/program.c. */
#define GRACE_DEFAULT_NS (10 * NS_PER_S)
/* Added to the allowed time for differences of clocks, watches and the kubelet, but at most the
 * allowed time itself. */
#define SLACK_NS (300 * NS_PER_S)
/* How long the first request may be refused: a new Role is known everywhere by then. */
#define DENIED_NS (5 * NS_PER_S)

static void report_waiting(struct member *m, const char *why)
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

static void report_all(struct bundle *b, const char *why)
{
	for (size_t i = 0; i < b->members.n; i++)
		report_waiting(b->members.v[i], why);
}

static void report_started(struct bundle *b, int64_t wall_ns)
{
	struct runner *r = &b->k->base;

	for (size_t i = 0; i < b->members.n; i++) {
		if (b->members.v[i]->started)
			continue;
		b->members.v[i]->started = true;
		b->k->n_waiting--;
		r->events.started(r->events.arg, b->members.v[i]->a->id,
				  wall_ns ? wall_ns : kube_wall(b->k), 0);
	}
}

void bundle_impose(struct bundle *b, enum failure_class class, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	free(b->imposed_text);
	b->imposed = class;
	b->imposed_text = xstrdup(text);
}

/* Time limits. */

static void add_late(struct str *out, const char *what, int64_t within_ns, const char *why)
{
	str_addf(out, "%s within ", what);
	text_add_duration(out, within_ns);
	str_addf(out, "%s%.400s", why && *why ? ": " : "", why ? why : "");
}

static bool no_sidecar(const struct bundle *b)
{
	for (size_t i = 0; i < b->pods.n; i++)
		if (b->pods.v[i]->f.sidecar.state != CONTAINER_WAITING)
			return false;
	return true;
}

/* Pods of several nodes block each other, and their resources: all of them must start, or none. */
static void limit_gang(struct bundle *b, const struct kube_verdict *v, int64_t now)
{
	unsigned running = 0;
	_cleanup_(str_deinit) struct str time = { 0 };

	for (size_t i = 0; i < b->pods.n; i++)
		running += b->pods.v[i]->f.main.state == CONTAINER_RUNNING && !b->pods.v[i]->f.gone;
	if (running && !b->first_running_ns)
		b->first_running_ns = now;
	if (v->stage >= STAGE_RUNNING || b->imposed != FAILURE_NONE || b->k->watches.trouble ||
	    !b->first_running_ns || now - b->first_running_ns <= b->k->o.gang_within_ns)
		return;
	text_add_duration(&time, b->k->o.gang_within_ns);
	bundle_impose(b, FAILURE_UNSCHEDULABLE, "%u of %u pods started within %s; released%s%.400s",
		      running, b->min_nodes ? b->min_nodes : b->nodes, time.s, *v->text ? ": " : "",
		      v->text);
}

static int64_t slack(const struct kube *k)
{
	return MIN(SLACK_NS, k->save_within_ns);
}

/* The helper enforces the program's own limit, and the sidecar the one for saving. This limit is
 * for a pod in which neither does. 0: there is none. */
static int64_t program_within(const struct bundle *b)
{
	int64_t ns = b->k->save_within_ns + slack(b->k);

	for (size_t i = 0; i < b->members.n; i++) {
		const struct runner_attempt *a = b->members.v[i]->a;

		if (!a->timeout_ns)
			return 0;
		ns += a->timeout_ns + (a->grace_ns ? a->grace_ns : GRACE_DEFAULT_NS);
	}
	return ns;
}

static int64_t save_within(const struct bundle *b)
{
	return b->k->save_within_ns + slack(b->k);
}

static int64_t schedule_within(const struct bundle *b)
{
	return b->k->o.schedule_within_ns;
}

static int64_t image_within(const struct bundle *b)
{
	return b->k->o.image_within_ns;
}

static int64_t sidecar_within(const struct bundle *b)
{
	return no_sidecar(b) ? b->k->o.schedule_within_ns : 0;
}

static int64_t inputs_within(const struct bundle *b)
{
	return no_sidecar(b) ? 0 : save_within(b);
}

/* What each stage of an attempt with a Job waits for, for how long, and which failure it becomes
 * when that doesn't come. A queue has no limit. Other parts of an attempt's life have their own:
 * look_paused() before it has a Job, limit_gang(), limit_sight() in every stage, and bundle_end()
 * for a result in the store. */
static const struct stage_limit {
	enum kube_stage stage;
	int64_t (*within)(const struct bundle *b); /* 0: no limit now */
	enum failure_class class;
	const char *what;
} limits[] = {
	{ STAGE_CREATED, schedule_within, FAILURE_UNSCHEDULABLE, "it got no place" },
	{ STAGE_UNSCHEDULABLE, schedule_within, FAILURE_UNSCHEDULABLE, "it got no place" },
	{ STAGE_IMAGE, image_within, FAILURE_IMAGE, "it got no image" },
	{ STAGE_REFUSED, image_within, FAILURE_FAILED, "it could not be started" },
	{ STAGE_STARTING, sidecar_within, FAILURE_UNSCHEDULABLE, "its pod did not come up" },
	{ STAGE_STARTING, inputs_within, FAILURE_STORE, "its inputs were not brought" },
	{ STAGE_RUNNING, program_within, FAILURE_TIMEOUT, "it did not end" },
	{ STAGE_SAVING, save_within, FAILURE_STORE, "it ended, but its outputs were not kept" },
};

/* If the server refuses our watches, nobody can see an attempt end. If they worked before, perhaps
 * only a token or a Role is being replaced, so the limit is longer. */
static void limit_sight(struct kube *k)
{
	k->watches.shut_out = false;
	for (size_t i = 0; i <= KUBE_KINDS; i++) {
		const struct view *v = i < KUBE_KINDS ? &k->watches.jobs[i] : &k->watches.pods;
		int64_t within = v->synced ? k->o.schedule_within_ns : DENIED_NS;

		k->watches.shut_out |= v->denied_ns && kube_mono(k) - v->denied_ns >= within;
	}
}

static void limit(struct bundle *b, const struct kube_verdict *v)
{
	int64_t waited = kube_mono(b->k) - b->stage_ns;
	const char *why = v->stage == STAGE_STARTING && b->trouble ? b->trouble
			  : *v->text                               ? v->text
			  : v->stage == STAGE_CREATED              ? b->j->trouble
								   : b->trouble;

	if (b->nodes > 1)
		limit_gang(b, v, kube_mono(b->k));
	if (b->k->watches.shut_out && b->imposed == FAILURE_NONE) {
		bundle_impose(b, FAILURE_FAILED, "%.500s", b->k->watches.trouble);
		b->imposed_code = ERR_INVALID;
	}
	for (size_t i = 0; i < ARRAY_LEN(limits); i++) {
		const struct stage_limit *l = &limits[i];
		int64_t within = l->stage == v->stage ? l->within(b) : 0;
		_cleanup_(str_deinit) struct str text = { 0 };

		if (b->imposed != FAILURE_NONE || b->k->watches.trouble || !within ||
		    waited <= within)
			continue;
		add_late(&text, l->what, within, why);
		bundle_impose(b, l->class, "%s", text.s);
	}
}

static bool may_ask(const struct kube *k, int64_t asked_ns, int64_t now)
{
	int64_t turn = MIN(MAX((int64_t)map_len(k->by_id.jobs) * ASK_APART_NS, ASK_AGAIN_NS),
			   ASK_AGAIN_MAX_NS);

	return !(asked_ns && now - asked_ns < turn) && !k->questions.events &&
	       !(k->questions.asked_ns && now - k->questions.asked_ns < ASK_APART_NS);
}

/* A running pod whose sidecar isn't ready: the sidecar reports trouble (engine/pod/pod.c, the
 * probe). */
static const struct pod_facts *pod_unready(const struct bundle *b)
{
	int64_t now = kube_wall(b->k) + b->k->skew_ns;

	for (size_t i = 0; i < b->pods.n; i++) {
		const struct pod_facts *f = &b->pods.v[i]->f;
		const struct container_facts *s = &f->sidecar;

		if (!f->gone && s->state == CONTAINER_RUNNING && s->started_ns &&
		    (!s->ready || f->main.state == CONTAINER_TERMINATED) &&
		    now - s->started_ns > UNREADY_NS)
			return f;
	}
	return NULL;
}

static void ask_why(struct bundle *b, const struct kube_verdict *v)
{
	const struct pod_facts *unready;
	int64_t now = kube_mono(b->k), waited = now - b->stage_ns;
	struct job *j = b->j;

	if (b->k->watches.trouble)
		return;
	if ((v->stage == STAGE_CREATED || v->stage == STAGE_QUEUED) && b->pods.n == 0 &&
	    waited > NO_POD_NS && *j->uid && may_ask(b->k, j->asked_ns, now))
		kube_ask_events(j);
	else if (v->stage == STAGE_STARTING && b->pods.n && waited > NO_SIDECAR_NS &&
		 may_ask(b->k, b->asked_ns, now))
		kube_ask_about_pod(b, &b->pods.v[b->pods.n - 1]->f);
	else if (v->stage >= STAGE_RUNNING && (unready = pod_unready(b)) &&
		 may_ask(b->k, b->asked_ns, now))
		kube_ask_about_pod(b, unready);
}

/* Reasons. */

static void say_why(struct bundle *b, const struct kube_verdict *v)
{
	if (b->k->watches.trouble) {
		report_all(b, b->k->watches.trouble);
	} else if (v->stage >= STAGE_RUNNING) {
		const char *said = pod_unready(b) ? b->trouble : NULL;

		report_all(b, said ? said : v->text);
	} else if (b->j->trouble && v->stage == STAGE_CREATED) {
		report_all(b, b->j->trouble);
	} else if (b->j->trouble && v->stage == STAGE_QUEUED) {
		_cleanup_(freep) char *text = xasprintf("%s: %s", v->text, b->j->trouble);

		report_all(b, text);
	} else if (b->trouble && v->stage == STAGE_STARTING) {
		report_all(b, b->trouble);
	} else {
		report_all(b, v->text);
	}
}

/* One bundle. */

/* Two watches report pods and Jobs, and one may be behind. So a Job that is over without a pod
 * counts only after a while. */
static bool is_podless(struct bundle *b)
{
	const struct job *j = b->j;
	/* Of several nodes some may lack their pod: the judge checks each. */
	bool over = b->nodes > 1 ? j->f.failed || j->f.complete
				 : !b->pods.n && job_is_over(&j->f, b->index);

	if (!over || !j->seen || j->gone) {
		b->podless_ns = 0;
		return false;
	}
	if (!b->podless_ns)
		b->podless_ns = kube_mono(b->k);
	return b->k->watches.pods.synced && kube_mono(b->k) - b->podless_ns >= PODLESS_NS;
}

/* Only the Job may say why its pod was deleted, and its news may be late. */
static void await_word(struct bundle *b, struct kube_verdict *v)
{
	const struct job *j = b->j;
	int64_t now = kube_mono(b->k);

	if (v->stage != STAGE_ENDED || !v->unexplained || b->cancelled ||
	    b->imposed != FAILURE_NONE || !j->seen || j->gone || j->deleting ||
	    job_is_over(&j->f, b->index)) {
		b->unexplained_ns = 0;
		return;
	}
	if (!b->unexplained_ns)
		b->unexplained_ns = now;
	if (now - b->unexplained_ns < PODLESS_NS)
		*v = (struct kube_verdict){ .stage = b->stage,
					    .exit_code = -1,
					    .program_ran = v->program_ran };
}

static void judge(struct bundle *b, struct kube_verdict *v)
{
	_cleanup_(freep) const struct pod_facts **pods = xcalloc(b->pods.n + 1, sizeof(*pods));
	int64_t now = kube_wall(b->k) + b->k->skew_ns;
	struct kube_observed seen = { .job = b->j->seen ? &b->j->f : NULL,
				      .gone = b->j->gone,
				      .podless = is_podless(b),
				      .pods = pods,
				      .n = b->pods.n,
				      .nodes = b->nodes,
				      .min_nodes = b->min_nodes,
				      .released_ns = b->j->released_ns };

	for (size_t i = 0; i < b->pods.n; i++) {
		struct pod_facts *f = &b->pods.v[i]->f;

		/* A dead node never reports that its pods have ended. */
		if (f->deleted_ns && !pod_is_over(f) &&
		    now > f->deleted_ns + b->k->o.lost_within_ns)
			f->gone = true;
		pods[i] = f;
	}
	kube_judge(&seen, now, v);
	await_word(b, v);
	if (v->stage == b->stage)
		return;
	if (b->stage == STAGE_QUEUED) { /* the reason of the queue doesn't hold any more */
		free(b->j->trouble);
		b->j->trouble = NULL;
		b->j->asked_ns = 0;
	}
	b->stage = v->stage;
	b->stage_ns = kube_mono(b->k);
	b->asked_ns = 0;
	free(b->trouble);
	b->trouble = NULL;
}

/* Cancelled members: their pods are deleted with the whole Job (runner.c), or here, when others of
 * the Job continue. */
static void look_cancelled(struct bundle *b)
{
	bool whole = job_is_cancelled(b->j);

	if (!whole)
		bundle_delete_pods(b, bundle_hard(b));
	if (whole ? bundle_hard(b) && !b->j->deleting
		  : b->pods.n == 0) /* the pod is really gone when the end is reported */
		bundle_impose(b, FAILURE_CANCELLED, "stopped on request");
}

static void look_there(struct bundle *b)
{
	struct kube_verdict v;

	judge(b, &v);
	if (b->members.n == 0)
		return;
	if (b->cancelled)
		look_cancelled(b);
	if (v.stage != STAGE_ENDED && b->imposed == FAILURE_NONE)
		limit(b, &v);
	if (b->imposed != FAILURE_NONE && v.stage != STAGE_ENDED) {
		v.stage = STAGE_ENDED;
		v.class = b->imposed;
		snprintf(v.text, sizeof(v.text), "%s", b->imposed_text);
	}
	if (b->j->incomplete && v.stage != STAGE_ENDED)
		job_repair(b->j);
	/* The Job's controller ends the other pods of a gang itself; an operator may not, and those
	 * of an elastic gang wait for others to come. */
	if (v.broken && (b->min_nodes || !kube_kind_is_job(b->j->kind)))
		job_delete(b->j);
	if (v.program_ran)
		report_started(b, v.stage == STAGE_RUNNING ? v.since_ns : 0);
	if (v.stage == STAGE_ENDED && kube_mono(b->k) < b->fetched_ns) {
		report_all(b, b->trouble);
		return;
	}
	if (v.stage == STAGE_ENDED) {
		bundle_end(b, &v);
		return;
	}
	ask_why(b, &v);
	say_why(b, &v);
}

static void look_open(struct bundle *b)
{
	if (b->state == BUNDLE_OPEN && b->j->state == JOB_THERE)
		look_there(b);
}

void bundle_reconcile(struct bundle *b)
{
	if (atomic_load(&b->k->closing))
		return;
	look_open(b);
	job_settle(b->j);
}

/* One Job. */

static void end_all(struct job *j, enum failure_class class, const char *text)
{
	struct kube_verdict v = { .stage = STAGE_ENDED, .class = class, .exit_code = -1 };

	snprintf(v.text, sizeof(v.text), "%s", text);
	for (size_t i = 0; i < j->bundles.n; i++)
		if (j->bundles.v[i]->state == BUNDLE_OPEN)
			bundle_end(j->bundles.v[i], &v);
}

static void report_job(struct job *j, const char *why)
{
	for (size_t i = 0; i < j->bundles.n; i++)
		report_all(j->bundles.v[i], why);
}

static bool is_awaited(const struct job *j)
{
	for (size_t i = 0; i < j->bundles.n; i++)
		if (j->bundles.v[i]->state == BUNDLE_OPEN && j->bundles.v[i]->members.n)
			return true;
	return false;
}

/* No Job is known. If its creation wasn't answered, it appears in the watch and is then deleted. */
static void look_paused(struct job *j)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	int64_t now = kube_mono(j->k), within = j->k->o.schedule_within_ns;

	if (!is_awaited(j))
		return;
	if (job_is_cancelled(j)) {
		end_all(j, FAILURE_CANCELLED, "stopped on request");
	} else if (j->refused_ns && now - j->refused_ns > within) {
		add_late(&text,
			 j->refused_as == FAILURE_STORE ? "it could not begin" : "it got no place",
			 within, j->trouble);
		end_all(j, j->refused_as, text.s);
	} else if (j->k->watches.shut_out) {
		end_all(j, FAILURE_FAILED, j->k->watches.trouble);
	} else {
		report_job(j, j->trouble);
		if (now >= j->again_ns)
			job_make(j);
	}
}

void job_reconcile(struct job *j)
{
	if (atomic_load(&j->k->closing))
		return;
	if (j->state == JOB_PAUSED)
		look_paused(j);
	else if (j->state == JOB_MAKING && j->k->watches.trouble && !job_is_cancelled(j))
		report_job(j, j->k->watches.trouble);
	for (size_t i = 0; i < j->bundles.n; i++)
		look_open(j->bundles.v[i]);
	job_settle(j);
}

/* Held members wait for the list of Jobs. */
static void look_held(struct kube *k)
{
	for (size_t i = 0; i < k->held.n; i++)
		report_waiting(k->held.v[i], k->watches.trouble);
	while (k->watches.shut_out && k->held.n) {
		struct member *m = k->held.v[--k->held.n];
		struct runner_result r = { .failure = FAILURE_FAILED, .exit_status = -1 };

		r.started_ns = r.ended_ns = kube_wall(k);
		err_set(&r.err, ERR_INVALID, "%s", k->watches.trouble);
		member_report(m, &r);
	}
}

void runner_reconcile_all(struct kube *k)
{
	limit_sight(k);
	look_held(k);
	for (size_t i = 0; i < map_len(k->by_id.jobs); i++) {
		struct job *j = map_at(k->by_id.jobs, i, NULL, NULL);

		if (j)
			job_reconcile(j);
	}
}

/* runners/kubernetes/judge.c — from facts to a verdict: the stage of an attempt, and why it ended.
 *
 * judge_end() checks causes in order, from those that nothing else can produce to those that
 * anything can. A program that succeeded and whose outputs are stored has succeeded, whatever
 * happened to its pod then. Next come a kill for memory; a disruption, which the control plane
 * writes into a condition before it acts; a queue that took its place back; the Job's deadline; and
 * the pod's reason from the kubelet. Then the sidecar, other containers, the program's exit; and
 * last a pod that has simply disappeared.
 *
 * A pod that hasn't ended has a stage (judge_pod(), judge_start()). Of several pods of one index
 * better() picks one. For several nodes each pod is judged, the first failure is the cause
 * (weight() if times are equal), and the gang ends when the slowest node has ended.
 *
 * An elastic gang (judge_elastic()) goes on as long as its first node and enough others do. The
 * first node keeps the rendezvous and has rank 0, so its end is the gang's: a good one is success
 * if enough others ended well, too, and a bad one is final, even if its pod was replaced since.
 * Pods that have no place yet hold nothing up.
 *
 * Pure functions of the facts and `now_ns`: no clock, no state, any thread. Text is for people;
 * classes never come from messages. reconcile.c sets time limits.
 */
#include "runners/kubernetes/facts.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "base/time/clock.h"
#include "runners/kubernetes/init/protocol.h"

/* The end of a sidecar is known at most this long after all other containers of its pod have
 * ended. */
#define SIDECAR_LATE_NS (30 * NS_PER_S)
/* Two ends within this time count as simultaneous: clocks of different machines, in whole seconds.
 */
#define SAME_TIME_NS (2 * NS_PER_S)
/* How long the other nodes may continue after one node's failure: longer than any pod needs to end.
 */
#define GANG_LATE_NS (15 * 60 * NS_PER_S)
/* How long the others of an elastic gang may continue after its first node ended well: what they
 * still do is a log. One that came too late to take part gives up by itself. */
#define ELASTIC_LATE_NS (120 * NS_PER_S)
/* After this many ends before the program could start, a sidecar counts as hopeless. */
#define SIDECAR_RESTARTS 3
/* A start that takes longer than this is mentioned, once. */
#define WORTH_A_WORD_NS (30 * NS_PER_S)

static void say(struct kube_verdict *v, const char *fmt, ...) _printf_(2, 3);
static void say(struct kube_verdict *v, const char *fmt, ...)
{
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(v->text, sizeof(v->text), fmt, ap);
	va_end(ap);
	if (len >= (int)sizeof(v->text)) /* not inside a character */
		for (size_t n = sizeof(v->text) - 1; n > 0 && !text_is_utf8(v->text, n); n--)
			v->text[n - 1] = '\0';
	for (char *c = v->text; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 127)
			*c = ' ';
}

static void end_as(struct kube_verdict *v, enum failure_class class)
{
	v->stage = STAGE_ENDED;
	v->class = class;
}

#define ONE_OF(word, ...)                                          \
	text_is_one_of(word, (const char *const[]){ __VA_ARGS__ }, \
		       ARRAY_LEN(((const char *const[]){ __VA_ARGS__ })))

/* The API's message, or another text. */
static const char *or_else(const char *message, const char *other)
{
	return message && *message ? message : other;
}

static const char *kind_of(const struct job_facts *job)
{
	return job && job->kind ? job->kind->kind : "Job";
}

/* The sidecar's result. */

/* It writes an object, or nothing. A restarted one has written its result before. */
static const char *result_of(const struct pod_facts *p)
{
	const struct container_facts *s = &p->sidecar;

	if (s->state == CONTAINER_TERMINATED && s->message && *s->message == '{')
		return s->message;
	return s->last_message && *s->last_message == '{' ? s->last_message : NULL;
}

static bool ended_well(const struct pod_facts *p)
{
	return result_of(p) && p->main.state == CONTAINER_TERMINATED && p->main.exit_code == 0;
}

/* Why it ended. */

static bool judge_memory(const struct pod_facts *p, struct kube_verdict *v)
{
	const struct container_facts *s = &p->sidecar;

	if (str_eq(p->main.reason, "OOMKilled")) {
		end_as(v, FAILURE_OOM);
		say(v, "killed for memory: it used more than its limit (resources: memory)");
		return true;
	}
	if (str_eq(s->reason, "OOMKilled") ||
	    (str_eq(s->last_reason, "OOMKilled") && !result_of(p))) {
		end_as(v, FAILURE_STORE);
		say(v, "the sidecar was killed for memory while it brought inputs or kept outputs");
		return true;
	}
	return false;
}

/* A deadline of the Job (activeDeadlineSeconds): its controller deletes the pods, and only the Job
 * has the reason. */
static bool judge_deadline(const struct job_facts *job, const struct pod_facts *p,
			   struct kube_verdict *v)
{
	if (!job || !str_eq(job->reason, "DeadlineExceeded") || !(p->deleted_ns || p->gone))
		return false;
	end_as(v, FAILURE_TIMEOUT);
	say(v, "its %s ran longer than it may: %s", kind_of(job),
	    or_else(job->message, job->reason));
	return true;
}

static bool judge_disruption(const struct pod_facts *p, struct kube_verdict *v)
{
	const char *d = p->disruption, *node = or_else(p->node, "its node");

	if (!d)
		return false;
	if (str_eq(d, "DeletionByPodGC")) {
		end_as(v, FAILURE_LOST);
		say(v, "%s is gone, and the pod with it", node);
	} else if (str_eq(d, "DeletionByTaintManager") && !pod_is_over(p)) {
		end_as(v, FAILURE_LOST);
		say(v, "%s does not answer any more: nobody knows how it ended", node);
	} else {
		end_as(v, FAILURE_PREEMPTED);
		say(v,
		    str_eq(d, "PreemptionByScheduler")
			    ? "preempted by a pod of a higher priority%s%s"
		    : str_eq(d, "EvictionByEvictionAPI")
			    ? "evicted%s%s (drained, or by an autoscaler)"
		    : str_eq(d, "DeletionByTaintManager") ? "evicted%s%s by a taint"
							  : "ended by the kubelet%s%s",
		    p->node ? " from " : "", or_else(p->node, ""));
		if (str_eq(d, "TerminationByKubelet") && p->message)
			say(v, "ended by the kubelet: %s", p->message);
	}
	return true;
}

/* A queue (Kueue's) that takes a place back suspends the Job again. The Job's controller then
 * deletes the pods, without a reason in them. When they have ended, the Job may have been admitted
 * again. */
static bool judge_suspension(const struct job_facts *job, const struct pod_facts *p,
			     struct kube_verdict *v)
{
	if (!job || !(p->deleted_ns || p->gone) ||
	    !(job->suspended || job->suspension_ns > p->created_ns + SAME_TIME_NS))
		return false;
	end_as(v, FAILURE_PREEMPTED);
	say(v, "its queue took its place back (the %s was suspended)", kind_of(job));
	return true;
}

/* status.reason: set by the kubelet for a pod that it ended as a whole, or didn't accept. */
static bool judge_pod_reason(const struct pod_facts *p, struct kube_verdict *v)
{
	const char *r = p->reason;

	if (!r)
		return false;
	if (str_eq(r, "Evicted")) { /* without a disruption: the pod itself is the cause */
		end_as(v, FAILURE_FAILED);
		say(v, "evicted by the kubelet: %s",
		    or_else(p->message,
			    "it used more local storage than it may (resources: disk)"));
	} else if (str_eq(r, "DeadlineExceeded")) {
		end_as(v, FAILURE_TIMEOUT);
		say(v, "its pod ran longer than it may: %s", or_else(p->message, r));
	} else if (str_eq(r, "NodeLost")) {
		end_as(v, FAILURE_LOST);
		say(v, "%s does not answer any more: nobody knows how it ended",
		    or_else(p->node, "its node"));
	} else if (ONE_OF(r, "Preempting", "Terminated", "NodeShutdown", "Shutdown")) {
		end_as(v, FAILURE_PREEMPTED);
		say(v, "ended by the kubelet: %s", or_else(p->message, r));
	} else if (str_has_prefix(r, "OutOf") ||
		   ONE_OF(r, "NodeAffinity", "NodeSelectorMismatching", "UnexpectedAdmissionError",
			  "TopologyAffinityError", "PodOSNotSupported")) {
		end_as(v, FAILURE_LOST);
		say(v, "%s did not take the pod: %s", or_else(p->node, "its node"),
		    or_else(p->message, r));
	} else {
		return false;
	}
	return true;
}

static bool judge_sidecar(const struct pod_facts *p, struct kube_verdict *v)
{
	const struct container_facts *s = &p->sidecar;
	int code = p->main.state == CONTAINER_TERMINATED ? p->main.exit_code : -1;

	if (result_of(p))
		return false;
	if (code == INIT_EXIT_SIDECAR || code == INIT_EXIT_UPLOAD || code == INIT_EXIT_REFUSED) {
		end_as(v, FAILURE_STORE);
		say(v, code == INIT_EXIT_SIDECAR
			       ? "the sidecar fell silent: its outputs could not be kept"
		       : code == INIT_EXIT_UPLOAD
			       ? "it ended well, but its outputs could not be kept"
			       : "its inputs could not be brought");
	} else if (code > 0) {
		return false;
	} else if ((s->state == CONTAINER_TERMINATED && s->exit_code != 0) || s->restarts) {
		const char *why = s->state == CONTAINER_TERMINATED ? s->message : s->last_message;

		end_as(v, FAILURE_STORE);
		say(v, "the sidecar died (exit status %d%s%s)",
		    s->state == CONTAINER_TERMINATED ? s->exit_code : s->last_exit_code,
		    why ? "): " : "", why ? why : ")");
	} else if (code == 0) {
		end_as(v, FAILURE_STORE);
		say(v, "it ended well, but the sidecar left no result");
	} else {
		return false;
	}
	return true;
}

static bool judge_other(const struct pod_facts *p, struct kube_verdict *v)
{
	if (!p->other_name || p->other.state != CONTAINER_TERMINATED ||
	    p->main.state == CONTAINER_TERMINATED)
		return false;
	end_as(v, FAILURE_FAILED);
	say(v, "container `%s` of the pod template failed with exit status %d%s%s", p->other_name,
	    p->other.exit_code, p->other.message ? ": " : "", or_else(p->other.message, ""));
	return true;
}

/* Exit of the program, when there is no better source. */
static bool judge_exit(const struct pod_facts *p, struct kube_verdict *v)
{
	const struct container_facts *m = &p->main;

	if (m->state != CONTAINER_TERMINATED || p->deleted_ns)
		return false;
	if (ONE_OF(m->reason, "StartError", "ContainerCannotRun")) {
		end_as(v, FAILURE_FAILED);
		say(v, "it could not be started: %s", or_else(m->message, m->reason));
		v->program_ran = false;
		return true;
	}
	if (m->exit_code == 0)
		return false;
	end_as(v, FAILURE_FAILED);
	if (m->signal)
		say(v, "killed by SIG%s", sigabbrev_np(m->signal) ? sigabbrev_np(m->signal) : "?");
	else
		say(v, "exit status %d", m->exit_code);
	return true;
}

static void judge_end(const struct job_facts *job, const struct pod_facts *p,
		      struct kube_verdict *v)
{
	const struct container_facts *m = &p->main;

	v->result = result_of(p);
	v->program_ran = m->state == CONTAINER_RUNNING ||
			 (m->state == CONTAINER_TERMINATED && m->started_ns);
	v->exit_code = m->state == CONTAINER_TERMINATED && m->exit_code <= 128 ? m->exit_code : -1;
	v->signal = m->state == CONTAINER_TERMINATED ? m->signal : 0;
	v->stopped = p->disruption ? FAILURE_PREEMPTED : FAILURE_LOST;
	v->since_ns = m->ended_ns ? m->ended_ns : p->deleted_ns;
	end_as(v, FAILURE_NONE);
	v->unexplained = p->deleted_ns && v->stopped == FAILURE_LOST;
	if (ended_well(p) || judge_memory(p, v) || judge_disruption(p, v) ||
	    judge_suspension(job, p, v) || judge_deadline(job, p, v) || judge_pod_reason(p, v)) {
		v->unexplained = false;
		return;
	}
	if (judge_sidecar(p, v) || judge_other(p, v))
		return;
	if (v->result && (m->state == CONTAINER_TERMINATED || !p->deleted_ns))
		return; /* the result tells how the program ended */
	if (judge_exit(p, v))
		return;
	end_as(v, FAILURE_LOST);
	say(v,
	    p->deleted_ns || p->gone ? "its pod was deleted%s%s"
				     : "its pod ended%s%s, and nobody knows how",
	    p->node ? " on " : "", or_else(p->node, ""));
}

/* Why it doesn't run yet. */

static bool judge_container(const struct container_facts *c, const char *name,
			    struct kube_verdict *v)
{
	if (c->state != CONTAINER_WAITING)
		return false;
	if (ONE_OF(c->reason, "ErrImagePull", "ImagePullBackOff", "InvalidImageName",
		   "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
		   "SignatureValidationFailed")) {
		v->stage = STAGE_IMAGE;
		/* The kubelet doesn't retry these. */
		if (ONE_OF(c->reason, "InvalidImageName", "ErrImageNeverPull"))
			end_as(v, FAILURE_IMAGE);
		say(v, "the image of %s can't be had: %s", name, or_else(c->message, c->reason));
		return true;
	}
	if (!ONE_OF(c->reason, "CreateContainerConfigError", "CreateContainerError",
		    "RunContainerError", "PreStartHookError", "PreCreateHookError", "StartError",
		    "ContainerCannotRun"))
		return false;
	v->stage = STAGE_REFUSED;
	say(v, "%s can't be made: %s", name, or_else(c->message, c->reason));
	return true;
}

/* Before the program could begin. */
static bool judge_hopeless_sidecar(const struct pod_facts *p, struct kube_verdict *v)
{
	const struct container_facts *s = &p->sidecar;

	if (p->main.state != CONTAINER_WAITING ||
	    (s->state != CONTAINER_TERMINATED && s->restarts == 0))
		return false;
	v->result = result_of(p);
	v->stopped = FAILURE_LOST;
	end_as(v, FAILURE_NONE);
	if (v->result)
		return true;
	v->stage = STAGE_STARTING;
	if (s->restarts < SIDECAR_RESTARTS)
		return false;
	return judge_memory(p, v) || judge_sidecar(p, v);
}

static void judge_start(const struct pod_facts *p, int64_t now_ns, struct kube_verdict *v)
{
	v->since_ns = p->created_ns;
	v->stage = STAGE_CREATED;
	if (p->unschedulable && !p->scheduled) {
		v->stage = STAGE_UNSCHEDULABLE;
		say(v, "no node has room for it: %s",
		    or_else(p->unschedulable_message, "the scheduler does not say why"));
		return;
	}
	if (!p->scheduled)
		return;
	v->since_ns = p->scheduled_ns ? p->scheduled_ns : p->created_ns;
	v->stage = STAGE_STARTING;
	if (judge_hopeless_sidecar(p, v) || judge_container(&p->sidecar, "the sidecar", v) ||
	    judge_container(&p->main, "the step", v) ||
	    (p->other_name && judge_container(&p->other, p->other_name, v)))
		return;
	if (now_ns - v->since_ns < WORTH_A_WORD_NS)
		return;
	say(v, "it takes long to start on %s: its image, volumes or inputs",
	    or_else(p->node, "its node"));
}

/* One pod. */

/* The program's container has ended, and the sidecar has written its result after that. Containers
 * that still run aren't ours (a template's container, a mesh's proxy), and the kubelet restarts a
 * sidecar that ended before them. */
static bool has_said_all(const struct pod_facts *p)
{
	const struct container_facts *s = &p->sidecar;
	int64_t said_ns = s->state == CONTAINER_TERMINATED ? s->ended_ns : s->last_ended_ns;

	return p->main.state == CONTAINER_TERMINATED && result_of(p) &&
	       said_ns + SAME_TIME_NS >= p->main.ended_ns;
}

static bool has_ended(const struct pod_facts *p, int64_t now_ns)
{
	if (p->gone || has_said_all(p))
		return true;
	if (!pod_is_over(p))
		return false;
	return p->sidecar.state != CONTAINER_RUNNING || now_ns - p->main.ended_ns > SIDECAR_LATE_NS;
}

static void judge_pod(const struct job_facts *job, const struct pod_facts *p, int64_t now_ns,
		      struct kube_verdict *v)
{
	*v = (struct kube_verdict){ .exit_code = -1 };
	if (has_ended(p, now_ns)) {
		judge_end(job, p, v);
	} else if (p->main.state == CONTAINER_TERMINATED || pod_is_over(p)) {
		v->stage = STAGE_SAVING;
		v->since_ns = p->main.ended_ns;
		if (now_ns - v->since_ns >= WORTH_A_WORD_NS)
			say(v, "it has ended; the sidecar has not yet said what became of its "
			       "outputs");
	} else if (p->main.state == CONTAINER_RUNNING) {
		v->stage = STAGE_RUNNING;
		v->since_ns = p->main.started_ns;
	} else {
		judge_start(p, now_ns, v);
	}
	v->program_ran |= v->stage == STAGE_RUNNING || v->stage == STAGE_SAVING;
}

/* Of two pods of one index, prefers one that ended well, then one that lives, then the newer. */
static const struct pod_facts *better(const struct pod_facts *a, const struct pod_facts *b,
				      int64_t now_ns)
{
	if (!a || !b)
		return a ? a : b;
	if (ended_well(a) != ended_well(b))
		return ended_well(a) ? a : b;
	if (has_ended(a, now_ns) != has_ended(b, now_ns))
		return has_ended(a, now_ns) ? b : a;
	return b->created_ns >= a->created_ns ? b : a;
}

/* The Job. */

/* When no pod has more information. */
static void judge_job_end(const struct job_facts *job, struct kube_verdict *v)
{
	const char *r = job ? job->reason : "";

	if (str_eq(r, "DeadlineExceeded")) {
		end_as(v, FAILURE_TIMEOUT);
		say(v, "its %s ran longer than it may", kind_of(job));
	} else if (str_eq(r, "PodFailurePolicy")) {
		end_as(v, FAILURE_PREEMPTED);
		say(v, "its pod was disrupted: %s",
		    or_else(job->message, "the Job does not say how"));
	} else {
		end_as(v, FAILURE_LOST);
		if (!job)
			say(v, "its Job was deleted");
		else if (job->failed)
			say(v, "its %s failed (%s), and its pod is gone", kind_of(job),
			    or_else(r, "no reason is given"));
		else
			say(v, "its pod is gone, and its result with it");
	}
}

static void judge_no_pod(const struct kube_observed *s, struct kube_verdict *v)
{
	*v = (struct kube_verdict){ .exit_code = -1, .since_ns = s->job ? s->job->created_ns : 0 };
	if (s->gone || s->podless) {
		judge_job_end(s->gone ? NULL : s->job, v);
	} else if (s->job && s->job->suspended) {
		v->stage = STAGE_QUEUED;
		say(v, "its queue has not let it in yet (the %s is suspended)", kind_of(s->job));
	}
}

/* Several nodes. */

/* How strongly one node's end explains the gang's end, when others ended at the same time. Times
 * are whole seconds, and a rank whose peer was killed fails within milliseconds. -1: the node has
 * not failed. A program that didn't end well has failed even with class NONE: its sidecar knows
 * more. */
static int weight(const struct kube_verdict *v, const struct pod_facts *p)
{
	bool terminated = p && p->main.state == CONTAINER_TERMINATED;
	int code = terminated ? p->main.exit_code : 0;

	if (v->stage != STAGE_ENDED || (v->class == FAILURE_NONE && terminated && code == 0))
		return -1;
	if (v->class == FAILURE_LOST || code == 128 + SIGTERM)
		return 0; /* Kubernetes deletes the other pods of a failed Job */
	if (v->class != FAILURE_NONE && v->class != FAILURE_FAILED)
		return 3;
	return code > 128 && code != 128 + SIGABRT
		       ? 2
		       : 1; /* killed; a library aborts when it misses its peer */
}

struct candidate {
	struct kube_verdict v;
	int weight; /* -1: none */
};

static bool is_cause(const struct candidate *a, const struct candidate *than)
{
	int64_t apart = a->v.since_ns - than->v.since_ns;

	if (than->weight < 0 || (a->weight == 0) != (than->weight == 0))
		return than->weight <= 0;
	if (a->weight != than->weight && a->v.since_ns && than->v.since_ns &&
	    apart <= SAME_TIME_NS && apart >= -SAME_TIME_NS)
		return a->weight > than->weight;
	return a->v.since_ns && (than->v.since_ns == 0 || apart < 0);
}

static void prefix(struct kube_verdict *v, unsigned index, unsigned nodes)
{
	struct kube_verdict copy = *v;

	if (*copy.text)
		say(v, "node %u of %u: %s", index, nodes, copy.text);
}

static void judge_gang(const struct kube_observed *s, int64_t now_ns, struct kube_verdict *ret)
{
	struct candidate cause = { .weight = -1 };
	struct kube_verdict slowest = { .stage = STAGE_ENDED }, first = { 0 };
	_cleanup_(freep) const struct pod_facts **pods = xcalloc(s->nodes, sizeof(*pods));
	bool set = false;

	assert(s->nodes > 0);
	for (size_t i = 0; i < s->n; i++) {
		unsigned node = s->pods[i]->index;

		if (node < s->nodes)
			pods[node] = better(pods[node], s->pods[i], now_ns);
	}
	for (unsigned i = 0; i < s->nodes; i++) {
		const struct pod_facts *p = pods[i];
		struct candidate c = { .weight = -1 };

		/* It has ended well, and its result isn't needed. */
		if (!p && i > 0 && s->podless && s->job && s->job->complete)
			continue;
		p ? judge_pod(s->job, p, now_ns, &c.v) : judge_no_pod(s, &c.v);
		prefix(&c.v, i, s->nodes);
		c.weight = weight(&c.v, p);
		if (c.weight >= 0 && is_cause(&c, &cause))
			cause = c;
		if (i == 0)
			first = c.v;
		if (c.v.stage < slowest.stage || !set ||
		    (c.v.stage == slowest.stage && c.v.since_ns > slowest.since_ns))
			slowest = c.v;
		set = true;
	}
	if (cause.weight < 0) {
		*ret = slowest.stage == STAGE_ENDED ? first : slowest;
	} else {
		*ret = cause.v;
		/* The other nodes save their work before they end. Until then the gang hasn't
		 * ended, and nothing of it is started again. */
		if (slowest.stage != STAGE_ENDED && now_ns - cause.v.since_ns <= GANG_LATE_NS) {
			ret->stage = STAGE_SAVING;
			ret->class = FAILURE_NONE;
			ret->broken = true;
		}
		if (!ret->result)
			ret->result = first.result;
	}
	ret->program_ran |= first.program_ran;
}

/* An elastic gang. */

/* Its Job's controller ends no pods. So a pod that was taken away is the cause, and a program that
 * failed missed its peer; unless we deleted the Job before that. */
static int elastic_weight(const struct kube_observed *s, const struct kube_verdict *v,
			  const struct pod_facts *p)
{
	bool taken = p->deleted_ns || p->gone || v->class == FAILURE_LOST;

	if (weight(v, p) < 0)
		return -1;
	if (v->class != FAILURE_NONE && v->class != FAILURE_FAILED && v->class != FAILURE_LOST)
		return 3;
	if (taken && s->released_ns && v->since_ns >= s->released_ns / NS_PER_S * NS_PER_S)
		return 0;
	return taken ? 2 : 1;
}

struct elastic {
	const struct pod_facts **best; /* by index: the pod that counts */
	signed char *stages;           /* by index */
	struct kube_verdict first;     /* of index 0 */
	/* Of the indexes: how many have a pod that runs well; one that runs or saves, however it
	 * ends; one that ended well; and may still do that. */
	unsigned running, busy, well, alive;
	struct candidate cause;
	bool died, first_died; /* a pod whose program ran has; any of index 0 has */
};

static void look_at_nodes(const struct kube_observed *s, int64_t now_ns, struct elastic *e)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->pods[i]->index < s->nodes)
			e->best[s->pods[i]->index] =
				better(e->best[s->pods[i]->index], s->pods[i], now_ns);
	for (unsigned i = 0; i < s->nodes; i++) {
		const struct pod_facts *p = e->best[i];
		struct kube_observed seen = *s;
		struct kube_verdict v;
		bool ended, begun;

		seen.podless &= i == 0; /* others may never get a pod */
		p ? judge_pod(s->job, p, now_ns, &v) : judge_no_pod(&seen, &v);
		ended = v.stage == STAGE_ENDED;
		begun = p && p->main.state != CONTAINER_WAITING;
		e->well += ended && p && ended_well(p);
		e->alive += !ended;
		e->busy += !ended && begun;
		e->running += !ended && begun &&
			      !(p->main.state == CONTAINER_TERMINATED && p->main.exit_code != 0);
		/* A dead one waits for its replacement. */
		e->stages[i] =
			(signed char)(ended && !(p && ended_well(p)) ? STAGE_CREATED : v.stage);
		if (i == 0)
			e->first = v;
	}
}

/* The death that ends the gang: of a node that has no other pod since, or of the first one. If all
 * that died were replaced, the last one was one too many. */
static void look_at_deaths(const struct kube_observed *s, int64_t now_ns, struct elastic *e)
{
	struct candidate replaced = { .weight = -1 };
	unsigned index = 0; /* of the cause: the lowest, if all else is equal */

	e->cause.weight = -1;
	for (size_t i = 0; i < s->n; i++) {
		const struct pod_facts *p = s->pods[i];
		struct candidate c;

		if (p->index >= s->nodes)
			continue;
		judge_pod(s->job, p, now_ns, &c.v);
		c.weight = elastic_weight(s, &c.v, p);
		if (c.weight < 0)
			continue;
		prefix(&c.v, p->index, s->nodes);
		e->died |= c.v.program_ran;
		e->first_died |= p->index == 0;
		if (p->index != 0 && e->best[p->index] != p) {
			if (replaced.weight < 0 || c.v.since_ns >= replaced.v.since_ns)
				replaced = c;
		} else if (is_cause(&c, &e->cause) ||
			   (c.weight == e->cause.weight && c.v.since_ns == e->cause.v.since_ns &&
			    p->index < index)) {
			e->cause = c;
			index = p->index;
		}
	}
	if (e->cause.weight < 0)
		e->cause = replaced;
}

/* The stage that the first node and so many others as are needed have reached. */
static void judge_progress(const struct kube_observed *s, int64_t now_ns, const struct elastic *e,
			   struct kube_verdict *ret)
{
	enum kube_stage reached = STAGE_ENDED;
	unsigned n = 0, slowest = 0;

	for (; reached > STAGE_QUEUED; reached--) {
		for (unsigned i = 0; i < s->nodes; i++)
			n += e->stages[i] == reached;
		if (n >= s->min_nodes)
			break;
	}
	if (e->stages[0] > reached)
		while (e->stages[slowest] != reached)
			slowest++;
	*ret = e->first;
	if (slowest && e->best[slowest])
		judge_pod(s->job, e->best[slowest], now_ns, ret);
	else if (slowest)
		judge_no_pod(s, ret);
	prefix(ret, slowest, s->nodes);
	ret->stage = MIN(reached, (enum kube_stage)e->stages[0]);
	ret->class = FAILURE_NONE;
	if (ret->stage < STAGE_RUNNING)
		return;
	ret->since_ns = e->first.since_ns;
	*ret->text = '\0';
	if (e->running < s->nodes)
		say(ret, "%u of at most %u nodes run", e->running, s->nodes);
}

static void judge_elastic(const struct kube_observed *s, int64_t now_ns, struct kube_verdict *ret)
{
	_cleanup_(freep) const struct pod_facts **best = xcalloc(s->nodes, sizeof(*best));
	_cleanup_(freep) signed char *stages = xcalloc(s->nodes, sizeof(*stages));
	struct elastic e = { .best = best, .stages = stages };
	bool succeeds, over;

	assert(s->min_nodes > 0 && s->min_nodes <= s->nodes);
	look_at_nodes(s, now_ns, &e);
	look_at_deaths(s, now_ns, &e);
	succeeds = best[0] && e.first.stage == STAGE_ENDED && ended_well(best[0]);
	over = succeeds ? e.busy == 0 || now_ns - e.first.since_ns > ELASTIC_LATE_NS
			: e.first_died || e.first.stage == STAGE_ENDED ||
				  (e.died && e.running + e.well < s->min_nodes) ||
				  e.alive + e.well < s->min_nodes;
	if (succeeds && !over) {
		*ret = (struct kube_verdict){ .stage = STAGE_SAVING,
					      .exit_code = -1,
					      .since_ns = e.first.since_ns };
	} else if (!over) {
		judge_progress(s, now_ns, &e, ret);
	} else if (e.cause.weight < 0 || (succeeds && e.running + e.well >= s->min_nodes)) {
		*ret = e.first;
	} else {
		*ret = e.cause.v;
		/* The others save their work before they end, as in judge_gang(). */
		if (e.busy && now_ns - ret->since_ns <= GANG_LATE_NS) {
			ret->stage = STAGE_SAVING;
			ret->class = FAILURE_NONE;
			ret->broken = true;
		}
		if (!ret->result)
			ret->result = e.first.result;
	}
	ret->program_ran |= e.first.program_ran || e.died;
}

void kube_judge(const struct kube_observed *s, int64_t now_ns, struct kube_verdict *ret)
{
	const struct job_facts *job = s->job;
	const struct pod_facts *p = NULL;

	if (s->nodes > 1) {
		if (s->n == 0)
			judge_no_pod(s, ret);
		else if (s->min_nodes)
			judge_elastic(s, now_ns, ret);
		else
			judge_gang(s, now_ns, ret);
		return;
	}
	for (size_t i = 0; i < s->n; i++)
		p = better(p, s->pods[i], now_ns);
	p ? judge_pod(job, p, now_ns, ret) : judge_no_pod(s, ret);
	/* Nobody saw this pod's end, though everything is over. */
	if (ret->stage != STAGE_ENDED && job && job->failed && job->failed_ns &&
	    now_ns - job->failed_ns > SIDECAR_LATE_NS)
		judge_job_end(job, ret);
}

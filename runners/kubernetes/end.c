/* runners/kubernetes/end.c — the end of a bundle: reads its result and reports each attempt.
 *
 * bundle_end() copies what a worker needs into an `ending`. On the worker, end() reads the
 * sidecar's message, which may name a longer one in the store. It takes the log from the API if the
 * sidecar couldn't store it, and joins the logs of a gang (gang.c). On the loop's thread, ended()
 * reports each member.
 *
 * judge_attempt() chooses between two sources. The cluster's class wins, but in a pack it doesn't
 * change an attempt whose program had ended before the pod did. After that the sidecar's result
 * counts; a missing part is a failure of its own class. A cancelled member that failed is reported
 * as cancelled.
 *
 * An unreachable store doesn't cost the result: the bundle is open again and retries until
 * save_within_ns has passed. The bundle stays in BUNDLE_ENDING while the worker has it, and isn't
 * freed then. judge.c decides whether a bundle has ended.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "runners/kubernetes/internal.h"
#include "runners/workspace.h"

/* The pause before an unreachable store is asked for the result again. */
#define FETCH_AGAIN_NS (10 * NS_PER_S)
/* How much is read of a log that the sidecar couldn't store: more than the kubelet keeps of one
 * (containerLogMaxSize). */
#define LOG_MAX_BYTES (64 * MIB)

/* Copies of what the worker reads, because the loop owns the bundle. */
struct ending {
	struct bundle *b; /* only on the loop's thread */
	struct kube *k;
	struct arena *arena;
	struct kube_verdict v;
	char *message; /* the sidecar's, or NULL */
	char pod[254], node[254];
	const char *container; /* of the program, in the pod */
	bool wants_log;
	int64_t started_ns, ended_ns; /* of main; 0 */
	int64_t until_ns;             /* monotonic: until when the store may be unreachable */
	struct gang_part *parts;      /* for several nodes */
	size_t n_parts;
	unsigned nodes;
	uint64_t attempt_id; /* the first: a gang has no other */

	/* filled in by the worker */
	struct pod_result *results;
	size_t n_results;
	struct content_id log;
	struct content_id gang_log; /* of all nodes */
	char *log_tail;
	struct err err; /* why there is no result */
	bool away;      /* the store is unreachable: the result may still come */
};

/* On a worker. */

int runner_read_result(struct kube *k, const char *message, struct arena *arena,
		       struct pod_result **ret, size_t *ret_n, struct err *err)
{
	const struct runner_staging *s = &k->o.staging;
	_cleanup_(str_deinit) struct str whole = { 0 };
	struct content_id where;
	int r = kube_pod_result_read(message, strlen(message), arena, ret, ret_n, &where, err);

	if (r <= 0)
		return r;
	if (s->fetch(s->arg, &where, POD_RESULT_MAX, &whole, err) < 0)
		return err_wrap(err, "the result of the pod");
	r = kube_pod_result_read(whole.s ? whole.s : "", whole.len, arena, ret, ret_n, &where, err);
	return r > 0 ? err_set(err, ERR_INVALID, "the result of the pod refers to another result")
		     : r;
}

struct log_file {
	int fd;
	uint64_t bytes;
};

static int log_sink(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct log_file *f = arg;

	n = MIN(n, (size_t)(LOG_MAX_BYTES - f->bytes));
	f->bytes += n;
	return n ? fs_write_all(f->fd, bytes, n, err) : 0;
}

/* Best effort: the pod may be gone, and a missing log is not the failure to report. */
static void take_log(struct ending *e)
{
	_cleanup_(fd_closep) int fd = memfd_create("log", MFD_CLOEXEC);
	_cleanup_(str_deinit) struct str path = { 0 };
	struct log_file f = { .fd = fd };
	struct kube_call call = { .method = "GET",
				  .sink = log_sink,
				  .arg = &f,
				  .accept = "*/*",
				  .timeout_ns = 60 * NS_PER_S };

	kube_add_path(&path, "", "v1", e->k->o.profile->namespace_, "pods", e->pod);
	str_addf(&path, "/log?container=%s&limitBytes=%llu", e->container,
		 (unsigned long long)LOG_MAX_BYTES);
	call.path = path.s;
	if (fd < 0 || kube_do(e->k->client, &call, NULL) < 0 || f.bytes == 0 ||
	    lseek(fd, 0, SEEK_SET) < 0) {
		kube_call_deinit(&call);
		return;
	}
	kube_call_deinit(&call);
	e->log_tail = workspace_log_tail(fd);
	if (e->k->o.staging.put_log(e->k->o.staging.arg, fd, &e->log, NULL) < 0)
		e->log = (struct content_id){ 0 };
}

/* No sidecar has stored a log of a program that ran, and one of them failed. */
static bool lacks_log(const struct ending *e)
{
	bool failed = e->n_results == 0;

	for (size_t i = 0; i < e->n_results; i++) {
		const struct pod_result *p = &e->results[i];

		if (p->r.log.kind != CONTENT_NONE)
			return false;
		failed |= p->r.failure == FAILURE_STORE || p->main_died;
	}
	return failed;
}

static void end(void *arg)
{
	struct ending *e = arg;

	if (atomic_load(&e->k->closing))
		return;
	if (e->message &&
	    runner_read_result(e->k, e->message, e->arena, &e->results, &e->n_results, &e->err) < 0)
		e->n_results = 0;
	e->away = e->n_results == 0 && e->err.code == ERR_IO && kube_mono(e->k) < e->until_ns;
	if (e->away)
		return;
	if (e->wants_log && lacks_log(e))
		take_log(e);
	if (e->parts)
		gang_log(e->k,
			 &(struct gang_log_options){ .parts = e->parts,
						     .n = e->n_parts,
						     .nodes = e->nodes,
						     .attempt_id = e->attempt_id,
						     .other_pod = e->pod,
						     .other = &e->log },
			 &e->gang_log);
}

/* On the loop's thread. */

/* A sidecar that couldn't read its specification reports a failure without an attempt: it applies
 * to all. */
static const struct pod_result *result_for(const struct ending *e, const struct runner_attempt *a)
{
	const struct pod_result *nameless = NULL;

	for (size_t i = 0; i < e->n_results; i++) {
		const struct pod_result *p = &e->results[i];

		if (p->attempt_id == a->id && (p->n_outputs == 0 || p->n_outputs == a->n_outputs))
			return p;
		if (p->attempt_id == 0 && p->r.failure != FAILURE_NONE)
			nameless = p;
	}
	return nameless;
}

static void fail(struct runner_result *r, enum failure_class class, const char *text)
{
	r->failure = class;
	err_set(&r->err, class == FAILURE_CANCELLED ? ERR_CANCELLED : ERR_FAILED, "%s",
		*text ? text : failure_class_name(class));
}

/* The container ended, and nothing in it could report how. */
static void judge_death(const struct ending *e, struct runner_result *r)
{
	char text[64];

	r->exit_status = e->v.exit_code;
	r->signo = e->v.signal;
	if (r->signo)
		snprintf(text, sizeof(text), "killed by SIG%s",
			 sigabbrev_np(r->signo) ? sigabbrev_np(r->signo) : "?");
	else
		snprintf(text, sizeof(text), "exit status %d", r->exit_status);
	fail(r, FAILURE_FAILED, text);
}

static void judge_attempt(const struct ending *e, const struct pod_result *p, bool packed,
			  struct runner_result *r)
{
	/* It ended before the event that ended the pod. */
	bool reached = p && p->ran && !p->stopped && !p->main_died;
	bool program =
		e->v.program_ran && (e->v.class == FAILURE_OOM || e->v.class == FAILURE_FAILED);

	/* What one program did to the pod is no failure of the others in it. */
	if (packed && program && !reached && !(p && p->main_died))
		fail(r, FAILURE_LOST, "its pod ended before its turn came");
	else if (e->v.class != FAILURE_NONE && !(reached && packed))
		fail(r, e->v.class, e->v.text);
	else if (!p && e->message && e->err.code)
		fail(r, FAILURE_STORE, e->err.msg);
	else if (!p && packed)
		fail(r, FAILURE_LOST, "its pod ended before its turn came");
	else if (!p)
		fail(r, FAILURE_STORE, "the result of the pod lacks this attempt");
	else if (p->main_died)
		judge_death(e, r);
	else if (p->stopped)
		fail(r, e->v.stopped,
		     e->v.stopped == FAILURE_PREEMPTED ? "its pod was disrupted while it ran"
						       : "its pod was deleted while it ran");
	else if (p->r.failure == FAILURE_NONE && !p->ran)
		fail(r, FAILURE_STORE, "the pod ended without having started it");
}

static void report(struct ending *e, struct member *m, bool packed)
{
	const struct pod_result *p = result_for(e, m->a);
	struct runner_result r = { .exit_status = e->v.exit_code, .signo = e->v.signal };

	if (p)
		r = p->r;
	judge_attempt(e, p, packed, &r);
	if (m->cancelled && r.failure != FAILURE_NONE)
		fail(&r, FAILURE_CANCELLED, "stopped on request");
	if ((r.failure == FAILURE_NONE || r.failure == FAILURE_GATE) &&
	    p->n_outputs != m->a->n_outputs)
		fail(&r, FAILURE_STORE, "the result of the pod lacks outputs");
	if (r.failure != FAILURE_NONE && e->b->imposed_code && e->v.class == r.failure)
		r.err.code = e->b->imposed_code;
	if (e->gang_log.kind != CONTENT_NONE)
		r.log = e->gang_log;
	else if (r.log.kind == CONTENT_NONE)
		r.log = e->log;
	if (!r.log_tail)
		r.log_tail = e->log_tail;
	if (!r.started_ns)
		r.started_ns = e->started_ns ? e->started_ns : kube_wall(e->k);
	if (!r.ended_ns) /* an attempt that never began took no time */
		r.ended_ns = !e->v.program_ran ? r.started_ns
			     : e->ended_ns     ? e->ended_ns
					       : MAX(r.started_ns, kube_wall(e->k));
	r.node = *e->node ? e->node : NULL;
	r.workspace = NULL;
	member_report(m, &r);
}

static void ending_free(struct ending *e)
{
	gang_parts_free(e->parts, e->n_parts);
	arena_free(e->arena);
	free(e->message);
	free(e->log_tail);
	free(e);
}

static void ended(void *arg)
{
	struct ending *e = arg;
	struct bundle *b = e->b;
	bool packed = b->ids.n > 1;

	/* A result isn't thrown away because it can't be read just now. */
	if (e->away) {
		b->state = BUNDLE_OPEN;
		b->fetched_ns = kube_mono(e->k) + FETCH_AGAIN_NS;
		free(b->trouble);
		b->trouble = xasprintf(
			"it has ended; its result is in the store, which does not answer: %s",
			e->err.msg);
		ending_free(e);
		bundle_reconcile(b);
		return;
	}
	/* The bundle stays in BUNDLE_ENDING until all members are reported: otherwise an engine
	 * that settles within its report would free it here. */
	while (b->members.n)
		report(e, b->members.v[b->members.n - 1], packed);
	b->state = BUNDLE_REPORTED;
	b->reported_ns = kube_mono(e->k);
	ending_free(e);
	job_settle(b->j);
}

/* The pod whose result counts; without one, the pod with the lowest index or the newest. */
static const struct pod_facts *spokesman(const struct bundle *b, const struct kube_verdict *v)
{
	const struct pod_facts *last = NULL;

	for (size_t i = 0; i < b->pods.n; i++) {
		const struct pod_facts *f = &b->pods.v[i]->f;

		if (v->result &&
		    (f->sidecar.message == v->result || f->sidecar.last_message == v->result))
			return f;
		if (!last || f->index < last->index || f->created_ns > last->created_ns)
			last = f;
	}
	return last;
}

void bundle_end(struct bundle *b, const struct kube_verdict *v)
{
	const struct pod_facts *f = spokesman(b, v);
	struct ending *e = xcalloc(1, sizeof(*e));

	assert(b->state == BUNDLE_OPEN && v->stage == STAGE_ENDED);
	e->b = b;
	e->k = b->k;
	e->arena = arena_new();
	e->v = *v;
	e->v.result = NULL;
	e->message = v->result ? xstrdup(v->result) : NULL;
	if (f) {
		snprintf(e->pod, sizeof(e->pod), "%s", f->name);
		snprintf(e->node, sizeof(e->node), "%s", f->node ? f->node : "");
		e->container = f->kind->main;
		e->started_ns = f->main.started_ns;
		e->ended_ns = f->main.ended_ns;
		e->wants_log = v->program_ran && !f->gone && v->class != FAILURE_CANCELLED;
	}
	e->parts = gang_parts(b, &e->n_parts);
	e->nodes = b->nodes;
	e->attempt_id = b->ids.n ? b->ids.v[0] : 0;
	e->until_ns = b->stage_ns + b->k->save_within_ns;
	b->state = BUNDLE_ENDING;
	pool_submit(b->k->pool, end, ended, e);
}

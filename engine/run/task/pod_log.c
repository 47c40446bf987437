/* engine/run/task/pod_log.c — the log of an attempt out of its pods: one node, several in turn, or
 * several at once.
 *
 * pod_log_print() reads the number of nodes from the Job. One node is printed or followed directly.
 * Without following, several nodes come one after the other, each under a heading. When several are
 * followed, each has a thread (run()), and the caller's thread waits and checks whether the attempt
 * is over. For the last lines, logs are read twice (log_part.h): first to count, without following.
 *
 * Invariants: `sink` is called under `lock`, one call at a time. With several nodes at once it gets
 * whole lines, except lines longer than LINE_MAX_BYTES. `runs` is called on the caller's thread
 * only. When one node fails, the client is cancelled, so that no thread waits for ever. The first
 * real error is returned; ERR_CANCELLED only when there is no other.
 *
 * Threads: the caller's, and up to POD_LOG_NODES_MAX. Not here: logs in the store (serve/api/log.c,
 * cli/).
 */
#include "run/task/pod_log.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "base/os/thread.h"
#include "run/project/cluster.h"
#include "runners/kubernetes/job/job.h"
#include "runners/kubernetes/runner.h"

#define LOOK_AGAIN_MS 500
#define RETRY_FOR_NS  (10 * NS_PER_S)
/* A longer line is passed on in pieces. */
#define LINE_MAX_BYTES (64 * KIB)

struct pod_log {
	struct cluster cluster;
};

int pod_log_open(const struct config *c, const char *options_json, struct pod_log **ret,
		 struct err *err)
{
	const struct kube_client_options o = { .retry_for_ns = RETRY_FOR_NS,
					       .max_connections = POD_LOG_NODES_MAX + 1 };
	struct pod_log *l = xcalloc(1, sizeof(*l));

	if (cluster_open(c, options_json, &o, &l->cluster, err) < 0) {
		free(l);
		return -1;
	}
	*ret = l;
	return 0;
}

void pod_log_close(struct pod_log *l)
{
	if (!l)
		return;
	cluster_close(&l->cluster);
	free(l);
}

void pod_log_cancel(struct pod_log *l)
{
	kube_client_cancel(l->cluster.client);
}

/* One node. */

struct printing {
	struct pod_log *l;
	const struct pod_log_options *o;
	unsigned nodes;
	atomic_bool over; /* the attempt has ended: a missing pod won't come */
	pthread_mutex_t lock;
	pthread_cond_t ended; /* signalled when a thread has ended */
	unsigned n_ended;
};

struct node {
	struct printing *p;
	unsigned index;
	struct log_part part;
	bool counts;     /* counts lines, prints nothing */
	bool lines_only; /* other nodes print at the same time */
	struct str line; /* then: the part of an unfinished line */
	bool found;      /* there was a pod */
	char head[40];   /* heading before the first byte; "": none, or printed already */
	pthread_t thread;
	int result;
	struct err err;
};

static int hand_on(struct node *n, const char *bytes, size_t len, struct err *err)
{
	const struct pod_log_options *o = n->p->o;
	int r;

	if (len == 0)
		return 0;
	pthread_mutex_lock(&n->p->lock);
	r = o->sink(o->arg, bytes, len, err);
	pthread_mutex_unlock(&n->p->lock);
	return r;
}

static int hand_on_lines(struct node *n, const char *bytes, size_t len, struct err *err)
{
	const char *last = memrchr(bytes, '\n', len);
	size_t whole = last ? (size_t)(last - bytes) + 1 : 0;
	int r = 0;

	if (whole) {
		str_addn(&n->line, bytes, whole);
		r = hand_on(n, n->line.s, n->line.len, err);
		str_reset(&n->line);
	}
	str_addn(&n->line, bytes + whole, len - whole);
	if (r == 0 && n->line.len > LINE_MAX_BYTES) {
		r = hand_on(n, n->line.s, n->line.len, err);
		str_reset(&n->line);
	}
	return r;
}

static int filter(struct node *n, const void *bytes, size_t len, struct err *err)
{
	char buf[16384];

	for (const char *at = bytes; len;) {
		size_t piece = MIN(len, sizeof(buf)), kept;

		memcpy(buf, at, piece);
		kept = log_part_keep(&n->part, buf, piece);
		if (!n->counts && (n->lines_only ? hand_on_lines(n, buf, kept, err)
						 : hand_on(n, buf, kept, err)) < 0)
			return -1;
		at += piece;
		len -= piece;
	}
	return 0;
}

static int say_head(struct node *n, struct err *err)
{
	char head[sizeof(n->head)];

	memcpy(head, n->head, sizeof(head));
	*n->head = '\0';
	return filter(n, head, strlen(head), err);
}

static int on_bytes(void *arg, const void *bytes, size_t len, struct err *err)
{
	struct node *n = arg;

	return say_head(n, err) < 0 ? -1 : filter(n, bytes, len, err);
}

/* 1: no pod. */
static int ask_once(struct node *n, bool follow, struct err *err)
{
	const struct cluster *k = &n->p->l->cluster;
	const struct kube_log log = { .namespace_ = k->access.namespace_,
				      .project = k->profile.project,
				      .attempt_id = n->p->o->attempt_id,
				      .index = n->index,
				      .follow = follow,
				      .sink = on_bytes,
				      .arg = n };
	struct err why = { 0 };

	if (kube_follow_log(k->client, &log, &why) == 0) {
		n->found = true;
		return POD_LOG_WHOLE;
	}
	if (why.code == ERR_NOT_FOUND)
		return POD_LOG_NO_POD;
	*err = why;
	return -1;
}

static int print_once(struct node *n, struct err *err)
{
	int r = 0;

	if (n->part.wanted.lines && n->part.n_lines == 0 && n->part.skip == 0) {
		n->counts = true;
		r = ask_once(n, false, err);
		n->counts = false;
		log_part_last(&n->part);
	}
	return r ? r : ask_once(n, n->p->o->follow, err);
}

/* Several nodes one after the other, in the order of the stored log. */

static int print_each(struct node *n, struct err *err)
{
	unsigned nodes = n->p->nodes, found = 0;

	for (n->index = 0; n->index < nodes; n->index++) {
		int r;

		snprintf(n->head, sizeof(n->head), "=== node %u of %u ===\n", n->index, nodes);
		r = ask_once(n, false, err);
		if (r == POD_LOG_NO_POD)
			continue;
		if (r < 0 || say_head(n, err) < 0 ||
		    (n->part.line != LOG_LINE_BEGINS && filter(n, "\n", 1, err) < 0))
			return -1;
		found++;
	}
	return found ? POD_LOG_WHOLE : POD_LOG_NO_POD;
}

static int print_in_turn(struct printing *p, struct err *err)
{
	struct node n = { .p = p };
	int r;

	log_part_init(&n.part, &p->o->wanted);
	if (p->o->wanted.lines) {
		n.counts = true;
		r = print_each(&n, err);
		if (r != POD_LOG_WHOLE)
			return r;
		n.counts = false;
		log_part_last(&n.part);
	}
	return print_each(&n, err);
}

/* Several nodes at once, as they print. */

static void *run(void *arg)
{
	struct node *n = arg;
	struct printing *p = n->p;
	struct pollfd wake = { .fd = p->o->wake_fd, .events = POLLIN };

	for (;;) {
		bool over = p->over;

		n->result = print_once(n, &n->err);
		if (n->result != POD_LOG_NO_POD || over || poll(&wake, 1, LOOK_AGAIN_MS) > 0)
			break;
	}

	if (n->result >= 0 && n->line.len && hand_on_lines(n, "\n", 1, &n->err) < 0)
		n->result = -1;
	pthread_mutex_lock(&p->lock);
	p->n_ended++;
	pthread_cond_signal(&p->ended);
	pthread_mutex_unlock(&p->lock);
	if (n->result < 0)
		pod_log_cancel(p->l); /* one failure ends all of them */
	return NULL;
}

/* Waits until all threads have ended, and checks meanwhile whether the attempt has. */
static void wait_for(struct printing *p, unsigned n)
{
	for (;;) {
		struct timespec until;
		unsigned ended;

		clock_gettime(CLOCK_MONOTONIC, &until);
		until.tv_nsec += LOOK_AGAIN_MS * NS_PER_MS;
		until.tv_sec += until.tv_nsec / NS_PER_S;
		until.tv_nsec %= NS_PER_S;
		pthread_mutex_lock(&p->lock);
		if (p->n_ended < n)
			pthread_cond_timedwait(&p->ended, &p->lock, &until);
		ended = p->n_ended;
		pthread_mutex_unlock(&p->lock);
		if (ended >= n)
			return;
		if (!p->over && !p->o->runs(p->o->arg))
			p->over = true;
	}
}

static int follow_all(struct printing *p, struct err *err)
{
	unsigned n = MIN(p->nodes, POD_LOG_NODES_MAX), started = 0;
	_cleanup_(freep) struct node *v = xcalloc(n, sizeof(*v));
	const struct node *failed = NULL;
	bool found = false;
	int r = 0;

	/* This line is in the log itself, whatever part is wanted: a wanted rank may be on a node
	 * that isn't followed. */
	if (n < p->nodes) {
		_cleanup_(freep) char *line =
			xasprintf("=== only the first %u of %u nodes are followed; without -f the "
				  "logs of all nodes are shown ===\n",
				  n, p->nodes);

		if (p->o->sink(p->o->arg, line, strlen(line), err) < 0)
			return -1;
	}
	for (; r == 0 && started < n; started += r == 0) {
		v[started] = (struct node){ .p = p, .index = started, .lines_only = true };
		log_part_init(&v[started].part, &p->o->wanted);
		r = thread_start(&v[started].thread, NULL, run, &v[started]);
	}
	if (r != 0)
		pod_log_cancel(p->l);
	wait_for(p, started);
	for (unsigned i = 0; i < started; i++) {
		pthread_join(v[i].thread, NULL);
		str_deinit(&v[i].line);
	}
	if (r != 0) {
		errno = r;
		return err_errno(err, "cannot start a thread");
	}
	/* Prefer the first real error: cancelled threads only followed it. */
	for (unsigned i = 0; i < n; i++) {
		found |= v[i].found;
		if (v[i].result < 0 && (!failed || failed->err.code == ERR_CANCELLED))
			failed = &v[i];
	}
	if (failed) {
		*err = failed->err;
		return -1;
	}
	return found ? POD_LOG_WHOLE : POD_LOG_NO_POD;
}

/* Which nodes. */

/* The number of nodes of the attempt's Job; 0: there is no Job, or we may not read it. Pods that
 * several attempts share are not nodes of this attempt. */
static int nodes_of(struct pod_log *l, uint64_t attempt_id, unsigned *ret, struct err *err)
{
	_cleanup_(freep) char *selector =
		kube_selector(l->cluster.profile.project, KUBE_LABEL_ATTEMPT "=%llu",
			      (unsigned long long)attempt_id);
	_cleanup_(str_deinit) struct str path = { 0 };
	struct kube_call call = { .method = "GET" };
	struct err why = { 0 };
	int r;

	kube_add_path(&path, "batch", "v1", l->cluster.access.namespace_, "jobs", NULL);
	str_add(&path, "?limit=10&");
	kube_add_selector(&path, selector);
	call.path = path.s;
	r = kube_do(l->cluster.client, &call, &why);
	if (r == 0) {
		const json_t *job = json_array_get(json_object_get(call.json, "items"), 0);
		bool shared = json_object_get(json_object_get(json_object_get(job, "metadata"),
							      "annotations"),
					      KUBE_NOTE_ATTEMPTS) != NULL;

		*ret = shared ? 1
			      : (unsigned)MIN(
					MAX(json_integer_value(json_object_get(
						    json_object_get(job, "spec"), "completions")),
					    0),
					UINT16_MAX);
	} else if (why.code == ERR_INVALID || why.code == ERR_NOT_FOUND) {
		*ret = 0;
		r = 0;
	} else {
		*err = why;
	}
	kube_call_deinit(&call);
	return r;
}

static int print(struct printing *p, struct err *err)
{
	struct node one = { .p = p };

	if (nodes_of(p->l, p->o->attempt_id, &p->nodes, err) < 0)
		return -1;
	if (p->nodes > 1)
		return p->o->follow ? follow_all(p, err) : print_in_turn(p, err);
	log_part_init(&one.part, &p->o->wanted);
	return print_once(&one, err);
}

int pod_log_print(struct pod_log *l, const struct pod_log_options *o, struct err *err)
{
	struct pollfd wake = { .fd = o->wake_fd, .events = POLLIN };
	struct printing p = { .l = l, .o = o };
	int r;

	pthread_mutex_init(&p.lock, NULL);
	thread_cond_init(&p.ended);
	for (;;) {
		bool runs = o->runs(o->arg);

		r = print(&p, err);
		if (r != POD_LOG_NO_POD || !o->follow || !runs || poll(&wake, 1, LOOK_AGAIN_MS) > 0)
			break;
	}
	pthread_cond_destroy(&p.ended);
	pthread_mutex_destroy(&p.lock);
	return r;
}

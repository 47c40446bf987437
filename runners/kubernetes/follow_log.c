/* runners/kubernetes/follow_log.c — `cairn logs -f` for a pod.
 *
 * It requests lines with time stamps and removes the stamps before the sink gets the lines
 * (on_bytes()). A broken stream is requested again from the whole second of the last stamp, because
 * the server's resolution is a second. Lines that the sink already has are then skipped: by stamp,
 * by the number of lines with the same stamp, and by bytes of the last line (begin_line(), pass()).
 *
 * It finds the pod by the attempt's own label, or by the Job whose annotation lists the attempt
 * (find_place()). It reads the newest pod of that index and searches for it again after each
 * stream. The function ends when the pod's container has ended.
 *
 * No state outlives the call; it blocks and sleeps on its caller's thread. It doesn't know the
 * runner.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/net/http.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "runners/kubernetes/facts.h"
#include "runners/kubernetes/runner.h"

#define STAMP_MAX     64
#define LOOK_AGAIN_NS (500 * NS_PER_MS)
#define QUIET_NS      (180 * NS_PER_S)
/* After this many streams without a byte while the container runs, the pod is unreachable. */
#define BROKEN_MAX 20

struct follower {
	struct kube_client *c;
	const struct kube_log *log;
	bool any;     /* something was printed */
	bool refused; /* by the sink */

	/* position: the number of a line tells lines of one nanosecond apart */
	int64_t last_ns;
	uint64_t n_last;       /* complete lines of that stamp that were passed on */
	uint64_t last_partial; /* bytes of the next line that were passed on */

	/* the current stream */
	char stamp[STAMP_MAX];
	size_t stamp_len;
	bool in_line;
	int64_t line_ns;
	uint64_t n_line; /* lines of its stamp before it in this stream */
	uint64_t skip;   /* bytes of this line that were passed on before; UINT64_MAX: all */
	uint64_t passed; /* bytes of it so far, without the stamp */
};

/* Lines. */

static void begin_line(struct follower *f)
{
	int64_t ns = f->line_ns;

	f->stamp[f->stamp_len] = '\0';
	if (text_parse_time(f->stamp, &ns, NULL) < 0)
		ns = f->line_ns; /* the rest of a line that the kubelet split */
	f->n_line = ns == f->line_ns ? f->n_line + 1 : 0;
	f->line_ns = ns;
	f->in_line = true;
	f->passed = 0;
	if (ns < f->last_ns || (ns == f->last_ns && f->n_line < f->n_last))
		f->skip = UINT64_MAX;
	else
		f->skip = ns == f->last_ns && f->n_line == f->n_last ? f->last_partial : 0;
}

static int pass(struct follower *f, const char *bytes, size_t n, struct err *err)
{
	uint64_t known = f->skip > f->passed ? MIN(f->skip - f->passed, (uint64_t)n) : 0;

	f->passed += n;
	if (known == n)
		return 0;
	if (f->line_ns != f->last_ns)
		f->n_last = 0;
	f->last_ns = f->line_ns;
	f->n_last = f->n_line;
	f->last_partial = f->passed;
	f->any = true;
	f->refused = f->log->sink(f->log->arg, bytes + known, n - known, err) != 0;
	return f->refused ? -1 : 0;
}

static void end_line(struct follower *f)
{
	f->in_line = false;
	f->stamp_len = 0;
	if (f->skip == UINT64_MAX || f->line_ns != f->last_ns)
		return;
	f->n_last = f->n_line + 1;
	f->last_partial = 0;
}

static int on_bytes(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct follower *f = arg;
	const char *at = bytes, *end = at + n;

	while (at < end) {
		const char *newline;
		size_t len;

		if (!f->in_line) {
			if (*at == ' ' || f->stamp_len == STAMP_MAX - 1) {
				begin_line(f);
				at += *at == ' ';
			} else {
				f->stamp[f->stamp_len++] = *at++;
			}
			continue;
		}
		newline = memchr(at, '\n', (size_t)(end - at));
		len = newline ? (size_t)(newline - at) + 1 : (size_t)(end - at);
		if (pass(f, at, len, err) < 0)
			return -1;
		if (newline)
			end_line(f);
		at += len;
	}
	return 0;
}

/* Starts at the last full second: the server has no finer resolution. */
static int stream(struct follower *f, const struct pod_facts *pod, bool follow, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	struct kube_call call = { .method = "GET",
				  .accept = "*/*",
				  .sink = on_bytes,
				  .arg = f,
				  .quiet_timeout_ns = QUIET_NS };
	int r;

	kube_add_path(&path, "", "v1", f->log->namespace_, "pods", pod->name);
	str_addf(&path, "/log?container=%s&timestamps=true", pod->kind->main);
	if (follow)
		str_add(&path, "&follow=true");
	if (f->last_ns) {
		str_add(&path, "&sinceTime=");
		text_add_time(&path, f->last_ns / NS_PER_S * NS_PER_S, 0);
	}
	f->in_line = false;
	f->stamp_len = 0;
	f->line_ns = 0;
	f->n_line = 0;
	call.path = path.s;
	r = kube_do(f->c, &call, err);
	kube_call_deinit(&call);
	return r;
}

/* Pods. */

/* How to find an attempt's pods: by the label that they share with their Job, and an index. */
struct place {
	uint64_t label;
	unsigned index;
	bool array; /* pods of one Job differ only by the index */
};

struct newest {
	const struct place *at;
	struct pod_facts *pod;
	bool found;
};

static int take_newer(void *arg, const json_t *object, struct err *err)
{
	struct newest *n = arg;
	struct pod_facts p;

	if (pod_facts_of(object, &p) < 0 || p.index != n->at->index ||
	    p.attempt_id != n->at->label || (n->found && p.created_ns < n->pod->created_ns)) {
		pod_facts_deinit(&p);
		return 0;
	}
	if (n->found)
		pod_facts_deinit(n->pod);
	*n->pod = p;
	n->found = true;
	return 0;
}

/* The newest pod. 0: none exists (yet). Operators have other labels for the index, so a node of a
 * gang is searched for among all of them. */
static int find_pod(struct follower *f, const struct place *at, struct pod_facts *ret,
		    struct err *err)
{
	const char *project = f->log->project;
	_cleanup_(freep) char *selector =
		at->array ? kube_selector(project, KUBE_LABEL_ATTEMPT "=%llu," KUBE_INDEX "=%u",
					  (unsigned long long)at->label, at->index)
			  : kube_selector(project, KUBE_LABEL_ATTEMPT "=%llu",
					  (unsigned long long)at->label);
	struct newest newest = { .at = at, .pod = ret };
	const struct kube_list l = { .group = "",
				     .version = "v1",
				     .ns = f->log->namespace_,
				     .resource = "pods",
				     .label_selector = selector,
				     .item = take_newer,
				     .arg = &newest };

	if (kube_list_each(f->c, &l, err) == 0)
		return newest.found;
	if (newest.found)
		pod_facts_deinit(ret);
	return -1;
}

struct holder {
	uint64_t attempt_id;
	struct place *place; /* in the Job that holds the attempt */
};

/* 1: this Job holds it. */
static int is_in(void *arg, const json_t *job, struct err *err)
{
	struct holder *h = arg;
	struct job_facts j;
	size_t i = 0;
	bool found;

	if (job_facts_of(kube_kinds, job, &j) < 0)
		return 0;
	while (i < j.n_attempts && j.attempts[i] != h->attempt_id)
		i++;
	found = i < j.n_attempts;
	if (found)
		*h->place = (struct place){ .label = j.attempt_id,
					    .index = job_index_of(&j, i),
					    .array = j.per_pod > 0 };
	job_facts_deinit(&j);
	return found;
}

/* A Job for several attempts has only the first one's label, so this searches all of the project.
 */
static int find_place(struct follower *f, struct place *ret, struct err *err)
{
	_cleanup_(freep) char *selector = kube_selector(f->log->project, NULL);
	struct holder holder = { f->log->attempt_id, ret };
	const struct kube_list l = { .group = "batch",
				     .version = "v1",
				     .ns = f->log->namespace_,
				     .resource = "jobs",
				     .label_selector = selector,
				     .accept = KUBE_METADATA_LIST,
				     .item = is_in,
				     .arg = &holder };

	return kube_list_each(f->c, &l, err);
}

static int look(struct follower *f, struct pod_facts *ret, struct err *err)
{
	struct place at = { .label = f->log->attempt_id, .index = f->log->index };
	int found = find_pod(f, &at, ret, err);

	if (found == 0 && (found = find_place(f, &at, err)) > 0)
		found = find_pod(f, &at, ret, err);
	return found;
}

int kube_follow_log(struct kube_client *c, const struct kube_log *log, struct err *err)
{
	struct follower f = { .c = c, .log = log };
	unsigned broken = 0;

	assert(log->sink && log->attempt_id);
	for (;;) {
		struct pod_facts p = { 0 };
		struct err why = { 0 };
		int found = look(&f, &p, err), r = 0;
		bool ended = found > 0 && p.main.state == CONTAINER_TERMINATED, before = f.any;
		int64_t at = f.last_ns;

		if (found > 0 && p.main.state != CONTAINER_WAITING)
			r = stream(&f, &p, log->follow && !ended, &why);
		pod_facts_deinit(&p);
		if (found < 0)
			return -1;
		if (found == 0)
			return before ? 0
				      : err_set(err, ERR_NOT_FOUND,
						"attempt %llu has no pod in %s (any more)",
						(unsigned long long)log->attempt_id,
						log->namespace_);
		if (r == 0 && (ended || !log->follow))
			return 0;
		if (r < 0 && (why.code == ERR_CANCELLED || f.refused ||
			      (broken > BROKEN_MAX && f.last_ns == at))) {
			*err = why;
			return -1;
		}
		broken = f.last_ns == at && r < 0 ? broken + 1 : 0;
		clock_sleep(LOOK_AGAIN_NS);
	}
}

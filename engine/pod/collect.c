/* engine/pod/collect.c — after the program: how it ended, what it left, and the result.
 *
 * pod_collect() reads the helper's exit record, metrics and outputs, then log and checkpoint. It
 * returns when all of it is in the store where others find it (pod_settle()). pod_tell() writes the
 * results of all slots as the termination message. If their long parts can't be stored, it writes
 * the message without them.
 *
 * Invariants: the workspace is the program's and may be hostile: any path may be a link, a pipe or
 * a gigabyte too large. Everything is opened beneath descriptors of the slot, and every read has a
 * limit. A result succeeds only when its content and log are in the store; otherwise it is
 * FAILURE_STORE and names no outputs. A failed attempt keeps its own failure. Of several nodes,
 * only the first one's outputs and metrics are required.
 *
 * Threads: the sidecar's main thread. Not here: saving checkpoints while the program runs (pod.c
 * calls checkpoint.c), deciding whether to retry (the engine).
 */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "pod/internal.h"
#include "run/task/staging.h"
#include "runners/workspace.h"

#define METRICS_MAX  (1 * MIB)
#define EXIT_MAX     512
#define TRY_AGAIN_NS (10 * NS_PER_S)
/* How often the log repeats that the store is unreachable. */
#define SAY_AGAIN_NS (300 * NS_PER_S)

/* The store. */

/* How long the programs ran: that work is lost if their outputs are. */
static int64_t ran_ns(const struct pod *p)
{
	int64_t ns = 0;

	for (size_t i = 0; i < p->n; i++)
		ns += MAX(p->slots[i].result.r.ended_ns - p->slots[i].result.r.started_ns, 0);
	return ns;
}

/* Only a person can restore rights and credentials, so the wait for them is at most as long as the
 * program ran. A shared store skips requests for half a minute after a failure (tier.c), so some
 * tries don't reach it. */
static int pod_settle(struct pod *p, struct err *err)
{
	int64_t began = clock_mono_ns(), said = 0;
	int r = -1;

	for (;;) {
		struct err why = { 0 };
		_cleanup_(str_deinit) struct str time = { 0 };
		int64_t within, now;

		if (store_sync(p->store, err) < 0)
			break;
		if (!store_unsent(p->store, &why)) {
			r = 0;
			break;
		}
		now = clock_mono_ns();
		within = p->o.save_within_ns;
		if (why.code == ERR_INVALID || why.code == ERR_READ_ONLY) /* it refuses us */
			within = MIN(within, ran_ns(p));
		if (now - began >= within) {
			err_set(err, why.code ? why.code : ERR_IO, "%s", why.msg);
			break;
		}
		text_add_duration(&time, (began + within - now) / NS_PER_S * NS_PER_S);
		if (!said || now - said >= SAY_AGAIN_NS) {
			said = now;
			pod_trouble(
				p,
				"the store does not accept the outputs of the program; retried for "
				"%s: %s",
				time.s, why.msg);
		}
		clock_sleep(MIN(TRY_AGAIN_NS, p->o.save_within_ns / 8 + 1));
	}
	pod_trouble(p, NULL);
	return r;
}

static void fail(struct pod_slot *s, enum failure_class class, const struct err *e)
{
	s->result.r.failure = class;
	s->result.r.err = *e;
}

/* How it ended. */

static void classify(struct pod_slot *s, const struct init_exit *e)
{
	struct err why = { 0 };

	if (e->told_to_end) {
		s->result.stopped = true;
		err_set(&why, ERR_FAILED, "the pod was asked to stop");
		fail(s, FAILURE_FAILED, &why);
	} else if (e->timed_out) {
		err_set(&why, ERR_FAILED, "took longer than its timeout of %.6gs",
			(double)s->a->timeout_ns / NS_PER_S);
		fail(s, FAILURE_TIMEOUT, &why);
	} else if (e->oom && (e->signo || e->status)) {
		err_set(&why, ERR_FAILED, "killed by the kernel for memory");
		fail(s, FAILURE_OOM, &why);
	} else if (e->signo) {
		err_set(&why, ERR_FAILED, "killed by SIG%s",
			sigabbrev_np(e->signo) ? sigabbrev_np(e->signo) : "?");
		fail(s, FAILURE_FAILED, &why);
	} else if (e->status) {
		err_set(&why, ERR_FAILED, "exit status %d", e->status);
		fail(s, FAILURE_FAILED, &why);
	}
}

/* -1: the file isn't the helper's. */
static int read_exit(struct pod_slot *s)
{
	struct init_exit e;
	struct stat st;
	_cleanup_(fd_closep) int fd = fs_open_file_beneath(s->run_fd, "exit", false, &st, NULL);
	char text[EXIT_MAX + 1];
	ssize_t n;

	n = fd < 0 ? -1 : read(fd, text, EXIT_MAX);
	if (n < 0)
		return -1;
	text[n] = '\0';
	if (strlen(text) != (size_t)n || init_exit_decode(text, &e) < 0)
		return -1;
	s->result.ran = true;
	s->result.r.exit_status = e.status;
	s->result.r.signo = e.signo;
	s->result.r.started_ns = e.started_ns;
	s->result.r.ended_ns = e.ended_ns;
	s->result.r.cpu_ns = e.cpu_ns;
	s->result.r.max_rss_bytes = e.max_rss_bytes;
	classify(s, &e);
	return 0;
}

/* Metrics and outputs. */

static int read_metrics(struct pod *p, struct pod_slot *s, struct err *err)
{
	const char *path = s->a->metrics_path;
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *buf = NULL;
	struct err e = { 0 };
	struct stat st;
	ssize_t n;

	fd = fs_open_file_beneath(s->w_fd, path, true, &st, &e);
	if (fd < 0)
		return e.code == ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND,
							 "the command ended well but did not write "
							 "its metrics file `%s`",
							 path)
					       : err_set(err, e.code, "metrics file: %s", e.msg);
	buf = xmalloc(METRICS_MAX + 2);
	n = fs_read_at(fd, buf, METRICS_MAX + 1, 0);
	if (n < 0)
		return err_errno(err, "cannot read metrics file %s", path);
	if ((uint64_t)n > METRICS_MAX)
		return err_set(err, ERR_TOO_LARGE, "metrics file: %s is larger than %llu bytes",
			       path, METRICS_MAX);
	s->result.r.metrics_json = arena_strndup(p->arena, buf, strnlen(buf, (size_t)n));
	return 0;
}

/* The first node's outputs count; those of other nodes are optional. */
static int collect_what_there_is(struct pod *p, struct pod_slot *s, struct content_id *ret,
				 struct err *err)
{
	for (size_t i = 0; i < s->a->n_outputs; i++) {
		struct runner_attempt one = *s->a;
		struct err e = { 0 };

		one.outputs = &s->a->outputs[i];
		one.n_outputs = 1;
		if (staging_collect_hostile(p->store, &one, s->w_fd, &ret[i], &e) < 0) {
			ret[i] = (struct content_id){ 0 };
			if (e.code != ERR_NOT_FOUND && e.code != ERR_INVALID)
				return err_pass(err, &e);
		}
	}
	return 0;
}

static void collect_outputs(struct pod *p, struct pod_slot *s)
{
	struct content_id *ids = arena_alloc(p->arena, (s->a->n_outputs + 1) * sizeof(*ids));
	bool first = p->o.index == 0;
	struct err e = { 0 };
	int r = 0;

	if (s->a->metrics_path && read_metrics(p, s, &e) < 0 && first)
		r = -1;
	if (r == 0)
		r = pod_views_bring_linked(p, s, &e);
	if (r == 0)
		r = first ? staging_collect_hostile(p->store, s->a, s->w_fd, ids, &e)
			  : collect_what_there_is(p, s, ids, &e);
	if (r < 0) {
		bool is_theirs = e.code == ERR_NOT_FOUND || e.code == ERR_INVALID ||
				 e.code == ERR_TOO_LARGE || e.code == ERR_CHANGED;

		fail(s, is_theirs ? FAILURE_OUTPUT : FAILURE_STORE, &e);
		return;
	}
	s->result.r.outputs = ids;
	s->result.n_outputs = s->a->n_outputs;
}

/* The log. */

static int put_log(struct pod *p, struct pod_slot *s, struct err *err)
{
	_cleanup_(freep) char *tail = NULL;
	struct err e = { 0 };
	struct stat st;
	_cleanup_(fd_closep) int fd = fs_open_file_beneath(s->run_fd, "log", false, &st, &e);

	if (fd < 0 && e.code == ERR_NOT_FOUND)
		return s->result.ran ? err_set(err, ERR_IO, "what the program printed wasn't kept")
				     : 0;
	if (fd < 0)
		return err_pass(err, &e);
	if (st.st_size == 0)
		return 0;
	if (s->result.r.failure != FAILURE_NONE && (tail = workspace_log_tail(fd)))
		s->result.r.log_tail = arena_strdup(p->arena, tail);
	/* The helper's log is never longer, so the program has written to it. */
	if ((uint64_t)st.st_size > INIT_LOG_MAX)
		return err_set(err, ERR_TOO_LARGE, "it is larger than %llu GiB",
			       INIT_LOG_MAX / GIB);
	return content_put_fd(p->store, fd, &s->result.r.log, err);
}

/* All. */

/* Stores log and checkpoint; returns when the whole result is in the store where others find it. */
static void collect_rest(struct pod *p, struct pod_slot *s)
{
	struct pod_result *result = &s->result;
	struct err e = { 0 };

	if (put_log(p, s, &e) < 0) {
		err_wrap(&e, "keeping the log");
		if (result->r.failure == FAILURE_NONE)
			fail(s, FAILURE_STORE, &e);
		else
			pod_say(p, "%s", e.msg);
	}
	result->r.continues = s->ck.continues;
	/* This node ended well, but another node may fail; then all restart from the checkpoint. */
	e = (struct err){ 0 };
	if (s->a->checkpoint_path &&
	    (result->r.failure != FAILURE_NONE || s->a->on.gang.nodes > 1) &&
	    pod_checkpoint_save(p, s, &e) < 0)
		pod_say(p, "the checkpoint of %s: %s", s->a->task, e.msg);
	e = (struct err){ 0 };
	if (pod_settle(p, &e) < 0) {
		err_wrap(&e, "keeping what the program made");
		pod_say(p, "%s", e.msg);
		result->r.log = (struct content_id){ 0 };
		if (result->r.failure == FAILURE_NONE) {
			fail(s, FAILURE_STORE, &e);
			result->n_outputs = 0;
		}
	}
	s->ended = true;
}

void pod_collect(struct pod *p, struct pod_slot *s)
{
	assert(!s->ended);
	if (read_exit(s) < 0) {
		pod_collect_remains(p, s);
		return;
	}
	if (s->result.r.failure == FAILURE_NONE)
		collect_outputs(p, s);
	collect_rest(p, s);
}

void pod_collect_remains(struct pod *p, struct pod_slot *s)
{
	struct err e = { 0 };
	struct stat st;

	s->result.main_died = true;
	s->result.ran = fstatat(s->run_fd, "log", &st, AT_SYMLINK_NOFOLLOW) ==
			0; /* the helper creates it at the start */
	err_set(&e, ERR_FAILED, "its container ended without reporting how the program ended");
	fail(s, FAILURE_FAILED, &e);
	collect_rest(p, s);
}

/* The termination message. */

static int put_message(void *arg, const void *bytes, size_t n, struct content_id *ret,
		       struct err *err)
{
	struct pod *p = arg;

	return content_put_bytes(p->store, bytes, n, ret, err) < 0 ? -1 : pod_settle(p, err);
}

/* Drops the long parts. */
static void shorten(struct pod_result *v, size_t n, const struct err *why)
{
	for (size_t i = 0; i < n; i++) {
		v[i].r.log_tail = NULL;
		if (v[i].r.failure == FAILURE_NONE && v[i].r.metrics_json) {
			v[i].r.failure = FAILURE_STORE;
			v[i].r.err = *why;
			v[i].n_outputs = 0;
		}
		v[i].r.metrics_json = NULL;
	}
}

static int tell(struct pod *p, const char *text, size_t len, struct err *err)
{
	_cleanup_(fd_closep) int fd =
		open(p->o.message_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || fs_write_all(fd, text, len, NULL) < 0)
		return err_errno(err, "cannot write %s", p->o.message_path);
	return 0;
}

int pod_tell_text(struct pod *p, const char *text, struct err *err)
{
	return tell(p, text, strlen(text), err);
}

int pod_tell(struct pod *p, struct err *err)
{
	_cleanup_(freep) struct pod_result *v = xcalloc(p->n + 1, sizeof(*v));
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err e = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < p->n; i++)
		if (p->slots[i].ended)
			v[n++] = p->slots[i].result;
	if (pod_result_write(v, n, put_message, p, &text, &e) < 0) {
		shorten(v, n, &e);
		str_reset(&text);
		if (pod_result_write(v, n, put_message, p, &text, err) < 0)
			return -1;
	}
	return tell(p, text.s, text.len, err);
}

/* runners/kubernetes/job/program.c — an attempt as a pod's helper runs it, and how it ended, for
 * the sidecar (engine/pod). No state, any thread. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "runners/kubernetes/init/protocol.h"
#include "runners/kubernetes/job/pod_spec.h"

#define METRICS_MAX (1 * MIB)

/* As on the local runner: text is UTF-8, whatever the image sets. */
static const char *const *environment(const struct runner_attempt *a, const char *const *more,
				      struct arena *arena)
{
	VEC(const char *) v = { 0 };
	const char **kept;
	bool has_locale = false;
	size_t n;

	for (const char *const *e = a->env; e && *e; e++) {
		has_locale |= str_has_prefix(*e, "LC_ALL=");
		VEC_PUSH(&v, *e);
	}
	for (const char *const *e = more; e && *e; e++)
		VEC_PUSH(&v, *e);
	if (!has_locale)
		VEC_PUSH(&v, "LC_ALL=C.UTF-8");
	VEC_PUSH(&v, NULL);
	VEC_TO_ARENA(&v, arena, &kept, &n);
	return kept;
}

static const char *const *names_of(const char *const *secrets, struct arena *arena)
{
	VEC(const char *) v = { 0 };
	const char **kept;
	size_t n;

	for (; secrets && *secrets; secrets++)
		VEC_PUSH(&v, arena_strndup(arena, *secrets, strcspn(*secrets, "=")));
	VEC_PUSH(&v, NULL);
	VEC_TO_ARENA(&v, arena, &kept, &n);
	return kept;
}

void pod_program(const struct runner_attempt *a, const char *root, size_t i,
		 const char *const *more_env, struct arena *arena, struct init_program *ret)
{
	*ret = (struct init_program){ .dir = arena_printf(arena, "%s/%zu/w", root, i),
				      .tmp = arena_printf(arena, "%s/%zu/tmp", root, i),
				      .argv = a->argv,
				      .env = environment(a, more_env, arena),
				      .redact = names_of(a->secrets, arena),
				      .timeout_ns = a->timeout_ns,
				      .grace_ns = a->grace_ns,
				      .forwards_signals = a->forwards_signals };
}

static void fail(struct pod_result *p, enum failure_class class, const struct err *e)
{
	p->r.failure = class;
	p->r.err = *e;
}

void pod_result_take_exit(struct pod_result *p, const struct init_exit *e, int64_t timeout_ns)
{
	struct err why = { 0 };

	p->ran = true;
	p->r.exit_status = e->status;
	p->r.signo = e->signo;
	p->r.started_ns = e->started_ns;
	p->r.ended_ns = e->ended_ns;
	p->r.cpu_ns = e->cpu_ns;
	p->r.max_rss_bytes = e->max_rss_bytes;
	if (e->told_to_end) {
		p->stopped = true;
		err_set(&why, ERR_FAILED, "the pod was asked to stop");
		fail(p, FAILURE_FAILED, &why);
	} else if (e->timed_out) {
		err_set(&why, ERR_FAILED, "took longer than its timeout of %.6gs",
			(double)timeout_ns / NS_PER_S);
		fail(p, FAILURE_TIMEOUT, &why);
	} else if (e->oom && (e->signo || e->status)) {
		err_set(&why, ERR_FAILED, "killed by the kernel for memory");
		fail(p, FAILURE_OOM, &why);
	} else if (e->signo) {
		err_set(&why, ERR_FAILED, "killed by SIG%s",
			sigabbrev_np(e->signo) ? sigabbrev_np(e->signo) : "?");
		fail(p, FAILURE_FAILED, &why);
	} else if (e->status) {
		err_set(&why, ERR_FAILED, "exit status %d", e->status);
		fail(p, FAILURE_FAILED, &why);
	}
}

int pod_metrics_read(int dir_fd, const char *path, struct str *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct err e = { 0 };
	struct stat st;
	ssize_t n;

	fd = fs_open_file_beneath(dir_fd, path, true, &st, &e);
	if (fd < 0)
		return e.code == ERR_NOT_FOUND ? err_set(err, ERR_NOT_FOUND,
							 "the command ended well but did not write "
							 "its metrics file `%s`",
							 path)
					       : err_set(err, e.code, "metrics file: %s", e.msg);
	str_reserve(ret, METRICS_MAX + 2);
	n = fs_read_at(fd, ret->s, METRICS_MAX + 1, 0);
	if (n < 0)
		return err_errno(err, "cannot read metrics file %s", path);
	if ((uint64_t)n > METRICS_MAX)
		return err_set(err, ERR_TOO_LARGE, "metrics file: %s is larger than %llu bytes",
			       path, METRICS_MAX);
	ret->s[n] = '\0';
	ret->len = strlen(ret->s);
	return 0;
}

/* runners/local.c — attempts as processes on this machine.
 *
 * The steps of an attempt: prepare (worker) → program (process) → collect (worker) → report →
 * remove the workspace (worker, nobody waits). prepare(), prepared(), on_exit_status(),
 * after_exit(), collect() and report() are these steps. A cancel may come during any of them; it is
 * noted in the attempt, and the next step acts on it. Output goes straight into the log file and
 * costs the engine nothing, whatever its size. Only a program that gets secrets writes through a
 * pipe of ours, so that the redactor can remove them.
 *
 * The loop's thread owns struct local and every local_attempt. A job on the pool owns its attempt
 * until its second function runs on the loop. Only the pool of workspaces is shared, and it has
 * its own lock. `attempts` holds an id as long as the attempt lives: submit() of the same id does
 * nothing.
 *
 * Each program has two variables in its environment: the attempt's marker and the engine's. The
 * engine finds and kills all processes by these, even daemons (process_signal_marked()). If the
 * engine is killed, the guard does so (guard.c). It is started at the first attempt, before the
 * first worker thread: they come with the jobs.
 *
 * Attempts don't outlive the engine: adopt() kills what a dead engine left and returns that it is
 * gone. Other files do the rest: workspace.c directories, checkpoint.c checkpoints, redact.c
 * masking, links.c links to the store's files, mounts.c views of them, sandbox.c what a program can
 * see and reach, audit.c the report of undeclared files.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include "base/map.h"
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/os/process/process.h"
#include "runners/audit.h"
#include "runners/checkpoint.h"
#include "runners/guard.h"
#include "runners/links.h"
#include "runners/mounts.h"
#include "runners/redact.h"
#include "runners/sandbox.h"
#include "runners/series/series.h"
#include "runners/workspace.h"

#define METRICS_MAX_BYTES (1 * MIB)
/* The time from TERM to KILL when the step sets none. */
#define DEFAULT_GRACE_NS (10 * NS_PER_S)
#define COPY_BYTES       (64 * KIB)
/* How much of a pipe is read before other work gets its turn. */
#define DRAIN_BYTES (1 * MIB)
/* A device with less than this free is full: a file needs blocks and a name. */
#define NO_ROOM_BYTES (16 * KIB)
/* Nothing reports when the last process of a tree ends after its leader, so we check this often. */
#define LOOK_AGAIN_NS (20 * NS_PER_MS)

struct local {
	struct runner base;
	struct loop *loop;
	struct pool *pool;
	struct workspace_pool workspaces;
	struct runner_local_options o;
	char *state_dir;
	char engine_marker[64];
	uint64_t state_hash;
	struct map *attempts;           /* id → struct local_attempt *, NULL when it has ended */
	uint64_t oom_kills;             /* the machine's counter at the last check */
	enum runner_place place;        /* of large inputs; ASK: not decided yet */
	enum runner_place strict_place; /* of those of strict attempts, which aren't mounted */
	struct guard guard;
	int users; /* the user namespace of attempts with mounts or their own network; -1: none */
	char node[MACHINE_NAME_BYTES];
};

/* What an attempt can see and reach, and what is noted of it. */
struct confinement {
	int rules;                  /* links.h's ruleset; -1: its inputs aren't links */
	enum runner_place did;      /* how its inputs were placed */
	struct mounts *mounts;      /* with VIEWS */
	struct sandbox_paths paths; /* what a strict attempt may use; else empty */
	int strict_rules;           /* sandbox.h's ruleset; -1: none */
	char *refused;              /* what its sandbox refused, as lines; or NULL */
	struct opens *opens;        /* the files that an audited attempt opens; else NULL */
};

/* Why and how an attempt ends. */
struct ending {
	int64_t grace_end_ns; /* after our TERM; 0: none was sent */
	bool cancelled, cancel_hard, timed_out, killed_by_us, device_full;
	bool exited; /* a flag, not derived from times, because clocks may be set back */
	struct process_exit ex;
};

struct local_attempt {
	struct local *l;
	const struct runner_attempt *a;
	struct workspace w;
	char marker[64];
	struct process *process;
	struct loop_source *timer, *pipe_source, *series_timer;
	struct series_tail series;
	int pipe_fd;
	struct confinement in;
	struct ending end;
	struct redactor *redactor;
	struct runner_result result;
	struct err *err;    /* &result.err */
	struct err log_err; /* the first error of writing or storing the log */
};

static struct local *local_of(struct runner *r)
{
	return CONTAINER_OF(r, struct local, base);
}

/* Ending. */

struct removal {
	struct local *l;
	char *dir, *inputs;
};

static void remove_workspace(void *arg)
{
	struct removal *m = arg;

	workspace_recycle(&m->l->workspaces, m->dir, m->inputs);
}

static void removed(void *arg)
{
	struct removal *m = arg;

	free(m->dir);
	free(m->inputs);
	free(m);
}

static void free_attempt(struct local_attempt *la)
{
	loop_remove(la->l->loop, la->timer);
	loop_remove(la->l->loop, la->pipe_source);
	loop_remove(la->l->loop, la->series_timer);
	series_close(&la->series);
	fd_closep(&la->pipe_fd);
	fd_closep(&la->in.rules);
	mounts_free(la->in.mounts);
	fd_closep(&la->in.strict_rules);
	sandbox_paths_deinit(&la->in.paths);
	free(la->in.refused);
	process_free(la->process);
	redactor_free(la->redactor);
	opens_free(la->in.opens);
	workspace_close(&la->w);
	free(la->result.outputs);
	free(la->result.metrics_json);
	free(la->result.log_tail);
	free(la->result.workspace);
	free(la->result.continues);
	free(la->result.undeclared);
	free(la);
}

/* Adds what its surroundings forbade a program that failed: one that can't write reports
 * "permission denied", or nothing. */
static void explain(struct local_attempt *la)
{
	if (la->in.did == RUNNER_PLACE_LINKS)
		links_explain(la->err);
	else if (la->in.did == RUNNER_PLACE_VIEWS)
		mounts_explain(la->result.failure, la->result.log_tail, la->err);
	if (la->a->local.sandbox && la->process)
		sandbox_explain(la->a, la->in.refused, la->err);
}

static void report(struct local_attempt *la)
{
	struct local *l = la->l;
	uint64_t id = la->a->id;
	enum failure_class failure = la->result.failure;
	struct err why = *la->err;

	if (failure == FAILURE_FAILED && (la->end.device_full || la->log_err.code == ERR_NO_SPACE))
		err_set(la->err, why.code, "%s; no space is left on the device that holds %s",
			why.msg, l->state_dir);
	if (failure == FAILURE_FAILED || failure == FAILURE_OUTPUT)
		explain(la);
	if (la->end.cancelled && la->result.failure != FAILURE_NONE) {
		la->result.failure = FAILURE_CANCELLED;
		err_set(la->err, ERR_CANCELLED, "stopped on request");
	}
	if (la->a->keep_workspace && la->w.path)
		la->result.workspace = xstrdup(la->w.path);
	if (la->w.dir && !la->a->keep_workspace) {
		struct removal *m = xcalloc(1, sizeof(*m));

		m->l = l;
		m->dir = xstrdup(la->w.dir);
		m->inputs = TAKE_PTR(la->w.inputs);
		pool_submit(l->pool, remove_workspace, removed, m);
	}
	*map_slot(l->attempts, &id, sizeof(id), NULL) = NULL;
	l->base.events.finished(l->base.events.arg, id, &la->result);
	free_attempt(la);
}

/* Collecting. */

static void write_log(struct local_attempt *la, struct str *text)
{
	struct err e = { 0 };

	if (text->len && fs_write_all(la->w.log_fd, text->s, text->len, &e) < 0 &&
	    la->log_err.code == ERR_NONE)
		la->log_err = e;
	str_reset(text);
}

static void collect_outputs(struct local_attempt *la)
{
	const struct runner_staging *s = &la->l->o.staging;
	const char *metrics = la->a->metrics_path;
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err e = { 0 };

	if (metrics && fs_read_file_at(la->w.dir_fd, metrics, METRICS_MAX_BYTES, &text, &e) < 0) {
		la->result.failure = FAILURE_OUTPUT;
		if (e.code == ERR_NOT_FOUND)
			err_set(la->err, ERR_NOT_FOUND,
				"the command ended well but did not write its metrics file `%s`",
				metrics);
		else
			err_set(la->err, e.code, "metrics file: %s", e.msg);
		return;
	}
	if (metrics) {
		str_addn(&text, "", 0);
		la->result.metrics_json = str_take(&text);
	}
	la->result.outputs = xcalloc(la->a->n_outputs + 1, sizeof(*la->result.outputs));
	if (s->collect(s->arg, la->a, la->w.dir_fd, la->in.did, la->result.outputs, la->err) < 0)
		la->result.failure = la->err->code == ERR_NOT_FOUND || la->err->code == ERR_INVALID
					     ? FAILURE_OUTPUT
					     : FAILURE_STORE;
}

/* Ends the watch and appends the report to the log. */
static void say_undeclared(struct local_attempt *la)
{
	_cleanup_(str_deinit) struct str text = { 0 }, line = { 0 };
	const char *const *paths;
	size_t untold, n = opens_stop(la->in.opens, &paths, &untold);

	audit_say(la->a->local.audit, paths, n, untold, &text);
	str_addn(&text, "", 0);
	for (const char *s = text.s; *s; s += strcspn(s, "\n") + 1) {
		str_addf(&line, "cairn: %.*s", (int)strcspn(s, "\n") + 1, s);
		write_log(la, &line);
	}
	*(la->a->local.audit->refused ? &la->in.refused : &la->result.undeclared) = str_take(&text);
}

static void collect(void *arg)
{
	struct local_attempt *la = arg;
	const struct runner_staging *s = &la->l->o.staging;
	struct err put_err = { 0 };
	struct stat st;

	if (la->in.did == RUNNER_PLACE_LINKS)
		links_repair(la->w.dir_fd, la->result.started_ns);
	/* The files that a person left in a shell are no result. */
	if (la->result.failure == FAILURE_NONE && !la->a->local.shell)
		collect_outputs(la);
	if (la->in.opens)
		say_undeclared(la);
	if (la->a->local.shell || fstat(la->w.log_fd, &st) < 0 || st.st_size == 0)
		return;
	if (la->result.failure != FAILURE_NONE)
		la->result.log_tail = workspace_log_tail(la->w.log_fd);
	if (s->put_log(s->arg, la->w.log_fd, &la->result.log, &put_err) < 0 &&
	    la->log_err.code == ERR_NONE)
		la->log_err = put_err;
	if (la->log_err.code != ERR_NONE && la->result.failure == FAILURE_NONE) {
		la->result.failure = FAILURE_STORE;
		*la->err = la->log_err;
		err_wrap(la->err, "keeping the log");
	}
}

static void collected(void *arg)
{
	report(arg);
}

/* The program's end. */

static uint64_t machine_oom_kills(void)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *at;

	if (fs_read_file("/proc/vmstat", 1 * MIB, &text, NULL) < 0)
		return 0;
	at = strstr(text.s, "\noom_kill ");
	return at ? strtoull(at + 10, NULL, 10) : 0;
}

/* A SIGKILL that we didn't send, while the kernel's count of kills for memory grew. */
static bool was_oom(struct local_attempt *la)
{
	uint64_t before = la->l->oom_kills;

	la->l->oom_kills = machine_oom_kills();
	return la->end.ex.signo == SIGKILL && !la->end.killed_by_us && la->l->oom_kills > before;
}

/* The program's own message about a full disk may not fit into the log. */
static bool no_room_left(int fd)
{
	struct statvfs v;

	return fstatvfs(fd, &v) == 0 && v.f_blocks &&
	       ((uint64_t)v.f_bavail * v.f_frsize < NO_ROOM_BYTES ||
		(v.f_files && v.f_favail == 0));
}

static void classify(struct local_attempt *la)
{
	struct runner_result *r = &la->result;

	r->exit_status = la->end.ex.signo ? -1 : la->end.ex.status;
	r->signo = la->end.ex.signo;
	if (la->a->local.shell)
		return;
	if (la->end.timed_out) {
		la->result.failure = FAILURE_TIMEOUT;
		err_set(la->err, ERR_FAILED, "took longer than its timeout of %.6gs",
			(double)la->a->timeout_ns / NS_PER_S);
	} else if (la->end.ex.signo && was_oom(la)) {
		la->result.failure = FAILURE_OOM;
		err_set(la->err, ERR_FAILED, "killed by the kernel for memory");
	} else if (la->end.ex.signo) {
		la->result.failure = FAILURE_FAILED;
		err_set(la->err, ERR_FAILED, "killed by SIG%s",
			sigabbrev_np(la->end.ex.signo) ? sigabbrev_np(la->end.ex.signo) : "?");
	} else if (la->end.ex.status != 0) {
		la->result.failure = FAILURE_FAILED;
		err_set(la->err, ERR_FAILED, "exit status %d", la->end.ex.status);
	}
}

static void drain_pipe(struct local_attempt *la, bool end);

/* A shell dies of TERM at once, while its child still saves its work. So the grace time covers the
 * whole tree. A leader that exits by itself ends the grace time. */
static void after_exit(void *arg)
{
	struct local_attempt *la = arg;
	struct clock *c = loop_clock(la->l->loop);
	int64_t now = c->mono_ns(c);

	la->timer = NULL;
	if (!la->end.cancel_hard && la->end.ex.signo == SIGTERM && now < la->end.grace_end_ns &&
	    process_left_orphans(la->process)) {
		la->timer =
			loop_add_timer(la->l->loop, MIN(now + LOOK_AGAIN_NS, la->end.grace_end_ns),
				       after_exit, la);
		return;
	}
	if (process_left_orphans(la->process))
		process_kill_leftovers(la->process);
	if (la->pipe_fd >= 0)
		drain_pipe(la, true);
	classify(la);
	if (la->result.failure == FAILURE_NONE && la->l->base.events.exited)
		la->l->base.events.exited(la->l->base.events.arg, la->a->id);
	pool_submit(la->l->pool, collect, collected, la);
}

static void on_exit_status(void *arg, const struct process_exit *ex)
{
	struct local_attempt *la = arg;
	struct clock *c = loop_clock(la->l->loop);

	la->end.ex = *ex;
	la->end.exited = true;
	if (ex->signo || ex->status) /* now: another attempt that ends may free space */
		la->end.device_full = no_room_left(la->w.dir_fd);
	la->result.ended_ns = MAX(la->result.started_ns, c->wall_ns(c));
	la->result.max_rss_bytes = (uint64_t)ex->usage.ru_maxrss * 1024;
	la->result.cpu_ns = (ex->usage.ru_utime.tv_sec + ex->usage.ru_stime.tv_sec) * NS_PER_S +
			    (ex->usage.ru_utime.tv_usec + ex->usage.ru_stime.tv_usec) * 1000LL;
	loop_remove(la->l->loop, la->timer);
	la->timer = NULL;
	if (la->a->local.shell && isatty(0)) {
		signal(SIGTTOU, SIG_IGN); /* lint: signal because ignoring needs no handler */
		tcsetpgrp(0, getpgrp());
	}
	after_exit(la);
}

/* While it runs. */

/* Bounded work a turn. At the end, reads as much as a pipe holds: later bytes come from processes
 * that aren't ours. */
static void drain_pipe(struct local_attempt *la, bool end)
{
	int holds = end ? fcntl(la->pipe_fd, F_GETPIPE_SZ) : -1;
	size_t left = holds > 0 ? (size_t)holds : DRAIN_BYTES;
	char buf[COPY_BYTES];
	struct str clean = { 0 };
	ssize_t n = 1;

	while (left && n) {
		n = read(la->pipe_fd, buf, MIN(left, sizeof(buf)));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break;
		redactor_feed(la->redactor, buf, (size_t)n, false, &clean);
		write_log(la, &clean);
		left -= (size_t)n;
	}
	if (end || n == 0 || (n < 0 && errno != EAGAIN)) {
		redactor_feed(la->redactor, "", 0, true, &clean);
		write_log(la, &clean);
		loop_remove(la->l->loop, la->pipe_source);
		la->pipe_source = NULL;
		fd_closep(&la->pipe_fd);
		la->pipe_fd = -1;
	}
	str_deinit(&clean);
}

static void on_pipe(void *arg, int fd, uint32_t events)
{
	drain_pipe(arg, false);
}

static void report_metric(void *arg, const char *name, double value)
{
	struct local_attempt *la = arg;

	la->l->base.events.metric(la->l->base.events.arg, la->a->id, name, value);
}

static void look_at_series(void *arg)
{
	struct local_attempt *la = arg;
	struct clock *c = loop_clock(la->l->loop);

	la->series_timer = NULL;
	if (la->end.exited)
		return;
	series_poll(&la->series, la->w.dir_fd, la->a->series_path, report_metric, la);
	la->series_timer =
		loop_add_timer(la->l->loop, c->mono_ns(c) + SERIES_INTERVAL_NS, look_at_series, la);
}

static void kill_now(void *arg)
{
	struct local_attempt *la = arg;

	la->timer = NULL;
	la->end.killed_by_us = true;
	process_signal_tree(la->process, SIGKILL);
}

/* Only once: a cancel after a timeout gets the rest of the grace time. */
static void terminate(struct local_attempt *la)
{
	struct clock *c = loop_clock(la->l->loop);

	if (la->end.grace_end_ns)
		return;
	loop_remove(la->l->loop, la->timer);
	la->end.killed_by_us = true;
	if (la->a->forwards_signals)
		process_signal(la->process, SIGTERM);
	else
		process_signal_tree(la->process, SIGTERM);
	la->end.grace_end_ns =
		c->mono_ns(c) + (la->a->grace_ns ? la->a->grace_ns : DEFAULT_GRACE_NS);
	la->timer = loop_add_timer(la->l->loop, la->end.grace_end_ns, kill_now, la);
}

static void on_timeout(void *arg)
{
	struct local_attempt *la = arg;

	la->timer = NULL;
	la->end.timed_out = true;
	terminate(la);
}

/* Starting. */

static int open_log_pipe(struct local_attempt *la, int *ret_write, struct err *err)
{
	VEC(const char *) values = { 0 };
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	for (const char *const *s = la->a->secrets; *s; s++)
		VEC_PUSH(&values, strchr(*s, '=') + 1);
	la->redactor = redactor_new(values.v, values.n);
	VEC_FREE(&values);
	la->pipe_fd = fds[0];
	*ret_write = fds[1];
	return loop_add_fd(la->l->loop, fds[0], EPOLLIN, on_pipe, la, &la->pipe_source, err);
}

/* Watches for what the sandbox refuses. */
static int begin_watch(struct local_attempt *la, struct err *err)
{
	VEC(const char *) except = { 0 };
	int r;

	for (size_t i = 0; i < la->in.paths.list.n; i++) {
		char *real = realpath(la->in.paths.list.v[i].path, NULL);

		if (real)
			VEC_PUSH(&except, real);
	}
	r = opens_new(OPENS_ALL, except.v, except.n, &la->in.opens, err);
	for (size_t i = 0; i < except.n; i++)
		free((char *)except.v[i]);
	VEC_FREE(&except);
	return r;
}

/* Its own directory and its checkpoint count as declared. */
static int begin_audit(struct local_attempt *la, struct err *err)
{
	_cleanup_(freep) char *checkpoints = fs_join(la->l->state_dir, "checkpoints"),
			      *real = realpath(checkpoints, NULL),
			      *workspace = realpath(la->w.dir, NULL);
	const char *except[2];
	size_t n = 0;

	if (workspace)
		except[n++] = workspace;
	if (real)
		except[n++] = real;
	return opens_new(OPENS_READS, except, n, &la->in.opens, err);
}

static int start_program(struct local_attempt *la, struct err *err)
{
	const struct runner_attempt *a = la->a;
	bool secret = a->secrets && *a->secrets && !a->local.shell;
	_cleanup_(fd_closep) int pipe_write = -1;
	char **env = workspace_env(a, &la->w, la->marker, la->l->engine_marker);
	int out = la->w.log_fd, r = secret ? open_log_pipe(la, &pipe_write, err) : 0;
	struct process_spec spec = { .argv = a->argv,
				     .env = (const char *const *)env,
				     .cwd = la->w.path,
				     .marker = la->marker,
				     .rules = { MAX(la->in.rules, 0), MAX(la->in.strict_rules, 0) },
				     .umask = RUNNER_UMASK };
	struct namespace_plan apart = { .users = la->l->users,
					.mounts =
						la->in.mounts ? mounts_plan(la->in.mounts) : NULL };

	if (secret)
		out = pipe_write;
	spec.stdin_fd = a->local.shell ? 0 : -1;
	spec.stdout_fd = a->local.shell ? 1 : out;
	spec.stderr_fd = a->local.shell ? 2 : out;
	spec.foreground = a->local.shell;
	if (r == 0 && apart.mounts && apart.users < 0)
		r = namespace_users_new(&apart.users, err);
	if (r == 0)
		r = sandbox_network(a, &apart, err);
	la->l->users = apart.users;
	if (apart.mounts || apart.network)
		spec.apart = &apart;
	/* A strict attempt is as strict where the kernel can't tell us what it refuses. */
	if (r == 0 && a->local.audit && a->local.audit->refused)
		(void)begin_watch(la, NULL);
	else if (r == 0 && a->local.audit)
		r = begin_audit(la, err);
	spec.opens = la->in.opens ? opens_fd(la->in.opens) : 0;
	if (r == 0)
		r = process_start(la->l->loop, &spec, on_exit_status, la, &la->process, err);
	if (la->in.opens)
		opens_started(la->in.opens);
	workspace_env_free(env);
	return r;
}

static void add_marker(const struct local *l, uint64_t attempt_id, char ret[static 64])
{
	snprintf(ret, 64, "CAIRN_ATTEMPT=%016llx/%llu", (unsigned long long)l->state_hash,
		 (unsigned long long)attempt_id);
}

/* Two processes must not write one checkpoint, so processes that a dead engine's attempt left are
 * killed first. */
static int attach_checkpoint(struct local_attempt *la)
{
	struct runner_result *r = &la->result;
	char marker[64];
	const char *last;

	if (checkpoint_attach(la->l->state_dir, la->a, la->w.dir_fd, &r->continues, la->err) < 0)
		return -1;
	if (r->continues && la->a->number == 1) {
		last = strrchr(r->continues, ' ');
		add_marker(la->l, strtoull(last ? last + 1 : r->continues, NULL, 10), marker);
		process_signal_marked(marker, SIGKILL);
	}
	return 0;
}

static enum runner_place wanted_place(const struct local_attempt *la)
{
	const struct runner_attempt *a = la->a;
	bool strict = a->local.sandbox && a->local.sandbox->strict;
	enum runner_place place = strict ? la->l->strict_place : la->l->place;

	/* A kept workspace would leave links that nothing protects, or lack its mounts. */
	if (a->local.copies || a->keep_workspace ||
	    (place == RUNNER_PLACE_VIEWS && !mounts_fit(a)) ||
	    (place == RUNNER_PLACE_LINKS && (a->local.shell || !links_fit(a))))
		return RUNNER_PLACE_COPIES;
	return place;
}

/* What workspace_make() must know: whether inputs/ will be there, and is no directory of the code;
 * and the names of the files in it, if all inputs are small files there that will be copied. */
static char *inputs_of(const struct runner_attempt *a, bool copies)
{
	_cleanup_(str_deinit) struct str names = { 0 };
	bool any = false, plain = copies;
	uint64_t bytes = 0;

	str_add(&names, "");
	for (size_t i = 0; i < a->n_inputs && !a->code; i++) {
		const struct runner_input *in = &a->inputs[i];
		const bool here = str_has_prefix(in->path, "inputs/");
		const char *name = here ? in->path + strlen("inputs/") : "/";

		any |= here;
		plain = plain && *name && !strchr(name, '/') && content_is_file(&in->id) &&
			in->id.size_bytes <= WORKSPACE_SPARE_BYTES - bytes;
		bytes += plain ? in->id.size_bytes : 0;
		str_addf(&names, "%s/", name);
	}
	if (!any)
		return NULL;
	return plain ? str_take(&names) : xstrdup("");
}

static void prepare(void *arg)
{
	struct local_attempt *la = arg;
	const struct local *l = la->l;
	const struct runner_staging *s = &l->o.staging;
	const struct runner_attempt *a = la->a;
	bool is_auto = l->o.inputs == RUNNER_INPUTS_AUTO;
	struct runner_placing p = { .want = wanted_place(la),
				    .from = is_auto ? MOUNTS_WORTH_BYTES : 1,
				    .or_copies = is_auto,
				    .prefix = MOUNTS_PREFIX };
	int r = 0;

	static_assert(MOUNTS_WORTH_BYTES == LINKS_WORTH_BYTES, "one threshold serves both");
	static_assert(WORKSPACE_SPARE_BYTES < MOUNTS_WORTH_BYTES, "spares are copies");
	if (!la->w.dir) {
		_cleanup_(freep) char *inputs =
			inputs_of(a, is_auto || p.want == RUNNER_PLACE_COPIES);

		r = workspace_make(&la->w, &la->l->workspaces, l->state_dir, a->id, inputs,
				   la->err);
	}
	p.spares = la->w.has_spares;
	if (r == 0)
		r = s->prepare(s->arg, a, la->w.dir_fd, &p, la->err);
	la->in.did = p.did;
	if (r == 0 && p.did == RUNNER_PLACE_ASK)
		return;
	if (r == 0 && a->checkpoint_path && attach_checkpoint(la) < 0)
		r = -1;
	if (r == 0 && p.did == RUNNER_PLACE_LINKS)
		r = links_rules(l->o.store_dir, l->state_dir, &la->w, &la->in.rules, la->err);
	if (p.did == RUNNER_PLACE_VIEWS && p.views &&
	    mounts_make(l->o.store_dir, &la->w, p.views, a->n_inputs, &la->in.mounts,
			r == 0 ? la->err : NULL) < 0)
		r = -1;
	if (r < 0)
		la->result.failure = FAILURE_STORE;
	else if (a->local.sandbox && a->local.sandbox->strict) {
		sandbox_paths(a, &la->w, l->state_dir, &la->in.paths);
		if (sandbox_rules(&la->in.paths, a->local.sandbox->project_dir,
				  &la->in.strict_rules, la->err) < 0)
			la->result.failure = FAILURE_UNSCHEDULABLE;
	}
}

static enum runner_place decide(const struct local *l)
{
	switch (l->o.inputs) {
	case RUNNER_INPUTS_LINKED: /* the session has tried these two */
		return RUNNER_PLACE_LINKS;
	case RUNNER_INPUTS_MOUNTED:
		return RUNNER_PLACE_VIEWS;
	case RUNNER_INPUTS_AUTO:
		if (links_reflinks(l->o.store_dir, l->state_dir))
			return RUNNER_PLACE_COPIES;
		if (mounts_check(l->o.store_dir, l->state_dir, NULL) == 0)
			return RUNNER_PLACE_VIEWS;
		if (links_check(l->o.store_dir, l->state_dir, NULL) == 0)
			return RUNNER_PLACE_LINKS;
		return RUNNER_PLACE_COPIES;
	case RUNNER_INPUTS_COPIED:
		break;
	}
	return RUNNER_PLACE_COPIES;
}

/* The rules of a strict attempt are for files by their place, and mounts would hide these places
 * from them. */
static void decide_places(struct local *l)
{
	l->place = l->strict_place = decide(l);
	if (l->place == RUNNER_PLACE_VIEWS)
		l->strict_place = links_check(l->o.store_dir, l->state_dir, NULL) == 0
					  ? RUNNER_PLACE_LINKS
					  : RUNNER_PLACE_COPIES;
}

static void prepared(void *arg)
{
	struct local_attempt *la = arg;
	struct clock *c = loop_clock(la->l->loop);

	if (la->result.failure == FAILURE_NONE && la->in.did == RUNNER_PLACE_ASK) {
		if (la->l->place == RUNNER_PLACE_ASK)
			decide_places(la->l);
		pool_submit(la->l->pool, prepare, prepared, la);
		return;
	}
	la->result.started_ns = la->result.ended_ns = c->wall_ns(c);
	if (la->result.failure == FAILURE_NONE && la->end.cancelled)
		la->result.failure = FAILURE_CANCELLED;
	if (la->result.failure == FAILURE_NONE && start_program(la, la->err) < 0) {
		la->result.failure = FAILURE_FAILED;
		la->result.exit_status = 127;
	}
	if (la->result.failure != FAILURE_NONE) {
		report(la);
		return;
	}
	if (la->a->timeout_ns)
		la->timer = loop_add_timer(la->l->loop, c->mono_ns(c) + la->a->timeout_ns,
					   on_timeout, la);
	if (la->a->series_path && la->l->base.events.metric)
		la->series_timer = loop_add_timer(la->l->loop, c->mono_ns(c) + SERIES_INTERVAL_NS,
						  look_at_series, la);
	la->l->base.events.started(la->l->base.events.arg, la->a->id, la->result.started_ns,
				   process_pid(la->process));
}

static int local_submit(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	struct local *l = local_of(r);
	void **slot = map_slot(l->attempts, &a->id, sizeof(a->id), NULL);
	struct local_attempt *la;

	assert(l->base.events.started && l->base.events.finished);
	if (*slot)
		return 0;
	guard_start(&l->guard, l->engine_marker, l->state_dir);
	/* Trying it takes time, which a run without large inputs needn't spend. */
	if (l->place == RUNNER_PLACE_ASK && l->o.inputs != RUNNER_INPUTS_AUTO)
		decide_places(l);
	la = xcalloc(1, sizeof(*la));
	*la = (struct local_attempt){ .l = l,
				      .a = a,
				      .w = { .dir_fd = -1, .log_fd = -1 },
				      .pipe_fd = -1,
				      .in.rules = -1,
				      .in.strict_rules = -1,
				      .series = { .fd = -1 } };
	la->err = &la->result.err;
	la->result.node = l->node;
	add_marker(l, a->id, la->marker);
	*slot = la;
	pool_submit(l->pool, prepare, prepared, la);
	return 0;
}

static void local_cancel(struct runner *r, uint64_t attempt_id, bool gentle)
{
	struct local_attempt *la = map_get(local_of(r)->attempts, &attempt_id, sizeof(attempt_id));

	if (!la || (la->end.cancelled && (gentle || la->end.cancel_hard)))
		return;
	la->end.cancelled = true;
	la->end.cancel_hard = !gentle;
	if (!la->process || la->end.exited)
		return; /* not started yet, or ended: the next step checks the flag */
	if (gentle) {
		terminate(la);
	} else {
		loop_remove(local_of(r)->loop, la->timer);
		kill_now(la);
	}
}

/* After a dead engine. */

/* The engine may have died while a program could change its links. */
static int remove_left(const char *dir, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(dir, "w");
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0)
		links_repair(fd, INT64_MAX);
	return fs_remove_tree(dir, err);
}

static int local_adopt(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	_cleanup_(freep) char *dir = workspace_dir(local_of(r)->state_dir, a->id);
	char marker[64];

	/* Its exit status went to the dead engine, so it can't be taken up: kill its processes. */
	add_marker(local_of(r), a->id, marker);
	process_signal_marked(marker, SIGKILL);
	return remove_left(dir, err);
}

static void local_forget(struct runner *r, uint64_t attempt_id)
{
	_cleanup_(freep) char *dir = workspace_dir(local_of(r)->state_dir, attempt_id);

	remove_left(dir, NULL);
}

static size_t local_leftovers(struct runner *r, uint64_t **ret)
{
	return workspace_list(local_of(r)->state_dir, ret);
}

/* Life. */

static void local_free(struct runner *r)
{
	struct local *l = local_of(r);

	pool_free(l->pool);
	guard_end(&l->guard,
		  l->guard.pid > 0 && workspace_pool_give_trash(&l->workspaces, l->guard.pid));
	fd_closep(&l->users);
	workspace_pool_deinit(&l->workspaces);
	map_free(l->attempts);
	free(l->state_dir);
	free(l);
}

static void local_drop_checkpoint(struct runner *r, const struct digest *key)
{
	checkpoint_drop(local_of(r)->state_dir, key);
}

static const struct runner_ops local_ops = { .name = "local",
					     .submit = local_submit,
					     .adopt = local_adopt,
					     .forget = local_forget,
					     .leftovers = local_leftovers,
					     .drop_checkpoint = local_drop_checkpoint,
					     .cancel = local_cancel,
					     .free = local_free };

int runner_local_new(struct loop *l, const struct runner_local_options *o, struct runner **ret,
		     struct err *err)
{
	struct local *r = xcalloc(1, sizeof(*r));
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct digest state;

	assert(o->state_dir[0] == '/');
	assert(o->store_dir || o->inputs == RUNNER_INPUTS_COPIED);
	r->base.ops = &local_ops;
	r->loop = l;
	r->o = *o;
	r->state_dir = xstrdup(o->state_dir);
	digest_bytes(o->state_dir, strlen(o->state_dir), &state);
	memcpy(&r->state_hash, state.b, sizeof(r->state_hash));
	r->attempts = map_new();
	workspace_pool_init(&r->workspaces, r->state_dir);
	r->oom_kills = machine_oom_kills();
	machine_name(r->node);
	snprintf(r->engine_marker, sizeof(r->engine_marker), "CAIRN_ENGINE=%d-%llu", (int)getpid(),
		 (unsigned long long)process_start_time(getpid()));
	r->users = -1;
	r->place = r->strict_place = RUNNER_PLACE_ASK;
	if (process_become_subreaper(err) < 0 ||
	    pool_new(l, o->n_workers ? o->n_workers : (unsigned)MAX(cpus, 1), &r->pool, err) < 0) {
		local_free(&r->base);
		return -1;
	}
	*ret = &r->base;
	return 0;
}

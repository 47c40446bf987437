/* engine/cli/past/cmd_logs.c — `cairn logs`: from the store when the attempt has ended, from its
 * file or pod while it runs.
 *
 * choose() lists what has a log and lets logs_choose() decide, as it does for --server.
 * print_attempt() then takes one of three ways: print_stored() for an attempt that has ended,
 * print_live() for one on this machine, print_pod() for one on a cluster.
 *
 * Every way cuts the log with a struct log_part (--lines, --rank), and cli_print_log() decides
 * which bytes a terminal gets.
 *
 * The log file of a local attempt is emptied, moved and used again when the attempt ends. So
 * copy_new() trusts bytes only while the path still leads to the open file (fs_leads_to()), and
 * reads the rest from the stored log. To follow, it waits for inotify, and at most half a second at
 * a time, because the end is a row in the database and not an event.
 *
 * Threads: one; a pod's log may call show_and_flush() from others, one call at a time. What it
 * doesn't do: mask secrets. The writer of a log does that.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "cli/named.h"
#include "cli/past/past.h"
#include "cli/serve/server.h"
#include "cli/what.h"
#include "run/run.h"
#include "run/task/pod_log.h"
#include "runners/runner.h"
#include "storage/content/content.h"

struct logs {
	struct cli *cli;
	struct db *db;
	struct store *store;
	const struct config *config;
	struct run_row run;
	struct logs_options options;
	struct log_part part; /* of the log that is being printed */
	struct cli_log text;
};

/* Output. */

static void show(struct logs *l, char *bytes, size_t n)
{
	cli_print_log(l->cli, &l->text, bytes, log_part_keep(&l->part, bytes, n));
}

/* From byte `at`; -1: the wanted part. */
static int print_stored(struct logs *l, const struct attempt_row *a, off_t at, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	char buf[65536];
	ssize_t n;

	if (a->log.kind == CONTENT_NONE)
		return 0;
	if (content_open(l->store, &a->log, &fd, err) < 0)
		return -1;
	if (at < 0)
		at = log_part_seek(&l->part, fd);
	for (; (n = pread(fd, buf, sizeof(buf), at)) > 0; at += n)
		show(l, buf, (size_t)n);
	return n < 0 ? err_errno(err, "cannot read the log") : 0;
}

/* The attempt's row as it is by now, in `arena`; false when it can't be read. */
static bool read_again(struct logs *l, const struct attempt_row *a, struct arena *arena,
		       struct attempt_row *ret)
{
	struct attempt_row *rows;
	size_t n;

	if (record_run_attempts(l->db, l->run.rowid, arena, &rows, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (rows[i].id == a->id) {
			*ret = rows[i];
			return true;
		}
	return false;
}

/* Asked twice a second for as long as the attempt runs, so only its last row is kept. */
static bool still_running(struct logs *l, const struct attempt_row *a, struct attempt_row *ret_now)
{
	struct arena *arena = arena_new();
	struct attempt_row now;
	bool running = read_again(l, a, arena, &now) && now.ended_ns == 0 && !run_is_left(&l->run);

	arena_free(arena);
	*ret_now = *a;
	if (!running)
		read_again(l, a, l->cli->arena, ret_now);
	return running;
}

static void copy_new(struct logs *l, const char *path, int fd, off_t *at)
{
	char buf[65536];
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), *at)) > 0 && fs_leads_to(path, fd)) {
		show(l, buf, (size_t)n);
		*at += n;
	}
	fflush(l->cli->out);
}

/* Of a pod. */

struct in_pod {
	struct logs *l;
	const struct attempt_row *a;
	struct attempt_row now;
};

static bool pod_runs(void *arg)
{
	struct in_pod *p = arg;

	return still_running(p->l, p->a, &p->now);
}

static int show_and_flush(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct in_pod *p = arg;

	cli_print_log(p->l->cli, &p->l->text, bytes, n);
	fflush(p->l->cli->out);
	return 0;
}

/* A pod may not exist yet, and it is gone once its log is in the store. */
static int print_pod(struct logs *l, const struct attempt_row *a, struct err *err)
{
	struct in_pod p = { l, a, *a };
	const struct pod_log_options o = { (uint64_t)a->id,
					   l->options.part,
					   l->options.follow,
					   -1,
					   pod_runs,
					   show_and_flush,
					   &p };
	struct pod_log *pod;
	int r;

	if (!pod_runs(&p) && p.now.ended_ns)
		return print_stored(l, &p.now, -1, err);
	if (pod_log_open(l->config, l->run.options_json, &pod, err) < 0)
		return -1;
	r = pod_log_print(pod, &o, err);
	pod_log_close(pod);
	if (r == POD_LOG_NO_POD && !pod_runs(&p) && p.now.ended_ns)
		return print_stored(l, &p.now, -1, err);
	return MIN(r, 0);
}

/* Of this machine. */

static int print_live(struct logs *l, const struct attempt_row *a, struct err *err)
{
	_cleanup_(freep) char *path = runner_local_log_path(l->config->state_dir, (uint64_t)a->id);
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC),
				 watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct pollfd p = { .fd = watch, .events = POLLIN };
	struct attempt_row now = *a;
	char events[4096];
	off_t at;

	if (fd < 0) /* it has ended since its row was read, or hasn't begun */
		return still_running(l, a, &now) ? 0 : print_stored(l, &now, -1, err);
	if (watch >= 0)
		inotify_add_watch(watch, path, IN_MODIFY);
	at = log_part_seek(&l->part, fd);
	copy_new(l, path, fd, &at);
	while (l->options.follow && still_running(l, a, &now)) {
		poll(&p, 1, 500);
		while (watch >= 0 && read(watch, events, sizeof(events)) > 0)
			;
		copy_new(l, path, fd, &at);
	}
	if (l->options.follow && now.ended_ns)
		return print_stored(l, &now, at, err);
	copy_new(l, path, fd, &at);
	return 0;
}

static int print_attempt(struct logs *l, const struct attempt_row *a, struct err *err)
{
	if (a->ended_ns)
		return print_stored(l, a, -1, err);
	if (a->approval) { /* nothing is executed */
		cli_printf(l->cli, "%s\n", cli_text(l->cli, a->waiting ? a->waiting : ""));
		return 0;
	}
	return str_eq(run_durable_runner(l->run.options_json, l->cli->arena), "kubernetes")
		       ? print_pod(l, a, err)
		       : print_live(l, a, err);
}

/* The task was named, but this run didn't execute it: it was a hit. Its log is that of the
 * execution that made the result. If another project executed it, only the log in the store is
 * left. */
static int print_hit(struct logs *l, const struct facts_task *t, struct err *err)
{
	struct attempt_row a;
	int found = facts_logged_by(l->db, l->store, &l->run, t, l->cli->arena, &a, err);

	if (found == 0)
		return err_set(err, ERR_NOT_FOUND, "no log of %s is on record", t->task);
	return found < 0 ? -1 : print_stored(l, &a, -1, err);
}

static int choose(struct logs *l, const struct cli_args *args, struct arena *arena,
		  logged_list *ret, struct err *err)
{
	struct attempt_row *rows;
	struct facts_task *tasks = NULL;
	size_t n, n_tasks = 0;

	if (l->run.results.kind && args->n_operands && !l->options.attempt &&
	    named_run_tasks(l->cli, l->db, &l->run, &tasks, &n_tasks, err) < 0)
		return -1;
	for (size_t i = 0; i < n_tasks; i++)
		if (tasks[i].state == RESULT_SUCCEEDED)
			VEC_PUSH(ret, ((struct logged){ .task = tasks[i].task,
							.step = tasks[i].step,
							.of = &tasks[i] }));
	if (record_run_attempts(l->db, l->run.rowid, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		VEC_PUSH(ret,
			 ((struct logged){ .task = rows[i].task,
					   .step = rows[i].step,
					   .attempt = rows[i].number,
					   .unfinished = rows[i].ended_ns == 0 ||
							 (rows[i].failure != FAILURE_NONE &&
							  rows[i].failure != FAILURE_CANCELLED),
					   .running = rows[i].ended_ns == 0,
					   .of = &rows[i] }));
	return logs_choose(args, l->options.attempt, l->run.id, ret, err);
}

/* Tasks that begin later. */

struct later {
	struct logs *l;
	const struct cli_args *args;
};

static bool goes_on(const struct run_row *r)
{
	return r->state == RUN_RUNNING && !run_is_left(r);
}

static int look_again(void *arg, struct arena *arena, logged_list *ret, struct err *err)
{
	struct later *t = arg;
	struct err none = { 0 };
	struct run_row now;

	/* The state first: what begins after this look is found by the next one. */
	if (record_find_run(t->l->db, t->l->run.id, arena, &now, err) < 0)
		return -1;
	if (choose(t->l, t->args, arena, ret, &none) < 0 && none.code != ERR_NOT_FOUND)
		return err_pass(err, &none);
	return goes_on(&now);
}

/* Whether the user named a step that has, or may have, several tasks. */
static bool names_a_step(const struct cli_args *args, const logged_list *logs)
{
	for (size_t i = 0; i < logs->n; i++)
		for (size_t k = 0; k < args->n_operands; k++)
			if (logs->v[i].step && !str_eq(logs->v[i].task, logs->v[i].step) &&
			    step_name_is_in(logs->v[i].step, args->operands[k]))
				return true;
	return false;
}

int cmd_logs(struct cli *cli, const struct cli_args *args)
{
	struct logs l = { .cli = cli };
	logged_list logs = { 0 };
	struct err err = { 0 };
	int r, code = CLI_OK;
	bool together, wait;

	if (cli_flag(args, "server"))
		return server_logs(cli, args);
	if (server_unused(args, &err) < 0 || logs_options(args, &l.options, &err) < 0 ||
	    cli_config(cli, &l.config, &err) < 0 || cli_db(cli, DB_READ, &l.db, &err) < 0 ||
	    cli_store(cli, false, &l.store, &err) < 0 ||
	    named_run(cli, l.db, cli_value(args, "run"), &l.run, &err) < 0)
		return cli_fail(cli, &err);
	r = choose(&l, args, cli->arena, &logs, &err);
	wait = r == 0 && l.options.follow && !l.options.attempt && goes_on(&l.run) &&
	       names_a_step(args, &logs);
	together = r == 0 && (wait || logs_are_followed(&l.options, &logs));
	for (size_t i = 0; r == 0 && i < logs.n; i++) {
		if (together && logs.v[i].running)
			continue;
		if (logs.n > 1)
			logs_print_head(cli, &logs.v[i]);
		log_part_init(&l.part, &l.options.part);
		r = logs.v[i].attempt ? print_attempt(&l, logs.v[i].of, &err)
				      : print_hit(&l, logs.v[i].of, &err);
		cli_end_log(cli, &l.text);
	}
	if (r == 0 && together)
		code = logs_follow(
			cli, args, l.run.id, &logs,
			wait ? &(struct logs_later){ look_again, &(struct later){ &l, args } }
			     : NULL);
	VEC_FREE(&logs);
	return r < 0 ? cli_fail(cli, &err) : code;
}

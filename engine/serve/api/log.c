/* engine/serve/api/log.c — the log of an attempt as a stream. When the attempt has ended, it comes
 * from the store. While the attempt runs, it comes from its file or its pod, and after the end from
 * the store.
 *
 * log_read() reads one source after the other. A file is read from `at`; when there are no new
 * bytes, the database tells, at most once in ASK_NS, whether the attempt still runs. Once it has
 * ended, go_on_from_store() opens the stored log and continues at the same place. log_part selects
 * the wanted part (a rank, the last lines); a pod's log has been through it already (log_pod.c).
 *
 * Invariants: bytes of a live file count only while its name still leads to it (fs_leads_to()),
 * because the log file of an ended attempt is reused. A stream that can't be read to its end fails
 * with a reason (log_why()); it never looks complete.
 *
 * Threads: the pool's, one at a time for a stream, which may not wait long. Not here: following
 * pods (log_pod.c, run/task/pod_log.c).
 */
#include "serve/api/log.h"
#include <fcntl.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "record/facts.h"
#include "record/rows/pages.h"
#include "run/run.h"
#include "runners/runner.h"
#include "serve/api/log_pod.h"
#include "serve/internal.h"
#include "storage/content/content.h"

/* How often to check whether a silent task still runs. */
#define ASK_NS NS_PER_S
/* When few lines match, the most that one call reads, so that others get their turn. */
#define READ_MAX (4 * MIB)

struct log_stream {
	struct project *project;
	int64_t attempt;
	int fd;
	bool live; /* reads the attempt's file or pod */
	bool follow;
	bool in_pod;
	struct api_log_pod *pod; /* NULL: not begun */
	struct log_part part;
	bool sought; /* in a file: the last lines were searched */
	off_t at;    /* position in the whole log */
	int64_t asked_ns;
	char *path;        /* of the live file */
	char *run_options; /* in a pod: of its run */
	struct err err;    /* why the stream fails */
};

static void log_free(void *arg)
{
	struct log_stream *s = arg;

	api_log_pod_free(s->pod);
	fd_closep(&s->fd);
	free(s->path);
	free(s->run_options);
	free(s);
}

/* 1: it runs. 0: it has ended, and *ret_log is its log. -1: can't be read. */
static int still_runs(struct log_stream *s, struct content_id *ret_log, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct attempt_row row;
	struct run_row run;
	struct db *db;
	int found;

	if (project_reader(s->project, &db, err) < 0)
		return -1;
	found = record_attempt(db, s->attempt, arena, &row, &run, err);
	project_reader_return(s->project, db);
	if (found <= 0)
		return -1;
	*ret_log = row.log;
	return row.ended_ns == 0 && !run_is_left(&run);
}

static ssize_t unread(struct log_stream *s)
{
	err_errno(&s->err, "cannot read the log");
	return WEB_STREAM_FAILED;
}

/* Once only for a followed file: later lines are always shown. */
static void seek(struct log_stream *s)
{
	if (s->fd >= 0 && !s->sought)
		s->at = log_part_seek(&s->part, s->fd);
	s->sought |= s->fd >= 0;
}

/* Continues in the stored log at the position where the file was left. */
static ssize_t go_on_from_store(struct log_stream *s, const struct content_id *log, char *buf,
				size_t max)
{
	struct store *store;
	ssize_t n;

	fd_closep(&s->fd);
	s->fd = -1;
	s->live = false;
	if (log->kind == CONTENT_NONE)
		return WEB_STREAM_END;
	if (project_store(s->project, &store, &s->err) < 0 ||
	    content_open(store, log, &s->fd, &s->err) < 0)
		return WEB_STREAM_FAILED;
	seek(s);
	n = pread(s->fd, buf, max, s->at);
	s->at += MAX(n, 0);
	return n > 0 ? n : n == 0 ? WEB_STREAM_END : unread(s);
}

static bool pod_runs(void *arg)
{
	struct content_id log;

	return still_runs(arg, &log, NULL) == 1;
}

/* If the pod was gone before it was read, the store has the whole log. */
static ssize_t read_pod(struct log_stream *s, char *buf, size_t max)
{
	struct content_id log;
	ssize_t n;

	if (!s->pod && still_runs(s, &log, NULL) == 0)
		return go_on_from_store(s, &log, buf, max);
	if (!s->pod)
		s->pod = api_log_pod_new(&(struct api_log_pod_options){
			s->project->config, s->run_options, (uint64_t)s->attempt, s->part.wanted,
			s->follow, pod_runs, s });
	n = api_log_pod_read(s->pod, buf, max);
	if (n == WEB_STREAM_END && api_log_pod_was_missing(s->pod) &&
	    still_runs(s, &log, NULL) == 0)
		return go_on_from_store(s, &log, buf, max);
	return n;
}

static ssize_t read_file(struct log_stream *s, char *buf, size_t max)
{
	struct content_id log;
	ssize_t n = s->fd >= 0 ? pread(s->fd, buf, max, s->at) : 0;

	if (n > 0 && (!s->live || fs_leads_to(s->path, s->fd))) {
		s->at += n;
		return n;
	}
	if (n < 0 || !s->live)
		return n < 0 ? unread(s) : WEB_STREAM_END;
	if (!s->follow)
		return WEB_STREAM_END;
	if (n == 0 && clock_mono_ns() - s->asked_ns < ASK_NS)
		return WEB_STREAM_WAIT;
	s->asked_ns = clock_mono_ns();
	switch (still_runs(s, &log, &s->err)) {
	case 1:
		return WEB_STREAM_WAIT;
	case 0:
		return go_on_from_store(s, &log, buf, max);
	default:
		return s->err.code ? WEB_STREAM_FAILED : WEB_STREAM_END;
	}
}

static ssize_t log_read(void *arg, char *buf, size_t max)
{
	struct log_stream *s = arg;

	for (size_t read = 0; read < READ_MAX;) {
		ssize_t n = s->live && s->in_pod ? read_pod(s, buf, max) : read_file(s, buf, max);
		size_t kept;

		if (n <= 0 || (s->live && s->in_pod)) /* a pod's log is filtered already */
			return n;
		kept = log_part_keep(&s->part, buf, (size_t)n);
		if (kept)
			return (ssize_t)kept;
		read += (size_t)n;
	}
	return WEB_STREAM_WAIT;
}

static const char *log_why(void *arg)
{
	const struct log_stream *s = arg;

	return s->err.code ? s->err.msg : s->pod ? api_log_pod_why(s->pod) : NULL;
}

/* Which attempt. */

static void answer_several(struct api *a, const char *step, const char *task)
{
	web_problem(a->x, 400,
		    "parameter `task`: step `%s` has several tasks, such as %s: name one", step,
		    task);
}

static bool several_tasks(const struct attempt_row *rows, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if (!str_eq(rows[i].task, rows[0].task))
			return true;
	return false;
}

/* For a hit, finds the execution that made the result. If another project executed it, only its log
 * is there, in the store. 1: found. 0: not found, or answered because the step has several
 * tasks. */
static int find_hit(struct api *a, const struct run_row *run, const char *task,
		    struct attempt_row *ret, struct err *err)
{
	const struct facts_task *found = NULL;
	struct facts_task *tasks;
	struct store *store;
	size_t n;

	if (!run->results.kind)
		return 0;
	if (project_store(a->project, &store, err) < 0 ||
	    facts_read_tasks(a->db, store, run, a->arena, &tasks, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (tasks[i].state != RESULT_SUCCEEDED)
			continue;
		if (str_eq(tasks[i].task, task)) {
			found = &tasks[i];
			break;
		}
		if (!str_eq(tasks[i].step, task))
			continue;
		if (found) {
			answer_several(a, task, found->task);
			return 0;
		}
		found = &tasks[i];
	}
	return found ? facts_logged_by(a->db, store, run, found, a->arena, ret, err) : 0;
}

/* The last attempt of the task in this run, or the one with the requested number. */
static bool find_attempt(struct api *a, const struct run_row *run, struct attempt_row *ret)
{
	struct attempt_page p = { .run = run->rowid,
				  .task = web_param(a->x, "task"),
				  .limit = 100,
				  .newest_first = true };
	uint64_t number = 0;
	struct attempt_row *rows;
	struct err err = { 0 };
	int found = 1;
	size_t n;

	if (!p.task)
		web_problem(a->x, 400, "parameter `task` is missing: a task or a step of the run");
	if (!p.task || !api_uint(a, "attempt", 1, UINT32_MAX, &number))
		return false;
	p.number = (uint32_t)number;
	if (record_page_attempts(a->db, &p, a->arena, &rows, &n, &err) < 0)
		found = -1;
	else if (n)
		*ret = rows[0];
	else
		found = number ? 0 : find_hit(a, run, p.task, ret, &err);
	if (found < 0)
		web_problem_err(a->x, &err);
	else if (found == 0 && !a->x->status)
		web_problem(a->x, 404, "run %s has no log of `%s`", run->id, p.task);
	else if (n && several_tasks(rows, n))
		answer_several(a, p.task, rows[0].task);
	return !a->x->status;
}

static bool open_log(struct api *a, struct log_stream *s, const struct run_row *run,
		     const struct attempt_row *row)
{
	struct err err = { 0 };
	struct store *store;

	s->live = row->ended_ns == 0;
	s->in_pod =
		s->live && str_eq(run_durable_runner(run->options_json, a->arena), "kubernetes");
	if (s->in_pod) {
		s->run_options = xstrdup(run->options_json);
		return true;
	}
	if (s->live) {
		s->path = runner_local_log_path(a->project->config->state_dir, (uint64_t)row->id);
		s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
		seek(s);
		return true;
	}
	if (row->log.kind == CONTENT_NONE)
		return true;
	if (project_store(a->project, &store, &err) == 0 &&
	    content_open(store, &row->log, &s->fd, &err) == 0) {
		seek(s);
		return true;
	}
	web_problem_err(a->x, &err);
	return false;
}

bool api_log_open(struct api *a, struct log_source *ret)
{
	struct log_stream s = { .project = a->project, .fd = -1 };
	struct attempt_row row;
	struct run_row run;
	struct stat st = { 0 };

	if (!api_run(a, &run) || !find_attempt(a, &run, &row))
		return false;
	if (row.ended_ns == 0 &&
	    str_eq(run_durable_runner(run.options_json, a->arena), "kubernetes")) {
		web_problem(a->x, 409,
			    "the log is in a pod until the attempt has ended: follow it with "
			    "/log?follow=true");
		return false;
	}
	log_part_init(&s.part, &(struct log_wanted){ 0 });
	if (!open_log(a, &s, &run, &row))
		return false;
	free(s.path);
	if (s.fd >= 0 && fstat(s.fd, &st) < 0)
		st.st_size = 0;
	*ret = (struct log_source){ row.id, row.log, s.live, s.fd, (uint64_t)st.st_size };
	return true;
}

/* ?offset= (negative: from the end) and ?bytes=. */
static void answer_range(struct api *a)
{
	struct log_source log;
	uint64_t from, n;

	if (web_param(a->x, "follow") || web_param(a->x, "lines") || web_param(a->x, "rank")) {
		web_problem(a->x, 400,
			    "`offset` and `bytes` name a part of the whole log: leave out "
			    "`follow`, `lines` and `rank`");
		return;
	}
	if (!api_log_open(a, &log))
		return;
	if (api_range(a, log.size, &from, &n))
		api_answer_bytes(a, log.fd, from, n, "text/plain; charset=utf-8");
	log_source_close(&log);
}

void api_run_log(struct api *a)
{
	struct log_wanted wanted = { 0 };
	struct log_stream *s;
	struct attempt_row row;
	struct run_row run;
	uint64_t rank = 0;
	bool follow = false;

	if (web_param(a->x, "offset") || web_param(a->x, "bytes")) {
		answer_range(a);
		return;
	}
	if (!api_run(a, &run) || !api_bool(a, "follow", &follow) ||
	    !api_uint(a, "lines", 1, UINT32_MAX, &wanted.lines) ||
	    !api_uint(a, "rank", 0, UINT32_MAX, &rank) || !find_attempt(a, &run, &row))
		return;
	wanted.of_rank = web_param(a->x, "rank") != NULL;
	wanted.rank = (uint32_t)rank;
	s = xcalloc(1, sizeof(*s));
	*s = (struct log_stream){
		.project = a->project, .attempt = row.id, .fd = -1, .follow = follow
	};
	log_part_init(&s->part, &wanted);
	if (!open_log(a, s, &run, &row)) {
		log_free(s);
		return;
	}
	a->x->status = 200;
	a->x->type = "text/plain; charset=utf-8";
	a->x->stream = (struct web_stream){ .read = log_read,
					    .why = log_why,
					    .free = log_free,
					    .arg = s,
					    .follows = s->live && (follow || s->in_pod) };
}

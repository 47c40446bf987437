/* `cairn logs`: from the store when the attempt has ended, from its file while it runs. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include "base/text.h"
#include "cli/facts.h"
#include "cli/server.h"
#include "run/pod_log.h"
#include "run/run.h"
#include "runners/runner.h"
#include "storage/content.h"

/* Last lines are looked for in so much of a log's end. */
#define TAIL_MAX (64 * MIB)
/* The launcher cuts longer lines itself (steps/train/gang.h). */
#define LINE_MAX_BYTES (128 * KIB)

struct logs {
	struct cli *cli;
	struct db *db;
	struct store *store;
	const struct config *config;
	struct run_row run;
	uint64_t lines, number; /* 0: all; the last attempt */
	bool follow, many;
	char rank[32]; /* "[rank N] ": only lines that begin so, without it; "" for all */
	struct str line; /* of the ranks' log: the line that hasn't ended yet */
};

/* --- one rank's lines ------------------------------------------------------------------------------------------------------ */

static void put(struct logs *l, const char *bytes, size_t n);

static bool of_rank(const struct logs *l, const char *line, size_t n)
{
	return n >= strlen(l->rank) && memcmp(line, l->rank, strlen(l->rank)) == 0;
}

/* Bytes of a log as they come: whole lines are looked at, the rest is kept for the next call. */
static void put_rank(struct logs *l, const char *bytes, size_t n)
{
	while (n) {
		const char *eol = memchr(bytes, '\n', n);
		size_t len = eol ? (size_t)(eol - bytes) + 1 : n;

		str_addn(&l->line, bytes, len);
		if (eol || l->line.len > LINE_MAX_BYTES) {
			if (of_rank(l, l->line.s, l->line.len))
				put(l, l->line.s + strlen(l->rank), l->line.len - strlen(l->rank));
			str_reset(&l->line);
		}
		n -= len;
		bytes += len;
	}
}

static void end_rank(struct logs *l)
{
	if (l->line.len)
		put_rank(l, "\n", 1);
}

/* Only that rank's lines, as a text of its own: what `--lines` counts in. */
static void keep_rank(const struct logs *l, struct str *text)
{
	struct str out = { 0 };

	for (const char *at = text->s, *end = text->s + text->len; at && at < end;) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		size_t len = eol ? (size_t)(eol - at) + 1 : (size_t)(end - at);

		if (of_rank(l, at, len))
			str_addn(&out, at + strlen(l->rank), len - strlen(l->rank));
		at += len;
	}
	str_deinit(text);
	*text = out;
}

/* --- output ---------------------------------------------------------------------------------------------------------------- */

/* To a terminal, what could command it is made visible; anywhere else bytes are bytes. */
static void put(struct logs *l, const char *bytes, size_t n)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (!l->cli->tty_out) {
		fwrite(bytes, 1, n, l->cli->out);
		return;
	}
	while (n) {
		const char *eol = memchr(bytes, '\n', n);
		size_t len = eol ? (size_t)(eol - bytes) : n;

		text_add_printable(&text, bytes, len);
		if (eol)
			str_addc(&text, '\n');
		n -= len + (eol != NULL);
		bytes += len + (eol != NULL);
	}
	fwrite(text.s, 1, text.len, l->cli->out);
}

static void show(struct logs *l, const char *bytes, size_t n)
{
	*l->rank ? put_rank(l, bytes, n) : put(l, bytes, n);
}

static const char *last_lines(const char *s, size_t n, uint64_t lines)
{
	const char *at = s + n;

	if (at > s && at[-1] == '\n')
		at--;
	while (at > s && (at[-1] != '\n' || --lines > 0))
		at--;
	return at;
}

/* Leaves the descriptor where the last lines begin. A log too long to be read for that begins in the middle of a line. */
static void seek_last_lines(struct logs *l, int fd)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	off_t end = lseek(fd, 0, SEEK_END), from = end > (off_t)TAIL_MAX ? end - (off_t)TAIL_MAX : 0;
	ssize_t n;

	str_reserve(&text, (size_t)(end - from));
	n = pread(fd, text.s, (size_t)(end - from), from);
	if (n > 0)
		from += last_lines(text.s, (size_t)n, l->lines) - text.s;
	lseek(fd, from, SEEK_SET);
}

static int print_stored(struct logs *l, const struct attempt_row *a, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(str_deinit) struct str text = { 0 };
	char buf[65536];
	ssize_t n;

	if (a->log.kind == CONTENT_NONE)
		return 0;
	if (l->lines && a->log.size_bytes <= TAIL_MAX) {
		const char *from;

		if (content_read(l->store, &a->log, TAIL_MAX, &text, err) < 0)
			return -1;
		if (*l->rank)
			keep_rank(l, &text);
		if (text.len == 0)
			return 0;
		from = last_lines(text.s, text.len, l->lines);
		put(l, from, (size_t)(text.s + text.len - from));
		return 0;
	}
	if (content_open(l->store, &a->log, &fd, err) < 0)
		return -1;
	if (l->lines)
		seek_last_lines(l, fd);
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		show(l, buf, (size_t)n);
	end_rank(l);
	return n < 0 ? err_errno(err, "cannot read the log") : 0;
}

static bool still_running(struct logs *l, const struct attempt_row *a, struct attempt_row *ret_now)
{
	struct attempt_row *rows;
	size_t n;

	if (record_run_attempts(l->db, l->run.rowid, l->cli->arena, &rows, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (rows[i].id == a->id) {
			*ret_now = rows[i];
			return rows[i].ended_ns == 0 && !facts_engine_died(&l->run);
		}
	return false;
}

/* A log whose attempt ended is emptied, moved away and used again: what was read is only its own while its name still leads to it. */
static bool is_still(const char *path, int fd)
{
	struct stat named, opened;

	return stat(path, &named) == 0 && fstat(fd, &opened) == 0 && named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

static void copy_new(struct logs *l, const char *path, int fd, off_t *at)
{
	char buf[65536];
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), *at)) > 0 && is_still(path, fd)) {
		show(l, buf, (size_t)n);
		*at += n;
	}
	fflush(l->cli->out);
}

/* Behind `at`, of the log that was kept at the end. */
static int print_rest(struct logs *l, const struct attempt_row *a, off_t at, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	char buf[65536];
	ssize_t n;

	if (a->log.kind == CONTENT_NONE)
		return 0;
	if (content_open(l->store, &a->log, &fd, err) < 0)
		return -1;
	for (; (n = pread(fd, buf, sizeof(buf), at)) > 0; at += n)
		show(l, buf, (size_t)n);
	end_rank(l);
	return n < 0 ? err_errno(err, "cannot read the log") : 0;
}

/* --- of a pod ------------------------------------------------------------------------------------------------------------ */

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

	show(p->l, bytes, n);
	fflush(p->l->cli->out);
	return 0;
}

/* A pod may not be there yet, and then it is gone once its log is in the store. */
static int print_pod(struct logs *l, const struct attempt_row *a, struct err *err)
{
	struct in_pod p = { l, a, *a };
	const struct pod_log_options o = { (uint64_t)a->id, l->follow, -1, pod_runs, show_and_flush, &p };
	struct pod_log *pod;
	int r;

	if (!pod_runs(&p) && p.now.ended_ns)
		return print_stored(l, &p.now, err);
	if (pod_log_open(l->config, &pod, err) < 0)
		return -1;
	r = pod_log_print(pod, &o, err);
	pod_log_close(pod);
	if (r == POD_LOG_NO_POD && !pod_runs(&p) && p.now.ended_ns)
		return print_stored(l, &p.now, err);
	end_rank(l);
	return MIN(r, 0);
}

/* --- of this machine ------------------------------------------------------------------------------------------------------ */

static int print_live(struct logs *l, const struct attempt_row *a, struct err *err)
{
	_cleanup_(freep) char *path = runner_local_log_path(l->config->state_dir, (uint64_t)a->id);
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC), watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct pollfd p = { .fd = watch, .events = POLLIN };
	struct attempt_row now = *a;
	char events[4096];
	off_t at = 0;

	if (fd < 0) /* it ended between our two looks, or hasn't begun */
		return still_running(l, a, &now) ? 0 : print_stored(l, &now, err);
	if (watch >= 0)
		inotify_add_watch(watch, path, IN_MODIFY);
	if (l->lines) {
		seek_last_lines(l, fd);
		at = lseek(fd, 0, SEEK_CUR);
	}
	copy_new(l, path, fd, &at);
	while (l->follow && still_running(l, a, &now)) {
		poll(&p, 1, 500);
		while (watch >= 0 && read(watch, events, sizeof(events)) > 0)
			;
		copy_new(l, path, fd, &at);
	}
	if (l->follow && now.ended_ns)
		return print_rest(l, &now, at, err);
	copy_new(l, path, fd, &at);
	end_rank(l);
	return 0;
}

static int print_attempt(struct logs *l, const struct attempt_row *a, struct err *err)
{
	if (l->many)
		cli_printf(l->cli, "%s==> %s%s <==%s\n", cli_style(l->cli, STYLE_BOLD), cli_text(l->cli, a->task), a->number > 1 ? " (again)" : "",
			   cli_style(l->cli, STYLE_PLAIN));
	if (a->ended_ns)
		return print_stored(l, a, err);
	return str_eq(run_durable_runner(l->run.options_json, l->cli->arena), "kubernetes") ? print_pod(l, a, err) : print_live(l, a, err);
}

static bool wanted(const struct cli_args *args, const struct attempt_row *a, size_t n_attempts)
{
	if (args->n_operands == 0)
		return n_attempts == 1 || a->ended_ns == 0 || (a->failure != FAILURE_NONE && a->failure != FAILURE_CANCELLED);
	for (size_t i = 0; i < args->n_operands; i++)
		if (str_eq(args->operands[i], a->task) || str_eq(args->operands[i], a->step))
			return true;
	return false;
}

/* Of each task the last attempt, or the one of that number. */
static bool superseded(const struct logs *l, const struct attempt_row *rows, size_t n, size_t i)
{
	if (l->number)
		return rows[i].number != l->number;
	for (size_t k = i + 1; k < n; k++)
		if (str_eq(rows[k].task, rows[i].task))
			return true;
	return false;
}

/* A task that this run didn't execute was a hit: its log is that of the execution that made the result. */
static int add_hits(struct logs *l, const struct cli_args *args, struct attempt_row **rows, size_t *n, struct err *err)
{
	VEC(struct attempt_row) out = { 0 };

	for (size_t i = 0; i < args->n_operands; i++) {
		struct attempt_row a;
		int found = record_previous_attempt(l->db, l->run.pipeline, args->operands[i], 0, l->cli->arena, &a, err);

		if (found < 0)
			return -1;
		if (found)
			VEC_PUSH(&out, a);
	}
	VEC_TO_ARENA(&out, l->cli->arena, rows, n);
	return 0;
}

static int print_all(struct logs *l, const struct cli_args *args, struct err *err)
{
	VEC(const struct attempt_row *) chosen = { 0 };
	struct attempt_row *rows;
	size_t n;
	int r = record_run_attempts(l->db, l->run.rowid, l->cli->arena, &rows, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (wanted(args, &rows[i], n) && !superseded(l, rows, n, i))
			VEC_PUSH(&chosen, &rows[i]);
	if (r == 0 && chosen.n == 0 && args->n_operands && !l->number) {
		r = add_hits(l, args, &rows, &n, err);
		for (size_t i = 0; r == 0 && i < n; i++)
			VEC_PUSH(&chosen, &rows[i]);
	}
	if (r == 0 && chosen.n == 0 && l->number)
		r = err_set(err, ERR_NOT_FOUND, "run %s has no attempt %llu of that; `cairn status -v %s` lists its attempts", l->run.id,
			    (unsigned long long)l->number, l->run.id);
	else if (r == 0 && chosen.n == 0)
		r = args->n_operands ? err_set(err, ERR_NOT_FOUND, "run %s has no log of that name; `cairn status -v %s` lists its attempts", l->run.id, l->run.id) :
				       err_set(err, ERR_NOT_FOUND, "nothing failed or is running in %s: name a task or a step", l->run.id);
	l->many = chosen.n > 1;
	for (size_t i = 0; r == 0 && i < chosen.n; i++)
		r = print_attempt(l, chosen.v[i], err);
	VEC_FREE(&chosen);
	return r;
}

int cmd_logs(struct cli *cli, const struct cli_args *args)
{
	struct logs l = { .cli = cli, .follow = cli_flag(args, "follow") };
	struct err err = { 0 };
	uint64_t rank = 0;
	int r;

	if (cli_flag(args, "server"))
		return server_logs(cli, args);
	if (server_unused(args, &err) < 0 || cli_uint(args, "lines", 1, UINT32_MAX, &l.lines, &err) < 0 || cli_uint(args, "attempt", 1, UINT32_MAX, &l.number, &err) < 0 ||
	    cli_uint(args, "rank", 0, UINT32_MAX, &rank, &err) < 0 || cli_config(cli, &l.config, &err) < 0 || cli_db(cli, DB_READ, &l.db, &err) < 0 ||
	    cli_store(cli, false, &l.store, &err) < 0 || facts_find_run(cli, l.db, cli_value(args, "run"), &l.run, &err) < 0)
		return cli_fail(cli, &err);
	if (cli_value(args, "rank"))
		snprintf(l.rank, sizeof(l.rank), "[rank %llu] ", (unsigned long long)rank);
	r = print_all(&l, args, &err);
	str_deinit(&l.line);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}

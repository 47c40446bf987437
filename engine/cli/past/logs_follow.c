/* engine/cli/past/logs_follow.c — `cairn logs -f` of several running tasks at once.
 *
 * Each task is followed by a `cairn logs -f` of its own, with the options of this one. So a task on
 * this machine, in a pod, or of a run that a server has is followed as it is alone, and a slow one
 * holds up no other. We read what they print through pipes and print whole lines, each behind the
 * name of its task. A line over LINE_MAX_BYTES is printed in parts, so that memory has a limit.
 *
 * With `later`, we look for new logs every LOOK_MS. An attempt is followed once, also one that
 * ended between two looks.
 *
 * They end with their tasks. An interrupt of the terminal reaches them too; when we are killed they
 * end at their next line, which nobody reads. Their errors go to standard error by themselves.
 *
 * Threads: one.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/map.h"
#include "base/time/clock.h"
#include "cli/past/past.h"

#define LINE_MAX_BYTES (64 * KIB)
#define LOOK_MS        500

extern char **environ;

struct follower {
	const char *task;
	pid_t pid;
	int fd; /* what it prints; -1 after its end */
	struct str line;
};

static void print_line(struct cli *cli, struct follower *f, size_t n)
{
	struct cli_log log = { 0 };

	cli_printf(cli, "%s%s |%s ", cli_style(cli, STYLE_DIM), cli_text(cli, f->task),
		   cli_style(cli, STYLE_PLAIN));
	cli_print_log(cli, &log, f->line.s, n);
	cli_end_log(cli, &log);
	cli_printf(cli, "\n");
}

static void print_lines(struct cli *cli, struct follower *f, bool at_end)
{
	bool printed = false;
	const char *nl;

	while (f->line.len && (nl = memchr(f->line.s, '\n', f->line.len))) {
		size_t n = (size_t)(nl - f->line.s);

		print_line(cli, f, n);
		memmove(f->line.s, nl + 1, f->line.len - n - 1);
		f->line.len -= n + 1;
		printed = true;
	}
	if (f->line.len && (at_end || f->line.len >= LINE_MAX_BYTES)) {
		print_line(cli, f, f->line.len);
		str_reset(&f->line);
	}
	if (printed || at_end)
		fflush(cli->out);
}

/* Its command line: ours, with the run and the task for all that we were given as operands. */
static char **command_of(struct cli *cli, const struct cli_args *args, const char *run,
			 const char *task)
{
	char **argv = arena_alloc(cli->arena, (args->n_given + 6) * sizeof(*argv));
	size_t n = 0;

	argv[n++] = (char *)cli_program(cli);
	argv[n++] = (char *)"logs";
	for (size_t i = 0; i < args->n_given; i++) {
		const struct cli_option *o = args->given[i].option;

		if (str_eq(o->name, "directory") || str_eq(o->name, "run"))
			continue; /* we are there already */
		argv[n++] =
			o->arg ? arena_printf(cli->arena, "--%s=%s", o->name, args->given[i].value)
			       : arena_printf(cli->arena, "--%s", o->name);
	}
	argv[n++] = arena_printf(cli->arena, "--run=%s", run);
	argv[n++] = (char *)task;
	argv[n] = NULL;
	return argv;
}

static int start(struct cli *cli, char **argv, struct follower *f, struct err *err)
{
	posix_spawn_file_actions_t a;
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	fflush(cli->out);
	posix_spawn_file_actions_init(&a);
	posix_spawn_file_actions_adddup2(&a, ends[1], STDOUT_FILENO);
	r = posix_spawn(&f->pid, argv[0], &a, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&a);
	close(ends[1]);
	f->fd = ends[0];
	if (r == 0)
		return 0;
	fd_closep(&f->fd);
	f->pid = 0;
	errno = r;
	return err_errno(err, "cannot start %s", argv[0]);
}

static void read_some(struct cli *cli, struct follower *f)
{
	char buf[16384];
	ssize_t n = read(f->fd, buf, sizeof(buf));

	if (n < 0 && errno == EINTR)
		return;
	if (n > 0)
		str_addn(&f->line, buf, (size_t)n);
	print_lines(cli, f, n <= 0);
	if (n <= 0)
		fd_closep(&f->fd);
}

struct following {
	struct cli *cli;
	const struct cli_args *args;
	const char *run;
	const struct logs_later *later;
	struct map *seen; /* attempts, by task and number */
	VEC(struct follower) v;
};

static bool seen_before(struct following *f, const struct logged *l)
{
	_cleanup_(freep) char *key = xasprintf("%llu %s", (unsigned long long)l->attempt, l->task);
	bool is_new;

	map_slot(f->seen, key, strlen(key), &is_new);
	return !is_new;
}

static int follow(struct following *f, const struct logged *l, struct err *err)
{
	struct follower one = { .task = arena_strdup(f->cli->arena, l->task), .fd = -1 };

	if (start(f->cli, command_of(f->cli, f->args, f->run, one.task), &one, err) < 0)
		return -1;
	VEC_PUSH(&f->v, one);
	return 0;
}

/* 1: more may come; 0: none will. */
static int look(struct following *f, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	logged_list now = { 0 };
	int more = f->later ? f->later->look(f->later->arg, arena, &now, err) : 0;

	for (size_t i = 0; i < now.n && more >= 0; i++)
		if (!seen_before(f, &now.v[i]) && follow(f, &now.v[i], err) < 0)
			more = -1;
	VEC_FREE(&now);
	return more;
}

/* Waits for what the followers print, and reads it. Returns how many go on. */
static size_t read_round(struct following *f)
{
	_cleanup_(freep) struct pollfd *p = xcalloc(f->v.n + 1, sizeof(*p));
	size_t n = f->v.n, open = 0;

	for (size_t i = 0; i < n; i++) {
		p[i] = (struct pollfd){ .fd = f->v.v[i].fd, .events = POLLIN };
		open += f->v.v[i].fd >= 0;
	}
	if ((open || f->later) && poll(p, n, f->later ? LOOK_MS : -1) > 0)
		for (size_t i = 0; i < n; i++)
			if (f->v.v[i].fd >= 0 && p[i].revents)
				read_some(f->cli, &f->v.v[i]);
	return open;
}

static int read_all(struct following *f, struct err *err)
{
	int64_t last = clock_mono_ns();
	int more = f->later != NULL;
	size_t open;

	do {
		int64_t now;

		open = read_round(f);
		now = clock_mono_ns();
		if (more <= 0 || now - last < LOOK_MS * NS_PER_MS)
			continue;
		last = now;
		more = look(f, err);
		open += more >= 0; /* the last look may have begun one */
	} while ((open || more > 0) && !ferror(f->cli->out));
	return MIN(more, 0);
}

int logs_follow(struct cli *cli, const struct cli_args *args, const char *run,
		const logged_list *all, const struct logs_later *later)
{
	_cleanup_(map_freep) struct map *seen = map_new();
	struct following f = { .cli = cli, .args = args, .run = run, .later = later, .seen = seen };
	struct err err = { 0 };
	int code = CLI_OK, r = 0;

	assert(run);
	for (size_t i = 0; i < all->n && r == 0; i++) {
		seen_before(&f, &all->v[i]);
		if (all->v[i].running)
			r = follow(&f, &all->v[i], &err);
	}
	if (r < 0)
		f.later = NULL;
	if (read_all(&f, &err) < 0 || r < 0)
		code = cli_fail(cli, &err);
	for (size_t i = 0; i < f.v.n; i++) {
		struct follower *one = &f.v.v[i];
		int status = 0;

		fd_closep(&one->fd);
		while (waitpid(one->pid, &status, 0) < 0 && errno == EINTR)
			;
		if (code == CLI_OK && status)
			code = WIFEXITED(status) ? WEXITSTATUS(status) : CLI_INTERRUPTED;
		str_deinit(&one->line);
	}
	VEC_FREE(&f.v);
	return code;
}

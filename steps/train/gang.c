/* steps/train/gang.c — starts the members, passes on their output, and ends them all when one
 * fails.
 *
 * A gang succeeds or fails as a whole. It has succeeded when every worker ended with 0; servers and
 * the scheduler are then stopped. It has failed with the first member that didn't end with 0, or
 * when we were stopped, even if all members then end with 0: what they saved is a checkpoint, not a
 * result. verdict() decides which.
 *
 * A member is a process group with a pipe (start_member()). It ends in two steps. `exited`: its
 * process is gone. `ended`: the processes that it started are gone too, and its last output is read
 * (finish_member()). Between the two, while the gang stops, a program behind a shell may still
 * save: the end of its output ends the member. n_running counts members that haven't ended.
 *
 * Other ranks lose their peer when one fails, and fail, too. Whoever failed in the second after the
 * first failure and spoke its last words earliest is the cause (blame()); after it the gang is
 * stopped.
 *
 * Only the first call of stop() has an effect (`stopping`): it sends SIGTERM to all, and SIGKILL
 * when the grace is over or a second signal comes (kill_now()). mpirun gets no SIGTERM, its ranks
 * do (signal_mpi_ranks()).
 *
 * The loop's one thread does everything: output, exits, signals, timers. A turn reads a bounded
 * amount of each pipe, lines are at most LINE_MAX_BYTES, and only the last TAIL_LINES of a member
 * are kept for the error message.
 *
 * An elastic gang has one member with a process, torchrun, whose ranks may be other processes every
 * minute. Each of its ranks is a member with a pipe that stays open (elastic.c).
 *
 * environment.c makes the ranks' environment. peers.c talks to the other nodes' launchers; it calls
 * gang_all_over() and gang_run_daemon() from the same loop.
 */
#include "steps/train/gang.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/time/clock.h"

#define READ_BYTES (64 * KIB)
/* After a rank's failure the others hang in a collective that can't end: there is nothing to
 * save. */
#define FAILURE_GRACE_NS (2 * NS_PER_S)
/* A rank that loses its peer often exits before that one, which still tears its framework down. */
#define CAUSE_NS (1 * NS_PER_S)
/* The most that one rank may have in its pipe when it ends. A descendant that escaped and goes on
 * writing isn't waited for. */
#define DRAIN_MAX_BYTES (1 * MIB)
/* A larger gang is signalled by process groups: searching all processes of the machine once for
 * each member would take too long. */
#define TREES_MAX 32

static int64_t now_ns(const struct gang *g)
{
	struct clock *c = loop_clock(g->loop);

	return c->mono_ns(c);
}

/* Names. */

static void add_name(struct str *s, const struct member *m)
{
	static const char *const names[] = {
		[ROLE_WORKER] = "rank",
		[ROLE_SERVER] = "server",
		[ROLE_SCHEDULER] = "scheduler",
		[ROLE_RANK] = "rank",
	};

	if (m->daemon)
		str_addf(s, "mpirun's daemon on node %u", m->gang->where.here);
	else if (gang_is_mpi(m->gang))
		str_add(s, m->gang->end.mpi_guilty >= 0 ? "rank " : "mpirun");
	else if (gang_is_elastic(m->gang) && m->role == ROLE_WORKER)
		str_add(s, "torchrun");
	else if (m->gang->settings.starts_nodes)
		str_addf(s, "node %u", m->index);
	else if (m->role == ROLE_SCHEDULER)
		str_add(s, names[m->role]);
	else
		str_addf(s, "%s %u", names[m->role], m->index);
	if (!m->daemon && gang_is_mpi(m->gang) && m->gang->end.mpi_guilty >= 0)
		str_addf(s, "%d", m->gang->end.mpi_guilty);
}

/* Output of members. */

/* `rank`: the rank that printed it, or -1: no rank (a server, mpirun itself). */
static void print_line(struct member *m, int rank, const char *line, size_t n)
{
	struct gang *g = m->gang;
	char **slot = &m->tail[m->n_lines++ % TAIL_LINES];
	size_t at = g->out.len;

	if (rank == 0 && g->settings.metric_lines)
		series_line(g->series, line, n);
	if (gang_is_mpi(g) && rank >= 0) {
		str_addf(&g->out, "[rank %d] ", rank);
	} else if (!gang_is_mpi(g) && (g->members.n > 1 || g->where.apart)) {
		str_addc(&g->out, '[');
		add_name(&g->out, m);
		str_add(&g->out, "] ");
	}
	if (!gang_is_mpi(g)) /* mpirun's lines come from several ranks */
		at = g->out.len;
	str_addn(&g->out, line, n);
	free(*slot);
	*slot = xstrndup(g->out.s + at, MIN(g->out.len - at, TAIL_LINE_BYTES));
	str_addc(&g->out, '\n');
}

static void print_mpi_line(void *arg, int rank, const char *line, size_t n)
{
	struct member *m = arg;
	struct gang *g = m->gang;

	if (rank < 0 && g->end.mpi_guilty < 0) { /* the line may name the first rank that failed */
		_cleanup_(freep) char *text = xstrndup(line, MIN(n, 200));
		const char *at = strstr(text, "process rank ");
		int guilty;

		if ((at && sscanf(at, "process rank %d ", &guilty) == 1) ||
		    sscanf(text, " Process name: [[%*d,%*d],%d]", &guilty) == 1)
			g->end.mpi_guilty = guilty;
	}
	print_line(m, rank, line, n);
}

static void print_own_line(struct member *m)
{
	const char *line = m->line.len ? m->line.s : "";
	size_t n = m->line.len;
	unsigned rank = m->index;

	if (m->role == ROLE_RANK) {
		if (elastic_read_line(line, &n, &rank))
			print_line(m, (int)m->index, line, n);
		m->index = rank;
	} else {
		print_line(m,
			   m->role == ROLE_WORKER && !gang_is_elastic(m->gang) ? (int)m->index : -1,
			   line, n);
	}
	str_reset(&m->line);
}

static void flush(struct gang *g)
{
	if (g->out.len) /* a full disk for the log doesn't end a training */
		(void)fs_write_all(STDOUT_FILENO, g->out.s, g->out.len, NULL);
	str_reset(&g->out);
}

static void take_bytes(struct member *m, const char *buf, size_t n)
{
	if (m->mpi)
		mpi_output_add(m->mpi, buf, n);
	while (n && !m->mpi) {
		const char *nl = memchr(buf, '\n', n);
		size_t len = nl ? (size_t)(nl - buf)
				: MIN(n, LINE_MAX_BYTES - MIN(m->line.len, LINE_MAX_BYTES));

		str_addn(&m->line, buf, len);
		buf += len + (nl != NULL);
		n -= len + (nl != NULL);
		if (nl || m->line.len >= LINE_MAX_BYTES)
			print_own_line(m);
	}
}

static void finish_member(struct member *m);

static void close_output(struct member *m)
{
	if (m->line.len)
		print_own_line(m);
	if (m->mpi)
		mpi_output_end(m->mpi);
	loop_remove(m->gang->loop, m->source);
	m->source = NULL;
	fd_closep(&m->fd);
	if (m->exited) /* programs behind the shell that were saving have ended, too */
		finish_member(m);
}

static void drain(struct member *m, size_t at_most)
{
	char buf[READ_BYTES];
	size_t sum = 0;
	ssize_t n = 0;

	while (m->fd >= 0 && sum < at_most) {
		n = read(m->fd, buf, sizeof(buf));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		sum += (size_t)n;
		take_bytes(m, buf, (size_t)n);
		flush(m->gang);
	}
	if (sum)
		m->said_ns = m->gang->last_output_ns = now_ns(m->gang);
	if (m->fd >= 0 && (n == 0 || (n < 0 && errno != EAGAIN)))
		close_output(m);
	flush(m->gang);
}

static void on_output(void *arg, int fd, uint32_t events)
{
	drain(arg, 4 * (size_t)READ_BYTES); /* bounded work a turn */
}

/* Stopping. */

/* mpirun gets no SIGTERM. A second later it would pass it on to ranks that are already saving, and
 * kill them a second after that. */
static void signal_mpi_ranks(struct gang *g, int signo)
{
	_cleanup_(freep) char *marker = mpi_marker(g);

	if (process_signal_marked(marker, signo) == 0)
		process_signal_tree(g->members.v[0].process, signo); /* no rank has begun yet */
}

static void signal_all(struct gang *g, int signo)
{
	for (unsigned i = 0; i < g->members.n; i++) {
		struct member *m = &g->members.v[i];

		if (!m->process || m->ended || (m->exited && signo != SIGKILL))
			continue;
		if (gang_is_mpi(g) && signo != SIGKILL)
			signal_mpi_ranks(g, signo);
		else if (gang_is_elastic(g) && signo != SIGKILL)
			process_signal(m->process, signo); /* torchrun passes it on, once */
		else if (g->members.n > TREES_MAX && !m->exited)
			/* Each leads a group; processes that escaped from the group are ended with
			 * the member. */
			process_signal_group(m->process, signo);
		else
			process_signal_tree(m->process, signo);
	}
}

static void kill_now(struct gang *g)
{
	g->end.killed = true;
	signal_all(g, SIGKILL);
	for (unsigned i = 0; i < g->members.n; i++)
		if (g->members.v[i].exited)
			finish_member(&g->members.v[i]);
}

static void kill_all(void *arg)
{
	struct gang *g = arg;

	g->timers.kill = NULL;
	kill_now(g);
}

static void stop(struct gang *g, int64_t grace_ns)
{
	if (g->members.n_running == 0) /* no member to wait for: mpirun may not have called yet */
		g->end.done = true;
	if (g->end.stopping || g->members.n_running == 0)
		return;
	g->end.stopping = true;
	signal_all(g, SIGTERM);
	g->timers.kill = loop_add_timer(g->loop, now_ns(g) + grace_ns, kill_all, g);
}

static void on_signal(void *arg, int signo)
{
	struct gang *g = arg;

	if (g->end.signal) { /* a second signal kills at once */
		kill_now(g);
		return;
	}
	g->end.signal = signo;
	stop(g, g->settings.grace_ns);
}

static void look_for_stall(void *arg)
{
	struct gang *g = arg;
	int64_t due = g->last_output_ns + g->settings.stall_ns;

	g->timers.stall = NULL;
	if (g->end.stopping)
		return;
	if (peers_pending(g)) /* our workers are done; wait for those of other nodes */
		due = now_ns(g) + g->settings.stall_ns;
	if (now_ns(g) < due) {
		g->timers.stall = loop_add_timer(g->loop, due, look_for_stall, g);
		return;
	}
	g->end.stalled = true;
	stop(g, g->settings.grace_ns);
}

/* Other nodes' launchers. */

void gang_all_over(struct gang *g)
{
	stop(g, g->settings.grace_ns);
}

/* Ends. */

static void end_leftovers(struct member *m)
{
	if (m->process && process_left_orphans(m->process))
		process_kill_leftovers(m->process);
}

static void stop_after_cause(void *arg)
{
	struct gang *g = arg;

	g->timers.cause = NULL;
	stop(g, FAILURE_GRACE_NS);
}

/* A member has failed while nobody was stopped. */
static void blame(struct member *m)
{
	struct gang *g = m->gang;
	const struct member *first = g->end.guilty;

	/* Nothing that a killed rank's peers say is earlier than its death. */
	if (!first || (!first->signo && m->said_ns && m->said_ns < first->said_ns))
		g->end.guilty = m;
	if (g->members.n_workers_left == 0 || m->signo || gang_is_mpi(g))
		stop(g, FAILURE_GRACE_NS);
	else if (!first)
		g->timers.cause =
			loop_add_timer(g->loop, now_ns(g) + CAUSE_NS, stop_after_cause, g);
}

static void finish_member(struct member *m)
{
	struct gang *g = m->gang;
	/* The exit status of mpirun's daemon means nothing: mpirun reports failures, on the first
	 * node. */
	bool failed = m->status != 0 && (!m->daemon || m->signo);

	if (m->ended)
		return;
	m->ended = true;
	/* Other programs may still save behind a shell that has exited; they can't be told from
	 * what this one left. */
	if (!g->end.stopping || g->end.killed)
		end_leftovers(m);
	/* Ranks of torchrun ended with it. */
	for (unsigned i = 0; gang_is_elastic(g) && i < g->members.n; i++)
		if (g->members.v[i].role == ROLE_RANK) {
			drain(&g->members.v[i], DRAIN_MAX_BYTES);
			if (g->members.v[i].fd >= 0)
				close_output(&g->members.v[i]);
		}
	drain(m, DRAIN_MAX_BYTES);
	if (m->fd >= 0)
		close_output(m);
	flush(g);
	g->members.n_running--;
	g->members.n_workers_left -= m->role == ROLE_WORKER;
	if (failed && !g->end.stopping) {
		blame(m);
	} else if (g->members.n_workers_left == 0 && m->role == ROLE_WORKER && g->end.guilty) {
		stop(g, FAILURE_GRACE_NS);
	} else if (g->members.n_workers_left == 0 && m->role == ROLE_WORKER && !g->end.stopping &&
		   !peers_workers_done(g)) {
		stop(g, g->settings.grace_ns); /* servers and scheduler never end by themselves */
	}
	if (g->members.n_running == 0 && (g->end.stopping || !peers_pending(g)))
		g->end.done = true;
}

/* SIGTERM ends a shell at once, even if the program that it started still has to save. So the
 * member ends with its output. */
static void on_exit_status(void *arg, const struct process_exit *ex)
{
	struct member *m = arg;
	struct gang *g = m->gang;

	m->status = ex->signo ? 128 + ex->signo : ex->status;
	m->signo = ex->signo;
	m->exited = true;
	if (!g->end.stopping || g->end.killed || m->fd < 0 || !process_left_orphans(m->process))
		finish_member(m);
}

/* Starting. */

static int start_process(struct member *m, int write_fd, struct err *err)
{
	struct gang *g = m->gang;
	char **env = gang_environment(g, m);
	_cleanup_(freep) char *marker =
		xasprintf("CAIRN_GANG=%d.%u", (int)getpid(), (unsigned)(m - g->members.v));
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct process_spec spec = { .argv = gang_command(g, m, arena),
				     .env = (const char *const *)env,
				     .stdin_fd = -1,
				     .stdout_fd = write_fd,
				     .stderr_fd = write_fd,
				     .marker = marker };
	struct cpus before, mine;
	bool pinned = gang_cpus(g, m, &mine) && cpus_get(&before) == 0;
	int r;

	if (pinned) /* children inherit our cpus at that moment */
		cpus_use(&mine);
	r = process_start(g->loop, &spec, on_exit_status, m, &m->process, err);
	if (pinned)
		cpus_use(&before);
	gang_environment_free(env);
	return r;
}

static int start_member(struct member *m, struct err *err)
{
	struct gang *g = m->gang;
	int fds[2], r;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	m->fd = fds[0];
	if (gang_is_mpi(g))
		m->mpi = mpi_output_new(g->size.nodes * g->size.procs_per_node, print_mpi_line, m);
	r = loop_add_fd(g->loop, m->fd, EPOLLIN, on_output, m, &m->source, err);
	if (m->role == ROLE_RANK) {
		m->write_fd = fds[1];
		return r;
	}
	if (r == 0)
		r = start_process(m, fds[1], err);
	close(fds[1]);
	if (r == 0) {
		g->members.n_running++;
		g->members.n_workers_left += m->role == ROLE_WORKER;
	}
	return r;
}

int gang_run_daemon(struct gang *g, const char *command, struct err *err)
{
	struct member *m = &g->members.v[0];

	if (g->members.n)
		return err_set(err, ERR_EXISTS, "this node has its daemon already");
	if (g->end.signal)
		return err_set(err, ERR_CANCELLED, "this node was asked to stop");
	*m = (struct member){ .gang = g,
			      .fd = -1,
			      .write_fd = -1,
			      .role = ROLE_WORKER,
			      .index = g->where.here,
			      .daemon = xstrdup(command) };
	g->members.n = 1;
	return start_member(m, err);
}

/* Options differ between MPI implementations: the launcher knows those of Open MPI and of its
 * derivatives. If mpirun is missing, starting it gives the error. */
static int check_mpirun(struct err *err)
{
	static const char *const known[] = { "Open MPI", "OpenRTE", "Spectrum MPI" };
	char *argv[] = { "mpirun", "--version", NULL };
	_cleanup_(str_deinit) struct str said = { 0 };
	char buf[4096], *end;
	posix_spawn_file_actions_t actions;
	int fds[2], r;
	ssize_t n;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, "no pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 2);
	r = posix_spawnp(&pid, "mpirun", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	while (r == 0 && (n = read(fds[0], buf, sizeof(buf))) != 0)
		if (n > 0 && said.len < sizeof(buf))
			str_addn(&said, buf, (size_t)n);
		else if (n < 0 && errno != EINTR)
			break;
	close(fds[0]);
	if (r != 0)
		return 0;
	waitpid(pid, NULL, 0);
	str_add(&said, "");
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strstr(said.s, known[i]))
			return 0;
	end = strpbrk(said.s, "\r\n");
	return err_set(
		err, ERR_INVALID,
		"the mpirun on PATH is not Open MPI's, whose options are used here (it says: %.*s);"
		" put Open MPI's first on PATH (Debian: openmpi-bin), or call the other one in"
		" a step of its own with `run:`",
		(int)MIN(end ? end - said.s : (ptrdiff_t)said.len, (ptrdiff_t)80), said.s);
}

static int start_all(struct gang *g, struct err *err)
{
	static const int signals[] = { SIGTERM, SIGINT };

	for (size_t i = 0; i < ARRAY_LEN(signals); i++)
		if (loop_add_signal(g->loop, signals[i], on_signal, g, &g->signals[i], err) < 0)
			return -1;
	if ((gang_is_mpi(g) && check_mpirun(err) < 0) || peers_begin(g, err) < 0)
		return -1;
	for (unsigned i = 0; i < g->members.n; i++)
		if (start_member(&g->members.v[i], err) < 0)
			return gang_is_mpi(g) && err->code == ERR_NOT_FOUND
				       ? err_set(err, ERR_NOT_FOUND,
						 "mpirun is not on PATH: the framework %s needs "
						 "Open MPI (Debian: openmpi-bin)",
						 g->framework == MPI ? "mpi" : "horovod")
			       : gang_is_elastic(g) && err->code == ERR_NOT_FOUND
				       ? err_set(err, ERR_NOT_FOUND,
						 "torchrun is not on PATH: `nodes: {min, max}` "
						 "needs PyTorch's")
				       : -1;
	g->last_output_ns = now_ns(g);
	/* Usually only rank 0 prints: another node's launcher would see a stalled gang where all is
	 * well. */
	if (g->settings.stall_ns && g->where.here == 0)
		g->timers.stall = loop_add_timer(g->loop, g->last_output_ns + g->settings.stall_ns,
						 look_for_stall, g);
	return 0;
}

/* The verdict. */

/* Prints the last lines of the member that failed, at the very end of the log, from which the error
 * message is taken. */
static void show_tail(const struct member *m)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	unsigned n = MIN(m->n_lines, TAIL_LINES);

	if (n == 0 || m->gang->members.n == 1)
		return;
	str_addf(&s, "--- last lines of ");
	add_name(&s, m);
	str_add(&s, " ---\n");
	for (unsigned i = 0; i < n; i++)
		str_addf(&s, "%s\n", m->tail[(m->n_lines - n + i) % TAIL_LINES]);
	(void)fs_write_all(STDOUT_FILENO, s.s, s.len, NULL);
}

static int verdict(struct gang *g, struct err *err)
{
	const struct member *m = g->end.guilty;
	_cleanup_(str_deinit) struct str s = { 0 };

	if (g->end.signal)
		return err_set(err, ERR_CANCELLED, "stopped by SIG%s", sigabbrev_np(g->end.signal));
	if (g->end.stalled) {
		text_add_duration(&s, g->settings.stall_ns);
		return err_set(err, ERR_FAILED,
			       "no rank printed anything for %s (stall_timeout): stopped", s.s);
	}
	if (g->end.forsaken)
		return err_set(err, ERR_FAILED,
			       "the launcher of the first node ended without a message");
	if (!m)
		return 0;
	show_tail(m);
	add_name(&s, m);
	if (m->signo)
		str_addf(&s, " was killed by SIG%s",
			 sigabbrev_np(m->signo) ? sigabbrev_np(m->signo) : "?");
	else
		str_addf(&s, " ended with exit status %d", m->status);
	return err_set(err, ERR_FAILED, "%s%s", s.s,
		       gang_is_elastic(g)                   ? ""
		       : g->members.n > 1 || g->where.apart ? "; the others were stopped"
							    : "");
}

int gang_run(struct gang *g, struct err *err)
{
	int r;

	assert(g->members.v && !g->loop);
	if (loop_new(clock_system(), &g->loop, err) < 0 || process_become_subreaper(err) < 0)
		return -1;
	r = start_all(g, err);
	if (r < 0)
		signal_all(g, SIGKILL);
	while (r == 0 && !g->end.done)
		r = loop_turn(g->loop, -1, err) < 0 ? -1 : 0;
	for (unsigned i = 0; i < g->members.n && g->end.stopping; i++)
		end_leftovers(&g->members.v[i]);
	if (r == 0)
		r = verdict(g, err);
	for (unsigned i = 0; i < g->members.n; i++) {
		struct member *m = &g->members.v[i];

		loop_remove(g->loop, m->source);
		fd_closep(&m->fd);
		fd_closep(&m->write_fd);
		process_free(m->process);
		str_deinit(&m->line);
		mpi_output_free(m->mpi);
		free(m->daemon);
		m->process = NULL;
		for (unsigned k = 0; k < TAIL_LINES; k++)
			free(m->tail[k]);
	}
	peers_free(g);
	str_deinit(&g->out);
	loop_free(g->loop);
	return r;
}

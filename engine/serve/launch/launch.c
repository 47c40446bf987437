/* engine/serve/launch/launch.c — runs as processes: their files, start and end, and facts about
 * them.
 *
 * A launch has a name of its own and two files, which are made before its process: NAME.log
 * (stderr) and NAME.json (stdout). It is in `running` from its start to its exit, then in `ended`,
 * which keeps the newest LAUNCH_KEPT. A process holds a lock on both files while it runs. When the
 * process exits, read_facts() takes the run's id and state from NAME.json; when there are none, the
 * last error of the log becomes the problem.
 *
 * Invariants: on_end is called once, after the launch's fields are complete and before it moves to
 * `ended`. The child doesn't get the daemon's token, and has a CAIRN_DIR of its own
 * (start_process()). Once `closed` is set under the lock, no process that starts at that moment
 * stays running.
 *
 * Threads: the loop's owns everything. `lock` protects both lists and the fields of launches
 * against the functions that launch.h allows from any thread. Not here: deciding what to start
 * (schedules.c, served.c, api/actions.c), following runs that a former server started.
 */
#include "serve/launch/launch.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/os/process/command.h"
#include "base/os/process/process.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "record/facts.h"
#include "serve/event.h"

#define LOG_LOOK_NS (30 * NS_PER_S)
#define FACTS_MAX   (4 * MIB)
#define PROBLEM_MAX 500

struct launch {
	struct launches *owner;
	struct project *project;
	struct process *process;
	char *name, *run, *state, *problem;
	pid_t pid;
	int64_t started_ns, ended_ns;
	int exit, signo, log_fd;
	unsigned stops;
	launch_end_fn on_end;
	void *arg;
};

struct launches {
	struct loop *loop;
	struct loop_source *look; /* timer: checks the size of logs */
	char *program;
	pthread_mutex_t lock;         /* protects the fields below, for launches_find() */
	VEC(struct launch *) running; /* in the order of their start */
	VEC(struct launch *) ended;   /* newest last, at most LAUNCH_KEPT */
	bool closed;                  /* nothing more is started */
	bool leashed;                 /* runs die with this process; not under lock */
};

static void launch_free(struct launch *l)
{
	process_free(l->process);
	fd_closep(&l->log_fd);
	free(l->name);
	free(l->run);
	free(l->state);
	free(l->problem);
	free(l);
}

/* Files. */

static char *path_of(const struct project *p, const char *name, const char *ending)
{
	return xasprintf("%s/serve/%s%s", p->config->state_dir, name, ending);
}

/* "nightly-20260301T030000-k3v9x": sorts by time for each `what`. */
static char *new_name(const char *what, int64_t wall_ns)
{
	_cleanup_(str_deinit) struct str name = { 0 }, time = { 0 };
	char letters[RANDOM_LETTERS + 1];

	for (const char *c = what; *c && name.len < 60; c++)
		str_addc(&name, (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9') ||
						(*c >= 'A' && *c <= 'Z') || *c == '_'
					? *c
					: '-');
	text_add_time(&time, wall_ns, 0);
	str_addc(&name, '-');
	for (const char *c = time.s; *c && *c != 'Z'; c++)
		if (*c != '-' && *c != ':')
			str_addc(&name, *c);
	str_addc(&name, '-');
	random_letters(letters);
	str_add(&name, letters);
	return str_take(&name);
}

/* A process holds locks on its files while they are open, whichever server started it. */
static bool in_use(int dir_fd, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK;
}

static bool is_forgettable(int dir_fd, const char *name, const struct stat *st)
{
	return (str_has_suffix(name, ".log") || str_has_suffix(name, ".json")) &&
	       S_ISREG(st->st_mode) && !in_use(dir_fd, name);
}

/* Each launch has two files. Those of a running process stay, however old they are. */
static void forget_old(const struct project *p)
{
	_cleanup_(freep) char *dir = xasprintf("%s/serve", p->config->state_dir);

	fs_keep_newest(dir, 2 * LAUNCH_KEPT, is_forgettable);
}

static int open_files(const struct project *p, const char *name, int *ret_log, int *ret_facts,
		      struct err *err)
{
	_cleanup_(freep) char *dir = path_of(p, "", ""), *log = path_of(p, name, ".log"),
			      *facts = path_of(p, name, ".json");
	_cleanup_(fd_closep) int log_fd = -1;

	if (fs_mkdir_p(dir, err) < 0)
		return -1;
	log_fd = open(log, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd < 0)
		return err_errno(err, "cannot make %s", log);
	*ret_facts = open(facts, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
	if (*ret_facts < 0)
		return err_errno(err, "cannot make %s", facts);
	/* The files are new, so this can't block. On a file system without locks, none is
	 * in use. */
	flock(log_fd, LOCK_SH);
	flock(*ret_facts, LOCK_SH);
	*ret_log = TAKE_FD(log_fd);
	return 0;
}

/* A log holds errors only. One this large belongs to a run that never stops printing them. */
static void look_at_logs(void *arg)
{
	static const char cut[] = "cairn serve: the log grew too long and was emptied here\n";
	struct launches *v = arg;
	struct clock *c = loop_clock(v->loop);
	struct stat st;

	for (size_t i = 0; i < v->running.n; i++) {
		struct launch *l = v->running.v[i];

		if (fstat(l->log_fd, &st) == 0 && st.st_size > (off_t)LAUNCH_LOG_MAX &&
		    ftruncate(l->log_fd, 0) == 0)
			fs_write_all(l->log_fd, cut, sizeof(cut) - 1, NULL);
	}
	v->look = loop_add_timer(v->loop, c->mono_ns(c) + LOG_LOOK_NS, look_at_logs, v);
}

/* The end. */

/* The last error of the document that a command with --json leaves there (cairn.error/1); NULL:
 * there is none. */
static char *last_error(const char *text, size_t len)
{
	_cleanup_(json_decrefp) json_t *j = NULL;
	_cleanup_(str_deinit) struct str shown = { 0 };
	const char *message;
	json_t *errors;
	size_t n;

	if (json_parse("log", text, len, &j, NULL) < 0)
		return NULL;
	errors = json_object_get(j, "errors");
	n = json_array_size(errors);
	if (n == 0 || json_get_str(json_array_get(errors, n - 1), "message", &message, NULL) < 0 ||
	    !*message)
		return NULL;
	text_add_printable(&shown, message, MIN(strcspn(message, "\n"), (size_t)PROBLEM_MAX));
	return str_take(&shown);
}

/* What the log ends with: its last error, or its last line that isn't empty. */
static char *last_words(const struct project *p, const char *name)
{
	_cleanup_(freep) char *path = path_of(p, name, ".log");
	_cleanup_(str_deinit) struct str text = { 0 }, shown = { 0 };
	size_t end, start;
	char *error;

	if (fs_read_file(path, LAUNCH_LOG_MAX + FACTS_MAX, &text, NULL) < 0)
		return NULL;
	for (end = text.len; end && (text.s[end - 1] == '\n' || text.s[end - 1] == ' ');)
		end--;
	for (start = end; start && text.s[start - 1] != '\n';)
		start--;
	if (start == end)
		return NULL;
	error = last_error(text.s + start, end - start);
	if (error)
		return error;
	start = MAX(start, end - MIN(end, (size_t)PROBLEM_MAX));
	text_add_printable(&shown, text.s + start, end - start);
	return str_take(&shown);
}

static void read_facts(struct launch *l)
{
	_cleanup_(freep) char *path = path_of(l->project, l->name, ".json");
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(json_decrefp) json_t *j = NULL;
	const char *id, *state;
	const json_t *run;

	if (fs_read_file(path, FACTS_MAX, &text, NULL) == 0 && text.len &&
	    json_parse(path, text.s, text.len, &j, NULL) == 0 &&
	    /* A reproduction tells of two runs: `is` is the new one. */
	    (run = json_object_get(j, "is") ? json_object_get(j, "is") : j) &&
	    json_get_str(run, "id", &id, NULL) == 0 &&
	    json_get_str(run, "state", &state, NULL) == 0) {
		l->run = xstrdup(id);
		l->state = xstrdup(state);
	} else if (!l->signo) {
		l->problem = last_words(l->project, l->name);
	} else { /* a killed process couldn't report it itself */
		_cleanup_(freep) char *said = last_words(l->project, l->name);
		const char *signal = sigabbrev_np(l->signo);

		l->problem = xasprintf("its process was killed by SIG%s%s%s", signal ? signal : "?",
				       said ? "; its last output: " : "", said ? said : "");
	}
}

static void move_to_ended(struct launch *l)
{
	struct launches *v = l->owner;
	struct launch *oldest = NULL;
	size_t kept = 0;

	pthread_mutex_lock(&v->lock);
	for (size_t i = 0; i < v->running.n; i++)
		if (v->running.v[i] != l)
			v->running.v[kept++] = v->running.v[i];
	v->running.n = kept;
	VEC_PUSH(&v->ended, l);
	if (v->ended.n > LAUNCH_KEPT) {
		oldest = v->ended.v[0];
		memmove(v->ended.v, v->ended.v + 1, --v->ended.n * sizeof(*v->ended.v));
	}
	pthread_mutex_unlock(&v->lock);
	if (oldest)
		launch_free(oldest);
}

static void on_exit_of(void *arg, const struct process_exit *ex)
{
	struct launch *l = arg;
	struct clock *c = loop_clock(l->owner->loop);
	struct launch_end end;

	process_free(l->process);
	fd_closep(&l->log_fd);
	pthread_mutex_lock(&l->owner->lock);
	l->process = NULL;
	l->log_fd = -1;
	l->exit = ex->status;
	l->signo = ex->signo;
	read_facts(l);
	l->ended_ns = c->wall_ns(c);
	pthread_mutex_unlock(&l->owner->lock);
	event(ex->status == 0 ? EVENT_INFO : EVENT_WARNING, "run-ended",
	      "{s:s, s:s, s:s*, s:s*, s:i, s:s*}", "project", l->project->name, "launch", l->name,
	      "run", l->run, "state", l->state, "exit", ex->signo ? 128 + ex->signo : ex->status,
	      "problem", l->problem);
	end = (struct launch_end){ l->name, ex->status, ex->signo, l->run, l->state, l->problem };
	if (l->on_end)
		l->on_end(l->arg, &end);
	forget_old(l->project);
	move_to_ended(l);
}

/* Starting. */

/* The child gets our environment, without the daemon's own settings. */
static int start_process(struct launch *l, const char *const *args, int facts_fd, struct err *err)
{
	_cleanup_(freep) char *dir = NULL;
	VEC(const char *) argv = { 0 }, env = { 0 };
	struct process_spec spec = { .cwd = l->project->root,
				     .stdin_fd = -1,
				     .stdout_fd = facts_fd,
				     .stderr_fd = l->log_fd,
				     .outlives = !l->owner->leashed };
	int r;

	for (char **e = environ; *e; e++)
		if (!str_has_prefix(*e, "CAIRN_SERVE_TOKEN=") &&
		    !str_has_prefix(*e, "CAIRN_DIR=") && !str_has_prefix(*e, "CAIRN_SERVED="))
			VEC_PUSH(&env, *e);
	if (getenv("CAIRN_DIR")) { /* may be relative to our directory; the run has another one */
		dir = xasprintf("CAIRN_DIR=%s", l->project->config->state_dir);
		VEC_PUSH(&env, dir);
	}
	if (l->owner->leashed) /* the next server continues it, if it dies with this one */
		VEC_PUSH(&env, "CAIRN_SERVED=1");
	VEC_PUSH(&env, NULL);
	VEC_PUSH(&argv, l->owner->program);
	for (size_t i = 0; args[i]; i++)
		VEC_PUSH(&argv, args[i]);
	VEC_PUSH(&argv, NULL);
	spec.env = env.v;
	spec.argv = argv.v;
	r = process_start(l->owner->loop, &spec, on_exit_of, l, &l->process, err);
	VEC_FREE(&argv);
	VEC_FREE(&env);
	return r;
}

int launch_start(struct launches *v, const struct launch_options *o, struct launch **ret,
		 struct err *err)
{
	struct clock *c = loop_clock(v->loop);
	_cleanup_(fd_closep) int facts = -1;
	struct launch *l;
	bool closed;

	pthread_mutex_lock(&v->lock);
	closed = v->closed;
	pthread_mutex_unlock(&v->lock);
	if (closed)
		return err_set(err, ERR_BUSY, "this server starts no more runs");
	l = xcalloc(1, sizeof(*l));
	*l = (struct launch){ .owner = v,
			      .project = o->project,
			      .started_ns = c->wall_ns(c),
			      .on_end = o->on_end,
			      .arg = o->arg,
			      .log_fd = -1 };
	l->name = new_name(o->what, l->started_ns);
	if (open_files(o->project, l->name, &l->log_fd, &facts, err) < 0 ||
	    start_process(l, o->args, facts, err) < 0) {
		launch_free(l);
		return -1;
	}
	l->pid = process_pid(l->process);
	pthread_mutex_lock(&v->lock);
	VEC_PUSH(&v->running, l);
	if (v->closed) /* closed while we started it */
		kill(l->pid, SIGKILL);
	pthread_mutex_unlock(&v->lock);
	event(EVENT_INFO, "run-started", "{s:s, s:s, s:i}", "project", o->project->name, "launch",
	      l->name, "pid", (int)l->pid);
	*ret = l;
	return 0;
}

const char *launch_name(const struct launch *l)
{
	return l->name;
}

void launch_stop(struct launch *l)
{
	if (!l->process)
		return;
	/* Only the engine gets the signal: it stops its tasks in order. */
	kill(l->pid, l->stops++ == 0 ? SIGTERM : SIGINT);
}

/* All launches. */

int launches_new(struct loop *l, struct launches **ret, struct err *err)
{
	struct clock *c = loop_clock(l);
	struct launches *v = xcalloc(1, sizeof(*v));

	v->program = command_self();
	if (!v->program) {
		free(v);
		return err_errno(err, "cannot find the path of this program");
	}
	v->loop = l;
	pthread_mutex_init(&v->lock, NULL);
	v->look = loop_add_timer(l, c->mono_ns(c) + LOG_LOOK_NS, look_at_logs, v);
	*ret = v;
	return 0;
}

void launches_free(struct launches *v)
{
	if (!v)
		return;
	loop_remove(v->loop, v->look);
	for (size_t i = 0; i < v->running.n; i++)
		launch_free(v->running.v[i]);
	for (size_t i = 0; i < v->ended.n; i++)
		launch_free(v->ended.v[i]);
	VEC_FREE(&v->running);
	VEC_FREE(&v->ended);
	pthread_mutex_destroy(&v->lock);
	free(v->program);
	free(v);
}

size_t launches_running(struct launches *v)
{
	size_t n;

	pthread_mutex_lock(&v->lock);
	n = v->running.n;
	pthread_mutex_unlock(&v->lock);
	return n;
}

void launches_end_with_server(struct launches *v)
{
	assert(launches_running(v) == 0);
	v->leashed = true;
}

void launches_kill(struct launches *v, const struct project *p)
{
	pthread_mutex_lock(&v->lock);
	v->closed |= !p;
	for (size_t i = 0; i < v->running.n; i++)
		if ((!p || v->running.v[i]->project == p) && v->running.v[i]->process)
			kill(v->running.v[i]->pid, SIGKILL);
	pthread_mutex_unlock(&v->lock);
}

void launches_stop_all(struct launches *v)
{
	for (size_t i = 0; i < v->running.n; i++)
		launch_stop(v->running.v[i]);
}

static json_t *launch_json(const struct launch *l)
{
	json_t *o = json_object();

	json_object_set_new(o, "launch", json_string(l->name));
	json_object_set_new(o, "project", facts_text(l->project->name));
	json_object_set_new(o, "state", json_string(l->ended_ns ? "ended" : "running"));
	json_object_set_new(o, "pid", json_integer(l->pid));
	json_object_set_new(o, "started", facts_time(l->started_ns));
	json_object_set_new(o, "ended", facts_time(l->ended_ns));
	json_object_set_new(o, "exit",
			    l->ended_ns ? json_integer(l->signo ? 128 + l->signo : l->exit)
					: json_null());
	json_object_set_new(o, "run", facts_text(l->run));
	json_object_set_new(o, "run_state", facts_text(l->state));
	json_object_set_new(o, "problem", facts_text(l->problem));
	return o;
}

int launch_output(const struct project *p, const char *name, uint64_t max_bytes, struct str *ret,
		  struct err *err)
{
	_cleanup_(freep) char *path = path_of(p, name, ".json");

	return fs_read_file(path, max_bytes, ret, err);
}

pid_t launches_pid(struct launches *v, const struct project *p, const char *name)
{
	pid_t pid = 0;

	pthread_mutex_lock(&v->lock);
	for (size_t i = 0; i < v->running.n && !pid; i++)
		if (v->running.v[i]->project == p && str_eq(v->running.v[i]->name, name))
			pid = v->running.v[i]->pid;
	pthread_mutex_unlock(&v->lock);
	return pid;
}

json_t *launches_find(struct launches *v, const struct project *p, const char *name)
{
	json_t *found = NULL;

	pthread_mutex_lock(&v->lock);
	for (size_t i = 0; i < v->running.n && !found; i++)
		if (v->running.v[i]->project == p && str_eq(v->running.v[i]->name, name))
			found = launch_json(v->running.v[i]);
	for (size_t i = 0; i < v->ended.n && !found; i++)
		if (v->ended.v[i]->project == p && str_eq(v->ended.v[i]->name, name))
			found = launch_json(v->ended.v[i]);
	pthread_mutex_unlock(&v->lock);
	return found;
}

/* steps/submit/ray.c — the step `ray`: its command as a job of a Ray cluster that exists.
 *
 * All through Ray's own program: `ray job submit` with an id that we choose, `ray job logs` until
 * the job ends, `ray job status` for how, `ray job stop` when we are asked to stop.
 *
 * The id is NAME, or NAME-2, … after a job that failed (find()). A job of an id that waits, runs or
 * has succeeded was submitted by an earlier attempt of this task in this run, whose end nobody saw:
 * it is followed, and not submitted again. So a crash of the engine, or of this step, at any point
 * runs the command once. Ray refuses a second job of an id, so two that submit at once make one.
 *
 * Ray's program only prints how a job is; its words are found in the text (state_of()). When Ray
 * doesn't answer, we ask again until `unreachable` is over. Logs begin anew with each connection;
 * what was passed on already is left out (follow()).
 *
 * What it doesn't do: bring files back. The job writes where both sides see it.
 */
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "steps/submit/submit.h"

#define ASK_AGAIN_NS (2 * NS_PER_S)
#define TRIES_MAX    1000 /* more failed jobs of one name are a mistake of ours */

enum state { ABSENT, WAITING, SUCCEEDED, FAILED, STOPPED };

struct ray {
	struct step_args *a;
	const char *address; /* NULL: RAY_ADDRESS, or Ray's own default */
	int64_t unreachable_ns;
	char id[128];
	uint64_t shown, seen; /* bytes of the log: passed on in all, and of this connection */
	struct str said;      /* by the last command */
};

/* Ray's programs. */

struct words {
	VEC(const char *) v;
};

static void begin(const struct ray *r, struct words *w, const char *verb)
{
	VEC_PUSH(&w->v, "ray");
	VEC_PUSH(&w->v, "job");
	VEC_PUSH(&w->v, verb);
	if (r->address) {
		VEC_PUSH(&w->v, "--address");
		VEC_PUSH(&w->v, r->address);
	}
}

static int tell(struct ray *r, struct words *w, bool ends_our_work, int *ret_status,
		struct err *err)
{
	struct submit_child c = { .out = &r->said, .ends_our_work = ends_our_work };
	int done;

	VEC_PUSH(&w->v, NULL);
	c.argv = w->v.v;
	str_reset(&r->said);
	done = submit_run(&c, ret_status, err);
	VEC_FREE(&w->v);
	return done;
}

static int stopped(struct err *err)
{
	return err_set(err, ERR_CANCELLED, "stopped by SIG%s", sigabbrev_np(submit_stopped()));
}

/* How it is. */

/* `ray job status` says "Job 'ID' succeeded", "… failed", "… was stopped", or "Status for job 'ID':
 * RUNNING". -1: something else. */
static int state_of(const struct ray *r, int status)
{
	static const struct {
		const char *before, *after;
		enum state state;
	} rows[] = {
		{ "Job '", "' succeeded", SUCCEEDED },
		{ "Job '", "' failed", FAILED },
		{ "Job '", "' was stopped", STOPPED },
		{ "Status for job '", "': PENDING", WAITING },
		{ "Status for job '", "': RUNNING", WAITING },
		{ "Job ", " does not exist", ABSENT },
	};

	for (size_t i = 0; r->said.s && i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *words =
			xasprintf("%s%s%s", rows[i].before, r->id, rows[i].after);

		if (strstr(r->said.s, words) && (status == 0) == (rows[i].state != ABSENT))
			return (int)rows[i].state;
	}
	return -1;
}

/* Asks until there is an answer. */
static int look(struct ray *r, enum state *ret, struct err *err)
{
	int64_t until = clock_mono_ns() + r->unreachable_ns;
	int status, state, len;
	const char *line;

	for (;;) {
		struct words w = { 0 };

		begin(r, &w, "status");
		VEC_PUSH(&w.v, r->id);
		if (tell(r, &w, false, &status, err) < 0)
			return -1;
		if (submit_stopped())
			return stopped(err);
		state = state_of(r, status);
		if (state >= 0) {
			*ret = (enum state)state;
			return 0;
		}
		if (clock_mono_ns() >= until)
			break;
		submit_wait(ASK_AGAIN_NS);
	}
	line = submit_last_line(&r->said, &len);
	return err_set(err, ERR_IO, "Ray doesn't answer%s%s: %.*s", r->address ? " at " : "",
		       r->address ? r->address : "", len, line);
}

/* Submitting. */

static bool is_secret(const char *name)
{
	const char *all = getenv("CAIRN_SECRETS");
	size_t n = strlen(name);

	for (const char *at = all; at && *at; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");

		if (len == n && strncmp(at, name, n) == 0)
			return true;
		at += len;
	}
	return false;
}

/* The values that the command names (CAIRN_V1, …), its paths, and what `env` lists: the job has
 * them as the step has. */
static int add_environment(const struct ray *r, json_t *vars, struct err *err)
{
	const json_t *names = step_value(r->a->with, "env");
	extern char **environ;

	for (char **e = environ; *e; e++) {
		const char *eq = strchr(*e, '=');
		_cleanup_(freep) char *name = eq ? xstrndup(*e, (size_t)(eq - *e)) : NULL;

		if (name &&
		    ((str_has_prefix(name, "CAIRN_V") && isdigit(name[7])) ||
		     str_has_prefix(name, "CAIRN_INPUT_") || str_has_prefix(name, "CAIRN_OUTPUT_")))
			json_object_set_new(vars, name, json_string(eq + 1));
	}
	for (size_t i = 0; i < json_array_size(names); i++) {
		const char *name = json_string_value(json_array_get(names, i)),
			   *value = name ? getenv(name) : NULL;

		if (name && is_secret(name))
			return err_set(
				err, ERR_INVALID,
				"`with.env`: `%s` is a secret, which everybody who sees Ray's "
				"dashboard could read: keep it where the cluster's programs "
				"find it",
				name);
		if (!value)
			return err_set(err, ERR_INVALID,
				       "`with.env`: the step has no variable `%s`: set it in `env`",
				       name ? name : "");
		json_object_set_new(vars, name, json_string(value));
	}
	return 0;
}

static int runtime_env(const struct ray *r, struct str *ret, struct err *err)
{
	const json_t *own = step_value(r->a->with, "runtime_env"),
		     *excludes = step_value(r->a->with, "excludes");
	_cleanup_(json_decrefp) json_t *all = own ? json_deep_copy(own) : json_object();
	char here[PATH_MAX];
	json_t *vars;

	if (!json_is_object(all))
		return err_set(err, ERR_INVALID, "`with.runtime_env` must be a map");
	vars = json_object_get(all, "env_vars");
	if (!vars)
		json_object_set_new(all, "env_vars", vars = json_object());
	if (!json_is_object(vars))
		return err_set(err, ERR_INVALID, "`with.runtime_env.env_vars` must be a map");
	if (!getcwd(here, sizeof(here)))
		return err_errno(err, "cannot find the working directory");
	json_object_set_new(vars, "CAIRN_WORKSPACE", json_string(here));
	if (json_array_size(excludes))
		json_object_set_new(all, "excludes", json_deep_copy(excludes));
	if (add_environment(r, vars, err) < 0)
		return -1;
	json_add_canonical(ret, all);
	return 0;
}

/* An id that exists already is no failure: look() decides. */
static int submit(struct ray *r, struct err *err)
{
	const char *dir = step_text(r->a->with, "working_dir"), *line;
	_cleanup_(str_deinit) struct str env = { 0 };
	struct words w = { 0 };
	int status, len;

	if (runtime_env(r, &env, err) < 0)
		return -1;
	begin(r, &w, "submit");
	VEC_PUSH(&w.v, "--submission-id");
	VEC_PUSH(&w.v, r->id);
	VEC_PUSH(&w.v, "--no-wait");
	VEC_PUSH(&w.v, "--runtime-env-json");
	VEC_PUSH(&w.v, env.s);
	if (dir && *dir) {
		VEC_PUSH(&w.v, "--working-dir");
		VEC_PUSH(&w.v, dir);
	}
	VEC_PUSH(&w.v, "--");
	for (const char *const *word = r->a->command; *word; word++)
		VEC_PUSH(&w.v, *word);
	if (tell(r, &w, false, &status, err) < 0)
		return -1;
	if (status == 0 || submit_stopped() || strstr(r->said.s ? r->said.s : "", "already exists"))
		return 0;
	line = submit_last_line(&r->said, &len);
	return err_set(err, ERR_FAILED, "Ray did not take the job: %.*s", len, line);
}

/* Finds the job of this run's task, or submits it. */
static int find(struct ray *r, const char *name, struct err *err)
{
	enum state s;

	for (unsigned n = 1; n < TRIES_MAX; n++) {
		snprintf(r->id, sizeof(r->id), n == 1 ? "%s" : "%s-%u", name, n);
		if (look(r, &s, err) < 0)
			return -1;
		if (s == WAITING || s == SUCCEEDED) {
			step_note("Ray has the job %s already: it is followed", r->id);
			return 0;
		}
		if (s == ABSENT) {
			step_note("Ray job %s", r->id);
			return submit(r, err);
		}
	}
	return err_set(err, ERR_FAILED, "%u jobs %s-… have failed", TRIES_MAX, name);
}

/* Following. */

static void pass_on(void *arg, const char *bytes, size_t n)
{
	struct ray *r = arg;
	uint64_t known = r->shown > r->seen ? MIN(r->shown - r->seen, (uint64_t)n) : 0;

	r->seen += n;
	if (known < n)
		(void)fs_write_all(STDOUT_FILENO, bytes + known, n - known, NULL);
	r->shown = MAX(r->shown, r->seen);
}

static int follow(struct ray *r, enum state *ret, struct err *err)
{
	for (;;) {
		struct words w = { 0 };
		struct submit_child c = { .printed = pass_on, .arg = r };
		int status;

		begin(r, &w, "logs");
		VEC_PUSH(&w.v, "--follow");
		VEC_PUSH(&w.v, r->id);
		VEC_PUSH(&w.v, NULL);
		c.argv = w.v.v;
		r->seen = 0;
		if (submit_run(&c, &status, err) < 0)
			status = -1;
		VEC_FREE(&w.v);
		if (status < 0)
			return -1;
		if (submit_stopped())
			return stopped(err);
		if (look(r, ret, err) < 0)
			return -1;
		if (*ret != WAITING)
			return 0;
		submit_wait(ASK_AGAIN_NS);
	}
}

static void stop(struct ray *r)
{
	struct err ignored = { 0 }; /* we end as stopped in any case */
	struct words w = { 0 };
	int status;

	begin(r, &w, "stop");
	VEC_PUSH(&w.v, r->id);
	if (tell(r, &w, true, &status, &ignored) < 0 || status != 0)
		step_note("Ray did not stop the job %s", r->id);
	else
		step_note("Ray job %s is stopped", r->id);
}

/* Ray's own words about a failure stand behind "Status message: ". */
static int verdict(const struct ray *r, enum state s, struct err *err)
{
	static const char mark[] = "Status message: ";
	const char *why = r->said.s ? strstr(r->said.s, mark) : NULL;
	int len;

	if (s == SUCCEEDED)
		return 0;
	if (s == FAILED) {
		why = why ? why + strlen(mark) : submit_last_line(&r->said, &len);
		return err_set(err, ERR_FAILED, "the Ray job %s failed: %.*s", r->id,
			       (int)MIN(strcspn(why, "\r\n"), (size_t)400), why);
	}
	return err_set(err, ERR_FAILED,
		       s == STOPPED ? "somebody stopped the Ray job %s"
				    : "Ray has lost the job %s: the cluster began anew, perhaps",
		       r->id);
}

static int run(struct step_args *a, struct err *err)
{
	struct ray r = { .a = a,
			 .address = step_text(a->with, "address"),
			 .unreachable_ns = step_duration(a->with, "unreachable") };
	_cleanup_(freep) char *name = submit_name();
	enum state s;
	int result;

	submit_begin();
	result = find(&r, name, err);
	if (result == 0)
		result = follow(&r, &s, err);
	if (result == 0)
		result = verdict(&r, s, err);
	if (submit_stopped() && *r.id)
		stop(&r);
	str_deinit(&r.said);
	return result;
}

const struct step_impl step_ray = { "ray", run };

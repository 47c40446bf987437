/* engine/serve/api/actions.c — routes that change something: start a run, show the state of a
 * start, cancel a run, answer a step that waits for a person.
 *
 * A start is checked here as the run itself would check it (pipeline, params, steps), so that the
 * answer says what is wrong. Then start_on_loop() launches `cairn run` with these arguments, and
 * the answer names the launch, since the run has no id yet; api_launch() tells the id as soon as
 * the engine has written the run's row.
 *
 * Who handles a cancellation depends on the run: served_cancel() when it waits for its next engine;
 * the cluster when only its Jobs go on; else its engine, through its row.
 *
 * Invariants: a body with an unknown member is refused (api_known_keys()). The pipeline is a path
 * inside the project, and no argument can be read as an option. At most `max_runs` processes run,
 * or RUNS_AT_ONCE. The token has no user's name, so who answers is "api".
 *
 * Threads: the pool's; functions named *_on_loop run on the loop's, while the request's thread
 * waits. Not here: processes (launch.c), access (api.c).
 */
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "record/facts.h"
#include "record/rows/approvals.h"
#include "record/rows/reproductions.h"
#include "run/cancel.h"
#include "serve/event.h"
#include "serve/internal.h"
#include "storage/content/content.h"

#define PARAMS_MAX      100
#define STEPS_MAX       100
#define PARAM_BYTES_MAX 4096

/* Run. */

struct start {
	struct api *a;
	const char *pipeline; /* from the project's root, normalised */
	struct param_override overrides[PARAMS_MAX];
	size_t n_overrides;
	const char *argv[16 + 2 * PARAMS_MAX + STEPS_MAX];
	size_t n_argv;
};

static bool choose_pipeline(struct start *s)
{
	struct project *p = s->a->project;
	_cleanup_(freep) char *normal = NULL, *absolute = NULL;
	const char *path;
	struct err err = { 0 };
	struct stat st;

	if (json_get_str_opt(s->a->body, "pipeline", "pipeline.yaml", &path, &err) < 0) {
		web_problem(s->a->x, 400, "body: %s", err.msg);
		return false;
	}
	normal = fs_normalise(path);
	absolute = fs_join(p->root, normal);
	if (path[0] == '/' || path[0] == '-' || !fs_is_inside(".", normal) ||
	    (!str_has_suffix(normal, ".yaml") && !str_has_suffix(normal, ".yml")))
		web_problem(s->a->x, 400,
			    "body: `pipeline` must be the path of a .yaml file in the project");
	else if (stat(absolute, &st) < 0 || !S_ISREG(st.st_mode))
		web_problem(s->a->x, 404, "there is no pipeline %s in the project", normal);
	s->pipeline = arena_strdup(s->a->arena, normal);
	return !s->a->x->status;
}

static bool read_params(struct start *s)
{
	json_t *params = json_object_get(s->a->body, "params"), *v;
	const char *name;

	if (params && !json_is_object(params))
		web_problem(s->a->x, 400, "body: `params` must be an object");
	if (!json_is_object(params))
		return !s->a->x->status;
	json_object_foreach(params, name, v)
	{
		_cleanup_(str_deinit) struct str canonical = { 0 };
		const char *text = json_string_value(v);

		if (json_is_number(v) || json_is_boolean(v)) {
			json_add_canonical(&canonical, v);
			text = arena_strdup(s->a->arena, canonical.s);
		}

		if (!text || !*name || strchr(name, '=') ||
		    strlen(name) + strlen(text) > PARAM_BYTES_MAX || s->n_overrides == PARAMS_MAX) {
			web_problem(s->a->x, 400,
				    "body: `params.%s` must be a text, number or boolean of at "
				    "most %d bytes; at most %d params",
				    name, PARAM_BYTES_MAX, PARAMS_MAX);
			return false;
		}
		s->overrides[s->n_overrides++] = (struct param_override){
			.name = arena_strdup(s->a->arena, name), .text = text, .where = "params"
		};
	}
	return true;
}

static bool check_steps(struct start *s, const struct pipeline *p)
{
	json_t *steps = json_object_get(s->a->body, "steps"), *v;
	size_t i;

	if (steps && (!json_is_array(steps) || json_array_size(steps) > STEPS_MAX)) {
		web_problem(s->a->x, 400, "body: `steps` must be an array of at most %d names",
			    STEPS_MAX);
		return false;
	}
	json_array_foreach(steps, i, v)
	{
		const char *name =
			json_string_value(v) ? arena_strdup(s->a->arena, json_string_value(v)) : "";
		const char *step = arena_strndup(s->a->arena, name, strcspn(name, "["));

		size_t n;

		if (!pipeline_find_steps(p, step, &n)) {
			web_problem(s->a->x, 400,
				    "body: `steps[%zu]`: pipeline %s has no such step", i,
				    s->pipeline);
			return false;
		}
		if (strlen(name) > strlen(step) &&
		    (!name[strlen(step) + 1] || strcspn(name, "]") + 1 != strlen(name) ||
		     name[strlen(step) + 1] == ']')) {
			web_problem(s->a->x, 400,
				    "body: `steps[%zu]`: a task is written step[…], with one pair "
				    "of brackets at its end",
				    i);
			return false;
		}
		s->argv[s->n_argv++] = name;
	}
	return true;
}

/* Reports the run's own errors before the run exists. What the pipeline uses from elsewhere may
 * have to be fetched first, which the run does itself. */
static bool check_pipeline(struct start *s)
{
	struct project *project = s->a->project;
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	_cleanup_(freep) char *absolute = fs_join(project->root, s->pipeline);
	bool lacks = false;
	struct pipeline_load_options o = { .project_root = project->root,
					   .uses_dir = project->config->uses_dir,
					   .bring = pipeline_note_lack,
					   .bring_arg = &lacks };
	_cleanup_(str_deinit) struct str errors = { 0 };
	struct err err = { 0 };
	int r = pipeline_load(absolute, &o, diags, &p, &err);

	if (r < 0 && lacks && !json_array_size(json_object_get(s->a->body, "steps")))
		return true;
	if (r < 0 || params_resolve(p, s->overrides, s->n_overrides, s->a->arena,
				    arena_alloc(s->a->arena,
						(pipeline_n_values(p) + 1) * sizeof(struct value)),
				    diags, &err) < 0) {
		project_add_errors(&errors, diags, 4000);
		web_problem(s->a->x, 400, "%s", errors.len ? errors.s : err.msg);
		return false;
	}
	return check_steps(s, p);
}

/* A process. */

struct process {
	struct api *a;
	const char *const *argv;
	const char *launch;
	bool busy;
	int result;
	struct err err;
};

/* When the engine has crashed, the run is taken up again. */
static void on_end(void *arg, const struct launch_end *end)
{
	struct daemon *d = arg;
	struct err err = { 0 };

	if (!end->run && atomic_load(&d->phase) == DAEMON_SERVING && served_adopt(d, &err) < 0)
		event_err("run-not-taken-up", end->name, &err);
}

static void start_on_loop(void *arg)
{
	struct process *s = arg;
	struct daemon *d = s->a->d;
	struct launch *l;

	s->busy = launches_running(d->runs.launches) >=
		  (d->o->max_runs ? d->o->max_runs : RUNS_AT_ONCE);
	if (atomic_load(&d->phase) != DAEMON_SERVING)
		s->result = err_set(&s->err, ERR_BUSY,
				    "the server is stopping and starts no more runs");
	else if (!s->busy)
		s->result = launch_start(d->runs.launches,
					 &(struct launch_options){ .project = s->a->project,
								   .what = "api",
								   .args = s->argv,
								   .on_end = on_end,
								   .arg = d },
					 &l, &s->err);
	if (!s->busy && s->result == 0)
		s->launch = arena_strdup(s->a->arena, launch_name(l));
}

static void start_process(struct api *a, const char *const *argv, const char *location)
{
	struct process *s = arena_alloc(a->arena, sizeof(*s));
	struct web_exchange *x = a->x;

	s->a = a;
	s->argv = argv;
	if (!api_call(a, start_on_loop, s))
		return;
	if (s->busy) {
		x->head.retry_after_s = 10;
		web_problem(x, 429,
			    "this server already has as many runs as it may; try again later");
	} else if (s->result < 0) {
		web_problem_err(x, &s->err);
	} else {
		x->head.location = arena_printf(a->arena, "/api/v1/%s/%s", location, s->launch);
		web_answer_json(x, 202,
				json_pack("{s:s, s:o}", "launch", s->launch, "project",
					  facts_text(a->project->name)));
	}
}

static void start_pipeline(struct api *a, bool plan);

void api_run_start(struct api *a)
{
	start_pipeline(a, false);
}

void api_plan_start(struct api *a)
{
	start_pipeline(a, true);
}

static void start_pipeline(struct api *a, bool plan)
{
	static const char *const keys[] = { "pipeline", "params", "steps", "keep_going" };
	struct start *s = arena_alloc(a->arena, sizeof(*s));
	struct web_exchange *x = a->x;
	struct err err = { 0 };
	bool keep_going;

	s->a = a;
	if (!api_known_keys(a, keys, ARRAY_LEN(keys)))
		return;
	if (json_get_bool_opt(a->body, "keep_going", false, &keep_going, &err) < 0) {
		web_problem(x, 400, "body: %s", err.msg);
		return;
	}
	if (!choose_pipeline(s) || !read_params(s))
		return;
	s->argv[s->n_argv++] = plan ? "plan" : "run";
	s->argv[s->n_argv++] = "-q";
	s->argv[s->n_argv++] = "--json";
	if (keep_going && !plan)
		s->argv[s->n_argv++] = "--keep-going";
	s->argv[s->n_argv++] = arena_printf(a->arena, "./%s", s->pipeline);
	if (!check_pipeline(s))
		return;
	for (size_t i = 0; i < s->n_overrides; i++) {
		s->argv[s->n_argv++] = "-p";
		s->argv[s->n_argv++] =
			arena_printf(a->arena, "%s=%s", s->overrides[i].name, s->overrides[i].text);
	}
	start_process(a, s->argv, plan ? "plans" : "launches");
}

/* What a plan printed, up to this much. */
#define PLAN_BYTES_MAX (64 * MIB)

/* What a process of this server printed as `what`, once it has ended. */
static void answer_printed(struct api *a, const char *what)
{
	const char *name = a->x->captures[0];
	json_t *launch = launches_find(a->d->runs.launches, a->project, name), *printed = NULL;
	_cleanup_(str_deinit) struct str text = { 0 };
	bool ended = str_eq(json_string_value(json_object_get(launch, "state")), "ended");

	if (!launch) {
		web_problem(a->x, 404, "no %s of that name is known; the newest %d are kept", what,
			    LAUNCH_KEPT);
		return;
	}
	if (ended && launch_output(a->project, name, PLAN_BYTES_MAX, &text, NULL) == 0 &&
	    json_parse(what, text.s, text.len, &printed, NULL) < 0)
		printed = NULL;
	web_answer_json(
		a->x, 200,
		json_pack("{s:o, s:O, s:o, s:O}", what, printed ? printed : json_null(), "state",
			  json_object_get(launch, "state"), "problem",
			  printed ? json_null() : json_incref(json_object_get(launch, "problem")),
			  "exit", json_object_get(launch, "exit")));
	json_decref(launch);
}

void api_plan(struct api *a)
{
	answer_printed(a, "plan");
}

/* Marks the whole store, as a collection would, and removes nothing. */
void api_estimate_start(struct api *a)
{
	static const char *const argv[] = { "store", "gc", "--dry-run", "--json", NULL };

	if (api_known_keys(a, NULL, 0))
		start_process(a, argv, "estimates");
}

void api_estimate(struct api *a)
{
	answer_printed(a, "estimate");
}

/* Again. */

void api_run_resume(struct api *a)
{
	const char **argv = arena_alloc(a->arena, 8 * sizeof(*argv));
	struct run_row run;

	if (!api_known_keys(a, NULL, 0) || !api_run(a, &run))
		return;
	if (record_run_engine(&run) == RUN_ENGINE_LIVES) {
		web_problem(a->x, 409, "run %s is running", run.id);
		return;
	}
	argv[0] = "resume";
	argv[1] = "-q";
	argv[2] = "--json";
	argv[3] = run.id;
	start_process(a, argv, "launches");
}

void api_reproduce(struct api *a)
{
	static const char *const keys[] = { "run", "chained", "trust" };
	const char **argv = arena_alloc(a->arena, 8 * sizeof(*argv)), *what;
	bool chained, trust;
	struct err err = { 0 };
	struct run_row run;
	size_t n = 0;

	if (!api_known_keys(a, keys, ARRAY_LEN(keys)))
		return;
	if (json_get_str(a->body, "run", &what, &err) < 0 ||
	    json_get_bool_opt(a->body, "chained", false, &chained, &err) < 0 ||
	    json_get_bool_opt(a->body, "trust", false, &trust, &err) < 0) {
		web_problem(a->x, 400, "body: %s", err.msg);
		return;
	}
	if (record_find_run(a->db, what, a->arena, &run, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	if (!run.has_hash) {
		web_problem(a->x, 409, "run %s has no run hash: it has not ended", run.id);
		return;
	}
	argv[n++] = "reproduce";
	argv[n++] = "-q";
	argv[n++] = "--json";
	if (chained)
		argv[n++] = "--chained";
	if (trust)
		argv[n++] = "--trust";
	argv[n++] = run.id;
	start_process(a, argv, "launches");
}

void api_run_verdict(struct api *a)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct reproduction_row *rows;
	struct err err = { 0 };
	struct run_row run;
	struct store *s;
	json_t *report;
	size_t n;

	if (!api_run(a, &run))
		return;
	if (record_reproductions(a->db, a->arena, &rows, &n, &err) < 0 ||
	    project_store(a->project, &s, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (rows[i].run != run.rowid)
			continue;
		if (content_read(s, &rows[i].report, PLAN_BYTES_MAX, &text, &err) < 0 ||
		    json_parse("the report", text.s, text.len, &report, &err) < 0)
			web_problem_err(a->x, &err);
		else
			web_answer_json(a->x, 200, report);
		return;
	}
	web_problem(a->x, 404,
		    run.has_reproduces ? "run %s has no verdict yet" : "run %s is no reproduction",
		    run.id);
}

/* The run of a launch that goes on. Its engine writes the row before its first task; the launch's
 * own facts come at its end. */
static void note_run(struct api *a, json_t *launch)
{
	pid_t pid = launches_pid(a->d->runs.launches, a->project, a->x->captures[0]);
	struct run_row *rows;
	size_t n;

	if (!pid || record_running(a->db, a->arena, &rows, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (rows[i].engine.pid == pid && record_run_engine(&rows[i]) == RUN_ENGINE_LIVES) {
			json_object_set_new(launch, "run", facts_text(rows[i].id));
			json_object_set_new(launch, "run_state",
					    json_string(facts_state(&rows[i])));
			return;
		}
}

void api_launch(struct api *a)
{
	json_t *found = launches_find(a->d->runs.launches, a->project, a->x->captures[0]);

	if (found && json_is_null(json_object_get(found, "run")))
		note_run(a, found);
	if (found)
		web_answer_json(a->x, 200, found);
	else
		web_problem(a->x, 404, "no launch of that name is known; the newest %d are kept",
			    LAUNCH_KEPT);
}

/* Cancel. */

/* A run that waits for its next engine: there is no process to signal. */
struct waiting {
	struct api *a;
	const char *run;
	int result;
	struct err err;
};

static void cancel_on_loop(void *arg)
{
	struct waiting *w = arg;

	w->result = served_cancel(w->a->d, w->a->project, w->run, &w->err);
}

void api_run_cancel(struct api *a)
{
	static const char *const keys[] = { "now" };
	struct err err = { 0 };
	struct db *writer = NULL;
	struct run_row run;
	size_t n_jobs;
	bool now, dead;
	int r;

	if (!api_known_keys(a, keys, ARRAY_LEN(keys)) || !api_run(a, &run))
		return;
	if (json_get_bool_opt(a->body, "now", false, &now, &err) < 0) {
		web_problem(a->x, 400, "body: %s", err.msg);
		return;
	}
	dead = run_has_only_jobs(&run);
	if (run.state == RUN_INTERRUPTED || facts_engine_died(&run)) {
		struct waiting w = { .a = a, .run = run.id };

		if (!api_call(a, cancel_on_loop, &w))
			return;
		if (w.result < 0)
			web_problem_err(a->x, &w.err);
		if (w.result > 0 && !dead)
			web_answer_json(
				a->x, 202,
				json_pack("{s:o, s:b}", "run", facts_text(run.id), "now", now));
		if (a->x->status)
			return;
	}
	r = db_open(a->project->db_path, DB_WRITE, &writer, &err);
	if (r == 0)
		r = dead ? run_cancel_jobs(a->project->config, writer, &run, &n_jobs, &err)
			 : run_cancel(writer, &run, now, &err);
	db_close(writer);
	if (r == 0)
		web_answer_json(a->x, 202,
				json_pack("{s:o, s:b}", "run", facts_text(run.id), "now", now));
	else if (err.code ==
		 ERR_INVALID) /* the request is valid, but the run is in another state */
		web_problem(a->x, 409, "%s", err.msg);
	else
		web_problem_err(a->x, &err);
}

/* Approve. */

void api_run_approve(struct api *a)
{
	static const char *const keys[] = { "task", "approve", "message" };
	struct approval_given g = { .who = a->x->caller->user,
				    .way = "api",
				    .at_ns = clock_wall_ns() };
	struct err err = { 0 };
	struct db *writer = NULL;
	struct attempt_row row;
	struct run_row run;
	int r;

	if (!api_known_keys(a, keys, ARRAY_LEN(keys)) || !api_run(a, &run))
		return;
	if (json_get_str(a->body, "task", &g.task, &err) < 0 ||
	    json_get_bool(a->body, "approve", &g.approved, &err) < 0 ||
	    json_get_str_opt(a->body, "message", NULL, &g.said, &err) < 0) {
		web_problem(a->x, 400, "body: %s", err.msg);
		return;
	}
	r = db_open(a->project->db_path, DB_WRITE, &writer, &err);
	if (r == 0)
		r = record_approval_give(writer, &run, &g, a->arena, &row, &err);
	db_close(writer);
	if (r == 0)
		web_answer_json(a->x, 200,
				json_pack("{s:o, s:o, s:o}", "run", facts_text(run.id), "task",
					  facts_text(row.task), "approval",
					  json_loads(row.approval, 0, NULL)));
	else if (err.code == ERR_INVALID)
		web_problem(a->x, 403, "%s", err.msg);
	else if (err.code == ERR_EXISTS)
		web_problem(a->x, 409, "%s", err.msg);
	else
		web_problem_err(a->x, &err);
}

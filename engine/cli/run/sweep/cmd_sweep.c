/* engine/cli/run/sweep/cmd_sweep.c — `cairn sweep`: asks the search (run/sweep/search.h) for
 * values, and starts a `cairn run` for each trial.
 *
 * A trial is a process of its own, so that a sweep has no second engine and a crash of one trial
 * touches no other. The process dies with us (PR_SET_PDEATHSIG). Its run carries the sweep's name,
 * its id and the trial's number on record. All state is there: the next `cairn sweep` reads the
 * runs, counts those that ended, resumes those that didn't, and asks for the rest.
 *
 * The id is the digest of what all trials have in common: the search with its seed, the params that
 * the command line fixes, what the pipeline says, and the content of its code and inputs (the pins
 * of a plan). Trials of another id are another sweep, because their results can't be compared. It
 * is computed again before each trial: a file that is edited meanwhile ends the sweep, or half of
 * the trials would have tried something else.
 *
 * Invariants: trials are asked for in the order of their numbers, and never again once a run of
 * them is on record. One `cairn sweep` of an id at a time holds a lock in .cairn/sweeps.lock. The
 * value is the mean of the metric over the tasks of the objective's step.
 *
 * With `early_stop` a trial is told when it begins what it is held against: the medians of the
 * curves of trials that have ended (early_stop_text()). Its own engine looks at its numbers and
 * stops (run/turn.c), on this machine as on a cluster.
 *
 * Threads: one, the loop's. What it doesn't do: choosing values.
 */
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include "base/os/fs.h"
#include "base/os/process/process.h"
#include "base/os/stop.h"
#include "base/text/text.h"
#include "cli/named.h"
#include "cli/past/series.h"
#include "cli/run/sweep/sweep.h"
#include "cli/session.h"
#include "record/run_query.h"
#include "run/sweep/search.h"

extern char **environ;

struct sweep;
struct trial {
	struct sweep *sweep;
	size_t index;        /* its number - 1 */
	bool begun;          /* also: on record, or left out */
	const char *resume;  /* id of its interrupted run, which goes on first; or NULL */
	const char *problem; /* why it has no value; NULL: it has one, or hasn't ended */
	bool stopped;        /* … since others were better (early_stop) */
	bool looked_at;      /* its curve was read, if it has one */
	struct trial_curve { /* of its series: the best value up to each step; n 0: unknown */
		struct series_point *v;
		size_t n;
	} curve;
	struct run_row run; /* when it has one */
	struct value *values;
	struct process *process; /* while it runs */
	int said_fd;             /* what the process prints on stderr */
};

struct sweep {
	struct cli *cli;
	const struct cli_args *args;
	const char *path; /* of the pipeline, as the user named it; or NULL */
	const struct pipeline *p;
	struct sweep_decl decl; /* with what the command line changes */
	struct search search;
	struct param_override *fixed; /* params of the command line */
	size_t n_fixed;
	char id[17];
	struct db *db;
	struct loop *loop;
	struct trial *trials;
	struct search_trial *known; /* for the search, as many as trials */
	size_t n, limit;            /* of all trials; of those that this call runs */
	size_t running, failed;     /* failed: since this process began */
	size_t earlier;             /* trials that were on record before */
	size_t left_out;            /* by the search */
	int signals;
	bool stopping;
	struct err err; /* what ended the sweep, if its code is set */
};

/* Identity. */

static void add_number(struct str *out, double v)
{
	str_addf(out, "%.17g ", v);
}

static void add_search(const struct sweep *w, struct str *out)
{
	const struct sweep_decl *d = &w->decl;
	bool sized =
		d->search == SWEEP_HALVING; /* what a number tries depends on how many there are */

	str_addf(out, "%s %s %s %d %llu %u\n", d->name, sweep_search_name(d->search), d->objective,
		 d->maximize, (unsigned long long)d->seed, sized ? d->trials : 0);
	for (size_t i = 0; i < d->n_params; i++) {
		const struct sweep_param *p = &d->params[i];

		str_addf(out, "%s %d %zu ", w->p->params[p->param].name, p->log, p->n_values);
		add_number(out, p->min);
		add_number(out, p->max);
		for (size_t k = 0; k < p->n_values; k++)
			value_add_json(out, &p->values[k]);
		str_addc(out, '\n');
	}
	if (d->early_stop.trials)
		str_addf(out, "early_stop %u %llu\n", d->early_stop.trials,
			 (unsigned long long)d->early_stop.after);
	if (sweep_has_rungs(d))
		str_addf(out, "%s %lld %lld %u\n", w->p->params[d->rungs.param].name,
			 (long long)d->rungs.min, (long long)d->rungs.max, d->rungs.factor);
	for (size_t i = 0; i < w->n_fixed; i++) {
		str_addf(out, "%s=%s ", w->fixed[i].name, w->fixed[i].text ? w->fixed[i].text : "");
		if (w->fixed[i].value)
			value_add_json(out, w->fixed[i].value);
		str_addc(out, '\n');
	}
}

static const char *value_text(struct cli *cli, const struct value *v)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	str_add(&s, "");
	if (v->type == VALUE_LIST)
		value_add_json(&s, v);
	else
		value_add_text(&s, v);
	return arena_strndup(cli->arena, s.s, s.len);
}

/* "lr=0.1", as `-p` takes it. */
static const char *setting(const struct sweep *w, const struct value *values, size_t i)
{
	return arena_printf(w->cli->arena, "%s=%s", w->p->params[search_param(&w->search, i)].name,
			    value_text(w->cli, &values[i]));
}

/* Plans the first trial to see which code, inputs and images trials have. Tools aren't in it: a
 * plan that only looks doesn't always know their versions. */
static int identify(const struct sweep *w, const struct pipeline *p, char ret[17], struct err *err)
{
	size_t n = search_n_values(&w->search), n_pins;
	struct value *values = arena_alloc(w->cli->arena, n * sizeof(*values));
	struct param_override *all = arena_alloc(w->cli->arena, (w->n_fixed + n) * sizeof(*all));
	struct run_options o = { .overrides = all, .n_overrides = w->n_fixed + n };
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(plan_freep) struct plan *plan = NULL;
	char hex[DIGEST_HEX_MAX];
	const struct plan_pin *pins;
	struct digest digest;
	struct session s;
	int r;

	if (w->n_fixed)
		memcpy(all, w->fixed, w->n_fixed * sizeof(*all));
	search_ask(&w->search, w->known, 0, values);
	for (size_t i = 0; i < n; i++)
		all[w->n_fixed + i] = (struct param_override){
			.name = w->p->params[search_param(&w->search, i)].name,
			.value = &values[i],
			.text = value_text(w->cli, &values[i]),
			.where = "the sweep"
		};
	r = session_open(&s, w->cli, false, err);
	if (r == 0)
		r = session_plan(&s, w->cli, p, &o, &plan, err);
	if (r == 0) {
		add_search(w, &text);
		str_addf(&text, "%s\n", digest_hex(&p->core_digest, hex));
		pins = plan_pins(plan, &n_pins);
		for (size_t i = 0; i < n_pins; i++)
			if (!str_has_prefix(pins[i].name, "tool:"))
				str_addf(&text, "%s %s %s\n", pins[i].name,
					 pins[i].origin ? pins[i].origin : "",
					 digest_hex(&pins[i].id.digest, hex));
		digest_bytes(text.s, text.len, &digest);
		snprintf(ret, 17, "%.16s", digest_hex(&digest, hex));
	}
	plan_free(plan);
	plan = NULL;
	session_close(&s);
	return r;
}

/* The files as they are now must be those with which the sweep began. */
static int still_the_same(struct sweep *w, struct err *err)
{
	_cleanup_(pipeline_freep) struct pipeline *now = NULL;
	char id[17];

	if (cli_pipeline(w->cli, w->path, &now, err) < 0 || identify(w, now, id, err) < 0)
		return -1;
	if (str_eq(id, w->id))
		return 0;
	return err_set(
		err, ERR_INVALID,
		"the pipeline, its code or its inputs changed while sweep `%s` went on, so its "
		"trials can't be compared; the same command begins it again",
		w->decl.name);
}

/* What is on record. */

/* Whether another round of its loop comes after this task's, which is "train[fold=0,round=3]": what
 * a step with `repeat` gave is what its last round gave. */
static bool is_followed(const struct facts_task *tasks, size_t n, size_t i)
{
	const char *label = tasks[i].task, *at = strstr(label, "round=");
	_cleanup_(freep) char *next = NULL;

	if (!at)
		return false;
	at += strlen("round=");
	next = xasprintf("%.*s%lu]", (int)(at - label), label, strtoul(at, NULL, 10) + 1);
	for (size_t k = 0; k < n; k++)
		if (str_eq(tasks[k].task, next))
			return true;
	return false;
}

/* The mean over the tasks of the objective's step, of its last rounds; NULL with *ret, or why there
 * is none. */
static const char *objective_of(struct sweep *w, const struct run_row *run, double *ret)
{
	const char *step = w->p->steps[w->decl.step].name;
	_cleanup_(str_deinit) struct str others = { 0 };
	struct facts_task *tasks;
	struct err err = { 0 };
	double sum = 0;
	size_t n, found = 0;

	if (named_run_tasks(w->cli, w->db, run, &tasks, &n, &err) < 0)
		return arena_strdup(w->cli->arena, err.msg);
	for (size_t i = 0; i < n; i++) {
		bool failed = tasks[i].state == RESULT_FAILED || tasks[i].state == RESULT_BLOCKED;

		if (failed && str_eq(tasks[i].step, step)) /* the run may go on without it */
			return arena_printf(w->cli->arena, "%s failed", tasks[i].task);
		if (w->p->steps[w->decl.step].tasks->repeat && is_followed(tasks, n, i))
			continue;
		for (size_t k = 0; str_eq(tasks[i].step, step) && k < tasks[i].n_metrics; k++) {
			const struct metric_value *m = &tasks[i].metrics[k];

			if (str_eq(m->name, w->decl.metric)) {
				sum += m->value;
				found++;
			} else if (others.len < 200) {
				str_addf(&others, "%s%s", others.len ? ", " : "", m->name);
			}
		}
	}
	*ret = found ? sum / (double)found : 0;
	if (found && isfinite(*ret))
		return NULL;
	if (found)
		return arena_printf(w->cli->arena, "%s isn't a finite number", w->decl.objective);
	return arena_printf(w->cli->arena, "step %s gave no metric `%s`%s%s", step, w->decl.metric,
			    others.len ? "; it gave " : "", others.len ? others.s : "");
}

/* Early stop. */

/* The newest trials whose curves count, so that a sweep of thousands still starts one at once. */
#define CURVES_MAX 64

/* Reads the series of the objective's step. A trial without one, or with a damaged one, isn't
 * compared with. */
static void read_curve(struct trial *t)
{
	struct sweep *w = t->sweep;
	const char *step = w->p->steps[w->decl.step].name;
	struct facts_task *tasks;
	struct series s = { 0 };
	struct store *store;
	struct err err = { 0 };
	size_t n;

	if (named_run_tasks(w->cli, w->db, &t->run, &tasks, &n, &err) < 0 ||
	    cli_store(w->cli, false, &store, &err) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (str_eq(tasks[i].step, step) && series_is_there(&tasks[i]) &&
		    series_load(store, &t->run, &tasks[i], w->cli->arena, &s, &err) <= 0)
			return;
	for (size_t i = 0; i < s.n_metrics; i++) {
		const struct series_metric *m = &s.metrics[i];
		size_t stride = m->n / SWEEP_STOP_POINTS + 1;
		double best = NAN;

		if (!str_eq(m->name, w->decl.metric))
			continue;
		t->curve.v = arena_alloc(w->cli->arena, (m->n / stride + 1) * sizeof(*t->curve.v));
		for (size_t k = 0; k < m->n; k++) {
			if (isfinite(m->v[k].y) &&
			    (isnan(best) || search_is_better(&w->search, m->v[k].y, best)))
				best = m->v[k].y;
			if (k % stride == stride - 1 && !isnan(best))
				t->curve.v[t->curve.n++] =
					(struct series_point){ m->v[k].x, best, (double)NAN };
		}
	}
}

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The worse half begins behind this one. */
static double median(const struct sweep *w, double *v, size_t n)
{
	qsort(v, n, sizeof(*v), by_number);
	return w->decl.maximize ? v[(n - 1) / 2] : v[n / 2];
}

/* The value of the curve at `x`; false when it doesn't come so far. */
static bool value_at(const struct trial_curve *c, double x, double *ret)
{
	size_t lo = 0, hi = c->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (c->v[mid].x <= x)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo == 0 || c->v[c->n - 1].x < x)
		return false;
	*ret = c->v[lo - 1].y;
	return true;
}

/* What a trial that begins now is held against, at the steps of the longest curve; NULL:
 * nothing yet. */
static char *early_stop_text(struct sweep *w)
{
	const struct trial *with[CURVES_MAX], *longest = NULL;
	_cleanup_(json_decrefp) json_t *points = json_array();
	double values[CURVES_MAX];
	json_t *all;
	size_t n = 0;
	char *text;

	for (size_t i = w->n; i-- > 0 && n < CURVES_MAX;) {
		struct trial *t = &w->trials[i];

		if (!w->known[i].has_value)
			continue;
		if (!t->looked_at)
			read_curve(t);
		t->looked_at = true;
		if (t->curve.n == 0)
			continue;
		with[n++] = t;
		if (!longest ||
		    t->curve.v[t->curve.n - 1].x > longest->curve.v[longest->curve.n - 1].x)
			longest = t;
	}
	for (size_t k = 0; longest && k < longest->curve.n; k++) {
		double x = longest->curve.v[k].x;
		size_t came = 0;

		for (size_t i = 0; i < n; i++)
			came += value_at(&with[i]->curve, x, &values[came]);
		if (x >= (double)w->decl.early_stop.after &&
		    came >= MIN(w->decl.early_stop.trials, (uint32_t)CURVES_MAX))
			json_array_append_new(points,
					      json_pack("[f, f]", x, median(w, values, came)));
	}
	if (json_array_size(points) == 0)
		return NULL;
	all = json_pack("[s, s, b, O]", w->p->steps[w->decl.step].name, w->decl.metric,
			w->decl.maximize, points);
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	return text;
}

static bool has_ended(const struct run_row *r)
{
	return r->state != RUN_RUNNING && r->state != RUN_INTERRUPTED;
}

static void note_end(struct trial *t)
{
	struct sweep *w = t->sweep;
	struct search_trial *k = &w->known[t->index];

	*k = (struct search_trial){ .ended = true, .values = t->values };
	if (t->run.state == RUN_SUCCEEDED)
		t->problem = objective_of(w, &t->run, &k->value);
	else
		t->problem = t->run.message ? t->run.message : run_state_name(t->run.state);
	k->has_value = !t->problem;
	t->stopped = t->run.message && str_has_prefix(t->run.message, RUN_STOPPED_EARLY);
}

static const json_t *param_member(const json_t *params, const char *name)
{
	const json_t *v = json_object_get(params, name);
	const char *dot = v ? NULL : strchr(name, '.');
	char head[256];

	if (v || !dot || (size_t)(dot - name) >= sizeof(head))
		return v;
	snprintf(head, sizeof(head), "%.*s", (int)(dot - name), name);
	return param_member(json_object_get(params, head), dot + 1);
}

/* The values with which a run on record went; those of lists are found in the declaration. */
static bool values_on_record(const struct sweep *w, const struct run_row *run, struct value *ret)
{
	_cleanup_(json_decrefp) json_t *params =
		run->params_json ? json_loads(run->params_json, 0, NULL) : NULL;
	bool ok = true;

	for (size_t i = 0; i < search_n_values(&w->search); i++) {
		const struct param_decl *decl = &w->p->params[search_param(&w->search, i)];
		const struct sweep_param *p = i < w->decl.n_params ? &w->decl.params[i] : NULL;
		const json_t *v = param_member(params, decl->name);
		bool known = false;

		for (size_t k = 0; p && k < p->n_values && !known; k++) {
			_cleanup_(json_decrefp) json_t *one = value_json(&p->values[k]);

			known = json_equal(one, v) ||
				(json_is_number(one) && json_is_number(v) &&
				 json_number_value(one) == json_number_value(v));
			if (known)
				ret[i] = p->values[k];
		}
		if (known || (p && p->values)) {
			ok &= known;
			continue;
		}
		ok &= json_is_number(v);
		if (decl->type == VALUE_INT)
			ret[i] = (struct value){ .type = VALUE_INT, .i = json_integer_value(v) };
		else
			ret[i] = (struct value){ .type = VALUE_FLOAT, .f = json_number_value(v) };
	}
	return ok;
}

static int trial_rows(struct sweep *w, struct run_row **ret, size_t *ret_n, struct err *err)
{
	struct run_query q = { .pipeline = w->p->name, .sweep = w->decl.name };

	return record_query_runs(w->db, &q, w->cli->arena, ret, ret_n, err);
}

/* Runs that a killed sweep left die a moment after it. */
static int wait_for(struct sweep *w, struct run_row *run, struct err *err)
{
	for (int tries = 0; record_run_engine(run) == RUN_ENGINE_LIVES && tries < 200; tries++) {
		poll(NULL, 0, 50);
		if (record_run_by_id(w->db, run->id, w->cli->arena, run, err) < 0)
			return -1;
	}
	if (record_run_engine(run) == RUN_ENGINE_LIVES ||
	    record_run_engine(run) == RUN_ENGINE_ELSEWHERE)
		return err_set(
			err, ERR_BUSY,
			"the run %s of this sweep is still going on; wait for it, or stop it: "
			"cairn cancel %s",
			run->id, run->id);
	return 0;
}

static int read_record(struct sweep *w, struct err *err)
{
	size_t n, strangers = 0;
	struct run_row *rows;

	if (trial_rows(w, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) { /* the newest first */
		struct run_trial mark;
		struct trial *t;

		if (!facts_trial(rows[i].options_json, w->cli->arena, &mark))
			continue;
		if (!str_eq(mark.id, w->id)) {
			strangers++;
			continue;
		}
		if (mark.number > w->n)
			continue;
		t = &w->trials[mark.number - 1];
		if (t->begun || t->resume || !values_on_record(w, &rows[i], t->values))
			continue;
		t->run = rows[i];
		if (wait_for(w, &t->run, err) < 0)
			return -1;
		if (has_ended(&t->run)) {
			t->begun = true;
			note_end(t);
			w->earlier++;
		} else {
			t->resume = t->run.id;
		}
		w->known[t->index].values = t->values;
	}
	if (strangers && !w->earlier)
		cli_warn(w->cli,
			 "%zu trial%s of an earlier form of this sweep are on record; its search, "
			 "steps, code or inputs changed, so it begins again",
			 strangers, strangers == 1 ? "" : "s");
	return 0;
}

/* Trials. */

static const char *settings(const struct sweep *w, const struct value *values)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	for (size_t i = 0; i < search_n_values(&w->search); i++)
		str_addf(&s, "%s%s", i ? " " : "", cli_text(w->cli, setting(w, values, i)));
	return arena_strndup(w->cli->arena, s.s, s.len);
}

/* The last lines that a failed process printed, which say why. */
static void print_said(struct trial *t)
{
	_cleanup_(str_deinit) struct str shown = { 0 };
	char buf[2048];
	struct stat st;
	ssize_t n;

	if (t->said_fd < 0 || fstat(t->said_fd, &st) < 0)
		return;
	n = pread(t->said_fd, buf, sizeof(buf), MAX(st.st_size - (off_t)sizeof(buf), (off_t)0));
	for (ssize_t i = 0; i < n;) {
		ssize_t end = i;

		while (end < n && buf[end] != '\n')
			end++;
		str_reset(&shown);
		text_add_printable(&shown, buf + i, (size_t)(end - i));
		if (shown.len && t->sweep->cli->json)
			cli_warn(t->sweep->cli, "trial %zu: %s", t->index + 1, shown.s);
		else if (shown.len)
			cli_note(t->sweep->cli, "  %s", shown.s);
		i = end + 1;
	}
}

static void print_trial(struct trial *t)
{
	struct sweep *w = t->sweep;
	const struct search_trial *k = &w->known[t->index];
	bool best = search_best(&w->search, w->known, w->n) == t->index;
	struct cli *cli = w->cli;

	if (k->has_value)
		cli_note(cli, "trial %zu  %s  %s%s%.6g%s%s  %s", t->index + 1,
			 settings(w, t->values), w->decl.metric, " ", k->value,
			 best ? "  best" : "", t->run.counts.executed ? "" : "  (on record)",
			 cli_duration(cli, t->run.ended_ns - t->run.started_ns));
	else
		cli_note(cli, "trial %zu  %s  %s%s%s%s%s%s", t->index + 1, settings(w, t->values),
			 cli_style_err(cli, t->stopped ? STYLE_DIM : STYLE_RED),
			 t->stopped ? "" : "no value: ", cli_style_err(cli, STYLE_PLAIN),
			 cli_text(cli, t->problem), t->run.id ? "  run " : "",
			 t->run.id ? t->run.id : "");
}

static void stop_with(struct sweep *w, const struct err *err)
{
	if (w->err.code == 0)
		w->err = *err;
	w->stopping = true;
}

static void fill(struct sweep *w);

static int find_run(struct trial *t, struct err *err)
{
	struct run_row *rows;
	size_t n;

	if (trial_rows(t->sweep, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct run_trial mark;

		if (facts_trial(rows[i].options_json, t->sweep->cli->arena, &mark) &&
		    str_eq(mark.id, t->sweep->id) && mark.number == t->index + 1) {
			t->run = rows[i];
			return 1;
		}
	}
	return 0;
}

static void on_exit_of(void *arg, const struct process_exit *ex)
{
	struct trial *t = arg;
	struct sweep *w = t->sweep;
	struct err err = { 0 };
	int found;

	process_free(t->process);
	t->process = NULL;
	w->running--;
	found = find_run(t, &err);
	if (found > 0 && has_ended(&t->run)) {
		note_end(t);
		w->failed += !w->known[t->index].has_value && !t->stopped;
		print_trial(t);
		if (t->problem && !t->stopped && w->cli->verbosity > 0)
			print_said(t);
	} else if (!w->signals) {
		/* No run came of it, or it can't go on: the next trial would fare alike. */
		if (found == 0 || (found > 0 && err.code == 0))
			err_set(&err, ex->status == CLI_INVALID ? ERR_INVALID : ERR_IO,
				"trial %zu (%s) didn't come to its end (%s %d)", t->index + 1,
				settings(w, t->values), ex->signo ? "signal" : "exit",
				ex->signo ? ex->signo : ex->status);
		print_said(t);
		stop_with(w, &err);
	}
	fd_closep(&t->said_fd);
	t->said_fd = -1;
	if (w->failed > w->decl.max_failures)
		w->stopping = true;
	fill(w);
}

typedef VEC(const char *) argument_list;

static void add_passed(const struct sweep *w, argument_list *argv, bool resuming)
{
	static const char *const passed[] = { "on", "store", "cache", "params-file", "param" };

	for (size_t i = 0; i < w->args->n_given; i++) {
		const struct cli_given *g = &w->args->given[i];

		for (size_t k = 0; k < (resuming ? 3 : ARRAY_LEN(passed)); k++)
			if (str_eq(g->option->name, passed[k]))
				VEC_PUSH(argv, arena_printf(w->cli->arena, "--%s=%s", passed[k],
							    g->value));
	}
}

static int start(struct trial *t, struct err *err)
{
	struct sweep *w = t->sweep;
	argument_list argv = { 0 }, env = { 0 };
	struct process_spec spec = { .cwd = ".", .stdin_fd = -1, .stdout_fd = -1 };
	_cleanup_(freep) char *stop =
		w->decl.early_stop.trials && !t->resume ? early_stop_text(w) : NULL;
	int r;

	VEC_PUSH(&argv, cli_program(w->cli));
	VEC_PUSH(&argv, t->resume ? "resume" : "run");
	VEC_PUSH(&argv, "--quiet");
	VEC_PUSH(&argv, "--color=never");
	if (w->decl.parallel > 1 && !w->cli->runner_option) /* each gets its part of the machine */
		VEC_PUSH(&argv, arena_printf(w->cli->arena, "--jobs=%u",
					     MAX(session_cpus() / w->decl.parallel, 1U)));
	add_passed(w, &argv, t->resume != NULL);
	for (size_t i = 0; !t->resume && i < search_n_values(&w->search); i++)
		VEC_PUSH(&argv,
			 arena_printf(w->cli->arena, "--param=%s", setting(w, t->values, i)));
	VEC_PUSH(&argv, t->resume ? t->resume : w->p->path);
	VEC_PUSH(&argv, NULL);
	for (char **e = environ; *e; e++)
		if (!str_has_prefix(*e, SWEEP_TRIAL_VARIABLE "=") &&
		    !str_has_prefix(*e, SWEEP_STOP_VARIABLE "="))
			VEC_PUSH(&env, *e);
	VEC_PUSH(&env, arena_printf(w->cli->arena, SWEEP_TRIAL_VARIABLE "=%s %s %zu", w->decl.name,
				    w->id, t->index + 1));
	if (stop)
		VEC_PUSH(&env, arena_printf(w->cli->arena, SWEEP_STOP_VARIABLE "=%s", stop));
	VEC_PUSH(&env, NULL);
	t->said_fd = spec.stderr_fd = memfd_create("trial", MFD_CLOEXEC);
	spec.argv = argv.v;
	spec.env = env.v;
	r = process_start(w->loop, &spec, on_exit_of, t, &t->process, err);
	VEC_FREE(&argv);
	VEC_FREE(&env);
	t->begun = true;
	w->running += r == 0;
	return r;
}

/* Starts trials in the order of their numbers, as many as may run. */
static void fill(struct sweep *w)
{
	for (size_t i = 0; i < w->limit && !w->stopping && w->running < w->decl.parallel; i++) {
		struct trial *t = &w->trials[i];
		enum search_answer answer = SEARCH_TRIAL;
		struct err err = { 0 };

		if (t->begun)
			continue;
		if (!t->resume)
			answer = search_ask(&w->search, w->known, i, t->values);
		if (answer == SEARCH_WAIT)
			break;
		if (answer == SEARCH_LEFT_OUT) {
			t->begun = w->known[i].ended = true;
			w->left_out++;
			continue;
		}
		w->known[i].values = t->values;
		if (still_the_same(w, &err) < 0 || start(t, &err) < 0)
			stop_with(w, &err);
	}
	if (w->running == 0)
		loop_stop(w->loop);
}

static void on_signal(void *arg, int signo)
{
	struct sweep *w = arg;

	w->signals++;
	w->stopping = true;
	if (w->signals == 1 && w->running)
		cli_note(w->cli,
			 "waiting for %zu trial%s to stop; press Ctrl-C again to stop at once",
			 w->running, w->running == 1 ? "" : "s");
	for (size_t i = 0; i < w->n; i++)
		if (w->trials[i].process)
			process_signal(w->trials[i].process, signo == SIGHUP ? SIGTERM : signo);
	if (w->running == 0)
		loop_stop(w->loop);
}

/* The result. */

static json_t *trial_json(const struct sweep *w, const struct trial *t)
{
	const struct search_trial *k = &w->known[t->index];
	char hex[DIGEST_HEX_MAX];
	json_t *o = json_object(), *params = json_object();

	for (size_t i = 0; i < search_n_values(&w->search); i++)
		json_object_set_new(params, w->p->params[search_param(&w->search, i)].name,
				    value_json(&t->values[i]));
	json_object_set_new(o, "number", json_integer((json_int_t)t->index + 1));
	json_object_set_new(o, "run", facts_text(t->run.id));
	json_object_set_new(o, "hash",
			    t->run.has_hash ? json_string(digest_hex(&t->run.hash, hex))
					    : json_null());
	json_object_set_new(o, "state", json_string(facts_state(&t->run)));
	json_object_set_new(o, "params", params);
	json_object_set_new(o, "value", k->has_value ? json_real(k->value) : json_null());
	json_object_set_new(o, "problem", facts_text(t->problem));
	return o;
}

struct tally {
	size_t ended, with_value, failed, stopped;
};

static struct tally count(const struct sweep *w)
{
	struct tally c = { 0 };

	for (size_t i = 0; i < w->n; i++) {
		bool ran = w->trials[i].run.id && w->known[i].ended;

		c.ended += ran;
		c.with_value += w->known[i].has_value;
		c.stopped += ran && w->trials[i].stopped;
		c.failed += ran && !w->known[i].has_value && !w->trials[i].stopped;
	}
	return c;
}

static void print_json(const struct sweep *w, size_t best)
{
	struct tally c = count(w);
	json_t *all = json_array(), *o;

	for (size_t i = 0; i < w->n; i++)
		if (w->trials[i].run.id)
			json_array_append_new(all, trial_json(w, &w->trials[i]));
	o = json_pack("{s:s, s:s, s:s, s:s, s:I, s:o, s:s, s:{s:I, s:I, s:I, s:I}, "
		      "s:o, s:o}",
		      "sweep", w->decl.name, "id", w->id, "pipeline", w->p->name, "search",
		      sweep_search_name(w->decl.search), "seed", (json_int_t)w->decl.seed,
		      "objective", facts_text(w->decl.objective), "goal",
		      w->decl.maximize ? "maximize" : "minimize", "counts", "trials",
		      (json_int_t)(w->limit - w->left_out), "ended", (json_int_t)c.ended,
		      "with_value", (json_int_t)c.with_value, "failed", (json_int_t)c.failed,
		      "best", best == SIZE_MAX ? json_null() : trial_json(w, &w->trials[best]),
		      "trials", all);
	if (w->decl.early_stop.trials)
		json_object_set_new(json_object_get(o, "counts"), "stopped",
				    json_integer((json_int_t)c.stopped));
	cli_print_json(w->cli, "cairn.sweep/1", o);
}

static void print_end(const struct sweep *w, size_t best)
{
	const struct trial *t = best == SIZE_MAX ? NULL : &w->trials[best];
	struct tally c = count(w);
	struct cli *cli = w->cli;

	cli_printf(cli, "sweep %s: %zu of %zu trials ended, %zu without a value", w->decl.name,
		   c.ended, w->limit - w->left_out, c.failed);
	if (w->decl.early_stop.trials)
		cli_printf(cli, ", %zu stopped early", c.stopped);
	cli_printf(cli, "\n");
	if (!t)
		return;
	cli_printf(cli, "best: trial %zu, %s %.6g\n  %s\n  run %s", best + 1,
		   cli_text(cli, w->decl.objective), w->known[best].value, settings(w, t->values),
		   t->run.id);
	if (t->run.has_hash)
		cli_printf(cli, " (%s)", cli_hash(cli, &t->run.hash));
	cli_printf(cli, "\n");
	cli_note(cli, "next: cairn get %s   or: cairn runs --sweep %s --sort=%s%s", t->run.id,
		 w->decl.name, w->decl.maximize ? "-" : "", cli_text(cli, w->decl.metric));
}

static int conclude(struct sweep *w)
{
	size_t best = search_best(&w->search, w->known, w->n);

	if (w->cli->json)
		print_json(w, best);
	else
		print_end(w, best);
	if (w->signals) {
		cli_note(w->cli, "the same command goes on: cairn sweep %s", w->decl.name);
		return CLI_INTERRUPTED;
	}
	if (w->failed > w->decl.max_failures) {
		cli_warn(
			w->cli,
			"%zu trials have no value, and `max_failures` is %u, so the sweep stopped; "
			"`cairn logs -r RUN` shows why one failed",
			w->failed, w->decl.max_failures);
		return CLI_TASK_FAILED;
	}
	return best == SIZE_MAX ? CLI_TASK_FAILED : CLI_OK;
}

/* Beginning. */

static int choose(struct sweep *w, const char *name, struct err *err)
{
	_cleanup_(str_deinit) struct str names = { 0 };
	const struct sweep_decl *d = name ? pipeline_find_sweep(w->p, name) : NULL;

	if (!name && w->p->n_sweeps == 1)
		d = &w->p->sweeps[0];
	for (size_t i = 0; i < w->p->n_sweeps && names.len < 300; i++)
		str_addf(&names, "%s%s", i ? ", " : "", w->p->sweeps[i].name);
	if (d)
		w->decl = *d;
	else if (w->p->n_sweeps == 0)
		return err_set(err, ERR_INVALID,
			       "%s declares no `sweeps`; `cairn help sweep` says how", w->p->path);
	else if (name)
		return err_set(err, ERR_USAGE, "%s has no sweep `%s`; it has %s", w->p->path, name,
			       names.s);
	else
		return err_set(err, ERR_USAGE, "name one of the sweeps of %s: %s", w->p->path,
			       names.s);
	return 0;
}

static int read_options(struct sweep *w, struct err *err)
{
	uint64_t jobs = w->decl.parallel, seed = w->decl.seed, trials;

	if (cli_uint(w->args, "jobs", 1, SWEEP_AT_ONCE_MAX, &jobs, err) < 0 ||
	    cli_uint(w->args, "seed", 0, INT64_MAX, &seed, err) < 0 ||
	    cli_params(w->cli, w->args, &w->fixed, &w->n_fixed, err) < 0)
		return -1;
	w->decl.parallel = (uint32_t)jobs;
	w->decl.seed = seed;
	trials = w->decl.trials;
	if (cli_uint(w->args, "trials", 1, SWEEP_TRIALS_MAX, &trials, err) < 0)
		return -1;
	if (w->decl.search == SWEEP_GRID)
		trials = MIN(trials, (uint64_t)w->decl.trials);
	else
		w->decl.trials = (uint32_t)trials;
	w->search = (struct search){ &w->decl, w->p->params };
	for (size_t i = 0; i < w->n_fixed; i++)
		for (size_t k = 0; k < search_n_values(&w->search); k++)
			if (str_eq(w->fixed[i].name,
				   w->p->params[search_param(&w->search, k)].name))
				return err_set(
					err, ERR_USAGE,
					"%s: sweep `%s` searches over param `%s`, so it can't "
					"be fixed",
					w->fixed[i].where, w->decl.name, w->fixed[i].name);
	w->n = search_n_trials(&w->search);
	w->limit = w->decl.search == SWEEP_GRID ? trials : w->n;
	return 0;
}

static void make_trials(struct sweep *w)
{
	size_t n_values = search_n_values(&w->search);

	w->trials = arena_alloc(w->cli->arena, w->n * sizeof(*w->trials));
	w->known = arena_alloc(w->cli->arena, w->n * sizeof(*w->known));
	for (size_t i = 0; i < w->n; i++)
		w->trials[i] =
			(struct trial){ .sweep = w,
					.index = i,
					.said_fd = -1,
					.values = arena_alloc(w->cli->arena,
							      n_values * sizeof(struct value)) };
}

/* One byte of the file stands for the id. */
static int lock(struct sweep *w, int *ret_fd, struct err *err)
{
	const struct config *c;
	_cleanup_(freep) char *path = NULL;
	int busy;

	if (cli_config(w->cli, &c, err) < 0)
		return -1;
	path = xasprintf("%s/sweeps.lock", c->state_dir);
	*ret_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (*ret_fd < 0)
		return err_errno(err, "cannot open %s", path);
	busy = fs_lock_range_try(*ret_fd, strtoull(w->id, NULL, 16) & FS_LOCK_OFFSET_MAX, err);
	if (busy > 0)
		return err_set(err, ERR_BUSY, "another `cairn sweep %s` is going on here",
			       w->decl.name);
	return busy;
}

static int go(struct sweep *w, struct err *err)
{
	int r;

	if (read_record(w, err) < 0 || loop_new(clock_system(), &w->loop, err) < 0 ||
	    process_become_subreaper(err) < 0 ||
	    stop_listen(w->loop, "cairn: stopped at once; the same command goes on", on_signal, w,
			err) < 0)
		return -1;
	cli_note(w->cli, "sweep %s (%s): %s%zu trials, %zu on record", w->decl.name,
		 sweep_search_name(w->decl.search), w->decl.search == SWEEP_ASHA ? "at most " : "",
		 w->limit, w->earlier);
	fill(w);
	r = w->running ? loop_run(w->loop, err) : 0;
	stop_unlisten();
	if (r >= 0 && w->err.code != 0)
		return err_pass(err, &w->err);
	return MIN(r, 0);
}

int cmd_sweep(struct cli *cli, const struct cli_args *args)
{
	struct session_operands op = session_operands(args);
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	_cleanup_(fd_closep) int lock_fd = -1;
	struct sweep w = { .cli = cli, .args = args, .path = op.pipeline };
	struct err err = { 0 };
	int r;

	if (op.n_steps > 1)
		return cli_usage_error(cli, "one sweep at a time");
	if (cli_pipeline(cli, op.pipeline, &p, &err) < 0)
		return cli_fail(cli, &err);
	w.p = p;
	if (choose(&w, op.n_steps ? op.steps[0] : NULL, &err) < 0 || read_options(&w, &err) < 0)
		return cli_fail(cli, &err);
	make_trials(&w);
	if (identify(&w, p, w.id, &err) < 0 || lock(&w, &lock_fd, &err) < 0 ||
	    cli_db(cli, DB_WRITE, &w.db, &err) < 0)
		return cli_fail(cli, &err);
	r = go(&w, &err);
	loop_free(w.loop);
	return r < 0 ? cli_fail(cli, &err) : conclude(&w);
}

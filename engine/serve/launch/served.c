/* engine/serve/launch/served.c — runs that were handed over, which this server owns beside those of
 * schedules. Their rows say so (run_options.served), so the next server knows as well.
 *
 * Each is a row in the database before anything starts. `cairn resume` starts it, again and again
 * with a growing pause, until it has ended by itself: after a crash of its engine, of this server
 * or of the machine, and after an error that a run doesn't survive (the store is gone, the disk is
 * full).
 *
 * Invariants: a run is in the list once, and has at most one launch. While its engine lives
 * (is_alive()), it is never started again. `unbegun` counts engines that ended before the run
 * began. The count is on record, and at UNBEGUN_MAX the run ends as failed.
 *
 * Threads: the loop's. Not here: receiving a run over HTTP (api/handover.c), processes
 * (launch.c).
 */
#include "run/handover/served.h"

#include "serve/event.h"
#include "serve/internal.h"

#define PAUSE_MIN_NS (5 * NS_PER_S)
#define PAUSE_MAX_NS (600 * NS_PER_S)
/* After so many engines that couldn't begin, the run itself is wrong. */
#define UNBEGUN_MAX 8

struct served {
	struct daemon *d;
	struct project *project;
	char *run;
	struct launch *launch; /* NULL: waits for `due_ns` and for room */
	int64_t due_ns;        /* monotonic */
	unsigned tries, unbegun;
	struct served *next;
};

static void forget(struct served *s)
{
	for (struct served **p = &s->d->runs.served; *p; p = &(*p)->next)
		if (*p == s) {
			*p = s->next;
			break;
		}
	free(s->run);
	free(s);
}

void served_free(struct daemon *d)
{
	while (d->runs.served)
		forget(d->runs.served);
}

/* False: it is in the list already. */
static bool add(struct daemon *d, struct project *p, const char *run, unsigned unbegun)
{
	struct served **end = &d->runs.served, *s;

	for (; *end; end = &(*end)->next)
		if ((*end)->project == p && str_eq((*end)->run, run))
			return false;
	s = *end = xcalloc(1, sizeof(*s));
	*s = (struct served){ .d = d,
			      .project = p,
			      .run = xstrdup(run),
			      .due_ns = daemon_mono_ns(d),
			      .tries = unbegun,
			      .unbegun = unbegun };
	return true;
}

/* One run. */

static void give_up(struct served *s, const char *why)
{
	struct err err = { 0 };

	event(EVENT_ERROR, "run-given-up", "{s:s, s:s, s:s}", "project", s->project->name, "run",
	      s->run, "why", why);
	if (served_run_end(s->project->db, s->run, RUN_FAILED, why, &err) < 0)
		event_err("run-given-up", s->run, &err);
	forget(s);
}

/* The record lets `cairn status` show it and the next server keep the count. */
static void report_wait(struct served *s, const char *problem, int64_t pause_ns)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err err = { 0 };

	if (s->unbegun) {
		str_addf(&text, "it could not begin, try %u of %d, the next one in %lld s: %s",
			 s->unbegun, UNBEGUN_MAX, (long long)(pause_ns / NS_PER_S),
			 problem ? problem : "its engine ends before the run begins");
		event(EVENT_WARNING, "run-not-begun", "{s:s, s:s, s:o}", "project",
		      s->project->name, "run", s->run, "message", json_name(text.s, text.len));
	} else {
		str_addf(&text, "%s; the next try in %lld s", problem ? problem : "its engine died",
			 (long long)(pause_ns / NS_PER_S));
	}
	if (served_run_wait(s->project->db, s->run, s->unbegun, text.s, &err) < 0)
		event_err("run-waits", s->run, &err);
}

static void on_end(void *arg, const struct launch_end *end)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct served *s = arg;
	struct run_row row;
	struct err err = { 0 };
	int64_t pause;

	s->launch = NULL;
	if (record_find_run(s->project->db, s->run, arena, &row, &err) < 0) {
		if (err.code == ERR_NOT_FOUND) {
			event_err("run-lost", s->run, &err);
			forget(s);
			return;
		}
		/* Look again later, and resume the run if needed. */
		event_err("run-not-looked-up", s->run, &err);
		s->due_ns = daemon_mono_ns(s->d) + PAUSE_MIN_NS;
		return;
	}
	if (row.state != RUN_RUNNING && row.state != RUN_INTERRUPTED) {
		forget(s);
		return;
	}
	s->unbegun = end->run || end->signo ? 0 : s->unbegun + 1;
	if (s->unbegun >= UNBEGUN_MAX) {
		give_up(s, end->problem ? end->problem : "its engine ends before the run begins");
		return;
	}
	pause = backoff_ns(PAUSE_MIN_NS, PAUSE_MAX_NS, ++s->tries);
	s->due_ns = daemon_mono_ns(s->d) + pause;
	report_wait(s, end->problem, pause);
}

/* An engine may outlive the last server, and goes on by itself. */
static bool is_alive(struct served *s)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_row row;

	if (record_find_run(s->project->db, s->run, arena, &row, NULL) < 0)
		return false;
	return record_run_engine(&row) == RUN_ENGINE_LIVES ||
	       record_run_engine(&row) == RUN_ENGINE_ELSEWHERE;
}

void served_poll(struct daemon *d)
{
	size_t room = d->o->max_runs ? d->o->max_runs : RUNS_AT_ONCE,
	       out = launches_running(d->runs.launches);
	int64_t now = daemon_mono_ns(d);

	if (atomic_load(&d->phase) != DAEMON_SERVING)
		return;
	for (struct served *s = d->runs.served; s && out < room; s = s->next) {
		const char *argv[] = { "resume", "-q", "--json", s->run, NULL };
		const struct launch_options o = { .project = s->project,
						  .what = s->run,
						  .args = argv,
						  .on_end = on_end,
						  .arg = s };
		struct err err = { 0 };

		if (s->launch || s->due_ns > now)
			continue;
		if (is_alive(s)) {
			s->due_ns = now + PAUSE_MIN_NS;
		} else if (launch_start(d->runs.launches, &o, &s->launch, &err) < 0) {
			event_err("run-not-started", s->run, &err);
			s->due_ns = now + PAUSE_MIN_NS;
		} else {
			out++;
		}
	}
}

/* All runs. */

int served_adopt(struct daemon *d, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	for (size_t i = 0; i < d->n_projects; i++) {
		struct served_run *runs;
		size_t n;

		if (served_runs(d->projects[i]->db, arena, &runs, &n, err) < 0)
			return err_wrap(err, "%s", d->projects[i]->root);
		for (size_t k = n; k-- > 0;) { /* oldest first */
			if (runs[k].has_died &&
			    served_run_wait(d->projects[i]->db, runs[k].id, runs[k].unbegun,
					    "its engine died", err) < 0)
				return -1;
			if (add(d, d->projects[i], runs[k].id, runs[k].unbegun))
				event(EVENT_INFO, "run-taken-up", "{s:s, s:s}", "project",
				      d->projects[i]->name, "run", runs[k].id);
		}
	}
	return 0;
}

void served_add(struct daemon *d, struct project *p, const char *run)
{
	add(d, p, run, 0);
	served_poll(d);
}

int served_cancel(struct daemon *d, struct project *p, const char *run, struct err *err)
{
	for (struct served *s = d->runs.served; s; s = s->next) {
		if (s->project != p || !str_eq(s->run, run) || s->launch || is_alive(s))
			continue;
		if (served_run_end(p->db, run, RUN_CANCELLED, NULL, err) < 0)
			return -1;
		forget(s);
		return 1;
	}
	return 0;
}

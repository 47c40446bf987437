/* runners/fake_world.c — a durable runner that executes nothing: Jobs live in a world of their own,
 * on the virtual clock.
 *
 * It does what runners/kubernetes does, in the same order and with the same blind spots. Jobs are
 * made at the end of a turn and named after their first attempt. A runner knows the Jobs that it
 * made; it learns of others only from a list (list_done()). A Job is deleted when the ends of all
 * its attempts are on record (sweep()).
 *
 * The world holds Jobs, and each Job its programs. Their ends are decided when the Job is made. A
 * runner holds members: the attempts that its engine waits for, each in one Job or in none yet.
 * Delays and messages come from `dice`, so that one seed gives one history.
 *
 * `alive` is checked before and after every effect, because a dead engine must not change anything.
 * Everything is on the loop's thread.
 */
#include "base/map.h"
#include "base/mem.h"
#include "runners/runner.h"

/* The program of an attempt. Those of one Job run one after the other. */
struct program {
	uint64_t id;
	enum failure_class failure;
	int64_t started_ns, ended_ns;
	struct content_id *outputs;
	char *metrics_json;
};

struct job {
	VEC(struct program) programs;
	int64_t ended_ns;
	unsigned maker; /* the runner that made it, which knows it without a list */
	bool gone;      /* deleted: only members that waited for its end then still get it */
};

struct runner_fake_world {
	struct clock *clock;
	struct runner_fake_options o;
	VEC(struct job *) jobs;
	struct map *executions; /* attempt id → number */
	uint64_t dice;
	unsigned n_runners;
};

/* An attempt that the engine waits for. */
struct member {
	struct durable *d;
	const struct runner_attempt *a;
	struct job *job; /* NULL: in none yet */
	struct loop_source *timer;
	bool cancelled;
	struct member *next;
};

struct durable {
	struct runner base;
	struct loop *loop;
	struct runner_fake_world *world;
	unsigned number;        /* of this runner, from 1 */
	struct member *members; /* the newest first */
	struct map *done;       /* attempt id: its end is on record */
	struct loop_source *flusher, *lister;
	bool reported; /* that attempts existed before */
	bool listed, listing;
};

static struct durable *durable_of(struct runner *r)
{
	return CONTAINER_OF(r, struct durable, base);
}

/* The world. */

static unsigned roll(struct runner_fake_world *w, unsigned n)
{
	w->dice = (w->dice ^ w->dice >> 29) * 0xbf58476d1ce4e5b9ULL + 0x9e3779b97f4a7c15ULL;
	return (unsigned)(w->dice >> 33) % n;
}

static struct program *program_in(const struct job *j, uint64_t id)
{
	for (size_t i = 0; i < j->programs.n; i++)
		if (j->programs.v[i].id == id)
			return &j->programs.v[i];
	return NULL;
}

static void job_free(struct job *j)
{
	for (size_t i = 0; i < j->programs.n; i++) {
		free(j->programs.v[i].outputs);
		free(j->programs.v[i].metrics_json);
	}
	VEC_FREE(&j->programs);
	free(j);
}

static void execute(struct runner_fake_world *w, struct job *j, const struct runner_attempt *a)
{
	void **n = map_slot(w->executions, &a->id, sizeof(a->id), NULL);
	struct program p = { .id = a->id, .started_ns = j->ended_ns };
	int64_t duration = NS_PER_S;

	*n = (void *)((uintptr_t)*n + 1);
	p.outputs = xcalloc(a->n_outputs + 1, sizeof(*p.outputs));
	if (w->o.script)
		w->o.script(w->o.arg, a, &p.failure, &duration, p.outputs, &p.metrics_json);
	j->ended_ns = p.ended_ns = p.started_ns + duration;
	VEC_PUSH(&j->programs, p);
}

static struct job *job_named(struct runner_fake_world *w, uint64_t first)
{
	for (size_t i = 0; i < w->jobs.n; i++)
		if (!w->jobs.v[i]->gone && w->jobs.v[i]->programs.v[0].id == first)
			return w->jobs.v[i];
	return NULL;
}

static struct job *job_with(struct runner_fake_world *w, uint64_t id)
{
	for (size_t i = 0; i < w->jobs.n; i++)
		if (!w->jobs.v[i]->gone && program_in(w->jobs.v[i], id))
			return w->jobs.v[i];
	return NULL;
}

/* Ends. */

static bool alive(const struct durable *d)
{
	return !d->world->o.alive || d->world->o.alive(d->world->o.arg);
}

static void member_free(struct member *m)
{
	for (struct member **at = &m->d->members; *at; at = &(*at)->next)
		if (*at == m) {
			*at = m->next;
			break;
		}
	loop_remove(m->d->loop, m->timer);
	free(m);
}

static void report(struct member *m, const struct program *p)
{
	struct durable *d = m->d;
	struct clock *c = d->world->clock;
	struct runner_result r = { .failure = FAILURE_LOST,
				   .exit_status = -1,
				   .started_ns = c->wall_ns(c),
				   .ended_ns = c->wall_ns(c),
				   .node = "fake" };

	if (p && p->ended_ns <= c->wall_ns(c)) {
		r = (struct runner_result){ .failure = p->failure,
					    .started_ns = p->started_ns,
					    .ended_ns = p->ended_ns,
					    .outputs = p->outputs,
					    .metrics_json = p->metrics_json,
					    .node = "fake" };
		r.exit_status = p->failure == FAILURE_NONE     ? 0
				: p->failure == FAILURE_FAILED ? 1
							       : -1;
	}
	if (m->cancelled && r.failure != FAILURE_NONE)
		r.failure = FAILURE_CANCELLED;
	if (r.failure != FAILURE_NONE)
		err_set(&r.err, ERR_FAILED, "fake failure: %s", failure_class_name(r.failure));
	d->base.events.finished(d->base.events.arg, m->a->id, &r);
	member_free(m);
}

static void on_end(void *arg)
{
	struct member *m = arg;

	m->timer = NULL;
	if (alive(m->d))
		report(m, m->job ? program_in(m->job, m->a->id) : NULL);
}

static bool all_done(const struct durable *d, const struct job *j)
{
	for (size_t i = 0; i < j->programs.n; i++)
		if (!map_has(d->done, &j->programs.v[i].id, sizeof(j->programs.v[i].id)))
			return false;
	return true;
}

static bool is_awaited(const struct durable *d, const struct job *j)
{
	for (const struct member *m = d->members; m; m = m->next)
		if (m->job == j)
			return true;
	return false;
}

static void sweep(struct durable *d, bool all)
{
	for (size_t i = d->world->jobs.n; i-- > 0;) {
		struct job *j = d->world->jobs.v[i];

		if ((all || j->maker == d->number) && all_done(d, j) && !is_awaited(d, j) &&
		    alive(d)) {
			d->world->jobs.v[i] = d->world->jobs.v[--d->world->jobs.n];
			job_free(j);
		}
	}
}

/* Making Jobs. */

static bool alike(const struct runner_attempt *a, const struct runner_attempt *b)
{
	return str_eq(a->on.step, b->on.step) && a->on.pack == b->on.pack &&
	       a->on.gang.nodes <= 1 && b->on.gang.nodes <= 1;
}

static void await_end(struct member *m, struct job *j)
{
	struct durable *d = m->d;
	const struct program *p = program_in(j, m->a->id);

	m->job = j;
	if (d->base.events.waiting)
		d->base.events.waiting(d->base.events.arg, m->a->id, NULL);
	if (p)
		d->base.events.started(d->base.events.arg, m->a->id, p->started_ns, 0);
	m->timer = loop_add_timer(d->loop, j->ended_ns, on_end, m);
}

/* It has no Job yet. A cancelled one gets none: its end will be reported soon. */
static bool is_held(const struct member *m)
{
	return !m->job && !m->cancelled;
}

/* Makes a Job for `first` and for the members that may share it. */
static void make(struct durable *d, struct member *first)
{
	struct runner_fake_world *w = d->world;
	struct member *v[16] = { first };
	uint32_t n = 1, max = MIN(MAX(first->a->on.pack, 1u), (uint32_t)ARRAY_LEN(v));
	struct job *j = job_named(w, first->a->id);

	for (struct member *m = d->members; m && n < max; m = m->next)
		if (m != first && is_held(m) && alike(m->a, first->a) &&
		    !(d->listed && job_with(w, m->a->id)))
			v[n++] = m;
	if (!alive(d))
		return;
	if (!j) { /* no second Job of this name is made */
		j = xcalloc(1, sizeof(*j));
		j->maker = d->number;
		j->ended_ns = w->clock->wall_ns(w->clock) + roll(w, 3) * NS_PER_S;
		for (uint32_t i = 0; i < n; i++)
			execute(w, j, v[i]->a);
		VEC_PUSH(&w->jobs, j);
	}
	for (uint32_t i = 0; i < n && alive(d); i++)
		await_end(v[i], j);
}

static struct member *oldest_held(const struct durable *d)
{
	struct member *oldest = NULL;

	for (struct member *m = d->members; m; m = m->next)
		if (is_held(m))
			oldest = m;
	return oldest;
}

static void place_all(struct durable *d)
{
	struct member *m;

	if (d->reported && !d->listed)
		return;
	while ((m = oldest_held(d)) && alive(d)) {
		struct job *j = d->listed ? job_with(d->world, m->a->id) : NULL;

		j ? await_end(m, j) : make(d, m);
	}
}

static void flush(void *arg)
{
	struct durable *d = arg;

	d->flusher = NULL;
	place_all(d);
}

static void list_done(void *arg)
{
	struct durable *d = arg;

	d->lister = NULL;
	d->listed = true;
	place_all(d);
	sweep(d, true);
}

static void look_around(struct durable *d)
{
	struct clock *c = d->world->clock;

	if (d->listing)
		return;
	d->listing = true;
	d->lister = loop_add_timer(d->loop, c->mono_ns(c) + roll(d->world, 100) * NS_PER_MS,
				   list_done, d);
}

/* The engine's calls. */

static int durable_submit(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	struct durable *d = durable_of(r);
	struct clock *c = d->world->clock;
	struct member *m;

	if (!alive(d))
		return 0;
	for (m = d->members; m; m = m->next)
		if (m->a->id == a->id)
			return 0;
	look_around(d);
	m = xcalloc(1, sizeof(*m));
	*m = (struct member){ .d = d, .a = a, .next = d->members };
	d->members = m;
	if (d->base.events.waiting && roll(d->world, 2))
		d->base.events.waiting(d->base.events.arg, a->id, "no node has room");
	if (roll(d->world, 4) == 0) /* an impatient one */
		place_all(d);
	else if (!d->flusher)
		d->flusher = loop_add_timer(d->loop, c->mono_ns(c) + roll(d->world, 10) * NS_PER_MS,
					    flush, d);
	return 0;
}

static int durable_adopt(struct runner *r, const struct runner_attempt *a, struct err *err)
{
	struct durable *d = durable_of(r);

	d->reported = true;
	look_around(d);
	return 1;
}

static void durable_settled(struct runner *r, uint64_t attempt_id)
{
	struct durable *d = durable_of(r);

	if (!alive(d))
		return;
	*map_slot(d->done, &attempt_id, sizeof(attempt_id), NULL) = d;
	sweep(d, d->listed);
}

static bool all_cancelled(const struct durable *d, const struct job *j)
{
	for (const struct member *m = d->members; m; m = m->next)
		if (m->job == j && !m->cancelled)
			return false;
	return true;
}

static void durable_cancel(struct runner *r, uint64_t attempt_id, bool gentle)
{
	struct durable *d = durable_of(r);
	struct clock *c = d->world->clock;
	int64_t now = c->wall_ns(c);
	struct job *j;
	struct member *m = d->members;

	while (m && m->a->id != attempt_id)
		m = m->next;
	if (!m || m->cancelled || !alive(d))
		return;
	m->cancelled = true;
	j = m->job;
	if (j && !all_cancelled(d, j))
		return;
	/* Members that wait for the Job get their ends now; ended programs keep theirs. */
	for (size_t i = 0; j && i < j->programs.n; i++)
		if (j->programs.v[i].ended_ns > now) {
			j->programs.v[i].failure = FAILURE_CANCELLED;
			j->programs.v[i].ended_ns = now;
		}
	if (j) {
		j->ended_ns = MIN(j->ended_ns, now);
		j->gone = true;
	}
	for (struct member *o = d->members; o; o = o->next)
		if (o == m || (j && o->job == j)) {
			loop_remove(d->loop, o->timer);
			o->timer = loop_add_timer(d->loop, c->mono_ns(c), on_end, o);
		}
}

static void durable_free(struct runner *r)
{
	struct durable *d = durable_of(r);

	while (d->members)
		member_free(d->members);
	loop_remove(d->loop, d->flusher);
	loop_remove(d->loop, d->lister);
	if (d->reported && !d->listed)
		sweep(d, true);
	map_free(d->done);
	free(d);
}

static const struct runner_ops durable_ops = { .name = "fake",
					       .durable = true,
					       .submit = durable_submit,
					       .adopt = durable_adopt,
					       .settled = durable_settled,
					       .forget = durable_settled,
					       .cancel = durable_cancel,
					       .free = durable_free };

int runner_fake_durable_new(struct loop *l, struct runner_fake_world *w, struct runner **ret,
			    struct err *err)
{
	struct durable *d = xcalloc(1, sizeof(*d));

	d->base.ops = &durable_ops;
	d->loop = l;
	d->world = w;
	d->number = ++w->n_runners;
	d->done = map_new();
	*ret = &d->base;
	return 0;
}

/* The world's functions. */

struct runner_fake_world *runner_fake_world_new(struct clock *c,
						const struct runner_fake_options *o)
{
	struct runner_fake_world *w = xcalloc(1, sizeof(*w));

	w->clock = c;
	w->o = *o;
	w->dice = o->seed;
	w->executions = map_new();
	return w;
}

void runner_fake_world_free(struct runner_fake_world *w)
{
	if (!w)
		return;
	for (size_t i = 0; i < w->jobs.n; i++)
		job_free(w->jobs.v[i]);
	VEC_FREE(&w->jobs);
	map_free(w->executions);
	free(w);
}

size_t runner_fake_world_jobs(const struct runner_fake_world *w)
{
	size_t n = 0;

	for (size_t i = 0; i < w->jobs.n; i++)
		n += !w->jobs.v[i]->gone;
	return n;
}

unsigned runner_fake_world_executions(const struct runner_fake_world *w, uint64_t attempt_id)
{
	return (unsigned)(uintptr_t)map_get(w->executions, &attempt_id, sizeof(attempt_id));
}

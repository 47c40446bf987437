/* engine/serve/api/run/views.c — views of runs, kept for the next request.
 *
 * A list, the last used one first, with a count of the requests that use each. A view that is
 * dropped from the list lives until its last request returns it. Two mutexes: `lock` for the list,
 * held for moments; `making`, held while a view is made, so that the memory for making one is
 * taken once, and requests for the same run wait for one view instead of making two.
 *
 * Invariants: a view is found only for the run's present row: its state, its end, its engine. One
 * of a run without a results table is VIEWS_LIVE_NS old at most.
 *
 * Threads: any.
 */
#include "serve/api/run/views.h"
#include "base/time/clock.h"

struct kept_view {
	const struct project *project;
	struct run_view *v;
	struct arena *arena;
	struct view_need *needs;
	bool *critical;
	const struct view_task *const *path; /* the critical path, from its end */
	size_t n_path;
	int64_t made_ns; /* monotonic */
	unsigned users;
	bool in_list;
	struct kept_view *next;
};

struct views {
	pthread_mutex_t lock;    /* protects the list */
	pthread_mutex_t making;  /* held while a view is made */
	struct kept_view *first; /* the last used one first */
};

struct views *api_views_new(void)
{
	struct views *vs = xcalloc(1, sizeof(*vs));

	pthread_mutex_init(&vs->lock, NULL);
	pthread_mutex_init(&vs->making, NULL);
	return vs;
}

static void free_kept(struct kept_view *k)
{
	view_free(k->v);
	arena_free(k->arena);
	free(k);
}

void api_views_free(struct views *vs)
{
	struct kept_view *next;

	if (!vs)
		return;
	for (struct kept_view *k = vs->first; k; k = next) {
		next = k->next;
		free_kept(k);
	}
	pthread_mutex_destroy(&vs->lock);
	pthread_mutex_destroy(&vs->making);
	free(vs);
}

static bool is_of(const struct kept_view *k, const struct project *p, const struct run_row *run)
{
	const struct run_row *r = &k->v->run;

	return k->project == p && r->rowid == run->rowid && r->state == run->state &&
	       r->ended_ns == run->ended_ns && r->engine.pid == run->engine.pid &&
	       (run->results.kind || clock_mono_ns() - k->made_ns < VIEWS_LIVE_NS);
}

/* Out of the list, which keeps nobody's view alive. With the lock. */
static void drop(struct views *vs, struct kept_view *k)
{
	for (struct kept_view **at = &vs->first; *at; at = &(*at)->next)
		if (*at == k) {
			*at = k->next;
			break;
		}
	k->in_list = false;
	if (k->users == 0)
		free_kept(k);
}

/* With the lock. */
static struct kept_view *find(struct views *vs, const struct project *p, const struct run_row *run)
{
	struct kept_view *next, *found = NULL;

	for (struct kept_view *k = vs->first; k; k = next) {
		next = k->next;
		if (k->project != p || k->v->run.rowid != run->rowid)
			continue;
		if (is_of(k, p, run))
			found = k;
		else
			drop(vs, k);
	}
	if (found)
		found->users++;
	return found;
}

/* With the lock. Drops what no longer has room. A view that is too large alone isn't kept. */
static void keep(struct views *vs, struct kept_view *k)
{
	size_t n = 0, tasks = 0;
	struct kept_view *next;

	if (k->v->n_tasks > VIEWS_TASKS_MAX)
		return;
	k->in_list = true;
	k->next = vs->first;
	vs->first = k;
	for (struct kept_view *at = vs->first; at; at = next) {
		next = at->next;
		tasks += at->v->n_tasks;
		if (++n > VIEWS_MAX || tasks > VIEWS_TASKS_MAX)
			drop(vs, at);
	}
}

static struct kept_view *make(struct api *a, const struct run_row *run)
{
	struct kept_view *k;
	struct run_view *v;
	struct store *s = NULL;
	struct err err = { 0 };

	if ((project_store(a->project, &s, &err) < 0 && run->results.kind) ||
	    view_open(a->db, s, a->project->config->state_dir, run, &v, &err) < 0) {
		web_problem_err(a->x, &err);
		return NULL;
	}
	k = xcalloc(1, sizeof(*k));
	*k = (struct kept_view){ .project = a->project, .v = v, .arena = arena_new(), .users = 1 };
	k->needs = view_needs(v, k->arena);
	k->critical = arena_alloc(k->arena, v->n_tasks + 1);
	k->n_path = view_critical(v, k->needs, k->arena, &k->path);
	for (size_t i = 0; i < k->n_path; i++)
		k->critical[k->path[i] - v->tasks] = true;
	k->made_ns = clock_mono_ns();
	return k;
}

static struct kept_view *find_locked(struct views *vs, struct api *a, const struct run_row *run)
{
	struct kept_view *k;

	pthread_mutex_lock(&vs->lock);
	k = find(vs, a->project, run);
	pthread_mutex_unlock(&vs->lock);
	return k;
}

bool api_view(struct api *a, struct viewed *ret)
{
	struct run_row run;

	*ret = (struct viewed){ .a = a };
	return api_run(a, &run) && api_view_of(a, &run, ret);
}

bool api_view_of(struct api *a, const struct run_row *run, struct viewed *ret)
{
	struct views *vs = a->d->http.views;
	struct kept_view *k;

	*ret = (struct viewed){ .a = a };
	k = find_locked(vs, a, run);
	if (!k) {
		pthread_mutex_lock(&vs->making);
		k = find_locked(vs, a, run); /* another request may have made it meanwhile */
		if (!k && (k = make(a, run))) {
			pthread_mutex_lock(&vs->lock);
			keep(vs, k);
			pthread_mutex_unlock(&vs->lock);
		}
		pthread_mutex_unlock(&vs->making);
	}
	if (!k)
		return false;
	*ret = (struct viewed){ a, k->v, k->needs, k->critical, k->path, k->n_path, k };
	return true;
}

void api_view_return(struct viewed *v)
{
	struct views *vs;

	if (!v->kept)
		return;
	vs = v->a->d->http.views;
	pthread_mutex_lock(&vs->lock);
	if (--v->kept->users == 0 && !v->kept->in_list)
		free_kept(v->kept);
	pthread_mutex_unlock(&vs->lock);
	v->kept = NULL;
}

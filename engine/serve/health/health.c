/* engine/serve/health/health.c — a thread that checks each project's database and store, and the
 * bounded wait for its result.
 *
 * Checks are counted: callers raise `asked`, the thread raises `begun` and `ended`. wait_for_look()
 * requests a check that begins now and waits until `ended` has reached its number. One check serves
 * all callers who asked before it began. When the current check has hung for longer than
 * HEALTH_WAIT_NS, nobody waits at all. Then `found` is the answer while it is younger than
 * HEALTH_KEPT_NS; after that the answer names the item at which the check hangs (`at`).
 *
 * Invariants: no database and no store is touched under `lock`. `found` is replaced whole and
 * copied out, never lent.
 *
 * Threads: one of its own, and any that ask. Not here: the HTTP answer (api/health.c).
 */
#include "serve/health/health.h"

#include <string.h>
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "record/run_query.h"
#include "serve/internal.h"

struct health {
	struct daemon *d;
	struct threads threads;       /* one; its lock protects the fields below */
	uint64_t asked, begun, ended; /* numbers of checks */
	int64_t begun_ns;
	char at[128];  /* the item that is being checked */
	json_t *found; /* result of the last check, never shared; NULL: none yet */
	int64_t found_ns;
};

void health_add_check(json_t *checks, const char *name, bool ok, const char *detail, bool *all)
{
	json_t *o = json_object();

	json_object_set_new(o, "name", json_string(name));
	json_object_set_new(o, "ok", json_boolean(ok));
	json_object_set_new(o, "detail", detail ? json_name(detail, strlen(detail)) : json_null());
	json_array_append_new(checks, o);
	*all = *all && ok;
}

/* The thread. */

static void look_at(struct health *h, const char *what, const struct project *p)
{
	pthread_mutex_lock(&h->threads.lock);
	snprintf(h->at, sizeof(h->at), "%s of %.80s", what, p->name);
	pthread_mutex_unlock(&h->threads.lock);
}

static void look_at_project(struct health *h, struct project *p, json_t *found)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct err db_err = { 0 }, store_err = { 0 };
	const struct run_query newest = { .limit = 1 };
	struct run_row *rows;
	struct store *s;
	struct db *db = NULL;
	bool ok, all = true;
	size_t n;

	look_at(h, "database", p);
	ok = project_reader(p, &db, &db_err) == 0 &&
	     record_query_runs(db, &newest, arena, &rows, &n, &db_err) == 0;
	project_reader_return(p, db);
	health_add_check(found, h->at, ok, ok ? NULL : db_err.msg, &all);
	look_at(h, "store", p);
	/* A missing store is fine: the first run makes it. */
	ok = project_store(p, &s, &store_err) == 0 || store_err.code == ERR_NOT_FOUND;
	health_add_check(found, h->at, ok, store_err.code ? store_err.msg : NULL, &all);
}

static void *run(void *arg)
{
	struct health *h = arg;

	pthread_mutex_lock(&h->threads.lock);
	while (!h->threads.ending) {
		json_t *found;

		if (h->begun == h->asked) {
			pthread_cond_wait(&h->threads.changed, &h->threads.lock);
			continue;
		}
		h->begun = h->asked;
		h->begun_ns = clock_mono_ns();
		pthread_mutex_unlock(&h->threads.lock);
		found = json_array();
		for (size_t i = 0; i < h->d->n_projects; i++)
			look_at_project(h, h->d->projects[i], found);
		pthread_mutex_lock(&h->threads.lock);
		json_decref(h->found);
		h->found = found;
		h->found_ns = clock_mono_ns();
		h->ended = h->begun;
		pthread_cond_broadcast(&h->threads.changed);
	}
	pthread_mutex_unlock(&h->threads.lock);
	return NULL;
}

/* Callers. */

/* Call it with `lock` held. False: the check takes too long to wait for. */
static bool wait_for_look(struct health *h)
{
	uint64_t wanted = ++h->asked;
	int64_t until_ns = clock_mono_ns() + HEALTH_WAIT_NS;
	struct timespec until = { .tv_sec = until_ns / NS_PER_S, .tv_nsec = until_ns % NS_PER_S };

	pthread_cond_broadcast(&h->threads.changed);
	if (h->begun != h->ended && clock_mono_ns() - h->begun_ns > HEALTH_WAIT_NS)
		return false; /* the check hangs: don't wait a second time */
	while (h->ended < wanted)
		if (pthread_cond_timedwait(&h->threads.changed, &h->threads.lock, &until) != 0)
			return false;
	return true;
}

void health_add_projects(struct health *h, json_t *checks, bool *all)
{
	json_t *one;
	size_t i;

	pthread_mutex_lock(&h->threads.lock);
	if (wait_for_look(h) || (h->found && clock_mono_ns() - h->found_ns < HEALTH_KEPT_NS)) {
		json_array_foreach(h->found, i, one)
		{
			json_array_append_new(checks, json_deep_copy(one));
			*all = *all && json_is_true(json_object_get(one, "ok"));
		}
	} else {
		char text[64];

		snprintf(text, sizeof(text), "no answer for %lld s",
			 (long long)((clock_mono_ns() - h->begun_ns) / NS_PER_S));
		health_add_check(checks, h->at, false, text, all);
	}
	pthread_mutex_unlock(&h->threads.lock);
}

/* Start and end. */

int health_new(struct daemon *d, struct health **ret, struct err *err)
{
	struct health *h = xcalloc(1, sizeof(*h));

	h->d = d;
	snprintf(h->at, sizeof(h->at), "projects");
	threads_init(&h->threads);
	if (threads_start(&h->threads, run, h, err) < 0) {
		health_free(h);
		return -1;
	}
	*ret = h;
	return 0;
}

void health_free(struct health *h)
{
	if (!h)
		return;
	threads_deinit(&h->threads);
	json_decref(h->found);
	free(h);
}

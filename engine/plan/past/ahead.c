/* engine/plan/past/ahead.c — looks at the last run's content while the pipeline is still read.
 *
 * Most runs change nothing. Then the plan stands (standing.c), and what takes the longest is to
 * look whether thousands of results are there. That needs the last run's table, but nothing of the
 * pipeline. So a thread begins with it as soon as the pipeline's path is known.
 *
 * Invariants: it guesses which table the plan will ask for; a wrong guess, or any failure here,
 * only means that the plan looks for itself. It is begun after the store was told of its user
 * (store_use()), so that what it found stays.
 *
 * Threads: one of its own, which has the store and nothing else of the caller's.
 */
#include <pthread.h>
#include <stdatomic.h>
#include "base/os/thread.h"
#include "plan/internal.h"
#include "record/rows/runs.h"

struct plan_ahead {
	struct store *store;
	struct content_id table;
	pthread_t thread;
	bool runs;
	atomic_bool stop;
	/* The thread's, until it was joined. */
	struct results *results;
	struct run_counts counts;
	int good; /* as of standing_count() */
};

static void *look(void *arg)
{
	struct plan_ahead *a = arg;
	struct err ignored = { 0 };

	if (results_open(a->store, &a->table, &a->results, &ignored) == 0)
		a->good = standing_count(a->store, a->results, &a->table, &a->stop, &a->counts,
					 &ignored);
	return NULL;
}

struct plan_ahead *plan_ahead_begin(struct store *s, struct db *db, const char *path,
				    uint64_t min_bytes)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct plan_ahead *a;
	struct err ignored = { 0 };
	struct run_row last;

	if (record_last_results_of(db, path, arena, &last, &ignored) <= 0 ||
	    !last.has_plan_digest || last.results.size_bytes < min_bytes)
		return NULL;
	a = xcalloc(1, sizeof(*a));
	a->store = s;
	a->table = last.results;
	a->good = -1;
	a->runs = thread_start(&a->thread, NULL, look, a) == 0;
	return a;
}

static void end(struct plan_ahead *a)
{
	if (a->runs)
		pthread_join(a->thread, NULL);
	a->runs = false;
}

struct results *ahead_take(struct plan_ahead *a, const struct run_row *last, bool may_stand,
			   struct run_counts *ret, int *ret_good)
{
	*ret_good = -1;
	if (!a || !digest_eq(&a->table.digest, &last->results.digest))
		return NULL;
	atomic_store(&a->stop, !may_stand);
	end(a);
	if (a->results && may_stand) {
		*ret = a->counts;
		*ret_good = a->good;
	}
	return TAKE_PTR(a->results);
}

void plan_ahead_free(struct plan_ahead *a)
{
	if (!a)
		return;
	atomic_store(&a->stop, true);
	end(a);
	results_free(a->results);
	free(a);
}

/* The request is written to the database. Then a signal makes the engine read it. */
#include "run/cancel.h"
#include <errno.h>
#include <signal.h>
#include "base/os/process/process.h"
#include "base/time/clock.h"
#include "record/facts.h"
#include "run/project/cluster.h"
#include "run/run.h"
#include "runners/kubernetes/runner.h"

/* Short, because somebody waits for the answer. */
#define RETRY_FOR_NS (20 * NS_PER_S)

/* The pid may belong to another process by now, so the start time is compared too. The row isn't
 * trusted: kill(0) and kill(-1) reach far more than an engine, and the start time of a missing
 * process reads as 0. An engine that gets no signal finds the request by itself, or is gone. */
static int signal_engine(const struct run_row *r, bool now)
{
	if (r->engine.pid <= 1 || r->engine.start == 0 ||
	    process_start_time(r->engine.pid) != r->engine.start)
		return 0;
	if (kill(r->engine.pid, SIGTERM) == 0 && (!now || kill(r->engine.pid, SIGINT) == 0))
		return 0;
	return errno == EPERM ? -1 : 0;
}

int run_cancel(struct db *db, const struct run_row *r, bool now, struct err *err)
{
	if (r->state != RUN_RUNNING)
		return err_set(err, ERR_INVALID, "run %s is not running: it is %s", r->id,
			       facts_state(r));
	switch (record_run_engine(r)) {
	case RUN_ENGINE_ELSEWHERE:
		return err_set(err, ERR_INVALID,
			       "run %s was started on %s; cancel it there, or, if that machine is "
			       "gone, go on with it here: `cairn resume %s`",
			       r->id, r->engine.host, r->id);
	case RUN_ENGINE_DIED:
		return err_set(err, ERR_INVALID,
			       "the engine of run %s died: there is nothing to stop; `cairn resume "
			       "%s` goes on with the run",
			       r->id, r->id);
	default:
		break;
	}
	if (db_begin(db, err) < 0 ||
	    db_finish(db, record_run_request_cancel(db, r->rowid, now, err), err) < 0)
		return -1;
	return signal_engine(r, now) < 0
		       ? err_errno(err, "cannot signal the engine of run %s (process %d)", r->id,
				   r->engine.pid)
		       : 0;
}

static int close_attempts(struct db *db, const struct run_row *r, int64_t now_ns,
			  struct arena *arena, struct err *err)
{
	struct attempt_row *rows;
	size_t n;

	if (record_run_attempts(db, r->rowid, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (rows[i].ended_ns)
			continue;
		rows[i].ended_ns = now_ns;
		rows[i].failure = FAILURE_CANCELLED;
		rows[i].exit_status = -1;
		rows[i].message = "stopped on request";
		if (record_attempt_end(db, &rows[i], err) < 0)
			return -1;
	}
	return 0;
}

/* Called after the Jobs of a run whose engine died were deleted. Writes that the run and its
 * attempts have ended. ERR_BUSY when an engine has taken the run up again. */
static int run_cancel_dead(struct db *db, const struct run_row *r, int64_t now_ns,
			   struct arena *arena, struct err *err)
{
	struct run_row now;
	int result, found;

	if (db_begin(db, err) < 0)
		return -1;
	found = record_run_by_id(db, r->id, arena, &now, err);
	result = found != 0
			 ? MIN(found, 0)
			 : err_set(err, ERR_NOT_FOUND, "run %s is not on record any more", r->id);
	if (result == 0 && record_run_engine(&now) == RUN_ENGINE_LIVES)
		result = err_set(err, ERR_BUSY,
				 "run %s was taken up again meanwhile: cancel it once more", r->id);
	if (result == 0) {
		now.state = RUN_CANCELLED;
		now.ended_ns = now_ns;
		now.engine.pid = 0;
		now.message = "stopped on request";
		result = close_attempts(db, &now, now_ns, arena, err);
	}
	if (result == 0)
		result = record_run_update(db, &now, err);
	return db_finish(db, result, err);
}

bool run_has_only_jobs(const struct run_row *r)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	return (facts_engine_died(r) || r->state == RUN_INTERRUPTED) &&
	       str_eq(run_durable_runner(r->options_json, arena), "kubernetes");
}

int run_cancel_jobs(const struct config *c, struct db *db, const struct run_row *r, size_t *ret_n,
		    struct err *err)
{
	struct clock *clock = clock_system();
	struct cluster k;
	int result;

	if (cluster_open(c, r->options_json,
			 &(struct kube_client_options){ .retry_for_ns = RETRY_FOR_NS }, &k,
			 err) < 0)
		return -1;
	result = kube_delete_run(k.client, k.access.namespace_, k.profile.project, r->id, ret_n,
				 err);
	if (result == 0)
		result = run_cancel_dead(db, r, clock->wall_ns(clock), k.arena, err);
	cluster_close(&k);
	return result;
}

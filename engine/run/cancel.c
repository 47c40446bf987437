/* The request goes into the database, then the engine is told to look. */
#include <errno.h>
#include <signal.h>
#include "base/process.h"
#include "record/facts.h"
#include "run/cancel.h"

static int request(struct db *db, const struct run_row *r, bool now, struct err *err)
{
	if (db_begin(db, err) < 0)
		return -1;
	if (record_run_request_cancel(db, r->rowid, now, err) < 0) {
		db_rollback(db);
		return -1;
	}
	return db_commit(db, err);
}

/* The number could be another process's by now: its start time tells. A row can say anything: kill(0) and kill(-1) reach far more than an
 * engine, and a process that isn't there "started" at 0. An engine that can't be told finds the request by itself, or is gone. */
static int signal_engine(const struct run_row *r, bool now)
{
	if (r->pid <= 1 || r->pid_start == 0 || process_start_time(r->pid) != r->pid_start)
		return 0;
	if (kill(r->pid, SIGTERM) == 0 && (!now || kill(r->pid, SIGINT) == 0))
		return 0;
	return errno == EPERM ? -1 : 0;
}

int run_cancel(struct db *db, const struct run_row *r, bool now, struct err *err)
{
	if (r->state != RUN_RUNNING)
		return err_set(err, ERR_INVALID, "run %s is not running: it is %s", r->id, facts_state(r));
	switch (record_run_engine(r)) {
	case RUN_ENGINE_ELSEWHERE:
		return err_set(err, ERR_INVALID,
			       "no engine of this machine has run %s: it was started on %s; cancel it there, or, if that machine is gone, cairn resume %s takes it up here",
			       r->id, r->host ? r->host : "another one", r->id);
	case RUN_ENGINE_DIED:
		return err_set(err, ERR_INVALID, "the engine of run %s died: there is nothing to stop; cairn resume %s goes on", r->id, r->id);
	default:
		break;
	}
	if (request(db, r, now, err) < 0)
		return -1;
	return signal_engine(r, now) < 0 ? err_errno(err, "cannot signal the engine of run %s (process %d)", r->id, r->pid) : 0;
}

/* record/rows/takeover.h — a database whose engines are all gone: for a server that knows it is the
 * only one (it holds the Lease), since whether a process of another host lives can't be told from
 * here (record_run_engine() says ELSEWHERE), and pods have names of their own. */
#ifndef CAIRN_RECORD_ROWS_TAKEOVER_H
#define CAIRN_RECORD_ROWS_TAKEOVER_H

#include "record/rows/runs.h"

/* What other hosts' engines were running is interrupted, and what their servers had is nobody's.
 * What runs on this host is left alone. Makes its own transaction; *ret_runs: how many runs that
 * were. */
int record_take_over(struct db *db, const char *server, int64_t wall_ns, size_t *ret_runs,
		     struct err *err);

/* The engine of a run that says it is running is gone: the run is interrupted from now on, and
 * `why` (lent) is its message. In a transaction. */
int record_run_left(struct db *db, struct run_row *r, const char *why, int64_t wall_ns,
		    struct err *err);

#endif

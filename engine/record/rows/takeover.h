/* engine/record/rows/takeover.h — takes over a database whose engines are all gone. For a server
 * that holds the Lease and so knows that it is the only one: the database can't tell
 * whether a process of another host lives (record_run_engine() says ELSEWHERE), and each
 * pod has its own host name. */
#ifndef CAIRN_RECORD_ROWS_TAKEOVER_H
#define CAIRN_RECORD_ROWS_TAKEOVER_H

#include "record/rows/runs.h"

/* Marks runs of other hosts' engines as interrupted, and removes other servers as owners of firings
 * and notices. Runs on this host are left alone. Makes its own transaction; *ret_runs: how many
 * runs were interrupted. */
int record_take_over(struct db *db, const char *server, int64_t wall_ns, size_t *ret_runs,
		     struct err *err);

/* Marks a run in state running as interrupted, because its engine is gone. `why` (borrowed) becomes
 * its message. Call it in a transaction. */
int record_run_left(struct db *db, struct run_row *r, const char *why, int64_t wall_ns,
		    struct err *err);

#endif

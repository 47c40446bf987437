/* record/takeover.h — a database whose engines are all gone: for a server that knows it is the only one (it holds the Lease), since whether a process of another
 * host lives can't be told from here (record_run_engine() says ELSEWHERE), and pods have names of their own. */
#ifndef CAIRN_RECORD_TAKEOVER_H
#define CAIRN_RECORD_TAKEOVER_H

#include "record/db.h"

/* What other hosts' engines were running is interrupted, and what their servers had is nobody's. What runs on this host is left alone. Makes its own transaction;
 * *ret_runs: how many runs that were. */
int record_take_over(struct db *db, const char *server, int64_t wall_ns, size_t *ret_runs, struct err *err);

#endif

/* engine/serve/web/pool.h — threads that run jobs in the order in which they are submitted.
 *
 * A job itself reports its end. The pool forgets it before it begins, so that the job may free or
 * submit itself again. */
#ifndef CAIRN_SERVE_WEB_POOL_H
#define CAIRN_SERVE_WEB_POOL_H

#include "base/err.h"
#include "base/os/loop.h"

/* In the submitter's memory, which must stay until the job has run. */
struct web_job {
	loop_fn run;
	void *arg;
	struct web_job *next; /* the pool's */
};

struct web_pool;
int web_pool_new(unsigned n_threads, struct web_pool **ret, struct err *err);
/* Runs all submitted jobs, even those that jobs submit, then ends the threads. NULL is fine. */
void web_pool_free(struct web_pool *c);
/* Any thread, until web_pool_free(). */
void web_pool_submit(struct web_pool *c, struct web_job *job);

#endif

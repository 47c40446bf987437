/* serve/web/crew.h — threads that run jobs in the order in which they are submitted.
 *
 * A job itself reports its end. The crew forgets it before it begins, so that the job may free or
 * submit itself again. */
#ifndef CAIRN_SERVE_WEB_CREW_H
#define CAIRN_SERVE_WEB_CREW_H

#include "base/err.h"
#include "base/os/loop.h"

/* In the submitter's memory, which must stay until the job has run. */
struct crew_job {
	loop_fn run;
	void *arg;
	struct crew_job *next; /* the crew's */
};

struct crew;
int crew_new(unsigned n_threads, struct crew **ret, struct err *err);
/* Runs all submitted jobs, even those that jobs submit, then ends the threads. NULL is fine. */
void crew_free(struct crew *c);
/* Any thread, until crew_free(). */
void crew_submit(struct crew *c, struct crew_job *job);

#endif

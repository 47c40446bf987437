/* serve/web/crew.h — threads that do jobs in the order in which they come.
 *
 * A job says itself when it has ended, to whoever waits for it; the crew forgets it before it
 * begins, so that it may be freed, or submitted again, by what it does. */
#ifndef CAIRN_SERVE_WEB_CREW_H
#define CAIRN_SERVE_WEB_CREW_H

#include "base/err.h"
#include "base/os/loop.h"

/* In the memory of whoever submits it, which stays until the job has run. */
struct crew_job {
	loop_fn run;
	void *arg;
	struct crew_job *next; /* the crew's */
};

struct crew;
int crew_new(unsigned n_threads, struct crew **ret, struct err *err);
/* Does what was submitted, also by jobs, and ends the threads. NULL is fine. */
void crew_free(struct crew *c);
/* Any thread, until crew_free(). */
void crew_submit(struct crew *c, struct crew_job *job);

#endif

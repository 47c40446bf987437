/* steps/submit/submit.h — steps that hand their command to a cluster that exists already: ray.c and
 * spark.c, each a step of steps/spec. child.c runs the cluster's own programs.
 *
 * A submission's name comes from the engine (CAIRN_SUBMISSION) and is the same for all attempts of
 * a task in a run. So an attempt after a crash finds what the one before it submitted.
 *
 * One thread. SIGTERM and SIGINT are taken from submit_begin() on: they interrupt what runs, and
 * the step then ends its work on the cluster.
 */
#ifndef CAIRN_STEPS_SUBMIT_SUBMIT_H
#define CAIRN_STEPS_SUBMIT_SUBMIT_H

#include "base/mem.h"
#include "steps/step.h"

/* Blocks the signals in this thread, for good. */
void submit_begin(void);
/* The signal that asked us to stop; 0: none has. */
int submit_stopped(void);
/* Waits, or returns earlier when we are asked to stop. */
void submit_wait(int64_t ns);
/* The name of what is submitted. The caller frees it. */
char *submit_name(void);

struct submit_child {
	const char *const *argv; /* argv[0] is looked up in PATH; NULL-terminated */
	const char *const *env;  /* "NAME=value" beside ours, NULL-terminated; or NULL */
	/* Gets what it prints as it comes, standard error too. NULL: it all goes to `out`. */
	void (*printed)(void *arg, const char *bytes, size_t n);
	void *arg;
	struct str *out;    /* or NULL */
	bool ends_our_work; /* it isn't interrupted: it stops what runs on the cluster */
};
/* 0: it has ended, with an exit status, or 128 + a signal, in *ret_status. ERR_NOT_FOUND: no such
 * program. What it started in its process group gets our SIGTERM, too. */
int submit_run(const struct submit_child *c, int *ret_status, struct err *err);
/* The last line of a text that says something, for messages; lent, `*ret_len` bytes. */
const char *submit_last_line(const struct str *text, int *ret_len);

#endif

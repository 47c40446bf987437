/* engine/run/handover/handover.h — a run that one machine prepares and another one executes: `cairn
 * run
 * --detach`.
 *
 * The sender hands over what a run's start pins, and nothing else: the pipeline's files, params,
 * options, each input and each step's code as content, and the git facts. All content goes into the
 * shared store first, so that the receiver needs no checkout. The receiver writes a row as for a
 * run that was interrupted before its first task; `resume` continues it. Versions of tools aren't
 * handed over: they are read where the tasks run.
 *
 * A request has an id of its own: sent twice (because the answer got lost), it makes one run.
 */
#ifndef CAIRN_RUN_HANDOVER_HANDOVER_H
#define CAIRN_RUN_HANDOVER_HANDOVER_H

#include "base/text/json.h"
#include "run/run.h"

#define HANDOVER_INPUTS_MAX 20000
#define HANDOVER_NAME_MAX   4096

struct handover {
	const char *request;    /* 32 hexadecimal digits */
	const char *from_store; /* the sender's, for error messages */
	struct run_row row;
	struct run_input_row *inputs;
	size_t n_inputs;
};

/* For the sender: hashes, stores and pins the same as run_start(). Uses only config, db, store,
 * cache, steps_program and hash_threads of ctx. In `arena`. */
int handover_prepare(const struct run_context *ctx, const struct pipeline *p,
		     const struct run_options *o, struct arena *arena, struct handover *ret,
		     struct err *err);
/* When this returns 0, all content is where others can read it: in the shared store, or in the
 * store's directory. */
int handover_send(struct store *s, const struct handover *h, struct err *err);
json_t *handover_to_json(const struct handover *h);

/* For the receiver: the input is hostile. Checks the pipeline against its own rules, params against
 * the pipeline, content against `s` (ERR_NOT_FOUND when it is missing). ERR_INVALID names the wrong
 * member. In `arena`. */
int handover_from_json(const json_t *j, struct store *s, struct arena *arena, struct handover *ret,
		       struct err *err);
/* Makes the run's row, with its id in h->row, in a transaction of its own. Returns 1 when this
 * request has its run already; h->row is then that run. */
int handover_record(struct db *db, struct handover *h, struct arena *arena, struct err *err);

#endif

/* run/handover/handover.h — a run that one machine prepares and another one executes: `cairn run
 * --detach`.
 *
 * Handed over is what a run's start pins, and nothing else: the pipeline's files, params, options,
 * each input and each step's code as content, what git said. All content goes into the shared store
 * first, so that whoever takes the run needs no checkout; there it is a row like any run's, which
 * has been interrupted before its first task: `resume` goes on with it. What tools say of their
 * version isn't handed over: they are asked where the tasks run.
 *
 * A request has a name of its own: asked for twice (the answer got lost), there is one run.
 */
#ifndef CAIRN_RUN_HANDOVER_HANDOVER_H
#define CAIRN_RUN_HANDOVER_HANDOVER_H

#include "base/text/json.h"
#include "run/run.h"

#define HANDOVER_INPUTS_MAX 20000
#define HANDOVER_NAME_MAX   4096

struct handover {
	const char *request;    /* 32 hexadecimal digits */
	const char *from_store; /* the sender's, for the error */
	struct run_row row;
	struct run_input_row *inputs;
	size_t n_inputs;
};

/* The sender's side: hashes, stores and pins what run_start() would. Of ctx only config, db, store,
 * cache, steps_program and hash_threads are used. In `arena`. */
int handover_prepare(const struct run_context *ctx, const struct pipeline *p,
		     const struct run_options *o, struct arena *arena, struct handover *ret,
		     struct err *err);
/* All of its content is where others find it when this returns 0: in the shared store, or in the
 * directory that a store is. */
int handover_send(struct store *s, const struct handover *h, struct err *err);
json_t *handover_to_json(const struct handover *h);

/* The receiver's: hostile. Everything is checked: the pipeline against its own rules, params
 * against the pipeline, content against `s` (ERR_NOT_FOUND when it isn't there). ERR_INVALID says
 * which member is wrong. In `arena`. */
int handover_from_json(const json_t *j, struct store *s, struct arena *arena, struct handover *ret,
		       struct err *err);
/* Makes its row, with its id in h->row. Makes its own transaction. 1: this request has its run
 * already, which is h->row now. */
int handover_record(struct db *db, struct handover *h, struct arena *arena, struct err *err);

#endif

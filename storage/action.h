/* storage/action.h — action records: what a task's key gave.
 *
 * The record under a key is a claim by whoever executed the task; what it names is checked before
 * it is believed. The first record stays: a later execution under the same key that gave other
 * bytes is an observation beside it (nondeterminism), never a silent replacement. Canonical binary,
 * described in FORMAT.md; hostile when read.
 */
#ifndef CAIRN_STORAGE_ACTION_H
#define CAIRN_STORAGE_ACTION_H

#include "storage/content/content.h"

struct action_output {
	const char *name;
	struct content_id id;
};

struct action_record {
	struct digest key;
	struct content_id key_record;  /* blob: the bytes whose digest is the key, so that `why`
					  works anywhere */
	struct action_output *outputs; /* sorted by name */
	size_t n_outputs;
	struct content_id
		metrics;       /* blob with the step's flattened metrics (JSON), or CONTENT_NONE */
	struct content_id log; /* or CONTENT_NONE */
	int64_t started_ns, ended_ns; /* wall clock of the execution that made it */
	const char *run_id, *task, *node;
	const uint8_t *signature; /* SIGNATURE_BYTES (storage/signature.h), or NULL */
};

/* Encodes / decodes; decode copies into `arena`, and doesn't check who
 * signed the record (action_believe()). */
void action_encode(const struct action_record *r, struct str *ret);
/* The same, signed by the user of the store when he has a key; r->signature counts for nothing. */
void action_encode_signed(const struct store *s, const struct action_record *r, struct str *ret);
/* Decides whether a decoded record is believed. -1 with ERR_NOT_FOUND: it isn't, and counts as
 * absent. `bytes`: the whole record; `name`: the object's. */
int action_believe(struct store *s, const struct digest *name, const void *bytes, size_t n,
		   const struct action_record *r, struct err *err);
/* Tells whether the user of the store signed this decoded record, and his signature holds. */
bool action_is_own(const struct store *s, const void *bytes, size_t n,
		   const struct action_record *r);
int action_decode(const void *bytes, size_t n, struct arena *arena, struct action_record *ret,
		  struct err *err);

/* The first record under the key. ERR_NOT_FOUND. */
int action_get(struct store *s, const struct digest *key, struct arena *arena,
	       struct action_record *ret, struct err *err);
/* Publishes. 0: it is the record now. 1: one with the same outputs was there. 2: one with other
 * outputs was there; this one is kept as an observation. The caller has synced the blobs before. */
int action_put(struct store *s, const struct action_record *r, struct err *err);
/* Replaces the first record, after its blobs were found missing and the task ran again. */
int action_replace(struct store *s, const struct action_record *r, struct err *err);
/* All records under the key, the first one first, for who moves them: whoever signed them, but
 * without damaged ones; *ret_n may be 0. ret_names: the name that each has in the store. One that
 * can't be read now is an error. */
int action_observations(struct store *s, const struct digest *key, struct arena *arena,
			struct action_record **ret, struct digest **ret_names, size_t *ret_n,
			struct err *err);
/* These keys' records will be asked for by action_observations(): a shared store brings them in
 * batches. */
void action_expect(struct store *s, const struct digest *keys, size_t n);

#endif

/* storage/action.h — action records: the result stored under a task's key.
 *
 * A record is a claim by the machine that executed the task. Readers check the content it names
 * before they believe it. The first record stays. If a later execution under the same key gives
 * other bytes, its record becomes an observation beside the first (nondeterminism); it never
 * replaces the first silently. The format is canonical binary (FORMAT.md). Readers treat the bytes
 * as hostile.
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
	/* blob: the bytes whose digest is the key; `why` reads them on any machine. */
	struct content_id key_record;
	struct action_output *outputs; /* sorted by name */
	size_t n_outputs;
	struct content_id
		metrics;       /* blob with the step's flattened metrics (JSON), or CONTENT_NONE */
	struct content_id log; /* or CONTENT_NONE */
	int64_t started_ns, ended_ns; /* wall clock of the execution that made it */
	const char *run_id, *task, *node;
	const uint8_t *signature; /* SIGNATURE_BYTES (storage/signature.h), or NULL */
};

/* Encodes / decodes; decode copies into `arena`. It doesn't check the signature
 * (action_believe()). */
void action_encode(const struct action_record *r, struct str *ret);
/* The same, signed with the user's key if there is one. Ignores r->signature. */
void action_encode_signed(const struct store *s, const struct action_record *r, struct str *ret);
/* Decides whether a decoded record is believed. -1 with ERR_NOT_FOUND: it isn't; treat it as
 * absent. `bytes`: the whole record; `name`: its object name. */
int action_believe(struct store *s, const struct digest *name, const void *bytes, size_t n,
		   const struct action_record *r, struct err *err);
/* Tells whether this user signed the decoded record, with a valid signature. */
bool action_is_own(const struct store *s, const void *bytes, size_t n,
		   const struct action_record *r);
int action_decode(const void *bytes, size_t n, struct arena *arena, struct action_record *ret,
		  struct err *err);

/* The first record under the key. ERR_NOT_FOUND. */
int action_get(struct store *s, const struct digest *key, struct arena *arena,
	       struct action_record *ret, struct err *err);
/* Publishes. 0: it is now the first record. 1: a record with the same outputs existed. 2: a record
 * with other outputs existed, and this one is kept as an observation. The caller must sync the
 * blobs first. */
int action_put(struct store *s, const struct action_record *r, struct err *err);
/* Encodes a record that has no record under its key, to be put with others (store_put_many()). 1:
 * there is one, use action_put(). */
int action_prepare(struct store *s, const struct action_record *r, struct str *ret,
		   struct err *err);
/* Replaces the first record. For a task that ran again because its blobs were missing. */
int action_replace(struct store *s, const struct action_record *r, struct err *err);
/* Returns all records under the key, the first record first, for callers that copy them. Includes
 * records that aren't believed, but not damaged ones; *ret_n may be 0. ret_names: the object name
 * of each. A record that can't be read now is an error. */
int action_observations(struct store *s, const struct digest *key, struct arena *arena,
			struct action_record **ret, struct digest **ret_names, size_t *ret_n,
			struct err *err);
/* Prefetches the records that action_observations() will read: a shared store fetches them in
 * batches. */
void action_expect(struct store *s, const struct digest *keys, size_t n);

#endif

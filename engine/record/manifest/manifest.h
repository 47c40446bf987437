/* record/manifest/manifest.h — the run manifest: the canonical record of a whole run; its digest is
 * the run hash.
 *
 * Canonical JSON (base/text/json.h), stored in the store's STORE_RUN space under its own digest.
 * Long parts (results table, attempts) are blobs that it names. Written for every run that ended,
 * failed ones too. Hostile when read.
 */
#ifndef CAIRN_RECORD_MANIFEST_MANIFEST_H
#define CAIRN_RECORD_MANIFEST_MANIFEST_H

#include "record/manifest/results.h"
#include "record/rows/attempt_record.h"

struct manifest_code {
	const char *step; /* as the run pinned it: what a step's `code` says */
	struct content_id tree;
};
struct manifest_input {
	const char *name, *origin; /* origin: "path:data/raw/" or a URI */
	struct content_id id;
};
struct manifest_variable {
	const char *name, *value;
};
/* What there is to say of a step, beside what the pipeline says. */
struct manifest_step {
	const char *name, *builtin; /* builtin: "shard", or NULL */
	struct content_id code;     /* tree that its tasks were given; or CONTENT_NONE */
	const char *const *secrets; /* names */
	size_t n_secrets;
	const struct manifest_variable
		*threads; /* OMP_NUM_THREADS and the like, as it declares them */
	size_t n_threads;
	const char *image, *image_digest; /* NULL: it ran without */
};
struct manifest {
	const struct run_row *run; /* id, pipeline, path, state, times, params, counts, git,
				      message, schedule, reproduces */
	struct content_id pipeline_tree;
	const struct manifest_input *inputs; /* pins: "input:raw", "tool:python3 --version" */
	size_t n_inputs;
	const struct manifest_code *code;
	size_t n_code;
	struct content_id results; /* all tasks; of a run that was stopped, what they had come to:
				      those that hadn't ended are RESULT_BLOCKED */
	const struct manifest_step *steps; /* those of which there is something to say */
	size_t n_steps;
	const struct manifest_variable
		*tools; /* what each declared tool said: "python3 --version" → "Python 3.11.2" */
	size_t n_tools;
	struct content_id attempts_blob; /* executed in this run (manifest_put_attempts,
					    manifest_each_attempt) */
	/* manifest_load: the canonical JSON of record/environment.h. */
	const char *environment_json;
};
/* The run's attempts as a blob: lines of record/rows/attempt_record.h. Of any number: they go
 * through a file beside the database. `each` (or NULL) is called with every one on the way, as
 * record_each_record() does; below 0 ends it. */
int manifest_put_attempts(struct db *db, struct store *s, int64_t run,
			  int (*each)(void *arg, const struct attempt_record *r, struct err *err),
			  void *arg, struct content_id *ret, struct err *err);
/* Makes all that was put so far durable, then stores the manifest; sets *ret to the run hash. The
 * caller calls store_sync after it. The environment's fingerprint (record/environment.h) is
 * gathered here. */
int manifest_store(struct store *s, const struct manifest *m, struct digest *ret, struct err *err);
/* An error that the bytes of the store are to blame for: whoever reads what others wrote leaves the
 * thing out, and goes on. Any other error means that we don't know what is there. */
bool manifest_is_damage(const struct err *e);
/* Decoded into arena-held structs; `run` is filled too (its rowid is 0). Bytes that aren't those of
 * the hash are ERR_CORRUPT; so is one of a run that hasn't ended. */
int manifest_load(struct store *s, const struct digest *hash, struct arena *arena,
		  struct manifest *ret, struct err *err);
/* Each attempt of the blob, in their order; what it points to is gone after the call. fn's result
 * other than 0 stops and is returned. ERR_INVALID for a line that isn't one. */
int manifest_each_attempt(struct store *s, const struct content_id *attempts,
			  int (*fn)(void *arg, const struct attempt_record *r, struct err *err),
			  void *arg, struct err *err);
/* Content that a manifest names itself, for gc (see storage/local/maintain.h). */
int manifest_refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		  void *arg, struct err *err);
/* What it names through its blobs: outputs and keys of all tasks (results table), logs and keys of
 * what was executed (attempts; a run that was stopped has no table). A blob that is gone or damaged
 * names nothing any more. For gc too. */
struct closure_names;
struct closure_sink;
extern const struct closure_names manifest_names; /* both, as store calls take them */
int manifest_walk(struct store *s, const void *bytes, size_t n, const struct closure_sink *sink,
		  struct err *err);

#endif

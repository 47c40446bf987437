/* engine/record/manifest/manifest.h — the run manifest: the canonical record of a whole run; its
 * digest is the run hash.
 *
 * Canonical JSON (base/text/json.h), in the store's STORE_RUN space under its own digest. Long
 * parts (results table, attempts) are blobs that it names. Written for every run that ended, failed
 * ones too. Hostile when read.
 */
#ifndef CAIRN_RECORD_MANIFEST_MANIFEST_H
#define CAIRN_RECORD_MANIFEST_MANIFEST_H

#include "record/manifest/results.h"
#include "record/rows/attempt_record.h"

struct manifest_code {
	const char *step; /* as the run pinned it: the step's `code` */
	struct content_id tree;
};
struct manifest_input {
	const char *name, *origin; /* origin: "path:data/raw/" or a URI */
	struct content_id id;
};
struct manifest_variable {
	const char *name, *value;
};
/* Facts about a step that the pipeline doesn't have. */
struct manifest_step {
	const char *name, *builtin; /* builtin: "shard", or NULL */
	struct content_id code;     /* code tree of its tasks; or CONTENT_NONE */
	const char *const *secrets; /* names */
	size_t n_secrets;
	/* OMP_NUM_THREADS and similar, as it declares them. */
	const struct manifest_variable *threads;
	size_t n_threads;
	const char *image, *image_digest; /* NULL: it ran without an image */
	/* Its temporary content, which the manifest doesn't keep: inputs that come from such
	 * outputs of other steps, and outputs with their places in the results table. */
	const char *const *temp_inputs;
	size_t n_temp_inputs;
	const struct manifest_place {
		const char *output;
		uint32_t place;
	} * temp_outputs;
	size_t n_temp_outputs;
};
struct manifest {
	/* id, pipeline, path, state, times, params, counts, git, message, schedule, reproduces. */
	const struct run_row *run;
	struct content_id pipeline_tree;
	const struct manifest_input *inputs; /* pins: "input:raw", "tool:python3 --version" */
	size_t n_inputs;
	const struct manifest_code *code;
	size_t n_code;
	struct content_id results;         /* all tasks; unfinished ones are RESULT_BLOCKED */
	const struct manifest_step *steps; /* steps that have such facts */
	size_t n_steps;
	/* Output of each declared tool: "python3 --version" → "Python 3.11.2". */
	const struct manifest_variable *tools;
	size_t n_tools;
	struct content_id attempts_blob; /* manifest_put_attempts, manifest_each_attempt */
	/* Set by manifest_load: the canonical JSON of record/environment.h. */
	const char *environment_json;
};
/* Stores the run's attempts as a blob: lines of record/rows/attempt_record.h. The number is
 * unlimited: they go through a file beside the database. `each` may be NULL; it is called with
 * every attempt, as in record_each_record(); below 0 ends the call. */
int manifest_put_attempts(struct db *db, struct store *s, int64_t run,
			  int (*each)(void *arg, const struct attempt_record *r, struct err *err),
			  void *arg, struct content_id *ret, struct err *err);
/* Makes everything stored so far durable, then stores the manifest; sets *ret to the run hash. The
 * caller calls store_sync() afterwards. Adds the environment (record/environment.h). */
int manifest_store(struct store *s, const struct manifest *m, struct digest *ret, struct err *err);
/* True when the bytes in the store caused the error: a reader leaves that object out and goes on.
 * After any other error we don't know what the store has. */
bool manifest_is_damage(const struct err *e);
/* Decodes a manifest into structs in `arena`; fills `run` too (its rowid is 0). ERR_CORRUPT when
 * the bytes don't match the hash, or the run hasn't ended. */
int manifest_load(struct store *s, const struct digest *hash, struct arena *arena,
		  struct manifest *ret, struct err *err);
/* Calls fn for each attempt of the blob, in order; the attempt's memory is freed after the call. A
 * result other than 0 stops and is returned. ERR_INVALID for a malformed line. */
int manifest_each_attempt(struct store *s, const struct content_id *attempts,
			  int (*fn)(void *arg, const struct attempt_record *r, struct err *err),
			  void *arg, struct err *err);
/* Emits content that the manifest itself names, for gc (see storage/local/maintain.h). */
int manifest_refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		  void *arg, struct err *err);
/* Emits content that the manifest names through its blobs: outputs and keys of all tasks (results
 * table), logs and keys of executed attempts (a stopped run may have no table). A missing or
 * damaged blob names nothing. For gc too, so temporary outputs aren't emitted, nor inputs made of
 * them, nor the keys of tasks that have such outputs: without its content a record is of no use. */
struct closure_names;
struct closure_sink;
extern const struct closure_names manifest_names; /* both functions, in the form for store calls */
int manifest_walk(struct store *s, const void *bytes, size_t n, const struct closure_sink *sink,
		  struct err *err);

#endif

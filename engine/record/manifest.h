/* record/manifest.h — the run manifest: the canonical record of a whole run; its digest is the run hash.
 *
 * Canonical JSON (base/json.h), stored in the store's STORE_RUN space under its own digest. Long parts (results table, attempts)
 * are blobs that it names. Written for every run that ended, failed ones too. Hostile when read.
 */
#ifndef CAIRN_RECORD_MANIFEST_H
#define CAIRN_RECORD_MANIFEST_H

#include "record/results.h"

struct manifest_code {
	const char *step;
	struct content_id tree;
};
struct manifest_input {
	const char *name, *origin; /* origin: "path:data/raw/" or a URI */
	struct content_id id;
};
struct manifest {
	const struct run_row *run; /* id, pipeline, path, state, times, params, counts, git, message */
	struct content_id pipeline_tree;
	const struct manifest_input *inputs;
	size_t n_inputs;
	const struct manifest_code *code;
	size_t n_code;
	struct content_id results;
	const struct attempt_row *attempts; /* executed in this run */
	size_t n_attempts;
};
/* Stores attempts as a blob, then the manifest; sets *ret to the run hash. The caller calls store_sync before and after. Environment
 * fingerprint (kernel, cpu model and flags, libc, cairn version, thread count) is gathered here. */
int manifest_store(struct store *s, const struct manifest *m, struct digest *ret, struct err *err);
/* Decoded into arena-held structs; `run` is filled too. */
int manifest_load(struct store *s, const struct digest *hash, struct arena *arena, struct manifest *ret, struct err *err);
/* Content that a manifest names itself, for gc (see storage/maintain.h). */
int manifest_refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id), void *arg, struct err *err);
/* What it names through its blobs: outputs and keys of all tasks (results table), logs and keys of what was executed (attempts; a run
 * that was stopped has no table). A blob that is gone or damaged names nothing any more. For gc too. */
struct store_gc_sink;
int manifest_walk(struct store *s, const void *bytes, size_t n, const struct store_gc_sink *sink, struct err *err);

#endif

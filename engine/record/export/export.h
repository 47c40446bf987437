/* engine/record/export/export.h — a run exported as OpenLineage events, SLSA provenance or an
 * RO-Crate.
 *
 * All three are made from the record of a run that has ended: its row, its pinned inputs, and what
 * each attempt read and made. Only digests that others can check get a standard name: "sha256" is
 * always the SHA-256 of a file's bytes. For a large file it is computed. A directory is listed file
 * by file, and as a whole under "cairnTree".
 */
#ifndef CAIRN_RECORD_EXPORT_EXPORT_H
#define CAIRN_RECORD_EXPORT_EXPORT_H

#include "record/facts.h"
#include "record/rows/attempt_record.h"
#include "storage/content/content.h"

#define EXPORT_PRODUCER "urn:cairn:" CAIRN_VERSION

struct export_run {
	struct db *db;
	struct store *store;
	struct arena *arena;
	const struct run_row *run;
	json_t *params; /* object; freed by export_close() */
	struct run_input_row *pins;
	size_t n_pins;
	struct facts_task *tasks;
	size_t n_tasks;
	struct attempt_record *attempts; /* executed by this run */
	size_t n_attempts;
};
/* ERR_INVALID when the run hasn't ended. */
int export_open(struct export_run *x, struct db *db, struct store *s, const struct run_row *run,
		struct arena *arena, struct err *err);
void export_close(struct export_run *x);

/* Events ordered by time, as an array: START and COMPLETE, FAIL or ABORT of the run and, with the
 * run as parent, of each attempt. A hit has no event: nothing was executed. `job_namespace`: NULL:
 * "cairn". https://openlineage.io/spec/2-0-2/OpenLineage.json */
int export_openlineage(struct export_run *x, const char *job_namespace, json_t **ret,
		       struct err *err);

/* An in-toto Statement v1 with SLSA provenance v1 for the outputs of a task (NULL: of all tasks);
 * output: only that one; NULL: all. */
int export_slsa(struct export_run *x, const struct facts_task *task, const char *output,
		json_t **ret, struct err *err);

/* Makes a new directory at `path` (ERR_EXISTS): ro-crate-metadata.json (RO-Crate 1.1, Process Run
 * Crate 0.5), with the pipeline, its inputs and its outputs. `license`: a URI; NULL: "not stated".
 */
int export_ro_crate(struct export_run *x, const char *path, const char *license, struct err *err);

/* Shared by the formats. */

/* A UUID (version 8, RFC 9562), the same in every call. */
const char *export_uuid(struct arena *a, const char *kind, const struct run_row *run,
			int64_t attempt);
const char *export_time(struct arena *a, int64_t wall_ns); /* 2026-01-02T03:04:05.678Z */
/* When an attempt ended. One that a dead engine left has no end: it ended with its run. */
int64_t export_ended_ns(const struct export_run *x, const struct attempt_row *a);
/* Why an attempt failed; NULL: it succeeded. */
const char *export_problem(const struct export_run *x, const struct attempt_row *a);
const char *export_hex(struct arena *a, const struct digest *d);
/* The URI of an origin, "s3://bucket/x" or "file:data/raw.csv"; runs pin the latter as
 * "path:data/raw.csv". */
const char *export_uri(struct arena *a, const char *origin);
/* SHA-256 of a blob's bytes, whatever its size. */
int export_sha256(struct store *s, const struct content_id *id, struct digest *ret,
		  struct err *err);
/* The task that made a content in this run, with *ret_output; or NULL. */
const struct facts_task *export_maker(const struct export_run *x, const struct content_id *id,
				      const char **ret_output);
/* The pinned input with this content, without "input:"; or NULL. */
const struct run_input_row *export_input(const struct export_run *x, const struct content_id *id);

#endif

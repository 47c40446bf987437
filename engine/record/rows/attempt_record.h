/* engine/record/rows/attempt_record.h — everything on record of an attempt: its inputs and outputs,
 * its metrics, how it ended.
 *
 * A line of the manifest's blob of attempts, canonical JSON, from which the database can be
 * rebuilt. Keys: approval (only if it asked people: rows/approvals.h), class, continues, cpu_ns,
 * ended_ns, exit_status, id, image (only if it had one), inputs, key, key_record, log,
 * max_rss_bytes, message, metrics, node, number, outputs, reason, result, signal, started_ns, step,
 * task. inputs and outputs are objects from name to content
 * ("blob:12:HEX", "tree:…", "reference:…"); result is "cacheable", "kept" (cache: false, or its
 * blobs are gone) or null (it has none). key_record is the size of the blob whose digest is the
 * key. Hostile when read.
 */
#ifndef CAIRN_RECORD_ROWS_ATTEMPT_RECORD_H
#define CAIRN_RECORD_ROWS_ATTEMPT_RECORD_H

#include "record/rows/attempts.h"

struct attempt_record {
	struct attempt_row row; /* without run, and without workspace: a path on one machine */
	bool has_result, cacheable;
	struct named_content *inputs, *outputs; /* sorted by name */
	size_t n_inputs, n_outputs;
	struct metric_value *metrics; /* sorted by name */
	size_t n_metrics;
	uint64_t key_record_bytes; /* 0: its key record is unknown */
};

/* The run's attempts, in the order of their ids. Takes a few queries, however many there are. */
int record_run_records(struct db *db, int64_t run, struct arena *arena, struct attempt_record **ret,
		       size_t *ret_n, struct err *err);
/* Calls fn for each of them in turn; the record is freed after the call. A result other than 0
 * stops and is returned. fn may query the database. */
int record_each_record(struct db *db, int64_t run,
		       int (*fn)(void *arg, const struct attempt_record *r, struct err *err),
		       void *arg, struct err *err);
/* Appends one line with its newline. */
void attempt_record_encode(const struct attempt_record *r, struct str *out);
/* Decodes a line without its newline. ERR_INVALID. */
int attempt_record_decode(const char *line, size_t n, struct arena *arena,
			  struct attempt_record *ret, struct err *err);
/* The blob whose digest is the key; CONTENT_NONE when unknown. */
struct content_id attempt_key_record(const struct attempt_record *r);

#endif

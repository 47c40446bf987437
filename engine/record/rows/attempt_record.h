/* record/rows/attempt_record.h — all that is on record of an attempt: what it read and made, its
 * metrics, how it ended.
 *
 * A line of the manifest's blob of attempts, canonical JSON, so that the database can be rebuilt
 * from it. Keys: class, continues, cpu_ns, ended_ns, exit_status, id, image (only where there was
 * one), inputs, key, key_record, log, max_rss_bytes, message, metrics, node, number, outputs,
 * reason, result, signal, started_ns, step, task. inputs and outputs are objects from name to
 * content ("blob:12:HEX", "tree:…", "reference:…"); result is "cacheable", "kept" (cache: false, or
 * its blobs are gone) or null (it gave none). key_record is the size of the blob whose bytes the
 * key is the digest of. Hostile when read.
 */
#ifndef CAIRN_RECORD_ROWS_ATTEMPT_RECORD_H
#define CAIRN_RECORD_ROWS_ATTEMPT_RECORD_H

#include "record/rows/attempts.h"

struct attempt_record {
	struct attempt_row row; /* without run, and without workspace: a place of one machine */
	bool has_result, cacheable;
	struct named_content *inputs, *outputs; /* sorted by name */
	size_t n_inputs, n_outputs;
	struct metric_value *metrics; /* sorted by name */
	size_t n_metrics;
	uint64_t key_record_bytes; /* 0: its key record isn't known */
};

/* Of the run, in the order of their ids. A few queries, whatever their number. */
int record_run_records(struct db *db, int64_t run, struct arena *arena, struct attempt_record **ret,
		       size_t *ret_n, struct err *err);
/* Each of them in turn, however many there are; what it points to is gone after the call. fn's
 * result other than 0 stops and is returned; it may ask the database. */
int record_each_record(struct db *db, int64_t run,
		       int (*fn)(void *arg, const struct attempt_record *r, struct err *err),
		       void *arg, struct err *err);
/* Appends one line with its newline. */
void attempt_record_encode(const struct attempt_record *r, struct str *out);
/* A line without its newline. ERR_INVALID. */
int attempt_record_decode(const char *line, size_t n, struct arena *arena,
			  struct attempt_record *ret, struct err *err);
/* The blob whose digest is the key; CONTENT_NONE when it isn't known. */
struct content_id attempt_key_record(const struct attempt_record *r);

#endif

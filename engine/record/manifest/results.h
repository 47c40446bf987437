/* engine/record/manifest/results.h — the results table: every task of a run with its key and
 * results, in expansion order.
 *
 * A blob in the store, in canonical binary (results.c describes the format): two runs with the same
 * results have the same table, so a run in which nothing changed adds no new bytes. The planner
 * reads the last table of a pipeline to recognise a million unchanged tasks without a query for
 * each. Hostile when read: results_open checks the whole structure once.
 */
#ifndef CAIRN_RECORD_MANIFEST_RESULTS_H
#define CAIRN_RECORD_MANIFEST_RESULTS_H

#include "base/crypto/digest.h"
#include "base/text/str.h"
#include "record/rows/attempts.h"
#include "storage/content/content.h"

enum result_state {
	RESULT_SUCCEEDED = 1,
	RESULT_FAILED = 2,
	RESULT_SKIPPED = 3,
	RESULT_BLOCKED = 4 /* something that it needs failed */
};

struct result_entry {
	const char *step, *task; /* NUL-terminated; in the table's memory */
	size_t step_index;
	enum result_state state;
	struct digest key;   /* all zero: it never had one */
	int64_t duration_ns; /* of the execution that made the result */
	int64_t attempt;     /* its id in the database that wrote the table: a hint, may be 0 */
	size_t n_outputs, n_metrics;
	const void *outputs_raw, *metrics_raw; /* see results_output, results_metric */
};

struct results_writer;
struct results;
/* `like`: a table that this one probably equals, or begins as; it outlives the writer. What is
 * equal takes no memory. NULL: none. */
struct results_writer *results_writer_new(const struct results *like);
void results_writer_free(struct results_writer *w);
void results_writer_step(struct results_writer *w, const char *step, size_t n_outputs,
			 const char *const *output_names);
void results_writer_task(struct results_writer *w, const char *task, enum result_state state,
			 const struct digest *key, int64_t duration_ns, int64_t attempt,
			 const struct content_id *outputs /* n_outputs of the step, or NULL */,
			 const struct metric_value *metrics, size_t n_metrics);
/* ERR_TOO_LARGE: over RUN_RESULTS_MAX, or over the limit that a test set. */
int results_writer_store(struct results_writer *w, struct store *s, struct content_id *ret,
			 struct err *err);
void results_writer_set_max(struct results_writer *w, uint64_t max_bytes);

int results_open(struct store *s, const struct content_id *id, struct results **ret,
		 struct err *err);
/* Calls fn for every task in turn, through a window: the table isn't kept in memory, and `e` is
 * valid only during the call. Its step_index is 0 and its step NULL. A result < 0 ends it. */
int results_each(struct store *s, const struct content_id *id,
		 int (*fn)(void *arg, const struct result_entry *e), void *arg, struct err *err);
int results_decode(const void *bytes, size_t n, struct results **ret, struct err *err);
void results_free(struct results *r);
/* Sequential reading. */
struct results_cursor {
	const struct results *r;
	size_t at, step;
};
void results_first(const struct results *r, struct results_cursor *c);
bool results_next(struct results_cursor *c, struct result_entry *ret); /* false at the end */
/* To the step's first task. */
bool results_seek_step(const struct results *r, const char *step, struct results_cursor *c);
void results_nth_step(const struct results *r, size_t i, struct results_cursor *c);
size_t results_n_steps(const struct results *r);
const char *results_step_name(const struct results *r, size_t i); /* i < results_n_steps() */
const char *results_output_name(const struct results *r, const struct result_entry *e, size_t i);
void results_output(const struct result_entry *e, size_t i, struct content_id *ret);
void results_metric(const struct result_entry *e, size_t i, struct metric_value *ret);

#endif

/* engine/record/rows/rows.h — rows that several files of engine/record read: their columns, and how
 * they become structs (db_sql.h). */
#ifndef CAIRN_RECORD_ROWS_ROWS_H
#define CAIRN_RECORD_ROWS_ROWS_H

#include "record/db_sql.h"
#include "record/rows/attempts.h"
#include "record/rows/runs.h"

#define RUN_COLUMNS                                                                               \
	"rowid_, id, pipeline, path, state, started_ns, ended_ns, hash, pipeline_blob, results, " \
	"params_json, options_json, total, executed, "                                            \
	"hits, failed, skipped, blocked, saved_ns, git_commit, git_dirty, message, cancel > 0, "  \
	"cancel > 1, pid, pid_start, host, schedule, nominal_ns, reproduces, git_remote, "        \
	"git_submodules, git_author, plan_digest"
extern const struct db_row run_of_columns;       /* struct run_row */
extern const struct db_row run_input_of_columns; /* name, origin, content: struct run_input_row */

#define ATTEMPT_COLUMNS                                                                            \
	"attempt.id, attempt.run, attempt.task, attempt.step, attempt.number, attempt.key, "       \
	"attempt.started_ns, attempt.ended_ns, "                                                   \
	"attempt.failure, attempt.exit_status, attempt.signo, attempt.max_rss_bytes, "             \
	"attempt.cpu_ns, attempt.log, attempt.node, "                                              \
	"attempt.message, attempt.workspace, attempt.reason, attempt.continues, attempt.waiting, " \
	"attempt.image, attempt.approval"
extern const struct db_row attempt_of_columns; /* struct attempt_row */

int named_content_by_name(const void *a, const void *b); /* of struct named_content, for qsort() */
/* Row of a content id in `content`: 1 found, 0 none. */
int content_row_find(struct db *db, const struct content_id *id, int64_t *ret, struct err *err);
/* Adds a row with number `id`, or the next free one (0); sets a->id. 1: the number is taken, or the
 * run has an attempt of that task and number. */
int attempt_insert(struct db *db, struct attempt_row *a, int64_t id, struct err *err);

#endif

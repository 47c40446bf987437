/* engine/record/rows/approvals.h — questions to people: what a task of a step with `approve` asks,
 * and who answered what.
 *
 * The question is written with the row of its attempt, as JSON in its column `approval`. The answer
 * is added there once, by whoever is first: a person (`cairn approve`, the server's API), or the
 * engine at the time limit. The engine reads the row until it holds an answer. So an answer can be
 * given while no engine lives.
 *
 * The JSON: {"message", "by": [NAME], "until": TIME|null, "at_limit": "approve"|"refuse", "answer":
 * "approved"|"refused"|null, "who", "way": "cli"|"api"|"time limit", "at": TIME, "said"}. Manifests
 * hold it, too: hostile when read.
 */
#ifndef CAIRN_RECORD_ROWS_APPROVALS_H
#define CAIRN_RECORD_ROWS_APPROVALS_H

#include "base/text/json.h"
#include "record/rows/attempts.h"

#define APPROVAL_TEXT_MAX 4096 /* of a message and of what is said with an answer */
#define APPROVAL_BY_MAX   100

enum approval_answer { APPROVAL_OPEN, APPROVAL_APPROVED, APPROVAL_REFUSED };

struct approval {
	const char *message; /* or NULL */
	/* Who may answer; none: everybody who may use the project. "ada" is also ada@host. */
	const char *const *by;
	size_t n_by;
	int64_t until_ns; /* 0: no limit */
	bool at_limit;    /* what an answer that never came means: approved, else refused */
	enum approval_answer answer;
	/* Of an answer. `who` is NULL at the time limit. */
	const char *who, *way, *said;
	int64_t at_ns;
};

/* False: it isn't one that this version knows. Strings go into `arena`. */
bool approval_read(const json_t *j, struct arena *arena, struct approval *ret);
bool approval_parse(const char *text, struct arena *arena, struct approval *ret);
const char *approval_encode(const struct approval *a, struct arena *arena); /* canonical */
/* "approved by ada: looks good" */
const char *approval_text(const struct approval *a, struct arena *arena);

/* Writes the question of an attempt that has just begun; `waiting` is shown as what it waits for.
 * Needs an open transaction. */
int record_approval_ask(struct db *db, int64_t attempt, const char *approval, const char *waiting,
			struct err *err);
/* Reads the attempt's question. 1 found, 0 none. */
int record_approval(struct db *db, int64_t attempt, struct arena *arena, struct approval *ret,
		    struct err *err);

/* The run's attempts that wait for an answer, in the order of their ids. */
int record_approvals_open(struct db *db, int64_t run, struct arena *arena, struct attempt_row **ret,
			  size_t *ret_n, struct err *err);

/* Records an answer, in a transaction of its own. `task`: a task, or a step with one question.
 * ERR_NOT_FOUND: the run has no such question. ERR_INVALID: `who` may not answer. ERR_EXISTS: it is
 * answered already, its time is over, or nothing waits any more; the text says which. *ret is the
 * attempt, with the answer. */
struct approval_given {
	const char *task;
	bool approved;
	const char *who, *way, *said; /* said: or NULL */
	int64_t at_ns;
};
int record_approval_give(struct db *db, const struct run_row *run, const struct approval_given *g,
			 struct arena *arena, struct attempt_row *ret, struct err *err);
/* The engine's own answer. In an open transaction. 0: there is an answer already. */
int record_approval_end(struct db *db, int64_t attempt, int64_t now_ns, struct arena *arena,
			struct approval *ret, struct err *err);

#endif

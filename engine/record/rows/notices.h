/* engine/record/rows/notices.h — the outbox of `cairn serve`: notices, from the transaction of the
 * change that they report until they have arrived.
 *
 * One row for each message and receiver. It is written in the transaction that ends the firing (or
 * finds it missing), so that no crash loses it. It is removed when the receiver has taken the
 * message, and stays as GIVEN_UP when all tries failed. `server` says which server sends it, like
 * firing.server; NULL: none. After a crash between sending and removal it is sent again with the
 * same id, by which a receiver recognises it.
 *
 * Functions that write need an open transaction (record/db.h). Returned strings live in `arena`.
 */
#ifndef CAIRN_RECORD_ROWS_NOTICES_H
#define CAIRN_RECORD_ROWS_NOTICES_H

#include "record/db.h"

enum notice_state { NOTICE_WAITING, NOTICE_GIVEN_UP };

/* How long given-up notices are kept. */
#define NOTICE_KEEP_NS (30LL * 86400 * NS_PER_S)

struct notice_row {
	const char *id; /* 16 hex digits */
	int kind;       /* enum notify_kind */
	enum notice_state state;
	const char *path, *schedule; /* or NULL */
	int64_t nominal_ns;
	const char *event; /* "failure", … */
	/* JSON: {"command"} or {"url", "secret", "from", "to"}. For event "metric" also the rules,
	 * one of which must hold, and the run that `last` means: {"rules": [TEXT], "before"} */
	const char *receiver;
	const char *body; /* JSON: the message */
	int64_t made_ns;
	uint32_t tries;
	int64_t next_ns;  /* next try, by the clock at that time: a hint for the next server */
	int64_t ended_ns; /* GIVEN_UP: when */
	const char *server, *message; /* or NULL; message: why the last try failed */
};

int record_notice_add(struct db *db, const struct notice_row *n, struct err *err);
/* state, tries, next_ns, ended_ns, message. */
int record_notice_update(struct db *db, const struct notice_row *n, struct err *err);
int record_notice_remove(struct db *db, const char *id, struct err *err);
/* Changes the owner if it is still `from` (NULL: none) and the notice waits: 1 changed, 0 not. */
int record_notice_take(struct db *db, const char *id, const char *from, const char *to,
		       struct err *err);
/* Gives up all notices that `server` would have sent: they have no owner again. */
int record_notice_release(struct db *db, const char *server, struct err *err);
/* Deletes notices that were given up before that time. */
int record_notice_forget(struct db *db, int64_t before_ns, struct err *err);
/* Oldest first; limit 0: all. */
int record_notices(struct db *db, enum notice_state state, uint64_t limit, struct arena *arena,
		   struct notice_row **ret, size_t *ret_n, struct err *err);
int record_notice_count(struct db *db, enum notice_state state, uint64_t *ret, struct err *err);

#endif

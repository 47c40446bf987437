#include "record/rows/notices.h"

#include "record/db_sql.h"

#define NOTICE_COLUMNS                                                                         \
	"id, kind, state, path, schedule, nominal_ns, event, receiver, body, made_ns, tries, " \
	"next_ns, ended_ns, server, message"

#define C(field) DB_COLUMN(struct notice_row, field)
static const struct db_row notice_of_columns =
	DB_ROW(struct notice_row, NULL, C(id), C(kind), C(state), C(path), C(schedule),
	       C(nominal_ns), C(event), C(receiver), C(body), C(made_ns), C(tries), C(next_ns),
	       C(ended_ns), C(server), C(message));
#undef C

int record_notice_add(struct db *db, const struct notice_row *n, struct err *err)
{
	return db_do(db,
		     "INSERT INTO notice (" NOTICE_COLUMNS
		     ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
		     DB_IN(n->id, n->kind, n->state, n->path, n->schedule, n->nominal_ns, n->event,
			   n->receiver, n->body, n->made_ns, n->tries, n->next_ns, n->ended_ns,
			   n->server, n->message),
		     err);
}

int record_notice_update(struct db *db, const struct notice_row *n, struct err *err)
{
	return db_do(db,
		     "UPDATE notice SET state=?2, tries=?3, next_ns=?4, ended_ns=?5, message=?6 "
		     "WHERE id=?1",
		     DB_IN(n->id, n->state, n->tries, n->next_ns, n->ended_ns, n->message), err);
}

int record_notice_remove(struct db *db, const char *id, struct err *err)
{
	return db_do(db, "DELETE FROM notice WHERE id=?", DB_IN(id), err);
}

int record_notice_take(struct db *db, const char *id, const char *from, const char *to,
		       struct err *err)
{
	return db_change(db, "UPDATE notice SET server=?3 WHERE id=?1 AND server IS ?2 AND state=0",
			 DB_IN(id, from, to), err);
}

int record_notice_release(struct db *db, const char *server, struct err *err)
{
	return db_do(db, "UPDATE notice SET server=NULL WHERE state=0 AND server=?", DB_IN(server),
		     err);
}

int record_notice_forget(struct db *db, int64_t before_ns, struct err *err)
{
	return db_do(db, "DELETE FROM notice WHERE state=1 AND made_ns<?1 AND ended_ns<?1",
		     DB_IN(before_ns), err);
}

int record_notices(struct db *db, enum notice_state state, uint64_t limit, struct arena *arena,
		   struct notice_row **ret, size_t *ret_n, struct err *err)
{
	return db_get_rows(db,
			   "SELECT " NOTICE_COLUMNS
			   " FROM notice WHERE state=? ORDER BY made_ns, id LIMIT ?",
			   DB_IN(state, limit ? (int64_t)limit : -1), arena, &notice_of_columns,
			   ret, ret_n, err);
}

int record_notice_count(struct db *db, enum notice_state state, uint64_t *ret, struct err *err)
{
	return MIN(db_get(db, "SELECT count(*) FROM notice WHERE state=?", DB_IN(state), NULL,
			  DB_OUT(ret), err),
		   0);
}

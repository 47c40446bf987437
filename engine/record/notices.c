#include "record/notices.h"

#include "record/internal.h"

#define NOTICE_COLUMNS \
	"id, kind, state, path, schedule, nominal_ns, event, receiver, body, made_ns, tries, next_ns, ended_ns, server, message"

int record_notice_add(struct db *db, const struct notice_row *n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "INSERT INTO notice (" NOTICE_COLUMNS ") VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", err);

	if (!s)
		return -1;
	bind_text(s, 1, n->id);
	sqlite3_bind_int(s, 2, n->kind);
	sqlite3_bind_int(s, 3, n->state);
	bind_text(s, 4, n->path);
	bind_text(s, 5, n->schedule);
	sqlite3_bind_int64(s, 6, n->nominal_ns);
	bind_text(s, 7, n->event);
	bind_text(s, 8, n->receiver);
	bind_text(s, 9, n->body);
	sqlite3_bind_int64(s, 10, n->made_ns);
	sqlite3_bind_int64(s, 11, n->tries);
	sqlite3_bind_int64(s, 12, n->next_ns);
	sqlite3_bind_int64(s, 13, n->ended_ns);
	bind_text(s, 14, n->server);
	bind_text(s, 15, n->message);
	return db_run(db, s, err);
}

int record_notice_update(struct db *db, const struct notice_row *n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE notice SET state=?2, tries=?3, next_ns=?4, ended_ns=?5, message=?6 WHERE id=?1", err);

	if (!s)
		return -1;
	bind_text(s, 1, n->id);
	sqlite3_bind_int(s, 2, n->state);
	sqlite3_bind_int64(s, 3, n->tries);
	sqlite3_bind_int64(s, 4, n->next_ns);
	sqlite3_bind_int64(s, 5, n->ended_ns);
	bind_text(s, 6, n->message);
	return db_run(db, s, err);
}

int record_notice_remove(struct db *db, const char *id, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "DELETE FROM notice WHERE id=?", err);

	if (!s)
		return -1;
	bind_text(s, 1, id);
	return db_run(db, s, err);
}

int record_notice_take(struct db *db, const char *id, const char *from, const char *to, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE notice SET server=?3 WHERE id=?1 AND server IS ?2 AND state=0", err);

	if (!s)
		return -1;
	bind_text(s, 1, id);
	bind_text(s, 2, from);
	bind_text(s, 3, to);
	return db_run(db, s, err) < 0 ? -1 : sqlite3_changes(db->sql);
}

int record_notice_release(struct db *db, const char *server, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE notice SET server=NULL WHERE state=0 AND server=?", err);

	if (!s)
		return -1;
	bind_text(s, 1, server);
	return db_run(db, s, err);
}

int record_notice_forget(struct db *db, int64_t before_ns, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "DELETE FROM notice WHERE state=1 AND made_ns<?1 AND ended_ns<?1", err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, before_ns);
	return db_run(db, s, err);
}

int record_notices(struct db *db, enum notice_state state, uint64_t limit, struct arena *arena, struct notice_row **ret, size_t *ret_n,
		   struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " NOTICE_COLUMNS " FROM notice WHERE state=? ORDER BY made_ns, id LIMIT ?", err);
	VEC(struct notice_row) out = { 0 };
	int r;

	if (!s)
		return -1;
	sqlite3_bind_int(s, 1, state);
	sqlite3_bind_int64(s, 2, limit ? (int64_t)limit : -1);
	while ((r = db_step(db, s, err)) > 0)
		VEC_PUSH(&out, ((struct notice_row){ .id = column_text(s, 0, arena), .kind = sqlite3_column_int(s, 1),
						     .state = (enum notice_state)sqlite3_column_int(s, 2), .path = column_text(s, 3, arena),
						     .schedule = column_text(s, 4, arena), .nominal_ns = sqlite3_column_int64(s, 5),
						     .event = column_text(s, 6, arena), .receiver = column_text(s, 7, arena),
						     .body = column_text(s, 8, arena), .made_ns = sqlite3_column_int64(s, 9),
						     .tries = (uint32_t)sqlite3_column_int(s, 10), .next_ns = sqlite3_column_int64(s, 11),
						     .ended_ns = sqlite3_column_int64(s, 12), .server = column_text(s, 13, arena),
						     .message = column_text(s, 14, arena) }));
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

int record_notice_count(struct db *db, enum notice_state state, uint64_t *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT count(*) FROM notice WHERE state=?", err);
	int r;

	if (!s)
		return -1;
	sqlite3_bind_int(s, 1, state);
	r = db_step(db, s, err);
	if (r > 0)
		*ret = (uint64_t)sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	return r < 0 ? -1 : 0;
}

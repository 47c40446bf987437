/* engine/record/db_sql.c — prepared statements, and the only place where values and columns meet
 * SQLite.
 *
 * A handle keeps the last DB_STATEMENTS_MAX statements, by the address of their literal. A
 * statement in use by a query is marked. A second query of the same text gets a statement of its
 * own, and so does any query when all kept ones are in use: no query ever resets another's rows.
 *
 * db_do binds texts without copying, since it ends before the caller goes on; a query copies them.
 * Values that SQLite refuses (a text of more than a gigabyte) are errors of the statement. Numbers
 * are cut to the width of their place, as in C.
 *
 * Threads: the thread of the handle. Not here: transactions and locks (db.c), the meaning of rows
 * (rows/).
 */
#include <assert.h>
#include "record/internal.h"

#define CONTENT_ID_BYTES (1 + 8 + DIGEST_BYTES)

/* The slot for a new statement: a free one, or the least recently used. */
static size_t place_for_statement(struct db *db)
{
	size_t oldest = DB_UNCACHED;

	if (db->n_cache < DB_STATEMENTS_MAX)
		return db->n_cache++;
	for (size_t i = 0; i < db->n_cache; i++)
		if (!db->cache[i].in_use &&
		    (oldest == DB_UNCACHED || db->cache[i].used < db->cache[oldest].used))
			oldest = i;
	if (oldest != DB_UNCACHED)
		sqlite3_finalize(db->cache[oldest].stmt);
	return oldest;
}

/* Prepares a statement without bindings. The query owns it until db_end. */
static int prepare(struct db *db, struct db_query *q, const char *text, bool keep, struct err *err)
{
	*q = (struct db_query){ .db = db, .slot = DB_UNCACHED };
	db->n_asked++;
	for (size_t i = 0; keep && i < db->n_cache; i++)
		if (db->cache[i].text == text) {
			keep = !db->cache[i].in_use;
			if (keep) {
				q->slot = i;
				q->stmt = db->cache[i].stmt;
			}
			break;
		}
	if (!q->stmt) {
		if (sqlite3_prepare_v3(db->sql, text, -1, keep ? SQLITE_PREPARE_PERSISTENT : 0,
				       &q->stmt, NULL) != SQLITE_OK)
			return db_fail(db, err, "cannot ask");
		if (keep)
			q->slot = place_for_statement(db);
	}
	if (q->slot != DB_UNCACHED) {
		db->cache[q->slot].text = text;
		db->cache[q->slot].stmt = q->stmt;
		db->cache[q->slot].used = db->n_asked;
		db->cache[q->slot].in_use = true;
	}
	return 0;
}

void db_end(struct db_query *q)
{
	if (!q->stmt)
		return;
	if (q->slot == DB_UNCACHED) {
		sqlite3_finalize(q->stmt);
	} else {
		sqlite3_reset(q->stmt);
		sqlite3_clear_bindings(q->stmt);
		q->db->cache[q->slot].in_use = false;
	}
	q->stmt = NULL;
}

void db_drop_statements(struct db *db)
{
	for (size_t i = 0; i < db->n_cache; i++) {
		assert(!db->cache[i].in_use);
		sqlite3_finalize(db->cache[i].stmt);
	}
	db->n_cache = 0;
}

static int bind(sqlite3_stmt *s, int i, const struct db_value *v, sqlite3_destructor_type keep)
{
	const struct content_id *id;
	uint8_t bytes[CONTENT_ID_BYTES];

	switch (v->type) {
	case DB_INT64:
		return sqlite3_bind_int64(s, i, v->i);
	case DB_DOUBLE:
		return sqlite3_bind_double(s, i, v->f);
	case DB_TEXT:
		return v->p ? sqlite3_bind_text(s, i, v->p, -1, keep) : SQLITE_OK;
	case DB_BYTES:
		return sqlite3_bind_blob64(s, i, v->p, v->n, keep);
	case DB_DIGEST:
		return v->p ? sqlite3_bind_blob(s, i, v->p, DIGEST_BYTES, keep) : SQLITE_OK;
	case DB_CONTENT:
		id = v->p;
		if (id->kind == CONTENT_NONE)
			return SQLITE_OK;
		bytes[0] = id->kind;
		for (int k = 0; k < 8; k++)
			bytes[1 + k] = (uint8_t)(id->size_bytes >> (8 * k));
		memcpy(bytes + 9, id->digest.b, DIGEST_BYTES);
		return sqlite3_bind_blob(s, i, bytes, sizeof(bytes), SQLITE_TRANSIENT);
	default:
		abort(); /* DB_VALUE makes no other */
	}
}

/* An unbound place is NULL. */
static int ask(struct db *db, struct db_query *q, const char *text, bool keep_statement,
	       const struct db_value *in, sqlite3_destructor_type keep, struct err *err)
{
	int n = 0;

	if (prepare(db, q, text, keep_statement, err) < 0)
		return -1;
	/* A writer must hold the lock of all writers. */
	assert(db->in_txn || db->lock_fd < 0 || sqlite3_stmt_readonly(q->stmt));
	while (in[n].type != DB_END)
		n++;
	assert(n == sqlite3_bind_parameter_count(q->stmt));
	for (int i = 0; i < n; i++)
		if (bind(q->stmt, i + 1, &in[i], keep) != SQLITE_OK) {
			db_fail(db, err,
				sqlite3_stmt_readonly(q->stmt) ? "cannot read" : "cannot record");
			db_end(q);
			return -1;
		}
	return 0;
}

/* 1: a row; 0 and -1 end the query. */
static int step(struct db_query *q, struct err *err)
{
	int code;

	assert(q->stmt);
	code = sqlite3_step(q->stmt);
	if (code == SQLITE_ROW)
		return 1;
	if (code != SQLITE_DONE)
		db_fail(q->db, err,
			sqlite3_stmt_readonly(q->stmt) ? "cannot read" : "cannot record");
	db_end(q);
	return code == SQLITE_DONE ? 0 : -1;
}

int db_change(struct db *db, const char *text, const struct db_value *in, struct err *err)
{
	struct db_query q;

	if (ask(db, &q, text, true, in, SQLITE_STATIC, err) < 0 || step(&q, err) < 0)
		return -1;
	db_end(&q);
	return sqlite3_changes(db->sql);
}

int db_do(struct db *db, const char *text, const struct db_value *in, struct err *err)
{
	return MIN(db_change(db, text, in, err), 0);
}

int64_t db_last_rowid(struct db *db)
{
	return sqlite3_last_insert_rowid(db->sql);
}

int db_query(struct db *db, struct db_query *ret, const char *text, const struct db_value *in,
	     struct arena *arena, struct err *err)
{
	int r = ask(db, ret, text, true, in, SQLITE_TRANSIENT, err);

	ret->arena = arena;
	return r;
}

int db_query_built(struct db *db, struct db_query *ret, const char *text, const struct db_value *in,
		   struct arena *arena, struct err *err)
{
	int r = ask(db, ret, text, false, in, SQLITE_TRANSIENT, err);

	ret->arena = arena;
	return r;
}

static bool is_null(const struct db_query *q, int i)
{
	return sqlite3_column_type(q->stmt, i) == SQLITE_NULL;
}

/* Puts column i of the row into `to`; false when its type doesn't fit. NULL fits a number, so call
 * is_null first if it matters; reading may convert the value. */
static bool read_column(const struct db_query *q, int i, enum db_type type, void *to)
{
	sqlite3_stmt *s = q->stmt;
	struct content_id *id = to;
	const uint8_t *b;

	switch (type) {
	case DB_INT64:
		*(int64_t *)to = sqlite3_column_int64(s, i);
		return true;
	case DB_INT32:
		*(int32_t *)to = sqlite3_column_int(s, i);
		return true;
	case DB_UINT8:
		*(uint8_t *)to = (uint8_t)sqlite3_column_int(s, i);
		return true;
	case DB_BOOL:
		*(bool *)to = sqlite3_column_int(s, i);
		return true;
	case DB_DOUBLE:
		*(double *)to = sqlite3_column_double(s, i);
		return true;
	case DB_TEXT:
		b = sqlite3_column_text(s, i);
		*(const char **)to =
			b && q->arena ? arena_strdup(q->arena, (const char *)b) : (const char *)b;
		return b;
	case DB_BYTES:
		str_addn(to, sqlite3_column_blob(s, i), (size_t)sqlite3_column_bytes(s, i));
		return true;
	case DB_DIGEST:
		b = sqlite3_column_blob(s, i);
		if (!b || sqlite3_column_bytes(s, i) != DIGEST_BYTES) {
			memset(to, 0, DIGEST_BYTES);
			return false;
		}
		memcpy(to, b, DIGEST_BYTES);
		return true;
	case DB_CONTENT:
		b = sqlite3_column_blob(s, i);
		memset(id, 0, sizeof(*id));
		if (!b || sqlite3_column_bytes(s, i) != CONTENT_ID_BYTES || b[0] < CONTENT_BLOB ||
		    b[0] > CONTENT_KIND_MAX)
			return false;
		id->kind = b[0];
		for (int k = 7; k >= 0; k--)
			id->size_bytes = id->size_bytes << 8 | b[1 + k];
		memcpy(id->digest.b, b + 9, DIGEST_BYTES);
		return true;
	default:
		abort(); /* DB_TYPE gives no other */
	}
}

int db_next(struct db_query *q, const struct db_place *out, struct err *err)
{
	int r = step(q, err), n = 0;

	if (r <= 0)
		return r;
	q->missing = 0;
	for (; out[n].type != DB_END; n++) {
		bool null = is_null(q, n);

		if (!read_column(q, n, out[n].type, out[n].to) || null)
			q->missing |= 1ull << n;
	}
	assert(n == sqlite3_column_count(q->stmt));
	return 1;
}

int db_get(struct db *db, const char *text, const struct db_value *in, struct arena *arena,
	   const struct db_place *out, struct err *err)
{
	struct db_query q;
	int r;

	for (size_t i = 0; out[i].type != DB_END; i++)
		assert(arena || out[i].type != DB_TEXT);
	if (db_query(db, &q, text, in, arena, err) < 0)
		return -1;
	r = db_next(&q, out, err);
	db_end(&q);
	return r;
}

int db_next_row(struct db_query *q, const struct db_row *type, void *ret, struct err *err)
{
	bool kept;
	int r;

	do {
		r = step(q, err);
		if (r <= 0)
			return r;
		assert(type->n == (size_t)sqlite3_column_count(q->stmt));
		memset(ret, 0, type->size);
		kept = true;
		for (size_t i = 0; i < type->n; i++) {
			const struct db_column *c = &type->columns[i];
			bool there = !((c->needed || c->has) && is_null(q, (int)i));

			there = read_column(q, (int)i, c->type, (char *)ret + c->offset) && there;
			kept = kept && (there || !c->needed);
			if (c->has)
				*(bool *)((char *)ret + c->has - 1) = there;
		}
	} while (!kept || (type->finish && !type->finish(ret)));
	return 1;
}

int db_get_row(struct db *db, const char *text, const struct db_value *in, struct arena *arena,
	       const struct db_row *type, void *ret, struct err *err)
{
	struct db_query q;
	int r;

	if (db_query(db, &q, text, in, arena, err) < 0)
		return -1;
	r = db_next_row(&q, type, ret, err);
	db_end(&q);
	return r;
}

int db_get_sized_rows(struct db *db, const char *text, const struct db_value *in,
		      struct arena *arena, const struct db_row *type, size_t size, void *ret,
		      size_t *ret_n, struct err *err)
{
	_cleanup_(freep) char *rows = NULL;
	size_t n = 0, cap = 0;
	struct db_query q;
	void *kept;
	int r;

	assert(size == type->size);
	if (db_query(db, &q, text, in, arena, err) < 0)
		return -1;
	do {
		if (n == cap) {
			cap = cap ? cap * 2 : 8;
			rows = xreallocarray(rows, cap, size);
		}
		r = db_next_row(&q, type, rows + n * size, err);
		n += r > 0;
	} while (r > 0);
	kept = arena_alloc(arena, (n + 1) * size);
	memcpy(kept, rows, n * size);
	memcpy(ret, &kept, sizeof(kept));
	*ret_n = n;
	return r;
}

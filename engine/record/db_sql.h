/* engine/record/db_sql.h — statements of the database, with their values and columns bound by type.
 *
 * A value, or a column's place, has the caller's C type, from which the compiler picks the binding.
 * Integers of any width and enums are INTEGER, double is REAL, text is TEXT, a digest is a BLOB of
 *32 bytes, a content_id one of 41 bytes. The statement's text must have as many places and columns
 *as the caller gives: a mismatch is a defect, and asserted.
 *
 *	db_do(db, "UPDATE run SET message = ? WHERE rowid_ = ?", DB_IN(text, rowid), err)
 *	db_get(db, "SELECT pid FROM run WHERE id = ?", DB_IN(id), NULL, DB_OUT(&pid), err)
 *
 * NULL has one rule: a text or digest that is NULL, and a content_id of CONTENT_NONE, are bound as
 * NULL. A column that is NULL, or whose bytes are no digest or content_id, reads as the zero value
 * of its place, and counts as missing.
 *
 * `text` is a literal: the prepared statement is cached under its address. Errors are those of
 *db.h, with "cannot read" or "cannot record" before them or, when SQLite refuses the text, "cannot
 *ask". A handle and its statements belong to one thread.
 */
#ifndef CAIRN_RECORD_DB_SQL_H
#define CAIRN_RECORD_DB_SQL_H

#include "record/db.h"

enum db_type {
	DB_END, /* of a list */
	DB_INT64,
	DB_INT32,
	DB_UINT8,
	DB_BOOL,
	DB_DOUBLE,
	DB_TEXT,
	DB_BYTES, /* reading appends to a struct str */
	DB_DIGEST,
	DB_CONTENT
};

/* Values for a statement's places, in order. They are borrowed until the call returns: a query
 * copies texts and bytes. */
struct db_value {
	enum db_type type;
	size_t n; /* bytes */
	union {
		int64_t i;
		double f;
		const void *p;
	};
};
static inline struct db_value db_int(int64_t v)
{
	return (struct db_value){ DB_INT64, .i = v };
}
static inline struct db_value db_double(double v)
{
	return (struct db_value){ DB_DOUBLE, .f = v };
}
static inline struct db_value db_text(const char *v)
{
	return (struct db_value){ DB_TEXT, .p = v };
}
static inline struct db_value db_bytes(const void *v, size_t n)
{
	return (struct db_value){ DB_BYTES, n, .p = v };
}
static inline struct db_value db_digest(const struct digest *v)
{
	return (struct db_value){ DB_DIGEST, .p = v };
}
static inline struct db_value db_content(const struct content_id *v)
{
	return (struct db_value){ DB_CONTENT, .p = v };
}
static inline struct db_value db_same(struct db_value v)
{
	return v;
}
#define DB_VALUE(x) \
	_Generic((x),                            \
		bool: db_int,                    \
		uint8_t: db_int,                 \
		int: db_int,                     \
		unsigned: db_int,                \
		long: db_int,                    \
		long long: db_int,               \
		unsigned long: db_int,           \
		double: db_double,               \
		char *: db_text,                 \
		const char *: db_text,           \
		struct digest *: db_digest,      \
		const struct digest *: db_digest,\
		struct content_id *: db_content, \
		const struct content_id *: db_content, \
		struct db_value: db_same)(x)

/* A destination for a column. */
struct db_place {
	enum db_type type;
	void *to;
};
#define DB_TYPE(to) \
	_Generic((to),                     \
		int64_t *: DB_INT64,       \
		uint64_t *: DB_INT64,      \
		int *: DB_INT32,           \
		unsigned *: DB_INT32,      \
		uint8_t *: DB_UINT8,       \
		bool *: DB_BOOL,           \
		double *: DB_DOUBLE,       \
		const char **: DB_TEXT,    \
		struct str *: DB_BYTES,    \
		struct digest *: DB_DIGEST,\
		struct content_id *: DB_CONTENT)
#define DB_PLACE(x) ((struct db_place){ DB_TYPE(x), (x) })

/* f(a), f(b), … for up to 64 arguments. */
#define DB_MAP(f, ...)        __VA_OPT__(DB_SCAN_64(DB_MAP_ONE(f, __VA_ARGS__)))
#define DB_MAP_ONE(f, x, ...) f(x), __VA_OPT__(DB_MAP_REST DB_NO_ARGUMENTS(f, __VA_ARGS__))
#define DB_MAP_REST()         DB_MAP_ONE
#define DB_NO_ARGUMENTS       ()
#define DB_SCAN_64(...)       DB_SCAN_16(DB_SCAN_16(DB_SCAN_16(DB_SCAN_16(__VA_ARGS__))))
#define DB_SCAN_16(...)       DB_SCAN_4(DB_SCAN_4(DB_SCAN_4(DB_SCAN_4(__VA_ARGS__))))
#define DB_SCAN_4(...)        DB_SCAN(DB_SCAN(DB_SCAN(DB_SCAN(__VA_ARGS__))))
#define DB_SCAN(...)          __VA_ARGS__

#define DB_IN(...)  ((const struct db_value[]){ DB_MAP(DB_VALUE, __VA_ARGS__){ DB_END } })
#define DB_OUT(...) ((const struct db_place[]){ DB_MAP(DB_PLACE, __VA_ARGS__){ DB_END } })

/* Statements without rows. */
int db_do(struct db *db, const char *text, const struct db_value *in, struct err *err);
/* The same; returns how many rows it changed, or -1. */
int db_change(struct db *db, const char *text, const struct db_value *in, struct err *err);
int64_t db_last_rowid(struct db *db); /* of the last INSERT */
/* One or more statements without values; not cached. */
int db_exec(struct db *db, const char *text, struct err *err);
/* Frees all kept statements: they would keep an attached database busy. */
void db_drop_statements(struct db *db);

/* Reads the first row: 1 found, 0 none. Texts go into `arena`, NULL is fine without text
 * columns. */
int db_get(struct db *db, const char *text, const struct db_value *in, struct arena *arena,
	   const struct db_place *out, struct err *err);

/* Rows one by one.
 *
 *	if (db_query(db, &q, "SELECT …", DB_IN(run), arena, err) < 0)
 *		return -1;
 *	while ((r = db_next(&q, DB_OUT(&name, &id), err)) > 0)
 *		…
 *
 * A query ends with its last row or an error; to stop earlier, call db_end. A text without an arena
 * is borrowed until the next call. The same statement may run again between its rows. */
struct sqlite3_stmt;
struct db_query {
	struct db *db;
	struct sqlite3_stmt *stmt; /* NULL: it has ended */
	size_t slot;               /* of the cache, or DB_UNCACHED */
	struct arena *arena;       /* or NULL */
	uint64_t missing; /* columns of the current row without a value: bit i is column i */
};
int db_query(struct db *db, struct db_query *ret, const char *text, const struct db_value *in,
	     struct arena *arena, struct err *err);
/* The same for a text built at run time: it isn't cached. */
int db_query_built(struct db *db, struct db_query *ret, const char *text, const struct db_value *in,
		   struct arena *arena, struct err *err);
int db_next(struct db_query *q, const struct db_place *out, struct err *err); /* 1 row, 0 end */
void db_end(struct db_query *q); /* does nothing when the query has ended */
static inline bool db_has(const struct db_query *q, size_t column)
{
	return !(q->missing >> column & 1);
}

/* Rows as structs: a table maps each column, in order, to a field. Other fields are zero. */
struct db_column {
	uint8_t type;    /* enum db_type */
	bool needed;     /* a row without it is skipped */
	uint16_t offset; /* of the field */
	uint16_t has;    /* offset of the bool that says whether it has a value, plus 1; 0: none */
};
#define DB_FIELD_TYPE(T, field) DB_TYPE((__typeof__(((T *)NULL)->field) *)NULL)
#define DB_COLUMN(T, field)                                           \
	{                                                             \
		DB_FIELD_TYPE(T, field), false, offsetof(T, field), 0 \
	}
#define DB_NEEDED(T, field)                                          \
	{                                                            \
		DB_FIELD_TYPE(T, field), true, offsetof(T, field), 0 \
	}
#define DB_OPTIONAL(T, field, flag)                                                       \
	{                                                                                 \
		DB_FIELD_TYPE(T, field), false, offsetof(T, field), offsetof(T, flag) + 1 \
	}
struct db_row {
	const struct db_column *columns;
	size_t n, size;
	bool (*finish)(void *row); /* derives other fields; false skips the row. Or NULL */
};
/* At file level: DB_ROW(struct tag_row, NULL, DB_COLUMN(struct tag_row, digest), …) */
#define DB_ROW(T, finish, ...)                                              \
	{                                                                   \
		(const struct db_column[]){ __VA_ARGS__ },                  \
			sizeof((const struct db_column[]){ __VA_ARGS__ }) / \
				sizeof(struct db_column),                   \
			sizeof(T), (finish)                                 \
	}

int db_next_row(struct db_query *q, const struct db_row *type, void *ret, struct err *err);
/* Reads the first row: 1 found, 0 none. *ret is set only when there is one. */
int db_get_row(struct db *db, const char *text, const struct db_value *in, struct arena *arena,
	       const struct db_row *type, void *ret, struct err *err);
/* Reads all rows into an array in `arena`, never NULL. */
#define db_get_rows(db, text, in, arena, type, ret, ret_n, err) \
	db_get_sized_rows(db, text, in, arena, type, sizeof(**(ret)), ret, ret_n, err)
int db_get_sized_rows(struct db *db, const char *text, const struct db_value *in,
		      struct arena *arena, const struct db_row *type, size_t size, void *ret,
		      size_t *ret_n, struct err *err);

#endif

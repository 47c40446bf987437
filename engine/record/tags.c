#include "record/internal.h"
#include "record/tags.h"

#define TAG_COLUMNS "digest, name, run, run_id, at_ns, author, note"

static bool looks_like_run_id(const char *name)
{
	const char *dash = strrchr(name, '-');

	return dash && !strpbrk(name, "./") && strlen(dash + 1) == 5 && strspn(dash + 1, "23456789bcdfghjkmnpqrstvwxz") == 5;
}

int tag_name_check(const char *name, struct err *err)
{
	static const char alnum[] = "abcdefghijklmnopqrstuvwxyz0123456789", more[] = "abcdefghijklmnopqrstuvwxyz0123456789._/-";
	size_t n = strlen(name);

	if (n == 0 || n > TAG_NAME_MAX || !strchr(alnum, name[0]) || strspn(name, more) != n || strstr(name, "//") || name[n - 1] == '/')
		return err_set(err, ERR_USAGE, "`%.120s` can't be a name: small letters, digits and . _ - /, beginning with a letter or digit, at most %d, such as fashion/best",
			       name, TAG_NAME_MAX);
	if (str_eq(name, "last") || (n >= 4 && strspn(name, "0123456789abcdef") == n) || looks_like_run_id(name))
		return err_set(err, ERR_USAGE, "`%s` can't be a name: it reads like a run (`last`, a run hash or a run id)", name);
	return 0;
}

int record_tag_add(struct db *db, const struct tag_row *t, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "INSERT OR IGNORE INTO tag (" TAG_COLUMNS ") VALUES (?,?,?,?,?,?,?)", err);

	if (!s)
		return -1;
	bind_digest(s, 1, &t->digest);
	bind_text(s, 2, t->name);
	if (t->has_run)
		bind_digest(s, 3, &t->run);
	bind_text(s, 4, t->run_id);
	sqlite3_bind_int64(s, 5, t->at_ns);
	bind_text(s, 6, t->author);
	bind_text(s, 7, t->note);
	if (db_run(db, s, err) < 0)
		return -1;
	return sqlite3_changes(db->sql) == 0;
}

static void read_tag(sqlite3_stmt *s, struct arena *arena, struct tag_row *ret)
{
	*ret = (struct tag_row){ .name = column_text(s, 1, arena), .run_id = column_text(s, 3, arena), .at_ns = sqlite3_column_int64(s, 4),
				 .author = column_text(s, 5, arena), .note = column_text(s, 6, arena) };
	column_digest(s, 0, &ret->digest);
	ret->has_run = column_digest(s, 2, &ret->run);
}

static int read_tags(struct db *db, sqlite3_stmt *s, struct arena *arena, struct tag_row **ret, size_t *ret_n, struct err *err)
{
	VEC(struct tag_row) out = { 0 };
	int r;

	while ((r = db_step(db, s, err)) > 0)
		read_tag(s, arena, VEC_ADD(&out));
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

int record_tag_find(struct db *db, const char *name, struct arena *arena, struct tag_row *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " TAG_COLUMNS " FROM tag WHERE name = ? ORDER BY at_ns DESC, digest DESC LIMIT 1", err);
	int r;

	if (!s)
		return -1;
	bind_text(s, 1, name);
	r = db_step(db, s, err);
	if (r > 0)
		read_tag(s, arena, ret);
	sqlite3_reset(s);
	return r;
}

int record_tags(struct db *db, const struct digest *run, struct arena *arena, struct tag_row **ret, size_t *ret_n, struct err *err)
{
#define NEWEST " AND NOT EXISTS (SELECT 1 FROM tag later WHERE later.name = t.name AND (later.at_ns, later.digest) > (t.at_ns, t.digest)) ORDER BY name"
	sqlite3_stmt *s = run ? db_prepare(db, "SELECT " TAG_COLUMNS " FROM tag t WHERE run = ?" NEWEST, err) :
				db_prepare(db, "SELECT " TAG_COLUMNS " FROM tag t WHERE run IS NOT NULL" NEWEST, err);
#undef NEWEST

	if (!s)
		return -1;
	if (run)
		bind_digest(s, 1, run);
	return read_tags(db, s, arena, ret, ret_n, err);
}

int record_tag_history(struct db *db, const char *name, struct arena *arena, struct tag_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " TAG_COLUMNS " FROM tag WHERE ?1 IS NULL OR name = ?1 ORDER BY at_ns DESC, digest DESC", err);

	if (!s)
		return -1;
	bind_text(s, 1, name);
	return read_tags(db, s, arena, ret, ret_n, err);
}

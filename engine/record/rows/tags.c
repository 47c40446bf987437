#include "record/rows/tags.h"
#include "base/os/machine.h"
#include "record/db_sql.h"

#define TAG_COLUMNS "digest, name, run, run_id, at_ns, author, note"

static bool looks_like_run_id(const char *name)
{
	const char *dash = strrchr(name, '-');

	return dash && !strpbrk(name, "./") && strlen(dash + 1) == RANDOM_LETTERS &&
	       strspn(dash + 1, RANDOM_ALPHABET) == RANDOM_LETTERS;
}

int tag_name_check(const char *name, struct err *err)
{
	static const char alnum[] = "abcdefghijklmnopqrstuvwxyz0123456789",
			  more[] = "abcdefghijklmnopqrstuvwxyz0123456789._/-";
	size_t n = strlen(name);

	if (n == 0 || n > TAG_NAME_MAX || !strchr(alnum, name[0]) || strspn(name, more) != n ||
	    strstr(name, "//") || name[n - 1] == '/')
		return err_set(err, ERR_USAGE,
			       "`%.120s` can't be a name: small letters, digits and . _ - /, "
			       "beginning with a letter or digit, at most %d, such as fashion/best",
			       name, TAG_NAME_MAX);
	if (str_eq(name, "last") || (n >= 4 && strspn(name, "0123456789abcdef") == n) ||
	    looks_like_run_id(name))
		return err_set(err, ERR_USAGE,
			       "`%s` can't be a name: it reads like a run (`last`, a run hash or a "
			       "run id)",
			       name);
	return 0;
}

int record_tag_add(struct db *db, const struct tag_row *t, struct err *err)
{
	int n = db_change(db, "INSERT OR IGNORE INTO tag (" TAG_COLUMNS ") VALUES (?,?,?,?,?,?,?)",
			  DB_IN(&t->digest, t->name, t->has_run ? &t->run : NULL, t->run_id,
				t->at_ns, t->author, t->note),
			  err);

	return n < 0 ? -1 : n == 0;
}

#define C(field) DB_COLUMN(struct tag_row, field)
static const struct db_row tag_of_columns =
	DB_ROW(struct tag_row, NULL, C(digest), C(name), DB_OPTIONAL(struct tag_row, run, has_run),
	       C(run_id), C(at_ns), C(author), C(note));
#undef C

int record_tag_find(struct db *db, const char *name, struct arena *arena, struct tag_row *ret,
		    struct err *err)
{
	return db_get_row(db,
			  "SELECT " TAG_COLUMNS
			  " FROM tag WHERE name = ? ORDER BY at_ns DESC, digest DESC LIMIT 1",
			  DB_IN(name), arena, &tag_of_columns, ret, err);
}

int record_tags(struct db *db, const struct digest *run, struct arena *arena, struct tag_row **ret,
		size_t *ret_n, struct err *err)
{
#define NEWEST                                                                                  \
	" AND NOT EXISTS (SELECT 1 FROM tag later WHERE later.name = t.name AND (later.at_ns, " \
	"later.digest) > (t.at_ns, t.digest)) ORDER BY name"
	if (run)
		return db_get_rows(db, "SELECT " TAG_COLUMNS " FROM tag t WHERE run = ?" NEWEST,
				   DB_IN(run), arena, &tag_of_columns, ret, ret_n, err);
	return db_get_rows(db, "SELECT " TAG_COLUMNS " FROM tag t WHERE run IS NOT NULL" NEWEST,
			   DB_IN(), arena, &tag_of_columns, ret, ret_n, err);
#undef NEWEST
}

int record_tag_history(struct db *db, const char *name, struct arena *arena, struct tag_row **ret,
		       size_t *ret_n, struct err *err)
{
	return db_get_rows(
		db,
		"SELECT " TAG_COLUMNS
		" FROM tag WHERE ?1 IS NULL OR name = ?1 ORDER BY at_ns DESC, digest DESC",
		DB_IN(name), arena, &tag_of_columns, ret, ret_n, err);
}

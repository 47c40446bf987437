/* steps/shard/source_table.c — one sample per row of CSV or JSON lines.
 *
 * A row becomes the member json: its own text (JSON lines) or an object of all cells as text (CSV).
 * With `file` the named file is a member too, and `members` makes members of single columns.
 * Everything except the file goes to memory or the spool; for the file only the path is kept
 * (PART_NAMED), which part.c opens and keeps below the root.
 *
 * The key is that of the column `key`, else of the file's name. A row without either gets the
 * digest of its JSON text as key, so that an inserted row changes no other's key; among equal rows,
 * the second gets -2, and so on.
 *
 * A table is mapped as a whole and read once, by one thread. JSON lines are parsed line by line,
 * each by a separate jsonl reader, so that one bad line can be skipped. A CSV with broken quotes or
 * another number of fields ends the step, since its rows can't be told apart any more.
 */
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/table/csv.h"
#include "base/text/text.h"
#include "steps/mapped.h"
#include "steps/shard/internal.h"
#include "steps/table/jsonl.h"

/* Bytes of a digest: with 64 bits, two different rows of a billion almost surely share no key. */
#define KEY_DIGITS 16

struct table {
	struct set *set;
	const char *path;
	uint64_t line, done;
	struct map *digests; /* key made from a digest → how many */
	struct str json;     /* of the row */
	/* CSV */
	struct map *columns; /* name → place + 1 */
	const struct csv_field *cells;
	/* JSON lines */
	const struct jsonl_member *members;
	size_t n_members;
	struct str text; /* of a column */
};

/* One row. */

static bool csv_column(void *arg, const char *name, const char **ret, size_t *ret_n)
{
	const struct table *t = arg;
	uintptr_t at = (uintptr_t)map_get_str(t->columns, name);

	if (!at)
		return false;
	*ret = t->cells[at - 1].s;
	*ret_n = t->cells[at - 1].n;
	return true;
}

static bool json_column(void *arg, const char *name, const char **ret, size_t *ret_n)
{
	struct table *t = arg;

	if (!jsonl_column_text(t->members, t->n_members, name, &t->text))
		return false;
	*ret = t->text.s;
	*ret_n = t->text.len;
	return true;
}

static int column_text(const struct table *t, const struct draft *d, const char *name,
		       bool may_be_empty, struct str *out, struct err *err)
{
	const char *s;
	size_t n;

	if (!d->column(d->arg, name, &s, &n) || (!n && !may_be_empty))
		return err_set(err, ERR_INVALID, "%s:%llu: the row has no `%.100s`", t->path,
			       (unsigned long long)t->line, name);
	if (memchr(s, '\0', n))
		return err_set(err, ERR_INVALID, "%s:%llu: a NUL in `%.100s`", t->path,
			       (unsigned long long)t->line, name);
	str_addn(out, s, n);
	return 0;
}

/* Adds the named file as a member; *ret_key from its name. */
static int add_file(struct table *t, const struct draft *d, struct part *part, const char **ret_key,
		    struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	char where[64];

	if (column_text(t, d, t->set->with.file, false, &path, err) < 0)
		return set_bad(t->set, BAD_ROW, err);
	*part = (struct part){ .where = PART_NAMED, .at = arena_strdup(t->set->arena, path.s) };
	snprintf(where, sizeof(where), "line %llu", (unsigned long long)t->line);
	return loose_name(t->set, where, path.s, ret_key, &part->field, err);
}

static int add_members(struct table *t, const struct draft *d, struct part *parts, size_t *n,
		       struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *field;
	json_t *column;

	json_object_foreach((json_t *)t->set->with.members, field, column)
	{
		str_reset(&text);
		if (column_text(t, d, json_string_value(column), true, &text, err) < 0)
			return set_bad(t->set, BAD_ROW, err);
		if (set_part(t->set, field, text.s ? text.s : "", text.len, &parts[(*n)++], err) <
		    0)
			return -1;
	}
	return 0;
}

/* Reads the key from the column `key`, if the settings name one. */
static int read_key(struct table *t, struct draft *d, struct err *err)
{
	_cleanup_(str_deinit) struct str key = { 0 };

	if (!t->set->with.key)
		return 0;
	if (column_text(t, d, t->set->with.key, false, &key, err) < 0)
		return set_bad(t->set, BAD_ROW, err);
	if (t->set->with.last_dot)
		loose_hide_dots(key.s);
	d->key = arena_strdup(t->set->arena, key.s);
	return 0;
}

/* The key of a row that has neither a key column nor a file. */
static const char *digest_key(struct table *t)
{
	char hex[DIGEST_HEX_MAX];
	struct digest d;
	void **slot;
	uintptr_t n;

	digest_bytes(t->json.s, t->json.len, &d);
	digest_hex(&d, hex);
	hex[KEY_DIGITS] = '\0';
	slot = map_slot_str(t->digests, hex);
	n = (uintptr_t)*slot + 1;
	*slot = (void *)n;
	return n == 1 ? arena_strdup(t->set->arena, hex)
		      : arena_printf(t->set->arena, "%s-%llu", hex, (unsigned long long)n);
}

static int add_row(struct table *t, struct draft *d, struct err *err)
{
	struct part parts[SHARD_FIELDS_MAX];
	int r = 0;

	d->parts = parts;
	d->arg = t;
	if (t->set->with.file) {
		r = add_file(t, d, &parts[0], &d->key, err);
		d->n_parts = 1;
	}
	if (r == 0)
		r = read_key(t, d, err);
	if (r == 0 && !d->key)
		d->key = digest_key(t);
	if (r == 0)
		r = add_members(t, d, parts, &d->n_parts, err);
	if (r == 0 &&
	    set_part(t->set, "json", t->json.s, t->json.len, &parts[d->n_parts++], err) < 0)
		return -1;
	if (r == 0)
		r = set_add(t->set, d, err);
	if (r < 0)
		err_wrap(err, "%s:%llu", t->path, (unsigned long long)t->line);
	step_progress(++t->done, 0, "rows read");
	return r < 0 ? -1 : 0;
}

/* CSV. */

static int read_header(struct table *t, struct csv *c, struct err *err)
{
	const struct csv_field *v;
	size_t n;
	int r = csv_next(c, &v, &n, err);

	if (r <= 0)
		return r < 0 ? -1
			     : err_set(err, ERR_INVALID,
				       "%s: is empty: the first row must name the columns",
				       t->path);
	for (size_t i = 0; i < n; i++) {
		void **slot = map_slot(t->columns, v[i].s, v[i].n, NULL);

		if (*slot || !text_is_utf8(v[i].s, v[i].n))
			return err_set(err, ERR_INVALID,
				       "%s:1: the column `%.*s` is there twice or not UTF-8",
				       t->path, (int)MIN(v[i].n, 100), v[i].s);
		*slot = (void *)(i + 1);
	}
	return 0;
}

static int check_columns(const struct table *t, struct err *err)
{
	const struct settings *w = &t->set->with;
	const char *wanted[5] = { w->key, w->file, w->cls.kind == RULE_COLUMN ? w->cls.name : NULL,
				  w->group_by.kind == RULE_COLUMN ? w->group_by.name : NULL,
				  w->split_by.kind == RULE_COLUMN ? w->split_by.name : NULL };

	for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
		if (wanted[i] && !map_get_str(t->columns, wanted[i]))
			return err_set(err, ERR_INVALID, "%s: there is no column `%.100s`", t->path,
				       wanted[i]);
	return 0;
}

static int csv_row_json(struct table *t, struct err *err)
{
	const void *name;
	size_t len;

	str_reset(&t->json);
	str_addc(&t->json, '{');
	for (size_t i = 0; i < map_len(t->columns); i++) {
		map_at(t->columns, i, &name, &len);
		if (!text_is_utf8(t->cells[i].s, t->cells[i].n))
			return err_set(err, ERR_INVALID, "%s:%llu: `%.*s` is not UTF-8", t->path,
				       (unsigned long long)t->line, (int)MIN(len, 100),
				       (const char *)name);
		str_add(&t->json, i ? "," : "");
		json_add_string(&t->json, name, len);
		str_addc(&t->json, ':');
		json_add_string(&t->json, t->cells[i].s, t->cells[i].n);
	}
	str_addc(&t->json, '}');
	return 0;
}

static int read_csv(struct table *t, const char *text, size_t size, struct err *err)
{
	char separator = t->set->with.separator            ? t->set->with.separator
			 : str_has_suffix(t->path, ".tsv") ? '\t'
							   : ',';
	struct csv *c;
	size_t n;
	int r;

	if (csv_open(t->path, text, size, separator, &c, err) < 0)
		return -1;
	t->columns = map_new();
	r = read_header(t, c, err) < 0 ? -1 : check_columns(t, err);
	while (r >= 0 && (r = csv_next(c, &t->cells, &n, err)) > 0) {
		struct draft d = { .column = csv_column };

		t->line = csv_line(c);
		r = csv_row_json(t, err) < 0 ? set_bad(t->set, BAD_ROW, err) : add_row(t, &d, err);
	}
	map_free(TAKE_PTR(t->columns));
	csv_free(c);
	return r;
}

/* JSON lines. */

static int read_jsonl(struct table *t, const char *text, size_t size, struct err *err)
{
	const char *end = text + size;

	if (size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
		text += 3;
	for (const char *p = text, *eol; p < end; p = eol + 1) {
		struct draft d = { .column = json_column };
		const char *line = p;
		struct jsonl *row;
		size_t n;
		int r;

		eol = memchr(p, '\n', (size_t)(end - p));
		eol = eol ? eol : end;
		n = (size_t)(eol - p);
		trim_blanks(&line, &n);
		row = jsonl_new(t->path, line, n, ++t->line);
		r = jsonl_next(row, &t->members, &t->n_members, err);
		if (r < 0) {
			r = set_bad(t->set, BAD_ROW, err);
		} else if (r > 0) {
			str_reset(&t->json);
			str_addn(&t->json, line, n);
			r = add_row(t, &d, err);
		}
		jsonl_free(row);
		if (r < 0)
			return -1;
	}
	return 0;
}

/* Files. */

static int open_files_root(struct set *s, const struct input *in, struct err *err)
{
	const struct step_port *files = step_input(s->args, "files");

	if (files)
		s->files_root = files->path;
	else if (!in->is_dir) {
		_cleanup_(freep) char *dir = fs_dirname(in->root);

		s->files_root = arena_strdup(s->arena, dir);
	}
	s->files_fd = open(s->files_root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->files_fd < 0 ? err_errno(err, "cannot read %s", s->files_root) : 0;
}

int source_tables(struct set *s, const struct input *in, bool jsonl, struct err *err)
{
	struct table t = { .set = s, .digests = map_new() };
	int r = 0;

	if (json_object_size(s->with.members) > SHARD_FIELDS_MAX - 2)
		r = err_set(err, ERR_INVALID, "with.members: more than %d", SHARD_FIELDS_MAX - 2);
	else if (s->with.file)
		r = open_files_root(s, in, err);
	for (size_t i = 0; i < in->n && r == 0; i++) {
		_cleanup_(mapped_close) struct mapped m = { 0 };

		t.path = in->files[i].path;
		t.line = 0;
		r = mapped_open(&m, t.path, 0, err);
		if (r == 0)
			r = (jsonl ? read_jsonl : read_csv)(&t, m.text, m.n, err);
	}
	map_free(t.digests);
	str_deinit(&t.json);
	str_deinit(&t.text);
	return r;
}

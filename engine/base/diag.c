/* engine/base/diag.c — a list of errors and warnings, sorted when it is read.
 *
 * A hostile file can have millions of errors: once DIAG_MAX of a severity are kept, the rest is
 * only counted, neither formatted nor compared. So the scans over kept entries (is_kept()) are
 * short.
 *
 * File names and messages are copied into the list's arena. `files` keeps each name once, in the
 * order of first mention, which is the first sort key. Messages are escaped and limited like those
 * of errors (err_set()). The list has no lock.
 */
#include "base/diag.h"

#include <assert.h>
#include <string.h>
#include "base/map.h"
#include "base/mem.h"
#include "base/text/text.h"

struct entry {
	struct diag d;
	size_t file_rank, seq;
};

struct diag_list {
	VEC(struct entry) kept;
	size_t n_added[2], n_kept[2]; /* by severity */
	struct map *files;            /* name → its copy, in the order of first mention */
	struct arena *arena;
	bool is_sorted;
};

struct diag_list *diag_list_new(void)
{
	struct diag_list *l = xcalloc(1, sizeof(*l));

	l->arena = arena_new();
	l->files = map_new();
	return l;
}

void diag_list_free(struct diag_list *l)
{
	if (!l)
		return;
	VEC_FREE(&l->kept);
	map_free(l->files);
	arena_free(l->arena);
	free(l);
}

/* Returns the list's copy of a file name; *ret_rank is its index among all names. */
static const char *intern_file(struct diag_list *l, const char *file, size_t *ret_rank)
{
	void **slot;
	bool is_new;

	slot = map_slot(l->files, file, strlen(file), &is_new);
	if (is_new)
		*slot = arena_strdup(l->arena, file);
	for (size_t i = 0; i < map_len(l->files); i++)
		if (map_at(l->files, i, NULL, NULL) == *slot)
			*ret_rank = i;
	return *slot;
}

static bool is_kept(const struct diag_list *l, const struct diag *d)
{
	for (size_t i = 0; i < l->kept.n; i++) {
		const struct diag *k = &l->kept.v[i].d;

		if (k->line == d->line && k->col == d->col && k->severity == d->severity &&
		    k->file == d->file && strcmp(k->message, d->message) == 0)
			return true;
	}
	return false;
}

void diag_addv(struct diag_list *l, enum diag_severity severity, const char *file, int line,
	       int col, const char *fmt, va_list ap)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err one_line; /* escapes and limits the text */
	struct entry e = { .d = { .line = line, .col = col, .severity = severity } };

	assert(severity == DIAG_ERROR || severity == DIAG_WARNING);
	if (l->n_kept[severity] == DIAG_MAX) {
		l->n_added[severity]++;
		return;
	}
	str_addv(&text, fmt, ap);
	err_set(&one_line, ERR_INVALID, "%s", text.s);
	e.d.file = intern_file(l, file, &e.file_rank);
	e.d.message = one_line.msg;
	if (is_kept(l, &e.d))
		return;
	e.d.message = arena_strdup(l->arena, one_line.msg);
	e.seq = l->kept.n;
	VEC_PUSH(&l->kept, e);
	l->n_kept[severity]++;
	l->n_added[severity]++;
	l->is_sorted = false;
}

void diag_error(struct diag_list *l, const char *file, int line, int col, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_addv(l, DIAG_ERROR, file, line, col, fmt, ap);
	va_end(ap);
}

void diag_warning(struct diag_list *l, const char *file, int line, int col, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_addv(l, DIAG_WARNING, file, line, col, fmt, ap);
	va_end(ap);
}

void diag_note(struct diag_list *l, size_t since, const char *file, const char *note)
{
	for (size_t i = 0; i < l->kept.n; i++) {
		struct entry *e = &l->kept.v[i];
		struct err one_line;

		if (e->seq < since || strcmp(e->d.file, file) != 0)
			continue;
		err_set(&one_line, ERR_INVALID, "%s%s", e->d.message, note);
		e->d.message = arena_strdup(l->arena, one_line.msg);
	}
}

size_t diag_errors(const struct diag_list *l)
{
	return l->n_added[DIAG_ERROR];
}

size_t diag_warnings(const struct diag_list *l)
{
	return l->n_added[DIAG_WARNING];
}

#define COMPARE(a, b)                              \
	do {                                       \
		if ((a) != (b))                    \
			return (a) < (b) ? -1 : 1; \
	} while (0)

static int by_place(const void *x, const void *y)
{
	const struct entry *a = x, *b = y;

	COMPARE(a->file_rank, b->file_rank);
	COMPARE(a->d.line, b->d.line);
	COMPARE(a->d.col, b->d.col);
	COMPARE(a->d.severity, b->d.severity);
	COMPARE(a->seq, b->seq);
	return 0;
}

size_t diag_len(struct diag_list *l)
{
	if (!l->is_sorted && l->kept.n)
		qsort(l->kept.v, l->kept.n, sizeof(*l->kept.v), by_place);
	l->is_sorted = true;
	return l->kept.n;
}

const struct diag *diag_at(struct diag_list *l, size_t i)
{
	return i < diag_len(l) ? &l->kept.v[i].d : NULL;
}

static void add_place(struct str *out, const struct diag *d)
{
	text_add_printable(out, d->file, strlen(d->file));
	if (d->line > 0)
		str_addf(out, ":%d:%d", d->line, d->col);
	str_add(out, ": ");
}

static void add_rest(const struct diag_list *l, enum diag_severity severity, const char *name,
		     struct str *out)
{
	size_t rest = l->n_added[severity] - l->n_kept[severity];

	if (rest)
		str_addf(out, "and %zu more %s%s\n", rest, name, rest == 1 ? "" : "s");
}

void diag_render(struct diag_list *l, struct str *out)
{
	for (size_t i = 0; i < diag_len(l); i++) {
		const struct diag *d = diag_at(l, i);

		add_place(out, d);
		str_addf(out, "%s%s\n", d->severity == DIAG_WARNING ? "warning: " : "", d->message);
	}
	add_rest(l, DIAG_ERROR, "error", out);
	add_rest(l, DIAG_WARNING, "warning", out);
}

int diag_to_err(struct diag_list *l, const char *file, struct err *err)
{
	if (diag_errors(l) != 1)
		return err_set(err, ERR_INVALID, "%s: %zu errors", file, diag_errors(l));
	for (size_t i = 0; i < diag_len(l); i++) {
		const struct diag *d = diag_at(l, i);
		_cleanup_(str_deinit) struct str place = { 0 };

		if (d->severity != DIAG_ERROR)
			continue;
		add_place(&place, d);
		return err_set(err, ERR_INVALID, "%s%s", place.s, d->message);
	}
	return err_set(err, ERR_INVALID, "%s: invalid", file);
}

#include <stdio.h>
#include <string.h>
#include "base/diag.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/text.h"

struct entry {
	struct diag d;
	size_t file_rank, seq;
};

struct diag_list {
	struct arena *arena;
	VEC(struct entry) entries;
	struct map *files; /* name → rank + 1 */
	struct map *seen;  /* place and message */
	size_t errors, warnings, kept_errors, kept_warnings;
	bool sorted;
};

struct diag_list *diag_list_new(void)
{
	struct diag_list *l = xcalloc(1, sizeof(*l));

	l->arena = arena_new();
	l->files = map_new();
	l->seen = map_new();
	return l;
}

void diag_list_free(struct diag_list *l)
{
	if (!l)
		return;
	VEC_FREE(&l->entries);
	map_free(l->files);
	map_free(l->seen);
	arena_free(l->arena);
	free(l);
}

static size_t rank_of(struct diag_list *l, const char *file, const char **ret_copy)
{
	void **slot = map_slot_str(l->files, file);
	struct {
		size_t rank;
		char *name;
	} *f = *slot;

	if (!f) {
		f = arena_alloc(l->arena, sizeof(*f));
		f->rank = map_len(l->files);
		f->name = arena_strdup(l->arena, file);
		*slot = f;
	}
	*ret_copy = f->name;
	return f->rank;
}

static bool seen_before(struct diag_list *l, const char *file, int line, int col, const char *message)
{
	struct str key = { 0 };
	bool is_new;

	str_addf(&key, "%d:%d:%s:%s", line, col, file, message);
	map_slot(l->seen, key.s, key.len, &is_new);
	str_deinit(&key);
	return !is_new;
}

void diag_addv(struct diag_list *l, enum diag_severity severity, const char *file, int line, int col, const char *fmt, va_list ap)
{
	struct str raw = { 0 }, text = { 0 };
	size_t *kept = severity == DIAG_ERROR ? &l->kept_errors : &l->kept_warnings;
	struct entry e = { 0 };

	str_addv(&raw, fmt, ap);
	text_add_printable(&text, raw.len ? raw.s : "", raw.len);
	str_deinit(&raw);
	if (text.len == 0)
		str_add(&text, "");
	if (!seen_before(l, file, line, col, text.s)) {
		*(severity == DIAG_ERROR ? &l->errors : &l->warnings) += 1;
		if (*kept < DIAG_MAX) {
			++*kept;
			e.file_rank = rank_of(l, file, &e.d.file);
			e.seq = l->entries.n;
			e.d.line = line;
			e.d.col = col;
			e.d.severity = severity;
			e.d.message = arena_strdup(l->arena, text.s);
			VEC_PUSH(&l->entries, e);
			l->sorted = false;
		}
	}
	str_deinit(&text);
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

size_t diag_errors(const struct diag_list *l)
{
	return l->errors;
}

size_t diag_warnings(const struct diag_list *l)
{
	return l->warnings;
}

static int by_place(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->file_rank != y->file_rank)
		return x->file_rank < y->file_rank ? -1 : 1;
	if (x->d.line != y->d.line)
		return x->d.line < y->d.line ? -1 : 1;
	if (x->d.col != y->d.col)
		return x->d.col < y->d.col ? -1 : 1;
	if (x->d.severity != y->d.severity)
		return x->d.severity < y->d.severity ? -1 : 1;
	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static void sort(struct diag_list *l)
{
	if (!l->sorted && l->entries.n)
		qsort(l->entries.v, l->entries.n, sizeof(*l->entries.v), by_place);
	l->sorted = true;
}

size_t diag_len(struct diag_list *l)
{
	return l->entries.n;
}

const struct diag *diag_at(struct diag_list *l, size_t i)
{
	sort(l);
	return &l->entries.v[i].d;
}

static void add_place(struct str *out, const struct diag *d)
{
	text_add_printable(out, d->file, strlen(d->file));
	if (d->line > 0)
		str_addf(out, ":%d:%d", d->line, d->col);
	str_add(out, ": ");
}

void diag_render(struct diag_list *l, struct str *out)
{
	for (size_t i = 0; i < diag_len(l); i++) {
		const struct diag *d = diag_at(l, i);

		add_place(out, d);
		str_addf(out, "%s%s\n", d->severity == DIAG_WARNING ? "warning: " : "", d->message);
	}
	if (l->errors > l->kept_errors)
		str_addf(out, "and %zu more errors\n", l->errors - l->kept_errors);
	if (l->warnings > l->kept_warnings)
		str_addf(out, "and %zu more warnings\n", l->warnings - l->kept_warnings);
}

int diag_to_err(struct diag_list *l, const char *file, struct err *err)
{
	struct str place = { 0 };

	if (l->errors != 1)
		return err_set(err, ERR_INVALID, "%s: %zu errors", file, l->errors);
	for (size_t i = 0; i < diag_len(l); i++) {
		const struct diag *d = diag_at(l, i);

		if (d->severity != DIAG_ERROR)
			continue;
		add_place(&place, d);
		err_set(err, ERR_INVALID, "%s%s", place.s, d->message);
		break;
	}
	str_deinit(&place);
	return -1;
}

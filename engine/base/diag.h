/* engine/base/diag.h — a list of all errors and warnings in a file, each with its place.
 *
 * Checkers add as they find; the program renders once. Positions are 1-based; columns count
 * characters, not bytes. line 0 means the whole file. At most DIAG_MAX errors and as many warnings
 * are kept, because nobody reads more; the rest is counted ("and 12 more errors"). The same message
 * at the same place is kept once, because a node with two aliases is checked twice. The list copies
 * file names and messages; messages are escaped like those of err.h. One owner at a time.
 */
#ifndef CAIRN_BASE_DIAG_H
#define CAIRN_BASE_DIAG_H

#include <stdarg.h>
#include "base/err.h"
#include "base/text/str.h"

#define DIAG_MAX 100

enum diag_severity { DIAG_ERROR, DIAG_WARNING };

struct diag {
	const char *file;
	int line, col;
	enum diag_severity severity;
	const char *message;
};

struct diag_list;
struct diag_list *diag_list_new(void);
void diag_list_free(struct diag_list *l); /* NULL is fine */
static inline void diag_list_freep(struct diag_list **l)
{
	diag_list_free(*l);
}

void diag_error(struct diag_list *l, const char *file, int line, int col, const char *fmt, ...)
	_printf_(5, 6);
void diag_warning(struct diag_list *l, const char *file, int line, int col, const char *fmt, ...)
	_printf_(5, 6);
void diag_addv(struct diag_list *l, enum diag_severity severity, const char *file, int line,
	       int col, const char *fmt, va_list ap) _printf_(6, 0);

/* Appends `note` to the kept messages of `file` that came after the first `since` kept ones. */
void diag_note(struct diag_list *l, size_t since, const char *file, const char *note);

/* How many were added, including those that aren't kept. */
size_t diag_errors(const struct diag_list *l);
size_t diag_warnings(const struct diag_list *l);

/* The kept entries, sorted: files in the order of first mention, then by position, errors before
 * warnings at the same place. Valid until the next add. */
size_t diag_len(struct diag_list *l);
const struct diag *diag_at(struct diag_list *l, size_t i);

/* One line each: `file:line:col: message`, `file:line:col: warning: message`; then `and N more
 * errors`. */
void diag_render(struct diag_list *l, struct str *out);

/* For loaders, when the list has errors: sets ERR_INVALID "FILE: 3 errors", or for a single error
 * "FILE:LINE:COL: message". Returns -1. */
int diag_to_err(struct diag_list *l, const char *file, struct err *err);

#endif

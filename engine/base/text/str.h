/* engine/base/text/str.h — a growing byte string, always NUL-terminated (`s` is never NULL after
 * the first add).
 *
 * May hold NUL bytes: `len` counts. `struct str s = {0}` is a valid empty one whose `s` is NULL
 * until something is added.
 */
#ifndef CAIRN_BASE_TEXT_STR_H
#define CAIRN_BASE_TEXT_STR_H

#include <stdarg.h>
#include <stdbool.h>
#include "base/macros.h"

struct str {
	char *s;
	size_t len, cap;
};

void str_deinit(struct str *s);
void str_wipe(struct str *s);  /* overwrites a secret, then as str_deinit() */
void str_reset(struct str *s); /* length 0, keeps the memory */
void str_reserve(struct str *s, size_t extra);
void str_add(struct str *s, const char *text);
void str_addn(struct str *s, const void *bytes, size_t n);
void str_addc(struct str *s, char c);
void str_addf(struct str *s, const char *fmt, ...) _printf_(2, 3);
void str_addv(struct str *s, const char *fmt, va_list ap) _printf_(2, 0);
char *str_take(struct str *s); /* the caller frees; "" if nothing was added */
/* Length-prefixed field for canonical binary records: u32 little endian, then the bytes. */
void str_add_field(struct str *s, const void *bytes, size_t n);
void str_add_u32(struct str *s, uint32_t v);
void str_add_u64(struct str *s, uint64_t v);

bool str_eq(const char *a, const char *b); /* both may be NULL */
bool str_has_prefix(const char *s, const char *prefix);
bool str_has_suffix(const char *s, const char *suffix);
size_t str_len_without(const char *s,
		       char last); /* its length without trailing characters `last` */

#endif

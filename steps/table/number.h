/* steps/table/number.h — decimal numbers from text: correctly rounded, and quick for the numbers
 * that programs usually print.
 *
 * "1", "-0.5", "+3e-4", ".5", "5.", "nan", "inf", "Infinity" in any case; nothing else (no spaces,
 * no hexadecimal, no thousands). Independent of the locale. Pure; any thread.
 */
#ifndef CAIRN_STEPS_TABLE_NUMBER_H
#define CAIRN_STEPS_TABLE_NUMBER_H

#include <stdbool.h>
#include "base/macros.h"

/* Reads the longest number at the start of s[0..n); returns its length, 0 when there is none. A
 * number that is too large for a double becomes infinite. */
size_t number_prefix(const char *s, size_t n, double *ret);
/* Accepts only a number that is the whole text. */
static inline bool number_parse(const char *s, size_t n, double *ret)
{
	return n && number_prefix(s, n, ret) == n;
}

#endif

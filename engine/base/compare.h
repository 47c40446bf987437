/* engine/base/compare.h — the six comparison operators that gates, expressions, rules and queries
 * have: == != < <= > >=. */
#ifndef CAIRN_BASE_COMPARE_H
#define CAIRN_BASE_COMPARE_H

#include <stdbool.h>
#include <stddef.h>

enum compare_op {
	COMPARE_EQ,
	COMPARE_NE,
	COMPARE_LT,
	COMPARE_LE,
	COMPARE_GT,
	COMPARE_GE,
	COMPARE_OPS
};

/* The operator that `text` begins with: its length, or 0. */
size_t compare_parse(const char *text, enum compare_op *ret);
/* order: left side compared with right side: < 0, 0, > 0. */
bool compare_order(enum compare_op op, int order);
bool compare_numbers(enum compare_op op, double a, double b); /* with NaN only != is true */
/* Whether two records of a number say the same: two NaNs do. */
bool compare_same(double a, double b);

#endif

#include "base/compare.h"
#include <math.h>
#include <string.h>

size_t compare_parse(const char *text, enum compare_op *ret)
{
	static const char *const names[] = {
		[COMPARE_EQ] = "==", [COMPARE_NE] = "!=", [COMPARE_LT] = "<",
		[COMPARE_LE] = "<=", [COMPARE_GT] = ">",  [COMPARE_GE] = ">="
	};
	size_t longest = 0;

	for (unsigned op = 0; op < COMPARE_OPS; op++) {
		size_t n = strlen(names[op]);

		if (n > longest && strncmp(text, names[op], n) == 0) {
			*ret = op;
			longest = n;
		}
	}
	return longest;
}

bool compare_order(enum compare_op op, int order)
{
	switch (op) {
	case COMPARE_EQ:
		return order == 0;
	case COMPARE_NE:
		return order != 0;
	case COMPARE_LT:
		return order < 0;
	case COMPARE_LE:
		return order <= 0;
	case COMPARE_GT:
		return order > 0;
	default:
		return order >= 0;
	}
}

bool compare_numbers(enum compare_op op, double a, double b)
{
	return isunordered(a, b) ? op == COMPARE_NE : compare_order(op, a < b ? -1 : a > b);
}

bool compare_same(double a, double b)
{
	return a == b || (isnan(a) && isnan(b));
}

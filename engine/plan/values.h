/* engine/plan/values.h — what a step writes to its `values` file: a JSON object of small typed
 * values. */
#ifndef CAIRN_PLAN_VALUES_H
#define CAIRN_PLAN_VALUES_H

#include "base/macros.h"
#include "model/expr/value.h"

#define VALUES_MAX_BYTES (1 * MIB) /* of the file */
#define VALUES_MAX_DEPTH 16        /* objects and lists in one another, the file's own included */
#define VALUES_MAX_ITEMS 10000     /* of one list or object */

/* Strict JSON with an object at the top. `what` begins errors. A number that a 64-bit integer or a
 * double would change is refused. ERR_INVALID, ERR_TOO_LARGE; the result lives in `arena`. */
int values_parse(const char *what, const char *json, size_t n, struct arena *arena,
		 struct value *ret, struct err *err);
/* The value at a dotted path: members of objects, items of lists by index from 0. A name with dots
 * in it is tried before its parts. ERR_NOT_FOUND says which part is missing and what is there. */
int values_at(const struct value *v, const char *path, const struct value **ret, struct err *err);
/* Whether a text in it, or a member's name, holds `s`. */
bool values_hold(const struct value *v, const char *s);

#endif

/* engine/model/expr/value.h — typed values of params, matrix axes and expressions. Plain data;
 * strings and lists are borrowed from an arena. */
#ifndef CAIRN_MODEL_EXPR_VALUE_H
#define CAIRN_MODEL_EXPR_VALUE_H

#include <stdbool.h>
#include "base/err.h"
#include "base/mem.h"
#include "base/text/json.h"
#include "base/text/str.h"

/* Objects come from what steps write (plan/values.h); a pipeline's own values have none. */
enum value_type {
	VALUE_NULL = 0,
	VALUE_BOOL,
	VALUE_INT,
	VALUE_FLOAT,
	VALUE_STRING,
	VALUE_LIST,
	VALUE_OBJECT
};

struct value_member;

struct value {
	enum value_type type;
	union {
		bool b;
		int64_t i;
		double f;
		const char *s;
		struct {
			const struct value *v;
			size_t n;
		} list;
		struct {
			const struct value_member *v; /* sorted by name */
			size_t n;
		} object;
	};
};

struct value_member {
	const char *name;
	struct value value;
};

const char *
value_type_name(enum value_type t); /* "null", "bool", "int", "float", "string", "list", "object" */
const char *value_type_phrase(enum value_type t); /* the same with an article, for sentences:
						     "null", "a bool", "an int", … */
bool value_eq(
	const struct value *a,
	const struct value *b); /* int and float compare by exact number; NaN equals nothing */
/* Both int or float: -1, 0 or 1; 2 when either is NaN. */
int value_compare_numbers(const struct value *a, const struct value *b);
/* As it stands in a command: 0.1 → "0.1" (the shortest text that reads back the same), true, text
 * unchanged; list items joined by ' '; an object as JSON. */
void value_add_text(struct str *out, const struct value *v);
/* Canonical bytes for keys: type tag, then a fixed form. Int 1 and float 1.0 differ; 0.0 and -0.0
 * don't. */
void value_add_canonical(struct str *out, const struct value *v);
/* Text of a canonical form, for people; malformed bytes give "?". */
void value_canonical_text(const void *canonical, size_t n, struct str *out);
void value_add_json(struct str *out,
		    const struct value *v); /* 1.0 differs from 1; NaN and infinity are null */
json_t *value_json(const struct value *v);  /* a new reference; NULL for text that isn't UTF-8 */
/* Reads `text` as the type; ERR_INVALID names what was expected ("must be an integer, not `x`"). A
 * list is "[1, a, 'b c']", or the same without brackets; each item gets the type that it looks
 * like, string if no other fits. */
int value_parse(enum value_type type, const char *text, struct arena *arena, struct value *ret,
		struct err *err);
/* Reads quoted text at `p`, in which '' or "" stands for the quote itself. Returns a pointer behind
 * it, or NULL when it isn't closed. */
const char *value_parse_quoted(const char *p, const char *end, struct arena *arena,
			       struct value *ret);

#endif

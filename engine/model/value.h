/* model/value.h — typed values of params, matrix axes and expressions. Plain data; strings and lists are borrowed from an arena. */
#ifndef CAIRN_MODEL_VALUE_H
#define CAIRN_MODEL_VALUE_H

#include <stdbool.h>
#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

enum value_type { VALUE_NULL = 0, VALUE_BOOL, VALUE_INT, VALUE_FLOAT, VALUE_STRING, VALUE_LIST };

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
	};
};

const char *value_type_name(enum value_type t); /* "null", "bool", "int", "float", "string", "list" */
bool value_eq(const struct value *a, const struct value *b); /* int and float compare by number */
/* As it appears in a command: 0.1 → "0.1" (shortest that reads back the same), true, text as it is; list items joined by ' '. */
void value_add_text(struct str *out, const struct value *v);
/* Canonical bytes for keys: type tag, then a fixed form. Int 1 and float 1.0 differ. */
void value_add_canonical(struct str *out, const struct value *v);
void value_add_json(struct str *out, const struct value *v);
/* Reads `text` as the type; ERR_INVALID names what was expected. */
int value_parse(enum value_type type, const char *text, struct arena *arena, struct value *ret, struct err *err);

#endif

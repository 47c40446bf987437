/* engine/base/text/json.h — jansson with limits, places in errors, one canonical form, and typed
 * getters.
 *
 * Input is hostile: size and depth are limited; duplicate keys, `\u0000` and text that isn't UTF-8
 * are errors. References follow jansson: functions that return json_t through *ret give a new
 * reference (json_decref, or jansson's own `_cleanup_(json_decrefp)`); the getters give borrowed
 * ones.
 */
#ifndef CAIRN_BASE_TEXT_JSON_H
#define CAIRN_BASE_TEXT_JSON_H

#include <jansson.h>
#include "base/err.h"
#include "base/text/str.h"

#define JSON_DEPTH_MAX 64
#define JSON_FILE_MAX  (256 * MIB) /* a manifest of a million tasks has about 200 MB */

/* The parser's message, without the text that it quotes, which may be a secret. Borrowed. */
const char *json_problem(json_error_t *e);
/* `what` names the source in errors: "what:line:col: ...". The top may be any value.
 * ERR_INVALID. */
int json_parse(const char *what, const char *bytes, size_t n, json_t **ret, struct err *err);
/* ERR_TOO_LARGE over max_bytes (0: JSON_FILE_MAX). */
int json_read_file(const char *path, uint64_t max_bytes, json_t **ret, struct err *err);
/* Atomic (fs_write_atomic); pretty: indented with sorted keys, for people, else the canonical form;
 * a newline at the end. */
int json_write_file(const char *path, const json_t *j, bool pretty, struct err *err);

/* Canonical form: no spaces; keys sorted by their UTF-8 bytes; integers as integers; reals in the
 * shortest form that reads back the same, always with '.' or 'e' (7.0 stays apart from 7); in
 * strings only `"`, `\` and control characters are escaped, the latter as \b \t \n \f \r or \u00xx.
 * Equal values give equal bytes. */
void json_add_canonical(struct str *out, const json_t *j);
/* A string with its quotes, escaped as above. Bytes that aren't UTF-8 become U+FFFD: encode names
 * first (below). */
void json_add_string(struct str *out, const char *s, size_t n);

/* Typed members of an object. -1 with ERR_INVALID ("`k` is missing", "`k` must be a string, not an
 * array"); `obj` owns the strings. Wrap errors with the name of the object. The *_opt functions
 * give `def` when the key is absent or null. */
int json_get_str(const json_t *obj, const char *key, const char **ret, struct err *err);
int json_get_int(const json_t *obj, const char *key, int64_t *ret, struct err *err);
int json_get_uint(const json_t *obj, const char *key, uint64_t *ret,
		  struct err *err); /* an int >= 0 */
int json_get_bool(const json_t *obj, const char *key, bool *ret, struct err *err);
int json_get_array(const json_t *obj, const char *key, json_t **ret, struct err *err);  /* lent */
int json_get_object(const json_t *obj, const char *key, json_t **ret, struct err *err); /* lent */
int json_get_str_opt(const json_t *obj, const char *key, const char *def, const char **ret,
		     struct err *err);
int json_get_int_opt(const json_t *obj, const char *key, int64_t def, int64_t *ret,
		     struct err *err);
int json_get_real_opt(const json_t *obj, const char *key, double def, double *ret, struct err *err);
int json_get_bool_opt(const json_t *obj, const char *key, bool def, bool *ret, struct err *err);
const char *json_describe(const json_t *j); /* "an object", "a string", … */

/* Byte strings that may not be UTF-8 (file names) as JSON text and back without loss: valid UTF-8
 * stays as it is, except that a backslash becomes two; every other byte, and NUL, becomes \xNN
 * (lower-case hex). "a\b" + 0xff ↔ "a\\b\xff" (before JSON's own escaping). Decoding accepts only
 * what encoding gives. */
void json_name_encode(struct str *out, const void *bytes, size_t n);
int json_name_decode(struct str *out, const char *text, struct err *err);
json_t *json_name(const void *bytes, size_t n); /* a new JSON string */

/* Appends to the array `list` those members of `more` that equal none of its members. Does nothing
 * if `more` isn't an array. */
void json_array_add_new(json_t *list, const json_t *more);

#endif

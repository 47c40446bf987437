/* engine/base/text/json.c — jansson with limits, a writer of our own, typed getters, and names
 * that aren't UTF-8.
 *
 * Depth is checked by a scan of the bytes before jansson sees them: it recurses, and its own
 * limit is 2048 levels. One writer (add_value()) makes the canonical and the pretty form, which
 * differ in line breaks only. Keys are sorted at each object; numbers and escapes are those of
 * the canonical form.
 *
 * The getters go through get(), which makes all messages. json_problem() removes the text that a
 * parser's message quotes, because it may be a secret. Decoding a name accepts only what encoding
 * gives: it encodes the result again and compares.
 */
#include "base/text/json.h"
#include <errno.h>
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/text.h"

/* jansson recurses: its own limit is 2048 levels; ours is checked before it sees the bytes. */
static bool too_deep(const char *bytes, size_t n)
{
	int depth = 0;
	bool in_string = false;

	for (size_t i = 0; i < n; i++) {
		char c = bytes[i];

		if (in_string) {
			if (c == '\\')
				i++;
			else if (c == '"')
				in_string = false;
		} else if (c == '"') {
			in_string = true;
		} else if (c == '{' || c == '[') {
			if (++depth > JSON_DEPTH_MAX)
				return true;
		} else if (c == '}' || c == ']') {
			depth--;
		}
	}
	return false;
}

const char *json_problem(json_error_t *e)
{
	char *quote = strstr(e->text, " near '");

	if (quote)
		*quote = '\0';
	return e->text;
}

int json_parse(const char *what, const char *bytes, size_t n, json_t **ret, struct err *err)
{
	json_error_t je;
	json_t *j;

	if (too_deep(bytes, n))
		return err_set(err, ERR_INVALID, "%s: nested deeper than %d levels", what,
			       JSON_DEPTH_MAX);
	j = json_loadb(bytes, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &je);
	if (!j)
		return err_set(err, ERR_INVALID, "%s:%d:%d: %s", what, MAX(je.line, 1),
			       MAX(je.column, 1), json_problem(&je));
	*ret = j;
	return 0;
}

int json_read_file(const char *path, uint64_t max_bytes, json_t **ret, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (fs_read_file(path, max_bytes ? max_bytes : JSON_FILE_MAX, &text, err) < 0)
		return -1;
	return json_parse(path, text.len ? text.s : "", text.len, ret, err);
}

/* Writing. */

static void add_escaped(struct str *out, unsigned char c)
{
	static const char from[] = "\"\\\b\t\n\f\r", to[] = "\"\\btnfr";
	const char *at = memchr(from, c, sizeof(from) - 1);

	if (at)
		str_addf(out, "\\%c", to[at - from]);
	else
		str_addf(out, "\\u%04x", c);
}

void json_add_string(struct str *out, const char *s, size_t n)
{
	str_addc(out, '"');
	for (size_t i = 0, len; i < n; i += len) {
		const char *from = s + i;
		uint32_t cp;

		for (len = 0; i + len < n && from[len] >= 0x20 && from[len] != '"' &&
			      from[len] != '\\' && !(from[len] & 0x80);)
			len++;
		if (len) { /* characters that need no escape */
			str_addn(out, from, len);
			continue;
		}
		len = text_utf8_decode(s + i, n - i, &cp);
		if (len == 0) {
			str_add(out, "\xef\xbf\xbd");
			len = 1;
		} else if (len == 1) {
			add_escaped(out, (unsigned char)cp);
		} else {
			str_addn(out, s + i, len);
		}
	}
	str_addc(out, '"');
}

static int by_key(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

#define COMPACT (-1) /* else: the level of indentation */

static void add_value(struct str *out, const json_t *j, int level);

static void add_break(struct str *out, int level)
{
	if (level == COMPACT)
		return;
	str_addc(out, '\n');
	for (int i = 0; i < level; i++)
		str_add(out, "  ");
}

static int deeper(int level)
{
	return level == COMPACT ? COMPACT : level + 1;
}

static void add_array(struct str *out, const json_t *j, int level)
{
	size_t n = json_array_size(j);

	str_addc(out, '[');
	for (size_t i = 0; i < n; i++) {
		if (i)
			str_addc(out, ',');
		add_break(out, deeper(level));
		add_value(out, json_array_get(j, i), deeper(level));
	}
	if (n)
		add_break(out, level);
	str_addc(out, ']');
}

static void add_object(struct str *out, const json_t *j, int level)
{
	size_t n = json_object_size(j), i = 0;
	_cleanup_(freep) const char **keys = xcalloc(n + 1, sizeof(*keys));
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)j, key, v) keys[i++] = key;
	qsort(keys, n, sizeof(*keys), by_key);
	str_addc(out, '{');
	for (i = 0; i < n; i++) {
		if (i)
			str_addc(out, ',');
		add_break(out, deeper(level));
		json_add_string(out, keys[i], strlen(keys[i]));
		str_add(out, level == COMPACT ? ":" : ": ");
		add_value(out, json_object_get(j, keys[i]), deeper(level));
	}
	if (n)
		add_break(out, level);
	str_addc(out, '}');
}

static void add_value(struct str *out, const json_t *j, int level)
{
	size_t start;

	switch (json_typeof(j)) {
	case JSON_OBJECT:
		add_object(out, j, level);
		break;
	case JSON_ARRAY:
		add_array(out, j, level);
		break;
	case JSON_STRING:
		json_add_string(out, json_string_value(j), json_string_length(j));
		break;
	case JSON_INTEGER:
		str_addf(out, "%lld", (long long)json_integer_value(j));
		break;
	case JSON_REAL:
		start = out->len;
		text_add_double(out, json_real_value(j)); /* always finite in jansson */
		if (!strpbrk(out->s + start, ".e"))
			str_add(out, ".0");
		break;
	default:
		str_add(out, json_is_true(j) ? "true" : json_is_false(j) ? "false" : "null");
	}
}

void json_add_canonical(struct str *out, const json_t *j)
{
	add_value(out, j, COMPACT);
}

int json_write_file(const char *path, const json_t *j, bool pretty, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	add_value(&text, j, pretty ? 0 : COMPACT);
	str_addc(&text, '\n');
	return fs_write_atomic(path, text.s, text.len, err);
}

/* Getters. */

const char *json_describe(const json_t *j)
{
	switch (json_typeof(j)) {
	case JSON_OBJECT:
		return "an object";
	case JSON_ARRAY:
		return "an array";
	case JSON_STRING:
		return "a string";
	case JSON_INTEGER:
		return "an integer";
	case JSON_REAL:
		return "a number";
	case JSON_NULL:
		return "null";
	default:
		return "true or false";
	}
}

#define TYPE(t) (1U << (t))

static int get(const json_t *obj, const char *key, unsigned types, const char *wanted, json_t **ret,
	       struct err *err)
{
	json_t *v = json_object_get(obj, key);

	if (!v) {
		if (json_is_object(obj))
			err_set(err, ERR_INVALID, "`%s` is missing", key);
		else
			err_set(err, ERR_INVALID, "must be an object");
		return -1;
	}
	if (!(types & TYPE(json_typeof(v)))) {
		err_set(err, ERR_INVALID, "`%s` must be %s, not %s", key, wanted, json_describe(v));
		return -1;
	}
	*ret = v;
	return 0;
}

int json_get_str(const json_t *obj, const char *key, const char **ret, struct err *err)
{
	json_t *v;

	if (get(obj, key, TYPE(JSON_STRING), "a string", &v, err) < 0)
		return -1;
	*ret = json_string_value(v);
	return 0;
}

int json_get_int(const json_t *obj, const char *key, int64_t *ret, struct err *err)
{
	json_t *v;

	if (get(obj, key, TYPE(JSON_INTEGER), "an integer", &v, err) < 0)
		return -1;
	*ret = json_integer_value(v);
	return 0;
}

int json_get_uint(const json_t *obj, const char *key, uint64_t *ret, struct err *err)
{
	int64_t v;

	if (json_get_int(obj, key, &v, err) < 0)
		return -1;
	if (v < 0)
		return err_set(err, ERR_INVALID, "`%s` must not be negative", key);
	*ret = (uint64_t)v;
	return 0;
}

int json_get_bool(const json_t *obj, const char *key, bool *ret, struct err *err)
{
	json_t *v;

	if (get(obj, key, TYPE(JSON_TRUE) | TYPE(JSON_FALSE), "true or false", &v, err) < 0)
		return -1;
	*ret = json_is_true(v);
	return 0;
}

int json_get_array(const json_t *obj, const char *key, json_t **ret, struct err *err)
{
	return get(obj, key, TYPE(JSON_ARRAY), "an array", ret, err);
}

int json_get_object(const json_t *obj, const char *key, json_t **ret, struct err *err)
{
	return get(obj, key, TYPE(JSON_OBJECT), "an object", ret, err);
}

static bool absent(const json_t *obj, const char *key)
{
	json_t *v = json_object_get(obj, key);

	return json_is_object(obj) && (!v || json_is_null(v));
}

int json_get_str_opt(const json_t *obj, const char *key, const char *def, const char **ret,
		     struct err *err)
{
	if (!absent(obj, key))
		return json_get_str(obj, key, ret, err);
	*ret = def;
	return 0;
}

int json_get_int_opt(const json_t *obj, const char *key, int64_t def, int64_t *ret, struct err *err)
{
	if (!absent(obj, key))
		return json_get_int(obj, key, ret, err);
	*ret = def;
	return 0;
}

int json_get_real_opt(const json_t *obj, const char *key, double def, double *ret, struct err *err)
{
	json_t *v;

	if (absent(obj, key)) {
		*ret = def;
		return 0;
	}
	if (get(obj, key, TYPE(JSON_REAL) | TYPE(JSON_INTEGER), "a number", &v, err) < 0)
		return -1;
	*ret = json_number_value(v);
	return 0;
}

int json_get_bool_opt(const json_t *obj, const char *key, bool def, bool *ret, struct err *err)
{
	if (!absent(obj, key))
		return json_get_bool(obj, key, ret, err);
	*ret = def;
	return 0;
}

/* Names. */

void json_name_encode(struct str *out, const void *bytes, size_t n)
{
	const char *s = bytes;

	for (size_t i = 0, len; i < n; i += len) {
		uint32_t cp;

		len = text_utf8_decode(s + i, n - i, &cp);
		if (len == 0 || cp == 0) {
			str_addf(out, "\\x%02x", (unsigned char)s[i]);
			len = 1;
		} else if (cp == '\\') {
			str_add(out, "\\\\");
		} else {
			str_addn(out, s + i, len);
		}
	}
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int json_name_decode(struct str *out, const char *text, struct err *err)
{
	_cleanup_(str_deinit) struct str again = { 0 };
	size_t start = out->len;

	for (const char *c = text; *c; c++) {
		if (*c != '\\') {
			str_addc(out, *c);
		} else if (c[1] == '\\') {
			str_addc(out, '\\');
			c++;
		} else if (c[1] == 'x' && hex_digit(c[2]) >= 0 && hex_digit(c[3]) >= 0) {
			str_addc(out, (char)(hex_digit(c[2]) * 16 + hex_digit(c[3])));
			c += 3;
		} else {
			break;
		}
	}
	/* text that stopped early, or that encoding wouldn't write, differs here
	 */
	json_name_encode(&again, out->s ? out->s + start : "", out->len - start);
	if (strcmp(again.s ? again.s : "", text) == 0)
		return 0;
	out->len = start;
	if (out->s)
		out->s[start] = '\0';
	return err_set(err, ERR_INVALID, "`%s` is not an encoded name", text);
}

json_t *json_name(const void *bytes, size_t n)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	str_add(&text, "");
	json_name_encode(&text, bytes, n);
	return json_stringn(text.s, text.len);
}

void json_array_add_new(json_t *list, const json_t *more)
{
	json_t *v, *have;
	size_t i, k;

	json_array_foreach(more, i, v)
	{
		bool known = false;

		json_array_foreach(list, k, have) known |= json_equal(have, v);
		if (!known)
			json_array_append(list, v);
	}
}

/* steps/train/lines.c — finds metrics in a program's output: `loss=0.31 acc=0.9 step=400`, or a
 * JSON object of numbers.
 *
 * A line counts as a whole or not at all, so that ordinary text with one NAME=NUMBER in it isn't
 * taken. Each form is therefore read twice: first without fn() to check the form, then with it
 * (words(); flatten()).
 *
 * JSON that Python writes may hold NaN and Infinity: replace_not_finite() replaces them by nulls
 * outside of strings, and the text is parsed again. Only then a null counts as a number of the
 * line; fn() always gets it as NAN.
 *
 * A name that holds the value of one of the step's secrets (CAIRN_SECRETS) is dropped
 * (holds_secret()): names are kept and shown where a log would be masked.
 *
 * No state; the gang's thread calls it. series.c keeps the numbers.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/mem.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "steps/train/gang.h"

#define NAME_MAX_BYTES 128
#define SECRET_MIN     4 /* bytes: shorter secrets aren't masked in logs either */

/* How Python's json and others write numbers that JSON can't express. */
static const char *const not_finite[] = { "NaN", "-Infinity", "Infinity" };

struct found {
	void (*fn)(void *arg, const char *name, double value);
	void *arg;
	size_t n;
	bool nulls_count; /* they replace numbers that aren't finite */
};

static bool is_name(const char *s, size_t n)
{
	if (n == 0 || n > NAME_MAX_BYTES || (!isalpha((unsigned char)s[0]) && s[0] != '_'))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && (!s[i] || !strchr("_./-@", s[i])))
			return false;
	return true;
}

/* Numbers as Python, C and others print them; text_parse_double() accepts only finite ones. */
static bool read_number(const char *text, double *ret)
{
	static const char *const infinite[] = { "inf", "infinity" };
	const char *s = text + (*text == '-' || *text == '+');

	if (text_parse_double(text, ret))
		return true;
	*ret = *text == '-' ? -(double)INFINITY : (double)INFINITY;
	for (size_t i = 0; i < ARRAY_LEN(infinite); i++)
		if (strcasecmp(s, infinite[i]) == 0)
			return true;
	*ret = (double)NAN;
	return strcasecmp(s, "nan") == 0;
}

/* Whether the name holds the value of one of the step's secrets. Then it is no metric: its name
 * would be kept, shown and sent where a log would have stars. */
static bool holds_secret(const char *name)
{
	const char *list = getenv("CAIRN_SECRETS");

	while (list && *list) {
		size_t n = strcspn(list, " ");
		_cleanup_(freep) char *variable = xstrndup(list, n);
		const char *value = getenv(variable);

		if (value && strlen(value) >= SECRET_MIN && strstr(name, value))
			return true;
		list += n + (list[n] == ' ');
	}
	return false;
}

static void tell(struct found *f, const char *name, double value)
{
	if (f->fn && !holds_secret(name))
		f->fn(f->arg, name, value);
}

/* One word "name=number". */
static bool read_word(const char *s, size_t n, char name[NAME_MAX_BYTES + 1], double *ret)
{
	const char *eq = memchr(s, '=', n);
	char number[64];
	size_t len;

	if (!eq || !is_name(s, (size_t)(eq - s)))
		return false;
	len = n - (size_t)(eq - s) - 1;
	while (len && strchr(",;", eq[len])) /* "loss=0.3, acc=0.9" */
		len--;
	if (len == 0 || len >= sizeof(number))
		return false;
	memcpy(number, eq + 1, len);
	number[len] = '\0';
	memcpy(name, s, (size_t)(eq - s));
	name[eq - s] = '\0';
	return read_number(number, ret);
}

static bool words(const char *line, size_t n, struct found *f)
{
	const char *end = line + n;

	while (line < end) {
		char name[NAME_MAX_BYTES + 1];
		const char *start;
		double v;

		while (line < end && isspace((unsigned char)*line))
			line++;
		start = line;
		while (line < end && !isspace((unsigned char)*line))
			line++;
		if (line == start)
			break;
		if (!read_word(start, (size_t)(line - start), name, &v))
			return false;
		f->n++;
		tell(f, name, v);
	}
	return f->n > 0;
}

/* Nested names are joined by dots; null is a number that isn't finite; other values are skipped.
 * Depth is bounded by JSON_DEPTH_MAX. */
static void flatten(const json_t *j, struct str *prefix, struct found *f)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)j, key, v)
	{
		size_t len = prefix->len;

		str_addf(prefix, "%s%s", len ? "." : "", key);
		if ((json_is_number(v) || json_is_null(v)) && prefix->len > 0 &&
		    prefix->len <= NAME_MAX_BYTES) {
			f->n += json_is_number(v) || f->nulls_count;
			tell(f, prefix->s, json_is_null(v) ? (double)NAN : json_number_value(v));
		} else if (json_is_object(v)) {
			flatten(v, prefix, f);
		}
		prefix->len = len;
		prefix->s[len] = '\0';
	}
}

/* The word at `s` for such a number, or NULL. */
static const char *not_finite_at(const char *s, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(not_finite); i++)
		if (n >= strlen(not_finite[i]) &&
		    memcmp(s, not_finite[i], strlen(not_finite[i])) == 0)
			return not_finite[i];
	return NULL;
}

/* Copies the line with nulls in their place; true when there was one. */
static bool replace_not_finite(struct str *out, const char *line, size_t n)
{
	bool quoted = false, any = false;

	for (size_t i = 0; i < n; i++) {
		const char *word = quoted ? NULL : not_finite_at(line + i, n - i);

		if (word) {
			str_add(out, "null");
			i += strlen(word) - 1;
			any = true;
			continue;
		}
		str_addc(out, line[i]);
		if (quoted && line[i] == '\\' && i + 1 < n)
			str_addc(out, line[++i]);
		else if (line[i] == '"')
			quoted = !quoted;
	}
	return any;
}

static bool object(const char *line, size_t n, struct found *f)
{
	_cleanup_(str_deinit) struct str text = { 0 }, prefix = { 0 };
	struct found count = { 0 };
	json_t *j;

	if (json_parse("line", line, n, &j, NULL) < 0) {
		count.nulls_count = replace_not_finite(&text, line, n);
		if (!count.nulls_count || json_parse("line", text.s, text.len, &j, NULL) < 0)
			return false;
	}
	str_add(&prefix, "");
	flatten(j, &prefix, &count); /* first check whether there is a number at all */
	if (count.n)
		flatten(j, &prefix, f);
	json_decref(j);
	return count.n > 0;
}

bool gang_metrics_of_line(const char *line, size_t n,
			  void (*fn)(void *arg, const char *name, double value), void *arg)
{
	struct found f = { 0 };

	while (n && isspace((unsigned char)line[n - 1]))
		n--;
	if (n && *line == '{') {
		f = (struct found){ .fn = fn, .arg = arg };
		return object(line, n, &f);
	}
	/* First check whether the whole line has that form. */
	if (!memchr(line, '=', n) || !words(line, n, &f))
		return false;
	f = (struct found){ .fn = fn, .arg = arg };
	return words(line, n, &f);
}

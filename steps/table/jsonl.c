/* steps/table/jsonl.c — JSON lines, by one recursive descent over each line.
 *
 * Only the members of the outermost object are returned. Nested values are checked (inside()) and
 * returned as written; their decoded strings are dropped from `own` at once. A decoded string's
 * place is kept as an offset in `places` until the line is complete, because `own` may move (as in
 * csv.c).
 *
 * `members` and `places` have the same length. The parser never reads beyond `line_end`: a string
 * can't span lines, so blocks that frame.c cut at line ends are parsed one by one. DEPTH_MAX bounds
 * the recursion, MEMBERS_MAX the quadratic search for duplicate keys.
 *
 * Numbers stay text: number.c makes doubles of them when a caller needs one. In an array, value()
 * accepts NaN and Infinity, and jsonl_numbers() refuses them.
 */
#include "steps/table/jsonl.h"
#include <string.h>
#include "base/macros.h"
#include "base/mem.h"
#include "base/table/utf8.h"
#include "base/text/text.h"
#include "steps/table/number.h"

#define DEPTH_MAX      64
#define MEMBERS_MAX    1024       /* a key is compared with all before it */
#define LINE_MAX_BYTES (64 * MIB) /* a sample with an image in it, as text */
#define LENT           SIZE_MAX

struct place {
	size_t key, value; /* offsets in `own`, or LENT */
};

struct jsonl {
	const char *what, *at, *end, *line_end;
	VEC(struct jsonl_member) members;
	VEC(struct place) places;
	struct str own;
	uint64_t line, next_line;
};

struct jsonl *jsonl_new(const char *what, const char *text, size_t n, uint64_t first_line)
{
	struct jsonl *j = xcalloc(1, sizeof(*j));

	*j = (struct jsonl){ .what = what, .at = text, .end = text + n, .next_line = first_line };
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		j->at += 3;
	return j;
}

void jsonl_free(struct jsonl *j)
{
	if (!j)
		return;
	VEC_FREE(&j->members);
	VEC_FREE(&j->places);
	str_deinit(&j->own);
	free(j);
}

uint64_t jsonl_line(const struct jsonl *j)
{
	return j->line;
}

static int wrong(const struct jsonl *j, const char *why, struct err *err)
{
	return err_set(err, ERR_INVALID, "%s:%llu: %s", j->what, (unsigned long long)j->line, why);
}

static void spaces(struct jsonl *j)
{
	while (j->at < j->line_end && (*j->at == ' ' || *j->at == '\t' || *j->at == '\r'))
		j->at++;
}

static bool take(struct jsonl *j, char c)
{
	spaces(j);
	if (j->at == j->line_end || *j->at != c)
		return false;
	j->at++;
	return true;
}

/* Strings. */

static bool hex4(struct jsonl *j, uint32_t *ret)
{
	*ret = 0;
	if (j->line_end - j->at < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		char c = *j->at++;

		if (c >= '0' && c <= '9')
			*ret = *ret << 4 | (uint32_t)(c - '0');
		else if ((c | 32) >= 'a' && (c | 32) <= 'f')
			*ret = *ret << 4 | (uint32_t)((c | 32) - 'a' + 10);
		else
			return false;
	}
	return true;
}

static bool unicode_escape(struct jsonl *j)
{
	uint32_t c, low;

	if (!hex4(j, &c) || c == 0 || (c >= 0xdc00 && c < 0xe000))
		return false;
	if (c >= 0xd800 && c < 0xdc00) {
		if (j->line_end - j->at < 6 || *j->at++ != '\\' || *j->at++ != 'u' ||
		    !hex4(j, &low) || low < 0xdc00 || low > 0xdfff)
			return false;
		c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	utf8_add(&j->own, c);
	return true;
}

static bool escape(struct jsonl *j)
{
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	char c = j->at < j->line_end ? *j->at++ : '\0';
	const char *p = c ? strchr(from, c) : NULL;

	if (c == 'u')
		return unicode_escape(j);
	if (!p)
		return false;
	str_addc(&j->own, to[p - from]);
	return true;
}

/* Reads the string at j->at, from its opening quote on; *ret_place is its place. */
static int string(struct jsonl *j, const char **ret, size_t *ret_n, size_t *ret_place,
		  struct err *err)
{
	const char *from = ++j->at, *p = from;
	size_t place = LENT;

	for (;;) {
		while (p < j->line_end && *p != '"' && *p != '\\' && (unsigned char)*p >= 32)
			p++;
		if (p == j->line_end)
			return wrong(j, "a string that doesn't end on its line", err);
		if (*p == '"')
			break;
		if (*p != '\\')
			return wrong(j, "a control character in a string", err);
		if (place == LENT)
			place = j->own.len;
		str_addn(&j->own, from, (size_t)(p - from));
		j->at = p + 1;
		if (!escape(j))
			return wrong(j, "an invalid escape in a string", err);
		from = p = j->at;
	}
	j->at = p + 1;
	if (place != LENT)
		str_addn(&j->own, from, (size_t)(p - from));
	*ret = place == LENT ? from : NULL;
	*ret_n = place == LENT ? (size_t)(p - from) : j->own.len - place;
	*ret_place = place;
	if (!text_is_utf8(place == LENT ? from : j->own.s + place, *ret_n))
		return wrong(j, "a string that isn't UTF-8", err);
	return 0;
}

/* Values. */

static size_t count_digits(const char *p, const char *end)
{
	const char *from = p;

	while (p < end && *p >= '0' && *p <= '9')
		p++;
	return (size_t)(p - from);
}

/* Length of the JSON number at p, 0 when there is none. */
static size_t number_length(const char *p, const char *end)
{
	const char *from = p;
	size_t n;

	p += p < end && *p == '-';
	n = count_digits(p, end);
	if (!n || (n > 1 && *p == '0'))
		return 0;
	p += n;
	if (p < end && *p == '.') {
		n = count_digits(p + 1, end);
		if (!n)
			return 0;
		p += n + 1;
	}
	if (p < end && (*p == 'e' || *p == 'E')) {
		p += 1 + (end - p > 1 && (p[1] == '-' || p[1] == '+'));
		n = count_digits(p, end);
		if (!n)
			return 0;
		p += n;
	}
	return (size_t)(p - from);
}

static int value(struct jsonl *j, unsigned depth, struct jsonl_member *m, size_t *ret_place,
		 struct err *err);

static int inside(struct jsonl *j, unsigned depth, bool object, struct err *err)
{
	struct jsonl_member ignored;
	size_t place;
	size_t own = j->own.len;

	if (depth == DEPTH_MAX)
		return wrong(j, "nested too deeply", err);
	j->at++;
	if (take(j, object ? '}' : ']'))
		return 0;
	do {
		if (object) {
			spaces(j);
			if (j->at == j->line_end || *j->at != '"')
				return wrong(j, "a key is missing", err);
			if (string(j, &ignored.key, &ignored.key_n, &place, err) < 0)
				return -1;
			if (!take(j, ':'))
				return wrong(j, "`:` is missing", err);
		}
		if (value(j, depth + 1, &ignored, &place, err) < 0)
			return -1;
		j->own.len = own; /* not needed */
	} while (take(j, ','));
	return take(j, object ? '}' : ']')
		       ? 0
		       : wrong(j, object ? "`}` is missing" : "`]` is missing", err);
}

static int value(struct jsonl *j, unsigned depth, struct jsonl_member *m, size_t *ret_place,
		 struct err *err)
{
	static const struct {
		const char *text;
		size_t n;
		enum jsonl_kind kind;
	} words[] = {
		{ "null", 4, JSONL_NULL },       { "true", 4, JSONL_BOOL },
		{ "false", 5, JSONL_BOOL },      { "NaN", 3, JSONL_NUMBER },
		{ "Infinity", 8, JSONL_NUMBER }, { "-Infinity", 9, JSONL_NUMBER },
	};
	size_t left;

	spaces(j);
	*ret_place = LENT;
	left = (size_t)(j->line_end - j->at);
	m->s = j->at;
	if (left && *j->at == '"') {
		m->kind = JSONL_STRING;
		return string(j, &m->s, &m->n, ret_place, err);
	}
	if (left && (*j->at == '{' || *j->at == '[')) {
		m->kind = *j->at == '{' ? JSONL_OBJECT : JSONL_ARRAY;
		if (inside(j, depth, *j->at == '{', err) < 0)
			return -1;
		m->n = (size_t)(j->at - m->s);
		return 0;
	}
	m->kind = JSONL_NUMBER;
	m->n = number_length(j->at, j->line_end);
	for (size_t i = 0; i < ARRAY_LEN(words) && !m->n; i++)
		if (left >= words[i].n && memcmp(j->at, words[i].text, words[i].n) == 0) {
			m->kind = words[i].kind;
			m->n = words[i].n;
		}
	j->at += m->n;
	return m->n ? 0 : wrong(j, "no JSON value where one should be", err);
}

/* Lines. */

static const char *text_at(const struct jsonl *j, const char *s, size_t place)
{
	return place == LENT ? s : j->own.s + place;
}

static int check_key(struct jsonl *j, struct err *err)
{
	const struct jsonl_member *last = &j->members.v[j->members.n - 1];
	const char *key = text_at(j, last->key, j->places.v[j->members.n - 1].key);

	for (size_t i = 0; i + 1 < j->members.n; i++) {
		const struct jsonl_member *m = &j->members.v[i];

		if (m->key_n == last->key_n &&
		    memcmp(text_at(j, m->key, j->places.v[i].key), key, m->key_n) == 0)
			return err_set(err, ERR_INVALID, "%s:%llu: the key `%.*s` is there twice",
				       j->what, (unsigned long long)j->line,
				       (int)MIN(last->key_n, 60), key);
	}
	return 0;
}

static int member(struct jsonl *j, struct err *err)
{
	struct jsonl_member *m = VEC_ADD(&j->members);
	struct place *place = VEC_ADD(&j->places);

	if (j->members.n > MEMBERS_MAX)
		return wrong(j, "more than 1,024 members", err);
	spaces(j);
	if (j->at == j->line_end || *j->at != '"')
		return wrong(j, "a key is missing", err);
	if (string(j, &m->key, &m->key_n, &place->key, err) < 0 || check_key(j, err) < 0)
		return -1;
	if (!take(j, ':'))
		return wrong(j, "`:` is missing", err);
	return value(j, 1, m, &place->value, err);
}

static int object(struct jsonl *j, struct err *err)
{
	if (!take(j, '{'))
		return wrong(j, "not a JSON object", err);
	if (!take(j, '}')) {
		do
			if (member(j, err) < 0)
				return -1;
		while (take(j, ','));
		if (!take(j, '}'))
			return wrong(j, "`}` is missing", err);
	}
	spaces(j);
	return j->at == j->line_end ? 0 : wrong(j, "text behind the object", err);
}

int jsonl_next(struct jsonl *j, const struct jsonl_member **ret, size_t *ret_n, struct err *err)
{
	j->members.n = j->places.n = 0;
	str_reset(&j->own);
	do {
		if (j->at == j->end)
			return 0;
		j->line = j->next_line++;
		j->line_end = memchr(j->at, '\n', (size_t)(j->end - j->at));
		if (!j->line_end)
			j->line_end = j->end;
		spaces(j);
		if (j->at < j->line_end)
			break;
		j->at += j->at < j->end;
	} while (1);
	if ((size_t)(j->line_end - j->at) > LINE_MAX_BYTES)
		return wrong(j, "a line of more than 64 MiB", err);
	if (object(j, err) < 0)
		return -1;
	j->at += j->at < j->end;
	for (size_t i = 0; i < j->members.n; i++) {
		struct jsonl_member *m = &j->members.v[i];

		m->key = text_at(j, m->key, j->places.v[i].key);
		m->s = text_at(j, m->s, j->places.v[i].value);
	}
	*ret = j->members.v;
	*ret_n = j->members.n;
	return 1;
}

const struct jsonl_member *jsonl_find(const struct jsonl_member *v, size_t n, const char *key)
{
	size_t len = strlen(key);

	for (size_t i = 0; i < n; i++)
		if (v[i].key_n == len && memcmp(v[i].key, key, len) == 0)
			return &v[i];
	return NULL;
}

int64_t jsonl_numbers(const struct jsonl_member *m, double *out, size_t max)
{
	const char *p = m->s + 1, *end = m->s + m->n;
	int64_t n = 0;
	double v;

	if (m->kind != JSONL_ARRAY)
		return -1;
	for (;; n++) {
		size_t len;

		while (p < end && strchr(" \t\r,", *p))
			p++;
		if (p == end || *p == ']')
			return n;
		len = number_length(p, end) ? number_prefix(p, (size_t)(end - p), &v) : 0;
		if (!len)
			return -1;
		if ((size_t)n < max)
			out[n] = v;
		p += len;
	}
}

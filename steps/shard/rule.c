/* steps/shard/rule.c — the words of a sample: its class, group, split.
 *
 * rule_read() makes a rule of a setting's variant (`folder`, `pattern`, `column`, `field`, or
 * `auto`: the member cls, else the outermost folder). rule_word() applies it to a draft: it finds
 * the text, trims it, and refuses one that is too long or isn't UTF-8. 0 means that the sample has
 * none; set.c decides whether that is bad.
 *
 * `column` reads the row that the draft came from (draft.column). A sample that is no row may
 * contain one, its member json (carried_column()). A number with a fraction or an exponent is
 * written in its canonical form, so that 1e-1 and 0.1 are the same class (jsonl_column_text()).
 *
 * Words are stored once, in a `struct words`: a map whose insertion order is the id. One thread,
 * while the source is read.
 */
#include <assert.h>
#include <math.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/shard/internal.h"
#include "steps/table/jsonl.h"
#include "steps/table/number.h"

/* Words. */

uint32_t words_id(struct words *w, const char *s, size_t n)
{
	void **slot;

	if (!w->ids)
		w->ids = map_new();
	slot = map_slot(w->ids, s, n, NULL);
	if (!*slot)
		*slot = (void *)(uintptr_t)map_len(w->ids);
	return (uint32_t)((uintptr_t)*slot - 1);
}

size_t words_count(const struct words *w)
{
	return w->ids ? map_len(w->ids) : 0;
}

const char *words_at(const struct words *w, uint32_t id, size_t *ret_n)
{
	const void *key;

	assert(id < words_count(w));
	map_at(w->ids, id, &key, ret_n);
	return key;
}

/* Rules as given. */

int rule_read(struct rule *r, const json_t *with, const char *name, struct err *err)
{
	const json_t *given = step_value(with, name), *body;

	*r = (struct rule){ 0 };
	if (!given || json_object_get(given, "none"))
		return 0;
	if ((body = json_object_get(given, "pattern"))) {
		const char *regex = step_text(body, "regex");
		int code = regcomp(&r->regex, regex, REG_EXTENDED);
		char why[128];

		if (code == 0) {
			r->kind = RULE_PATTERN;
			return 0;
		}
		regerror(code, &r->regex, why, sizeof(why));
		return err_set(err, ERR_INVALID, "with.%s.pattern: `%.100s`: %s", name, regex, why);
	}
	if ((body = json_object_get(given, "folder"))) {
		r->kind = RULE_FOLDER;
		r->depth = (int)step_int(body, "depth");
		return r->depth ? 0
				: err_set(err, ERR_INVALID,
					  "with.%s.folder: 1 is the outermost, -1 the innermost; "
					  "there is no 0",
					  name);
	}
	if ((body = json_object_get(given, "column")) || (body = json_object_get(given, "field"))) {
		r->kind = json_object_get(given, "column") ? RULE_COLUMN : RULE_FIELD;
		r->name = step_text(body, "name");
		return 0;
	}
	r->kind = RULE_AUTO;
	r->depth = 1;
	r->name = "cls";
	return 0;
}

void rule_deinit(struct rule *r)
{
	if (r->kind == RULE_PATTERN)
		regfree(&r->regex);
}

/* Rules for a sample. */

/* The folder number `depth` of a/b/c/name: from 1, or from the end with -1. */
static bool folder_of(const char *key, int depth, const char **ret, size_t *ret_n)
{
	int folders = 0, want;
	const char *p = key, *slash;

	for (const char *q = key; *q; q++)
		folders += *q == '/';
	want = depth > 0 ? depth : folders + 1 + depth;
	if (want < 1 || want > folders)
		return false;
	while (--want)
		p = strchr(p, '/') + 1;
	slash = strchr(p, '/');
	*ret = p;
	*ret_n = (size_t)(slash - p);
	return true;
}

static bool pattern_of(const struct rule *r, const char *key, const char **ret, size_t *ret_n)
{
	regmatch_t m[2];
	size_t group;

	if (regexec(&r->regex, key, 2, m, 0) != 0)
		return false;
	group = r->regex.re_nsub && m[1].rm_so >= 0 ? 1 : 0;
	*ret = key + m[group].rm_so;
	*ret_n = (size_t)(m[group].rm_eo - m[group].rm_so);
	return true;
}

static int field_of(const struct set *s, const char *field, const struct draft *d, struct str *out,
		    struct err *err)
{
	size_t i = 0;

	while (i < d->n_parts && strcmp(d->parts[i].field, field) != 0)
		i++;
	if (i == d->n_parts)
		return 0;
	return part_load(s, &d->parts[i], out, err) < 0 ? -1 : 1;
}

static void add_number(struct str *out, const struct jsonl_member *m)
{
	size_t digits = m->n && *m->s == '-' ? 1 : 0;
	json_t *real;
	double v;

	while (digits < m->n && m->s[digits] >= '0' && m->s[digits] <= '9')
		digits++;
	if (digits < m->n && number_parse(m->s, m->n, &v) && isfinite(v)) {
		real = json_real(v);
		json_add_canonical(out, real);
		json_decref(real);
	} else if (m->n == 2 && memcmp(m->s, "-0", 2) == 0) {
		str_addc(out, '0');
	} else {
		str_addn(out, m->s, m->n);
	}
}

bool jsonl_column_text(const struct jsonl_member *v, size_t n, const char *name, struct str *out)
{
	const struct jsonl_member *m = jsonl_find(v, n, name);

	str_reset(out);
	if (!m || m->kind == JSONL_NULL || m->kind == JSONL_ARRAY || m->kind == JSONL_OBJECT)
		return false;
	if (m->kind == JSONL_NUMBER)
		add_number(out, m);
	else
		str_addn(out, m->s, m->n);
	return true;
}

/* A sample that is no row of a table may contain one: its member json. */
static int carried_column(const struct set *s, const struct rule *r, const struct draft *d,
			  struct str *out, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const struct jsonl_member *v;
	struct jsonl *j;
	size_t n;
	int found = field_of(s, "json", d, &text, err);

	if (found <= 0)
		return found;
	/* The object may span several lines; a string never does. */
	for (size_t i = 0; i < text.len; i++)
		if (text.s[i] == '\n')
			text.s[i] = ' ';
	j = jsonl_new("json", text.s ? text.s : "", text.len, 1);
	found = jsonl_next(j, &v, &n, err);
	if (found < 0)
		err_wrap(err, "sample `%.200s`", d->key);
	else if (found > 0)
		found = jsonl_column_text(v, n, r->name, out);
	jsonl_free(j);
	return found;
}

void trim_blanks(const char **s, size_t *n)
{
	static const char blanks[] = { ' ', '\t', '\r', '\n' };

	while (*n && memchr(blanks, (*s)[*n - 1], sizeof(blanks)))
		--*n;
	while (*n && memchr(blanks, **s, sizeof(blanks))) {
		++*s;
		--*n;
	}
}

int rule_word(const struct set *s, const struct rule *r, const struct draft *d, struct str *out,
	      struct err *err)
{
	const char *word;
	size_t n;
	int found = 0;

	str_reset(out);
	if (r->kind == RULE_FIELD || r->kind == RULE_AUTO)
		found = field_of(s, r->name, d, out, err);
	else if (r->kind == RULE_COLUMN && !d->column)
		found = carried_column(s, r, d, out, err);
	if (found < 0)
		return -1;
	if (!found &&
	    ((r->kind == RULE_COLUMN && d->column && d->column(d->arg, r->name, &word, &n)) ||
	     ((r->kind == RULE_FOLDER || r->kind == RULE_AUTO) &&
	      folder_of(d->key, r->depth, &word, &n)) ||
	     (r->kind == RULE_PATTERN && pattern_of(r, d->key, &word, &n)))) {
		str_addn(out, word, n);
		found = 1;
	}
	word = out->s;
	n = out->len;
	trim_blanks(&word, &n);
	if (!found || !n)
		return 0;
	memmove(out->s, word, n);
	out->s[n] = '\0';
	out->len = n;
	if (out->len > WORD_MAX)
		return err_set(err, ERR_INVALID,
			       "sample `%.200s`: a class, group or split with a name of %zu bytes",
			       d->key, out->len);
	if (!text_is_utf8(out->s, out->len) || memchr(out->s, '\0', out->len))
		return err_set(err, ERR_INVALID,
			       "sample `%.200s`: a class, group or split whose name is not UTF-8",
			       d->key);
	return 1;
}

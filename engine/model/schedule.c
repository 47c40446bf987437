/* Schedules: cron rules in a time zone, and what to do when runs overlap, were missed, or the clock is set. Checked here
 * in full; nothing fires them yet. */
#include <sys/stat.h>
#include "model/read.h"

/* --- cron ----------------------------------------------------------------------------------------------------------- */

struct cron_field {
	const char *name;
	int min, max;
	const char *const *words; /* JAN…, SUN…, for min, min + 1, … */
	int n_words;
};

static const char *const months[] = { "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec" };
static const char *const days[] = { "sun", "mon", "tue", "wed", "thu", "fri", "sat" };

enum { MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, CRON_FIELDS };
static const struct cron_field fields[CRON_FIELDS] = {
	{ "minute", 0, 59, NULL, 0 },	 { "hour", 0, 23, NULL, 0 },	  { "day of the month", 1, 31, NULL, 0 },
	{ "month", 1, 12, months, 12 }, { "day of the week", 0, 7, days, 7 },
};

struct cron_text {
	const char *p;
	uint64_t days, months; /* bits that the fields allow */
	bool any_day, any_weekday, last_day;
	struct err *err;
};

static int cron_fail(struct cron_text *c, const struct cron_field *f, const char *problem)
{
	size_t len = strcspn(c->p, " \t,");

	if (len == 0)
		return err_set(c->err, ERR_INVALID, "%s: %s", f->name, problem);
	return err_set(c->err, ERR_INVALID, "%s `%.*s`: %s", f->name, (int)MIN(len, 20), c->p, problem);
}

static bool is_letter(char c)
{
	return (c | 32) >= 'a' && (c | 32) <= 'z';
}

static bool word_is(const char *p, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i < n; i++)
		if ((p[i] | 32) != word[i])
			return false;
	return !is_letter(p[n]) || ((p[n] | 32) == 'l' && !is_letter(p[n + 1])); /* friL: the last Friday */
}

/* A number or a name. */
static int cron_number(struct cron_text *c, const struct cron_field *f, int *ret)
{
	int v = 0;
	size_t digits = strspn(c->p, "0123456789");

	for (int i = 0; i < f->n_words; i++)
		if (word_is(c->p, f->words[i])) {
			c->p += strlen(f->words[i]);
			*ret = f->min + i;
			return 0;
		}
	if (digits == 0 || digits > 2)
		return cron_fail(c, f, f->words ? "a number or a name such as JAN or MON is needed" : "a number is needed");
	for (size_t i = 0; i < digits; i++)
		v = v * 10 + (c->p[i] - '0');
	if (v < f->min || v > f->max) {
		char range[60];

		snprintf(range, sizeof(range), "must be from %d to %d", f->min, f->max);
		return cron_fail(c, f, range);
	}
	c->p += digits;
	*ret = v;
	return 0;
}

/* `L` of a month, `5L` and `5#2` of a week. 1: there was one. */
static int cron_special(struct cron_text *c, const struct cron_field *f, bool has_number)
{
	bool week = f == &fields[DAY_OF_WEEK];

	if ((*c->p | 32) == 'l' && (week ? has_number : !has_number && f == &fields[DAY_OF_MONTH])) {
		c->p++;
		c->last_day |= !week;
		return 1;
	}
	if (*c->p != '#' || !week || !has_number)
		return 0;
	if (c->p[1] < '1' || c->p[1] > '5')
		return cron_fail(c, f, "behind # stands which one of the month: 1 to 5");
	c->p += 2;
	return 1;
}

static int cron_step(struct cron_text *c, const struct cron_field *f, int *ret)
{
	size_t digits;

	if (*c->p != '/')
		return 0;
	digits = strspn(++c->p, "0123456789");
	*ret = 0;
	for (size_t i = 0; i < digits && i < 4; i++)
		*ret = *ret * 10 + (c->p[i] - '0');
	if (*ret < 1 || *ret > f->max || digits > 2)
		return cron_fail(c, f, "the number behind / is out of range");
	c->p += digits;
	return 0;
}

static void cron_allow(struct cron_text *c, const struct cron_field *f, int from, int to, int step)
{
	for (int v = from; v <= to; v += step) {
		if (f == &fields[DAY_OF_MONTH])
			c->days |= 1ULL << v;
		if (f == &fields[MONTH])
			c->months |= 1ULL << v;
	}
}

/* *, a, a-b, each perhaps with /n; L and #. */
static int cron_item(struct cron_text *c, const struct cron_field *f)
{
	int from = f->min, to = f->max, step = 1, special;
	bool star = *c->p == '*';

	if (star) {
		c->p++;
	} else {
		special = cron_special(c, f, false);
		if (special)
			return special < 0 ? -1 : 0;
		if (cron_number(c, f, &from) < 0)
			return -1;
		special = cron_special(c, f, true);
		if (special)
			return special < 0 ? -1 : 0;
		to = from;
		if (*c->p == '-') {
			c->p++;
			if (cron_number(c, f, &to) < 0)
				return -1;
			if (to < from)
				return cron_fail(c, f, "the range goes backwards");
		} else if (*c->p == '/') {
			to = f->max; /* 5/10: from 5 on, every 10 */
		}
	}
	if (cron_step(c, f, &step) < 0)
		return -1;
	cron_allow(c, f, from, to, step);
	return 0;
}

static int cron_field(struct cron_text *c, const struct cron_field *f)
{
	bool any = c->p[0] == '*' && (c->p[1] == ' ' || c->p[1] == '\t' || c->p[1] == '\0');

	if (f == &fields[DAY_OF_MONTH])
		c->any_day = any;
	if (f == &fields[DAY_OF_WEEK])
		c->any_weekday = any;
	for (;;) {
		if (cron_item(c, f) < 0)
			return -1;
		if (*c->p != ',')
			break;
		c->p++;
	}
	if (*c->p && *c->p != ' ' && *c->p != '\t')
		return cron_fail(c, f, "this isn't a number, a range (1-5), a step (*/10) or a list (1,15)");
	return 0;
}

/* 30 February: a rule that looks fine and never fires. */
static bool never_fires(const struct cron_text *c)
{
	static const int lengths[] = { 0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };

	if (c->any_day || !c->any_weekday || c->last_day)
		return false;
	for (int m = 1; m <= 12; m++)
		if (c->months & (1ULL << m) && c->days & ((2ULL << lengths[m]) - 1))
			return false;
	return true;
}

int cron_check(const char *text, size_t *ret_offset, struct err *err)
{
	static const char *const nicknames[] = { "@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually" };
	struct cron_text c = { .p = text, .err = err };
	struct str hint = { 0 };

	*ret_offset = 0;
	if (*text == '@') {
		for (size_t i = 0; i < ARRAY_LEN(nicknames); i++)
			if (strcmp(text, nicknames[i]) == 0)
				return 0;
		text_add_suggestion(&hint, text, nicknames, ARRAY_LEN(nicknames));
		err_set(err, ERR_INVALID, "`%.40s` is not a rule%s", text, hint.s ? hint.s : "");
		str_deinit(&hint);
		return -1;
	}
	for (int i = 0; i < CRON_FIELDS; i++) {
		c.p += strspn(c.p, " \t");
		*ret_offset = (size_t)(c.p - text);
		if (!*c.p)
			return err_set(err, ERR_INVALID, "a rule has 5 fields (minute, hour, day, month, day of the week), not %d", i);
		if (cron_field(&c, &fields[i]) < 0) {
			*ret_offset = (size_t)(c.p - text);
			return -1;
		}
	}
	c.p += strspn(c.p, " \t");
	*ret_offset = (size_t)(c.p - text);
	if (*c.p)
		return err_set(err, ERR_INVALID, "a rule has 5 fields (minute, hour, day, month, day of the week); there are more");
	*ret_offset = 0;
	if (never_fires(&c))
		return err_set(err, ERR_INVALID, "there is no such day: the rule would never fire");
	return 0;
}

/* --- schedules ------------------------------------------------------------------------------------------------------ */

#define ZONES "/usr/share/zoneinfo"

static void read_timezone(const struct doc *d, const struct yaml_node *n, const char **ret)
{
	char path[300];
	struct stat st;

	if (!want_text(d, n, "`timezone`"))
		return;
	if (n->len > 200 || *n->text == '/' || strstr(n->text, "..") ||
	    strspn(n->text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/") != n->len) {
		bad(d, n, "`%.60s` is not the name of a time zone, such as Europe/Berlin", n->text);
		return;
	}
	snprintf(path, sizeof(path), ZONES "/%s", n->text);
	if (strcmp(n->text, "UTC") != 0 && stat(ZONES, &st) == 0 && (stat(path, &st) < 0 || !S_ISREG(st.st_mode)))
		bad(d, n, "there is no time zone `%s`; names are like Europe/Berlin", n->text);
	*ret = copy_text(d, n);
}

static void read_cron(const struct doc *d, const struct yaml_node *n, const char **ret)
{
	struct err err = { 0 };
	size_t offset;

	if (!want_text(d, n, "`cron`"))
		return;
	*ret = copy_text(d, n);
	if (cron_check(*ret, &offset, &err) < 0) {
		struct yaml_node at = *n;

		if (n->style != YAML_STYLE_BLOCK)
			at.col += (int)offset + (n->style == YAML_STYLE_QUOTED);
		bad(d, &at, "`cron`: %s", err.msg);
	}
}

/* A literal is held against the param's declaration now; text may use `schedule`. */
static void read_schedule_param(struct loader *l, const struct yaml_node *key, const struct yaml_node *n, struct named_template *ret)
{
	const struct doc *d = &l->doc;
	size_t i = (size_t)(uintptr_t)map_get_str(l->param_index, key->text);
	struct err err = { 0 };
	struct value v, fit;

	*ret = (struct named_template){ copy_text(d, key), literal_template(d, n, "", 0), pos_of(d, key) };
	if (i == 0) {
		bad(d, key, "the pipeline has no param `%.60s`%s", key->text, suggest_key(l, key->text, l->param_index));
		return;
	}
	if (n->kind == YAML_KIND_SCALAR && template_text_has_expr(n->text, n->len)) {
		ret->value = read_template(d, n);
		if (l->params.v[i - 1].type != VALUE_STRING)
			bad(d, n, "param `%s` is %s; an expression here gives text", key->text, value_type_phrase(l->params.v[i - 1].type));
		return;
	}
	if (!(n->kind == YAML_KIND_SEQ ? read_list_value(d, n, "a param", &v) : read_value(d, n, "a param", &v)))
		return;
	if (param_check_value(&l->params.v[i - 1], &v, &fit, &err) < 0)
		bad(d, n, "param `%s` %s", key->text, err.msg);
	else
		ret->value = template_of_value(&fit, d->file, n->line, n->col, l->arena);
}

static void read_schedule_params(struct loader *l, const struct yaml_node *n, struct schedule_decl *s)
{
	struct named_template *params;

	if (!want_map(&l->doc, n, "`params` of a schedule"))
		return;
	params = arena_alloc(l->arena, n->len * sizeof(*params));
	for (size_t i = 0; i < n->len; i++)
		read_schedule_param(l, n->pairs[i].key, n->pairs[i].value, &params[i]);
	s->params = params;
	s->n_params = n->len;
	resolve_schedule_params(l, s);
}

/* Without values for the params that have no default, every run of it would fail. */
static void check_required(struct loader *l, const struct yaml_node *key, const struct schedule_decl *s)
{
	for (size_t i = 0; i < l->params.n; i++) {
		bool given = l->params.v[i].has_default;

		for (size_t k = 0; k < s->n_params && !given; k++)
			given = strcmp(s->params[k].name, l->params.v[i].name) == 0;
		if (!given)
			bad(&l->doc, key, "schedule `%s` must give param `%s`, which has no default", s->name, l->params.v[i].name);
	}
}

static void read_schedule(struct loader *l, const struct yaml_node *key, const struct yaml_node *n, struct schedule_decl *s)
{
	static const char *const keys[] = { "cron", "timezone", "overlap", "catch_up", "catch_up_window", "dst", "params" };
	static const char *const overlaps[] = { "allow", "skip", "queue", "replace" };
	static const char *const catch_ups[] = { "none", "latest", "all" };
	static const char *const dsts[] = { "once", "skip", "twice" };
	const struct doc *d = &l->doc;
	const struct yaml_node *v;

	if (!want_map(d, n, "a schedule"))
		return;
	check_keys(d, n, keys, ARRAY_LEN(keys));
	if ((v = yaml_get(n, "cron")))
		read_cron(d, v, &s->cron);
	else
		bad(d, key, "schedule `%s` has no `cron`", s->name);
	if ((v = yaml_get(n, "timezone")))
		read_timezone(d, v, &s->timezone);
	if ((v = yaml_get(n, "overlap")))
		read_choice(d, v, "`overlap`", overlaps, ARRAY_LEN(overlaps), &s->overlap);
	if ((v = yaml_get(n, "catch_up")))
		read_choice(d, v, "`catch_up`", catch_ups, ARRAY_LEN(catch_ups), &s->catch_up);
	if ((v = yaml_get(n, "dst")))
		read_choice(d, v, "`dst`", dsts, ARRAY_LEN(dsts), &s->dst);
	if ((v = yaml_get(n, "catch_up_window")) && read_duration(d, v, "`catch_up_window`", &s->catch_up_window_ns) && strcmp(s->catch_up, "none") == 0)
		bad(d, v, "`catch_up_window` has no meaning without `catch_up: latest` or `all`");
	if ((v = yaml_get(n, "params")))
		read_schedule_params(l, v, s);
	check_required(l, key, s);
}

void read_schedules(struct loader *l, const struct yaml_node *n)
{
	if (!n || yaml_is_null(n) || !want_map(&l->doc, n, "`schedules`"))
		return;
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key;
		struct schedule_decl s = { .name = copy_text(&l->doc, key), .cron = "", .timezone = "UTC", .overlap = "skip", .catch_up = "none",
					   .dst = "once", .pos = pos_of(&l->doc, key) };

		check_name(&l->doc, key, NAME_STEP, "schedule");
		read_schedule(l, key, n->pairs[i].value, &s);
		VEC_PUSH(&l->schedules, s);
	}
}

/* engine/model/schedule/cron.c — reads cron rules, and finds their days and minutes.
 *
 * A rule becomes bit sets: `struct reading` goes through the text once, field by field, and allow()
 * sets the bits. Nicknames are rules of five fields and are read as such; `@every` is an interval
 * and has no sets. On an error, `reading.p` points at the fault; cron_parse() returns that place to
 * the caller.
 *
 * cron_next() works on a clock without a time zone. It looks for the first minute in the day it
 * begins with, else for the first matching day, month by month. The calendar repeats after 400
 * years, so a rule that matches no day in these never fires, and is refused. engine/serve/schedule
 * handles zones, clock changes and the times of @every.
 */
#include "model/schedule/cron.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "base/time/civil.h"

enum { MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK, CRON_FIELDS };

struct field {
	const char *name;
	int min, max;
	const char *const *words; /* JAN…, SUN…, for min, min + 1, … */
	int n_words;
};

static const char *const months[] = { "jan", "feb", "mar", "apr", "may", "jun",
				      "jul", "aug", "sep", "oct", "nov", "dec" };
static const char *const days[] = { "sun", "mon", "tue", "wed", "thu", "fri", "sat" };

static const struct field fields[CRON_FIELDS] = {
	{ "minute", 0, 59, NULL, 0 },           { "hour", 0, 23, NULL, 0 },
	{ "day of the month", 1, 31, NULL, 0 }, { "month", 1, 12, months, 12 },
	{ "day of the week", 0, 7, days, 7 },
};

struct reading {
	const char *p;
	struct cron *cron;
	struct err *err;
};

static int fail(struct reading *r, const struct field *f, const char *problem)
{
	size_t len = strcspn(r->p, " \t,");

	if (len == 0)
		return err_set(r->err, ERR_INVALID, "%s: %s", f->name, problem);
	return err_set(r->err, ERR_INVALID, "%s `%.*s`: %s", f->name, (int)MIN(len, 20), r->p,
		       problem);
}

/* Numbers and names. */

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
	return !is_letter(p[n]) ||
	       ((p[n] | 32) == 'l' && !is_letter(p[n + 1])); /* friL: the last Friday */
}

static int read_number(struct reading *r, const struct field *f, int *ret)
{
	int v = 0;
	size_t digits = strspn(r->p, "0123456789");

	for (int i = 0; i < f->n_words; i++)
		if (word_is(r->p, f->words[i])) {
			r->p += strlen(f->words[i]);
			*ret = f->min + i;
			return 0;
		}
	if (digits == 0 || digits > 2)
		return fail(r, f,
			    f->words ? "a number or a name such as JAN or MON is needed"
				     : "a number is needed");
	for (size_t i = 0; i < digits; i++)
		v = v * 10 + (r->p[i] - '0');
	if (v < f->min || v > f->max) {
		char range[60];

		snprintf(range, sizeof(range), "must be from %d to %d", f->min, f->max);
		return fail(r, f, range);
	}
	r->p += digits;
	*ret = v;
	return 0;
}

static int read_step(struct reading *r, const struct field *f, int *ret)
{
	size_t digits;

	if (*r->p != '/')
		return 0;
	digits = strspn(++r->p, "0123456789");
	*ret = 0;
	for (size_t i = 0; i < digits && i < 4; i++)
		*ret = *ret * 10 + (r->p[i] - '0');
	if (*ret < 1 || *ret > f->max || digits > 2)
		return fail(r, f, "the number behind / is out of range");
	r->p += digits;
	return 0;
}

/* Items of a field. */

static void allow(struct cron *c, const struct field *f, int from, int to, int step)
{
	for (int v = from; v <= to; v += step)
		switch (f - fields) {
		case MINUTE:
			c->minutes |= 1ULL << v;
			break;
		case HOUR:
			c->hours |= 1U << v;
			break;
		case DAY_OF_MONTH:
			c->days |= 1U << v;
			break;
		case MONTH:
			c->months |= 1U << v;
			break;
		default:
			c->weekdays |= 1U << v % 7;
		}
}

/* Reads `L` and `L-3` of the month. 1: there was one. */
static int read_last_day(struct reading *r, const struct field *f)
{
	int before = 0;
	size_t digits;

	if ((*r->p | 32) != 'l' || f != &fields[DAY_OF_MONTH])
		return 0;
	r->p++;
	if (*r->p == '-') {
		digits = strspn(r->p + 1, "0123456789");
		for (size_t i = 0; i < digits && i < 3; i++)
			before = before * 10 + (r->p[1 + i] - '0');
		if (digits == 0 || digits > 2 || before > 30)
			return fail(r, f,
				    "behind L- stands how many days before the last one: 0 to 30");
		r->p += 1 + digits;
	}
	r->cron->last_days |= 1U << before;
	return 1;
}

/* Reads `5L` and `5#2` of the week. 1: there was one. */
static int read_weekday_of_month(struct reading *r, const struct field *f, int weekday)
{
	if (f != &fields[DAY_OF_WEEK])
		return 0;
	if ((*r->p | 32) == 'l') {
		r->p++;
		r->cron->last_weekdays |= (uint8_t)(1U << weekday % 7);
		return 1;
	}
	if (*r->p != '#')
		return 0;
	if (r->p[1] < '1' || r->p[1] > '5')
		return fail(r, f, "behind # stands which one of the month: 1 to 5");
	r->cron->nth_weekdays[weekday % 7] |= (uint8_t)(1U << (r->p[1] - '0'));
	r->p += 2;
	return 1;
}

/* The value at which steps end. In a week it is Saturday: 7 would be Sunday again. */
static int last_of(const struct field *f)
{
	return f == &fields[DAY_OF_WEEK] ? 6 : f->max;
}

/* Reads what follows the first number: a range, or a step that starts there. */
static int read_range(struct reading *r, const struct field *f, int from, int *to)
{
	*to = from;
	if (*r->p == '/') {
		*to = MAX(last_of(f), from); /* 5/10: from 5 on, every 10 */
	} else if (*r->p == '-') {
		r->p++;
		if (read_number(r, f, to) < 0)
			return -1;
		if (*to == 0 && from > 0 && f == &fields[DAY_OF_WEEK])
			*to = 7; /* fri-sun; sun-sun is Sunday alone */
		if (*to < from)
			return fail(r, f, "the range goes backwards");
	}
	return 0;
}

static int read_item(struct reading *r, const struct field *f)
{
	int from = f->min, to = last_of(f), step = 1, special;

	if (*r->p == '*' ||
	    (*r->p == '?' && (f == &fields[DAY_OF_MONTH] || f == &fields[DAY_OF_WEEK]))) {
		r->p++;
	} else {
		special = read_last_day(r, f);
		if (special == 0 && read_number(r, f, &from) < 0)
			return -1;
		if (special == 0)
			special = read_weekday_of_month(r, f, from);
		if (special)
			return special < 0 ? -1 : 0;
		if (read_range(r, f, from, &to) < 0)
			return -1;
	}
	if (read_step(r, f, &step) < 0)
		return -1;
	allow(r->cron, f, from, to, step);
	return 0;
}

static int read_field(struct reading *r, const struct field *f)
{
	bool star = *r->p == '*' || *r->p == '?';

	if (f == &fields[DAY_OF_MONTH])
		r->cron->star_day = star;
	if (f == &fields[DAY_OF_WEEK])
		r->cron->star_weekday = star;
	for (;;) {
		if (read_item(r, f) < 0)
			return -1;
		if (*r->p != ',')
			break;
		r->p++;
	}
	if (*r->p && *r->p != ' ' && *r->p != '\t')
		return fail(r, f,
			    "this isn't a number, a range (1-5), a step (*/10) or a list (1,15)");
	return 0;
}

/* Rules. */

#define EVERY_MAX_S (366LL * CIVIL_DAY_S)

static int read_every(const char *text, struct cron *ret, struct err *err)
{
	int64_t ns;

	text += strspn(text, " \t");
	if (text_parse_duration(text, &ns, err) < 0)
		return err_wrap(err, "@every");
	if (ns < NS_PER_S || ns % NS_PER_S || ns / NS_PER_S > EVERY_MAX_S)
		return err_set(err, ERR_INVALID,
			       "`@every %.40s`: whole seconds are needed, from 1s to 366d", text);
	ret->every_s = ns / NS_PER_S;
	return 0;
}

static int read_nickname(const char *text, struct cron *ret, struct err *err)
{
	static const struct {
		const char *name, *rule;
	} nicknames[] = { { "@hourly", "0 * * * *" },   { "@daily", "0 0 * * *" },
			  { "@midnight", "0 0 * * *" }, { "@weekly", "0 0 * * 0" },
			  { "@monthly", "0 0 1 * *" },  { "@yearly", "0 0 1 1 *" },
			  { "@annually", "0 0 1 1 *" } };
	const char *names[ARRAY_LEN(nicknames) + 1] = { "@every" };
	struct str hint = { 0 };
	size_t offset;

	if (str_has_prefix(text, "@every ") || str_has_prefix(text, "@every\t"))
		return read_every(text + 6, ret, err);
	for (size_t i = 0; i < ARRAY_LEN(nicknames); i++) {
		names[1 + i] = nicknames[i].name;
		if (strcmp(text, nicknames[i].name) == 0)
			return cron_parse(nicknames[i].rule, ret, &offset, err);
	}
	text_add_suggestion(&hint, text, names, ARRAY_LEN(names));
	err_set(err, ERR_INVALID, "`%.40s` is not a rule%s", text, hint.s ? hint.s : "");
	str_deinit(&hint);
	return -1;
}

int cron_parse(const char *text, struct cron *ret, size_t *ret_offset, struct err *err)
{
	struct reading r = { .p = text, .cron = ret, .err = err };
	int64_t first;

	*ret = (struct cron){ 0 };
	*ret_offset = 0;
	if (*text == '@')
		return read_nickname(text, ret, err);
	for (int i = 0; i < CRON_FIELDS; i++) {
		r.p += strspn(r.p, " \t");
		*ret_offset = (size_t)(r.p - text);
		if (!*r.p)
			return err_set(err, ERR_INVALID,
				       "a rule has 5 fields (minute, hour, day, month, day of the "
				       "week), not %d",
				       i);
		if (read_field(&r, &fields[i]) < 0) {
			*ret_offset = (size_t)(r.p - text);
			return -1;
		}
	}
	r.p += strspn(r.p, " \t");
	*ret_offset = (size_t)(r.p - text);
	if (*r.p)
		return err_set(err, ERR_INVALID,
			       "a rule has 5 fields (minute, hour, day, month, day of the week); "
			       "there are more");
	*ret_offset = 0;
	/* The calendar repeats after 400 years: a rule that found no day by then means one like 30
	 * February. */
	if (cron_next(ret, 0, 400 * 366LL * CIVIL_DAY_S, &first) > 0)
		return err_set(err, ERR_INVALID, "there is no such day: the rule would never fire");
	return 0;
}

bool cron_is_interval(const struct cron *c)
{
	return c->every_s || c->hours == (1U << 24) - 1;
}

/* Days. */

static bool day_of(const struct cron *c, int64_t day, const struct civil_date *d)
{
	int length = civil_month_days(d->year, d->month), weekday = civil_weekday(day);
	bool by_day = c->days & (1U << d->day) || c->last_days & (1U << (length - d->day));
	bool by_weekday = c->weekdays & (1U << weekday) ||
			  (d->day + 7 > length && c->last_weekdays & (1U << weekday)) ||
			  c->nth_weekdays[weekday] & (1U << ((d->day + 6) / 7));

	return c->star_day || c->star_weekday ? by_day && by_weekday : by_day || by_weekday;
}

bool cron_matches_day(const struct cron *c, int64_t day)
{
	struct civil_date d = civil_from_days(day);

	return c->months & (1U << d.month) && day_of(c, day, &d);
}

/* The first matching day from `day` on; a month that the rule doesn't name is skipped whole. */
static int next_day(const struct cron *c, int64_t day, int64_t limit, int64_t *ret)
{
	while (day <= limit) {
		struct civil_date d = civil_from_days(day);
		int length = civil_month_days(d.year, d.month);

		for (; c->months & (1U << d.month) && d.day <= length; d.day++, day++)
			if (day_of(c, day, &d)) {
				*ret = day;
				return 0;
			}
		day += length - d.day + 1;
	}
	return 1;
}

/* The first matching minute of a day from `minute` on; 1440 when there is none. */
static int next_minute(const struct cron *c, int minute)
{
	for (int h = minute / 60; h < 24; h++) {
		uint64_t rest = c->minutes >> (h == minute / 60 ? minute % 60 : 0);

		if (c->hours & (1U << h) && rest)
			return h * 60 + (h == minute / 60 ? minute % 60 : 0) +
			       __builtin_ctzll(rest);
	}
	return 24 * 60;
}

int cron_next(const struct cron *c, int64_t local_s, int64_t limit_s, int64_t *ret_s)
{
	int64_t from = civil_floor_div(local_s + 59, 60), day = civil_floor_div(from, 1440), found;
	int minute = next_minute(c, (int)(from - day * 1440));

	assert(!c->every_s);
	if (minute == 1440 || !cron_matches_day(c, day)) {
		if (next_day(c, day + 1, civil_floor_div(limit_s, CIVIL_DAY_S), &found) > 0)
			return 1;
		day = found;
		minute = next_minute(c, 0);
	}
	*ret_s = day * CIVIL_DAY_S + minute * 60;
	return *ret_s >= limit_s;
}

/* engine/base/text/time.c — times as text, in UTC, without the C library's calendar: gmtime and
 * timegm read time zone files and take locks, and have no nanoseconds.
 *
 * Days are counted by base/time/civil.h. A reader advances `*p` over what it accepts and returns
 * false for other text, so read_time() shows the grammar. All arithmetic that can overflow is
 * checked. engine/serve/schedule handles named time zones.
 */
#include "base/text/text.h"

#include <stdio.h>
#include <string.h>
#include "base/time/civil.h"

void text_add_time(struct str *out, int64_t unix_ns, int digits)
{
	int64_t seconds = civil_floor_div(unix_ns, NS_PER_S),
		days = civil_floor_div(seconds, CIVIL_DAY_S);
	int of_day = (int)(seconds - days * CIVIL_DAY_S);
	struct civil_date c = civil_from_days(days);
	char fraction[16];

	str_addf(out, "%04d-%02d-%02dT%02d:%02d:%02d", c.year, c.month, c.day, of_day / 3600,
		 of_day / 60 % 60, of_day % 60);
	if (digits > 0) {
		snprintf(fraction, sizeof(fraction), "%09d", (int)(unix_ns - seconds * NS_PER_S));
		str_addf(out, ".%.*s", MIN(digits, 9), fraction);
	}
	str_addc(out, 'Z');
}

/* Parsing. */

/* Reads exactly `width` digits; advances *p. */
static bool digits_at(const char **p, int width, int *ret)
{
	int v = 0;

	for (int i = 0; i < width; i++) {
		char c = (*p)[i];

		if (c < '0' || c > '9')
			return false;
		v = v * 10 + (c - '0');
	}
	*p += width;
	*ret = v;
	return true;
}

static bool take(const char **p, char c)
{
	if (**p != c)
		return false;
	(*p)++;
	return true;
}

static bool read_date(const char **p, int64_t *ret_days)
{
	struct civil_date c;

	if (!digits_at(p, 4, &c.year) || !take(p, '-') || !digits_at(p, 2, &c.month) ||
	    !take(p, '-') || !digits_at(p, 2, &c.day))
		return false;
	if (c.month < 1 || c.month > 12 || c.day < 1 || c.day > civil_month_days(c.year, c.month))
		return false;
	*ret_days = civil_to_days(&c);
	return true;
}

static bool read_fraction(const char **p, int64_t *ret_ns)
{
	int64_t ns = 0, unit = NS_PER_S / 10;

	if (**p < '0' || **p > '9')
		return false;
	for (; **p >= '0' && **p <= '9'; (*p)++, unit /= 10) {
		if (unit == 0)
			return false;
		ns += (**p - '0') * unit;
	}
	*ret_ns = ns;
	return true;
}

static bool read_clock(const char **p, int64_t *ret_seconds, int64_t *ret_ns)
{
	int h, m, s = 0;

	if (!digits_at(p, 2, &h) || !take(p, ':') || !digits_at(p, 2, &m) || h > 23 || m > 59)
		return false;
	if (take(p, ':')) {
		if (!digits_at(p, 2, &s) || s > 59)
			return false;
		if (take(p, '.') && !read_fraction(p, ret_ns))
			return false;
	}
	*ret_seconds = h * 3600 + m * 60 + s;
	return true;
}

static bool read_zone(const char **p, int64_t *ret_seconds)
{
	bool west = **p == '-';
	int h, m;

	if (take(p, 'Z')) {
		*ret_seconds = 0;
		return true;
	}
	if ((!take(p, '+') && !take(p, '-')) || !digits_at(p, 2, &h) || !take(p, ':') ||
	    !digits_at(p, 2, &m) || h > 23 || m > 59)
		return false;
	*ret_seconds = (h * 3600 + m * 60) * (west ? -1 : 1);
	return true;
}

static bool read_time(const char *p, int64_t *ret_unix_ns)
{
	int64_t days, seconds = 0, ns = 0, zone = 0;

	if (!read_date(&p, &days))
		return false;
	if (*p) {
		if ((!take(&p, 'T') && !take(&p, ' ')) || !read_clock(&p, &seconds, &ns) ||
		    !read_zone(&p, &zone) || *p)
			return false;
	}
	seconds += days * CIVIL_DAY_S - zone;
	/* the range's first second is below INT64_MIN before its nanoseconds are added, so it is
	 * refused */
	return !__builtin_mul_overflow(seconds, NS_PER_S, &seconds) &&
	       !__builtin_add_overflow(seconds, ns, ret_unix_ns);
}

int text_parse_time(const char *text, int64_t *ret_unix_ns, struct err *err)
{
	int64_t ns;

	if (!read_time(text, &ns))
		return err_set(err, ERR_INVALID,
			       "`%.80s` is not a time like 2025-03-01, 2025-03-01T12:00Z or "
			       "2025-03-01T12:00:00+01:00",
			       text);
	*ret_unix_ns = ns;
	return 0;
}

/* Relative. */

void text_add_relative(struct str *out, int64_t then_unix_ns, int64_t now_unix_ns)
{
	static const struct {
		int64_t seconds;
		const char *name;
	} units[] = { { 365 * 86400, "year" }, { 30 * 86400, "month" }, { 86400, "day" },
		      { 3600, "hour" },        { 60, "minute" },        { 1, "second" } };
	int64_t seconds = now_unix_ns / NS_PER_S - then_unix_ns / NS_PER_S,
		n = seconds < 0 ? -seconds : seconds;

	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		int64_t count = n / units[i].seconds;

		if (count == 0 || (units[i].seconds == 1 && count < 5))
			continue;
		str_addf(out, "%s%ld %s%s%s", seconds < 0 ? "in " : "", (long)count, units[i].name,
			 count == 1 ? "" : "s", seconds < 0 ? "" : " ago");
		return;
	}
	str_add(out, "just now");
}

/* Times as text: UTC, proleptic Gregorian, whatever the machine's zone is. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/text.h"

void text_add_time(struct str *out, int64_t unix_ns, int digits)
{
	int64_t s = unix_ns / NS_PER_S, ns = unix_ns % NS_PER_S;
	time_t t;
	struct tm tm;
	char frac[16];

	if (ns < 0) {
		ns += NS_PER_S;
		s--;
	}
	t = (time_t)s;
	gmtime_r(&t, &tm);
	str_addf(out, "%04d-%02d-%02dT%02d:%02d:%02d", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec);
	if (digits > 0) {
		snprintf(frac, sizeof(frac), "%09d", (int)ns);
		str_addf(out, ".%.*s", digits > 9 ? 9 : digits, frac);
	}
	str_addc(out, 'Z');
}

static int bad_time(const char *text, struct err *err)
{
	return err_set(err, ERR_INVALID, "`%s` is not a time like 2025-03-01, 2025-03-01T12:00Z or 2025-03-01T12:00:00+01:00", text);
}

/* Exactly `n` digits with a value in [lo, hi]. */
static bool number(const char **s, int n, int lo, int hi, int *ret)
{
	int v = 0;

	for (int i = 0; i < n; i++, ++*s) {
		if (**s < '0' || **s > '9')
			return false;
		v = v * 10 + (**s - '0');
	}
	*ret = v;
	return v >= lo && v <= hi;
}

static bool expect(const char **s, char c)
{
	if (**s != c)
		return false;
	++*s;
	return true;
}

static int days_in_month(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

static bool parse_clock(const char **s, struct tm *tm, int64_t *ns, int64_t *offset_s)
{
	int sign, h, m;

	if (!number(s, 2, 0, 23, &tm->tm_hour) || !expect(s, ':') || !number(s, 2, 0, 59, &tm->tm_min))
		return false;
	if (**s == ':' && (++*s, !number(s, 2, 0, 59, &tm->tm_sec)))
		return false;
	if (**s == '.') {
		int64_t scale = NS_PER_S / 10;

		for (++*s; **s >= '0' && **s <= '9'; ++*s, scale /= 10)
			*ns += (**s - '0') * scale;
		if ((*s)[-1] == '.')
			return false;
	}
	if (expect(s, 'Z'))
		return true;
	sign = **s == '-' ? -1 : 1;
	if ((**s != '+' && **s != '-') || (++*s, !number(s, 2, 0, 23, &h)) || !expect(s, ':') || !number(s, 2, 0, 59, &m))
		return false;
	*offset_s = sign * (h * 3600 + m * 60);
	return true;
}

int text_parse_time(const char *text, int64_t *ret_unix_ns, struct err *err)
{
	struct tm tm = { 0 };
	int64_t ns = 0, offset_s = 0;
	const char *s = text;
	int year, month;

	if (!number(&s, 4, 1678, 2261, &year) || !expect(&s, '-') || !number(&s, 2, 1, 12, &month) || !expect(&s, '-') ||
	    !number(&s, 2, 1, days_in_month(year, month), &tm.tm_mday))
		return bad_time(text, err);
	if ((*s == 'T' || *s == ' ') && (s++, !parse_clock(&s, &tm, &ns, &offset_s)))
		return bad_time(text, err);
	if (*s)
		return bad_time(text, err);
	tm.tm_year = year - 1900;
	tm.tm_mon = month - 1;
	*ret_unix_ns = ((int64_t)timegm(&tm) - offset_s) * NS_PER_S + ns;
	return 0;
}

void text_add_relative(struct str *out, int64_t then_unix_ns, int64_t now_unix_ns)
{
	static const struct {
		int64_t s;
		const char *name;
	} units[] = { { 86400 * 365, "year" }, { 86400 * 30, "month" }, { 86400, "day" }, { 3600, "hour" }, { 60, "minute" }, { 1, "second" } };
	int64_t s = (now_unix_ns - then_unix_ns) / NS_PER_S;
	bool future = s < 0;

	if (future)
		s = -s;
	for (size_t i = 0; i < ARRAY_LEN(units); i++) {
		int64_t n = s / units[i].s;

		if (n == 0)
			continue;
		str_addf(out, "%s%lld %s%s%s", future ? "in " : "", (long long)n, units[i].name, n == 1 ? "" : "s", future ? "" : " ago");
		return;
	}
	str_add(out, "just now");
}

/* Numbers with units. */
#include <errno.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"

/* --- plain numbers ------------------------------------------------------------------------------------------------- */

static locale_t c_locale(void)
{
	static locale_t l;

	if (!l)
		l = newlocale(LC_ALL_MASK, "C", NULL);
	return l;
}

bool text_parse_double(const char *text, double *ret)
{
	char *end;
	const char *s = text + (*text == '-' || *text == '+');
	double v;

	if (!((*s >= '0' && *s <= '9') || *s == '.') || strchr(text, 'x') || strchr(text, 'X'))
		return false;
	errno = 0;
	v = strtod_l(text, &end, c_locale());
	if (*end || end == text || (errno == ERANGE && fabs(v) > 1))
		return false;
	*ret = v;
	return true;
}

bool text_parse_int(const char *text, int64_t *ret)
{
	const char *s = text + (*text == '-' || *text == '+');
	char *end;
	long long v;

	if (!(*s >= '0' && *s <= '9'))
		return false;
	errno = 0;
	v = strtoll(text, &end, 10);
	if (*end || errno)
		return false;
	*ret = v;
	return true;
}

void text_add_double(struct str *out, double v)
{
	char buf[40];
	locale_t old;

	if (isnan(v) || isinf(v)) {
		str_add(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
		return;
	}
	old = uselocale(c_locale());
	for (int digits = 1; digits <= DBL_DECIMAL_DIG; digits++) {
		snprintf(buf, sizeof(buf), "%.*g", digits, v);
		if (strtod(buf, NULL) == v)
			break;
	}
	uselocale(old);
	str_add(out, buf);
}

void text_add_count(struct str *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			str_addc(out, ',');
		str_addc(out, digits[i]);
	}
}

/* "12", "1.5": digits with at most nine decimals, as thousand-millionths. Returns what follows, NULL when there is no number. */
static const char *parse_decimal(const char *s, uint64_t *ret_whole, uint64_t *ret_nano)
{
	const char *start = s;
	uint64_t scale = 100000000;

	*ret_whole = *ret_nano = 0;
	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(*ret_whole, 10, ret_whole) || __builtin_add_overflow(*ret_whole, (uint64_t)(*s - '0'), ret_whole))
			return NULL;
	if (s == start)
		return NULL;
	if (*s == '.') {
		if (!(s[1] >= '0' && s[1] <= '9'))
			return NULL;
		for (s++; *s >= '0' && *s <= '9'; s++, scale /= 10)
			*ret_nano += (uint64_t)(*s - '0') * scale;
	}
	return s;
}

/* whole.nano × unit, or false when it is too large. */
static bool scaled(uint64_t whole, uint64_t nano, uint64_t unit, uint64_t *ret)
{
	__uint128_t v = (__uint128_t)whole * unit + (__uint128_t)nano * unit / 1000000000u;

	*ret = (uint64_t)v;
	return v <= INT64_MAX;
}

/* --- durations ------------------------------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	uint64_t ns;
} duration_units[] = {
	{ "d", 86400ULL * NS_PER_S }, { "h", 3600ULL * NS_PER_S }, { "m", 60ULL * NS_PER_S }, { "s", NS_PER_S },
	{ "ms", NS_PER_MS },	      { "us", 1000 },		   { "ns", 1 },
};

static int bad_duration(const char *text, struct err *err)
{
	return err_set(err, ERR_INVALID, "`%s` is not a duration like 500ms, 10s, 5m, 1h30m or 2d", text);
}

int text_parse_duration(const char *text, int64_t *ret_ns, struct err *err)
{
	uint64_t total = 0, whole, nano, ns;
	size_t next_unit = 0;
	const char *s = text;

	if (strcmp(text, "0") == 0) {
		*ret_ns = 0;
		return 0;
	}
	do {
		size_t u, n;

		s = parse_decimal(s, &whole, &nano);
		if (!s)
			return bad_duration(text, err);
		n = strspn(s, "abcdefghijklmnopqrstuvwxyz");
		for (u = next_unit; u < ARRAY_LEN(duration_units); u++)
			if (strlen(duration_units[u].name) == n && memcmp(duration_units[u].name, s, n) == 0)
				break;
		if (u == ARRAY_LEN(duration_units) || !scaled(whole, nano, duration_units[u].ns, &ns) ||
		    __builtin_add_overflow(total, ns, &total) || total > INT64_MAX)
			return bad_duration(text, err);
		next_unit = u + 1;
		s += n;
	} while (*s);
	*ret_ns = (int64_t)total;
	return 0;
}

int text_parse_duration_range(const char *text, int64_t *ret_min_ns, int64_t *ret_max_ns, struct err *err)
{
	const char *dots = strstr(text, "..");
	char first[64];
	int64_t lo, hi;

	if (!dots) {
		if (text_parse_duration(text, &lo, err) < 0)
			return -1;
		*ret_min_ns = *ret_max_ns = lo;
		return 0;
	}
	if ((size_t)(dots - text) >= sizeof(first))
		return bad_duration(text, err);
	memcpy(first, text, (size_t)(dots - text));
	first[dots - text] = '\0';
	if (text_parse_duration(first, &lo, err) < 0 || text_parse_duration(dots + 2, &hi, err) < 0)
		return -1;
	if (lo > hi)
		return err_set(err, ERR_INVALID, "`%s`: the first duration is longer than the second", text);
	*ret_min_ns = lo;
	*ret_max_ns = hi;
	return 0;
}

void text_add_duration(struct str *out, int64_t ns)
{
	int64_t s = ns / NS_PER_S;

	if (ns < 0) {
		str_addc(out, '-');
		text_add_duration(out, ns == INT64_MIN ? INT64_MAX : -ns);
	} else if (ns == 0) {
		str_add(out, "0s");
	} else if (ns < 1000) {
		str_addf(out, "%dns", (int)ns);
	} else if (ns < NS_PER_MS) {
		str_addf(out, "%dus", (int)(ns / 1000));
	} else if (ns < NS_PER_S) {
		str_addf(out, "%dms", (int)(ns / NS_PER_MS));
	} else if (s < 10) {
		str_addf(out, "%d.%ds", (int)s, (int)(ns % NS_PER_S / (NS_PER_S / 10)));
	} else if (s < 60) {
		str_addf(out, "%ds", (int)s);
	} else if (s < 3600) {
		str_addf(out, "%dm%02ds", (int)(s / 60), (int)(s % 60));
	} else if (s < 86400) {
		str_addf(out, "%dh%02dm", (int)(s / 3600), (int)(s % 3600 / 60));
	} else {
		str_addf(out, "%lldd%dh", (long long)(s / 86400), (int)(s % 86400 / 3600));
	}
}

void text_add_duration_exact(struct str *out, int64_t ns)
{
	uint64_t rest = ns > 0 ? (uint64_t)ns : 0;

	if (rest == 0)
		str_add(out, "0");
	for (size_t u = 0; u < ARRAY_LEN(duration_units); u++) {
		uint64_t n = rest / duration_units[u].ns;

		if (n)
			str_addf(out, "%llu%s", (unsigned long long)n, duration_units[u].name);
		rest %= duration_units[u].ns;
	}
}

/* --- bytes and cpus --------------------------------------------------------------------------------------------------- */

int text_parse_bytes(const char *text, uint64_t *ret_bytes, struct err *err)
{
	static const char letters[] = "KMGTP";
	uint64_t whole, nano, unit = 1;
	const char *s = parse_decimal(text, &whole, &nano), *at;

	if (s && *s) {
		at = strchr(letters, *s == 'k' ? 'K' : *s);
		if (*s != 'B' && !at)
			s = NULL;
		if (s && at) {
			bool binary = s[1] == 'i';

			for (const char *l = letters; l <= at; l++)
				unit *= binary ? 1024 : 1000;
			s += 1 + binary;
		}
		if (s && *s == 'B')
			s++;
	}
	if (!s || *s || (nano && unit == 1) || !scaled(whole, nano, unit, ret_bytes))
		return err_set(err, ERR_INVALID, "`%s` is not a size like 512Mi, 1.5Gi, 2G or 4096", text);
	return 0;
}

void text_add_bytes(struct str *out, uint64_t bytes)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double v = (double)bytes;
	size_t u = 0;

	if (bytes < 1024) {
		str_addf(out, "%llu B", (unsigned long long)bytes);
		return;
	}
	while (v >= 1023.95 && u + 1 < ARRAY_LEN(names)) {
		v /= 1024;
		u++;
	}
	str_addf(out, v < 9.95 ? "%.1f %s" : "%.0f %s", v, names[u]);
}

int text_parse_cpu(const char *text, uint32_t *ret_milli, struct err *err)
{
	uint64_t whole, nano, milli;
	const char *s = parse_decimal(text, &whole, &nano);
	bool in_milli = s && *s == 'm' && s[1] == '\0' && nano == 0;

	if (!s || (*s && !in_milli))
		return err_set(err, ERR_INVALID, "`%s` is not a number of cpus like 2, 0.5 or 500m", text);
	if (!in_milli && nano % 1000000)
		return err_set(err, ERR_INVALID, "`%s`: cpus are counted in thousandths", text);
	milli = in_milli ? whole : whole > 1000000 ? UINT64_MAX : whole * 1000 + nano / 1000000;
	if (milli > 1000000ULL * 1000)
		return err_set(err, ERR_INVALID, "`%s` is more than a million cpus", text);
	*ret_milli = (uint32_t)milli;
	return 0;
}

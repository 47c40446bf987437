/* engine/base/text/quantity.c — durations, sizes, cpus and numbers, read and written.
 *
 * Decimal fractions are computed in integers (mantissa and power of ten), so that "0.1Gi" means the
 * same on every machine; products are 128 bits wide and checked. A duration that isn't a whole
 * number of nanoseconds is refused; a size is cut to whole bytes.
 *
 * Doubles are read and written in the C locale, whatever the program's is: one locale_t is made
 * on first use and never freed. The shortest text of a double is found by trying 15, 16 and 17
 * digits (denormals: from 1 on).
 */
#include "base/text/text.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Decimal numbers. */

struct decimal {
	uint64_t mantissa; /* the number is mantissa / scale */
	uint64_t scale;    /* a power of ten, at most 1e9 */
};

/* Reads digits[.digits] and advances *p. False when there is none, or more digits than fit.
 */
static bool read_decimal(const char **p, struct decimal *ret)
{
	struct decimal d = { .scale = 1 };
	const char *s = *p;
	bool any = false, fraction = false;

	for (;; s++) {
		if (*s == '.' && !fraction && any) {
			fraction = true;
			continue;
		}
		if (*s < '0' || *s > '9')
			break;
		if (__builtin_mul_overflow(d.mantissa, 10ULL, &d.mantissa) ||
		    __builtin_add_overflow(d.mantissa, (uint64_t)(*s - '0'), &d.mantissa))
			return false;
		if (fraction && (d.scale *= 10) > NS_PER_S)
			return false;
		any = true;
	}
	if (!any || s[-1] == '.')
		return false;
	*p = s;
	*ret = d;
	return true;
}

/* number * unit, cut to an integer; false over max. *ret_exact says whether something was cut off.
 */
static bool scale(const struct decimal *d, uint64_t unit, uint64_t max, uint64_t *ret,
		  bool *ret_exact)
{
	unsigned __int128 product = (unsigned __int128)d->mantissa * unit;

	if (product / d->scale > max)
		return false;
	*ret = (uint64_t)(product / d->scale);
	*ret_exact = product % d->scale == 0;
	return true;
}

/* Durations. */

static const struct {
	const char *name;
	uint64_t ns;
} duration_units[] = {
	/* longest first: each may occur once, in this order */
	{ "d", 86400 * NS_PER_S },
	{ "h", 3600 * NS_PER_S },
	{ "m", 60 * NS_PER_S },
	{ "s", NS_PER_S },
	{ "ms", NS_PER_MS },
	{ "us", 1000 },
	{ "ns", 1 },
};

static size_t unit_at(const char *s)
{
	size_t len = strspn(s, "abcdefghijklmnopqrstuvwxyz");

	for (size_t i = 0; i < ARRAY_LEN(duration_units); i++)
		if (strlen(duration_units[i].name) == len &&
		    strncmp(s, duration_units[i].name, len) == 0)
			return i;
	return ARRAY_LEN(duration_units);
}

/* One part such as "1.5h"; *next_unit is the first unit that may still come. */
static bool read_part(const char **p, size_t *next_unit, uint64_t *total)
{
	struct decimal d;
	uint64_t ns;
	size_t unit;
	bool exact;

	if (!read_decimal(p, &d))
		return false;
	unit = unit_at(*p);
	if (unit < *next_unit || unit >= ARRAY_LEN(duration_units))
		return false;
	if (!scale(&d, duration_units[unit].ns, INT64_MAX, &ns, &exact) || !exact)
		return false;
	*p += strlen(duration_units[unit].name);
	*next_unit = unit + 1;
	return !__builtin_add_overflow(*total, ns, total) && *total <= INT64_MAX;
}

int text_parse_duration(const char *text, int64_t *ret_ns, struct err *err)
{
	const char *p = text;
	uint64_t total = 0;
	size_t next_unit = 0;

	if (strcmp(text, "0") == 0) {
		*ret_ns = 0;
		return 0;
	}
	do {
		if (!read_part(&p, &next_unit, &total))
			return err_set(err, ERR_INVALID,
				       "`%.80s` is not a duration like 500ms, 10s, 5m, 1h30m or 2d",
				       text);
	} while (*p);
	*ret_ns = (int64_t)total;
	return 0;
}

int text_parse_duration_range(const char *text, int64_t *ret_min_ns, int64_t *ret_max_ns,
			      struct err *err)
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
		return err_set(err, ERR_INVALID,
			       "`%.80s` is not a duration or a range of durations like 10s..5m",
			       text);
	memcpy(first, text, (size_t)(dots - text));
	first[dots - text] = '\0';
	if (text_parse_duration(first, &lo, err) < 0 || text_parse_duration(dots + 2, &hi, err) < 0)
		return err_set(err, ERR_INVALID,
			       "`%.80s` is not a duration or a range of durations like 10s..5m",
			       text);
	if (lo > hi)
		return err_set(err, ERR_INVALID,
			       "`%.80s`: the first duration is longer than the second", text);
	*ret_min_ns = lo;
	*ret_max_ns = hi;
	return 0;
}

static void add_whole_seconds(struct str *out, uint64_t s)
{
	if (s < 60)
		str_addf(out, "%lus", (unsigned long)s);
	else if (s < 3600)
		str_addf(out, "%lum%02lus", (unsigned long)(s / 60), (unsigned long)(s % 60));
	else if (s < 86400)
		str_addf(out, "%luh%02lum", (unsigned long)(s / 3600),
			 (unsigned long)(s / 60 % 60));
	else
		str_addf(out, "%lud%luh", (unsigned long)(s / 86400),
			 (unsigned long)(s / 3600 % 24));
}

void text_add_duration(struct str *out, int64_t ns)
{
	uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	if (ns < 0)
		str_addc(out, '-');
	if (n == 0)
		str_add(out, "0s");
	else if (n < 1000)
		str_addf(out, "%luns", (unsigned long)n);
	else if (n < NS_PER_MS)
		str_addf(out, "%luus", (unsigned long)(n / 1000));
	else if (n < NS_PER_S)
		str_addf(out, "%lums", (unsigned long)(n / NS_PER_MS));
	else if (n < 10 * NS_PER_S)
		str_addf(out, "%lu.%lus", (unsigned long)(n / NS_PER_S),
			 (unsigned long)(n / (NS_PER_S / 10) % 10));
	else
		add_whole_seconds(out, n / NS_PER_S);
}

void text_add_duration_exact(struct str *out, int64_t ns)
{
	uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;

	if (ns < 0)
		str_addc(out, '-');
	if (n == 0)
		str_add(out, "0s");
	for (size_t i = 0; i < ARRAY_LEN(duration_units); i++) {
		if (n >= duration_units[i].ns)
			str_addf(out, "%lu%s", (unsigned long)(n / duration_units[i].ns),
				 duration_units[i].name);
		n %= duration_units[i].ns;
	}
}

/* Sizes and cpus. */

/* The factor of "", "k", "Mi" and so on; 0 for other text. Skips a B at the end. */
static uint64_t byte_unit(const char *s)
{
	static const char letters[] = "KMGTP";
	const char *at = strchr(letters, *s == 'k' ? 'K' : *s);
	uint64_t base = 1000, unit = 1;

	if (*s && at) {
		s++;
		if (*s == 'i') {
			base = 1024;
			s++;
		}
		for (size_t i = 0; i <= (size_t)(at - letters); i++)
			unit *= base;
	}
	if (*s == 'B')
		s++;
	return *s ? 0 : unit;
}

int text_parse_bytes(const char *text, uint64_t *ret_bytes, struct err *err)
{
	const char *p = text;
	struct decimal d;
	uint64_t unit, n;
	bool exact;

	if (!read_decimal(&p, &d) || (unit = byte_unit(p)) == 0 || (unit == 1 && d.scale != 1) ||
	    !scale(&d, unit, INT64_MAX, &n, &exact))
		return err_set(err, ERR_INVALID,
			       "`%.80s` is not a size like 512Mi, 1.5Gi, 2G or 4096", text);
	*ret_bytes = n;
	return 0;
}

void text_add_bytes(struct str *out, uint64_t bytes)
{
	static const char *const names[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	uint64_t unit = KIB, tenths;
	size_t i = 0;

	if (bytes < KIB) {
		str_addf(out, "%lu B", (unsigned long)bytes);
		return;
	}
	/* 1023.95 and more would be rounded to 1024 of a unit */
	while (i + 1 < ARRAY_LEN(names) &&
	       (unsigned __int128)bytes * 20 >= (unsigned __int128)unit * (20 * 1024 - 1)) {
		unit *= 1024;
		i++;
	}
	tenths = (uint64_t)(((unsigned __int128)bytes * 20 + unit) / ((unsigned __int128)unit * 2));
	if (tenths < 100)
		str_addf(out, "%lu.%lu %s", (unsigned long)(tenths / 10),
			 (unsigned long)(tenths % 10), names[i]);
	else
		str_addf(out, "%lu %s", (unsigned long)((tenths + 5) / 10), names[i]);
}

int text_parse_cpu(const char *text, uint32_t *ret_milli, struct err *err)
{
	const char *p = text;
	struct decimal d;
	uint64_t milli;
	bool exact;

	if (!read_decimal(&p, &d) || (*p && strcmp(p, "m") != 0) ||
	    !scale(&d, *p ? 1 : 1000, 1000000000, &milli, &exact))
		return err_set(err, ERR_INVALID,
			       "`%.80s` is not a number of cpus like 2, 0.5 or 500m", text);
	if (!exact)
		return err_set(err, ERR_INVALID,
			       "`%.80s` is finer than a thousandth of a cpu, which is 1m", text);
	*ret_milli = (uint32_t)milli;
	return 0;
}

/* Numbers. */

void text_add_count(struct str *out, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%lu", (unsigned long)n);

	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			str_addc(out, ',');
		str_addc(out, digits[i]);
	}
}

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;

static void make_c_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C",
			     (locale_t)0); /* the built-in one: allocates nothing, can't fail */
}

void text_add_double(struct str *out, double v)
{
	/* 15 digits drop their trailing zeros, so they are shortest wherever they suffice, except
	 * for denormals */
	int precision = isnormal(v) ? 15 : 1;
	char text[40];
	locale_t before;

	if (isnan(v) || isinf(v)) {
		str_add(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
		return;
	}
	pthread_once(&c_locale_once, make_c_locale);
	before = uselocale(c_locale);
	do
		snprintf(text, sizeof(text), "%.*g", precision, v);
	while (strtod(text, NULL) != v && ++precision <= 17);
	uselocale(before);
	str_add(out, text);
}

bool text_parse_double(const char *text, double *ret)
{
	const char *digits = text + (*text == '+' || *text == '-');
	char *end;
	double v;

	if (text[strspn(text, "0123456789+-.eE")] ||
	    !(*digits == '.' || (*digits >= '0' && *digits <= '9')))
		return false;
	pthread_once(&c_locale_once, make_c_locale);
	v = strtod_l(text, &end, c_locale);
	if (end == text || *end || isinf(v))
		return false;
	*ret = v;
	return true;
}

bool text_parse_int(const char *text, int64_t *ret)
{
	bool negative = *text == '-';
	int64_t v = 0;

	if (*text == '+' || *text == '-')
		text++;
	if (!*text)
		return false;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(v, (int64_t)10, &v))
			return false;
		if (negative ? __builtin_sub_overflow(v, (int64_t)(*text - '0'), &v)
			     : __builtin_add_overflow(v, (int64_t)(*text - '0'), &v))
			return false;
	}
	*ret = v;
	return true;
}

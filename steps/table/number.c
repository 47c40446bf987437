/* steps/table/number.c — decimal numbers, by one multiplication or division where that is exact
 * enough.
 *
 * The value is m * 10^e with m an integer. When m has at most 19 digits it is exact in 64 bits, and
 * so is 10^|e| in the 64-bit mantissa of x87's long double up to 10^27: one multiplication or
 * division then gives the value rounded to 64 bits. Rounding that again to 53 bits is right unless
 * the 64 bits lie exactly half-way between two doubles, where the first rounding may have hidden
 * which side the value is on. Those values (one in 2,048), all other numbers, and machines without
 * such a long double use strtod_l(), which is exact. Where m and 10^|e| are exact doubles, no long
 * double is needed (W. D. Clinger, How to read floating point numbers accurately, 1990).
 *
 * The C locale for strtod_l() is made once per process (pthread_once). There is no other state.
 */
#include "steps/table/number.h"
#include <float.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "base/mem.h"

static const double ten[23] = { 1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
				1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
				1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22 };

struct decimal {
	uint64_t m;
	int64_t e;
	unsigned digits; /* significant ones in m; more than 19: m is not exact */
	bool negative;
};

static locale_t c_locale;
static void make_locale(void)
{
	c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (!c_locale)
		mem_die(0);
}

static double exact(const char *s, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	char small[128], *text = n < sizeof(small) ? small : xmalloc(n + 1);
	double v;

	pthread_once(&once, make_locale);
	memcpy(text, s, n);
	text[n] = '\0';
	v = strtod_l(text, NULL, c_locale);
	if (text != small)
		free(text);
	return v;
}

/* True with *ret when the fast way is certainly right. */
static inline bool quick(const struct decimal *d, double *ret)
{
	double v;

	if (d->digits > 19)
		return false;
	if (d->m == 0) {
		*ret = d->negative ? -0.0 : 0.0;
		return true;
	}
	if (d->m <= 1ULL << 53 && d->e >= -22 && d->e <= 22) {
		v = d->e < 0 ? (double)d->m / ten[-d->e] : (double)d->m * ten[d->e];
		*ret = d->negative ? -v : v;
		return true;
	}
#if LDBL_MANT_DIG == 64
	static const long double more[6] = { 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L };
	union {
		long double v;
		uint64_t mantissa;
	} x = { 0 };

	if (d->e < -27 || d->e > 27)
		return false;
	if (d->e < 0)
		x.v = (long double)d->m / (d->e < -22 ? more[-d->e - 22] : (long double)ten[-d->e]);
	else
		x.v = (long double)d->m * (d->e > 22 ? more[d->e - 22] : (long double)ten[d->e]);
	if ((x.mantissa & 0x7ff) == 0x400)
		return false;
	*ret = d->negative ? -(double)x.v : (double)x.v;
	return true;
#else
	return false;
#endif
}

static size_t word(const char *s, size_t n, size_t sign, double *ret)
{
	static const struct {
		const char *text;
		size_t n;
		double v;
	} words[] = { { "infinity", 8, INFINITY }, { "inf", 3, INFINITY }, { "nan", 3, NAN } };

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (n - sign >= words[i].n &&
		    strncasecmp(s + sign, words[i].text, words[i].n) == 0) {
			*ret = sign && *s == '-' ? -words[i].v : words[i].v;
			return sign + words[i].n;
		}
	return 0;
}

static inline const char *digits(const char *p, const char *end, struct decimal *d)
{
	for (; p < end && (unsigned char)(*p - '0') < 10; p++) {
		if (d->digits < 19)
			d->m = d->m * 10 + (uint64_t)(*p - '0');
		d->digits += d->m != 0;
	}
	return p;
}

/* "e-12" at p, or nothing. */
static const char *exponent(const char *p, const char *end, struct decimal *d)
{
	const char *q = p + 1;
	bool negative = q < end && *q == '-';
	int64_t e = 0;

	if (p == end || (*p != 'e' && *p != 'E'))
		return p;
	q += q < end && (*q == '-' || *q == '+');
	if (q == end || (unsigned char)(*q - '0') >= 10)
		return p;
	for (; q < end && (unsigned char)(*q - '0') < 10; q++)
		e = MIN(e * 10 + (*q - '0'), 1000000);
	d->e += negative ? -e : e;
	return q;
}

size_t number_prefix(const char *s, size_t n, double *ret)
{
	const char *p = s, *end = s + n, *from, *point;
	struct decimal d = { 0 };
	size_t seen;

	if (p < end && (*p == '-' || *p == '+'))
		d.negative = *p++ == '-';
	from = p;
	p = digits(p, end, &d);
	seen = (size_t)(p - from);
	if (p < end && *p == '.') {
		point = ++p;
		p = digits(p, end, &d);
		seen += (size_t)(p - point);
		d.e = -(p - point);
	}
	if (!seen)
		return word(s, n, (size_t)(from - s), ret);
	if (p < end)
		p = exponent(p, end, &d);
	if (!quick(&d, ret))
		*ret = exact(s, (size_t)(p - s));
	return (size_t)(p - s);
}

/* engine/serve/schedule/zonefile.c — parses TZif files (RFC 8536) and POSIX TZ strings.
 *
 * A file is a header, a table with 32-bit times that is skipped, the same with 64-bit times, and a
 * POSIX TZ string between newlines; version 1 has the first table only. zone_rule_changes()
 * computes the transitions of three years from the string.
 *
 * Invariants: bytes are hostile. Counts are bounded before they are multiplied, nothing is read
 * beyond `end`, transitions ascend, and offsets are within RFC 8536's limits. A zone that is
 * returned needs no further check.
 *
 * Pure; any thread. Not here: finding files, looking up times (timezone.c).
 */
#include "serve/schedule/zonefile.h"

#include <string.h>
#include "base/mem.h"
#include "base/text/str.h"
#include "base/time/civil.h"

#define HEADER_BYTES    44
#define TYPE_BYTES      6
#define TRANSITIONS_MAX 100000      /* tzdata has less than 300 */
#define OFFSET_MAX_S    (26 * 3600) /* RFC 8536, 3.2 */

/* POSIX rules. */

static bool read_int(const char **p, int max, int *ret)
{
	int v = 0;
	const char *start = *p;

	for (; **p >= '0' && **p <= '9' && *p - start < 4; (*p)++)
		v = v * 10 + (**p - '0');
	*ret = v;
	return *p > start && v <= max;
}

/* [+-]hh[:mm[:ss]] */
static bool read_clock(const char **p, int max_hours, int32_t *ret_s)
{
	int h, m = 0, s = 0, sign = 1;

	if (**p == '+' || **p == '-')
		sign = *(*p)++ == '-' ? -1 : 1;
	if (!read_int(p, max_hours, &h))
		return false;
	if (**p == ':') {
		(*p)++;
		if (!read_int(p, 59, &m))
			return false;
		if (**p == ':') {
			(*p)++;
			if (!read_int(p, 59, &s))
				return false;
		}
	}
	*ret_s = sign * (h * 3600 + m * 60 + s);
	return true;
}

/* CET or <+0330> */
static bool read_name(const char **p)
{
	const char *start = *p;

	if (**p == '<') {
		*p = strchr(start, '>');
		if (!*p)
			*p = start;
		return *(*p)++ == '>' && *p - start > 2;
	}
	while ((**p | 32) >= 'a' && (**p | 32) <= 'z')
		(*p)++;
	return *p - start >= 3;
}

static bool read_day(const char **p, struct zone_day *d)
{
	*d = (struct zone_day){ .time_s = 2 * 3600 };
	if (*(*p)++ != ',')
		return false;
	if (**p == 'M') {
		d->kind = ZONE_DAY_WEEKDAY;
		(*p)++;
		if (!read_int(p, 12, &d->month) || d->month < 1 || *(*p)++ != '.' ||
		    !read_int(p, 5, &d->week) || d->week < 1 || *(*p)++ != '.' ||
		    !read_int(p, 6, &d->day))
			return false;
	} else if (**p == 'J') {
		d->kind = ZONE_DAY_JULIAN;
		(*p)++;
		if (!read_int(p, 365, &d->day) || d->day < 1)
			return false;
	} else {
		d->kind = ZONE_DAY_OF_YEAR;
		if (!read_int(p, 365, &d->day))
			return false;
	}
	if (**p != '/')
		return true;
	(*p)++;
	return read_clock(p, 167, &d->time_s);
}

static bool read_rule(const char *p, struct zone_rule *r)
{
	int32_t west;

	*r = (struct zone_rule){ 0 };
	if (!read_name(&p) || !read_clock(&p, 24, &west))
		return false;
	r->std_offset = -west;
	r->dst_offset = r->std_offset + 3600;
	if (!*p)
		return true;
	r->has_dst = true;
	if (!read_name(&p))
		return false;
	if (*p != ',') {
		if (!read_clock(&p, 24, &west))
			return false;
		r->dst_offset = -west;
	}
	return read_day(&p, &r->begin) && read_day(&p, &r->end) && !*p;
}

/* lint: unused but by tests: fuzzing begins here */
int zone_rule_parse(const char *text, struct zone_rule *ret, struct err *err)
{
	return read_rule(text, ret)
		       ? 0
		       : err_set(err, ERR_INVALID, "`%.60s` is not a rule for local time", text);
}

static int64_t day_in_year(const struct zone_day *d, int year)
{
	struct civil_date first = { year, 1, 1 };
	int64_t day, last;

	if (d->kind == ZONE_DAY_OF_YEAR)
		return civil_to_days(&first) + d->day;
	if (d->kind == ZONE_DAY_JULIAN)
		return civil_to_days(&first) + d->day - 1 +
		       (d->day >= 60 && civil_month_days(year, 2) == 29);
	first.month = d->month;
	day = civil_to_days(&first);
	last = day + civil_month_days(year, d->month) - 1;
	day += (d->day - civil_weekday(day) + 7) % 7 + 7 * (d->week - 1);
	while (day > last)
		day -= 7;
	return day;
}

/* Of two changes at one instant the one to summer time counts: in an "all year" rule, one summer
 * ends when the next begins. */
static bool comes_before(const struct zone_change *a, const struct zone_change *b,
			 const struct zone_rule *r)
{
	return a->at_s < b->at_s ||
	       (a->at_s == b->at_s && a->offset_s == r->std_offset && b->offset_s != r->std_offset);
}

size_t zone_rule_changes(const struct zone_rule *r, int64_t t,
			 struct zone_change ret[ZONE_RULE_CHANGES])
{
	int year = civil_from_days(civil_floor_div(t, CIVIL_DAY_S)).year;
	size_t n = 0;

	if (!r->has_dst)
		return 0;
	for (int y = year - 1; y <= year + 1; y++) {
		struct zone_change of_year[] = {
			{ day_in_year(&r->begin, y) * CIVIL_DAY_S + r->begin.time_s - r->std_offset,
			  r->dst_offset },
			{ day_in_year(&r->end, y) * CIVIL_DAY_S + r->end.time_s - r->dst_offset,
			  r->std_offset },
		};

		for (size_t k = 0; k < 2; k++) {
			size_t at = n++;

			for (; at > 0 && comes_before(&of_year[k], &ret[at - 1], r); at--)
				ret[at] = ret[at - 1];
			ret[at] = of_year[k];
		}
	}
	return n;
}

/* Files. */

struct header {
	int version;
	uint32_t isut, isstd, leaps, times, types, chars;
};

struct cursor {
	const uint8_t *p, *end;
};

static int64_t big_endian(const uint8_t *p, int bytes)
{
	uint64_t v = p[0] & 0x80 ? UINT64_MAX : 0;

	for (int i = 0; i < bytes; i++)
		v = v << 8 | p[i];
	return (int64_t)v;
}

static bool read_header(struct cursor *c, struct header *h)
{
	uint32_t *counts[] = { &h->isut, &h->isstd, &h->leaps, &h->times, &h->types, &h->chars };

	if (c->end - c->p < HEADER_BYTES || memcmp(c->p, "TZif", 4) != 0)
		return false;
	h->version = c->p[4] ? c->p[4] - '0' : 1;
	for (size_t i = 0; i < ARRAY_LEN(counts); i++)
		*counts[i] = (uint32_t)big_endian(c->p + 20 + 4 * i, 4);
	c->p += HEADER_BYTES;
	return h->times <= TRANSITIONS_MAX && h->types >= 1 && h->types <= 256 &&
	       h->leaps <= 1000 && h->chars <= 65536 && h->isut <= 256 && h->isstd <= 256;
}

static size_t data_bytes(const struct header *h, size_t time_bytes)
{
	return h->times * (time_bytes + 1) + h->types * TYPE_BYTES + h->chars +
	       h->leaps * (time_bytes + 4) + h->isstd + h->isut;
}

static const char *read_table(struct cursor *c, const struct header *h, size_t time_bytes,
			      struct zone *z)
{
	const uint8_t *times = c->p, *index = times + h->times * time_bytes,
		      *types = index + h->times;

	if ((size_t)(c->end - c->p) < data_bytes(h, time_bytes))
		return "it is cut short";
	if (h->leaps)
		return "it counts leap seconds, which Unix time doesn't";
	z->times = xcalloc(h->times + 1, sizeof(*z->times));
	z->offsets = xcalloc(h->times + 1, sizeof(*z->offsets));
	for (size_t i = 0; i < h->types; i++) {
		int64_t offset = big_endian(types + i * TYPE_BYTES, 4);

		if (offset < -OFFSET_MAX_S || offset > OFFSET_MAX_S)
			return "an offset is out of range";
	}
	z->first_offset = (int32_t)big_endian(types, 4);
	for (size_t i = 0; i < h->times; i++) {
		z->times[i] = big_endian(times + i * time_bytes, (int)time_bytes);
		if (index[i] >= h->types || (i > 0 && z->times[i] <= z->times[i - 1]))
			return "its transitions are not in order";
		z->offsets[i] = (int32_t)big_endian(types + index[i] * TYPE_BYTES, 4);
	}
	z->n = h->times;
	c->p += data_bytes(h, time_bytes);
	return NULL;
}

/* "\nCET-1CEST,M3.5.0,M10.5.0/3\n". Without a rule, the table's last entry holds. */
static const char *read_footer(struct cursor *c, struct zone *z)
{
	const uint8_t *end;
	char text[256];
	size_t len;

	if (c->p == c->end || *c->p != '\n')
		return "it has no rule at its end";
	end = memchr(c->p + 1, '\n', (size_t)(c->end - c->p - 1));
	len = end ? (size_t)(end - c->p - 1) : sizeof(text);
	if (len >= sizeof(text))
		return "its rule has no end";
	memcpy(text, c->p + 1, len);
	text[len] = '\0';
	z->has_rule = len > 0;
	if (strlen(text) != len || (len && !read_rule(text, &z->rule)))
		return "its rule can't be understood";
	return NULL;
}

static const char *read_file(struct cursor *c, struct zone *z)
{
	struct header h;
	const char *problem;

	if (!read_header(c, &h))
		return "it is no TZif file";
	if (h.version < 2)
		return read_table(c, &h, 4, z);
	if ((size_t)(c->end - c->p) < data_bytes(&h, 4))
		return "it is cut short";
	c->p += data_bytes(&h, 4);
	if (!read_header(c, &h))
		return "its second part is no TZif file";
	problem = read_table(c, &h, 8, z);
	return problem ? problem : read_footer(c, z);
}

int zone_parse(const void *bytes, size_t n, struct zone **ret, struct err *err)
{
	struct zone *z = xcalloc(1, sizeof(*z));
	struct cursor c = { bytes, (const uint8_t *)bytes + n };
	const char *problem = read_file(&c, z);

	if (problem) {
		zone_free(z);
		return err_set(err, ERR_INVALID, "not a time zone file: %s", problem);
	}
	*ret = z;
	return 0;
}

int zone_utc(struct zone **ret)
{
	*ret = xcalloc(1, sizeof(**ret));
	return 0;
}

void zone_deinit(struct zone *z)
{
	free(z->times);
	free(z->offsets);
	*z = (struct zone){ 0 };
}

void zone_free(struct zone *z)
{
	if (!z)
		return;
	zone_deinit(z);
	free(z);
}

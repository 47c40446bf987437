/* engine/serve/schedule/calendar.c — nominal times of a rule, forwards and backwards.
 *
 * next_of_rule() walks local time segment by segment (a segment is a stretch of constant offset).
 * In each it searches for matching local times only where they count: from the segment's first one
 * or, where repetitions don't fire, from the end of the times shown before. A result of cron_next()
 * is kept while it still lies ahead. calendar_interval_start() has no walk of its own: it looks
 * back further and further until next_in() gives an earlier time, then bisects.
 *
 * Invariants: next_in() grows with its argument, which the backward search relies on. No time is
 * beyond CALENDAR_LIMIT_S, so nanoseconds don't overflow. Due times keep the order of nominal times
 * (calendar_due()).
 *
 * Pure except for the zone. Not here: cron rules (model/schedule/cron.c), zones (timezone.c).
 */
#include "serve/schedule/calendar.h"

#include "base/crypto/digest.h"
#include "base/text/str.h"
#include "base/time/civil.h"

#define NEVER_S (CALENDAR_LIMIT_S)

int calendar_of(const struct schedule_decl *s, struct zone_set *zones, struct calendar *ret,
		struct err *err)
{
	size_t offset;

	*ret = (struct calendar){ .none = !s->cron, .start_ns = s->start_ns, .end_ns = s->end_ns };
	ret->dst = str_eq(s->dst, "skip")    ? DST_SKIP
		   : str_eq(s->dst, "twice") ? DST_TWICE
					     : DST_ONCE;
	if (s->cron && cron_parse(s->cron, &ret->cron, &offset, err) < 0)
		return err_wrap(err, "schedule %s", s->name);
	return zone_get(zones, s->timezone, &ret->zone, err);
}

/* Whether the rule matches a time in [from, to). */
static bool names_any(const struct calendar *c, int64_t from, int64_t to)
{
	int64_t local;

	return from < to && cron_next(&c->cron, from, to, &local) == 0;
}

/* The first firing at or after t. A result of cron_next() is kept while it still lies ahead: a rule
 * that fires in ten years is searched once. */
static int64_t next_of_rule(const struct calendar *c, int64_t t)
{
	bool interval = cron_is_interval(&c->cron);
	int64_t sought_from = INT64_MAX, local = INT64_MIN;

	while (t < NEVER_S) {
		struct zone_segment s = zone_segment_at(c->zone, t);
		int64_t shown = interval || s.start_s == INT64_MIN ? INT64_MIN
								   : zone_shown_before(c->zone, &s);
		int64_t from = t + s.offset_s;

		if (!interval && c->dst != DST_SKIP && t == s.start_s && names_any(c, shown, from))
			return t;
		if (!interval && c->dst != DST_TWICE)
			from = MAX(from, shown);
		if (from < sought_from || from > local) {
			if (cron_next(&c->cron, from, NEVER_S + s.offset_s, &local) > 0)
				return NEVER_S;
			sought_from = from;
		}
		if (s.end_s == INT64_MAX || local < s.end_s + s.offset_s)
			return local - s.offset_s;
		t = s.end_s;
	}
	return NEVER_S;
}

static int64_t next_in(const struct calendar *c, int64_t after_ns)
{
	int64_t t = civil_floor_div(after_ns, NS_PER_S) + 1;

	if (c->none)
		return CALENDAR_NEVER;
	t = c->cron.every_s ? (civil_floor_div(t - 1, c->cron.every_s) + 1) * c->cron.every_s
			    : next_of_rule(c, t);
	return t >= NEVER_S ? CALENDAR_NEVER : t * NS_PER_S;
}

int64_t calendar_next(const struct calendar *c, int64_t after_ns)
{
	int64_t next;

	if (c->start_ns && after_ns < c->start_ns)
		after_ns = c->start_ns - 1;
	next = next_in(c, after_ns);
	return c->end_ns && next >= c->end_ns ? CALENDAR_NEVER : next;
}

#define BACK_MAX_NS (28LL * 366 * CIVIL_DAY_S * NS_PER_S) /* 29 February on a certain weekday */

/* next_in() grows with its argument: look back further and further for an earlier time, then
 * bisect. */
int64_t calendar_interval_start(const struct calendar *c, int64_t before_ns)
{
	int64_t back = 3600 * NS_PER_S, found, low, high = before_ns - 1;

	for (;; back *= 4) {
		low = MAX(before_ns, INT64_MIN + 2 * BACK_MAX_NS) - MIN(back, BACK_MAX_NS);
		found = next_in(c, low);
		if (found < before_ns)
			break;
		if (back >= BACK_MAX_NS)
			return INT64_MIN;
	}
	for (low = found; high - low > 1;) {
		int64_t middle = low + (high - low) / 2, next = next_in(c, middle);

		if (next < before_ns)
			low = found = next;
		else
			high = middle;
	}
	return found;
}

int64_t calendar_previous(const struct calendar *c, int64_t before_ns)
{
	int64_t found = c->none ? INT64_MIN
				: calendar_interval_start(c, c->end_ns ? MIN(before_ns, c->end_ns)
								       : before_ns);

	return found < c->start_ns && c->start_ns ? INT64_MIN : found;
}

int64_t calendar_jitter(const char *path, const char *schedule, int64_t nominal_ns,
			int64_t jitter_ns)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct digest d;
	uint64_t v;

	if (jitter_ns <= 0)
		return 0;
	str_add_field(&text, path, strlen(path));
	str_add_field(&text, schedule, strlen(schedule));
	str_add_u64(&text, (uint64_t)nominal_ns);
	digest_bytes(text.s, text.len, &d);
	v = 0;
	for (int i = 0; i < 8; i++)
		v = v << 8 | d.b[i];
	return (int64_t)(v % (uint64_t)jitter_ns);
}

int64_t calendar_due(const struct calendar *c, const char *path, const char *schedule,
		     int64_t nominal_ns, int64_t jitter_ns)
{
	int64_t next;

	if (jitter_ns <= 0)
		return nominal_ns;
	next = calendar_next(c, nominal_ns);
	if (next != CALENDAR_NEVER)
		jitter_ns = MIN(jitter_ns, next - nominal_ns);
	return nominal_ns + calendar_jitter(path, schedule, nominal_ns, jitter_ns);
}

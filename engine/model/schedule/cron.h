/* engine/model/schedule/cron.h — cron rules: five fields, nicknames and @every, as sets of minutes,
 *hours and days.
 *
 *	minute 0–59 · hour 0–23 · day of the month 1–31 · month 1–12 or JAN–DEC
 *	day of the week 0–7 or SUN–SAT (0 and 7 are Sunday)
 *
 * A field is a list (1,15) of `*`, numbers or names, ranges (1-5, mon-fri, fri-sun) and steps
 * (star/10, 8-18/2, 5/10: from 5 on). The day fields also take: `?`, the same as `*`; `L`, the last
 * day of the month, and `L-3`, the third before it; `5L` or `friL`, the last Friday; `mon#2`, the
 * second Monday. When both day fields are restricted, a day that matches either one will do. When
 * one of them begins with a star (also star/2), a day must match both, as in Vixie cron.
 *
 * The nicknames hourly, daily or midnight, weekly (Sunday), monthly, yearly or annually, each with
 * an `@` before it, mean what they mean in crontab(5). `@every 10m` is a plain interval of elapsed
 * time, in whole seconds, counted from 1970-01-01T00:00Z: time zones don't affect it.
 *
 * Pure; any thread.
 */
#ifndef CAIRN_MODEL_SCHEDULE_CRON_H
#define CAIRN_MODEL_SCHEDULE_CRON_H

#include <stdbool.h>
#include "base/err.h"

struct cron {
	int64_t every_s;  /* @every: then all other fields are ignored; 0: no @every */
	uint64_t minutes; /* bit n stands for n, here and below */
	uint32_t hours, days, months, weekdays;
	uint32_t last_days;          /* bit n: n days before the month's last day */
	uint8_t last_weekdays;       /* the last such day of the month */
	uint8_t nth_weekdays[7];     /* bit n: the nth such day of the month */
	bool star_day, star_weekday; /* the field begins with a star */
};

/* ERR_INVALID says what is wrong, *ret_offset where. A rule that matches no day in 400 years is
 * wrong, too. */
int cron_parse(const char *text, struct cron *ret, size_t *ret_offset, struct err *err);
/* It matches all 24 hours: it means an interval rather than a time of day. */
bool cron_is_interval(const struct cron *c);
bool cron_matches_day(const struct cron *c, int64_t days_since_1970);
/* The first matching time at or after `local_s` and before `limit_s`, in seconds since 1970 of a
 * clock without a zone. 0, or 1: none. Not for @every. */
int cron_next(const struct cron *c, int64_t local_s, int64_t limit_s, int64_t *ret_s);

#endif

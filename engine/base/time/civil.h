/* engine/base/time/civil.h — the Gregorian calendar as arithmetic: days since 1970-01-01 ↔ year,
 * month, day. Pure; any thread. */
#ifndef CAIRN_BASE_TIME_CIVIL_H
#define CAIRN_BASE_TIME_CIVIL_H

#include <stdint.h>

#define CIVIL_DAY_S 86400

struct civil_date {
	int year, month, day; /* month 1–12, day 1–31 */
};

int64_t civil_to_days(const struct civil_date *c);
struct civil_date civil_from_days(int64_t days);
int civil_month_days(int year, int month);
int civil_weekday(int64_t days); /* 0 is Sunday */

static inline int64_t civil_floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

#endif

/* Days are counted in eras of 400 years (146,097 days), with years that begin in March, so that the
 * leap day comes last. */
#include "base/time/civil.h"

#include <assert.h>
#include <stdbool.h>

#define DAYS_PER_ERA            146097
#define DAYS_0000_03_01_TO_1970 719468

int64_t civil_to_days(const struct civil_date *c)
{
	int64_t year = c->year - (c->month <= 2);
	int64_t era = civil_floor_div(year, 400), of_era = year - era * 400;
	int64_t month = (c->month + 9) % 12; /* March is 0 */
	int64_t of_year = (153 * month + 2) / 5 + c->day - 1;

	return era * DAYS_PER_ERA + of_era * 365 + of_era / 4 - of_era / 100 + of_year -
	       DAYS_0000_03_01_TO_1970;
}

struct civil_date civil_from_days(int64_t days)
{
	int64_t shifted = days + DAYS_0000_03_01_TO_1970,
		era = civil_floor_div(shifted, DAYS_PER_ERA);
	int64_t of_era = shifted - era * DAYS_PER_ERA;
	int64_t years = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int64_t of_year = of_era - (365 * years + years / 4 - years / 100);
	int64_t month = (5 * of_year + 2) / 153;

	return (struct civil_date){
		.year = (int)(years + era * 400 + (month >= 10)),
		.month = (int)(month < 10 ? month + 3 : month - 9),
		.day = (int)(of_year - (153 * month + 2) / 5 + 1),
	};
}

int civil_month_days(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	assert(month >= 1 && month <= 12);
	return days[month - 1] + (month == 2 && leap);
}

int civil_weekday(int64_t days)
{
	int64_t w = (days + 4) % 7; /* 1970-01-01 was a Thursday */

	return (int)(w < 0 ? w + 7 : w);
}

/* engine/serve/schedule/zonefile.h — reads TZif files and the POSIX rule at their end into a zone.
 * For serve/schedule/timezone.c and tests. */
#ifndef CAIRN_SERVE_SCHEDULE_ZONEFILE_H
#define CAIRN_SERVE_SCHEDULE_ZONEFILE_H

#include <sys/stat.h>
#include "serve/schedule/timezone.h"

/* A day of the year on which summer time begins or ends, with the local time of the change (may be
 * negative or beyond a day: RFC 8536, 3.3.1). */
struct zone_day {
	enum {
		ZONE_DAY_JULIAN /* J1–J365, never 29 February */,
		ZONE_DAY_OF_YEAR /* 0–365 */,
		ZONE_DAY_WEEKDAY /* Mm.w.d */
	} kind;
	int day, month, week;
	int32_t time_s;
};

struct zone_rule {
	int32_t std_offset, dst_offset;
	bool has_dst;
	struct zone_day begin, end;
};

struct zone {
	int64_t *times;   /* of transitions, ascending */
	int32_t *offsets; /* offsets from then on */
	size_t n;
	int32_t first_offset; /* before the first transition */
	bool has_rule;
	struct zone_rule rule;
	struct stat file;
};

int zone_utc(struct zone **ret);
void zone_deinit(struct zone *z);
/* "CET-1CEST,M3.5.0,M10.5.0/3" */
int zone_rule_parse(const char *text, struct zone_rule *ret, struct err *err);

struct zone_change {
	int64_t at_s;
	int32_t offset_s;
};
#define ZONE_RULE_CHANGES 6
/* The rule's changes in the year of `t`, the one before and the one after, ascending; 0 when it has
 * no summer time. */
size_t zone_rule_changes(const struct zone_rule *r, int64_t t,
			 struct zone_change ret[ZONE_RULE_CHANGES]);

#endif

/* engine/serve/schedule/calendar.h — the nominal times of a schedule: from its cron rule and time
 *zone, and from `dst` on the two nights of the year when clocks change.
 *
 * A rule names local times. Where the zone's clock goes forward, some local times are skipped;
 * where it goes back, some are shown twice. `dst` decides when they fire:
 *
 *	dst	a skipped time fires        a time shown twice    so a local time fires
 *	once	at the instant of the jump  at its first showing  exactly once
 *	skip	not at all                  at its first showing  at most once
 *	twice	at the instant of the jump  at both               at least once
 *
 * "The instant of the jump" is the first one after the gap (02:30 in Berlin's March fires at 03:00
 * CEST). Several skipped times of one gap make one firing, and none when the rule names that
 * instant itself. A gap may be half an hour (Lord Howe) or a day (Apia 2011).
 *
 * A rule whose hours are all 24 (star hour: "0 * * * *", "star/15 * * * *") means an interval, not
 * a time of day: it fires whenever the clock shows a matching time. So a repeated hour fires twice
 * and a skipped one never, whatever `dst` says.
 * `@every 10m` is elapsed time and knows no zone.
 *
 * Nominal times are Unix nanoseconds, each different from any other of its schedule. Pure
 * except for the zone; one thread.
 */
#ifndef CAIRN_SERVE_SCHEDULE_CALENDAR_H
#define CAIRN_SERVE_SCHEDULE_CALENDAR_H

#include "model/pipeline.h"
#include "model/schedule/cron.h"
#include "serve/schedule/timezone.h"

enum dst_policy { DST_ONCE, DST_SKIP, DST_TWICE };

struct calendar {
	struct cron cron;
	bool none; /* no rule: only `on_change` */
	struct zone *zone;
	enum dst_policy dst;
	int64_t start_ns, end_ns; /* nominal times in [start, end); 0: no bound */
};

#define CALENDAR_NEVER INT64_MAX
/* No schedule fires later: 64-bit nanoseconds end in the year 2262. */
#define CALENDAR_LIMIT_S 9214646400LL /* 2262-01-01 */

/* The zone is borrowed from `zones`. */
int calendar_of(const struct schedule_decl *s, struct zone_set *zones, struct calendar *ret,
		struct err *err);
/* The first nominal time after `after_ns`; CALENDAR_NEVER when there is none. */
int64_t calendar_next(const struct calendar *c, int64_t after_ns);
/* The last one before `before_ns`; INT64_MIN when there is none in the 28 years before. */
int64_t calendar_previous(const struct calendar *c, int64_t before_ns);
/* The same, ignoring start and end: the start of a data interval. */
int64_t calendar_interval_start(const struct calendar *c, int64_t nominal_ns);
/* From 0 to jitter_ns - 1: the same on every machine for the same schedule and nominal time. */
int64_t calendar_jitter(const char *path, const char *schedule, int64_t nominal_ns,
			int64_t jitter_ns);
/* When a nominal time is due: with its jitter, cut so that it ends before the next nominal time. So
 * due times keep the order of nominal times. */
int64_t calendar_due(const struct calendar *c, const char *path, const char *schedule,
		     int64_t nominal_ns, int64_t jitter_ns);

#endif

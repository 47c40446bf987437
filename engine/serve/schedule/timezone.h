/* serve/schedule/timezone.h — time zones from the system's tzdata (TZif files, RFC 8536), as
 * segments of constant offset from UTC.
 *
 * The files of /usr/share/zoneinfo (or $TZDIR) are read by this program itself, so that
 * zone_refresh() sees an update of tzdata without a restart: it looks at the file's identity, size
 * and mtime. Beyond the file's table the POSIX rule at its end goes on for ever. A file that can't
 * be read any more leaves the zone as it was. Files are outside data: bounded and checked.
 *
 * A set owns its zones and lends them; each is loaded once. One thread.
 */
#ifndef CAIRN_SERVE_SCHEDULE_TIMEZONE_H
#define CAIRN_SERVE_SCHEDULE_TIMEZONE_H

#include <stdbool.h>
#include "base/err.h"

struct zone;
struct zone_set;

struct zone_set *zone_set_new(const char *dir); /* NULL: $TZDIR or /usr/share/zoneinfo */
void zone_set_free(struct zone_set *z);
/* "Europe/Berlin". "UTC" is always there. ERR_NOT_FOUND; ERR_INVALID for a name or a file that is
 * none. */
int zone_get(struct zone_set *z, const char *name, struct zone **ret, struct err *err);
/* Reads again what changed on disk; returns how many zones did. */
size_t zone_refresh(struct zone_set *z);

/* From bytes, for tests and fuzzing; zone_free() then. */
int zone_parse(const void *bytes, size_t n, struct zone **ret, struct err *err);
void zone_free(struct zone *z);

struct zone_segment {
	int64_t start_s,
		end_s; /* Unix time, [start, end); INT64_MIN and INT64_MAX where there is no end */
	int32_t offset_s; /* local time = UTC + this */
};
struct zone_segment zone_segment_at(const struct zone *z, int64_t unix_s);
/* Clocks of so many seconds of local time were shown before this segment began: the end of the
 * segments before it, in local time. INT64_MIN at the beginning of time. What is below it in this
 * segment is shown again; what lies between it and the segment's first local time was skipped. */
int64_t zone_shown_before(const struct zone *z, const struct zone_segment *s);

#endif

/* engine/serve/schedule/timezone.h — time zones from the system's tzdata (TZif files, RFC 8536), as
 * segments of constant offset from UTC.
 *
 * This program itself reads the files of /usr/share/zoneinfo (or $TZDIR), so that zone_refresh()
 * sees an update of tzdata without a restart: it compares the file's identity, size and mtime.
 * After the file's table, the POSIX rule at its end holds for ever. When a file can't be read any
 * more, the zone stays as it was. Files are untrusted: bounded and checked.
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
/* Finds a zone such as "Europe/Berlin". "UTC" always exists. ERR_NOT_FOUND; ERR_INVALID for a bad
 * name or file. */
int zone_get(struct zone_set *z, const char *name, struct zone **ret, struct err *err);
/* Reads changed files again; returns how many zones changed. */
size_t zone_refresh(struct zone_set *z);

/* Makes a zone from bytes, for tests and fuzzing; free it with zone_free(). */
int zone_parse(const void *bytes, size_t n, struct zone **ret, struct err *err);
void zone_free(struct zone *z);

struct zone_segment {
	/* Unix time, [start, end); INT64_MIN and INT64_MAX when unbounded. */
	int64_t start_s, end_s;
	int32_t offset_s; /* local time = UTC + this */
};
struct zone_segment zone_segment_at(const struct zone *z, int64_t unix_s);
/* The latest local time that clocks showed before this segment began, in seconds: the end of the
 * segments before it. INT64_MIN when there is no earlier segment. Local times below it in this
 * segment are shown again; those between it and the segment's first local time were skipped. */
int64_t zone_shown_before(const struct zone *z, const struct zone_segment *s);

#endif

/* serve/notify/occasion.h — one firing of a schedule as something to run: its nominal time, its
 * data interval and its params.
 *
 * The text form is NAME@TIME, or NAME for the latest nominal time that has passed. Everything lives
 * in `arena`.
 */
#ifndef CAIRN_SERVE_NOTIFY_OCCASION_H
#define CAIRN_SERVE_NOTIFY_OCCASION_H

#include "record/rows/firings.h"
#include "run/run.h"
#include "serve/schedule/calendar.h"

struct occasion {
	const struct schedule_decl *decl;
	int64_t nominal_ns;
	bool explicit_time; /* TIME was given */
	struct schedule_times times;
};

/* `db` may be NULL: then no firing is on record. Without a rule, the interval begins at the firing
 * before. `path` is the pipeline's, relative to the project root. */
int occasion_parse(const struct pipeline *p, const char *text, const char *path, struct db *db,
		   int64_t wall_ns, struct arena *arena, struct occasion *ret, struct err *err);
int occasion_of(const struct schedule_decl *d, const char *path, int64_t nominal_ns, struct db *db,
		struct arena *arena, struct occasion *ret, struct err *err);
/* Sets o->schedule, nominal_ns, again and cause, and puts the schedule's params before the
 * overrides. */
int occasion_options(const struct occasion *oc, struct arena *arena, struct run_options *o,
		     struct err *err);

#endif

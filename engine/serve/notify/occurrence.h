/* engine/serve/notify/occurrence.h — one firing of a schedule as something to run: its nominal
 * time, its data interval and its params.
 *
 * The text form is NAME@TIME, or NAME for the latest nominal time that has passed. Everything lives
 * in `arena`.
 */
#ifndef CAIRN_SERVE_NOTIFY_OCCURRENCE_H
#define CAIRN_SERVE_NOTIFY_OCCURRENCE_H

#include "record/rows/firings.h"
#include "run/run.h"
#include "serve/schedule/calendar.h"

struct occurrence {
	const struct schedule_decl *decl;
	int64_t nominal_ns;
	bool explicit_time; /* TIME was given */
	struct schedule_times times;
};

/* `db` may be NULL: then no firing is on record. Without a rule, the interval begins at the firing
 * before. `path` is the pipeline's, relative to the project root. */
int occurrence_parse(const struct pipeline *p, const char *text, const char *path, struct db *db,
		     int64_t wall_ns, struct arena *arena, struct occurrence *ret, struct err *err);
int occurrence_of(const struct schedule_decl *d, const char *path, int64_t nominal_ns,
		  struct db *db, struct arena *arena, struct occurrence *ret, struct err *err);
/* Sets o->firing, and puts the schedule's params before the
 * overrides. */
int occurrence_options(const struct occurrence *oc, struct arena *arena, struct run_options *o,
		       struct err *err);

#endif

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

/* Where the firings of a pipeline's schedules are on record. */
struct occurrence_record {
	struct db *db;    /* NULL: no firing is on record */
	const char *path; /* the pipeline's, relative to the project root */
};
/* Without a rule, the interval begins at the firing before. */
int occurrence_parse(const struct pipeline *p, const char *text,
		     const struct occurrence_record *record, int64_t wall_ns, struct arena *arena,
		     struct occurrence *ret, struct err *err);
int occurrence_of(const struct schedule_decl *d, const struct occurrence_record *record,
		  int64_t nominal_ns, struct arena *arena, struct occurrence *ret, struct err *err);
/* Sets o->firing, and puts the schedule's params before the
 * overrides. */
int occurrence_options(const struct occurrence *oc, struct arena *arena, struct run_options *o,
		       struct err *err);

#endif

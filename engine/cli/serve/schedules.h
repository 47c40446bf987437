/* engine/cli/serve/schedules.h — shared by the commands `cairn schedule …`: the project's
 * schedules, found by name, with their calendars and rows. */
#ifndef CAIRN_CLI_SERVE_SCHEDULES_H
#define CAIRN_CLI_SERVE_SCHEDULES_H

#include "cli/cli.h"
#include "record/rows/firings.h"
#include "serve/schedule/calendar.h"

struct schedule_entry {
	const char *path; /* of the pipeline, relative to the project root */
	struct pipeline *pipeline;
	const struct schedule_decl *decl;
	struct calendar calendar;
	struct schedule_row row; /* zero except for its key when the database has none */
};

struct schedule_list {
	struct schedule_entry *v;
	size_t n;
	bool broken; /* a pipeline file couldn't be loaded; its errors were printed */
	struct zone_set *zones;
	struct pipeline **pipelines;
	size_t n_pipelines;
};

/* Lists every schedule of the given pipelines, or of all in the project. Reads the database if
 * there is one. Call schedules_close() even after a failure. */
int schedules_open(struct cli *cli, const char *const *paths, size_t n_paths,
		   struct schedule_list *ret, struct err *err);
void schedules_close(struct schedule_list *l);
/* NAME or FILE:NAME. ERR_NOT_FOUND with the nearest name; ERR_INVALID when several match. */
int schedules_find(struct cli *cli, const struct schedule_list *l, const char *what,
		   const struct schedule_entry **ret, struct err *err);
/* Sets *ret to the database, or NULL when there is none. */
int schedules_db(struct cli *cli, struct db **ret, struct err *err);
const char *schedules_wall(struct cli *cli, const struct schedule_entry *e,
			   int64_t ns); /* local time of the schedule's zone, with its offset */
/* The schedule's name; FILE:NAME where several schedules of the list have the same name. */
const char *schedules_name(struct cli *cli, const struct schedule_list *l,
			   const struct schedule_entry *e);
/* A pipeline's path relative to the project root; NULL when it can't be found. In cli->arena. */
const char *schedules_path(struct cli *cli, const struct pipeline *p);
int64_t schedules_now(void);

#endif

/* cli/serve/schedules.h — what `cairn schedule …` share: the project's schedules, found by name;
 * their calendars and rows. */
#ifndef CAIRN_CLI_SERVE_SCHEDULES_H
#define CAIRN_CLI_SERVE_SCHEDULES_H

#include "cli/cli.h"
#include "record/rows/firings.h"
#include "serve/schedule/calendar.h"

struct schedule_entry {
	const char *path; /* of the pipeline, from the project root */
	struct pipeline *pipeline;
	const struct schedule_decl *decl;
	struct calendar calendar;
	struct schedule_row row; /* zero but for its key when there is none */
};

struct schedule_list {
	struct schedule_entry *v;
	size_t n;
	bool broken; /* a pipeline file couldn't be loaded; what is wrong was printed */
	struct zone_set *zones;
	struct pipeline **pipelines;
	size_t n_pipelines;
};

/* Every schedule of the pipelines given, or of all that the project has. The database is read if
 * there is one. schedules_close() follows also after a failure. */
int schedules_open(struct cli *cli, const char *const *paths, size_t n_paths,
		   struct schedule_list *ret, struct err *err);
void schedules_close(struct schedule_list *l);
/* NAME or FILE:NAME. ERR_NOT_FOUND with the nearest name; ERR_INVALID when several match. */
int schedules_find(struct cli *cli, const struct schedule_list *l, const char *what,
		   const struct schedule_entry **ret, struct err *err);
/* The database if there is one: NULL otherwise. */
int schedules_db(struct cli *cli, struct db **ret, struct err *err);
const char *schedules_wall(struct cli *cli, const struct schedule_entry *e,
			   int64_t ns); /* local time of the schedule's zone, with its offset */
/* The schedule's name; FILE:NAME where several schedules of the list have it. */
const char *schedules_name(struct cli *cli, const struct schedule_list *l,
			   const struct schedule_entry *e);
/* A pipeline's path from the project root; NULL when it can't be found. In cli->arena. */
const char *schedules_path(struct cli *cli, const struct pipeline *p);
int64_t schedules_now(void);

#endif

/* engine/cli/serve/schedules.c — the project's schedules, with their calendars and rows.
 *
 * schedules_open() loads pipelines, the given ones or those that serve/project/discover.h finds,
 * and makes one entry of each schedule: its declaration, its calendar, its row in the database.
 * Declarations point into the pipelines, so the list owns those until schedules_close().
 *
 * Invariants: a discovered file that can't be loaded sets `broken`, and the others are shown; a
 * named file that can't be loaded is an error. The database is only read, and may be missing: a
 * schedule that never fired has a row with nothing but its key.
 *
 * What it doesn't do: fire schedules (engine/serve/).
 */
#include "cli/serve/schedules.h"

#include <string.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/time/civil.h"
#include "base/time/clock.h"
#include "serve/project/discover.h"

int64_t schedules_now(void)
{
	return clock_wall_ns();
}

const char *schedules_path(struct cli *cli, const struct pipeline *p)
{
	_cleanup_(freep) char *real = realpath(p->path, NULL);
	_cleanup_(freep) char *relative =
		real && cli->config ? fs_relative(cli->config->project_root, real) : NULL;

	return relative ? arena_strdup(cli->arena, relative) : NULL;
}

int schedules_db(struct cli *cli, struct db **ret, struct err *err)
{
	const struct config *config;
	_cleanup_(freep) char *path = NULL;

	*ret = NULL;
	if (cli_config(cli, &config, err) < 0)
		return -1;
	path = fs_join(config->state_dir, "cairn.db");
	return access(path, F_OK) < 0 ? 0 : cli_db(cli, DB_READ, ret, err);
}

static int add_schedules(struct cli *cli, struct schedule_list *l, struct pipeline *p,
			 struct db *db, struct err *err)
{
	const char *path = schedules_path(cli, p);

	l->pipelines = xreallocarray(l->pipelines, l->n_pipelines + 1, sizeof(struct pipeline *));
	l->pipelines[l->n_pipelines++] = p;
	if (!path)
		return err_set(err, ERR_INVALID, "%s is not in the project", p->path);
	for (size_t i = 0; i < p->n_schedules; i++) {
		struct schedule_entry e = { .path = path, .pipeline = p, .decl = &p->schedules[i] };

		e.row = (struct schedule_row){ .path = path, .name = e.decl->name };
		if (calendar_of(e.decl, l->zones, &e.calendar, err) < 0 ||
		    (db && record_schedule(db, path, e.decl->name, cli->arena, &e.row, err) < 0))
			return -1;
		l->v = xreallocarray(l->v, l->n + 1, sizeof(*l->v));
		l->v[l->n++] = e;
	}
	return 0;
}

int schedules_open(struct cli *cli, const char *const *paths, size_t n_paths,
		   struct schedule_list *ret, struct err *err)
{
	const struct config *config;
	const char **found;
	_cleanup_(freep) char *cwd = getcwd(NULL, 0);
	bool given = n_paths > 0, at_root;
	struct db *db;

	*ret = (struct schedule_list){ 0 };
	if (cli_config(cli, &config, err) < 0 || schedules_db(cli, &db, err) < 0)
		return -1;
	at_root = str_eq(cwd, config->project_root);
	ret->zones = zone_set_new(NULL);
	if (!given) {
		if (project_discover(config->project_root, true, cli->arena, &found, &n_paths,
				     err) < 0) {
			cli_fail(cli, err);
			ret->broken = true;
		}
		paths = found;
	}
	for (size_t i = 0; i < n_paths; i++) {
		const char *path = given || at_root ? paths[i]
						    : arena_printf(cli->arena, "%s/%s",
								   config->project_root, paths[i]);
		struct pipeline *p;

		if (cli_pipeline(cli, path, &p, err) < 0) {
			if (given)
				return -1;
			cli_fail(cli, err);
			ret->broken = true;
		} else if (add_schedules(cli, ret, p, db, err) < 0) {
			return -1;
		}
	}
	return 0;
}

void schedules_close(struct schedule_list *l)
{
	for (size_t i = 0; i < l->n_pipelines; i++)
		pipeline_free(l->pipelines[i]);
	free(l->pipelines);
	free(l->v);
	zone_set_free(l->zones);
	*l = (struct schedule_list){ 0 };
}

int schedules_find(struct cli *cli, const struct schedule_list *l, const char *what,
		   const struct schedule_entry **ret, struct err *err)
{
	const char *colon = strrchr(what, ':'), *name = colon ? colon + 1 : what;
	const char **names = arena_alloc(cli->arena, (l->n + 1) * sizeof(*names));
	_cleanup_(str_deinit) struct str hint = { 0 };
	const struct schedule_entry *found = NULL;

	for (size_t i = 0; i < l->n; i++) {
		const struct schedule_entry *e = &l->v[i];

		names[i] = e->decl->name;
		if (!str_eq(e->decl->name, name) ||
		    (colon && (strlen(e->path) != (size_t)(colon - what) ||
			       memcmp(e->path, what, strlen(e->path)) != 0)))
			continue;
		if (found)
			return err_set(err, ERR_INVALID,
				       "`%s` could be %s:%s or %s:%s: name the file, too", what,
				       found->path, name, e->path, name);
		found = e;
	}
	*ret = found;
	if (found)
		return 0;
	text_add_suggestion(&hint, what, names, l->n);
	return err_set(err, ERR_NOT_FOUND,
		       "there is no schedule `%.80s`%s; `cairn schedule list` lists them", what,
		       hint.s ? hint.s : "");
}

const char *schedules_name(struct cli *cli, const struct schedule_list *l,
			   const struct schedule_entry *e)
{
	size_t same = 0;

	for (size_t i = 0; i < l->n; i++)
		same += str_eq(l->v[i].decl->name, e->decl->name);
	return same > 1 ? arena_printf(cli->arena, "%s:%s", e->path, e->decl->name) : e->decl->name;
}

const char *schedules_wall(struct cli *cli, const struct schedule_entry *e, int64_t ns)
{
	int64_t s = civil_floor_div(ns, NS_PER_S);
	int32_t offset = zone_segment_at(e->calendar.zone, s).offset_s, minutes = abs(offset) / 60;
	struct str text = { 0 };
	const char *ret;

	text_add_time(&text, (s + offset) * NS_PER_S, 0);
	text.s[10] = ' ';
	text.s[text.len - 1] = '\0'; /* the Z, which would be wrong here */
	ret = arena_printf(cli->arena, "%s %c%02d:%02d", text.s, offset < 0 ? '-' : '+',
			   minutes / 60, minutes % 60);
	str_deinit(&text);
	return ret;
}

/* Is it alive, is it ready, what does it count. Asked by machines every few seconds: cheap, and without the loop's help. */
#include <string.h>
#include "base/clock.h"
#include "record/run_query.h"
#include "serve/internal.h"

/* A loop that hasn't turned for so long is stuck. */
#define TURN_MAX_NS (15 * NS_PER_S)

void api_healthz(struct api *a)
{
	web_answer_json(a->x, 200, json_pack("{s:s}", "status", "alive"));
}

static void add_check(json_t *checks, const char *name, bool ok, const char *detail, bool *all)
{
	json_t *o = json_object();

	json_object_set_new(o, "name", json_string(name));
	json_object_set_new(o, "ok", json_boolean(ok));
	json_object_set_new(o, "detail", detail ? json_name(detail, strlen(detail)) : json_null());
	json_array_append_new(checks, o);
	*all = *all && ok;
}

static const char *leader_text(struct api *a)
{
	const char *text;

	pthread_mutex_lock(&a->d->lock);
	text = arena_printf(a->arena, "standing by%s%s%s%s", a->d->leader.holder[0] ? " for " : "", a->d->leader.holder, a->d->leader.why[0] ? ": " : "", a->d->leader.why);
	pthread_mutex_unlock(&a->d->lock);
	return text;
}

static void check_loop(struct api *a, json_t *checks, bool *all)
{
	struct clock *c = clock_system();
	int phase = atomic_load(&a->d->phase);
	int64_t since = c->mono_ns(c) - atomic_load(&a->d->turn_ns);

	if (a->d->o->lease)
		add_check(checks, "lease held", phase > DAEMON_STANDBY, phase > DAEMON_STANDBY ? NULL : leader_text(a), all);
	add_check(checks, "schedules loaded", phase == DAEMON_SERVING, phase < DAEMON_SERVING ? "starting" : phase > DAEMON_SERVING ? "ending" : NULL, all);
	add_check(checks, "loop turns", phase <= DAEMON_STARTING || since < TURN_MAX_NS,
		  since < TURN_MAX_NS ? NULL : arena_printf(a->arena, "not for %lld s", (long long)(since / NS_PER_S)), all);
}

static void check_project(struct api *a, struct project *p, json_t *checks, bool *all)
{
	struct err db_err = { 0 }, store_err = { 0 };
	const struct run_query newest = { .limit = 1 };
	struct run_row *rows;
	struct store *s;
	struct db *db = NULL;
	bool ok;
	size_t n;

	ok = project_reader(p, &db, &db_err) == 0 && record_query_runs(db, &newest, a->arena, &rows, &n, &db_err) == 0;
	project_reader_return(p, db);
	add_check(checks, arena_printf(a->arena, "database of %s", p->name), ok, ok ? NULL : db_err.msg, all);
	/* One that nothing was put into yet is made by the first run. */
	ok = project_store(p, &s, &store_err) == 0 || store_err.code == ERR_NOT_FOUND;
	add_check(checks, arena_printf(a->arena, "store of %s", p->name), ok, store_err.code ? store_err.msg : NULL, all);
}

void api_readyz(struct api *a)
{
	json_t *checks = json_array();
	bool all = true;

	check_loop(a, checks, &all);
	for (size_t i = 0; atomic_load(&a->d->phase) >= DAEMON_SERVING && i < a->d->n_projects; i++)
		check_project(a, a->d->projects[i], checks, &all);
	web_answer_json(a->x, all ? 200 : 503, json_pack("{s:b, s:o}", "ready", all, "checks", checks));
}

void api_metrics(struct api *a)
{
	metrics_text(a->d, &a->x->out);
	a->x->status = 200;
	a->x->type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

void api_index(struct api *a)
{
	web_answer_json(a->x, 200, json_pack("{s:s, s:s, s:s}", "name", "cairn", "version", CAIRN_VERSION, "openapi", "/api/v1/openapi.json"));
}

void api_projects(struct api *a)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->d->n_projects; i++) {
		const char *root = a->d->projects[i]->root;

		json_array_append_new(list, json_pack("{s:s, s:o}", "project", a->d->projects[i]->name, "root", json_name(root, strlen(root))));
	}
	web_answer_json(a->x, 200, json_pack("{s:o}", "projects", list));
}

void api_openapi_json(struct api *a)
{
	web_answer_json(a->x, 200, api_openapi());
}

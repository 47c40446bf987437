/* Health, readiness, metrics, and lists of projects and routes. Machines poll these every few
 * seconds: an answer is cheap, and never waits for the loop, a disk or a network. */
#include "serve/health/health.h"
#include <string.h>
#include "base/time/clock.h"
#include "serve/internal.h"

/* A loop that hasn't turned for this long is stuck. */
#define TURN_MAX_NS (15 * NS_PER_S)

/* While the daemon starts or stops, the loop's thread opens or closes things and doesn't turn. */
static int64_t stuck_for(struct api *a)
{
	int phase = atomic_load(&a->d->phase);
	int64_t turned = atomic_load(&a->d->turn.at_ns), since = clock_mono_ns() - turned;

	return turned && phase != DAEMON_STARTING && phase != DAEMON_STOPPING &&
			       since >= TURN_MAX_NS
		       ? since
		       : 0;
}

void api_healthz(struct api *a)
{
	int64_t stuck_ns = stuck_for(a);

	if (stuck_ns)
		web_answer_json(a->x, 503,
				json_pack("{s:s, s:I}", "status", "stuck", "stuck_s",
					  (json_int_t)(stuck_ns / NS_PER_S)));
	else
		web_answer_json(a->x, 200, json_pack("{s:s}", "status", "alive"));
}

static const char *leader_text(struct api *a)
{
	const char *text;

	pthread_mutex_lock(&a->d->lock);
	text = arena_printf(a->arena, "standing by%s%s%s%s", a->d->leader.holder[0] ? " for " : "",
			    a->d->leader.holder, a->d->leader.why[0] ? ": " : "", a->d->leader.why);
	pthread_mutex_unlock(&a->d->lock);
	return text;
}

void api_readyz(struct api *a)
{
	int phase = atomic_load(&a->d->phase);
	int64_t stuck_ns = stuck_for(a);
	json_t *checks = json_array();
	bool all = true;

	if (a->d->o->lease)
		health_add_check(checks, "lease held", phase > DAEMON_STANDBY,
				 phase > DAEMON_STANDBY ? NULL : leader_text(a), &all);
	health_add_check(checks, "schedules loaded", phase == DAEMON_SERVING,
			 phase < DAEMON_SERVING   ? "starting"
			 : phase > DAEMON_SERVING ? "ending"
						  : NULL,
			 &all);
	health_add_check(checks, "loop turns", !stuck_ns,
			 stuck_ns ? arena_printf(a->arena, "not for %lld s",
						 (long long)(stuck_ns / NS_PER_S))
				  : NULL,
			 &all);
	if (phase >= DAEMON_SERVING)
		health_add_projects(a->d->http.health, checks, &all);
	web_answer_json(a->x, all ? 200 : 503,
			json_pack("{s:b, s:o}", "ready", all, "checks", checks));
}

void api_metrics(struct api *a)
{
	api_metrics_text(a->d, &a->x->out);
	a->x->status = 200;
	a->x->type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
}

void api_index(struct api *a)
{
	web_answer_json(a->x, 200,
			json_pack("{s:s, s:s, s:s}", "name", "cairn", "version", CAIRN_VERSION,
				  "openapi", "/api/v1/openapi.json"));
}

void api_projects(struct api *a)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->d->n_projects; i++) {
		const char *root = a->d->projects[i]->root;

		json_array_append_new(list,
				      json_pack("{s:s, s:o}", "project", a->d->projects[i]->name,
						"root", json_name(root, strlen(root))));
	}
	web_answer_json(a->x, 200, json_pack("{s:o}", "projects", list));
}

void api_openapi_json(struct api *a)
{
	web_answer_json(a->x, 200, api_openapi());
}

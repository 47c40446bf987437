/* POST /api/v1/handovers: takes a run that another machine prepared (run/handover/handover.h). The
 * request's thread checks it; the loop's thread writes its row, and from then on this server owns
 * the run. */
#include "run/handover/handover.h"
#include "record/facts.h"
#include "run/project/store.h"
#include "serve/event.h"
#include "serve/internal.h"

struct taking {
	struct api *a;
	struct handover h;
	int result;
	struct err err;
};

static void take_on_loop(void *arg)
{
	struct taking *t = arg;
	struct daemon *d = t->a->d;

	if (atomic_load(&d->phase) != DAEMON_SERVING) {
		t->result = err_set(&t->err, ERR_BUSY,
				    "the server is stopping and accepts no more runs");
		return;
	}
	t->result = handover_record(t->a->project->db, &t->h, t->a->arena, &t->err);
	if (t->result < 0)
		return;
	event(EVENT_INFO, "run-handed-over", "{s:s, s:s, s:s}", "project", t->a->project->name,
	      "run", t->h.row.id, "request", t->h.request);
	if (t->h.row.state == RUN_INTERRUPTED || t->h.row.state == RUN_RUNNING)
		served_add(d, t->a->project, t->h.row.id);
}

void api_handover(struct api *a)
{
	struct taking *t = arena_alloc(a->arena, sizeof(*t));
	_cleanup_(store_freep) struct store *s = NULL;
	struct web_exchange *x = a->x;

	t->a = a;
	/* Opened anew: the sender has just stored content, and the project's own handle may
	 * remember that it was missing. */
	if (run_open_store(a->project->config, true, &s, &t->err) < 0 ||
	    handover_from_json(a->body, s, a->arena, &t->h, &t->err) < 0) {
		if (t->err.code ==
		    ERR_NOT_FOUND) /* not 404: the route exists, but the store lacks content */
			web_problem(x, 409, "%s", t->err.msg);
		else if (t->err.code == ERR_INVALID || t->err.code == ERR_TOO_LARGE)
			web_problem(x, 400, "body: %s", t->err.msg);
		else
			web_problem_err(x, &t->err);
		return;
	}
	if (!api_call(a, take_on_loop, t))
		return;
	if (t->result < 0) {
		web_problem_err(x, &t->err);
		return;
	}
	x->head.location = arena_printf(a->arena, "/api/v1/runs/%s", t->h.row.id);
	web_answer_json(x, 202,
			json_pack("{s:o, s:o, s:b}", "run", facts_text(t->h.row.id), "project",
				  facts_text(a->project->name), "new", t->result == 0));
}

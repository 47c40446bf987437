/* GET /api/v1/events: a stream of what changes (events/events.h). */
#include "serve/events/events.h"
#include <string.h>

struct stream {
	struct daemon *d;
	struct events_reader *r;
	struct access_proof proof;
};

static ssize_t take_events(void *arg, char *buf, size_t max)
{
	struct stream *s = arg;

	return (ssize_t)events_read(s->r, buf, max);
}

/* Every few seconds: the reader's token may have been revoked. */
static ssize_t read_events(void *arg, char *buf, size_t max)
{
	struct stream *s = arg;
	ssize_t n;

	if (!access_still(s->d->http.access, &s->proof))
		return WEB_STREAM_END;
	n = take_events(s, buf, max);
	return n ? n : WEB_STREAM_WAIT;
}

static bool are_new(void *arg)
{
	struct stream *s = arg;

	return events_are_new(s->r);
}

static void stop_reading(void *arg)
{
	struct stream *s = arg;

	events_unsubscribe(s->r);
	free(s);
}

/* "a,b,c" */
static bool read_runs(struct api *a, const char **v, size_t *ret_n)
{
	const char *text = web_param(a->x, "run");

	for (; text && *text; text += strcspn(text, ","), text += *text == ',') {
		size_t n = strcspn(text, ",");

		if (*ret_n == EVENTS_RUNS_MAX) {
			web_problem(a->x, 400, "parameter `run` has more than %d runs",
				    EVENTS_RUNS_MAX);
			return false;
		}
		if (n)
			v[(*ret_n)++] = arena_strndup(a->arena, text, n);
	}
	return true;
}

void api_events(struct api *a)
{
	const char *runs[EVENTS_RUNS_MAX], *project = web_param(a->x, "project");
	const char *last = web_header(a->x, "Last-Event-ID");
	struct events_wanted w = { .runs = runs, .last_id = last ? last : web_param(a->x, "last") };
	struct events_reader *r;
	struct err err = { 0 };
	struct stream *s;

	for (size_t i = 0; project && i < a->d->n_projects; i++)
		if (str_eq(a->d->projects[i]->name, project))
			w.project = a->d->projects[i];
	if (project && !w.project)
		web_problem(a->x, 404, "no project `%.80s` is served here", project);
	if (a->x->status || !read_runs(a, runs, &w.n_runs))
		return;
	r = events_subscribe(a->d->http.events, &w, &err);
	if (!r) {
		web_problem_err(a->x, &err);
		return;
	}
	s = xcalloc(1, sizeof(*s));
	*s = (struct stream){ .d = a->d, .r = r, .proof = a->x->caller->proof };
	a->x->status = 200;
	a->x->type = "text/event-stream";
	web_add_header(a->x, "X-Accel-Buffering", "no"); /* proxies pass events on at once */
	a->x->stream = (struct web_stream){ .read = read_events,
					    .take = take_events,
					    .is_ready = are_new,
					    .free = stop_reading,
					    .arg = s,
					    .follows = true,
					    .drops_slow = true };
}

/* runners/kubernetes/series.c — numbers of trainings, for people who watch. The sidecars print the
 * newest ones (engine/pod/series.c), and this file reads them from their logs: the last lines for
 * metric(); for points() all since the last one that was reported, with the times of the log's
 * lines, so that who begins to watch late sees the curve from its beginning, up to HISTORY_LINES.
 *
 * There is one request at a time, and at most one per pod in series_every_ns: with many trainings,
 * each is read less often. A pod of which nobody wants to know isn't asked. Best effort: missing
 * numbers are skipped.
 *
 * A worker owns the question and what it found in the answer. asked() finds the bundle and its
 * members again by id, because they may be gone.
 */
#include "runners/series/series.h"
#include <stdlib.h>
#include <string.h>
#include "base/text/text.h"
#include "runners/kubernetes/internal.h"

#define SERIES_EVERY_NS (10 * NS_PER_S)
#define NEWEST_LINES    4
#define NEWEST_BYTES    (16 * KIB)
/* A sidecar prints a line in ten seconds: a day, or as much as 24 numbers a line leave of it. Of a
 * directory of event files it is a line a step that has something new. */
#define HISTORY_LINES 8640
#define HISTORY_BYTES (8 * MIB)

/* An attempt that somebody watches. */
struct told {
	uint64_t id;
	int64_t last_ns;  /* of the last point that was reported; 0: none yet */
	struct str lines; /* the new ones */
};

struct series_question {
	struct kube *k;
	uint64_t id; /* of one of the pod's attempts */
	char pod[254];
	VEC(struct told) told;
	json_t *newest; /* the last line that has numbers, of any attempt; NULL */
};

static struct told *told_of(struct series_question *q, uint64_t id)
{
	for (size_t i = 0; i < q->told.n; i++)
		if (q->told.v[i].id == id)
			return &q->told.v[i];
	return NULL;
}

/* Numbers without a step belong nowhere on a curve. */
static void add_point(struct series_question *q, uint64_t id, int64_t at_ns, const json_t *numbers)
{
	struct told *t = told_of(q, id);
	_cleanup_(json_decrefp) json_t *point = NULL;
	char *text;

	if (!t || at_ns <= t->last_ns || !json_is_number(json_object_get(numbers, SERIES_STEP)))
		return;
	t->last_ns = at_ns;
	point = json_copy((json_t *)(uintptr_t)numbers);
	json_object_del(point, POD_SERIES_KEY);
	json_object_set_new(point, "wall_time", json_real((double)at_ns / NS_PER_S));
	text = json_dumps(point, JSON_COMPACT | JSON_REAL_PRECISION(15));
	str_add(&t->lines, text);
	str_addc(&t->lines, '\n');
	free(text);
}

/* A line: its time and a space, when the question has somebody who watches; the sidecar's words. */
static void take_line(struct series_question *q, char *line)
{
	char *numbers = strstr(line, "{\"" POD_SERIES_KEY "\":"), *space = strchr(line, ' ');
	json_t *j = NULL;
	int64_t at_ns;

	if (!numbers || json_parse("series", numbers, strlen(numbers), &j, NULL) < 0)
		return;
	if (q->told.n && space) {
		*space = '\0';
		if (text_parse_time(line, &at_ns, NULL) == 0)
			add_point(q,
				  (uint64_t)json_integer_value(json_object_get(j, POD_SERIES_KEY)),
				  at_ns, j);
	}
	json_decref(q->newest);
	q->newest = j;
}

static void ask(void *arg)
{
	struct series_question *q = arg;
	struct kube_log_part part = { .lines = NEWEST_LINES, .max_bytes = NEWEST_BYTES };
	_cleanup_(freep) char *text = NULL;
	int64_t since_ns = INT64_MAX;

	if (atomic_load(&q->k->closing))
		return;
	for (size_t i = 0; i < q->told.n; i++)
		since_ns = MIN(since_ns, q->told.v[i].last_ns);
	if (q->told.n)
		part = (struct kube_log_part){ .stamped = true,
					       .since_ns = since_ns,
					       .lines = since_ns ? 0 : HISTORY_LINES,
					       .max_bytes = HISTORY_BYTES };
	text = kube_sidecar_log(q->k, q->pod, &part);
	/* What is cut off at the end is no JSON. */
	for (char *at = text, *next; at; at = next) {
		next = strchr(at, '\n');
		if (next)
			*next++ = '\0';
		take_line(q, at);
	}
}

static void asked(void *arg)
{
	struct series_question *q = arg;
	const struct runner_events *events = &q->k->base.events;
	const struct bundle *b = map_get(q->k->by_id.holders, &q->id, sizeof(q->id));
	uint64_t id = (uint64_t)json_integer_value(json_object_get(q->newest, POD_SERIES_KEY));
	const char *name;
	json_t *v;

	q->k->questions.series = false;
	json_object_foreach(q->newest, name, v)
	{
		const struct member *m = map_get(q->k->by_id.members, &id, sizeof(id));

		if (events->metric && b && m && m->b == b && json_is_number(v) &&
		    strcmp(name, POD_SERIES_KEY) != 0)
			events->metric(events->arg, id, name, json_number_value(v));
	}
	for (size_t i = 0; i < q->told.n; i++) {
		struct told *t = &q->told.v[i];
		struct member *m = map_get(q->k->by_id.members, &t->id, sizeof(t->id));

		if (b && m && m->b == b && t->lines.len) {
			m->points_ns = t->last_ns;
			events->points(events->arg, t->id, t->lines.s, t->lines.len);
		}
		str_deinit(&t->lines);
	}
	VEC_FREE(&q->told);
	json_decref(q->newest);
	free(q);
}

/* The pod to ask: with several nodes the first one's, where rank 0 is. */
static const struct pod_facts *training(const struct bundle *b)
{
	bool trains = false;

	for (size_t i = 0; i < b->members.n; i++)
		trains |= b->members.v[i]->a->series_path != NULL;
	for (size_t i = 0; trains && b->state == BUNDLE_OPEN && i < b->pods.n; i++) {
		const struct pod_facts *f = &b->pods.v[i]->f;

		if (!f->gone && (b->nodes == 1 || f->index == 0) &&
		    f->main.state == CONTAINER_RUNNING)
			return f;
	}
	return NULL;
}

static bool is_watched(const struct kube *k, const struct member *m)
{
	const struct runner_events *events = &k->base.events;

	return events->watched && m->a->series_path && events->watched(events->arg, m->a->id);
}

void runner_ask_series(struct kube *k)
{
	int64_t now = kube_mono(k),
		every = k->o.series_every_ns ? k->o.series_every_ns : SERIES_EVERY_NS;
	struct series_question *q;
	struct bundle *next = NULL;

	if (k->questions.series || k->watches.pods.troubled)
		return;
	for (size_t i = 0; i < map_len(k->by_id.members); i++) {
		const struct member *m = map_at(k->by_id.members, i, NULL, NULL);
		struct bundle *b = m ? m->b : NULL;

		if (b && now - b->series_ns >= every && (!next || b->series_ns < next->series_ns) &&
		    (k->base.events.metric || is_watched(k, m)) && training(b))
			next = b;
	}
	if (!next)
		return;
	next->series_ns = now;
	k->questions.series = true;
	q = xcalloc(1, sizeof(*q));
	q->k = k;
	q->id = next->ids.v[0];
	snprintf(q->pod, sizeof(q->pod), "%s", training(next)->name);
	for (size_t i = 0; i < next->members.n; i++)
		if (is_watched(k, next->members.v[i]))
			VEC_PUSH(&q->told, ((struct told){ next->members.v[i]->a->id,
							   next->members.v[i]->points_ns,
							   { 0 } }));
	pool_submit(k->pool, ask, asked, q);
}

/* runners/kubernetes/series.c — the newest numbers of trainings, for people who watch. The sidecars
 * print them (engine/pod/series.c), and this file reads them from their logs. There is one request
 * at a time, and at most one per pod in series_every_ns: with many trainings, each is read less
 * often. Best effort: missing numbers are skipped.
 */
#include <string.h>
#include "runners/kubernetes/internal.h"

#define SERIES_EVERY_NS (10 * NS_PER_S)

struct series_question {
	struct kube *k;
	uint64_t id; /* of one of the pod's attempts */
	char pod[254];
	char *text;
};

static void ask(void *arg)
{
	struct series_question *q = arg;

	if (!atomic_load(&q->k->closing))
		q->text = kube_sidecar_log(q->k, q->pod, 4, false);
}

/* The last line that has numbers. */
static json_t *newest(const char *text)
{
	json_t *last = NULL;

	for (const char *at = text; at && (at = strstr(at, "{\"" POD_SERIES_KEY "\":"));
	     at = strchr(at, '\n')) {
		json_t *j = NULL;

		if (json_parse("series", at, strcspn(at, "\n"), &j, NULL) < 0)
			continue;
		json_decref(last);
		last = j;
	}
	return last;
}

static void asked(void *arg)
{
	struct series_question *q = arg;
	const struct runner_events *events = &q->k->base.events;
	const struct bundle *b = map_get(q->k->by_id.holders, &q->id, sizeof(q->id));
	json_t *numbers = q->text ? newest(q->text) : NULL, *v;
	uint64_t id = (uint64_t)json_integer_value(json_object_get(numbers, POD_SERIES_KEY));
	const struct member *m = map_get(q->k->by_id.members, &id, sizeof(id));
	const char *name;

	q->k->questions.series = false;
	json_object_foreach(numbers, name, v)
	{
		if (b && m && m->b == b && json_is_number(v) && strcmp(name, POD_SERIES_KEY) != 0)
			events->metric(events->arg, id, name, json_number_value(v));
	}
	json_decref(numbers);
	free(q->text);
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

void runner_ask_series(struct kube *k)
{
	int64_t now = kube_mono(k),
		every = k->o.series_every_ns ? k->o.series_every_ns : SERIES_EVERY_NS;
	struct series_question *q;
	struct bundle *next = NULL;

	if (!k->base.events.metric || k->questions.series || k->watches.pods.troubled)
		return;
	for (size_t i = 0; i < map_len(k->by_id.members); i++) {
		const struct member *m = map_at(k->by_id.members, i, NULL, NULL);
		struct bundle *b = m ? m->b : NULL;

		if (b && now - b->series_ns >= every && (!next || b->series_ns < next->series_ns) &&
		    training(b))
			next = b;
	}
	if (!next)
		return;
	next->series_ns = now;
	k->questions.series = true;
	q = xcalloc(1, sizeof(*q));
	*q = (struct series_question){ .k = k, .id = next->ids.v[0] };
	memcpy(q->pod, training(next)->name, sizeof(q->pod));
	pool_submit(k->pool, ask, asked, q);
}

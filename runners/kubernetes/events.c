/* runners/kubernetes/events.c — why something doesn't start: the cluster's events, and the
 * sidecar's last message.
 *
 * It sends a request only when a stage takes long (ask_why() in reconcile.c). The newest warning
 * about the Job or the pod becomes its `trouble`; for a Job in a queue of Kueue's, that of its
 * Workload. For a pod whose sidecar runs or ran, the sidecar's last line comes first.
 *
 * The whole runner has one question under way at a time (`questions.events`), because the server
 * reads all events of the namespace for each. A worker owns the question; asked() finds the Job or
 * bundle again by id, because it may be gone. These messages are for people only: no failure class
 * comes from here.
 */
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "runners/kubernetes/internal.h"

struct question {
	struct kube *k;
	uint64_t job_id, attempt_id; /* of the Job; of the pod's attempt, or 0 */
	char uid[64];
	char pod[254]; /* ask its sidecar first; "" */
	bool before;   /* ask for its output before the last restart */
	char *answer;
};

/* The newest warning. */
static char *newest_warning(const json_t *list)
{
	const json_t *items = json_object_get(list, "items");
	const char *best = "", *text = NULL;

	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *e = json_array_get(items, i);
		const char *when = json_string_value(json_object_get(e, "lastTimestamp")),
			   *message = json_string_value(json_object_get(e, "message"));

		if (!when)
			when = json_string_value(json_object_get(e, "eventTime"));
		if (message && str_eq(json_string_value(json_object_get(e, "type")), "Warning") &&
		    strcmp(when ? when : "", best) >= 0) {
			best = when ? when : "";
			text = message;
		}
	}
	return text ? xstrndup(text, 1024) : NULL;
}

/* For a Job that waits in a queue, Kueue writes events about a Workload. An event of the Job names
 * it: "Created Workload: NAMESPACE/NAME". */
static char *workload_of(const json_t *list)
{
	const json_t *items = json_object_get(list, "items");

	for (size_t i = 0; i < json_array_size(items); i++) {
		const json_t *e = json_array_get(items, i);
		const char *message = json_string_value(json_object_get(e, "message")),
			   *slash = message ? strchr(message, '/') : NULL;
		size_t n = slash ? strspn(slash + 1, "abcdefghijklmnopqrstuvwxyz0123456789-.") : 0;

		if (n > 0 && n < 254 && slash[1 + n] == '\0' &&
		    str_eq(json_string_value(json_object_get(e, "reason")), "CreatedWorkload"))
			return xstrdup(slash + 1);
	}
	return NULL;
}

/* The message of an object's newest warning. ret_workload: the Workload of a Job; or NULL. */
static char *ask_of(struct question *q, const char *selector, const char *value,
		    char **ret_workload)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	struct kube_call call = { .method = "GET", .timeout_ns = 10 * NS_PER_S };
	char *answer = NULL;

	kube_add_path(&path, "", "v1", q->k->o.profile->namespace_, "events", NULL);
	str_addf(&path, "?limit=100&fieldSelector=%s%%3D%s", selector, value);
	call.path = path.s;
	if (kube_do(q->k->client, &call, NULL) == 0) {
		answer = newest_warning(call.json);
		if (ret_workload)
			*ret_workload = workload_of(call.json);
	}
	kube_call_deinit(&call);
	return answer;
}

char *kube_sidecar_log(struct kube *k, const char *pod, const struct kube_log_part *part)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	struct kube_call call = {
		.method = "GET", .accept = "*/*", .once = true, .timeout_ns = 10 * NS_PER_S
	};
	char *text = NULL;

	kube_add_path(&path, "", "v1", k->o.profile->namespace_, "pods", pod);
	str_addf(&path, "/log?container=" KUBE_SIDECAR "&limitBytes=%llu%s%s",
		 (unsigned long long)part->max_bytes, part->before ? "&previous=true" : "",
		 part->stamped ? "&timestamps=true" : "");
	if (part->lines)
		str_addf(&path, "&tailLines=%u", part->lines);
	if (part->since_ns) {
		str_add(&path, "&sinceTime=");
		text_add_time(&path, part->since_ns / NS_PER_S * NS_PER_S, 0);
	}
	call.path = path.s;
	if (kube_do(k->client, &call, NULL) == 0 && call.text.len)
		text = xstrndup(call.text.s, call.text.len);
	kube_call_deinit(&call);
	return text;
}

/* The sidecar's own message is better than the kubelet's about it ("PostStartHook failed"). Lines
 * with numbers of a training are skipped. */
static char *last_words(struct question *q)
{
	static const char begin[] = "cairn pod: ";
	const struct kube_log_part part = { .lines = 8, .before = q->before, .max_bytes = 8192 };
	_cleanup_(freep) char *log = kube_sidecar_log(q->k, q->pod, &part);
	const char *words = NULL;

	for (const char *at = log; at && (at = strstr(at, begin));) {
		at += strlen(begin);
		if (*at != '{')
			words = at;
	}
	return words ? xstrndup(words, MIN(strcspn(words, "\n"), (size_t)1024)) : NULL;
}

static void ask(void *arg)
{
	struct question *q = arg;
	_cleanup_(freep) char *workload = NULL;

	if (atomic_load(&q->k->closing))
		return;
	if (*q->pod)
		q->answer = last_words(q);
	if (q->answer || atomic_load(&q->k->closing))
		return;
	q->answer = ask_of(q, "involvedObject.uid", q->uid, q->attempt_id ? NULL : &workload);
	if (!q->answer && workload && !atomic_load(&q->k->closing))
		q->answer = ask_of(q, "involvedObject.kind%3DWorkload%2CinvolvedObject.name",
				   workload, NULL);
}

static void asked(void *arg)
{
	struct question *q = arg;
	struct job *j = map_get(q->k->by_id.jobs, &q->job_id, sizeof(q->job_id));
	struct bundle *b = map_get(q->k->by_id.holders, &q->attempt_id, sizeof(q->attempt_id));
	char **trouble = !q->attempt_id && j  ? &j->trouble
			 : q->attempt_id && b ? &b->trouble
					      : NULL;

	q->k->questions.events = false;
	if (trouble) {
		free(*trouble);
		*trouble = q->answer;
		q->answer = NULL;
	}
	if (j)
		job_reconcile(j);
	free(q->answer);
	free(q);
}

static struct question *question(struct job *j, uint64_t attempt_id, const char *of_uid)
{
	struct question *q = xcalloc(1, sizeof(*q));

	j->k->questions.events = true;
	j->k->questions.asked_ns = kube_mono(j->k);
	*q = (struct question){ .k = j->k, .job_id = j->id, .attempt_id = attempt_id };
	snprintf(q->uid, sizeof(q->uid), "%.*s", (int)strspn(of_uid, "0123456789abcdefABCDEF-"),
		 of_uid);
	return q;
}

void kube_ask_events(struct job *j)
{
	j->asked_ns = kube_mono(j->k);
	pool_submit(j->k->pool, ask, asked, question(j, 0, j->uid));
}

void kube_ask_about_pod(struct bundle *b, const struct pod_facts *f)
{
	struct question *q = question(b->j, b->ids.v[0], f->uid);

	b->asked_ns = kube_mono(b->k);
	if (f->sidecar.state == CONTAINER_RUNNING || f->sidecar.restarts)
		snprintf(q->pod, sizeof(q->pod), "%s", f->name);
	q->before = f->sidecar.state != CONTAINER_RUNNING;
	pool_submit(b->k->pool, ask, asked, q);
}

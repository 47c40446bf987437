/* runners/kubernetes/facts.c — turns objects of the API server into facts.
 *
 * Everything is hostile: a field has the right type and a short value, or it counts as absent. A
 * message is cut at MESSAGE_MAX, a number is clamped, a list of ids or indexes is bounded. An
 * object without a name or uid is rejected (-1).
 *
 * Of a pod's containers, `main` and the sidecar have facts of their own; so has the first other one
 * that is in trouble (take_other()). Anybody can write labels. So the controller's uid decides to
 * whom a pod belongs (the garbage collector acts on it), and callers compare it.
 *
 * Pure functions; they run on the watches' threads. judge.c interprets the facts.
 */
#include "runners/kubernetes/facts.h"

#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "base/time/clock.h"
#include "runners/kubernetes/job/job.h"

/* A termination message has at most 4 KiB; messages for people are cut to this, too. */
#define MESSAGE_MAX 8192
#define WORD_MAX    253 /* the longest name of an object */
#define UID_MAX     63
/* For the two lists of an array's indexes together: each is at most as long as its numbers. */
#define INDEXES_MAX (16 * KUBE_JOB_ATTEMPTS_MAX)

static const json_t *at(const json_t *o, const char *key)
{
	return json_is_object(o) ? json_object_get(o, key) : NULL;
}

static const char *text_at(const json_t *o, const char *key)
{
	return json_string_value(at(o, key));
}

/* "" when it is absent or too long. */
static void take_word(const json_t *o, const char *key, char *ret, size_t cap)
{
	const char *v = text_at(o, key);

	if (v && strlen(v) < cap)
		snprintf(ret, cap, "%s", v);
	else
		*ret = '\0';
}
#define TAKE_WORD(o, key, field) take_word(o, key, field, sizeof(field))

/* Lent by `o`. */
static const char *word_at(const json_t *o, const char *key)
{
	const char *v = text_at(o, key);

	return v && *v && strlen(v) <= WORD_MAX ? v : NULL;
}

static char *take_message(const json_t *o, const char *key)
{
	const char *v = text_at(o, key);

	return v && *v ? xstrndup(v, MESSAGE_MAX) : NULL;
}

static int64_t time_at(const json_t *o, const char *key)
{
	const char *v = text_at(o, key);
	int64_t ns;

	return v && text_parse_time(v, &ns, NULL) == 0 && ns > 0 ? ns : 0;
}

static int64_t number_at(const json_t *o, const char *key, int64_t low, int64_t high)
{
	const json_t *v = at(o, key);
	int64_t n = json_is_integer(v) ? json_integer_value(v) : low;

	return MIN(MAX(n, low), high);
}

static uint64_t attempt_of(const json_t *meta)
{
	const char *v = text_at(at(meta, "labels"), KUBE_LABEL_ATTEMPT);
	int64_t id;

	return v && text_parse_int(v, &id) && id > 0 ? (uint64_t)id : 0;
}

/* Containers. */

static void take_container(const json_t *status, struct container_facts *c)
{
	const json_t *state = at(status, "state"),
		     *last = at(at(status, "lastState"), "terminated"), *s;

	if ((s = at(state, "terminated"))) {
		c->state = CONTAINER_TERMINATED;
		c->reason = word_at(s, "reason");
		c->message = take_message(s, "message");
		c->exit_code = (int)number_at(s, "exitCode", -1, 255);
		c->signal = (int)number_at(s, "signal", 0, 64);
		if (c->signal == 0 && c->exit_code > 128 && c->exit_code <= 128 + 64)
			c->signal = c->exit_code - 128;
		c->started_ns = time_at(s, "startedAt");
		c->ended_ns = time_at(s, "finishedAt");
	} else if ((s = at(state, "running"))) {
		c->state = CONTAINER_RUNNING;
		c->started_ns = time_at(s, "startedAt");
	} else if ((s = at(state, "waiting"))) {
		c->reason = word_at(s, "reason");
		c->message = take_message(s, "message");
	}
	if (json_is_object(last)) {
		c->last_reason = word_at(last, "reason");
		c->last_message = take_message(last, "message");
		c->last_ended_ns = time_at(last, "finishedAt");
		c->last_exit_code = (int)number_at(last, "exitCode", -1, 255);
	}
	c->restarts = (unsigned)number_at(status, "restartCount", 0, INT32_MAX);
	c->ready = json_is_true(at(status, "ready"));
}

static void container_deinit(struct container_facts *c)
{
	free(c->message);
	free(c->last_message);
}

/* A template's container that blocks the pod: not one that runs, waits its turn or ended well. */
static bool is_trouble(const struct container_facts *c)
{
	static const char *const fine[] = { "PodInitializing", "ContainerCreating" };

	if (c->state == CONTAINER_TERMINATED)
		return c->exit_code != 0;
	for (size_t i = 0; c->state == CONTAINER_WAITING && i < ARRAY_LEN(fine); i++)
		if (str_eq(c->reason, fine[i]))
			return false;
	return c->state == CONTAINER_WAITING && c->reason;
}

static void take_other(const json_t *status, struct pod_facts *f)
{
	struct container_facts c = { 0 };

	if (f->other_name)
		return;
	take_container(status, &c);
	f->other_name = is_trouble(&c) ? word_at(status, "name") : NULL;
	if (f->other_name)
		f->other = c;
	else
		container_deinit(&c);
}

static void take_containers(const json_t *list, struct pod_facts *f, bool init)
{
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *s = json_array_get(list, i);
		const char *name = text_at(s, "name");
		struct container_facts *c = init ? &f->sidecar : &f->main;

		if (!name)
			continue;
		if (!str_eq(name, init ? KUBE_SIDECAR : f->kind->main)) {
			take_other(s, f);
			continue;
		}
		container_deinit(c);
		*c = (struct container_facts){ 0 };
		take_container(s, c);
	}
}

/* Pods. */

static enum pod_phase phase_of(const char *text)
{
	static const char *const names[] = { "Pending", "Running", "Succeeded", "Failed" };

	for (size_t i = 0; text && i < ARRAY_LEN(names); i++)
		if (str_eq(text, names[i]))
			return (enum pod_phase)i;
	return text ? POD_UNKNOWN : POD_PENDING;
}

static void take_pod_condition(const json_t *c, struct pod_facts *f)
{
	const char *type = text_at(c, "type"), *status = text_at(c, "status");
	bool is_true = str_eq(status, "True");

	if (str_eq(type, "DisruptionTarget") && is_true)
		f->disruption = word_at(c, "reason") ? word_at(c, "reason") : "Unknown";
	if (!str_eq(type, "PodScheduled"))
		return;
	if (is_true) {
		f->scheduled = true;
		f->scheduled_ns = time_at(c, "lastTransitionTime");
	} else if (str_eq(text_at(c, "reason"), "Unschedulable") && !f->unschedulable) {
		f->unschedulable = true;
		f->unschedulable_message = take_message(c, "message");
	}
}

static unsigned count_of(const char *v)
{
	int64_t n;

	return v && text_parse_int(v, &n) && n >= 0 && n < INT32_MAX / 2 ? (unsigned)n : 0;
}

/* An operator counts the pods of each group from 0. */
static unsigned index_of(const json_t *meta, const struct kube_kind *kind)
{
	const json_t *labels = at(meta, "labels");
	const char *v = kind->index ? text_at(at(meta, "annotations"), kind->index) : NULL;

	return count_of(v || !kind->index ? v : text_at(labels, kind->index)) +
	       (kube_kind_is_job(kind) ? 0 : count_of(text_at(labels, KUBE_LABEL_FIRST)));
}

/* Copies what the object has lent. */
static void own_words(struct pod_facts *f)
{
	const char **const words[] = { &f->uid,
				       &f->name,
				       &f->node,
				       &f->job_uid,
				       &f->reason,
				       &f->disruption,
				       &f->other_name,
				       &f->main.reason,
				       &f->main.last_reason,
				       &f->sidecar.reason,
				       &f->sidecar.last_reason,
				       &f->other.reason,
				       &f->other.last_reason };
	size_t n = 0;
	char *to;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		n += *words[i] ? strlen(*words[i]) + 1 : 0;
	to = f->words = xmalloc(n);
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (!*words[i])
			continue;
		n = strlen(*words[i]) + 1;
		*words[i] = memcpy(to, *words[i], n);
		to += n;
	}
}

int pod_facts_of(const json_t *object, struct pod_facts *ret)
{
	const json_t *meta = at(object, "metadata"), *status = at(object, "status"),
		     *conditions = at(status, "conditions"), *owners = at(meta, "ownerReferences");
	const char *ids, *as = text_at(at(meta, "annotations"), KUBE_NOTE_AS);

	*ret = (struct pod_facts){ .kind = kube_kind_of(as ? as : kube_kinds->as) };
	if (!ret->kind)
		return -1;
	ret->uid = word_at(meta, "uid");
	ret->name = word_at(meta, "name");
	if (!ret->uid || strlen(ret->uid) > UID_MAX || !ret->name)
		return -1;
	ret->attempt_id = attempt_of(meta);
	if (!kube_kind_is_job(ret->kind))
		ret->owner = take_message(at(meta, "annotations"), KUBE_NOTE_OWNER);
	for (size_t i = 0; i < json_array_size(owners); i++) {
		const json_t *o = json_array_get(owners, i);

		if (json_is_true(at(o, "controller")) && str_eq(text_at(o, "kind"), "Job"))
			ret->job_uid = word_at(o, "uid");
	}
	ret->index = index_of(meta, ret->kind);
	ids = text_at(at(meta, "annotations"), KUBE_NOTE_ATTEMPTS);
	ret->array = ids && strchr(ids, ',');
	if (ret->array && (ret->index >= KUBE_JOB_ATTEMPTS_MAX || ret->owner)) {
		pod_facts_deinit(ret);
		return -1;
	}
	ret->created_ns = time_at(meta, "creationTimestamp");
	ret->deleted_ns = time_at(meta, "deletionTimestamp");
	ret->node = word_at(at(object, "spec"), "nodeName");
	ret->scheduled = ret->node;
	ret->phase = phase_of(text_at(status, "phase"));
	ret->reason = word_at(status, "reason");
	ret->message = take_message(status, "message");
	for (size_t i = 0; i < json_array_size(conditions); i++)
		take_pod_condition(json_array_get(conditions, i), ret);
	take_containers(at(status, "initContainerStatuses"), ret, true);
	take_containers(at(status, "containerStatuses"), ret, false);
	own_words(ret);
	return 0;
}

void pod_facts_deinit(struct pod_facts *f)
{
	free(f->words);
	free(f->owner);
	free(f->message);
	free(f->unschedulable_message);
	container_deinit(&f->main);
	container_deinit(&f->sidecar);
	container_deinit(&f->other);
	*f = (struct pod_facts){ 0 };
}

/* Jobs. */

static void take_job_condition(const json_t *c, struct job_facts *f)
{
	const char *type = text_at(c, "type");

	if (type && str_eq(type, "Suspended"))
		f->suspension_ns = time_at(c, "lastTransitionTime");
	if (!type || !str_eq(text_at(c, "status"), "True"))
		return;
	f->suspended |= str_eq(type, "Suspended");
	f->complete |= str_eq(type, f->kind->done);
	if (str_eq(type, f->kind->failed)) {
		f->failed = true;
		f->failed_ns = time_at(c, "lastTransitionTime");
	}
	if (!*f->reason && (str_eq(type, f->kind->failed) || str_eq(type, "FailureTarget"))) {
		TAKE_WORD(c, "reason", f->reason);
		free(f->message);
		f->message = take_message(c, "message");
	}
}

/* Of an operator that writes its state as one word, at the way `kind->state` ("a.b"). */
static void take_state(const json_t *status, struct job_facts *f)
{
	const char *way = f->kind->state, *state;
	_cleanup_(freep) char *first = xstrndup(way, strcspn(way, "."));

	if (strchr(way, '.')) {
		status = at(status, first);
		way = strchr(way, '.') + 1;
	}
	state = text_at(status, way);
	f->complete = str_eq(state, f->kind->done);
	f->failed = state && str_has_suffix(state, f->kind->failed); /* "ValidationFailed" */
	if (!f->failed)
		return;
	snprintf(f->reason, sizeof(f->reason), "%s", state);
	f->message = take_message(status, "message");
	if (!f->message)
		f->message = take_message(status, "errorMessage");
}

/* "12 13,14 15". The list ends at anything that isn't an id. */
static void take_attempts(const json_t *notes, struct job_facts *f)
{
	const char *at_ = text_at(notes, KUBE_NOTE_ATTEMPTS);
	VEC(uint64_t) ids = { 0 };
	char *end;

	while (at_ && ids.n < KUBE_JOB_ATTEMPTS_MAX && *at_ >= '1' && *at_ <= '9') {
		unsigned long long id = strtoull(at_, &end, 10);

		if (id == 0 || id > INT64_MAX)
			break;
		VEC_PUSH(&ids, (uint64_t)id);
		if (*end == ',' && !f->per_pod)
			f->per_pod = ids.n;
		at_ = *end == ' ' || *end == ',' ? end + 1 : end;
	}
	f->attempts = ids.v;
	f->n_attempts = ids.n;
}

unsigned job_index_of(const struct job_facts *f, size_t i)
{
	return f->per_pod ? (unsigned)(i / f->per_pod) : 0;
}

/* "3" or "3-5". */
static bool has_index(const char *range, size_t n, unsigned index)
{
	size_t first = MIN(strspn(range, "0123456789"), n),
	       last = first < n && range[first] == '-'
			      ? MIN(strspn(range + first + 1, "0123456789"), n - first - 1)
			      : 0;
	unsigned long from = strtoul(range, NULL, 10),
		      to = first == n ? from
			   : last     ? strtoul(range + first + 1, NULL, 10)
				      : 0;

	return first && first + (last ? last + 1 : 0) == n && index >= from && index <= to;
}

bool job_is_over(const struct job_facts *f, unsigned index)
{
	size_t n;

	for (const char *range = f->per_pod ? f->over : NULL; range && *range;
	     range += n + (range[n] == ',')) {
		n = strcspn(range, ",");
		if (has_index(range, n, index))
			return true;
	}
	return f->complete || f->failed;
}

int job_facts_of(const struct kube_kind *kind, const json_t *object, struct job_facts *ret)
{
	const json_t *meta = at(object, "metadata"), *status = at(object, "status"),
		     *conditions = at(status, "conditions"), *notes = at(meta, "annotations");
	const char *well, *ill;

	*ret = (struct job_facts){ .kind = kind };
	TAKE_WORD(meta, "uid", ret->uid);
	TAKE_WORD(meta, "name", ret->name);
	if (!*ret->uid || !*ret->name)
		return -1;
	ret->attempt_id = attempt_of(meta);
	ret->owner = take_message(notes, KUBE_NOTE_OWNER);
	ret->spec = take_message(notes, KUBE_NOTE_SPEC);
	take_attempts(notes, ret);
	ret->created_ns = time_at(meta, "creationTimestamp");
	ret->deleted = text_at(meta, "deletionTimestamp") != NULL;
	ret->suspended = json_is_true(at(at(object, "spec"), "suspend"));
	for (size_t i = 0; i < json_array_size(conditions); i++)
		take_job_condition(json_array_get(conditions, i), ret);
	if (kind->state)
		take_state(status, ret);
	well = text_at(status, "completedIndexes");
	ill = text_at(status, "failedIndexes");
	if ((well && *well) || (ill && *ill))
		ret->over = xasprintf("%.*s,%.*s", INDEXES_MAX, well ? well : "", INDEXES_MAX,
				      ill ? ill : "");
	return 0;
}

void job_facts_deinit(struct job_facts *f)
{
	free(f->owner);
	free(f->spec);
	free(f->attempts);
	free(f->over);
	free(f->message);
	*f = (struct job_facts){ 0 };
}

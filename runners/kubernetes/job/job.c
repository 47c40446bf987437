/* runners/kubernetes/job/job.c — names, labels, and the Job itself.
 *
 * kube_job_object() makes a pod_build and fills it in a fixed order: placement and cloud
 * (kube_build_init()), volumes, containers, the pod, and the templates over it. The Job around the
 * pod comes last, or the operator's object that the step wants instead (kind.h); a template can't
 * change it. An object over KUBE_OBJECT_MAX is refused here, where the message can name the step.
 *
 * A name is a slug of the task and a digest of run, task and attempt number, so every engine gives
 * the same Job the same name. One annotation names the owner (kube_job_owner()), another the
 * attempts that the Job was made for. Labels and annotations of the placement are on every object;
 * ours win.
 *
 * Pure functions, any thread; kube_build_deinit() frees the build's members. Elsewhere: containers
 * (pod.c), volumes (volumes.c), where the pod runs (placement.c, cloud.c), who shares a Job
 * (share.c), Services of several nodes (gang.c), requests (requests.c).
 */
#include <assert.h>
#include <signal.h>
#include <stdarg.h>
#include "runners/kubernetes/job/internal.h"

/* Leaves room for "-<index>-<five characters>" in the 63 characters of a pod's name. */
#define NAME_MAX_ 52
/* With several nodes, an operator (kind.h) or Cairn adds more: "-worker-0", "-cairn-0". */
#define GANG_NAME_MAX 40
#define HASH_DIGITS   16
#define VALUE_MAX     63 /* of a label */
#define DAY_S         86400
#define UPLOAD_NS     (60 * NS_PER_S)
/* More than any attempt needs; Kubernetes waits longer before each (10 s to 6 min). */
#define ELASTIC_REPLACED 100
#define DEFAULT_GRACE_NS (10 * NS_PER_S) /* the same as the helper's, init/program.c */

/* Names. */

/* `text` in the characters of a DNS label: [a-z]([a-z0-9-]*[a-z0-9])?, at most `max` of them. */
static size_t add_slug(char *out, size_t max, const char *text)
{
	size_t n = 0;

	for (; *text && n < max; text++) {
		char c = *text;

		if (c >= 'A' && c <= 'Z')
			c = (char)(c - 'A' + 'a');
		if ((c >= 'a' && c <= 'z') || (n > 0 && c >= '0' && c <= '9'))
			out[n++] = c;
		else if (n > 0 && out[n - 1] != '-')
			out[n++] = '-';
	}
	while (n > 0 && out[n - 1] == '-')
		n--;
	if (n == 0)
		out[n++] = 't'; /* for a task without a letter */
	return n;
}

/* Without Services, and without an operator that adds to its name. */
static bool is_plain(const struct runner_attempt *a)
{
	static const struct kube_profile no_settings; /* they can't name a kind for one node */

	return a->on.gang.nodes <= 1 && kube_kind_is_job(kube_job_kind(&no_settings, a));
}

void kube_job_name(const struct runner_attempt *a, char ret[64])
{
	_cleanup_(str_deinit) struct str record = { 0 };
	char hex[DIGEST_HEX_MAX];
	struct digest d;
	size_t n;

	str_add_field(&record, a->run_id, strlen(a->run_id));
	str_add_field(&record, a->task, strlen(a->task));
	str_add_u32(&record, a->number);
	digest_bytes(record.s, record.len, &d);
	n = add_slug(ret, (is_plain(a) ? NAME_MAX_ : GANG_NAME_MAX) - HASH_DIGITS - 1, a->task);
	snprintf(ret + n, 64 - n, "-%.*s", HASH_DIGITS, digest_hex(&d, hex));
}

char *kube_job_owner(const struct kube_profile *p, const struct runner_attempt *a)
{
	char hex[DIGEST_HEX_MAX];

	return xasprintf("%s/%s/%llu/%s", p->project, a->run_id, (unsigned long long)a->id,
			 digest_hex(a->key, hex));
}

char *kube_selector(const char *project, const char *fmt, ...)
{
	struct str s = { 0 };
	va_list ap;

	assert(*project); /* without one, the selector would match other projects */
	str_addf(&s, KUBE_LABEL_MANAGED "=cairn," KUBE_LABEL_PROJECT "=%s", project);
	if (fmt) {
		str_addc(&s, ',');
		va_start(ap, fmt);
		str_addv(&s, fmt, ap);
		va_end(ap);
	}
	return str_take(&s);
}

/* A label's value; an invalid one becomes a slug. */
static void set_label(json_t *labels, const char *key, const char *value)
{
	char text[VALUE_MAX + 1];
	size_t n = strlen(value),
	       ok = strspn(value,
			   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.");

	if (n == 0 || n > VALUE_MAX || ok != n || strchr("-_.", value[0]) ||
	    strchr("-_.", value[n - 1])) {
		text[add_slug(text, VALUE_MAX, value)] = '\0';
		value = text;
	}
	json_object_set_new(labels, key, json_string(value));
}

static json_t *our_labels(const struct pod_build *b)
{
	char id[24];
	json_t *labels = json_object();

	snprintf(id, sizeof(id), "%llu", (unsigned long long)b->a->id);
	set_label(labels, KUBE_LABEL_MANAGED, "cairn");
	set_label(labels, KUBE_LABEL_PROJECT, b->p->project);
	set_label(labels, KUBE_LABEL_RUN, b->a->run_id);
	if (b->a->on.step)
		set_label(labels, KUBE_LABEL_STEP, b->a->on.step);
	set_label(labels, KUBE_LABEL_ATTEMPT, id);
	return labels;
}

/* Each pod repeats its template, so what only the Job is asked for isn't there. */
static json_t *our_annotations(const struct pod_build *b, bool of_pod)
{
	_cleanup_(freep) char *owner = kube_job_owner(b->p, b->a);
	_cleanup_(str_deinit) struct str task = { 0 }, spec = { 0 }, ids = { 0 };
	json_t *notes = json_object();

	text_add_printable(&task, b->a->task, MIN(strlen(b->a->task), (size_t)KUBE_PATH_MAX));
	if (b->job->n > 1)
		str_addf(&task, " and %zu more", b->job->n - 1);
	pod_content_write(b->job->spec, &spec);
	json_object_set_new(notes, KUBE_NOTE_TASK, json_string(task.s));
	/* The Job of a pod is known by its uid; the operator's object of a pod by this. */
	if (!of_pod || !kube_kind_is_job(b->kind))
		json_object_set_new(notes, KUBE_NOTE_OWNER, json_string(owner));
	if (!of_pod)
		json_object_set_new(notes, KUBE_NOTE_SPEC, json_string(spec.s));
	/* An engine that takes the Job up after a crash must know which attempts it holds. */
	for (size_t i = 0; i < b->job->n && b->job->n > 1; i++)
		str_addf(&ids, "%s%llu",
			 i == 0           ? ""
			 : i % b->per_pod ? " "
					  : ",",
			 (unsigned long long)b->job->attempts[i]->id);
	if (ids.len)
		json_object_set_new(notes, KUBE_NOTE_ATTEMPTS, json_string(ids.s));
	return notes;
}

/* The pod. */

void kube_set_str(json_t *object, const char *key, const char *value)
{
	if (value)
		json_object_set_new(object, key, json_string(value));
}

/* The longest grace time of its programs, and then the sidecar's time to save.
 */
static int64_t termination_grace_s(const struct pod_build *b)
{
	int64_t ns = 0;

	for (size_t i = 0; i < b->job->n; i++)
		ns = MAX(ns, b->job->attempts[i]->grace_ns ? b->job->attempts[i]->grace_ns
							   : DEFAULT_GRACE_NS);
	ns += b->p->upload_ns ? b->p->upload_ns : UPLOAD_NS;
	return (ns + NS_PER_S - 1) / NS_PER_S;
}

static int set_identity(const struct pod_build *b, json_t *spec, struct err *err)
{
	const json_t *pull = json_object_get(b->placement, "image_pull_secrets");
	const char *of_step = kube_placement_str(b->placement, "service_account"),
		   *of_store = b->p->store_account;
	json_t *secrets, *name;
	size_t i;

	/* The pod has one account: the store's, when the sidecar authenticates with it. */
	if (of_step && of_store && strcmp(of_step, of_store) != 0)
		return err_set(err, ERR_INVALID,
			       "a pod has one service account: the step wants `%s`, the store `%s` "
			       "(kubernetes.store_account in cairn.yaml)",
			       of_step, of_store);
	kube_set_str(spec, "serviceAccountName", of_store ? of_store : of_step);
	kube_set_str(spec, "priorityClassName", kube_placement_str(b->placement, "priority_class"));
	kube_set_str(spec, "runtimeClassName", kube_placement_str(b->placement, "runtime_class"));
	if (json_array_size(pull) == 0)
		return 0;
	json_object_set_new(spec, "imagePullSecrets", secrets = json_array());
	json_array_foreach(pull, i, name)
		json_array_append_new(secrets, json_pack("{s:O}", "name", name));
	return 0;
}

/* A constraint without a selector applies to the pods of its step in this run; in Kubernetes it
 * would apply to none. */
static json_t *topology_spread(const struct pod_build *b)
{
	json_t *list = json_deep_copy(json_object_get(b->placement, "topology_spread")), *c,
	       *labels;
	size_t i;

	json_array_foreach(list, i, c)
	{
		if (!json_is_object(c) || json_object_get(c, "labelSelector"))
			continue;
		labels = json_pack("{s:O, s:O*}", KUBE_LABEL_RUN,
				   json_object_get(b->labels, KUBE_LABEL_RUN), KUBE_LABEL_STEP,
				   json_object_get(b->labels, KUBE_LABEL_STEP));
		json_object_set_new(c, "labelSelector", json_pack("{s:o}", "matchLabels", labels));
	}
	return list;
}

static int pod_spec_object(struct pod_build *b, json_t **ret, struct err *err)
{
	_cleanup_(json_decrefp) json_t *spec = NULL, *spread = topology_spread(b);
	json_t *main_ = NULL, *sidecar = NULL;

	if (kube_add_volumes(b, err) < 0 || kube_containers(b, &main_, &sidecar, err) < 0)
		return -1;
	spec = json_pack(
		"{s:s, s:I, s:b, s:b, s:{s:b, s:i, s:i, s:i, s:s, s:{s:s}}, s:[o], s:[o], s:O}",
		"restartPolicy", "Never", "terminationGracePeriodSeconds",
		(json_int_t)termination_grace_s(b), "enableServiceLinks", 0,
		"automountServiceAccountToken", 0, "securityContext", "runAsNonRoot", 1,
		"runAsUser", KUBE_USER, "runAsGroup", KUBE_USER, "fsGroup", KUBE_USER,
		"fsGroupChangePolicy", "OnRootMismatch", "seccompProfile", "type", "RuntimeDefault",
		"initContainers", sidecar, "containers", main_, "volumes", b->volumes);
	if (set_identity(b, spec, err) < 0)
		return -1;
	if (json_object_size(b->selector))
		json_object_set(spec, "nodeSelector", b->selector);
	if (b->affinity)
		json_object_set(spec, "affinity", b->affinity);
	if (json_array_size(spread))
		json_object_set(spec, "topologySpreadConstraints", spread);
	json_object_set(spec, "tolerations", b->tolerations);
	if (b->a->on.gang.nodes > 1 && kube_kind_is_job(b->kind))
		kube_set_str(spec, "subdomain", b->service);
	*ret = TAKE_PTR(spec);
	return 0;
}

/* The Job. */

void kube_build_deinit(struct pod_build *b)
{
	json_decref(b->placement);
	json_decref(b->labels);
	json_decref(b->annotations);
	json_decref(b->selector);
	json_decref(b->tolerations);
	json_decref(b->affinity);
	json_decref(b->volumes);
	json_decref(b->main_mounts);
	json_decref(b->sidecar_mounts);
}

int kube_build_init(struct pod_build *b, const struct kube_job *j, struct err *err)
{
	assert(j->n > 0 && j->spec);
	*b = (struct pod_build){ .job = j, .p = j->profile, .a = j->attempts[0] };
	b->per_pod = j->per_pod ? MIN(j->per_pod, j->n) : j->n;
	b->n_pods = (j->n + b->per_pod - 1) / b->per_pod;
	kube_job_name(b->a, b->name);
	if (j->n > 1 && b->a->on.gang.nodes > 1)
		return err_set(err, ERR_INVALID,
			       "a step over %u nodes can't share its pods: leave out `pack`",
			       b->a->on.gang.nodes);
	if (kube_placement_join(b->p->placement, b->a->on.placement_json, &b->placement, err) < 0 ||
	    kube_placement_kind(b->placement, b->a, &b->kind, err) < 0 ||
	    kube_placement_check_kind(b->placement, b->p->store_account, b->kind, err) < 0)
		return -1;
	snprintf(b->service, sizeof(b->service), "%s%s", b->name,
		 kube_kind_is_job(b->kind) ? "" : "-cairn");
	b->labels = our_labels(b);
	b->annotations = our_annotations(b, true);
	b->selector = json_object();
	b->tolerations = json_array();
	b->volumes = json_array();
	b->main_mounts = json_array();
	b->sidecar_mounts = json_array();
	return kube_place(b, err);
}

int64_t kube_ttl_s(const struct pod_build *b)
{
	return b->p->ttl_s ? b->p->ttl_s : DAY_S;
}

/* For a Job whose engine never returns, and which may never get a place: when it ends by itself. An
 * engine's own limits are shorter, and a queue's wait doesn't count (a suspended Job's clock stands
 * still). 0: never, because a program may take any time. */
static int64_t deadline_s(const struct pod_build *b)
{
	int64_t wait = b->p->wait_ns ? b->p->wait_ns
				     : KUBE_SCHEDULE_DEFAULT_NS + KUBE_IMAGE_DEFAULT_NS +
					       KUBE_GANG_DEFAULT_NS,
		save = b->p->save_ns ? b->p->save_ns : KUBE_SAVE_DEFAULT_NS, sum = 0;

	for (size_t i = 0; i < b->job->n; i++) { /* at worst one after the other */
		const struct runner_attempt *a = b->job->attempts[i];

		if (!a->timeout_ns || sum > INT64_MAX / 4 || a->timeout_ns > INT64_MAX / 4)
			return 0;
		sum += a->timeout_ns + a->grace_ns;
	}
	return kube_ttl_s(b) + (wait + sum) / NS_PER_S +
	       2 * (save / NS_PER_S); /* inputs, outputs */
}

/* A disrupted pod ends the Job (or its index) at once: the engine makes another attempt. Of an
 * elastic gang it is replaced, and so is a pod that was deleted (its launcher ends as by SIGTERM),
 * as often as ELASTIC_REPLACED says; but not one whose program failed, which would fail again. */
json_t *kube_job_spec(const struct pod_build *b, json_t *template)
{
	bool array = b->n_pods > 1, elastic = kube_is_elastic(b->a);
	json_int_t pods = (json_int_t)(array ? b->n_pods : b->a->on.gang.nodes);
	json_t *spec = json_pack("{s:i, s:I, s:{s:[{s:s, s:[{s:s, s:s}]}]}, s:O}",
				 array || elastic ? "backoffLimitPerIndex" : "backoffLimit",
				 elastic ? ELASTIC_REPLACED : 0, "ttlSecondsAfterFinished",
				 (json_int_t)kube_ttl_s(b), "podFailurePolicy", "rules", "action",
				 elastic ? "Ignore"
				 : array ? "FailIndex"
					 : "FailJob",
				 "onPodConditions", "type", "DisruptionTarget", "status", "True",
				 "template", template);
	int64_t deadline = deadline_s(b);

	if (elastic)
		json_array_append_new(
			json_object_get(json_object_get(spec, "podFailurePolicy"), "rules"),
			json_pack("{s:s, s:{s:s, s:s, s:[i]}}", "action", "FailIndex",
				  "onExitCodes", "containerName", b->kind->main, "operator",
				  "NotIn", "values", 128 + SIGTERM));
	if (deadline)
		json_object_set_new(spec, "activeDeadlineSeconds",
				    json_integer((json_int_t)deadline));
	if (pods > 1) {
		kube_set_str(spec, "completionMode", "Indexed");
		json_object_set_new(spec, "completions", json_integer(pods));
		json_object_set_new(spec, "parallelism", json_integer(pods));
	}
	return spec;
}

/* The placement's labels or annotations, and ours. Every object of the attempt has them, because a
 * policy that demands some demands them of all. */
static json_t *with_notes(const struct pod_build *b, const char *what, json_t *ours)
{
	json_t *all = json_object(), *said = json_object_get(b->placement, what);

	if (json_is_object(said))
		json_object_update(all, said);
	json_object_update(all, ours);
	json_decref(ours);
	return all;
}

json_t *kube_metadata(const struct pod_build *b)
{
	return json_pack("{s:s, s:s, s:o, s:o}", "name", b->name, "namespace", b->p->namespace_,
			 "labels", with_notes(b, "labels", our_labels(b)), "annotations",
			 with_notes(b, "annotations", our_annotations(b, false)));
}

static int pod_template(struct pod_build *b, json_t **ret, struct err *err)
{
	_cleanup_(json_decrefp) json_t *spec = NULL, *template = NULL;

	if (pod_spec_object(b, &spec, err) < 0)
		return -1;
	template = json_pack("{s:{s:O, s:O}, s:O}", "metadata", "labels", b->labels, "annotations",
			     b->annotations, "spec", spec);
	if (kube_merge_templates(b, template, err) < 0)
		return -1;
	*ret = TAKE_PTR(template);
	return 0;
}

static int make_job(struct pod_build *b, json_t **ret, struct err *err)
{
	_cleanup_(json_decrefp) json_t *template = NULL, *job = NULL, *notes = NULL;
	json_t *meta;

	if (pod_template(b, &template, err) < 0)
		return -1;
	meta = kube_metadata(b);
	kube_set_str(json_object_get(meta, "labels"), "kueue.x-k8s.io/queue-name",
		     kube_placement_str(b->placement, "queue"));
	notes = b->kind->notes ? json_loads(b->kind->notes, 0, NULL) : json_object();
	json_object_update(json_object_get(meta, "annotations"), notes);
	job = json_pack("{s:o, s:s, s:o, s:o}", "apiVersion",
			json_sprintf("%s/%s", b->kind->group, b->kind->version), "kind",
			b->kind->kind, "metadata", meta, "spec", kube_kind_spec(b, template));
	if (json_dumpb(job, NULL, 0, JSON_COMPACT) > KUBE_OBJECT_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "the %s of %s has more than 1 MiB: give the step fewer inputs (a "
			       "directory counts as one) or smaller templates",
			       b->kind->kind, b->a->task);
	*ret = TAKE_PTR(job);
	return 0;
}

static int make_base(struct pod_build *b, json_t **ret, struct err *err)
{
	_cleanup_(json_decrefp) json_t *template = NULL;

	if (!b->kind->base) {
		*ret = NULL;
		return 0;
	}
	if (pod_template(b, &template, err) < 0)
		return -1;
	*ret = json_pack("{s:o, s:s, s:o, s:o}", "apiVersion",
			 json_sprintf("%s/%s", b->kind->group, b->kind->version), "kind",
			 b->kind->base, "metadata", kube_metadata(b), "spec",
			 kube_kind_base_spec(b, template));
	return 0;
}

/* `make`: one of the objects of a job. */
static int make_object(const struct kube_job *j,
		       int (*make)(struct pod_build *b, json_t **ret, struct err *err),
		       json_t **ret, struct err *err)
{
	_cleanup_(kube_build_deinit) struct pod_build b = { 0 };

	if (kube_build_init(&b, j, err) < 0 || make(&b, ret, err) < 0)
		return err_wrap(err, "%s",
				j->attempts[0]->on.step ? j->attempts[0]->on.step
							: j->attempts[0]->task);
	return 0;
}

int kube_job_object(const struct kube_job *j, json_t **ret, struct err *err)
{
	return make_object(j, make_job, ret, err);
}

int kube_base_object(const struct kube_job *j, json_t **ret, struct err *err)
{
	return make_object(j, make_base, ret, err);
}

/* runners/kubernetes/probe.c — what a cluster supports and an account may do, for `cairn doctor`.
 *
 * kube_probe() makes one check after the other and gives each result to `found`. It stops early
 * only if the server doesn't tell its version. Rights are a table (`rights`): one
 * SelfSubjectAccessReview for each verb. sample_job() has all features of the runner's Jobs and
 * none of their content, and is only sent as a dry run. Add a new feature of job/ to it, and a new
 * request of the runner to `rights` and deploy/role.yaml.
 *
 * Blocks its caller; no state.
 */
#include "runners/kubernetes/probe.h"

#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "runners/kubernetes/job/kind.h"

struct probe {
	struct kube_client *client;
	const char *ns;
	const struct kube_probe_options *o;
	kube_found_fn found;
	void *arg;
};

static void say(struct probe *p, enum kube_finding v, const char *name, const char *advice,
		const char *fmt, ...) _printf_(5, 6);
static void say(struct probe *p, enum kube_finding v, const char *name, const char *advice,
		const char *fmt, ...)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	va_list ap;

	va_start(ap, fmt);
	str_addv(&text, fmt, ap);
	va_end(ap);
	p->found(p->arg, v, name, text.s, advice);
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

/* The number at the beginning of the text; 0 when there is none. */
static int64_t number_of(const char *text)
{
	char digits[16];
	int64_t v = 0;

	snprintf(digits, sizeof(digits), "%.*s", (int)strspn(text, "0123456789"), text);
	return text_parse_int(digits, &v) ? v : 0;
}

/* Version. */

/* -1: the server can't be reached; other checks make no sense then. */
static int probe_version(struct probe *p)
{
	struct kube_call call = { .method = "GET", .path = "/version" };
	struct err err = { 0 };
	int64_t major, minor;

	if (kube_do(p->client, &call, &err) < 0) {
		kube_call_deinit(&call);
		say(p, KUBE_PROBLEM, "cluster",
		    "see whether `kubectl version` works with the same context", "%s", err.msg);
		return -1;
	}
	/* Some providers have a minor version like "27+". */
	major = number_of(text_of(call.json, "major"));
	minor = number_of(text_of(call.json, "minor"));
	if (major > KUBE_VERSION_MIN_MAJOR ||
	    (major == KUBE_VERSION_MIN_MAJOR && minor >= KUBE_VERSION_MIN_MINOR))
		say(p, KUBE_FINE, "version", NULL, "%s", text_of(call.json, "gitVersion"));
	else
		say(p, KUBE_PROBLEM, "version", "use a cluster of 1.31 or newer",
		    "%s: pod failure policies and native sidecars aren't stable there",
		    text_of(call.json, "gitVersion"));
	kube_call_deinit(&call);
	return 0;
}

/* Rights. */

struct right {
	const char *group, *resource, *subresource;
	const char *verbs; /* separated by spaces */
};
static const struct right rights[] = {
	{ "batch", "jobs", NULL, "create get list watch delete" },
	{ "", "pods", NULL, "list watch delete" },
	{ "", "pods", "log", "get" },
	{ "", "events", NULL, "list" },
	{ "", "services", NULL, "create" },
	{ "networking.k8s.io", "networkpolicies", NULL, "create" },
};
static const struct right lease_rights[] = { { "coordination.k8s.io", "leases", NULL, "create" },
					     { "coordination.k8s.io", "leases", NULL,
					       "get update" } };

/* 1 allowed, 0 not, -1 the check failed. */
static int may(struct probe *p, const struct right *r, const char *verb, const char *name,
	       struct err *err)
{
	json_t *what = json_pack("{s:s, s:s, s:s, s:s}", "namespace", p->ns, "group", r->group,
				 "resource", r->resource, "verb", verb),
	       *body;
	struct kube_call call = { .method = "POST",
				  .path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
				  .repeatable = true };
	int result;

	if (name)
		json_object_set_new(what, "name", json_string(name));
	if (r->subresource)
		json_object_set_new(what, "subresource", json_string(r->subresource));
	body = json_pack("{s:s, s:s, s:{s:o}}", "apiVersion", "authorization.k8s.io/v1", "kind",
			 "SelfSubjectAccessReview", "spec", "resourceAttributes", what);
	call.body = body;
	result = kube_do(p->client, &call, err);
	if (result == 0)
		result = json_is_true(
			json_object_get(json_object_get(call.json, "status"), "allowed"));
	kube_call_deinit(&call);
	json_decref(body);
	return result;
}

/* Adds missing rights like "create jobs". -1: the check failed. */
static int probe_right(struct probe *p, const struct right *r, const char *name,
		       struct str *lacking, struct err *err)
{
	for (const char *at = r->verbs; *at;) {
		size_t n = strcspn(at, " ");
		char verb[16];
		int allowed;

		snprintf(verb, sizeof(verb), "%.*s", (int)n, at);
		allowed = may(p, r, verb, name, err);
		if (allowed < 0)
			return -1;
		if (!allowed)
			str_addf(lacking, "%s%s %s%s%s", lacking->len ? ", " : "", verb,
				 r->resource, r->subresource ? "/" : "",
				 r->subresource ? r->subresource : "");
		at += n + (at[n] == ' ');
	}
	return 0;
}

static void probe_rights(struct probe *p)
{
	_cleanup_(str_deinit) struct str lacking = { 0 };
	struct err err = { 0 };
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(rights); i++)
		r = probe_right(p, &rights[i], NULL, &lacking, &err);
	for (size_t i = 0; r == 0 && p->o->lease && i < ARRAY_LEN(lease_rights);
	     i++) /* a create has no name to check */
		r = probe_right(p, &lease_rights[i], i ? p->o->lease : NULL, &lacking, &err);
	if (r < 0) {
		say(p, KUBE_WARNING, "rights", NULL, "could not be checked: %s", err.msg);
		return;
	}
	if (lacking.len)
		say(p, KUBE_PROBLEM, "rights",
		    "give the account a Role with them in this namespace: "
		    "runners/kubernetes/deploy/role.yaml has it",
		    "in the namespace %s these are missing: %s", p->ns, lacking.s);
	else
		say(p, KUBE_FINE, "rights", NULL, "all that are needed in the namespace %s", p->ns);
}

/* Operators' objects. */

/* 1 the cluster has such objects, 0 it doesn't, -1 it can't be asked. */
static int has_kind(struct probe *p, const struct kube_kind *k, struct err *err)
{
	_cleanup_(freep) char *path = xasprintf("/apis/%s/%s", k->group, k->version);
	struct kube_call call = { .method = "GET", .path = path };
	int r = kube_do(p->client, &call, err);
	const json_t *one;
	bool found = false;
	size_t i;

	json_array_foreach(json_object_get(call.json, "resources"), i, one) found |=
		str_eq(text_of(one, "name"), k->resource);
	kube_call_deinit(&call);
	return r < 0 ? (err->code == ERR_NOT_FOUND ? 0 : -1) : found;
}

static void probe_kind(struct probe *p, const struct kube_kind *k)
{
	const struct right right = { k->group, k->resource, NULL, "create get list watch delete" },
			   base = { k->group, k->base_resource, NULL, "create get patch" };
	_cleanup_(str_deinit) struct str lacking = { 0 };
	struct err err = { 0 };
	int has = has_kind(p, k, &err);

	if (has == 0)
		say(p, KUBE_PROBLEM, "operator",
		    "install its operator, or leave out `kubernetes.as`",
		    "`as: %s`: the cluster has no %s (%s/%s)", k->as, k->kind, k->group,
		    k->version);
	else if (has < 0 || probe_right(p, &right, NULL, &lacking, &err) < 0 ||
		 (k->base && probe_right(p, &base, NULL, &lacking, &err) < 0))
		say(p, KUBE_WARNING, "operator", NULL, "`as: %s` could not be checked: %s", k->as,
		    err.msg);
	else if (lacking.len)
		say(p, KUBE_PROBLEM, "operator",
		    "give the account a Role with them in this namespace: "
		    "runners/kubernetes/deploy/components/operators has it",
		    "`as: %s`: in the namespace %s these rights are missing: %s", k->as, p->ns,
		    lacking.s);
	else
		say(p, KUBE_FINE, "operator", NULL,
		    "`as: %s`: the cluster has %s (%s/%s); whether its operator runs isn't known",
		    k->as, k->kind, k->group, k->version);
}

/* A Job, as a dry run. */

static json_t *restricted(void)
{
	return json_pack("{s:b, s:b, s:{s:[s]}}", "allowPrivilegeEscalation", 0,
			 "readOnlyRootFilesystem", 1, "capabilities", "drop", "ALL");
}

static json_t *small(void)
{
	return json_pack("{s:{s:s, s:s}, s:{s:s, s:s}}", "requests", "cpu", "100m", "memory",
			 "64Mi", "limits", "cpu", "100m", "memory", "64Mi");
}

/* All features of the runner's Jobs, none of their content; for one task, or for several. */
static json_t *sample_job(bool array)
{
	json_t *sidecar = json_pack("{s:s, s:s, s:s, s:o, s:o}", "name", "cairn", "image",
				    "cairn.invalid/probe:1", "restartPolicy", "Always",
				    "securityContext", restricted(), "resources", small());
	json_t *main_container =
		json_pack("{s:s, s:s, s:o, s:o}", "name", "main", "image", "cairn.invalid/probe:1",
			  "securityContext", restricted(), "resources", small());
	json_t *pod = json_pack("{s:s, s:b, s:b, s:{s:b, s:i, s:{s:s}}, s:[o], s:[o]}",
				"restartPolicy", "Never", "automountServiceAccountToken", 0,
				"enableServiceLinks", 0, "securityContext", "runAsNonRoot", 1,
				"runAsUser", 10001, "seccompProfile", "type", "RuntimeDefault",
				"initContainers", sidecar, "containers", main_container);
	json_t *policy = json_pack("{s:[{s:s, s:[{s:s, s:s}]}]}", "rules", "action",
				   array ? "FailIndex" : "FailJob", "onPodConditions", "type",
				   "DisruptionTarget", "status", "True");
	json_t *spec = json_pack("{s:i, s:i, s:i, s:s, s:i, s:o, s:{s:o}}",
				 array ? "backoffLimitPerIndex" : "backoffLimit", 0, "completions",
				 1 + array, "parallelism", 1 + array, "completionMode", "Indexed",
				 "ttlSecondsAfterFinished", 3600, "podFailurePolicy", policy,
				 "template", "spec", pod);

	return json_pack("{s:s, s:s, s:{s:s}, s:o}", "apiVersion", "batch/v1", "kind", "Job",
			 "metadata", "generateName", "cairn-probe-", "spec", spec);
}

static int try_job(struct probe *p, bool array, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	json_t *job = sample_job(array);
	struct kube_call call = { .method = "POST", .body = job, .repeatable = true };
	int r;

	kube_add_path(&path, "batch", "v1", p->ns, "jobs", NULL);
	str_add(&path, "?dryRun=All&fieldValidation=Strict");
	call.path = path.s;
	r = kube_do(p->client, &call, err);
	kube_call_deinit(&call);
	json_decref(job);
	return r;
}

static void probe_jobs(struct probe *p)
{
	struct err err = { 0 };

	if (try_job(p, false, &err) < 0)
		say(p, KUBE_PROBLEM, "jobs", "see the server's words",
		    "a Job of the kind that tasks become would be refused: %s", err.msg);
	else if (p->o->arrays && try_job(p, true, &err) < 0)
		say(p, KUBE_PROBLEM, "jobs",
		    "see the server's words; with `kubernetes: {array: 1}` in cairn.yaml each task "
		    "has a Job of its own",
		    "a Job that several tasks share would be refused: %s", err.msg);
	else
		say(p, KUBE_FINE, "jobs", NULL,
		    "a Job with a sidecar, a pod failure policy and restricted rights would be "
		    "taken%s",
		    p->o->arrays ? ", for one task or several" : "");
}

/* Quotas, GPUs. */

static void add_quota(struct str *out, const json_t *quota)
{
	const json_t *status = json_object_get(quota, "status"),
		     *hard = json_object_get(status, "hard"),
		     *used = json_object_get(status, "used");
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)hard, key, v)
		str_addf(out, "%s%s %s of %s", out->len ? ", " : "", key, text_of(used, key),
			 json_string_value(v) ? json_string_value(v) : "?");
}

static void probe_quotas(struct probe *p)
{
	_cleanup_(str_deinit) struct str path = { 0 }, text = { 0 };
	struct kube_call call = { .method = "GET" };
	struct err err = { 0 };
	const json_t *items;

	kube_add_path(&path, "", "v1", p->ns, "resourcequotas", NULL);
	call.path = path.s;
	if (kube_do(p->client, &call, &err) < 0) {
		say(p, KUBE_FINE, "quota", NULL, "this account may not read quotas");
	} else {
		items = json_object_get(call.json, "items");
		for (size_t i = 0; i < json_array_size(items); i++)
			add_quota(&text, json_array_get(items, i));
		say(p, KUBE_FINE, "quota", NULL, "%s",
		    text.len ? text.s : "none in this namespace");
	}
	kube_call_deinit(&call);
}

static void probe_nodes(struct probe *p)
{
	static const char *const kinds[] = { "nvidia.com/gpu", "amd.com/gpu" };
	struct kube_call call = { .method = "GET", .path = "/api/v1/nodes?limit=500" };
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err err = { 0 };
	const json_t *items;
	size_t n;

	if (kube_do(p->client, &call, &err) < 0) {
		say(p, KUBE_FINE, "nodes", NULL,
		    "can't be listed with this account: it isn't known which have GPUs");
		kube_call_deinit(&call);
		return;
	}
	items = json_object_get(call.json, "items");
	n = json_array_size(items);
	str_addf(&text, "%zu%s", n, n == 500 ? " or more" : "");
	for (size_t k = 0; k < ARRAY_LEN(kinds); k++) {
		int64_t gpus = 0, nodes = 0;

		for (size_t i = 0; i < n; i++) {
			const json_t *status = json_object_get(json_array_get(items, i), "status");
			int64_t has = number_of(
				text_of(json_object_get(status, "allocatable"), kinds[k]));

			gpus += has;
			nodes += has > 0;
		}
		if (gpus)
			str_addf(&text, "; %s: %lld on %lld", kinds[k], (long long)gpus,
				 (long long)nodes);
	}
	say(p, n ? KUBE_FINE : KUBE_PROBLEM, "nodes", n ? NULL : "add nodes", "%s", text.s);
	kube_call_deinit(&call);
}

void kube_probe(struct kube_client *c, const struct kube_probe_options *o, kube_found_fn found,
		void *arg)
{
	struct probe p = { c, kube_client_access(c)->namespace_, o, found, arg };

	if (probe_version(&p) < 0)
		return;
	probe_rights(&p);
	for (size_t i = 0; i < o->n_kinds; i++)
		if (kube_kind_of(o->kinds[i]))
			probe_kind(&p, kube_kind_of(o->kinds[i]));
	probe_jobs(&p);
	probe_quotas(&p);
	probe_nodes(&p);
}

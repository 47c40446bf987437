/* runners/kubernetes/requests.c — requests that make, repair and delete Jobs.
 *
 * Each request is a struct of its own (making, repairing, deletion): the loop's thread fills it, a
 * worker carries it out, and a second function handles the result on the loop's thread. A worker
 * touches only its struct, the client and the options. The attempts that a making points to stay
 * until it is over, because a Job in JOB_MAKING is neither freed nor reported. Objects that may
 * have been freed meanwhile are found again by id.
 *
 * The steps of make(): choose the inputs that are mounted out of the node's cache, publish the
 * specification in the store, see that the server knows images as
 * volumes if the object has some, create what it needs before (kind.h, `base`), create the Job,
 * create a gang's Services and NetworkPolicy. Every step can be repeated: names come from the
 * attempt, so AlreadyExists leads to adopt(), which takes only a Job with our owner annotation.
 * made() handles the outcome: the Job exists, is retried later with doubling pauses
 * (pause_making()), or is given up. reconcile.c limits how long a refusal may go on; there is no
 * limit for a server that doesn't answer.
 *
 * Deletions name the uid, so that a later Job of the same name is safe. "Not found" is success.
 * runner_sweep() and kube_delete_run() block their caller.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "runners/kubernetes/internal.h"

/* The pause before a retry, after a failure that may pass: it doubles. */
#define AGAIN_MIN_NS  (1 * NS_PER_S)
#define AGAIN_MAX_NS  (60 * NS_PER_S)
#define MEND_AGAIN_NS (10 * NS_PER_S)
#define SWEEP_MAX     500

/* Making. */

struct making {
	struct job *j;
	struct kube *k;
	struct arena *arena;
	const struct kube_kind *kind;
	const struct runner_attempt **attempts; /* of members, which outlive the making */
	size_t n, per_pod;
	struct content_id spec;
	char name[64], uid[64];
	struct job_facts found; /* facts of a Job that existed already */
	enum { MADE, PUT_OFF, NO_QUOTA, NO_STORE, WRONG } outcome;
	bool answered; /* PUT_OFF: the server answered */
	struct err err;
};

static int put_off(struct making *m)
{
	switch (m->err.code) {
	case ERR_IO:
	case ERR_CHANGED:
	case ERR_BUSY:
	case ERR_CANCELLED:
		m->outcome = PUT_OFF;
		break;
	case ERR_NO_SPACE:
		m->outcome = NO_QUOTA;
		break;
	default:
		m->outcome = WRONG;
	}
	return -1;
}

static int publish(struct making *m)
{
	const struct runner_staging *s = &m->k->o.staging;
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (m->spec.kind != CONTENT_NONE)
		return 0;
	m->outcome = WRONG;
	if (pod_spec_write(m->attempts, m->n, m->per_pod, &bytes, &m->err) < 0)
		return -1;
	m->outcome = NO_STORE;
	return s->publish(s->arg, m->attempts, m->n, bytes.s, bytes.len, &m->spec, &m->err);
}

static int create(struct kube *k, const char *group, const char *version, const char *resource,
		  const json_t *object, struct kube_call *call, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	int r;

	kube_add_path(&path, group, version, k->o.profile->namespace_, resource, NULL);
	*call = (struct kube_call){ .method = "POST",
				    .path = path.s,
				    .body = object,
				    .repeatable = true,
				    .accept = KUBE_METADATA_ONLY };
	r = kube_do(k->client, call, err);
	call->path = NULL;
	call->body = NULL;
	return r;
}

static void add_path(struct str *path, const struct kube_kind *kind, const char *ns,
		     const char *name)
{
	kube_add_path(path, kind->group, kind->version, ns, kind->resource, name);
}

/* An object of our name exists. It is ours, from before a crash or from a request whose answer was
 * lost; or it isn't. */
static int adopt(struct making *m, const char *resource)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	_cleanup_(freep) char *owner = kube_job_owner(m->k->o.profile, m->attempts[0]);
	struct kube_call call = { .method = "GET", .accept = KUBE_METADATA_ONLY };
	struct job_facts f = { 0 };
	int r;

	m->err = (struct err){ 0 };
	kube_add_path(&path, m->kind->group, m->kind->version, m->k->o.profile->namespace_,
		      resource, m->name);
	call.path = path.s;
	r = kube_do(m->k->client, &call, &m->err);
	if (r < 0 && m->err.code == ERR_NOT_FOUND)
		m->err.code = ERR_CHANGED; /* it was being deleted: try again */
	if (r == 0 && job_facts_of(m->kind, call.json, &f) < 0)
		r = err_set(&m->err, ERR_INVALID, "Kubernetes: the answer about the %s %s is none",
			    m->kind->kind, m->name);
	if (r == 0 && !str_eq(f.owner, owner))
		r = err_set(
			&m->err, ERR_EXISTS,
			"there is a %s %s in %s already that is not this attempt's (its %s is %s)",
			m->kind->kind, m->name, m->k->o.profile->namespace_, KUBE_NOTE_OWNER,
			f.owner ? f.owner : "missing");
	if (r == 0 && f.deleted)
		r = err_set(&m->err, ERR_BUSY, "an earlier %s %s is still being deleted",
			    m->kind->kind, m->name);
	if (r == 0 && str_eq(resource, m->kind->resource)) {
		memcpy(m->uid, f.uid, sizeof(m->uid));
		m->found = f;
		f = (struct job_facts){ 0 };
	}
	job_facts_deinit(&f);
	kube_call_deinit(&call);
	return r < 0 ? put_off(m) : 0;
}

/* The Job, or the object that must exist before. `resource`: its. */
static int make_object(struct making *m, const json_t *object, const char *resource)
{
	struct kube_call call = { 0 };
	struct job_facts f = { 0 };
	long status;
	int r;

	r = create(m->k, m->kind->group, m->kind->version, resource, object, &call, &m->err);
	if (r == 0 && str_eq(resource, m->kind->resource) &&
	    job_facts_of(m->kind, call.json, &f) == 0)
		memcpy(m->uid, f.uid, sizeof(m->uid));
	job_facts_deinit(&f);
	status = call.status;
	kube_call_deinit(&call);
	if (r == 0)
		return 0;
	m->answered = status != 0;
	if (m->err.code == ERR_NOT_FOUND && !kube_kind_is_job(m->kind))
		err_set(&m->err, ERR_NOT_FOUND,
			"the cluster knows no %s (%s/%s): install its operator, or leave out "
			"`kubernetes.as: %s`",
			m->kind->kind, m->kind->group, m->kind->version, m->kind->as);
	return m->err.code == ERR_EXISTS ? adopt(m, resource) : put_off(m);
}

/* Volumes that are images, in any template of the object. */
static size_t count_images(const json_t *o)
{
	json_t *v, *image = json_object_get(o, "image");
	size_t n = json_object_get(image, "reference") != NULL, i;
	const char *key;

	json_object_foreach((json_t *)o, key, v) n += count_images(v);
	json_array_foreach((json_t *)o, i, v) n += count_images(v);
	return n;
}

/* A server without the feature takes the object and leaves out such volumes and their mounts: the
 * program would run without its input. So it is asked first, and makes nothing. */
static int check_images(struct making *m, const json_t *object)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	struct kube_call call = { .method = "POST", .body = object, .repeatable = true };
	size_t n = count_images(object), kept;
	int r;

	if (n == 0)
		return 0;
	add_path(&path, m->kind, m->k->o.profile->namespace_, NULL);
	str_add(&path, "?dryRun=All");
	call.path = path.s;
	r = kube_do(m->k->client, &call, &m->err);
	kept = r == 0 ? count_images(call.json) : n;
	m->answered = call.status != 0;
	call.path = NULL;
	call.body = NULL;
	kube_call_deinit(&call);
	if (r < 0 && m->err.code == ERR_EXISTS) { /* it will be adopted */
		m->err = (struct err){ 0 };
		return 0;
	}
	if (r < 0)
		return put_off(m);
	if (kept == n)
		return 0;
	return err_set(&m->err, ERR_INVALID,
		       "an input of the step is an image, and this cluster doesn't mount images as "
		       "volumes: Kubernetes 1.35 does, or 1.31 with the feature gate ImageVolume. "
		       "Put the data into a claim or a bucket instead");
}

static int make_job(struct making *m, const struct kube_job *j)
{
	_cleanup_(json_decrefp) json_t *base = NULL, *object = NULL;

	m->outcome = WRONG;
	if (kube_base_object(j, &base, &m->err) < 0 || kube_job_object(j, &object, &m->err) < 0)
		return -1;
	if (check_images(m, object) < 0)
		return -1;
	if (base && make_object(m, base, m->kind->base_resource) < 0)
		return -1;
	return make_object(m, object, m->kind->resource);
}

/* The base belongs to its object from now on. */
static int own_base(struct kube *k, const struct kube_kind *kind, const json_t *part,
		    struct kube_call *call, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	const char *name =
		json_string_value(json_object_get(json_object_get(part, "metadata"), "name"));
	int r;

	kube_add_path(&path, kind->group, kind->version, k->o.profile->namespace_,
		      kind->base_resource, name);
	*call = (struct kube_call){ .method = "PATCH",
				    .path = path.s,
				    .body = part,
				    .content_type = "application/merge-patch+json",
				    .repeatable = true,
				    .accept = KUBE_METADATA_ONLY };
	r = kube_do(k->client, call, err);
	call->path = NULL;
	call->body = NULL;
	return r;
}

/* A gang's Services and NetworkPolicy, which may exist already, and the base of its object. */
static int make_parts(struct kube *k, const struct kube_kind *of, const json_t *parts,
		      struct err *err)
{
	json_t *part;
	size_t i;
	int r = 0;

	json_array_foreach((json_t *)parts, i, part)
	{
		const char *kind = json_string_value(json_object_get(part, "kind"));
		bool service = str_eq(kind, "Service");
		struct kube_call call = { 0 };

		r = str_eq(kind, of->base)
			    ? own_base(k, of, part, &call, err)
			    : create(k, service ? "" : "networking.k8s.io", "v1",
				     service ? "services" : "networkpolicies", part, &call, err);
		kube_call_deinit(&call);
		if (r < 0 && err->code != ERR_EXISTS)
			return r;
		if (r < 0)
			*err = (struct err){ 0 };
	}
	return 0;
}

static int make_gang(struct making *m, const struct kube_job *j)
{
	_cleanup_(json_decrefp) json_t *parts = NULL;

	m->outcome = WRONG;
	if (kube_gang_objects(j, m->uid, &parts, &m->err) < 0)
		return -1;
	return make_parts(m->k, m->kind, parts, &m->err) < 0 ? put_off(m) : 0;
}

static void make(void *arg)
{
	struct making *m = arg;
	struct kube_job j = { .profile = m->k->o.profile,
			      .attempts = m->attempts,
			      .n = m->n,
			      .per_pod = m->per_pod,
			      .spec = &m->spec };

	m->outcome = PUT_OFF;
	if (atomic_load(&m->k->closing))
		return;
	m->outcome = NO_STORE;
	if (kube_job_choose_views(&j, &m->k->o.staging, m->arena, m->attempts, &m->err) < 0 ||
	    publish(m) < 0 || make_job(m, &j) < 0 || make_gang(m, &j) < 0)
		return;
	m->outcome = MADE;
}

/* `class`: the failure if this goes on; NONE: nobody answers, which has no time limit. */
static void pause_making(struct job *j, enum failure_class class, const char *what, const char *why)
{
	int64_t wait = AGAIN_MIN_NS << MIN(j->tries, 6u);

	j->refused_ns = class == FAILURE_NONE ? 0 : j->refused_ns ? j->refused_ns : kube_mono(j->k);
	j->refused_as = class;
	j->tries++;
	j->again_ns = kube_mono(j->k) + MIN(wait, AGAIN_MAX_NS);
	j->state = JOB_PAUSED;
	free(j->trouble);
	j->trouble = xasprintf("%s: %s", what, why);
}

/* A found Job may be from an engine that died before it knew, for more attempts or for fewer. */
static void is_there(struct job *j, const struct making *m)
{
	j->state = JOB_THERE;
	free(j->trouble);
	j->trouble = NULL;
	memcpy(j->name, m->name, sizeof(j->name));
	memcpy(j->uid, m->uid, sizeof(j->uid));
	job_purge(j);
	if (*m->found.uid)
		job_take_layout(j, &m->found);
	for (size_t i = 0; i < j->bundles.n; i++)
		j->bundles.v[i]->stage_ns = kube_mono(j->k);
}

static void made(void *arg)
{
	struct making *m = arg;
	struct job *j = m->j;

	j->spec = m->spec;
	if (m->outcome == NO_QUOTA) {
		pause_making(j, FAILURE_UNSCHEDULABLE, "no quota is left", m->err.msg);
	} else if (m->outcome == PUT_OFF) {
		pause_making(j, m->answered ? FAILURE_UNSCHEDULABLE : FAILURE_NONE,
			     m->answered ? "the cluster does not take its Job"
					 : "the cluster does not answer",
			     m->err.msg);
	} else if (m->outcome == NO_STORE && m->err.code == ERR_IO) {
		pause_making(j, FAILURE_STORE, "the store does not take what the pod has to read",
			     m->err.msg);
	} else if (m->outcome == MADE) {
		is_there(j, m);
	} else {
		j->state = JOB_THERE;
		for (size_t i = 0; i < j->bundles.n; i++) {
			bundle_impose(j->bundles.v[i],
				      m->outcome == NO_STORE ? FAILURE_STORE : FAILURE_FAILED,
				      "%.500s", m->err.msg);
			j->bundles.v[i]->imposed_code = m->err.code;
		}
	}
	job_facts_deinit(&m->found);
	arena_free(m->arena);
	if (job_is_cancelled(j) && j->state == JOB_THERE)
		job_delete(j);
	job_reconcile(j);
	free(m);
}

void job_make(struct job *j)
{
	struct making *m = xcalloc(1, sizeof(*m));

	assert(j->state == JOB_PAUSED);
	m->j = j;
	m->k = j->k;
	m->kind = j->kind;
	m->arena = arena_new();
	m->per_pod = j->bundles.n > 1 ? j->capacity.per_pod : 0;
	m->attempts = arena_alloc(m->arena,
				  (j->bundles.n * j->capacity.per_pod + 1) * sizeof(*m->attempts));
	for (size_t b = 0; b < j->bundles.n; b++)
		for (size_t i = 0; i < j->bundles.v[b]->members.n; i++)
			m->attempts[m->n++] = j->bundles.v[b]->members.v[i]->a;
	assert(m->n > 0 && m->n <= j->bundles.n * j->capacity.per_pod);
	m->spec = j->spec;
	kube_job_name(m->attempts[0], m->name);
	j->state = JOB_MAKING;
	pool_submit(j->k->pool, make, made, m);
}

/* The other objects of a gang. */

struct repair {
	struct kube *k;
	uint64_t id;
	const struct kube_kind *kind;
	json_t *parts;
	int result;
};

static void repair(void *arg)
{
	struct repair *m = arg;
	struct err ignored = { 0 }; /* the gang's own time limit reports it */

	m->result =
		atomic_load(&m->k->closing) ? -1 : make_parts(m->k, m->kind, m->parts, &ignored);
}

static void repaired(void *arg)
{
	struct repair *m = arg;
	struct job *j = map_get(m->k->by_id.jobs, &m->id, sizeof(m->id));

	if (j) {
		j->incomplete = m->result < 0;
		j->repairing = false;
		j->again_ns = kube_mono(j->k) + MEND_AGAIN_NS;
	}
	json_decref(m->parts);
	free(m);
}

void job_repair(struct job *j)
{
	const struct bundle *b = j->bundles.v[0];
	const struct kube_job of = { .profile = j->k->o.profile,
				     .attempts =
					     &(const struct runner_attempt *){ b->members.v[0]->a },
				     .n = 1,
				     .spec = &j->spec };
	struct repair *m;
	struct err ignored = { 0 };

	if (j->repairing || !*j->uid || kube_mono(j->k) < j->again_ns)
		return;
	m = xcalloc(1, sizeof(*m));
	m->k = j->k;
	m->id = j->id;
	m->kind = j->kind;
	if (pod_content_read(j->f.spec ? j->f.spec : "", &j->spec, &ignored) < 0 ||
	    kube_gang_objects(&of, j->uid, &m->parts, &ignored) < 0) {
		j->incomplete = false; /* this engine would make them differently */
		free(m);
		return;
	}
	j->repairing = true;
	pool_submit(j->k->pool, repair, repaired, m);
}

/* Deleting. */

struct deletion {
	struct kube *k;
	uint64_t id;                  /* of the Job, if it is still known at the end */
	const struct kube_kind *kind; /* NULL: a pod */
	char name[254], uid[64];
	bool at_once;
	int result;
	struct err err;
};

static int delete_at(struct kube_client *c, const char *ns, const struct deletion *d,
		     struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	struct kube_call call = { .method = "DELETE", .repeatable = true };
	json_t *body =
		json_pack("{s:s, s:s, s:s, s:{s:s}}", "kind", "DeleteOptions", "apiVersion", "v1",
			  "propagationPolicy", "Background", "preconditions", "uid", d->uid);
	int r;

	if (d->at_once)
		json_object_set_new(body, "gracePeriodSeconds", json_integer(0));
	if (d->kind)
		add_path(&path, d->kind, ns, d->name);
	else
		kube_add_path(&path, "", "v1", ns, "pods", d->name);
	call.path = path.s;
	call.body = body;
	r = kube_do(c, &call, err);
	kube_call_deinit(&call);
	json_decref(body);
	if (r < 0 && (err->code == ERR_NOT_FOUND || err->code == ERR_CHANGED))
		return 0; /* it is already gone, or another object has its name now */
	return r;
}

static void run_deletion(void *arg)
{
	struct deletion *d = arg;

	d->result = delete_at(d->k->client, d->k->o.profile->namespace_, d, &d->err);
}

static void deletion_done(void *arg)
{
	struct deletion *d = arg;
	struct job *j = map_get(d->k->by_id.jobs, &d->id, sizeof(d->id));

	if (j && d->kind) {
		j->deleting = false;
		j->deleted |= d->result == 0;
		j->gone |= d->result == 0;
		job_reconcile(j);
	}
	free(d);
}

void job_delete(struct job *j)
{
	struct deletion *d;

	if (j->deleting || j->deleted || !*j->uid)
		return;
	j->deleting = true;
	if (!j->released_ns)
		j->released_ns = kube_wall(j->k) + j->k->skew_ns;
	d = xcalloc(1, sizeof(*d));
	*d = (struct deletion){ .k = j->k, .id = j->id, .kind = j->kind };
	snprintf(d->name, sizeof(d->name), "%s", j->name);
	memcpy(d->uid, j->uid, sizeof(d->uid));
	pool_submit(j->k->pool, run_deletion, deletion_done, d);
}

static void delete_pod(struct bundle *b, struct pod *p, bool at_once)
{
	struct deletion *d = xcalloc(1, sizeof(*d));

	*d = (struct deletion){ .k = b->k, .id = b->j->id, .at_once = at_once };
	snprintf(d->name, sizeof(d->name), "%s", p->f.name);
	snprintf(d->uid, sizeof(d->uid), "%s", p->f.uid);
	p->end_asked = at_once ? POD_KILLED : POD_TOLD;
	pool_submit(b->k->pool, run_deletion, deletion_done, d);
}

void bundle_delete_pods(struct bundle *b, bool at_once)
{
	for (size_t i = 0; i < b->pods.n; i++) {
		struct pod *p = b->pods.v[i];

		if (!p->f.gone && !pod_is_over(&p->f) &&
		    p->end_asked < (at_once ? POD_KILLED : POD_TOLD))
			delete_pod(b, p, at_once);
	}
}

void bundle_forget_pods(struct bundle *b)
{
	for (size_t i = 0; i < b->pods.n; i++)
		if (!b->pods.v[i]->f.gone && pod_is_over(&b->pods.v[i]->f) &&
		    b->pods.v[i]->end_asked == POD_LEFT_ALONE)
			delete_pod(b, b->pods.v[i], false);
}

/* At the end. */

static bool is_done(struct kube *k, const struct job_facts *f)
{
	bool done = map_get(k->by_id.done, &f->attempt_id, sizeof(f->attempt_id)) != NULL;

	for (size_t i = 0; i < f->n_attempts; i++)
		done &= map_get(k->by_id.done, &f->attempts[i], sizeof(f->attempts[i])) != NULL;
	return done;
}

/* Deletes Jobs of a run. */
struct sweep {
	struct kube_client *c;
	const char *ns;
	const struct kube_kind *kind;
	struct kube *k; /* delete only Jobs whose attempts' ends are on its record; NULL: all */
	size_t max;     /* Jobs to look at; 0: all */
	size_t n_seen, n_deleted;
};

/* A Job that is being deleted may stay in the list for long, because of a finalizer: skip it.
 */
static int sweep_job(void *arg, const json_t *object, struct err *err)
{
	struct sweep *s = arg;
	struct deletion d = { .kind = s->kind };
	struct job_facts f;
	int r = 0;

	if (job_facts_of(s->kind, object, &f) == 0 && !f.deleted && (!s->k || is_done(s->k, &f))) {
		memcpy(d.name, f.name, sizeof(d.name));
		memcpy(d.uid, f.uid, sizeof(d.uid));
		r = delete_at(s->c, s->ns, &d, err);
		s->n_deleted += r == 0;
	}
	job_facts_deinit(&f);
	return r == 0 && ++s->n_seen == s->max ? 1 : r;
}

static int sweep(struct sweep *s, const char *project, const char *run_id, int64_t timeout_ns,
		 struct err *err)
{
	_cleanup_(freep) char *selector = kube_selector(project, KUBE_LABEL_RUN "=%s", run_id);
	const struct kube_list l = { .group = s->kind->group,
				     .version = s->kind->version,
				     .ns = s->ns,
				     .resource = s->kind->resource,
				     .label_selector = selector,
				     .accept = KUBE_METADATA_LIST,
				     .timeout_ns = timeout_ns,
				     .item = sweep_job,
				     .arg = s };

	return kube_list_each(s->c, &l, err);
}

/* The first page is enough, or a refusal ends it: the time to live removes the rest. */
void runner_sweep(struct kube *k)
{
	struct sweep s = {
		.c = k->client, .ns = k->o.profile->namespace_, .k = k, .max = SWEEP_MAX
	};

	for (size_t i = 0; i < KUBE_KINDS && k->watches.run_id && map_len(k->by_id.done); i++) {
		s.kind = &kube_kinds[i];
		if (k->watches.jobs[i].watch)
			sweep(&s, k->o.profile->project, k->watches.run_id, 10 * NS_PER_S, NULL);
	}
}

/* A run without an engine. */

int kube_delete_run(struct kube_client *c, const char *namespace_, const char *project,
		    const char *run_id, size_t *ret_n, struct err *err)
{
	struct sweep s = { .c = c, .ns = namespace_ };
	int r = 0;

	/* A cluster without an operator has no objects of its, and an account that may not list
	 * them has made none. */
	for (size_t i = 0; i < KUBE_KINDS && r == 0; i++) {
		struct err why = { 0 };

		s.kind = &kube_kinds[i];
		r = sweep(&s, project, run_id, 0, &why);
		if (r < 0 && i > 0 && (why.code == ERR_NOT_FOUND || why.code == ERR_INVALID))
			r = 0;
		else if (r < 0 && err)
			*err = why;
	}
	*ret_n = s.n_deleted;
	return r;
}

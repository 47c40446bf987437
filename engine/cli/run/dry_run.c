/* engine/cli/run/dry_run.c — `cairn run --dry-run`: the objects that a cluster would get.
 *
 * The plan is made as for a run, and each task that would be executed goes through the functions
 * that the runner uses (attempt_of_step(), kube_job_object(), kube_gang_objects()). Ready tasks
 * share Jobs as the runner would share them (show_ready()).
 *
 * A task whose inputs aren't known yet gets the objects that it will have, except what depends on
 * those inputs: the specification in the store, the suffixes of its inputs' paths, which of them
 * are mounted out of the node's cache, and the nodes that it prefers. Tasks that aren't known
 * (`each` over data that hasn't been made) are shown as one.
 *
 * YAML is printed object by object, with comments. JSON is one List at the end, and comments go to
 * cli->err. With --dry-run=server each object is posted with dryRun=All and the answer is shown. An
 * object that the server refuses is shown as it was sent and counted, and the exit code is
 * CLI_INVALID.
 *
 * Invariants: nothing is created on the cluster and no content is put into the store; a
 * specification is only digested. Without `server` no cluster is needed.
 *
 * Threads: one. What it doesn't do: explain why tasks would run (cmd_plan.c).
 */
#include "cli/run/dry_run.h"

#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/text/yaml_json.h"
#include "run/project/cluster.h"
#include "run/task/attempt.h"
#include "run/task/near.h"
#include "runners/kubernetes/api/client.h"
#include "runners/kubernetes/job/pod_spec.h"

#define RUN_ID "dry-run"

struct dry_run {
	struct cli *cli;
	const struct pipeline *pipeline;
	struct session s;
	struct plan *plan;
	struct kube_access access;
	struct kube_profile profile;
	struct near *near;          /* NULL: nodes keep nothing */
	struct kube_client *client; /* NULL: don't ask the server */
	json_t *items;              /* items of a List; NULL: YAML, printed at once */
	uint64_t next_id;
	size_t n_objects, n_refused, n_hits, n_unknown;
	struct str yaml;
};

/* One task, or one in place of a step's unknown tasks. */
struct shown_task {
	struct runner_attempt a;
	struct task_command command;
	bool known;
};

/* Objects. */

/* Writes a comment in YAML; with JSON a note on cli->err. */
static void comment(struct dry_run *d, const char *text)
{
	_cleanup_(str_deinit) struct str line = { 0 };

	text_add_printable(&line, text, strlen(text));
	if (d->items)
		cli_note(d->cli, "%s", line.s);
	else
		str_addf(&d->yaml, "# %s\n", line.s);
}

/* Asks what the server would make of it; *ret stays NULL when it refuses. -1: no answer. */
static int ask_server(struct dry_run *d, const json_t *o, json_t **ret, struct err *why,
		      struct err *err)
{
	static const struct {
		const char *kind, *group, *version, *resource;
	} kinds[] = { { "Service", "", "v1", "services" },
		      { "NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies" } };
	_cleanup_(str_deinit) struct str path = { 0 };
	struct kube_call call = { .method = "POST", .body = o, .repeatable = true };
	const char *kind = json_string_value(json_object_get(o, "kind"));
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].kind, kind) == 0)
			kube_add_path(&path, kinds[i].group, kinds[i].version,
				      d->profile.namespace_, kinds[i].resource, NULL);
	for (size_t i = 0; i < KUBE_KINDS; i++) {
		const struct kube_kind *k = &kube_kinds[i];

		if (strcmp(k->kind, kind) == 0 || str_eq(k->base, kind))
			kube_add_path(&path, k->group, k->version, d->profile.namespace_,
				      strcmp(k->kind, kind) == 0 ? k->resource : k->base_resource,
				      NULL);
	}
	str_add(&path, "?dryRun=All&fieldValidation=Strict");
	call.path = path.s;
	if (kube_do(d->client, &call, why) == 0)
		*ret = json_incref(call.json);
	else if (call.status == 0)
		r = err_pass(err, why);
	kube_call_deinit(&call);
	return r;
}

/* An object that names one before it is refused by its operator's webhook, because a dry run has
 * made nothing that it could find. The API server calls webhooks last, and says so: by then the
 * account's right and all fields are found good. */
static bool misses_base(const json_t *base, const struct err *why)
{
	return base && strstr(why->msg, "admission webhook");
}

/* `base`: the object that must exist before this one; NULL: none. */
static int show_object(struct dry_run *d, const char *task, const json_t *o, const json_t *base,
		       struct err *err)
{
	_cleanup_(json_decrefp) json_t *made = NULL;
	_cleanup_(freep) char *refused = NULL;
	struct err why = { 0 };

	if (d->client && ask_server(d, o, &made, &why, err) < 0)
		return -1;
	if (d->client && !made && misses_base(base, &why)) {
		refused =
			xasprintf("%s: as it was sent: its operator looks for the %s, which a dry "
				  "run doesn't make: %s",
				  json_string_value(json_object_get(o, "kind")),
				  json_string_value(json_object_get(base, "kind")), why.msg);
		comment(d, refused);
	} else if (d->client && !made) {
		d->n_refused++;
		refused = xasprintf("%s: %s", task, why.msg);
		cli_warn(d->cli, "%s", refused);
		if (!d->items)
			comment(d, "refused by the server:");
		if (!d->items)
			comment(d, why.msg);
	}
	d->n_objects++;
	if (d->items) {
		json_array_append(d->items, made ? made : (json_t *)o);
		return 0;
	}
	yaml_add_json(&d->yaml, made ? made : o);
	cli_printf(d->cli, "%s%s", d->n_objects > 1 ? "---\n" : "", d->yaml.s);
	str_reset(&d->yaml);
	return 0;
}

/* Adds the bytes of a directory's files, until they are `enough`. */
static int add_sizes(int dir_fd, const char *name, uint64_t enough, uint64_t *bytes,
		     struct err *err)
{
	_cleanup_(closedirp) DIR *dir = fs_list_at(dir_fd, name, 0);
	struct dirent *e;
	int r = dir ? 0 : err_errno(err, "cannot read %s", name);

	while (r == 0 && *bytes < enough && (r = fs_next(dir, name, &e, err)) > 0) {
		struct stat st;

		r = 0;
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			r = err_errno(err, "cannot read %s", e->d_name);
		else if (S_ISDIR(st.st_mode))
			r = add_sizes(dirfd(dir), e->d_name, enough, bytes, err);
		else if (S_ISREG(st.st_mode))
			*bytes += (uint64_t)st.st_size;
	}
	return r;
}

/* What the runner asks before it mounts an input. It asks when the input is in the store; here a
 * directory of the project may not be. */
static int takes(void *arg, const struct content_id *id, uint64_t bytes, bool *ret, struct err *err)
{
	struct dry_run *d = arg;
	struct err why = { 0 };
	uint64_t sum = 0;
	size_t n;
	const struct plan_pin *pins = plan_pins(d->plan, &n);

	if (content_takes(d->s.store, id, bytes, ret, &why) == 0)
		return 0;
	if (why.code != ERR_NOT_FOUND)
		return err_pass(err, &why);
	for (size_t i = 0; i < n; i++) {
		_cleanup_(freep) char *path = NULL;

		if (!content_id_eq(&pins[i].id, id) || !str_has_prefix(pins[i].origin, "path:"))
			continue;
		path = config_path(d->s.config, pins[i].origin + strlen("path:"));
		if (add_sizes(AT_FDCWD, path, bytes, &sum, err) < 0)
			return -1;
		break;
	}
	*ret = sum >= bytes;
	return 0;
}

/* Shows the objects of one Job's tasks. */
static int show_job(struct dry_run *d, const struct shown_task *tasks, size_t n, size_t per_pod,
		    struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(freep) const struct runner_attempt **attempts = xcalloc(n, sizeof(*attempts));
	const struct runner_staging staging = { .takes = takes, .arg = d };
	_cleanup_(str_deinit) struct str text = { 0 }, about = { 0 };
	struct content_id spec = { .kind = CONTENT_BLOB };
	const struct kube_job job = { .profile = &d->profile,
				      .attempts = attempts,
				      .n = n,
				      .per_pod = per_pod,
				      .spec = &spec };
	json_t *base = NULL, *object = NULL, *more = NULL;
	int r;

	for (size_t i = 0; i < n; i++) {
		attempts[i] = &tasks[i].a;
		str_addf(&about, "%s%s", i ? ", " : "", tasks[i].a.task);
	}
	if (tasks[0].known) {
		if (kube_job_choose_views(&job, &staging, arena, attempts, err) < 0 ||
		    pod_spec_write(attempts, n, per_pod, &text, err) < 0)
			return -1;
		digest_bytes(text.s, text.len, &spec.digest);
		spec.size_bytes = text.len;
	} else {
		str_add(&about, ": waits for what is not made yet; its specification is not known");
		if (d->profile.cache_path || d->profile.cache_claim)
			str_add(&about, ", nor what it mounts out of the node's cache, nor which "
					"nodes it prefers");
	}
	r = kube_base_object(&job, &base, err);
	if (r == 0)
		r = kube_job_object(&job, &object, err);
	if (r == 0)
		r = kube_gang_objects(&job, NULL, &more, err);
	if (r == 0 && !d->client)
		comment(d, about.s);
	if (r == 0 && base)
		r = show_object(d, tasks[0].a.task, base, NULL, err);
	if (r == 0)
		r = show_object(d, tasks[0].a.task, object, base, err);
	for (size_t i = 0; i < json_array_size(more) && r == 0; i++)
		r = show_object(d, tasks[0].a.task, json_array_get(more, i), NULL, err);
	json_decref(base);
	json_decref(object);
	json_decref(more);
	return r;
}

/* Tasks. */

/* `t`: NULL in place of a step's unknown tasks. The command of a waiting task isn't known yet. */
static int make_task(struct dry_run *d, const struct step *s, const struct plan_task *t,
		     struct arena *arena, struct shown_task *ret, struct err *err)
{
	static const struct digest none;
	_cleanup_(str_deinit) struct str label = { 0 };
	bool known = t && t->state == TASK_READY;

	*ret = (struct shown_task){ .known = known };
	if (known && plan_task_command(d->plan, t, arena, &ret->command, err) < 0)
		return -1;
	if (t)
		plan_task_label(d->plan, t, &label);
	attempt_of_step(t ? plan_task_step(d->plan, t) : s, known ? &ret->command : NULL, arena,
			&ret->a);
	if (plan_step_sandbox(d->plan, s->index).strictness == STRICTNESS_STRICT)
		ret->a.on.pack = 1; /* as in a run */
	ret->a.id = d->next_id++;
	ret->a.run_id = RUN_ID;
	ret->a.number = 1;
	ret->a.task = t ? arena_strdup(arena, label.s) : arena_printf(arena, "%s[…]", s->name);
	ret->a.key = known ? &t->key : &none;
	ret->a.on.image = t ? plan_task_image(d->plan, t)
			    : plan_step_image(d->plan, s->index, &(const char *){ NULL });
	near_fill(d->near, arena, &ret->a);
	return 0;
}

static int show_unknown(struct dry_run *d, const struct step *s, const struct plan_task *t,
			struct arena *arena, struct err *err)
{
	struct shown_task st;

	d->n_unknown++;
	return make_task(d, s, t, arena, &st, err) < 0 ? -1 : show_job(d, &st, 1, 0, err);
}

static int show_ready(struct dry_run *d, const struct step *s, struct arena *arena, struct err *err)
{
	size_t n_tasks = plan_n_tasks(d->plan, s->index), n = 0;
	struct shown_task *tasks = arena_alloc(arena, (n_tasks + 1) * sizeof(*tasks));
	int r = 0;

	for (size_t i = 0; i < n_tasks && r == 0; i++) {
		const struct plan_task *t = plan_task_at(d->plan, s->index, i);

		if (t->state == TASK_READY)
			r = make_task(d, s, t, arena, &tasks[n++], err);
	}
	for (size_t i = 0, many; i < n && r == 0; i += many) {
		struct kube_capacity room; /* the first tasks that share a Job, as in the runner */

		many = 1;
		kube_job_capacity(&d->profile, &tasks[i].a, &room);
		while (many < n - i && many < room.pods * room.per_pod &&
		       kube_job_takes(&tasks[i].a, &tasks[i + many].a, room.pods == 1))
			many++;
		r = show_job(d, tasks + i, many, many > room.per_pod ? room.per_pod : 0, err);
	}
	for (size_t i = 0; i < n; i++)
		str_deinit(&tasks[i].command.key_record);
	return r;
}

static int show_step(struct dry_run *d, const struct step *s, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	if (!plan_step_expanded(d->plan, s->index) && !plan_step_selected(d->plan, s->index))
		return 0;
	if (s->approve) {
		_cleanup_(freep) char *text =
			xasprintf("%s: waits for approval, without a pod", s->name);

		comment(d, text);
		return 0;
	}
	if (!plan_step_expanded(d->plan, s->index))
		return show_unknown(d, s, NULL, arena, err);
	for (size_t i = 0; i < plan_n_tasks(d->plan, s->index); i++)
		d->n_hits += plan_task_at(d->plan, s->index, i)->state == TASK_STATE_HIT;
	if (show_ready(d, s, arena, err) < 0)
		return -1;
	for (size_t i = 0; i < plan_n_tasks(d->plan, s->index); i++) {
		const struct plan_task *t = plan_task_at(d->plan, s->index, i);

		if (t->state == TASK_WAITING && !t->unselected &&
		    show_unknown(d, s, t, arena, err) < 0)
			return -1;
	}
	return 0;
}

/* The command. */

/* Printing alone needs no cluster. */
static int find_cluster(struct dry_run *d, bool server, struct err *err)
{
	const char *namespace_ = d->s.config->kubernetes.access.namespace_;
	struct err why = { 0 };

	if (cluster_access(d->s.config, d->cli->arena, &d->access, &why) == 0)
		return 0;
	if (server || why.code != ERR_NOT_FOUND || d->s.config->kubernetes.access.kubeconfig)
		return err_pass(err, &why);
	d->access = (struct kube_access){ .namespace_ = namespace_ ? namespace_ : "default" };
	return 0;
}

static int show_all(struct dry_run *d, const struct run_options *o, bool server, struct err *err)
{
	const struct kube_client_options client = { .qps = 100, .burst = 200 };
	struct run_cluster where;
	struct err why = { 0 };
	int r = 0;

	if (session_open(&d->s, d->cli, false, err) < 0)
		return -1;
	if (!str_eq(d->s.config->runner, "kubernetes"))
		return err_set(err, ERR_USAGE,
			       "--dry-run shows what a cluster would get, but tasks run on this "
			       "machine: add --on kubernetes (`cairn plan` shows what would run)");
	if (find_cluster(d, server, err) < 0 ||
	    cluster_profile(d->s.config, &d->access, d->cli->arena, &d->profile, err) < 0)
		return -1;
	where = cluster_name(d->s.config, &d->access);
	d->near = near_new(d->s.config, d->s.db, &where, d->cli->arena);
	/* The image by its digest, as pods have it. */
	if (cli_images_own(d->s.images, &d->profile.cairn_image, &why) < 0)
		cli_note(d->cli, "%s: its digest isn't shown: %s", d->profile.cairn_image, why.msg);
	if ((server && kube_client_new(&d->access, &client, &d->client, err) < 0) ||
	    session_plan(&d->s, d->cli, d->pipeline, o, &d->plan, err) < 0)
		return -1;
	for (size_t i = 0; i < d->pipeline->n_steps && r == 0; i++)
		r = show_step(d, &d->pipeline->steps[d->pipeline->order[i]], err);
	return r;
}

int dry_run(struct cli *cli, const struct cli_args *args, const struct pipeline *p,
	    const struct run_options *o)
{
	struct dry_run d = { .cli = cli, .pipeline = p, .next_id = 1, .s = { .leases_fd = -1 } };
	bool server = str_eq(cli_value(args, "dry-run"), "server");
	struct err err = { 0 };
	int r;

	if (cli->json || str_eq(cli_value(args, "output"), "json"))
		d.items = json_array();
	r = show_all(&d, o, server, &err);
	if (r == 0 && d.items)
		cli_print_json(cli, NULL,
			       json_pack("{s:s, s:s, s:O}", "apiVersion", "v1", "kind", "List",
					 "items", d.items));
	if (r == 0)
		cli_note(cli, "%zu object%s%s; %zu task%s on record, without a pod", d.n_objects,
			 d.n_objects == 1 ? "" : "s",
			 d.client ? ", as the server would make them" : "", d.n_hits,
			 d.n_hits == 1 ? "" : "s");
	if (r == 0 && d.n_unknown)
		cli_note(cli, "%zu of them for tasks that are known only once others ran",
			 d.n_unknown);
	json_decref(d.items);
	if (r == 0 && d.n_objects)
		r = session_store_answered(&d.s, &err);
	kube_client_free(d.client);
	near_free(d.near);
	plan_free(d.plan);
	session_close(&d.s);
	str_deinit(&d.yaml);
	return r < 0 ? cli_fail(cli, &err) : d.n_refused ? CLI_INVALID : CLI_OK;
}

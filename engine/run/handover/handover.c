/* engine/run/handover/handover.c — `cairn run --detach`: what is sent, how it is checked, and the
 * row that it becomes.
 *
 * The sender plans the run like run_start(), which hashes and stores inputs and code, and takes the
 * plan's pins. handover_send() returns when the store that others read has all of it. The JSON has
 * one object for each part (files, params, options, inputs, git).
 *
 * The receiver trusts nothing. handover_from_json() reads each member with limits, checks that its
 * own store has all content, loads the pipeline from there, and then checks params and steps
 * against it. Options go through options_from_json() and are written anew, so that nothing unknown
 * gets into the row.
 *
 * The row says RUN_INTERRUPTED: the rest of the engine sees a run to resume. Its id is computed
 * from the request's id (id_of()). So the same request finds its own row; when another run has that
 * id, the next candidate is tried.
 *
 * Invariants: one request, one run. The row is durable before the sender gets an answer.
 *
 * Threads: the thread of the database handle. Not here: starting the run (serve/launch/launch.c),
 * HTTP (serve/api/handover.c).
 */
#include "run/handover/handover.h"

#include <stdio.h>
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/time/clock.h"
#include "plan/environment.h"
#include "record/facts.h"
#include "run/internal.h"
#include "run/task/git.h"

#define GIT_TEXT_MAX    4096
#define GIT_MODULES_MAX (64 * KIB)
#define IDS_TRIED       16

/* Tools and installed packages are those of the machine that executes the run. Tools are asked when
 * the run starts there, packages when it is received. */
static bool is_of_the_machine(const char *pin)
{
	return str_has_prefix(pin, "tool:") || str_eq(pin, PLAN_PIN_PACKAGES);
}

/* The sender's side. */

static int plan_pins_of(const struct run_context *ctx, const struct pipeline *p,
			const struct value *params, const struct run_options *o,
			struct arena *arena, struct handover *h, struct err *err)
{
	struct plan_context pc = { .config = ctx->config,
				   .pipeline = p,
				   .params = params,
				   .store = ctx->store,
				   .db = ctx->db,
				   .cache = ctx->cache,
				   .steps_program = ctx->steps_program };
	struct plan_options po = { .select = o->select, .hash_threads = ctx->hash_threads };
	_cleanup_(plan_freep) struct plan *plan = NULL;
	const struct plan_pin *pins;
	size_t n;

	if (plan_new(&pc, &po, &plan, err) < 0)
		return -1;
	if (ctx->cache)
		statcache_save(ctx->cache, NULL);
	pins = plan_pins(plan, &n);
	h->inputs = arena_alloc(arena, (n + 1) * sizeof(*h->inputs));
	for (size_t i = 0; i < n; i++)
		if (!is_of_the_machine(pins[i].name))
			h->inputs[h->n_inputs++] =
				(struct run_input_row){ arena_strdup(arena, pins[i].name),
							arena_strdup(arena, pins[i].origin),
							pins[i].id };
	return 0;
}

int handover_prepare(const struct run_context *ctx, const struct pipeline *p,
		     const struct run_options *o, struct arena *arena, struct handover *ret,
		     struct err *err)
{
	struct value *params = arena_alloc(arena, (pipeline_n_values(p) + 1) * sizeof(*params));
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct run_options asked = *o;
	struct git_query *look;
	int r;

	*ret = (struct handover){ .from_store = store_uri(ctx->store) };
	ret->request = arena_printf(arena, "%016llx%016llx", (unsigned long long)random_u64(),
				    (unsigned long long)random_u64());
	if (params_resolve(p, o->overrides, o->n_overrides, arena, params, diags, err) < 0)
		return -1;
	asked.served = true;
	asked.request = ret->request;
	if (row_describe(ctx, p, params, &asked, arena, &ret->row, err) < 0)
		return -1;
	look = git_query_start(ctx->config->project_root, ctx->config->state_dir);
	r = plan_pins_of(ctx, p, params, o, arena, ret, err);
	row_add_git(&ret->row, look, arena);
	return r;
}

/* Returns 1 when all content is there. */
static int is_complete(struct store *s, const struct handover *h, const char **ret_missing,
		       struct err *err)
{
	_cleanup_(freep) struct content_id *ids = xcalloc(h->n_inputs + 1, sizeof(*ids));
	_cleanup_(freep) bool *there = xcalloc(h->n_inputs + 1, sizeof(*there));

	ids[h->n_inputs] = h->row.pipeline_blob;
	for (size_t i = 0; i < h->n_inputs; i++)
		ids[i] = h->inputs[i].id;
	if (content_complete(s, ids, h->n_inputs + 1, there, err) < 0)
		return -1;
	for (size_t i = 0; i <= h->n_inputs; i++)
		if (!there[i]) {
			*ret_missing = i < h->n_inputs ? h->inputs[i].name : "the pipeline";
			return 0;
		}
	return 1;
}

int handover_send(struct store *s, const struct handover *h, struct err *err)
{
	const char *missing = NULL;
	struct err why = { 0 };
	/* With a shared store, the check also sends missing content that this machine has. */
	int r = is_complete(s, h, &missing, err);

	if (r == 0)
		return err_set(err, ERR_NOT_FOUND, "%s isn't in the store %s any more", missing,
			       store_uri(s));
	if (r < 0 || store_sync(s, err) < 0)
		return -1;
	return store_unsent(s, &why)
		       ? err_set(err, ERR_IO, "the content of the run could not be sent to %s: %s",
				 store_uri(s), why.msg)
		       : 0;
}

json_t *handover_to_json(const struct handover *h)
{
	const struct run_row *r = &h->row;
	json_t *inputs = json_array(), *git, *j = json_object();

	for (size_t i = 0; i < h->n_inputs; i++)
		json_array_append_new(inputs, json_pack("{s:o, s:o, s:o}", "name",
							facts_text(h->inputs[i].name), "origin",
							facts_text(h->inputs[i].origin), "content",
							facts_content(&h->inputs[i].id)));
	git = json_pack("{s:s?, s:o, s:b, s:o, s:s?}", "commit", r->git.commit, "author",
			facts_text(r->git.author), "dirty", r->git.dirty, "remote",
			facts_text(r->git.remote), "submodules", r->git.submodules);
	json_object_set_new(j, "request", json_string(h->request));
	json_object_set_new(j, "store", facts_text(h->from_store));
	json_object_set_new(j, "pipeline", json_string(r->pipeline));
	json_object_set_new(j, "path", facts_text(r->path));
	json_object_set_new(j, "files", facts_content(&r->pipeline_blob));
	json_object_set_new(j, "params", json_loads(r->params_json, 0, NULL));
	json_object_set_new(j, "options", json_loads(r->options_json, 0, NULL));
	json_object_set_new(j, "inputs", inputs);
	json_object_set_new(j, "git", git);
	return j;
}

/* The receiver's side: reading the request. */

/* A name of any bytes, as json_name() writes them. `nullable`: null or a missing member gives
 * NULL. */
static int read_name(const json_t *j, const char *key, bool nullable, size_t max,
		     struct arena *arena, const char **ret, struct err *err)
{
	_cleanup_(str_deinit) struct str raw = { 0 };
	const char *text;

	*ret = NULL;
	if (nullable ? json_get_str_opt(j, key, NULL, &text, err) < 0
		     : json_get_str(j, key, &text, err) < 0)
		return -1;
	if (!text)
		return 0;
	if (json_name_decode(&raw, text, err) < 0)
		return err_wrap(err, "`%s`", key);
	if (raw.len > max || memchr(raw.len ? raw.s : "", '\0', raw.len))
		return err_set(err, ERR_INVALID, "`%s` is longer than %zu bytes, or holds NUL", key,
			       max);
	*ret = arena_strndup(arena, raw.len ? raw.s : "", raw.len);
	return 0;
}

static int read_content(const json_t *j, const char *key, struct content_id *ret, struct err *err)
{
	const char *id, *kind;
	json_t *o;

	if (json_get_object(j, key, &o, err) < 0)
		return -1;
	if (json_get_str(o, "id", &id, err) < 0 || json_get_str(o, "kind", &kind, err) < 0 ||
	    json_get_uint(o, "size", &ret->size_bytes, err) < 0 ||
	    digest_parse(id, &ret->digest, err) < 0)
		return err_wrap(err, "`%s`", key);
	ret->kind = (uint8_t)content_kind_parse(kind);
	return ret->kind == CONTENT_NONE
		       ? err_set(err, ERR_INVALID,
				 "`%s`: `kind` must be blob, executable, tree or reference", key)
		       : 0;
}

static int read_inputs(const json_t *j, struct arena *arena, struct handover *ret, struct err *err)
{
	json_t *list;

	if (json_get_array(j, "inputs", &list, err) < 0)
		return -1;
	if (json_array_size(list) > HANDOVER_INPUTS_MAX)
		return err_set(err, ERR_TOO_LARGE, "`inputs` has more than %d members",
			       HANDOVER_INPUTS_MAX);
	ret->inputs = arena_alloc(arena, (json_array_size(list) + 1) *
						 sizeof(*ret->inputs)); /* 1: packages */
	for (size_t i = 0; i < json_array_size(list); i++) {
		struct run_input_row *in = &ret->inputs[i];
		const json_t *o = json_array_get(list, i);

		if (!json_is_object(o))
			return err_set(err, ERR_INVALID, "`inputs[%zu]` must be an object", i);
		if (read_name(o, "name", false, HANDOVER_NAME_MAX, arena, &in->name, err) < 0 ||
		    read_name(o, "origin", false, HANDOVER_NAME_MAX, arena, &in->origin, err) < 0 ||
		    read_content(o, "content", &in->id, err) < 0)
			return err_wrap(err, "`inputs[%zu]`", i);
		if (!str_has_prefix(in->name, "input:") && !str_has_prefix(in->name, "code:") &&
		    !str_has_prefix(in->name, "lock:") && !str_eq(in->name, PLAN_PIN_SANDBOX))
			return err_set(err, ERR_INVALID,
				       "`inputs[%zu]`: `name` must be " PLAN_PIN_SANDBOX
				       " or begin with input:, code: or lock:",
				       i);
		ret->n_inputs++;
	}
	return 0;
}

/* The packages of the Python environment that is active here are part of the keys, as of those of a
 * run that began here. */
static int add_packages(struct store *s, struct arena *arena, struct handover *h, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct content_id id;

	if (plan_packages_on_path(getenv("PATH"), &text, err) < 0)
		return -1;
	if (text.len == 0)
		return 0;
	if (content_put_bytes(s, text.s, text.len, &id, err) < 0)
		return -1;
	h->inputs[h->n_inputs++] = (struct run_input_row){ PLAN_PIN_PACKAGES, "PATH", id };
	return 0;
}

static bool is_hex(const char *s, size_t min, size_t max)
{
	size_t n = strspn(s, "0123456789abcdef");

	return s[n] == '\0' && n >= min && n <= max;
}

static int read_git(const json_t *j, struct arena *arena, struct run_row *row, struct err *err)
{
	_cleanup_(json_decrefp) json_t *modules = NULL;
	json_t *git = json_object_get(j, "git");

	if (!git || json_is_null(git))
		return 0;
	if (!json_is_object(git))
		return err_set(err, ERR_INVALID, "`git` must be an object");
	if (read_name(git, "commit", true, 64, arena, &row->git.commit, err) < 0 ||
	    read_name(git, "author", true, GIT_AUTHOR_MAX, arena, &row->git.author, err) < 0 ||
	    json_get_bool_opt(git, "dirty", false, &row->git.dirty, err) < 0 ||
	    read_name(git, "remote", true, GIT_TEXT_MAX, arena, &row->git.remote, err) < 0 ||
	    read_name(git, "submodules", true, GIT_MODULES_MAX, arena, &row->git.submodules, err) <
		    0)
		return err_wrap(err, "`git`");
	if (row->git.commit && !is_hex(row->git.commit, 40, 64))
		return err_set(err, ERR_INVALID,
			       "`git`: `commit` must be 40 or 64 hexadecimal digits");
	if (row->git.remote) {
		_cleanup_(freep) char *clean = git_url_without_secrets(row->git.remote);

		row->git.remote = arena_strdup(arena, clean ? clean : "");
	}
	if (row->git.submodules && (json_parse("`git`: `submodules`", row->git.submodules,
					       strlen(row->git.submodules), &modules, err) < 0 ||
				    !json_is_array(modules)))
		return modules ? err_set(err, ERR_INVALID,
					 "`git`: `submodules` must be an array, as text")
			       : -1;
	return 0;
}

/* Refuses the options of a reproduction or a schedule's run. Sets the options that the receiver
 * decides. */
static int read_options(const json_t *j, struct arena *arena, struct handover *ret,
			struct run_options *o, struct err *err)
{
	json_t *given = json_object_get(j, "options");
	_cleanup_(str_deinit) struct str text = { 0 };

	if (!json_is_object(given))
		return err_set(err, ERR_INVALID, "`options` must be an object");
	json_add_canonical(&text, given);
	if (options_from_json(text.s, arena, o, err) < 0)
		return err_wrap(err, "`options`");
	if (o->kind != RUN_NEW || o->firing.times)
		return err_set(
			err, ERR_INVALID,
			"`options`: a reproduction or a schedule's run can't be handed over");
	o->served = true;
	o->unbegun = 0;
	o->runner = NULL;
	o->keep_workspace = false;
	o->request = ret->request;
	ret->row.options_json = options_to_json(o, arena);
	return 0;
}

static int check_steps(const struct pipeline *p, const struct run_options *o, struct err *err)
{
	const struct plan_selection *v = &o->select;
	const char *const single[] = { v->from, v->until };

	for (size_t i = 0; i < v->n_targets + v->n_force + ARRAY_LEN(single); i++) {
		const char *name = i < v->n_targets ? v->targets[i]
				   : i < v->n_targets + v->n_force
					   ? v->force[i - v->n_targets]
					   : single[i - v->n_targets - v->n_force];
		_cleanup_(freep) char *step = name ? xstrndup(name, strcspn(name, "[")) : NULL;
		size_t n;

		if (name && !str_eq(name, "*") && !pipeline_find_steps(p, step, &n))
			return err_set(err, ERR_INVALID,
				       "`options`: pipeline %s has no step `%.60s`", p->name, name);
	}
	return 0;
}

static int check_params(const json_t *j, const struct pipeline *p, struct arena *arena,
			struct run_row *row, struct err *err)
{
	struct value *given = arena_alloc(arena, (pipeline_n_values(p) + 1) * sizeof(*given)),
		     *checked = arena_alloc(arena, (pipeline_n_values(p) + 1) * sizeof(*checked));
	json_t *params = json_object_get(j, "params"), *v;
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *name;

	if (!json_is_object(params))
		return err_set(err, ERR_INVALID, "`params` must be an object");
	json_object_foreach(params, name, v)
	{
		bool known = false;

		for (size_t i = 0; i < p->n_params && !known; i++)
			known = str_eq(p->params[i].name, name);
		if (!known)
			return err_set(err, ERR_INVALID,
				       "`params`: pipeline %s has no param `%.60s`", p->name, name);
	}
	json_add_canonical(&text, params);
	if (params_from_json(p, text.s, arena, given, err) < 0)
		return -1;
	for (size_t i = 0; i < p->n_params; i++)
		if (param_check_value(&p->params[i], &given[i], &checked[i], err) < 0)
			return err_wrap(err, "`params`: `%s`", p->params[i].name);
	row->params_json = params_to_json(p, checked, arena);
	return 0;
}

static int check_pipeline(const json_t *j, struct store *s, const struct run_options *o,
			  struct arena *arena, struct handover *ret, struct err *err)
{
	const char *name, *missing = NULL;
	struct pipeline *p = NULL;
	struct err why = { 0 };
	int r;

	if (ret->row.pipeline_blob.kind != CONTENT_TREE)
		return err_set(err, ERR_INVALID, "`files` must be a tree");
	r = is_complete(s, ret, &missing, err);
	if (r < 0)
		return -1;
	if (r == 0) { /* wrong store, or the content was never put there */
		bool same = str_eq(ret->from_store, store_uri(s));

		return err_set(err, ERR_NOT_FOUND,
			       "%s isn't in this server's store, %s%s%s: it must be the store that "
			       "the run's content was put into",
			       missing, store_uri(s), same ? "" : "; it came from ",
			       same ? "" : ret->from_store);
	}

	if (pipeline_files_load(s, &ret->row.pipeline_blob, ret->row.path, &p, &why) < 0)
		return err_set(err, why.code == ERR_IO ? ERR_IO : ERR_INVALID, "%s", why.msg);
	r = json_get_str(j, "pipeline", &name, err);
	if (r == 0 && !str_eq(name, p->name))
		r = err_set(err, ERR_INVALID, "`pipeline` says %.60s, but its file is that of %s",
			    name, p->name);
	ret->row.pipeline = arena_strdup(arena, p->name);
	if (r == 0)
		r = check_params(j, p, arena, &ret->row, err);
	if (r == 0)
		r = check_steps(p, o, err);
	pipeline_free(p);
	return r;
}

int handover_from_json(const json_t *j, struct store *s, struct arena *arena, struct handover *ret,
		       struct err *err)
{
	struct run_options o = { 0 };

	*ret = (struct handover){ 0 };
	if (read_name(j, "request", false, 32, arena, &ret->request, err) < 0)
		return -1;
	if (!is_hex(ret->request, 32, 32))
		return err_set(err, ERR_INVALID, "`request` must be 32 hexadecimal digits");
	if (read_name(j, "store", false, HANDOVER_NAME_MAX, arena, &ret->from_store, err) < 0 ||
	    read_name(j, "path", false, HANDOVER_NAME_MAX, arena, &ret->row.path, err) < 0 ||
	    read_content(j, "files", &ret->row.pipeline_blob, err) < 0 ||
	    read_inputs(j, arena, ret, err) < 0 || read_git(j, arena, &ret->row, err) < 0 ||
	    read_options(j, arena, ret, &o, err) < 0 ||
	    check_pipeline(j, s, &o, arena, ret, err) < 0 || add_packages(s, arena, ret, err) < 0)
		return -1;
	ret->row.state = RUN_INTERRUPTED;
	ret->row.started_ns = clock_wall_ns();
	return 0;
}

/* The receiver's side: the run's row. */

/* An id like record_run_add()'s, but the same for the same request. */
static const char *id_of(const struct handover *h, unsigned n, struct arena *arena)
{
	_cleanup_(freep) char *text = xasprintf("%s %u", h->request, n);
	struct digest d;
	char suffix[RANDOM_LETTERS + 1] = "";

	digest_bytes(text, strlen(text), &d);
	for (int i = 0; i < RANDOM_LETTERS; i++)
		suffix[i] = RANDOM_ALPHABET[d.b[i] % (sizeof(RANDOM_ALPHABET) - 1)];
	return arena_printf(arena, "%s-%s", h->row.pipeline, suffix);
}

/* 1: the run with this id belongs to this request; 0: to another one. */
static int is_same(struct db *db, struct handover *h, struct arena *arena, struct err *err)
{
	struct run_options o;
	struct run_row row;

	if (record_run_by_id(db, h->row.id, arena, &row, err) <= 0 ||
	    options_from_json(row.options_json, arena, &o, err) < 0)
		return -1;
	if (!str_eq(o.request, h->request))
		return 0;
	h->row = row;
	return 1;
}

static int insert(struct db *db, struct handover *h, struct arena *arena, struct err *err)
{
	int taken = 1, r = 0;

	for (unsigned n = 0; taken == 1 && n < IDS_TRIED; n++) {
		h->row.id = id_of(h, n, arena);
		taken = record_run_insert(db, &h->row, err);
		if (taken == 1 && (r = is_same(db, h, arena, err)) != 0)
			return r;
	}
	if (taken < 0)
		return -1;
	if (taken == 1)
		return err_set(err, ERR_EXISTS, "no free run id was found for pipeline %s",
			       h->row.pipeline);
	for (size_t i = 0; r == 0 && i < h->n_inputs; i++)
		r = record_run_input(db, h->row.rowid, h->inputs[i].name, h->inputs[i].origin,
				     &h->inputs[i].id, err);
	return r == 0 ? record_run_update(db, &h->row, err) : r;
}

int handover_record(struct db *db, struct handover *h, struct arena *arena, struct err *err)
{
	char host[MACHINE_NAME_BYTES];

	/* A user who may hand runs over may also start them here. A row without a host would count
	 * as a stranger's. */
	h->row.engine.host = arena_strdup(arena, machine_name(host));
	if (db_begin(db, err) < 0)
		return -1;
	h->row.rowid = 0;
	return db_finish_durable(db, insert(db, h, arena, err), err);
}

/* engine/record/export/ro_crate.c — a run as a directory: RO-Crate 1.1
 * (https://w3id.org/ro/crate/1.1), with actions of the Process Run Crate profile.
 *
 * The crate is made beside its place under another name, and renamed when it is complete. First the
 * data is copied out of the store (pipeline, inputs, outputs), each with its entity; then come
 * params and one CreateAction for each attempt; then the crate's own entities and
 * ro-crate-metadata.json.
 *
 * `files` finds the entity that an action names: an input by digest, an output by path in the
 * crate, a step by URI. Steps become SoftwareApplications when the first action needs them.
 *
 * Invariants: content that is gone from the store is an entity with its digest and no file, never
 * an error. A name from the record becomes one component of a path (place()). After a failure
 * nothing is left at `path`.
 *
 * Threads: the thread of the handle. Not here: reading the record (export.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/map.h"
#include "base/net/http.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "record/export/export.h"

#define PROCESS_PROFILE "https://w3id.org/ro/wfrun/process/0.5"

struct crate {
	struct export_run *x;
	int dir; /* the crate's directory */
	json_t *graph, *parts, *actions;
	struct map *files; /* digest → path of its content */
	const char *license;
};

static json_t *ref(const char *id)
{
	return json_pack("{s:s}", "@id", id);
}

static json_t *entity(struct crate *c, const char *id, const char *type)
{
	json_t *o = json_object();

	json_object_set_new(o, "@id", json_string(id));
	json_object_set_new(o, "@type", json_string(type));
	json_array_append_new(c->graph, o);
	return o;
}

/* RO-Crate wants a single value without a list. */
static void set_list(json_t *o, const char *key, json_t *list)
{
	if (json_array_size(list) == 1)
		json_object_set(o, key, json_array_get(list, 0));
	else if (json_array_size(list) > 1)
		json_object_set(o, key, list);
	json_decref(list);
}

/* The profile's shape accepts offsets, but no Z. */
static json_t *action_time(struct crate *c, int64_t wall_ns)
{
	const char *t = export_time(c->x->arena, wall_ns);

	return json_sprintf("%.*s+00:00", (int)strlen(t) - 1, t);
}

/* Data. */

/* A path as a URI in the crate: names may hold any bytes. */
static const char *escaped(struct crate *c, const char *path)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	http_escape(&s, path, strlen(path), true);
	return arena_strndup(c->x->arena, s.s, s.len);
}

/* Writes the content to `path` in the crate. Content that is gone from the store still gets an
 * entity with its digest, but no file. */
static int add_data(struct crate *c, const char *path, const char *name, const char *origin,
		    const struct content_id *id, struct err *err)
{
	struct export_run *x = c->x;
	struct err why = { 0 };
	const char *uri;
	void **slot;
	bool is_new;
	json_t *o;

	uri = arena_printf(x->arena, "%s%s", escaped(c, path), id->kind == CONTENT_TREE ? "/" : "");
	if (content_materialise_beneath(x->store, id, CONTENT_COPY_WRITABLE, c->dir, path, &why) <
	    0) {
		if (why.code != ERR_NOT_FOUND)
			return err_set(err, why.code, "%s: %s", path, why.msg);
		uri = arena_printf(x->arena, "urn:cairn:content:sha256:%s",
				   export_hex(x->arena, &id->digest));
	}
	slot = map_slot(c->files, id->digest.b, DIGEST_BYTES, &is_new);
	if (is_new)
		*slot = (void *)uri;
	else if (why.code != ERR_NONE) /* has an entity already */
		return 0;
	*map_slot_str(c->files, path) = (void *)uri;
	o = entity(c, uri, id->kind == CONTENT_TREE ? "Dataset" : "File");
	json_object_set_new(o, "name", facts_text(name));
	json_object_set_new(o, "identifier",
			    json_sprintf("sha256:%s", export_hex(x->arena, &id->digest)));
	if (content_is_file(id)) {
		json_object_set_new(o, "contentSize",
				    json_sprintf("%llu", (unsigned long long)id->size_bytes));
		json_object_set_new(o, "encodingFormat", json_string("application/octet-stream"));
		if (id->size_bytes <= CONTENT_PART_BYTES)
			json_object_set_new(o, "sha256",
					    json_string(export_hex(x->arena, &id->digest)));
	}
	if (origin)
		json_object_set_new(o, "description",
				    json_sprintf("from %s", export_uri(x->arena, origin)));
	if (why.code == ERR_NONE)
		json_array_append_new(c->parts, ref(uri));
	return 0;
}

/* A name from the record as one path component: names of tasks, and of inputs written as URIs, may
 * hold a slash. */
static const char *place(struct crate *c, const char *where, const char *name)
{
	_cleanup_(freep) char *safe = fs_file_name(name);

	return arena_printf(c->x->arena, "%s/%s", where, safe);
}

static const char *output_path(struct crate *c, const char *task, const char *output)
{
	return place(c, place(c, "outputs", task), output);
}

static int add_outputs(struct crate *c, struct err *err)
{
	for (size_t t = 0; t < c->x->n_tasks; t++)
		for (size_t i = 0; i < c->x->tasks[t].n_outputs; i++) {
			const struct facts_task *task = &c->x->tasks[t];
			const struct named_content *o = &task->outputs[i];

			if (o->id.kind &&
			    add_data(c, output_path(c, task->task, o->name),
				     arena_printf(c->x->arena, "%s/%s", task->task, o->name), NULL,
				     &o->id, err) < 0)
				return -1;
		}
	return 0;
}

/* Actions. */

static const char *instrument(struct crate *c, const char *step)
{
	const char *id = arena_printf(c->x->arena, "urn:cairn:step:%s:%s", c->x->run->pipeline,
				      escaped(c, step));
	void **slot = map_slot_str(c->files, id);
	json_t *o;

	if (!*slot) {
		*slot = (void *)id;
		o = entity(c, id, "SoftwareApplication");
		json_object_set_new(o, "name", facts_text(step));
		json_object_set_new(
			o, "description",
			json_sprintf("step %s of the pipeline %s", step, c->x->run->pipeline));
		json_object_set_new(o, "url", json_string("pipeline/"));
		json_object_set_new(
			o, "softwareVersion",
			json_string(c->x->run->git.commit ? c->x->run->git.commit : "unversioned"));
	}
	return id;
}

/* task: the one whose outputs these are; NULL: inputs. */
static json_t *objects(struct crate *c, const char *task, const struct named_content *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		const char *id = task ? map_get_str(c->files, output_path(c, task, v[i].name))
				      : map_get(c->files, v[i].id.digest.b, DIGEST_BYTES);

		if (id)
			json_array_append_new(list, ref(id));
	}
	return list;
}

static void describe_params(struct crate *c)
{
	const char *name;
	json_t *v;

	json_object_foreach(c->x->params, name, v)
	{
		json_t *o =
			entity(c, arena_printf(c->x->arena, "#param-%s", name), "PropertyValue");
		_cleanup_(str_deinit) struct str s = { 0 };

		json_add_canonical(&s, v);
		json_object_set_new(o, "name", json_string(name));
		json_object_set_new(o, "value",
				    json_is_string(v) ? json_incref(v) : json_stringn(s.s, s.len));
	}
}

static void add_action(struct crate *c, const struct attempt_record *a)
{
	const char *id = arena_printf(c->x->arena, "#attempt-%lld", (long long)a->row.id);
	json_t *o = entity(c, id, "CreateAction"),
	       *object = objects(c, NULL, a->inputs, a->n_inputs);
	const char *problem = export_problem(c->x, &a->row), *param;
	json_t *v;

	json_object_foreach(c->x->params, param, v)
		json_array_append_new(object, ref(arena_printf(c->x->arena, "#param-%s", param)));

	json_object_set_new(o, "name", facts_text(a->row.task));
	json_object_set_new(o, "description",
			    json_sprintf("attempt %u of task %s", a->row.number, a->row.task));
	json_object_set_new(o, "instrument", ref(instrument(c, a->row.step)));
	json_object_set_new(o, "agent", ref("#cairn"));
	json_object_set_new(o, "startTime", action_time(c, a->row.started_ns));
	json_object_set_new(o, "endTime", action_time(c, export_ended_ns(c->x, &a->row)));
	json_object_set_new(o, "actionStatus",
			    json_string(problem ? "http://schema.org/FailedActionStatus"
						: "http://schema.org/CompletedActionStatus"));
	if (problem)
		json_object_set_new(o, "error", facts_text(problem));
	set_list(o, "object", object);
	set_list(o, "result", objects(c, a->row.task, a->outputs, a->n_outputs));
	json_array_append_new(c->actions, ref(id));
}

/* The crate itself. */

static void describe_crate(struct crate *c)
{
	const struct run_row *run = c->x->run;
	json_t *o = entity(c, "ro-crate-metadata.json", "CreativeWork");

	json_object_set_new(o, "conformsTo", ref("https://w3id.org/ro/crate/1.1"));
	json_object_set_new(o, "about", ref("./"));
	o = entity(c, "./", "Dataset");
	json_object_set_new(o, "name",
			    json_sprintf("run %s of the pipeline %s", run->id, run->pipeline));
	json_object_set_new(
		o, "description",
		json_sprintf(
			"Inputs, outputs and provenance of one execution of the pipeline %s%s%s",
			run->pipeline, run->has_hash ? ", run hash " : "",
			run->has_hash ? export_hex(c->x->arena, &run->hash) : ""));
	json_object_set_new(o, "datePublished",
			    json_string(export_time(c->x->arena, run->ended_ns)));
	json_object_set_new(o, "license", ref(c->license ? c->license : "#license"));
	json_object_set_new(o, "conformsTo", ref(PROCESS_PROFILE));
	set_list(o, "hasPart", json_incref(c->parts));
	set_list(o, "mentions", json_incref(c->actions));
	o = entity(c, PROCESS_PROFILE, "CreativeWork");
	json_object_set_new(o, "name", json_string("Process Run Crate"));
	json_object_set_new(o, "version", json_string("0.5"));
	o = entity(c, c->license ? c->license : "#license", "CreativeWork");
	json_object_set_new(o, "name", json_string(c->license ? c->license : "not stated"));
	json_object_set_new(
		o, "description",
		json_string(
			c->license
				? "the licence of this crate"
				: "The run doesn't say under which licence its data may be used."));
	o = entity(c, "#cairn", "Organization");
	json_object_set_new(o, "name", json_string("cairn " CAIRN_VERSION));
	if (run->git.remote)
		json_object_set_new(o, "url", facts_text(run->git.remote));
}

static int fill(struct crate *c, struct err *err)
{
	char *dumped;
	json_t *all;
	int r;

	if (c->x->run->pipeline_blob.kind &&
	    add_data(c, "pipeline", "the pipeline", NULL, &c->x->run->pipeline_blob, err) < 0)
		return -1;
	for (size_t i = 0; i < c->x->n_pins; i++) {
		const struct run_input_row *p = &c->x->pins[i];
		const char *name =
			str_has_prefix(p->name, "input:") ? p->name + strlen("input:") : NULL;

		if (name && add_data(c, place(c, "inputs", name), name, p->origin, &p->id, err) < 0)
			return -1;
	}
	if (add_outputs(c, err) < 0)
		return -1;
	describe_params(c);
	for (size_t i = 0; i < c->x->n_attempts; i++)
		add_action(c, &c->x->attempts[i]);
	describe_crate(c);
	all = json_pack("{s:s, s:O}", "@context", "https://w3id.org/ro/crate/1.1/context", "@graph",
			c->graph);
	dumped = json_dumps(all, JSON_INDENT(2) | JSON_SORT_KEYS);
	json_decref(all);
	r = fs_write_atomic_at(c->dir, "ro-crate-metadata.json", dumped, strlen(dumped), 0644, 0,
			       err);
	free(dumped);
	return r;
}

int export_ro_crate(struct export_run *x, const char *path, const char *license, struct err *err)
{
	struct crate c = { .x = x,
			   .dir = -1,
			   .graph = json_array(),
			   .parts = json_array(),
			   .actions = json_array(),
			   .files = map_new(),
			   .license = license };
	_cleanup_(freep) char *temp = xasprintf("%s.tmp-%d", path, (int)getpid());
	bool is_made = false;
	int r = -1;

	if (access(path, F_OK) == 0)
		err_set(err, ERR_EXISTS, "%s is there already: a crate goes into a new directory",
			path);
	else if (mkdir(temp, 0777) < 0)
		err_errno(err, "cannot make %s", temp);
	else
		is_made = true;
	if (is_made && (c.dir = open(temp, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
		err_errno(err, "cannot open %s", temp);
	if (c.dir >= 0) {
		r = fill(&c, err);
		close(c.dir);
	}
	if (r == 0 && rename(temp, path) < 0)
		r = err_errno(err, "cannot make %s", path);
	if (r < 0 && is_made)
		fs_remove_tree(temp, NULL);
	json_decref(c.graph);
	json_decref(c.parts);
	json_decref(c.actions);
	map_free(c.files);
	return r;
}

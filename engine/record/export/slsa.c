/* engine/record/export/slsa.c — outputs of a run as SLSA provenance v1
 * (https://slsa.dev/spec/v1.0/provenance) in an in-toto Statement v1.
 *
 * Subjects are the outputs: every file with the SHA-256 of its bytes, a tree also as a whole under
 * "cairnTree". resolvedDependencies are the git commit, the pipeline, the pinned inputs and code,
 * and for one task the outputs of other tasks that it read. runDetails have the times, with logs
 * and manifest as byproducts.
 *
 * Invariants: "sha256" is always the SHA-256 of a file's bytes. A file of more than
 * CONTENT_PART_BYTES has another digest in its id, so it is read. When it is gone, a dependency is
 * named by "cairnBlob", and a subject is an error. Subjects and depth are bounded (SUBJECTS_MAX,
 * DEPTH_MAX).
 *
 * Threads: the thread of the handle. Not here: signing the statement.
 */
#include "base/text/text.h"
#include "record/export/export.h"

#define SUBJECTS_MAX 20000
#define DEPTH_MAX    64

static const char *algorithm_of(const struct content_id *id)
{
	return id->kind == CONTENT_TREE        ? "cairnTree"
	       : id->kind == CONTENT_REFERENCE ? "cairnReference"
					       : "sha256";
}

static json_t *descriptor(const char *name, const char *uri, const char *algorithm, const char *hex)
{
	json_t *o = json_object();

	if (name)
		json_object_set_new(o, "name", facts_text(name));
	if (uri)
		json_object_set_new(o, "uri", facts_text(uri));
	json_object_set_new(o, "digest", json_pack("{s:s}", algorithm, hex));
	return o;
}

/* Subjects. */

static int add_file(struct export_run *x, json_t *list, const char *name,
		    const struct content_id *id, struct err *err)
{
	struct digest d;

	if (json_array_size(list) >= SUBJECTS_MAX)
		return err_set(err, ERR_TOO_LARGE, "more than %d files: name one output",
			       SUBJECTS_MAX);
	if (export_sha256(x->store, id, &d, err) < 0)
		return err_wrap(err, "%s", name);
	json_array_append_new(list, descriptor(name, NULL, "sha256", export_hex(x->arena, &d)));
	return 0;
}

static int add_tree(struct export_run *x, json_t *list, const char *name,
		    const struct content_id *id, unsigned depth, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	int r = 0;

	if (depth > DEPTH_MAX)
		return err_set(err, ERR_TOO_LARGE, "%s is nested deeper than %d", name, DEPTH_MAX);
	if (tree_load(x->store, id, &t, err) < 0)
		return err_wrap(err, "%s", name);
	for (size_t i = 0; r == 0 && i < tree_len(t); i++) {
		const struct tree_entry *e = tree_at(t, i);
		const char *path = arena_printf(x->arena, "%s/%s", name, e->name);

		if (e->kind == TREE_DIR)
			r = add_tree(x, list, path, &e->id, depth + 1, err);
		else if (tree_entry_is_kept(e))
			r = add_file(x, list, path, &e->id, err);
	}
	return r;
}

static int add_subject(struct export_run *x, json_t *list, const char *name,
		       const struct content_id *id, struct err *err)
{
	if (content_is_file(id))
		return add_file(x, list, name, id, err);
	json_array_append_new(
		list, descriptor(name, NULL, algorithm_of(id), export_hex(x->arena, &id->digest)));
	return id->kind == CONTENT_TREE ? add_tree(x, list, name, id, 0, err) : 0;
}

static int subjects(struct export_run *x, const struct facts_task *task, const char *output,
		    json_t *list, struct err *err)
{
	for (size_t t = 0; t < x->n_tasks; t++) {
		const struct facts_task *one = &x->tasks[t];

		for (size_t i = 0; i < one->n_outputs && (!task || task == one); i++)
			if ((!output || str_eq(output, one->outputs[i].name)) &&
			    one->outputs[i].id.kind &&
			    add_subject(x, list,
					arena_printf(x->arena, "%s/%s", one->task,
						     one->outputs[i].name),
					&one->outputs[i].id, err) < 0)
				return -1;
	}
	return json_array_size(list) ? 0
				     : err_set(err, ERR_NOT_FOUND, "there is no output to attest");
}

/* Dependencies. */

static int add_content(struct export_run *x, json_t *list, const char *name, const char *uri,
		       const struct content_id *id, struct err *err)
{
	struct digest d = id->digest;

	/* An input that is gone from the store is still named, by its id. */
	if (content_is_file(id) && id->size_bytes > CONTENT_PART_BYTES &&
	    export_sha256(x->store, id, &d, NULL) < 0) {
		json_array_append_new(list, descriptor(name, uri, "cairnBlob",
						       export_hex(x->arena, &id->digest)));
		return 0;
	}
	json_array_append_new(list,
			      descriptor(name, uri, algorithm_of(id), export_hex(x->arena, &d)));
	return 0;
}

/* The run's pins (inputs, code), the pipeline, the commit; for one task, also the outputs of other
 * tasks that it read. */
static int dependencies(struct export_run *x, const struct facts_task *task, json_t *list,
			struct err *err)
{
	const struct run_row *run = x->run;

	if (run->git.commit)
		json_array_append_new(
			list,
			descriptor("git",
				   run->git.remote ? arena_printf(x->arena, "git+%s@%s",
								  run->git.remote, run->git.commit)
						   : NULL,
				   "gitCommit", run->git.commit));
	if (run->pipeline_blob.kind &&
	    add_content(x, list, "pipeline",
			run->path
				? export_uri(x->arena, arena_printf(x->arena, "path:%s", run->path))
				: NULL,
			&run->pipeline_blob, err) < 0)
		return -1;
	for (size_t i = 0; i < x->n_pins; i++) {
		const char *name = x->pins[i].name;

		if ((str_has_prefix(name, "input:") ||
		     (str_has_prefix(name, "code:") && (!task || str_eq(name + 5, task->step)))) &&
		    add_content(x, list, name,
				str_has_prefix(name, "input:")
					? export_uri(x->arena, x->pins[i].origin)
					: NULL,
				&x->pins[i].id, err) < 0)
			return -1;
	}
	for (size_t i = 0; task && i < x->n_attempts; i++)
		for (size_t k = 0;
		     str_eq(x->attempts[i].row.task, task->task) && k < x->attempts[i].n_inputs;
		     k++) {
			const struct named_content *in = &x->attempts[i].inputs[k];

			if (!export_input(x, &in->id) &&
			    add_content(x, list, arena_printf(x->arena, "read:%s", in->name), NULL,
					&in->id, err) < 0)
				return -1;
		}
	return 0;
}

static json_t *run_details(struct export_run *x, const struct facts_task *task)
{
	const struct run_row *run = x->run;
	json_t *byproducts = json_array(), *metadata = json_object();
	int64_t started = run->started_ns, ended = run->ended_ns;

	for (size_t i = 0; i < x->n_attempts; i++) {
		const struct attempt_row *a = &x->attempts[i].row;

		if (task && !str_eq(a->task, task->task))
			continue;
		if (task) {
			started = a->started_ns;
			ended = export_ended_ns(x, a);
		}
		if (a->log.kind)
			json_array_append_new(
				byproducts,
				descriptor(arena_printf(x->arena, "log/%s", a->task), NULL,
					   a->log.size_bytes > CONTENT_PART_BYTES ? "cairnBlob"
										  : "sha256",
					   export_hex(x->arena, &a->log.digest)));
	}
	if (run->has_hash)
		json_array_append_new(byproducts, descriptor("run manifest", NULL, "sha256",
							     export_hex(x->arena, &run->hash)));
	json_object_set_new(
		metadata, "invocationId",
		json_sprintf("urn:cairn:run:%s",
			     run->has_hash ? export_hex(x->arena, &run->hash) : run->id));
	json_object_set_new(metadata, "startedOn", json_string(export_time(x->arena, started)));
	json_object_set_new(metadata, "finishedOn", json_string(export_time(x->arena, ended)));
	return json_pack("{s:{s:s, s:{s:s}}, s:o, s:o}", "builder", "id", "urn:cairn:engine",
			 "version", "cairn", CAIRN_VERSION, "metadata", metadata, "byproducts",
			 byproducts);
}

int export_slsa(struct export_run *x, const struct facts_task *task, const char *output,
		json_t **ret, struct err *err)
{
	json_t *list = json_array(), *from = json_array(), *definition, *internal = json_object(),
	       *external;

	if (subjects(x, task, output, list, err) < 0 || dependencies(x, task, from, err) < 0) {
		json_decref(list);
		json_decref(from);
		json_decref(internal);
		return -1;
	}
	json_object_set_new(internal, "run", facts_text(x->run->id));
	json_object_set_new(internal, "gitDirty", json_boolean(x->run->git.dirty));
	if (task)
		json_object_set_new(internal, "key", json_string(export_hex(x->arena, &task->key)));
	external = json_pack("{s:o, s:o, s:O}", "pipeline", facts_text(x->run->pipeline), "path",
			     facts_text(x->run->path), "params", x->params);
	if (task)
		json_object_set_new(external, "task", facts_text(task->task));
	definition = json_pack("{s:s, s:o, s:o, s:o}", "buildType",
			       task ? "urn:cairn:buildtype:task:1" : "urn:cairn:buildtype:run:1",
			       "externalParameters", external, "internalParameters", internal,
			       "resolvedDependencies", from);
	*ret = json_pack("{s:s, s:o, s:s, s:{s:o, s:o}}", "_type",
			 "https://in-toto.io/Statement/v1", "subject", list, "predicateType",
			 "https://slsa.dev/provenance/v1", "predicate", "buildDefinition",
			 definition, "runDetails", run_details(x, task));
	return 0;
}

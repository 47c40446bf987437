/* engine/record/manifest/manifest.c — the run manifest: writing it, and the blob of its attempts.
 *
 * manifest_store() builds one JSON object, adds the store's signature, and writes it canonically;
 * the digest of these bytes is the run hash. Every manifest has every member: an unknown value is
 * null. (`temp` of a step is younger than the format: steps without it don't have it.) Names that
 * may hold any bytes go through json_name(). read.c reads this format: a new member needs a line in
 * both, and FORMAT is the same number in both.
 *
 * manifest_put_attempts() streams attempts out of the database. Lines gather in a buffer of
 * WRITE_BYTES; only when it is full they go to an unnamed file beside the database. So memory
 * doesn't grow with the number of attempts.
 *
 * Invariants: all content that the manifest names is synced before the manifest is stored, so that
 * no store has a manifest whose content was never durable.
 *
 * Threads: the thread of the handle; nothing is kept between calls. Not here: reading (read.c), the
 * results table (results.c), rows (rows/).
 */
#include "record/manifest/manifest.h"
#include <assert.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "record/environment.h"
#include "record/facts.h"
#include "record/rows/attempts.h"
#include "storage/signature.h"

#define FORMAT 1

static json_t *json_id(const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];

	if (id->kind == CONTENT_NONE)
		return json_null();
	digest_hex(&id->digest, hex);
	return json_pack("{s:s+, s:s, s:I}", "digest", "sha256:", hex, "kind",
			 content_kind_name(id->kind), "size", (json_int_t)id->size_bytes);
}

/* Attempts. */

#define WRITE_BYTES (256 * KIB)

struct attempts_writer {
	struct str lines; /* not written yet */
	int fd;           /* -1: nothing written yet */
	const struct db *db;
	int (*each)(void *arg, const struct attempt_record *r, struct err *err);
	void *arg;
};

static int write_lines(struct attempts_writer *w, struct err *err)
{
	if (w->fd < 0) {
		_cleanup_(freep) char *dir = fs_dirname(db_path(w->db));

		w->fd = fs_unnamed_at(AT_FDCWD, dir, err);
	}
	if (w->fd < 0 || fs_write_all(w->fd, w->lines.s, w->lines.len, err) < 0)
		return -1;
	w->lines.len = 0;
	return 0;
}

static int add_attempt(void *arg, const struct attempt_record *r, struct err *err)
{
	struct attempts_writer *w = arg;

	if (w->each && w->each(w->arg, r, err) < 0)
		return -1;
	attempt_record_encode(r, &w->lines);
	return w->lines.len < WRITE_BYTES ? 0 : write_lines(w, err);
}

int manifest_put_attempts(struct db *db, struct store *s, int64_t run,
			  int (*each)(void *arg, const struct attempt_record *r, struct err *err),
			  void *arg, struct content_id *ret, struct err *err)
{
	struct attempts_writer w = { .fd = -1, .db = db, .each = each, .arg = arg };
	int r = record_each_record(db, run, add_attempt, &w, err);

	if (r == 0 && w.fd < 0) /* a few lines don't need a file */
		r = content_put_bytes(s, w.lines.len ? w.lines.s : "", w.lines.len, ret, err);
	else if (r == 0)
		r = write_lines(&w, err) < 0 ? -1 : content_put_fd(s, w.fd, ret, err);
	str_deinit(&w.lines);
	fd_closep(&w.fd);
	return r < 0 ? err_wrap(err, "keeping the run's attempts") : 0;
}

/* The manifest. */

static json_t *inputs_json(const struct manifest *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->n_inputs; i++)
		json_array_append_new(list, json_pack("{s:o, s:o, s:o}", "name",
						      facts_text(m->inputs[i].name), "origin",
						      facts_text(m->inputs[i].origin), "content",
						      json_id(&m->inputs[i].id)));
	return list;
}

static json_t *code_json(const struct manifest *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->n_code; i++)
		json_array_append_new(list,
				      json_pack("{s:o, s:o}", "step", facts_text(m->code[i].step),
						"tree", json_id(&m->code[i].tree)));
	return list;
}

static json_t *parse_or_null(const char *text)
{
	json_t *j = text ? json_loads(text, 0, NULL) : NULL;

	return j ? j : json_null();
}

static json_t *variables_json(const struct manifest_variable *v, size_t n)
{
	json_t *o = json_object();

	for (size_t i = 0; i < n; i++)
		json_object_set_new(o, v[i].name, facts_text(v[i].value));
	return o;
}

/* Only steps that have some say so, so that the manifests of all others stay as they were. */
static json_t *temp_json(const struct manifest_step *s)
{
	json_t *inputs = json_array(), *outputs = json_object();

	for (size_t i = 0; i < s->n_temp_inputs; i++)
		json_array_append_new(inputs, facts_text(s->temp_inputs[i]));
	for (size_t i = 0; i < s->n_temp_outputs; i++)
		json_object_set_new(outputs, s->temp_outputs[i].output,
				    json_integer(s->temp_outputs[i].place));
	return json_pack("{s:o, s:o}", "inputs", inputs, "outputs", outputs);
}

static json_t *steps_json(const struct manifest *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->n_steps; i++) {
		const struct manifest_step *s = &m->steps[i];
		json_t *o = json_object(), *secrets = json_array();

		for (size_t k = 0; k < s->n_secrets; k++)
			json_array_append_new(secrets, facts_text(s->secrets[k]));
		json_object_set_new(o, "name", facts_text(s->name));
		json_object_set_new(o, "uses", facts_text(s->builtin));
		json_object_set_new(o, "code", json_id(&s->code));
		json_object_set_new(o, "secrets", secrets);
		json_object_set_new(o, "threads", variables_json(s->threads, s->n_threads));
		json_object_set_new(o, "image", facts_text(s->image));
		json_object_set_new(o, "image_digest", facts_text(s->image_digest));
		if (s->n_temp_inputs || s->n_temp_outputs)
			json_object_set_new(o, "temp", temp_json(s));
		json_array_append_new(list, o);
	}
	return list;
}

int manifest_store(struct store *s, const struct manifest *m, struct digest *ret, struct err *err)
{
	char hex[DIGEST_HEX_MAX];
	_cleanup_(str_deinit) struct str out = { 0 };
	const struct run_row *r = m->run;
	const struct run_counts *c = &r->counts;
	json_t *o, *git = json_null(), *schedule = json_null(), *counts;

	assert(r->state != RUN_RUNNING);
	if (store_sync(s, err) < 0)
		return err_wrap(err, "keeping what the run's manifest names");
	if (r->git.commit)
		git = json_pack("{s:b, s:o, s:o, s:o}", "dirty", r->git.dirty, "commit",
				facts_text(r->git.commit), "remote", facts_text(r->git.remote),
				"submodules",
				r->git.submodules ? parse_or_null(r->git.submodules)
						  : json_array());
	if (r->git.commit && r->git.author)
		json_object_set_new(git, "author", facts_text(r->git.author));
	if (r->schedule)
		schedule = json_pack("{s:o, s:I}", "name", facts_text(r->schedule), "nominal_ns",
				     (json_int_t)r->nominal_ns);
	counts = json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)c->total,
			   "executed", (json_int_t)c->executed, "hits", (json_int_t)c->hits,
			   "failed", (json_int_t)c->failed, "skipped", (json_int_t)c->skipped,
			   "blocked", (json_int_t)c->blocked, "saved_ns", (json_int_t)c->saved_ns);
	o = json_object();
	json_object_set_new(o, "cairn_manifest", json_integer(FORMAT));
	json_object_set_new(o, "run", facts_text(r->id));
	json_object_set_new(o, "pipeline", facts_text(r->pipeline));
	json_object_set_new(o, "path", facts_text(r->path));
	json_object_set_new(o, "pipeline_files", json_id(&r->pipeline_blob));
	json_object_set_new(o, "state", json_string(run_state_name(r->state)));
	json_object_set_new(o, "started_ns", json_integer(r->started_ns));
	json_object_set_new(o, "ended_ns", json_integer(r->ended_ns));
	json_object_set_new(o, "params", parse_or_null(r->params_json));
	json_object_set_new(o, "options", parse_or_null(r->options_json));
	json_object_set_new(o, "git", git);
	json_object_set_new(o, "schedule", schedule);
	json_object_set_new(o, "reproduces",
			    r->has_reproduces
				    ? json_sprintf("sha256:%s", digest_hex(&r->reproduces, hex))
				    : json_null());
	json_object_set_new(o, "message", facts_text(r->message));
	json_object_set_new(o, "counts", counts);
	json_object_set_new(o, "inputs", inputs_json(m));
	json_object_set_new(o, "code", code_json(m));
	json_object_set_new(o, "results", json_id(&m->results));
	json_object_set_new(o, "attempts", json_id(&m->attempts_blob));
	json_object_set_new(o, "steps", steps_json(m));
	json_object_set_new(o, "tools", variables_json(m->tools, m->n_tools));
	json_object_set_new(o, "environment", environment_json());
	signature_make_json(s, STORE_RUN, o);
	json_add_canonical(&out, o);
	json_decref(o);
	digest_bytes(out.s, out.len, ret);
	return store_put(s, STORE_RUN, ret, out.s, out.len, err) < 0
		       ? err_wrap(err, "keeping the run's manifest")
		       : 0;
}

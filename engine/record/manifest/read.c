/* engine/record/manifest/read.c — the run manifest: reading it, and the content that it names, for
 * gc.
 *
 * The bytes are hostile: anybody with write access to the store may have written them.
 * manifest_load() checks size, JSON, format and signature, in that order; then it fills the
 * structs, and check() refuses names that would lead out of a path or be read as an option. A
 * member that is missing or has another type reads as absent, and an entry of a list without name
 * or content is left out.
 *
 * Attempts are streamed: a window over their blob, one line at a time. Their arena is replaced when
 * it has grown to ATTEMPTS_ARENA_BYTES.
 *
 * For gc: manifest_refs() gives every object in the JSON that has the shape of a content id, even
 * in members that this version doesn't know. manifest_walk() gives content that the results table
 * and the attempts name. Invariant: gc deletes content that isn't named, so a failure is never an
 * empty answer. Only missing or damaged content (lost()) names nothing; every other failure ends
 * the walk.
 *
 * A stopped run can go on, so its row gets no results table, though its manifest has one.
 *
 * Threads: any; nothing is kept between calls. Not here: writing (manifest.c), runs in the database
 * (import.c).
 */
#include <string.h>
#include "base/map.h"
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "record/facts.h"
#include "record/manifest/manifest.h"
#include "storage/bucket/window.h"
#include "storage/closure.h"
#include "storage/signature.h"

#define ATTEMPTS_ARENA_BYTES (4 * MIB)
#define FORMAT               1
#define RECORD_NAME_MAX      255 /* bytes: a file name */
/* Enough for an attempt with the most inputs, with long names; it still fits into SQLite. */
#define ATTEMPT_LINE_MAX (512 * MIB)

static bool read_id(const json_t *o, struct content_id *ret)
{
	const char *digest, *kind;
	uint64_t size;

	memset(ret, 0, sizeof(*ret));
	if (!json_is_object(o) || json_get_str(o, "digest", &digest, NULL) < 0 ||
	    json_get_str(o, "kind", &kind, NULL) < 0 || json_get_uint(o, "size", &size, NULL) < 0 ||
	    digest_parse(digest, &ret->digest, NULL) < 0)
		return false;
	ret->kind = content_kind_parse(kind);
	ret->size_bytes = size;
	return ret->kind != CONTENT_NONE;
}

bool manifest_is_damage(const struct err *e)
{
	return e->code == ERR_CORRUPT || e->code == ERR_NOT_FOUND || e->code == ERR_NEWER ||
	       e->code == ERR_INVALID || e->code == ERR_TOO_LARGE;
}

static int parse(const void *bytes, size_t n, json_t **ret, struct err *err)
{
	struct err why = { 0 };

	if (n > RUN_MANIFEST_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "a run manifest is larger than any that cairn writes");
	return json_parse("run manifest", bytes, n, ret, &why) < 0
		       ? err_set(err, ERR_CORRUPT, "%s", why.msg)
		       : 0;
}

/* Emits every object in `j` that has the shape of a content id. */
static int emit_ids(const json_t *j, int (*emit)(void *arg, const struct content_id *id), void *arg)
{
	struct content_id id;
	const char *key;
	json_t *v;
	size_t i;
	int r = 0;

	if (read_id(j, &id))
		return emit(arg, &id);
	if (json_is_object(j)) {
		json_object_foreach((json_t *)j, key, v)
		{
			if ((r = emit_ids(v, emit, arg)) != 0)
				break;
		}
	} else if (json_is_array(j)) {
		json_array_foreach(j, i, v)
		{
			if ((r = emit_ids(v, emit, arg)) != 0)
				break;
		}
	}
	return r;
}

int manifest_refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		  void *arg, struct err *err)
{
	json_t *j;
	int r;

	if (parse(bytes, n, &j, err) < 0)
		return -1;
	r = emit_ids(j, emit, arg);
	json_decref(j);
	return r;
}

/* Missing or damaged content names nothing. After any other failure we don't know what it names. */
static int lost(const struct err *e, struct err *err)
{
	return e->code == ERR_NOT_FOUND || e->code == ERR_CORRUPT ? 0 : err_pass(err, e);
}

struct walk {
	struct closure_sink sink;
	const json_t *manifest;
	struct map *temp; /* step → its member `temp`; NULL: no step has one */
};

static void find_temp(struct walk *w)
{
	const json_t *steps = json_object_get(w->manifest, "steps");

	for (size_t i = 0; i < json_array_size(steps); i++) {
		const json_t *s = json_array_get(steps, i), *temp = json_object_get(s, "temp");
		const char *name = json_string_value(json_object_get(s, "name"));

		if (!name || !json_is_object(temp))
			continue;
		if (!w->temp)
			w->temp = map_new();
		*map_slot_str(w->temp, name) = (void *)(uintptr_t)temp;
	}
}

/* The step of "train[fold=0]" is "train". */
static const json_t *temp_of(const struct walk *w, const char *label, const char *member)
{
	return w->temp ? json_object_get(map_get(w->temp, label, strcspn(label, "[")), member)
		       : NULL;
}

static bool has_place(const json_t *outputs, size_t place)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)outputs, name, v)
	{
		if (json_is_integer(v) && json_integer_value(v) == (json_int_t)place)
			return true;
	}
	return false;
}

static int walk_task(void *arg, const struct result_entry *e)
{
	const struct walk *w = arg;
	const struct closure_sink *sink = &w->sink;
	const json_t *temp = temp_of(w, e->task, "outputs");
	static const struct digest none;
	struct content_id id;

	if (!digest_eq(&e->key, &none) && !json_object_size(temp) &&
	    sink->key(sink->arg, &e->key) < 0)
		return -1;
	for (size_t i = 0; i < e->n_outputs; i++) {
		if (has_place(temp, i))
			continue;
		results_output(e, i, &id);
		if (sink->content(sink->arg, &id) < 0)
			return -1;
	}
	return 0;
}

struct attempt_reader {
	int (*fn)(void *arg, const struct attempt_record *r, struct err *err);
	void *arg;
	struct arena *arena;
};

/* Reads the complete lines in the window. */
static int read_attempts(struct attempt_reader *a, const struct window *w, size_t *ret_used,
			 struct err *err)
{
	size_t at = 0;
	int r = 0;

	while (r == 0 && at < w->n) {
		const uint8_t *end = memchr(w->bytes + at, '\n', w->n - at);
		struct attempt_record rec;
		size_t n = end ? (size_t)(end - w->bytes) - at : w->n - at;

		if (n > ATTEMPT_LINE_MAX)
			return err_set(err, ERR_TOO_LARGE,
				       "the record of an attempt is larger than any that cairn "
				       "writes");
		if (!end && !w->is_last)
			break;
		if (arena_bytes(a->arena) > ATTEMPTS_ARENA_BYTES) {
			arena_free(a->arena);
			a->arena = arena_new();
		}
		r = attempt_record_decode((const char *)w->bytes + at, n, a->arena, &rec, err);
		if (r == 0)
			r = a->fn(a->arg, &rec, err);
		at += n + (end != NULL);
	}
	*ret_used = at;
	return r;
}

int manifest_each_attempt(struct store *s, const struct content_id *attempts,
			  int (*fn)(void *arg, const struct attempt_record *r, struct err *err),
			  void *arg, struct err *err)
{
	struct attempt_reader a = { .fn = fn, .arg = arg };
	struct window w;
	size_t used = 0;
	int r;

	if (window_open(s, attempts, &w, err) < 0)
		return -1;
	a.arena = arena_new();
	while ((r = read_attempts(&a, &w, &used, err)) == 0 && !w.is_last &&
	       (r = window_move(&w, used, err)) == 0)
		;
	arena_free(a.arena);
	window_close(&w);
	return r;
}

/* "data", and its parts "data:(whole)" and "data:train[fold=0]". */
static bool has_name(const json_t *inputs, const char *name)
{
	size_t n = strcspn(name, ":");

	for (size_t i = 0; i < json_array_size(inputs); i++) {
		const char *s = json_string_value(json_array_get(inputs, i));

		if (s && strlen(s) == n && memcmp(s, name, n) == 0)
			return true;
	}
	return false;
}

static int walk_attempt(void *arg, const struct attempt_record *a, struct err *err)
{
	const struct walk *w = arg;
	const struct closure_sink *sink = &w->sink;
	const json_t *inputs = temp_of(w, a->row.task, "inputs");
	const json_t *outputs = temp_of(w, a->row.task, "outputs");
	struct content_id key_record = attempt_key_record(a);

	if ((!json_object_size(outputs) && sink->key(sink->arg, &a->row.key) < 0) ||
	    (a->row.log.kind && sink->content(sink->arg, &a->row.log) < 0) ||
	    (key_record.kind && sink->content(sink->arg, &key_record) < 0))
		return -1;
	for (size_t i = 0; i < a->n_inputs; i++)
		if (!has_name(inputs, a->inputs[i].name) &&
		    sink->content(sink->arg, &a->inputs[i].id) < 0)
			return -1;
	for (size_t i = 0; i < a->n_outputs; i++)
		if (!json_object_get(outputs, a->outputs[i].name) &&
		    sink->content(sink->arg, &a->outputs[i].id) < 0)
			return -1;
	return 0;
}

int manifest_walk(struct store *s, const void *bytes, size_t n, const struct closure_sink *sink,
		  struct err *err)
{
	struct walk w = { .sink = *sink };
	struct err why = { 0 };
	struct content_id id;
	json_t *j;
	int r = 0;

	if (parse(bytes, n, &j, err) < 0)
		return -1;
	w.manifest = j;
	find_temp(&w);
	if (read_id(json_object_get(j, "results"), &id) &&
	    results_each(s, &id, walk_task, &w, &why) != 0)
		r = why.code ? lost(&why, err) : -1;
	why = (struct err){ 0 };
	if (r == 0 && read_id(json_object_get(j, "attempts"), &id) &&
	    manifest_each_attempt(s, &id, walk_attempt, &w, &why) != 0)
		r = why.code ? lost(&why, err) : -1;
	map_free(w.temp);
	json_decref(j);
	return r;
}

const struct closure_names manifest_names = { .refs = manifest_refs, .walk = manifest_walk };

static const char *keep_json(const json_t *o, const char *key, struct arena *arena)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	json_t *v = json_object_get(o, key);

	if (!v || json_is_null(v))
		return NULL;
	json_add_canonical(&out, v);
	return arena_strndup(arena, out.s, out.len);
}

static void read_run(const json_t *o, struct arena *arena, struct run_row *r)
{
	json_t *git = json_object_get(o, "git"), *counts = json_object_get(o, "counts"),
	       *schedule = json_object_get(o, "schedule");
	const char *state = facts_get_text(o, "state", arena),
		   *reproduces = facts_get_text(o, "reproduces", arena);

	r->state = RUN_RUNNING; /* check() refuses this state: a running run has no manifest */
	if (json_is_object(schedule)) {
		r->schedule = facts_get_text(schedule, "name", arena);
		json_get_int(schedule, "nominal_ns", &r->nominal_ns, NULL);
	}
	r->has_reproduces = reproduces && digest_parse(reproduces, &r->reproduces, NULL) == 0;

	r->id = facts_get_text(o, "run", arena);
	r->pipeline = facts_get_text(o, "pipeline", arena);
	r->path = facts_get_text(o, "path", arena);
	r->message = facts_get_text(o, "message", arena);
	r->params_json = keep_json(o, "params", arena);
	r->options_json = keep_json(o, "options", arena);
	for (int s = RUN_SUCCEEDED; state && s <= RUN_INTERRUPTED; s++)
		if (str_eq(state, run_state_name((enum run_state)s)))
			r->state = (enum run_state)s;
	json_get_int(o, "started_ns", &r->started_ns, NULL);
	json_get_int(o, "ended_ns", &r->ended_ns, NULL);
	if (r->ended_ns == 0) /* 0 would mean that it runs */
		r->ended_ns = r->started_ns;
	read_id(json_object_get(o, "pipeline_files"), &r->pipeline_blob);
	r->git.commit = git ? facts_get_text(git, "commit", arena) : NULL;
	r->git.author = git ? facts_get_text(git, "author", arena) : NULL;
	r->git.remote = git ? facts_get_text(git, "remote", arena) : NULL;
	r->git.submodules = git && json_array_size(json_object_get(git, "submodules"))
				    ? keep_json(git, "submodules", arena)
				    : NULL;
	if (git)
		json_get_bool_opt(git, "dirty", false, &r->git.dirty, NULL);
	if (!counts)
		return;
	json_get_uint(counts, "total", &r->counts.total, NULL);
	json_get_uint(counts, "executed", &r->counts.executed, NULL);
	json_get_uint(counts, "hits", &r->counts.hits, NULL);
	json_get_uint(counts, "failed", &r->counts.failed, NULL);
	json_get_uint(counts, "skipped", &r->counts.skipped, NULL);
	json_get_uint(counts, "blocked", &r->counts.blocked, NULL);
	json_get_int(counts, "saved_ns", &r->counts.saved_ns, NULL);
}

static void read_lists(const json_t *o, struct arena *arena, struct manifest *m)
{
	json_t *inputs = json_object_get(o, "inputs"), *code = json_object_get(o, "code");
	struct manifest_input *in = arena_alloc(arena, (json_array_size(inputs) + 1) * sizeof(*in));
	struct manifest_code *c = arena_alloc(arena, (json_array_size(code) + 1) * sizeof(*c));

	for (size_t i = 0; i < json_array_size(inputs); i++) {
		const json_t *e = json_array_get(inputs, i);

		in[m->n_inputs].name = facts_get_text(e, "name", arena);
		in[m->n_inputs].origin = facts_get_text(e, "origin", arena);
		if (in[m->n_inputs].name &&
		    read_id(json_object_get(e, "content"), &in[m->n_inputs].id))
			m->n_inputs++;
	}
	for (size_t i = 0; i < json_array_size(code); i++) {
		const json_t *e = json_array_get(code, i);

		c[m->n_code].step = facts_get_text(e, "step", arena);
		if (c[m->n_code].step && read_id(json_object_get(e, "tree"), &c[m->n_code].tree))
			m->n_code++;
	}
	m->inputs = in;
	m->code = c;
}

static void read_variables(const json_t *o, const char *key, struct arena *arena,
			   const struct manifest_variable **ret, size_t *ret_n)
{
	json_t *list = json_object_get(o, key), *v;
	struct manifest_variable *out =
		arena_alloc(arena, (json_object_size(list) + 1) * sizeof(*out));
	const char *name;
	size_t n = 0;

	json_object_foreach(list, name, v)
	{
		out[n].name = arena_strdup(arena, name);
		out[n].value = facts_get_text(list, name, arena);
		n += out[n].value != NULL;
	}
	*ret = out;
	*ret_n = n;
}

static void read_steps(const json_t *o, struct arena *arena, struct manifest *m)
{
	json_t *list = json_object_get(o, "steps");
	struct manifest_step *v = arena_alloc(arena, (json_array_size(list) + 1) * sizeof(*v));

	m->steps = v;
	for (size_t i = 0; i < json_array_size(list); i++) {
		json_t *one = json_array_get(list, i), *secrets = json_object_get(one, "secrets");
		const char **names =
			arena_alloc(arena, (json_array_size(secrets) + 1) * sizeof(*names));
		struct manifest_step *s = &v[m->n_steps];

		s->name = facts_get_text(one, "name", arena);
		if (!s->name)
			continue;
		m->n_steps++;
		for (size_t k = 0; k < json_array_size(secrets); k++) {
			const char *name = json_string_value(json_array_get(secrets, k));

			if (name)
				names[s->n_secrets++] = arena_strdup(arena, name);
		}
		s->secrets = names;
		s->builtin = facts_get_text(one, "uses", arena);
		read_id(json_object_get(one, "code"), &s->code);
		read_variables(one, "threads", arena, &s->threads, &s->n_threads);
		s->image = facts_get_text(one, "image", arena);
		s->image_digest = facts_get_text(one, "image_digest", arena);
	}
	read_variables(o, "tools", arena, &m->tools, &m->n_tools);
	m->environment_json = keep_json(o, "environment", arena);
}

static void read_blob(const json_t *o, const char *key, struct content_id *ret)
{
	if (read_id(json_object_get(o, key), ret) && !content_is_file(ret))
		*ret = (struct content_id){ 0 };
}

/* Checks of hostile data. */

/* A name that cairn could have made: safe as one component of a path. */
static bool is_part_of_path(const char *s, size_t n)
{
	if (n == 0 || n > RECORD_NAME_MAX || *s == '.' || *s == '-')
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i] == '/' || (unsigned char)s[i] <= ' ' || s[i] == 0x7f)
			return false;
	return true;
}

static bool is_name(const char *s)
{
	return s && is_part_of_path(s, strlen(s));
}

/* A step of a used pipeline is named `step/inner`. */
static bool is_step_name(const char *s)
{
	size_t n;

	if (!s)
		return false;
	for (;; s += n + 1) {
		n = strcspn(s, "/");
		if (!is_part_of_path(s, n))
			return false;
		if (s[n] == '\0')
			return true;
	}
}

/* The manifest is hostile, and its names become parts of paths and words of suggested commands. */
static int check(const struct manifest *m, struct err *err)
{
	const struct run_row *run = m->run;
	struct digest hash;

	if (!run->id || !run->pipeline)
		return err_set(err, ERR_CORRUPT, "a run manifest is damaged");
	/* `cairn status ID` must read it as an id, not as the newest run or a run hash. */
	if (!is_name(run->id) || str_eq(run->id, "last") || str_has_prefix(run->id, "last:") ||
	    digest_parse(run->id, &hash, NULL) == 0)
		return err_set(err, ERR_CORRUPT, "a run manifest is refused: `%.60s` is no run id",
			       run->id);
	if (!is_name(run->pipeline) ||
	    (run->path && (!*run->path || run->path[0] == '/' || !fs_is_inside(".", run->path))))
		return err_set(err, ERR_CORRUPT,
			       "the manifest of run %s is refused: it names a pipeline outside of "
			       "its project",
			       run->id);
	if (run->state == RUN_RUNNING)
		return err_set(
			err, ERR_CORRUPT,
			"the manifest of run %s is refused: it doesn't say how the run ended",
			run->id);
	for (size_t i = 0; i < m->n_steps; i++)
		if (!is_step_name(m->steps[i].name))
			return err_set(
				err, ERR_CORRUPT,
				"the manifest of run %s is refused: `%.60s` is no name of a step",
				run->id, m->steps[i].name);
	for (size_t i = 0; i < m->n_code; i++)
		if (!is_step_name(m->code[i].step))
			return err_set(
				err, ERR_CORRUPT,
				"the manifest of run %s is refused: `%.60s` is no name of a step",
				run->id, m->code[i].step);
	return 0;
}

int manifest_load(struct store *s, const struct digest *hash, struct arena *arena,
		  struct manifest *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct run_row *run = arena_alloc(arena, sizeof(*run));
	int64_t format = 0;
	json_t *o;

	if (store_get(s, STORE_RUN, hash, RUN_MANIFEST_MAX, &bytes, err) < 0 ||
	    parse(bytes.len ? bytes.s : "", bytes.len, &o, err) < 0)
		return -1;
	json_get_int(o, "cairn_manifest", &format, NULL);
	if (format != FORMAT) {
		json_decref(o);
		return err_set(err, format > FORMAT ? ERR_NEWER : ERR_CORRUPT,
			       "this run manifest has format %lld; this cairn knows %d",
			       (long long)format, FORMAT);
	}
	if (signature_check_json(s, STORE_RUN, hash, o, err) < 0) {
		json_decref(o);
		return -1;
	}
	*ret = (struct manifest){ .run = run };
	read_run(o, arena, run);
	run->has_hash = true;
	run->hash = *hash;
	read_lists(o, arena, ret);
	read_steps(o, arena, ret);
	read_blob(o, "results", &ret->results);
	read_blob(o, "attempts", &ret->attempts_blob);
	/* A stopped run can still go on: its manifest's table is not final. */
	if (run->state == RUN_SUCCEEDED || run->state == RUN_FAILED)
		run->results = ret->results;
	ret->pipeline_tree = run->pipeline_blob;
	json_decref(o);
	return check(ret, err);
}

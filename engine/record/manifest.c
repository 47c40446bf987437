/* The run manifest as canonical JSON. */
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>
#include "base/fs.h"
#include "base/json.h"
#include "base/mem.h"
#include "record/manifest.h"
#include "storage/maintain.h"

#define MANIFEST_MAX (256 * MIB)
#define ATTEMPTS_MAX (4 * GIB) /* some 500 bytes each */
#define FORMAT 1

static json_t *json_id(const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];

	if (id->kind == CONTENT_NONE)
		return json_null();
	digest_hex(&id->digest, hex);
	return json_pack("{s:s+, s:s, s:I}", "digest", "sha256:", hex, "kind", id->kind == CONTENT_TREE ? "tree" : id->kind == CONTENT_REFERENCE ? "reference" : "blob", "size",
			 (json_int_t)id->size_bytes);
}

static json_t *json_text(const char *s)
{
	return s ? json_name(s, strlen(s)) : json_null();
}

/* --- environment --------------------------------------------------------------------------------------------------------- */

static void add_cpu(json_t *env)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	static const char *const wanted[] = { "model name", "flags" };

	if (fs_read_file("/proc/cpuinfo", 4 * MIB, &text, NULL) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		const char *at = strstr(text.s, wanted[i]), *colon = at ? strchr(at, ':') : NULL;

		if (colon)
			json_object_set_new(env, i ? "cpu_flags" : "cpu_model", json_stringn_nocheck(colon + 2, strcspn(colon + 2, "\n")));
	}
}

static json_t *environment(void)
{
	json_t *env = json_object();
	struct utsname u;
	char libc[128] = "";

	if (uname(&u) == 0) {
		json_object_set_new(env, "kernel", json_sprintf("%s %s", u.sysname, u.release));
		json_object_set_new(env, "machine", json_string(u.machine));
		json_object_set_new(env, "host", json_text(u.nodename));
	}
	confstr(_CS_GNU_LIBC_VERSION, libc, sizeof(libc));
	json_object_set_new(env, "libc", json_string(libc));
	json_object_set_new(env, "cpus", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
	json_object_set_new(env, "cairn", json_string(CAIRN_VERSION));
	add_cpu(env);
	return env;
}

/* --- writing ----------------------------------------------------------------------------------------------------------------- */

static json_t *attempt_json(const struct attempt_row *a)
{
	char hex[DIGEST_HEX_MAX];
	json_t *o = json_object();

	json_object_set_new(o, "id", json_integer(a->id));
	json_object_set_new(o, "continues", json_text(a->continues));
	json_object_set_new(o, "task", json_text(a->task));
	json_object_set_new(o, "step", json_text(a->step));
	json_object_set_new(o, "number", json_integer(a->number));
	json_object_set_new(o, "key", json_string(digest_hex(&a->key, hex)));
	json_object_set_new(o, "started_ns", json_integer(a->started_ns));
	json_object_set_new(o, "ended_ns", json_integer(a->ended_ns));
	json_object_set_new(o, "class", json_string(failure_class_name(a->failure)));
	json_object_set_new(o, "exit_status", json_integer(a->exit_status));
	json_object_set_new(o, "signal", json_integer(a->signo));
	json_object_set_new(o, "node", json_text(a->node));
	json_object_set_new(o, "log", json_id(&a->log));
	json_object_set_new(o, "message", json_text(a->message));
	json_object_set_new(o, "reason", json_text(a->reason));
	return o;
}

static int store_attempts(struct store *s, const struct manifest *m, struct content_id *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str out = { 0 };

	for (size_t i = 0; i < m->n_attempts; i++) {
		json_t *o = attempt_json(&m->attempts[i]);

		json_add_canonical(&out, o);
		str_addc(&out, '\n');
		json_decref(o);
	}
	return content_put_bytes(s, out.len ? out.s : "", out.len, ret, err);
}

static json_t *named_list(const struct manifest *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->n_inputs; i++) {
		json_t *o = json_object();

		json_object_set_new(o, "name", json_text(m->inputs[i].name));
		json_object_set_new(o, "origin", json_text(m->inputs[i].origin));
		json_object_set_new(o, "content", json_id(&m->inputs[i].id));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *code_list(const struct manifest *m)
{
	json_t *list = json_array();

	for (size_t i = 0; i < m->n_code; i++) {
		json_t *o = json_object();

		json_object_set_new(o, "step", json_text(m->code[i].step));
		json_object_set_new(o, "tree", json_id(&m->code[i].tree));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *counts_json(const struct run_counts *c)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)c->total, "executed", (json_int_t)c->executed, "hits",
			 (json_int_t)c->hits, "failed", (json_int_t)c->failed, "skipped", (json_int_t)c->skipped, "blocked", (json_int_t)c->blocked,
			 "saved_ns", (json_int_t)c->saved_ns);
}

static json_t *parse_or_null(const char *text)
{
	json_t *j = text ? json_loads(text, 0, NULL) : NULL;

	return j ? j : json_null();
}

static json_t *git_json(const struct run_row *r)
{
	json_t *o = json_pack("{s:b}", "dirty", r->git_dirty);

	json_object_set_new(o, "commit", json_text(r->git_commit));
	json_object_set_new(o, "remote", json_text(r->git_remote));
	return o;
}

static json_t *schedule_json(const struct run_row *r)
{
	json_t *o;

	if (!r->schedule)
		return json_null();
	o = json_object();
	json_object_set_new(o, "name", json_text(r->schedule));
	json_object_set_new(o, "nominal_ns", json_integer(r->nominal_ns));
	return o;
}

int manifest_store(struct store *s, const struct manifest *m, struct digest *ret, struct err *err)
{
	char hex[DIGEST_HEX_MAX];
	_cleanup_(str_deinit) struct str out = { 0 };
	const struct run_row *r = m->run;
	struct content_id attempts;
	json_t *o;

	if (store_attempts(s, m, &attempts, err) < 0)
		return err_wrap(err, "keeping the run's attempts");
	o = json_object();
	json_object_set_new(o, "cairn_manifest", json_integer(FORMAT));
	json_object_set_new(o, "run", json_text(r->id));
	json_object_set_new(o, "pipeline", json_text(r->pipeline));
	json_object_set_new(o, "path", json_text(r->path));
	json_object_set_new(o, "pipeline_files", json_id(&r->pipeline_blob));
	json_object_set_new(o, "state", json_string(run_state_name(r->state)));
	json_object_set_new(o, "started_ns", json_integer(r->started_ns));
	json_object_set_new(o, "ended_ns", json_integer(r->ended_ns));
	json_object_set_new(o, "params", parse_or_null(r->params_json));
	json_object_set_new(o, "options", parse_or_null(r->options_json));
	json_object_set_new(o, "git", r->git_commit ? git_json(r) : json_null());
	json_object_set_new(o, "schedule", schedule_json(r));
	json_object_set_new(o, "reproduces", r->has_reproduces ? json_sprintf("sha256:%s", digest_hex(&r->reproduces, hex)) : json_null());
	json_object_set_new(o, "message", json_text(r->message));
	json_object_set_new(o, "counts", counts_json(&r->counts));
	json_object_set_new(o, "inputs", named_list(m));
	json_object_set_new(o, "code", code_list(m));
	json_object_set_new(o, "results", json_id(&m->results));
	json_object_set_new(o, "attempts", json_id(&attempts));
	json_object_set_new(o, "environment", environment());
	json_add_canonical(&out, o);
	json_decref(o);
	digest_bytes(out.s, out.len, ret);
	return store_put(s, STORE_RUN, ret, out.s, out.len, err) < 0 ? err_wrap(err, "keeping the run's manifest") : 0;
}

/* --- reading ------------------------------------------------------------------------------------------------------------------- */

static bool read_id(const json_t *o, struct content_id *ret)
{
	const char *digest, *kind;
	uint64_t size;

	memset(ret, 0, sizeof(*ret));
	if (!json_is_object(o) || json_get_str(o, "digest", &digest, NULL) < 0 || json_get_str(o, "kind", &kind, NULL) < 0 ||
	    json_get_uint(o, "size", &size, NULL) < 0 || digest_parse(digest, &ret->digest, NULL) < 0)
		return false;
	ret->kind = str_eq(kind, "tree") ? CONTENT_TREE : str_eq(kind, "reference") ? CONTENT_REFERENCE : CONTENT_BLOB;
	ret->size_bytes = size;
	return true;
}

static int parse(const void *bytes, size_t n, json_t **ret, struct err *err)
{
	struct err why = { 0 };

	if (n > MANIFEST_MAX)
		return err_set(err, ERR_TOO_LARGE, "a run manifest is larger than any that cairn writes");
	return json_parse("run manifest", bytes, n, ret, &why) < 0 ? err_set(err, ERR_CORRUPT, "%s", why.msg) : 0;
}

/* Every object in it that has the shape of a content id. */
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
		json_object_foreach ((json_t *)j, key, v)
			if ((r = emit_ids(v, emit, arg)) != 0)
				break;
	} else if (json_is_array(j)) {
		json_array_foreach (j, i, v)
			if ((r = emit_ids(v, emit, arg)) != 0)
				break;
	}
	return r;
}

int manifest_refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id), void *arg, struct err *err)
{
	json_t *j;
	int r;

	if (parse(bytes, n, &j, err) < 0)
		return -1;
	r = emit_ids(j, emit, arg);
	json_decref(j);
	return r;
}

/* What is gone or damaged can't say what it names; any other failure means that we don't know. */
static int lost(const struct err *e, struct err *err)
{
	return e->code == ERR_NOT_FOUND || e->code == ERR_CORRUPT ? 0 : err_set(err, e->code, "%s", e->msg);
}

static int walk_task(const struct result_entry *e, const struct store_gc_sink *sink)
{
	static const struct digest none;
	struct content_id id;

	if (!digest_eq(&e->key, &none) && sink->key(sink->arg, &e->key) < 0)
		return -1;
	for (size_t i = 0; i < e->n_outputs; i++) {
		results_output(e, i, &id);
		if (sink->content(sink->arg, &id) < 0)
			return -1;
	}
	return 0;
}

static int walk_results(struct store *s, const struct content_id *table, const struct store_gc_sink *sink, struct err *err)
{
	struct results_cursor c;
	struct result_entry e;
	struct results *res;
	struct err why = { 0 };
	int r = 0;

	if (results_open(s, table, &res, &why) < 0)
		return lost(&why, err);
	results_first(res, &c);
	while (r == 0 && results_next(&c, &e))
		r = walk_task(&e, sink);
	results_free(res);
	return r;
}

static int walk_attempt(const char *text, size_t n, const struct store_gc_sink *sink, struct err *err)
{
	struct digest key;
	const char *hex;
	json_t *j;
	int r;

	if (json_parse("attempts of a run", text, n, &j, err) < 0)
		return -1;
	r = emit_ids(j, sink->content, sink->arg);
	if (r == 0 && json_get_str(j, "key", &hex, NULL) == 0 && digest_parse(hex, &key, NULL) == 0)
		r = sink->key(sink->arg, &key);
	json_decref(j);
	return r;
}

static int walk_attempts(struct store *s, const struct content_id *attempts, const struct store_gc_sink *sink, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct err why = { 0 };

	if (content_read(s, attempts, ATTEMPTS_MAX, &bytes, &why) < 0)
		return lost(&why, err);
	for (size_t at = 0; at < bytes.len;) {
		const char *end = memchr(bytes.s + at, '\n', bytes.len - at);
		size_t n = (end ? (size_t)(end - bytes.s) : bytes.len) - at;

		if (walk_attempt(bytes.s + at, n, sink, err) < 0)
			return -1;
		at += n + 1;
	}
	return 0;
}

int manifest_walk(struct store *s, const void *bytes, size_t n, const struct store_gc_sink *sink, struct err *err)
{
	struct content_id id;
	json_t *j;
	int r = 0;

	if (parse(bytes, n, &j, err) < 0)
		return -1;
	if (read_id(json_object_get(j, "results"), &id))
		r = walk_results(s, &id, sink, err);
	if (r == 0 && read_id(json_object_get(j, "attempts"), &id))
		r = walk_attempts(s, &id, sink, err);
	json_decref(j);
	return r;
}

static const char *keep_text(const json_t *o, const char *key, struct arena *arena)
{
	_cleanup_(str_deinit) struct str raw = { 0 };
	const char *s;

	if (json_get_str(o, key, &s, NULL) < 0 || json_name_decode(&raw, s, NULL) < 0)
		return NULL;
	return arena_strndup(arena, raw.len ? raw.s : "", raw.len);
}

static const char *keep_json(const json_t *o, const char *key, struct arena *arena)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	json_t *v = json_object_get(o, key);

	if (!v || json_is_null(v))
		return NULL;
	json_add_canonical(&out, v);
	return arena_strndup(arena, out.s, out.len);
}

static void read_cause(const json_t *o, struct arena *arena, struct run_row *r)
{
	json_t *schedule = json_object_get(o, "schedule");
	const char *hash = keep_text(o, "reproduces", arena);

	if (json_is_object(schedule)) {
		r->schedule = keep_text(schedule, "name", arena);
		json_get_int(schedule, "nominal_ns", &r->nominal_ns, NULL);
	}
	r->has_reproduces = hash && digest_parse(hash, &r->reproduces, NULL) == 0;
}

static void read_run(const json_t *o, struct arena *arena, struct run_row *r)
{
	json_t *git = json_object_get(o, "git"), *counts = json_object_get(o, "counts");
	const char *state = keep_text(o, "state", arena);

	read_cause(o, arena, r);
	r->id = keep_text(o, "run", arena);
	r->pipeline = keep_text(o, "pipeline", arena);
	r->path = keep_text(o, "path", arena);
	r->message = keep_text(o, "message", arena);
	r->params_json = keep_json(o, "params", arena);
	r->options_json = keep_json(o, "options", arena);
	for (int s = RUN_RUNNING; state && s <= RUN_INTERRUPTED; s++)
		if (str_eq(state, run_state_name((enum run_state)s)))
			r->state = (enum run_state)s;
	json_get_int(o, "started_ns", &r->started_ns, NULL);
	json_get_int(o, "ended_ns", &r->ended_ns, NULL);
	read_id(json_object_get(o, "pipeline_files"), &r->pipeline_blob);
	read_id(json_object_get(o, "results"), &r->results);
	r->git_commit = git ? keep_text(git, "commit", arena) : NULL;
	r->git_remote = git ? keep_text(git, "remote", arena) : NULL;
	if (git)
		json_get_bool_opt(git, "dirty", false, &r->git_dirty, NULL);
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

		in[m->n_inputs].name = keep_text(e, "name", arena);
		in[m->n_inputs].origin = keep_text(e, "origin", arena);
		if (in[m->n_inputs].name && read_id(json_object_get(e, "content"), &in[m->n_inputs].id))
			m->n_inputs++;
	}
	for (size_t i = 0; i < json_array_size(code); i++) {
		const json_t *e = json_array_get(code, i);

		c[m->n_code].step = keep_text(e, "step", arena);
		if (c[m->n_code].step && read_id(json_object_get(e, "tree"), &c[m->n_code].tree))
			m->n_code++;
	}
	m->inputs = in;
	m->code = c;
}

int manifest_load(struct store *s, const struct digest *hash, struct arena *arena, struct manifest *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct run_row *run = arena_alloc(arena, sizeof(*run));
	int64_t format = 0;
	json_t *o;

	if (store_get(s, STORE_RUN, hash, MANIFEST_MAX, &bytes, err) < 0 || parse(bytes.len ? bytes.s : "", bytes.len, &o, err) < 0)
		return -1;
	json_get_int(o, "cairn_manifest", &format, NULL);
	if (format != FORMAT) {
		json_decref(o);
		return err_set(err, format > FORMAT ? ERR_NEWER : ERR_CORRUPT, "this run manifest has format %lld; this cairn knows %d", (long long)format, FORMAT);
	}
	*ret = (struct manifest){ .run = run };
	read_run(o, arena, run);
	run->has_hash = true;
	run->hash = *hash;
	read_lists(o, arena, ret);
	ret->pipeline_tree = run->pipeline_blob;
	ret->results = run->results;
	json_decref(o);
	return run->id && run->pipeline ? 0 : err_set(err, ERR_CORRUPT, "a run manifest is damaged");
}

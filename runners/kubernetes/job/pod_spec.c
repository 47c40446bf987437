/* runners/kubernetes/job/pod_spec.c — the two messages between engine and pod, as canonical JSON.
 *
 * Writing is a tree of small functions, one for each type; a field that is 0, NULL or false is
 * omitted. Reading is the same tree with a reader, which has arena and error. Each take_*() checks
 * type and range of one field, and every path must be inside the working directory
 * (path_is_inside()). Bytes that come from people (arguments, paths, a program's output) are
 * encoded without loss by json_name_encode().
 *
 * pod_spec_read() reads only the attempts of one pod; it doesn't even check those of other pods. A
 * result that is too long goes into the store through `put`, and the message names it
 * (pod_result_write()).
 *
 * Pure functions except for `put`, any thread. A new field needs a default for its absence; one
 * that an older reader must not ignore needs a new VERSION. init/protocol.c has the helper's
 * messages, which aren't JSON.
 */
#include "runners/kubernetes/job/pod_spec.h"
#include <assert.h>
#include <string.h>
#include "base/text/json.h"
#include "runners/kubernetes/init/protocol.h"

#define VERSION 1
/* For argv, env, inputs and outputs: a pipeline's limits are far lower. */
#define LIST_MAX       100000
#define PATH_BYTES_MAX 4096

void pod_content_write(const struct content_id *id, struct str *out)
{
	char hex[DIGEST_HEX_MAX];

	str_addf(out, "%s:%llu:%s", content_kind_name(id->kind), (unsigned long long)id->size_bytes,
		 digest_hex(&id->digest, hex));
}

int pod_content_read(const char *text, struct content_id *ret, struct err *err)
{
	const char *size = strchr(text, ':'), *hex = size ? strchr(size + 1, ':') : NULL;
	char kind[16] = "";
	char *end = NULL;

	*ret = (struct content_id){ 0 };
	if (!hex || (size_t)(size - text) >= sizeof(kind) || size[1] < '0' || size[1] > '9' ||
	    hex - size > 20 || strlen(hex + 1) != DIGEST_HEX_MAX - 1)
		return err_set(err, ERR_INVALID,
			       "\"%.100s\" is not a content id (KIND:SIZE:DIGEST)", text);
	memcpy(kind, text, (size_t)(size - text));
	ret->size_bytes = strtoull(size + 1, &end, 10);
	ret->kind = content_kind_parse(kind);
	if (end != hex || ret->kind == CONTENT_NONE ||
	    digest_parse(hex + 1, &ret->digest, NULL) < 0)
		return err_set(err, ERR_INVALID,
			       "\"%.100s\" is not a content id (KIND:SIZE:DIGEST)", text);
	return 0;
}

/* Writing. */

static void set_text(json_t *o, const char *key, const char *s)
{
	if (s)
		json_object_set_new(o, key, json_name(s, strlen(s)));
}

static void set_int(json_t *o, const char *key, int64_t v)
{
	if (v)
		json_object_set_new(o, key, json_integer(v));
}

static void set_true(json_t *o, const char *key, bool v)
{
	if (v)
		json_object_set_new(o, key, json_true());
}

static json_t *id_of(const struct content_id *id)
{
	struct str text = { 0 };
	json_t *j;

	if (id->kind == CONTENT_NONE)
		return json_null();
	pod_content_write(id, &text);
	j = json_string(text.s);
	str_deinit(&text);
	return j;
}

/* names: only the names of "NAME=value". */
static json_t *texts_of(const char *const *v, bool names)
{
	json_t *list = json_array();

	for (; v && *v; v++)
		json_array_append_new(list, json_name(*v, names ? strcspn(*v, "=") : strlen(*v)));
	return list;
}

static json_t *inputs_of(const struct runner_attempt *a)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->n_inputs; i++) {
		json_t *o = json_object();

		set_text(o, "name", a->inputs[i].name);
		set_text(o, "path", a->inputs[i].path);
		json_object_set_new(o, "id", id_of(&a->inputs[i].id));
		set_text(o, "volume", a->inputs[i].volume);
		set_int(o, "mounted", a->inputs[i].view);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *outputs_of(const struct runner_attempt *a)
{
	json_t *list = json_array();

	for (size_t i = 0; i < a->n_outputs; i++) {
		json_t *o = json_object();

		set_text(o, "name", a->outputs[i].name);
		set_text(o, "path", a->outputs[i].path);
		set_true(o, "dir", a->outputs[i].is_dir);
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *attempt_of(const struct runner_attempt *a)
{
	char hex[DIGEST_HEX_MAX];
	json_t *o = json_object(), *gang;

	set_int(o, "id", (int64_t)a->id);
	set_int(o, "number", a->number);
	set_text(o, "run", a->run_id);
	set_text(o, "task", a->task);
	set_text(o, "step", a->on.step);
	json_object_set_new(o, "key", json_string(digest_hex(a->key, hex)));
	json_object_set_new(o, "argv", texts_of(a->argv, false));
	json_object_set_new(o, "env", texts_of(a->env, false));
	json_object_set_new(o, "secrets", texts_of(a->secrets, true));
	json_object_set_new(o, "inputs", inputs_of(a));
	json_object_set_new(o, "outputs", outputs_of(a));
	if (a->code)
		json_object_set_new(o, "code", id_of(a->code));
	set_text(o, "metrics", a->metrics_path);
	set_text(o, "series", a->series_path);
	set_text(o, "checkpoint", a->checkpoint_path);
	set_int(o, "timeout_ns", a->timeout_ns);
	set_int(o, "grace_ns", a->grace_ns);
	set_true(o, "forwards_signals", a->forwards_signals);
	if (a->on.gang.framework) {
		json_object_set_new(o, "gang", gang = json_object());
		set_text(gang, "framework", a->on.gang.framework);
		set_int(gang, "nodes", a->on.gang.nodes);
		set_int(gang, "procs_per_node", a->on.gang.procs_per_node);
		set_int(gang, "servers", a->on.gang.servers);
		set_int(gang, "min_nodes", a->on.gang.min_nodes);
	}
	return o;
}

int pod_spec_write(const struct runner_attempt *const *attempts, size_t n, size_t per_pod,
		   struct str *out, struct err *err)
{
	json_t *top = json_object(), *list = json_array();
	size_t from = out->len;

	assert(n > 0 && per_pod <= INIT_PROGRAMS_MAX);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, attempt_of(attempts[i]));
	json_object_set_new(top, "cairn_pod", json_integer(VERSION));
	json_object_set_new(top, "attempts", list);
	set_int(top, "per_pod", (int64_t)per_pod);
	json_add_canonical(out, top);
	json_decref(top);
	return out->len - from > POD_SPEC_MAX
		       ? err_set(err, ERR_TOO_LARGE,
				 "the specification of %s for its pod takes more than %llu MiB",
				 attempts[0]->task, POD_SPEC_MAX / MIB)
		       : 0;
}

/* Reading. */

struct reader {
	struct arena *arena;
	struct err *err;
	VEC(struct content_id) views; /* so far, of the pod */
};

static const char *decode(struct reader *r, const char *text)
{
	struct str s = { 0 };
	const char *kept = NULL;

	str_add(&s, "");
	if (json_name_decode(&s, text, NULL) == 0 && strlen(s.s) == s.len)
		kept = arena_strndup(r->arena, s.s, s.len);
	str_deinit(&s);
	return kept;
}

static int bad(struct reader *r, const char *key, const char *what)
{
	return err_set(r->err, ERR_INVALID, "`%s` %s", key, what);
}

/* *ret is NULL when it is absent. */
static int take_text(struct reader *r, const json_t *o, const char *key, const char **ret)
{
	const char *s;

	if (json_get_str_opt(o, key, NULL, &s, r->err) < 0)
		return -1;
	*ret = s ? decode(r, s) : NULL;
	return s && !*ret ? bad(r, key, "isn't text as it is written here") : 0;
}

static int take_needed(struct reader *r, const json_t *o, const char *key, const char **ret)
{
	if (take_text(r, o, key, ret) < 0)
		return -1;
	return *ret && **ret ? 0 : bad(r, key, "is missing");
}

static bool path_is_inside(const char *path)
{
	const char *at = path;

	if (*path == '/' || strlen(path) > PATH_BYTES_MAX)
		return false;
	for (;;) {
		size_t n = strcspn(at, "/");

		if (n == 0 || (n == 1 && *at == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
			return false;
		if (!at[n])
			return true;
		at += n + 1;
	}
}

static int check_path(struct reader *r, const char *key, const char *path)
{
	return !path || path_is_inside(path)
		       ? 0
		       : bad(r, key, "must be a path inside of the working directory");
}

static int take_path(struct reader *r, const json_t *o, const char *key, const char **ret)
{
	return take_text(r, o, key, ret) < 0 ? -1 : check_path(r, key, *ret);
}

static int take_uint(struct reader *r, const json_t *o, const char *key, uint64_t max,
		     uint64_t *ret)
{
	int64_t v;

	if (json_get_int_opt(o, key, 0, &v, r->err) < 0)
		return -1;
	if (v < 0 || (uint64_t)v > max)
		return bad(r, key, "is out of range");
	*ret = (uint64_t)v;
	return 0;
}

static int take_ns(struct reader *r, const json_t *o, const char *key, int64_t *ret)
{
	uint64_t v;

	if (take_uint(r, o, key, INT64_MAX, &v) < 0)
		return -1;
	*ret = (int64_t)v;
	return 0;
}

static int take_u32(struct reader *r, const json_t *o, const char *key, uint32_t *ret)
{
	uint64_t v = 0;

	if (take_uint(r, o, key, UINT32_MAX, &v) < 0)
		return -1;
	*ret = (uint32_t)v;
	return 0;
}

static int take_list(struct reader *r, const json_t *o, const char *key, json_t **ret)
{
	if (json_get_array(o, key, ret, r->err) < 0)
		return -1;
	return json_array_size(*ret) > LIST_MAX ? bad(r, key, "is too long") : 0;
}

static int take_texts(struct reader *r, const json_t *o, const char *key, const char *const **ret)
{
	json_t *list;
	const char **v;

	if (take_list(r, o, key, &list) < 0)
		return -1;
	v = arena_alloc(r->arena, (json_array_size(list) + 1) * sizeof(*v));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const char *s = json_string_value(json_array_get(list, i));

		v[i] = s ? decode(r, s) : NULL;
		if (!v[i])
			return bad(r, key, "must hold text only");
	}
	*ret = v;
	return 0;
}

/* *ret is NONE when it is absent or null. */
static int take_id(struct reader *r, const json_t *o, const char *key, struct content_id *ret)
{
	const char *text;

	*ret = (struct content_id){ 0 };
	if (json_get_str_opt(o, key, NULL, &text, r->err) < 0)
		return -1;
	if (text && pod_content_read(text, ret, r->err) < 0)
		return err_wrap(r->err, "`%s`", key);
	return 0;
}

/* The sidecar makes a view for the first input that has it, in this order. */
static int take_view(struct reader *r, const json_t *o, struct runner_input *in)
{
	if (take_u32(r, o, "mounted", &in->view) < 0)
		return -1;
	if (in->view == r->views.n + 1)
		VEC_PUSH(&r->views, in->id);
	if (in->view > r->views.n)
		return bad(r, "mounted", "is out of order");
	return in->view && !content_id_eq(&r->views.v[in->view - 1], &in->id)
		       ? bad(r, "mounted", "names a view of other content")
		       : 0;
}

static int read_inputs(struct reader *r, const json_t *o, struct runner_attempt *a)
{
	struct runner_input *v;
	json_t *list;

	if (take_list(r, o, "inputs", &list) < 0)
		return -1;
	v = arena_alloc(r->arena, (json_array_size(list) + 1) * sizeof(*v));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);

		if (take_needed(r, one, "name", &v[i].name) < 0 ||
		    take_needed(r, one, "path", &v[i].path) < 0 ||
		    check_path(r, "path", v[i].path) < 0 || take_id(r, one, "id", &v[i].id) < 0 ||
		    take_text(r, one, "volume", &v[i].volume) < 0 ||
		    (v[i].id.kind == CONTENT_NONE && bad(r, "id", "is missing") < 0) ||
		    take_view(r, one, &v[i]) < 0)
			return err_wrap(r->err, "input %zu", i);
	}
	a->inputs = v;
	a->n_inputs = json_array_size(list);
	return 0;
}

static int read_outputs(struct reader *r, const json_t *o, struct runner_attempt *a)
{
	struct runner_output *v;
	json_t *list;

	if (take_list(r, o, "outputs", &list) < 0)
		return -1;
	v = arena_alloc(r->arena, (json_array_size(list) + 1) * sizeof(*v));
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *one = json_array_get(list, i);

		if (take_needed(r, one, "name", &v[i].name) < 0 ||
		    take_needed(r, one, "path", &v[i].path) < 0 ||
		    check_path(r, "path", v[i].path) < 0 ||
		    json_get_bool_opt(one, "dir", false, &v[i].is_dir, r->err) < 0)
			return err_wrap(r->err, "output %zu", i);
	}
	a->outputs = v;
	a->n_outputs = json_array_size(list);
	return 0;
}

static int read_gang(struct reader *r, const json_t *o, struct runner_gang *ret)
{
	const json_t *g = json_object_get(o, "gang");

	if (!g)
		return 0;
	if (take_needed(r, g, "framework", &ret->framework) < 0 ||
	    take_u32(r, g, "nodes", &ret->nodes) < 0 ||
	    take_u32(r, g, "procs_per_node", &ret->procs_per_node) < 0 ||
	    take_u32(r, g, "servers", &ret->servers) < 0 ||
	    take_u32(r, g, "min_nodes", &ret->min_nodes) < 0 ||
	    (ret->min_nodes > ret->nodes && bad(r, "min_nodes", "is out of range") < 0))
		return err_wrap(r->err, "gang");
	return 0;
}

/* "NAME=value", or only a name; a name is never empty. */
static int check_names(struct reader *r, const char *key, const char *const *v, bool values)
{
	for (; *v; v++)
		if (**v == '=' || !**v || (strchr(*v, '=') != NULL) != values)
			return bad(r, key, values ? "must be NAME=value each" : "must be names");
	return 0;
}

static int read_program(struct reader *r, const json_t *o, struct runner_attempt *a)
{
	if (take_uint(r, o, "id", INT64_MAX, &a->id) < 0 ||
	    take_u32(r, o, "number", &a->number) < 0 || take_needed(r, o, "run", &a->run_id) < 0 ||
	    take_needed(r, o, "task", &a->task) < 0 || take_text(r, o, "step", &a->on.step) < 0 ||
	    take_texts(r, o, "argv", &a->argv) < 0 || take_texts(r, o, "env", &a->env) < 0 ||
	    take_texts(r, o, "secrets", &a->secrets) < 0 ||
	    check_names(r, "env", a->env, true) < 0 ||
	    check_names(r, "secrets", a->secrets, false) < 0)
		return -1;
	if (!a->id)
		return bad(r, "id", "is missing");
	return a->argv[0] && *a->argv[0] ? 0 : bad(r, "argv", "names no program");
}

static int read_attempt(struct reader *r, const json_t *o, struct runner_attempt *a)
{
	struct digest *key = arena_alloc(r->arena, sizeof(*key));
	struct content_id *code = arena_alloc(r->arena, sizeof(*code));
	const char *text;

	if (read_program(r, o, a) < 0 || json_get_str(o, "key", &text, r->err) < 0 ||
	    digest_parse(text, key, r->err) < 0 || read_inputs(r, o, a) < 0 ||
	    read_outputs(r, o, a) < 0 || take_id(r, o, "code", code) < 0 ||
	    take_path(r, o, "metrics", &a->metrics_path) < 0 ||
	    take_path(r, o, "series", &a->series_path) < 0 ||
	    take_path(r, o, "checkpoint", &a->checkpoint_path) < 0 ||
	    take_ns(r, o, "timeout_ns", &a->timeout_ns) < 0 ||
	    take_ns(r, o, "grace_ns", &a->grace_ns) < 0 ||
	    json_get_bool_opt(o, "forwards_signals", false, &a->forwards_signals, r->err) < 0)
		return -1;
	if (code->kind != CONTENT_NONE && code->kind != CONTENT_TREE)
		return bad(r, "code", "must be a tree");
	a->key = key;
	a->code = code->kind == CONTENT_TREE ? code : NULL;
	return read_gang(r, o, &a->on.gang);
}

static const struct message {
	const char *what; /* for people */
	const char *key;  /* of its version */
	uint64_t max;
} specification = { "the pod's specification", "cairn_pod", POD_SPEC_MAX },
  pods_result = { "the pod's result", "cairn_result", POD_RESULT_MAX };

static int parse(const struct message *m, const char *text, size_t len, json_t **ret,
		 struct err *err)
{
	int64_t version;

	if (len > m->max)
		return err_set(err, ERR_INVALID, "%s is larger than any that cairn writes",
			       m->what);
	if (json_parse(m->what, text, len, ret, err) < 0)
		return -1;
	if (!json_is_object(*ret) || json_get_int(*ret, m->key, &version, NULL) < 0)
		return err_set(err, ERR_INVALID, "%s was not written by cairn", m->what);
	return version == VERSION ? 0
				  : err_set(err, ERR_INVALID,
					    "%s is of version %lld; this cairn knows %d: use the "
					    "same version on both sides",
					    m->what, (long long)version, VERSION);
}

static int read_attempts(const json_t *top, unsigned index, struct reader *r,
			 struct runner_attempt **ret, size_t *ret_n)
{
	uint64_t per_pod, from;
	json_t *list;
	size_t n;

	if (json_get_array(top, "attempts", &list, r->err) < 0 ||
	    take_uint(r, top, "per_pod", INIT_PROGRAMS_MAX, &per_pod) < 0)
		return -1;
	from = per_pod * index;
	n = json_array_size(list);
	if (per_pod && n && from >= n)
		return err_set(r->err, ERR_INVALID, "it has nothing for pod %u", index);
	n = per_pod ? MIN(per_pod, n - from) : n;
	if (n == 0 || n > INIT_PROGRAMS_MAX)
		return err_set(r->err, ERR_INVALID, "`attempts` must have 1 to %d",
			       INIT_PROGRAMS_MAX);
	*ret = arena_alloc(r->arena, n * sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		if (read_attempt(r, json_array_get(list, from + i), &(*ret)[i]) < 0)
			return err_wrap(r->err, "attempt %zu", (size_t)from + i);
	*ret_n = n;
	return 0;
}

int pod_spec_read(const char *text, size_t len, unsigned index, struct arena *arena,
		  struct runner_attempt **ret, size_t *ret_n, struct err *err)
{
	struct reader r = { .arena = arena, .err = err };
	json_t *top = NULL;
	int result = parse(&specification, text, len, &top, err);

	if (result == 0 && read_attempts(top, index, &r, ret, ret_n) < 0)
		result = err_wrap(err, "%s", specification.what);
	VEC_FREE(&r.views);
	json_decref(top);
	return result;
}

/* The result. */

static json_t *result_of(const struct pod_result *p)
{
	const struct runner_result *r = &p->r;
	json_t *o = json_object();

	set_int(o, "attempt", (int64_t)p->attempt_id);
	set_int(o, "index", p->index);
	set_true(o, "ran", p->ran);
	set_true(o, "main_died", p->main_died);
	set_true(o, "stopped", p->stopped);
	if (r->failure != FAILURE_NONE)
		json_object_set_new(o, "failure", json_string(failure_class_name(r->failure)));
	set_int(o, "exit", r->exit_status);
	set_int(o, "signal", r->signo);
	set_int(o, "started_ns", r->started_ns);
	set_int(o, "ended_ns", r->ended_ns);
	set_int(o, "rss", (int64_t)r->max_rss_bytes);
	set_int(o, "cpu_ns", r->cpu_ns);
	if (p->n_outputs) {
		json_t *ids = json_array();

		for (size_t i = 0; i < p->n_outputs; i++)
			json_array_append_new(ids, id_of(&r->outputs[i]));
		json_object_set_new(o, "outputs", ids);
	}
	set_text(o, "metrics", r->metrics_json);
	if (r->log.kind != CONTENT_NONE)
		json_object_set_new(o, "log", id_of(&r->log));
	set_text(o, "log_tail", r->log_tail);
	set_text(o, "continues", r->continues);
	if (r->err.code) {
		set_int(o, "error_code", r->err.code);
		set_text(o, "error", r->err.msg);
	}
	return o;
}

int pod_result_write(const struct pod_result *results, size_t n,
		     int (*put)(void *arg, const void *bytes, size_t n, struct content_id *ret,
				struct err *err),
		     void *arg, struct str *ret_message, struct err *err)
{
	json_t *top = json_object(), *list = json_array();
	size_t from = ret_message->len;
	struct content_id where;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, result_of(&results[i]));
	json_object_set_new(top, "cairn_result", json_integer(VERSION));
	json_object_set_new(top, "results", list);
	json_add_canonical(ret_message, top);
	if (ret_message->len - from > POD_MESSAGE_MAX) {
		r = put(arg, ret_message->s + from, ret_message->len - from, &where, err);
		ret_message->len = from;
		ret_message->s[from] = '\0';
		if (r == 0) {
			json_object_del(top, "results");
			json_object_set_new(top, "result", id_of(&where));
			json_add_canonical(ret_message, top);
		}
	}
	json_decref(top);
	return r < 0 ? err_wrap(err, "keeping the result") : 0;
}

static int read_failure(struct reader *r, const json_t *o, struct runner_result *ret)
{
	const char *name;

	if (json_get_str_opt(o, "failure", "none", &name, r->err) < 0)
		return -1;
	ret->failure = failure_class_parse(name);
	switch (ret->failure) {
	case FAILURE_NONE:
	case FAILURE_FAILED:
	case FAILURE_TIMEOUT:
	case FAILURE_OOM:
	case FAILURE_OUTPUT:
	case FAILURE_STORE:
		return 0;
	default:
		return bad(r, "failure", "is none that a pod can tell");
	}
}

static int read_error(struct reader *r, const json_t *o, struct runner_result *ret)
{
	const char *message;
	uint64_t code;

	if (take_uint(r, o, "error_code", ERR_FAILED, &code) < 0 ||
	    take_text(r, o, "error", &message) < 0)
		return -1;
	if (code)
		err_set(&ret->err, (enum err_code)code, "%s", message ? message : "");
	for (char *c = ret->err.msg; *c; c++)
		if ((unsigned char)*c < ' ')
			*c = ' ';
	return 0;
}

static int read_result_outputs(struct reader *r, const json_t *o, struct pod_result *p)
{
	json_t *list = json_object_get(o, "outputs");

	if (!list)
		return 0;
	if (take_list(r, o, "outputs", &list) < 0)
		return -1;
	p->n_outputs = json_array_size(list);
	p->r.outputs = arena_alloc(r->arena, (p->n_outputs + 1) * sizeof(*p->r.outputs));
	for (size_t i = 0; i < p->n_outputs; i++) {
		const json_t *id = json_array_get(list, i);

		if (json_is_null(id))
			continue;
		if (!json_is_string(id) ||
		    pod_content_read(json_string_value(id), &p->r.outputs[i], NULL) < 0)
			return bad(r, "outputs", "must hold content ids");
	}
	return 0;
}

static int read_ending(struct reader *r, const json_t *o, struct runner_result *ret)
{
	int64_t status;
	uint64_t signo;

	if (json_get_int_opt(o, "exit", 0, &status, r->err) < 0 ||
	    take_uint(r, o, "signal", 128, &signo) < 0 ||
	    take_ns(r, o, "started_ns", &ret->started_ns) < 0 ||
	    take_ns(r, o, "ended_ns", &ret->ended_ns) < 0 ||
	    take_ns(r, o, "cpu_ns", &ret->cpu_ns) < 0 ||
	    take_uint(r, o, "rss", INT64_MAX, &ret->max_rss_bytes) < 0)
		return -1;
	if (status < -1 || status > 255)
		return bad(r, "exit", "is out of range");
	ret->exit_status = (int)status;
	ret->signo = (int)signo;
	return 0;
}

/* The caller checks the id, because it knows its attempts. */
static int read_result(struct reader *r, const json_t *o, struct pod_result *p)
{
	const char *metrics, *tail, *continues;

	if (take_uint(r, o, "attempt", INT64_MAX, &p->attempt_id) < 0 ||
	    take_u32(r, o, "index", &p->index) < 0 ||
	    json_get_bool_opt(o, "ran", false, &p->ran, r->err) < 0 ||
	    json_get_bool_opt(o, "main_died", false, &p->main_died, r->err) < 0 ||
	    json_get_bool_opt(o, "stopped", false, &p->stopped, r->err) < 0 ||
	    read_failure(r, o, &p->r) < 0 || read_ending(r, o, &p->r) < 0 ||
	    read_result_outputs(r, o, p) < 0 || take_text(r, o, "metrics", &metrics) < 0 ||
	    take_text(r, o, "log_tail", &tail) < 0 ||
	    take_text(r, o, "continues", &continues) < 0 || take_id(r, o, "log", &p->r.log) < 0)
		return -1;
	p->r.metrics_json = (char *)metrics; /* the arena owns it, like the rest */
	p->r.log_tail = (char *)tail;
	p->r.continues = (char *)continues;
	return read_error(r, o, &p->r);
}

/* 1: the results are in a blob. */
static int read_results(const json_t *top, struct reader *r, struct pod_result **ret, size_t *ret_n,
			struct content_id *ret_where)
{
	json_t *list;
	size_t n;

	if (json_object_get(top, "result")) {
		if (take_id(r, top, "result", ret_where) < 0)
			return -1;
		return content_is_file(ret_where) && ret_where->size_bytes <= POD_RESULT_MAX
			       ? 1
			       : bad(r, "result", "must be a blob, and not too large");
	}
	if (json_get_array(top, "results", &list, r->err) < 0)
		return -1;
	n = json_array_size(list);
	if (n > INIT_PROGRAMS_MAX)
		return err_set(r->err, ERR_INVALID, "`results` must have at most %d",
			       INIT_PROGRAMS_MAX);
	*ret = arena_alloc(r->arena, (n + 1) * sizeof(**ret));
	for (size_t i = 0; i < n; i++)
		if (read_result(r, json_array_get(list, i), &(*ret)[i]) < 0)
			return err_wrap(r->err, "result %zu", i);
	*ret_n = n;
	return 0;
}

int kube_pod_result_read(const char *text, size_t len, struct arena *arena, struct pod_result **ret,
			 size_t *ret_n, struct content_id *ret_where, struct err *err)
{
	struct reader r = { .arena = arena, .err = err };
	json_t *top = NULL;
	int result = parse(&pods_result, text, len, &top, err);

	if (result == 0 && (result = read_results(top, &r, ret, ret_n, ret_where)) < 0)
		err_wrap(err, "%s", pods_result.what);
	json_decref(top);
	return result;
}

/* engine/model/read.c — shared by all readers of YAML: reports, simple values, templates, names,
 * keys, paths.
 *
 * Each reader gets a node and the `what` with which its message begins. It reports at the node's
 * place and returns false or leaves *ret as it was; the caller continues with its default. So one
 * pass finds every error of a file.
 *
 * Text is copied into the arena of the model, because the YAML tree is freed when the model is
 * made. The index of places (source.c) is made only when a document has its first expression. Paths
 * are lexical: whether a file exists is checked when a run starts.
 */
#include "model/read.h"

#include <assert.h>
#include <math.h>
#include "base/os/fs.h"

void doc_error(const struct doc *d, const struct yaml_node *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_addv(d->l->diags, DIAG_ERROR, d->file, at->line, at->col, fmt, ap);
	va_end(ap);
}

void doc_error_at(struct diag_list *l, const struct pos *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_addv(l, DIAG_ERROR, at->file, at->line, at->col, fmt, ap);
	va_end(ap);
}

void diag_warn_at(struct diag_list *l, const struct pos *at, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_addv(l, DIAG_WARNING, at->file, at->line, at->col, fmt, ap);
	va_end(ap);
}

struct pos doc_pos(const struct doc *d, const struct yaml_node *n)
{
	return (struct pos){ .file = d->file, .line = n->line, .col = n->col };
}

/* What other tools call a key. */
static const struct {
	const char *theirs, *ours;
} words_of_peers[] = {
	{ "deps", "inputs" },
	{ "dependencies", "needs" },
	{ "depends", "needs" },
	{ "depends_on", "needs" },
	{ "dependsOn", "needs" },
	{ "after", "needs" },
	{ "cmd", "run" },
	{ "command", "run" },
	{ "script", "run" },
	{ "shell_command", "run" },
	{ "outs", "outputs" },
	{ "when", "if" },
	{ "stages", "steps" },
	{ "jobs", "steps" },
	{ "tasks", "steps" },
	{ "rules", "steps" },
	{ "foreach", "each" },
	{ "withItems", "each" },
	{ "with_items", "each" },
	{ "withParam", "each" },
	{ "parameters", "params" },
	{ "vars", "params" },
	{ "arguments", "params" },
	{ "config", "params" },
	{ "mem", "memory" },
	{ "ram", "memory" },
	{ "mem_mb", "memory" },
	{ "threads", "cpu" },
	{ "container", "image" },
	{ "docker", "image" },
	{ "retries", "retry" },
	{ "retryStrategy", "retry" },
	{ "name", "pipeline" },
	{ "schedule", "schedules" },
	{ "cron", "schedules" },
	{ "artifacts", "outputs" },
	{ "frozen", "cache" },
	{ "activeDeadlineSeconds", "timeout" },
	{ "onExit", "finally" },
	{ "on_exit", "finally" },
	{ "handler_on", "finally" },
	{ "handlers", "finally" },
	{ "continueOn", "continue_on_error" },
	{ "continue_on", "continue_on_error" },
	{ "allow_failure", "continue_on_error" },
	{ "ignore_errors", "continue_on_error" },
	{ "failFast", "fail_fast" },
	{ "withSequence", "each" },
	{ "conda", "environment" },
	{ "strategy", "matrix" },
	{ "timeout-minutes", "timeout" },
	{ "timeout_minutes", "timeout" },
	{ "time_limit", "timeout" },
	{ "limit", "max" },
	{ "maxRetries", "max" },
	{ "max_attempts", "max" },
	{ "times", "max" },
	{ "condition", "if" },
	{ "preconditions", "if" },
	{ "templates", "steps" },
	{ "cpus", "cpu" },
	{ "gpus", "gpu" },
	{ "nvidia.com/gpu", "gpu" },
	{ "mem_gb", "memory" },
	{ "ephemeral-storage", "disk" },
	{ "disk_mb", "disk" },
};

const char *loader_our_word(const char *word, const char *const *names, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(words_of_peers); i++)
		for (size_t k = 0; str_eq(words_of_peers[i].theirs, word) && k < n; k++)
			if (str_eq(words_of_peers[i].ours, names[k]))
				return names[k];
	return NULL;
}

/* What stands below `resources`; peers have it in the step. */
static const char *resource_word(const char *word)
{
	static const char *const names[] = { "cpu", "memory", "gpu", "disk", "shm" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_eq(word, names[i]))
			return names[i];
	return loader_our_word(word, names, ARRAY_LEN(names));
}

const char *loader_suggest_key(struct loader *l, const char *word, const char *const *names,
			       size_t n)
{
	const char *ours = loader_our_word(word, names, n);

	for (size_t i = 0; !ours && i < n; i++)
		if (str_eq(names[i], "resources") && (ours = resource_word(word)))
			return arena_printf(l->scratch, " (here it is `resources: {%s: …}`)", ours);
	return ours ? arena_printf(l->scratch, " (here it is `%s`)", ours)
		    : loader_suggest(l, word, names, n);
}

const char *loader_suggest(struct loader *l, const char *word, const char *const *names, size_t n)
{
	struct str s = { 0 };
	const char *hint;

	if (diag_errors(l->diags) >= DIAG_MAX)
		return ""; /* the message won't be kept */
	text_add_suggestion(&s, word, names, n);
	hint = arena_strdup(l->scratch, s.s ? s.s : "");
	str_deinit(&s);
	return hint;
}

#define SUGGEST_MAX 4096 /* candidates to compare: an error message isn't worth a second */

const char *doc_suggest_key(struct loader *l, const char *word, const struct map *names)
{
	size_t n = diag_errors(l->diags) < DIAG_MAX ? MIN(map_len(names), SUGGEST_MAX) : 0;
	_cleanup_(freep) const char **list = xcalloc(n, sizeof(*list));

	for (size_t i = 0; i < n; i++) {
		const void *key;
		size_t len;

		map_at(names, i, &key, &len);
		list[i] = arena_strndup(l->scratch, key, len);
	}
	return loader_suggest(l, word, list, n);
}

const char *doc_text(const struct doc *d, const struct yaml_node *n)
{
	return arena_strndup(d->l->arena, n->text, n->len);
}

const char *doc_name(const struct doc *d)
{
	return d->root ? d->file : d->path;
}

/* Simple values. */

static bool wrong(const struct doc *d, const struct yaml_node *n, const char *what,
		  const char *wanted)
{
	doc_error(d, n, "%s must be %s, not %s", what, wanted, yaml_describe(n));
	return false;
}

bool doc_want_map(const struct doc *d, const struct yaml_node *n, const char *what)
{
	return n->kind == YAML_KIND_MAP || wrong(d, n, what, "a mapping");
}

bool doc_want_list(const struct doc *d, const struct yaml_node *n, const char *what)
{
	return n->kind == YAML_KIND_SEQ || wrong(d, n, what, "a list");
}

bool doc_want_scalar(const struct doc *d, const struct yaml_node *n, const char *what)
{
	return (n->kind == YAML_KIND_SCALAR && !yaml_is_null(n)) ||
	       wrong(d, n, what, "text or a number");
}

bool doc_want_text(const struct doc *d, const struct yaml_node *n, const char *what)
{
	if (n->kind != YAML_KIND_SCALAR || yaml_scalar_type(n) != YAML_TYPE_STRING)
		return wrong(d, n, what, "text");
	if (n->len == 0) {
		doc_error(d, n, "%s is empty", what);
		return false;
	}
	return true;
}

void read_text(const struct doc *d, const struct yaml_node *n, const char *what, const char **ret)
{
	if (doc_want_text(d, n, what))
		*ret = doc_text(d, n);
}

void read_bool(const struct doc *d, const struct yaml_node *n, const char *what, bool *ret)
{
	if (n->kind != YAML_KIND_SCALAR || !yaml_as_bool(n, ret))
		wrong(d, n, what, "true or false");
}

bool read_count(const struct doc *d, const struct yaml_node *n, const char *what, int64_t min,
		int64_t max, int64_t *ret)
{
	int64_t v;

	if (n->kind != YAML_KIND_SCALAR || !yaml_as_int(n, &v))
		return wrong(d, n, what, "an integer");
	assert(min <= max);
	if (v < min || v > max) {
		doc_error(d, n, "%s must be from %lld to %lld", what, (long long)min,
			  (long long)max);
		return false;
	}
	*ret = v;
	return true;
}

bool read_choice(const struct doc *d, const struct yaml_node *n, const char *what,
		 const char *const *names, size_t n_names, const char **ret)
{
	struct str all = { 0 };

	if (!doc_want_text(d, n, what))
		return false;
	for (size_t i = 0; i < n_names; i++)
		if (strcmp(names[i], n->text) == 0) {
			*ret = names[i];
			return true;
		}
	for (size_t i = 0; i < n_names; i++)
		str_addf(&all, "%s%s", i == 0 ? "" : i + 1 == n_names ? " or " : ", ", names[i]);
	doc_error(d, n, "%s must be %s, not `%.60s`%s", what, all.s, n->text,
		  loader_suggest(d->l, n->text, names, n_names));
	str_deinit(&all);
	return false;
}

/* Sets *ret to the name's place in the list, from 1. */
static void read_nth(const struct doc *d, const struct yaml_node *n, const char *what,
		     const char *const *names, size_t n_names, uint32_t *ret)
{
	const char *name;

	if (!read_choice(d, n, what, names, n_names, &name))
		return;
	for (uint32_t i = 0; i < n_names; i++)
		if (names[i] == name)
			*ret = i + 1;
}

void read_strictness(const struct doc *d, const struct yaml_node *n, struct step_sandbox *s)
{
	static const char *const names[] = { "none", "strict" };

	read_nth(d, n, "`sandbox`", names, ARRAY_LEN(names), &s->strictness);
}

void read_network(const struct doc *d, const struct yaml_node *n, struct step_sandbox *s)
{
	static const char *const names[] = { "host", "loopback", "none" };

	read_nth(d, n, "`network`", names, ARRAY_LEN(names), &s->network);
}

static bool scalar_value(const struct doc *d, const struct yaml_node *n, struct value *ret)
{
	switch (yaml_scalar_type(n)) {
	case YAML_TYPE_BOOL:
		ret->type = VALUE_BOOL;
		return yaml_as_bool(n, &ret->b);
	case YAML_TYPE_INT:
		ret->type = VALUE_INT;
		return yaml_as_int(n, &ret->i);
	case YAML_TYPE_FLOAT:
		ret->type = VALUE_FLOAT;
		return yaml_as_float(n, &ret->f) && isfinite(ret->f);
	case YAML_TYPE_STRING:
		*ret = (struct value){ .type = VALUE_STRING, .s = doc_text(d, n) };
		return true;
	default:
		return false;
	}
}

bool read_number_or_text(const struct doc *d, const struct yaml_node *n, const char *what,
			 struct value *ret)
{
	struct value v = { 0 };

	if (!doc_want_scalar(d, n, what))
		return false;
	if (template_text_has_expr(n->text, n->len)) {
		doc_error(d, n, "%s can't depend on an expression here", what);
		return false;
	}
	if (!scalar_value(d, n, &v)) {
		doc_error(d, n, "%s: `%.60s` is out of range", what, n->text);
		return false;
	}
	*ret = v;
	return true;
}

/* Whether a command gets the number as it is written here: not 010, 0x10, 3.10. Exponents and one
 * `.0` are nobody's version. */
static bool is_written_plainly(const struct yaml_node *n, const struct value *v)
{
	const char *s = n->text + (*n->text == '-'), *dot = strchr(s, '.');
	_cleanup_(str_deinit) struct str text = { 0 };

	if (v->type == VALUE_INT) {
		value_add_text(&text, v);
		return str_eq(text.s, n->text);
	}
	return v->type != VALUE_FLOAT || strpbrk(s, "eE") ||
	       (*s != '+' && (s[0] != '0' || s[1] == '.') &&
		(!dot || strlen(dot) <= 2 || s[strlen(s) - 1] != '0'));
}

bool read_value(const struct doc *d, const struct yaml_node *n, const char *what, struct value *ret)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct value v;

	if (!read_number_or_text(d, n, what, &v))
		return false;
	if (!is_written_plainly(n, &v)) {
		value_add_text(&text, &v);
		doc_error(d, n,
			  "`%.60s` is read as the number %s: write %s, or '%.60s' for the text",
			  n->text, text.s, text.s, n->text);
		return false;
	}
	*ret = v;
	return true;
}

bool read_list_value(const struct doc *d, const struct yaml_node *n, const char *what,
		     struct value *ret)
{
	struct value *items;
	bool ok = true;

	if (!doc_want_list(d, n, what))
		return false;
	items = arena_alloc(d->l->arena, n->len * sizeof(*items));
	for (size_t i = 0; i < n->len; i++) {
		if (n->items[i]->kind != YAML_KIND_SCALAR) {
			doc_error(d, n->items[i],
				  "%s: an item must be text, a number, true or false, not %s", what,
				  yaml_describe(n->items[i]));
			ok = false;
		} else {
			ok &= read_value(d, n->items[i], what, &items[i]);
		}
	}
	if (ok)
		*ret = (struct value){ .type = VALUE_LIST, .list = { items, n->len } };
	return ok;
}

bool read_any_value(const struct doc *d, const struct yaml_node *n, const char *what,
		    struct value *ret)
{
	return n->kind == YAML_KIND_SEQ ? read_list_value(d, n, what, ret)
					: read_value(d, n, what, ret);
}

bool read_value_as(const struct doc *d, const struct yaml_node *n, enum value_type type,
		   const char *what, struct value *ret)
{
	if (n->kind == YAML_KIND_SCALAR && (type == VALUE_INT || type == VALUE_FLOAT))
		return read_number_or_text(d, n, what, ret);
	return read_any_value(d, n, what, ret);
}

/* Quantities. */

/* Reports what a parser of n's text, which returned r, said. */
static bool is_parsed(const struct doc *d, const struct yaml_node *n, const char *what, int r,
		      const struct err *err)
{
	if (r < 0)
		doc_error(d, n, "%s: %s", what, err->msg);
	return r == 0;
}

bool read_duration(const struct doc *d, const struct yaml_node *n, const char *what,
		   int64_t *ret_ns)
{
	struct err err = { 0 };

	return doc_want_scalar(d, n, what) &&
	       is_parsed(d, n, what, text_parse_duration(n->text, ret_ns, &err), &err);
}

void read_backoff(const struct doc *d, const struct yaml_node *n, int64_t *ret_min_ns,
		  int64_t *ret_max_ns)
{
	struct err err = { 0 };

	if (doc_want_scalar(d, n, "`backoff`"))
		is_parsed(d, n, "`backoff`",
			  text_parse_duration_range(n->text, ret_min_ns, ret_max_ns, &err), &err);
}

bool read_bytes(const struct doc *d, const struct yaml_node *n, const char *what, uint64_t *ret)
{
	struct err err = { 0 };

	return doc_want_scalar(d, n, what) &&
	       is_parsed(d, n, what, text_parse_bytes(n->text, ret, &err), &err);
}

void read_cpu(const struct doc *d, const struct yaml_node *n, const char *otherwise,
	      uint32_t *ret_milli)
{
	struct err err = { 0 };

	if (!doc_want_scalar(d, n, "`cpu`"))
		return;
	if (text_parse_cpu(n->text, ret_milli, &err) < 0)
		doc_error(d, n, "`cpu`: %s", err.msg);
	else if (*ret_milli == 0)
		doc_error(d, n, "`cpu` must be more than 0%s", otherwise);
}

void read_memory(const struct doc *d, const struct yaml_node *n, const char *otherwise,
		 uint64_t *ret_bytes)
{
	if (read_bytes(d, n, "`memory`", ret_bytes) && *ret_bytes == 0)
		doc_error(d, n, "`memory` must be more than 0%s", otherwise);
}

void read_machine(const struct doc *d, const struct yaml_node *n, const char *otherwise,
		  uint32_t *ret_cpu_milli, uint64_t *ret_memory_bytes)
{
	const struct yaml_node *v;

	if ((v = yaml_get(n, "cpu")))
		read_cpu(d, v, otherwise, ret_cpu_milli);
	if ((v = yaml_get(n, "memory")))
		read_memory(d, v, otherwise, ret_memory_bytes);
}

/* Templates. */

struct expr_template *doc_literal_template(const struct doc *d, const struct yaml_node *n,
					   const char *text, size_t len)
{
	struct expr_template *t = arena_alloc(d->l->arena, sizeof(*t));

	*t = (struct expr_template){ .line = n->line, .col = n->col, .file = d->file };
	if (len) {
		t->n_parts = 1;
		t->parts = arena_alloc(d->l->arena, sizeof(*t->parts));
		t->parts->text = arena_strndup(d->l->arena, text, len);
		t->parts->len = len;
	}
	return t;
}

const struct expr_template *read_template(const struct doc *d, const struct yaml_node *n)
{
	struct source_cursor cursor;
	struct expr_source src = { .file = d->file,
				   .text = n->text,
				   .len = n->len,
				   .cursor = &cursor,
				   .line = n->line,
				   .col = n->col,
				   .arena = d->l->arena,
				   .diags = d->l->diags };

	/* Also without a `$`, which gets a warning. */
	if (!memmem(n->text, n->len, "{{", 2))
		return doc_literal_template(d, n, n->text, n->len);
	assert(d->bytes);
	if (!d->index)
		((struct doc *)(uintptr_t)d)->index =
			source_index_new(d->bytes, d->len, d->l->scratch);
	source_cursor_init(&cursor, d->index, n);
	return template_parse(&src);
}

/* Names and keys. */

static bool name_is(const char *s, size_t len, enum name_kind kind)
{
	bool lower = kind == NAME_PIPELINE || kind == NAME_STEP;

	for (size_t i = 0; i < len; i++) {
		char c = s[i];
		bool letter = (c >= 'a' && c <= 'z') || (!lower && c >= 'A' && c <= 'Z');
		bool inner = (c >= '0' && c <= '9') || (c == '-' && kind != NAME_ENV);

		if (!letter && !(c == '_' && kind != NAME_PIPELINE && (i || kind != NAME_STEP)) &&
		    !(i && inner))
			return false;
	}
	return len > 0;
}

bool doc_check_name(const struct doc *d, const struct yaml_node *n, enum name_kind kind,
		    const char *what)
{
	static const struct {
		size_t max;
		const char *rule;
	} kinds[] = {
		[NAME_PIPELINE] = { PIPELINE_NAME_MAX,
				    "lower-case letters, digits and `-`, with a letter first" },
		[NAME_STEP] = { PIPELINE_NAME_MAX,
				"lower-case letters, digits, `-` and `_`, with a letter first" },
		[NAME_IDENT] = { 64, "letters, digits, `-` and `_`, with a letter or `_` first" },
		[NAME_ENV] = { 256, "letters, digits and `_`, with no digit first" },
	};

	assert((size_t)kind < ARRAY_LEN(kinds));
	if (n->kind != YAML_KIND_SCALAR || !name_is(n->text, n->len, kind)) {
		doc_error(d, n, "%s `%.60s`: a name has %s", what,
			  n->kind == YAML_KIND_SCALAR ? n->text : "", kinds[kind].rule);
		return false;
	}
	if (n->len > kinds[kind].max) {
		doc_error(d, n, "%s `%.20s…` is longer than %zu characters", what, n->text,
			  kinds[kind].max);
		return false;
	}
	return true;
}

bool doc_check_image_name(const struct doc *d, const struct yaml_node *n)
{
	if (!doc_want_text(d, n, "`image`"))
		return false;
	for (const char *p = n->text; *p; p++) {
		bool alnum = ((*p | 32) >= 'a' && (*p | 32) <= 'z') || (*p >= '0' && *p <= '9');

		if (!alnum && (p == n->text || !strchr("._-/:@", *p))) {
			doc_error(d, n, "`%.80s` is not the name of an image: registry/name:tag",
				  n->text);
			return false;
		}
	}
	return true;
}

void doc_check_keys(const struct doc *d, const struct yaml_node *map, const char *const *names,
		    size_t n)
{
	for (size_t i = 0; i < map->len; i++) {
		const struct yaml_node *key = map->pairs[i].key;
		bool known = false;

		for (size_t k = 0; k < n && !known; k++)
			known = strcmp(names[k], key->text) == 0;
		if (!known)
			doc_error(d, key, "unknown key `%.60s`%s", key->text,
				  loader_suggest_key(d->l, key->text, names, n));
	}
}

/* Paths. */

bool has_space_or_control(const char *s)
{
	while ((unsigned char)*s > ' ' && *s != 0x7f)
		s++;
	return *s;
}

static bool has_control(const char *s)
{
	while ((unsigned char)*s >= ' ' && *s != 0x7f)
		s++;
	return *s;
}

const char *read_path(const struct doc *d, const struct yaml_node *at, const char *text,
		      const char *dir, const char *what, bool allow_root, bool *ret_is_dir)
{
	_cleanup_(freep) char *joined = NULL, *normal = NULL;
	size_t len = strlen(text);
	const char *problem = NULL;

	if (len == 0)
		problem = "is empty";
	else if (len > PATH_TEXT_MAX)
		problem = "is too long";
	else if (has_control(text))
		problem = "has control characters";
	else if (*text == '/')
		problem = "is absolute: give a path inside the project";
	if (!problem) {
		joined = fs_join(strcmp(dir, ".") == 0 ? "" : dir, text);
		normal = fs_normalise(joined);
		if (strcmp(normal, "..") == 0 || str_has_prefix(normal, "../"))
			problem = d->root ? "leads out of the commit or the run that it is in"
					  : "leads out of the project";
		else if (!allow_root && strcmp(normal, ".") == 0)
			problem = "is the whole directory: name something in it";
	}
	if (problem) {
		doc_error(d, at, "%s `%.80s` %s", what, text, problem);
		return NULL;
	}
	if (ret_is_dir)
		*ret_is_dir = text[len - 1] == '/' || strcmp(normal, ".") == 0;
	return arena_strdup(d->l->arena, normal);
}

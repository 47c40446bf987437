/* engine/model/step/io.c — reads a step's inputs and outputs, and where they lie in its workspace.
 *
 * An input is a path or URI (step_implicit_input()), or a reference that may have a path below it,
 * which is kept as a template (split_reference()). A step file only declares names of inputs;
 * step_match_file_inputs() compares them with what the step gives. Outputs, code, metrics and
 * checkpoint are plain paths.
 *
 * Names of inputs and outputs must also differ as variables (CAIRN_INPUT_…). Paths in a workspace
 * must not overlap: step_check_paths() sorts all of them so that the contents of a directory come
 * right after it, and then one pass finds each clash (`top` is the directory that covers the
 * current place).
 */
#include <assert.h>
#include "base/os/fs.h"
#include "model/read.h"

/* CAIRN_INPUT_TRAIN_DATA stands for both `train-data` and `train_data`: names must differ there
 * too. */
static void check_variables(struct reader *r, const struct yaml_node *n, const char *prefix)
{
	struct map *seen = map_new();

	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key;
		_cleanup_(freep) char *var = xstrndup(key->text, key->len);
		void **slot;

		for (char *p = var; *p; p++)
			*p = *p == '-' ? '_' : *p >= 'a' && *p <= 'z' ? (char)(*p - 32) : *p;
		slot = map_slot_str(seen, var);
		if (*slot)
			doc_error(r->d, key, "`%s` and `%.60s` would both be the variable %s%s",
				  (const char *)*slot, key->text, prefix, var);
		else
			*slot = (void *)(uintptr_t)key->text;
	}
	map_free(seen);
}

/* Inputs. */

static bool has_dotdot(const char *text, size_t len)
{
	for (const char *p = memmem(text, len, "..", 2); p;
	     p = memmem(p + 1, len - (size_t)(p + 1 - text), "..", 2))
		if ((p == text || p[-1] == '/') && (p + 2 == text + len || p[2] == '/'))
			return true;
	return false;
}

/* Reads what follows a reference: "/a/b.csv". Returns false after a report; *ret is NULL when
 * nothing follows. */
static bool split_reference(const struct doc *d, const struct yaml_node *n,
			    const struct expr_template *t, struct ref *ret_ref,
			    const struct expr_template **ret_rest)
{
	struct expr_template *rest;

	if (t->n_parts == 0 || !t->parts[0].expr || t->parts[0].expr->kind != EXPR_REF) {
		doc_error(
			d, n,
			"this must be a path, or a reference with perhaps a path behind it: \"${{ "
			"inputs.raw }}/a.csv\"");
		return false;
	}
	*ret_ref = t->parts[0].expr->ref;
	*ret_rest = NULL;
	if (t->n_parts == 1)
		return true;
	if (t->parts[1].expr || t->parts[1].text[0] != '/') {
		doc_error(d, n, "a `/` must stand between a reference and the path below it");
		return false;
	}
	for (size_t i = 1; i < t->n_parts; i++)
		if (!t->parts[i].expr && has_dotdot(t->parts[i].text, t->parts[i].len)) {
			doc_error(d, n, "a path below a reference can't go up (`..`)");
			return false;
		}
	if (t->n_parts == 2 && strcmp(t->parts[1].text, "/") == 0)
		return true;
	rest = arena_alloc(d->l->arena, sizeof(*rest));
	*rest = *t;
	rest->parts++;
	rest->n_parts--;
	*ret_rest = rest;
	return true;
}

static void read_input(struct reader *r, const struct yaml_node *n, struct step_input *in);

/* {first: what the first round gets, then: what the round before made}. */
static void read_rounds(struct reader *r, const struct yaml_node *n, struct step_input *in)
{
	static const char *const keys[] = { "first", "then" };
	const struct yaml_node *first = yaml_get(n, "first"), *then = yaml_get(n, "then");
	struct step_input *next = arena_alloc(r->l->arena, sizeof(*next));

	doc_check_keys(r->d, n, keys, ARRAY_LEN(keys));
	if (!first || !then) {
		doc_error(r->d, n,
			  "an input that changes from round to round has `first`, and `then`: "
			  "{first: init/, then: \"${{ steps.%s.outputs.NAME }}\"}",
			  r->s->name);
		return;
	}
	if (then->kind != YAML_KIND_SCALAR || !template_text_has_expr(then->text, then->len)) {
		doc_error(r->d, then,
			  "`then` is what the round before made: \"${{ steps.%s.outputs.NAME }}\"",
			  r->s->name);
		return;
	}
	if (!doc_want_text(r->d, first, "`first`"))
		return;
	read_input(r, first, in);
	*next = (struct step_input){ .name = in->name, .pos = doc_pos(r->d, then) };
	read_input(r, then, next);
	in->then = next;
}

static void read_input(struct reader *r, const struct yaml_node *n, struct step_input *in)
{
	size_t errors = diag_errors(r->l->diags);
	const struct expr_template *t;

	in->from = (struct ref){ .kind = REF_BROKEN };
	if (n->kind == YAML_KIND_MAP && r->context != CONTEXT_PIPELINE) {
		read_rounds(r, n, in);
		return;
	}
	if (!doc_want_text(r->d, n, "an input"))
		return;
	if (!template_text_has_expr(n->text, n->len)) {
		uint32_t index = step_implicit_input(r->l, r->d, n);

		if (index != UINT32_MAX)
			in->from = (struct ref){ .kind = REF_PIPELINE_INPUT,
						 .index = index,
						 .name = r->l->inputs.v[index].name,
						 .line = n->line,
						 .col = n->col };
		return;
	}
	t = read_template(r->d, n);
	if (diag_errors(r->l->diags) == errors)
		split_reference(r->d, n, t, &in->from, &in->subpath);
}

/* In a step file: only names, as a list, or as a mapping of names to their meaning. */
static void declare_file_inputs(struct reader *r, const struct yaml_node *n)
{
	static const char *const keys[] = { "help" };
	const struct yaml_node **names = NULL, *help;
	const char *text;
	size_t count = 0;

	if (n->kind == YAML_KIND_SEQ)
		count = read_name_list(r->d, n, "`inputs`", &names);
	else if (!doc_want_map(r->d, n, "`inputs` of a step file"))
		return;
	else
		names = arena_alloc(r->l->scratch, n->len * sizeof(struct yaml_node *));
	for (size_t i = 0; n->kind == YAML_KIND_MAP && i < n->len; i++) {
		const struct yaml_node *value = n->pairs[i].value;

		names[count++] = n->pairs[i].key;
		if (yaml_is_null(value))
			continue;
		if (value->kind != YAML_KIND_MAP) {
			doc_error(r->d, value,
				  "a step file only names its inputs: %s: {help: …}; what they are "
				  "is said where the file is used",
				  n->pairs[i].key->text);
			continue;
		}
		doc_check_keys(r->d, value, keys, ARRAY_LEN(keys));
		if ((help = yaml_get(value, "help")))
			read_text(r->d, help, "`help`", &text);
	}
	r->b->file_inputs = arena_alloc(r->l->scratch, count * sizeof(*r->b->file_inputs));
	for (size_t i = 0; i < count; i++) {
		doc_check_name(r->d, names[i], NAME_IDENT, "input");
		r->b->file_inputs[i] =
			(struct need){ doc_text(r->d, names[i]), doc_pos(r->d, names[i]) };
	}
	r->b->n_file_inputs = count;
}

void step_read_inputs(struct reader *r, const struct yaml_node *n)
{
	struct step_input *inputs;

	if (r->context == CONTEXT_FILE) {
		declare_file_inputs(r, n);
		return;
	}
	if (!doc_want_map(r->d, n, "`inputs` of a step"))
		return;
	check_variables(r, n, "CAIRN_INPUT_");
	inputs = arena_alloc(r->l->arena, n->len * sizeof(*inputs));
	for (size_t i = 0; i < n->len; i++) {
		doc_check_name(r->d, n->pairs[i].key, NAME_IDENT, "input");
		inputs[i] = (struct step_input){ .name = doc_text(r->d, n->pairs[i].key),
						 .pos = doc_pos(r->d, n->pairs[i].key) };
		read_input(r, n->pairs[i].value, &inputs[i]);
	}
	r->s->inputs = inputs;
	r->s->n_inputs = n->len;
}

/* Exactly the inputs that the step file declares must be given. */
void step_match_file_inputs(struct build *b)
{
	struct loader *l = b->doc->l;
	struct map *given = map_new();
	_cleanup_(freep) const char **names = xcalloc(b->n_file_inputs, sizeof(*names));

	assert(b->file && !b->file->broken);
	for (size_t i = 0; i < b->s->n_inputs; i++)
		map_slot_str(given, b->s->inputs[i].name);
	for (size_t i = 0; i < b->n_file_inputs; i++) {
		names[i] = b->file_inputs[i].name;
		if (!map_has(given, names[i], strlen(names[i])))
			doc_error(b->doc, b->key, "step `%s` must give `%s` its input `%s`",
				  b->s->name, doc_name(&b->file->doc), names[i]);
	}
	map_free(given);
	given = map_new();
	for (size_t i = 0; i < b->n_file_inputs; i++)
		map_slot_str(given, names[i]);
	for (size_t i = 0; i < b->s->n_inputs; i++)
		if (!map_has(given, b->s->inputs[i].name, strlen(b->s->inputs[i].name)))
			doc_error_at(
				l->diags, &b->s->inputs[i].pos, "`%s` has no input `%s`%s",
				doc_name(&b->file->doc), b->s->inputs[i].name,
				loader_suggest(l, b->s->inputs[i].name, names, b->n_file_inputs));
	map_free(given);
}

/* Outputs. */

static const char *plain_path(struct reader *r, const struct yaml_node *n, const char *dir,
			      const char *what, bool allow_root, bool *ret_is_dir)
{
	if (!doc_want_text(r->d, n, what))
		return NULL;
	if (template_text_has_expr(n->text, n->len)) {
		doc_error(r->d, n,
			  "%s can't depend on expressions: each task has a workspace of its own "
			  "anyway",
			  what);
		return NULL;
	}
	return read_path(r->d, n, n->text, dir, what, allow_root, ret_is_dir);
}

void step_read_outputs(struct reader *r, const struct yaml_node *n)
{
	static const char *const keys[] = { "path", "export", "temp" };
	const struct yaml_node *uri, *temp;
	struct step_output *outputs;

	if (!doc_want_map(r->d, n, "`outputs`"))
		return;
	check_variables(r, n, "CAIRN_OUTPUT_");
	outputs = arena_alloc(r->l->arena, n->len * sizeof(*outputs));
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *path = n->pairs[i].value;

		doc_check_name(r->d, n->pairs[i].key, NAME_IDENT, "output");
		outputs[i] = (struct step_output){ .name = doc_text(r->d, n->pairs[i].key),
						   .pos = doc_pos(r->d, n->pairs[i].key) };
		if (path->kind == YAML_KIND_MAP) {
			doc_check_keys(r->d, path, keys, ARRAY_LEN(keys));
			if ((uri = yaml_get(path, "export")))
				outputs[i].export = read_export(r->d, uri);
			if ((temp = yaml_get(path, "temp")))
				read_bool(r->d, temp, "`temp`", &outputs[i].temp);
			if (uri && outputs[i].temp)
				doc_error(
					r->d, temp,
					"output `%s` is exported, so it can't be `temp`: an export "
					"needs its content whenever it was changed",
					outputs[i].name);
			path = yaml_get(path, "path");
		}
		if (path)
			outputs[i].path =
				plain_path(r, path, ".", "output", false, &outputs[i].is_dir);
		else
			doc_error(r->d, n->pairs[i].value, "output `%s` has no `path`",
				  outputs[i].name);
	}
	r->s->outputs = outputs;
	r->s->n_outputs = n->len;
}

/* A list of paths in the project. */
static const char *const *read_paths(struct reader *r, const struct yaml_node *n, const char *key,
				     const char *what, bool allow_root, size_t *ret_n)
{
	const char *dir = r->context == CONTEXT_FILE ? r->d->dir : ".";
	const struct yaml_node **names;
	size_t count = read_name_list(r->d, n, key, &names), kept = 0;
	const char **paths = arena_alloc(r->l->arena, count * sizeof(*paths));

	for (size_t i = 0; i < count; i++) {
		paths[kept] = plain_path(r, names[i], dir, what, allow_root, NULL);
		kept += paths[kept] != NULL;
	}
	*ret_n = kept;
	return paths;
}

/* A list, or {paths: a list, imports: false}. */
void step_read_code(struct reader *r, const struct yaml_node *n)
{
	static const char *const keys[] = { "paths", "imports" };
	const struct yaml_node *paths = n, *imports = NULL;
	bool wanted = true;

	if (n->kind == YAML_KIND_MAP) {
		doc_check_keys(r->d, n, keys, ARRAY_LEN(keys));
		paths = yaml_get(n, "paths");
		imports = yaml_get(n, "imports");
	}
	r->b->parts->reads.code = NULL;
	r->b->parts->reads.n_code = 0;
	if (paths)
		r->b->parts->reads.code =
			read_paths(r, paths, "`code`", "code", true, &r->b->parts->reads.n_code);
	if (imports)
		read_bool(r->d, imports, "`imports`", &wanted);
	r->b->parts->reads.no_imports = !wanted;
}

/* The key has their content. A single file may stand without a list. */
void step_read_env_file(struct reader *r, const struct yaml_node *n)
{
	struct yaml_node *one[] = { (struct yaml_node *)(uintptr_t)n };
	const struct yaml_node list = {
		.kind = YAML_KIND_SEQ, .line = n->line, .col = n->col, .items = one, .len = 1
	};

	r->b->parts->reads.env_files =
		read_paths(r, n->kind == YAML_KIND_SCALAR ? &list : n, "`env_file`", "`env_file`",
			   false, &r->b->parts->reads.n_env_files);
}

/* Files of other tools that look like lock files and aren't one that an environment is made from.
 */
static const char *instead_of(const char *name)
{
	static const struct {
		const char *name, *advice;
	} others[] = {
		{ "poetry.lock", "write one with `poetry export -o requirements.txt`" },
		{ "Pipfile.lock", "write one with `pipenv requirements --hash >requirements.txt`" },
		{ "pdm.lock", "write one with `pdm export -o requirements.txt`" },
		{ "pylock.toml", "name the uv.lock, or a requirements.txt with hashes" },
		{ "pyproject.toml", "`uv lock` makes its uv.lock: name that" },
		{ "requirements.in",
		  "write one with `uv pip compile --generate-hashes requirements.in -o "
		  "requirements.txt`" },
		{ "environment.yml", "write one with `conda list --explicit --md5 >conda.txt`" },
		{ "environment.yaml", "write one with `conda list --explicit --md5 >conda.txt`" },
		{ "conda-lock.yml", "write one with `conda-lock render -k explicit`" },
	};

	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (str_eq(name, others[i].name))
			return others[i].advice;
	return NULL;
}

/* Its content decides which tool makes the environment (plan/sources/environment.c). */
void step_read_environment(struct reader *r, const struct yaml_node *n)
{
	const char *dir = r->context == CONTEXT_FILE ? r->d->dir : ".", *path, *advice;
	bool is_dir = false;

	if (n->kind == YAML_KIND_SCALAR && str_eq(n->text, "none")) { /* whatever `defaults` say */
		r->b->parts->reads.environment = NULL;
		return;
	}
	if (n->kind == YAML_KIND_MAP) {
		doc_error(r->d, n, "`environment` names a lock file; variables are `env` here");
		return;
	}
	path = plain_path(r, n, dir, "`environment`", false, &is_dir);
	advice = path ? instead_of(fs_basename(path)) : NULL;
	if (is_dir)
		doc_error(r->d, n, "`environment` names a lock file, not a directory");
	else if (advice)
		doc_error(r->d, n,
			  "`environment`: no environment is made from %s. It takes a uv.lock, a "
			  "requirements.txt with hashes, or an explicit file of conda: %s",
			  fs_basename(path), advice);
	else
		r->b->parts->reads.environment = path;
}

void step_read_metrics(struct reader *r, const struct yaml_node *n)
{
	bool is_dir = false;

	r->b->parts->measured.metrics = plain_path(r, n, ".", "`metrics`", false, &is_dir);
	if (is_dir)
		doc_error(r->d, n, "`metrics` is a file, not a directory");
	r->b->metrics_pos = doc_pos(r->d, n);
}

void step_read_values(struct reader *r, const struct yaml_node *n)
{
	bool is_dir = false;

	r->b->parts->measured.values = plain_path(r, n, ".", "`values`", false, &is_dir);
	if (is_dir)
		doc_error(r->d, n, "`values` is a file, not a directory");
	r->b->values_pos = doc_pos(r->d, n);
}

void step_read_series(struct reader *r, const struct yaml_node *n)
{
	r->b->series = plain_path(r, n, ".", "`series`", false, &r->b->series_is_dir);
	r->b->series_pos = doc_pos(r->d, n);
}

void step_finish_series(struct build *b)
{
	struct step *s = b->s;

	if (b->series && step_has_ranks(s))
		doc_error_at(b->doc->l->diags, &b->series_pos,
			     "step `%s` has metrics over time without `series`: its launcher takes "
			     "them from what the program prints",
			     s->name);
	else if (b->series)
		step_add_output(b,
				&(struct step_output){ .name = STEP_SERIES_OUTPUT,
						       .path = b->series,
						       .is_dir = b->series_is_dir,
						       .pos = b->series_pos },
				"its `series`");
	if (step_has_ranks(s))
		b->parts->measured.series = STEP_SERIES_PATH;
	else
		b->parts->measured.series = b->series;
}

void step_add_output(struct build *b, const struct step_output *o, const char *whose)
{
	struct step *s = b->s;
	struct step_output *v = arena_alloc(b->doc->l->arena, (s->n_outputs + 1) * sizeof(*v));

	for (size_t i = 0; i < s->n_outputs; i++) {
		v[i] = s->outputs[i];
		/* Variables of outputs are in upper case. */
		if (strcasecmp(v[i].name, o->name) == 0) {
			doc_error_at(b->doc->l->diags, &v[i].pos,
				     "output `%s` of step `%s` needs another name: this one "
				     "belongs to %s",
				     v[i].name, s->name, whose);
			return;
		}
	}
	v[s->n_outputs] = *o;
	s->outputs = v;
	s->n_outputs++;
}

void step_read_checkpoint(struct reader *r, const struct yaml_node *n)
{
	r->s->checkpoint = plain_path(r, n, ".", "`checkpoint`", false, NULL);
	r->b->checkpoint_pos = doc_pos(r->d, n);
}

/* Clashes. */

enum place_kind { PLACE_INPUTS, PLACE_CODE, PLACE_OUTPUT, PLACE_CHECKPOINT };
struct place {
	enum place_kind kind;
	const char *path, *name;
	struct pos pos;
};

/* Sorts `/` before every other byte, so that the contents of a directory come right after it. */
static int by_path(const void *a, const void *b)
{
	const struct place *x = a, *y = b;
	const unsigned char *p = (const unsigned char *)x->path,
			    *q = (const unsigned char *)y->path;

	while (*p && *p == *q)
		p++, q++;
	if (*p == *q)
		return (x->kind > y->kind) - (x->kind < y->kind);
	if (!*p || !*q)
		return *p ? 1 : -1;
	if (*p == '/' || *q == '/')
		return *p == '/' ? -1 : 1;
	return *p < *q ? -1 : 1;
}

static bool is_in(const char *inner, const char *outer)
{
	size_t n = strlen(outer);

	return strncmp(inner, outer, n) == 0 && (inner[n] == '\0' || inner[n] == '/');
}

static void describe_place(const struct place *p, char *out, size_t size)
{
	static const char *const kinds[] = {
		[PLACE_CODE] = "the code", [PLACE_CHECKPOINT] = "the checkpoint"
	};

	if (p->kind == PLACE_OUTPUT)
		snprintf(out, size, "output `%s` (%.200s)", p->name, p->path);
	else if (p->kind == PLACE_INPUTS)
		snprintf(out, size, "the directory %s/, where %s", p->path,
			 strcmp(p->path, "inputs") == 0 ? "inputs are put"
							: "cairn's own files are");
	else
		snprintf(out, size, "%s (%.200s)", kinds[p->kind], p->path);
}

static void report_clash(struct build *b, const struct place *x, const struct place *y)
{
	const struct place *later =
		x->kind > y->kind || (x->kind == y->kind &&
				      (x->pos.line > y->pos.line ||
				       (x->pos.line == y->pos.line && x->pos.col > y->pos.col)))
			? x
			: y;
	const struct place *earlier = later == x ? y : x;
	char what[300], other[300];
	bool same = strcmp(x->path, y->path) == 0;

	describe_place(later, what, sizeof(what));
	describe_place(earlier, other, sizeof(other));
	doc_error_at(b->doc->l->diags, &later->pos, "%s of step `%s` %s %s", what, b->s->name,
		     same                                ? "has the same path as"
		     : is_in(later->path, earlier->path) ? "lies inside of"
							 : "holds",
		     other);
}

static void check_metrics_path(struct build *b)
{
	const struct step *s = b->s;

	if (!s->measured->metrics)
		return;
	if (is_in(s->measured->metrics, "inputs") || is_in(s->measured->metrics, ".cairn"))
		doc_error_at(
			b->doc->l->diags, &b->metrics_pos,
			"`metrics` of step `%s` lies where inputs or cairn's own files are put",
			s->name);
	for (size_t i = 0; i < s->n_outputs; i++)
		if (s->outputs[i].is_dir && s->outputs[i].path &&
		    strcmp(s->outputs[i].path, s->measured->metrics) == 0)
			doc_error_at(
				b->doc->l->diags, &b->metrics_pos,
				"`metrics` of step `%s` has the path of output `%s`, which is a "
				"directory",
				s->name, s->outputs[i].name);
}

void step_check_paths(struct build *b)
{
	const struct step *s = b->s;
	size_t n = 0, top = 0;
	struct place *places = xcalloc(s->n_outputs + s->reads->n_code + s->reads->n_env_files + 3,
				       sizeof(*places));

	check_metrics_path(b);
	places[n++] = (struct place){ .kind = PLACE_INPUTS, .path = "inputs" };
	places[n++] = (struct place){ .kind = PLACE_INPUTS, .path = ".cairn" };
	for (size_t i = 0; i < s->reads->n_code; i++)
		if (strcmp(s->reads->code[i], ".") !=
		    0) /* the whole project: outputs are new files in it */
			places[n++] = (struct place){ .kind = PLACE_CODE,
						      .path = s->reads->code[i],
						      .pos = s->pos };
	for (size_t i = 0; i < s->reads->n_env_files; i++)
		places[n++] = (struct place){ .kind = PLACE_CODE,
					      .path = s->reads->env_files[i],
					      .pos = s->pos };
	for (size_t i = 0; i < s->n_outputs; i++)
		if (s->outputs[i].path)
			places[n++] = (struct place){ PLACE_OUTPUT, s->outputs[i].path,
						      s->outputs[i].name, s->outputs[i].pos };
	if (s->checkpoint)
		places[n++] = (struct place){ .kind = PLACE_CHECKPOINT,
					      .path = s->checkpoint,
					      .pos = b->checkpoint_pos };
	qsort(places, n, sizeof(*places), by_path);
	for (size_t i = 1; i < n; i++) {
		const struct place *x = &places[top], *y = &places[i];
		/* Files of the project in inputs/ matter only when the step has inputs, which go
		 * there. */
		bool may_overlap = x->kind <= PLACE_CODE && y->kind <= PLACE_CODE &&
				   (x->kind == y->kind || s->n_inputs == 0);

		if (!is_in(y->path, x->path))
			top = i;
		else if (!may_overlap)
			report_clash(b, x, y);
	}
	free(places);
}

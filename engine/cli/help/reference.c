/* engine/cli/help/reference.c — the reference pages (Markdown) in docs/reference/, from the tables
 * that the program itself uses: pipelines/schema.json, which a test holds against the parser, the
 * table of commands, and that of expressions.
 *
 * A page of a file format walks the schema: a section for each mapping, a row for each of its keys.
 * What a value may be is told in a few words (add_value()); formats that many keys share have
 * theirs in `known`. A mapping that stands in several places is described once, at the first one:
 * `seen` knows schemas by their address, and a place that refers to it names that section.
 *
 * The schema is our own text: what can't be read in it is a defect, and stops the program.
 */
#include <assert.h>
#include <string.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "cli/help/answers.h"
#include "cli/help/help.h"
#include "cli/help/templates.h"
#include "model/expr/expr.h"
#include "serve/api/openapi.h"

#define DEFS "#/$defs/"

/* What a shared format is called in a table. */
static const struct {
	const char *name, *words;
} known[] = {
	{ "duration", "a duration: `90s`, `1h30m`" },
	{ "positiveDuration", "a duration: `90s`, `1h30m`" },
	{ "bytes", "a size: `512Mi`, `8Gi`, `2G`" },
	{ "cpu", "cpus: `2`, `0.5`, `500m`" },
	{ "perTask", "`${{ }}`" },
	{ "expression", "`${{ }}`" },
	{ "scalar", "text, a number, true or false" },
	{ "ident", "a name" },
	{ "stepName", "a name" },
	{ "envName", "a name" },
	{ "objectName", "a name" },
	{ "labelKey", "a name" },
	{ "workPath", "a path in the workspace" },
	{ "projectPath", "a path in the project" },
	{ "envFile", "a path in the project" },
	{ "envFileUp", "a path" },
	{ "stepFilePath", "a path: `./steps/clean.yaml`; `git+https://…@COMMIT#path`; `run:HASH`" },
	{ "uri", "a URI" },
	{ "location", "a path or a URI" },
	{ "exportUri", "a path or a URI" },
	{ "literalTree", "anything that the cluster takes" },
};

struct reference_section {
	const char *title;
	const json_t *schema;
};

struct reference {
	struct str *out;
	const json_t *defs;
	struct map *seen; /* schema → title of its section */
	VEC(struct reference_section) sections;
	struct arena *arena;
};

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static const json_t *def(const struct reference *r, const char *ref)
{
	const json_t *d = r->defs;
	const char *name = ref + strlen(DEFS);

	assert(str_has_prefix(ref, DEFS));
	while (d && *name) { /* "#/$defs/projectPaths/items" */
		size_t len = strcspn(name, "/");
		_cleanup_(freep) char *key = xstrndup(name, len);

		d = json_object_get(d, key);
		name += len + (name[len] == '/');
	}
	assert(d);
	return d;
}

/* The words for a shared format, or NULL. */
static const char *known_words(const char *ref)
{
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (str_eq(ref + strlen(DEFS), known[i].name))
			return known[i].words;
	return NULL;
}

/* Text in a cell of a table. */
static void add_cell(struct str *out, const char *text)
{
	for (; *text; text++)
		if (*text == '|')
			str_add(out, "\\|");
		else
			str_addc(out, *text == '\n' ? ' ' : *text);
}

/* Alternatives. */

static const char *const alternatives[] = { "anyOf", "oneOf", "allOf" };

/* The one that tells more: another only forbids something. */
static const json_t *fuller(const json_t *a, const json_t *b)
{
	return !a || (b && json_object_size(json_object_get(b, "properties")) >
				   json_object_size(json_object_get(a, "properties")))
		       ? b
		       : a;
}

/* The mapping that a value may be: with keys of its own, or with any names. NULL: it is none. */
static const json_t *mapping_of(const struct reference *r, const json_t *schema)
{
	const char *ref = text_of(schema, "$ref");
	const json_t *best = NULL, *v;
	size_t i;

	if (json_object_get(schema, "properties") ||
	    json_is_object(json_object_get(schema, "additionalProperties")))
		best = schema;
	if (ref && !known_words(ref))
		best = fuller(best, mapping_of(r, def(r, ref)));
	for (size_t k = 0; k < ARRAY_LEN(alternatives); k++)
		json_array_foreach(json_object_get(schema, alternatives[k]), i, v) best =
			fuller(best, mapping_of(r, v));
	if (!best && str_eq(text_of(schema, "type"), "array") && json_object_get(schema, "items"))
		best = mapping_of(r, json_object_get(schema, "items"));
	return best;
}

/* What a value may be. */

static void add_value(struct reference *r, struct str *out, const json_t *schema);

static void add_one_of(struct reference *r, struct str *out, const json_t *list)
{
	_cleanup_(str_deinit) struct str words = { 0 };
	size_t i, begin = out->len;
	const json_t *v;

	json_array_foreach(list, i, v)
	{
		str_reset(&words);
		str_add(&words, "");
		add_value(r, &words, v);
		if (!words.len || (out->len > begin && strstr(out->s + begin, words.s)))
			continue;
		str_addf(out, "%s%s", out->len > begin ? ", or " : "", words.s);
	}
}

static void add_bound(struct str *out, const char *word, const json_t *bound)
{
	if (!bound)
		return;
	str_add(out, word);
	if (json_is_integer(bound))
		str_addf(out, "%lld", (long long)json_integer_value(bound));
	else
		str_addf(out, "%.12g", json_number_value(bound));
}

static void add_number(struct str *out, const json_t *schema, const char *what)
{
	str_add(out, what);
	add_bound(out, " from ", json_object_get(schema, "minimum"));
	add_bound(out, " above ", json_object_get(schema, "exclusiveMinimum"));
	if (json_integer_value(json_object_get(schema, "maximum")) != INT64_MAX)
		add_bound(out, " to ", json_object_get(schema, "maximum"));
}

static void add_type(struct reference *r, struct str *out, const json_t *schema, const char *type)
{
	if (str_eq(type, "integer")) {
		add_number(out, schema, "a whole number");
	} else if (str_eq(type, "number")) {
		add_number(out, schema, "a number");
	} else if (str_eq(type, "boolean")) {
		str_add(out, "true or false");
	} else if (str_eq(type, "string")) {
		str_add(out, "text");
	} else if (str_eq(type, "null")) {
		str_add(out, "nothing");
	} else if (str_eq(type, "object")) {
		str_add(out, "a mapping");
	} else {
		const json_t *items = json_object_get(schema, "items");

		str_add(out, "a list");
		if (items) {
			str_add(out, " (each: ");
			add_value(r, out, items);
			str_addc(out, ')');
		}
	}
}

static void add_value(struct reference *r, struct str *out, const json_t *schema)
{
	const char *ref = text_of(schema, "$ref"), *type = text_of(schema, "type");
	const json_t *types = json_object_get(schema, "type"), *v;
	const json_t *constant = json_object_get(schema, "const");
	size_t i, begin = out->len;

	if (ref) {
		if (known_words(ref))
			str_add(out, known_words(ref));
		else
			add_value(r, out, def(r, ref));
	} else if (constant || json_object_get(schema, "enum")) {
		const json_t *list = json_object_get(schema, "enum");

		for (size_t k = 0; k < (constant ? 1 : json_array_size(list)); k++) {
			str_add(out, k ? ", `" : "`");
			json_add_canonical(out, constant ? constant : json_array_get(list, k));
			str_addc(out, '`');
		}
	} else if (type) {
		add_type(r, out, schema, type);
	} else if (json_is_array(types)) {
		json_array_foreach(types, i, v)
		{
			/* The 0 that a duration may be without a unit. */
			if (str_eq(json_string_value(v), "integer") &&
			    json_object_get(schema, "maximum") &&
			    json_number_value(json_object_get(schema, "maximum")) == 0)
				continue;
			str_add(out, out->len > begin ? ", or " : "");
			add_type(r, out, schema, json_string_value(v));
		}
	} else if (json_object_get(schema, "properties")) {
		str_add(out, "a mapping");
	} else {
		for (size_t k = 0; k < ARRAY_LEN(alternatives) && out->len == begin; k++)
			add_one_of(r, out, json_object_get(schema, alternatives[k]));
	}
}

/* Sections. */

static const char *section_of(struct reference *r, const char *title, const json_t *mapping)
{
	void **slot = map_slot(r->seen, &mapping, sizeof(mapping), NULL);
	struct reference_section s = { arena_strdup(r->arena, title), mapping };

	if (*slot)
		return *slot;
	*slot = (void *)(uintptr_t)s.title;
	VEC_PUSH(&r->sections, s);
	return s.title;
}

static bool is_required(const json_t *mapping, const char *key)
{
	const json_t *v;
	size_t i;

	json_array_foreach(json_object_get(mapping, "required"), i, v)
	{
		if (str_eq(json_string_value(v), key))
			return true;
	}
	return false;
}

/* The first description on the way to what the value is. */
static const char *description_of(const struct reference *r, const json_t *schema)
{
	const char *own = text_of(schema, "description"), *ref = text_of(schema, "$ref");

	return own ? own : ref ? text_of(def(r, ref), "description") : NULL;
}

static void add_row(struct reference *r, const struct reference_section *s, const char *key,
		    const json_t *schema, bool required)
{
	_cleanup_(str_deinit) struct str value = { 0 };
	_cleanup_(freep) char *title = NULL;
	const json_t *inner = mapping_of(r, schema), *names,
		     *standard = json_object_get(schema, "default");
	const char *why = description_of(r, schema);

	str_add(&value, "");
	add_value(r, &value, schema);
	str_addf(r->out, "| `%s` | ", key);
	add_cell(r->out, value.len ? value.s : inner ? "a mapping" : "any value");
	if (standard) {
		str_add(r->out, "; else `");
		json_add_canonical(r->out, standard);
		str_addc(r->out, '`');
	}
	str_add(r->out, " | ");
	str_add(r->out, required ? "Needed. " : "");
	add_cell(r->out, why ? why : "");
	if (inner) {
		title = *s->title ? xasprintf("%s.%s", s->title, key) : xstrdup(key);
		/* What has only names of the user's is told by what they name. */
		names = json_object_get(inner, "properties")
				? NULL
				: json_object_get(inner, "additionalProperties");
		if (names && mapping_of(r, names) && mapping_of(r, names) != inner) {
			char *longer = xasprintf("%s.NAME", title);

			free(title);
			title = longer;
			inner = mapping_of(r, names);
		}
		if (why && *why && !strchr(".!?", why[strlen(why) - 1]))
			str_addc(r->out, '.');
		str_addf(r->out, "%sSee `%s`.", why || required ? " " : "",
			 section_of(r, title, inner));
	}
	str_add(r->out, " |\n");
}

static void add_section(struct reference *r, const struct reference_section *s)
{
	const json_t *names = json_object_get(s->schema, "additionalProperties");
	const char *why = description_of(r, s->schema), *key;
	json_t *p;

	if (*s->title)
		str_addf(r->out, "\n## `%s`\n", s->title);
	if (why && *s->title)
		str_addf(r->out, "\n%s\n", why);
	str_add(r->out, "\n| key | value | what it is |\n| --- | --- | --- |\n");
	json_object_foreach(json_object_get(s->schema, "properties"), key, p)
		add_row(r, s, key, p, is_required(s->schema, key));
	if (json_is_object(names))
		add_row(r, s, "NAME", names, false);
}

static void add_format(struct str *out, const json_t *schema, const json_t *root)
{
	struct reference r = { .out = out,
			       .defs = json_object_get(schema, "$defs"),
			       .seen = map_new(),
			       .arena = arena_new() };
	const char *name;
	json_t *v;

	section_of(&r, "", root);
	for (size_t i = 0; i < r.sections.n; i++) {
		const struct reference_section s = r.sections.v[i];

		add_section(&r, &s);
		if (i + 1 < r.sections.n || root != schema)
			continue;
		json_object_foreach(json_object_get(schema, "$defs"), name, v)
		{
			_cleanup_(freep) char *title = NULL;

			if (!str_has_prefix(name, "with-"))
				continue;
			title = xasprintf("with of %s", name + strlen("with-"));
			section_of(&r, title, v);
		}
	}
	VEC_FREE(&r.sections);
	map_free(r.seen);
	arena_free(r.arena);
}

static json_t *read_schema(void)
{
	for (const struct embedded_file *f = init_files; f->path; f++)
		if (str_eq(f->path, "schema.json")) {
			json_t *j = json_loadb(f->bytes, f->size, 0, NULL);

			assert(j);
			return j;
		}
	assert(false);
	return NULL;
}

/* Commands. */

static void add_option(void *arg, const struct cli_option *o)
{
	struct str *out = arg;

	str_add(out, "- `");
	if (o->letter)
		str_addf(out, "-%c, ", o->letter);
	str_addf(out, "--%s", o->name);
	if (o->arg)
		str_addf(out, o->bare ? "[=%s]" : " %s", o->arg);
	str_addf(out, "`: %s\n", o->help);
}

/* Lines that begin with a space are kept as they are. */
static void add_description(struct str *out, const char *text)
{
	bool kept = false;

	str_addc(out, '\n');
	for (size_t n; *text; text += n + (text[n] == '\n')) {
		n = strcspn(text, "\n");
		if ((*text == ' ') != kept)
			str_add(out, kept ? "```\n" : "\n```\n");
		kept = *text == ' ';
		str_addf(out, "%.*s\n", (int)n, text);
	}
	str_add(out, kept ? "```\n" : "");
}

static void add_command(struct str *out, const struct cli_command *c,
			const struct cli_command *parent)
{
	str_add(out, "\n## cairn ");
	help_add_name(out, c, parent);
	str_addf(out, "\n\n%s.\n\n```\ncairn ", c->summary);
	help_add_name(out, c, parent);
	if (c->run)
		str_addf(out, " [OPTION]...%s%s", *c->operands ? " " : "", c->operands);
	else
		str_add(out, " SUBCOMMAND");
	str_add(out, "\n```\n");
	if (c->description)
		add_description(out, c->description);
	for (const struct cli_option *o = c->options; o && o->name; o++) {
		str_add(out, o == c->options ? "\n" : "");
		add_option(out, o);
	}
	if (c->json)
		str_addf(out, "\n`--json` prints %s ([json.md](../json.md)).\n", c->json);
	str_add(out, "\n```sh\n");
	for (const struct cli_example *e = c->examples; e->line; e++)
		str_addf(out, "%s%s%s\n", e->line, *e->what ? "   # " : "", e->what);
	str_add(out, "```\n");
}

static void each_command(struct str *out, void (*fn)(struct str *out, const struct cli_command *c,
						     const struct cli_command *parent))
{
	for (const struct cli_command *c = cli_commands; c->name; c++) {
		fn(out, c, NULL);
		for (const struct cli_command *s = c->subcommands; s && s->name; s++)
			fn(out, s, c);
	}
}

static void add_commands(struct str *out)
{
	str_add(out, "# Commands\n\nEach of them also takes:\n\n");
	for (const struct cli_option *o = cli_global_options; o->name; o++)
		add_option(out, o);
	each_command(out, add_command);
}

/* Exit codes. */

static void add_own_codes(struct str *out, const struct cli_command *c,
			  const struct cli_command *parent)
{
	if (!c->exit_codes)
		return;
	str_add(out, "\n## cairn ");
	help_add_name(out, c, parent);
	str_add(out, "\n\n| code | when |\n| --- | --- |\n");
	for (const struct cli_exit_code *e = c->exit_codes; e->when; e++) {
		str_addf(out, "| %d | ", e->code);
		add_cell(out, e->when);
		str_add(out, " |\n");
	}
}

static void add_exit_codes(struct str *out)
{
	str_add(out, "# Exit codes\n\nCommands that aren't listed below end with one of these:\n\n"
		     "| code | when |\n| --- | --- |\n");
	for (const struct cli_exit_code *e = help_usual_exit_codes; e->when; e++)
		str_addf(out, "| %d | %s |\n", e->code, e->when);
	each_command(out, add_own_codes);
}

/* Expressions. */

static void add_expressions(struct str *out)
{
	struct expr_help_row row, last = { .section = "" };
	struct arena *arena = arena_new();

	str_addf(out, "# Expressions\n\n%s\n", help_about_expressions);
	for (size_t i = 0; expr_help(i, arena, &row); i++, last = row) {
		if (!str_eq(row.section, last.section))
			str_addf(out, "\n## %s\n\n| form | meaning |\n| --- | --- |\n",
				 row.section);
		str_add(out, "| `");
		add_cell(out, row.form);
		str_add(out, "` | ");
		add_cell(out, row.help);
		str_add(out, " |\n");
	}
	arena_free(arena);
}

/* Pages. */

static void add_pipeline(struct str *out)
{
	json_t *schema = read_schema();

	str_add(out, "# The pipeline file\n\n`cairn check` tells what is wrong in one, with the "
		     "place. `NAME` stands for names that you choose, `${{ }}` for an "
		     "[expression](expressions.md).\n");
	add_format(out, schema, schema);
	json_decref(schema);
}

static void add_config(struct str *out)
{
	json_t *schema = read_schema();

	str_add(out, "# cairn.yaml\n\nThe file at the root of a project. An option of the command "
		     "line counts before a variable `CAIRN_…`, and that before this file.\n");
	add_format(out, schema, json_object_get(json_object_get(schema, "$defs"), "config"));
	json_decref(schema);
}

static void add_http(struct str *out)
{
	_cleanup_(json_decrefp) json_t *openapi = api_openapi();

	answers_add_http_page(out, openapi);
}

int help_write_reference(const char *dir, struct err *err)
{
	static const struct {
		const char *name;
		void (*add)(struct str *out);
	} pages[] = { { "pipeline.md", add_pipeline },       { "cairn-yaml.md", add_config },
		      { "expressions.md", add_expressions }, { "commands.md", add_commands },
		      { "exit-codes.md", add_exit_codes },   { "http.md", add_http } };

	if (fs_mkdir_p(dir, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(pages); i++) {
		_cleanup_(freep) char *path = fs_join(dir, pages[i].name);
		_cleanup_(str_deinit) struct str page = { 0 };

		str_addf(&page, "<!-- Made by `cairn help --reference` from the tables of the "
				"program. -->\n\n");
		pages[i].add(&page);
		if (fs_write_atomic_at(AT_FDCWD, path, page.s, page.len, 0644, FS_WRITE_NO_SYNC,
				       err) < 0)
			return -1;
	}
	return 0;
}

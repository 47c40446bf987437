/* engine/cli/help/answers.c — the reference of --json, from answers.json.
 *
 * A shape is the schema in the form of an answer: `{"id", "hash"|null, "runs": [Run]}`. A member
 * that isn't always there ends with `?`, a text has no type, and what is named with a capital
 * letter is described below it, once.
 *
 * Both files are our own text: what can't be read in them is a defect, and stops the program.
 */
#include "cli/help/answers.h"
#include <assert.h>
#include <string.h>
#include "base/text/text.h"
#include "cli/help/help.h"

extern const char cli_answers[], api_schemas[];

#define REF "#/components/schemas/"

struct shapes {
	struct str *out;
	json_t *schemas; /* of this file and of the API */
	json_t *pending; /* names that were referred to, in order */
};

static json_t *parse(const char *text)
{
	json_t *j = json_loads(text, 0, NULL);

	assert(j);
	return j;
}

/* {"answers", "schemas": of both files} */
static json_t *read_table(void)
{
	json_t *table = parse(cli_answers), *api = parse(api_schemas);

	assert(json_object_update_missing(json_object_get(table, "schemas"), api) == 0);
	json_decref(api);
	return table;
}

/* Shapes. */

static void add_shape(struct shapes *s, const json_t *schema);

static const char *text_of(const json_t *o, const char *key)
{
	return json_string_value(json_object_get(o, key));
}

static bool is_required(const json_t *schema, const char *name)
{
	const json_t *v;
	size_t i;

	json_array_foreach(json_object_get(schema, "required"), i,
			   v) if (str_eq(json_string_value(v), name)) return true;
	return false;
}

/* "null" may stand beside the type. */
static bool has_type(const json_t *schema, const char *type)
{
	const json_t *t = json_object_get(schema, "type"), *v;
	size_t i;

	if (str_eq(json_string_value(t), type))
		return true;
	json_array_foreach(t, i, v) if (str_eq(json_string_value(v), type)) return true;
	return false;
}

static void add_reference(struct shapes *s, const char *ref)
{
	const char *name = ref + strlen(REF);
	const json_t *v;
	size_t i;

	assert(str_has_prefix(ref, REF) && json_object_get(s->schemas, name));
	str_add(s->out, name);
	json_array_foreach(s->pending, i, v) if (str_eq(json_string_value(v), name)) return;
	json_array_append_new(s->pending, json_string(name));
}

/* A text without more to say has no type: only its name stands there. */
static bool is_plain_text(const json_t *schema)
{
	return has_type(schema, "string") && !json_object_get(schema, "format");
}

static void add_members(struct shapes *s, const json_t *schema)
{
	const json_t *properties = json_object_get(schema, "properties");
	const char *name, *comma = "";
	json_t *p;

	str_addc(s->out, '{');
	json_object_foreach((json_t *)(uintptr_t)properties, name, p)
	{
		const char *why = text_of(p, "description");

		str_addf(s->out, "%s\"%s\"%s", comma, name, is_required(schema, name) ? "" : "?");
		if (!is_plain_text(p)) {
			str_add(s->out, ": ");
			add_shape(s, p);
		} else if (has_type(p, "null")) {
			str_add(s->out, "|null");
		}
		if (why)
			str_addf(s->out, " (%s)", why);
		comma = ", ";
	}
	str_addc(s->out, '}');
}

static void add_choice(struct shapes *s, const json_t *list, bool literal)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v)
	{
		str_add(s->out, i ? "|" : "");
		if (literal)
			json_add_canonical(s->out, v);
		else
			add_shape(s, v);
	}
}

static void add_type(struct shapes *s, const json_t *schema)
{
	const json_t *more = json_object_get(schema, "additionalProperties");

	if (json_object_get(schema, "properties")) {
		add_members(s, schema);
	} else if (has_type(schema, "object")) {
		str_add(s->out, "{NAME: ");
		add_shape(s, json_is_object(more) ? more : NULL);
		str_addc(s->out, '}');
	} else if (has_type(schema, "array")) {
		str_addc(s->out, '[');
		add_shape(s, json_object_get(schema, "items"));
		str_addc(s->out, ']');
	} else if (has_type(schema, "string")) {
		str_add(s->out, json_object_get(schema, "format") ? "TIME" : "TEXT");
	} else if (has_type(schema, "integer")) {
		str_addc(s->out, 'N');
	} else if (has_type(schema, "number")) {
		str_add(s->out, "NUMBER");
	} else if (has_type(schema, "boolean")) {
		str_add(s->out, "BOOL");
	} else if (!has_type(schema, "null")) {
		str_add(s->out, "VALUE");
	}
}

static void add_shape(struct shapes *s, const json_t *schema)
{
	const char *ref = text_of(schema, "$ref");
	const json_t *constant = json_object_get(schema, "const");

	if (constant) {
		json_add_canonical(s->out, constant);
	} else if (json_object_get(schema, "enum")) {
		add_choice(s, json_object_get(schema, "enum"), true);
	} else if (json_object_get(schema, "anyOf")) {
		add_choice(s, json_object_get(schema, "anyOf"), false);
	} else if (ref) {
		add_reference(s, ref);
		if (json_object_get(schema, "properties")) {
			str_add(s->out, " and ");
			add_members(s, schema);
		}
	} else {
		add_type(s, schema);
		if (json_is_array(json_object_get(schema, "type")))
			str_add(s->out, "|null");
		else if (has_type(schema, "null"))
			str_add(s->out, "null");
	}
}

/* What was referred to, and what that refers to. */
static void add_pending(struct shapes *s, size_t from)
{
	for (size_t i = from; i < json_array_size(s->pending); i++) {
		const char *name = json_string_value(json_array_get(s->pending, i));

		str_addf(s->out, "\n\n%s: ", name);
		add_shape(s, json_object_get(s->schemas, name));
	}
}

void answers_add_shapes(struct str *out, const char *names)
{
	_cleanup_(json_decrefp) json_t *table = read_table(), *pending = json_array();
	struct shapes s = { out, json_object_get(table, "schemas"), pending };
	const char *gap = "";

	for (const char *at = names; *at; at += strspn(at, " ")) {
		_cleanup_(freep) char *name = xstrndup(at, strcspn(at, " "));
		const json_t *answer = json_object_get(json_object_get(table, "answers"), name);
		const char *when = text_of(answer, "description");

		assert(answer);
		str_addf(out, "%s%s%s", gap, when ? when : "", when ? ": " : "");
		add_shape(&s, answer);
		at += strlen(name);
		gap = "\n\n";
	}
	add_pending(&s, 0);
}

/* The page. */

struct user_list {
	struct str *out;
	const char *answer;
	bool any;
};

static bool names_answer(const char *names, const char *answer)
{
	size_t n = strlen(answer);

	for (const char *p = names; p && (p = strstr(p, answer)); p++)
		if (p[n] == ' ' || !p[n])
			return true;
	return false;
}

static void add_users(struct user_list *u, const struct cli_command *table,
		      const struct cli_command *parent)
{
	for (const struct cli_command *c = table; c && c->name; c++) {
		if (names_answer(c->json, u->answer)) {
			str_addf(u->out, "%s`cairn ", u->any ? ", " : "");
			help_add_name(u->out, c, parent);
			str_addc(u->out, '`');
			u->any = true;
		}
		add_users(u, c->subcommands, c);
	}
}

#define NOTATION                                                                                  \
	"A name in quotes is a member. Without a type it is a text; `?` says that it may be "     \
	"missing. "                                                                               \
	"TIME is ISO 8601\n"                                                                      \
	"in UTC, N a whole number, `_ns` nanoseconds, `{NAME: …}` an object with any names. A " \
	"hash "                                                                                   \
	"or key is hexadecimal;\n"                                                                \
	"a content id begins with `sha256:`. Names that aren't UTF-8 are written as the storage " \
	"format says.\n"

static const char intro[] =
	"# Answers in JSON\n"
	"\n"
	"This page is made by `cairn help json`. `cairn help json --json` gives the same as a JSON "
	"Schema.\n"
	"\n"
	"- With `--json` a command writes its answer to standard output: one object. Its member "
	"`schema` names the\n"
	"  description below and its version. The version rises when a member goes or changes its "
	"meaning. New\n"
	"  members don't raise it: a reader ignores what it doesn't know.\n"
	"- Errors and warnings are one object in one line on standard error, `cairn.error/1`. A "
	"command without\n"
	"  any writes nothing there. Standard output never has errors: it has an answer, or it is "
	"empty.\n"
	"- The exit code says whether the command succeeded. A command that failed may have an "
	"answer as well: a\n"
	"  run with a failed task, a file with errors.\n"
	"- `run --dry-run --json` prints a List of Kubernetes objects, without `schema`: it is "
	"Kubernetes' own form.\n"
	"\n" NOTATION;

/* A code block whose lines break between words. */
static void add_block(struct str *out, const char *text)
{
	size_t at = 0;

	str_add(out, "\n```\n");
	for (const char *p = text; *p;) {
		size_t word = strcspn(p, " \n");

		if (at && at + 1 + word > 110) {
			str_add(out, "\n  ");
			at = 2;
		} else if (at) {
			str_addc(out, ' ');
			at++;
		}
		str_addn(out, p, word);
		at += word;
		p += word + (p[word] != '\0');
	}
	str_add(out, "\n```\n");
}

/* What was referred to, a heading each. s->out is used for each shape. */
static void add_parts(struct shapes *s, struct str *out)
{
	str_add(out, "\n## Parts\n");
	for (size_t i = 0; i < json_array_size(s->pending); i++) {
		const char *part = json_string_value(json_array_get(s->pending, i));

		str_addf(out, "\n### %s\n", part);
		str_reset(s->out);
		add_shape(s, json_object_get(s->schemas, part));
		add_block(out, s->out->s);
	}
}

void answers_add_page(struct str *out)
{
	_cleanup_(json_decrefp) json_t *table = read_table(), *pending = json_array();
	struct str text = { 0 };
	struct shapes s = { &text, json_object_get(table, "schemas"), pending };
	const char *name;
	json_t *answer;

	str_add(out, intro);
	json_object_foreach(json_object_get(table, "answers"), name, answer)
	{
		struct user_list users = { out, name, false };
		const char *when = text_of(answer, "description");

		str_addf(out, "\n## %s\n\n", name);
		add_users(&users, cli_commands, NULL);
		str_addf(out, "%s%s\n", users.any && when ? ", " : "", when ? when : "");
		str_reset(&text);
		add_shape(&s, answer);
		add_block(out, text.s);
	}
	add_parts(&s, out);
	str_deinit(&text);
}

/* The HTTP API. */

static const char http_intro[] =
	"# The HTTP API\n"
	"\n"
	"What `cairn serve` answers. `GET /api/v1/openapi.json` says the same as OpenAPI 3.1. Who "
	"may ask: everybody, a\n"
	"*viewer*, an *operator* or an *admin* ([roles](../guide/server.md)), with `Authorization: "
	"Bearer TOKEN` or the cookie of a\n"
	"session. At a loopback address, the user who runs the server reads without a token.\n"
	"\n"
	"- An error is `application/problem+json`, *Problem* below (RFC 9457).\n"
	"- A body is JSON, with `Content-Type: application/json`. A change whose `Origin` is "
	"another site is refused.\n"
	"- A list has `next`: the value of `cursor` that asks for the page after it, or null.\n"
	"- When several projects are served, `project` says which.\n"
	"\n" NOTATION;

/* "a *viewer*" */
static void add_role(struct str *out, const char *role)
{
	if (str_eq(role, "none"))
		str_add(out, "everybody");
	else
		str_addf(out, "%s *%s*", strchr("ao", role[0]) ? "an" : "a", role);
}

static void add_http_params(struct shapes *s, struct str *out, const json_t *list)
{
	const json_t *p;
	bool any = false;
	size_t i;

	json_array_foreach(list, i, p)
	{
		if (!str_eq(text_of(p, "in"), "query"))
			continue;
		str_reset(s->out);
		add_shape(s, json_object_get(p, "schema"));
		str_add(out, any ? "" : "\n| in the query | is | what |\n| --- | --- | --- |\n");
		str_addf(out, "| `%s` | `", text_of(p, "name"));
		for (const char *c = s->out->s; *c; c++) {
			if (*c == '|') /* ends a cell of a table */
				str_addc(out, '\\');
			str_addc(out, *c);
		}
		str_addf(out, "` | %s |\n", text_of(p, "description"));
		any = true;
	}
}

/* The shape, or media type, that an answer or a body has. */
static void add_http_content(struct shapes *s, struct str *out, const char *what,
			     const json_t *content)
{
	const char *type;
	json_t *o;

	json_object_foreach((json_t *)(uintptr_t)content, type, o)
	{
		str_reset(s->out);
		if (str_eq(type, "application/json"))
			add_shape(s, json_object_get(o, "schema"));
		else
			str_add(s->out, type);
		str_addf(out, "\n%s: `%s`\n", what, s->out->s);
	}
}

static void add_operation(struct shapes *s, struct str *out, const char *path, const char *method,
			  const json_t *o)
{
	const char *status;
	json_t *answer;

	str_addf(out, "\n## ");
	for (const char *m = method; *m; m++)
		str_addc(out, (char)(*m & ~0x20));
	str_addf(out, " %s\n\n%s. For ", path, text_of(o, "summary"));
	add_role(out, text_of(o, "x-role"));
	str_add(out, ".\n");
	add_http_params(s, out, json_object_get(o, "parameters"));
	add_http_content(s, out, "Body",
			 json_object_get(json_object_get(o, "requestBody"), "content"));
	json_object_foreach(json_object_get(o, "responses"), status, answer)
	{
		_cleanup_(freep) char *what = xasprintf("Answer, %s", status);

		if (!str_eq(status, "default"))
			add_http_content(s, out, what, json_object_get(answer, "content"));
	}
}

void answers_add_http_page(struct str *out, const json_t *openapi)
{
	_cleanup_(json_decrefp) json_t *pending = json_array();
	_cleanup_(str_deinit) struct str text = { 0 };
	const json_t *components = json_object_get(openapi, "components");
	struct shapes s = { &text, json_object_get(components, "schemas"), pending };
	const char *path, *method;
	json_t *of_path, *o;

	str_add(out, http_intro);
	add_reference(&s, REF "Problem");
	json_object_foreach(json_object_get(openapi, "paths"), path, of_path)
	{
		json_object_foreach(of_path, method, o) add_operation(&s, out, path, method, o);
	}
	add_parts(&s, out);
}

json_t *answers_schema(void)
{
	_cleanup_(json_decrefp) json_t *table = read_table(), *pending = json_array();
	struct str text = { 0 };
	struct shapes s = { &text, json_object_get(table, "schemas"), pending };
	json_t *all = json_array(), *used = json_object(), *answer;
	const char *name;

	json_object_foreach(json_object_get(table, "answers"), name, answer)
	{
		json_object_set_new(answer, "title", json_string(name));
		json_array_append(all, answer);
		add_shape(&s, answer); /* for what it refers to */
	}
	add_pending(&s, 0);
	for (size_t i = 0; i < json_array_size(pending); i++) {
		name = json_string_value(json_array_get(pending, i));
		json_object_set(used, name, json_object_get(s.schemas, name));
	}
	str_deinit(&text);
	return json_pack("{s:s, s:o, s:{s:o}}", "$schema",
			 "https://json-schema.org/draft/2020-12/schema", "oneOf", all, "components",
			 "schemas", used);
}

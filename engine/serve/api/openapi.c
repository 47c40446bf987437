/* OpenAPI 3.1 from the table of routes. */
#include <stdio.h>
#include <string.h>
#include "serve/internal.h"

static json_t *parse(const char *text)
{
	json_t *j = json_loads(text, 0, NULL);

	if (!j)
		abort(); /* our own text, so a defect */
	return j;
}

static json_t *reference(const char *schema)
{
	char text[100];

	snprintf(text, sizeof(text), "#/components/schemas/%s", schema);
	return json_pack("{s:s}", "$ref", text);
}

static json_t *parameter(const char *name, const char *in, json_t *schema, const char *help)
{
	return json_pack("{s:s, s:s, s:b, s:o, s:s}", "name", name, "in", in, "required",
			 strcmp(in, "path") == 0, "schema", schema, "description", help);
}

static json_t *parameters(const struct api_route *r)
{
	json_t *list = json_array();

	for (const char *at = strchr(r->path, '{'); at; at = strchr(at + 1, '{')) {
		char name[40];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(at + 1, "}"), at + 1);
		json_array_append_new(list,
				      parameter(name, "path",
						parse("{\"type\":\"string\",\"minLength\":1}"),
						"Its name"));
	}
	if (r->flags & API_PROJECT)
		json_array_append_new(list,
				      parameter("project", "query", parse("{\"type\":\"string\"}"),
						"Which project; needed when several are served"));
	for (const struct api_param *p = r->params; p && p->name; p++) {
		json_t *o = parameter(p->name, "query", parse(p->schema), p->help);

		if (strstr(p->help, "(required)"))
			json_object_set_new(o, "required", json_true());
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *content(const char *answer)
{
	return strchr(answer, '/')
		       ? json_pack("{s:{s:o}}", answer, "schema", parse("{\"type\":\"string\"}"))
		       : json_pack("{s:{s:o}}", "application/json", "schema", reference(answer));
}

static json_t *operation(const struct api_route *r)
{
	json_t *problem =
		json_pack("{s:s, s:{s:{s:o}}}", "description", "A problem (RFC 9457)", "content",
			  "application/problem+json", "schema", reference("Problem"));
	json_t *responses = json_object(), *o;
	enum role role = api_role(r);
	char status[8];

	snprintf(status, sizeof(status), "%u", r->status);
	o = json_pack("{s:s}", "description", r->summary);
	if (r->answer)
		json_object_set_new(o, "content", content(r->answer));
	json_object_set_new(responses, status, o);
	if (r->flags & API_HEALTH)
		json_object_set_new(responses, "503",
				    json_pack("{s:s, s:o}", "description", "It isn't, and why",
					      "content", content(r->answer)));
	json_object_set_new(responses, "default", problem);
	o = json_pack("{s:s, s:s, s:o, s:o}", "operationId", r->id, "summary", r->summary,
		      "parameters", parameters(r), "responses", responses);
	if (r->body)
		json_object_set_new(o, "requestBody",
				    json_pack("{s:b, s:{s:{s:o}}}", "required", 0, "content",
					      "application/json", "schema", reference(r->body)));
	json_object_set_new(o, "security",
			    parse(role == ROLE_NONE ? "[]" : "[{\"token\":[]},{\"session\":[]}]"));
	json_object_set_new(o, "x-role", json_string(role == ROLE_NONE ? "none" : role_name(role)));
	return o;
}

static json_t *paths(void)
{
	json_t *all = json_object();

	for (const struct api_route *r = api_routes; r->method; r++) {
		json_t *path = json_object_get(all, r->path);
		char method[8];
		size_t n = 0;

		if (!path) {
			path = json_object();
			json_object_set_new(all, r->path, path);
		}
		for (; r->method[n] && n + 1 < sizeof(method); n++)
			method[n] = (char)(r->method[n] | 0x20);
		method[n] = '\0';
		json_object_set_new(path, method, operation(r));
	}
	return all;
}

json_t *api_openapi(void)
{
	return json_pack("{s:s, s:{s:s, s:s, s:s}, s:o, s:{s:o, s:o}}", "openapi", "3.1.0", "info",
			 "title", "Cairn", "version", CAIRN_VERSION, "description",
			 "What `cairn serve` knows and does. `x-role` is who may ask: viewer, "
			 "operator, admin, or none for everybody. At a loopback address, the user "
			 "who runs the server reads without a token.",
			 "paths", paths(), "components", "schemas", parse(api_schemas),
			 "securitySchemes",
			 parse("{\"token\":{\"type\":\"http\",\"scheme\":\"bearer\"},"
			       "\"session\":{\"type\":\"apiKey\",\"in\":\"cookie\","
			       "\"name\":\"cairn_session\"}}"));
}

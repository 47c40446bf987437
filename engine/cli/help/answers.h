/* engine/cli/help/answers.h — the reference of --json, from answers.json.
 *
 * answers.json describes each answer of a command as a JSON Schema (2020-12) under the name that
 * stands in the answer's `schema`. What the HTTP API answers as well is described once, in
 * serve/api/schemas.json, and referred to.
 *
 * A version rises when a member goes or changes its meaning. New members don't raise it: readers
 * ignore what they don't know.
 */
#ifndef CAIRN_CLI_HELP_ANSWERS_H
#define CAIRN_CLI_HELP_ANSWERS_H

#include "base/text/json.h"
#include "base/text/str.h"

/* Adds the shapes of these answers ("cairn.get/1 cairn.get-run/1", as in the table of commands), a
 * paragraph each, and then those that they refer to. */
void answers_add_shapes(struct str *out, const char *names);
/* The reference page (Markdown): docs/json.md. */
void answers_add_page(struct str *out);
/* The reference page of the HTTP API, from its description (serve/api/openapi.h). */
void answers_add_http_page(struct str *out, const json_t *openapi);
/* One JSON Schema for all answers. */
json_t *answers_schema(void);

#endif

/* engine/base/text/yaml_json.h — YAML nodes as JSON, by the core schema, for what is handed on to
 * programs that speak JSON; and JSON as YAML, for people. */
#ifndef CAIRN_BASE_TEXT_YAML_JSON_H
#define CAIRN_BASE_TEXT_YAML_JSON_H

#include "base/text/json.h"
#include "base/text/yaml.h"

/* A new reference. Integers out of the range of int64_t become reals; what isn't finite becomes
 * text. */
json_t *yaml_to_json(const struct yaml_node *n);

/* One document in block style, without markers. What another parser, of YAML 1.1 even, might take
 * for something else than text is quoted. */
void yaml_add_json(struct str *out, const json_t *j);

#endif

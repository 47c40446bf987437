/* engine/base/text/yaml_json.h — YAML nodes as JSON, by the core schema, for programs that read
 * JSON; and JSON as YAML, for people. */
#ifndef CAIRN_BASE_TEXT_YAML_JSON_H
#define CAIRN_BASE_TEXT_YAML_JSON_H

#include "base/text/json.h"
#include "base/text/yaml.h"

/* A new reference. Integers out of the range of int64_t become reals; infinities and NaN become
 * text. */
json_t *yaml_to_json(const struct yaml_node *n);

/* One document in block style, without markers. Quotes text that another parser, even of YAML 1.1,
 * might not take as text. */
void yaml_add_json(struct str *out, const json_t *j);

#endif

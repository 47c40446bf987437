/* engine/model/config/internal.h — shared by the readers of cairn.yaml in this folder. */
#ifndef CAIRN_MODEL_CONFIG_INTERNAL_H
#define CAIRN_MODEL_CONFIG_INTERNAL_H

#include "model/config/config.h"
#include "model/read.h"

struct config_access {
	const char **endpoint, **region, **style;
	bool *anonymous;
};
void config_read_access(const struct doc *d, const struct yaml_node *n, struct config_access *a);

void config_kubernetes_init(struct config *c);
void config_read_kubernetes(const struct doc *d, const struct yaml_node *n, struct config *c);

#endif

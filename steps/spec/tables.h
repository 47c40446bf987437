/* steps/spec/tables.h — the tables that step_specs() lists. */
#ifndef CAIRN_STEPS_SPEC_TABLES_H
#define CAIRN_STEPS_SPEC_TABLES_H

#include "steps/spec/spec.h"

extern const struct step_spec spec_shard, spec_augment, spec_train, spec_evaluate, spec_ray,
	spec_spark_submit;

#endif

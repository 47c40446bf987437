/* engine/plan/metrics.h — a step's metrics file: JSON whose numbers are flattened to dotted names
 * ("val.accuracy"), and gates over them. */
#ifndef CAIRN_PLAN_METRICS_H
#define CAIRN_PLAN_METRICS_H

#include "model/pipeline.h"
#include "record/rows/attempts.h"

#define METRICS_MAX_BYTES (1 * MIB) /* of the file */
#define METRICS_MAX       10000     /* numbers in it: a table of more is data, not metrics */

/* Numbers and booleans (0, 1) at any depth; list members by index; other values are left out.
 * Sorted by name, in arena. ERR_INVALID when the bytes aren't a JSON object, ERR_TOO_LARGE when
 * there are too many. */
int metrics_parse(const char *json, struct arena *arena, struct metric_value **ret, size_t *ret_n,
		  struct err *err);
/* A flat JSON object of them; what action records keep. */
void metrics_json(const struct metric_value *m, size_t n, struct str *out);
/* 0 when every gate holds; -1 with ERR_FAILED naming the first that doesn't ("gate failed: accuracy
 * is 0.81, must be >= 0.85"). */
int metrics_gate(const struct step *s, const struct metric_value *m, size_t n, struct err *err);

#endif

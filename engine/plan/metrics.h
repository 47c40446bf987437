/* engine/plan/metrics.h — a step's metrics file: JSON whose numbers are flattened to dotted names
 * ("val.accuracy"), and gates over them. */
#ifndef CAIRN_PLAN_METRICS_H
#define CAIRN_PLAN_METRICS_H

#include "model/pipeline.h"
#include "record/rows/attempts.h"

#define METRICS_MAX_BYTES (1 * MIB) /* of the file */
#define METRICS_MAX       10000     /* numbers in it: a table of more is data, not metrics */

/* Takes numbers and booleans (as 0, 1) at any depth, list members by index; other values are left
 * out. The result is sorted by name, in arena. ERR_INVALID when the bytes aren't a JSON object,
 * ERR_TOO_LARGE when there are too many. */
int metrics_parse(const char *json, struct arena *arena, struct metric_value **ret, size_t *ret_n,
		  struct err *err);
/* The name of the first text in it, which is left out; NULL: there is none. In arena. */
const char *metrics_first_text(const char *json, struct arena *arena);
/* Writes them as a flat JSON object, as action records keep them. */
void metrics_json(const struct metric_value *m, size_t n, struct str *out);
/* 0 when every gate holds; -1 with ERR_FAILED that names the first one that doesn't ("gate failed:
 * accuracy is 0.81, must be >= 0.85"). */
int metrics_gate(const struct step *s, const struct metric_value *m, size_t n, struct err *err);

#endif

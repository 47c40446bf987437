/* steps/evaluate/plot.h — the report's plots, as SVG documents without external parts. Names from
 * outside are escaped. */
#ifndef CAIRN_STEPS_EVALUATE_PLOT_H
#define CAIRN_STEPS_EVALUATE_PLOT_H

#include "base/text/str.h"
#include "steps/evaluate/results.h"

/* Each appends one <svg>; it returns false and appends nothing when there is nothing to show. */
bool plot_confusion(struct str *out, const struct results *r);
bool plot_roc(struct str *out, const struct results *r);
bool plot_pr(struct str *out, const struct results *r);
bool plot_calibration(struct str *out, const struct results *r);
/* For regression, of the errors. For ranking, of the queries' NDCG. */
bool plot_histogram(struct str *out, const struct results *r);

/* text_add_xml(), cut to `columns` characters with "…". */
void plot_escape(struct str *out, const char *s, size_t columns);

#endif

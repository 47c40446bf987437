/* engine/serve/notify/rules.h — compares the metric rules of a notice with the metrics of runs.
 *
 * The rules are checked when the notice is about to be sent, from its row alone, because that needs
 * the store. So neither a crash nor an unreachable store loses the notice. */
#ifndef CAIRN_SERVE_NOTIFY_RULES_H
#define CAIRN_SERVE_NOTIFY_RULES_H

#include "base/text/json.h"
#include "serve/project/project.h"

/* Adds "rules": [TEXT] and "before", the run that `last` means, or null. */
void notify_rules_write(json_t *row, const struct notify_decl *d, const char *before);
/* Checks the rules of `row` for `run`. *ret is an array of {"rule", "value", "bound"} of those that
 * hold, maybe empty; the caller owns it. -1: can't be checked now; with ERR_CORRUPT or
 * ERR_TOO_LARGE: never. Any thread. */
int notify_rules_hold(struct project *p, const json_t *row, const char *run, json_t **ret,
		      struct err *err);

#endif

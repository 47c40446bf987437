/* serve/notify/rules.h — metric rules of a notice, held against what runs gave.
 *
 * Whether a rule holds is found out when the notice is about to be sent, from its row alone, for
 * it needs the store: so neither a crash nor a store that is away loses it. */
#ifndef CAIRN_SERVE_NOTIFY_RULES_H
#define CAIRN_SERVE_NOTIFY_RULES_H

#include "base/text/json.h"
#include "serve/project/project.h"

/* Adds "rules": [TEXT] and "before": the run that `last` means, or null. */
void notify_rules_write(json_t *row, const struct notify_decl *d, const char *before);
/* Those of `row` that hold for `run`: *ret is an array of {"rule", "value", "bound"}, the caller's,
 * maybe empty. -1: it can't be told now; ERR_CORRUPT, ERR_TOO_LARGE: nor ever. Any thread. */
int notify_rules_hold(struct project *p, const json_t *row, const char *run, json_t **ret,
		      struct err *err);

#endif

/* engine/serve/health/health.h — checks each project's database and store.
 *
 * A thread of its own does the checks, so that a request never waits for a disk or a network that
 * hangs. It waits for HEALTH_WAIT_NS at most. Then it gets the last result, or the name of the item
 * at which the check hangs. */
#ifndef CAIRN_SERVE_HEALTH_HEALTH_H
#define CAIRN_SERVE_HEALTH_HEALTH_H

#include "base/err.h"
#include "base/text/json.h"

#define HEALTH_WAIT_NS (500 * NS_PER_MS)
/* While a new check takes its time, the last result stays valid this long. */
#define HEALTH_KEPT_NS (5 * NS_PER_S)

struct daemon;
struct health;
int health_new(struct daemon *d, struct health **ret, struct err *err);
/* Waits for a check to end, so the projects must still be there. NULL is fine. */
void health_free(struct health *h);

/* Adds {"name", "ok", "detail"}; sets *all to false when `ok` is false. */
void health_add_check(json_t *checks, const char *name, bool ok, const char *detail, bool *all);
/* Adds the result of a check that begins now. Any thread, once the projects are open. */
void health_add_projects(struct health *h, json_t *checks, bool *all);

#endif

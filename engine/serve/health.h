/* serve/health.h — is what the server needs at hand? A thread of its own looks at each project's
 * database and store when it is asked to, so that whoever asks never waits for a disk or a network
 * that hangs: at most HEALTH_WAIT_NS, and then hears what was found last, or what the look hangs
 * at.
 */
#ifndef CAIRN_SERVE_HEALTH_H
#define CAIRN_SERVE_HEALTH_H

#include "base/err.h"
#include "base/text/json.h"

#define HEALTH_WAIT_NS (500 * NS_PER_MS)
/* What was found last stands for so long while a new look takes its time. */
#define HEALTH_KEPT_NS (5 * NS_PER_S)

struct daemon;
struct health;
int health_new(struct daemon *d, struct health **ret, struct err *err);
/* The projects must still be there: waits for a look to end. NULL is fine. */
void health_free(struct health *h);

/* Adds {"name", "ok", "detail"}; *all becomes false with an `ok` that is. */
void health_add_check(json_t *checks, const char *name, bool ok, const char *detail, bool *all);
/* What a look that begins now finds. Any thread, once the projects are open. */
void health_add_projects(struct health *h, json_t *checks, bool *all);

#endif

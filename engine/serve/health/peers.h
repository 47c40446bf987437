/* engine/serve/health/peers.h — tells whether the other servers of a project are alive.
 *
 * Each server writes a sign of life into the database every half minute, with the wall time of its
 * own machine (record/rows/firings.h). Clocks may be set, so these times aren't compared with ours.
 * A server of another machine is dead when its sign hasn't changed for SERVER_SILENT_NS of our
 * monotonic time. Only peers_look(), at the start, compares it with the wall clock. For a server of
 * this machine, the process itself is checked.
 *
 * One thread.
 */
#ifndef CAIRN_SERVE_HEALTH_PEERS_H
#define CAIRN_SERVE_HEALTH_PEERS_H

#include "record/rows/firings.h"

struct peers;
struct peers *peers_new(void);
void peers_free(struct peers *p); /* NULL is fine */
/* Call it once, at the start. */
int peers_look(struct peers *p, struct db *db, int64_t wall_ns, int64_t mono_ns, struct err *err);
/* A server without any sign is a `cairn run` of another machine: it counts as alive. */
int peers_lives(struct peers *p, struct db *db, const char *server, int64_t mono_ns, bool *ret,
		struct err *err);

#endif

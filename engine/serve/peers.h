/* serve/peers.h — tells whether the other servers of a project are alive.
 *
 * Each server notes in the database every half minute that it lives, with the wall time of its own
 * machine (record/rows/firings.h). Somebody may set a clock, so these times aren't compared with
 * ours: a server of another machine is dead when its note hasn't changed for SERVER_SILENT_NS of
 * our monotonic time. Only what peers_look() finds at the start, when nothing has been watched yet,
 * is compared with the wall clock. Of this machine the process itself is looked for.
 *
 * One thread.
 */
#ifndef CAIRN_SERVE_PEERS_H
#define CAIRN_SERVE_PEERS_H

#include "record/rows/firings.h"

struct peers;
struct peers *peers_new(void);
void peers_free(struct peers *p); /* NULL is fine */
/* Once, at the start. */
int peers_look(struct peers *p, struct db *db, int64_t wall_ns, int64_t mono_ns, struct err *err);
/* A server that never noted anything is a `cairn run` of another machine: it counts as alive. */
int peers_lives(struct peers *p, struct db *db, const char *server, int64_t mono_ns, bool *ret,
		struct err *err);

#endif

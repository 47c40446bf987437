/* serve/peers.h — do the other servers of a project live?
 *
 * Each server notes in the database every half minute that it lives, with the wall time of its own
 * machine (record/rows/firings.h). Those times say nothing when they are held against a clock that
 * was set, so they aren't: a server of another machine is dead when what it notes hasn't changed
 * for SERVER_SILENT_NS of our monotonic time. Only what peers_look() finds at the start, when
 * nothing has been watched yet, is held against the wall clock. A process of this machine is looked
 * for itself.
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
/* One that noted nothing ever is a `cairn run` of another machine, and trusted. */
int peers_lives(struct peers *p, struct db *db, const char *server, int64_t mono_ns, bool *ret,
		struct err *err);

#endif

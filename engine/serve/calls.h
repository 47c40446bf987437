/* engine/serve/calls.h — lets an HTTP thread run a function on the loop's thread and wait for it.
 *
 * The wait ends when the function has run, or when calls_close() says that the daemon is about to
 * end: so web_free() may be called on the loop's thread after calls_close().
 */
#ifndef CAIRN_SERVE_CALLS_H
#define CAIRN_SERVE_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include "base/os/loop.h"

struct calls;
struct calls *calls_new(struct loop *l);
void calls_free(struct calls *c); /* NULL is fine; closed, and no thread is in calls_run() */
/* Any thread except the loop's. False: `fn` wasn't run and won't be. */
bool calls_run(struct calls *c, loop_fn fn, void *arg);
size_t calls_waiting(struct calls *c); /* any thread */
void calls_close(struct calls *c);     /* the loop's thread */

#endif

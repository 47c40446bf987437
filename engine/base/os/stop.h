/* engine/base/os/stop.h — handles requests to stop (SIGINT, SIGTERM, SIGHUP) at any moment.
 *
 * A loop handles signals only when it turns, and it doesn't turn while it waits for a disk or a
 * bucket. A person who asks a second time must not wait for that. So a separate thread receives the
 * signals and passes each to the loop. After a second request it gives the program STOP_AT_ONCE_NS
 * to end by itself, then ends the process (exit 130). That is as safe as kill -9.
 *
 * One listener per process at a time. SIGHUP counts once, however often it comes (a closing
 * terminal sends it in several ways), and not at all where it is ignored (nohup).
 */
#ifndef CAIRN_BASE_OS_STOP_H
#define CAIRN_BASE_OS_STOP_H

#include "base/os/loop.h"

/* Short enough to feel immediate. */
#define STOP_AT_ONCE_NS (800 * NS_PER_MS)

/* From now on fn gets the signals, on the loop's thread. `last_words` (copied; one line) is printed
 * when the process has to be ended. Blocks the signals in the calling thread, for good. */
int stop_listen(struct loop *l, const char *last_words, loop_signal_fn fn, void *arg,
		struct err *err);
/* Ends listening: the next request ends the process. Does nothing without a listener.
 */
void stop_unlisten(void);

#endif

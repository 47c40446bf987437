/* engine/base/os/stop.h — requests to stop (SIGINT, SIGTERM, SIGHUP) that are heard at any moment.
 *
 * A loop hears of a signal when it turns. A loop's thread that waits for a disk or a bucket doesn't
 * turn, and then a person who asks a second time must not wait: so a thread of its own receives the
 * signals, passes each on to the loop, and when one was asked twice gives the program
 * STOP_AT_ONCE_NS to end by itself. Then it ends the process (exit 130), which is safe wherever
 * kill -9 is.
 *
 * One listener a process at a time. SIGHUP counts once, however often it comes (a terminal that
 * closes sends it by several ways), and not at all where it is ignored (nohup).
 */
#ifndef CAIRN_BASE_OS_STOP_H
#define CAIRN_BASE_OS_STOP_H

#include "base/os/loop.h"

/* A person counts it as at once. */
#define STOP_AT_ONCE_NS (800 * NS_PER_MS)

/* From here on the signals come to fn, on the loop's thread. `last_words` (copied; one line) is
 * what a person reads when the process has to be ended. Blocks the signals in the calling thread,
 * for good. */
int stop_listen(struct loop *l, const char *last_words, loop_signal_fn fn, void *arg,
		struct err *err);
/* Nobody listens any more: the next request ends the process. Without a listener nothing happens.
 */
void stop_unlisten(void);

#endif

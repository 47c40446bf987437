/* engine/serve/event.h — the daemon's log: one event, one line, on standard error.
 *
 * As text: `2026-03-01T12:00:00.123Z info run-ended run=digits-7kq2m state=succeeded`; as JSON: an
 * object a line with "time", "level", "event" and the same fields. Under systemd's journal a line
 * begins with its priority instead of a time. Any thread; a line is one write(2).
 */
#ifndef CAIRN_SERVE_EVENT_H
#define CAIRN_SERVE_EVENT_H

#include <stdbool.h>
#include "base/text/json.h"

enum event_level { EVENT_ERROR, EVENT_WARNING, EVENT_INFO, EVENT_DEBUG };

void event_init(bool json, enum event_level max);
/* Fields as for json_pack, an object: event(EVENT_INFO, "run-ended", "{s:s, s:i}", "run", id,
 * "exit", 0). `fmt` may be NULL. */
void event(enum event_level level, const char *name, const char *fmt, ...);
/* The same with {"error": message}; `what` names the thing that failed, or is NULL. */
void event_err(const char *name, const char *what, const struct err *err);
/* How many events of this level there were, shown or not. */
uint64_t event_count(enum event_level level);

#endif

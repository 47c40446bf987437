/* engine/base/text/hostile.h — which characters must not reach a terminal, a log line or a page as
 * they are. Any thread. */
#ifndef CAIRN_BASE_TEXT_HOSTILE_H
#define CAIRN_BASE_TEXT_HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

/* Characters that move the cursor, hide text or reorder it (Unicode TR 36); and those that are
 * none, which XML and YAML refuse. */
bool text_is_hostile(uint32_t cp);

#endif

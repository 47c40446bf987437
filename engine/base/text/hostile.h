/* engine/base/text/hostile.h — characters that must not reach a terminal, a log line or a page
 * unescaped. Any thread. */
#ifndef CAIRN_BASE_TEXT_HOSTILE_H
#define CAIRN_BASE_TEXT_HOSTILE_H

#include <stdbool.h>
#include <stdint.h>

/* Characters that move the cursor, hide text or reorder it (Unicode TR 36); and noncharacters,
 * which XML and YAML refuse. */
bool text_is_hostile(uint32_t cp);

#endif

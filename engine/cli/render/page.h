/* engine/cli/render/page.h — the frame of an HTML page that a command writes: only text, no script,
 * no image, no external parts.
 */
#ifndef CAIRN_CLI_RENDER_PAGE_H
#define CAIRN_CLI_RENDER_PAGE_H

#include "base/text/str.h"

/* Up to the beginning of <main>. The title is escaped here. */
void page_begin(struct str *out, const char *title);
void page_end(struct str *out);
/* Escapes text from outside; NULL is a dash. */
void page_add_text(struct str *out, const char *s);

#endif

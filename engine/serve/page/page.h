/* engine/serve/page/page.h — the web interface at `/`: its page, and the page's assets.
 *
 * They are the same for everybody and hold no data, so they need no sign-in. The files are in the
 * program (bundle.h). A path that is a route of the page's own gets the page, so that its address
 * can be sent to somebody. */
#ifndef CAIRN_SERVE_PAGE_PAGE_H
#define CAIRN_SERVE_PAGE_PAGE_H

#include "serve/web/web.h"

/* For route(): answers a GET that concerns the interface. False: it doesn't. */
bool page_answer(struct web_exchange *x);

/* The page that reports are made of (report.h). ERR_NOT_FOUND: built without the interface. */
int page_template(struct str *out, struct err *err);

#endif

/* engine/serve/view/view.h — the bytes of artifacts in a browser, so that they can never run as the
 * site.
 *
 * The only place that sends such bytes with a type that browsers act on. GET /view/TICKET/PATH:
 * PATH is in the tree that the ticket names; of a file, any one name. There is no listing: the API
 * has one. */
#ifndef CAIRN_SERVE_VIEW_VIEW_H
#define CAIRN_SERVE_VIEW_VIEW_H

#include "serve/internal.h"

/* How a browser gets a file of this name. */
struct view_type {
	const char *type, *policy;
	bool attached; /* only to be saved */
};
struct view_type view_type_of(const char *name);

/* The route of "/view/…", or NULL for another path. */
const struct api_route *view_route(const struct web_exchange *x);

#endif

/* engine/serve/api/content/content.h — the content that a request names: {content} and ?path= below
 * it. */
#ifndef CAIRN_SERVE_API_CONTENT_CONTENT_H
#define CAIRN_SERVE_API_CONTENT_CONTENT_H

#include "serve/internal.h"
#include "storage/content/content.h"

/* What previews read of a file at most, and what they show of one value. */
#define PREVIEW_MAX (64 * MIB)
#define CELL_MAX    1000

struct content_named {
	struct store *store;
	struct content_id id;
	const char *name; /* the last part of the path, or "" */
};
/* Opens it; it must be a file whose bytes are in the store. The caller closes it. False: the client
 * got a problem as answer. */
bool api_content_open(struct api *a, struct content_named *ret, int *ret_fd, uint64_t *ret_size);

/* Directories that were read; kept for the next page. */
struct listings *api_listings_new(void);
void api_listings_free(struct listings *l); /* NULL is fine */

#endif

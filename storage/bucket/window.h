/* storage/bucket/window.h — a blob read from its beginning to its end through a window, so that one
 * of any size takes little memory.
 *
 * The blob is read and hashed once before the first byte is given. Errors as in content.h.
 */
#ifndef CAIRN_STORAGE_BUCKET_WINDOW_H
#define CAIRN_STORAGE_BUCKET_WINDOW_H

#include "storage/content/content.h"

struct window {
	const uint8_t *bytes; /* n of them lie here, until the next call */
	size_t n;
	bool is_last; /* the blob ends with them */
	/* the window's own */
	uint8_t *buf;
	size_t cap;
	int fd;
	uint64_t left;
};
int window_open(struct store *s, const struct content_id *id, struct window *ret,
		struct err *err); /* shows the first bytes */
/* Moves on by `used` bytes, and shows more than those that are left: when none were used the window
 * grows. Not after the last. */
int window_move(struct window *w, size_t used, struct err *err);
void window_close(struct window *w);

#endif

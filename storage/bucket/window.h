/* storage/bucket/window.h — reads a blob from start to end through a window, so that a blob of any
 * size needs little memory.
 *
 * The blob is read and hashed once before the first byte is given. Errors as in content.h.
 */
#ifndef CAIRN_STORAGE_BUCKET_WINDOW_H
#define CAIRN_STORAGE_BUCKET_WINDOW_H

#include "storage/content/content.h"

struct window {
	const uint8_t *bytes; /* n bytes, valid until the next call */
	size_t n;
	bool is_last; /* these are the blob's last bytes */
	/* private */
	uint8_t *buf;
	size_t cap;
	int fd;
	uint64_t left;
};
int window_open(struct store *s, const struct content_id *id, struct window *ret,
		struct err *err); /* the window then has the first bytes */
/* Drops the first `used` bytes, and reads more. When `used` is 0 the window grows. Not allowed
 * after the last bytes. */
int window_move(struct window *w, size_t used, struct err *err);
void window_close(struct window *w);

#endif

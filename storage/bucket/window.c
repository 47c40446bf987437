#include "storage/bucket/window.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>
#include "base/mem.h"

#define WINDOW_BYTES (1 * MIB)

static int fill(struct window *w, struct err *err)
{
	while (w->n < w->cap && w->left) {
		ssize_t got =
			read(w->fd, w->buf + w->n, (size_t)MIN((uint64_t)(w->cap - w->n), w->left));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "cannot read from the store");
		if (got == 0)
			return err_set(err, ERR_CORRUPT,
				       "a file of the store got shorter while it was read");
		w->n += (size_t)got;
		w->left -= (uint64_t)got;
	}
	w->bytes = w->buf;
	w->is_last = w->left == 0;
	return 0;
}

int window_open(struct store *s, const struct content_id *id, struct window *ret, struct err *err)
{
	struct window w = { .fd = -1, .left = id->size_bytes };

	if (content_verify(s, id, err) < 0 || content_open(s, id, &w.fd, err) < 0)
		return -1;
	w.cap = (size_t)MIN((uint64_t)WINDOW_BYTES, w.left) + 1;
	w.buf = xmalloc(w.cap);
	if (fill(&w, err) < 0) {
		window_close(&w);
		return -1;
	}
	*ret = w;
	return 0;
}

int window_move(struct window *w, size_t used, struct err *err)
{
	assert(!w->is_last && used <= w->n);
	if (used == 0) {
		w->cap *= 2;
		w->buf = xrealloc(w->buf, w->cap);
	}
	w->n -= used;
	memmove(w->buf, w->buf + used, w->n);
	return fill(w, err);
}

void window_close(struct window *w)
{
	free(w->buf);
	fd_closep(&w->fd);
	*w = (struct window){ .fd = -1 };
}

/* steps/augment/image.c — memory of images, reused from one to the next. */
#include "steps/augment/image.h"
#include <assert.h>
#include <string.h>
#include "base/mem.h"

void image_make(struct image *im, uint32_t w, uint32_t h, unsigned channels)
{
	size_t stride = ((size_t)w * (channels == 1 ? 1 : 4) + IMAGE_ALIGN - 1) / IMAGE_ALIGN *
			IMAGE_ALIGN,
	       n = stride * h + IMAGE_ALIGN;

	assert(channels == 1 || channels == 3);
	if (n > im->cap) {
		free(im->buf);
		im->buf = xmalloc(n);
		im->cap = n;
	}
	im->w = w;
	im->h = h;
	im->channels = channels;
	im->stride = stride;
	im->px = im->buf;
}

void image_deinit(struct image *im)
{
	free(im->buf);
	*im = (struct image){ 0 };
}

void image_view(struct image *view, const struct image *of, uint32_t x, uint32_t y, uint32_t w,
		uint32_t h)
{
	uint8_t *px = image_row(of, y) + (size_t)x * image_pixel_bytes(of);

	assert((uint64_t)x + w <= of->w && (uint64_t)y + h <= of->h);
	view->px = px;
	view->stride = of->stride;
	view->channels = of->channels;
	view->w = w;
	view->h = h;
}

void image_copy(struct image *to, const struct image *from)
{
	image_make(to, from->w, from->h, from->channels);
	for (uint32_t y = 0; y < from->h; y++)
		memcpy(image_row(to, y), image_row(from, y),
		       (size_t)from->w * image_pixel_bytes(from));
}

void image_swap(struct image *a, struct image *b)
{
	struct image t = *a;

	*a = *b;
	*b = t;
}

struct workspace *workspace_new(void)
{
	return xcalloc(1, sizeof(struct workspace));
}

void workspace_free(struct workspace *ws)
{
	if (!ws)
		return;
	image_deinit(&ws->cur);
	image_deinit(&ws->spare);
	image_deinit(&ws->mid);
	for (size_t i = 0; i < ARRAY_LEN(ws->decoded); i++)
		image_deinit(&ws->decoded[i]);
	free(ws->scratch);
	free(ws);
}

void *workspace_scratch(struct workspace *ws, size_t bytes)
{
	if (bytes > ws->scratch_cap) {
		free(ws->scratch);
		ws->scratch = xmalloc(bytes);
		ws->scratch_cap = bytes;
	}
	return ws->scratch;
}

void workspace_own(struct workspace *ws)
{
	if ((uintptr_t)ws->cur.px - (uintptr_t)ws->cur.buf < ws->cur.cap)
		return;
	image_copy(&ws->spare, &ws->cur);
	image_swap(&ws->cur, &ws->spare);
}

void workspace_swap(struct workspace *ws)
{
	image_swap(&ws->cur, &ws->spare);
}

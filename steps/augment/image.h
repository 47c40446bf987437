/* steps/augment/image.h — a decoded image: 8 bits a channel, gray or colour.
 *
 * Colour pixels take four bytes (red, green, blue, and one without meaning), so that loops handle a
 * pixel as a whole; gray ones take one. Rows in an image's own memory are padded to IMAGE_ALIGN
 * bytes, and as many bytes after the last row may be read, so that loops needn't stop exactly at an
 * edge.
 */
#ifndef CAIRN_STEPS_AUGMENT_IMAGE_H
#define CAIRN_STEPS_AUGMENT_IMAGE_H

#include <stdbool.h>
#include "base/err.h"

#define IMAGE_ALIGN 32

struct image {
	uint32_t w, h;
	unsigned channels; /* 1 or 3 */
	size_t stride;     /* bytes from row to row */
	uint8_t *px;       /* in `buf`, or in another image's memory (a view) */
	uint8_t *buf;      /* kept for the next image */
	size_t cap;
};

static inline unsigned image_pixel_bytes(const struct image *im)
{
	return im->channels == 1 ? 1 : 4;
}
static inline uint8_t *image_row(const struct image *im, uint32_t y)
{
	return im->px + y * im->stride;
}

void image_make(struct image *im, uint32_t w, uint32_t h,
		unsigned channels); /* contents undefined */
void image_deinit(struct image *im);
/* `view` shows a part of `of`, which must outlive it (or is the same image). An image's memory is
 * never written through a view. */
void image_view(struct image *view, const struct image *of, uint32_t x, uint32_t y, uint32_t w,
		uint32_t h);
void image_copy(struct image *to, const struct image *from);
void image_swap(struct image *a, struct image *b);

/* A thread's work area: ops take `cur`, and either change it or put the result into `spare` and
 * swap. */
struct workspace {
	struct image cur, spare, mid;
	struct image decoded[4]; /* whole images at 1/1, 1/2, 1/4, 1/8, for several copies */
	bool have[4];
	void *scratch;
	size_t scratch_cap;
};
struct workspace *workspace_new(void);
void workspace_free(struct workspace *ws); /* NULL is fine */
void *workspace_scratch(struct workspace *ws,
			size_t bytes); /* valid until the next call; not initialised */
/* For ops that change pixels in place: copies them if they belong to another image. */
void workspace_own(struct workspace *ws);
/* Makes `spare` the image. */
void workspace_swap(struct workspace *ws);

/* Integer loops are also compiled for newer processors; the results are the same. Not under
 * sanitizers: the resolver would run before a sanitizer is ready. */
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
	!defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define IMAGE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define IMAGE_CLONES
#endif

#endif

/* Images from bytes, of any format, then what the step does to them: a window must have the pixels
 * that the whole image has there; ops, and all formats out again. What is written must be readable.
 */
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "steps/augment/sample.h"
#include "steps/spec/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct codec_options options = {
	.max_pixels = 65536, .upright = true, .has_background = true, .background = { 1, 2, 3 }
};

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "fuzz_image: %s\n", what);
	abort();
}

static void same_pixels(const struct image *whole, const struct image *part, uint32_t x, uint32_t y)
{
	for (uint32_t i = 0; i < part->h; i++)
		for (uint32_t k = 0; k < part->w; k++)
			must(memcmp(image_row(whole, y + i) +
					    (size_t)(x + k) * image_pixel_bytes(whole),
				    image_row(part, i) + (size_t)k * image_pixel_bytes(part),
				    MIN(image_pixel_bytes(part), 3)) == 0,
			     "a window has other pixels than the whole image");
}

static void read_parts(const uint8_t *data, size_t size, const struct image_info *info,
		       struct workspace *ws)
{
	struct image_part part = { info->w / 3, info->h / 4, MAX(info->w / 2, 1),
				   MAX(info->h / 3, 1), 1 };
	struct image part_image = { 0 };

	must(ws->cur.w == info->w && ws->cur.h == info->h,
	     "it is decoded to another size than was said");
	if (codec_read(data, size, &options, info, &part, &part_image, &ws->spare, NULL) == 0) {
		must(part_image.w == part.w && part_image.h == part.h, "a window has another size");
		same_pixels(&ws->cur, &part_image, part.x, part.y);
	}
	part.denom = 4;
	codec_read(data, size, &options, info, &part, &part_image, &ws->spare, NULL);
	image_deinit(&part_image);
}

static void write_all(struct workspace *ws)
{
	struct image_info info;
	struct str s = { 0 };

	must(codec_write_png(&ws->cur, false, 1, &s, NULL) == 0, "PNG isn't written");
	must(codec_probe(s.s, s.len, &options, &info, NULL) == 0 && info.w == ws->cur.w,
	     "the PNG can't be read");
	str_reset(&s);
	must(codec_write_jpeg(&ws->cur, 90, &s, NULL) == 0, "JPEG isn't written");
	must(codec_probe(s.s, s.len, &options, &info, NULL) == 0 && info.h == ws->cur.h,
	     "the JPEG can't be read");
	str_reset(&s);
	codec_write_npy(&ws->cur, false, &s);
	must(codec_probe(s.s, s.len, &options, &info, NULL) == 0 && info.w == ws->cur.w &&
		     info.h == ws->cur.h,
	     "the NPY can't be read");
	str_deinit(&s);
}

static void augment(const uint8_t *data, size_t size)
{
	static const char settings[] =
		"{\"max_pixels\": 65536, \"image\": [\"x\"], \"record\": true, \"copies\": 2, "
		"\"ops\": [{\"random_resized_crop\": 9}, \"rand_augment\", {\"affine\": "
		"{\"degrees\": 30, \"filter\": \"bilinear\"}}, {\"color_jitter\": {\"hue\": 0.5}}, "
		"\"blur\", {\"random_crop\": {\"size\": 12, \"padding\": 40, \"mode\": "
		"\"reflect\"}}, \"cutout\"]}";
	struct shard_field field = { "x", data, size };
	struct shard_sample sample = { .key = (char *)"key", .fields = &field, .n_fields = 1 };
	struct workspace *ws = workspace_new();
	struct augmented made[2];
	struct plan plan;
	json_t *given, *with = NULL;

	must(json_parse("settings", settings, strlen(settings), &given, NULL) == 0 &&
		     step_spec_complete(step_spec_find("augment"), given, &with, NULL) == 0,
	     "settings");
	must(plan_init(&plan, with, NULL) == 0, "plan");
	if (sample_augment(&plan, &sample, 0, 2, ws, made, NULL) >= 0) {
		augmented_deinit(&made[0]);
		augmented_deinit(&made[1]);
	}
	json_decref(given);
	json_decref(with);
	workspace_free(ws);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct workspace *ws = workspace_new();
	struct image_part whole = { .denom = 1 };
	struct image_info info;

	if (codec_probe(data, size, &options, &info, NULL) == 0) {
		must(info.w > 0 && info.h > 0 && (uint64_t)info.w * info.h <= options.max_pixels,
		     "a size that was to be refused");
		whole.w = info.w;
		whole.h = info.h;
		if (codec_read(data, size, &options, &info, &whole, &ws->cur, &ws->spare, NULL) ==
		    0) {
			read_parts(data, size, &info, ws);
			write_all(ws);
		}
	}
	workspace_free(ws);
	augment(data, size);
	return 0;
}

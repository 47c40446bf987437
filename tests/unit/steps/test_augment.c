#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "steps/augment/resample_loops.h"
#include "steps/augment/sample.h"
#include "steps/spec/spec.h"
#include "unit.h"

/* Random numbers. */

/* The generator's published known answers (Random123, kat_vectors, philox4x32 10). */
static void test_philox(void **state)
{
	static const struct {
		uint32_t counter[4], key[2], want[4];
	} rows[] = {
		{ { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ { ~0U, ~0U, ~0U, ~0U },
		  { ~0U, ~0U },
		  { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
		  { 0xa4093822, 0x299f31d0 },
		  { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		uint32_t got[4];

		random_philox(rows[i].counter, rows[i].key, got);
		assert_memory_equal(got, rows[i].want, sizeof(got));
	}
}

static void test_streams_differ(void **state)
{
	struct random_key a = random_key_of(1, "key"), b = random_key_of(2, "key"),
			  c = random_key_of(1, "kez");
	const struct {
		const struct random_key *key;
		uint32_t copy, op;
		enum random_purpose purpose;
	} rows[] = { { &a, 0, 0, RANDOM_DRAW }, { &b, 0, 0, RANDOM_DRAW },
		     { &c, 0, 0, RANDOM_DRAW }, { &a, 1, 0, RANDOM_DRAW },
		     { &a, 0, 1, RANDOM_DRAW }, { &a, 0, 0, RANDOM_PIXELS } };
	uint32_t first[ARRAY_LEN(rows)];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct random r;

		random_start(&r, rows[i].key, rows[i].copy, rows[i].op, rows[i].purpose);
		first[i] = random_u32(&r);
		for (size_t k = 0; k < i; k++)
			assert_int_not_equal(first[i], first[k]);
	}
}

static void test_fill(void **state)
{
	struct random_key key = random_key_of(3, "fill");
	struct random one, many;
	uint32_t got[400], n;

	random_start(&one, &key, 1, 2, RANDOM_PIXELS);
	random_start(&many, &key, 1, 2, RANDOM_PIXELS);
	for (uint32_t i = 0; i < 400; i++) {
		n = i * 7 % 400;
		random_fill(&many, got, n);
		for (uint32_t k = 0; k < n; k++)
			assert_int_equal(got[k], random_u32(&one));
	}
}

static void test_below(void **state)
{
	struct random_key key = random_key_of(3, "below");
	unsigned counts[7] = { 0 };
	struct random r;

	random_start(&r, &key, 0, 0, RANDOM_DRAW);
	for (int i = 0; i < 70000; i++)
		counts[random_below(&r, 7)]++;
	for (int i = 0; i < 7; i++)
		assert_in_range(counts[i], 9600, 10400); /* 4 standard deviations */
	for (int i = 0; i < 100; i++)
		assert_int_equal(random_below(&r, 1), 0);
	for (int i = 0; i < 10000; i++) {
		double v = random_between(&r, -3, 5);

		assert_true(v >= -3 && v < 5);
	}
}

static int32_t normal_of(uint32_t bits)
{
	int32_t v;

	random_to_normal(&bits, &v, 1);
	return v;
}

static void test_normal(void **state)
{
	double sum = 0, squares = 0, cubes = 0;
	const uint32_t n = 1 << 20;

	for (uint32_t i = 0; i < n; i++) {
		double v = normal_of(i << 12) / 65536.0;

		sum += v;
		squares += v * v;
		cubes += v * v * v;
	}
	assert_true(fabs(sum / n) < 0.002 && fabs(cubes / n) < 0.01);
	assert_true(fabs(sqrt(squares / n) - 1) < 0.003);
	assert_true(abs(normal_of(0x80000000)) <= 1);
	assert_in_range(normal_of((uint32_t)(0.975 * 4294967296.0)), (int)(1.959 * 65536),
			(int)(1.961 * 65536));
	assert_true(normal_of(0) < -3 * 65536 && normal_of(UINT32_MAX) > 3 * 65536);
}

/* Resampling. */

static uint32_t noise(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

static void fill(struct image *im, uint32_t w, uint32_t h, unsigned channels, uint32_t seed)
{
	image_make(im, w, h, channels);
	for (size_t i = 0; i < im->stride * h; i++)
		im->px[i] = (uint8_t)noise(&seed);
}

/* Both kinds of loops, over random weights that overflow levels on both sides. */
static void test_loops_agree(void **state)
{
	const struct resample_loops *fast = resample_avx2();
	uint32_t seed = 5;

	if (!fast)
		skip();
	for (int round = 0; round < 200; round++) {
		uint32_t out = 1 + noise(&seed) % 40, stride = 2 * (1 + noise(&seed) % 6),
			 first[40], n[40];
		int32_t w[40 * 12] = { 0 };
		struct weights ws = { first, n, w, stride };
		struct image from = { 0 }, a = { 0 }, b = { 0 };
		const uint8_t *rows[4];
		uint8_t *ra[4], *rb[4];

		fill(&from, 64, 16, 3, noise(&seed));
		image_make(&a, out, 4, 3);
		image_make(&b, out, 4, 3);
		for (uint32_t i = 0; i < out; i++) {
			n[i] = 1 + noise(&seed) % stride;
			first[i] = noise(&seed) % (64 - n[i]);
			for (uint32_t k = 0; k < n[i]; k++)
				w[i * stride + k] =
					((int32_t)(noise(&seed) % (1 << 22)) - (1 << 20)) * 2 /
					(int32_t)stride;
		}
		for (uint32_t i = 0; i < 4; i++) {
			rows[i] = image_row(&from, noise(&seed) % 16);
			ra[i] = image_row(&a, i);
			rb[i] = image_row(&b, i);
		}
		resample_plain.rows(rows, ra, out, &ws);
		fast->rows(rows, rb, out, &ws);
		for (uint32_t i = 0; i < 4; i++)
			assert_memory_equal(ra[i], rb[i], out * 4);
		resample_plain.column(from.px, from.stride, w, n[0], a.px,
				      MIN(a.stride, from.stride));
		fast->column(from.px, from.stride, w, n[0], b.px, MIN(a.stride, from.stride));
		assert_memory_equal(a.px, b.px, MIN(a.stride, from.stride));
		image_deinit(&from);
		image_deinit(&a);
		image_deinit(&b);
	}
}

static double triangle(double x)
{
	return fabs(x) < 1 ? 1 - fabs(x) : 0;
}

/* In doubles, straight from the definition; two roundings to levels lie between. */
static double bilinear_at(const struct image *im, double cx, double cy, double sx, double sy,
			  unsigned c)
{
	double sum = 0, weight = 0;

	for (uint32_t y = 0; y < im->h; y++)
		for (uint32_t x = 0; x < im->w; x++) {
			double w = triangle((x + 0.5 - cx) / sx) * triangle((y + 0.5 - cy) / sy);

			sum += w * image_row(im, y)[x * image_pixel_bytes(im) + c];
			weight += w;
		}
	return sum / weight;
}

static void test_resample(void **state)
{
	static const struct {
		uint32_t w, h, out_w, out_h;
		struct box box;
	} rows[] = {
		{ 20, 14, 7, 5, { 0, 0, 20, 14 } },        { 7, 5, 20, 14, { 0, 0, 7, 5 } },
		{ 20, 14, 20, 5, { 0, 0, 20, 14 } },       { 20, 14, 9, 14, { 0, 0, 20, 14 } },
		{ 20, 14, 6, 6, { 2.5, 1.25, 13.5, 12 } }, { 1, 1, 5, 4, { 0, 0, 1, 1 } },
		{ 30, 30, 1, 1, { 0, 0, 30, 30 } },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (unsigned channels = 1; channels <= 3; channels += 2) {
			struct workspace *ws = workspace_new();
			struct image from = { 0 };
			double sx = rows[i].box.w / rows[i].out_w,
			       sy = rows[i].box.h / rows[i].out_h;

			fill(&from, rows[i].w, rows[i].h, channels, 9 + (uint32_t)i);
			image_view(&ws->cur, &from, 0, 0, from.w, from.h);
			resample(ws, &rows[i].box, rows[i].out_w, rows[i].out_h, FILTER_BILINEAR);
			assert_int_equal(ws->cur.w, rows[i].out_w);
			assert_int_equal(ws->cur.h, rows[i].out_h);
			for (uint32_t y = 0; y < ws->cur.h; y++)
				for (uint32_t x = 0; x < ws->cur.w; x++)
					for (unsigned c = 0; c < channels; c++) {
						double want = bilinear_at(
							&from, rows[i].box.x + (x + 0.5) * sx,
							rows[i].box.y + (y + 0.5) * sy, MAX(sx, 1),
							MAX(sy, 1), c);

						assert_true(
							fabs(image_row(&ws->cur,
								       y)[x * image_pixel_bytes(
										      &ws->cur) +
									  c] -
							     want) < 1.01);
					}
			image_deinit(&from);
			workspace_free(ws);
		}
}

/* Orientation. */

static void test_orientation(void **state)
{
	static const uint8_t little[] = "II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0",
			     big[] = "MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0";
	uint8_t bytes[sizeof(little)];

	assert_int_equal(exif_orientation(little, sizeof(little) - 1), 6);
	assert_int_equal(exif_orientation(big, sizeof(big) - 1), 8);
	for (size_t n = 0; n < sizeof(little) - 1; n++)
		assert_int_equal(exif_orientation(little, n), n >= 22 ? 6 : 1);
	memcpy(bytes, little, sizeof(little));
	bytes[18] = 9; /* no orientation */
	assert_int_equal(exif_orientation(bytes, sizeof(little) - 1), 1);
	bytes[18] = 6;
	memset(bytes + 4, 0xff, 4); /* a directory far outside */
	assert_int_equal(exif_orientation(bytes, sizeof(little) - 1), 1);
}

/* NPY. */

static void test_npy(void **state)
{
	static const struct {
		const char *header;
		size_t data;
		const char *want; /* the error; NULL: read */
		uint32_t w, h;
	} rows[] = {
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", 6, NULL, 3, 2 },
		{ "{'shape': (2, 3, 3), \"descr\": \"|u1\", 'fortran_order': False}", 18, NULL, 3,
		  2 },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }", 24, NULL, 3,
		  2 },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }", 23, "cut off",
		  0, 0 },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", 5, "cut off", 0,
		  0 },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (999999999, 999999999), }", 5,
		  "cut off", 0, 0 },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (0, 3), }", 0, "no pixels", 0,
		  0 },
		{ "{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", 6, "shape", 0, 0 },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 2), }", 12, "shape", 0,
		  0 },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }", 6, "shape", 0, 0 },
		{ "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }", 24,
		  "levels are `<f4`", 0, 0 },
		{ "{'descr': '|u1', 'shape': (2, 3), }", 6, "can't be read", 0, 0 },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 1, 1, 1), }", 6,
		  "shape", 0, 0 },
		{ "{'descr': '|u1', 'fortran_order': False, 'shape': (-2, 3), }", 6,
		  "can't be read", 0, 0 },
		{ "{", 6, "can't be read", 0, 0 },
		{ "", 6, "can't be read", 0, 0 },
	};
	const struct codec_options o = { .max_pixels = 1000 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct image_info info = { 0 };
		struct err err = { 0 };
		struct str s = { 0 };
		size_t n = strlen(rows[i].header);

		str_addn(&s, "\x93NUMPY\x01\x00", 8);
		str_addc(&s, (char)n);
		str_addc(&s, 0);
		str_add(&s, rows[i].header);
		for (size_t k = 0; k < rows[i].data; k++)
			str_addc(&s, (char)k);
		int r = codec_probe(s.s, s.len, &o, &info, &err);

		if (rows[i].want) {
			assert_int_equal(r, -1);
			assert_non_null(strstr(err.msg, rows[i].want));
		} else {
			assert_int_equal(r, 0);
			assert_int_equal(info.w, rows[i].w);
			assert_int_equal(info.h, rows[i].h);
		}
		str_deinit(&s);
	}
}

/* Windows of JPEG. */

static void read_corpus(const char *name, struct str *ret)
{
	_cleanup_(freep) char *path = xasprintf("tests/fuzz/corpus/image/%s", name);

	assert_int_equal(fs_read_file(path, MIB, ret, NULL), 0);
}

static void check_windows(const char *name, unsigned denom)
{
	const struct codec_options o = { .max_pixels = 1000000, .upright = true };
	struct image whole = { 0 }, part = { 0 }, other = { 0 };
	struct image_info info;
	struct str s = { 0 };
	uint32_t seed = 1;

	read_corpus(name, &s);
	assert_int_equal(codec_probe(s.s, s.len, &o, &info, NULL), 0);
	assert_int_equal(codec_read(s.s, s.len, &o, &info,
				    &(struct image_part){ 0, 0, info.w, info.h, denom }, &whole,
				    &other, NULL),
			 0);
	for (int i = 0; i < 200; i++) {
		struct image_part p = { noise(&seed) % info.w, noise(&seed) % info.h, 0, 0, denom };
		uint32_t x = p.x / denom, y = p.y / denom;

		p.w = 1 + noise(&seed) % (info.w - p.x);
		p.h = 1 + noise(&seed) % (info.h - p.y);
		assert_int_equal(codec_read(s.s, s.len, &o, &info, &p, &part, &other, NULL), 0);
		assert_int_equal(part.w, MIN((p.x + p.w + denom - 1) / denom, whole.w) - x);
		assert_int_equal(part.h, MIN((p.y + p.h + denom - 1) / denom, whole.h) - y);
		for (uint32_t r = 0; r < part.h; r++)
			for (uint32_t c = 0; c < part.w; c++)
				assert_memory_equal(image_row(&part, r) +
							    c * image_pixel_bytes(&part),
						    image_row(&whole, y + r) +
							    (x + c) * image_pixel_bytes(&part),
						    MIN(image_pixel_bytes(&part), 3));
	}
	image_deinit(&whole);
	image_deinit(&part);
	image_deinit(&other);
	str_deinit(&s);
}

static void test_windows(void **state)
{
	static const char *const names[] = { "photo.jpg",       "progressive.jpg", "gray.jpg",
					     "cmyk.jpg",        "exif6.jpg",       "wide.jpg",
					     "sampled-2x4.jpg", "sampled-4x1.jpg", "interlaced.png",
					     "rgba.png",        "rgb.npy" };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		for (unsigned denom = 1; denom <= (strstr(names[i], ".jpg") ? 8 : 1); denom *= 2)
			check_windows(names[i], denom);
}

/* Cut anywhere, an image is an error or whole; nothing is read beyond its end (a sanitizer would
 * see it). */
static void test_cut(void **state)
{
	static const char *const names[] = { "photo.jpg", "progressive.jpg", "palette.png",
					     "interlaced.png", "rgb.npy" };
	const struct codec_options o = { .max_pixels = 1000000, .upright = true };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct image im = { 0 }, other = { 0 };
		struct image_info info;
		struct str s = { 0 };

		read_corpus(names[i], &s);
		for (size_t n = 0; n < s.len; n += 1 + n / 40) {
			_cleanup_(freep) uint8_t *exact = xmalloc(n);
			struct err err = { 0 };

			memcpy(exact, s.s, n);
			if (codec_probe(exact, n, &o, &info, &err) == 0)
				assert_int_equal(
					codec_read(exact, n, &o, &info,
						   &(struct image_part){ 0, 0, info.w, info.h, 1 },
						   &im, &other, &err),
					-1);
			assert_int_not_equal(err.code, ERR_NONE);
			assert_true(err.msg[0]);
		}
		image_deinit(&im);
		image_deinit(&other);
		str_deinit(&s);
	}
}

/* Ops. */

static void plan_of(const char *settings, struct plan *ret, json_t **ret_with)
{
	struct err err = { 0 };
	json_t *given;

	assert_int_equal(json_parse("settings", settings, strlen(settings), &given, &err), 0);
	if (step_spec_complete(step_spec_find("augment"), given, ret_with, &err) < 0 ||
	    plan_init(ret, *ret_with, &err) < 0)
		fail_msg("%s", err.msg);
	json_decref(given);
}

/* Every op, on images of awkward sizes, in all kinds of memory. */
static void test_sizes(void **state)
{
	static const char *const ops[] = {
		"{\"resize\": 5}",
		"{\"resize\": [1, 9]}",
		"{\"center_crop\": [3, 40]}",
		"{\"random_crop\": {\"size\": 9, \"padding\": 20, \"mode\": \"symmetric\"}}",
		"{\"random_crop\": {\"size\": 9, \"padding\": 20, \"mode\": \"reflect\"}}",
		"{\"random_resized_crop\": 7}",
		"\"flip\"",
		"{\"flip\": {\"direction\": \"vertical\", \"p\": 1}}",
		"{\"rotate\": {\"degrees\": 90, \"expand\": true, \"filter\": \"bilinear\"}}",
		"{\"rotate\": [90, 90]}",
		"{\"affine\": {\"degrees\": 90, \"scale\": [0.001, 100], \"shear\": 80, "
		"\"filter\": \"bilinear\"}}",
		"{\"color_jitter\": {\"brightness\": 9, \"contrast\": 9, \"saturation\": 9, "
		"\"hue\": 0.5}}",
		"\"grayscale\"",
		"{\"grayscale\": {\"channels\": \"1\"}}",
		"{\"blur\": {\"sigma\": 9}}",
		"{\"noise\": 1}",
		"{\"cutout\": {\"size\": 60, \"holes\": 16}}",
		"{\"rand_augment\": {\"n\": 14, \"magnitude\": 30}}",
		"\"normalize\"",
	};
	static const uint32_t sizes[][2] = { { 1, 1 }, { 1, 9 },   { 9, 1 },
					     { 2, 2 }, { 31, 33 }, { 64, 8 } };

	for (size_t i = 0; i < ARRAY_LEN(ops); i++)
		for (size_t k = 0; k < ARRAY_LEN(sizes) * 2; k++) {
			_cleanup_(freep) char *settings =
				xasprintf("{\"image\": \"x\", \"copies\": 3, \"record\": true, "
					  "\"ops\": [%s]}",
					  ops[i]);
			struct workspace *ws = workspace_new();
			struct str npy = { 0 };
			struct image im = { 0 };
			struct augmented made[3];
			struct err err = { 0 };
			struct plan plan;
			json_t *with;

			fill(&im, sizes[k / 2][0], sizes[k / 2][1], k % 2 ? 3 : 1, 3);
			codec_write_npy(&im, false, &npy);
			struct shard_field field = { "x", npy.s, npy.len };
			struct shard_sample sample = { .key = (char *)"k",
						       .fields = &field,
						       .n_fields = 1 };

			plan_of(settings, &plan, &with);
			if (sample_augment(&plan, &sample, 0, 3, ws, made, &err) != 1)
				fail_msg("%s on %u x %u: %s", ops[i], im.w, im.h, err.msg);
			for (int m = 0; m < 3; m++) {
				struct image_info info;

				assert_int_equal(made[m].n_fields, 2);
				if (!strstr(ops[i], "normalize")) {
					assert_int_equal(codec_probe(made[m].fields[0].data,
								     made[m].fields[0].n,
								     &plan.codec, &info, &err),
							 0);
					assert_true(info.w > 0 && info.h > 0);
				}
				augmented_deinit(&made[m]);
			}
			json_decref(with);
			image_deinit(&im);
			str_deinit(&npy);
			workspace_free(ws);
		}
}

static void test_noise(void **state)
{
	struct workspace *ws = workspace_new();
	const struct op_place at = { .key = random_key_of(1, "noise") };
	double sum = 0, squares = 0, along = 0, n = 0;
	struct drawn d = { .on = true, .n = 1, .v = { 0.05 } };
	struct plan plan;
	json_t *with;

	plan_of("{\"ops\": [{\"noise\": 0.05}]}", &plan, &with);
	image_make(&ws->cur, 200, 200, 3);
	memset(ws->cur.px, 100, ws->cur.stride * 200);
	op_apply(&plan.ops[0], &d, &at, ws, false);
	for (uint32_t y = 0; y < 200; y++)
		for (uint32_t x = 0; x < 200; x++) {
			const uint8_t *p = image_row(&ws->cur, y) + x * 4;

			for (int c = 0; c < 3; c++, n++) {
				sum += p[c] - 100;
				squares += (p[c] - 100) * (p[c] - 100);
			}
			along += (p[0] - 100) * (p[1] - 100);
		}
	assert_true(fabs(sum / n) < 0.15);
	assert_true(fabs(sqrt(squares / n) / (0.05 * 255) - 1) < 0.02);
	assert_true(fabs(along / 40000) <
		    4 * 0.05 * 255 * 0.05 * 255 / 200); /* channels don't go together */
	json_decref(with);
	workspace_free(ws);
}

/* How often each thing is drawn. */
static void test_chances(void **state)
{
	struct op_target t = { 100, 80, false };
	unsigned on = 0, which[14] = { 0 };
	struct drawn d;
	struct plan plan;
	json_t *with;

	plan_of("{\"ops\": [{\"flip\": {\"p\": 0.3}}, {\"rand_augment\": 1}, "
		"{\"random_resized_crop\": 10}]}",
		&plan, &with);
	for (int i = 0; i < 20000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "sample %d", i);
		struct op_place at = { .key = random_key_of(1, name) };

		assert_int_equal(op_draw(&plan.ops[0], &at, &t, &d, NULL), 0);
		on += d.on;
		at.index = 1;
		op_draw(&plan.ops[1], &at, &t, &d, NULL);
		which[(int)d.v[0]]++;
		at.index = 2;
		op_draw(&plan.ops[2], &at, &t, &d, NULL);
		assert_true(window_is_inside(&d, &t));
		assert_true(d.v[2] * d.v[3] > 0.07 * 8000 && d.v[2] / d.v[3] > 0.7 &&
			    d.v[2] / d.v[3] < 1.43);
	}
	assert_in_range(on, 5740, 6260); /* 4 standard deviations */
	for (int i = 0; i < 14; i++)
		assert_in_range(which[i], 1283, 1574);
	json_decref(with);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_philox),      cmocka_unit_test(test_streams_differ),
		cmocka_unit_test(test_below),       cmocka_unit_test(test_normal),
		cmocka_unit_test(test_loops_agree), cmocka_unit_test(test_resample),
		cmocka_unit_test(test_orientation), cmocka_unit_test(test_npy),
		cmocka_unit_test(test_windows),     cmocka_unit_test(test_cut),
		cmocka_unit_test(test_sizes),       cmocka_unit_test(test_chances),
		cmocka_unit_test(test_noise),       cmocka_unit_test(test_fill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Plots: scales, and drawings of awkward numbers. */
#include <float.h>
#include <math.h>
#include <string.h>
#include "base/text/text.h"
#include "cli/past/series.h"
#include "cli/plot/plot.h"
#include "runners/series/tensorboard.h"
#include "unit.h"

static void test_ticks(void **state)
{
	static const struct {
		double min, max;
		size_t at_most;
		const char *want;
	} cases[] = {
		{ 0, 10, 6, "0 2 4 6 8 10" },    { 0.013, 0.087, 5, "0.02 0.04 0.06 0.08" },
		{ -1, 1, 5, "-1 -0.5 0 0.5 1" }, { 999, 1001, 4, "999 1000 1001" },
		{ 0, 199, 8, "0 50 100 150" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct plot_range r = { cases[i].min, cases[i].max };
		double ticks[PLOT_TICKS_MAX];
		size_t n = plot_ticks(&r, cases[i].at_most, ticks);
		struct str got = { 0 };

		for (size_t k = 0; k < n; k++)
			str_addf(&got, "%s%.6g", k ? " " : "", ticks[k]);
		assert_string_equal(got.s, cases[i].want);
		str_deinit(&got);
	}
}

static const double awkward[] = { 0,        1,        -1,      1e-300,   -1e-300,
				  DBL_MAX,  -DBL_MAX, DBL_MIN, 4.9e-324, 1e15,
				  1e15 + 1, 0.1,      NAN,     INFINITY, -INFINITY };

static void check_text(const struct str *out, const struct plot_text_options *o)
{
	for (const char *at = out->s, *end = out->s + out->len; at < end;) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));

		assert_non_null(eol);
		assert_true(text_is_utf8(at, (size_t)(eol - at)));
		if (!o->color)
			assert_true(text_width(at, (size_t)(eol - at)) <= MAX(o->columns, 40));
		at = eol + 1;
	}
}

/* All pairs and triples of awkward numbers, in every kind of drawing: nothing is out of bounds, no
 * number comes out as nan or inf in SVG. */
static void test_awkward_numbers(void **state)
{
	for (size_t a = 0; a < ARRAY_LEN(awkward); a++)
		for (size_t b = 0; b < ARRAY_LEN(awkward); b++)
			for (int kind = 0; kind < 4; kind++) {
				struct series_point v[] = { { 0, awkward[a] },
							    { awkward[b], 3 },
							    { 5, awkward[b] } };
				struct plot_line lines[] = { { "one <&\x1b[2J", v, 3 },
							     { "two", v + 1, 2 } };
				struct plot p = { "metric \"<&", lines, kind & 1 ? 2 : 1 };
				struct plot_text_options o = { .columns = kind & 2 ? 61 : 1,
							       .rows = kind & 2 ? 9 : 0,
							       .utf8 = a & 1,
							       .color = b & 1 };
				struct str text = { 0 }, svg = { 0 };

				plot_add_text(&text, &p, &o);
				check_text(&text, &o);
				assert_null(strstr(text.s, "\x1b[2J"));
				plot_add_svg(&svg, &p, 1);
				assert_null(strstr(svg.s, "nan"));
				assert_null(strstr(text.s, "nan"));
				assert_null(strstr(svg.s, "inf"));
				assert_null(strstr(svg.s, "\x1b"));
				str_deinit(&text);
				str_deinit(&svg);
			}
}

static void test_no_point_at_all(void **state)
{
	struct series_point v[] = { { 1, NAN } };
	struct plot_line line = { "x", v, 1 };
	struct plot p = { "m", &line, 1 };
	struct plot_range r;
	struct str out = { 0 };

	assert_false(plot_range_of(&p, PLOT_Y, &r));
	plot_add_text(&out, &p, &(struct plot_text_options){ .columns = 60, .rows = 5 });
	assert_non_null(strstr(out.s, "no finite value"));
	str_deinit(&out);
}

static void test_a_slope(void **state)
{
	struct series_point v[] = { { 0, 0 }, { 4, 4 } };
	struct plot_line line = { "x", v, 2 };
	struct plot p = { "m", &line, 1 };
	struct str out = { 0 };

	plot_add_text(&out, &p, &(struct plot_text_options){ .columns = 12 + 10, .rows = 5 });
	assert_string_equal(out.s, "            m\n"
				   "         4 |        **\n"
				   "           |      **\n"
				   "         2 |    **\n"
				   "           |  **\n"
				   "         0 |**\n"
				   "           +----------\n"
				   "            0        4\n"
				   "            * x\n");
	str_deinit(&out);
}

static void test_series_text(void **state)
{
	static const char *const bad[] = {
		"[]\n",        "{\"a\":1}\n", "{\"step\":\"x\"}\n",
		"{\"step\":1", "\xff\n",      "{\"step\":1,\"step\":2}\n"
	};
	struct arena *arena = arena_new();
	struct series s = { 0 };
	struct err err = { 0 };
	const char *text = "{\"a\":1,\"b\":null,\"step\":1}\n{\"a\":2,\"c\":\"text\",\"step\":2.5}";

	assert_int_equal(series_parse(text, strlen(text), arena, &s, &err), 0);
	assert_int_equal(s.n_metrics, 2);
	assert_string_equal(s.metrics[0].name, "a");
	assert_int_equal(s.metrics[0].n, 2);
	assert_true(s.metrics[0].v[1].x == 2.5 && s.metrics[0].v[1].y == 2);
	assert_true(isnan(s.metrics[1].v[0].y));
	assert_int_equal(series_parse("", 0, arena, &s, &err), 0);
	assert_int_equal(s.n_metrics, 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(series_parse(bad[i], strlen(bad[i]), arena, &s, &err), -1);
		assert_non_null(strstr(err.msg, "line 1 of the series"));
		err = (struct err){ 0 };
	}
	arena_free(arena);
}

static void test_series_csv(void **state)
{
	static const struct {
		const char *text, *want; /* a part of the error */
	} bad[] = { { "a,b\n1,2\n", "column `step` or `epoch`" },
		    { "step,a\n1,2\nx,3\n",
		      "line 3 of the series: no number in the column `step`" },
		    { "a,epoch\n1\n", "line 2 of the series: no number in the column `epoch`" },
		    { "step,\xff\n", "neither JSON nor CSV" } };
	struct arena *arena = arena_new();
	struct series s = { 0 };
	struct err err = { 0 };
	const char *text =
		"epoch,\"loss\", note ,step\r\n9,0.5,first,1\r\n9,nan,,2\r\n\n9,0.25,x,3";

	assert_int_equal(series_parse(text, strlen(text), arena, &s, &err), 0);
	assert_int_equal(s.n_metrics, 3);
	assert_string_equal(s.metrics[0].name, "epoch");
	assert_string_equal(s.metrics[1].name, "loss");
	assert_int_equal(s.metrics[1].n, 3);
	assert_true(s.metrics[1].v[0].x == 1 && s.metrics[1].v[0].y == 0.5);
	assert_true(isnan(s.metrics[1].v[1].y));
	assert_true(s.metrics[1].v[2].x == 3 && s.metrics[1].v[2].y == 0.25);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_int_equal(series_parse(bad[i].text, strlen(bad[i].text), arena, &s, &err),
				 -1);
		assert_non_null(strstr(err.msg, bad[i].want));
		err = (struct err){ 0 };
	}
	arena_free(arena);
}

static void count_scalar(void *arg, const char *tag, double step, double value, double time_s)
{
	struct str *got = arg;

	assert_true(isnan(time_s) || time_s >= 0);
	str_addf(got, "%s %g %g\n", tag, step, value);
}

/* What was written is read again; a cut file gives what is whole; a changed byte is an error or
 * changes nothing beyond its record. A tensor of TensorFlow counts like a number. */
static void test_tensorboard_read(void **state)
{
	static const char tensor[] = "\x10\x07\x2a\x14\x0a\x12\x0a\x04"
				     "loss\x42\x0a\x08\x01\x22\x04\0\0\0\x3f"
				     "\x50\x01"; /* field 10: unknown */
	struct series_point v[] = { { -1, 0.5 }, { 7, 2 } };
	struct series_metric m[] = { { "a", v, 2 }, { "b/c", v, 1 } };
	struct series s = {
		.run = "r", .task = "t", .started_ns = 1, .metrics = m, .n_metrics = 2
	};
	struct str file = { 0 }, got = { 0 }, one = { 0 };
	struct err err = { 0 };
	uint64_t len = sizeof(tensor) - 1;
	size_t end = 0;
	uint32_t sum;

	tensorboard_add(&file, &s);
	assert_int_equal(tensorboard_read(file.s, file.len, count_scalar, &got, &end, &err), 0);
	assert_string_equal(got.s, "a -1 0.5\na 7 2\nb/c -1 0.5\n");
	for (size_t n = 0; n < file.len; n++) {
		char keep, *cut = xcalloc(n + 1, 1); /* so that ASan sees a byte read beyond it */

		if (n)
			memcpy(cut, file.s, n);
		assert_int_equal(tensorboard_read(cut, n, count_scalar, &one, &end, &err), 0);
		keep = file.s[n];
		file.s[n] ^= 0x55;
		str_reset(&one);
		(void)tensorboard_read(file.s, file.len, count_scalar, &one, &end, &err);
		assert_true(one.len < got.len);
		file.s[n] = keep;
		free(cut);
	}
	err = (struct err){ 0 };
	str_reset(&file);
	str_reset(&got);
	str_addn(&file, (const char *)&len, 8);
	sum = tensorboard_checksum(file.s, 8);
	str_addn(&file, (const char *)&sum, 4);
	str_addn(&file, tensor, sizeof(tensor) - 1);
	sum = tensorboard_checksum(tensor, sizeof(tensor) - 1);
	str_addn(&file, (const char *)&sum, 4);
	assert_int_equal(tensorboard_read(file.s, file.len, count_scalar, &got, &end, &err), 0);
	assert_string_equal(got.s, "loss 7 0.5\n");
	str_deinit(&file);
	str_deinit(&got);
	str_deinit(&one);
}

/* The first record of every event file that TensorBoard wrote itself begins with these bytes. */
static void test_tensorboard_head(void **state)
{
	static const unsigned char head[] = { 0x18, 0,    0,    0,    0,    0,   0,
					      0,    0xa3, 0x7f, 0x4b, 0x22, 0x09 };
	struct series_point v[] = { { -1, 0.5 }, { 1e300, NAN }, { 2.4, -0.0 } };
	struct series_metric m = { "a", v, 3 };
	struct series s = {
		.run = "r", .task = "t", .started_ns = 1, .metrics = &m, .n_metrics = 1
	};
	struct str out = { 0 };

	tensorboard_add(&out, &s);
	assert_memory_equal(out.s, head, sizeof(head));
	assert_true(out.len > 24 + 16 + 3 * 16);
	str_deinit(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ticks),           cmocka_unit_test(test_awkward_numbers),
		cmocka_unit_test(test_no_point_at_all), cmocka_unit_test(test_a_slope),
		cmocka_unit_test(test_series_csv),      cmocka_unit_test(test_tensorboard_read),
		cmocka_unit_test(test_series_text),     cmocka_unit_test(test_tensorboard_head),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

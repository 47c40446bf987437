/* steps/evaluate/plot.c — the report's plots: SVG written as text.
 *
 * Each plot_*() appends one document of fixed size and returns true, or appends nothing and returns
 * false. Curves, calibration and histogram share a square of SIDE points (unit_frame(), px(),
 * py()); the layout of the confusion matrix depends on the number of classes.
 *
 * Numbers have a fixed number of decimals and nothing depends on time or place, so the same results
 * give the same bytes. Every text from outside goes through plot_escape(). Unreadable parts are
 * left out: curves beyond CURVES_MAX (those of the classes with the most rows are drawn) and
 * matrices over CELLS_MAX classes.
 *
 * measure/ computes curves and bins for all rows; here they are only drawn. report.c decides which
 * files there are.
 */
#include "steps/evaluate/plot.h"
#include <math.h>
#include <string.h>
#include "base/text/text.h"

#define SIDE       300 /* of the square to draw in */
#define LEFT       56
#define TOP        34
#define LEGEND     160
#define CURVES_MAX 10 /* more lines can't be told apart */
#define CELLS_MAX  40 /* a confusion matrix with more classes can't be read */
#define INK        "#1f2933"
#define FAINT      "#d9e2ec"
#define FONT       "font-family=\"system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif\""

/* Most colour-blind readers can tell them apart (M. Okabe and K. Ito, 2008, and darker
 * variants). */
static const char *const colours[CURVES_MAX] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
						 "#e69f00", "#56b4e9", "#7b4173", "#8c6d31",
						 "#5b5b5b", "#b2182b" };

void plot_escape(struct str *out, const char *s, size_t columns)
{
	size_t n = strlen(s), at = 0;
	uint32_t c;

	for (size_t shown = 0; at < n && shown < columns; shown++)
		at += MAX(text_utf8_decode(s + at, n - at, &c), (size_t)1);
	text_add_xml(out, s, at);
	if (at < n)
		str_add(out, "…");
}

/* Frame. */

static void open_svg(struct str *out, unsigned width, unsigned height, const char *title)
{
	str_addf(out,
		 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" width=\"%u\" "
		 "height=\"%u\" role=\"img\" " FONT " font-size=\"11\" fill=\"" INK "\">\n",
		 width, height, width, height);
	str_addf(out, "<title>%s</title><rect width=\"%u\" height=\"%u\" fill=\"#fff\"/>\n", title,
		 width, height);
	str_addf(out, "<text x=\"%d\" y=\"20\" font-size=\"13\" font-weight=\"600\">%s</text>\n",
		 LEFT, title);
}

static void axis_names(struct str *out, const char *x, const char *y)
{
	str_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>", LEFT + SIDE / 2,
		 TOP + SIDE + 36, x);
	str_addf(out,
		 "<text transform=\"translate(14 %d) rotate(-90)\" "
		 "text-anchor=\"middle\">%s</text>\n",
		 TOP + SIDE / 2, y);
}

/* Both axes from 0 to 1. */
static void unit_frame(struct str *out, const char *x, const char *y)
{
	for (int i = 0; i <= 5; i++) {
		int at = SIDE * i / 5;

		str_addf(out, "<path d=\"M%d %dV%dM%d %dH%d\" stroke=\"" FAINT "\" fill=\"none\"/>",
			 LEFT + at, TOP, TOP + SIDE, LEFT, TOP + at, LEFT + SIDE);
		str_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.1f</text>",
			 LEFT + at, TOP + SIDE + 16, i / 5.0);
		str_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.1f</text>\n", LEFT - 6,
			 TOP + SIDE - at + 4, i / 5.0);
	}
	axis_names(out, x, y);
}

/* From the lower left to the upper right corner. */
static void diagonal(struct str *out)
{
	str_addf(out, "<path d=\"M%d %dL%d %d\" stroke=\"#9aa5b1\" stroke-dasharray=\"4 4\"/>\n",
		 LEFT, TOP + SIDE, LEFT + SIDE, TOP);
}

static double px(double x)
{
	return LEFT + SIDE * x;
}

static double py(double y)
{
	return TOP + SIDE * (1 - y);
}

static void line(struct str *out, const double *x, const double *y, size_t n, const char *colour)
{
	str_add(out,
		"<path fill=\"none\" stroke-width=\"1.8\" stroke-linejoin=\"round\" stroke=\"");
	str_addf(out, "%s\" d=\"", colour);
	for (size_t i = 0; i < n; i++)
		str_addf(out, "%s%.1f %.1f", i ? " " : "M", px(x[i]), py(y[i]));
	str_add(out, "\"/>\n");
}

static void legend(struct str *out, size_t row, const char *colour, const char *name, double v)
{
	int y = TOP + 10 + (int)row * 17, x = LEFT + SIDE + 18;

	str_addf(out,
		 "<path d=\"M%d %dh16\" stroke=\"%s\" stroke-width=\"3\"/><text x=\"%d\" y=\"%d\">",
		 x, y - 4, colour, x + 22, y);
	plot_escape(out, name, 11);
	if (isfinite(v))
		str_addf(out, " · %.3f", v);
	str_add(out, "</text>\n");
}

/* Curves. */

struct shown {
	size_t class[CURVES_MAX], n;
};

/* The classes with the most rows, in the order of the classes. */
static struct shown choose(const struct results *r)
{
	struct shown s = { .n = 0 };

	if (r->d->n_classes == 2) {
		s.class[s.n++] = r->d->positive;
		return s;
	}
	for (size_t c = 0; c < r->d->n_classes; c++) {
		size_t above = 0;

		for (size_t k = 0; k < r->d->n_classes; k++)
			above += r->classes[k].support > r->classes[c].support ||
				 (r->classes[k].support == r->classes[c].support && k < c);
		if (above < CURVES_MAX && s.n < CURVES_MAX)
			s.class[s.n++] = c;
	}
	return s;
}

static bool curves(struct str *out, const struct results *r, bool roc)
{
	struct curve *c =
		r->d->task == TASK_CLASSIFICATION && r->classes ? xcalloc(2, sizeof(*c)) : NULL;
	struct shown s;
	size_t drawn = 0;

	if (!c)
		return false;
	s = choose(r);
	for (size_t i = 0; i < s.n; i++) {
		const struct class_measures *v = &r->classes[s.class[i]];
		const struct curve *one = roc ? &c[0] : &c[1];

		if (!meter_curves(r->model, s.class[i], &c[0], &c[1]))
			continue;
		if (drawn == 0) {
			open_svg(out, LEFT + SIDE + LEGEND, TOP + SIDE + 48,
				 roc ? "ROC" : "Precision and recall");
			unit_frame(out, roc ? "false positive rate" : "recall",
				   roc ? "true positive rate" : "precision");
			if (roc)
				diagonal(out);
		}
		line(out, one->x, one->y, one->n, colours[i]);
		legend(out, drawn++, colours[i], r->d->classes[s.class[i]],
		       roc ? v->roc_auc : v->pr_auc);
	}
	if (drawn && drawn < r->d->n_classes && r->d->n_classes > 2)
		str_addf(out,
			 "<text x=\"%d\" y=\"%d\" fill=\"#7b8794\">%zu of %zu classes</text>\n",
			 LEFT + SIDE + 18, TOP + 12 + (int)drawn * 17, drawn, r->d->n_classes);
	str_add(out, drawn ? "</svg>\n" : "");
	free(c);
	return drawn > 0;
}

bool plot_roc(struct str *out, const struct results *r)
{
	return curves(out, r, true);
}

bool plot_pr(struct str *out, const struct results *r)
{
	return curves(out, r, false);
}

bool plot_calibration(struct str *out, const struct results *r)
{
	struct bin bins[BINS_MAX];
	double x[BINS_MAX] = { 0 }, y[BINS_MAX] = { 0 };
	uint64_t most = 1;
	size_t n = 0;

	if (r->d->task != TASK_CLASSIFICATION || !r->d->n || !meter_bins(r->model, bins))
		return false;
	open_svg(out, LEFT + SIDE + LEGEND, TOP + SIDE + 48, "Calibration");
	unit_frame(out, "predicted probability",
		   r->d->n_classes == 2 ? "share of the positive class" : "share that is right");
	for (size_t i = 0; i < r->options.bins; i++)
		most = MAX(most, bins[i].n);
	for (size_t i = 0; i < r->options.bins; i++) {
		double height = 0.25 * (double)bins[i].n / (double)most;

		if (!bins[i].n)
			continue;
		str_addf(out,
			 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
			 "fill=\"#9fb3c8\" fill-opacity=\".35\"><title>%llu rows</title></rect>\n",
			 px((double)i / (double)r->options.bins) + 0.5, py(height),
			 SIDE / (double)r->options.bins - 1, SIDE * height,
			 (unsigned long long)bins[i].n);
		x[n] = bins[i].mean;
		y[n++] = (double)bins[i].positive / (double)bins[i].n;
	}
	diagonal(out);
	line(out, x, y, n, colours[0]);
	for (size_t i = 0; i < n; i++)
		str_addf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>", px(x[i]),
			 py(y[i]), colours[0]);
	legend(out, 0, colours[0], "observed", NAN);
	legend(out, 1, "#9fb3c8", "rows", NAN);
	str_add(out, "</svg>\n");
	return true;
}

/* The confusion matrix. */

static void count_text(struct str *out, uint64_t n)
{
	if (n < 10000)
		str_addf(out, "%llu", (unsigned long long)n);
	else if (n < 9950000)
		str_addf(out, n < 99500 ? "%.1fk" : "%.0fk", (double)n / 1e3);
	else
		str_addf(out, n < 99500000 ? "%.1fM" : "%.0fM", (double)n / 1e6);
}

static void cell(struct str *out, const struct results *r, size_t row, size_t column, double size,
		 double left)
{
	size_t k = r->d->n_classes;
	uint64_t n = r->confusion[row * k + column];
	double share = r->classes[row].support ? (double)n / (double)r->classes[row].support : 0,
	       x = left + (double)column * size, y = 60 + (double)row * size;
	const char *rgb = row == column ? "0,114,178" : "213,94,0";

	str_addf(out,
		 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"rgb(%s)\" "
		 "fill-opacity=\"%.3f\"><title>",
		 x + 0.5, y + 0.5, size - 1, size - 1, rgb, n ? 0.06 + 0.84 * share : 0.02);
	plot_escape(out, r->d->classes[row], 60);
	str_add(out, " taken for ");
	plot_escape(out, r->d->classes[column], 60);
	str_addf(out, ": %llu (%.1f%%)</title></rect>", (unsigned long long)n, 100 * share);
	if (size >= 26 && n) {
		str_addf(out,
			 "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"%d\"%s>",
			 x + size / 2, y + size / 2 + 4, size < 40 ? 9 : 12,
			 share > 0.55 ? " fill=\"#fff\"" : "");
		count_text(out, n);
		str_add(out, "</text>");
	}
	str_addc(out, '\n');
}

bool plot_confusion(struct str *out, const struct results *r)
{
	size_t k = r->d->n_classes;
	double size = k <= 4 ? 74 : k <= 8 ? 52 : k <= 14 ? 40 : k <= 24 ? 26 : 16, left = 130;

	if (!r->confusion || !r->d->n || k > CELLS_MAX)
		return false;
	open_svg(out, (unsigned)(left + size * (double)k + 70),
		 (unsigned)(60 + size * (double)k + 70), "Confusion");
	for (size_t i = 0; i < k; i++) {
		double middle = 60 + ((double)i + 0.5) * size;

		str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">", left - 6,
			 middle + 4);
		plot_escape(out, r->d->classes[i], 18);
		/* Where columns are too narrow for slanted labels, these stand upright. */
		str_addf(out, "</text><text transform=\"translate(%.1f %.1f) rotate(%d)\">",
			 left + ((double)i + 0.5) * size - 4,
			 60 + size * (double)k + (size < 20 ? 8 : 14), size < 20 ? 90 : 40);
		plot_escape(out, r->d->classes[i], 12);
		str_add(out, "</text>\n");
	}
	str_addf(out, "<text x=\"%.1f\" y=\"48\" fill=\"#7b8794\">predicted →</text>", left);
	str_addf(out,
		 "<text x=\"%.1f\" y=\"48\" text-anchor=\"end\" fill=\"#7b8794\">true ↓</text>\n",
		 left - 6);
	for (size_t i = 0; i < k; i++)
		for (size_t j = 0; j < k; j++)
			cell(out, r, i, j, size, left);
	str_add(out, "</svg>\n");
	return true;
}

/* Histogram. */

#define BARS 40

/* 1, 2 or 5 of some power of ten: at most five steps up to `most`. */
static uint64_t round_step(uint64_t most)
{
	static const unsigned nice[] = { 1, 2, 5 };
	uint64_t ten = 1;

	for (;; ten *= 10)
		for (size_t i = 0; i < ARRAY_LEN(nice); i++)
			if (5 * nice[i] * ten >= most)
				return nice[i] * ten;
}

bool plot_histogram(struct str *out, const struct results *r)
{
	bool errors = r->d->task == TASK_REGRESSION;
	const double *v = meter_losses(r->model);
	size_t n = meter_units(r->model);
	uint64_t count[BARS] = { 0 }, most = 1;
	double low = 0, high = 1;

	if (!v || !n)
		return false;
	if (errors) { /* without half a per cent at each end */
		const struct ranked *order = meter_errors(r->model);

		high = results_error(r, order[n / 200].row);
		low = results_error(r, order[n - 1 - n / 200].row);
		if (!(high > low) || !isfinite(high - low)) {
			low -= 0.5;
			high += 0.5;
		}
	}
	for (size_t i = 0; i < n; i++) {
		double at = ((errors ? results_error(r, i) : -v[i]) - low) / (high - low) * BARS;

		if (at >= 0 && at <= BARS)
			count[MIN((int)at, BARS - 1)]++;
	}
	for (int i = 0; i < BARS; i++)
		most = MAX(most, count[i]);
	open_svg(out, LEFT + SIDE + LEGEND, TOP + SIDE + 48,
		 errors ? "Errors" : "NDCG of the queries");
	for (int i = 0; i < BARS; i++)
		if (count[i])
			str_addf(out,
				 "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
				 "fill=\"#0072b2\" "
				 "fill-opacity=\".75\"><title>%llu</title></rect>\n",
				 px((double)i / BARS) + 0.5, py((double)count[i] / (double)most),
				 SIDE / (double)BARS - 1, SIDE * (double)count[i] / (double)most,
				 (unsigned long long)count[i]);
	str_addf(out, "<path d=\"M%d %dH%d\" stroke=\"" INK "\"/>", LEFT, TOP + SIDE, LEFT + SIDE);
	for (int i = 0; i <= 4; i++)
		str_addf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%.3g</text>",
			 LEFT + SIDE * i / 4, TOP + SIDE + 16, low + (high - low) * i / 4);
	for (uint64_t i = 0, step = round_step(most); i <= most; i += step) {
		str_addf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT - 6,
			 py((double)i / (double)most) + 4);
		count_text(out, i);
		str_add(out, "</text>\n");
	}
	axis_names(out, errors ? "prediction − truth" : "NDCG", errors ? "rows" : "queries");
	str_add(out, "</svg>\n");
	return true;
}

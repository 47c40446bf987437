/* Axes: their range, the position of a value, round numbers for ticks. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include "cli/plot/plot.h"

bool plot_range_of(const struct plot *p, enum plot_axis axis, struct plot_range *ret)
{
	double min = INFINITY, max = -(double)INFINITY;

	for (size_t i = 0; i < p->n; i++)
		for (size_t k = 0; k < p->lines[i].n; k++) {
			const struct series_point *at = &p->lines[i].v[k];
			double v = axis == PLOT_X ? at->x : at->y;

			if (isfinite(at->x) && isfinite(at->y)) {
				min = fmin(min, v);
				max = fmax(max, v);
			}
		}
	if (min > max)
		return false;
	if (min == max) {
		double around = min == 0 ? 1 : fabs(min) / 10;

		min = fmax(min - around, -DBL_MAX);
		max = fmin(max + around, DBL_MAX);
	}
	*ret = (struct plot_range){ min, max };
	return true;
}

/* Works with halves: the difference of two numbers may be more than a double holds. */
double plot_place(const struct plot_range *r, double v)
{
	double t = (v / 2 - r->min / 2) / (r->max / 2 - r->min / 2);

	return t < 0 || isnan(t) ? 0 : t > 1 ? 1 : t;
}

size_t plot_ticks(const struct plot_range *r, size_t max, double ret[static PLOT_TICKS_MAX])
{
	static const double steps[] = { 1, 2, 5, 10 };
	double span = r->max - r->min, power = pow(10, floor(log10(span / (double)max)));
	size_t n = 0;

	assert(max >= 2);
	if (!isfinite(span) || !isfinite(power) || power == 0) {
		ret[0] = r->min;
		ret[1] = r->max;
		return 2;
	}
	max = MIN(max, PLOT_TICKS_MAX);
	for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
		double step = steps[i] * power, first = ceil(r->min / step);

		if (floor(r->max / step) - first + 1 > (double)max && i + 1 < ARRAY_LEN(steps))
			continue;
		for (n = 0; n < max && (first + (double)n) * step <= r->max; n++)
			ret[n] = (first + (double)n) * step;
		break;
	}
	return n;
}

/* steps/evaluate/evaluate.c — the step: load, measure, write, judge. */
#include <assert.h>
#include "base/text/text.h"
#include "steps/evaluate/results.h"

static size_t cuts(const json_t *list, size_t *ret)
{
	const json_t *item;
	size_t i;

	assert(json_array_size(list) <= CUTS_MAX); /* the spec's limit */
	json_array_foreach(list, i, item) ret[i] = (size_t)json_integer_value(item);
	return json_array_size(list);
}

static void read_options(const struct step_args *a, const struct data *d, struct results *r)
{
	const json_t *w = a->with, *bootstrap = step_value(w, "bootstrap");

	*r = (struct results){ .d = d, .title = step_text(w, "title") };
	r->options = (struct meter_options){ .bins = (size_t)step_int(w, "bins"),
					     .exponential_gain = step_choice(a, "gain") == 1,
					     .threads = a->threads };
	r->options.n_cuts =
		cuts(step_value(w, d->task == TASK_RANKING ? "k" : "top_k"), r->options.cuts);
	r->resampling = (struct resample_options){
		.resamples = bootstrap ? (size_t)json_integer_value(bootstrap) : SIZE_MAX,
		.seed = (uint64_t)step_int(w, "seed"),
		.confidence = step_float(w, "confidence"),
		.threads = a->threads
	};
}

/* A gate that fails is an error only after everything is written, so that people can see why. */
static int write_and_judge(struct step_args *a, const struct results *r, struct err *err)
{
	json_t *metrics = results_metrics(r), *full = results_full(r, metrics);
	int ret = results_write(step_output(a, "report")->path, r, full, err);
	_cleanup_(freep) char *why = NULL;

	json_object_update(a->metrics, metrics);
	json_decref(metrics);
	json_decref(full);
	if (ret == 0)
		ret = gate_judge(step_value(a->with, "gate"), a->metrics, &why, err);
	if (ret <= 0)
		return ret;
	if (a->metrics_path && json_write_file(a->metrics_path, a->metrics, true, err) < 0)
		return -1;
	return err_set(err, ERR_FAILED, "gate: %s", why);
}

static int run(struct step_args *a, struct err *err)
{
	struct results r = { 0 };
	struct data d;
	int ret;

	if (gate_check(step_value(a->with, "gate"), err) < 0)
		return -1;
	ret = data_load(a, &d, err);
	if (ret == 0) {
		step_progress(d.n, d.n, "rows");
		if (d.rows_skipped)
			step_note("%llu of %llu rows skipped", (unsigned long long)d.rows_skipped,
				  (unsigned long long)d.rows_read);
		read_options(a, &d, &r);
		results_measure(&r);
		ret = write_and_judge(a, &r, err);
		results_deinit(&r);
	}
	data_deinit(&d);
	return ret;
}

const struct step_impl step_evaluate = { "evaluate", run };

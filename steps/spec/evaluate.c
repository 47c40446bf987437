/* The table of `evaluate`. */
#include "steps/spec/tables.h"

static const struct spec_port inputs[] = {
	{ "predictions", true,
	  "CSV, TSV, JSON lines or NPY: what the model says; may hold the labels too" },
	{ "labels", false, "the true classes or numbers, where they are in a file of their own" },
	{ "baseline", false, "another model's predictions, of the same form, to compare with" },
	{ 0 },
};

static const struct spec_port outputs[] = {
	{ "report", true, "a directory: metrics.json, report.html, summary.md and the plots" },
	{ 0 },
};

static const struct spec_option column[] = { { "column", SPEC_STRING }, { 0 } };
static const struct spec_option class[] = { { "class", SPEC_ANY }, { 0 } };
static const struct spec_option cut[] = { { "k", SPEC_INT, .min = 1, .max = 1000000 }, { 0 } };
static const struct spec_option condition[] = { { "condition", SPEC_ANY }, { 0 } };

static const struct spec_option options[] = {
	{ "task", SPEC_CHOICE, "\"classification\"", .choices = "classification|regression|ranking",
	  .help = "what is predicted: a class, a number, an order" },
	{ "label", SPEC_STRING, "\"label\"",
	  .help = "the column that holds the true class or number" },
	{ "prediction", SPEC_STRING,
	  .help = "the column of the predicted class or number; without it `prediction` if there "
		  "is one" },
	{ "score", SPEC_LIST, .min = 0, .max = 2000, .sub = column,
	  .help = "the column of the positive class's score; one column a class; or prob_* for all "
		  "such; without it `score` if there is one" },
	{ "id", SPEC_STRING,
	  .help = "the column that matches rows of the inputs; without it row n belongs to row n" },
	{ "query", SPEC_STRING,
	  .help = "ranking: the column that says which rows are ranked together" },
	{ "classes", SPEC_LIST, .min = 0, .max = 2000, .sub = class,
	  .help = "the classes, in the order of the score columns; without it those that occur, "
		  "sorted" },
	{ "positive", SPEC_ANY,
	  .help = "the positive class, where there are two; without it the last one" },
	{ "threshold", SPEC_FLOAT, .min = SPEC_UNBOUNDED_MIN, .max = SPEC_UNBOUNDED_MAX,
	  .help = "two classes and no column of predictions: from this score on the positive class "
		  "is predicted; without it from 0.5 on, or by the larger of two scores" },
	{ "top_k", SPEC_LIST, "[5]", .min = 0, .max = 16, .sub = cut,
	  .help = "top-k accuracies, for each k below the number of classes" },
	{ "k", SPEC_LIST, "[10]", .min = 0, .max = 16, .sub = cut,
	  .help = "ranking: ranks at which NDCG is cut off; 10 gives ndcg_at_10" },
	{ "gain", SPEC_CHOICE, "\"linear\"", .choices = "linear|exponential",
	  .help = "ranking: what a label is worth in NDCG: itself, or 2^label - 1" },
	{ "bins", SPEC_INT, "15", .min = 1, .max = 100,
	  .help = "number of bins of the calibration curve and its error (ece)" },
	{ "slices", SPEC_LIST, .min = 0, .max = 32, .sub = column,
	  .help = "columns; all metrics are also computed for each of their values" },
	{ "bootstrap", SPEC_INT, .min = 0, .max = 100000,
	  .help = "resamples for confidence intervals; without it 1000 up to 100,000 scores, 200 "
		  "up to a million, else none" },
	{ "confidence", SPEC_FLOAT, "0.95", .min = 0.5, .max = 0.9999, .help = "of the intervals" },
	{ "seed", SPEC_INT, "0", .min = 0, .max = 9e15, .help = "of the resamples" },
	{ "on_bad", SPEC_CHOICE, "\"fail\"", .choices = "fail|skip",
	  .help = "rows with missing, broken or unknown values: an error, or left out and "
		  "counted" },
	{ "gate", SPEC_MAP, .sub = condition,
	  .help = "conditions, {accuracy: \">= 0.85\"}; when one isn't met, the step fails after "
		  "it has written everything" },
	{ "title", SPEC_STRING, "\"Evaluation\"", .help = "of the report" },
	{ 0 },
};

const struct step_spec spec_evaluate = {
	.name = "evaluate",
	.summary = "predictions and labels to metrics, confidence intervals and a report",
	.about = "Reads what a model predicted and what was true, and says how good the model is. "
		 "Metrics agree with scikit-learn; one that isn't defined (one\n"
		 "class only, no rows) is null, and `undefined` in report/metrics.json says why.\n"
		 "\n"
		 "classification: accuracy, balanced_accuracy, mcc, f1_micro, "
		 "{precision,recall,f1}_{macro,weighted}, "
		 "classes.NAME.{precision,recall,f1,support};\n"
		 "  of two classes also precision, recall, f1 of the positive one; with scores "
		 "roc_auc, pr_auc, log_loss, brier, ece; of more classes roc_auc_ovr,\n"
		 "  roc_auc_ovr_weighted, roc_auc_ovo, top_5_accuracy. Without a column of "
		 "predicted classes the scores decide:\n  the class with the largest one, or a "
		 "single score and the threshold. Macro averages are over `classes`, or else over "
		 "the classes that occur.\n"
		 "regression: mae, mse, rmse, r2, explained_variance, mape, mean_error, max_error, "
		 "median_absolute_error, abs_error_p90, error_p05 … error_p95.\n"
		 "ranking: ndcg, ndcg_at_10, mrr, map, queries; by the column `query`.\n"
		 "Always: rows, rows_skipped; ci.METRIC.{low,high}; slices.COLUMN.VALUE.METRIC; "
		 "with a baseline baseline.METRIC, difference.METRIC.{value,low,high,p}\n"
		 "  and comparison.p (McNemar's test of the classes, Wilcoxon's of the errors or "
		 "queries).\n"
		 "\n"
		 "The format follows from the content, not from the name. A .npy array of floats "
		 "holds scores (one column, or one for each class), any other array\npredicted "
		 "classes; give its labels by -i labels=FILE. A JSON lines field may hold a list "
		 "of scores. A directory is one table made of its files.\n"
		 "\n"
		 "  cairn step evaluate -i predictions=p.csv -o report=report/ -w label=y -w "
		 "score=p_yes -w gate.roc_auc='>= 0.9'",
	.version = 2,
	.inputs = inputs,
	.outputs = outputs,
	.options = options,
	.metrics = "metrics.json",
	.example = "  evaluate:\n"
		   "    uses: evaluate\n"
		   "    with: {task: classification, label: y, score: prob_*, slices: [region]}\n"
		   "    inputs: {predictions: \"${{ steps.predict.outputs.predictions }}\", "
		   "labels: \"${{ inputs.labels }}\"}\n"
		   "    outputs: {report: report/}\n"
		   "    gate: {accuracy: \">= 0.85\", ci.accuracy.low: \">= 0.8\"}\n",
};

/* steps/step.h — what a built-in step gets, and how it reports.
 *
 * A step is a function of its inputs, its settings and its seed: the same bytes come out on every
 * machine and with any number of threads. It treats its inputs as hostile, writes only to its
 * output paths and to the metrics file, reports progress on standard error, and returns 0 or -1
 * with one error that names the sample, row or file. It never calls exit().
 *
 * Threads: step_progress() and step_note() may be called from any; the rest from the thread that
 * called run().
 */
#ifndef CAIRN_STEPS_STEP_H
#define CAIRN_STEPS_STEP_H

#include "base/text/json.h"
#include "steps/spec/spec.h"

struct step_port {
	const char *name;
	const char *path; /* a file or a directory, as the user or the engine gave it */
	bool is_dir;      /* outputs: declared with a trailing slash */
};

struct step_args {
	const struct step_spec *spec;
	const json_t *with; /* complete (step_spec_complete) */
	const struct step_port *inputs, *outputs;
	size_t n_inputs, n_outputs;
	const char *metrics_path;   /* NULL: not wanted */
	const char *const *command; /* wraps_command: argv, NULL-terminated */
	unsigned threads; /* at least 1; wraps_command: for the program, over all its nodes */
	/* An object that step_metric() fills; written to metrics_path after run() has succeeded. */
	json_t *metrics;
};

struct step_impl {
	const char *name;
	int (*run)(struct step_args *a, struct err *err);
};
extern const struct step_impl step_shard, step_augment, step_train, step_evaluate, step_ray,
	step_spark_submit;

/* NULL when there is no such port. */
const struct step_port *step_input(const struct step_args *a, const char *name);
const struct step_port *step_output(const struct step_args *a, const char *name);

/* Settings by name, from the complete form, so they exist and have the right type (asserted).
 * Lent. */
bool step_bool(const json_t *with, const char *name);
int64_t step_int(const json_t *with, const char *name);
double step_float(const json_t *with, const char *name);
int64_t step_duration(const json_t *with, const char *name); /* nanoseconds */
const char *step_text(const json_t *with,
		      const char *name); /* NULL when it is absent and has no default */
const json_t *step_value(const json_t *with, const char *name); /* NULL when absent */
/* For a choice: its index among the spec's choices "a|b|c". */
size_t step_choice(const struct step_args *a, const char *name);

/* Dots in a name make nested objects: "errors.skipped". */
void step_metric(struct step_args *a, const char *name, double value);

/* A whole number as an integer; null where it isn't finite. */
json_t *step_number(double v);

/* "1,234 of 60,000 images"; at most one line a second on a terminal (rewritten in place), one in
 * ten seconds in a log. total 0: unknown. `unit` must stay valid: it is kept until the line is
 * printed.
 */
void step_progress(uint64_t done, uint64_t total, const char *unit);
/* Prints the last values of step_progress() if they aren't printed yet, so that a log doesn't end
 * at "1 of 300 samples". */
void step_progress_end(void);
/* One line for people: "note: 3 samples skipped". */
void step_note(const char *fmt, ...) _printf_(1, 2);

/* Runs `work(arg, i)` for i in 0..n-1 on `threads` threads (the caller's is one of them). Returns
 * the error with the lowest index, so that it is always the same one; later indices may or may not
 * have run. */
int step_parallel(unsigned threads, size_t n, int (*work)(void *arg, size_t i, struct err *err),
		  void *arg, struct err *err);

/* A stream in order through parallel work. `next` makes items one after the other (NULL at the end;
 * an error ends the stream). `work` (may be NULL) changes each on any thread. `done` takes them in
 * the order in which they were made, and owns them. At most `max_in_flight` items (0: 4 a thread)
 * are alive at once. At most one next() and one done() run at a time; the two may run at the same
 * time, on two threads. When work() fails, its item and later ones go to `drop`; when done() fails,
 * the items after its own do. The error of the earliest item is returned. */
struct step_stream {
	void *(*next)(void *arg, struct err *err); /* NULL with err->code ERR_NONE: the end */
	int (*work)(void *arg, void *item, struct err *err);
	int (*done)(void *arg, void *item, struct err *err);
	void (*drop)(void *arg, void *item);
	void *arg;
	size_t max_in_flight;
};
int step_stream(unsigned threads, const struct step_stream *s, struct err *err);

/* The program behind `cairn step`: argv[0] is the step's name; `impls` (ends with NULL) lists the
 * steps that it can run. Returns the exit code. */
int step_main(const struct step_impl *const *impls, int argc, char **argv);

#endif

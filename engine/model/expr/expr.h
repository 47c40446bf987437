/* engine/model/expr/expr.h — `${{ }}` expressions and the templates that hold them.
 *
 * No side effects. There are references, literals (1, 0.5, 'text', "text", true, null, [a, b]; a
 * quote inside of text is doubled), == != < <= > >= && || !, parentheses, and a few pure
 * functions (the table in expr.c, from which help is made):
 *
 *	always() failed()                      in `if` only
 *	min() max() mean() sum() count()       of a list, or of the arguments; the only way to use
 *	                                       metrics of several tasks
 *	contains(list, item) contains(text, part) starts_with(text, part) ends_with(text, part)
 *	join(list, separator) choose(condition, a, b) default(value, other) json(value)
 *
 * and + - * / // % of numbers, as in Python: `/` gives a float, `//` rounds down. Integers have 64
 * bits; a result that doesn't fit, and a division by zero, is an error. A name may hold `-`: a - b
 * is a difference, a-b a name.
 *
 * `&&`, `||`, `!` and conditions take true or false, nothing else; `==` of different kinds is
 * false (and an error of `cairn check` where the kinds are known). A name with odd characters is
 * written steps.x.metrics['top-5 acc']. A template is text with expressions in it; one that is a
 * single expression keeps that expression's type. `$${{` is the text `${{`.
 *
 * References are resolved to indices when the pipeline is loaded; evaluating asks the caller's
 * scope for values. Loading also checks types, as far as they are known. Any thread; nothing here
 * has state.
 */
#ifndef CAIRN_MODEL_EXPR_EXPR_H
#define CAIRN_MODEL_EXPR_EXPR_H

#include "model/expr/value.h"

/* What is written, and which fields of struct ref say what it means. */
enum ref_kind {
	REF_PARAM, /* params.NAME. index: into pipeline->params */
	REF_LOCAL, /* params.NAME in a step file. index: into step->program.locals */
	/* inputs.NAME, outputs.NAME in a command: the paths of the step's own ones. index: into
	 * step->inputs, step->outputs. */
	REF_INPUT,
	REF_OUTPUT,
	/* inputs.NAME in a step's inputs or each. index: into pipeline->inputs. */
	REF_PIPELINE_INPUT,
	REF_STEP_OUTPUT, /* steps.S.outputs.NAME. step; index: into that step's outputs */
	REF_STEP_METRIC, /* steps.S.metrics.NAME. step, name (with dots: metrics.val.loss) */
	/* steps.S.values.NAME. step; index: into that step's outputs; name (with dots and list
	 * indices: values.best.0.lr). */
	REF_STEP_VALUE,
	REF_STEP_STATE, /* steps.S.state, in `if` and in `finally`. step */
	REF_MATRIX,     /* matrix.AXIS. index: into step->tasks->matrix.axes */
	REF_ITEM,       /* item: content or value of `each` */
	REF_ITEM_NAME,  /* item.name: last component */
	REF_ITEM_PATH,  /* item.path */
	REF_ITEM_STEM,  /* item.stem: name without its last suffix */
	/* item.NAME, of an item that a step wrote as a value. name. Of an item that is no object,
	 * name, path and stem are those of its text. */
	REF_ITEM_VALUE,
	REF_SCHEDULE,     /* schedule.time, .name, .interval_start, .interval_end, .run. index */
	REF_RUN_STATE,    /* run.state, in `finally` */
	REF_FAILED_TASKS, /* failed.tasks, in `finally`: a list of labels */
	REF_RUN_ID,       /* run.id, in `export` only */
	REF_ROUND,        /* round: of a step with `repeat`, from 1 */
	REF_KINDS,
};

struct ref {
	enum ref_kind kind;
	uint32_t step; /* index into pipeline->steps, for REF_STEP_* */
	uint32_t index;
	const char *name;
	int line, col;
};

struct expr;           /* immutable after load */
struct expr_template { /* immutable after load */
	size_t n_parts;
	struct expr_part {
		const char *text; /* literal, when expr is NULL */
		size_t len;
		const struct expr *expr;
	} * parts;
	int line, col;
	const char *file;
};

/* What the evaluator needs. `resolve` returns 1 when the value isn't known yet; then the evaluation
 * returns 1, too. */
struct expr_scope {
	int (*resolve)(void *arg, const struct ref *ref, struct value *ret, struct err *err);
	void *arg;
	bool any_failed; /* failed(): a needed step failed, or was skipped because of a failure */
};

/* 0 value, 1 not known yet, -1 error (wrong types; message has file:line:col). Lists and strings
 * live in `arena`. */
int expr_eval(const struct expr *e, const struct expr_scope *scope, struct arena *arena,
	      struct value *ret, struct err *err);
/* Appends the text of the whole template to `out`. Returns as expr_eval(). */
int template_render(const struct expr_template *t, const struct expr_scope *scope,
		    struct arena *arena, struct str *out, struct err *err);
/* Evaluates a template: exactly one expression keeps its type, everything else gives a string. */
int template_eval(const struct expr_template *t, const struct expr_scope *scope,
		  struct arena *arena, struct value *ret, struct err *err);
/* Calls fn for every reference, in order. */
void template_refs(const struct expr_template *t, void (*fn)(void *arg, const struct ref *ref),
		   void *arg);
/* Whether it calls always() or failed(). If so, it decides itself whether to run after failures. */
bool expr_handles_failure(const struct expr *e);
/* The reference of expressions, row by row; false behind the last one. Rows of one section follow
 * one another. */
struct expr_help_row {
	const char *section, *form, *help;
};
bool expr_help(size_t i, struct arena *arena, struct expr_help_row *ret);
/* NULL when the template has an expression in it. */
const char *template_literal(const struct expr_template *t);

#endif

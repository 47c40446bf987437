/* engine/model/expr/expr.c — evaluation of expressions and templates, and walks over their
 * references.
 *
 * Every function has three outcomes: a value (0), not known yet (1), an error (-1). `&&` and `||`
 * look at their operands from left to right and stop as soon as the answer is certain. An operand
 * that isn't known yet doesn't stop them, so that `false && later` is false now. choose() evaluates
 * only the branch that its condition picks, and default() its second argument only when it is
 * needed.
 *
 * Recursion is bounded by EXPR_DEPTH_MAX: chains of && and || are one node with many operands.
 * Nothing here has state; results live in the caller's arena. Types that check.c could not know are
 * checked here, with the place of the expression in the error.
 *
 * The table `expr_funcs` is the one list of functions; `cairn help expressions` is made from it.
 */
#include "model/expr/expr.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "model/internal.h"

const struct expr_func_info expr_funcs[EXPR_FUNCS] = {
	[FUNC_ALWAYS] = { "always", 0, 0, TYPE_BOOL, .only_if = true, .args = "()",
			  .help = "true; so the step runs even if a step that it needs failed" },
	[FUNC_FAILED] = { "failed", 0, 0, TYPE_BOOL, .only_if = true, .args = "()",
			  .help = "true when a step that this one needs failed" },
	[FUNC_MIN] = { "min", 1, EXPR_ARGS_MAX, TYPE_NUMBER, .aggregates = true,
		       .args = "(list), (a, b, ...)", .help = "the smallest number" },
	[FUNC_MAX] = { "max", 1, EXPR_ARGS_MAX, TYPE_NUMBER, .aggregates = true,
		       .args = "(list), (a, b, ...)", .help = "the largest number" },
	[FUNC_MEAN] = { "mean", 1, EXPR_ARGS_MAX, TYPE_NUMBER, .aggregates = true,
			.args = "(list), (a, b, ...)", .help = "the arithmetic mean" },
	[FUNC_SUM] = { "sum", 1, EXPR_ARGS_MAX, TYPE_NUMBER, .aggregates = true,
		       .args = "(list), (a, b, ...)", .help = "the sum" },
	[FUNC_COUNT] = { "count", 1, 1, TYPE_NUMBER, .aggregates = true, .args = "(list)",
			 .help = "the number of items" },
	[FUNC_CONTAINS] = { "contains", 2, 2, TYPE_BOOL, .args = "(list, item), (text, part)",
			    .help = "whether the item is in the list, or the part in the text" },
	[FUNC_STARTS_WITH] = { "starts_with", 2, 2, TYPE_BOOL, .args = "(text, part)",
			       .help = "whether the text begins with the part" },
	[FUNC_ENDS_WITH] = { "ends_with", 2, 2, TYPE_BOOL, .args = "(text, part)",
			     .help = "whether the text ends with the part" },
	[FUNC_JOIN] = { "join", 2, 2, TYPE_STRING, .args = "(list, separator)",
			.help = "the items as one text" },
	[FUNC_CHOOSE] = { "choose", 3, 3, TYPE_ANY, .args = "(condition, a, b)",
			  .help = "`a` if the condition is true, else `b`" },
	[FUNC_DEFAULT] = { "default", 2, 2, TYPE_ANY, .args = "(value, other)",
			   .help = "the value; the other one where a step gave no metric or value "
				   "of that name, an item has no such member, it is null, or "
				   "no schedule began the run" },
	[FUNC_JSON] = { "json", 1, 1, TYPE_STRING, .args = "(value)",
			.help = "the value as JSON: text in quotes, a list in brackets" },
};

/* What isn't a function. */
static const struct expr_help_row rows[] = {
	{ "Values", "params.NAME, params.GROUP.NAME",
	  "a param of the pipeline, or of the step file; one of a group of params" },
	{ "Values", "inputs.NAME",
	  "in a command: the path of the step's input; elsewhere: an input of the "
	  "pipeline" },
	{ "Values", "outputs.NAME", "in a command: the path of the step's output" },
	{ "Values", "steps.S.outputs.NAME", "content that the step S made" },
	{ "Values", "steps.S.metrics.NAME",
	  "a metric of the step S, known when S has ended; of several tasks it is a list" },
	{ "Values", "steps.S.values.NAME",
	  "a value that the step S wrote to its `values` file, known when S has ended: text, a "
	  "number, "
	  "true or false, null, a list or an object. values.a.b is member b of the object a, "
	  "values.a.0 the first item of the list a. Of several tasks it is a list, in the tasks' "
	  "order" },
	{ "Values", "steps.S.state",
	  "in `if` and in `finally`: how the step S ended: 'succeeded', 'failed', 'skipped', "
	  "'blocked' or 'cancelled'. Waits for it, whatever the end. Of several tasks: the worst "
	  "one's, and 'skipped' when all were" },
	{ "Values", "run.state",
	  "in `finally`: how `steps` ended: 'succeeded', 'failed' or 'cancelled'" },
	{ "Values", "failed.tasks",
	  "the names of the tasks that failed, of those that the step waits for, directly or "
	  "through others; in `finally` of all" },
	{ "Values", "matrix.AXIS", "the task's value of that axis" },
	{ "Values", "round", "of a step with `repeat`: which round this is, from 1" },
	{ "Values", "item, item.name, item.path, item.stem",
	  "the task's part of `each`: content or value; the last component of its name; its path; "
	  "its name "
	  "without the last suffix" },
	{ "Values", "item.NAME", "of an item that is an object which a step wrote: its member" },
	{ "Values", "schedule.time, schedule.name",
	  "of a run by a schedule: its nominal time, its name" },
	{ "Values", "schedule.run", "of a run that a run caused (`on`): that run's id" },
	{ "Values", "schedule.interval_start, schedule.interval_end",
	  "of a run by a schedule: the times from the last firing to this one" },
	{ "Values", "run.id", "in `export`: the run's id" },
	{ "Values", "step.dir", "in a step file: its directory" },
	{ "Values", "1, 0.5, 'text', \"text\", true, null, [a, b]",
	  "constants; a quote in a text is doubled" },
	{ "Operators", "== != < <= > >=",
	  "compare numbers with numbers and texts with texts; values of different kinds are never "
	  "equal" },
	{ "Operators", "&& || !", "and, or, not: of true and false only" },
	{ "Operators", "+ - * / // %",
	  "of numbers, as in Python: / gives a fraction, // rounds down, % is the remainder. A "
	  "result of more "
	  "than 64 bits and a division by zero are errors. Put blanks around -: a-b is a name" },
};

bool expr_help(size_t i, struct arena *arena, struct expr_help_row *ret)
{
	struct str form = { 0 };
	const char *args, *end;

	if (i < ARRAY_LEN(rows)) {
		*ret = rows[i];
		return true;
	}
	i -= ARRAY_LEN(rows);
	if (i >= EXPR_FUNCS)
		return false;
	for (args = expr_funcs[i].args; (end = strchr(args, ')'));
	     args = end + 1 + strspn(end + 1, ", "))
		str_addf(&form, "%s%s%.*s", form.len ? ", " : "", expr_funcs[i].name,
			 (int)(end + 1 - args), args);
	*ret = (struct expr_help_row){ expr_funcs[i].only_if ? "Functions of `if`" : "Functions",
				       arena_strndup(arena, form.s, form.len), expr_funcs[i].help };
	str_deinit(&form);
	return true;
}

struct eval {
	const struct expr_scope *scope;
	struct arena *arena;
	struct err *err;
};

static int eval(const struct eval *ev, const struct expr *e, struct value *ret);

static int fail_at(const struct eval *ev, const struct expr *e, const char *fmt, ...)
	_printf_(3, 4);
static int fail_at(const struct eval *ev, const struct expr *e, const char *fmt, ...)
{
	char msg[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, sizeof(msg), fmt, ap);
	va_end(ap);
	return err_set(ev->err, ERR_INVALID, "%s:%d:%d: %s", e->file ? e->file : "expression",
		       e->line, e->col, msg);
}

static int eval_bool(const struct eval *ev, const struct expr *e, bool *ret)
{
	struct value v;
	int r = eval(ev, e, &v);

	if (r != 0)
		return r;
	if (v.type != VALUE_BOOL)
		return fail_at(ev, e, "true or false is needed here, not %s",
			       value_type_phrase(v.type));
	*ret = v.b;
	return 0;
}

/* `decides`: the operand that settles the result, false for && and true for ||. */
static int eval_chain(const struct eval *ev, const struct expr *e, bool decides, struct value *ret)
{
	bool unknown = false;

	for (uint32_t i = 0; i < e->n_args; i++) {
		bool b = false;
		int r = eval_bool(ev, e->args[i], &b);

		if (r < 0)
			return r;
		unknown |= r == 1;
		if (r == 0 && b == decides) {
			*ret = (struct value){ .type = VALUE_BOOL, .b = decides };
			return 0;
		}
	}
	*ret = (struct value){ .type = VALUE_BOOL, .b = !decides };
	return unknown ? 1 : 0;
}

static int eval_compare(const struct eval *ev, const struct expr *e, struct value *ret)
{
	struct value a, b;
	int ra = eval(ev, e->args[0], &a), rb, order;

	if (ra < 0)
		return -1;
	rb = eval(ev, e->args[1], &b);
	if (rb < 0)
		return -1;
	if (ra || rb)
		return 1;
	ret->type = VALUE_BOOL;
	if (e->op == COMPARE_EQ || e->op == COMPARE_NE) {
		ret->b = value_eq(&a, &b) == (e->op == COMPARE_EQ);
		return 0;
	}
	if ((a.type == VALUE_INT || a.type == VALUE_FLOAT) &&
	    (b.type == VALUE_INT || b.type == VALUE_FLOAT))
		order = value_compare_numbers(&a, &b);
	else if (a.type == VALUE_STRING && b.type == VALUE_STRING)
		order = strcmp(a.s, b.s) > 0 ? 1 : strcmp(a.s, b.s) < 0 ? -1 : 0;
	else
		return fail_at(ev, e, "%s and %s can't be put in order", value_type_phrase(a.type),
			       value_type_phrase(b.type));
	ret->b = order != 2 && compare_order(e->op, order);
	return 0;
}

static double number(const struct value *v)
{
	return v->type == VALUE_INT ? (double)v->i : v->f;
}

/* As Python does: `/` gives a float, `//` rounds down, and `%` has the sign of `b`. */
static int calc_ints(const struct eval *ev, const struct expr *at, enum calc_op op, int64_t a,
		     int64_t b, struct value *ret)
{
	bool over = false;

	*ret = (struct value){ .type = VALUE_INT };
	switch (op) {
	case CALC_ADD:
		over = __builtin_add_overflow(a, b, &ret->i);
		break;
	case CALC_SUB:
		over = __builtin_sub_overflow(a, b, &ret->i);
		break;
	case CALC_MUL:
		over = __builtin_mul_overflow(a, b, &ret->i);
		break;
	case CALC_DIV:
		*ret = (struct value){ .type = VALUE_FLOAT, .f = (double)a / (double)b };
		break;
	case CALC_FLOOR_DIV:
		if (b == -1) /* INT64_MIN / -1 traps */
			over = __builtin_sub_overflow(0, a, &ret->i);
		else
			ret->i = a / b - (a % b != 0 && (a < 0) != (b < 0));
		break;
	case CALC_MOD:
		ret->i = b == -1 ? 0 : a % b;
		ret->i += ret->i != 0 && (ret->i < 0) != (b < 0) ? b : 0;
		break;
	case CALC_OPS:
		assert(false);
	}
	return over ? fail_at(ev, at, "the result is no integer of 64 bits") : 0;
}

static int calc_floats(const struct eval *ev, const struct expr *at, enum calc_op op, double a,
		       double b, struct value *ret)
{
	double f = 0;

	switch (op) {
	case CALC_ADD:
		f = a + b;
		break;
	case CALC_SUB:
		f = a - b;
		break;
	case CALC_MUL:
		f = a * b;
		break;
	case CALC_DIV:
		f = a / b;
		break;
	case CALC_FLOOR_DIV:
		f = floor(a / b);
		break;
	case CALC_MOD:
		f = fmod(a, b);
		f += f != 0 && (f < 0) != (b < 0) ? b : 0;
		break;
	case CALC_OPS:
		assert(false);
	}
	/* A metric may be NaN or infinite, and so what is made of it. */
	if (!isfinite(f) && isfinite(a) && isfinite(b))
		return fail_at(ev, at, "the result is too large");
	*ret = (struct value){ .type = VALUE_FLOAT, .f = f };
	return 0;
}

/* All operands, as an array in the arena. */
static int eval_args(const struct eval *ev, const struct expr *e, struct value **ret)
{
	struct value *v = arena_alloc(ev->arena, e->n_args * sizeof(*v));
	bool unknown = false;

	for (uint32_t i = 0; i < e->n_args; i++) {
		int r = eval(ev, e->args[i], &v[i]);

		if (r < 0)
			return r;
		unknown |= r == 1;
	}
	*ret = v;
	return unknown ? 1 : 0;
}

static int eval_calc(const struct eval *ev, const struct expr *e, struct value *ret)
{
	struct value *v, sum = { .type = VALUE_INT };
	int r = eval_args(ev, e, &v);

	for (uint32_t i = 0; i < e->n_args && r == 0; i++) {
		const struct expr *arg = e->args[i];
		enum calc_op op = i || e->n_args == 1 ? arg->calc : CALC_ADD;

		if (v[i].type != VALUE_INT && v[i].type != VALUE_FLOAT)
			return fail_at(ev, arg, "a number is needed here, not %s",
				       value_type_phrase(v[i].type));
		if (i == 0 && op == CALC_ADD)
			sum = v[0];
		else if (op >= CALC_DIV && number(&v[i]) == 0)
			return fail_at(ev, arg, "division by zero");
		else if (sum.type == VALUE_INT && v[i].type == VALUE_INT)
			r = calc_ints(ev, arg, op, sum.i, v[i].i, &sum);
		else
			r = calc_floats(ev, arg, op, number(&sum), number(&v[i]), &sum);
	}
	if (r == 0)
		*ret = sum;
	return r;
}

static int sum_of(const struct eval *ev, const struct expr *e, const struct value *v, size_t n,
		  struct value *ret)
{
	struct value sum = { .type = VALUE_INT };
	double total = 0;

	for (size_t i = 0; i < n; i++) {
		total += number(&v[i]);
		if (v[i].type == VALUE_FLOAT ||
		    (sum.type == VALUE_INT && __builtin_add_overflow(sum.i, v[i].i, &sum.i)))
			sum.type = VALUE_FLOAT;
	}
	if (sum.type == VALUE_FLOAT)
		sum.f = total;
	if (e->op == FUNC_MEAN)
		sum = (struct value){ .type = VALUE_FLOAT, .f = total / (double)n };
	*ret = sum;
	return 0;
}

static int eval_aggregate(const struct eval *ev, const struct expr *e, const struct value *v,
			  size_t n, struct value *ret)
{
	int wanted = e->op == FUNC_MIN ? -1 : 1;

	if (n == 1 && v[0].type == VALUE_LIST) {
		n = v[0].list.n;
		v = v[0].list.v;
	} else if (e->op == FUNC_COUNT) {
		return fail_at(ev, e, "count() needs a list, not %s", value_type_phrase(v[0].type));
	}
	if (e->op == FUNC_COUNT) {
		*ret = (struct value){ .type = VALUE_INT, .i = (int64_t)n };
		return 0;
	}
	for (size_t i = 0; i < n; i++)
		if (v[i].type != VALUE_INT && v[i].type != VALUE_FLOAT)
			return fail_at(ev, e, "%s() needs numbers, not %s", expr_funcs[e->op].name,
				       value_type_phrase(v[i].type));
	if (n == 0 && e->op != FUNC_SUM)
		return fail_at(ev, e, "%s() of an empty list has no value", expr_funcs[e->op].name);
	if (e->op == FUNC_SUM || e->op == FUNC_MEAN)
		return sum_of(ev, e, v, n, ret);
	*ret = v[0];
	for (size_t i = 1; i < n; i++) {
		int order = value_compare_numbers(&v[i], ret);

		if (order == wanted || (order == 2 && !(ret->type == VALUE_FLOAT && isnan(ret->f))))
			*ret = v[i]; /* a NaN anywhere makes the result NaN */
	}
	return 0;
}

static int eval_text_test(const struct eval *ev, const struct expr *e, const struct value *v,
			  struct value *ret)
{
	size_t len, part;

	ret->type = VALUE_BOOL;
	if (e->op == FUNC_CONTAINS && v[0].type == VALUE_LIST) {
		ret->b = false;
		for (size_t i = 0; i < v[0].list.n && !ret->b; i++)
			ret->b = value_eq(&v[0].list.v[i], &v[1]);
		return 0;
	}
	if (v[0].type != VALUE_STRING || v[1].type != VALUE_STRING)
		return fail_at(ev, e, "%s() needs text, not %s", expr_funcs[e->op].name,
			       value_type_phrase(v[v[0].type == VALUE_STRING].type));
	len = strlen(v[0].s);
	part = strlen(v[1].s);
	if (e->op == FUNC_CONTAINS)
		ret->b = strstr(v[0].s, v[1].s) != NULL;
	else if (e->op == FUNC_STARTS_WITH)
		ret->b = strncmp(v[0].s, v[1].s, part) == 0;
	else
		ret->b = part <= len && strcmp(v[0].s + len - part, v[1].s) == 0;
	return 0;
}

static int eval_join(const struct eval *ev, const struct expr *e, const struct value *v,
		     struct value *ret)
{
	struct str out = { 0 };

	if (v[0].type != VALUE_LIST || v[1].type != VALUE_STRING)
		return fail_at(ev, e, "join() needs a list and a separator");
	for (size_t i = 0; i < v[0].list.n; i++) {
		if (i)
			str_add(&out, v[1].s);
		value_add_text(&out, &v[0].list.v[i]);
	}
	*ret = (struct value){ .type = VALUE_STRING,
			       .s = arena_strndup(ev->arena, out.s ? out.s : "", out.len) };
	str_deinit(&out);
	return 0;
}

/* A name that isn't there is ERR_NOT_FOUND from the scope; every other error stays one. */
static int eval_default(const struct eval *ev, const struct expr *e, struct value *ret)
{
	struct err missing = { 0 };
	const struct eval quiet = { ev->scope, ev->arena, &missing };
	int r = eval(&quiet, e->args[0], ret);

	if (r < 0 && missing.code != ERR_NOT_FOUND)
		return err_pass(ev->err, &missing);
	if (r > 0 || (r == 0 && ret->type != VALUE_NULL))
		return r;
	return eval(ev, e->args[1], ret);
}

static int eval_json(const struct eval *ev, const struct value *v, struct value *ret)
{
	struct str out = { 0 };

	value_add_json(&out, v);
	*ret = (struct value){ .type = VALUE_STRING,
			       .s = arena_strndup(ev->arena, out.s, out.len) };
	str_deinit(&out);
	return 0;
}

static int eval_call(const struct eval *ev, const struct expr *e, struct value *ret)
{
	struct value *v;
	bool condition = false;
	int r;

	assert(e->op < EXPR_FUNCS);
	if (e->op == FUNC_ALWAYS || e->op == FUNC_FAILED) {
		*ret = (struct value){ .type = VALUE_BOOL,
				       .b = e->op == FUNC_ALWAYS || ev->scope->any_failed };
		return 0;
	}
	if (e->op == FUNC_CHOOSE) {
		r = eval_bool(ev, e->args[0], &condition);
		return r ? r : eval(ev, e->args[condition ? 1 : 2], ret);
	}
	if (e->op == FUNC_DEFAULT)
		return eval_default(ev, e, ret);
	r = eval_args(ev, e, &v);
	if (r)
		return r;
	if (expr_funcs[e->op].aggregates)
		return eval_aggregate(ev, e, v, e->n_args, ret);
	if (e->op == FUNC_JSON)
		return eval_json(ev, v, ret);
	return e->op == FUNC_JOIN ? eval_join(ev, e, v, ret) : eval_text_test(ev, e, v, ret);
}

static int eval(const struct eval *ev, const struct expr *e, struct value *ret)
{
	struct value *v;
	bool b = false;
	int r;

	switch ((enum expr_kind)e->kind) {
	case EXPR_CONST:
		*ret = e->value;
		return 0;
	case EXPR_REF:
		if (!ev->scope->resolve)
			return fail_at(ev, e, "a reference has no value here");
		r = ev->scope->resolve(ev->scope->arg, &e->ref, ret, ev->err);
		if (r < 0)
			return err_wrap(ev->err, "%s:%d:%d", e->file ? e->file : "expression",
					e->line, e->col);
		return r;
	case EXPR_NOT:
		r = eval_bool(ev, e->args[0], &b);
		*ret = (struct value){ .type = VALUE_BOOL, .b = !b };
		return r;
	case EXPR_AND:
	case EXPR_OR:
		return eval_chain(ev, e, e->kind == EXPR_OR, ret);
	case EXPR_COMPARE:
		return eval_compare(ev, e, ret);
	case EXPR_CALC:
		return eval_calc(ev, e, ret);
	case EXPR_CALL:
		return eval_call(ev, e, ret);
	case EXPR_LIST:
		r = eval_args(ev, e, &v);
		if (r == 0)
			*ret = (struct value){ .type = VALUE_LIST, .list = { v, e->n_args } };
		return r;
	default:
		return fail_at(ev, e, "this expression can't be evaluated");
	}
}

int expr_eval(const struct expr *e, const struct expr_scope *scope, struct arena *arena,
	      struct value *ret, struct err *err)
{
	static const struct expr_scope nothing;
	struct eval ev = { .scope = scope ? scope : &nothing, .arena = arena, .err = err };
	struct value v = { 0 };
	int r = eval(&ev, e, &v);

	if (r == 0)
		*ret = v;
	/* Only default() tells a name that isn't there from other errors of the pipeline. */
	if (r < 0 && err && err->code == ERR_NOT_FOUND)
		err->code = ERR_INVALID;
	return r;
}

/* Templates. */

int template_render(const struct expr_template *t, const struct expr_scope *scope,
		    struct arena *arena, struct str *out, struct err *err)
{
	size_t start = out->len;
	int r = 0;

	for (size_t i = 0; i < t->n_parts && r == 0; i++) {
		const struct expr_part *part = &t->parts[i];
		struct value v;

		if (!part->expr) {
			str_addn(out, part->text, part->len);
			continue;
		}
		r = expr_eval(part->expr, scope, arena, &v, err);
		if (r == 0)
			value_add_text(out, &v);
	}
	if (r && out->s) {
		out->len = start;
		out->s[start] = '\0';
	}
	return r;
}

struct expr *template_single(const struct expr_template *t)
{
	return t->n_parts == 1 ? (struct expr *)(uintptr_t)t->parts[0].expr : NULL;
}

int template_eval(const struct expr_template *t, const struct expr_scope *scope,
		  struct arena *arena, struct value *ret, struct err *err)
{
	const struct expr *single = template_single(t);
	struct str out = { 0 };
	int r;

	if (single)
		return expr_eval(single, scope, arena, ret, err);
	r = template_render(t, scope, arena, &out, err);
	if (r == 0)
		*ret = (struct value){ .type = VALUE_STRING,
				       .s = arena_strndup(arena, out.s ? out.s : "", out.len) };
	str_deinit(&out);
	return r;
}

const char *template_literal(const struct expr_template *t)
{
	if (t->n_parts == 0)
		return "";
	return t->n_parts == 1 && !t->parts[0].expr ? t->parts[0].text : NULL;
}

/* Walks. */

void expr_refs_mut(struct expr *e, void (*fn)(void *arg, struct ref *ref), void *arg)
{
	if (e->kind == EXPR_REF)
		fn(arg, &e->ref);
	else if (e->kind != EXPR_CONST)
		for (uint32_t i = 0; i < e->n_args; i++)
			expr_refs_mut(e->args[i], fn, arg);
}

/* Users of a finished model see const templates. While it is being made, this folder owns them. */
void template_refs_mut(const struct expr_template *t, void (*fn)(void *arg, struct ref *ref),
		       void *arg)
{
	for (size_t i = 0; i < t->n_parts; i++)
		if (t->parts[i].expr)
			expr_refs_mut((struct expr *)(uintptr_t)t->parts[i].expr, fn, arg);
}

static void expr_refs(const struct expr *e, void (*fn)(void *arg, const struct ref *ref), void *arg)
{
	if (e->kind == EXPR_REF)
		fn(arg, &e->ref);
	else if (e->kind != EXPR_CONST)
		for (uint32_t i = 0; i < e->n_args; i++)
			expr_refs(e->args[i], fn, arg);
}

void template_refs(const struct expr_template *t, void (*fn)(void *arg, const struct ref *ref),
		   void *arg)
{
	for (size_t i = 0; i < t->n_parts; i++)
		if (t->parts[i].expr)
			expr_refs(t->parts[i].expr, fn, arg);
}

bool expr_handles_failure(const struct expr *e)
{
	if (e->kind == EXPR_CONST || e->kind == EXPR_REF)
		return false;
	if (e->kind == EXPR_CALL && expr_funcs[e->op].only_if)
		return true;
	for (uint32_t i = 0; i < e->n_args; i++)
		if (expr_handles_failure(e->args[i]))
			return true;
	return false;
}

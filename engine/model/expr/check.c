/* engine/model/expr/check.c — types of expressions, as far as they are known before a run.
 *
 * So `cairn check` reports a list that is compared with a number, rather than a run that has gone
 * on for hours. An unknown value (a metric, an item) has TYPE_ANY, which is compatible with every
 * type. check() walks the expression once and gives its type; errors go to the diags of expr_check,
 * and the walk continues.
 *
 * A metric of a step with several tasks is gathered: it is a list, and only an aggregate function
 * with this one argument may take it (`aggregated`). `type_of`, which resolve.c provides, gives the
 * type of a reference. expr.c applies the same rules again to values when it evaluates.
 */
#include "model/internal.h"

const char *expr_type_name(enum expr_type t)
{
	static const char *const names[] = {
		[TYPE_ANY] = "a value",     [TYPE_NULL] = "null",   [TYPE_BOOL] = "true or false",
		[TYPE_NUMBER] = "a number", [TYPE_STRING] = "text", [TYPE_LIST] = "a list",
	};

	return names[t];
}

enum expr_type expr_type_of_value(enum value_type t)
{
	static const enum expr_type types[] = {
		[VALUE_NULL] = TYPE_NULL,     [VALUE_BOOL] = TYPE_BOOL,
		[VALUE_INT] = TYPE_NUMBER,    [VALUE_FLOAT] = TYPE_NUMBER,
		[VALUE_STRING] = TYPE_STRING, [VALUE_LIST] = TYPE_LIST,
		[VALUE_OBJECT] = TYPE_ANY,
	};

	return types[t];
}

static enum expr_type check(const struct expr *e, const struct expr_check *ctx, bool aggregated);

static void error_at(const struct expr_check *ctx, const struct expr *e, const char *fmt, ...)
	_printf_(3, 4);
static void error_at(const struct expr_check *ctx, const struct expr *e, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_addv(ctx->diags, DIAG_ERROR, e->file, e->line, e->col, fmt, ap);
	va_end(ap);
}

static enum expr_type check_ref(const struct expr *e, const struct expr_check *ctx, bool aggregated)
{
	bool gathered = false;
	enum expr_type t;

	if (e->ref.kind == REF_BROKEN || e->ref.kind == REF_UNRESOLVED)
		return TYPE_ANY;
	t = ctx->type_of(ctx->arg, &e->ref, &gathered);
	if (!gathered)
		return t;
	if (!aggregated)
		error_at(ctx, e,
			 "metric `%s` has one value per task here: use min(), max(), mean(), sum() "
			 "or count()",
			 e->ref.name);
	return aggregated ? TYPE_LIST : TYPE_ANY;
}

static void check_bools(const struct expr *e, const struct expr_check *ctx)
{
	static const char *const names[] = {
		[EXPR_NOT] = "!", [EXPR_AND] = "&&", [EXPR_OR] = "||"
	};

	for (uint32_t i = 0; i < e->n_args; i++) {
		enum expr_type t = check(e->args[i], ctx, false);

		if (t != TYPE_ANY && t != TYPE_BOOL)
			error_at(ctx, e->args[i], "`%s` needs true or false, not %s",
				 names[e->kind], expr_type_name(t));
	}
}

/* A state is compared with a word that no state has: that would never hold. */
static void check_state(const struct expr *state, const struct expr *word,
			const struct expr_check *ctx)
{
	static const char *const words[] = { "succeeded", "failed", "cancelled", "skipped",
					     "blocked" };
	const size_t n = state->ref.kind == REF_RUN_STATE ? 3 : ARRAY_LEN(words);

	if (state->kind != EXPR_REF || word->kind != EXPR_CONST ||
	    word->value.type != VALUE_STRING ||
	    (state->ref.kind != REF_STEP_STATE && state->ref.kind != REF_RUN_STATE))
		return;
	for (size_t i = 0; i < n; i++)
		if (strcmp(words[i], word->value.s) == 0)
			return;
	error_at(ctx, word, "no %s is '%.40s': it is %s", n == 3 ? "run" : "step", word->value.s,
		 n == 3 ? "succeeded, failed or cancelled"
			: "succeeded, failed, skipped, blocked or cancelled");
}

static void check_compare(const struct expr *e, const struct expr_check *ctx)
{
	enum expr_type a = check(e->args[0], ctx, false), b = check(e->args[1], ctx, false);
	bool equality = e->op == COMPARE_EQ || e->op == COMPARE_NE;

	if (equality) {
		check_state(e->args[0], e->args[1], ctx);
		check_state(e->args[1], e->args[0], ctx);
		if (a != TYPE_ANY && b != TYPE_ANY && a != b && a != TYPE_NULL && b != TYPE_NULL)
			error_at(ctx, e, "%s is never equal to %s", expr_type_name(a),
				 expr_type_name(b));
		return;
	}
	if ((a == TYPE_ANY || a == TYPE_NUMBER || a == TYPE_STRING) &&
	    (b == TYPE_ANY || b == TYPE_NUMBER || b == TYPE_STRING) &&
	    (a == b || a == TYPE_ANY || b == TYPE_ANY))
		return;
	if (a == TYPE_LIST || b == TYPE_LIST)
		error_at(ctx, e,
			 "%s can't be put in order with %s: use min(), max() or mean() of the list",
			 expr_type_name(a), expr_type_name(b));
	else
		error_at(ctx, e, "%s can't be put in order with %s", expr_type_name(a),
			 expr_type_name(b));
}

static void check_calc(const struct expr *e, const struct expr_check *ctx)
{
	for (uint32_t i = 0; i < e->n_args; i++) {
		enum expr_type t = check(e->args[i], ctx, false);

		if (t == TYPE_STRING)
			error_at(ctx, e->args[i],
				 "text can't be calculated with: write texts one behind the other, "
				 "`${{ a }}${{ b }}`, or use join()");
		else if (t != TYPE_ANY && t != TYPE_NUMBER)
			error_at(ctx, e->args[i], "a number is needed here, not %s",
				 expr_type_name(t));
	}
}

static void want(const struct expr_check *ctx, const struct expr *call, uint32_t i,
		 enum expr_type got, enum expr_type wanted)
{
	if (got != TYPE_ANY && got != wanted)
		error_at(ctx, call->args[i], "%s() needs %s here, not %s",
			 expr_funcs[call->op].name, expr_type_name(wanted), expr_type_name(got));
}

/* Whether the value may be missing, or null, in a run. */
static bool may_be_missing(const struct expr *e)
{
	if (e->kind == EXPR_CONST)
		return e->value.type == VALUE_NULL;
	if (e->kind == EXPR_REF)
		return e->ref.kind == REF_STEP_METRIC || e->ref.kind == REF_STEP_VALUE ||
		       e->ref.kind == REF_ITEM_VALUE || e->ref.kind == REF_SCHEDULE ||
		       e->ref.kind == REF_BROKEN || e->ref.kind == REF_UNRESOLVED;
	for (uint32_t i = 0; i < e->n_args; i++)
		if (may_be_missing(e->args[i]))
			return true;
	return false;
}

static enum expr_type check_call(const struct expr *e, const struct expr_check *ctx)
{
	const struct expr_func_info *f = &expr_funcs[e->op];
	enum expr_type first, second;

	if (f->only_if && !ctx->in_if)
		error_at(ctx, e, "%s() has a meaning in `if` only", f->name);
	if (f->aggregates) {
		for (uint32_t i = 0; i < e->n_args; i++) {
			enum expr_type t = check(e->args[i], ctx, e->n_args == 1);

			if (e->op == FUNC_COUNT)
				want(ctx, e, i, t, TYPE_LIST);
			else if (t != TYPE_LIST || e->n_args > 1)
				want(ctx, e, i, t, TYPE_NUMBER);
		}
	} else if (e->op == FUNC_CHOOSE) {
		want(ctx, e, 0, check(e->args[0], ctx, false), TYPE_BOOL);
		first = check(e->args[1], ctx, false);
		second = check(e->args[2], ctx, false);
		return first == second ? first : TYPE_ANY;
	} else if (e->op == FUNC_DEFAULT) {
		first = check(e->args[0], ctx, false);
		second = check(e->args[1], ctx, false);
		if (!may_be_missing(e->args[0]))
			error_at(ctx, e->args[0],
				 "this always has a value: default() is for metrics and values of "
				 "steps, members of items, and schedule");
		return first == second ? first : TYPE_ANY;
	} else if (e->op == FUNC_JSON) {
		check(e->args[0], ctx, true);
	} else if (e->n_args == 2) {
		first = check(e->args[0], ctx, false);
		if (e->op == FUNC_JOIN)
			want(ctx, e, 0, first, TYPE_LIST);
		else if (e->op != FUNC_CONTAINS || first != TYPE_LIST)
			want(ctx, e, 0, first, TYPE_STRING);
		if (e->op == FUNC_CONTAINS && first != TYPE_STRING)
			check(e->args[1], ctx, false);
		else
			want(ctx, e, 1, check(e->args[1], ctx, false), TYPE_STRING);
	}
	return f->result;
}

static enum expr_type check(const struct expr *e, const struct expr_check *ctx, bool aggregated)
{
	switch ((enum expr_kind)e->kind) {
	case EXPR_CONST:
		return expr_type_of_value(e->value.type);
	case EXPR_REF:
		return check_ref(e, ctx, aggregated);
	case EXPR_NOT:
	case EXPR_AND:
	case EXPR_OR:
		check_bools(e, ctx);
		return TYPE_BOOL;
	case EXPR_COMPARE:
		check_compare(e, ctx);
		return TYPE_BOOL;
	case EXPR_CALC:
		check_calc(e, ctx);
		return TYPE_NUMBER;
	case EXPR_CALL:
		return check_call(e, ctx);
	case EXPR_LIST:
		for (uint32_t i = 0; i < e->n_args; i++)
			if (check(e->args[i], ctx, false) == TYPE_LIST)
				error_at(ctx, e->args[i], "a list can't be an item of a list");
		return TYPE_LIST;
	default:
		return TYPE_ANY;
	}
}

enum expr_type expr_check(const struct expr *e, const struct expr_check *ctx)
{
	return check(e, ctx, false);
}

void template_check(const struct expr_template *t, const struct expr_check *ctx)
{
	for (size_t i = 0; i < t->n_parts; i++)
		if (t->parts[i].expr)
			check(t->parts[i].expr, ctx, false);
}

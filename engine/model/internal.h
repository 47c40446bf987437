/* engine/model/internal.h — expressions and places, shared by the files of this folder; no file
 * outside includes it. */
#ifndef CAIRN_MODEL_INTERNAL_H
#define CAIRN_MODEL_INTERNAL_H

#include "base/text/yaml.h"
#include "model/pipeline.h"

/* Expressions. */

#define EXPR_DEPTH_MAX \
	64 /* nested parentheses, calls and `!`: bounds every recursion over an expression */
#define EXPR_ARGS_MAX                                                                             \
	4096 /* operands of one chain of && or ||, of + and -, of * and /, arguments of one call, \
		items of one list */

enum expr_kind {
	EXPR_CONST,
	EXPR_REF,
	EXPR_NOT,
	EXPR_AND,
	EXPR_OR,
	EXPR_COMPARE,
	EXPR_CALC,
	EXPR_CALL,
	EXPR_LIST,
	EXPR_KINDS
};

/* What an operand of an EXPR_CALC does to the value of those before it. The first one has CALC_ADD,
 * or CALC_SUB for a minus sign. */
enum calc_op { CALC_ADD, CALC_SUB, CALC_MUL, CALC_DIV, CALC_FLOOR_DIV, CALC_MOD, CALC_OPS };

/* While a file is read, references are names (REF_UNRESOLVED, `name` as written). Resolving turns
 * each into its final kind, in place, or into REF_BROKEN after its error was reported. A finished
 * model has neither. */
#define REF_UNRESOLVED ((enum ref_kind)254)
#define REF_BROKEN     ((enum ref_kind)255)

struct expr {
	uint8_t kind; /* enum expr_kind */
	uint8_t op;   /* EXPR_COMPARE: enum compare_op; EXPR_CALL: index into the function table */
	uint8_t calc; /* of an operand of EXPR_CALC: enum calc_op */
	uint32_t n_args;
	int line, col;
	const char *file;
	union {
		struct value value;
		struct ref ref;
		struct expr **args;
	};
};

/* The type of an expression's value, as far as it is known before anything runs. */
enum expr_type { TYPE_ANY, TYPE_NULL, TYPE_BOOL, TYPE_NUMBER, TYPE_STRING, TYPE_LIST };

enum expr_func {
	FUNC_ALWAYS,
	FUNC_FAILED,
	FUNC_MIN,
	FUNC_MAX,
	FUNC_MEAN,
	FUNC_SUM,
	FUNC_COUNT,
	FUNC_CONTAINS,
	FUNC_STARTS_WITH,
	FUNC_ENDS_WITH,
	FUNC_JOIN,
	FUNC_CHOOSE,
	FUNC_DEFAULT,
	FUNC_JSON,
	EXPR_FUNCS
};
struct expr_func_info {
	const char *name;
	unsigned min_args, max_args;
	enum expr_type result;
	bool aggregates;  /* takes a list of numbers, or numbers: the only way to use metrics of
			     several tasks */
	bool only_if;     /* allowed in `if` only */
	const char *args; /* for help: "(list), (a, b, ...)" */
	const char *help;
};
extern const struct expr_func_info expr_funcs[EXPR_FUNCS];

/* Finds where a scalar's bytes lie in its file, for places inside the scalar. One per file. */
struct source_index;
struct source_index *source_index_new(const char *bytes, size_t len, struct arena *arena);
/* The place of byte `offset` of a scalar's text. Calls for one scalar with growing offsets continue
 * where the last one stopped. */
struct source_cursor {
	const struct source_index *index;
	const struct yaml_node *node;
	const char *p;       /* in the file */
	size_t at;           /* offset in the scalar's text */
	size_t block_indent; /* of a block scalar */
	int line, col;
	char quote; /* ' " or 0; | and > for blocks */
	bool lost;  /* text and file don't match: every place is the node's own */
};
void source_cursor_init(struct source_cursor *c, const struct source_index *index,
			const struct yaml_node *node);
void source_cursor_seek(struct source_cursor *c, size_t offset, int *ret_line, int *ret_col);

/* Parses text with `${{ }}` in it. Problems go to `diags`; the result is still not NULL, but may
 * lack parts. */
struct expr_source {
	const char *file;
	const char *text;
	size_t len;
	struct source_cursor *cursor; /* NULL: every place is line, col */
	int line, col;
	struct arena *arena;
	struct diag_list *diags;
};
struct expr_template *template_parse(struct expr_source *src);
struct expr_template *template_of_value(const struct value *v, const char *file, int line, int col,
					struct arena *arena);
bool template_text_has_expr(const char *text, size_t len);
/* The expression of a template that is exactly one, else NULL. */
struct expr *template_single(const struct expr_template *t);

/* For the folder's own passes over a model that isn't finished. */
void expr_refs_mut(struct expr *e, void (*fn)(void *arg, struct ref *ref), void *arg);
void template_refs_mut(const struct expr_template *t, void (*fn)(void *arg, struct ref *ref),
		       void *arg);

/* Checks types as far as they are known. `type_of` gives the type of a resolved reference;
 * *ret_gathered: a list with one value per task. Errors go to diags. in_if: always() and failed()
 * are allowed. */
struct expr_check {
	enum expr_type (*type_of)(void *arg, const struct ref *ref, bool *ret_gathered);
	void *arg;
	bool in_if;
	struct diag_list *diags;
};
enum expr_type expr_check(const struct expr *e, const struct expr_check *ctx);
void template_check(const struct expr_template *t, const struct expr_check *ctx);
const char *expr_type_name(enum expr_type t); /* "a list", "a number", … */
enum expr_type expr_type_of_value(enum value_type t);

#endif

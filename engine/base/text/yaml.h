/* engine/base/text/yaml.h — the strict YAML subset: one parser for all YAML that the product reads.
 *
 * Bytes become a tree of nodes in one arena; every node knows its place. Errors (bad syntax,
 * duplicate keys, tags, merge keys, YAML 1.1 booleans as plain scalars, a second document, text
 * that isn't UTF-8 or holds NUL, keys that aren't scalars, unknown or recursive aliases) go to the
 * diag_list, as many at once as can be found; syntax errors end the parse. Every scalar is text
 * with a style; yaml_scalar_type() says what it is under the YAML 1.2 core schema.
 *
 * An alias is the same node as its anchor: trees are DAGs, read-only, without cycles. Walking a
 * tree recursively is safe: depth is at most YAML_DEPTH_MAX and the number of nodes met at most
 * YAML_EXPANSION_MAX times those written.
 */
#ifndef CAIRN_BASE_TEXT_YAML_H
#define CAIRN_BASE_TEXT_YAML_H

#include <stdbool.h>
#include "base/diag.h"
#include "base/mem.h"

#define YAML_FILE_MAX \
	(64 * MIB) /* half a million steps written out; the tree takes about 10 times the file */
#define YAML_DEPTH_MAX     64
#define YAML_EXPANSION_MAX 100 /* nodes met by a walk / nodes written */

enum yaml_kind { YAML_KIND_SCALAR, YAML_KIND_SEQ, YAML_KIND_MAP };
enum yaml_style { YAML_STYLE_PLAIN, YAML_STYLE_QUOTED, YAML_STYLE_BLOCK /* | or > */ };

struct yaml_node {
	uint8_t kind;    /* enum yaml_kind */
	uint8_t style;   /* enum yaml_style; scalars only */
	uint8_t is_flow; /* maps and sequences written with {} or [] */
	uint8_t height;  /* 1 for a scalar */
	int line, col;   /* of the first character (of a quoted scalar: the quote), 1-based */
	size_t len;      /* scalar: bytes; seq: items; map: pairs */
	union {
		const char *text;         /* scalar: UTF-8 without NUL, NUL-terminated */
		struct yaml_node **items; /* seq */
		struct yaml_pair *pairs;  /* map, in file order */
	};
	void *internal; /* of yaml.c */
};

struct yaml_pair {
	struct yaml_node *key; /* always a scalar */
	struct yaml_node *value;
};

struct yaml_tree {
	const char *file; /* as given */
	struct yaml_node
		*root;       /* never NULL; an empty file is an empty plain scalar (null) at 1:1 */
	size_t n_nodes;      /* as written */
	struct arena *arena; /* holds the whole tree; callers may allocate here too */
	struct yaml_private *priv;
};

/* `file` is the name for messages. 0 with *ret; -1 with ERR_INVALID and the errors in `diags` (see
 * diag_to_err). Errors that were in `diags` before don't count. ERR_TOO_LARGE over
 * YAML_FILE_MAX. */
int yaml_tree_parse(const char *file, const char *bytes, size_t len, struct diag_list *diags,
		    struct yaml_tree **ret, struct err *err);
/* Reads `path` (ERR_NOT_FOUND, ERR_IO, ERR_TOO_LARGE) and parses it under that name. */
int yaml_tree_load(const char *path, struct diag_list *diags, struct yaml_tree **ret,
		   struct err *err);
void yaml_tree_free(struct yaml_tree *t); /* NULL is fine */
static inline void yaml_tree_freep(struct yaml_tree **t)
{
	yaml_tree_free(*t);
}

/* The value of a key of a map, NULL when absent or when `map` is NULL or not a map. Constant time
 * in large maps. */
struct yaml_node *yaml_get(const struct yaml_node *map, const char *key);
const struct yaml_pair *yaml_find(const struct yaml_node *map, const char *key, size_t len);

/* YAML 1.2 core schema. Quoted and block scalars are always strings. Asserts that the node is a
 * scalar. */
enum yaml_type { YAML_TYPE_NULL, YAML_TYPE_BOOL, YAML_TYPE_INT, YAML_TYPE_FLOAT, YAML_TYPE_STRING };
enum yaml_type yaml_scalar_type(const struct yaml_node *n);
/* True and *ret when the node is a scalar of that type; an int out of the range of int64_t is
 * false. yaml_as_float takes ints too. */
bool yaml_is_null(const struct yaml_node *n);
bool yaml_as_bool(const struct yaml_node *n, bool *ret);
bool yaml_as_int(const struct yaml_node *n, int64_t *ret);
bool yaml_as_float(const struct yaml_node *n, double *ret);
/* For messages: "a mapping", "a list", "text", "an integer", "a number", "true or false",
 * "nothing". */
const char *yaml_describe(const struct yaml_node *n);

#endif

/* The YAML parser takes any bytes, and what it accepts keeps its promises: bounds of depth and
 * expansion, every node with a place, every key found again, scalars without NUL and in UTF-8. */
#include <assert.h>
#include <string.h>
#include "base/text/text.h"
#include "base/text/yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct walk {
	size_t met, limit;
	int depth;
};

static void walk_scalar(const struct yaml_node *n)
{
	double f;
	int64_t i;
	bool b;

	assert(strlen(n->text) == n->len);
	assert(text_is_utf8(n->text, n->len));
	assert(yaml_as_bool(n, &b) == (yaml_scalar_type(n) == YAML_TYPE_BOOL));
	assert(!yaml_as_int(n, &i) || yaml_scalar_type(n) == YAML_TYPE_INT);
	assert(!yaml_as_float(n, &f) || yaml_scalar_type(n) == YAML_TYPE_INT ||
	       yaml_scalar_type(n) == YAML_TYPE_FLOAT);
	assert(!yaml_is_null(n) || n->style == YAML_STYLE_PLAIN);
}

static void walk_node(struct walk *w, const struct yaml_node *n)
{
	assert(++w->met <= w->limit);
	assert(++w->depth <= YAML_DEPTH_MAX);
	assert(n->line >= 1 && n->col >= 1 && n->height >= 1 && *yaml_describe(n));
	if (n->kind == YAML_KIND_SCALAR)
		walk_scalar(n);
	for (size_t i = 0; n->kind == YAML_KIND_SEQ && i < n->len; i++)
		walk_node(w, n->items[i]);
	for (size_t i = 0; n->kind == YAML_KIND_MAP && i < n->len; i++) {
		const struct yaml_pair *p = &n->pairs[i];

		assert(p->key->kind == YAML_KIND_SCALAR);
		assert(yaml_find(n, p->key->text, p->key->len) == p);
		walk_node(w, p->key);
		walk_node(w, p->value);
	}
	w->depth--;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(yaml_tree_freep) struct yaml_tree *tree = NULL;
	_cleanup_(str_deinit) struct str out = { 0 };
	struct err err = { 0 };

	if (yaml_tree_parse("fuzz.yaml", (const char *)data, size, diags, &tree, &err) < 0) {
		assert(tree == NULL && err.code == ERR_INVALID && diag_errors(diags) > 0);
		diag_render(diags, &out);
		assert(text_is_utf8(out.s, out.len));
		return 0;
	}
	assert(diag_errors(diags) == 0);
	walk_node(&(struct walk){ .limit = (tree->n_nodes + 10) * YAML_EXPANSION_MAX + 1 },
		  tree->root);
	return 0;
}

#include "storage/closure.h"
#include "storage/internal.h"

/* Trees fetched and read in one batch: bounds the copy, yet keeps many connections busy.
 */
#define BATCH_MAX 65536

static int ignore_key(void *arg, const struct digest *key)
{
	return 0;
}

int closure_of_manifest(struct store *s, const struct closure_names *names, const void *bytes,
			size_t n, const struct closure_sink *sink, struct err *err)
{
	struct closure_sink to = *sink;

	if (!names)
		return 0;
	if (!to.key)
		to.key = ignore_key;
	if ((names->refs && names->refs(bytes, n, to.content, to.arg, err) < 0) ||
	    (names->keys && names->keys(bytes, n, to.key, to.arg, err) < 0))
		return -1;
	return names->walk ? names->walk(s, bytes, n, &to, err) : 0;
}

int closure_of_action(const struct action_record *a, const struct closure_sink *sink)
{
	for (size_t i = 0; i < a->n_outputs; i++)
		if (sink->content(sink->arg, &a->outputs[i].id) < 0)
			return -1;
	return sink->content(sink->arg, &a->key_record) < 0 ||
			       sink->content(sink->arg, &a->metrics) < 0 ||
			       sink->content(sink->arg, &a->log) < 0
		       ? -1
		       : 0;
}

int closure_of_trees(struct store *s, closure_trees *trees, const struct closure_sink *sink,
		     closure_unread_fn *unread, struct err *err)
{
	while (trees->n) {
		size_t n = MIN(trees->n, (size_t)BATCH_MAX);
		_cleanup_(freep) struct content_id *batch = xcalloc(n, sizeof(*batch));

		trees->n -= n;
		memcpy(batch, trees->v + trees->n, n * sizeof(*batch));
		if (n > 1 && store_bring(s, batch, n, BRING_THESE, err) < 0)
			return -1;
		for (size_t i = 0; i < n; i++) {
			_cleanup_(tree_freep) struct tree *t = NULL;
			struct err why = { 0 };

			if (tree_load(s, &batch[i], &t, &why) < 0 &&
			    unread(sink->arg, &batch[i], &why, err) < 0)
				return -1;
			for (size_t k = 0; t && k < tree_len(t); k++)
				if (tree_entry_is_kept(tree_at(t, k)) &&
				    sink->content(sink->arg, &tree_at(t, k)->id) < 0)
					return -1;
		}
	}
	return 0;
}

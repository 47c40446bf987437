/* storage/closure.h — walks the content that manifests, records and trees name. gc, transfers and
 * verify all use this one walk.
 */
#ifndef CAIRN_STORAGE_CLOSURE_H
#define CAIRN_STORAGE_CLOSURE_H

#include "base/mem.h"
#include "storage/action.h"

/* Callbacks for each name found. -1 ends the walk. */
struct closure_sink {
	int (*content)(void *arg, const struct content_id *id); /* may be CONTENT_NONE */
	int (*key)(void *arg, const struct digest *key); /* of action records; NULL: skip them */
	void *arg;
};

/* Callbacks that read a manifest. The engine supplies them (record/manifest), because storage
 * doesn't know the format. NULL: finds nothing. */
struct closure_names {
	/* Contents named in its bytes. */
	int (*refs)(const void *bytes, size_t n,
		    int (*emit)(void *arg, const struct content_id *id), void *arg,
		    struct err *err);
	/* Keys whose records belong to it. */
	int (*keys)(const void *bytes, size_t n, int (*emit)(void *arg, const struct digest *key),
		    void *arg, struct err *err);
	/* Contents named only through a blob (the table of results), which is read from the store.
	 */
	int (*walk)(struct store *s, const void *bytes, size_t n, const struct closure_sink *sink,
		    struct err *err);
};

/* Names all that the manifest names, without the members of its trees. */
int closure_of_manifest(struct store *s, const struct closure_names *names, const void *bytes,
			size_t n, const struct closure_sink *sink, struct err *err);
/* Names all contents of a record: outputs, key record, metrics, log. */
int closure_of_action(const struct action_record *a, const struct closure_sink *sink);

/* Trees whose members haven't been named yet. */
typedef VEC(struct content_id) closure_trees;
/* Called for a tree that can't be read; `why` is the reason. -1 with *err ends the walk. */
typedef int closure_unread_fn(void *arg, const struct content_id *tree, const struct err *why,
			      struct err *err);
/* Names the members of each tree in the list, and empties the list. Trees that the sink adds
 * meanwhile are walked too. A tier fetches many trees at once. */
int closure_of_trees(struct store *s, closure_trees *trees, const struct closure_sink *sink,
		     closure_unread_fn *unread, struct err *err);

#endif

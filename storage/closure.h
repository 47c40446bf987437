/* storage/closure.h — what manifests, records and trees name: the one walk of collectors, transfers
 * and verifiers.
 */
#ifndef CAIRN_STORAGE_CLOSURE_H
#define CAIRN_STORAGE_CLOSURE_H

#include "base/mem.h"
#include "storage/action.h"

/* Who is told of names. -1 ends the walk. */
struct closure_sink {
	int (*content)(void *arg, const struct content_id *id); /* also CONTENT_NONE */
	int (*key)(void *arg, const struct digest *key); /* of action records; NULL: not wanted */
	void *arg;
};

/* How a manifest is read, which is the engine's (record/manifest). Each may be NULL: nothing. */
struct closure_names {
	/* Contents that stand in its bytes. */
	int (*refs)(const void *bytes, size_t n,
		    int (*emit)(void *arg, const struct content_id *id), void *arg,
		    struct err *err);
	/* Keys whose records belong to it. */
	int (*keys)(const void *bytes, size_t n, int (*emit)(void *arg, const struct digest *key),
		    void *arg, struct err *err);
	/* What it names only through a blob (its table of results), which is read from the store.
	 */
	int (*walk)(struct store *s, const void *bytes, size_t n, const struct closure_sink *sink,
		    struct err *err);
};

/* All that a manifest of these bytes names, its trees' members not included. */
int closure_of_manifest(struct store *s, const struct closure_names *names, const void *bytes,
			size_t n, const struct closure_sink *sink, struct err *err);
/* All contents that a record names: outputs, key record, metrics, log. */
int closure_of_action(const struct action_record *a, const struct closure_sink *sink);

/* Trees whose members are still to be named. */
typedef VEC(struct content_id) closure_trees;
/* Is told of a tree that can't be read, and why. -1 with *err ends the walk. */
typedef int closure_unread_fn(void *arg, const struct content_id *tree, const struct err *why,
			      struct err *err);
/* Names the members of each tree of the list, and empties it; what the sink adds to the list
 * meanwhile is next. A tier brings many trees at once. */
int closure_of_trees(struct store *s, closure_trees *trees, const struct closure_sink *sink,
		     closure_unread_fn *unread, struct err *err);

#endif

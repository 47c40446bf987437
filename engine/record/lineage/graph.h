/* record/lineage/graph.h — a piece of lineage as nodes and edges: what commands draw, and the HTTP
 * API gives.
 *
 * Nodes are contents and attempts; an edge leads from what is read to who read it, and from who
 * made it to what was made. The walk begins at one content or one attempt, goes one way, and meets
 * each node once. It is bounded: by `attempts_max`, when `truncated` is set, and by the depth that
 * is asked for, which isn't marked.
 */
#ifndef CAIRN_RECORD_LINEAGE_GRAPH_H
#define CAIRN_RECORD_LINEAGE_GRAPH_H

#include "base/map.h"
#include "base/text/json.h"
#include "record/lineage/lineage.h"

#define LINEAGE_DEPTH_ALL    10000
#define LINEAGE_ATTEMPTS_MAX 100000

struct lineage_origin {
	const char *input, *uri, *run; /* as the pipeline of that run names it: "raw",
					  "path:data/raw/" or "s3://…" */
};

struct lineage_node {
	bool is_attempt;
	const char *key;  /* "sha256:…" or "attempt:12": unique */
	const char *name; /* under which a content was met first: "model"; task of an attempt */
	/* content */
	struct content_id id;
	bool has_origin,
		walked; /* walked: the walk goes on from it; others only stand beside an attempt */
	struct lineage_origin origin;
	/* attempt */
	struct attempt_row attempt;
	const struct run_row *run;
};
struct lineage_edge {
	uint32_t from, to;
	const char *name;
};
struct lineage_graph {
	struct arena *arena;
	enum lineage_direction direction;
	VEC(struct lineage_node) nodes; /* [0]: where it began */
	VEC(struct lineage_edge) edges;
	size_t attempts_max; /* init sets LINEAGE_ATTEMPTS_MAX; may be made less */
	bool truncated;
	struct map *index; /* key → number of the node + 1 */
	struct map *runs;  /* rowid → what is known of it */
};

void lineage_graph_init(struct lineage_graph *g, enum lineage_direction direction,
			struct arena *arena);
void lineage_graph_deinit(struct lineage_graph *g);
/* At most `depth` steps away, one or more. `name`: what the content is called. */
int lineage_graph_of_content(struct lineage_graph *g, struct db *db, const struct content_id *id,
			     const char *name, uint64_t depth, struct err *err);
int lineage_graph_of_attempt(struct lineage_graph *g, struct db *db, int64_t attempt,
			     uint64_t depth, struct err *err);
/* Where a content that `run` read came from outside: 1 and *ret, or 0. */
int lineage_find_origin(struct db *db, const struct run_row *run, const struct content_id *id,
			struct arena *arena, struct lineage_origin *ret, struct err *err);
/* The same for whoever read it first. */
int lineage_find_any_origin(struct db *db, const struct content_id *id, struct arena *arena,
			    struct lineage_origin *ret, struct err *err);

/* {artifact, truncated, nodes: [{id, kind: artifact, name, content: blob|tree, size, origin:
 * {input, uri, run}|null} | {id, kind: attempt, task, step, pipeline, run, hash, key, started,
 * state, git_commit, git_dirty}], edges: [{from, to, name}]}. `more`, or NULL, adds members to an
 * attempt's object. */
json_t *lineage_graph_json(const struct lineage_graph *g,
			   void (*more)(void *arg, const struct lineage_node *attempt, json_t *o),
			   void *arg);

#endif

/* engine/record/lineage/graph.h — a part of lineage as nodes and edges, for commands and the HTTP
 * API.
 *
 * Nodes are contents and attempts. Edges lead from a content to the attempts that read it, and from
 * an attempt to the contents that it made. The walk begins at one content or one attempt, goes in
 * one direction, and visits each node once. Two limits bound it: `attempts_max`, which sets
 * `truncated`, and the requested depth, which sets nothing.
 */
#ifndef CAIRN_RECORD_LINEAGE_GRAPH_H
#define CAIRN_RECORD_LINEAGE_GRAPH_H

#include "base/map.h"
#include "base/text/json.h"
#include "record/lineage/lineage.h"

#define LINEAGE_DEPTH_ALL    10000
#define LINEAGE_ATTEMPTS_MAX 100000

struct lineage_origin {
	/* As that run's pipeline names it: "raw", "path:data/raw/" or "s3://…". */
	const char *input, *uri, *run;
};

struct lineage_node {
	bool is_attempt;
	const char *key; /* "sha256:…" or "attempt:12": unique */
	/* Of a content: its first name, such as "model"; of an attempt: its task. */
	const char *name;
	/* for a content */
	struct content_id id;
	bool has_origin, walked; /* walked: the walk continues from it */
	struct lineage_origin origin;
	/* for an attempt */
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
	VEC(struct lineage_node) nodes; /* [0]: the start */
	VEC(struct lineage_edge) edges;
	size_t attempts_max; /* init sets LINEAGE_ATTEMPTS_MAX; may be lowered */
	bool truncated;
	struct map *index; /* key → number of the node + 1 */
	struct map *runs;  /* rowid → struct known_run * */
};

void lineage_graph_init(struct lineage_graph *g, enum lineage_direction direction,
			struct arena *arena);
void lineage_graph_deinit(struct lineage_graph *g);
/* Walks at most `depth` steps, at least one. `name`: the content's name. */
int lineage_graph_of_content(struct lineage_graph *g, struct db *db, const struct content_id *id,
			     const char *name, uint64_t depth, struct err *err);
int lineage_graph_of_attempt(struct lineage_graph *g, struct db *db, int64_t attempt,
			     uint64_t depth, struct err *err);
/* Where a content that `run` read came from outside: 1 with *ret, or 0. */
int lineage_find_origin(struct db *db, const struct run_row *run, const struct content_id *id,
			struct arena *arena, struct lineage_origin *ret, struct err *err);
/* The same for the first run that read it. */
int lineage_find_any_origin(struct db *db, const struct content_id *id, struct arena *arena,
			    struct lineage_origin *ret, struct err *err);

/* {artifact, truncated, nodes: [{id, kind: artifact, name, content: blob|tree, size, origin:
 * {input, uri, run}|null} | {id, kind: attempt, task, step, pipeline, run, hash, key, started,
 * state, git_commit, git_dirty}], edges: [{from, to, name}]}. `more` may be NULL; it adds members
 * to an attempt's object. */
json_t *lineage_graph_json(const struct lineage_graph *g,
			   void (*more)(void *arg, const struct lineage_node *attempt, json_t *o),
			   void *arg);

#endif

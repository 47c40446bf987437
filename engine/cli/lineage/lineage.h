/* engine/cli/lineage/lineage.h — shows lineage as a tree of text, as JSON or as a drawing.
 * cmd_lineage.c finds what it is about. */
#ifndef CAIRN_CLI_LINEAGE_LINEAGE_H
#define CAIRN_CLI_LINEAGE_LINEAGE_H

#include "cli/what.h"
#include "record/lineage/graph.h"

/* What the user asks about: a content, or an attempt (of a task or a metric). */
struct lineage_question {
	enum lineage_direction direction;
	uint64_t depth; /* steps; LINEAGE_DEPTH_ALL: all */
	struct what what;
	const char *name;     /* as the user wrote it */
	struct content_id id; /* when attempt is 0 */
	int64_t attempt;
	const char
		*member_of; /* the content asked about is this member: "weights/w.npy"; or NULL */
};

/* The facts in an attempt's key that interest people: params, seed, code, built-in step, tools. */
struct lineage_facts {
	json_t *params, *tools; /* objects, owned (lineage_facts_deinit) */
	const char *builtin;    /* "evaluate 3", or NULL */
	bool has_code;
	struct content_id code;
};
int lineage_facts_read(struct cli *cli, struct db *db, const struct digest *key,
		       struct lineage_facts *ret, struct err *err);
void lineage_facts_deinit(struct lineage_facts *f);

/* Outputs that depend on the content, and the names of runs that hold them. For --down. */
struct affected {
	const struct lineage_node *attempt;
	const char *output;
	const struct content_id *id;
	const char *tags; /* "fashion/best, v2", or "" */
};
int lineage_affected(struct cli *cli, struct db *db, const struct lineage_graph *g,
		     struct affected **ret, size_t *ret_n, struct err *err);

int lineage_print_text(struct cli *cli, struct db *db, const struct lineage_question *q,
		       struct err *err);
int lineage_print_json(struct cli *cli, struct db *db, const struct lineage_question *q,
		       struct err *err);
int lineage_print_dot(struct cli *cli, struct db *db, const struct lineage_question *q,
		      struct err *err);
int lineage_write_svg(struct cli *cli, struct db *db, const struct lineage_question *q,
		      const char *path, struct err *err); /* "-": standard output */
int lineage_build(struct cli *cli, struct db *db, const struct lineage_question *q,
		  struct lineage_graph *ret, struct err *err);

#endif

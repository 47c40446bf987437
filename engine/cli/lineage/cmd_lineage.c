/* engine/cli/lineage/cmd_lineage.c — `cairn lineage`: finds what the user asks about; the other
 * files show it.
 *
 * The question becomes a struct lineage_question: a content or an attempt, a direction, a depth. A
 * task or metric leads to an attempt: the last one of the run or, for a hit, the one that made the
 * result.
 *
 * A file may be on record only as a member of a directory. find_holder() then searches the newest
 * TREES_MAX directories, reads at most LISTINGS_MAX listings, and skips trees that it has seen. The
 * question moves to that directory, and `member_of` is the file's path in it. When the bounds cut
 * the search short and nothing was found, a warning says so.
 *
 * What it doesn't do: walk (record/lineage/) or print (text.c, draw.c).
 */
#include <time.h>
#include "cli/lineage/lineage.h"
#include "storage/content/content.h"

/* A file that no attempt read or made by itself may be a member of a directory that one did: so
 * many of the newest are searched. Their listings are small and in the store; 2,000 of them take
 * some milliseconds. */
#define TREES_MAX    500
#define LISTINGS_MAX 2000
#define DEPTH_MAX    64

struct member_search {
	struct store *store;
	const struct content_id *id;
	struct map *seen; /* trees that are known not to hold it */
	struct str path;
	size_t listings;
	bool is_cut; /* the search stopped at a bound */
};

/* 1: found; s->path is its path. */
static int search_tree(struct member_search *s, const struct content_id *tree, unsigned depth)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	size_t len = s->path.len;
	bool is_new;
	int r = 0;

	*map_slot(s->seen, tree->digest.b, DIGEST_BYTES, &is_new) = s;
	if (!is_new)
		return 0;
	if (depth > DEPTH_MAX || s->listings++ >= LISTINGS_MAX) {
		s->is_cut = true;
		return 0;
	}
	if (tree_load(s->store, tree, &t, NULL) < 0)
		return 0;
	for (size_t i = 0; r == 0 && i < tree_len(t); i++) {
		const struct tree_entry *e = tree_at(t, i);

		if (e->kind == TREE_SYMLINK)
			continue;
		str_addf(&s->path, "%s%s", len ? "/" : "", e->name);
		r = content_same_bytes(&e->id, s->id) ? 1
		    : e->kind == TREE_DIR             ? search_tree(s, &e->id, depth + 1)
						      : 0;
		if (r == 0)
			s->path.s[s->path.len = len] = '\0';
	}
	return r;
}

/* Sets q->id to the newest directory on record that holds the content. */
static int find_holder(struct cli *cli, struct db *db, struct lineage_question *q, struct err *err)
{
	struct member_search s = { .id = &q->id };
	struct content_id *trees;
	size_t n;

	if (lineage_newest_trees(db, TREES_MAX + 1, cli->arena, &trees, &n, err) < 0 ||
	    cli_store(cli, false, &s.store, err) < 0)
		return -1;
	s.is_cut = n > TREES_MAX;
	s.seen = map_new();
	for (size_t i = 0; i < n && i < TREES_MAX && !q->member_of; i++)
		if (search_tree(&s, &trees[i], 0)) {
			q->member_of = arena_strndup(cli->arena, s.path.s, s.path.len);
			q->id = trees[i];
		}
	if (s.is_cut && !q->member_of)
		cli_warn(cli,
			 "only the newest directories were searched for %s: ask for the directory "
			 "that holds it",
			 q->name);
	map_free(s.seen);
	str_deinit(&s.path);
	return 0;
}

/* The attempt that gave a task's result in that run: its own, or for a hit the one that made the
 * result. */
static int find_attempt(struct cli *cli, struct db *db, const struct what *w, int64_t *ret,
			struct err *err)
{
	struct attempt_row *attempts;
	struct cached_result hit;
	size_t n;
	int r;

	if (record_run_attempts(db, w->run.rowid, cli->arena, &attempts, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (str_eq(attempts[i].task, w->task->task) && attempts[i].id > *ret)
			*ret = attempts[i].id;
	if (*ret)
		return 0;
	r = record_lookup(db, &w->task->key, cli->arena, &hit, err);
	if (r > 0)
		*ret = hit.attempt;
	return r < 0  ? -1
	       : *ret ? 0
		      : err_set(err, ERR_NOT_FOUND,
				"the attempt that made %s is not on record here", w->task->task);
}

/* Whether this content itself is known. Up: which attempt made it, or where outside it came
 * from. */
static int is_known(struct cli *cli, struct db *db, const struct lineage_question *q, bool *ret,
		    struct err *err)
{
	struct lineage_origin origin;
	struct attempt_row *a;
	size_t n;
	int r;

	if (q->direction == LINEAGE_DOWN)
		return lineage_knows(db, &q->id, ret, err);
	if (lineage_neighbours(db, &q->id, LINEAGE_UP, 1, cli->arena, &a, &n, err) < 0)
		return -1;
	r = n ? 1 : lineage_find_any_origin(db, &q->id, cli->arena, &origin, err);
	*ret = r > 0;
	return r < 0 ? -1 : 0;
}

static int find(struct cli *cli, struct db *db, const struct cli_args *args,
		struct lineage_question *q, struct err *err)
{
	bool known;

	q->name = cli_operand(args, 0);
	if (what_find(cli, db, q->name, WHAT_TASK | WHAT_CONTENT | WHAT_METRIC | WHAT_FILE,
		      cli_value(args, "run"), &q->what, err) < 0)
		return -1;
	if (q->what.kind == WHAT_TASK || q->what.kind == WHAT_METRIC)
		return find_attempt(cli, db, &q->what, &q->attempt, err);
	q->id = q->what.id;
	if (is_known(cli, db, q, &known, err) < 0)
		return -1;
	return known ? 0 : find_holder(cli, db, q, err);
}

int cmd_lineage(struct cli *cli, const struct cli_args *args)
{
	struct lineage_question q = { .direction =
					      cli_flag(args, "down") ? LINEAGE_DOWN : LINEAGE_UP,
				      .depth = LINEAGE_DEPTH_ALL };
	const char *svg = cli_value(args, "svg");
	bool dot = cli_flag(args, "dot");
	struct err err = { 0 };
	struct db *db;
	int r = cli_uint(args, "depth", 1, LINEAGE_DEPTH_ALL, &q.depth, &err);

	if (r == 0 && dot + cli->json + !!svg > 1)
		r = err_set(&err, ERR_USAGE,
			    "--dot, --svg and --json are formats of one graph: choose one");
	if (r == 0)
		r = cli_db(cli, DB_READ, &db, &err);
	if (r == 0)
		r = find(cli, db, args, &q, &err);
	if (r == 0)
		r = svg         ? lineage_write_svg(cli, db, &q, svg, &err)
		    : dot       ? lineage_print_dot(cli, db, &q, &err)
		    : cli->json ? lineage_print_json(cli, db, &q, &err)
				: lineage_print_text(cli, db, &q, &err);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}

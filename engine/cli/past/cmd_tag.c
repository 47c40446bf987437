/* engine/cli/past/cmd_tag.c — `cairn tag`: names of runs.
 *
 * Names are records in the store, and rows here for queries. open_all() first imports the names
 * that others gave; when a shared store can't be asked, a warning says that some may be missing.
 *
 * publish() writes the record to the store, syncs, and only then adds the row. A crash between the
 * two leaves a name that the next command imports.
 *
 * Invariants: a change of a name is a new record; none is altered, so the history stays. Its time
 * is later than every known change of that name, even when a clock is slow. Only a run that has
 * ended has a hash, and only it can be named. Removing a name is a change without a run.
 *
 * Threads: one. What it doesn't do: resolve names when commands use them (what.c), or keep tagged
 * runs from gc (upkeep/cmd_store.c).
 */
#include "base/time/clock.h"
#include "cli/render/table.h"
#include "cli/what.h"
#include "record/manifest/tag_store.h"

/* Imports names that others gave, as far as the store can be reached now. */
static int open_all(struct cli *cli, struct store **ret_store, struct db **ret, struct err *err)
{
	struct err e = { 0 };

	if (cli_store(cli, false, ret_store, err) < 0 || cli_db(cli, DB_WRITE, ret, err) < 0)
		return -1;
	if (tag_store_take_in(*ret, *ret_store, &e) >= 0)
		return 0;
	if (!store_is_shared(*ret_store))
		return err_pass(err, &e);
	cli_warn(cli, "names that others gave may be missing: %s", e.msg);
	return 0;
}

/* Showing. */

static void print_json(struct cli *cli, const struct tag_row *v, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct tag_row *t = &v[i];
		char hex[DIGEST_HEX_MAX];

		json_array_append_new(
			list,
			json_pack("{s:o, s:s?, s:o, s:o, s:o, s:o}", "name", facts_text(t->name),
				  "hash", t->has_run ? digest_hex(&t->run, hex) : NULL, "run",
				  facts_text(t->run_id), "at", facts_time(t->at_ns), "author",
				  facts_text(t->author), "note", facts_text(t->note)));
	}
	cli_print_json(cli, "cairn.tag/1", json_pack("{s:o}", "tags", list));
}

static void print_table(struct cli *cli, const struct tag_row *v, size_t n)
{
	_cleanup_(table_freep) struct table *t = table_new();

	table_column(t, "name", 0);
	table_column(t, "run", 0);
	table_column(t, "hash", 0);
	table_column(t, "since", 0);
	table_column(t, "by", 0);
	table_column(t, "", TABLE_CUT);
	for (size_t i = 0; i < n; i++) {
		table_cell(t, STYLE_BOLD, "%s", v[i].name);
		table_cell(t, STYLE_PLAIN, "%s",
			   v[i].has_run ? v[i].run_id ? v[i].run_id : "" : "(taken away)");
		table_cell(t, STYLE_DIM, "%s", v[i].has_run ? cli_hash(cli, &v[i].run) : "");
		table_cell(t, STYLE_PLAIN, "%s", cli_ago(cli, v[i].at_ns));
		table_cell(t, STYLE_PLAIN, "%s", v[i].author ? v[i].author : "");
		table_cell(t, STYLE_PLAIN, "%s", v[i].note ? v[i].note : "");
	}
	if (n)
		table_print(t, cli);
}

static int show(struct cli *cli, struct db *db, const char *history, struct err *err)
{
	struct tag_row *v;
	size_t n;

	if (history ? record_tag_history(db, history, cli->arena, &v, &n, err) < 0
		    : record_tags(db, NULL, cli->arena, &v, &n, err) < 0)
		return -1;
	if (history && n == 0)
		return err_set(err, ERR_NOT_FOUND,
			       "nothing was ever called `%s`; `cairn tag` lists the names",
			       history);
	if (cli->json)
		print_json(cli, v, n);
	else
		print_table(cli, v, n);
	return 0;
}

/* Changing. */

static int publish(struct cli *cli, struct db *db, struct store *s, struct tag_row *t,
		   struct err *err)
{
	struct tag_row last;
	struct err why = { 0 };

	t->author = cli_author(cli);
	t->at_ns = clock_wall_ns();
	if (record_tag_find(db, t->name, cli->arena, &last, NULL) > 0)
		t->at_ns = MAX(t->at_ns, last.at_ns + 1);
	if (tag_store_put(s, t, err) < 0 || store_sync(s, err) < 0 || db_begin(db, err) < 0)
		return -1;
	if (record_tag_add(db, t, err) < 0) {
		db_rollback(db);
		return -1;
	}
	if (db_commit_durable(db, err) < 0)
		return -1;
	if (store_unsent(s, &why))
		cli_warn(cli, "%s doesn't know it yet (`cairn store push` tells it): %s",
			 store_uri(s), why.msg);
	if (cli->json)
		print_json(cli, t, 1);
	return 0;
}

static int give(struct cli *cli, struct db *db, struct store *s, const char *what,
		struct tag_row *t, struct err *err)
{
	struct what w;

	if (tag_name_check(t->name, err) < 0 ||
	    what_find(cli, db, what, WHAT_RUN, NULL, &w, err) < 0)
		return -1;
	if (!w.run.has_hash || w.run.state == RUN_RUNNING)
		return err_set(err, ERR_INVALID,
			       "run %s has no run hash yet: it can have a name when it has ended",
			       w.run.id);
	t->has_run = true;
	t->run = w.run.hash;
	t->run_id = w.run.id;
	if (publish(cli, db, s, t, err) < 0)
		return -1;
	if (!cli->json)
		cli_note(cli, "%s is %s (%s%s%s) now", t->name, cli_text(cli, w.run.id),
			 cli_hash(cli, &w.run.hash),
			 w.run.has_reproduces ? ", which reproduces " : "",
			 w.run.has_reproduces ? cli_hash(cli, &w.run.reproduces) : "");
	return 0;
}

static int take_away(struct cli *cli, struct db *db, struct store *s, struct tag_row *t,
		     struct err *err)
{
	struct tag_row last;
	int r = record_tag_find(db, t->name, cli->arena, &last, err);

	if (r < 0)
		return -1;
	if (r == 0 || !last.has_run)
		return err_set(err, ERR_NOT_FOUND,
			       "nothing is called `%s`; `cairn tag` lists the names", t->name);
	return publish(cli, db, s, t, err);
}

int cmd_tag(struct cli *cli, const struct cli_args *args)
{
	const char *history = cli_value(args, "history"), *away = cli_value(args, "delete"),
		   *note = cli_value(args, "note");
	bool list = cli_flag(args, "list") || (args->n_operands == 0 && !history && !away);
	struct tag_row t = { .name = away ? away : cli_operand(args, 1), .note = note };
	struct err err = { 0 };
	struct store *s;
	struct db *db;
	int r;

	if ((history != NULL) + (away != NULL) + list + (args->n_operands > 0) != 1 ||
	    args->n_operands == 1)
		return cli_usage_error(
			cli,
			"give a run and a name, or one of --list, --history NAME, --delete NAME");
	if (note && strlen(note) > TAG_NOTE_MAX)
		return cli_usage_error(cli, "a note has at most %d bytes", TAG_NOTE_MAX);
	if (args->n_operands && what_db(cli, args->operands[0], &db, &err) < 0)
		return cli_fail(cli, &err);
	if (open_all(cli, &s, &db, &err) < 0)
		return cli_fail(cli, &err);
	if (list || history)
		r = show(cli, db, history, &err);
	else if (away)
		r = take_away(cli, db, s, &t, &err);
	else
		r = give(cli, db, s, args->operands[0], &t, &err);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}

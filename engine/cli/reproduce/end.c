/* The end of a reproduction. */
#include "cli/reproduce/reproduce.h"
#include "cli/reproduce/reproduction.h"
#include "record/rows/reproductions.h"
#include "storage/content/content.h"

/* Puts the report into the store and on record, so that gc keeps both runs. */
static int put_on_record(struct cli *cli, const struct reproduction *r, const json_t *report,
			 struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct reproduction_row row = {
		.run = r->is.rowid, .original = r->original, .mode = r->mode, .verdict = r->verdict
	};
	struct store *s;
	struct db *db;

	json_add_canonical(&text, report);
	if (cli_store(cli, true, &s, err) < 0 || cli_db(cli, DB_WRITE, &db, err) < 0 ||
	    content_put_bytes(s, text.s, text.len, &row.report, err) < 0 ||
	    store_sync(s, err) < 0 || db_begin(db, err) < 0)
		return -1;
	if (record_reproduction_add(db, &row, err) < 0) {
		db_rollback(db);
		return -1;
	}
	return db_commit_durable(db, err);
}

int reproduce_conclude(struct cli *cli, struct execution *e, int result, const struct run_row *row,
		       const struct reproduction *rep, const char *html, const struct err *err)
{
	_cleanup_(json_decrefp) json_t *report = NULL;
	struct err why = { 0 };

	if (result < 0 || !rep)
		return execution_conclude(cli, e, result, row, err);
	execution_close(e);
	report = reproduction_json(rep);
	if (put_on_record(cli, rep, report, &why) < 0) {
		err_wrap(&why, "keeping the report");
		return cli_fail(cli, &why);
	}
	if (cli->json)
		cli_print_json(cli, "cairn.reproduce/1", TAKE_PTR(report));
	else
		reproduction_print(cli, rep);
	if (html && reproduction_write_html(cli, rep, html, &why) < 0)
		return cli_fail(cli, &why);
	switch (rep->verdict) {
	case VERDICT_IDENTICAL:
		return CLI_OK;
	case VERDICT_NORMALISED:
	case VERDICT_TOLERATED:
		return REPRODUCE_TOLERATED;
	case VERDICT_UNKNOWN:
		return REPRODUCE_UNKNOWN;
	default:
		return REPRODUCE_DIFFERENT;
	}
}

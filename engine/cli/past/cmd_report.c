/* `cairn report`: the page of a run, or of a comparison, as one HTML file. */
#include "base/os/fs.h"
#include "cli/what.h"
#include "serve/page/report.h"

static int write_page(struct cli *cli, const char *path, const struct str *page, struct err *err)
{
	if (str_eq(path, "-")) {
		fwrite(page->s, 1, page->len, cli->out);
		return 0;
	}
	return fs_write_atomic(path, page->s, page->len, err);
}

int cmd_report(struct cli *cli, const struct cli_args *args)
{
	const char *path = cli_value(args, "html"), *ids[REPORT_RUNS_MAX];
	_cleanup_(str_deinit) struct str page = { 0 };
	struct report_cut cut;
	struct err err = { 0 };
	struct db *db;

	if (!path)
		return cli_usage_error(cli, "--html FILE says where the page goes");
	if (cli_db(cli, DB_READ, &db, &err) < 0)
		return cli_fail(cli, &err);
	for (size_t i = 0; i < args->n_operands; i++) {
		struct run_row run;

		if (record_find_run(db, args->operands[i], cli->arena, &run, &err) < 0)
			return cli_fail(cli, &err);
		ids[i] = run.id;
		for (size_t k = 0; k < i; k++)
			if (str_eq(ids[k], run.id))
				return cli_usage_error(cli, "run %s is named twice", run.id);
	}
	if (report_make(".", ids, args->n_operands, &page, &cut, &err) < 0 ||
	    write_page(cli, path, &page, &err) < 0)
		return cli_fail(cli, &err);
	if (cut.tasks || cut.details)
		cli_note(cli, "%zu tasks aren't listed, %zu are without their details and logs.",
			 cut.tasks, cut.details);
	return CLI_OK;
}

/* `cairn store reindex`: rebuilds the database from the store. */
#include "base/os/fs.h"
#include "cli/cli.h"
#include "record/facts.h"
#include "record/manifest/reindex.h"

static void on_progress(void *arg, uint64_t done, uint64_t total)
{
	struct cli *cli = arg;

	if (cli->tty_err && cli->verbosity >= 0 && !cli->json)
		fprintf(cli->err, "\r%llu of %llu runs%s", (unsigned long long)done,
			(unsigned long long)total, done == total ? "\r\033[K" : "");
}

static void on_warning(void *arg, const char *text)
{
	cli_warn(arg, "%s", text);
}

static const char *s_of(uint64_t n)
{
	return n == 1 ? "" : "s";
}

int cmd_store_reindex(struct cli *cli, const struct cli_args *args)
{
	struct reindex_options o = { .on_progress = on_progress,
				     .on_warning = on_warning,
				     .arg = cli };
	_cleanup_(freep) char *path = NULL;
	const struct config *config;
	struct reindex_result res;
	struct err err = { 0 };
	struct store *s;

	/* Not through cli_db(): the user may run this because the database can't be opened. */
	if (cli_config(cli, &config, &err) < 0 || cli_store(cli, true, &s, &err) < 0 ||
	    fs_mkdir_p(config->state_dir, &err) < 0)
		return cli_fail(cli, &err);
	path = fs_join(config->state_dir, "cairn.db");
	if (record_reindex(path, s, &o, &res, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json(cli, "cairn.store-reindex/1",
			       json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "runs",
					 (json_int_t)res.runs, "attempts", (json_int_t)res.attempts,
					 "tags", (json_int_t)res.tags, "carried",
					 (json_int_t)res.carried, "superseded",
					 (json_int_t)res.superseded, "damaged",
					 (json_int_t)res.damaged, "renumbered", res.renumbered));
	} else {
		cli_printf(cli, "%llu run%s with %llu attempts out of their manifests, %llu name%s",
			   (unsigned long long)res.runs, s_of(res.runs),
			   (unsigned long long)res.attempts, (unsigned long long)res.tags,
			   s_of(res.tags));
		cli_printf(cli, res.carried ? "; %llu out of the old database\n" : "\n",
			   (unsigned long long)res.carried);
		if (res.damaged)
			cli_printf(cli, "%llu manifest%s left out\n",
				   (unsigned long long)res.damaged, s_of(res.damaged));
		if (res.renumbered)
			cli_printf(
				cli,
				"attempts were numbered anew: runs of several projects lie in this "
				"store\n");
		if (res.kept_old)
			cli_note(cli, "the old database is %s.before-reindex", cli_text(cli, path));
	}
	return res.damaged ? CLI_TASK_FAILED : CLI_OK;
}

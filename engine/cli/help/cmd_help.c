/* engine/cli/help/cmd_help.c — `cairn help`, `cairn man` and `cairn completion`.
 *
 * Finds the command that is asked about and prints its page, or writes pages to files. The pages
 * themselves are made by help.c, man.c, answers.c, reference.c and completion.c, all from the
 * tables of the program. */
#include "base/os/fs.h"
#include "base/text/text.h"
#include "cli/help/answers.h"
#include "cli/help/help.h"

static int find(const struct cli_args *args, const struct cli_command **ret,
		const struct cli_command **ret_parent, struct err *err)
{
	const struct cli_command *table = cli_commands;

	for (size_t i = 0; i < args->n_operands; i++) {
		const char *names[64];
		_cleanup_(str_deinit) struct str m = { 0 };
		size_t n = 0;

		*ret_parent = *ret;
		*ret = table ? cli_find_command(table, args->operands[i]) : NULL;
		for (; table && table[n].name && n < ARRAY_LEN(names); n++)
			names[n] = table[n].name;
		if (!*ret) {
			text_add_suggestion(&m, args->operands[i], names, n);
			return err_set(err, ERR_USAGE, "there is no command `%s`%s",
				       args->operands[i], m.s ? m.s : "");
		}
		table = (*ret)->subcommands;
	}
	return 0;
}

static int print(struct cli *cli, struct str *s)
{
	fwrite(s->s, 1, s->len, cli->out);
	str_deinit(s);
	return CLI_OK;
}

static int write_page(const char *dir, const struct cli_command *c,
		      const struct cli_command *parent, struct err *err)
{
	_cleanup_(str_deinit) struct str page = { 0 }, name = { 0 };
	_cleanup_(freep) char *path = NULL;

	str_add(&name, "cairn");
	if (c) {
		str_addc(&name, '-');
		help_add_name(&name, c, parent);
	}
	for (size_t i = 0; i < name.len; i++)
		if (name.s[i] == ' ')
			name.s[i] = '-';
	str_add(&name, ".1");
	path = fs_join(dir, name.s);
	man_add(&page, c, parent);
	return fs_write_atomic_at(AT_FDCWD, path, page.s, page.len, 0644, FS_WRITE_NO_SYNC, err);
}

static int write_pages(const char *dir, struct err *err)
{
	if (fs_mkdir_p(dir, err) < 0 || write_page(dir, NULL, NULL, err) < 0)
		return -1;
	for (const struct cli_command *c = cli_commands; c->name; c++) {
		if (write_page(dir, c, NULL, err) < 0)
			return -1;
		for (const struct cli_command *s = c->subcommands; s && s->name; s++)
			if (write_page(dir, s, c, err) < 0)
				return -1;
	}
	return 0;
}

/* One page or all of them, to standard output or as files. */
static int give_man(struct cli *cli, const char *dir, const struct cli_command *command,
		    const struct cli_command *parent)
{
	struct str page = { 0 };
	struct err err = { 0 };
	int r;

	if (dir) {
		r = command ? fs_mkdir_p(dir, &err) : write_pages(dir, &err);
		if (r == 0 && command)
			r = write_page(dir, command, parent, &err);
		return r < 0 ? cli_fail(cli, &err) : CLI_OK;
	}
	if (command)
		man_add(&page, command, parent);
	else
		man_add_all(&page);
	return print(cli, &page);
}

static int print_answers(struct cli *cli)
{
	struct str page = { 0 };

	if (cli->json) {
		cli_print_json(cli, "cairn.help/1", answers_schema());
		return CLI_OK;
	}
	answers_add_page(&page);
	return print(cli, &page);
}

int cmd_help(struct cli *cli, const struct cli_args *args)
{
	const struct cli_command *command = NULL, *parent = NULL;
	struct err err = { 0 };

	if (args->n_operands == 1 && str_eq(args->operands[0], "expressions") &&
	    !cli_flag(args, "man"))
		return help_print_expressions(cli);
	if (args->n_operands == 1 && str_eq(args->operands[0], "json") && !cli_flag(args, "man"))
		return print_answers(cli);
	if (cli->json)
		return cli_usage_error(cli, "--json goes with `cairn help json`");
	if (cli_value(args, "reference")) {
		if (args->n_operands || cli_flag(args, "man") || cli_value(args, "output"))
			return cli_usage_error(cli,
					       "--reference takes a directory, and nothing else");
		return help_write_reference(cli_value(args, "reference"), &err) < 0
			       ? cli_fail(cli, &err)
			       : CLI_OK;
	}
	if (find(args, &command, &parent, &err) < 0)
		return cli_fail(cli, &err);
	if (cli_flag(args, "man"))
		return give_man(cli, cli_value(args, "output"), command, parent);
	if (cli_value(args, "output"))
		return cli_usage_error(cli, "--output goes with --man");
	return help_print(cli, command, parent);
}

int cmd_man(struct cli *cli, const struct cli_args *args)
{
	const struct cli_command *command = NULL, *parent = NULL;
	struct err err = { 0 };

	if (find(args, &command, &parent, &err) < 0)
		return cli_fail(cli, &err);
	return give_man(cli, cli_value(args, "output"), command, parent);
}

int cmd_completion(struct cli *cli, const struct cli_args *args)
{
	struct str script = { 0 };

	help_add_completion(&script, cli_operand(args, 0));
	return print(cli, &script);
}

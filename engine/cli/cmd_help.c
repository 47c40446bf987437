/* `cairn help` and `cairn completion`: what the table says. */
#include "base/text.h"
#include "cli/help.h"

static int find(const struct cli_args *args, const struct cli_command **ret, const struct cli_command **ret_parent, struct err *err)
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
			return err_set(err, ERR_USAGE, "there is no command `%s`%s", args->operands[i], m.s ? m.s : "");
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

int cmd_help(struct cli *cli, const struct cli_args *args)
{
	const struct cli_command *command = NULL, *parent = NULL;
	struct str page = { 0 };
	struct err err = { 0 };

	if (find(args, &command, &parent, &err) < 0)
		return cli_fail(cli, &err);
	if (!cli_flag(args, "man"))
		return help_print(cli, command, parent);
	if (command)
		man_add(&page, command, parent);
	else
		man_add_all(&page);
	return print(cli, &page);
}

int cmd_completion(struct cli *cli, const struct cli_args *args)
{
	struct str script = { 0 };

	completion_add(&script, cli_operand(args, 0));
	return print(cli, &script);
}

/* `cairn step`: executes the program of the built-in steps. */
#include <errno.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/help/help.h"
#include "steps/all.h"

int cmd_step(struct cli *cli, const struct cli_args *args)
{
	const char *program = cli_steps_program(cli);
	const char **argv = xcalloc(args->n_operands + 2, sizeof(*argv));
	struct err err = { 0 };

	if (args->n_operands &&
	    (str_eq(args->operands[0], "--help") || str_eq(args->operands[0], "-h"))) {
		free(argv);
		return help_print(cli, args->command, args->parent);
	}
	argv[0] = program;
	for (size_t i = 0; i < args->n_operands; i++)
		argv[i + 1] = args->operands[i];
#ifdef CAIRN_STATIC
	return steps_main((int)args->n_operands + 1, (char **)argv);
#endif
	execv(program, (char *const *)argv);
	err_errno(&err,
		  "cannot run %s, the program of the built-in steps, which belongs beside cairn",
		  program);
	free(argv);
	return cli_fail(cli, &err);
}

/* engine/cli/help/cmd_import.c — `cairn import`: starts the importer, which is Python.
 *
 * Pipelines of other tools are read by their own parsers where those are, so the importer is a part
 * of the package `cairn` (python/). This process becomes python3. Its answers, errors and exit
 * codes have the forms of all commands. Where the package is missing, python3 says how to get it:
 * only it knows where it looks. It checks the pipeline that it wrote with this program.
 */
#include <stdlib.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/process/command.h"
#include "cli/cli.h"
#include "cli/options.h"

static const char start[] =
	"import json, sys\n"
	"try:\n"
	"    from cairn.importer.__main__ import main\n"
	"except ImportError:\n"
	"    message = 'the importer is a part of the Python package, which ' + sys.executable + "
	"' does not have'\n"
	"    hint = sys.executable + \" -m pip install 'cairn-engine[import]'\"\n"
	"    error = dict(severity='error', message=message, hint=hint, file=None, line=None, "
	"column=None)\n"
	"    print(json.dumps(dict(schema='cairn.error/1', errors=[error], warnings=[], exit=4))\n"
	"          if '--json' in sys.argv else 'cairn: ' + message + ': ' + hint, "
	"file=sys.stderr)\n"
	"    sys.exit(4)\n"
	"sys.exit(main())\n";

int cmd_import(struct cli *cli, const struct cli_args *args)
{
	static const char *const values[] = { "output", "format" };
	static const char *const flags[] = { "replace", "no-data" };
	const char *argv[16] = { "python3", "-c", start };
	_cleanup_(freep) char *self = command_self();
	struct err err = { 0 };
	size_t n = 3;

	for (size_t i = 0; i < ARRAY_LEN(values); i++)
		if (cli_value(args, values[i]))
			argv[n++] = xasprintf("--%s=%s", values[i], cli_value(args, values[i]));
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (cli_flag(args, flags[i]))
			argv[n++] = xasprintf("--%s", flags[i]);
	if (cli->json)
		argv[n++] = "--json";
	argv[n++] = "--";
	argv[n++] = args->operands[0];
	if (self)
		setenv("CAIRN_BINARY", self, 0);
	execvp(argv[0], (char *const *)argv);
	err_errno(&err, "cannot start python3, which `cairn import` needs");
	return cli_fail(cli, &err);
}

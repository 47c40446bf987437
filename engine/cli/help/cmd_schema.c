/* `cairn schema`: the JSON Schema of pipeline files, for editors and other programs. */
#include "cli/cli.h"
#include "cli/help/templates.h"

int cmd_schema(struct cli *cli, const struct cli_args *args)
{
	for (const struct embedded_file *f = init_files; f->path; f++)
		if (str_eq(f->path, "schema.json"))
			fwrite(f->bytes, 1, f->size, cli->out);
	return CLI_OK;
}

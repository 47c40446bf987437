/* `cairn graph`. */
#include <string.h>
#include "cli/graph/graph.h"

enum format { FORMAT_TEXT, FORMAT_DOT, FORMAT_MERMAID, FORMAT_SVG };

/* The value of --format, else the format for the file's suffix. */
static enum format format_of(const struct cli_args *args)
{
	static const struct {
		const char *name, *suffix, *other;
		enum format format;
	} known[] = { { "text", ".txt", ".txt", FORMAT_TEXT },
		      { "dot", ".dot", ".gv", FORMAT_DOT },
		      { "mermaid", ".mmd", ".mermaid", FORMAT_MERMAID },
		      { "svg", ".svg", ".svg", FORMAT_SVG } };
	const char *format = cli_value(args, "format"), *file = cli_value(args, "output");

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (format ? strcmp(format, known[i].name) == 0
			   : file && (str_has_suffix(file, known[i].suffix) ||
				      str_has_suffix(file, known[i].other)))
			return known[i].format;
	return FORMAT_TEXT;
}

static void draw(struct cli *cli, const struct graph *g, enum format format, bool to_file,
		 struct str *out)
{
	struct graph_text_options o = { .columns = 100,
					.color = cli->color_out && !to_file,
					.utf8 = cli->utf8 || to_file };
	unsigned lines;

	switch (format) {
	case FORMAT_TEXT:
		if (cli->tty_out && !to_file)
			cli_terminal_size(cli->out, &o.columns, &lines);
		graph_add_text(g, &o, out);
		break;
	case FORMAT_DOT:
		graph_add_dot(g, out);
		break;
	case FORMAT_MERMAID:
		graph_add_mermaid(g, out);
		break;
	case FORMAT_SVG:
		graph_add_svg(g, out);
		break;
	}
}

int cmd_graph(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	_cleanup_(str_deinit) struct str out = { 0 };
	const char *file = cli_value(args, "output");
	struct err err = { 0 };
	struct graph g;

	if (cli->json && (cli_value(args, "format") || cli_value(args, "output")))
		return cli_usage_error(cli, "--json is a format of its own and goes to standard "
					    "output: leave out --format and -o");
	if (cli_pipeline(cli, cli_operand(args, 0), &p, &err) < 0 ||
	    graph_from_pipeline(p, cli_flag(args, "tasks"), cli->arena, &g, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json(cli, "cairn.graph/1", graph_json(&g));
		return CLI_OK;
	}
	if (!file)
		file = "-";
	draw(cli, &g, format_of(args), !str_eq(file, "-"), &out);
	return cli_write_to(cli, file, &out, &err) < 0 ? cli_fail(cli, &err) : CLI_OK;
}

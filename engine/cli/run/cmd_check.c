/* `cairn check`: everything that is wrong with pipeline files, at once. */
#include <string.h>
#include "base/os/fs.h"
#include "cli/cli.h"
#include "cli/run/preflight.h"
#include "run/uses/uses.h"

struct check {
	struct cli *cli;
	json_t *files; /* or NULL */
	int code;
};

static void add_json(struct check *c, const char *path, const struct pipeline *p,
		     struct diag_list *diags, const struct err *err)
{
	json_t *file = json_pack("{s:o, s:b}", "path", json_name(path, strlen(path)), "valid",
				 p != NULL),
	       *problems = json_array();
	size_t n = diag_len(diags);

	if (p) {
		json_object_set_new(file, "pipeline", json_string(p->name));
		json_object_set_new(file, "steps", json_integer((json_int_t)p->n_steps));
	}
	for (size_t i = 0; i < n; i++)
		json_array_append_new(problems, cli_finding(diag_at(diags, i)));
	if (!p && !n) { /* the error isn't about the file's content */
		struct diag d = { path, 0, 0, DIAG_ERROR, err->msg };
		json_array_append_new(problems, cli_finding(&d));
	}
	json_object_set_new(file, "problems", problems);
	json_array_append_new(c->files, file);
}

static void say(struct check *c, const char *path, const struct pipeline *p,
		struct diag_list *diags, const struct err *err)
{
	struct cli *cli = c->cli;

	cli_print_diags(cli, diags);
	if (!p) {
		if (diag_errors(diags) != 1) /* the message already holds a single error */
			cli_fail(cli, err);
		return;
	}
	if (cli->verbosity < 0)
		return;
	cli_printf(cli, "%s: %svalid%s, pipeline %s with %zu step%s", cli_text(cli, path),
		   cli_style(cli, STYLE_GREEN), cli_style(cli, STYLE_PLAIN), p->name, p->n_steps,
		   p->n_steps == 1 ? "" : "s");
	if (diag_warnings(diags))
		cli_printf(cli, ", %zu warning%s", diag_warnings(diags),
			   diag_warnings(diags) == 1 ? "" : "s");
	cli_printf(cli, "\n");
}

/* A file outside of every project is checked alone: what lies around it is nobody's. */
static void check_file(struct check *c, const struct config *config, const char *path)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	_cleanup_(freep) char *cwd = getcwd(NULL, 0), *whole = fs_join(cwd ? cwd : "/", path),
			      *dir = fs_dirname(whole);
	bool in_project = config && fs_is_inside(config->project_root, whole);
	struct pipeline_load_options o = {
		.project_root = in_project ? config->project_root : dir
	}; /* no cache: the file itself must be checked */
	struct err err = { 0 };
	struct uses uses;
	int r;

	if (in_project)
		cli_uses(c->cli, config, &uses, &o);
	r = pipeline_load(path, &o, diags, &p, &err);

	if (r == 0 && in_project)
		preflight_check(config, p, diags);
	if (r == 0 && diag_errors(diags)) {
		pipeline_free(p);
		p = NULL;
		r = diag_to_err(diags, path, &err);
	}
	if (r < 0)
		c->code = err.code == ERR_NOT_FOUND || err_exit_code(&err) == CLI_INVALID
				  ? CLI_INVALID
				  : err_exit_code(&err);
	if (c->files)
		add_json(c, path, p, diags, &err);
	else
		say(c, path, p, diags, &err);
}

int cmd_check(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(freep) char *root = NULL;
	struct check c = { .cli = cli };
	const struct config *config = NULL;
	struct err err = { 0 };

	if ((fs_find_project_root(".", &root, &err) == 0 || err.code != ERR_NOT_FOUND) &&
	    cli_config(cli, &config, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json)
		c.files = json_array();
	for (size_t i = 0; i < args->n_operands; i++)
		check_file(&c, config, args->operands[i]);
	if (args->n_operands == 0)
		check_file(&c, config, "pipeline.yaml");
	if (c.files)
		cli_print_json(cli, "cairn.check/1", json_pack("{s:o}", "files", c.files));
	return c.code;
}

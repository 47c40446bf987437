/* Loads one pipeline and prints what is wrong with it: for tests/unit/model/schema_parity. Exit
 * status: 0 valid, 3 not, 4 unreadable. usage: model_check PIPELINE.yaml [PROJECT_ROOT [CACHE_DIR]]
 *        model_check --config DIR	the same for DIR/cairn.yaml */
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "model/config/config.h"
#include "model/pipeline.h"

int main(int argc, char **argv)
{
	_cleanup_(freep) char *uses = fs_join(argc > 2 ? argv[2] : ".", "uses");
	struct pipeline_load_options o = { .project_root = argc > 2 ? argv[2] : ".",
					   .uses_dir = uses,
					   .cache_dir = argc > 3 ? argv[3] : NULL };
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	struct str text = { 0 };
	struct err err = { 0 };
	struct config *c = NULL;
	int r;

	if (argc < 2)
		return 2;
	r = strcmp(argv[1], "--config") == 0 && argc > 2
		    ? config_load(argv[2], diags, &c, &err)
		    : pipeline_load(argv[1], &o, diags, &p, &err);
	config_free(c);
	diag_render(diags, &text);
	fputs(text.s ? text.s : "", stdout);
	if (r < 0 && diag_len(diags) == 0)
		printf("%s\n", err.msg);
	str_deinit(&text);
	return r < 0 ? err_exit_code(&err) : 0;
}

/* What the row of a run says of what is run. */
#include "base/os/fs.h"
#include "run/internal.h"

int row_describe(const struct run_context *ctx, const struct pipeline *p,
		 const struct value *params, const struct run_options *o, struct arena *arena,
		 struct run_row *row, struct err *err)
{
	_cleanup_(freep) char *real = realpath(p->path, NULL);
	_cleanup_(freep) char *rel = real ? fs_relative(ctx->config->project_root, real) : NULL;
	struct run_options asked = *o;

	asked.salt = ctx->config->salt;
	row->pipeline = p->name;
	row->path = arena_strdup(arena, rel ? rel : p->path);
	row->params_json = params_to_json(p, params, arena);
	row->options_json = options_to_json(&asked, arena);
	return pipeline_files_store(p, ctx->config->project_root, ctx->store, &row->pipeline_blob,
				    err);
}

void row_add_git(struct run_row *row, struct git_look *look, struct arena *arena)
{
	struct git_facts git;

	git_look_end(look, arena, &git);
	row->git.commit = git.commit;
	row->git.dirty = git.dirty;
	row->git.remote = git.remote;
	row->git.submodules = git.submodules_json;
}

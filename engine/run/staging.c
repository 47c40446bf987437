#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include "base/fs.h"
#include "base/mem.h"
#include "run/staging.h"

/* Code is laid out writable: it is this attempt's own copy, and programs write caches beside it. */
static int lay_out_code(struct store *s, const struct content_id *tree, int dir_fd, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;

	if (tree_load(s, tree, &t, err) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++) {
		const struct tree_entry *e = tree_at(t, i);
		int r = e->kind == TREE_SYMLINK ? symlinkat(e->target, dir_fd, e->name) :
						  content_materialise_at(s, &e->id, e->kind == TREE_EXECUTABLE, CONTENT_COPY_WRITABLE, dir_fd, e->name, err);

		if (r < 0)
			return e->kind == TREE_SYMLINK ? err_errno(err, "cannot make %s", e->name) : -1;
	}
	return 0;
}

static int make_parents(int dir_fd, const char *path, bool itself, struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(path);

	if (itself)
		return fs_mkdir_p_at(dir_fd, path, 0777, err);
	return str_eq(parent, ".") ? 0 : fs_mkdir_p_at(dir_fd, parent, 0777, err);
}

static int prepare(void *arg, const struct runner_attempt *a, int dir_fd, struct err *err)
{
	struct store *s = arg;

	if (a->code && lay_out_code(s, a->code, dir_fd, err) < 0)
		return err_wrap(err, "laying out the code");
	for (size_t i = 0; i < a->n_inputs; i++)
		if (make_parents(dir_fd, a->inputs[i].path, false, err) < 0 ||
		    content_materialise_at(s, &a->inputs[i].id, false, CONTENT_LINK_READONLY, dir_fd, a->inputs[i].path, err) < 0)
			return err_wrap(err, "bringing input `%s`", a->inputs[i].name);
	for (size_t i = 0; i < a->n_outputs; i++)
		if (make_parents(dir_fd, a->outputs[i].path, a->outputs[i].is_dir, err) < 0)
			return err_wrap(err, "making room for output `%s`", a->outputs[i].name);
	if (a->metrics_path && make_parents(dir_fd, a->metrics_path, false, err) < 0)
		return err_wrap(err, "making room for the metrics file");
	return 0;
}

static int collect_one(struct store *s, const struct runner_output *o, int dir_fd, struct content_id *ret, struct err *err)
{
	const struct content_put_options options = { .flags = CONTENT_PUT_MOVE };
	struct stat st;

	if (fstatat(dir_fd, o->path, &st, 0) < 0) {
		if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)
			return err_set(err, ERR_NOT_FOUND, "the command ended well but did not make its output `%s` (%s%s)", o->name, o->path,
				       o->is_dir ? "/" : "");
		return err_errno(err, "cannot read output `%s`", o->name);
	}
	if (S_ISDIR(st.st_mode) != o->is_dir)
		return err_set(err, ERR_INVALID, "output `%s` (%s) is a %s; declare it %s a trailing slash", o->name, o->path,
			       o->is_dir ? "file" : "directory", o->is_dir ? "without" : "with");
	if (content_put_at(s, dir_fd, o->path, &options, ret, err) < 0)
		return err_wrap(err, "keeping output `%s`", o->name);
	return 0;
}

static int collect(void *arg, const struct runner_attempt *a, int dir_fd, struct content_id *ret_ids, struct err *err)
{
	for (size_t i = 0; i < a->n_outputs; i++)
		if (collect_one(arg, &a->outputs[i], dir_fd, &ret_ids[i], err) < 0)
			return -1;
	return 0;
}

static int put_log(void *arg, int fd, struct content_id *ret, struct err *err)
{
	return content_put_fd(arg, fd, ret, err);
}

struct runner_staging staging_of(struct store *store)
{
	return (struct runner_staging){ .prepare = prepare, .collect = collect, .put_log = put_log, .arg = store };
}

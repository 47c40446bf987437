/* engine/run/task/staging.c — gives runners access to the store, as a table of functions (struct
 * runner_staging).
 *
 * prepare() lays out code as a writable copy and inputs read-only, and makes the directories of
 * outputs. Large inputs are links to the store's files, or views that the runner mounts, where the
 * runner wants that. collect() checks each output
 * (look_at()) and moves it into the store. For remote runners, publish() stores what a pod will
 * read; it returns only when pods can reach that and all inputs of the attempt. fetch() reads a
 * pod's results.
 *
 * Invariants: a program controls the working directory and may be hostile: no path is followed out
 * of dir_fd. A directory or link that stands in the way is an error, never followed outside.
 * staging_collect_hostile() copies instead of moving, because the program may still hold its files
 * open.
 *
 * Threads: any, several at once; the only state is the store, which has its own locks. Not here:
 * making workspaces or running programs (runners/), deciding what is staged
 * (run/task/attempt.c).
 */
#include "run/task/staging.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "storage/checkpoint.h"
#include "storage/content/view.h"

/* Code is writable: it is this attempt's own copy, and programs write caches beside it. */
static int lay_out_code(struct store *s, const struct content_id *tree, int dir_fd, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;

	if (tree_load(s, tree, &t, err) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++) {
		const struct tree_entry *e = tree_at(t, i);
		int r = e->kind == TREE_SYMLINK
				? symlinkat(e->target, dir_fd, e->name)
				: content_materialise_at(s, &e->id, CONTENT_COPY_WORKSPACE, dir_fd,
							 e->name, err);

		if (r < 0)
			return e->kind == TREE_SYMLINK ? err_errno(err, "cannot make %s", e->name)
						       : -1;
	}
	return 0;
}

/* A link in the code may point to a directory of the workspace, but not out of it. */
static int make_place(int dir_fd, const char *path, bool itself, mode_t mode, struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(path);
	const char *dir = itself ? path : parent;
	_cleanup_(fd_closep) int fd = fs_open_beneath(dir_fd, dir, O_PATH | O_DIRECTORY, true);

	if (fd < 0)
		fd = fs_make_beneath(dir_fd, dir, mode, err);
	return fd < 0 ? -1 : 0;
}

int staging_make_places(const struct runner_attempt *a, int dir_fd, mode_t mode, struct err *err)
{
	for (size_t i = 0; i < a->n_outputs; i++)
		if (make_place(dir_fd, a->outputs[i].path, a->outputs[i].is_dir, mode, err) < 0)
			return err_wrap(err, "making room for output `%s`", a->outputs[i].name);
	if (a->metrics_path && make_place(dir_fd, a->metrics_path, false, mode, err) < 0)
		return err_wrap(err, "making room for the metrics file");
	return 0;
}

/* No new names can be made beside inputs that are links. So a future file there starts as a link to
 * a place where it can be made. Only for files that are pure bytes: `cp` refuses to write through
 * such a link, so as not to lose a mode. */
static int lead_away(const char *path, int dir_fd, struct err *err)
{
	_cleanup_(freep) char *to = NULL;
	_cleanup_(fd_closep) int fd = -1;

	if (!path || strchr(path, '/'))
		return 0;
	to = xasprintf(".cairn/files/%s", path);
	fd = fs_make_beneath(dir_fd, ".cairn/files", 0777 & ~RUNNER_UMASK, err);
	if (fd < 0)
		return -1;
	return symlinkat(to, dir_fd, path) < 0 && errno != EEXIST
		       ? err_errno(err, "cannot make %s", path)
		       : 0;
}

/* All of them together. */
static bool are_large(struct store *s, const struct runner_attempt *a, uint64_t from, int *ret_r,
		      struct err *err)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < a->n_inputs && *ret_r == 0; i++)
		if (content_weigh(s, &a->inputs[i].id, from, &bytes, err) < 0)
			*ret_r = err_wrap(err, "looking at input `%s`", a->inputs[i].name);
	return a->n_inputs && bytes >= from;
}

static void close_views(struct runner_placing *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		close(p->views[i].fd);
	free(p->views);
	p->views = NULL;
}

static int take_views(struct store *s, const struct runner_attempt *a, struct runner_placing *p,
		      struct err *err)
{
	struct err why = { 0 };

	p->views = xcalloc(a->n_inputs + 1, sizeof(*p->views));
	for (size_t i = 0; i < a->n_inputs; i++) {
		_cleanup_(freep) char *path = fs_join(p->prefix, a->inputs[i].path);
		struct view v;

		if (view_take(s, &a->inputs[i].id, path, &v, &why) < 0) {
			close_views(p, i);
			if (p->or_copies &&
			    (why.code == ERR_UNSUPPORTED || why.code == ERR_READ_ONLY)) {
				p->did = RUNNER_PLACE_COPIES;
				return 0;
			}
			err_pass(err, &why);
			return err_wrap(err, "bringing input `%s`", a->inputs[i].name);
		}
		p->views[i].fd = v.fd;
		memcpy(p->views[i].name, v.name, sizeof(p->views[i].name));
	}
	return 0;
}

/* A view appears where nothing may be in its way, such as a file of the code. */
static int make_way(const char *path, int dir_fd, struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(path);
	_cleanup_(fd_closep) int fd = fs_make_beneath(dir_fd, parent, 0755, err);
	struct stat st;

	if (fd < 0)
		return -1;
	return fstatat(fd, fs_basename(path), &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT
		       ? 0
		       : err_set(err, ERR_EXISTS, "%s exists already", path);
}

/* The file is there, from an attempt before. */
static int write_over(struct store *s, const struct runner_input *in, int dir_fd, struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(in->path);
	_cleanup_(fd_closep) int fd = fs_make_beneath(dir_fd, parent, 0755, err);

	return fd < 0 ? -1
		      : content_fill_at(s, &in->id, CONTENT_LINK_READONLY, fd,
					fs_basename(in->path), err);
}

static int place_input(struct store *s, const struct runner_input *in, enum runner_place how,
		       int dir_fd, struct err *err)
{
	if (how == RUNNER_PLACE_VIEWS)
		return make_way(in->path, dir_fd, err);
	return content_materialise_beneath(
		s, &in->id, how == RUNNER_PLACE_LINKS ? CONTENT_HARD_LINK : CONTENT_LINK_READONLY,
		dir_fd, in->path, err);
}

static int prepare(void *arg, const struct runner_attempt *a, int dir_fd, struct runner_placing *p,
		   struct err *err)
{
	struct store *s = arg;
	int r = 0;

	static_assert(sizeof(p->views->name) == VIEW_NAME_MAX, "a name fits");
	p->did = p->want != RUNNER_PLACE_COPIES && are_large(s, a, p->from, &r, err)
			 ? p->want
			 : RUNNER_PLACE_COPIES;
	if (r < 0 || p->did == RUNNER_PLACE_ASK)
		return r;
	if (p->did == RUNNER_PLACE_VIEWS && take_views(s, a, p, err) < 0)
		return -1;
	r = a->code ? lay_out_code(s, a->code, dir_fd, err) : 0;
	if (r < 0)
		err_wrap(err, "laying out the code");
	for (size_t i = 0; i < a->n_inputs && r == 0; i++) {
		r = p->spares ? write_over(s, &a->inputs[i], dir_fd, err)
			      : place_input(s, &a->inputs[i], p->did, dir_fd, err);
		if (r < 0)
			err_wrap(err, "bringing input `%s`", a->inputs[i].name);
	}
	if (r == 0)
		r = staging_make_places(a, dir_fd, 0777 & ~RUNNER_UMASK, err);
	if (r == 0 && p->did == RUNNER_PLACE_LINKS &&
	    (lead_away(a->metrics_path, dir_fd, err) < 0 ||
	     lead_away(a->series_path, dir_fd, err) < 0))
		r = -1;
	if (r < 0 && p->views)
		close_views(p, a->n_inputs);
	return r;
}

/* Names of the program's own choice, so both have a limit. */
#define THERE_MAX 64
#define NAMED_MAX 6

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Adds what stands where the output should be, to tell a wrong name. An overlay's mark of a removed
 * file is a device. */
static void add_what_is_there(struct str *out, const struct runner_output *o, int dir_fd)
{
	_cleanup_(freep) char *parent = fs_dirname(o->path);
	_cleanup_(closedirp) DIR *dir =
		fs_list(fs_open_beneath(dir_fd, parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC, false));
	const char *names[THERE_MAX], *base = fs_basename(o->path);
	struct dirent *e;
	size_t n = 0;

	if (!dir)
		return;
	while (n < THERE_MAX && fs_next(dir, parent, &e, NULL) == 1)
		if (e->d_name[0] != '.' && e->d_type != DT_CHR && !str_eq(e->d_name, "inputs"))
			names[n++] = xstrdup(e->d_name);
	qsort(names, n, sizeof(*names), by_text);
	str_add(out, n ? "; there are " : "; nothing is there");
	text_add_names(out, names, n, NAMED_MAX);
	text_add_suggestion(out, base, names, n);
	for (size_t i = 0; i < n; i++)
		free((char *)names[i]);
}

/* An output may be a link as long as it stays in the working directory. A target outside isn't even
 * looked at. */
static int look_at(const struct runner_output *o, int dir_fd, struct err *err)
{
	_cleanup_(fd_closep) int fd = fs_open_beneath(dir_fd, o->path, O_PATH, true);
	_cleanup_(str_deinit) struct str there = { 0 };
	struct stat st;

	/* An overlay leaves such a device where a file was removed. */
	if (fd < 0 ? errno == ENOENT || errno == ENOTDIR
		   : fstat(fd, &st) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0) {
		add_what_is_there(&there, o, dir_fd);
		return err_set(err, ERR_NOT_FOUND,
			       "the command ended well but did not make its output `%s` (%s%s)%s",
			       o->name, o->path, o->is_dir ? "/" : "", there.s ? there.s : "");
	}
	if (fd < 0 && (errno == EXDEV || errno == ELOOP))
		return err_set(err, ERR_INVALID,
			       "output `%s` (%s) is a symbolic link that leads out of the working "
			       "directory, or to itself; put a copy of what it points to there",
			       o->name, o->path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read output `%s`", o->name);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID,
			       "output `%s` (%s) is neither a file nor a directory", o->name,
			       o->path);
	if (S_ISDIR(st.st_mode) != o->is_dir)
		return err_set(err, ERR_INVALID,
			       "output `%s` (%s) is a %s; declare it %s a trailing slash", o->name,
			       o->path, o->is_dir ? "file" : "directory",
			       o->is_dir ? "without" : "with");
	return 0;
}

static int collect_all(struct store *s, const struct runner_attempt *a, int dir_fd, int flags,
		       struct content_id *ret_ids, struct err *err)
{
	const struct content_put_options options = { .flags = flags };

	for (size_t i = 0; i < a->n_outputs; i++) {
		const struct runner_output *o = &a->outputs[i];

		if (look_at(o, dir_fd, err) < 0)
			return -1;
		if (content_put_at(s, dir_fd, o->path, &options, &ret_ids[i], err) < 0)
			return err_wrap(err, "keeping output `%s`", o->name);
	}
	return 0;
}

/* The mounts are gone. An output that is a link to an input needs that input again. */
static int bring_linked_inputs(struct store *s, const struct runner_attempt *a, int dir_fd,
			       struct err *err)
{
	bool dangling = false;
	struct stat st;

	for (size_t i = 0; i < a->n_outputs && !dangling; i++) {
		_cleanup_(fd_closep) int fd =
			fs_open_beneath(dir_fd, a->outputs[i].path, O_PATH, true);

		dangling = fd < 0 && errno == ENOENT;
	}
	for (size_t i = 0; i < a->n_inputs && dangling; i++) {
		const struct runner_input *in = &a->inputs[i];

		/* What the program removed has left a mark there. */
		if (fstatat(dir_fd, in->path, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
		    place_input(s, in, RUNNER_PLACE_COPIES, dir_fd, err) < 0)
			return err_wrap(err, "bringing input `%s` again", in->name);
	}
	return 0;
}

static int collect(void *arg, const struct runner_attempt *a, int dir_fd, enum runner_place did,
		   struct content_id *ret_ids, struct err *err)
{
	if (content_check_linked(arg, err) < 0)
		return err_wrap(err, "an input of the project");
	if (did == RUNNER_PLACE_VIEWS && bring_linked_inputs(arg, a, dir_fd, err) < 0)
		return -1;
	return collect_all(arg, a, dir_fd, CONTENT_PUT_MOVE, ret_ids, err);
}

int staging_collect_hostile(struct store *store, const struct runner_attempt *a, int dir_fd,
			    struct content_id *ret_ids, struct err *err)
{
	return collect_all(store, a, dir_fd, CONTENT_PUT_BENEATH, ret_ids, err);
}

static int put_log(void *arg, int fd, struct content_id *ret, struct err *err)
{
	return content_put_fd(arg, fd, ret, err);
}

/* For remote runners. */

struct needs {
	VEC(struct content_id) ids;
	VEC(char *) names; /* for people */
};

static void need(struct needs *n, const struct content_id *id, char *name)
{
	VEC_PUSH(&n->ids, *id);
	VEC_PUSH(&n->names, name);
}

static const char *first_missing(const struct needs *n, const bool *there)
{
	for (size_t i = 0; i < n->ids.n; i++)
		if (!there[i])
			return n->names.v[i];
	return NULL;
}

/* A pod's results may be in the store since this process last looked, so look again. */
static int check_complete(struct store *s, const struct needs *n, struct err *err)
{
	_cleanup_(freep) bool *there = xcalloc(n->ids.n + 1, sizeof(*there));
	const char *what;

	if (content_complete(s, n->ids.v, n->ids.n, there, err) < 0)
		return -1;
	if (!first_missing(n, there))
		return 0;
	if (store_refresh(s, STORE_ACTION, NULL, 0, err) < 0 ||
	    content_complete(s, n->ids.v, n->ids.n, there, err) < 0)
		return -1;
	what = first_missing(n, there);
	return what ? err_set(err, ERR_NOT_FOUND, "%s is gone from the store %s", what,
			      store_uri(s))
		    : 0;
}

static int publish(void *arg, const struct runner_attempt *const *attempts, size_t n,
		   const void *bytes, size_t n_bytes, struct content_id *ret, struct err *err)
{
	struct needs needs = { 0 };
	struct err why = { 0 };
	int r;

	for (size_t i = 0; i < n; i++) {
		const struct runner_attempt *a = attempts[i];

		if (a->code)
			need(&needs, a->code, xasprintf("the code of %s", a->task));
		for (size_t k = 0; k < a->n_inputs; k++)
			need(&needs, &a->inputs[k].id,
			     xasprintf("input `%s` of %s", a->inputs[k].name, a->task));
	}

	r = content_put_bytes(arg, bytes, n_bytes, ret, err);
	if (r == 0)
		r = check_complete(arg, &needs, err);
	for (size_t i = 0; i < needs.names.n; i++)
		free(needs.names.v[i]);
	VEC_FREE(&needs.names);
	VEC_FREE(&needs.ids);
	if (r < 0 || store_sync(arg, err) < 0)
		return err_wrap(err, "copying it to the store that pods use");
	return store_unsent(arg, &why)
		       ? err_set(err, ERR_IO, "copying it to the store that pods use: %s", why.msg)
		       : 0;
}

static int fetch(void *arg, const struct content_id *id, uint64_t max, struct str *ret,
		 struct err *err)
{
	if (!content_is_file(id) || id->size_bytes > max)
		return err_set(err, ERR_TOO_LARGE, "it has %llu bytes, more than %llu",
			       (unsigned long long)id->size_bytes, (unsigned long long)max);
	if (store_refresh(arg, STORE_ACTION, NULL, 0, err) < 0)
		return -1;
	return content_read(arg, id, max, ret, err);
}

static int takes(void *arg, const struct content_id *id, uint64_t bytes, bool *ret, struct err *err)
{
	return content_takes(arg, id, bytes, ret, err);
}

static int drop_checkpoint(void *arg, const struct digest *key, struct err *err)
{
	return checkpoint_forget(arg, key, err);
}

struct runner_staging staging_of(struct store *store)
{
	return (struct runner_staging){ .prepare = prepare,
					.collect = collect,
					.put_log = put_log,
					.publish = publish,
					.fetch = fetch,
					.takes = takes,
					.drop_checkpoint = drop_checkpoint,
					.arg = store };
}

/* runners/mounts.c — the plan of an attempt's mounts, and the trial whether such mounts work here.
 *
 * One overlay covers the directory of the attempt: views are its lower layers, WORKSPACE_UPPER is
 * the upper one, and w/ and tmp/ are seen where they would be otherwise. One overlay, not a mount
 * for each input, so that a program can rename, link and remove what is in it. After it the store
 * is made read-only; its views stay visible through the overlay only.
 *
 * An attempt's views are locked through its struct mounts, so that no collection removes them. The
 * trial does the same in the trash of this process, with a view of one file.
 *
 * Any thread may make and free a struct mounts; it belongs to one attempt.
 */
#include "runners/mounts.h"
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/process/process.h"

struct mounts {
	struct namespace_mounts plan;
	struct runner_view *views;
	size_t n;
	char *dir, *layers;
	struct str options;
	char *read_only[3]; /* the store, its blobs if they are elsewhere, NULL */
};

void mounts_free(struct mounts *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n; i++)
		close(m->views[i].fd);
	free(m->views);
	free(m->dir);
	free(m->layers);
	free(m->read_only[0]);
	free(m->read_only[1]);
	str_deinit(&m->options);
	free(m);
}

const struct namespace_mounts *mounts_plan(const struct mounts *m)
{
	return &m->plan;
}

bool mounts_fit(const struct runner_attempt *a)
{
	for (size_t i = 0; i < a->n_outputs; i++)
		if (str_eq(a->outputs[i].path, "."))
			return false;
	return a->n_inputs <= MOUNTS_VIEWS_MAX;
}

/* Takes over the views. A later lower directory would lie below an earlier one, but no two have the
 * same file. */
static struct mounts *plan(const char *store_dir, const char *dir, struct runner_view *views,
			   size_t n)
{
	struct mounts *m = xcalloc(1, sizeof(*m));
	_cleanup_(freep) char *blobs = fs_join(store_dir, "blobs"), *real = realpath(blobs, NULL);

	assert(n > 0 && n <= MOUNTS_VIEWS_MAX);
	m->views = views;
	m->n = n;
	m->dir = xstrdup(dir);
	m->layers = fs_join(store_dir, "views");
	m->read_only[0] = realpath(store_dir, NULL);
	if (m->read_only[0] && real && !fs_is_inside(m->read_only[0], real))
		m->read_only[1] = TAKE_PTR(real);
	str_add(&m->options, "lowerdir=");
	for (size_t i = 0; i < n; i++)
		str_addf(&m->options, "%s%s", i ? ":" : "", views[i].name);
	/* Without `volatile` the end of a step, and each first write to an input, would wait until
	 * the whole file system is written back, whoever wrote to it. What lasts is made durable
	 * when it is in the store. */
	str_addf(&m->options,
		 ",upperdir=/proc/self/fd/%d/%s,workdir=/proc/self/fd/%d/%s,userxattr,volatile",
		 views[0].fd, WORKSPACE_UPPER, views[0].fd, WORKSPACE_WORK);
	assert(m->options.len < NAMESPACE_OPTIONS_MAX);
	m->plan = (struct namespace_mounts){ .dir = m->dir,
					     .dir_number = views[0].fd,
					     .layers = m->layers,
					     .options = m->options.s,
					     .read_only = (const char *const *)m->read_only };
	return m;
}

int mounts_make(const char *store_dir, struct workspace *w, struct runner_view *views, size_t n,
		struct mounts **ret, struct err *err)
{
	*ret = plan(store_dir, w->dir, views, n);
	return workspace_split(w, err);
}

/* The trial. */

static int make_probe(const char *blobs, const char *dir, struct err *err)
{
	static const char *const below[] = { "view", "view/w", WORKSPACE_UPPER, WORKSPACE_WORK };
	_cleanup_(freep) char *file = fs_join(blobs, "probe"), *name = NULL,
			      *to = fs_join(dir, "view/w/probe");
	_cleanup_(fd_closep) int fd = -1;
	int r = 0;

	for (size_t i = 0; i < ARRAY_LEN(below); i++) {
		_cleanup_(freep) char *path = fs_join(dir, below[i]);

		if (fs_mkdir_p(path, err) < 0)
			return -1;
	}
	if (fs_temp_at(AT_FDCWD, file, 0644, &fd, &name, err) < 0)
		return -1;
	r = fs_write_all(fd, "x", 1, err);
	if (r == 0 && link(name, to) < 0)
		r = errno == EXDEV ? err_set(err, ERR_UNSUPPORTED,
					     "the store's blobs and its views are on different "
					     "file systems")
				   : err_errno(err, "no hard link can be made in %s", dir);
	unlink(name);
	return r;
}

static int try_mounts(const char *store_dir, const char *dir, int users, struct err *err)
{
	_cleanup_(freep) char *blobs = fs_join(store_dir, "blobs");
	struct runner_view *views = xcalloc(1, sizeof(*views));
	struct mounts *m;
	int r;

	if (access(blobs, F_OK) < 0) { /* the store isn't made yet */
		free(blobs);
		blobs = xstrdup(dir);
	}
	snprintf(views->name, sizeof(views->name), "view");
	views->fd = make_probe(blobs, dir, err) < 0 ? -1 : open(dir, O_RDONLY | O_CLOEXEC);
	if (views->fd < 0) {
		free(views);
		return -1;
	}
	m = plan(store_dir, dir, views, 1);
	free(m->layers);
	m->plan.layers = m->layers = xstrdup(dir);
	r = namespace_try(&(struct namespace_plan){ .users = users, .mounts = &m->plan }, "w/probe",
			  err);
	mounts_free(m);
	return r;
}

int mounts_check(const char *store_dir, const char *state_dir, struct err *err)
{
	const char *network = fs_network_name(store_dir);
	_cleanup_(freep) char *work = fs_join(state_dir, "work");
	/* A dead engine's is removed as its trash (workspace.h). */
	_cleanup_(freep) char *dir =
		xasprintf("%s/trash-%d-%llu-probe", access(work, F_OK) == 0 ? work : state_dir,
			  (int)getpid(), (unsigned long long)process_start_time(getpid()));
	_cleanup_(fd_closep) int users = -1;
	int r;

	if (network)
		return err_set(err, ERR_UNSUPPORTED, "the store is on %s", network);
	if (fs_is_inside(store_dir, state_dir))
		return err_set(err, ERR_UNSUPPORTED, "the workspaces are inside the store");
	/* In a user namespace root could undo what protects the store. */
	if (geteuid() == 0 && namespace_needs_users())
		return err_set(err, ERR_UNSUPPORTED, "root may not mount here");
	r = namespace_users_new(&users, err);
	if (r == 0)
		r = try_mounts(store_dir, dir, users, err);
	fs_remove_tree(dir, NULL);
	return r;
}

/* What a program prints when the mounts stop it. */
static bool seems_stopped(const char *log_tail)
{
	static const char *const signs[] = { "ead-only file system",
					     "nvalid cross-device link",
					     "oo large for defined data type",
					     "ot a directory",
					     "sudo",
					     "newuidmap",
					     "docker",
					     "podman",
					     "container" };

	for (size_t i = 0; i < ARRAY_LEN(signs); i++)
		if (log_tail && strstr(log_tail, signs[i]))
			return true;
	return false;
}

void mounts_explain(enum failure_class failure, const char *log_tail, struct err *err)
{
	const struct err why = *err;

	if ((failure != FAILURE_OUTPUT || why.code != ERR_NOT_FOUND) && !seems_stopped(log_tail))
		return;
	err_set(err, why.code,
		"%s; its inputs are mounted: only its own processes see the workspace (no "
		"container or service), and it can't write to the store%s (`workspace: copy` "
		"gives the step copies of its own)",
		why.msg, geteuid() ? " or use sudo" : "");
}

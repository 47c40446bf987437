/* engine/pod/views.c — inputs that main mounts read-only out of the node's cache.
 *
 * 	pods/UID/      of one pod, beside the stores' parts of the cache, on the same file system
 * 	pods/UID/N     view N: a directory of hard links, a hard link, or a copy
 *
 * A view is an input of one attempt, or of several attempts of a pack that read the same content.
 * The Job's template names it (runners/kubernetes/job/views.c), so it must exist with its kind
 * before main is created. A mount holds the object, not the name: a directory is filled later and
 * stays the same. A file is a link from the beginning if the cache has it and knows it to be right.
 * Otherwise it begins as an empty file, into which the content is copied. The first pod of a node
 * that reads a file thus copies it; later ones don't.
 *
 * The sidecar can't tell which inputs are mounted before it has the specification. If it never gets
 * it, the kubelet makes what main mounts, as empty directories of root's; the program doesn't start
 * then. They are below a directory of ours, so we can remove them.
 *
 * A sidecar holds a lock on its pods/UID, and renews its time now and then. Whoever ends removes
 * its own directory, and those that nobody has locked or renewed for STALE_NS: of pods that were
 * killed. A sidecar that is started again is without its lock for as long as the kubelet waits, 5
 * minutes at most. Links keep the bytes when the cache evicts or loses its own name for them.
 *
 * Threads: the sidecar's main thread; pod_views_renew() and, instead of it, pod_views_close() on
 * the ticker's.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/file.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "pod/internal.h"
#include "storage/content/view.h"
#include "storage/local/statcache.h"

#define STALE_NS (3600 * NS_PER_S)
/* Main's container may be any user, and a server of files may take the kubelet for nobody. */
#define ON_THE_WAY 0711

static void say_why(struct pod *p, const char *what)
{
	err_errno(&p->no_views, "cannot %s %s in the node's cache", what, p->o.views_dir);
}

void pod_views_open(struct pod *p)
{
	_cleanup_(freep) char *parent = NULL;
	int r;

	if (!p->o.views_dir)
		return;
	parent = fs_dirname(p->o.views_dir);
	if (fs_mkdir_p_at(AT_FDCWD, parent, ON_THE_WAY, &p->no_views) < 0)
		return;
	r = mkdir(p->o.views_dir, ON_THE_WAY);
	if (r < 0 && errno != EEXIST) {
		say_why(p, "make");
		return;
	}
	/* What main has mounted by now can't be made again, nor is it known how far that got. */
	if (r < 0 && !p->resumed)
		err_set(&p->no_views, ERR_IO,
			"the sidecar was started again before the inputs were complete");
	p->views_fd = open(p->o.views_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (p->views_fd < 0 || flock(p->views_fd, LOCK_SH) < 0)
		say_why(p, "use");
}

void pod_views_renew(const struct pod *p)
{
	if (p->views_fd >= 0)
		(void)futimens(p->views_fd, NULL);
}

static void name_of(const struct runner_input *in, char ret[16])
{
	snprintf(ret, 16, "%u", in->view);
}

/* Which files of the cache are right. NULL: there is no cache. */
static struct statcache *open_known(const struct pod *p)
{
	_cleanup_(freep) char *path = p->cache ? fs_join(p->o.cache_dir, "known") : NULL;
	struct statcache *known = NULL;

	return path && statcache_open(path, &known, NULL) == 0 ? known : NULL;
}

static bool link_known(const struct pod *p, const struct content_id *id, const char *name)
{
	struct statcache *known = open_known(p);
	bool linked = known && view_link_at(p->cache, id, known, p->views_fd, name);

	statcache_free(known);
	return linked;
}

int pod_view_place(struct pod *p, const struct runner_input *in, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct err why = p->no_views;
	char name[16];
	int r = 0;

	assert(in->view);
	name_of(in, name);
	if (p->views_fd < 0 || why.code)
		return why.code ? err_pass(err, &why)
				: err_set(err, ERR_INVALID,
					  "this pod has no cache to mount it from");
	if (in->view <= p->view_placed)
		return 0;
	if (in->id.kind == CONTENT_TREE) {
		r = mkdirat(p->views_fd, name, 0755);
	} else if (!link_known(p, &in->id, name)) {
		fd = openat(p->views_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
			    0644);
		r = fd < 0 ? -1 : 0;
	}
	if (r < 0)
		return err_errno(err, "cannot make %s/%s", p->o.views_dir, name);
	p->view_placed = in->view;
	return 0;
}

bool pod_view_is_complete(const struct pod *p, const struct runner_input *in)
{
	char name[16];
	struct stat st;

	if (in->view <= p->view_filled)
		return true;
	name_of(in, name);
	return in->id.kind != CONTENT_TREE &&
	       fstatat(p->views_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_nlink > 1;
}

int pod_view_fill(struct pod *p, const struct runner_input *in, struct err *err)
{
	struct statcache *known = open_known(p);
	char name[16];
	int r;

	name_of(in, name);
	r = p->cache ? view_fill_at(p->cache, &in->id, known, p->views_fd, name, err)
		     : content_fill_at(p->store, &in->id, CONTENT_LINK_READONLY, p->views_fd, name,
				       err);
	if (r == 0 && known)
		(void)statcache_save(known, NULL);
	if (r == 0)
		p->view_filled = in->view;
	statcache_free(known);
	return r;
}

/* Removes the empty place of an input. *ret_fd: where it was, or -1: the program has removed that.
 */
static int remove_place(const struct pod_slot *s, const struct runner_input *in, int *ret_fd,
			struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(in->path);

	*ret_fd = fs_open_beneath(s->w_fd, parent, O_RDONLY | O_DIRECTORY, false);
	if (*ret_fd >= 0 && fs_remove_tree_at(*ret_fd, fs_basename(in->path), err) < 0)
		return err_wrap(err, "removing the place of input `%s`", in->name);
	return 0;
}

/* In main, a mount hides an input's empty place; here nothing does. So an output that leads there
 * by a link would be found empty. What is in a volume is out of reach: such a link leads nowhere.
 */
static int bring(struct pod *p, const struct pod_slot *s, const struct runner_input *in,
		 struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;

	if (remove_place(s, in, &fd, err) < 0)
		return -1;
	if (fd >= 0 && in->view &&
	    content_materialise_at(p->store, &in->id, CONTENT_LINK_READONLY, fd,
				   fs_basename(in->path), err) < 0)
		return err_wrap(err, "bringing input `%s` again", in->name);
	return 0;
}

int pod_views_bring_linked(struct pod *p, const struct pod_slot *s, struct err *err)
{
	bool by_link = false;

	for (size_t i = 0; i < s->a->n_outputs && !by_link; i++) {
		_cleanup_(fd_closep) int fd =
			fs_open_beneath(s->w_fd, s->a->outputs[i].path, O_PATH, false);
		struct stat st;

		by_link = fd < 0 ? errno == ELOOP || errno == EXDEV || errno == ENOTDIR
				 : fstat(fd, &st) == 0 && S_ISLNK(st.st_mode);
	}
	for (size_t i = 0; i < s->a->n_inputs && by_link; i++)
		if ((s->a->inputs[i].view || s->a->inputs[i].volume) &&
		    bring(p, s, &s->a->inputs[i], err) < 0)
			return -1;
	return 0;
}

/* Not a live pod's: nobody holds its lock, or renewed it lately. A lock that can't be had for
 * another reason (network file systems) tells nothing. */
static bool is_stale(int pods_fd, const char *name)
{
	_cleanup_(fd_closep) int fd =
		openat(pods_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) ||
	    fstat(fd, &st) < 0)
		return false;
	return st.st_mtim.tv_sec < clock_wall_ns() / NS_PER_S - STALE_NS / NS_PER_S;
}

void pod_views_close(struct pod *p)
{
	_cleanup_(closedirp) DIR *pods = NULL;
	_cleanup_(freep) char *parent = NULL;
	struct dirent *e;

	if (p->views_fd < 0)
		return;
	parent = fs_dirname(p->o.views_dir);
	pods = fs_list_at(AT_FDCWD, parent, O_NOFOLLOW);
	if (pods)
		(void)fs_remove_tree_at(dirfd(pods), fs_basename(p->o.views_dir), NULL);
	while (pods && fs_next(pods, "pods", &e, NULL) > 0)
		if (is_stale(dirfd(pods), e->d_name))
			(void)fs_remove_tree_at(dirfd(pods), e->d_name, NULL);
}

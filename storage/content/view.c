/* storage/content/view.c — makes, checks, finds and evicts kept views.
 *
 * 	views/BOOT/NAME/PATH        a view; NAME: the digest of what is in it and at which path
 * 	views/BOOT/.make-…          being made, or left by a crash
 * 	views/BOOT/.gone-…          being removed, likewise
 *
 * A view appears complete: it is made under another name, then renamed. A rename can survive a
 * power cut that the files before it don't survive. So the name of the boot is in the path, and
 * what an earlier boot left is never used. A view that is used holds a shared lock (flock) on its
 * directory; who makes or removes one holds an exclusive lock. After locking, the name must still
 * lead to the locked directory.
 *
 * The first use in a process compares the whole view with the store's listings. It hashes every
 * file whose ctime is not older than the last time when all of them were right; that time is in the
 * view's mark, an extended attribute. A view that differs is removed and made again, out of blobs
 * that are verified anew.
 *
 * The mark also tells what is in the view. When an input changes a little, the view of what it was
 * before is made into the new one, unless somebody uses it (take_over()): it loses its name, is
 * changed (change.c), and gets the new name. A crash leaves a `.make-`. So one changed file costs
 * one link and a look at the others. Without extended attributes each view is made anew, and all of
 * it is hashed.
 *
 * One thread of a process at a time makes or checks, so that many attempts of a sweep don't do
 * the same work at once. Two processes may both make a view; the first one's stays.
 */
#include "storage/content/view.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/time/clock.h"
#include "storage/internal.h"

#define BOOT_ID_BYTES 8
/* A view that somebody took over or removed before it was locked is looked for again: somebody else
 * got on. Many processes that want similar contents at once may need a dozen tries. */
#define TRIES 100
/* A view that differs again and again isn't made again for ever. */
#define DAMAGED_MAX 4
#define MARK_ATTR   "user.cairn.view"
/* Beyond, the file system may refuse it. */
#define MARK_MAX 2048
/* Views that are looked at for one to take over. */
#define LOOKED_AT_MAX 256

static int boot_name(char ret[BOOT_ID_BYTES + 1], struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (fs_read_file("/proc/sys/kernel/random/boot_id", 64, &text, err) < 0)
		return -1;
	if (text.len < BOOT_ID_BYTES)
		return err_set(err, ERR_UNSUPPORTED, "the kernel doesn't say which boot this is");
	memcpy(ret, text.s, BOOT_ID_BYTES);
	ret[BOOT_ID_BYTES] = '\0';
	return 0;
}

static bool lock_dir(int fd, int how)
{
	int r;

	do
		r = flock(fd, how);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

static int open_dir(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static bool leads_to(int dir_fd, const char *name, int fd, struct stat *ret)
{
	struct stat there;

	return fstat(fd, ret) == 0 && fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       there.st_ino == ret->st_ino && there.st_dev == ret->st_dev;
}

static void temp_name(const char *kind, char ret[64])
{
	uint64_t rnd;

	random_bytes(&rnd, sizeof(rnd));
	snprintf(ret, 64, ".%s-%016llx", kind, (unsigned long long)rnd);
}

/* Takes the view out of the way, and removes it unless somebody still uses it. */
static void discard(int boot_fd, const char *name)
{
	_cleanup_(fd_closep) int fd = open_dir(boot_fd, name);
	char gone[64];

	temp_name("gone", gone);
	if (fd < 0 || renameat(boot_fd, name, boot_fd, gone) < 0)
		return;
	if (lock_dir(fd, LOCK_EX | LOCK_NB))
		fs_remove_tree_at(boot_fd, gone, NULL);
}

/* What this process notes about a view that it has compared: this directory, with this name. */
static void note_of(const char *name, const struct stat *st, struct digest *ret)
{
	char text[128];

	snprintf(text, sizeof(text), "cairn-view %s %llu", name, (unsigned long long)st->st_ino);
	digest_bytes(text, strlen(text), ret);
}

/* Marks. */

struct mark {
	struct content_id id;
	int64_t verified_ns; /* wall clock: all files were right then; 0: unknown */
	char path[MARK_MAX];
};

/* Best effort. */
static void write_mark(int fd, const struct content_id *id, const char *path, int64_t verified_ns)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	char hex[DIGEST_HEX_MAX];

	str_addf(&text, "1 %lld %d %s %llu %s",
		 (long long)(content_times_tell(fd) ? verified_ns : 0), id->kind,
		 digest_hex(&id->digest, hex), (unsigned long long)id->size_bytes, path);
	if (text.len < MARK_MAX)
		(void)!fsetxattr(fd, MARK_ATTR, text.s, text.len, 0);
}

static bool read_mark(int fd, struct mark *ret)
{
	char text[MARK_MAX + 1], hex[DIGEST_HEX_MAX];
	ssize_t n = fgetxattr(fd, MARK_ATTR, text, MARK_MAX);
	unsigned long long size;
	long long verified_ns;
	int kind, at = 0;

	if (n <= 0)
		return false;
	text[n] = '\0';
	if (sscanf(text, "1 %lld %d %64s %llu %n", &verified_ns, &kind, hex, &size, &at) != 4 ||
	    !at || digest_parse(hex, &ret->id.digest, NULL) < 0 || kind < 0 ||
	    kind > CONTENT_KIND_MAX)
		return false;
	ret->id.kind = (uint8_t)kind;
	ret->id.size_bytes = size;
	/* When the clock was set back since, times tell nothing. */
	ret->verified_ns = verified_ns <= clock_wall_ns() ? verified_ns : 0;
	snprintf(ret->path, sizeof(ret->path), "%s", text + at);
	return true;
}

/* Making. */

/* A view that is to be taken, and made if it isn't there. */
struct wanted {
	struct store *s;
	const struct content_id *id;
	const char *path;
	int boot_fd;
	const char *name; /* in boot_fd */
};

/* Opens the newest view that is near and that nobody uses, locks it exclusively, and takes its name
 * away. Returns -1 when there is none. */
static int take_over(const struct wanted *w, const char *temp, struct mark *ret)
{
	_cleanup_(closedirp) DIR *d = fs_list(open_dir(w->boot_fd, "."));
	_cleanup_(freep) char *best_name = NULL;
	_cleanup_(freep) struct mark *mark = xmalloc(sizeof(*mark));
	struct timespec newest = { 0 };
	struct dirent *e;
	struct stat st;
	int best = -1;

	for (int n = 0; d && n < LOOKED_AT_MAX && fs_next(d, "views", &e, NULL) > 0; n++) {
		_cleanup_(fd_closep) int fd =
			*e->d_name == '.' ? -1 : open_dir(w->boot_fd, e->d_name);

		if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != geteuid() ||
		    ns_of(st.st_mtim) < ns_of(newest) || !read_mark(fd, mark) ||
		    !str_eq(mark->path, w->path) || !content_is_near(w->s, &mark->id, w->id) ||
		    !lock_dir(fd, LOCK_EX | LOCK_NB))
			continue;
		fd_closep(&best);
		best = TAKE_FD(fd);
		free(best_name);
		best_name = xstrdup(e->d_name);
		newest = st.st_mtim;
		*ret = *mark;
	}
	if (best >= 0 && (!leads_to(w->boot_fd, best_name, best, &st) ||
			  renameat(w->boot_fd, best_name, w->boot_fd, temp) < 0))
		fd_closep(&best);
	return best;
}

/* Makes the directory and locks it, which is tried again when a collection takes it for a crash's
 * in between. */
static int make_locked(int boot_fd, const char *temp)
{
	struct stat st;

	for (int i = 0; i < TRIES; i++) {
		_cleanup_(fd_closep) int fd = -1;

		if (mkdirat(boot_fd, temp, 0755) < 0 && errno != EEXIST)
			return -1;
		fd = open_dir(boot_fd, temp);
		if (fd >= 0 && lock_dir(fd, LOCK_EX) && leads_to(boot_fd, temp, fd, &st))
			return fs_set_mode(fd, 0755) < 0 ? -1 : TAKE_FD(fd);
		if (fd < 0 && errno != ENOENT)
			return -1;
	}
	errno = EAGAIN;
	return -1;
}

/* Lays the content out as the directory `temp`: by changing a view, or anew. Returns it, open and
 * locked. */
static int lay_out(const struct wanted *w, const char *temp, struct err *err)
{
	_cleanup_(freep) struct mark *old = xmalloc(sizeof(*old));
	_cleanup_(fd_closep) int fd = take_over(w, temp, old);
	int64_t began_ns = clock_wall_ns();

	if (fd >= 0 &&
	    content_change_at(w->s, &old->id, w->id, old->verified_ns, fd, w->path, NULL) == 0) {
		write_mark(fd, w->id, w->path, began_ns);
		return TAKE_FD(fd);
	}
	if (fd >= 0 && fs_remove_tree_at(w->boot_fd, temp, err) < 0)
		return -1;
	fd_closep(&fd);
	fd = make_locked(w->boot_fd, temp);
	if (fd < 0)
		return err_errno(err, "cannot make a view in the store %s", w->s->uri);
	if (content_materialise_beneath(w->s, w->id, CONTENT_HARD_LINK, fd, w->path, err) < 0)
		return -1;
	write_mark(fd, w->id, w->path, clock_wall_ns()); /* links and copies were verified */
	return TAKE_FD(fd);
}

/* 0: made; *ret_fd has it, locked exclusively. 1: somebody else made it meanwhile. */
static int make(const struct wanted *w, int *ret_fd, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct digest note;
	char temp[64];
	struct stat st;
	int r = -1;

	temp_name("make", temp);
	fd = lay_out(w, temp, err);
	if (fd >= 0)
		r = fstat(fd, &st) == 0 && renameat2(w->boot_fd, temp, w->boot_fd, w->name,
						     RENAME_NOREPLACE) == 0
			    ? 0
		    : errno == EEXIST
			    ? 1
			    : err_errno(err, "cannot name a view in the store %s", w->s->uri);
	if (r == 0) {
		note_of(w->name, &st, &note);
		store_note_verified(w->s, &note);
		*ret_fd = TAKE_FD(fd);
		return 0;
	}
	fs_remove_tree_at(w->boot_fd, temp, NULL);
	return r;
}

/* The directory views/BOOT. Opening it for the first time removes what earlier boots left. */
static int open_boot(struct store *s, char boot[BOOT_ID_BYTES + 1], struct err *err)
{
	const struct store_file_ops *files = s->here->ops->files;
	_cleanup_(fd_closep) int views = -1;
	int fd;

	if (!files || !files->open_views)
		return err_set(err, ERR_UNSUPPORTED, "the store %s isn't a directory", s->uri);
	if (boot_name(boot, err) < 0)
		return -1;
	views = files->open_views(s->here, true);
	if (views < 0)
		return err_errno(err, "cannot keep views in the store %s", s->uri);
	fd = open_dir(views, boot);
	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(views, boot, 0777) < 0 && errno != EEXIST)
			return err_errno(err, "cannot keep views in the store %s", s->uri);
		view_evict(s, 0);
		fd = open_dir(views, boot);
	}
	return fd < 0 ? err_errno(err, "cannot keep views in the store %s", s->uri) : fd;
}

/* 1: taken, 0: try again. *damaged counts views that differed. */
static int try_take(const struct wanted *w, int *damaged, struct view *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = open_dir(w->boot_fd, w->name);
	struct err why = { 0 };
	struct digest note;
	struct stat st;

	if (fd < 0 && errno == ENOENT) {
		int r = make(w, &fd, &why);

		if (r != 0)
			return r < 0 ? err_pass(err, &why) : 0;
	}
	/* What was just made stays locked but for a moment, in which it may be taken over. */
	if (fd < 0 || !lock_dir(fd, LOCK_SH))
		return err_errno(err, "cannot use a view of the store %s", w->s->uri);
	if (!leads_to(w->boot_fd, w->name, fd, &st))
		return 0;
	note_of(w->name, &st, &note);
	if (!store_is_verified(w->s, &note)) {
		_cleanup_(freep) struct mark *mark = xmalloc(sizeof(*mark));
		int64_t began_ns = clock_wall_ns();
		bool marked = read_mark(fd, mark) && content_id_eq(&mark->id, w->id) &&
			      str_eq(mark->path, w->path);

		if (content_check_at(w->s, w->id, CONTENT_HARD_LINK, marked ? mark->verified_ns : 0,
				     fd, w->path, &why) < 0) {
			if (why.code != ERR_CORRUPT || ++*damaged > DAMAGED_MAX)
				return err_pass(err, &why);
			fd_closep(&fd);
			fd = -1;
			discard(w->boot_fd, w->name);
			return 0;
		}
		write_mark(fd, w->id, w->path, began_ns);
		store_note_verified(w->s, &note);
	}
	(void)!futimens(fd, NULL);
	ret->fd = TAKE_FD(fd);
	return 1;
}

int view_take(struct store *s, const struct content_id *id, const char *path, struct view *ret,
	      struct err *err)
{
	char boot[BOOT_ID_BYTES + 1], hex[DIGEST_HEX_MAX];
	_cleanup_(str_deinit) struct str what = { 0 };
	_cleanup_(fd_closep) int boot_fd = -1;
	struct wanted w;
	struct digest d;
	int r = 0, damaged = 0;

	assert(*path && *path != '/');
	boot_fd = open_boot(s, boot, err);
	if (boot_fd < 0)
		return -1;
	str_addf(&what, "cairn-view/1 %d %s %llu %s", id->kind, digest_hex(&id->digest, hex),
		 (unsigned long long)id->size_bytes, path);
	digest_bytes(what.s, what.len, &d);
	digest_hex(&d, hex);
	hex[32] = '\0';
	w = (struct wanted){ s, id, path, boot_fd, hex };
	pthread_mutex_lock(&s->views);
	for (int i = 0; i < TRIES && r == 0; i++)
		r = try_take(&w, &damaged, ret, err);
	pthread_mutex_unlock(&s->views);
	if (r == 0)
		return err_set(err, ERR_IO, "a view in the store %s doesn't stay as it was made",
			       s->uri);
	if (r > 0)
		snprintf(ret->name, sizeof(ret->name), "%.*s/%.32s", BOOT_ID_BYTES, boot, hex);
	return r < 0 ? -1 : 0;
}

/* Removes those of one boot that are old enough and not in use; true when none is left. */
static bool evict_boot(int boot_fd, int64_t unused_since_ns, uint64_t *n)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(boot_fd, ".", 0);
	struct dirent *e;
	bool empty = d != NULL;

	while (d && fs_next(d, "views", &e, NULL) > 0) {
		_cleanup_(fd_closep) int fd = open_dir(boot_fd, e->d_name);
		char gone[64];
		struct stat st;

		temp_name("gone", gone);
		if (fd < 0 || !lock_dir(fd, LOCK_EX | LOCK_NB) ||
		    !leads_to(boot_fd, e->d_name, fd, &st) ||
		    (e->d_name[0] != '.' && ns_of(st.st_mtim) > unused_since_ns) ||
		    renameat(boot_fd, e->d_name, boot_fd, gone) < 0 ||
		    fs_remove_tree_at(boot_fd, gone, NULL) < 0)
			empty = false;
		else
			++*n;
	}
	return empty;
}

uint64_t view_evict(struct store *s, int64_t unused_since_ns)
{
	const struct store_file_ops *files = s->here->ops->files;
	_cleanup_(closedirp) DIR *d =
		fs_list(files && files->open_views ? files->open_views(s->here, false) : -1);
	char boot[BOOT_ID_BYTES + 1];
	struct dirent *e;
	uint64_t n = 0;

	while (d && boot_name(boot, NULL) == 0 && fs_next(d, "views", &e, NULL) > 0) {
		_cleanup_(fd_closep) int fd = open_dir(dirfd(d), e->d_name);
		bool now = str_eq(e->d_name, boot);

		if (fd >= 0 && evict_boot(fd, now ? unused_since_ns : INT64_MAX, &n) && !now)
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	return n;
}

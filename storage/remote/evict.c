/* storage/remote/evict.c — evicts the least recently used objects from the directory in front of a
 * bucket.
 *
 * One pass, under a lock that one process holds (evict.lock). It reads the shards of blobs and
 * trees. Every object that wasn't used since the oldest live process began becomes a candidate.
 * Candidates are evicted in the order of their last use until the directory is a tenth below its
 * limit. The tenth spares the next run this work. Before a batch is evicted, the bucket must
 * confirm that it has each object.
 *
 * A process that uses the directory holds a lock on a file in remote/users; the file's time says
 * when it began. A file without a lock belongs to a dead process and is removed. When the files
 * can't be read, everything counts as in use.
 *
 * This file reads the directory's layout itself, because store_list() doesn't give the access time.
 * It deletes through the store's table.
 */
#include "storage/remote/evict.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "storage/remote/internal.h"

#define USERS "remote/users"
#define LOCK  "remote/evict.lock"
/* Objects checked in one batch. */
#define BATCH      4096
#define USER_TRIES 1000 /* an evictor checks each file once */

struct evict_user {
	char *path;
	int fd;
};

/* An evictor may lock or remove the file before we lock it. Then we try another name. */
int evict_user_new(const char *local, struct evict_user **ret, struct err *err)
{
	static atomic_uint counter;
	_cleanup_(freep) char *dir = fs_join(local, USERS);

	if (fs_mkdir_p(dir, err) < 0)
		return -1;
	for (int tries = 0; tries < USER_TRIES; tries++) {
		_cleanup_(freep) char *path =
			xasprintf("%s/%ld-%u", dir, (long)getpid(), atomic_fetch_add(&counter, 1));
		_cleanup_(fd_closep) int fd = -1;
		struct stat st;
		int r = fs_lock_path(path, false, &fd, err);

		if (r < 0)
			return -1;
		/* The file may be left from a dead process of this id, so set its time. */
		if (r == 0 && futimens(fd, NULL) == 0 && fstat(fd, &st) == 0 && st.st_nlink) {
			*ret = xcalloc(1, sizeof(**ret));
			(*ret)->path = TAKE_PTR(path);
			(*ret)->fd = TAKE_FD(fd);
			return 0;
		}
	}
	return err_set(err, ERR_BUSY, "cannot say in %s that the directory is in use", dir);
}

void evict_user_free(struct evict_user *u)
{
	if (!u)
		return;
	unlink(u->path);
	close(u->fd);
	free(u->path);
	free(u);
}

/* When the oldest live process began; 0 (all is in use) if unknown. */
static int64_t oldest_user(const char *local)
{
	_cleanup_(freep) char *dir = fs_join(local, USERS);
	DIR *d = opendir(dir);
	int64_t oldest_ns = d || errno == ENOENT ? INT64_MAX : 0;
	struct dirent *e;
	int r = 0;

	while (d && (r = fs_next(d, dir, &e, NULL)) == 1) {
		_cleanup_(fd_closep) int fd =
			openat(dirfd(d), e->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		struct stat st;
		int held;

		if (fd < 0 && errno != ENOENT)
			oldest_ns = 0;
		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		held = fs_lock(fd, false, NULL);
		if (held > 0)
			oldest_ns = MIN(oldest_ns, ns_of(st.st_mtim));
		else if (held < 0)
			oldest_ns = 0;
		else
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
	return r < 0 ? 0 : oldest_ns;
}

/* Candidates. */

struct candidate {
	enum store_space space;
	struct digest name;
	uint64_t size;
	int64_t used_ns;
};

struct eviction {
	struct store *s;
	struct remote *r;
	struct evicted *res;
	int64_t in_use_since_ns;
	VEC(struct candidate) v;
	uint64_t excess; /* bytes still to evict */
};

/* Counts the objects of a directory; unused ones become candidates. */
static void scan_shard(struct eviction *ev, enum store_space space, const char *path)
{
	_cleanup_(closedirp) DIR *d = opendir(path);
	struct dirent *e;

	while (d && fs_next(d, path, &e, NULL) > 0) {
		struct candidate c = { .space = space };
		struct stat st;

		if (strlen(e->d_name) != 64 || digest_parse(e->d_name, &c.name, NULL) < 0 ||
		    fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		    !S_ISREG(st.st_mode))
			continue;
		c.size = (uint64_t)st.st_size;
		c.used_ns = MAX(ns_of(st.st_atim), ns_of(st.st_mtim));
		ev->res->objects++;
		ev->res->bytes += c.size;
		/* A file that was moved in keeps its times, except the change time. */
		if (MAX(c.used_ns, ns_of(st.st_ctim)) < ev->in_use_since_ns)
			VEC_PUSH(&ev->v, c);
	}
}

static int least_recent_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* Eviction. */

static int evict_batch(struct eviction *ev, const struct candidate *v, size_t n, struct err *err)
{
	_cleanup_(freep) struct remote_object *o = xcalloc(n + 1, sizeof(*o));

	for (size_t i = 0; i < n; i++)
		o[i] = (struct remote_object){ .space = v[i].space,
					       .name = v[i].name,
					       .size = v[i].size };
	if (remote_has(ev->r, o, n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && ev->excess; i++) {
		if (!o[i].there)
			continue;
		if (ev->s->ops->del(ev->s, v[i].space, &v[i].name, err) < 0)
			return -1;
		ev->excess -= MIN(ev->excess, v[i].size);
		ev->res->evicted++;
		ev->res->evicted_bytes += v[i].size;
	}
	return 0;
}

/* Evicts a tenth more than necessary, so that the next run needn't begin with this. */
int evict(struct store *s, const char *local, struct remote *r, uint64_t max_bytes,
	  struct evicted *ret, struct err *err)
{
	_cleanup_(freep) char *lock_path = fs_join(local, LOCK);
	_cleanup_(fd_closep) int lock = -1;
	struct eviction ev = { .s = s, .r = r, .res = ret };
	int got = fs_lock_path(lock_path, false, &lock, err);

	assert(max_bytes > 0); /* 0 means a directory without a limit */
	*ret = (struct evicted){ 0 };
	if (got)
		return got;
	ev.in_use_since_ns = oldest_user(local);
	for (int space = STORE_BLOB; space <= STORE_TREE; space++)
		for (int i = 0; i < 256; i++) {
			_cleanup_(freep) char *path =
				xasprintf("%s/%s/%02x", local, store_space_names[space], i);

			scan_shard(&ev, (enum store_space)space, path);
		}
	ev.excess = ret->bytes > max_bytes ? ret->bytes - max_bytes + max_bytes / 10 : 0;
	if (ev.excess && ev.v.n)
		qsort(ev.v.v, ev.v.n, sizeof(*ev.v.v), least_recent_first);
	for (size_t i = 0; i < ev.v.n && ev.excess && got == 0; i += BATCH)
		got = evict_batch(&ev, ev.v.v + i, MIN(ev.v.n - i, (size_t)BATCH), err);
	VEC_FREE(&ev.v);
	return got;
}

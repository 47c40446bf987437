/* Least recently used out. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/fs.h"
#include "storage/remote/evict.h"
#include "storage/remote/internal.h"

#define USERS "remote/users"
#define LOCK "remote/evict.lock"
/* Asked for at once. */
#define BATCH 4096

struct evict_user {
	char *path;
	int fd;
};

int evict_user_new(const char *local, struct evict_user **ret, struct err *err)
{
	static atomic_uint counter;
	_cleanup_(freep) char *dir = fs_join(local, USERS);
	struct evict_user *u;

	if (fs_mkdir_p(dir, err) < 0)
		return -1;
	u = xcalloc(1, sizeof(*u));
	u->path = xasprintf("%s/%ld-%u", dir, (long)getpid(), atomic_fetch_add(&counter, 1));
	if (fs_lock_path(u->path, false, &u->fd, err) != 0) {
		free(u->path);
		free(u);
		return -1;
	}
	(void)!futimens(u->fd, NULL); /* one of a dead process with this number may have been there */
	*ret = u;
	return 0;
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

static int64_t ns_of(struct timespec t)
{
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* When the first process began that is still there; 0 (all is in use) if that can't be told. */
static int64_t oldest_user(const char *local)
{
	_cleanup_(freep) char *dir = fs_join(local, USERS);
	DIR *d = opendir(dir);
	int64_t oldest_ns = d || errno == ENOENT ? INT64_MAX : 0;
	struct dirent *e;
	int r = 0;

	while (d && (r = fs_next(d, dir, &e, NULL)) == 1) {
		_cleanup_(fd_closep) int fd = openat(dirfd(d), e->d_name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		struct stat st;

		if (fd < 0 && errno != ENOENT)
			oldest_ns = 0;
		if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
			continue;
		if (fs_lock(fd, false, NULL) == 1)
			oldest_ns = MIN(oldest_ns, ns_of(st.st_mtim));
		else
			unlinkat(dirfd(d), e->d_name, 0);
	}
	if (d)
		closedir(d);
	return r < 0 ? 0 : oldest_ns;
}

/* --- what there is ------------------------------------------------------------------------------------------------------------------ */

struct candidate {
	enum store_space space;
	struct digest name;
	uint64_t size;
	int64_t used_ns;
};

struct scan {
	VEC(struct candidate) v;
	struct evicted *res;
	int64_t in_use_since_ns;
};

static void see(struct scan *s, enum store_space space, int fd, const char *name)
{
	struct candidate c = { .space = space };
	struct stat st;

	if (strlen(name) != 64 || digest_parse(name, &c.name, NULL) < 0 || fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
		return;
	c.size = (uint64_t)st.st_size;
	c.used_ns = MAX(ns_of(st.st_atim), ns_of(st.st_mtim));
	s->res->objects++;
	s->res->bytes += c.size;
	/* A file that was moved in keeps its times, but for the change time. */
	if (MAX(c.used_ns, ns_of(st.st_ctim)) < s->in_use_since_ns)
		VEC_PUSH(&s->v, c);
}

static void scan_shard(struct scan *s, enum store_space space, const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && (e = readdir(d)))
		see(s, space, fd, e->d_name);
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
}

static void scan_all(struct scan *s, const char *local)
{
	for (int space = STORE_BLOB; space <= STORE_TREE; space++)
		for (int i = 0; i < 256; i++) {
			_cleanup_(freep) char *path = xasprintf("%s/%s/%02x", local, store_space_names[space], i);

			scan_shard(s, (enum store_space)space, path);
		}
}

static int least_recent_first(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;

	return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* --- out ------------------------------------------------------------------------------------------------------------------------------ */

static int evict_batch(struct store *s, struct remote *r, const struct candidate *v, size_t n, uint64_t *excess, struct evicted *res, struct err *err)
{
	struct remote_object *o = xcalloc(n + 1, sizeof(*o));
	int got;

	for (size_t i = 0; i < n; i++)
		o[i] = (struct remote_object){ .space = v[i].space, .name = v[i].name, .size = v[i].size };
	got = remote_has(r, o, n, err);
	for (size_t i = 0; i < n && got == 0 && *excess; i++) {
		if (!o[i].there)
			continue;
		got = s->ops->del(s, v[i].space, &v[i].name, err);
		*excess -= MIN(*excess, v[i].size);
		res->evicted++;
		res->evicted_bytes += v[i].size;
	}
	free(o);
	return got;
}

/* A tenth more goes than has to, so that the next run needn't begin with this. */
int evict(struct store *s, const char *local, struct remote *r, uint64_t max_bytes, struct evicted *ret, struct err *err)
{
	_cleanup_(freep) char *lock_path = fs_join(local, LOCK);
	_cleanup_(fd_closep) int lock = -1;
	struct scan scan = { .res = ret };
	uint64_t excess;
	int got = fs_lock_path(lock_path, false, &lock, err);

	*ret = (struct evicted){ 0 };
	if (got)
		return got;
	scan.in_use_since_ns = oldest_user(local);
	scan_all(&scan, local);
	excess = ret->bytes > max_bytes ? ret->bytes - max_bytes + max_bytes / 10 : 0;
	if (excess && scan.v.n)
		qsort(scan.v.v, scan.v.n, sizeof(*scan.v.v), least_recent_first);
	for (size_t i = 0; i < scan.v.n && excess && got == 0; i += BATCH)
		got = evict_batch(s, r, scan.v.v + i, MIN(scan.v.n - i, (size_t)BATCH), &excess, ret, err);
	VEC_FREE(&scan.v);
	return got;
}

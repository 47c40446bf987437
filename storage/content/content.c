/* storage/content/content.c — takes files and directories into a store (out of it: materialise.c).
 *
 * A file is first copied to the store's file system, and the copy is hashed, so that an edit
 * meanwhile can't make the id wrong. Its stat is compared before and after, so that a half-edited
 * file isn't taken as either version. Small files go through memory. Our own files (a task's
 * outputs) are hashed in place and moved.
 *
 * The names of a directory are sorted and put, and become a tree. Threads share the names of a
 * directory that is large, has several subdirectories or a large file that must be read (struct
 * dir_job), and the parts of a large file that nobody shares names with. All come from one number
 * of spare threads: whoever has work to share takes some, and a thread without work goes back at
 * once, so that those that still work can use it. Each thread has its own putter; the first error
 * ends the job.
 *
 * The stat cache is read before a file is opened. It gets an entry only if the file's times show
 * every later change (times_tell()).
 *
 * Links: a link at the top is followed only inside dir_fd, and no link below is followed. With
 * CONTENT_PUT_BENEATH the kernel resolves the path as it opens it, so that nobody can change the
 * path in between.
 */
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/os/thread.h"
#include "base/time/clock.h"
#include "storage/internal.h"
#include "storage/local/statcache.h"

/* A symbolic link's text and one byte more: the system cuts longer ones. */
#define TARGET_BYTES 4097
/* The times of a network file system come from its server. Its clock may be this much behind ours.
 */
#define SERVER_CLOCK_NS (60 * NS_PER_S)
/* The kernel has written back pages that were dirtied longer ago than this. Ten times what kernels
 * take. */
#define DIRTY_NS (300 * NS_PER_S)
/* The most threads of one call. More would wait for the disk. */
#define THREADS_MAX 16
/* Threads share the names of a directory that has this many. Fewer files aren't worth a thread,
 * unless one of them must be read and isn't small. */
#define SHARED_MIN 64
/* Threads share the parts of a file that is this large, when nobody works on other names. So none
 * is left alone with it, and it has enough parts for all. */
#define HUGE_BYTES (64 * (uint64_t)CONTENT_PART_BYTES)

void content_id_of_bytes(const void *bytes, size_t n, struct content_id *ret)
{
	struct blob_hasher h;

	ret->kind = CONTENT_BLOB;
	ret->size_bytes = n;
	if (n <= CONTENT_PART_BYTES) {
		digest_bytes(bytes, n, &ret->digest);
		return;
	}
	blob_hasher_init(&h, n);
	blob_hasher_update(&h, bytes, n);
	blob_hasher_final(&h, &ret->digest);
}

int content_put_bytes(struct store *s, const void *bytes, size_t n, struct content_id *ret,
		      struct err *err)
{
	struct content_id id;

	content_id_of_bytes(bytes, n, &id);
	if (store_put(s, STORE_BLOB, &id.digest, bytes, n, err) < 0)
		return -1;
	*ret = id;
	return 0;
}

/* Putting one file. */

struct putter {
	struct store *store;
	const struct content_put_options *o;
	atomic_uint *spare;   /* threads that may still be started; NULL: none */
	struct str path;      /* of what is being put, for messages and the stat cache */
	int depth;            /* directories above it, below the top */
	int64_t clock_lag_ns; /* how far the file system's clock may be behind ours */
	struct dir_job *job;  /* whose names others may take meanwhile; NULL: none */
};

/* Takes at most `max` of the spare threads. */
static unsigned take_threads(struct putter *p, unsigned max)
{
	unsigned n = p->spare ? atomic_load(p->spare) : 0, take;

	do
		take = MIN(n, max);
	while (take && !atomic_compare_exchange_weak(p->spare, &n, n - take));
	return take;
}

static void give_threads(struct putter *p, unsigned n)
{
	if (n)
		atomic_fetch_add(p->spare, n);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static int changed(const struct putter *p, struct err *err)
{
	return err_set(err, ERR_CHANGED, "%s changed while it was read; run again when it is quiet",
		       p->path.s);
}

static int check_unchanged(const struct putter *p, int fd, const struct stat *before,
			   struct err *err)
{
	/* An output may be a hard link of an input, and so of the store's file. Its times then
	 * change when other attempts link or unlink it. So do those of a file that is linked. */
	bool shared = ((p->o->flags & CONTENT_PUT_MOVE) && before->st_nlink > 1) ||
		      (p->o->flags & CONTENT_PUT_LINK);
	struct stat after;

	if (fstat(fd, &after) < 0)
		return err_errno(err, "cannot read %s", p->path.s);
	return before->st_size == after.st_size &&
			       (shared || (same_time(&before->st_mtim, &after.st_mtim) &&
					   same_time(&before->st_ctim, &after.st_ctim)))
		       ? 0
		       : changed(p, err);
}

static int put_small(struct putter *p, int fd, const struct stat *st, bool store,
		     struct content_id *ret, struct err *err)
{
	uint8_t stack[16384];
	size_t n = (size_t)st->st_size;
	_cleanup_(freep) uint8_t *heap = n >= sizeof(stack) ? xmalloc(n + 1) : NULL;
	uint8_t *buf = heap ? heap : stack;
	ssize_t got;

	/* Reads one byte more than expected, to notice that the file grew. */
	got = fs_read_at(fd, buf, n + 1, 0);
	if (got < 0)
		return err_errno(err, "cannot read %s", p->path.s);
	if ((size_t)got != n)
		return changed(p, err);
	content_id_of_bytes(buf, n, ret);
	if (store && store_put(p->store, STORE_BLOB, &ret->digest, buf, n, err) < 0)
		return -1;
	return 0;
}

/* How many threads beside ours can have a part of the file. */
static unsigned threads_for(const struct stat *st)
{
	return (unsigned)MIN((uint64_t)st->st_size / CONTENT_PART_BYTES, (uint64_t)THREADS_MAX);
}

static int put_large_copy(struct putter *p, int fd, const struct stat *st, struct content_id *ret,
			  struct err *err)
{
	unsigned more;
	char *temp;
	int out, r;

	if (p->store->ops->files->open_temp(p->store, &out, &temp, err) < 0)
		return -1;
	more = take_threads(p, threads_for(st));
	r = content_copy_fd(fd, out, (uint64_t)st->st_size, 1 + more, true, &ret->digest, err);
	give_threads(p, more);
	if (r == 0)
		r = check_unchanged(p, fd, st, err);
	if (r == 0) /* the store's own file was hashed, not the one that was read */
		store_note_arrived(p->store, &ret->digest, out);
	if (p->store->ops->files->publish_temp(p->store, out, temp, r == 0 ? &ret->digest : NULL,
					       err) < 0)
		r = -1;
	return r < 0 ? err_wrap(err, "storing %s", p->path.s) : 0;
}

/* A regular file that is open for reading. */
struct source {
	int fd;
	struct stat st;
	int dir_fd; /* its directory, and `name` in it. name NULL: it can't be moved */
	const char *name;
};

static bool is_for_link(const struct putter *p, const struct stat *st)
{
	return (p->o->flags & CONTENT_PUT_LINK) && st->st_size > 0 && !(st->st_mode & S_IXUSR);
}

/* A file that is hashed. */
static int put_link(struct putter *p, const struct source *f, const struct content_id *id,
		    struct err *err)
{
	const struct store_file_ops *files = p->store->ops->files;

	if (!files || !files->link_in)
		return err_set(err, ERR_UNSUPPORTED,
			       "%s can't be linked: the store %s isn't a directory", p->path.s,
			       p->store->uri);
	if (files->link_in(p->store, f->fd, &f->st, p->path.s, &id->digest, err) < 0)
		return -1;
	return check_unchanged(p, f->fd, &f->st, err);
}

static int put_open_file(struct putter *p, const struct source *f, struct content_id *ret,
			 struct err *err)
{
	uint64_t size = (uint64_t)f->st.st_size;
	bool hash_only = p->o->flags & CONTENT_PUT_HASH_ONLY, small = size <= CONTENT_SMALL_BYTES;
	bool move = (p->o->flags & CONTENT_PUT_MOVE) && p->store->ops->files && f->st.st_nlink == 1;
	bool link = is_for_link(p, &f->st);
	struct stat st = f->st;
	int r;

	assert(f->name || !move);
	ret->kind = CONTENT_BLOB;
	ret->size_bytes = size;
	if (store_check_size(STORE_BLOB, size, err) < 0)
		return err_wrap(err, "%s", p->path.s);
	if (hash_only || move || link) {
		unsigned more = take_threads(p, threads_for(&st));

		r = small ? put_small(p, f->fd, &st, false, ret, err)
			  : content_hash_fd(f->fd, size, 1 + more, &ret->digest, err);
		give_threads(p, more);
		if (r < 0 || check_unchanged(p, f->fd, &st, err) < 0)
			return -1;
		if (hash_only)
			return 0;
		if (link)
			return put_link(p, f, ret, err);
		r = p->store->ops->files->move_in(p->store, f->dir_fd, f->name, &ret->digest, err);
		if (r <= 0)
			return r;
		/* The file stays where it is, but its mode may have been changed meanwhile, and its
		 * ctime with it. */
		if (fstat(f->fd, &st) < 0)
			return err_errno(err, "cannot read %s", p->path.s);
		if (st.st_size != f->st.st_size || !same_time(&st.st_mtim, &f->st.st_mtim))
			return changed(p, err);
	}
	if (small || !p->store->ops->files)
		return put_small(p, f->fd, &st, true, ret, err) < 0
			       ? -1
			       : check_unchanged(p, f->fd, &st, err);
	return put_large_copy(p, f->fd, &st, ret, err);
}

int content_put_fd(struct store *s, int fd, struct content_id *ret, struct err *err)
{
	static const struct content_put_options defaults;
	struct putter p = { .store = s, .o = &defaults };
	struct source f = { .fd = fd };
	struct content_id id = { 0 };
	int r;

	if (fstat(fd, &f.st) < 0)
		return err_errno(err, "cannot read a file");
	str_add(&p.path, "the file");
	r = put_open_file(&p, &f, &id, err);
	if (r == 0)
		*ret = id;
	str_deinit(&p.path);
	return r;
}

bool content_times_tell(int fd)
{
	static const unsigned long in_memory[] = {
		0x01021994, 0x858458f6, 0x958458f6
	}; /* linux/magic.h: tmpfs, ramfs, hugetlbfs */
	struct statfs fs;

	if (fstatfs(fd, &fs) < 0)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(in_memory); i++)
		if ((unsigned long)fs.f_type == in_memory[i])
			return false;
	return true;
}

/* Tells whether the file's times will show every change from now on. A write by mmap changes them
 * only when it is the first one to a clean page: never again on file systems in memory, elsewhere
 * not while the page is dirty. So this starts to write dirty pages back, without waiting. Kernels
 * do that themselves after half a minute. */
static bool times_tell(int fd, const struct stat *st, int64_t now_ns)
{
	if (!content_times_tell(fd))
		return false;
	if (now_ns - MAX(st->st_mtim.tv_sec, st->st_ctim.tv_sec) * NS_PER_S < DIRTY_NS)
		(void)!sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	return true;
}

/* Tells whether the file needn't be read. A file that is linked into the store gets a new ctime
 * with every other link, so its other times count. */
static bool is_known(struct putter *p, const struct stat *seen, struct content_id *ret)
{
	const struct store *here = p->store->here;
	bool hash_only = p->o->flags & CONTENT_PUT_HASH_ONLY, present;

	if (!p->o->cache)
		return false;
	if (is_for_link(p, seen) && here->ops->files && here->ops->files->is_linked &&
	    statcache_get_linked(p->o->cache, p->path.s, seen, ret) &&
	    here->ops->files->is_linked(p->store->here, &ret->digest, seen, p->path.s))
		return true;
	return statcache_get(p->o->cache, p->path.s, seen, ret) &&
	       (hash_only || (store_has(p->store, ret, 1, &present, NULL) == 0 && present));
}

static void get_help(struct dir_job *j);

/* While this thread reads a file of that size, another can take names. */
static bool is_worth_help(uint64_t size)
{
	return size > CONTENT_SMALL_BYTES && size < HUGE_BYTES;
}

static int put_file(struct putter *p, int dir_fd, const char *name, const struct stat *seen,
		    struct content_id *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct source f = { .dir_fd = dir_fd, .name = name };
	bool remember = false;
	int64_t began;

	if (is_known(p, seen, ret))
		return 0;
	if (p->job && is_worth_help((uint64_t)seen->st_size))
		get_help(p->job);
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	began = clock_wall_ns(); /* file times use the wall clock */
	if (fd < 0 || fstat(fd, &f.st) < 0)
		return err_errno(err, "cannot read %s", p->path.s);
	if (!S_ISREG(f.st.st_mode))
		return changed(p, err);
	if (p->o->cache && !(p->o->flags & CONTENT_PUT_MOVE))
		remember = times_tell(fd, &f.st, began);
	f.fd = fd;
	if (put_open_file(p, &f, ret, err) < 0)
		return -1;
	if (remember)
		statcache_put(p->o->cache, p->path.s, &f.st, began - p->clock_lag_ns, ret);
	return 0;
}

/* Putting directories. */

static int put_entry(struct putter *p, int dir_fd, const char *name, const struct stat *st,
		     struct tree_entry *e, struct err *err);

/* Nearly all patterns are a name, or `*` and a suffix. For those this is ten times as fast as
 * fnmatch. */
static bool matches(const char *pattern, const char *name)
{
	const char *end = *pattern == '*' ? pattern + 1 : pattern;
	size_t n = strlen(name), n_end = strlen(end);

	if (strpbrk(end, "*?[\\"))
		return fnmatch(pattern, name, 0) == 0;
	return n >= n_end && (end > pattern || n == n_end) &&
	       memcmp(name + n - n_end, end, n_end) == 0;
}

/* `exclude` applies at the top; `ignore`, and our own state (a project inside the project), at any
 * depth. */
static bool left_out(const struct putter *p, const char *name)
{
	for (const char *const *x = p->o->ignore; x && *x; x++)
		if (matches(*x, name))
			return true;
	for (const char *const *x = p->o->exclude; x && *x; x++)
		if (strcmp(*x, name) == 0 && (p->depth == 1 || strcmp(name, ".cairn") == 0))
			return true;
	return false;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names in a directory. */
struct listing {
	char **v; /* sorted; the array is on the heap */
	size_t n;
	size_t n_dirs; /* those that may be directories */
};

static int read_names(const struct putter *p, int fd, struct arena *arena, struct listing *ret,
		      struct err *err)
{
	VEC(char *) names = { 0 };
	_cleanup_(closedirp) DIR *d = fs_list_at(fd, ".", 0);
	size_t n_dirs = 0;
	struct dirent *e;
	int r;

	if (!d)
		return err_errno(err, "cannot read directory %s", p->path.s);
	while ((r = fs_next(d, p->path.s, &e, err)) > 0)
		if (!left_out(p, e->d_name)) {
			VEC_PUSH(&names, arena_strdup(arena, e->d_name));
			n_dirs += e->d_type == DT_DIR || e->d_type == DT_UNKNOWN;
		}
	if (r < 0) { /* a listing that ended early isn't complete */
		VEC_FREE(&names);
		return -1;
	}
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), by_text);
	*ret = (struct listing){ names.v, names.n, n_dirs };
	return 0;
}

/* Names of one directory, shared by threads. */
struct dir_job {
	struct putter *p; /* of the thread that has the directory, which changes it meanwhile */
	const char *path; /* of the directory */
	int depth;        /* p->depth in it */
	int fd;
	const struct listing *names;
	struct tree_entry *entries;
	size_t step; /* names taken at once */
	pthread_t threads[THREADS_MAX];
	unsigned n_threads; /* started; all by the thread that has the directory */
	pthread_mutex_t lock;
	size_t next;
	bool over; /* somebody failed */
	/* Of the first helper that did, on the heap: directories are nested deeply. */
	struct err *failed;
};

/* With helpers, huge files are put off: put_all_names() comes back to them. */
static int put_name(struct dir_job *j, struct putter *p, size_t i, bool alone, struct err *err)
{
	const char *name = j->names->v[i];
	size_t len = p->path.len;
	struct stat st;
	int r = 0;

	str_addf(&p->path, "%s%s", len ? "/" : "", name);
	if (fstatat(j->fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno == ENOENT ? changed(p, err) : err_errno(err, "cannot read %s", p->path.s);
	else if (alone || !S_ISREG(st.st_mode) || (uint64_t)st.st_size < HUGE_BYTES)
		r = put_entry(p, j->fd, name, &st, &j->entries[i], err);
	p->path.len = len;
	p->path.s[len] = '\0';
	return r;
}

static void *help_put_names(void *arg);

/* Starts a thread for the names that nobody has taken, if there is a spare one. It may have become
 * free only now. */
static void get_help(struct dir_job *j)
{
	bool left;

	pthread_mutex_lock(&j->lock);
	left = j->next < j->names->n;
	pthread_mutex_unlock(&j->lock);
	if (!left || j->n_threads == THREADS_MAX || !take_threads(j->p, 1))
		return;
	if (thread_start(&j->threads[j->n_threads], NULL, help_put_names, j) == 0)
		j->n_threads++;
	else
		give_threads(j->p, 1);
}

static int put_names(struct dir_job *j, struct putter *p, bool is_helper, struct err *err)
{
	const bool shared = j->names->n >= SHARED_MIN || j->names->n_dirs > 1;
	size_t n = j->names->n;

	for (;;) {
		size_t i, end;

		pthread_mutex_lock(&j->lock);
		i = j->over ? n : j->next;
		end = MIN(i + j->step, n);
		j->next = end;
		pthread_mutex_unlock(&j->lock);
		if (i >= n)
			return 0;
		if (shared && !is_helper)
			get_help(j);
		for (; i < end; i++)
			if (put_name(j, p, i, !is_helper && !j->n_threads, err) < 0) {
				pthread_mutex_lock(&j->lock);
				j->over = true;
				pthread_mutex_unlock(&j->lock);
				return -1;
			}
	}
}

static void *help_put_names(void *arg)
{
	struct dir_job *j = arg;
	struct putter p = { .store = j->p->store,
			    .o = j->p->o,
			    .spare = j->p->spare,
			    .depth = j->depth,
			    .clock_lag_ns = j->p->clock_lag_ns };
	struct err e = { 0 };

	str_add(&p.path, j->path);
	if (put_names(j, &p, true, &e) < 0) {
		pthread_mutex_lock(&j->lock);
		if (!j->failed) {
			j->failed = xmalloc(sizeof(e));
			*j->failed = e;
		}
		pthread_mutex_unlock(&j->lock);
	}
	str_deinit(&p.path);
	give_threads(&p, 1); /* others may use it before it is joined */
	return NULL;
}

static int put_all_names(struct putter *p, int fd, const struct listing *names,
			 struct tree_entry *entries, struct err *err)
{
	_cleanup_(freep) char *path = xstrdup(p->path.s);
	struct dir_job j = { .p = p,
			     .path = path,
			     .depth = p->depth,
			     .fd = fd,
			     .names = names,
			     .entries = entries,
			     .step = names->n_dirs > 1 || names->n < SHARED_MIN ? 1
										: SHARED_MIN / 4,
			     .lock = PTHREAD_MUTEX_INITIALIZER };
	struct dir_job *above = p->job;
	int r;

	p->job = &j;
	r = put_names(&j, p, false, err);
	p->job = above;
	while (j.n_threads)
		pthread_join(j.threads[--j.n_threads], NULL);
	if (r == 0 && j.failed) {
		if (err)
			*err = *j.failed;
		r = -1;
	}
	for (size_t i = 0; i < names->n && r == 0; i++)
		if (!entries[i].kind)
			r = put_name(&j, p, i, true, err);
	free(j.failed);
	return r;
}

static int put_dir(struct putter *p, int dir_fd, const char *name, struct content_id *ret,
		   struct err *err)
{
	_cleanup_(fd_closep) int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct tree_builder *b;
	struct tree_entry *entries;
	struct listing names;
	int r;

	if (fd < 0)
		return err_errno(err, "cannot read directory %s", p->path.s);
	if (read_names(p, fd, arena, &names, err) < 0)
		return -1;
	entries = arena_alloc(arena, (names.n + 1) * sizeof(*entries));
	r = put_all_names(p, fd, &names, entries, err);
	b = tree_builder_new();
	for (size_t i = 0; i < names.n && r == 0; i++) {
		entries[i].name = names.v[i];
		entries[i].name_len = strlen(names.v[i]);
		r = tree_builder_add(b, &entries[i], err);
	}
	for (size_t i = 0; i < names.n; i++)
		free((char *)entries[i].target); /* symbolic links only */
	if (r == 0)
		r = tree_builder_store(b, p->o->flags & CONTENT_PUT_HASH_ONLY ? NULL : p->store,
				       ret, err);
	tree_builder_free(b);
	free(names.v);
	return r;
}

static int put_symlink(const struct putter *p, int dir_fd, const char *name, struct tree_entry *e,
		       struct err *err)
{
	/* Not on the stack: the compiler may inline this into put_dir(), which recurses. */
	_cleanup_(freep) char *target = xmalloc(TARGET_BYTES);
	ssize_t n = readlinkat(dir_fd, name, target, TARGET_BYTES);

	if (n < 0)
		return err_errno(err, "cannot read symbolic link %s", p->path.s);
	e->kind = TREE_SYMLINK;
	e->target = xstrndup(target, (size_t)n);
	e->target_len = (size_t)n;
	return 0;
}

static uint8_t kind_of_file(const struct stat *st)
{
	return st->st_mode & S_IXUSR ? CONTENT_EXECUTABLE : CONTENT_BLOB;
}

static int put_entry(struct putter *p, int dir_fd, const char *name, const struct stat *st,
		     struct tree_entry *e, struct err *err)
{
	int r;

	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
		if (put_file(p, dir_fd, name, st, &e->id, err) < 0)
			return -1;
		e->id.kind = kind_of_file(st);
		e->kind = tree_entry_kind_of(&e->id);
		return 0;
	case S_IFDIR:
		e->kind = TREE_DIR;
		if (p->depth >= CONTENT_DEPTH_MAX)
			return err_set(err, ERR_TOO_LARGE,
				       "%.300s...: directories are nested deeper than %d levels",
				       p->path.s, CONTENT_DEPTH_MAX);
		p->depth++;
		r = put_dir(p, dir_fd, name, &e->id, err);
		p->depth--;
		return r;
	case S_IFLNK:
		return put_symlink(p, dir_fd, name, e, err);
	default:
		return err_set(err, ERR_INVALID,
			       "%s is a socket, a device or a pipe; only files, directories and "
			       "symbolic links can be stored",
			       p->path.s);
	}
}

/* Putting the top. */

/* Resolves dir_fd/path to its real path, which must be inside dir_fd. */
static int follow(int dir_fd, const char *path, char **ret, struct stat *st, struct err *err)
{
	_cleanup_(freep) char *fd_base =
		dir_fd == AT_FDCWD ? xstrdup(".") : xasprintf("/proc/self/fd/%d", dir_fd);
	_cleanup_(freep) char *fd_path =
		*path == '/' ? xstrdup(path) : xasprintf("%s/%s", fd_base, path);
	_cleanup_(freep) char *real = realpath(fd_path, NULL), *base = realpath(fd_base, NULL);

	if (!real || !base || !fs_is_inside(base, real) ||
	    fstatat(AT_FDCWD, real, st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_set(err, ERR_INVALID,
			       "%s is reached by a symbolic link that leads out of the directory, "
			       "or to nothing; put a copy of what it points to in its place",
			       path);
	*ret = TAKE_PTR(real);
	return 0;
}

static bool on_network(int dir_fd, const char *path)
{
	_cleanup_(freep) char *at = dir_fd == AT_FDCWD || *path == '/'
					    ? xstrdup(path)
					    : xasprintf("/proc/self/fd/%d/%s", dir_fd, path);

	return fs_network_name(at) != NULL;
}

/* A file that will be moved must be ours: no link may lead out of dir_fd. 1: there are links, and
 * the path must be followed. */
static int has_links(int dir_fd, const char *path)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC | O_NOFOLLOW,
				.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS };
	long fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));

	if (fd < 0)
		return 1; /* also on kernels without openat2: follow() decides */
	close((int)fd);
	return 0;
}

/* The kernel resolves the path as it opens it, so that nobody can change it in between. Below, each
 * directory is opened from its parent, and no link is followed. */
static int put_beneath(struct putter *p, int dir_fd, const char *path, struct content_id *ret,
		       struct err *err)
{
	_cleanup_(fd_closep) int fd = fs_open_beneath(dir_fd, path, O_PATH, true);
	struct content_put_options o = *p->o;
	struct source f = { 0 };
	struct stat st;

	if (fd < 0 && (errno == EXDEV || errno == ELOOP))
		return err_set(err, ERR_INVALID,
			       "%s is reached by a symbolic link that leads out of the directory; "
			       "put a copy of what it points to in its place",
			       path);
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	o.flags &= ~CONTENT_PUT_MOVE;
	p->o = &o;
	if (S_ISDIR(st.st_mode)) {
		p->depth++;
		return put_dir(p, fd, ".", ret, err);
	}
	fd_closep(&fd);
	fd = f.fd = fs_open_file_beneath(dir_fd, path, true, &f.st, err);
	if (fd < 0 || put_open_file(p, &f, ret, err) < 0)
		return -1;
	ret->kind = kind_of_file(&f.st);
	return 0;
}

int content_check_linked(struct store *s, struct err *err)
{
	const struct store_file_ops *files = s->here->ops->files;

	return files && files->check_linked ? files->check_linked(s->here, err) : 0;
}

int content_put_at(struct store *s, int dir_fd, const char *path,
		   const struct content_put_options *o, struct content_id *ret, struct err *err)
{
	static const struct content_put_options defaults;
	struct putter p = { .store = s, .o = o ? o : &defaults };
	atomic_uint spare = MIN(p.o->n_threads, (unsigned)THREADS_MAX);
	_cleanup_(freep) char *real = NULL;
	struct tree_entry e = { 0 };
	struct stat st;
	int r;

	assert(s);
	spare -= spare > 0; /* this thread */
	p.spare = &spare;
	if (p.o->flags & CONTENT_PUT_BENEATH) {
		str_add(&p.path, path);
		r = put_beneath(&p, dir_fd, path, &e.id, err);
		str_deinit(&p.path);
		if (r == 0)
			*ret = e.id;
		return r;
	}
	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot read %s", path);
	if ((S_ISLNK(st.st_mode) || ((p.o->flags & CONTENT_PUT_MOVE) && has_links(dir_fd, path))) &&
	    follow(dir_fd, path, &real, &st, err) < 0)
		return -1;
	if (p.o->cache && on_network(real ? AT_FDCWD : dir_fd, real ? real : path))
		p.clock_lag_ns = SERVER_CLOCK_NS;
	str_add(&p.path, path);
	r = put_entry(&p, real ? AT_FDCWD : dir_fd, real ? real : path, &st, &e, err);
	str_deinit(&p.path);
	if (r == 0)
		*ret = e.id;
	return r;
}

/* Kept views: one is made into that of a similar tree when nobody uses it, and is always what was
 * asked for: after random changes, in use, damaged, with a process killed at any call, with several
 * processes at once. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "core/seeds.h"
#include "storage/content/view.h"
#include "storage/internal.h"
#include "storage/local/statcache.h"
#include "unit/storage/store_fixture.h"

#define AT   "w/inputs/data"
#define SRC  "src"
#define BIG  40 /* files that most trees have */
#define MANY 200

/* A process dies at the n-th call that changes a name, when this isn't 0. */
static int die_at;

static void count_call(void)
{
	if (die_at && --die_at == 0)
		_exit(0);
}

#define COUNTED(name, args, pass)                                    \
	int name args                                                \
	{                                                            \
		static int(*next) args;                              \
                                                                     \
		if (!next)                                           \
			next = (int(*) args)dlsym(RTLD_NEXT, #name); \
		count_call();                                        \
		return next pass;                                    \
	}

COUNTED(unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
COUNTED(linkat, (int from, const char *old, int to, const char *new, int flags),
	(from, old, to, new, flags))
COUNTED(renameat, (int from, const char *old, int to, const char *new), (from, old, to, new))
COUNTED(renameat2, (int from, const char *old, int to, const char *new, unsigned flags),
	(from, old, to, new, flags))
COUNTED(mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
COUNTED(fchmod, (int fd, mode_t mode), (fd, mode))
COUNTED(symlinkat, (const char *text, int dir, const char *path), (text, dir, path))

/* Bytes that are hashed are read by this. */
static uint64_t bytes_read;

ssize_t pread(int fd, void *buf, size_t n, off_t at)
{
	static ssize_t (*next)(int fd, void *buf, size_t n, off_t at);
	ssize_t got;

	if (!next)
		next = (ssize_t(*)(int, void *, size_t, off_t))dlsym(RTLD_NEXT, "pread");
	got = next(fd, buf, n, at);
	bytes_read += got > 0 ? (uint64_t)got : 0;
	return got;
}

/* Trees. */

static uint64_t rng;

static unsigned roll(unsigned n)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return (unsigned)(rng >> 33) % n;
}

static void put_text(struct fixture *f, const char *path, const char *text, mode_t mode)
{
	fs_remove_tree_at(f->fd, path, NULL);
	assert_int_equal(
		fs_write_atomic_at(f->fd, path, text, strlen(text), mode, FS_WRITE_NO_SYNC, NULL),
		0);
}

static void write_base(struct fixture *f)
{
	char path[64], text[64];

	fs_remove_tree_at(f->fd, SRC, NULL);
	for (int i = 0; i < BIG; i++) {
		snprintf(path, sizeof(path), SRC "/d%d/e%d", i % 4, i % 2);
		assert_int_equal(fs_mkdir_p_at(f->fd, path, 0755, NULL), 0);
		snprintf(path, sizeof(path), SRC "/d%d/e%d/f%d", i % 4, i % 2, i);
		snprintf(text, sizeof(text), "file %d of the base\n", i);
		put_text(f, path, text, 0644);
	}
}

/* Makes a name of the tree something else, or nothing. */
static void change(struct fixture *f)
{
	char path[64], deep[80], text[64];
	int len = snprintf(path, sizeof(path), SRC "/d%u", roll(4));

	assert_int_equal(fs_mkdir_p_at(f->fd, path, 0755, NULL), 0);
	if (roll(2))
		snprintf(path + len, sizeof(path) - (size_t)len, "/x%u", roll(4));
	else
		snprintf(path + len, sizeof(path) - (size_t)len, "/e%u", roll(2));
	snprintf(text, sizeof(text), "text %u\n", roll(5)); /* few: equal files */
	switch (roll(6)) {
	case 0:
		fs_remove_tree_at(f->fd, path, NULL);
		break;
	case 1:
		fs_remove_tree_at(f->fd, path, NULL);
		assert_int_equal(symlinkat(text, f->fd, path), 0);
		break;
	case 2:
		put_text(f, path, text, 0755);
		break;
	case 3:
		put_text(f, path, "", 0644);
		break;
	case 4:
		fs_remove_tree_at(f->fd, path, NULL);
		assert_int_equal(mkdirat(f->fd, path, 0755), 0);
		if (roll(2)) {
			snprintf(deep, sizeof(deep), "%s/deep", path);
			put_text(f, deep, text, 0644);
		}
		break;
	default:
		put_text(f, path, text, 0644);
	}
}

static struct content_id put(struct fixture *f)
{
	struct content_id id;
	struct err err = { 0 };

	if (content_put_at(f->s, f->fd, SRC, NULL, &id, &err) < 0)
		fail_msg("%s", err.msg);
	return id;
}

/* As a process that starts now. */
static void start_anew(struct fixture *f)
{
	_cleanup_(freep) char *path = fs_join(f->dir, "store");

	store_free(f->s);
	assert_int_equal(store_open(path, false, &f->s, NULL), 0);
}

/* Looking. */

static VEC(ino_t) inodes;

static int look(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (type == FTW_F) {
		for (size_t i = 0; i < inodes.n; i++)
			assert_true(inodes.v[i] != st->st_ino); /* an archiver would see a link */
		VEC_PUSH(&inodes, st->st_ino);
		assert_int_equal(st->st_mode & 0777, st->st_mode & 0111 ? 0555 : 0444);
	}
	if (type == FTW_D && ftw->level > 0)
		assert_int_equal(st->st_mode & 0777, 0555);
	return 0;
}

/* The view has what the source has; compared by another program. */
static void assert_is_source(struct fixture *f, const struct view *v)
{
	_cleanup_(freep) char *view = xasprintf("%s/store/views/%s/" AT, f->dir, v->name);
	_cleanup_(freep) char *diff =
		xasprintf("diff -r --no-dereference %s/" SRC " %s", f->dir, view);
	_cleanup_(freep) char *modes =
		xasprintf("cd %s && find . -perm -100 -type f | sort >%s/a; cd %s/" SRC
			  " && find . -perm -100 -type f | sort | cmp - %s/a",
			  view, f->dir, f->dir, f->dir);

	assert_int_equal(system(diff), 0);  /* lint: system because diff is the judge */
	assert_int_equal(system(modes), 0); /* lint: system because find is the judge */
	assert_int_equal(nftw(view, look, 16, FTW_PHYS), 0);
	VEC_FREE(&inodes);
}

static struct view take(struct fixture *f, const struct content_id *id)
{
	struct err err = { 0 };
	struct view v;

	if (view_take(f->s, id, AT, &v, &err) < 0)
		fail_msg("%s", err.msg);
	return v;
}

static ino_t inode_of(const struct view *v)
{
	struct stat st;

	assert_int_equal(fstat(v->fd, &st), 0);
	return st.st_ino;
}

/* How many views and leftovers there are. */
static int count_views(struct fixture *f)
{
	_cleanup_(freep) char *all = xasprintf("%s/store/views", f->dir);
	DIR *top = opendir(all);
	struct dirent *e;
	int n = 0;

	while (top && fs_next(top, all, &e, NULL) > 0) {
		_cleanup_(freep) char *boot = fs_join(all, e->d_name);
		DIR *d = opendir(boot);

		while (d && fs_next(d, boot, &e, NULL) > 0)
			n++;
		if (d)
			closedir(d);
	}
	if (top)
		closedir(top);
	return n;
}

/* Tests. */

static void test_one_changed_file(void **state)
{
	struct fixture *f = *state;
	struct content_id a, b;
	struct stat before, after;
	struct view v;
	ino_t made;

	write_base(f);
	a = put(f);
	v = take(f, &a);
	made = inode_of(&v);
	assert_int_equal(fstatat(v.fd, AT "/d1/e1/f1", &before, 0), 0);
	close(v.fd);
	put_text(f, SRC "/d0/e0/f0", "changed", 0644);
	b = put(f);
	start_anew(f);
	v = take(f, &b);
	assert_true(inode_of(&v) == made); /* ext4 gives a number again only after the removal */
	assert_int_equal(fstatat(v.fd, AT "/d1/e1/f1", &after, 0), 0);
	assert_true(before.st_ino == after.st_ino &&
		    before.st_ctim.tv_nsec == after.st_ctim.tv_nsec);
	assert_is_source(f, &v);
	close(v.fd);
	assert_int_equal(count_views(f), 1);
	write_base(f); /* and back */
	v = take(f, &a);
	assert_true(inode_of(&v) == made);
	assert_is_source(f, &v);
	close(v.fd);
	assert_int_equal(count_views(f), 1);
}

static void test_in_use(void **state)
{
	struct fixture *f = *state;
	struct content_id a, b;
	struct view old, new;

	write_base(f);
	a = put(f);
	old = take(f, &a);
	put_text(f, SRC "/d0/e0/f0", "changed", 0644);
	b = put(f);
	new = take(f, &b);
	assert_true(inode_of(&old) != inode_of(&new));
	assert_is_source(f, &new);
	assert_int_equal(view_evict(f->s, INT64_MAX), 0); /* both are in use */
	write_base(f);
	assert_is_source(f, &old);
	close(old.fd);
	close(new.fd);
	assert_int_equal(view_evict(f->s, INT64_MAX), 2);
	assert_int_equal(count_views(f), 0);
}

/* A tree that has little in common with it is no reason to give a view up. */
static void test_another_tree(void **state)
{
	struct fixture *f = *state;
	struct content_id a, b;
	struct view v;

	write_base(f);
	a = put(f);
	v = take(f, &a);
	close(v.fd);
	fs_remove_tree_at(f->fd, SRC, NULL);
	assert_int_equal(mkdirat(f->fd, SRC, 0755), 0);
	put_text(f, SRC "/other", "other", 0644);
	b = put(f);
	v = take(f, &b);
	assert_is_source(f, &v);
	close(v.fd);
	assert_int_equal(count_views(f), 2);
}

static void test_random_changes(void **state)
{
	struct fixture *f = *state;
	struct seeds seeds = seeds_of(1, 3);
	unsigned taken_over = 0;

	for (uint64_t seed = seeds.from; seed < seeds.to; seed++) {
		ino_t last = 0;

		rng = seed * 0x9e3779b97f4a7c15ULL;
		write_base(f);
		for (int i = 0; i < 30; i++) {
			struct content_id id;
			struct view v;

			for (unsigned n = roll(8); n > 0; n--)
				change(f);
			id = put(f);
			if (roll(2))
				start_anew(f);
			v = take(f, &id);
			assert_is_source(f, &v);
			taken_over += inode_of(&v) == last;
			last = inode_of(&v);
			close(v.fd);
		}
		view_evict(f->s, INT64_MAX);
	}
	assert_true(taken_over > 20); /* else this shows nothing */
}

/* Somebody wrote to what stays. */
static void test_damaged(void **state)
{
	struct fixture *f = *state;
	struct content_id a, b;
	struct view v;
	int fd;

	write_base(f);
	a = put(f);
	v = take(f, &a);
	/* A file put in the place of another one, with as many bytes. */
	assert_int_equal(fchmodat(v.fd, AT "/d1/e1", 0755, 0), 0);
	assert_int_equal(unlinkat(v.fd, AT "/d1/e1/f1", 0), 0);
	assert_int_equal(fs_write_atomic_at(v.fd, AT "/d1/e1/f1", "file 1 of the b___\n", 19, 0444,
					    FS_WRITE_NO_SYNC, NULL),
			 0);
	assert_int_equal(fchmodat(v.fd, AT "/d1/e1", 0555, 0), 0);
	close(v.fd);
	put_text(f, SRC "/d0/e0/f0", "changed", 0644);
	b = put(f);
	start_anew(f);
	v = take(f, &b);
	assert_is_source(f, &v);
	/* A file that is too many, in the same view that is taken as it is. */
	assert_int_equal(fchmodat(v.fd, AT "/d2/e0", 0755, 0), 0);
	assert_int_equal(symlinkat("x", v.fd, AT "/d2/e0/new"), 0);
	assert_int_equal(fchmodat(v.fd, AT "/d2/e0", 0555, 0), 0);
	close(v.fd);
	start_anew(f);
	v = take(f, &b);
	assert_is_source(f, &v);
	/* The blob itself, by a link to it: the kept file shows the damage, nothing hides it. */
	assert_int_equal(fchmodat(v.fd, AT "/d3/e1/f3", 0644, 0), 0);
	fd = openat(v.fd, AT "/d3/e1/f3", O_WRONLY | O_CLOEXEC);
	assert_true(fd >= 0 && pwrite(fd, "X", 1, 0) == 1);
	close(fd);
	assert_int_equal(fchmodat(v.fd, AT "/d3/e1/f3", 0444, 0), 0);
	close(v.fd);
	start_anew(f);
	assert_int_equal(view_take(f->s, &b, AT, &v, NULL), -1);
	put(f); /* the right bytes again */
	v = take(f, &b);
	assert_is_source(f, &v);
	close(v.fd);
}

/* What was hashed in this boot and has its old times isn't hashed again; what has new ones is. */
static void test_hashed_once(void **state)
{
	static const struct timespec now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };
	struct fixture *f = *state;
	struct content_id id;
	struct view v;
	uint64_t all, later;

	if (!content_times_tell(f->fd))
		return;
	write_base(f);
	for (int i = 0; i < 8; i++) { /* so that the bytes of listings don't count */
		_cleanup_(freep) char *text = xcalloc(1, 300001),
				      *path = xasprintf(SRC "/large%d", i);

		memset(text, 'a' + i, 300000);
		put_text(f, path, text, 0644);
	}
	id = put(f);
	v = take(f, &id);
	close(v.fd);
	/* The mark is of the end, and files of the last ticks before it are hashed once more: not
	 * after two calls that lie a tick apart. */
	for (int64_t from = clock_wall_ns(); clock_wall_ns() < from + 50 * NS_PER_MS;)
		;
	start_anew(f);
	v = take(f, &id);
	close(v.fd);
	start_anew(f);
	bytes_read = 0;
	v = take(f, &id);
	later = bytes_read;
	assert_true(later < 100000);
	for (int i = 0; i < 8; i++) {
		_cleanup_(freep) char *path = xasprintf(AT "/large%d", i);

		assert_int_equal(utimensat(v.fd, path, now, 0), 0);
	}
	close(v.fd);
	start_anew(f);
	bytes_read = 0;
	v = take(f, &id);
	all = bytes_read;
	assert_true(all >= 8 * 300000);
	assert_is_source(f, &v);
	close(v.fd);
}

/* A process is killed at each of its calls in turn, while it makes the view of one tree into that
 * of another one. */
static void test_killed(void **state)
{
	struct fixture *f = *state;
	struct content_id ids[2];
	bool died = true;
	int n, leftovers = 0;

	write_base(f);
	assert_int_equal(mkdirat(f->fd, SRC "/d3/small", 0755), 0);
	put_text(f, SRC "/d3/small/one", "one", 0644);
	ids[0] = put(f);
	put_text(f, SRC "/d0/e0/f0", "changed", 0644);
	put_text(f, SRC "/d0/e0/new", "new", 0644);
	put_text(f, SRC "/d0/e0/f4", "run", 0755);
	assert_int_equal(fs_remove_tree_at(f->fd, SRC "/d3/small", NULL), 0);
	assert_int_equal(symlinkat("..", f->fd, SRC "/d3/small"), 0);
	ids[1] = put(f);
	for (n = 1; died && n < MANY; n++) {
		struct view v = take(f, &ids[0]);
		int status, left;
		pid_t pid;

		close(v.fd);
		start_anew(f);
		pid = fork();
		if (pid == 0) {
			die_at = n;
			_exit(view_take(f->s, &ids[1], AT, &v, NULL) < 0 ? 2 : 3);
		}
		assert_true(pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status));
		died = WEXITSTATUS(status) == 0;
		assert_true(died || WEXITSTATUS(status) == 3);
		v = take(f, &ids[1]);
		assert_is_source(f, &v);
		left = count_views(f) - 1;
		assert_true(died ? left <= 1 : left == 0);
		assert_int_equal(view_evict(f->s, 0), left);
		leftovers += left;
		close(v.fd);
		view_evict(f->s, INT64_MAX);
		assert_int_equal(count_views(f), 0);
	}
	assert_true(leftovers > 5 && n < MANY); /* some left one, the last came to its end */
}

/* Processes that want similar trees at once take views from each other, never one in use. */
static void test_at_once(void **state)
{
	struct fixture *f = *state;
	struct content_id ids[3];
	pid_t pids[4];

	for (int i = 0; i < 3; i++) {
		char text[32];

		write_base(f);
		snprintf(text, sizeof(text), "changed %d", i);
		put_text(f, SRC "/d0/e0/f0", text, 0644);
		ids[i] = put(f);
	}
	for (int k = 0; k < 4; k++) {
		pids[k] = fork();
		for (int i = 0; pids[k] == 0 && i < (int)seeds_part(60); i++) {
			const struct content_id *id = &ids[(i * (k + 1) + k) % 3];
			char want[32], got[32] = "";
			struct err err = { 0 };
			struct view v;
			int fd;

			if (i % 10 == k)
				start_anew(f);
			if (i % 20 == 7)
				view_evict(f->s, INT64_MAX);
			if (view_take(f->s, id, AT, &v, &err) < 0 ||
			    content_check_at(f->s, id, CONTENT_HARD_LINK, 0, v.fd, AT, &err) < 0) {
				print_error("%s\n", err.msg);
				_exit(2);
			}
			snprintf(want, sizeof(want), "changed %d", (int)(id - ids));
			fd = openat(v.fd, AT "/d0/e0/f0", O_RDONLY | O_CLOEXEC);
			if (fd < 0 || read(fd, got, sizeof(got) - 1) < 0 || !str_eq(want, got))
				_exit(4);
			close(fd);
			close(v.fd);
		}
		if (pids[k] == 0)
			_exit(3);
	}
	for (int k = 0; k < 4; k++) {
		int status;

		assert_true(waitpid(pids[k], &status, 0) == pids[k] && WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 3);
	}
	view_evict(f->s, INT64_MAX);
	assert_int_equal(count_views(f), 0);
}

/* Views that the caller keeps: what is noted isn't hashed again, until it changes. */
static void test_kept_elsewhere(void **state)
{
	static const char *const names[] = { "one", "two", "three", "four" };
	struct fixture *f = *state;
	_cleanup_(freep) char *note = fs_join(f->dir, "known"), *text = xcalloc(1, 300001);
	char blob[128], hex[DIGEST_HEX_MAX];
	struct content_id tree, file;
	struct stat st, of_store;
	struct err err = { 0 };

	if (!content_times_tell(f->fd))
		return;
	write_base(f);
	memset(text, 'x', 300000);
	put_text(f, SRC "/large", text, 0644);
	put_text(f, SRC "/large-program", text, 0755);
	put_text(f, "single", text, 0644);
	tree = put(f);
	assert_int_equal(content_put_at(f->s, f->fd, "single", NULL, &file, NULL), 0);
	digest_hex(&file.digest, hex);
	snprintf(blob, sizeof(blob), "store/blobs/%.2s/%s", hex, hex);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct statcache *known;
		uint64_t most = i == 1 ? 350000 : 650000; /* the program is a copy each time */

		start_anew(f);
		assert_int_equal(statcache_open(note, &known, NULL), 0);
		assert_int_equal(view_link_at(f->s, &file, known, f->fd, "link"), i == 1);
		assert_int_equal(mkdirat(f->fd, names[i], 0700), 0);
		bytes_read = 0;
		if (i == 3) { /* its bytes are others */
			assert_int_equal(view_fill_at(f->s, &tree, known, f->fd, names[i], &err),
					 -1);
			assert_int_equal(err.code, ERR_CORRUPT);
			statcache_free(known);
			break;
		}
		assert_int_equal(view_fill_at(f->s, &tree, known, f->fd, names[i], &err), 0);
		assert_true(bytes_read < most && bytes_read > most / 2);
		assert_int_equal(statcache_save(known, NULL), 0);
		statcache_free(known);
		assert_int_equal(fstatat(f->fd, blob, &of_store, 0), 0);
		if (i == 1) {
			assert_int_equal(fstatat(f->fd, "link", &st, 0), 0);
			assert_int_equal(st.st_ino, of_store.st_ino);
			assert_int_equal(unlinkat(f->fd, "link", 0), 0);
			/* A new time alone has it hashed again. */
			assert_int_equal(utimensat(f->fd, blob, NULL, 0), 0);
		}
		if (i == 2) {
			int fd;

			assert_int_equal(fchmodat(f->fd, blob, 0600, 0), 0);
			fd = openat(f->fd, blob, O_WRONLY | O_CLOEXEC);
			assert_int_equal(pwrite(fd, "y", 1, 1000), 1);
			assert_int_equal(fchmod(fd, 0444), 0);
			close(fd);
		}
	}
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)
	const struct CMUnitTest tests[] = {
		T(test_one_changed_file), T(test_in_use),  T(test_another_tree),
		T(test_random_changes),   T(test_damaged), T(test_hashed_once),
		T(test_killed),           T(test_at_once), T(test_kept_elsewhere),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

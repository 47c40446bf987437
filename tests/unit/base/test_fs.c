#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "unit.h"

static char base[TEST_DIR_MAX];
static int base_fd = -1;

static int setup(void **state)
{
	test_dir(base, sizeof(base), "fs");
	base_fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(base_fd >= 0);
	return 0;
}

static int teardown(void **state)
{
	struct err err = { 0 };

	close(base_fd);
	if (fs_remove_tree(base, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(access(base, F_OK), -1);
	return 0;
}

static void put(const char *path, const char *text)
{
	struct err err = { 0 };

	if (fs_write_atomic_at(base_fd, path, text, strlen(text), 0644, FS_WRITE_NO_SYNC, &err) < 0)
		fail_msg("%s", err.msg);
}

static void assert_holds(const char *path, const char *text)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct err err = { 0 };

	if (fs_read_file_at(base_fd, path, 1 << 20, &s, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(s.s, text);
}

static bool exists(const char *path)
{
	return faccessat(base_fd, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static size_t count_entries(const char *path)
{
	_cleanup_(freep) char *command = xasprintf("ls -A %s/%s | wc -l", base, path);
	FILE *f = popen(command, "r");
	size_t n = 0;

	assert_int_equal(fscanf(f, "%zu", &n), 1);
	pclose(f);
	return n;
}

/* Whole files. */

static void test_read(void **state)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct err err = { 0 };

	put("f", "hello");
	str_add(&s, ">");
	assert_int_equal(fs_read_file_at(base_fd, "f", 5, &s, &err), 0);
	assert_string_equal(s.s, ">hello");
	assert_int_equal(fs_read_file_at(base_fd, "f", 4, &s, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	assert_string_equal(s.s, ">hello");
	assert_int_equal(fs_read_file_at(base_fd, "none", 4, &s, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(fs_read_file_at(base_fd, ".", 4, &s, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(mkfifoat(base_fd, "fifo", 0600), 0); /* must not block */
	assert_int_equal(fs_read_file_at(base_fd, "fifo", 4, &s, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

static void test_read_sizes(void **state)
{
	_cleanup_(freep) char *big = xcalloc(300000, 1);

	for (size_t n = 0; n < 300000; n = n * 3 + 1) {
		_cleanup_(str_deinit) struct str s = { 0 };

		memset(big, 'x', n);
		assert_int_equal(
			fs_write_atomic_at(base_fd, "big", big, n, 0644, FS_WRITE_NO_SYNC, NULL),
			0);
		assert_int_equal(fs_read_file_at(base_fd, "big", n, &s, NULL), 0);
		assert_int_equal(s.len, n);
		assert_memory_equal(s.s, big, n);
		assert_int_equal(s.s[n], 0);
	}
}

static void test_read_at(void **state)
{
	_cleanup_(fd_closep) int fd = -1;
	char buf[16] = { 0 };

	put("f", "hello");
	fd = openat(base_fd, "f", O_RDONLY | O_CLOEXEC);
	assert_int_equal(fs_read_at(fd, buf, 3, 1), 3);
	assert_string_equal(buf, "ell");
	assert_int_equal(fs_read_at(fd, buf, sizeof(buf), 2), 3); /* as far as it goes */
	assert_memory_equal(buf, "llo", 3);
	assert_int_equal(fs_read_at(fd, buf, sizeof(buf), 5), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	errno = 0;
	assert_int_equal(fs_read_at(base_fd, buf, 1, 0), -1);
	assert_int_equal(errno, EISDIR);
}

static void test_read_proc(void **state)
{
	_cleanup_(str_deinit) struct str s = { 0 }, t = { 0 };
	struct err err = { 0 };

	assert_int_equal(fs_read_file("/proc/self/status", 1 << 20, &s, &err), 0);
	assert_non_null(strstr(s.s, "Pid:"));
	assert_int_equal(fs_read_file("/proc/self/status", 10, &t, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	assert_int_equal(t.len, 0);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(fstatat(base_fd, path, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st.st_mode & 07777;
}

static void test_write_atomic(void **state)
{
	mode_t old = umask(022);
	struct err err = { 0 };

	assert_int_equal(mkdirat(base_fd, "d", 0755), 0);
	assert_int_equal(fs_write_atomic_at(base_fd, "d/f", "one", 3, 0644, 0, &err), 0);
	assert_int_equal(fs_write_atomic_at(base_fd, "d/f", "two", 3, 0666, 0, &err), 0);
	assert_holds("d/f", "two");
	assert_int_equal(mode_of("d/f"), 0644);
	assert_int_equal(fs_write_atomic_at(base_fd, "d/f", "three", 5, 0644, FS_WRITE_NEW, &err),
			 -1);
	assert_int_equal(err.code, ERR_EXISTS);
	assert_holds("d/f", "two");
	assert_int_equal(fs_write_atomic_at(base_fd, "d/r", "ro", 2, 0444,
					    FS_WRITE_NEW | FS_WRITE_NO_SYNC, &err),
			 0);
	assert_int_equal(mode_of("d/r"), 0444);
	assert_int_equal(fs_write_atomic_at(base_fd, "none/f", "x", 1, 0644, 0, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(mkdirat(base_fd, "d/dir", 0755), 0);
	assert_int_equal(fs_write_atomic_at(base_fd, "d/dir", "x", 1, 0644, 0, &err), -1);
	assert_int_equal(count_entries("d"), 3); /* no temporary is left */
	umask(old);
}

/* A write that fails half-way leaves the old file and no temporary. */
static void test_write_fails(void **state)
{
	struct rlimit old, small = { .rlim_cur = 100 };
	struct err err = { 0 };
	char big[1000] = { 0 };
	int r;

	assert_int_equal(mkdirat(base_fd, "w", 0755), 0);
	put("w/f", "old");
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old);
	small.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_FSIZE, &small);
	r = fs_write_atomic_at(base_fd, "w/f", big, sizeof(big), 0644, 0, &err);
	setrlimit(RLIMIT_FSIZE, &old);
	assert_int_equal(r, -1);
	assert_int_equal(err.sys, EFBIG);
	assert_holds("w/f", "old");
	assert_int_equal(count_entries("w"), 1);
}

/* A symlink that stands where the file should go is replaced, never written through. */
static void test_write_over_symlink(void **state)
{
	put("target", "precious");
	assert_int_equal(symlinkat("target", base_fd, "link"), 0);
	put("link", "new");
	assert_holds("target", "precious");
	assert_holds("link", "new");
}

/* Directories. */

static void test_mkdir_p(void **state)
{
	struct err err = { 0 };
	struct stat st;

	assert_int_equal(fs_mkdir_p_at(base_fd, "m/a/b//c/", 0755, &err), 0);
	assert_int_equal(fs_mkdir_p_at(base_fd, "m/a/b/c", 0755, &err), 0);
	assert_int_equal(fstatat(base_fd, "m/a/b/c", &st, 0), 0);
	assert_true(S_ISDIR(st.st_mode));
	put("m/f", "x");
	assert_int_equal(fs_mkdir_p_at(base_fd, "m/f", 0755, &err), -1);
	assert_int_equal(err.code, ERR_EXISTS);
	assert_int_equal(fs_mkdir_p_at(base_fd, "m/f/g", 0755, &err), -1);
	assert_int_equal(err.sys, ENOTDIR);
	assert_int_equal(fs_mkdir_p_at(base_fd, "", 0755, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(fs_mkdir_p("/", &err), 0);
	assert_int_equal(symlinkat("m/a", base_fd, "mlink"), 0);
	assert_int_equal(fs_mkdir_p_at(base_fd, "mlink/new", 0755, &err), 0);
	assert_true(exists("m/a/new"));
}

static bool is_log(int dir_fd, const char *name, const struct stat *st)
{
	return S_ISREG(st->st_mode) && str_has_suffix(name, ".log");
}

static void test_keep_newest(void **state)
{
	_cleanup_(freep) char *dir = fs_join(base, "kept"), *none = fs_join(base, "none");
	static const char *const names[] = { "kept/2.log", "kept/4.log", "kept/1.log", "kept/3.log",
					     "kept/0.txt" };

	assert_int_equal(fs_mkdir_p_at(base_fd, "kept/0.log", 0755, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		/* The newest two differ by a nanosecond. */
		long n = names[i][5] - '0';
		struct timespec at = { .tv_sec = 1000 + MIN(n, 3), .tv_nsec = n > 3 };

		put(names[i], "x");
		assert_int_equal(utimensat(base_fd, names[i], (struct timespec[]){ at, at }, 0), 0);
	}
	fs_keep_newest(none, 1, is_log);
	fs_keep_newest(dir, 4, is_log);
	assert_int_equal(count_entries("kept"), 6);
	fs_keep_newest(dir, 1, is_log);
	assert_int_equal(count_entries("kept"), 3);
	assert_true(exists("kept/4.log") && exists("kept/0.txt") && exists("kept/0.log"));
	fs_keep_newest(dir, 0, is_log);
	assert_int_equal(count_entries("kept"), 2);
}

static void test_remove_simple(void **state)
{
	struct err err = { 0 };

	assert_int_equal(fs_remove_tree_at(base_fd, "nothing-here", &err), 0);
	assert_int_equal(fs_remove_tree_at(base_fd, "no/such/dir", &err), 0);
	put("one", "x");
	assert_int_equal(fs_remove_tree_at(base_fd, "one", &err), 0);
	assert_false(exists("one"));
	assert_int_equal(fs_mkdir_p_at(base_fd, "t/a/b", 0755, NULL), 0);
	put("t/a/f", "x");
	put("t/a/b/new\nline", "x");
	assert_int_equal(fs_remove_tree_at(base_fd, "t//", &err), 0);
	assert_false(exists("t"));
	assert_int_equal(err.code, ERR_NONE);
}

static void test_remove_never_follows(void **state)
{
	struct err err = { 0 };
	_cleanup_(freep) char *absolute = fs_join(base, "keep");

	assert_int_equal(fs_mkdir_p_at(base_fd, "keep/sub", 0755, NULL), 0);
	put("keep/sub/f", "precious");
	assert_int_equal(fs_mkdir_p_at(base_fd, "gone/deep", 0755, NULL), 0);
	assert_int_equal(symlinkat("../keep", base_fd, "gone/link"), 0);
	assert_int_equal(symlinkat(absolute, base_fd, "gone/deep/link"), 0);
	assert_int_equal(symlinkat("nowhere", base_fd, "gone/dangling"), 0);
	assert_int_equal(fs_remove_tree_at(base_fd, "gone", &err), 0);
	assert_holds("keep/sub/f", "precious");
	assert_int_equal(symlinkat("keep", base_fd, "toplink"), 0);
	assert_int_equal(fs_remove_tree_at(base_fd, "toplink", &err), 0);
	assert_false(exists("toplink"));
	assert_holds("keep/sub/f", "precious");
}

/* Run as another user when the tests run as root, whom modes don't stop. */
static int as_ordinary_user(int (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(90);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int remove_read_only(void)
{
	char dir[] = "/tmp/cairn-fs-XXXXXX";
	struct err err = { 0 };
	int fd, r;

	if (!mkdtemp(dir) || (fd = open(dir, O_RDONLY | O_DIRECTORY)) < 0)
		return 91;
	if (fs_mkdir_p_at(fd, "ro/sub/none", 0755, &err) < 0 ||
	    fs_write_atomic_at(fd, "ro/sub/f", "x", 1, 0400, 0, &err) < 0 ||
	    fs_write_atomic_at(fd, "ro/sub/none/f", "x", 1, 0, 0, &err) < 0)
		return 92;
	if (fchmodat(fd, "ro/sub/none", 0, 0) < 0 || fchmodat(fd, "ro/sub", 0500, 0) < 0 ||
	    fchmodat(fd, "ro", 0555, 0) < 0)
		return 93;
	r = fs_remove_tree(dir, &err);
	if (r < 0)
		fprintf(stderr, "%s\n", err.msg);
	return r < 0 ? 94 : access(dir, F_OK) == 0 ? 95 : 0;
}

static void test_remove_read_only(void **state)
{
	assert_int_equal(as_ordinary_user(remove_read_only), 0);
}

static int remove_of_others(void)
{
	struct err err = { 0 };

	if (geteuid() != 65534)
		return 0; /* only root can prepare this */
	return fs_remove_tree(base, &err) == -1 && err.code == ERR_IO ? 0 : 96;
}

static void test_remove_reports(void **state)
{
	assert_int_equal(fs_mkdir_p_at(base_fd, "others/sub", 0755, NULL), 0);
	put("others/sub/f", "x");
	assert_int_equal(fchmod(base_fd, 0755), 0);
	assert_int_equal(as_ordinary_user(remove_of_others), 0);
	assert_true(exists("others/sub/f"));
}

/* In a mount namespace of its own, where that is allowed. */
static void test_remove_stays_off_mounts(void **state)
{
	_cleanup_(freep) char *from = fs_join(base, "mounted"), *to = fs_join(base, "tree/sub/mnt"),
			      *tree = fs_join(base, "tree");
	int status;
	pid_t pid;

	assert_int_equal(fs_mkdir_p(from, NULL), 0);
	assert_int_equal(fs_mkdir_p(to, NULL), 0);
	put("mounted/f", "precious");
	pid = fork();
	if (pid == 0) {
		struct err err = { 0 };

		if (unshare(CLONE_NEWNS) < 0 ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount(from, to, NULL, MS_BIND, NULL) < 0)
			_exit(77);
		_exit(fs_remove_tree(tree, &err) == -1 && err.code == ERR_BUSY ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_holds("mounted/f", "precious");
	if (WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Deeper than PATH_MAX and than any limit of descriptors. */
static void test_remove_deep(void **state)
{
	_cleanup_(fd_closep) int fd = dup(base_fd);
	struct rlimit old, few = { .rlim_cur = 100 };
	struct err err = { 0 };
	int r;

	for (int i = 0; i < 3000; i++) {
		int next;

		assert_int_equal(mkdirat(fd, "deeper", 0755), 0);
		if (i % 100 == 0)
			close(openat(fd, "file", O_CREAT | O_WRONLY, 0444));
		next = openat(fd, "deeper", O_RDONLY | O_DIRECTORY);
		assert_true(next >= 0);
		close(fd);
		fd = next;
	}
	getrlimit(RLIMIT_NOFILE, &old);
	few.rlim_max = old.rlim_max;
	setrlimit(RLIMIT_NOFILE, &few);
	r = fs_remove_tree_at(base_fd, "deeper", &err);
	setrlimit(RLIMIT_NOFILE, &old);
	if (r < 0)
		fail_msg("%s", err.msg);
	assert_false(exists("deeper"));
}

static void test_remove_wide(void **state)
{
	struct err err = { 0 };
	char name[32];

	assert_int_equal(fs_mkdir_p_at(base_fd, "wide", 0755, NULL), 0);
	for (int i = 0; i < 3000; i++) {
		snprintf(name, sizeof(name), "wide/%d%s", i, i % 3 ? "" : "/sub");
		if (i % 3 == 0)
			assert_int_equal(fs_mkdir_p_at(base_fd, name, 0755, NULL), 0);
		else
			close(openat(base_fd, name, O_CREAT | O_WRONLY, 0644));
	}
	assert_int_equal(fs_remove_tree_at(base_fd, "wide", &err), 0);
	assert_false(exists("wide"));
}

/* Copies. */

static void assert_same_file(const char *a, const char *b)
{
	_cleanup_(str_deinit) struct str x = { 0 }, y = { 0 };

	assert_int_equal(fs_read_file_at(base_fd, a, 1 << 26, &x, NULL), 0);
	assert_int_equal(fs_read_file_at(base_fd, b, 1 << 26, &y, NULL), 0);
	assert_int_equal(x.len, y.len);
	assert_memory_equal(x.s, y.s, x.len);
}

static void test_copy(void **state)
{
	_cleanup_(freep) char *big = xmalloc(1 << 20);
	struct err err = { 0 };

	for (size_t i = 0; i < 1 << 20; i++)
		big[i] = (char)(i * 31 + i / 977);
	for (size_t n = 0; n <= 1 << 20; n = n * 9 + 1) {
		assert_int_equal(
			fs_write_atomic_at(base_fd, "from", big, n, 0644, FS_WRITE_NO_SYNC, &err),
			0);
		assert_int_equal(fs_copy_file_at(base_fd, "from", base_fd, "to", 0555, &err), 0);
		assert_same_file("from", "to");
		assert_int_equal(mode_of("to"), 0555);
		assert_int_equal(unlinkat(base_fd, "to", 0), 0);
	}
	put("there", "x");
	assert_int_equal(fs_copy_file_at(base_fd, "from", base_fd, "there", 0644, &err), -1);
	assert_int_equal(err.code, ERR_EXISTS);
	assert_holds("there", "x");
	assert_int_equal(fs_copy_file_at(base_fd, "none", base_fd, "to", 0644, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(symlinkat("there", base_fd, "copylink"), 0);
	assert_int_equal(fs_copy_file_at(base_fd, "copylink", base_fd, "to", 0644, &err), -1);
	assert_int_equal(fs_copy_file_at(base_fd, ".", base_fd, "to", 0644, &err), -1);
	assert_false(exists("to"));
}

/* Holes at the start, in the middle and at the end stay holes, and the bytes are the same. */
static void test_copy_sparse(void **state)
{
	_cleanup_(fd_closep) int fd = openat(base_fd, "sparse", O_CREAT | O_RDWR | O_CLOEXEC, 0644);
	struct stat a, b;
	struct err err = { 0 };

	assert_int_equal(pwrite(fd, "one", 3, 4 << 20), 3);
	assert_int_equal(pwrite(fd, "two", 3, 12 << 20), 3);
	assert_int_equal(ftruncate(fd, 32 << 20), 0);
	assert_int_equal(lseek(fd, 12345, SEEK_SET), 12345); /* the offset doesn't matter */
	assert_int_equal(fs_copy_file_at(base_fd, "sparse", base_fd, "sparse2", 0644, &err), 0);
	assert_same_file("sparse", "sparse2");
	assert_int_equal(fstat(fd, &a), 0);
	assert_int_equal(fstatat(base_fd, "sparse2", &b, 0), 0);
	assert_true(b.st_blocks <= a.st_blocks + 64);
}

/* What copy_file_range can't do (pipes aside: files of /proc report no size and give nothing), read
 * and write can. */
static void test_copy_across_file_systems(void **state)
{
	_cleanup_(freep) char *shm = xasprintf("/dev/shm/cairn-fs-%d", getpid());
	struct err err = { 0 };

	put("across", "some bytes");
	if (fs_copy_file_at(base_fd, "across", AT_FDCWD, shm, 0644, &err) < 0) {
		if (err.code == ERR_NOT_FOUND)
			skip();
		fail_msg("%s", err.msg);
	}
	assert_int_equal(fs_copy_file_at(AT_FDCWD, shm, base_fd, "across-back", 0644, &err), 0);
	unlink(shm);
	assert_holds("across-back", "some bytes");
}

/* Locks. */

static void test_lock_path(void **state)
{
	_cleanup_(freep) char *path = fs_join(base, "lock");
	int a = -1, b = -1;
	struct err err = { 0 };

	assert_int_equal(fs_lock_path(path, false, &a, &err), 0);
	assert_int_equal(fs_lock_path(path, false, &b, &err), 1);
	assert_int_equal(b, -1);
	assert_int_equal(err.code, ERR_NONE);
	close(a);
	assert_int_equal(fs_lock_path(path, true, &b, &err), 0);
	fs_unlock(b);
	assert_int_equal(fs_lock_path(path, false, &a, &err), 0);
	close(a);
	close(b);
	assert_int_equal(fs_lock_path("/nonexistent/lock", false, &a, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

/* A waiter gets the lock when its holder is killed. */
static void test_lock_ends_with_its_holder(void **state)
{
	_cleanup_(freep) char *path = fs_join(base, "lock2");
	int fds[2], fd;
	char byte;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		if (fs_lock_path(path, false, &fd, NULL) != 0 || write(fds[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	assert_int_equal(fs_lock_path(path, false, &fd, NULL), 1);
	kill(pid, SIGKILL);
	assert_int_equal(fs_lock_path(path, true, &fd, NULL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(fd);
	close(fds[0]);
	close(fds[1]);
}

static void test_lock_ranges(void **state)
{
	static const uint64_t offsets[] = { 0, 1, 12345678901234567ULL, FS_LOCK_OFFSET_MAX - 1,
					    FS_LOCK_OFFSET_MAX };
	_cleanup_(fd_closep) int a = openat(base_fd, "ranges", O_CREAT | O_RDWR | O_CLOEXEC, 0644),
				 b = openat(base_fd, "ranges", O_RDWR | O_CLOEXEC);
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
		assert_int_equal(fs_lock_range_try(a, offsets[i], &err), 0);
		assert_int_equal(fs_lock_range_try(a, offsets[i], &err), 0);
		assert_int_equal(fs_lock_range_try(b, offsets[i], &err), 1);
	}
	for (size_t i = 0; i < ARRAY_LEN(offsets); i++) {
		fs_unlock_range(a, offsets[i]);
		assert_int_equal(fs_lock_range_try(b, offsets[i], &err), 0);
		assert_int_equal(fs_lock_range_try(a, offsets[i], &err), 1);
	}
	assert_int_equal(err.code, ERR_NONE);
}

/* Paths. */

static void test_normalise(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "", "." },
		{ ".", "." },
		{ "./", "." },
		{ "a", "a" },
		{ "a/", "a" },
		{ "a//b/./c", "a/b/c" },
		{ "a/../b", "b" },
		{ "a/..", "." },
		{ "..", ".." },
		{ "../a", "../a" },
		{ "a/../../b", "../b" },
		{ "../../a/..", "../.." },
		{ "/", "/" },
		{ "//", "/" },
		{ "/..", "/" },
		{ "/../a", "/a" },
		{ "/a/../..", "/" },
		{ "/a/./b/", "/a/b" },
		{ "...", "..." },
		{ "a/...", "a/..." },
		{ "a/..b", "a/..b" },
		{ "./../a", "../a" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) char *got = fs_normalise(cases[i].in), *again = fs_normalise(got);

		assert_string_equal(got, cases[i].want);
		assert_string_equal(again, got);
	}
}

static void test_inside(void **state)
{
	static const struct {
		const char *root, *path, *relative;
	} cases[] = {
		{ "/a", "/a", "." },       { "/a", "/a/b/c", "b/c" }, { "/a", "/ab", NULL },
		{ "/a", "/a/../b", NULL }, { "/", "/x", "x" },        { "/", "/", "." },
		{ "/a/", "/a//b", "b" },   { "a", "a/b", "b" },       { ".", "a/b", "a/b" },
		{ ".", "../a", NULL },     { "..", "../a", NULL },    { "/a", "a", NULL },
		{ "a", "/a", NULL },       { ".", "a/../..", NULL },  { "a", "a/../../a/b", NULL },
		{ ".", ".", "." },         { ".", "..a", "..a" },     { "a/b", "a", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) char *got = fs_relative(cases[i].root, cases[i].path);

		assert_true(str_eq(got, cases[i].relative));
		assert_int_equal(fs_is_inside(cases[i].root, cases[i].path),
				 cases[i].relative != NULL);
	}
}

static void test_parts(void **state)
{
	static const struct {
		const char *path, *dir, *name;
	} cases[] = {
		{ "a", ".", "a" }, { "a/b", "a", "b" },  { "/a", "/", "a" },  { "/a/b", "/a", "b" },
		{ "a/", "a", "" }, { "a//b", "a", "b" }, { "//a", "/", "a" }, { "", ".", "" },
	};
	static const struct {
		const char *dir, *path, *want;
	} joins[] = { { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "", "b", "b" },
		      { "a", "/b", "/b" }, { "/", "b", "/b" },   { "a", "", "a/" } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) char *dir = fs_dirname(cases[i].path);

		assert_string_equal(dir, cases[i].dir);
		assert_string_equal(fs_basename(cases[i].path), cases[i].name);
	}
	for (size_t i = 0; i < ARRAY_LEN(joins); i++) {
		_cleanup_(freep) char *joined = fs_join(joins[i].dir, joins[i].path);

		assert_string_equal(joined, joins[i].want);
	}
}

static void test_project_root(void **state)
{
	static const char *const marks[] = { "cairn.yaml", ".cairn", ".git" };
	_cleanup_(freep) char *start = fs_join(base, "project/a/b"), *link = fs_join(base, "plink"),
			      *real = realpath(base, NULL), *want = fs_join(real, "project");
	struct err err = { 0 };
	char *root = NULL;

	assert_int_equal(fs_mkdir_p(start, &err), 0);
	assert_int_equal(symlinkat("project/a", base_fd, "plink"), 0);
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		_cleanup_(freep) char *mark = xasprintf("project/%s", marks[i]);

		if (i == 0)
			put(mark, "");
		else
			assert_int_equal(mkdirat(base_fd, mark, 0755), 0);
		assert_int_equal(fs_find_project_root(start, &root, &err), 0);
		assert_string_equal(root, want);
		free(root);
		assert_int_equal(fs_find_project_root(link, &root, &err), 0);
		assert_string_equal(root, want);
		free(root);
		assert_int_equal(fs_remove_tree_at(base_fd, mark, &err), 0);
	}
	assert_int_equal(fs_find_project_root("/nonexistent", &root, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	if (fs_find_project_root(start, &root, &err) ==
	    0) /* somebody's /tmp is in a project: nothing to see */
		free(root);
	else
		assert_non_null(strstr(err.msg, "cairn init"));
}

/* Whatever lies on the way, nothing is made outside. */
static void test_make_beneath(void **state)
{
	static const char *const refused[] = { "../x",  "a/../../x", "/tmp/x",
					       "out/x", "out/x/y",   "inner/x",
					       "a//b",  "a/file/x",  "" };
	struct err err = { 0 };
	int dir, fd;

	assert_int_equal(mkdirat(base_fd, "below", 0755), 0);
	assert_int_equal(mkdirat(base_fd, "beside", 0755), 0);
	dir = openat(base_fd, "below", O_RDONLY | O_DIRECTORY);
	assert_int_equal(symlinkat("../beside", dir, "out"), 0);
	for (size_t i = 0; i < 2; i++) {
		fd = fs_make_beneath(dir, "a/./b/c", 0755, &err);
		assert_true(fd >= 0);
		assert_int_equal(faccessat(dir, "a/b/c", F_OK, 0), 0);
		close(fd);
	}
	assert_int_equal(symlinkat("a", dir, "inner"), 0);
	put("below/a/file", "");
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		assert_int_equal(fs_make_beneath(dir, refused[i], 0755, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_int_equal(faccessat(base_fd, "beside/x", F_OK, 0), -1);
		assert_int_equal(faccessat(base_fd, "x", F_OK, 0), -1);
	}
	fd = fs_make_beneath(dir, ".", 0755, &err);
	assert_true(fd >= 0);
	close(fd);
	close(dir);
}

static void test_file_name(void **state)
{
	static const char *const cases[][2] = {
		{ "model", "model" }, { "../../x", "%2E.%2F..%2Fx" },
		{ ".", "%2E" },       { "a.b", "a.b" },
		{ "", "%" },          { "%", "%25" }
	};
	char text[400];
	char *name;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		name = fs_file_name(cases[i][0]);
		assert_string_equal(name, cases[i][1]);
		free(name);
	}
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	name = fs_file_name(text);
	assert_true(strlen(name) <= 200);
	free(name);
}

static void test_network_name(void **state)
{
	assert_null(fs_network_name("/proc"));
	assert_null(fs_network_name("/nonexistent"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_read),
		cmocka_unit_test(test_read_sizes),
		cmocka_unit_test(test_read_at),
		cmocka_unit_test(test_read_proc),
		cmocka_unit_test(test_write_atomic),
		cmocka_unit_test(test_write_fails),
		cmocka_unit_test(test_write_over_symlink),
		cmocka_unit_test(test_mkdir_p),
		cmocka_unit_test(test_keep_newest),
		cmocka_unit_test(test_remove_simple),
		cmocka_unit_test(test_remove_never_follows),
		cmocka_unit_test(test_remove_read_only),
		cmocka_unit_test(test_remove_reports),
		cmocka_unit_test(test_remove_stays_off_mounts),
		cmocka_unit_test(test_remove_deep),
		cmocka_unit_test(test_remove_wide),
		cmocka_unit_test(test_copy),
		cmocka_unit_test(test_copy_sparse),
		cmocka_unit_test(test_copy_across_file_systems),
		cmocka_unit_test(test_lock_path),
		cmocka_unit_test(test_lock_ends_with_its_holder),
		cmocka_unit_test(test_lock_ranges),
		cmocka_unit_test(test_normalise),
		cmocka_unit_test(test_inside),
		cmocka_unit_test(test_parts),
		cmocka_unit_test(test_project_root),
		cmocka_unit_test(test_make_beneath),
		cmocka_unit_test(test_file_name),
		cmocka_unit_test(test_network_name),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

/* Preloaded into cairn: the N-th call of one function fails, once, in the first process only.
 * NTH_CALL=name NTH_N=number NTH_ERRNO=number; NTH_FIRED names a file that is made when it
 * happened. NTH_ERRNO=kill: the process is killed there instead, before the call is made. "commit"
 * and "committed" are no calls of the system: the moments before and after a transaction of
 * SQLite's is committed. NTH_PATH=text: only calls count whose file has this in its path (for
 * write, fsync, fdatasync, openat, renameat2 and unlinkat). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *call, *path_part;
static long at, error;
static int kills;
static atomic_long count;
static pid_t self;

__attribute__((constructor)) static void init(void)
{
	call = getenv("NTH_CALL") ? strdup(getenv("NTH_CALL"))
				  : NULL; /* the engine wipes what it was started with */
	path_part = getenv("NTH_PATH") ? strdup(getenv("NTH_PATH")) : NULL;
	at = getenv("NTH_N") ? strtol(getenv("NTH_N"), NULL, 10) : 0;
	error = getenv("NTH_ERRNO") ? strtol(getenv("NTH_ERRNO"), NULL, 10) : EIO;
	kills = getenv("NTH_ERRNO") && strcmp(getenv("NTH_ERRNO"), "kill") == 0;
	self = getpid();
	unsetenv("LD_PRELOAD"); /* what it starts is left alone */
}

static int fires(const char *name)
{
	const char *mark;
	int fd;

	if (!call || strcmp(call, name) != 0 || getpid() != self ||
	    atomic_fetch_add(&count, 1) + 1 != at)
		return 0;
	mark = getenv("NTH_FIRED");
	fd = mark ? creat(mark, 0644) : -1;
	if (fd >= 0)
		close(fd);
	if (kills)
		kill(self, SIGKILL);
	errno = (int)error;
	return 1;
}

static int fires_at(const char *name, const char *path)
{
	return (!path_part || strstr(path, path_part)) && fires(name);
}

static int fires_on(const char *name, int fd)
{
	char link[64], path[4096] = "";

	if (!path_part || !call || strcmp(call, name) != 0)
		return fires(name);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	return readlink(link, path, sizeof(path) - 1) > 0 && fires_at(name, path);
}

#define NEXT(type, name, ...) ((type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name))

int openat(int dir, const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	return fires_at("openat", path)
		       ? -1
		       : NEXT(int, openat, int, const char *, int, ...)(dir, path, flags, mode);
}

int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	va_start(ap, flags);
	if (flags & (O_CREAT | O_TMPFILE))
		mode = va_arg(ap, mode_t);
	va_end(ap);
	return fires("open") ? -1 : NEXT(int, open, const char *, int, ...)(path, flags, mode);
}

ssize_t write(int fd, const void *buf, size_t n)
{
	return fires_on("write", fd) ? -1
				     : NEXT(ssize_t, write, int, const void *, size_t)(fd, buf, n);
}

ssize_t read(int fd, void *buf, size_t n)
{
	return fires("read") ? -1 : NEXT(ssize_t, read, int, void *, size_t)(fd, buf, n);
}

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t off)
{
	return fires("pwrite") ? -1
			       : NEXT(ssize_t, pwrite64, int, const void *, size_t,
				      off64_t)(fd, buf, n, off);
}

int fsync(int fd)
{
	return fires_on("fsync", fd) ? -1 : NEXT(int, fsync, int)(fd);
}

int fdatasync(int fd)
{
	return fires_on("fdatasync", fd) ? -1 : NEXT(int, fdatasync, int)(fd);
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	return fires_at("renameat2", to) ? -1
					 : NEXT(int, renameat2, int, const char *, int,
						const char *, unsigned)(a, from, b, to, flags);
}

int rename(const char *from, const char *to)
{
	return fires("rename") ? -1 : NEXT(int, rename, const char *, const char *)(from, to);
}

int renameat(int a, const char *from, int b, const char *to)
{
	return fires("renameat")
		       ? -1
		       : NEXT(int, renameat, int, const char *, int, const char *)(a, from, b, to);
}

int linkat(int a, const char *from, int b, const char *to, int flags)
{
	return fires("linkat") ? -1
			       : NEXT(int, linkat, int, const char *, int, const char *,
				      int)(a, from, b, to, flags);
}

int unlinkat(int a, const char *path, int flags)
{
	return fires_at("unlinkat", path)
		       ? -1
		       : NEXT(int, unlinkat, int, const char *, int)(a, path, flags);
}

/* 13: SQLITE_FULL */
int sqlite3_exec(void *db, const char *sql, void *row, void *arg, char **message)
{
	int commits = strcmp(sql, "COMMIT") == 0, r;

	if (commits && fires("commit"))
		return 13;
	r = NEXT(int, sqlite3_exec, void *, const char *, void *, void *, char **)(db, sql, row,
										   arg, message);
	return commits && fires("committed") ? 13 : r;
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	return fires("mkdirat") ? -1
				: NEXT(int, mkdirat, int, const char *, mode_t)(dir, path, mode);
}

int clone(int (*fn)(void *), void *stack, int flags, void *arg, ...)
{
	return fires("clone") ? -1
			      : NEXT(int, clone, int (*)(void *), void *, int, void *,
				     ...)(fn, stack, flags, arg);
}

void *malloc(size_t n)
{
	static void *(*next)(size_t);

	if (!next)
		next = NEXT(void *, malloc, size_t);
	return fires("malloc") ? NULL : next(n);
}

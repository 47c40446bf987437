#include "storage/bucket/gcs/session.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"

#define MAGIC    "cairn-upload 1"
#define FILE_MAX (16 * KIB)

/* Opens and locks the file, and checks that the name still means this file. -1: another process
 * uses it, or it can't be opened. */
static int open_locked(const char *path, int flags)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	struct stat st;

	if (fd >= 0 && fs_lock(fd, false, NULL) == 0 && fstat(fd, &st) == 0 &&
	    S_ISREG(st.st_mode) && st.st_nlink)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* "cairn-upload 1\nSIZE CRC\nURL\n" */
static char *read_url(const struct gcs *g, const char *path, const char *wanted)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	char *line, *url, *end;

	if (fs_read_file(path, FILE_MAX, &text, NULL) < 0 || !text.s || strlen(text.s) != text.len)
		return NULL;
	line = strchr(text.s, '\n');
	url = line ? strchr(line + 1, '\n') : NULL;
	end = url ? strchr(url + 1, '\n') : NULL;
	if (!end)
		return NULL;
	*line = *url = *end = '\0';
	if (!str_eq(text.s, MAGIC) || (wanted && !str_eq(line + 1, wanted)) ||
	    !gcs_same_host(g, url + 1))
		return NULL;
	return xstrdup(url + 1);
}

static char *content_line(const struct bucket_put *p, const char *crc)
{
	return xasprintf("%llu %s", (unsigned long long)p->size, crc);
}

void session_take(const struct gcs *g, const struct bucket_put *p, const char *crc,
		  struct session_file *ret, char **ret_url)
{
	_cleanup_(freep) char *wanted = content_line(p, crc);
	char hex[DIGEST_HEX_MAX];
	struct digest d;

	*ret = (struct session_file){ .fd = -1 };
	*ret_url = NULL;
	if (!g->uploads_dir || fs_mkdir_p(g->uploads_dir, NULL) < 0)
		return;
	digest_bytes(p->key, strlen(p->key), &d);
	ret->path = xasprintf("%s/%s", g->uploads_dir, digest_hex(&d, hex));
	ret->fd = open_locked(ret->path, O_CREAT);
	if (ret->fd >= 0)
		*ret_url = read_url(g, ret->path, wanted);
}

void session_write(struct session_file *f, const struct bucket_put *p, const char *crc,
		   const char *url)
{
	_cleanup_(freep) char *content = content_line(p, crc),
			      *text = xasprintf(MAGIC "\n%s\n%s\n", content, url);

	if (f->fd >= 0 && (ftruncate(f->fd, 0) < 0 || pwrite(f->fd, text, strlen(text), 0) < 0))
		(void)!ftruncate(f->fd, 0);
}

void session_give_back(struct session_file *f, bool done)
{
	if (f->fd >= 0) {
		if (done)
			unlink(f->path);
		close(f->fd);
	}
	free(TAKE_PTR(f->path));
	f->fd = -1;
}

static int end_stale(const struct gcs *g, const char *path, int64_t before_ns,
		     int (*fn)(void *arg, const char *url, struct err *err), void *arg,
		     struct err *err)
{
	_cleanup_(fd_closep) int fd = open_locked(path, 0);
	_cleanup_(freep) char *url = NULL;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0 ||
	    st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec >= before_ns)
		return 0;
	url = read_url(g, path, NULL);
	if (url && fn(arg, url, err) < 0)
		return -1;
	unlink(path);
	return 0;
}

int session_each_stale(const struct gcs *g, int64_t before_ns,
		       int (*fn)(void *arg, const char *url, struct err *err), void *arg,
		       struct err *err)
{
	DIR *d = g->uploads_dir ? opendir(g->uploads_dir) : NULL;
	struct dirent *e;
	int r = 0;

	while (r == 0 && d && fs_next(d, g->uploads_dir, &e, NULL) > 0) {
		_cleanup_(freep) char *path = fs_join(g->uploads_dir, e->d_name);

		if (e->d_name[0] != '.')
			r = end_stale(g, path, before_ns, fn, arg, err);
	}
	if (d)
		closedir(d);
	return r;
}

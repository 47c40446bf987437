/* runners/image/tar.c — ustar entries, with pax records where a field is too short.
 *
 * begin() writes a pax header first when a name, a link's target or a size needs one. Functions
 * that add a file or bytes then write the content, padded to whole blocks. A file contributes as
 * many bytes as it had when it was opened. Nothing is buffered; the caller chooses the order of
 * entries.
 */
#include "runners/image/tar.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "base/ustar.h"

#define BUFFER (256 * KIB)

struct entry {
	const char *path, *target; /* target: "" when it isn't a link */
	char type;
	unsigned mode;
	uint64_t size;
};

/* "prefix/name": false when no slash gives two parts that fit. */
static bool set_name(struct ustar *h, const char *path)
{
	size_t n = strlen(path);

	if (n <= sizeof(h->name)) {
		memcpy(h->name, path, n);
		return true;
	}
	for (size_t i = MIN(n - 1, sizeof(h->prefix)); i > 0; i--) {
		if (path[i] != '/' || n - i - 1 > sizeof(h->name) || n - i - 1 == 0)
			continue;
		memcpy(h->prefix, path, i);
		memcpy(h->name, path + i + 1, n - i - 1);
		return true;
	}
	memcpy(h->name, path, sizeof(h->name));
	return false;
}

static int put_header(struct tar_writer *w, struct ustar *h, const struct entry *e, struct err *err)
{
	memcpy(h->linkname, e->target, MIN(strlen(e->target), sizeof(h->linkname)));
	ustar_seal(h, e->type, e->mode, MIN(e->size, USTAR_SIZE_MAX));
	h->checksum[6] = ' '; /* earlier layers have it, so their digests stay the same */
	return w->write(w->arg, h, sizeof(*h), err);
}

static int pad(struct tar_writer *w, uint64_t size, struct err *err)
{
	static const char zeros[USTAR_BLOCK];
	size_t rest = (size_t)(size % USTAR_BLOCK);

	return rest ? w->write(w->arg, zeros, USTAR_BLOCK - rest, err) : 0;
}

static int put_pax(struct tar_writer *w, const struct str *records, struct err *err)
{
	struct entry e = { "pax", "", 'x', 0644, records->len };
	struct ustar h = { 0 };

	set_name(&h, e.path);
	if (put_header(w, &h, &e, err) < 0 || w->write(w->arg, records->s, records->len, err) < 0)
		return -1;
	return pad(w, records->len, err);
}

static int begin(struct tar_writer *w, const struct entry *e, struct err *err)
{
	_cleanup_(str_deinit) struct str records = { 0 };
	struct ustar h = { 0 };
	char digits[24];

	assert(e->path[0] && e->path[0] != '/');
	if (strlen(e->target) > sizeof(h.linkname))
		ustar_add_record(&records, "linkpath", e->target, strlen(e->target));
	if (!set_name(&h, e->path))
		ustar_add_record(&records, "path", e->path, strlen(e->path));
	snprintf(digits, sizeof(digits), "%llu", (unsigned long long)e->size);
	if (e->size > USTAR_SIZE_MAX)
		ustar_add_record(&records, "size", digits, strlen(digits));
	if (records.len && put_pax(w, &records, err) < 0)
		return -1;
	return put_header(w, &h, e, err);
}

int tar_add_dir(struct tar_writer *w, const char *path, unsigned mode, struct err *err)
{
	_cleanup_(freep) char *name = xasprintf("%s/", path);

	return begin(w, &(struct entry){ name, "", '5', mode, 0 }, err);
}

int tar_add_link(struct tar_writer *w, const char *path, const char *target, struct err *err)
{
	return begin(w, &(struct entry){ path, target, '2', 0777, 0 }, err);
}

int tar_add_bytes(struct tar_writer *w, const char *path, unsigned mode, const void *bytes,
		  size_t n, struct err *err)
{
	if (begin(w, &(struct entry){ path, "", '0', mode, n }, err) < 0 ||
	    (n && w->write(w->arg, bytes, n, err) < 0))
		return -1;
	return pad(w, n, err);
}

int tar_add_file(struct tar_writer *w, const char *path, unsigned mode, const char *source,
		 struct err *err)
{
	_cleanup_(fd_closep) int fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	_cleanup_(freep) char *buf = xmalloc(BUFFER);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", source);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", source);
	if (begin(w, &(struct entry){ path, "", '0', mode, (uint64_t)st.st_size }, err) < 0)
		return -1;
	for (uint64_t left = (uint64_t)st.st_size; left > 0;) {
		ssize_t n = read(fd, buf, MIN(left, BUFFER));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read %s", source);
		if (n == 0)
			return err_set(err, ERR_CHANGED, "%s became shorter while it was read",
				       source);
		if (w->write(w->arg, buf, (size_t)n, err) < 0)
			return -1;
		left -= (uint64_t)n;
	}
	return pad(w, (uint64_t)st.st_size, err);
}

int tar_end(struct tar_writer *w, struct err *err)
{
	static const char zeros[2 * USTAR_BLOCK];

	return w->write(w->arg, zeros, sizeof(zeros), err);
}

/* engine/base/gitindex.c — the index as a stream.
 *
 * take() gives bytes from a buffer of 64 KiB, so a reader needs 70 KB however many files there are.
 * An entry is ten numbers, an id, flags (two more bytes with GITINDEX_EXTENDED), the path. In
 * versions 2 and 3, NULs follow up to a multiple of eight bytes; in version 4, the path is what
 * follows a prefix of the one before. Of a path longer than the buffer only the length is kept: a
 * name can't hide those after it.
 */
#include "base/gitindex.h"
#include <assert.h>
#include <endian.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/mem.h"

#define LENGTH_MASK  0x0fff
#define HEADER_BYTES 12

struct gitindex {
	int fd;
	struct stat st;
	size_t id_bytes;
	uint32_t version, left;
	uint8_t buf[64 * KIB];
	size_t at, len;
	uint64_t taken; /* bytes of the file before buf[at] */
	struct gitindex_entry entry;
};

/* As they are in the file, in network byte order. */
struct raw_entry {
	uint32_t ctime_s, ctime_ns, mtime_s, mtime_ns, dev, ino, mode, uid, gid, size;
};
struct raw_header {
	char magic[4];
	uint32_t version, entries;
};

/* False at the end. */
static bool fill(struct gitindex *x)
{
	ssize_t got = x->at < x->len ? 1 : read(x->fd, x->buf, sizeof(x->buf));

	if (got > 0 && x->at == x->len) {
		x->at = 0;
		x->len = (size_t)got;
	}
	return got > 0;
}

/* `to`: NULL skips. */
static bool take(struct gitindex *x, void *to, size_t n)
{
	while (n) {
		size_t part;

		if (!fill(x))
			return false;
		part = MIN(n, x->len - x->at);
		if (to)
			to = mempcpy(to, x->buf + x->at, part);
		x->at += part;
		x->taken += part;
		n -= part;
	}
	return true;
}

struct gitindex *gitindex_open(const char *file, size_t id_bytes)
{
	struct gitindex *x = xcalloc(1, sizeof(*x));
	struct raw_header head;

	assert(id_bytes == GITINDEX_SHA1 || id_bytes == GITINDEX_SHA256);
	x->id_bytes = id_bytes;
	x->fd = open(file, O_RDONLY | O_CLOEXEC);
	if (x->fd >= 0 && fstat(x->fd, &x->st) == 0 && S_ISREG(x->st.st_mode) &&
	    take(x, &head, sizeof(head)) && memcmp(head.magic, "DIRC", 4) == 0) {
		x->version = be32toh(head.version);
		x->left = be32toh(head.entries);
	}
	if (x->version >= 2 && x->version <= 4)
		return x;
	gitindex_free(x);
	return NULL;
}

void gitindex_free(struct gitindex *x)
{
	if (!x)
		return;
	fd_closep(&x->fd);
	free(x);
}

const struct stat *gitindex_stat(const struct gitindex *x)
{
	return &x->st;
}

/* Version 4: how many bytes of the last path are dropped. */
static bool take_dropped(struct gitindex *x, size_t *ret)
{
	uint8_t c;
	size_t n;

	if (!take(x, &c, 1))
		return false;
	for (n = c & 127; c & 128; n = ((n + 1) << 7) | (c & 127))
		if (n > x->entry.path_len || !take(x, &c, 1))
			return false;
	*ret = n;
	return n <= x->entry.path_len;
}

static bool take_path(struct gitindex *x)
{
	struct gitindex_entry *e = &x->entry;
	size_t dropped = e->path_len;
	const uint8_t *end = NULL;

	if (x->version == 4 && !take_dropped(x, &dropped))
		return false;
	for (e->path_len -= dropped; !end;) {
		size_t part, room;

		if (!fill(x))
			return false;
		end = memchr(x->buf + x->at, '\0', x->len - x->at);
		part = end ? (size_t)(end - (x->buf + x->at)) : x->len - x->at;
		room = sizeof(e->path) - 1 - MIN(e->path_len, sizeof(e->path) - 1);
		memcpy(e->path + MIN(e->path_len, sizeof(e->path) - 1), x->buf + x->at,
		       MIN(part, room));
		e->path_len += part;
		take(x, NULL, part + (end ? 1 : 0));
	}
	e->path[MIN(e->path_len, sizeof(e->path) - 1)] = '\0';
	return e->path_len > 0;
}

int gitindex_next(struct gitindex *x, const struct gitindex_entry **ret)
{
	struct gitindex_entry *e = &x->entry;
	uint64_t began = x->taken;
	struct raw_entry raw;
	uint16_t flags, length;

	if (x->left == 0)
		return 0;
	x->left--;
	if (!take(x, &raw, sizeof(raw)) || !take(x, NULL, x->id_bytes) ||
	    !take(x, &flags, sizeof(flags)))
		return -1;
	e->ctime_s = be32toh(raw.ctime_s);
	e->ctime_ns = be32toh(raw.ctime_ns);
	e->mtime_s = be32toh(raw.mtime_s);
	e->mtime_ns = be32toh(raw.mtime_ns);
	e->ino = be32toh(raw.ino);
	e->mode = be32toh(raw.mode);
	e->size = be32toh(raw.size);
	e->flags = be16toh(flags);
	if (x->version >= 3 && e->flags & GITINDEX_EXTENDED && !take(x, NULL, 2))
		return -1;
	length = e->flags & LENGTH_MASK;
	if (!take_path(x) || (length < LENGTH_MASK && length != e->path_len) ||
	    (x->version < 4 && !take(x, NULL, (8 - (x->taken - began) % 8) % 8)))
		return -1;
	*ret = e;
	return 1;
}

bool gitindex_tree(struct gitindex *x, uint8_t *ret_id)
{
	assert(x->left == 0);
	/* Names and lengths of extensions, then a checksum. */
	while (x->taken + x->id_bytes < (uint64_t)x->st.st_size) {
		char sign[4], c;
		uint32_t n;

		if (!take(x, sign, sizeof(sign)) || !take(x, &n, sizeof(n)))
			return false;
		n = be32toh(n);
		if (memcmp(sign, "TREE", 4) == 0) { /* "" NUL COUNT ' ' SUBTREES '\n' ID */
			if (n < 5 + x->id_bytes || !take(x, &c, 1) || c || !take(x, &c, 1) ||
			    c == '-')
				return false;
			for (n -= 2; c != '\n'; n--)
				if (n <= x->id_bytes || !take(x, &c, 1))
					return false;
			return take(x, ret_id, x->id_bytes);
		}
		/* Others are not to be ignored: a split or sparse index. */
		if (sign[0] < 'A' || sign[0] > 'Z' || !take(x, NULL, n))
			return false;
	}
	return false;
}

/* Where paths stand in full, one search over the bytes shows that most indexes have no such path.
 */
static bool may_have(const char *file, const char *prefix)
{
	_cleanup_(fd_closep) int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct stat st;
	const struct raw_header *head;
	bool may;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < HEADER_BYTES)
		return false;
	head = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (head == MAP_FAILED)
		return false;
	may = be32toh(head->version) == 4 ||
	      memmem(head, (size_t)st.st_size, prefix, strlen(prefix)) != NULL;
	munmap((void *)head, (size_t)st.st_size);
	return may;
}

bool gitindex_has(const char *file, const char *prefix)
{
	static const size_t id_bytes[] = { GITINDEX_SHA1, GITINDEX_SHA256 };
	size_t len = strlen(prefix);
	int r = -1;

	assert(len < GITINDEX_PATH_MAX);
	if (!may_have(file, prefix))
		return false;
	/* The file doesn't say which ids it has: with the wrong ones it has no shape. */
	for (size_t i = 0; i < ARRAY_LEN(id_bytes) && r < 0; i++) {
		struct gitindex *x = gitindex_open(file, id_bytes[i]);
		const struct gitindex_entry *e;
		bool has = false;

		while (x && !has && (r = gitindex_next(x, &e)) > 0)
			has = strncmp(e->path, prefix, len) == 0;
		gitindex_free(x);
		if (has)
			return true;
	}
	return false;
}

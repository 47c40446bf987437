/* storage/content/hash.c — hashes blobs, and copies them while they are hashed.
 *
 * A blob above 16 MiB is hashed by parts, so that parts hash in parallel. struct part_job is shared
 * by the threads of one blob: each takes the next part, and writes its digest into that part's
 * place. When the blob is copied too, the part is copied first, under the lock: so the file grows
 * in order, and while one thread copies the others hash. The first part that fails ends the job.
 *
 * A hole of a sparse file is hashed as zeros without being read. struct blob_hasher gives the same
 * digest for bytes that arrive in order.
 */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/work.h"
#include "storage/internal.h"

uint64_t content_part_bytes(uint64_t size)
{
	uint64_t part = CONTENT_PART_BYTES;

	while (size / part + (size % part != 0) > CONTENT_PARTS_MAX)
		part *= 2;
	return part;
}

void blob_hasher_init(struct blob_hasher *h, uint64_t size)
{
	bool parts = size > CONTENT_PART_BYTES;

	h->part = digester_new();
	h->whole = parts ? digester_new() : NULL;
	h->part_bytes = parts ? content_part_bytes(size) : UINT64_MAX;
	h->left_in_part = h->part_bytes;
}

void blob_hasher_update(struct blob_hasher *h, const void *bytes, size_t n)
{
	const uint8_t *at = bytes;

	while (n) {
		size_t take = (size_t)MIN((uint64_t)n, h->left_in_part);
		struct digest d;

		digester_update(h->part, at, take);
		at += take;
		n -= take;
		h->left_in_part -= take;
		if (h->left_in_part == 0) {
			digester_final(h->part, &d);
			assert(h->whole); /* no more bytes than the announced size */
			digester_update(h->whole, d.b, DIGEST_BYTES);
			h->left_in_part = h->part_bytes;
		}
	}
}

void blob_hasher_final(struct blob_hasher *h, struct digest *ret)
{
	if (h->whole && h->left_in_part < h->part_bytes) {
		struct digest d;

		digester_final(h->part, &d);
		digester_update(h->whole, d.b, DIGEST_BYTES);
	}
	digester_final(h->whole ? h->whole : h->part, ret);
	digester_free(h->part);
	digester_free(h->whole);
}

#define PIECE_BYTES (256 * KIB)

/* The length of the hole at `from`, at most `n`. Reading a hole would fill the page cache with
 * zeros, and cost five times as much as hashing zeros. */
static uint64_t hole_at(int fd, uint64_t from, uint64_t n)
{
	off_t data = lseek(fd, (off_t)from, SEEK_DATA);
	struct stat st;

	if (data >= 0)
		return MIN(n, (uint64_t)data - from);
	return errno == ENXIO && fstat(fd, &st) == 0 && (uint64_t)st.st_size >= from + n ? n : 0;
}

static int hash_range(int fd, uint64_t from, uint64_t n, bool sparse, struct digest *ret,
		      struct err *err)
{
	_cleanup_(freep) uint8_t *buf = xmalloc(MIN(n + 1, (uint64_t)PIECE_BYTES));
	struct digester *d = digester_new();
	int r = 0;

	while (n && r == 0) {
		size_t want = MIN(n, (uint64_t)PIECE_BYTES);
		uint64_t hole = sparse ? hole_at(fd, from, want) : 0;
		ssize_t got = hole ? (ssize_t)hole : fs_read_at(fd, buf, want, (off_t)from);

		memset(buf, 0, hole);
		if (got < 0)
			r = err_errno(err, "cannot read");
		else if (got == 0)
			r = err_set(err, ERR_CHANGED, "the file got shorter while it was read");
		else
			digester_update(d, buf, (size_t)got);
		from += got > 0 ? (uint64_t)got : 0;
		n -= got > 0 ? (uint64_t)got : 0;
	}
	if (r == 0)
		digester_final(d, ret);
	digester_free(d);
	return r;
}

struct part_job {
	int fd;
	int from; /* copied to `fd` meanwhile; -1: the bytes are there */
	bool sparse, lasts;
	uint64_t size, part_bytes;
	size_t n_parts;
	struct digest *digests;
	pthread_mutex_t lock; /* guards the fields below; held while a part is copied */
	size_t next;
	bool over; /* one has failed */
};

/* Lets the disk write what was copied while the rest is copied and hashed: whoever makes anything
 * durable on this file system may have to wait for it. `n` 0: up to the end. */
static void begin_writing(int fd, uint64_t at, uint64_t n)
{
	(void)!sync_file_range(fd, (off_t)at, (off_t)n, SYNC_FILE_RANGE_WRITE);
}

/* The next part: threads come here in any order. */
static int do_part(void *arg, size_t ignored, struct err *err)
{
	struct part_job *j = arg;
	uint64_t at, n;
	size_t i;
	bool over;
	int r = 0;

	(void)ignored;
	pthread_mutex_lock(&j->lock);
	over = j->over;
	i = j->next++;
	at = i * j->part_bytes;
	n = MIN(j->part_bytes, j->size - at);
	if (j->from >= 0 && !over)
		r = fs_copy_range(j->from, j->fd, (off_t)at, (off_t)(at + n), err);
	if (j->lasts && r == 0)
		begin_writing(j->fd, at, n);
	j->over |= r < 0;
	pthread_mutex_unlock(&j->lock);
	if (over || r < 0)
		return r;
	r = hash_range(j->fd, at, n, j->sparse, &j->digests[i], err);
	if (r < 0) {
		pthread_mutex_lock(&j->lock);
		j->over = true;
		pthread_mutex_unlock(&j->lock);
	}
	return r;
}

/* What remains is set by the caller: fd, from, sparse, lasts and size. */
static int do_all_parts(struct part_job *j, unsigned n_threads, struct digest *ret, struct err *err)
{
	int r;

	pthread_mutex_init(&j->lock, NULL);
	j->part_bytes = content_part_bytes(j->size);
	j->n_parts = (j->size + j->part_bytes - 1) / j->part_bytes;
	j->digests = xcalloc(j->n_parts, sizeof(*j->digests));
	r = work_each(n_threads, j->n_parts, false, do_part, j, err);
	if (r == 0)
		digest_bytes(j->digests, j->n_parts * DIGEST_BYTES, ret);
	free(j->digests);
	pthread_mutex_destroy(&j->lock);
	return r;
}

static bool is_sparse(int fd, uint64_t size)
{
	struct stat st;

	return fstat(fd, &st) == 0 && (uint64_t)st.st_blocks * 512 < size;
}

int content_hash_fd(int fd, uint64_t size, unsigned n_threads, struct digest *ret, struct err *err)
{
	struct part_job j = { .fd = fd, .from = -1, .sparse = is_sparse(fd, size), .size = size };

	return size <= CONTENT_PART_BYTES ? hash_range(fd, 0, size, false, ret, err)
					  : do_all_parts(&j, n_threads, ret, err);
}

int content_copy_fd(int from, int to, uint64_t size, unsigned n_threads, bool lasts,
		    struct digest *ret, struct err *err)
{
	struct part_job j = { .fd = to, .from = from, .lasts = lasts, .size = size };

	/* A reflink needs no copy, and holes must stay holes. */
	if (size > CONTENT_PART_BYTES && !is_sparse(from, size) && fs_reflink(from, to) != 0)
		return do_all_parts(&j, n_threads, ret, err);
	if (fs_copy_fd(from, to, err) < 0)
		return -1;
	if (lasts)
		begin_writing(to, 0, 0);
	return content_hash_fd(to, size, n_threads, ret, err);
}

unsigned content_threads(void)
{
	return (unsigned)MIN(MAX(sysconf(_SC_NPROCESSORS_ONLN), 1), 4);
}

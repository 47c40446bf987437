/* storage/local/flush.c — makes the objects of a directory store durable, in few flushes.
 *
 * A rename may reach the disk before the bytes do. So the order is: the bytes of all new objects,
 * then the directories that hold their names, then, if a shard is new, the spaces above.
 *
 * syncfs() does all of it in one call, but also writes what other programs wrote to this file
 * system. So few objects are flushed one by one, and many by syncfs(); SYNC_* below say how many
 * are few.
 *
 * One thread flushes at a time, under sync_lock. A thread that waited for it compares generations:
 * a flush that began after its own puts covers them, and it has nothing left to do. A flush that
 * failed has lost the list of its objects, so the next one is a syncfs().
 *
 * This doesn't know what an object is, and doesn't open files for writing.
 */
#include "storage/local/flush.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "storage/internal.h"
#include "storage/local/linked.h"

/* Up to SYNC_EACH_MIN new objects are flushed one by one; more, up to SYNC_EACH_MAX, if the machine
 * has more bytes to write than SYNC_BYTES an object: disks of all kinds write about that much in
 * the time of one fsync(). */
#define SYNC_EACH_MIN 4
#define SYNC_EACH_MAX 4096
#define SYNC_BYTES    MIB

void flush_init(struct flush *f, int root)
{
	*f = (struct flush){ .root = root };
	pthread_mutex_init(&f->sync_lock, NULL);
	pthread_mutex_init(&f->lock, NULL);
}

void flush_deinit(struct flush *f)
{
	VEC_FREE(&f->pending.paths);
	pthread_mutex_destroy(&f->lock);
	pthread_mutex_destroy(&f->sync_lock);
}

void flush_note(struct flush *f, const char *path, uint64_t bytes)
{
	assert(strlen(path) < OBJECT_PATH_MAX && strchr(path, '/'));
	pthread_mutex_lock(&f->lock);
	f->put_generation++;
	f->pending.bytes += bytes;
	if (f->pending.n++ < SYNC_EACH_MAX)
		snprintf(VEC_ADD(&f->pending.paths)->s, OBJECT_PATH_MAX, "%s", path);
	pthread_mutex_unlock(&f->lock);
}

uint64_t flush_waiting(struct flush *f)
{
	uint64_t bytes;

	pthread_mutex_lock(&f->lock);
	bytes = f->pending.bytes;
	pthread_mutex_unlock(&f->lock);
	return bytes;
}

void flush_note_shard(struct flush *f, const char *path)
{
	unsigned space = 0;

	while (space < STORE_SPACES && !str_has_prefix(path, store_space_names[space]))
		space++;
	atomic_fetch_or(&f->shards_made, 1u << space);
}

static int sync_path(struct flush *f, const char *path)
{
	int fd = openat(f->root, path, O_RDONLY | O_CLOEXEC), r;

	if (fd < 0)
		return errno == ENOENT ? 0 : -1;
	r = fsync(fd);
	close(fd);
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Begins to write all files, so that the first fsync() waits for all and one commit of the file
 * system covers them; then flushes each, then each directory once. */
static int sync_each(struct flush *f, struct object_path *paths, size_t n)
{
	unsigned shards_made;

	for (size_t i = 0; i < n && n > 1; i++) {
		_cleanup_(fd_closep) int fd = openat(f->root, paths[i].s, O_RDONLY | O_CLOEXEC);

		if (fd >= 0)
			(void)sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	}
	for (size_t i = 0; i < n; i++) {
		if (sync_path(f, paths[i].s) < 0)
			return -1;
		*strrchr(paths[i].s, '/') = '\0';
	}
	if (n > 1)
		qsort(paths, n, sizeof(*paths), by_path);
	for (size_t i = 0; i < n; i++)
		if ((i == 0 || !str_eq(paths[i].s, paths[i - 1].s)) && sync_path(f, paths[i].s) < 0)
			return -1;
	shards_made = atomic_exchange(&f->shards_made, 0);
	for (unsigned space = 0; space < STORE_SPACES; space++)
		if (shards_made & 1u << space && sync_path(f, store_space_names[space]) < 0)
			return -1;
	if (!(shards_made & 1u << STORE_SPACES))
		return 0;
	/* Absent before the first linked file, whose directory is new in the store's. */
	return sync_path(f, LINKED_DIR) < 0 || sync_path(f, ".") < 0 ? -1 : 0;
}

/* Bytes that wait to be written on this machine, to any disk. UINT64_MAX: not known. */
static uint64_t dirty_bytes(void)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	unsigned long long dirty, writing;
	const char *line;

	if (fs_read_file("/proc/meminfo", 64 * KIB, &text, NULL) < 0 ||
	    !(line = strstr(text.s, "\nDirty:")) ||
	    sscanf(line, " Dirty: %llu kB Writeback: %llu", &dirty, &writing) != 2)
		return UINT64_MAX;
	return (dirty + writing) * KIB;
}

/* Flushes all that was noted before the flush begins. */
static int flush_now(struct flush *f)
{
	unsigned long generation;
	struct pending now;
	int r, e;

	pthread_mutex_lock(&f->lock);
	generation = f->put_generation;
	now = f->pending;
	f->pending = (struct pending){ 0 };
	pthread_mutex_unlock(&f->lock);
	r = now.n <= SYNC_EACH_MIN || (now.n <= SYNC_EACH_MAX && dirty_bytes() / SYNC_BYTES > now.n)
		    ? sync_each(f, now.paths.v, now.n)
		    : syncfs(f->root);
	e = errno;
	VEC_FREE(&now.paths);
	pthread_mutex_lock(&f->lock);
	if (r == 0)
		f->synced_generation = generation;
	else
		f->pending.n = SYNC_EACH_MAX + 1; /* the next flush covers everything */
	pthread_mutex_unlock(&f->lock);
	errno = e;
	return r;
}

int flush_all(struct flush *f)
{
	unsigned long want;
	bool covered;
	int r;

	pthread_mutex_lock(&f->lock);
	want = f->put_generation;
	pthread_mutex_unlock(&f->lock);
	pthread_mutex_lock(&f->sync_lock);
	pthread_mutex_lock(&f->lock);
	covered = f->synced_generation >= want; /* by a flush that began after our puts */
	pthread_mutex_unlock(&f->lock);
	r = covered ? 0 : flush_now(f);
	pthread_mutex_unlock(&f->sync_lock); /* leaves errno as it is */
	return r;
}

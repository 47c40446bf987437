/* storage/remote/unsent.c — the journal of unsent records: a file of 33-byte entries for each
 * process.
 *
 * An entry is appended with one write. A killed process leaves complete entries; a torn last entry
 * is ignored. The file is locked while its process lives; the kernel releases the lock with the
 * process.
 *
 * Taking over first copies a dead process's entries into our own file, then removes the other file.
 * `others` has the entries taken over. Our file is truncated to its head only when nothing is being
 * added and `others` is empty.
 *
 * `lock` guards a journal. After an error it is `broken`: it isn't written any more, and no file of
 * others is removed.
 */
#include "storage/remote/unsent.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/map.h"
#include "base/mem.h"
#include "base/os/fs.h"

#define MAGIC     "cairn-unsent/1\n"
#define MAGIC_LEN (sizeof(MAGIC) - 1)
#define ENTRY_LEN (1 + DIGEST_BYTES)
#define REPLACE   0x80
#define NAMES_MAX 100

struct unsent {
	pthread_mutex_t lock;
	char *dir, *path; /* path NULL: no file yet */
	int fd;
	bool broken;        /* a write failed: never tried again */
	unsigned adding;    /* between unsent_add() and unsent_added() */
	struct map *others; /* entries taken over: entry → 1 */
};

struct unsent *unsent_new(const char *dir)
{
	struct unsent *u = xcalloc(1, sizeof(*u));

	pthread_mutex_init(&u->lock, NULL);
	u->dir = xstrdup(dir);
	u->fd = -1;
	u->others = map_new();
	return u;
}

/* Makes a new file, never one of an earlier process with this id. */
static int make_file(const char *dir, char **ret_path)
{
	static atomic_uint counter;
	int fd = -1;

	for (int i = 0; i < NAMES_MAX && fd < 0; i++) {
		free(*ret_path);
		*ret_path =
			xasprintf("%s/%ld-%u", dir, (long)getpid(), atomic_fetch_add(&counter, 1));
		fd = open(*ret_path, O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
			  0644);
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

/* Before we lock the new file, another process may take it as a dead one's and remove it. Then this
 * process has no journal. */
static bool open_own(struct unsent *u)
{
	struct stat st;

	if (u->fd >= 0 || u->broken)
		return u->fd >= 0 && !u->broken;
	u->broken = true;
	if (fs_mkdir_p(u->dir, NULL) < 0 || (u->fd = make_file(u->dir, &u->path)) < 0)
		return false;
	if (fs_lock(u->fd, false, NULL) != 0 || fstat(u->fd, &st) < 0 || st.st_nlink == 0 ||
	    write(u->fd, MAGIC, MAGIC_LEN) != (ssize_t)MAGIC_LEN)
		return false;
	u->broken = false;
	return true;
}

/* The spaces that are journalled. Both adding and taking over check this. */
static bool is_record(unsigned space)
{
	return space == STORE_ACTION || space == STORE_RUN || space == STORE_TAG;
}

static void append(struct unsent *u, const uint8_t entry[ENTRY_LEN])
{
	if (open_own(u) && write(u->fd, entry, ENTRY_LEN) != (ssize_t)ENTRY_LEN)
		u->broken = true;
}

void unsent_add(struct unsent *u, const struct unsent_record *r)
{
	uint8_t entry[ENTRY_LEN];

	assert(is_record(r->space));
	entry[0] = (uint8_t)(r->space | (r->replace ? REPLACE : 0));
	memcpy(entry + 1, r->name.b, DIGEST_BYTES);
	pthread_mutex_lock(&u->lock);
	u->adding++;
	append(u, entry);
	pthread_mutex_unlock(&u->lock);
}

void unsent_added(struct unsent *u)
{
	pthread_mutex_lock(&u->lock);
	assert(u->adding);
	u->adding--;
	pthread_mutex_unlock(&u->lock);
}

/* Reads the entries of a dead process's file. Skips what isn't an entry (another version, garbage).
 * False: it can't be read now, and must be taken over later. */
static bool read_entries(struct unsent *u, int fd)
{
	uint8_t buf[1024 * ENTRY_LEN];
	off_t at = MAGIC_LEN;
	ssize_t n = pread(fd, buf, MAGIC_LEN, 0);

	if (n < 0)
		return false;
	if (n < (ssize_t)MAGIC_LEN || memcmp(buf, MAGIC, MAGIC_LEN) != 0)
		return true;
	/* No limit: a skipped entry would never be sent. */
	while ((n = pread(fd, buf, sizeof(buf), at)) >= (ssize_t)ENTRY_LEN) {
		size_t whole = (size_t)n / ENTRY_LEN * ENTRY_LEN;

		for (const uint8_t *e = buf; e < buf + whole; e += ENTRY_LEN) {
			bool is_new;

			if (!is_record(*e & (uint8_t)~REPLACE))
				continue;
			*map_slot(u->others, e, ENTRY_LEN, &is_new) = u;
			if (is_new)
				append(u, e);
		}
		at += (off_t)whole;
	}
	return n >= 0;
}

/* Our file must have all entries before theirs is removed. */
static void take_file(struct unsent *u, int dir, const char *name)
{
	_cleanup_(fd_closep) int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	if (fd < 0 || fs_lock(fd, false, NULL) != 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    st.st_nlink == 0)
		return;
	if (read_entries(u, fd) && !u->broken)
		unlinkat(dir, name, 0);
}

void unsent_take_over(struct unsent *u, struct unsent_record **ret, size_t *ret_n)
{
	DIR *d = opendir(u->dir);
	struct dirent *e;

	pthread_mutex_lock(&u->lock);
	while (d && fs_next(d, u->dir, &e, NULL) > 0)
		if (e->d_name[0] != '.' &&
		    (!u->path || !str_eq(e->d_name, strrchr(u->path, '/') + 1)))
			take_file(u, dirfd(d), e->d_name);
	*ret = xcalloc(map_len(u->others) + 1, sizeof(**ret));
	*ret_n = 0;
	for (size_t i = 0; i < map_len(u->others); i++) {
		struct unsent_record *r = &(*ret)[(*ret_n)++];
		const void *key;
		size_t len;

		map_at(u->others, i, &key, &len);
		r->space = *(const uint8_t *)key & (uint8_t)~REPLACE;
		r->replace = *(const uint8_t *)key & REPLACE;
		memcpy(r->name.b, (const uint8_t *)key + 1, DIGEST_BYTES);
	}
	pthread_mutex_unlock(&u->lock);
	if (d)
		closedir(d);
}

void unsent_clear(struct unsent *u, bool taken_over)
{
	pthread_mutex_lock(&u->lock);
	if (taken_over) {
		map_free(u->others);
		u->others = map_new();
	}
	if (u->fd >= 0 && u->adding == 0 && map_len(u->others) == 0)
		(void)!ftruncate(u->fd, MAGIC_LEN);
	pthread_mutex_unlock(&u->lock);
}

void unsent_free(struct unsent *u)
{
	struct stat st;

	if (!u)
		return;
	if (u->fd >= 0) {
		if (fstat(u->fd, &st) == 0 && st.st_size <= (off_t)MAGIC_LEN)
			unlink(u->path);
		close(u->fd);
	}
	map_free(u->others);
	free(u->dir);
	free(u->path);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

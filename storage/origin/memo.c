/* storage/origin/memo.c — remembers which bytes each version of an origin's object gave.
 *
 * The file is "cairn-origins/1\n" and then entries of 76 bytes: digest of the reference's record,
 * size and digest of the blob, and the first four bytes of SHA-256 of these. Those four bytes show
 * whether an entry is complete.
 *
 * All of it is loaded into a map (`by_record`, places in `blobs`). New entries are appended under a
 * lock on the file, by any number of processes; the last entry of a record counts. load() writes
 * the file anew when an entry is torn, or when too many are superseded. Entries after a torn one
 * are dropped: that only costs fetching again. So does a write that fails.
 *
 * `lock` guards the map.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "storage/origin/internal.h"

#define MAGIC     "cairn-origins/1\n"
#define MAGIC_LEN (sizeof(MAGIC) - 1)
#define BODY      (2 * DIGEST_BYTES + 8)
#define ENTRY     (BODY + 4)
/* 14 million objects; a larger file is started anew. */
#define FILE_MAX GIB
/* Superseded entries are dropped when they outnumber this and the current entries. */
#define SUPERSEDED_MAX 4096

struct origin_memo {
	pthread_mutex_t lock;
	char *path;
	struct map *by_record; /* → index in blobs + 1 */
	VEC(struct content_id) blobs;
};

static void remember(struct origin_memo *m, const struct digest *record,
		     const struct content_id *blob)
{
	void **slot = map_slot(m->by_record, record->b, DIGEST_BYTES, NULL);

	if (*slot) {
		m->blobs.v[(uintptr_t)*slot - 1] = *blob;
		return;
	}
	VEC_PUSH(&m->blobs, *blob);
	*slot = (void *)(uintptr_t)m->blobs.n;
}

static void encode(struct str *out, const struct digest *record, const struct content_id *blob)
{
	size_t from = out->len;
	struct digest check;

	str_addn(out, record->b, DIGEST_BYTES);
	str_add_u64(out, blob->size_bytes);
	str_addn(out, blob->digest.b, DIGEST_BYTES);
	digest_bytes(out->s + from, BODY, &check);
	str_addn(out, check.b, ENTRY - BODY);
}

static bool decode(const uint8_t *p, struct digest *record, struct content_id *blob)
{
	struct digest check;

	digest_bytes(p, BODY, &check);
	if (memcmp(check.b, p + BODY, ENTRY - BODY) != 0)
		return false;
	*blob = (struct content_id){ .kind = CONTENT_BLOB,
				     .size_bytes = get_le64(p + DIGEST_BYTES) };
	memcpy(record->b, p, DIGEST_BYTES);
	memcpy(blob->digest.b, p + DIGEST_BYTES + 8, DIGEST_BYTES);
	return true;
}

static void rewrite(struct origin_memo *m)
{
	_cleanup_(str_deinit) struct str out = { 0 };

	str_add(&out, MAGIC);
	for (size_t i = 0; i < map_len(m->by_record); i++) {
		struct digest record;
		const void *key;
		void *place = map_at(m->by_record, i, &key, NULL);

		memcpy(record.b, key, DIGEST_BYTES);
		encode(&out, &record, &m->blobs.v[(uintptr_t)place - 1]);
	}
	fs_write_atomic_at(AT_FDCWD, m->path, out.s, out.len, 0644, FS_WRITE_NO_SYNC, NULL);
}

static void load(struct origin_memo *m)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	size_t n, good = 0;

	if (fs_read_file(m->path, FILE_MAX, &bytes, NULL) < 0 || bytes.len < MAGIC_LEN ||
	    memcmp(bytes.s, MAGIC, MAGIC_LEN) != 0) {
		if (access(m->path, F_OK) == 0)
			rewrite(m); /* not ours, or too large: it only costs fetching again */
		return;
	}
	n = (bytes.len - MAGIC_LEN) / ENTRY;
	for (size_t i = 0; i < n; i++) {
		struct digest record;
		struct content_id blob;

		if (!decode((uint8_t *)bytes.s + MAGIC_LEN + i * ENTRY, &record, &blob))
			break; /* the rest may be misaligned */
		remember(m, &record, &blob);
		good++;
	}
	if (good < n || (bytes.len - MAGIC_LEN) % ENTRY || n > 2 * m->blobs.n + SUPERSEDED_MAX)
		rewrite(m);
}

struct origin_memo *origin_memo_open(const char *path)
{
	struct origin_memo *m = xcalloc(1, sizeof(*m));

	pthread_mutex_init(&m->lock, NULL);
	m->by_record = map_new();
	if (path) {
		m->path = xstrdup(path);
		load(m);
	}
	return m;
}

void origin_memo_free(struct origin_memo *m)
{
	if (!m)
		return;
	pthread_mutex_destroy(&m->lock);
	map_free(m->by_record);
	VEC_FREE(&m->blobs);
	free(m->path);
	free(m);
}

bool origin_memo_get(struct origin_memo *m, const struct digest *record, struct content_id *ret)
{
	void *place;

	pthread_mutex_lock(&m->lock);
	place = map_get(m->by_record, record->b, DIGEST_BYTES);
	if (place)
		*ret = m->blobs.v[(uintptr_t)place - 1];
	pthread_mutex_unlock(&m->lock);
	return place != NULL;
}

/* A failure only costs fetching again, so it is ignored. */
static void append(struct origin_memo *m, const struct str *entries)
{
	_cleanup_(fd_closep) int fd =
		open(m->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
	_cleanup_(str_deinit) struct str out = { 0 };
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return;
	if (st.st_size == 0)
		str_add(&out, MAGIC);
	str_addn(&out, entries->s, entries->len);
	if (fs_lock(fd, true, NULL) == 0 && write(fd, out.s, out.len) >= 0)
		fs_unlock(fd);
}

void origin_memo_put(struct origin_memo *m, const struct digest *records,
		     const struct content_id *blobs, size_t n)
{
	_cleanup_(str_deinit) struct str entries = { 0 };

	pthread_mutex_lock(&m->lock);
	for (size_t i = 0; i < n; i++) {
		remember(m, &records[i], &blobs[i]);
		encode(&entries, &records[i], &blobs[i]);
	}
	if (m->path && n)
		append(m, &entries);
	pthread_mutex_unlock(&m->lock);
}

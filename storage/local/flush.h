/* storage/local/flush.h — makes the objects of a directory store durable, in few flushes.
 *
 * A store says what it put; flush_all() returns when all that was put before is on disk: bytes,
 * then names, then the directories above them. Any thread may call these, several at a time.
 */
#ifndef CAIRN_STORAGE_LOCAL_FLUSH_H
#define CAIRN_STORAGE_LOCAL_FLUSH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "base/mem.h"

/* Of an object's path below the store's directory. */
#define OBJECT_PATH_MAX 96

struct flush {
	int root;
	atomic_uint shards_made; /* since the last flush; a bit a space, and one for linked files */
	pthread_mutex_t sync_lock; /* of the thread that flushes; taken before `lock` */
	pthread_mutex_t lock;
	/* Under lock: */
	unsigned long put_generation, synced_generation;
	/* New objects since the last flush; their paths as long as they are few. */
	struct pending {
		VEC(struct object_path { char s[OBJECT_PATH_MAX]; }) paths;
		size_t n;
		uint64_t bytes;
	} pending;
};

/* `root` is the store's directory, which the caller closes. */
void flush_init(struct flush *f, int root);
void flush_deinit(struct flush *f);

/* An object of that size was renamed to SPACE/SHARD/NAME. */
void flush_note(struct flush *f, const char *path, uint64_t bytes);
/* The bytes of what was noted since the last flush began. */
uint64_t flush_waiting(struct flush *f);
/* The shard of this object was made: its name in its space must be flushed, too. */
void flush_note_shard(struct flush *f, const char *path);
/* Flushes all that was noted before. -1 with errno; then the next flush covers everything. */
int flush_all(struct flush *f);

#endif

/* storage/bucket/memory.h — objects in memory, for tests: `mem-bucket://NAME/PREFIX`.
 *
 * All buckets of one name share their objects, within the process, until bucket_memory_forget().
 * Times come from the clock that the test gives (each write moves the bucket's own clock on by a
 * microsecond, so that order shows). What goes wrong is asked for by bucket_memory_faults().
 */
#ifndef CAIRN_STORAGE_BUCKET_MEMORY_H
#define CAIRN_STORAGE_BUCKET_MEMORY_H

#include "base/clock.h"
#include "storage/bucket/bucket.h"

/* What becomes of one operation. Of one that only reads, all but the first mean that it fails. */
enum bucket_memory_fate {
	FATE_PASSES,
	FATE_LOST,       /* it fails, and had no effect */
	FATE_UNANSWERED, /* it had its effect, and fails */
	FATE_LATE,       /* it fails, and has its effect when it is delivered */
	FATE_REPEATED,   /* it passes, and has its effect again when it is delivered */
};

struct bucket_memory_faults {
	uint64_t seed;
	unsigned fail_per_mille;    /* of the single operations inside calls: ERR_IO, as after all
				       retries */
	uint64_t fail_after_writes; /* 0: never; else that many writes succeed, and then everything
				       fails: this client was cut off */
	bool ignores_if_absent;     /* overwrites, as some stores do */
	bool ignores_delete_if;
	bool refuses_writes; /* ERR_READ_ONLY */
	bool down;           /* every operation: ERR_IO */
	int64_t latency_ns;  /* of each call, by sleeping: for benchmarks only */
	/* Called before each single operation, without locks: a test's place to let others act in
	 * between. */
	void (*before)(void *arg, const char *what, const char *key);
	/* Decides about each single operation, called as `before` is. */
	enum bucket_memory_fate (*fate)(void *arg, const char *what, const char *key);
	int64_t grain_ns; /* the times that are told are rounded down to this */
	void *arg;
};
/* Carries out the oldest operation that is late. False: there is none. */
bool bucket_memory_deliver(const char *name);
/* fn for every object, in no order, with whole keys; it must not call the bucket. */
void bucket_memory_each(const char *name,
			void (*fn)(void *arg, const char *key, const uint8_t *bytes, uint64_t size),
			void *arg);
void bucket_memory_faults(const char *name, const struct bucket_memory_faults *f);
void bucket_memory_clock(const char *name, struct clock *c); /* NULL: the system's */
void bucket_memory_forget(
	const char *name); /* objects, faults and clock; no bucket of that name may be open */

struct bucket_memory_counts {
	uint64_t puts, gets, heads, deletes, lists; /* a list counts each page of 1,000 */
	uint64_t bytes_in, bytes_out;
	uint64_t objects, bytes; /* there now */
};
void bucket_memory_count(const char *name, struct bucket_memory_counts *ret);
/* Overwrites one byte of an object, as a bad disk would. False when it isn't there, or shorter. */
bool bucket_memory_damage(const char *name, const char *key, uint64_t offset);

#endif

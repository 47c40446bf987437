/* storage/bucket/memory.h — objects in memory, for tests: `mem-bucket://NAME/PREFIX`.
 *
 * All buckets of one name in the process share their objects until bucket_memory_forget(). Times
 * come from the test's clock. Each write advances the bucket's own clock by a microsecond, so that
 * times show the order. bucket_memory_faults() injects faults.
 */
#ifndef CAIRN_STORAGE_BUCKET_MEMORY_H
#define CAIRN_STORAGE_BUCKET_MEMORY_H

#include "base/time/clock.h"
#include "storage/bucket/bucket.h"

/* The fate of one operation. A read fails with any fate but the first. */
enum bucket_memory_fate {
	FATE_PASSES,
	FATE_LOST,       /* fails without effect */
	FATE_UNANSWERED, /* has its effect, but fails */
	FATE_LATE,       /* fails, and has its effect when delivered */
	FATE_REPEATED,   /* passes, and has its effect again when delivered */
};

struct bucket_memory_faults {
	uint64_t seed;
	/* Of the single operations in a call: ERR_IO, as if all retries failed. */
	unsigned fail_per_mille;
	/* 0: never; else after this many writes everything fails, as if the client were cut off. */
	uint64_t fail_after_writes;
	bool ignores_if_absent; /* overwrites, as some stores do */
	bool ignores_delete_if;
	bool refuses_writes; /* ERR_READ_ONLY */
	bool down;           /* every operation: ERR_IO */
	int64_t latency_ns;  /* of each call, by sleeping: for benchmarks only */
	/* Called before each single operation, without locks, so that a test can run other clients
	 * in between. */
	void (*before)(void *arg, const char *what, const char *key);
	/* Decides the fate of each single operation. Called like `before`. */
	enum bucket_memory_fate (*fate)(void *arg, const char *what, const char *key);
	int64_t grain_ns; /* reported times are rounded down to this */
	void *arg;
};
/* Carries out the oldest late operation. False: there is none. */
bool bucket_memory_deliver(const char *name);
/* Calls fn for every object, in no order, with full keys. fn must not call the bucket. */
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
	uint64_t objects, bytes; /* now */
};
void bucket_memory_count(const char *name, struct bucket_memory_counts *ret);
/* Overwrites one byte of an object, as a bad disk would. False when it isn't there, or shorter. */
bool bucket_memory_damage(const char *name, const char *key, uint64_t offset);

#endif

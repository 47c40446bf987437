/* engine/base/os/work.h — shares work among threads that live as long as the call: many calls of
 * one function, which may add more work (work_run()), or one that can fail (work_each()).
 *
 * The caller's thread works too. If threads can't be started, fewer work. Their stacks are small
 * (512 KiB). Any thread may call.
 */
#ifndef CAIRN_BASE_OS_WORK_H
#define CAIRN_BASE_OS_WORK_H

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

struct work_queue;
struct work {
	void (*fn)(struct work_queue *q, void *arg,
		   size_t i); /* for i from 0 to n - 1, in any order, on any thread */
	void *arg;
	size_t n;
};
/* Runs `w`, and what it pushes, on up to `threads` threads, including the caller's. Returns when
 * all is done. */
void work_run(unsigned threads, struct work w);
/* Called from inside `fn`: adds work, which runs before older work. */
void work_push(struct work_queue *q, struct work w);
/* Calls fn the same way for i from 0 to n - 1, and returns the first failure (-1 with *err). `all`:
 * makes the other calls despite a failure; else calls that haven't begun are skipped. */
int work_each(unsigned threads, size_t n, bool all, int (*fn)(void *arg, size_t i, struct err *err),
	      void *arg, struct err *err);

#endif

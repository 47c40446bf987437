/* engine/run/view/watched.h — series of steps that run on a cluster, for other processes to show.
 *
 * A pod's numbers reach the engine only when it asks for them. So whoever shows them says so
 * (watched_ask), and goes on saying so while somebody looks. For WATCHED_NS after that the engine
 * lets its runner fetch points, and keeps them in a file of the attempt, which anybody may read
 * (watched_read). The file is removed when the attempt's end is on record: then its series is in
 * the store.
 *
 * Both are hints for people and decide nothing: what can't be written or read isn't there.
 */
#ifndef CAIRN_RUN_VIEW_WATCHED_H
#define CAIRN_RUN_VIEW_WATCHED_H

#include "run/view/series.h"

#define WATCHED_NS (60 * NS_PER_S)

/* Any process, any thread. */
void watched_ask(const char *state_dir, uint64_t attempt_id);
/* Fills the metrics. False: no point is there (yet). The file is hostile input, and bounded. */
bool watched_read(const char *state_dir, uint64_t attempt_id, struct arena *arena,
		  struct series *ret);

/* The engine's side, on the loop's thread: reports of the runner (`run` is a struct run). */
bool watched_now(void *run, uint64_t attempt_id);
void watched_points(void *run, uint64_t attempt_id, const char *lines, size_t n);
struct run;
void watched_settled(struct run *r, uint64_t attempt_id); /* its end is on record */
void watched_deinit(struct run *r);

#endif

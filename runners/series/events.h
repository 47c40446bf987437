/* runners/series/events.h — TensorBoard's event files in a directory that a program writes to, and
 * the newest scalars in them.
 *
 * All of it is hostile input: what is looked at, read and kept is bounded, links aren't followed,
 * and what can't be read is skipped. One thread.
 */
#ifndef CAIRN_RUNNERS_SERIES_EVENTS_H
#define CAIRN_RUNNERS_SERIES_EVENTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A file, open for reading. `prefix` is the path of its directory, "" or "train/". */
typedef void event_file_fn(void *arg, int fd, uint64_t size, ino_t ino, const char *prefix,
			   const char *name);

/* Calls fn for each event file below the directory. False: there are more entries than a look may
 * take, and not all were looked at. */
bool event_files_each(int dir_fd, event_file_fn *fn, void *arg);

/* How far each file has been read. */
struct event_tail;

struct event_tail *event_tail_new(void);
void event_tail_free(struct event_tail *t);

/* Reads what was written since the last look, and calls fn for the newest value of each tag that is
 * there, as series_poll() does: for each step SERIES_STEP, then what belongs to it, by name. Steps
 * come in their order. A tag's name has the path of its file's directory before it: "train/loss".
 * What is longer than a look may be is read at the next ones. */
void event_tail_poll(struct event_tail *t, int dir_fd,
		     void (*fn)(void *arg, const char *name, double value), void *arg);

#endif

/* storage/checkpoint.h — progress that attempts of a task save, so that a later attempt on any
 * machine can resume.
 *
 * A checkpoint is a tree and an action record that names it (FORMAT.md, "Checkpoint"). Each node of
 * an attempt has its own. There are two slots, and a new record overwrites the older one, so one
 * slot always holds a complete record. The highest (epoch, sequence) is the newest. Each new
 * attempt takes the next epoch. An old attempt that was wrongly believed dead therefore can't
 * overwrite its successor's checkpoint: checkpoint_save() sees the higher epoch and stops.
 *
 * gc keeps the content of a checkpoint for CHECKPOINT_KEEP_NS after it was written. Any thread;
 * errors as in store.h.
 */
#ifndef CAIRN_STORAGE_CHECKPOINT_H
#define CAIRN_STORAGE_CHECKPOINT_H

#include "storage/action.h"

#define CHECKPOINT_KEEP_NS (30LL * 24 * 3600 * NS_PER_S)
/* The name of the record's one output. No step can have an output of this name. */
#define CHECKPOINT_OUTPUT "@checkpoint"

struct checkpoint {
	struct digest key; /* of the task */
	unsigned index;    /* which node of the attempt saved it */
	uint64_t epoch, sequence;
	struct content_id tree;
	const char *attempts; /* ids of the attempts that had it, such as "12 15" */
	const char *run_id, *task, *node;
	int64_t saved_ns; /* wall clock */
};

/* Finds the newest checkpoint of each node 0 … n-1. ret has n places; tree.kind is NONE for a node
 * without one. Always reads the shared store, never a cache. Strings are in `arena`. */
int checkpoint_newest(struct store *s, const struct digest *key, unsigned n, struct arena *arena,
		      struct checkpoint *ret, struct err *err);
/* Publishes: content first, then the record. 0: it is durable in the shared store. 1: an attempt of
 * a later epoch has taken over; nothing was written. */
int checkpoint_save(struct store *s, const struct checkpoint *c, struct err *err);
/* Removes the records of all nodes. */
int checkpoint_forget(struct store *s, const struct digest *key, struct err *err);

bool checkpoint_is_record(const struct action_record *a);

#endif

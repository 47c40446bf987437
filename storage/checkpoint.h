/* storage/checkpoint.h — what attempts of a key left behind to go on from, where any machine finds
 * it.
 *
 * A checkpoint is a tree and an action record that names it (FORMAT.md, "Checkpoint"), of each node
 * of an attempt one. A record lies in one of two slots; a new one is written over the older, so
 * that a whole one is there at any time. Which is the newest is said by (epoch, sequence): each
 * attempt that begins takes the next epoch. So an attempt that everybody believes dead but isn't,
 * can't put its checkpoint in place of the one of the attempt that took over: checkpoint_save()
 * sees the higher epoch and stops.
 *
 * gc keeps what such records name for CHECKPOINT_KEEP_NS after they were written. Any thread;
 * errors as in store.h.
 */
#ifndef CAIRN_STORAGE_CHECKPOINT_H
#define CAIRN_STORAGE_CHECKPOINT_H

#include "storage/action.h"

#define CHECKPOINT_KEEP_NS (30LL * 24 * 3600 * NS_PER_S)
/* The one output of its record: no output of a step can be called so. */
#define CHECKPOINT_OUTPUT "@checkpoint"

struct checkpoint {
	struct digest key; /* of the task */
	unsigned index;    /* which node of the attempt saved it */
	uint64_t epoch, sequence;
	struct content_id tree;
	const char *attempts; /* ids of the attempts that had it, "12 15" */
	const char *run_id, *task, *node;
	int64_t saved_ns; /* wall clock */
};

/* The newest of each of the nodes 0 … n-1; *ret (n places) has tree.kind NONE where there is none.
 * Looks where it is shared, never at what is remembered. Strings in `arena`. */
int checkpoint_newest(struct store *s, const struct digest *key, unsigned n, struct arena *arena,
		      struct checkpoint *ret, struct err *err);
/* Publishes: content first, then the record. 0: it is durable where it is shared. 1: an attempt of
 * a later epoch has taken over, nothing was written. */
int checkpoint_save(struct store *s, const struct checkpoint *c, struct err *err);
/* Removes the records of all nodes. */
int checkpoint_forget(struct store *s, const struct digest *key, struct err *err);

/* For gc. */
bool checkpoint_is_record(const struct action_record *a);

#endif

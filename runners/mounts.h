/* runners/mounts.h — inputs that are mounted: views in the store, below an overlay of the
 * workspace.
 *
 * The program has a mount namespace of its own (base/os/process/namespace.h). There the directory
 * of its attempt is an overlay: the views (runner_view) are below, and what the program writes goes
 * into its own files above. So inputs cost neither time nor space, and it can do with them what it
 * could do with copies. The store is read-only for it. Nobody outside sees the mounts.
 */
#ifndef CAIRN_RUNNERS_MOUNTS_H
#define CAIRN_RUNNERS_MOUNTS_H

#include "base/os/process/namespace.h"
#include "runners/workspace.h"

/* Mounting costs less than copying this much. */
#define MOUNTS_WORTH_BYTES (64 * MIB)
/* The names of more views don't fit into one call. */
#define MOUNTS_VIEWS_MAX 90
/* In a view, inputs lie below this. */
#define MOUNTS_PREFIX "w"

/* Tries whether views of the store in store_dir can be mounted into workspaces below state_dir.
 * The store need not exist yet. Loop's thread. On failure *err says why. */
int mounts_check(const char *store_dir, const char *state_dir, struct err *err);
/* False: the attempt has more inputs than can be mounted, or all of its workspace is an output. */
bool mounts_fit(const struct runner_attempt *a);

/* What namespace_plan.mounts needs, and who owns it. */
struct mounts;
/* Takes over the views. The workspace is ready but for its inputs, and is split afterwards. */
int mounts_make(const char *store_dir, struct workspace *w, struct runner_view *views, size_t n,
		struct mounts **ret, struct err *err);
const struct namespace_mounts *mounts_plan(const struct mounts *m);
void mounts_free(struct mounts *m); /* gives back the views; NULL is fine */
/* Adds to the reason why a program failed (`failure`, the end of its log or NULL) what the mounts
 * forbade it, if they may be the cause. */
void mounts_explain(enum failure_class failure, const char *log_tail, struct err *err);

#endif

/* runners/workspace.h — the directory of one attempt: state_dir/work/ID/ with w/ (where the program
 * runs), tmp/ and log.
 *
 * Worker threads make and remove workspaces. A workspace belongs to one attempt; attempts share
 * only the pool. Errors name the path.
 */
#ifndef CAIRN_RUNNERS_WORKSPACE_H
#define CAIRN_RUNNERS_WORKSPACE_H

#include <pthread.h>
#include "base/mem.h"
#include "runners/runner.h"

/* Inputs of at most so many bytes in all may be written into files that were used before. */
#define WORKSPACE_SPARE_BYTES (64 * KIB)

struct workspace {
	char *dir;       /* absolute: state_dir/work/ID */
	char *path;      /* absolute: dir/w */
	int dir_fd;      /* of path */
	int log_fd;      /* O_APPEND */
	char *inputs;    /* as workspace_make() got them */
	bool has_spares; /* each of `inputs` is there, with the bytes of another attempt */
};

struct workspace_frame {
	char *dir;
	char *inputs; /* w/ has inputs/, with these spares in it; NULL: it hasn't */
};

/* Used workspaces. Their content moves to the trash until the runner ends; their empty frames wait
 * for the next attempt.
 *
 * Why not simply delete: ext4 doesn't reuse a deleted inode for five seconds, and looks at every
 * such inode at every creation (recently_deleted() in fs/ext4/ialloc.c). An engine that makes and
 * deletes a few small files a millisecond soon spends its time there. So small things are deleted
 * when the run is over; large ones at once. Small inputs aren't even made anew: they stay in their
 * frame as spares, for an attempt whose inputs have the same names. Thread-safe. */
struct workspace_pool {
	pthread_mutex_t lock;
	char *trash; /* state_dir/work/trash-PID-START */
	bool has_trash;
	uint64_t n_trash;
	char *prefix; /* of the frames' names: state_dir/work/frame-PID-START */
	uint64_t n_frames;
	VEC(struct workspace_frame) frames;
};
/* Also removes the trash that dead processes left. */
void workspace_pool_init(struct workspace_pool *s, const char *state_dir);
void workspace_pool_deinit(struct workspace_pool *s); /* removes its frames and its trash */
/* If removing the trash takes so long that the user shouldn't wait for it, it becomes that of the
 * process `to`, which calls workspace_remove_trash(); true then. If `to` dies first, the next
 * workspace_pool_init() removes it. */
bool workspace_pool_give_trash(struct workspace_pool *s, pid_t to);
/* Removes the trash of the calling process. */
void workspace_remove_trash(const char *state_dir);

/* Takes a frame from the pool, or makes one. First removes a directory left over from this
 * attempt. inputs: NULL: nothing will be in inputs/. "": something will; the directory may be
 * there, empty. Else what will be there is small files of these names, with '/' behind each; if
 * w->has_spares, the caller must overwrite all of them. The caller closes *w after a failure, too.
 */
int workspace_make(struct workspace *w, struct workspace_pool *pool, const char *state_dir,
		   uint64_t attempt_id, const char *inputs, struct err *err);
/* Prepares a new workspace for an overlay over `dir` (mounts.h): moves w/ and tmp/ into
 * WORKSPACE_UPPER, and makes WORKSPACE_WORK. In their places are files, so that what runs outside
 * of the mounts can't take an empty directory for the workspace. dir_fd stays w/. */
#define WORKSPACE_UPPER "upper"
#define WORKSPACE_WORK  "overlay"
int workspace_split(struct workspace *w, struct err *err);
/* Empties it and puts it into the pool, or removes it when that fails. inputs: of its workspace. */
void workspace_recycle(struct workspace_pool *pool, const char *dir, const char *inputs);
void workspace_close(struct workspace *w); /* closes and frees; leaves the files */
/* Attempts that have a workspace; the caller frees *ret. */
size_t workspace_list(const char *state_dir, uint64_t **ret);
char *workspace_dir(const char *state_dir, uint64_t attempt_id);

/* The environment of a program: variables that pass from the host, the attempt's, and those that
 * the runner adds. NULL-terminated; each name once, the attempt's before the host's. Free with
 * workspace_env_free. */
char **workspace_env(const struct runner_attempt *a, const struct workspace *w,
		     const char *attempt_marker, const char *engine_marker);
void workspace_env_free(char **env);
/* The last lines of a log as text, at most 4 KiB, cut at the beginning of a line if there is one;
 * NULL when the log is empty. */
char *workspace_log_tail(int log_fd);

#endif

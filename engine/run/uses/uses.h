/* engine/run/uses/uses.h — makes what steps use from elsewhere (model/external.h): the files of a
 * git commit, or the pipeline and the code of a past run.
 *
 * Each becomes a directory of config.uses_dir, whole or not at all: it is made under a temporary
 * name and renamed. One is made at a time; another process waits, and finds it. What a kill left is
 * removed by the next one. Nothing there is ever changed, and all of it can be made again.
 *
 * A commit is fetched by another process (`cairn fetch-commit`): what a server or a repository says
 * is hostile, libgit2 has no time limit for a server that says nothing, and nothing of it shall be
 * left in our own.
 */
#ifndef CAIRN_RUN_USES_USES_H
#define CAIRN_RUN_USES_USES_H

#include "base/err.h"
#include "model/config/config.h"
#include "model/external.h"

/* Of one commit. More is no repository of pipelines, and would fill the disk of whoever checks a
 * file. */
#define USES_RECEIVED_MAX (2 * GIB) /* bytes that the server sends */
#define USES_BYTES_MAX    (4 * GIB) /* of all files */
#define USES_FILE_MAX     (512 * MIB)
#define USES_ENTRIES_MAX  500000
#define USES_DEPTH_MAX    100
#define USES_FETCH_NS     (600 * NS_PER_S)

/* For pipeline_load_options.bring. `arg` is a struct uses. */
struct uses {
	const struct config *config;
	void (*on_fetch)(void *arg, const struct external *what); /* before a fetch; or NULL */
	void *fetch_arg;
};
int uses_bring(void *arg, const struct external *what, struct err *err);

/* git.c, for `cairn fetch-commit`: makes `dir`/tree with the files of the commit, and `dir`/git for
 * what it fetched. `dir` is an empty directory. */
int uses_fetch_commit(const char *url, const char *commit, const char *dir, struct err *err);

/* past.c: makes the files in the empty directory open at `dir`. */
int uses_take_run(const struct config *config, const struct external *what, int dir,
		  struct err *err);

#endif

/* engine/model/external.h — what a step uses that isn't a file of the project: a file of a git
 * commit
 * (`uses: git+https://host/repo@COMMIT#path`), or the pipeline of a past run (`uses: run:HASH`).
 *
 * Both are pinned: a commit and a run hash name content. Each has a root of its own, a directory
 * named "git@COMMIT" or "run@HASH". A path in such a file is one below that root, and the code of
 * its steps is named from there, so a step has the same key as in the checkout itself. A path of
 * the model that begins with the name of a root (pipeline->files) is a file in it; the project's
 * own files have no such prefix. Whoever makes the directories is told by pipeline_load_options;
 * a resumed or reproduced run needs none, because its files and pins are in the store.
 *
 * Pure; any thread.
 */
#ifndef CAIRN_MODEL_EXTERNAL_H
#define CAIRN_MODEL_EXTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"
#include "base/mem.h"

enum external_kind { EXTERNAL_GIT, EXTERNAL_RUN };

struct external {
	enum external_kind kind;
	const char *text; /* as written, without `#path` */
	const char *root;
	const char *url;  /* git: https://, http:// of this machine, or file:/// */
	const char *id;   /* the commit, or the run hash: lower-case hex digits */
	const char *path; /* git: the file in the repository, as written; run: NULL */
};

/* A run's root has this file: the pipeline's path, and the content of its inputs:
 * {"pipeline": "lib/train.yaml", "content": {"data/raw": "artifact:HASH"}}; "executable:HASH" and
 * "reference:HASH" are what a digest doesn't tell. It is no content itself: see
 * config_not_content. */
#define EXTERNAL_RUN_FILE ".cairn/run.yaml"

/* Whether `uses` has the form of such a name, or of one that people would expect. */
bool external_looks_like(const char *uses);
/* NULL with *ret (strings in `arena`), or what is wrong with it and what to write. */
const char *external_parse(const char *uses, struct arena *arena, struct external *ret);

/* The length of the root that a path of the model begins with; 0: a path in the project. */
size_t external_root_len(const char *path);
/* The directory of a root: `project` for "" and NULL, else in `uses_dir`. The caller frees it. */
char *external_dir(const char *project, const char *uses_dir, const char *root);

#endif

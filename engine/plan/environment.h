/* engine/plan/environment.h — the lock file that a step's environment is made from
 * (`environment:`).
 *
 * The file's name and content say which tool makes the environment. Only files that name every
 * package with its hash count, so the same file gives the same packages. The plan pins the file's
 * bytes and the Python that packages are installed for: a resumed or reproduced run makes the
 * environment from those, whatever the project has by then.
 *
 * Making it is the run's (run/task/environment.h).
 */
#ifndef CAIRN_PLAN_ENVIRONMENT_H
#define CAIRN_PLAN_ENVIRONMENT_H

#include "model/pipeline.h"
#include "storage/content/content.h"

enum lock_kind {
	LOCK_UV,    /* uv.lock; pyproject.toml stands beside it */
	LOCK_PIP,   /* requirements with hashes */
	LOCK_CONDA, /* an explicit file: @EXPLICIT */
};
const char *lock_kind_name(enum lock_kind k); /* "uv", "pip", "conda" */

/* A lock file's largest size. */
#define LOCK_MAX (64 * MIB)

struct lock {
	enum lock_kind kind;
	struct str text;
	struct str project; /* pyproject.toml, of uv */
};
/* Reads and checks the lock file at `path` of the project, or of another root. ERR_NOT_FOUND;
 * ERR_INVALID for a file that isn't a lock file: the message has its name, and the line. */
int lock_read(const char *project_root, const char *path, struct lock *ret, struct err *err);
void lock_deinit(struct lock *l);
/* What lock_read() says of these bytes. */
int lock_check(const char *path, const char *text, enum lock_kind *ret, struct err *err);

/* The program that makes such an environment, as an absolute path that the caller frees; NULL: it
 * isn't on PATH. *ret_name is what to install. */
char *lock_tool(enum lock_kind k, const char **ret_name);

/* Whether the step names a lock file that no step before it names. */
bool environment_is_first(const struct pipeline *p, size_t step);

/* The environment of a step. */
struct plan_environment {
	const char *path; /* as the step has it, from the root of what it lies in */
	const char *root; /* of the step (model/external.h); NULL: the project */
	enum lock_kind kind;
	struct content_id lock;  /* the file's bytes */
	struct content_id files; /* a tree: what the tool reads, by base name */
	/* What PLAN_PYTHON prints. NULL: conda brings its own, or it is in the image. */
	const char *python;
};
#define PLAN_PYTHON "python3 --version; uname -m"

struct plan;
/* NULL: it has none, or isn't selected. */
const struct plan_environment *plan_step_environment(const struct plan *p, size_t step);

/* sources/packages.c: the packages of the Python environments whose programs are on `path` (in
 * PATH's format), as text; nothing when there is no environment */
int plan_packages_on_path(const char *path, struct str *out, struct err *err);

#endif

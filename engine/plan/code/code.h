/* engine/plan/code/code.h — a step's code: paths that `code` names, files that its command names,
 * and what those ask for in turn. Shared by the files of this folder, and by ../sources/sources.c.
 *
 * Call code_pin() once for each step. Each directory is listed, each file scanned, each import
 * resolved and each tree made once a plan, whatever the number of steps. One thread.
 */
#ifndef CAIRN_PLAN_CODE_CODE_H
#define CAIRN_PLAN_CODE_CODE_H

#include "plan/internal.h"

enum code_language { CODE_OTHER, CODE_PYTHON, CODE_SHELL };

/* What a script asks for: a module (scan.h), or a path that is sourced (`module`). */
struct code_request {
	const char *module, *name;
	unsigned level, line;
};
struct code_script {
	bool exists; /* a regular file, reached without leaving the project */
	struct code_request *asks;
	size_t n;
};

struct code_entry {
	bool exists;
	struct content_id id;
};

struct code; /* of one plan: of the project, and of each root elsewhere that steps lie in */
struct code *code_new(struct plan *p);
void code_free(struct code *c);

/* Sets s->facts.code and pins it; nothing when the step has none. */
int code_pin(struct plan *p, struct plan_step *s, struct err *err);

/* project.c: the project as it lies there, or a root elsewhere (model/external.h; NULL: the
 * project). Paths are relative to its root, "" is the root. */

struct code_project;
struct code_project *code_project_new(struct plan *p, const char *root);
void code_project_free(struct code_project *c);
/* The content of a path, put once. A path of `code` may be a directory, and must exist
 * (must_exist). A word of a command needn't be a file: with must_exist false that is no error. */
int code_project_entry(struct code_project *c, const char *path, bool must_exist,
		       struct code_entry **ret, struct err *err);
/* Whether there may be a file of this name. False is certain. */
bool code_project_may_have(struct code_project *c, const char *path);
/* Whether there is one, reached without following a link out of the project. */
bool code_project_has(struct code_project *c, const char *dir, const char *name);
bool code_project_is_dir(struct code_project *c, const char *dir);
/* Never NULL; read and scanned once. */
const struct code_script *code_project_script(struct code_project *c, const char *path,
					      enum code_language language);
/* The language that the first line names, for a file of which nothing else tells it. */
enum code_language code_project_language(struct code_project *c, const char *path);

/* modules.c: what scripts ask for, and what that asks for. */

/* Where Python looks for modules, in this order. */
struct code_roots {
	const char **v;
	size_t n;
};
/* What a script, or a module (by its dotted name), brings along: first itself, if it is a file of
 * the project, then the other files, each with the file that first asked for it. Lent until
 * code_modules_free(). */
struct code_modules;
struct code_modules *code_modules_new(struct plan *p, struct code_project *project);
void code_modules_free(struct code_modules *m);
int code_modules_of_script(struct code_modules *m, const struct code_roots *roots, const char *path,
			   enum code_language language, const struct plan_code_file **ret,
			   size_t *ret_n, struct err *err);
int code_modules_of_module(struct code_modules *m, const struct code_roots *roots, const char *name,
			   const struct plan_code_file **ret, size_t *ret_n, struct err *err);

#endif

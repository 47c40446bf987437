/* engine/plan/code/scan.h — what a script asks for by its text alone: the modules that Python
 * imports, the files that a shell sources.
 *
 * Pure functions; any thread. The bytes may be hostile. Time is linear in `n`, memory is bounded.
 * Text that isn't valid Python or shell gives some list, never an error: the program that runs it
 * reports what is wrong with it.
 */
#ifndef CAIRN_PLAN_CODE_SCAN_H
#define CAIRN_PLAN_CODE_SCAN_H

#include <stddef.h>

/* No file has a longer name than this. Statements with one are left out. */
#define SCAN_NAME_MAX 512

/* Texts are lent for the call. */
struct scan_import {
	const char *module; /* "a.b"; "" for `from . import x` */
	const char *name;   /* x of `from module import x`, "*" too; NULL for `import module` */
	unsigned level;     /* dots before the module */
	unsigned line;      /* on which the statement begins, from 1 */
};
/* Calls `fn` for each name, or each module, of every `import` and `from` statement, also in
 * functions and under conditions. Imports at run time (importlib, exec) aren't seen. */
void scan_python(const char *bytes, size_t n,
		 void (*fn)(void *arg, const struct scan_import *import), void *arg);

/* Calls `fn` for each `. PATH` and `source PATH` in whose path the shell has nothing to expand. */
void scan_shell(const char *bytes, size_t n, void (*fn)(void *arg, const char *path, unsigned line),
		void *arg);

#endif

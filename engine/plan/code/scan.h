/* plan/code/scan.h — what a script asks for by its text alone: the modules that Python imports, the
 * files that a shell sources.
 *
 * Pure functions of hostile bytes; any thread. Time is linear in `n`, memory bounded. What isn't
 * valid Python or shell gives some list, never an error: the program that runs it says what is
 * wrong with it.
 */
#ifndef CAIRN_PLAN_CODE_SCAN_H
#define CAIRN_PLAN_CODE_SCAN_H

#include <stddef.h>

/* Names longer than this are no file's: what has one is left out. */
#define SCAN_NAME_MAX 512

/* Texts are lent for the call. */
struct scan_import {
	const char *module; /* "a.b"; "" for `from . import x` */
	const char *name;   /* x of `from module import x`, "*" too; NULL for `import module` */
	unsigned level;     /* dots before the module */
	unsigned line;      /* on which the statement begins, from 1 */
};
/* Each `import` and `from` statement, in functions and under conditions too; one call a module or
 * a name. Imports at run time (importlib, exec) aren't seen. */
void scan_python(const char *bytes, size_t n,
		 void (*fn)(void *arg, const struct scan_import *import), void *arg);

/* Each `. PATH` and `source PATH` whose path has nothing for the shell to fill in. */
void scan_shell(const char *bytes, size_t n, void (*fn)(void *arg, const char *path, unsigned line),
		void *arg);

#endif

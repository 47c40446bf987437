/* runners/audit.h — reports the files that an attempt reads or runs undeclared.
 *
 * A key covers what a step declares: inputs, code, tools, environment. Any other file may change
 * and the key stays the same. An audited attempt is watched (base/os/process/opens.h) while it
 * runs. Then each file that is neither in its workspace nor part of the system is listed with the
 * line that declares it. The environment needs no watch: an attempt gets declared variables only.
 *
 * Part of the system: /usr (without the Python packages that pip put into /usr/local), /lib*, /bin,
 * /sbin, /etc, /opt, /proc, /sys, /dev, /run, and the stores of Nix and Guix, whose paths name
 * content. The project isn't, wherever it lies.
 */
#ifndef CAIRN_RUNNERS_AUDIT_H
#define CAIRN_RUNNERS_AUDIT_H

#include "base/os/process/opens.h"
#include "base/text/str.h"

/* What is known about the step. */
struct runner_audit {
	const char *project_dir; /* absolute, without links */
	const char *program; /* the program that the engine itself starts for the step, or NULL */
	bool packages;       /* `env_file` or `tools` cover the installed packages and programs */
	/* A strict sandbox refuses these files: all are told, also those of the system, and only as
	 * why it failed. */
	bool refused;
};

/* Adds a line for each of these files (absolute, sorted) that nothing declares: its name and what
 * to declare. A directory with many such files gets one line. `untold`: as opens_stop() gives it.
 * Adds nothing when everything is declared. */
void audit_say(const struct runner_audit *a, const char *const *paths, size_t n, size_t untold,
	       struct str *ret);

#endif

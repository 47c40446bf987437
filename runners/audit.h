/* runners/audit.h — what an attempt reads, or runs, that its step doesn't declare.
 *
 * A key covers what a step declares: inputs, code, tools, environment. What it reads besides may
 * change without anybody noticing. An audited attempt is watched (base/os/opens.h) while it runs;
 * then each file that is neither in its workspace nor of the system is said with the line that
 * declares it. The environment needs no watch: an attempt gets declared variables only.
 *
 * Of the system: /usr but for Python packages that pip put into /usr/local, /lib*, /bin, /sbin,
 * /etc, /opt, /proc, /sys, /dev, /run, and the stores of Nix and Guix, whose paths name content.
 */
#ifndef CAIRN_RUNNERS_AUDIT_H
#define CAIRN_RUNNERS_AUDIT_H

#include "base/os/opens.h"
#include "base/text/str.h"

/* What is known of the step. */
struct runner_audit {
	const char *project_dir; /* absolute, without links */
	const char *program;     /* that the engine itself starts for the step, or NULL */
	bool packages; /* `env_file` or `tools` cover what is installed: packages and programs */
};

/* Adds a line for each of these files (absolute, sorted) that nothing declares, or for all in a
 * directory where there are many: its name and what to declare. `untold` as opens_stop()'s. Adds
 * nothing when there is nothing to say. */
void audit_say(const struct runner_audit *a, const char *const *paths, size_t n, size_t untold,
	       struct str *ret);

#endif

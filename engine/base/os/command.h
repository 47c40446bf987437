/* engine/base/os/command.h — asks a program: runs it and takes what it prints. For helpers that
 * give credentials, or that read what is hostile.
 *
 * Any thread; in a process that also runs programs by base/os/process.h, set `on_loop` and call
 * from the loop's thread, or its reaper may take the program for an orphan and end it. The program
 * leads a process group of its own, which is killed when it takes too long or prints too much.
 * Standard input is `input` or /dev/null, standard error the caller's. What it printed may be
 * secret: wipe it (str_wipe).
 */
#ifndef CAIRN_BASE_OS_COMMAND_H
#define CAIRN_BASE_OS_COMMAND_H

#include "base/err.h"
#include "base/text/str.h"

#define COMMAND_FDS_MAX   4
#define COMMAND_INPUT_MAX 4096 /* what a pipe takes without a reader */

struct command {
	const char *const *argv; /* argv[0] is looked up in PATH; NULL-terminated */
	const char *const *env; /* "NAME=value" beside the caller's environment, in place of what is
				   of that name there; or NULL */
	bool only_env; /* `env` is all of its environment: for who needs none of our secrets */
	bool bare; /* of the caller's environment, only what steps get: for programs that a project
		      names */
	const char *input; /* its standard input, at most COMMAND_INPUT_MAX bytes; or NULL */
	int64_t timeout_ns;
	size_t max_bytes;
	int fds[COMMAND_FDS_MAX]; /* of ours: 3, 4, … there */
	size_t n_fds;
	bool on_loop;
};
/* The variables of ours that a step's program gets, unless it says otherwise; NULL-terminated. No
 * credentials. */
extern const char *const command_step_variables[];
/* 0: it ended; *ret_status is its exit code, or 128 + the signal. ERR_NOT_FOUND: no such program;
 * ERR_IO: it took too long; ERR_TOO_LARGE. Messages go behind the name of what was asked: "it
 * didn't end within 60 seconds". */
int command_output(const struct command *c, struct str *out, int *ret_status, struct err *err);

#endif

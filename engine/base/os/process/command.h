/* engine/base/os/process/command.h — runs a program and takes its output. For helper programs that
 * give credentials, or that read hostile input.
 *
 * Any thread; in a process that also runs programs by base/os/process/process.h, set `on_loop` and
 * call from the loop's thread; else its reaper may take the program as an orphan and kill it. The
 * program leads its own process group, which is killed when it takes too long or prints too much.
 * Standard input is `input` or /dev/null, standard error the caller's. What it printed may be
 * secret: wipe it (str_wipe).
 */
#ifndef CAIRN_BASE_OS_PROCESS_COMMAND_H
#define CAIRN_BASE_OS_PROCESS_COMMAND_H

#include "base/err.h"
#include "base/text/str.h"

#define COMMAND_FDS_MAX   4
#define COMMAND_INPUT_MAX 4096 /* fits into a pipe without a reader */

struct command {
	const char *const *argv; /* argv[0] is looked up in PATH; NULL-terminated */
	const char *const *env;  /* "NAME=value" added to the caller's environment, or replacing it
				    there; or NULL */
	/* `env` is its whole environment: for programs that need none of our secrets. */
	bool only_env;
	/* Of the caller's environment, only the variables that steps get: for programs that a
	 * project names. */
	bool bare;
	const char *input; /* its standard input, at most COMMAND_INPUT_MAX bytes; or NULL */
	int64_t timeout_ns;
	size_t max_bytes;
	int fds[COMMAND_FDS_MAX]; /* our descriptors, which become 3, 4, … there */
	size_t n_fds;
	bool on_loop;
};
/* The variables of our environment that a step's program gets by default; NULL-terminated. No
 * credentials. */
extern const char *const command_step_variables[];
/* 0: it ended; *ret_status is its exit code, or 128 + the signal. ERR_NOT_FOUND: no such program;
 * ERR_IO: it took too long; ERR_TOO_LARGE. The caller prepends the program's name to messages: "it
 * didn't end within 60 seconds". */
int command_output(const struct command *c, struct str *out, int *ret_status, struct err *err);
/* The program of this name on PATH, or `name` itself when it has a '/'; NULL: there is none that
 * can be executed. The caller frees it. */
char *command_find(const char *name);
/* The path of this program, to start it again; if its file was replaced while it runs (an upgrade),
 * then what is there now. NULL: the kernel doesn't say. The caller frees it. */
char *command_self(void);

#endif

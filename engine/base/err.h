/* engine/base/err.h — the one error object.
 *
 * The code that detects an error sets it. Callers prepend what they were doing as they return.
 * Success never touches it. Functions that can fail return a negative value (-1) and take a `struct
 * err *` last. A positive return is a documented condition of that function, never an error. `err`
 * may be NULL if the caller needs no message.
 *
 * The message is one line without a final period, in the form "what is wrong: where; what to do".
 * It is held inline, so that reporting an error needs no memory. A message longer than the buffer
 * is cut with "…". Initialise with `struct err err = {0}`. Any thread; an object belongs to one
 * thread at a time.
 */
#ifndef CAIRN_BASE_ERR_H
#define CAIRN_BASE_ERR_H

#include "base/macros.h"

enum err_code {
	ERR_NONE = 0,
	ERR_USAGE,       /* the command line is wrong                                   exit 2 */
	ERR_INVALID,     /* the pipeline, the configuration or another file is invalid  exit 3 */
	ERR_NOT_FOUND,   /* the thing asked for doesn't exist                           exit 4 */
	ERR_EXISTS,      /* the thing to make exists already                            exit 4 */
	ERR_CORRUPT,     /* bytes don't match their digest or their format              exit 4 */
	ERR_IO,          /* a system call failed; `sys` has errno                       exit 4 */
	ERR_NO_SPACE,    /* the disk or a quota is full                                 exit 4 */
	ERR_READ_ONLY,   /* the place can't be written to                               exit 4 */
	ERR_CHANGED,     /* content changed while it was read                           exit 4 */
	ERR_BUSY,        /* another process holds it                                    exit 4 */
	ERR_NEWER,       /* written by a newer version                                  exit 4 */
	ERR_UNSUPPORTED, /* valid, but this build doesn't have it                       exit 3 */
	ERR_TOO_LARGE,   /* over a documented limit                                     exit 3 */
	ERR_CANCELLED,   /* stopped on request                                          exit 130 */
	ERR_FAILED,      /* a task failed                                               exit 1 */
};

struct err {
	enum err_code code;
	int sys;        /* errno, or 0 */
	char msg[1024]; /* UTF-8, no newline */
};

/* Each sets *err and returns -1. */
int err_set(struct err *err, enum err_code code, const char *fmt, ...) _printf_(3, 4);
/* Takes errno: ENOSPC and EDQUOT become ERR_NO_SPACE, ENOENT becomes ERR_NOT_FOUND, all others
 * ERR_IO; appends ": <strerror>". */
int err_errno(struct err *err, const char *fmt, ...) _printf_(2, 3);
/* Copies `from` unchanged. */
int err_pass(struct err *err, const struct err *from);
/* Prepends "<context>: " to the message; keeps the code. */
int err_wrap(struct err *err, const char *fmt, ...) _printf_(2, 3);

/* The process exit code that the design gives to this error. */
int err_exit_code(const struct err *err);

#endif

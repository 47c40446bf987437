/* engine/base/crypto/trust.h — projects, endpoints and writers that the user trusts, besides his
 * own.
 *
 * A project's files can't add trust. Only these can: the file `trust` in the user's configuration
 * directory ($XDG_CONFIG_HOME/cairn, else ~/.config/cairn) with lines `project PATH`, `endpoint
 * URL` and `writer STORE KEY` (a line that begins with `#` is a comment); and the environment,
 * CAIRN_TRUST_PROJECTS and CAIRN_TRUST_ENDPOINTS, with entries separated by spaces. `*` means all.
 * Only a file that doesn't exist counts as empty. If it can't be read, if another user owns it or
 * may write to it, or if it has an unknown line, every call fails with ERR_INVALID.
 *
 * Any thread. Each call reads the file again; calls are rare.
 */
#ifndef CAIRN_BASE_CRYPTO_TRUST_H
#define CAIRN_BASE_CRYPTO_TRUST_H

#include <stdbool.h>
#include <sys/types.h>
#include "base/err.h"

/* Tells whether files of this owner count as the caller's own. So do root's files, because root
 * could change everything anyway, and those of the user who called `sudo`. */
bool trust_is_own(uid_t owner);

/* Tells whether the files in this directory, which another user owns, may decide what runs here.
 * `path` is absolute. 1: yes, 0: no, -1: error. */
int trust_allows_project(const char *path, struct err *err);

/* Checks whether this endpoint from the project's files may get credentials: if it is trusted, or
 * if the environment names it too (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL). 0: yes. -1 with
 * ERR_INVALID: no; the message says how to allow it. */
int trust_check_endpoint(const char *url, struct err *err);

/* Calls fn for each writer of a store: the KEY of each line `writer STORE KEY`
 * (base/crypto/sign.h). No line: all records are believed. -1 from fn ends it. */
int trust_each_writer(const char *store,
		      int (*fn)(void *arg, const char *key, size_t n, struct err *err), void *arg,
		      struct err *err);

/* The path of a file in the user's configuration directory; NULL when there is no such directory.
 * The caller frees it. */
char *trust_config_path(const char *name);

/* Tells whether the URL's host is this machine. */
bool trust_is_loopback(const char *url);

#endif

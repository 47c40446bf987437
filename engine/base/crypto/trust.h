/* engine/base/crypto/trust.h — what the user has allowed beside what is his own.
 *
 * A project's files can't allow anything here. Only these can: the file `trust` in the user's
 * configuration directory ($XDG_CONFIG_HOME/cairn, else ~/.config/cairn) with lines `project PATH`,
 * `endpoint URL` and `writer STORE KEY` (a line that begins with `#` is a comment); and the
 * environment, CAIRN_TRUST_PROJECTS and CAIRN_TRUST_ENDPOINTS, with entries separated by spaces.
 * `*` means all. Only a file that doesn't exist counts as empty: one that can't be read, that
 * another user owns or may write to, or that has a line of another kind is ERR_INVALID for each
 * question.
 *
 * Any thread. Read anew at each question, which is asked seldom.
 */
#ifndef CAIRN_BASE_CRYPTO_TRUST_H
#define CAIRN_BASE_CRYPTO_TRUST_H

#include <stdbool.h>
#include <sys/types.h>
#include "base/err.h"

/* Is what this user owns as good as the caller's own? Root's is: root could change everything
 * anyway. And the files of whoever typed `sudo`. */
bool trust_is_own(uid_t owner);

/* May what is in this directory, which belongs to somebody else, decide what runs here? `path` is
 * absolute. 1, 0, or -1. */
int trust_allows_project(const char *path, struct err *err);

/* May credentials be shown to this endpoint, which the project's files name? Yes when it is
 * allowed, or is one that the environment names anyway (AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL). 0;
 * -1 with ERR_INVALID, which says how to allow it. */
int trust_check_endpoint(const char *url, struct err *err);

/* Whose records of that store are believed: each KEY of a line `writer STORE KEY`
 * (base/crypto/sign.h). No line: everybody's. fn's -1 ends it. */
int trust_each_writer(const char *store,
		      int (*fn)(void *arg, const char *key, size_t n, struct err *err), void *arg,
		      struct err *err);

/* A file of the user's configuration directory; NULL when there is no place for it. The caller
 * frees it. */
char *trust_config_path(const char *name);

/* Is the URL's host this machine? */
bool trust_is_loopback(const char *url);

#endif

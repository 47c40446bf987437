/* storage/bucket/gcs/session.h — remembers resumable uploads that a crash cut off, because the
 * service doesn't list them.
 *
 * Each key has one file, named by the key's digest. It holds size and CRC-32C of the content, and
 * the session's address. The address allows writes without a token, so only the user can read the
 * file (0600), and messages never show it. The file is locked while its upload runs; a killed
 * process loses the lock.
 *
 * This only saves time: a file that can't be read, written or locked counts as absent.
 */
#ifndef CAIRN_STORAGE_BUCKET_GCS_SESSION_H
#define CAIRN_STORAGE_BUCKET_GCS_SESSION_H

#include "storage/bucket/gcs/client.h"

struct session_file {
	int fd; /* -1: none */
	char *path;
};

/* Locks the key's file for this upload. *ret_url: the cut-off session of this very content, or
 * NULL; the caller frees. */
void session_take(const struct gcs *g, const struct bucket_put *p, const char *crc,
		  struct session_file *ret, char **ret_url);
void session_write(struct session_file *f, const struct bucket_put *p, const char *crc,
		   const char *url);
/* done: nothing to resume, so the file is removed. */
void session_give_back(struct session_file *f, bool done);
/* Calls fn for each session that no process uses and that wasn't changed since before_ns. Then
 * removes its file, unless fn fails. */
int session_each_stale(const struct gcs *g, int64_t before_ns,
		       int (*fn)(void *arg, const char *url, struct err *err), void *arg,
		       struct err *err);

#endif

/* storage/bucket/gcs/session.h — resumable uploads that a crash cut off, remembered between
 * processes: the service doesn't list them.
 *
 * One file for each key, named by its digest: what was being sent (size, CRC-32C) and the session's
 * address. Who has the address may write without a token, so that nobody else can read the file
 * (0600), and it is in no message. The lock on it says that its upload is under way; a killed
 * process loses it.
 *
 * All of it is a matter of speed: what can't be read, written or locked counts as not there.
 */
#ifndef CAIRN_STORAGE_BUCKET_GCS_SESSION_H
#define CAIRN_STORAGE_BUCKET_GCS_SESSION_H

#include "storage/bucket/gcs/client.h"

struct session_file {
	int fd; /* -1: nothing is remembered */
	char *path;
};

/* Takes the key's file for this upload. *ret_url: the session of just this content that was cut
 * off, or NULL; the caller's. */
void session_take(const struct gcs *g, const struct bucket_put *p, const char *crc,
		  struct session_file *ret, char **ret_url);
void session_write(struct session_file *f, const struct bucket_put *p, const char *crc,
		   const char *url);
/* done: there is nothing to go on with; the file goes too. */
void session_give_back(struct session_file *f, bool done);
/* fn for each that nobody works on and that wasn't touched since; then it is forgotten, unless fn
 * fails. */
int session_each_stale(const struct gcs *g, int64_t before_ns,
		       int (*fn)(void *arg, const char *url, struct err *err), void *arg,
		       struct err *err);

#endif

/* storage/export.h — copies content out of a store for other programs: into a bucket, or a
 * directory on this machine.
 *
 * Readers that check the mark never see half an export. The mark is `.cairn-export.json` in the
 * exported directory, or NAME.cairn.json beside a single file. It lists the files with the size and
 * SHA-256 of their bytes, and is written last. An export deletes the old mark before it writes the
 * first object. It deletes objects that only the old mark names after the new mark is written. It
 * doesn't send an object again if the old mark names it with the same bytes and nobody has written
 * it since. While an export runs, and after one was cut off, a note (`.cairn-export.pending.json`,
 * NAME.cairn.pending.json) names everything that may be there. The next export to that place
 * removes the leftovers. Only one export at a time may write to a place. On this machine a
 * directory gets its name when it is complete, and may replace an older export; content that cairn
 * didn't export, or that has changed since, is never replaced. Symbolic links become links on this
 * machine. A bucket has no links, so there they appear only in the mark.
 */
#ifndef CAIRN_STORAGE_EXPORT_H
#define CAIRN_STORAGE_EXPORT_H

#include "storage/content/content.h"

#define EXPORT_MARK           ".cairn-export.json"
#define EXPORT_MARK_SUFFIX    ".cairn.json"
#define EXPORT_PENDING        ".cairn-export.pending.json"
#define EXPORT_PENDING_SUFFIX ".cairn.pending.json"

struct export_request {
	/* s3://BUCKET/KEY, gs://BUCKET/KEY, file:///PATH or /PATH; if it ends in `/`, a single file
	 * keeps its own name. With `within`: a relative path. */
	const char *uri;
	/* absolute: the directory that the place lies below. Nothing on the way to it may be a
	 * symbolic link. NULL: anywhere. */
	const char *within;
	const char *name; /* of a single file */
	struct content_id id;
	const char *pipeline, *task, *output, *run; /* written into the mark */
	int64_t now_ns;
};
struct export_done {
	uint64_t files, bytes, sent; /* `files`, `bytes`: in the mark; `sent`: files sent now */
};
/* The buckets are those of origin.h. Errors as in bucket.h; ERR_EXISTS: the place holds something
 * that cairn didn't put there. */
int content_export(struct store *s, const struct export_request *request, struct export_done *ret,
		   struct err *err);
/* Reads the mark to learn whether the place holds this content. 1: it does. 0: it doesn't, there is
 * no mark, or a later export was cut off. On this machine it also looks at the files: 0 if one is
 * missing, has another size, or was written after the mark. */
int content_is_exported(struct store *s, const struct export_request *request, struct err *err);
/* The export's place in canonical form: no slash at the end, no file://. Two exports to the same
 * place give equal strings. Caller frees. */
char *export_place(const struct export_request *request);

#endif

/* storage/export.h — content copied out of a store, to where others read it: a bucket, or a
 * directory of this machine.
 *
 * Readers never see half of it, if they look at the mark: `.cairn-export.json` in the directory
 * that is exported, or NAME.cairn.json beside a single file. It is written last, and says which
 * files there are, with size and SHA-256 of their bytes. An old mark goes before the first object
 * is written, and objects that only the old mark names go after the new one is there; objects that
 * the old mark names with the same bytes, and that nobody wrote since, aren't sent again. While an
 * export is under way, and after one that was cut off, a note (`.cairn-export.pending.json`,
 * NAME.cairn.pending.json) names everything that may be there: the next export to that place
 * removes what nobody wants. Only one at a time may export to a place. On this machine a directory
 * takes its name when it is whole, in place of an older one of ours; what cairn didn't export is
 * never replaced. Symbolic links become links on this machine, and stand in the mark only in a
 * bucket, which has none.
 */
#ifndef CAIRN_STORAGE_EXPORT_H
#define CAIRN_STORAGE_EXPORT_H

#include "storage/content/content.h"

#define EXPORT_MARK           ".cairn-export.json"
#define EXPORT_MARK_SUFFIX    ".cairn.json"
#define EXPORT_PENDING        ".cairn-export.pending.json"
#define EXPORT_PENDING_SUFFIX ".cairn.pending.json"

struct export_ask {
	const char *uri;  /* s3://BUCKET/KEY, gs://BUCKET/KEY, file:///PATH or /PATH; one that ends
			     in `/` gets a single file under its own name */
	const char *name; /* of a single file */
	struct content_id id;
	const char *pipeline, *task, *output, *run; /* stand in the mark */
	int64_t now_ns;
};
struct export_done {
	uint64_t files, bytes, sent; /* in the mark; sent now */
};
/* The buckets are those of origin.h. Errors as in bucket.h; ERR_EXISTS: something that cairn didn't
 * put there is in the way. */
int content_export(struct store *s, const struct export_ask *ask, struct export_done *ret,
		   struct err *err);
/* Asks the mark at the place whether this content lies there. 1: it does. 0: it doesn't, there is
 * no mark, or an export was cut off since. */
int content_is_exported(struct store *s, const struct export_ask *ask, struct err *err);
/* The place that an export writes to, in one form: without a slash at its end, without file://. Two
 * exports to one place have equal ones. Caller frees. */
char *export_place(const struct export_ask *ask);

#endif

/* storage/limits.h — the sizes that several parts of a store rely on: each stands here once, with
 * its reason.
 *
 * A writer refuses what is larger (ERR_TOO_LARGE) before a reader would have to. Limits that one
 * file alone relies on stand in that file. What must hold between limits is asserted at the end,
 * and where a limit meets a format.
 */
#ifndef CAIRN_STORAGE_LIMITS_H
#define CAIRN_STORAGE_LIMITS_H

#include "base/macros.h"

/* Blobs: part of the format (FORMAT.md). */

/* A blob up to this size is hashed whole. It is also the part of a multipart upload, and what one
 * request brings. */
#define CONTENT_PART_BYTES (16 * MIB)
/* A longer blob has at most so many parts: their size doubles. S3 takes 10,000 in an upload. */
#define CONTENT_PARTS_MAX 8192
/* 32 TiB: parts of 4 GiB then, and S3 takes no part over 5 GiB. */
#define CONTENT_BLOB_MAX (1ULL << 45)
#define S3_PART_MAX      (5 * GIB)
#define S3_PARTS_MAX     10000

/* What is held in memory whole. */

/* A directory's listing: about three million entries in one directory. */
#define TREE_LISTING_MAX (256 * MIB)
/* Bytes of a name in a listing, as on every file system of Linux. */
#define TREE_NAME_MAX 255
/* A path has at most 4,096 bytes, so that no program makes directories deeper than this. */
#define CONTENT_DEPTH_MAX 2048
/* A run's manifest. Its table of results is a blob of its own, so that this is ample for a million
 * tasks. */
#define RUN_MANIFEST_MAX (256 * MIB)
/* That table: 4 GiB are about twenty million tasks. */
#define RUN_RESULTS_MAX (4 * GIB)
/* An action record: 100,000 outputs with long names. */
#define ACTION_RECORD_MAX  (16 * MIB)
#define ACTION_OUTPUTS_MAX 100000
/* Any record that lies alone in a bucket. */
#define REMOTE_RECORD_MAX (1 * GIB)
/* An object that is fetched into memory and whose reader names no limit. One that goes to a file
 * has CONTENT_BLOB_MAX. */
#define BUCKET_BODY_MAX (1 * GIB)
/* A list of the condemned, of a bucket or a directory: 25 million objects. A collector leaves what
 * has no room to a later one. */
#define CONDEMNED_MAX (1 * GIB)

/* Packs: part of the format. */

/* Blobs of at least so many bytes lie alone; what is smaller is never looked for alone. */
#define REMOTE_LOOSE_MIN (256 * KIB)
/* Writers begin another pack here. A single large blob may make a larger pack. */
#define PACK_BYTES_MAX    (64 * MIB)
#define PACK_MEMBERS_FULL 65536   /* writers begin another pack then: an index has 4 MB at most */
#define PACK_MEMBERS_MAX  1000000 /* readers refuse more */
#define PACK_INDEX_MAX    (64 * MIB)
/* No place in a pack lies behind this: one blob of any size, and a pack before it. */
#define PACK_PLACE_MAX (1ULL << 46)
/* Members of blobs that are larger, stored or decoded, go through a file; trees always fit into
 * memory. */
#define PACK_MEMORY_MAX (8 * MIB)

/* Object storage. */

#define BUCKET_NAME_MAX 255
#define BUCKET_KEY_MAX  1024 /* of S3 and GCS alike */

_Static_assert(CONTENT_BLOB_MAX / CONTENT_PARTS_MAX <= S3_PART_MAX,
	       "the parts of the largest blob can be uploaded");
_Static_assert(CONTENT_PARTS_MAX <= S3_PARTS_MAX, "and there are not too many of them");
_Static_assert(PACK_PLACE_MAX >= CONTENT_BLOB_MAX + PACK_BYTES_MAX, "a pack holds any blob");
_Static_assert(REMOTE_LOOSE_MIN < PACK_MEMORY_MAX && PACK_MEMORY_MAX <= PACK_BYTES_MAX,
	       "small members fit into memory");
_Static_assert(REMOTE_LOOSE_MIN <= CONTENT_PART_BYTES, "what is in a pack is hashed whole");
_Static_assert(RUN_MANIFEST_MAX <= REMOTE_RECORD_MAX && ACTION_RECORD_MAX <= REMOTE_RECORD_MAX,
	       "records can be fetched");
_Static_assert(REMOTE_RECORD_MAX <= BUCKET_BODY_MAX && PACK_INDEX_MAX <= BUCKET_BODY_MAX &&
		       TREE_LISTING_MAX <= BUCKET_BODY_MAX && CONDEMNED_MAX <= BUCKET_BODY_MAX,
	       "what is fetched into memory fits");

#endif

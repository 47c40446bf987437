/* storage/limits.h — sizes that several parts of a store rely on, each with its reason.
 *
 * Writers refuse larger objects (ERR_TOO_LARGE), so readers never meet them. A limit that only one
 * file uses is in that file. Assertions at the end of this file, and where a format depends on a
 * limit, check that the limits fit together.
 */
#ifndef CAIRN_STORAGE_LIMITS_H
#define CAIRN_STORAGE_LIMITS_H

#include "base/macros.h"

/* Blobs: part of the format (FORMAT.md). */

/* A blob up to this size is hashed whole. Also the part size of multipart uploads, and how much one
 * request fetches. */
#define CONTENT_PART_BYTES (16 * MIB)
/* A longer blob has at most this many parts; the part size doubles until it fits. S3 allows 10,000
 * parts in an upload. */
#define CONTENT_PARTS_MAX 8192
/* 32 TiB. Its parts have 4 GiB, and S3 allows at most 5 GiB a part. */
#define CONTENT_BLOB_MAX (1ULL << 45)
#define S3_PART_MAX      (5 * GIB)
#define S3_PARTS_MAX     10000

/* Objects that are held in memory whole. */

/* A directory's listing: about three million entries in one directory. */
#define TREE_LISTING_MAX (256 * MIB)
/* Bytes of a name in a listing, as on every Linux file system. */
#define TREE_NAME_MAX 255
/* A path has at most 4,096 bytes, so no path is deeper than this. */
#define CONTENT_DEPTH_MAX 2048
/* A run's manifest. Its table of results is a separate blob, so this is ample for a million
 * tasks. */
#define RUN_MANIFEST_MAX (256 * MIB)
/* The table of results: 4 GiB hold about twenty million tasks. */
#define RUN_RESULTS_MAX (4 * GIB)
/* An action record: 100,000 outputs with long names. */
#define ACTION_RECORD_MAX  (16 * MIB)
#define ACTION_OUTPUTS_MAX 100000
/* Any record that is an object of its own in a bucket. */
#define REMOTE_RECORD_MAX (1 * GIB)
/* An object fetched into memory by a reader that names no limit. For files the limit is
 * CONTENT_BLOB_MAX. */
#define BUCKET_BODY_MAX (1 * GIB)
/* A list of condemned objects, of a bucket or a directory: 25 million objects. When the list is
 * full, gc leaves the rest to a later run. */
#define CONDEMNED_MAX (1 * GIB)

/* Packs: part of the format. */

/* Blobs of at least this size are separate objects. Smaller ones are always in packs, so readers
 * never look for them as separate objects. */
#define REMOTE_LOOSE_MIN (256 * KIB)
/* Writers begin another pack at this size. A single large blob may make a pack larger. */
#define PACK_BYTES_MAX    (64 * MIB)
#define PACK_MEMBERS_FULL 65536   /* writers start a new pack here; an index has 4 MB at most */
#define PACK_MEMBERS_MAX  1000000 /* readers refuse more */
#define PACK_INDEX_MAX    (64 * MIB)
/* No offset in a pack is larger: enough for a full pack and then one blob of any size. */
#define PACK_PLACE_MAX (1ULL << 46)
/* Blob members that are larger, stored or decoded, go through a file. Trees always fit into
 * memory. */
#define PACK_MEMORY_MAX (8 * MIB)

/* Object storage. */

#define BUCKET_NAME_MAX 255
#define BUCKET_KEY_MAX  1024 /* for both S3 and GCS */

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

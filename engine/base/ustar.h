/* engine/base/ustar.h — the header of a tar member (POSIX.1-1988 ustar, 10.1.1) and the records of
 * a pax header (POSIX.1-2001). Owner and time are 0, so that the same member always gives the same
 * bytes. Shards and image layers need that; a library's bytes could change with its version. */
#ifndef CAIRN_BASE_USTAR_H
#define CAIRN_BASE_USTAR_H

#include "base/text/str.h"

#define USTAR_BLOCK    512
#define USTAR_SIZE_MAX ((1ULL << 33) - 1) /* 11 octal digits */

struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type,
		linkname[100], magic[6], version[2], uname[32], gname[32], major[8], minor[8],
		prefix[155], unused[12];
};
_Static_assert(sizeof(struct ustar) == USTAR_BLOCK, "a header is one block");

/* Fills all fields but the names, which must be set before. Change nothing afterwards. */
void ustar_seal(struct ustar *h, char type, unsigned mode, uint64_t size);
/* "LENGTH key=value\n", where LENGTH includes its own digits. */
void ustar_add_record(struct str *out, const char *key, const char *value, size_t n);

#endif

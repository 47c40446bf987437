/* steps/shards/members.h — reads the files in an archive (tar, zip; compressed or not) one after
 * the other, with libarchive, as hostile input.
 *
 * Only regular files are returned; directories are skipped. Links, devices, encrypted members,
 * names that aren't UTF-8, a member over member_max and an archive that ends too early are
 * ERR_INVALID with the archive's path and the member's name. An archive that unpacks to more than
 * total_max or the ratio allows is ERR_TOO_LARGE. Names are returned unchanged, even unsafe ones:
 * see shard_name_split(). One thread at a time.
 */
#ifndef CAIRN_STEPS_SHARDS_MEMBERS_H
#define CAIRN_STEPS_SHARDS_MEMBERS_H

#include "base/err.h"
#include "base/text/str.h"

struct member_limits {
	uint64_t member_max, total_max; /* bytes unpacked */
	/* Unpacked size / size of the archive; checked once more than ratio_from is unpacked. */
	uint64_t ratio_max;
	uint64_t ratio_from;
	bool zip; /* besides tar */
};

struct member_reader;
int member_reader_open(const char *path, const struct member_limits *l, struct member_reader **ret,
		       struct err *err);
/* 1: a member, whose name is lent until the next call; 0: the end; -1. After most errors nothing
 * more can be read (member_reader_can_go_on). */
int member_reader_next(struct member_reader *r, const char **ret_name, uint64_t *ret_offset,
		       struct err *err);
/* Whether the last error was about one member only (its name, its kind), so that next() can
 * continue after it. */
bool member_reader_can_go_on(const struct member_reader *r);
/* Reads the next bytes of the member that next() returned: 1 and up to `max` of them, 0 at its end.
 * A hole is read as zeros. */
int member_reader_read(struct member_reader *r, void *to, size_t max, size_t *ret_n,
		       struct err *err);
/* Appends all bytes of that member. */
int member_reader_data(struct member_reader *r, struct str *out, struct err *err);
void member_reader_free(struct member_reader *r); /* NULL is fine */

#endif

/* steps/normalise/layout.c — checks that every byte of an archive belongs to a member.
 *
 * Bytes besides the members (after the archive's end, between members, in the padding of blocks)
 * are read by no unpacker, and so wouldn't be compared: such a file isn't normalised. Formats:
 * POSIX.1-2008 pax, and PKWARE's APPNOTE.TXT 6.3.10.
 *
 * A tar's pax headers may hold records that no unpacker knows, comments among them: they count,
 * together with the member after them (normalise_tar_facts()).
 *
 * A zip is read from its end: its end record (and that of zip64) gives the place of the directory,
 * whose entries give the places of the members. The members, sorted by place, must follow each
 * other without a gap from byte 0 to the directory; only the checksum and the sizes of a streamed
 * member may come after it (is_descriptor()). What a member's local header and descriptor repeat
 * must agree with the directory (local_end()).
 *
 * A zip has two more places for content: comments, and extra fields of the directory and of local
 * headers. They count, except the fields that hold times, owners and large sizes (ignored_fields).
 * add_facts() collects them by the names of the members, so that their order in the archive doesn't
 * count here either.
 *
 * Every number comes from the file, so each is checked against the remaining bytes before it is
 * used. archive.c handles names and contents.
 */
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/ustar.h"
#include "steps/normalise/normalise.h"

#define ZIP_LOCAL_BYTES 30
#define ZIP_ENTRY_BYTES 46
#define ZIP_END_BYTES   22
#define ZIP64_END_BYTES (56 + 20) /* its end record and the locator after it */

int normalise_check_zeros(struct span s, uint64_t from, uint64_t to, struct err *err)
{
	for (uint64_t at = from; at < MIN(to, (uint64_t)s.n); at++)
		if (s.p[at])
			return err_set(err, ERR_INVALID, "byte %llu belongs to no member",
				       (unsigned long long)at);
	return 0;
}

/* Records of a pax header that are in a member's facts because libarchive reads them, or that hold
 * times and owners. A star stands for any ending. */
static const char *const known_records[] = {
	"path",
	"linkpath",
	"size",
	"uid",
	"gid",
	"uname",
	"gname",
	"mtime",
	"atime",
	"ctime",
	"charset",
	"hdrcharset",
	"GNU.sparse.*",
	"LIBARCHIVE.creationtime",
	"LIBARCHIVE.xattr.*",
	"SCHILY.acl.*",
	"SCHILY.dev",
	"SCHILY.devmajor",
	"SCHILY.devminor",
	"SCHILY.fflags",
	"SCHILY.ino",
	"SCHILY.nlink",
	"SCHILY.realsize",
	"SCHILY.xattr.*",
};

static bool is_known_record(const char *key, size_t n)
{
	for (size_t i = 0; i < ARRAY_LEN(known_records); i++) {
		size_t len = strlen(known_records[i]);
		bool star = known_records[i][len - 1] == '*';

		len -= star;
		if ((star ? n > len : n == len) && memcmp(key, known_records[i], len) == 0)
			return true;
	}
	return false;
}

/* Reads "LENGTH KEY=VALUE\n" records, one after the other; the length counts itself. */
static int add_records(struct span s, struct str *facts, struct err *err)
{
	for (const char *p = (const char *)s.p, *end = p + s.n; p < end;) {
		const char *key = p, *value;
		size_t n = 0;

		while (key < end && *key >= '0' && *key <= '9' && n <= s.n)
			n = n * 10 + (size_t)(*key++ - '0');
		if (key == p || key == end || *key++ != ' ' || n > (size_t)(end - p) ||
		    n <= (size_t)(key - p) || p[n - 1] != '\n')
			return err_set(err, ERR_INVALID, "a pax header can't be read");
		value = memchr(key, '=', (size_t)(p + n - 1 - key));
		if (!value)
			return err_set(err, ERR_INVALID, "a pax header can't be read");
		if (!is_known_record(key, (size_t)(value - key)))
			str_add_field(facts, key, (size_t)(p + n - 1 - key));
		p += n;
	}
	return 0;
}

int normalise_tar_facts(struct span s, uint64_t at, struct str *facts, struct err *err)
{
	while (at <= s.n && s.n - at >= USTAR_BLOCK) {
		const struct ustar *h = (const struct ustar *)(s.p + at);
		uint64_t size = 0;

		at += USTAR_BLOCK;
		if (h->type == 'V') { /* a volume label, which is never unpacked */
			str_add_field(facts, h->name, sizeof(h->name));
			continue;
		}
		if (!h->type || !strchr("xgXLKA", h->type))
			break;
		for (size_t i = 0; i < sizeof(h->size) - 1; i++)
			if (h->size[i] >= '0' && h->size[i] <= '7')
				size = size * 8 + (uint64_t)(h->size[i] - '0');
			else if (h->size[i] && h->size[i] != ' ')
				return err_set(err, ERR_INVALID, "a pax header can't be read");
		if (size > s.n - at)
			return err_set(err, ERR_INVALID, "a pax header can't be read");
		if (strchr("xgX", h->type) &&
		    add_records((struct span){ s.p + at, size }, facts, err) < 0)
			return -1;
		at += MIN((size + USTAR_BLOCK - 1) / USTAR_BLOCK * USTAR_BLOCK, s.n - at);
	}
	return 0;
}

static uint64_t number(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | p[n];
	return v;
}

struct entry {
	uint64_t at, packed, unpacked; /* where its local header is; bytes of its content there */
	uint32_t checksum;
	bool streamed; /* checksum and sizes come after it */
	struct span name, comment;
	struct span extra[2]; /* of the directory, of the local header */
};

/* A field of extra data: its id and its content. Too few bytes at the end for a field, or for its
 * length, are a field with the id RAW. */
#define RAW UINT32_MAX
struct field {
	uint32_t id;
	struct span is;
};

static bool next_field(struct span *left, struct field *ret)
{
	size_t n = left->n >= 4 ? number(left->p + 2, 2) : 0;

	if (!left->n)
		return false;
	if (left->n < 4 || n > left->n - 4) {
		*ret = (struct field){ RAW, *left };
		*left = (struct span){ 0 };
		return true;
	}
	*ret = (struct field){ (uint32_t)number(left->p, 2), { left->p + 4, n } };
	*left = (struct span){ left->p + 4 + n, left->n - 4 - n };
	return true;
}

/* Fields that don't count, each with the maximum size of its format: a larger field counts. */
static const struct {
	uint32_t id;
	size_t bytes_max;
} ignored_fields[] = {
	{ 0x0001, 28 }, /* zip64: sizes that don't fit into the header */
	{ 0x000a, 32 }, /* NTFS: times */
	{ 0x5455, 13 }, /* Info-ZIP: times */
	{ 0x5855, 12 }, /* Info-ZIP, old: times and owner */
	{ 0x7855, 4 },  /* Info-ZIP: owner of 16 bits */
	{ 0x7875, 19 }, /* Info-ZIP: owner of any size, here 64 bits */
};

static bool counts(const struct field *f)
{
	for (size_t i = 0; i < ARRAY_LEN(ignored_fields); i++)
		if (f->id == ignored_fields[i].id && f->is.n <= ignored_fields[i].bytes_max)
			return false;
	return true;
}

/* Sizes that don't fit are in an extra field, in the order in which the header lacks them. */
static int read_zip64(struct entry *e)
{
	uint64_t *missing[] = { &e->unpacked, &e->packed, &e->at };
	struct span left = e->extra[0];
	struct field f = { .id = RAW };

	while (next_field(&left, &f) && f.id != 1)
		;
	for (size_t i = 0; i < ARRAY_LEN(missing); i++) {
		if (*missing[i] != UINT32_MAX)
			continue;
		if (f.id != 1 || f.is.n < 8)
			return -1;
		*missing[i] = number(f.is.p, 8);
		f.is = (struct span){ f.is.p + 8, f.is.n - 8 };
	}
	return 0;
}

static int by_place(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;

	return (a->at > b->at) - (a->at < b->at);
}

static int by_name(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;
	int r = memcmp(a->name.p, b->name.p, MIN(a->name.n, b->name.n));

	return r                        ? r
	       : a->name.n != b->name.n ? (a->name.n > b->name.n) - (a->name.n < b->name.n)
					: by_place(pa, pb);
}

/* A number of 4 bytes that repeats one of the directory. It is 0 where it isn't known yet, and has
 * all bits set where it doesn't fit. */
static bool repeats(const uint8_t *p, uint64_t is)
{
	uint64_t v = number(p, 4);

	return v == (uint32_t)is || v == 0 || v == UINT32_MAX;
}

/* The entry's local part begins at `at`; *ret_end: its end, including sizes after it. */
static int local_end(struct span s, struct entry *e, uint64_t limit, uint64_t *ret_end,
		     struct err *err)
{
	const uint8_t *p = s.p + MIN(e->at, limit);
	uint64_t end, name;

	if (e->at > limit || limit - e->at < ZIP_LOCAL_BYTES || memcmp(p, "PK\3\4", 4) != 0)
		return err_set(err, ERR_INVALID, "its members overlap");
	name = number(p + 26, 2);
	end = e->at + ZIP_LOCAL_BYTES + name + number(p + 28, 2);
	if (end > limit || e->packed > limit - end)
		return err_set(err, ERR_INVALID, "its members overlap");
	e->extra[1] = (struct span){ s.p + end - number(p + 28, 2), number(p + 28, 2) };
	if (!repeats(p + 14, e->checksum) || !repeats(p + 18, e->packed) ||
	    !repeats(p + 22, e->unpacked) || name != e->name.n ||
	    memcmp(p + ZIP_LOCAL_BYTES, e->name.p, name) != 0)
		return err_set(err, ERR_INVALID,
			       "the header at byte %llu differs from its directory",
			       (unsigned long long)e->at);
	*ret_end = end + e->packed;
	return 0;
}

/* The member's checksum and two sizes, of 4 or 8 bytes, with or without a signature. */
static bool is_descriptor(const struct entry *e, const uint8_t *p, uint64_t gap)
{
	unsigned bytes = gap == 12 || gap == 16 ? 4 : 8;
	uint64_t most = bytes == 4 ? UINT32_MAX : UINT64_MAX;

	if (!e->streamed || (gap != 12 && gap != 16 && gap != 20 && gap != 24))
		return gap == 0 && !e->streamed;
	if (gap == 16 || gap == 24) {
		if (memcmp(p, "PK\7\10", 4) != 0)
			return false;
		p += 4;
	}
	return number(p, 4) == e->checksum && number(p + 4, bytes) == (e->packed & most) &&
	       number(p + 4 + bytes, bytes) == (e->unpacked & most);
}

static int check_places(struct span s, struct entry *v, size_t n, uint64_t limit, struct err *err)
{
	uint64_t end = 0;

	if (n)
		qsort(v, n, sizeof(*v), by_place);
	else if (limit)
		return err_set(err, ERR_INVALID, "byte 0 belongs to no member");
	for (size_t i = 0; i < n; i++) {
		uint64_t next = i + 1 < n ? v[i + 1].at : limit;

		if (i == 0 && v[i].at != 0)
			return err_set(err, ERR_INVALID, "bytes before its first member");
		if (local_end(s, &v[i], limit, &end, err) < 0)
			return -1;
		if (end > next)
			return err_set(err, ERR_INVALID, "its members overlap");
		if (!is_descriptor(&v[i], s.p + end, next - end))
			return err_set(err, ERR_INVALID, "byte %llu belongs to no member",
				       (unsigned long long)end);
	}
	return 0;
}

static void add_fact(struct str *facts, const struct entry *e, const char *what, struct span is)
{
	str_add_field(facts, e->name.p, e->name.n);
	str_add_field(facts, what, strlen(what));
	str_add_field(facts, is.p, is.n);
}

/* Comments and the fields that count, by the names of their members. */
static void add_facts(struct entry *v, size_t n, struct str *facts)
{
	struct field f;

	if (n)
		qsort(v, n, sizeof(*v), by_name);
	for (size_t i = 0; i < n; i++) {
		if (v[i].comment.n)
			add_fact(facts, &v[i], "comment", v[i].comment);
		for (int k = 0; k < 2; k++)
			for (struct span left = v[i].extra[k]; next_field(&left, &f);)
				if (counts(&f)) {
					char what[32];

					snprintf(what, sizeof(what), "%s %u",
						 k ? "header" : "directory", f.id);
					add_fact(facts, &v[i], what, f.is);
				}
	}
}

static int64_t find_end(struct span s)
{
	uint64_t least = s.n > ZIP_END_BYTES + UINT16_MAX ? s.n - ZIP_END_BYTES - UINT16_MAX : 0;

	for (uint64_t at = s.n - MIN(s.n, (size_t)ZIP_END_BYTES) + 1; at-- > least;)
		if (s.n - at >= ZIP_END_BYTES && memcmp(s.p + at, "PK\5\6", 4) == 0 &&
		    number(s.p + at + 20, 2) == s.n - at - ZIP_END_BYTES)
			return (int64_t)at;
	return -1;
}

int normalise_check_zip(struct span s, struct str *facts, struct err *err)
{
	VEC(struct entry) v = { 0 };
	int64_t end = find_end(s);
	uint64_t first, at, size, limit = 0;
	int r = 0;

	if (end < 0)
		return err_set(err, ERR_INVALID, "there are bytes behind its end");
	size = number(s.p + end + 12, 4);
	first = number(s.p + end + 16, 4);
	limit = (uint64_t)end;
	if (limit >= ZIP64_END_BYTES && memcmp(s.p + limit - 20, "PK\6\7", 4) == 0 &&
	    memcmp(s.p + limit - ZIP64_END_BYTES, "PK\6\6", 4) == 0) {
		limit -= ZIP64_END_BYTES;
		size = number(s.p + limit + 40, 8);
		first = number(s.p + limit + 48, 8);
	}
	if (first > limit || size != limit - first)
		return err_set(err, ERR_INVALID, "there are bytes around its directory");
	str_add_field(facts, s.p + end + ZIP_END_BYTES, s.n - (size_t)end - ZIP_END_BYTES);
	for (at = first; at < limit && r == 0;) {
		const uint8_t *p = s.p + at;
		uint64_t name, extra, comment;
		struct entry e;

		if (limit - at < ZIP_ENTRY_BYTES || memcmp(p, "PK\1\2", 4) != 0) {
			r = err_set(err, ERR_INVALID, "its directory can't be read");
			break;
		}
		name = number(p + 28, 2);
		extra = number(p + 30, 2);
		comment = number(p + 32, 2);
		e = (struct entry){ .at = number(p + 42, 4),
				    .packed = number(p + 20, 4),
				    .unpacked = number(p + 24, 4),
				    .checksum = (uint32_t)number(p + 16, 4),
				    .streamed = p[8] & 8,
				    .name = { p + ZIP_ENTRY_BYTES, name },
				    .extra = { { p + ZIP_ENTRY_BYTES + name, extra } },
				    .comment = { p + ZIP_ENTRY_BYTES + name + extra, comment } };
		if (name + extra + comment > limit - at - ZIP_ENTRY_BYTES || read_zip64(&e) < 0) {
			r = err_set(err, ERR_INVALID, "its directory can't be read");
			break;
		}
		VEC_PUSH(&v, e);
		at += ZIP_ENTRY_BYTES + name + extra + comment;
	}
	if (r == 0)
		r = check_places(s, v.v, v.n, first, err);
	if (r == 0)
		add_facts(v.v, v.n, facts);
	VEC_FREE(&v);
	return r;
}

/* steps/normalise/layout.c — are all bytes of an archive accounted for?
 *
 * What lies in a file beside its members (behind its end, between them, in what fills a block up)
 * is read by no unpacker, and so wouldn't be compared: such a file isn't normalised. Comments of
 * a zip are collected, for they count. Formats: POSIX.1-2008 pax, and PKWARE's APPNOTE.TXT
 * 6.3.10.
 */
#include <string.h>
#include "base/macros.h"
#include "steps/normalise/normalise.h"

#define ZIP_LOCAL_BYTES 30
#define ZIP_ENTRY_BYTES 46
#define ZIP_END_BYTES   22
#define ZIP64_END_BYTES (56 + 20) /* its end record and the locator behind it */

int normalise_check_zeros(struct span s, uint64_t from, uint64_t to, struct err *err)
{
	for (uint64_t at = from; at < MIN(to, (uint64_t)s.n); at++)
		if (s.p[at])
			return err_set(err, ERR_INVALID, "byte %llu belongs to no member",
				       (unsigned long long)at);
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
	uint64_t at, packed; /* where its local header is; bytes of its content there */
	bool streamed;       /* with sizes behind it */
};

/* Sizes that don't fit stand in an extra field, in the order in which they are missing. */
static int read_zip64(const uint8_t *p, size_t n, uint64_t unpacked, struct entry *e)
{
	size_t at = 0, field = 0;

	while (at + 4 <= n && number(p + at, 2) != 1)
		at += 4 + number(p + at + 2, 2);
	if (at + 4 > n || (field = number(p + at + 2, 2)) > n - at - 4)
		return -1;
	p += at + 4;
	if (unpacked == UINT32_MAX) {
		if (field < 8)
			return -1;
		p += 8;
		field -= 8;
	}
	if (e->packed == UINT32_MAX) {
		if (field < 8)
			return -1;
		e->packed = number(p, 8);
		p += 8;
		field -= 8;
	}
	if (e->at == UINT32_MAX) {
		if (field < 8)
			return -1;
		e->at = number(p, 8);
	}
	return 0;
}

static int by_place(const void *pa, const void *pb)
{
	const struct entry *a = pa, *b = pb;

	return (a->at > b->at) - (a->at < b->at);
}

/* The entry's local part begins at `at`; *ret_end: where it ends, perhaps with sizes behind it. */
static int local_end(struct span s, const struct entry *e, uint64_t limit, uint64_t *ret_end)
{
	uint64_t end;

	if (e->at > limit || limit - e->at < ZIP_LOCAL_BYTES ||
	    memcmp(s.p + e->at, "PK\3\4", 4) != 0)
		return -1;
	end = e->at + ZIP_LOCAL_BYTES + number(s.p + e->at + 26, 2) + number(s.p + e->at + 28, 2);
	if (end > limit || e->packed > limit - end)
		return -1;
	*ret_end = end + e->packed;
	return 0;
}

/* Checksum and two sizes, of 4 or 8 bytes, with or without a signature. */
static bool is_descriptor(const struct entry *e, uint64_t gap)
{
	return e->streamed ? gap == 12 || gap == 16 || gap == 20 || gap == 24 : gap == 0;
}

static int check_places(struct span s, struct entry *v, size_t n, uint64_t limit, struct err *err)
{
	uint64_t at = 0, end;

	if (n)
		qsort(v, n, sizeof(*v), by_place);
	for (size_t i = 0; i < n; i++) {
		uint64_t next = i + 1 < n ? v[i + 1].at : limit;

		if (i == 0 && v[i].at != at)
			return err_set(err, ERR_INVALID, "bytes before its first member");
		if (local_end(s, &v[i], limit, &end) < 0 || end > next)
			return err_set(err, ERR_INVALID, "its members overlap");
		if (!is_descriptor(&v[i], next - end))
			return err_set(err, ERR_INVALID, "byte %llu belongs to no member",
				       (unsigned long long)end);
	}
	return 0;
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

int normalise_check_zip(struct span s, struct str *comments, struct err *err)
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
	str_add_field(comments, s.p + end + ZIP_END_BYTES, s.n - (size_t)end - ZIP_END_BYTES);
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
				    .streamed = p[8] & 8 };
		if (name + extra + comment > limit - at - ZIP_ENTRY_BYTES ||
		    ((e.at == UINT32_MAX || e.packed == UINT32_MAX) &&
		     read_zip64(p + ZIP_ENTRY_BYTES + name, extra, number(p + 24, 4), &e) < 0)) {
			r = err_set(err, ERR_INVALID, "its directory can't be read");
			break;
		}
		if (comment) {
			str_add_field(comments, p + ZIP_ENTRY_BYTES, name);
			str_add_field(comments, p + ZIP_ENTRY_BYTES + name + extra, comment);
		}
		VEC_PUSH(&v, e);
		at += ZIP_ENTRY_BYTES + name + extra + comment;
	}
	if (r == 0)
		r = check_places(s, v.v, v.n, first, err);
	VEC_FREE(&v);
	return r;
}

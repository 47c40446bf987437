/* runners/redact.c — the search in the stream: finds at each place the longest piece of a secret
 * that begins there, and masks it.
 *
 * A byte is masked when a piece that began at or before it reaches beyond it. `covered` counts how
 * many of the next bytes are masked. There is one pass. A bitmap of the hash of four bytes tells
 * the few places where a piece may begin. Pieces are sorted, and each knows the longest other piece
 * that is its beginning (`inner`). So a place costs a search and at most REDACT_PIECE steps,
 * however many secrets share a beginning. `held` keeps the end of the stream, from the first place
 * where the bytes so far may begin a piece.
 *
 * redact_forms.c decides which forms of a secret are searched for. A redactor has one owner; it
 * takes no lock.
 */
#include "runners/redact.h"
#include <assert.h>
#include <string.h>
#include "base/mem.h"

#define HASH_BITS 16

struct piece {
	char *s;
	size_t n;
	size_t inner; /* 1 + the longest other piece that this one begins with; 0: none */
};

struct redactor {
	VEC(struct piece) pieces;             /* sorted, without duplicates */
	uint8_t begins[(1 << HASH_BITS) / 8]; /* by the hash of a piece's first bytes */
	struct str held;
	size_t covered; /* of the next bytes, by pieces that began before them */
	bool masking;   /* the last output is a mask */
};

static uint32_t hash_at(const char *s)
{
	uint32_t v;

	static_assert(REDACT_MIN == sizeof(v),
		      "the hash is of as many bytes as the shortest piece has");
	memcpy(&v, s, sizeof(v));
	return v * 2654435761u >> (32 - HASH_BITS);
}

static void add_piece(void *arg, const char *s, size_t n)
{
	struct redactor *r = arg;
	uint32_t h = hash_at(s);

	assert(n >= REDACT_MIN && n <= REDACT_PIECE);
	VEC_PUSH(&r->pieces, ((struct piece){ xmalloc(n), n, 0 }));
	memcpy(r->pieces.v[r->pieces.n - 1].s, s, n);
	r->begins[h / 8] |= (uint8_t)(1u << h % 8);
}

static void free_piece(struct piece *p)
{
	explicit_bzero(p->s, p->n);
	free(p->s);
}

static int by_bytes(const void *a, const void *b)
{
	const struct piece *x = a, *y = b;
	int order = memcmp(x->s, y->s, MIN(x->n, y->n));

	return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* In sorted order, each beginning of a piece stands before the piece, and so do that one's
 * beginnings. */
static void find_inner(struct redactor *r)
{
	for (size_t i = 1; i < r->pieces.n; i++) {
		struct piece *p = &r->pieces.v[i];
		size_t at = i; /* 1 + the index of a candidate */

		while (at) {
			const struct piece *q = &r->pieces.v[at - 1];

			if (q->n < p->n && memcmp(q->s, p->s, q->n) == 0)
				break;
			at = q->inner;
		}
		p->inner = at;
	}
}

struct redactor *redactor_new(const char *const *values, size_t n)
{
	struct redactor *r = xcalloc(1, sizeof(*r));
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		redact_forms(values[i], strlen(values[i]), add_piece, r);
	if (r->pieces.n)
		qsort(r->pieces.v, r->pieces.n, sizeof(*r->pieces.v), by_bytes);
	for (size_t i = 0; i < r->pieces.n; i++)
		if (kept && by_bytes(&r->pieces.v[kept - 1], &r->pieces.v[i]) == 0)
			free_piece(&r->pieces.v[i]);
		else
			r->pieces.v[kept++] = r->pieces.v[i];
	r->pieces.n = kept;
	find_inner(r);
	return r;
}

void redactor_free(struct redactor *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->pieces.n; i++)
		free_piece(&r->pieces.v[i]);
	VEC_FREE(&r->pieces);
	str_wipe(&r->held);
	free(r);
}

/* The first piece that is not less than these bytes. */
static size_t first_from(const struct redactor *r, const char *s, size_t n)
{
	struct piece key = { .s = (char *)s, .n = n };
	size_t low = 0, high = r->pieces.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (by_bytes(&r->pieces.v[mid], &key) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Length of the longest piece that begins at s, where n bytes are available; 0: none. Such a piece
 * is the greatest that isn't greater than the text, or a beginning of that one. */
static size_t longest_at(const struct redactor *r, const char *s, size_t n)
{
	size_t i = first_from(r, s, n);

	if (i < r->pieces.n && r->pieces.v[i].n == n && memcmp(r->pieces.v[i].s, s, n) == 0)
		return n;
	while (i-- > 0) {
		const struct piece *p = &r->pieces.v[i];

		if (p->n <= n && memcmp(p->s, s, p->n) == 0)
			return p->n;
		i = p->inner;
	}
	return 0;
}

/* Whether a longer piece begins with these n bytes. It would be the first greater piece. */
static bool may_begin(const struct redactor *r, const char *s, size_t n)
{
	size_t i = first_from(r, s, n);

	while (i < r->pieces.n && r->pieces.v[i].n == n && memcmp(r->pieces.v[i].s, s, n) == 0)
		i++;
	return i < r->pieces.n && r->pieces.v[i].n > n && memcmp(r->pieces.v[i].s, s, n) == 0;
}

static bool may_match(const struct redactor *r, const char *s)
{
	uint32_t h = hash_at(s);

	return r->begins[h / 8] >> h % 8 & 1;
}

/* Writes out places up to `until`, which are decided; pieces that begin there may reach n. */
static void give(struct redactor *r, const char *s, size_t n, size_t until, struct str *out)
{
	size_t at = 0, clear = 0; /* the bytes between them are copied unchanged */

	while (at < until) {
		size_t len = n - at >= REDACT_MIN && may_match(r, s + at)
				     ? longest_at(r, s + at, n - at)
				     : 0;

		r->covered = MAX(r->covered, len);
		if (!r->covered) {
			at++;
			continue;
		}
		if (at > clear || !r->masking) {
			str_addn(out, s + clear, at - clear);
			str_add(out, REDACT_MASK);
		}
		r->masking = true;
		r->covered--;
		clear = ++at;
	}
	str_addn(out, s + clear, until - clear);
	if (until > clear)
		r->masking = false;
}

void redactor_feed(struct redactor *r, const char *bytes, size_t n, bool end, struct str *out)
{
	size_t until;

	str_addn(&r->held, bytes, n);
	until = end ? r->held.len : r->held.len - MIN(r->held.len, REDACT_PIECE - 1);
	while (until < r->held.len && !may_begin(r, r->held.s + until, r->held.len - until))
		until++;
	give(r, r->held.s, r->held.len, until, out);
	memmove(r->held.s, r->held.s + until, r->held.len - until);
	r->held.len -= until;
	if (end) {
		r->covered = 0;
		r->masking = false;
	}
}

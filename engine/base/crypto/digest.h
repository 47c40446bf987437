/* engine/base/crypto/digest.h — SHA-256, and the identity of content.
 *
 * A content_id names bytes, never a place. Four kinds: a blob (a file's bytes), an executable (the
 * same, of a file that its owner may execute), a tree (a canonical directory listing) and a
 * reference (a record that names one version of an object outside the store), see
 * storage/FORMAT.md. The text form is `sha256:<64 hex>`; kind and size are kept beside it. A blob
 * and an executable of the same bytes have one digest and are in the store once: only the kind
 * differs. Ids are plain values: copy them freely. All functions are pure; any thread.
 */
#ifndef CAIRN_BASE_CRYPTO_DIGEST_H
#define CAIRN_BASE_CRYPTO_DIGEST_H

#include <stdbool.h>
#include <string.h>
#include "base/err.h"

#define DIGEST_BYTES   32
#define DIGEST_HEX_MAX 65 /* with the NUL */

struct digest {
	uint8_t b[DIGEST_BYTES];
};

enum content_kind {
	CONTENT_NONE = 0,
	CONTENT_BLOB = 1,
	CONTENT_TREE = 2,
	CONTENT_REFERENCE = 3,
	CONTENT_EXECUTABLE = 4
};
#define CONTENT_KIND_MAX CONTENT_EXECUTABLE
const char *
content_kind_name(unsigned kind); /* "none", "blob", "tree", "reference", "executable" */
/* CONTENT_NONE for other names. */
enum content_kind content_kind_parse(const char *name);

struct content_id {
	struct digest digest;
	/* blob, executable: bytes of the file; tree: bytes of the canonical listing; reference: of
	 * the record. */
	uint64_t size_bytes;
	uint8_t kind; /* enum content_kind */
};

static inline bool digest_eq(const struct digest *a, const struct digest *b)
{
	return memcmp(a->b, b->b, DIGEST_BYTES) == 0;
}
static inline bool content_id_eq(const struct content_id *a, const struct content_id *b)
{
	return a->kind == b->kind && a->size_bytes == b->size_bytes &&
	       digest_eq(&a->digest, &b->digest);
}
/* Tells whether it is a file, executable or not. Use this rather than a test for one kind, which
 * would miss the other. */
static inline bool content_is_file(const struct content_id *id)
{
	switch ((enum content_kind)id->kind) {
	case CONTENT_BLOB:
	case CONTENT_EXECUTABLE:
		return true;
	case CONTENT_NONE:
	case CONTENT_TREE:
	case CONTENT_REFERENCE:
		break;
	}
	return false;
}
/* The same bytes; one may be an executable and the other a blob. */
static inline bool content_same_bytes(const struct content_id *a, const struct content_id *b)
{
	return a->size_bytes == b->size_bytes && digest_eq(&a->digest, &b->digest) &&
	       (a->kind == b->kind || (content_is_file(a) && content_is_file(b)));
}

/* One-shot SHA-256 of `n` bytes. Uses the cpu's SHA instructions through libcrypto. */
void digest_bytes(const void *bytes, size_t n, struct digest *ret);
/* Tells whether it does: whether the cpu has them, and libcrypto knows. */
bool digest_is_by_cpu(void);
/* HMAC-SHA256 (RFC 2104). */
void digest_hmac(const void *key, size_t key_n, const void *bytes, size_t n, struct digest *ret);

/* Streaming SHA-256. `new` never fails; `final` may be called once, then the object is reset for
 * another use. */
struct digester;
struct digester *digester_new(void);
void digester_free(struct digester *d);
void digester_update(struct digester *d, const void *bytes, size_t n);
void digester_final(struct digester *d, struct digest *ret);

/* 64 lower-case hex digits and a NUL into `out[DIGEST_HEX_MAX]`; returns out. */
char *digest_hex(const struct digest *d, char out[DIGEST_HEX_MAX]);
/* The first and the last digest that begin with these 4 to 64 lower-case hex digits (with or
 * without `sha256:`); false for any other `hex`. */
bool digest_prefix_range(const char *hex, struct digest *ret_first, struct digest *ret_last);
/* Accepts 64 hex digits with or without `sha256:`. */
int digest_parse(const char *text, struct digest *ret, struct err *err);

#endif

/* storage/remote/pack.c — writes packs and reads their indexes; compresses pack members and
 * separate blobs.
 *
 * A writer appends the members' stored bytes to an unnamed file (`fd`, `at` bytes so far), and
 * keeps a table of the members in memory. pack_writer_finish() sorts that table into the index; the
 * pack's name is the index's digest. `names` holds the members so far, because readers refuse an
 * index with a duplicate.
 *
 * A member is compressed when a sample says that zstd saves an eighth. A small member goes through
 * memory; a large one streams from its file, and its frame states its size. pack_decode_file()
 * checks that size against the caller's limit and the free space before it writes the first byte.
 *
 * An index is hostile: pack_index_check() checks digest, length, order and each member's bounds.
 * pack_index_at() and the others require a checked index.
 *
 * A writer belongs to one thread. After an error it is unusable, because its file may hold half a
 * member. send.c sends packs.
 */
#include "storage/remote/pack.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <zstd.h>
#include "base/crypto/digest_set.h"
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "storage/internal.h"

#define PACK_MAGIC       "cairn-pack/1\n"
#define INDEX_MAGIC      "cairn-pack-index/1\n"
#define PACK_MAGIC_LEN   (sizeof(PACK_MAGIC) - 1)
#define INDEX_MAGIC_LEN  (sizeof(INDEX_MAGIC) - 1)
#define NONCE_LEN        16
#define PACK_HEADER_LEN  (PACK_MAGIC_LEN + NONCE_LEN)
#define INDEX_HEADER_LEN (INDEX_MAGIC_LEN + NONCE_LEN + 4)
#define MEMBER_LEN       (2 + DIGEST_BYTES + 3 * 8)
/* Smaller content isn't worth a frame. */
#define ZSTD_MIN 256
/* For larger content, a sample of this size decides. */
#define SAMPLE_BYTES (16 * KIB)

struct pack_writer {
	int fd;
	uint64_t at;
	uint8_t nonce[NONCE_LEN];
	VEC(struct pack_member) members;
	struct digest_set *names[STORE_ACTION + 1]; /* an index names each once */
	bool plain;
	ZSTD_CCtx *zstd;
	uint8_t *buf;
	size_t buf_size;
};

static int read_some(int fd, void *buf, size_t room, uint64_t at, size_t *ret, struct err *err)
{
	ssize_t n = fs_read_at(fd, buf, room, (off_t)at);

	if (n < 0)
		return err_errno(err, "cannot read what is to be (de)compressed");
	*ret = (size_t)n;
	return 0;
}

int pack_writer_new(int dir_fd, struct pack_writer **ret, struct err *err)
{
	_cleanup_(pack_writer_freep) struct pack_writer *w = xcalloc(1, sizeof(*w));

	w->fd = fs_unnamed_at(dir_fd, ".", err);
	if (w->fd < 0)
		return err_wrap(err, "making a pack");
	random_bytes(w->nonce, sizeof(w->nonce));
	for (int space = STORE_BLOB; space <= STORE_ACTION; space++)
		w->names[space] = digest_set_new();
	if (fs_write_all(w->fd, PACK_MAGIC, PACK_MAGIC_LEN, err) < 0 ||
	    fs_write_all(w->fd, w->nonce, NONCE_LEN, err) < 0)
		return err_wrap(err, "making a pack");
	w->at = PACK_HEADER_LEN;
	*ret = TAKE_PTR(w);
	return 0;
}

void pack_writer_free(struct pack_writer *w)
{
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	ZSTD_freeCCtx(w->zstd);
	for (int space = STORE_BLOB; space <= STORE_ACTION; space++)
		digest_set_free(w->names[space]);
	VEC_FREE(&w->members);
	free(w->buf);
	free(w);
}

void pack_writer_keep_plain(struct pack_writer *w)
{
	w->plain = true;
}

/* Decides from a sample whether zstd pays for a content. */
static bool encode_pays(const void *sample, size_t n)
{
	size_t room = ZSTD_compressBound(n);
	_cleanup_(freep) void *buf = xmalloc(room);
	size_t got = ZSTD_compress(buf, room, sample, n, 1);

	return !ZSTD_isError(got) && got <= n - n / 8;
}

/* Compresses into w->buf; 0 when that saves less than an eighth. */
static size_t compress(struct pack_writer *w, const void *bytes, size_t n)
{
	size_t room = ZSTD_compressBound(n), got;

	if (w->plain || n < ZSTD_MIN ||
	    (n > 2 * SAMPLE_BYTES &&
	     !encode_pays((const char *)bytes + (n - SAMPLE_BYTES) / 2, SAMPLE_BYTES)))
		return 0;
	if (!w->zstd && !(w->zstd = ZSTD_createCCtx()))
		mem_die(room);
	if (room > w->buf_size) {
		w->buf = xrealloc(w->buf, room);
		w->buf_size = room;
	}
	got = ZSTD_compressCCtx(w->zstd, w->buf, room, bytes, n, 3);
	return ZSTD_isError(got) || got > n - n / 8 ? 0 : got;
}

static bool is_member(const struct pack_writer *w, enum store_space space,
		      const struct digest *name)
{
	assert(space <= STORE_ACTION);
	return digest_set_has(w->names[space], name);
}

/* Adds a member whose bytes were written. */
static void add_member(struct pack_writer *w, const struct pack_member *m)
{
	assert(m->offset == w->at);
	w->at += m->stored;
	digest_set_add(w->names[m->space], &m->name);
	VEC_PUSH(&w->members, *m);
}

int pack_writer_add(struct pack_writer *w, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, struct err *err)
{
	struct pack_member m = {
		.name = *name, .space = (uint8_t)space, .size = n, .offset = w->at, .stored = n
	};
	size_t small;

	if (is_member(w, space, name))
		return 0;
	small = compress(w, bytes, n);
	if (small) {
		m.encoding = PACK_ZSTD;
		m.stored = small;
	}
	if (fs_write_all(w->fd, small ? w->buf : bytes, m.stored, err) < 0)
		return err_wrap(err, "making a pack");
	add_member(w, &m);
	return 0;
}

int pack_writer_add_fd(struct pack_writer *w, enum store_space space, const struct digest *name,
		       int fd, uint64_t size, struct err *err)
{
	struct pack_member m = { .name = *name,
				 .space = (uint8_t)space,
				 .size = size,
				 .offset = w->at,
				 .stored = size };
	uint64_t at = 0;

	if (is_member(w, space, name))
		return 0;
	if (pack_encode_pays(fd, size)) {
		m.encoding = PACK_ZSTD;
		if (pack_encode_file(fd, size, w->fd, &m.stored, err) < 0)
			return -1;
	}
	while (m.encoding == PACK_PLAIN && at < size) {
		uint8_t buf[64 * KIB];
		size_t n = 0;

		if (read_some(fd, buf, (size_t)MIN(sizeof(buf), size - at), at, &n, err) < 0 ||
		    (n == 0 && err_set(err, ERR_CHANGED, "a file of the store got shorter") < 0) ||
		    fs_write_all(w->fd, buf, n, err) < 0)
			return -1;
		at += n;
	}
	add_member(w, &m);
	return 0;
}

bool pack_writer_is_full(const struct pack_writer *w, uint64_t n)
{
	return w->members.n && (w->at + n > PACK_BYTES_MAX || w->members.n >= PACK_MEMBERS_FULL);
}

/* lint: unused but by tests: they fill a pack to the byte */
uint64_t pack_writer_bytes(const struct pack_writer *w)
{
	return w->at;
}

size_t pack_writer_members(const struct pack_writer *w)
{
	return w->members.n;
}

static int member_order(const void *a, const void *b)
{
	const struct pack_member *x = a, *y = b;

	if (x->space != y->space)
		return x->space < y->space ? -1 : 1;
	return memcmp(x->name.b, y->name.b, DIGEST_BYTES);
}

void pack_writer_finish(struct pack_writer *w, int *ret_fd, uint64_t *ret_size,
			struct str *ret_index, struct digest *ret_name)
{
	if (w->members.n)
		qsort(w->members.v, w->members.n, sizeof(*w->members.v), member_order);
	str_addn(ret_index, INDEX_MAGIC, INDEX_MAGIC_LEN);
	str_addn(ret_index, w->nonce, NONCE_LEN);
	str_add_u32(ret_index, (uint32_t)w->members.n);
	for (size_t i = 0; i < w->members.n; i++) {
		const struct pack_member *m = &w->members.v[i];

		assert(i == 0 || member_order(m - 1, m) < 0);
		str_addc(ret_index, (char)m->space);
		str_addc(ret_index, (char)m->encoding);
		str_addn(ret_index, m->name.b, DIGEST_BYTES);
		str_add_u64(ret_index, m->size);
		str_add_u64(ret_index, m->offset);
		str_add_u64(ret_index, m->stored);
	}
	digest_bytes(ret_index->s, ret_index->len, ret_name);
	*ret_fd = w->fd;
	*ret_size = w->at;
}

/* Reading. */

size_t pack_index_len(const void *bytes)
{
	return get_le32((const uint8_t *)bytes + INDEX_MAGIC_LEN + NONCE_LEN);
}

void pack_index_at(const void *bytes, size_t i, struct pack_member *ret)
{
	const uint8_t *p = (const uint8_t *)bytes + INDEX_HEADER_LEN + i * MEMBER_LEN;

	assert(i < pack_index_len(bytes));
	ret->space = p[0];
	ret->encoding = p[1];
	memcpy(ret->name.b, p + 2, DIGEST_BYTES);
	ret->size = get_le64(p + 2 + DIGEST_BYTES);
	ret->offset = get_le64(p + 10 + DIGEST_BYTES);
	ret->stored = get_le64(p + 18 + DIGEST_BYTES);
}

bool pack_index_find(const void *bytes, enum store_space space, const struct digest *name,
		     struct pack_member *ret)
{
	size_t low = 0, high = pack_index_len(bytes);

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const uint8_t *p = (const uint8_t *)bytes + INDEX_HEADER_LEN + mid * MEMBER_LEN;
		int c = p[0] != space ? (int)p[0] - (int)space
				      : memcmp(p + 2, name->b, DIGEST_BYTES);

		if (c == 0) {
			pack_index_at(bytes, mid, ret);
			return true;
		}
		if (c < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return false;
}

uint64_t pack_index_pack_size(const void *bytes)
{
	uint64_t end = PACK_HEADER_LEN;
	struct pack_member m;

	for (size_t i = 0; i < pack_index_len(bytes); i++) {
		pack_index_at(bytes, i, &m);
		end = MAX(end, m.offset + m.stored);
	}
	return end;
}

_Static_assert(INDEX_HEADER_LEN + (uint64_t)PACK_MEMBERS_MAX * MEMBER_LEN <= PACK_INDEX_MAX,
	       "an index can be fetched");

static bool good_member(const struct pack_member *m, enum store_space last)
{
	return m->space <= last && m->encoding <= PACK_ZSTD && m->offset >= PACK_HEADER_LEN &&
	       m->offset < PACK_PLACE_MAX && m->stored < PACK_PLACE_MAX &&
	       m->size < PACK_PLACE_MAX && (m->encoding != PACK_PLAIN || m->stored == m->size);
}

int pack_index_check(const struct digest *name, const void *bytes, size_t n,
		     enum store_space last_space, struct err *err)
{
	struct pack_member m, last;
	struct digest d;
	size_t len;

	digest_bytes(bytes, n, &d);
	if (!digest_eq(&d, name) || n < INDEX_HEADER_LEN ||
	    memcmp(bytes, INDEX_MAGIC, INDEX_MAGIC_LEN) != 0)
		return err_set(err, ERR_CORRUPT, "the index of a pack is damaged");
	len = pack_index_len(bytes);
	if (len > PACK_MEMBERS_MAX || n != INDEX_HEADER_LEN + len * MEMBER_LEN)
		return err_set(err, ERR_CORRUPT, "the index of a pack is damaged");
	for (size_t i = 0; i < len; i++, last = m) {
		pack_index_at(bytes, i, &m);
		if (!good_member(&m, last_space) || (i && member_order(&last, &m) >= 0))
			return err_set(err, ERR_CORRUPT, "the index of a pack is damaged");
	}
	return 0;
}

/* Encoding. */

bool pack_encode_pays(int fd, uint64_t size)
{
	_cleanup_(freep) uint8_t *buf = xmalloc(3 * SAMPLE_BYTES);
	size_t have = 0;

	if (size < ZSTD_MIN)
		return false;
	for (uint64_t i = 0; i < 3; i++) {
		size_t n = 0;

		if (read_some(fd, buf + have, SAMPLE_BYTES,
			      size > SAMPLE_BYTES ? (size - SAMPLE_BYTES) / 2 * i : 0, &n,
			      NULL) < 0)
			return false;
		have += n;
	}
	return encode_pays(buf, have);
}

int pack_decode(enum pack_encoding encoding, const void *stored, size_t n, uint64_t size,
		struct str *ret, struct err *err)
{
	size_t got;

	if (encoding == PACK_PLAIN) {
		if (n != size)
			return err_set(err, ERR_CORRUPT,
				       "the bytes of an object aren't as many as they should be");
		str_addn(ret, stored, n);
		return 0;
	}
	str_reserve(ret, (size_t)size + 1);
	got = ZSTD_decompress(ret->s + ret->len, (size_t)size, stored, n);
	if (ZSTD_isError(got) || got != size)
		return err_set(err, ERR_CORRUPT, "the compressed bytes of an object are damaged");
	ret->len += got;
	ret->s[ret->len] = '\0';
	return 0;
}

int pack_encode_file(int from, uint64_t size, int to, uint64_t *ret_stored, struct err *err)
{
	size_t in_room = ZSTD_CStreamInSize(), out_room = ZSTD_CStreamOutSize(), n = 0, left = 1;
	_cleanup_(freep) uint8_t *in = xmalloc(in_room), *out = xmalloc(out_room);
	ZSTD_CCtx *c = ZSTD_createCCtx();
	uint64_t at = 0, stored = 0;
	int r = 0;

	if (!c)
		mem_die(in_room);
	ZSTD_CCtx_setPledgedSrcSize(c, size);
	while (r == 0 && (at < size || left)) {
		ZSTD_inBuffer i = { in, 0, 0 };

		r = read_some(from, in, (size_t)MIN(in_room, size - at), at, &n, err);
		if (r == 0 && n == 0 && at < size)
			r = err_set(err, ERR_CHANGED, "a file of the store got shorter");
		i.size = n;
		at += n;
		do {
			ZSTD_outBuffer o = { out, out_room, 0 };

			if (r < 0)
				break;
			left = ZSTD_compressStream2(c, &o, &i,
						    at < size ? ZSTD_e_continue : ZSTD_e_end);
			r = ZSTD_isError(left)
				    ? err_set(err, ERR_IO, "zstd: %s", ZSTD_getErrorName(left))
				    : fs_write_all(to, out, o.pos, err);
			stored += o.pos;
		} while (at < size ? i.pos < i.size : left != 0);
	}
	ZSTD_freeCCtx(c);
	*ret_stored = stored;
	return r;
}

/* A few bytes can decode to terabytes, so the size must be known and fit on the disk before the
 * first byte is written. */
static int bound_by_header(const uint8_t *in, size_t n, int to, uint64_t *max_bytes,
			   struct err *err)
{
	unsigned long long size = ZSTD_getFrameContentSize(in, n);
	struct statvfs fs; /* all zero on file systems without a limit */

	if (size == ZSTD_CONTENTSIZE_ERROR ||
	    (size == ZSTD_CONTENTSIZE_UNKNOWN && *max_bytes > CONTENT_BLOB_MAX))
		return err_set(err, ERR_CORRUPT, "the compressed bytes of an object are damaged");
	if (size == ZSTD_CONTENTSIZE_UNKNOWN)
		size = *max_bytes;
	if (size > MIN(*max_bytes, CONTENT_BLOB_MAX))
		return err_set(err, ERR_TOO_LARGE,
			       "an object has %llu bytes, more than the record that names it says",
			       size);
	if (size > PACK_MEMORY_MAX && fstatvfs(to, &fs) == 0 && fs.f_blocks &&
	    size > (uint64_t)fs.f_bavail * fs.f_frsize)
		return err_set(
			err, ERR_NO_SPACE,
			"no room for an object of %llu bytes; free some, or type `cairn store gc`",
			size);
	*max_bytes = size;
	return 0;
}

static void zstd_freep(ZSTD_DCtx **d)
{
	ZSTD_freeDCtx(*d);
}

/* *max_bytes becomes the size in the header, and `h` hashes that many bytes. */
static int decode_stream(int from, int to, uint64_t *max_bytes, uint64_t *ret_size,
			 struct blob_hasher *h, struct err *err)
{
	_cleanup_(zstd_freep) ZSTD_DCtx *d = ZSTD_createDCtx();
	size_t in_room = ZSTD_DStreamInSize(), out_room = ZSTD_DStreamOutSize(), n = 0, state = 1;
	_cleanup_(freep) uint8_t *in = xmalloc(in_room), *out = xmalloc(out_room);
	uint64_t at = 0, size = 0;

	if (!d)
		mem_die(out_room);
	for (;;) {
		ZSTD_inBuffer i = { in, 0, 0 };

		if (read_some(from, in, in_room, at, &n, err) < 0)
			return -1;
		if (n == 0)
			break;
		if (at == 0 && bound_by_header(in, n, to, max_bytes, err) < 0)
			return -1;
		if (at == 0)
			blob_hasher_init(h, *max_bytes);
		at += n;
		i.size = n;
		for (bool full = true; i.pos < i.size || full;) {
			ZSTD_outBuffer o = { out, out_room, 0 };

			state = ZSTD_decompressStream(d, &o, &i);
			size += o.pos;
			if (ZSTD_isError(state) || size > *max_bytes)
				return err_set(err, ERR_CORRUPT,
					       "the compressed bytes of an object are damaged");
			if (fs_write_all(to, out, o.pos, err) < 0)
				return -1;
			blob_hasher_update(h, out, o.pos);
			full = o.pos == o.size &&
			       state != 0; /* zstd may hold more output in its buffers */
		}
	}
	if (state != 0)
		return err_set(err, ERR_CORRUPT, "the compressed bytes of an object are cut off");
	*ret_size = size;
	return 0;
}

int pack_decode_file(int from, int to, uint64_t max_bytes, uint64_t *ret_size,
		     struct digest *ret_digest, struct err *err)
{
	struct blob_hasher h = { 0 };
	int r = decode_stream(from, to, &max_bytes, ret_size, &h, err);

	if (h.part)
		blob_hasher_final(&h, ret_digest);
	/* A hostile stream may not state its size; then it was hashed for a wrong size. */
	if (r == 0 && *ret_size != max_bytes)
		r = content_hash_fd(to, *ret_size, 1, ret_digest, err);
	return r;
}

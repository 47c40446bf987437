/* steps/normalise/stream.c — gzip and zstd: containers of one stream. */
#include <limits.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include "steps/normalise/normalise.h"

#define CHUNK          (256 * KIB)
#define WINDOW_LOG_MAX 27 /* 128 MiB, the default limit of `zstd` */

typedef int unpack_fn(struct span from, struct unpacked *to, struct err *err);

/* RFC 1952: several members in a row count as one stream. */
static int gunzip_all(z_stream *z, uint8_t *out, struct span from, struct unpacked *to,
		      struct err *err)
{
	const uint8_t *end = from.p + from.n;
	int r = Z_OK;

	z->next_in = (Bytef *)from.p;
	while (r != Z_STREAM_END || z->next_in < end) {
		if (r == Z_STREAM_END && inflateReset(z) != Z_OK)
			return err_set(err, ERR_INVALID, "zlib doesn't start again");
		z->avail_in = (uInt)MIN((size_t)(end - z->next_in), (size_t)INT_MAX);
		z->next_out = out;
		z->avail_out = CHUNK;
		r = inflate(z, Z_NO_FLUSH);
		if (r != Z_OK && r != Z_STREAM_END)
			return err_set(err, ERR_INVALID, "byte %zu: %s",
				       (size_t)(z->next_in - from.p),
				       z->msg ? z->msg : "it is cut off");
		if (unpacked_add(to, out, CHUNK - z->avail_out, err) < 0)
			return -1;
	}
	return 0;
}

static int gunzip(struct span from, struct unpacked *to, struct err *err)
{
	_cleanup_(freep) uint8_t *out = xmalloc(CHUNK);
	z_stream z = { 0 };
	int r;

	if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
		return err_set(err, ERR_INVALID, "zlib doesn't start");
	r = gunzip_all(&z, out, from, to, err);
	inflateEnd(&z);
	return r < 0 ? r : unpacked_end(to, err);
}

/* RFC 8878, 3.1.2 */
static bool is_skippable(const uint8_t *p, size_t n)
{
	return n >= 4 && p[0] >> 4 == 5 && p[1] == 0x2a && p[2] == 0x4d && p[3] == 0x18;
}

static int unzstd_all(ZSTD_DCtx *z, uint8_t *out, struct span from, struct unpacked *to,
		      struct err *err)
{
	ZSTD_inBuffer in = { from.p, from.n, 0 };
	ZSTD_outBuffer o = { out, CHUNK, 0 };
	size_t r = 1;

	for (size_t at = 0; at < from.n; at += r) {
		if (is_skippable(from.p + at, from.n - at))
			return err_set(err, ERR_INVALID, "byte %zu: a frame that unpacking skips",
				       at);
		r = ZSTD_findFrameCompressedSize(from.p + at, from.n - at);
		if (ZSTD_isError(r))
			return err_set(err, ERR_INVALID, "byte %zu: %s", at, ZSTD_getErrorName(r));
	}

	/* The decoder may hold more after all input was given: call it until it leaves room. */
	while (in.pos < in.size || o.pos == o.size) {
		o.pos = 0;
		r = ZSTD_decompressStream(z, &o, &in);
		if (ZSTD_isError(r))
			return err_set(err, ERR_INVALID, "byte %zu: %s", in.pos,
				       ZSTD_getErrorName(r));
		if (unpacked_add(to, out, o.pos, err) < 0)
			return -1;
	}
	return r == 0 ? 0 : err_set(err, ERR_INVALID, "it is cut off");
}

static int unzstd(struct span from, struct unpacked *to, struct err *err)
{
	_cleanup_(freep) uint8_t *out = xmalloc(CHUNK);
	ZSTD_DCtx *z = ZSTD_createDCtx();
	int r;

	if (!z)
		return err_set(err, ERR_INVALID, "libzstd doesn't start");
	ZSTD_DCtx_setParameter(z, ZSTD_d_windowLogMax, WINDOW_LOG_MAX);
	r = unzstd_all(z, out, from, to, err);
	ZSTD_freeDCtx(z);
	return r < 0 ? r : unpacked_end(to, err);
}

static void judge(struct normalise_job *j, const char *name, struct span a, struct span b,
		  struct normalised *ret)
{
	struct normalised inner;

	*ret = (struct normalised){ .verdict = NORMALISED_SAME,
				    .normaliser = name,
				    .detail = "compression or its header" };
	if (a.n == b.n && memcmp(a.p, b.p, a.n) == 0)
		return;
	normalise_spans(j, a, b, &inner);
	ret->verdict = inner.verdict == NORMALISED_SAME ? NORMALISED_SAME : NORMALISED_DIFFERENT;
	ret->member = inner.member;
	ret->detail = inner.verdict == NORMALISED_NOT ? arena_printf(j->arena, "unpacked, %s",
								     normalise_difference(j, a, b))
						      : inner.detail;
	if (inner.normaliser)
		ret->normaliser = arena_printf(j->arena, "%s+%s", name, inner.normaliser);
}

static int normalise_stream(struct normalise_job *j, const char *name, unpack_fn *unpack,
			    struct span a, struct span b, struct normalised *ret, struct err *err)
{
	struct unpacked sa, sb;
	int r;

	unpacked_init(&sa, j);
	unpacked_init(&sb, j);
	r = unpack(a, &sa, err) < 0 || unpack(b, &sb, err) < 0 ? -1 : 0;
	if (r == 0)
		judge(j, name, sa.all, sb.all, ret);
	unpacked_deinit(&sa);
	unpacked_deinit(&sb);
	return r;
}

int normalise_gzip(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		   struct err *err)
{
	return normalise_stream(j, "gzip", gunzip, a, b, ret, err);
}

int normalise_zstd(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		   struct err *err)
{
	return normalise_stream(j, "zstd", unzstd, a, b, ret, err);
}

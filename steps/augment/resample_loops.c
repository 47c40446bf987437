/* steps/augment/resample_loops.c — see the header. The AVX2 loops are written by hand because gcc
 * 12 doesn't find vpmovzxbd by itself: three times as fast. */
#include "steps/augment/resample_loops.h"

#ifndef __clang__
#pragma GCC optimize("O3")
#endif

#define HALF (1 << (RESAMPLE_PRECISION - 1))

static inline uint8_t clip(int32_t v)
{
	v >>= RESAMPLE_PRECISION;
	return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void plain_row(const uint8_t *from, uint8_t *to, uint32_t out, const struct weights *ws)
{
	for (uint32_t i = 0; i < out; i++) {
		const uint8_t *p = from + (size_t)ws->first[i] * 4;
		const int32_t *w = ws->w + (size_t)i * ws->stride;
		int32_t sum[4] = { HALF, HALF, HALF, HALF };

		for (uint32_t k = 0; k < ws->n[i]; k++, p += 4)
			for (int c = 0; c < 4; c++)
				sum[c] += p[c] * w[k];
		for (int c = 0; c < 4; c++)
			to[i * 4 + c] = clip(sum[c]);
	}
}

static void plain_rows(const uint8_t *const from[RESAMPLE_ROWS], uint8_t *const to[RESAMPLE_ROWS],
		       uint32_t out, const struct weights *ws)
{
	for (int r = 0; r < RESAMPLE_ROWS; r++)
		if (r == 0 || to[r] != to[r - 1])
			plain_row(from[r], to[r], out, ws);
}

static void plain_column(const uint8_t *from, size_t stride, const int32_t *w, uint32_t n,
			 uint8_t *to, size_t bytes)
{
	for (size_t x = 0; x < bytes; x += 32) {
		int32_t sum[32];

		for (int i = 0; i < 32; i++)
			sum[i] = HALF;
		for (uint32_t k = 0; k < n; k++)
			for (int i = 0; i < 32; i++)
				sum[i] += from[k * stride + x + (size_t)i] * w[k];
		for (int i = 0; i < 32; i++)
			to[x + (size_t)i] = clip(sum[i]);
	}
}

const struct resample_loops resample_plain = { plain_rows, plain_column };

#ifdef __x86_64__
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2")))

/* Two pixels at a time: their eight bytes times w0 w0 w0 w0 w1 w1 w1 w1. */
#define ADD_PAIR(sum, p, w)       \
	(sum) = _mm256_add_epi32( \
		sum,              \
		_mm256_mullo_epi32(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p))), w))

AVX2 static inline __m128i fold(__m256i sum)
{
	return _mm_srai_epi32(
		_mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1)),
		RESAMPLE_PRECISION);
}

AVX2 static void avx2_rows(const uint8_t *const from[RESAMPLE_ROWS],
			   uint8_t *const to[RESAMPLE_ROWS], uint32_t out, const struct weights *ws)
{
	const __m256i spread = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1),
		      half = _mm256_setr_epi32(HALF, HALF, HALF, HALF, 0, 0, 0, 0);

	for (uint32_t i = 0; i < out; i++) {
		const int32_t *w = ws->w + (size_t)i * ws->stride;
		size_t at = (size_t)ws->first[i] * 4;
		__m256i a = half, b = half, c = half, d = half;
		__m128i bytes;

		for (uint32_t k = 0; k < ws->n[i]; k += 2, at += 8) {
			__m256i pair = _mm256_permutevar8x32_epi32(
				_mm256_castsi128_si256(_mm_loadl_epi64((const void *)(w + k))),
				spread);

			ADD_PAIR(a, from[0] + at, pair);
			ADD_PAIR(b, from[1] + at, pair);
			ADD_PAIR(c, from[2] + at, pair);
			ADD_PAIR(d, from[3] + at, pair);
		}
		bytes = _mm_packus_epi16(_mm_packs_epi32(fold(a), fold(b)),
					 _mm_packs_epi32(fold(c), fold(d)));
		_mm_storeu_si32(to[0] + (size_t)i * 4, bytes);
		_mm_storeu_si32(to[1] + (size_t)i * 4, _mm_srli_si128(bytes, 4));
		_mm_storeu_si32(to[2] + (size_t)i * 4, _mm_srli_si128(bytes, 8));
		_mm_storeu_si32(to[3] + (size_t)i * 4, _mm_srli_si128(bytes, 12));
	}
}

AVX2 static void avx2_column(const uint8_t *from, size_t stride, const int32_t *w, uint32_t n,
			     uint8_t *to, size_t bytes)
{
	const __m256i half = _mm256_set1_epi32(HALF),
		      in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);

	for (size_t x = 0; x < bytes; x += 32) {
		__m256i a = half, b = half, c = half, d = half;
		const uint8_t *p = from + x;

		for (uint32_t k = 0; k < n; k++, p += stride) {
			__m256i all = _mm256_set1_epi32(w[k]);

			ADD_PAIR(a, p, all);
			ADD_PAIR(b, p + 8, all);
			ADD_PAIR(c, p + 16, all);
			ADD_PAIR(d, p + 24, all);
		}
		a = _mm256_packs_epi32(_mm256_srai_epi32(a, RESAMPLE_PRECISION),
				       _mm256_srai_epi32(b, RESAMPLE_PRECISION));
		c = _mm256_packs_epi32(_mm256_srai_epi32(c, RESAMPLE_PRECISION),
				       _mm256_srai_epi32(d, RESAMPLE_PRECISION));
		_mm256_storeu_si256((void *)(to + x), _mm256_permutevar8x32_epi32(
							      _mm256_packus_epi16(a, c), in_order));
	}
}

const struct resample_loops *resample_avx2(void)
{
	static const struct resample_loops loops = { avx2_rows, avx2_column };

	return __builtin_cpu_supports("avx2") ? &loops : NULL;
}
#else
const struct resample_loops *resample_avx2(void)
{
	return NULL;
}
#endif

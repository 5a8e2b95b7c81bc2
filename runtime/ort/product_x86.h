// Rounding of activations with AVX2, for all kernels of x86-64.
#ifndef TGI_PRODUCT_X86_H
#define TGI_PRODUCT_X86_H

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "product.h"

#define MQ_AVX2 __attribute__((target("avx2,fma,f16c")))

// mq_magnitude is the bits of the largest magnitude of n floats. Numbers that are not finite are above all others.
MQ_AVX2 static inline uint32_t mq_magnitude(const float *x, int64_t n) {
	const __m256i mask = _mm256_set1_epi32(0x7fffffff);
	__m256i top = _mm256_setzero_si256();
	for (int64_t i = 0; i < n; i += 8)
		top = _mm256_max_epi32(top, _mm256_and_si256(_mm256_loadu_si256((const void *)(x + i)), mask));
	__m128i h = _mm_max_epi32(_mm256_castsi256_si128(top), _mm256_extracti128_si256(top, 1));
	h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0x4e));
	h = _mm_max_epi32(h, _mm_shuffle_epi32(h, 0xb1));
	return (uint32_t)_mm_cvtsi128_si32(h);
}

// mq_codes rounds n floats, a multiple of 32, and returns the sums of their codes in 16-bit lanes, two codes in each:
// even lanes have columns 0 and 1 of four, odd ones 2 and 3.
MQ_AVX2 static inline __m256i mq_codes(int8_t *codes, const float *x, int64_t n, float inverse) {
	const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7), one = _mm256_set1_epi8(1);
	const __m256 scale = _mm256_set1_ps(inverse);
	__m256i pairs = _mm256_setzero_si256();
	for (int64_t i = 0; i < n; i += 32) {
		__m256i v[4];
		for (int j = 0; j < 4; j++) v[j] = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i + 8 * j), scale));
		const __m256i packed =
		    _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
		const __m256i t = _mm256_permutevar8x32_epi32(packed, order);
		_mm256_storeu_si256((void *)(codes + i), t);
		pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(one, t));
	}
	return pairs;
}

// mq_total adds up the even lanes and the odd ones.
MQ_AVX2 static inline void mq_total(__m128i p, int *even, int *odd) {
	p = _mm_add_epi16(p, _mm_srli_si128(p, 8));
	p = _mm_add_epi16(p, _mm_srli_si128(p, 4));
	const int both = _mm_cvtsi128_si32(p);
	*even = (int16_t)both;
	*odd = (int16_t)(both >> 16);
}

// mq_quantise rounds a row. sum makes what is kept of a block, or of MQ_HALF_CHUNK columns of it, out of the sums of its
// codes; code is the one that stands for 0.
MQ_AVX2 static inline __attribute__((always_inline)) void mq_quantise(const struct mq_matrix *m,
                                                                      const struct mq_rows *r, const float *x,
                                                                      int64_t row,
                                                                      int32_t (*sum)(int even, int odd, int code)) {
	const int64_t blocks = mq_blocks(m);
	const int parts = mq_sums(m), six = m->bits == 6, chunk = six ? 32 : m->block / parts;
	int8_t *codes = r->codes + row * blocks * m->block;
	float *scales = r->scales + row * blocks, *totals = r->totals + row * blocks;
	int32_t *sums = r->sums + row * blocks * parts;
	float rest[128];
	for (int64_t b = 0; b < blocks; b++, codes += m->block, sums += parts) {
		const int64_t at = b * m->block;
		const float *in = x + at;
		if (m->k - at < m->block) {
			memset(rest, 0, sizeof rest);
			memcpy(rest, in, (size_t)(m->k - at) * sizeof *in);
			in = rest;
		}
		const uint32_t bits = mq_magnitude(in, m->block);
		float max;
		memcpy(&max, &bits, sizeof max);
		const int finite = bits < 0x7f800000;
		scales[b] = !finite ? NAN : max < MQ_LEAST ? 0 : max / 127.0f;
		if (!finite || max < MQ_LEAST) {
			memset(codes, 0, (size_t)m->block);
			memset(sums, 0, (size_t)parts * sizeof *sums);
			if (m->offsets) totals[b] = scales[b];
			continue;
		}
		int total = 0, even, odd;
		for (int at = 0, p = 0; at < m->block; at += chunk) {
			const __m256i pairs = mq_codes(codes + at, in + at, chunk, 127.0f / max);
			const __m128i first = _mm256_castsi256_si128(pairs), second = _mm256_extracti128_si256(pairs, 1);
			if (six) {  // a sum for each 16 columns
				mq_total(first, &even, &odd);
				sums[p++] = sum(even, odd, 32);
				mq_total(second, &even, &odd);
				sums[p++] = sum(even, odd, 32);
				continue;
			}
			mq_total(_mm_add_epi16(first, second), &even, &odd);
			sums[p++] = sum(even, odd, 8);
			total += even + odd;
		}
		if (m->offsets) totals[b] = scales[b] * (float)total;
	}
}

#endif

// Attention to codes in integers: attention_kernel.h includes this file, in place of its own sums, where KV_DOTS is 1,
// which is with AVX-512 and VNNI.
//
// Queries, and weights times the scales of values, are rounded to 16 bits: the codes of keys and values have 8. Their
// products are added as integers, for scores of a group of numbers, for values of a chunk of keys. Such a sum is exact
// and does not depend on how tiles are cut.

// A query row is one query, with what a unit of each of its groups is worth.
typedef struct {
	int16_t codes[PA_MAX_HEAD];
	float units[PA_MAX_HEAD / PA_GROUP];
} PA_NAME(query);
enum { PA_NAME(whole) = 1 };  // an element of a tile's queries is a whole row of them

enum { PA_FINE = 32767 };  // the largest of 16 bits
_Static_assert(PA_MAX_HEAD % PA_GROUP == 0 && PA_GROUP == 2 * PA_W, "a query's groups are filled up, by two vectors");
_Static_assert(PA_CHUNK / PA_BLOCK % 2 == 0, "weights are rounded by two blocks");
_Static_assert((int64_t)PA_CHUNK * 128 * (PA_FINE + 1) <= INT32_MAX, "a chunk's products with codes fit 32 bits");

// fine_top is the largest magnitude as bits, whose order is that of the numbers; what is not a number is above all.
PA_INLINE __m512i PA_NAME(fine_top)(__m512i top, vf x) {
	return _mm512_max_epi32(top, _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)));
}

// fine_unit is what 1 of 16 bits is worth where the largest magnitude is top, and how many of them make 1. Where top is
// not finite, nothing is a number.
PA_INLINE float PA_NAME(fine_unit)(__m512i top, float *per) {
	const int32_t bits = _mm512_reduce_max_epi32(top);
	float most;
	memcpy(&most, &bits, sizeof most);
	const int some = bits < 0x7f800000 && most >= 1e-30f;
	*per = some ? PA_FINE / most : 0;
	return some ? most / PA_FINE : bits < 0x7f800000 ? 0 : NAN;
}

// fine rounds 32 numbers.
PA_INLINE void PA_NAME(fine)(vf low, vf high, float per, int16_t *to) {
	const vf by = v_set(per);
	const __m512i both = _mm512_packs_epi32(_mm512_cvtps_epi32(v_mul(low, by)), _mm512_cvtps_epi32(v_mul(high, by)));
	_mm512_storeu_si512(to, _mm512_permutexvar_epi64(_mm512_set_epi64(7, 5, 3, 1, 6, 4, 2, 0), both));
}

// take rounds query row i of a tile by groups, the last one filled up with zeros.
PA_TARGET static void PA_NAME(take)(const float *head, int hd, float scale, int rt, int i, PA_NAME(query) *q) {
	(void)rt;
	const vf by = v_set(scale);
	for (int from = 0; from < hd; from += PA_GROUP) {
		const uint32_t own = hd - from < PA_GROUP ? (1u << (hd - from)) - 1 : 0xffffffff;
		const vf low = v_mul(_mm512_maskz_loadu_ps((__mmask16)own, head + from), by);
		const vf high = v_mul(_mm512_maskz_loadu_ps((__mmask16)(own >> 16), head + from + PA_W), by);
		const __m512i top = PA_NAME(fine_top)(PA_NAME(fine_top)(_mm512_setzero_si512(), low), high);
		float per;
		q[i].units[from / PA_GROUP] = PA_NAME(fine_unit)(top, &per);
		PA_NAME(fine)(low, high, per, q[i].codes + from);
	}
}

// scores of nb blocks of keys for rt query rows: out[i][16*b+p]. What lies at later and at ahead is fetched meanwhile.
PA_INLINE void PA_NAME(scores)(const int rt, const int nb, const PA_NAME(query) *q, const kv *const *keys,
                               const kv *const *ahead, const kv *const *later, int hd, float (*out)[PA_CHUNK]) {
	enum { LINE = PA_LINE / PA_BLOCK };
	// Words of two rows of 16 keys become pairs of a key's.
	const __m512i pairs = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
	                                       21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
	vf acc[8][4];
	PA_UNROLL for (int i = 0; i < rt; i++) {
		PA_UNROLL for (int j = 0; j < nb; j++) acc[i][j] = v_set(0);
	}
	for (int from = 0; from < hd; from += PA_GROUP) {
		const int end = hd - from > PA_GROUP ? from + PA_GROUP : hd;
		__m512i sum[8][4];
		PA_UNROLL for (int i = 0; i < rt; i++) {
			PA_UNROLL for (int j = 0; j < nb; j++) sum[i][j] = _mm512_setzero_si512();
		}
		PA_UNROLL for (int j = 0; j < nb; j++) {
			__builtin_prefetch(PA_NAME(scales)(ahead[j], hd, from / PA_GROUP));
			__builtin_prefetch(PA_NAME(scales)(later[j], hd, from / PA_GROUP), 0, 2);
		}
		for (int line = from; line < end; line += LINE) {
			PA_UNROLL for (int j = 0; j < nb; j++) {
				__builtin_prefetch(ahead[j] + line * PA_BLOCK);
				__builtin_prefetch(later[j] + line * PA_BLOCK, 0, 2);
			}
			PA_UNROLL for (int d = line; d < line + LINE; d += 2) {
				__m512i k[4];
				PA_UNROLL for (int j = 0; j < nb; j++) {
					const __m256i rows = _mm256_loadu_si256((const void *)(keys[j] + d * PA_BLOCK));
					k[j] = _mm512_permutexvar_epi16(pairs, _mm512_cvtepi8_epi16(rows));
				}
				PA_UNROLL for (int i = 0; i < rt; i++) {
					int32_t two;
					memcpy(&two, &q[i].codes[d], sizeof two);
					const __m512i x = _mm512_set1_epi32(two);
					PA_UNROLL for (int j = 0; j < nb; j++) sum[i][j] = _mm512_dpwssd_epi32(sum[i][j], k[j], x);
				}
			}
		}
		PA_UNROLL for (int j = 0; j < nb; j++) {
			const vf scale = h_load(PA_NAME(scales)(keys[j], hd, from / PA_GROUP));
			PA_UNROLL for (int i = 0; i < rt; i++) {
				const vf unit = v_mul(scale, v_set(q[i].units[from / PA_GROUP]));
				acc[i][j] = v_fma(_mm512_cvtepi32_ps(sum[i][j]), unit, acc[i][j]);
			}
		}
	}
	PA_UNROLL for (int i = 0; i < rt; i++) {
		PA_UNROLL for (int j = 0; j < nb; j++) v_store(out[i] + j * PA_W, acc[i][j]);
	}
}

// weigh rounds a row's weights of the keys [begin, end) of a chunk, times the scales of their values, and returns what
// a unit of them is worth. What is behind the last key may be anything and gets no weight.
PA_TARGET static __attribute__((noinline)) float PA_NAME(weigh)(const float *w, const float *scales, int begin, int end,
                                                                int16_t *codes) {
	const int first = begin / PA_BLOCK / 2 * 2, last = (end + PA_BLOCK - 1) / PA_BLOCK;
	vf x[PA_CHUNK / PA_BLOCK];
	__m512i top = _mm512_setzero_si512();
	PA_UNROLL for (int b = 0; b < PA_CHUNK / PA_BLOCK; b++) {
		if (b < first || b >= last) {
			x[b] = v_set(0);
			continue;
		}
		const int low = begin - b * PA_BLOCK, high = end - b * PA_BLOCK;
		const uint32_t from = low <= 0 ? 0xffff : low < PA_BLOCK ? 0xffff << low : 0;
		const uint32_t own = high < PA_BLOCK ? from & ((1u << high) - 1) : from;
		x[b] = _mm512_maskz_mul_ps((__mmask16)own, v_load(w + b * PA_BLOCK), v_load(scales + b * PA_BLOCK));
		top = PA_NAME(fine_top)(top, x[b]);
	}
	float per;
	const float unit = PA_NAME(fine_unit)(top, &per);
	PA_UNROLL for (int b = 0; b < PA_CHUNK / PA_BLOCK; b += 2)
		if (b >= first && b < last) PA_NAME(fine)(x[b], x[b + 1], per, codes + b * PA_BLOCK);
	return unit;
}

// values adds up weighted values of the group of numbers from x for rt rows over the keys [begin, end) of a chunk.
PA_INLINE void PA_NAME(values)(const int rt, float (*w)[PA_CHUNK], const kv *const *values, const kv *const *later,
                               int hd, int begin, int end, int x, float *out, int stride) {
	float scales[PA_CHUNK], unit[8];
	int16_t codes[8][PA_CHUNK];
	const uint32_t own = hd - x < PA_GROUP ? (1u << (hd - x)) - 1 : 0xffffffff;
	__m512i acc[8][2];
	for (int b = begin / PA_BLOCK; b * PA_BLOCK < end; b++)  // of keys that nobody sees they may be anything
		v_store(scales + b * PA_BLOCK, h_load(PA_NAME(scales)(values[b], hd, x / PA_GROUP)));
	PA_UNROLL for (int i = 0; i < rt; i++) {
		unit[i] = PA_NAME(weigh)(w[i], scales, begin, end, codes[i]);
		acc[i][0] = acc[i][1] = _mm512_setzero_si512();
	}
	for (int p = begin / 2 * 2; p < end;) {
		const int stop = (p / PA_BLOCK + 1) * PA_BLOCK < end ? (p / PA_BLOCK + 1) * PA_BLOCK : end;
		const kv *v = values[p / PA_BLOCK] + (p % PA_BLOCK) * hd + x;
		const int64_t ahead = stop < end ? values[stop / PA_BLOCK] - values[p / PA_BLOCK] : 0;
		const int64_t keys = later[p / PA_BLOCK] - values[p / PA_BLOCK];
		for (; p < stop; p += 2, v += 2 * hd) {
			const __m512i a = _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(own, v));
			const __m512i b = _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8(own, v + hd));
			const __m512i low = _mm512_unpacklo_epi16(a, b), high = _mm512_unpackhi_epi16(a, b);
			__builtin_prefetch(v + ahead);
			__builtin_prefetch(v + hd + ahead);
			__builtin_prefetch(v + keys, 0, 2);
			__builtin_prefetch(v + hd + keys, 0, 2);
			PA_UNROLL for (int i = 0; i < rt; i++) {
				int32_t two;
				memcpy(&two, &codes[i][p], sizeof two);
				const __m512i weight = _mm512_set1_epi32(two);
				acc[i][0] = _mm512_dpwssd_epi32(acc[i][0], low, weight);
				acc[i][1] = _mm512_dpwssd_epi32(acc[i][1], high, weight);
			}
		}
	}
	// Unpacking left numbers 8k to 8k+3 in the lanes of low, the next four in those of high.
	const __m512i first = _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
	const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
	PA_UNROLL for (int i = 0; i < rt; i++) {
		const vf by = v_set(unit[i]);
		float *to = out + i * stride + x;
		_mm512_mask_storeu_ps(to, (__mmask16)own,
		                      v_mul(_mm512_cvtepi32_ps(_mm512_permutex2var_epi32(acc[i][0], first, acc[i][1])), by));
		_mm512_mask_storeu_ps(to + PA_W, (__mmask16)(own >> 16),
		                      v_mul(_mm512_cvtepi32_ps(_mm512_permutex2var_epi32(acc[i][0], second, acc[i][1])), by));
	}
}

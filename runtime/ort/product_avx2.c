// Products with quantised matrices with AVX2.
//
// Codes of 4 bits: vpmaddubsw multiplies unsigned codes 0 to 15 by those of activations and adds pairs: at most
// 15*127*2, which never saturates. These are added in 16 bits that may wrap, and begin at -8 times the sum of the
// activations' codes. The true sum, of (code-8)*x, is at most 32*8*127 = 32512 for a lane's part of 64 columns, so that
// the wrapped one is exact, and one vpmaddwd for 64 columns widens it. With offsets the sums begin at 0: a lane's part
// of 32 columns is at most 16*15*127 = 30480.
//
// Codes of 6 bits: the same with codes 0 to 63, at most 63*127*2, and sums that begin at -32 times the activations'. A
// lane's part of 16 columns is at most 8*32*127 = 32512 too; vpmaddwd multiplies it by the factor while it widens it.
//
// Codes of 8 bits: vpmaddubsw multiplies their magnitudes by the activations with their signs: at most 128*127*2.

#if defined(__x86_64__)

#include "product_six.h"
#include "product_x86.h"

#define INLINE MQ_AVX2 static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 8")

enum {
	ROWS = 4,            // whose sums fit the registers
	UNPACK_FROM = 32,    // rows from which codes of 4 bits are widened once for all of them
	UNPACKED = 1024,     // columns that are widened at a time
	AHEAD = 1536,        // bytes that are fetched ahead
};

// keep stops the compiler from reordering sums, which would move every product to the stack: four times slower.
INLINE __m256i keep(__m256i v) {
	__asm__("" : "+x"(v));
	return v;
}

INLINE __m256i load(const void *p) { return _mm256_loadu_si256(p); }
INLINE __m256 scales(const uint8_t *w) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)w)); }

// four broadcasts four codes.
INLINE __m256i four(const int8_t *x) {
	int32_t v;
	memcpy(&v, x, sizeof v);
	return _mm256_set1_epi32(v);
}

INLINE __m256i dot16(__m256i sum, __m256i w, __m256i x) {
	return keep(_mm256_add_epi16(sum, _mm256_maddubs_epi16(w, x)));
}

// rows are some rows of activations and of results.
struct rows {
	const int8_t *x;
	const float *scales, *totals;
	const int32_t *sums;
	float *y;
	int64_t x_stride, scale_stride, sum_stride, y_stride;
	const uint8_t *shared;  // what the first block has factors of, and which of those with the same it is
	int64_t of_shared;
};

// numbers reads the scales of a block, and its offsets if there are any, and returns where its codes begin.
INLINE const uint8_t *numbers(const int OFFSETS, const uint8_t *shared, const uint8_t *w, __m256 scale[2],
                              __m256 offset[2]) {
	if (OFFSETS == MQ_FACTORS) {
		UNROLL for (int c = 0; c < 2; c++) {
			const __m128i a = _mm_loadl_epi64((const void *)(w + 8 * c));
			const __m128i b = _mm_loadl_epi64((const void *)(w + MQ_GROUP + 8 * c));
			scale[c] = _mm256_mul_ps(scales(shared + 16 * c), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(a)));
			offset[c] =
			    _mm256_mul_ps(scales(shared + 2 * MQ_GROUP + 16 * c), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)));
		}
		return w + 2 * MQ_GROUP;
	}
	scale[0] = scales(w), scale[1] = scales(w + 16);
	if (!OFFSETS) return w + 2 * MQ_GROUP;
	offset[0] = scales(w + 32), offset[1] = scales(w + 48);
	return w + 4 * MQ_GROUP;
}

// next_shared returns where the scales and offsets are that block b of some has factors of, and steps w over them.
INLINE const uint8_t *next_shared(const uint8_t *shared, int64_t b, int64_t of_shared, const uint8_t **w) {
	if (!b || (of_shared + b) % MQ_SIX_BLOCKS) return shared;
	shared = *w;
	*w += MQ_SHARED;
	return shared;
}

// finish adds a block's sums, times both scales.
INLINE void finish(const int R, __m256 f[ROWS][2], const __m256i sum[ROWS][2], const __m256 scale[2], const float *s,
                   int64_t stride) {
	UNROLL for (int r = 0; r < R; r++) {
		const __m256 x = _mm256_broadcast_ss(s + r * stride);
		UNROLL for (int c = 0; c < 2; c++)
			f[r][c] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r][c]), _mm256_mul_ps(scale[c], x), f[r][c]);
	}
}

INLINE void begin(const int R, __m256 f[ROWS][2], const struct rows *at, int first) {
	UNROLL for (int r = 0; r < R; r++)
		UNROLL for (int c = 0; c < 2; c++)
			f[r][c] = first ? _mm256_setzero_ps() : _mm256_loadu_ps(at->y + r * at->y_stride + 8 * c);
}

INLINE void end(const int R, __m256 f[ROWS][2], const struct rows *at) {
	UNROLL for (int r = 0; r < R; r++)
		UNROLL for (int c = 0; c < 2; c++) _mm256_storeu_ps(at->y + r * at->y_stride + 8 * c, f[r][c]);
}

// shift adds a block's offsets, times what the activations add up to.
INLINE void shift(const int R, __m256 f[ROWS][2], const __m256 offset[2], const float *totals, int64_t stride) {
	UNROLL for (int r = 0; r < R; r++) {
		const __m256 x = _mm256_broadcast_ss(totals + r * stride);
		UNROLL for (int c = 0; c < 2; c++) f[r][c] = _mm256_fmadd_ps(offset[c], x, f[r][c]);
	}
}

// half multiplies R rows by codes of 4 bits: blocks of parts times CHUNK columns. WIDE says that w is what unpack makes.
INLINE void half(const int R, const int CHUNK, const int WIDE, const int OFFSETS, const uint8_t *w, int64_t blocks,
                 int parts, const struct rows *at, int first) {
	const __m256i low = _mm256_set1_epi8(15), one = _mm256_set1_epi16(1);
	const int8_t *x = at->x;
	const int32_t *sums = at->sums;
	const uint8_t *shared = at->shared;
	__m256 f[ROWS][2];
	begin(R, f, at, first);
	for (int64_t b = 0; b < blocks; b++) {
		__m256 scale[2], offset[2];
		if (WIDE) {
			scale[0] = _mm256_loadu_ps((const float *)w), scale[1] = _mm256_loadu_ps((const float *)w + 8);
			w += 64;
			if (OFFSETS) {
				offset[0] = _mm256_loadu_ps((const float *)w), offset[1] = _mm256_loadu_ps((const float *)w + 8);
				w += 64;
			}
		} else {
			if (OFFSETS == MQ_FACTORS) shared = next_shared(shared, b, at->of_shared, &w);
			w = numbers(OFFSETS, shared, w, scale, offset);
		}
		__m256i sum[ROWS][2];
		UNROLL for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
		for (int p = 0; p < parts; p++, x += CHUNK, sums++) {
			__m256i a[ROWS][2];
			UNROLL for (int r = 0; r < R; r++)
				a[r][0] = a[r][1] = OFFSETS ? _mm256_setzero_si256() : _mm256_set1_epi32(sums[r * at->sum_stride]);
			UNROLL for (int i = 0; i < CHUNK; i += 8) {
				__m256i l0 = load(w), l1 = load(w + 32), h0, h1;
				if (WIDE) {
					h0 = load(w + 64), h1 = load(w + 96);
					w += 128;
				} else {
					_mm_prefetch((const char *)w + AHEAD, _MM_HINT_T0);
					h0 = _mm256_and_si256(_mm256_srli_epi16(l0, 4), low), l0 = _mm256_and_si256(l0, low);
					h1 = _mm256_and_si256(_mm256_srli_epi16(l1, 4), low), l1 = _mm256_and_si256(l1, low);
					w += 64;
				}
				UNROLL for (int r = 0; r < R; r++) {
					const __m256i v = four(x + r * at->x_stride + i);
					a[r][0] = dot16(a[r][0], l0, v), a[r][1] = dot16(a[r][1], l1, v);
				}
				UNROLL for (int r = 0; r < R; r++) {
					const __m256i v = four(x + r * at->x_stride + i + 4);
					a[r][0] = dot16(a[r][0], h0, v), a[r][1] = dot16(a[r][1], h1, v);
				}
			}
			UNROLL for (int r = 0; r < R; r++)
				UNROLL for (int c = 0; c < 2; c++) {
					const __m256i t = _mm256_madd_epi16(a[r][c], one);
					sum[r][c] = CHUNK < MQ_HALF_CHUNK ? t : keep(_mm256_add_epi32(sum[r][c], t));
				}
		}
		finish(R, f, sum, scale, at->scales + b, at->scale_stride);
		if (OFFSETS) shift(R, f, offset, at->totals + b, at->scale_stride);
	}
	end(R, f, at);
}

// unpack widens blocks of a group to bytes, behind 16 scales, and offsets, as floats.
INLINE void unpack(const int OFFSETS, uint8_t *out, const uint8_t *w, const uint8_t *shared, int64_t of_shared,
                   int64_t blocks, int block) {
	const __m256i low = _mm256_set1_epi8(15);
	for (int64_t b = 0; b < blocks; b++) {
		__m256 n[2][2];
		if (OFFSETS == MQ_FACTORS) shared = next_shared(shared, b, of_shared, &w);
		w = numbers(OFFSETS, shared, w, n[0], n[1]);
		for (int i = 0; i < (OFFSETS ? 2 : 1); i++, out += 64)
			_mm256_storeu_ps((float *)out, n[i][0]), _mm256_storeu_ps((float *)out + 8, n[i][1]);
		for (int i = 0; i < block; i += 8, w += 64, out += 128) {
			const __m256i a = load(w), b = load(w + 32);
			_mm_prefetch((const char *)w + AHEAD, _MM_HINT_T0);
			_mm256_storeu_si256((void *)out, _mm256_and_si256(a, low));
			_mm256_storeu_si256((void *)(out + 32), _mm256_and_si256(b, low));
			_mm256_storeu_si256((void *)(out + 64), _mm256_and_si256(_mm256_srli_epi16(a, 4), low));
			_mm256_storeu_si256((void *)(out + 96), _mm256_and_si256(_mm256_srli_epi16(b, 4), low));
		}
	}
}

// dot8 adds products of signed bytes.
INLINE __m256i dot8(__m256i sum, __m256i w, __m256i x) {
	const __m256i p = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
	return keep(_mm256_add_epi32(sum, _mm256_madd_epi16(p, _mm256_set1_epi16(1))));
}

// whole multiplies R rows by codes of 8 bits.
INLINE void whole(const int R, const int OFFSETS, const uint8_t *w, int64_t blocks, int block, const struct rows *at,
                  int first) {
	const int8_t *x = at->x;
	const uint8_t *shared = at->shared;
	__m256 f[ROWS][2];
	begin(R, f, at, first);
	for (int64_t b = 0; b < blocks; b++) {
		__m256 scale[2], offset[2];
		if (OFFSETS == MQ_FACTORS) shared = next_shared(shared, b, at->of_shared, &w);
		w = numbers(OFFSETS, shared, w, scale, offset);
		__m256i sum[ROWS][2];
		UNROLL for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
		for (int part = 0; part < block; part += 32, x += 32)
			UNROLL for (int i = 0; i < 32; i += 4, w += 64) {
				const __m256i w0 = load(w), w1 = load(w + 32);
				_mm_prefetch((const char *)w + AHEAD, _MM_HINT_T0);
				UNROLL for (int r = 0; r < R; r++) {
					const __m256i v = four(x + r * at->x_stride + i);
					sum[r][0] = dot8(sum[r][0], w0, v), sum[r][1] = dot8(sum[r][1], w1, v);
				}
			}
		finish(R, f, sum, scale, at->scales + b, at->scale_stride);
		if (OFFSETS) shift(R, f, offset, at->totals + b, at->scale_stride);
	}
	end(R, f, at);
}

// pick multiplies R rows by codes of 4 bits that stand for the numbers of a table, in blocks of 32.
INLINE void pick(const int R, const uint8_t *w, int64_t blocks, const int8_t *numbers_of, const struct rows *at,
                 int first) {
	const __m256i low = _mm256_set1_epi8(15);
	const __m256i table = _mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)numbers_of));
	const int8_t *x = at->x;
	__m256 f[ROWS][2];
	begin(R, f, at, first);
	for (int64_t b = 0; b < blocks; b++) {
		__m256 scale[2], offset[2];
		w = numbers(0, NULL, w, scale, offset);
		__m256i sum[ROWS][2];
		UNROLL for (int r = 0; r < R; r++) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
		UNROLL for (int i = 0; i < 32; i += 8, w += 64, x += 8) {
			const __m256i v0 = load(w), v1 = load(w + 32);
			_mm_prefetch((const char *)w + AHEAD, _MM_HINT_T0);
			const __m256i c[2][2] = {
			    {_mm256_shuffle_epi8(table, _mm256_and_si256(v0, low)),
			     _mm256_shuffle_epi8(table, _mm256_and_si256(v1, low))},
			    {_mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v0, 4), low)),
			     _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(v1, 4), low))},
			};
			UNROLL for (int h = 0; h < 2; h++)
				UNROLL for (int r = 0; r < R; r++) {
					const __m256i v = four(x + r * at->x_stride + 4 * h);
					sum[r][0] = dot8(sum[r][0], c[h][0], v), sum[r][1] = dot8(sum[r][1], c[h][1], v);
				}
		}
		finish(R, f, sum, scale, at->scales + b, at->scale_stride);
	}
	end(R, f, at);
}

// six multiplies R rows by codes of 6 bits, of blocks that share scales.
INLINE void six(const int R, const struct mq_six *w, const __m256 scale[2], int64_t blocks, const struct rows *at,
                int first) {
	const int8_t *x = at->x;
	__m256 f[ROWS][2];
	begin(R, f, at, first);
	for (int64_t b = 0; b < blocks; b++) {
		const uint8_t *codes = w->codes[b];
		__m256i sum[ROWS][2];
		UNROLL for (int half = 0; half < 2; half++, x += 16) {
			__m256i a[ROWS][2];
			UNROLL for (int r = 0; r < R; r++)
				a[r][0] = a[r][1] = _mm256_set1_epi32(at->sums[r * at->sum_stride + 2 * b + half]);
			UNROLL for (int i = 0; i < 16; i += 4, codes += 64) {
				const __m256i c0 = load(codes), c1 = load(codes + 32);
				UNROLL for (int r = 0; r < R; r++) {
					const __m256i v = four(x + r * at->x_stride + i);
					a[r][0] = dot16(a[r][0], c0, v), a[r][1] = dot16(a[r][1], c1, v);
				}
			}
			const __m256i factor[2] = {load(w->factors.pairs[b][half]), load(w->factors.pairs[b][half] + 8)};
			UNROLL for (int r = 0; r < R; r++)
				UNROLL for (int c = 0; c < 2; c++) {
					const __m256i t = _mm256_madd_epi16(a[r][c], factor[c]);
					sum[r][c] = half ? _mm256_add_epi32(sum[r][c], t) : t;
				}
		}
		finish(R, f, sum, scale, at->scales + b, at->scale_stride);
	}
	end(R, f, at);
}

// BY_ROWS calls a function for 1 to ROWS rows.
#define BY_ROWS(count, function, ...)                     \
	switch (count) {                                       \
	case 1: function(1, __VA_ARGS__); break;               \
	case 2: function(2, __VA_ARGS__); break;               \
	case 3: function(3, __VA_ARGS__); break;               \
	default: function(4, __VA_ARGS__);                     \
	}

#define HALF(name, chunk, wide, offsets)                                                                   \
	MQ_AVX2 static __attribute__((noinline)) void name(int64_t count, const uint8_t *w, int64_t blocks, int parts, \
	                                                   const struct rows *at, int first) {               \
		BY_ROWS(count, half, chunk, wide, offsets, w, blocks, parts, at, first)                             \
	}

HALF(half32, 32, 0, 0)
HALF(half64, 64, 0, 0)
HALF(wide32, 32, 1, 0)
HALF(wide64, 64, 1, 0)
HALF(half32_offsets, 32, 0, MQ_OFFSETS)
HALF(half32_factors, 32, 0, MQ_FACTORS)
HALF(wide32_offsets, 32, 1, MQ_OFFSETS)

#define WHOLE(name, offsets)                                                                               \
	MQ_AVX2 static __attribute__((noinline)) void name(int64_t count, const uint8_t *w, int64_t blocks, int block, \
	                                                   const struct rows *at, int first) {               \
		BY_ROWS(count, whole, offsets, w, blocks, block, at, first)                                         \
	}

WHOLE(whole8, 0)
WHOLE(whole8_offsets, MQ_OFFSETS)
WHOLE(whole8_factors, MQ_FACTORS)

MQ_AVX2 static __attribute__((noinline)) void picked(int64_t count, const uint8_t *w, int64_t blocks,
                                                     const int8_t *table, const struct rows *at, int first) {
	BY_ROWS(count, pick, w, blocks, table, at, first)
}

MQ_AVX2 static __attribute__((noinline)) void sixes(int64_t count, const struct mq_six *w, const uint8_t *halves,
                                                    int64_t blocks, const struct rows *at, int first) {
	const __m256 scale[2] = {scales(halves), scales(halves + 16)};
	BY_ROWS(count, six, w, scale, blocks, at, first)
}

// rows_at is some rows, from a block on.
static inline struct rows rows_at(const struct mq_matrix *m, const struct mq_rows *r, int64_t row, int64_t from,
                                  float *y, int64_t stride) {
	const int64_t blocks = mq_blocks(m), sums = mq_sums(m), at = row * blocks + from;
	return (struct rows){
	    .x = r->codes + at * m->block,
	    .scales = r->scales + at,
	    .totals = r->totals + at,
	    .sums = r->sums + at * sums,
	    .y = y,
	    .x_stride = blocks * m->block,
	    .scale_stride = blocks,
	    .sum_stride = blocks * sums,
	    .y_stride = stride,
	};
}

// multiply_six is multiply for codes of 6 bits.
MQ_AVX2 static void multiply_six(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t from,
                                 int64_t to, int64_t row, int64_t end, float *y, int64_t stride) {
	struct mq_six s;
	for (int64_t b = from, next; b < to; b = next) {
		next = mq_six_end(b, to);
		mq_six_open(0, 1, &s, mq_six_at(m, group, b), next - b);
		for (int64_t i = row; i < end; i += ROWS) {
			const struct rows at = rows_at(m, r, i, b, y + (i - row) * stride, stride);
			sixes(end - i, &s, mq_six_scales(m, group, b), next - b, &at, !b);
		}
	}
}

// run multiplies rows by blocks [from, to) at w, ROWS rows at a time.
MQ_AVX2 static void run(const struct mq_matrix *m, const struct mq_rows *r, const uint8_t *w, const uint8_t *shared,
                        int wide, int64_t from, int64_t to, int64_t row, int64_t end, float *y, int64_t stride) {
	const int sums = mq_sums(m), factors = m->offsets == MQ_FACTORS;
	for (; row < end; row += ROWS, y += ROWS * stride) {
		struct rows at = rows_at(m, r, row, from, y, stride);
		at.shared = shared, at.of_shared = from % MQ_SIX_BLOCKS;
		if (m->table)
			picked(end - row, w, to - from, mq_table(m), &at, !from);
		else if (m->bits == 8 && m->offsets)
			(factors ? whole8_factors : whole8_offsets)(end - row, w, to - from, m->block, &at, !from);
		else if (m->offsets)
			(wide      ? wide32_offsets
			 : factors ? half32_factors
			           : half32_offsets)(end - row, w, to - from, sums, &at, !from);
		else if (m->bits == 8)
			whole8(end - row, w, to - from, m->block, &at, !from);
		else if (m->block == 32)
			(wide ? wide32 : half32)(end - row, w, to - from, sums, &at, !from);
		else
			(wide ? wide64 : half64)(end - row, w, to - from, sums, &at, !from);
	}
}

MQ_AVX2 static void multiply(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t from,
                             int64_t to, int64_t row, int64_t end, float *y, int64_t stride) {
	if (m->bits == 6) {
		multiply_six(m, r, group, from, to, row, end, y, stride);
		return;
	}
	const int64_t step = UNPACKED / m->block;
	if (m->bits == 8 || m->table || end - row < UNPACK_FROM) {
		run(m, r, mq_at(m, group, from), mq_shared(m, group, from), 0, from, to, row, end, y, stride);
		return;
	}
	uint8_t unpacked[UNPACKED / 32 * 128 + MQ_GROUP * UNPACKED];
	for (; from < to; from += step) {
		const int64_t n = to - from < step ? to - from : step;
		const uint8_t *w = mq_at(m, group, from), *shared = mq_shared(m, group, from);
		switch (m->offsets) {
		case 0: unpack(0, unpacked, w, shared, 0, n, m->block); break;
		case MQ_OFFSETS: unpack(MQ_OFFSETS, unpacked, w, shared, 0, n, 32); break;
		default: unpack(MQ_FACTORS, unpacked, w, shared, from % MQ_SIX_BLOCKS, n, 32);
		}
		run(m, r, unpacked, shared, 1, from, from + n, row, end, y, stride);
	}
}

// sum16 is minus the code for 0 times the sums, in the 16-bit lanes that half and six begin with.
static inline int32_t sum16(int even, int odd, int code) {
	return (int32_t)((uint32_t)(-code * odd) << 16 | (uint16_t)(-code * even));
}

MQ_AVX2 static void quantise(const struct mq_matrix *m, const struct mq_rows *r, const float *x, int64_t row) {
	mq_quantise(m, r, x, row, sum16);
}

const struct mq_kernel mq_avx2 = {"avx2", quantise, multiply};

#endif

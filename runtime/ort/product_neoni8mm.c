// Products with quantised matrices with NEON's matrix instructions (i8mm), which 64-bit ARM CPUs since 2020 have: one
// multiplies two rows of eight codes by two columns. What is below four rows is left to the dot product, which computes
// the same.

#if defined(__aarch64__)

#include "product.h"
#include "product_neon.h"
#include "product_six.h"

#define I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))
#define I8MM_INLINE I8MM static inline __attribute__((always_inline))

enum { ROWS = 4, COLUMNS = 8 };  // whose sums fit the registers

// pairs returns codes of 8 columns of k for four rows of the matrix: those of the first two, and of the others. near has
// columns 0 to 3, far 4 to 7.
I8MM_INLINE void pairs(int8x16_t near, int8x16_t far, int8x16_t out[2]) {
	const int32x4_t a = vreinterpretq_s32_s8(near), b = vreinterpretq_s32_s8(far);
	out[0] = vreinterpretq_s8_s32(vzip1q_s32(a, b));
	out[1] = vreinterpretq_s8_s32(vzip2q_s32(a, b));
}

// row_of returns the sums of row r and four columns, of which two pairs of rows have theirs.
I8MM_INLINE int32x4_t row_of(const int32x4_t sum[ROWS / 2][4], int r, int c) {
	const int64x2_t a = vreinterpretq_s64_s32(sum[r / 2][2 * c]), d = vreinterpretq_s64_s32(sum[r / 2][2 * c + 1]);
	return vreinterpretq_s32_s64(r % 2 ? vzip2q_s64(a, d) : vzip1q_s64(a, d));
}

// tile multiplies four rows by eight columns of blocks [from, to) of a group, from column on.
I8MM_INLINE void tile(const int BITS, const int OFFSETS, const struct mq_matrix *m, int64_t group, int64_t column,
                      int64_t from, int64_t to, const int8_t *x, const float *scales, const float *totals,
                      int64_t row_blocks, float *y, int64_t stride) {
	const int64_t block = m->block, row_bytes = row_blocks * block, blocks = to - from;
	const int8x16_t table = vld1q_s8(OFFSETS == MQ_TABLED ? mq_table(m) : mq_tables[0]);
	const int head = OFFSETS == MQ_OFFSETS ? 4 * MQ_GROUP : 2 * MQ_GROUP, first = !from;
	float32x4_t f[ROWS][2];
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < 2; c++) f[r][c] = first ? vdupq_n_f32(0) : vld1q_f32(y + r * stride + 4 * c);
	for (int64_t b = 0; b < blocks; b++) {
		const uint8_t *w = mq_at(m, group, from + b);
		int32x4_t sum[ROWS / 2][4];
		for (int r = 0; r < ROWS / 2; r++)
			for (int c = 0; c < 4; c++) sum[r][c] = vdupq_n_s32(0);
		const uint8_t *codes = w + head + 4 * column;
		for (int at = 0; at < block; at += 8, codes += BITS == 4 ? 64 : 128, x += 8) {
			int8x16_t right[4];
			for (int c = 0; c < 2; c++) {
				const uint8x16_t v = vld1q_u8(codes + 16 * c);
				const int8x16_t zero = vdupq_n_s8(OFFSETS ? 0 : 8);
				if (OFFSETS == MQ_TABLED)
					pairs(vqtbl1q_s8(table, vandq_u8(v, vdupq_n_u8(15))), vqtbl1q_s8(table, vshrq_n_u8(v, 4)),
					      right + 2 * c);
				else if (BITS == 4)
					pairs(vsubq_s8(vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15))), zero),
					      vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(v, 4)), zero), right + 2 * c);
				else
					pairs(vreinterpretq_s8_u8(v), vreinterpretq_s8_u8(vld1q_u8(codes + 64 + 16 * c)), right + 2 * c);
			}
			for (int r = 0; r < ROWS / 2; r++) {
				const int8_t *row = x + 2 * r * row_bytes;
				const int8x16_t left = vcombine_s8(vld1_s8(row), vld1_s8(row + row_bytes));
				for (int c = 0; c < 4; c++) sum[r][c] = vmmlaq_s32(sum[r][c], left, right[c]);
			}
		}
		for (int c = 0; c < 2; c++) {
			const int64_t at = column + 4 * c;
			const uint8_t *half = (OFFSETS == MQ_FACTORS ? mq_shared(m, group, from + b) : w) + 2 * at;
			float32x4_t scale = mq_halves(half), offset = scale;
			if (OFFSETS && OFFSETS != MQ_TABLED) offset = mq_halves(half + 2 * MQ_GROUP);
			if (OFFSETS == MQ_FACTORS)
				scale = vmulq_f32(scale, mq_four_bytes(w + at)),
				offset = vmulq_f32(offset, mq_four_bytes(w + MQ_GROUP + at));
			for (int r = 0; r < ROWS; r++) {
				const int64_t of = b + r * row_blocks;
				f[r][c] = vfmaq_f32(f[r][c], vcvtq_f32_s32(row_of(sum, r, c)), vmulq_n_f32(scale, scales[of]));
				if (OFFSETS && OFFSETS != MQ_TABLED)
					f[r][c] = vfmaq_f32(f[r][c], offset, vdupq_n_f32(totals[of]));
			}
		}
	}
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < 2; c++) vst1q_f32(y + r * stride + 4 * c, f[r][c]);
}

// six is tile for codes of 6 bits, of blocks that share scales.
I8MM_INLINE void six(const struct mq_six *w, const uint8_t *halves, int64_t column, int64_t blocks, const int8_t *x,
                     const float *scales, int64_t row_blocks, float *y, int64_t stride, int first) {
	const int64_t row_bytes = row_blocks * 32;
	float32x4_t f[ROWS][2], scale[2];
	for (int c = 0; c < 2; c++) scale[c] = mq_halves(halves + 2 * (column + 4 * c));
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < 2; c++) f[r][c] = first ? vdupq_n_f32(0) : vld1q_f32(y + r * stride + 4 * c);
	for (int64_t b = 0; b < blocks; b++) {
		const int8_t *codes = (const int8_t *)w->codes[b] + 4 * column;
		float32x4_t all[ROWS][2];  // integers, which are exact
		for (int half = 0; half < 2; half++) {
			int32x4_t sum[ROWS / 2][4];
			for (int r = 0; r < ROWS / 2; r++)
				for (int c = 0; c < 4; c++) sum[r][c] = vdupq_n_s32(0);
			for (int at = 0; at < 16; at += 8, codes += 128, x += 8) {
				int8x16_t right[4];
				for (int c = 0; c < 2; c++) pairs(vld1q_s8(codes + 16 * c), vld1q_s8(codes + 64 + 16 * c), right + 2 * c);
				for (int r = 0; r < ROWS / 2; r++) {
					const int8_t *row = x + 2 * r * row_bytes;
					const int8x16_t left = vcombine_s8(vld1_s8(row), vld1_s8(row + row_bytes));
					for (int c = 0; c < 4; c++) sum[r][c] = vmmlaq_s32(sum[r][c], left, right[c]);
				}
			}
			for (int c = 0; c < 2; c++) {
				const float32x4_t factor = vld1q_f32(w->factors.floats[b][half] + column + 4 * c);
				for (int r = 0; r < ROWS; r++) {
					const float32x4_t of = vcvtq_f32_s32(row_of(sum, r, c));
					all[r][c] = half ? vfmaq_f32(all[r][c], of, factor) : vmulq_f32(of, factor);
				}
			}
		}
		for (int r = 0; r < ROWS; r++)
			for (int c = 0; c < 2; c++)
				f[r][c] = vfmaq_f32(f[r][c], all[r][c], vmulq_n_f32(scale[c], scales[b + r * row_blocks]));
	}
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < 2; c++) vst1q_f32(y + r * stride + 4 * c, f[r][c]);
}

// multiply_six is multiply for codes of 6 bits, and so many rows that four can be taken at a time.
I8MM static void multiply_six(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t from,
                              int64_t to, int64_t row, int64_t end, float *y, int64_t stride) {
	const int64_t blocks = mq_blocks(m);
	struct mq_six s;
	for (int64_t b = from, next; b < to; b = next) {
		next = mq_six_end(b, to);
		mq_six_open(1, 0, &s, mq_six_at(m, group, b), next - b);
		for (int64_t i = row; i < end; i += ROWS)
			for (int64_t c = 0; c < MQ_GROUP; c += COLUMNS)
				six(&s, mq_six_scales(m, group, b), c, next - b, r->codes + (i * blocks + b) * 32,
				    r->scales + i * blocks + b, blocks, y + (i - row) * stride + c, stride, !b);
	}
}

I8MM static void multiply(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t from, int64_t to,
                          int64_t row, int64_t end, float *y, int64_t stride) {
	if (m->bits == 6) {
		const int64_t whole = row + (end - row) / ROWS * ROWS;
		multiply_six(m, r, group, from, to, row, whole, y, stride);
		if (end > whole) mq_neondot.multiply(m, r, group, from, to, whole, end, y + (whole - row) * stride, stride);
		return;
	}
	const int64_t blocks = mq_blocks(m);
	for (; end - row >= ROWS; row += ROWS, y += ROWS * stride) {
		const int64_t at = row * blocks + from;
		for (int64_t c = 0; c < MQ_GROUP; c += COLUMNS) {
#define TILE(bits, offsets)                                                                                       \
	tile(bits, offsets, m, group, c, from, to, r->codes + at * m->block, r->scales + at, r->totals + at, blocks,  \
	     y + c, stride)
			if (m->table) {
				TILE(4, MQ_TABLED);
				continue;
			}
			switch (m->bits + m->offsets) {
			case 4: TILE(4, 0); break;
			case 4 + MQ_OFFSETS: TILE(4, MQ_OFFSETS); break;
			case 4 + MQ_FACTORS: TILE(4, MQ_FACTORS); break;
			case 8: TILE(8, 0); break;
			case 8 + MQ_OFFSETS: TILE(8, MQ_OFFSETS); break;
			default: TILE(8, MQ_FACTORS);
			}
		}
	}
	if (end > row) mq_neondot.multiply(m, r, group, from, to, row, end, y, stride);
}

I8MM static void quantise(const struct mq_matrix *m, const struct mq_rows *r, const float *x, int64_t row) {
	mq_neondot.quantise(m, r, x, row);
}

const struct mq_kernel mq_neoni8mm = {"neoni8mm", quantise, multiply};

#endif

// Products with quantised matrices with NEON's matrix instructions (i8mm), which 64-bit ARM CPUs since 2020 have: one
// multiplies two rows of eight codes by two columns. What is below four rows is left to the dot product, which computes
// the same.

#if defined(__aarch64__)

#include <arm_neon.h>

#include "product.h"

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

// tile multiplies four rows by eight columns of some blocks of a group. w is where the codes and scales of these columns
// begin in the first block.
I8MM_INLINE void tile(const int BITS, const int OFFSETS, const struct mq_matrix *m, const uint8_t *w, int64_t column,
                      int64_t blocks, const int8_t *x, const float *scales, const float *totals, int64_t row_blocks,
                      float *y, int64_t stride, int first) {
	const int64_t block = m->block, bytes = mq_block_bytes(m), row_bytes = row_blocks * block;
	float32x4_t f[ROWS][2];
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < 2; c++) f[r][c] = first ? vdupq_n_f32(0) : vld1q_f32(y + r * stride + 4 * c);
	for (int64_t b = 0; b < blocks; b++, w += bytes) {
		int32x4_t sum[ROWS / 2][4];
		for (int r = 0; r < ROWS / 2; r++)
			for (int c = 0; c < 4; c++) sum[r][c] = vdupq_n_s32(0);
		const uint8_t *codes = w + 2 * MQ_GROUP * (1 + OFFSETS) + 4 * column;
		for (int at = 0; at < block; at += 8, codes += BITS == 4 ? 64 : 128, x += 8) {
			int8x16_t right[4];
			for (int c = 0; c < 2; c++) {
				const uint8x16_t v = vld1q_u8(codes + 16 * c);
				const int8x16_t eight = vdupq_n_s8(8);
				if (BITS == 4)
					pairs(vsubq_s8(vreinterpretq_s8_u8(vandq_u8(v, vdupq_n_u8(15))), eight),
					      vsubq_s8(vreinterpretq_s8_u8(vshrq_n_u8(v, 4)), eight), right + 2 * c);
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
			const uint8_t *half = w + 2 * (column + 4 * c);
			const float32x4_t scale = vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(half)));
			const float32x4_t offset =
			    OFFSETS ? vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(half + 2 * MQ_GROUP))) : scale;
			for (int r = 0; r < ROWS; r++) {
				const int64x2_t a = vreinterpretq_s64_s32(sum[r / 2][2 * c]);
				const int64x2_t d = vreinterpretq_s64_s32(sum[r / 2][2 * c + 1]);
				const int32x4_t row = vreinterpretq_s32_s64(r % 2 ? vzip2q_s64(a, d) : vzip1q_s64(a, d));
				const int64_t of = b + r * row_blocks;
				f[r][c] = vfmaq_f32(f[r][c], vcvtq_f32_s32(row), vmulq_n_f32(scale, scales[of]));
				if (OFFSETS) f[r][c] = vfmaq_f32(f[r][c], offset, vdupq_n_f32(totals[of]));
			}
		}
	}
	for (int r = 0; r < ROWS; r++)
		for (int c = 0; c < 2; c++) vst1q_f32(y + r * stride + 4 * c, f[r][c]);
}

I8MM static void multiply(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t from, int64_t to,
                          int64_t row, int64_t end, float *y, int64_t stride) {
	const int64_t blocks = mq_blocks(m);
	const uint8_t *w = m->data + (group * blocks + from) * mq_block_bytes(m);
	for (; end - row >= ROWS; row += ROWS, y += ROWS * stride) {
		const int64_t at = row * blocks + from;
		for (int64_t c = 0; c < MQ_GROUP; c += COLUMNS) {
#define TILE(bits, offsets)                                                                                       \
	tile(bits, offsets, m, w, c, to - from, r->codes + at * m->block, r->scales + at, r->totals + at, blocks, y + c, \
	     stride, !from)
			switch (m->bits + m->offsets) {
			case 4: TILE(4, 0); break;
			case 5: TILE(4, 1); break;
			case 8: TILE(8, 0); break;
			default: TILE(8, 1);
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

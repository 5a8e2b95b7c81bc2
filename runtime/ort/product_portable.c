// Products with quantised matrices in portable C: what the other kernels are compared with.

#include <math.h>
#include <string.h>

#include "product.h"
#include "product_six.h"

// GGUF's types IQ4; twice the numbers of MXFP4, which have halves; 127 times those of bitsandbytes' nf4.
const int8_t mq_tables[MQ_TABLES][16] = {
    {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113},
    {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12},
    {-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127},
};

float mq_float(uint16_t half) {
	const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
	if (!exponent) return (sign ? -1.0f : 1.0f) * (float)fraction * 0x1p-24f;
	const uint32_t bits = sign | (exponent == 31 ? 255u : exponent + 112) << 23 | fraction << 13;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static void quantise(const struct mq_matrix *m, const struct mq_rows *r, const float *x, int64_t row) {
	const int64_t blocks = mq_blocks(m);
	int8_t *codes = r->codes + row * blocks * m->block;
	for (int64_t b = 0; b < blocks; b++, codes += m->block) {
		const int64_t at = b * m->block, n = m->k - at < m->block ? m->k - at : m->block;
		uint32_t top = 0;  // magnitudes in the order of their bits: numbers that are not finite are above all others
		for (int64_t i = 0; i < n; i++) {
			uint32_t bits;
			memcpy(&bits, x + at + i, sizeof bits);
			bits &= 0x7fffffff;
			if (bits > top) top = bits;
		}
		float max;
		memcpy(&max, &top, sizeof max);
		memset(codes, 0, (size_t)m->block);
		const int finite = top < 0x7f800000;
		const float scale = !finite ? NAN : max < MQ_LEAST ? 0 : max / 127.0f;
		r->scales[row * blocks + b] = scale;
		int32_t sum = 0;
		if (finite && max >= MQ_LEAST) {
			const float inverse = 127.0f / max;
			for (int64_t i = 0; i < n; i++) sum += codes[i] = (int8_t)rintf(x[at + i] * inverse);
		}
		if (m->offsets) r->totals[row * blocks + b] = scale * (float)sum;
	}
}

// six is multiply for codes of 6 bits.
static void six(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t from, int64_t to,
                int64_t row, int64_t end, float *y, int64_t stride) {
	const int64_t blocks = mq_blocks(m);
	for (int64_t i = 0; !from && i < end - row; i++) memset(y + i * stride, 0, MQ_GROUP * sizeof *y);
	for (int64_t b = from; b < to; b++) {
		const uint8_t *w = mq_six_at(m, group, b);
		uint8_t codes[32 * MQ_GROUP];
		mq_six_codes(0, codes, w + 2 * MQ_GROUP);
		float *sums = y;
		for (int64_t at = row; at < end; at++, sums += stride) {
			const int8_t *x = r->codes + (at * blocks + b) * m->block;
			for (int c = 0; c < MQ_GROUP; c++) {
				int32_t sum[2] = {0};
				for (int i = 0; i < 32; i++) sum[i / 16] += (codes[i / 4 * 64 + 4 * c + i % 4] - 32) * x[i];
				uint16_t scale;
				memcpy(&scale, mq_six_scales(m, group, b) + 2 * c, sizeof scale);
				const int32_t all = sum[0] * (int8_t)w[c] + sum[1] * (int8_t)w[MQ_GROUP + c];
				sums[c] = fmaf((float)all, mq_float(scale) * r->scales[at * blocks + b], sums[c]);
			}
		}
	}
}

// numbers returns the scale and the offset of a block at w, of column c.
static void numbers(const struct mq_matrix *m, const uint8_t *shared, const uint8_t *w, int c, float *scale,
                    float *offset) {
	uint16_t half[2];
	const uint8_t *from = m->offsets == MQ_FACTORS ? shared : w;
	memcpy(half, from + 2 * c, sizeof *half);
	*scale = mq_float(half[0]), *offset = 0;
	if (!m->offsets) return;
	memcpy(half + 1, from + 2 * MQ_GROUP + 2 * c, sizeof *half);
	*offset = mq_float(half[1]);
	if (m->offsets == MQ_FACTORS) *scale *= (float)w[c], *offset *= (float)w[MQ_GROUP + c];
}

static void multiply(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t from, int64_t to,
                     int64_t row, int64_t end, float *y, int64_t stride) {
	if (m->bits == 6) {
		six(m, r, group, from, to, row, end, y, stride);
		return;
	}
	const int64_t blocks = mq_blocks(m), head = mq_block_bytes(m) - MQ_GROUP * (int64_t)m->block * m->bits / 8;
	const int zero = mq_zero(m);
	const int8_t *table = mq_table(m);
	for (; row < end; row++, y += stride) {
		if (!from) memset(y, 0, MQ_GROUP * sizeof *y);
		for (int64_t b = from; b < to; b++) {
			const uint8_t *w = mq_at(m, group, b), *code = w + head;
			const int8_t *x = r->codes + (row * blocks + b) * m->block;
			int32_t sum[MQ_GROUP] = {0};
			for (int at = 0; at < m->block; at += m->bits == 4 ? 8 : 4, code += 64)
				for (int c = 0; c < MQ_GROUP; c++)
					for (int i = 0; i < 4; i++) {
						const uint8_t w = code[4 * c + i];
						if (m->bits == 8)
							sum[c] += (int8_t)w * x[at + i];
						else if (table)
							sum[c] += table[w & 15] * x[at + i] + table[w >> 4] * x[at + 4 + i];
						else
							sum[c] += ((w & 15) - zero) * x[at + i] + ((w >> 4) - zero) * x[at + 4 + i];
					}
			for (int c = 0; c < MQ_GROUP; c++) {
				float scale, offset;
				numbers(m, mq_shared(m, group, b), w, c, &scale, &offset);
				y[c] = fmaf((float)sum[c], scale * r->scales[row * blocks + b], y[c]);
				if (m->offsets) y[c] = fmaf(offset, r->totals[row * blocks + b], y[c]);
			}
		}
	}
}

const struct mq_kernel mq_portable = {"portable", quantise, multiply};

// Products with quantised matrices with NEON's dot product, which most 64-bit ARM CPUs since 2018 have.

#if defined(__aarch64__)

#include <math.h>

#include "product.h"
#include "product_neon.h"

#define MQ_NAME(x) neondot_##x
#define MQ_TARGET __attribute__((target("arch=armv8.2-a+dotprod")))
#define MQ_W 4
#define MQ_ROWS 4
#define MQ_UNSIGNED 0

typedef int32x4_t vi;
typedef float32x4_t vf;
#define i_load(p) vreinterpretq_s32_u8(vld1q_u8(p))
#define i_set vdupq_n_s32
#define i_bytes(w) vreinterpretq_u8_s32(w)
#define i_minus8(w) vreinterpretq_s32_s8(vsubq_s8(vreinterpretq_s8_u8(w), vdupq_n_s8(8)))
#define i_low(w) i_minus8(vandq_u8(i_bytes(w), vdupq_n_u8(15)))
#define i_high(w) i_minus8(vshrq_n_u8(i_bytes(w), 4))
#define i_plain_low(w) vreinterpretq_s32_u8(vandq_u8(i_bytes(w), vdupq_n_u8(15)))
#define i_plain_high(w) vreinterpretq_s32_u8(vshrq_n_u8(i_bytes(w), 4))
#define vt int8x16_t
#define i_table(t) vld1q_s8(t)
#define i_pick(t, v) vreinterpretq_s32_s8(vqtbl1q_s8(t, vreinterpretq_u8_s32(v)))
#define i_code(w) (w)
#define i_dot(sum, w, x) vdotq_s32(sum, vreinterpretq_s8_s32(w), vreinterpretq_s8_s32(x))
#define f_scales mq_halves
#define f_bytes mq_four_bytes
#define f_load vld1q_f32
#define f_store vst1q_f32
#define f_set vdupq_n_f32
#define f_mul vmulq_f32
#define f_fma(a, b, c) vfmaq_f32(c, a, b)
#define f_zero() vdupq_n_f32(0)
#define f_of vcvtq_f32_s32

MQ_TARGET static inline vi i_four(const int8_t *x) {
	int32_t v;
	memcpy(&v, x, sizeof v);
	return vdupq_n_s32(v);
}

#include "product_dot.h"

static void quantise(const struct mq_matrix *m, const struct mq_rows *r, const float *x, int64_t row) {
	const int64_t blocks = mq_blocks(m);
	int8_t *codes = r->codes + row * blocks * m->block;
	float rest[128];
	for (int64_t b = 0; b < blocks; b++, codes += m->block) {
		const int64_t at = b * m->block;
		const float *in = x + at;
		if (m->k - at < m->block) {
			memset(rest, 0, sizeof rest);
			memcpy(rest, in, (size_t)(m->k - at) * sizeof *in);
			in = rest;
		}
		uint32x4_t top = vdupq_n_u32(0);  // numbers that are not finite are above all others
		for (int i = 0; i < m->block; i += 4)
			top = vmaxq_u32(top, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(in + i)), vdupq_n_u32(0x7fffffff)));
		const uint32_t bits = vmaxvq_u32(top);
		float max;
		memcpy(&max, &bits, sizeof max);
		const int finite = bits < 0x7f800000;
		r->scales[row * blocks + b] = !finite ? NAN : max < MQ_LEAST ? 0 : max / 127.0f;
		if (!finite || max < MQ_LEAST) {
			memset(codes, 0, (size_t)m->block);
			if (m->offsets) r->totals[row * blocks + b] = r->scales[row * blocks + b];
			continue;
		}
		int32_t total = 0;
		const float inverse = 127.0f / max;
		for (int i = 0; i < m->block; i += 16) {
			int16x4_t v[4];
			for (int j = 0; j < 4; j++) v[j] = vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(in + i + 4 * j), inverse)));
			const int8x8_t low = vmovn_s16(vcombine_s16(v[0], v[1])), high = vmovn_s16(vcombine_s16(v[2], v[3]));
			vst1q_s8(codes + i, vcombine_s8(low, high));
			total += vaddlvq_s8(vcombine_s8(low, high));
		}
		if (m->offsets) r->totals[row * blocks + b] = r->scales[row * blocks + b] * (float)total;
	}
}

const struct mq_kernel mq_neondot = {"neondot", quantise, neondot_multiply};

#endif

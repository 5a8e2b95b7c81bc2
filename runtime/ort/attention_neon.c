// Paged attention with NEON, which every 64-bit ARM has.

#if defined(__aarch64__)

#include <arm_neon.h>

#include "attention.h"
#include "product.h"

#define PA_TARGET
#define PA_W 4
#define PA_TILE 4
// Thirty-two registers: rows times vectors of sums, the vectors, one broadcast.
#define PA_KBLOCKS(rt) ((rt) <= 2 ? 2 : 1)
#define PA_VSLICE(rt) 4

typedef float32x4_t vf;
#define v_load vld1q_f32
#define v_store vst1q_f32
#define v_load_half v_load
#define v_store_half v_store
#define v_set vdupq_n_f32
#define v_add vaddq_f32
#define v_sub vsubq_f32
#define v_mul vmulq_f32
#define v_max vmaxq_f32
#define v_fma(a, b, c) vfmaq_f32(c, a, b)
#define v_round vrndnq_f32
#define v_pow2(n) vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23))
#define v_zero_below(x, limit, y) vbslq_f32(vcltq_f32(x, limit), vdupq_n_f32(0), y)

static inline uint16_t neon_half(float x) {
	const float32x4_t v = vminq_f32(vmaxq_f32(vdupq_n_f32(x), vdupq_n_f32(-PA_LARGEST)), vdupq_n_f32(PA_LARGEST));
	return vget_lane_u16(vreinterpret_u16_f16(vcvt_f16_f32(v)), 0);
}

// neon_codes reads four codes, and no more: what follows the last may be another page.
static inline float32x4_t neon_codes(const int8_t *p) {
	uint32_t bits;
	memcpy(&bits, p, sizeof bits);
	const int16x8_t wide = vmovl_s8(vcreate_s8(bits));
	return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}

#define h_put neon_half
#define h_load(p) vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)))

#define PA_NAME(x) neon_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv float
#define kv_put(x) (x)
#define kv_get(x) (x)
#define kv_load v_load
#define kv_load_half v_load_half
#include "attention_kernel.h"

#define PA_NAME(x) neon_half_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv uint16_t
#define kv_put h_put
#define kv_get mq_float
#define kv_load h_load
#define kv_load_half kv_load
#include "attention_kernel.h"

#define PA_NAME(x) neon_bfloat_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv uint16_t
#define kv_put pa_bfloat
#define kv_get pa_wide
#define kv_load(p) vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16))
#define kv_load_half kv_load
#include "attention_kernel.h"

#define PA_NAME(x) neon_code_##x
#define KV_SCALED 1
#define KV_DOTS 0
#define kv int8_t
#define kv_get(x) ((float)(x))
#define kv_load neon_codes
#define kv_load_half kv_load
#include "attention_kernel.h"

const struct pa_kernel pa_neon = {
    "neon",
    PA_BASE,
    {
        {neon_write, neon_attend, neon_merge},
        {neon_half_write, neon_half_attend, neon_half_merge},
        {neon_bfloat_write, neon_bfloat_attend, neon_bfloat_merge},
        {neon_code_write, neon_code_attend, neon_code_merge},
    },
};

#endif

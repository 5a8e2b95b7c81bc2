// Paged attention with NEON, which every 64-bit ARM has.

#if defined(__aarch64__)

#include <arm_neon.h>

#define PA_NAME(x) neon_##x
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

#include "attention_kernel.h"

const struct pa_kernel pa_neon = {"neon", neon_write, neon_attend, neon_merge};

#endif

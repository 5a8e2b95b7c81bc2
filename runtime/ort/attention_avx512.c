// Paged attention with AVX-512.

#if defined(__x86_64__)

#include <immintrin.h>

#include "attention.h"
#include "product.h"

#define PA_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")))
#define PA_W 16
#define PA_TILE 8
// Thirty-two registers: rows times vectors of sums, the vectors, one broadcast.
#define PA_KBLOCKS(rt) ((rt) <= 4 ? 4 : 2)
#define PA_VSLICE(rt) ((rt) <= 4 ? 4 : 2)

typedef __m512 vf;
#define v_load _mm512_loadu_ps
#define v_store _mm512_storeu_ps
#define v_load_half(p) _mm512_maskz_loadu_ps(0xff, p)
#define v_store_half(p, v) _mm512_mask_storeu_ps(p, 0xff, v)
#define v_set _mm512_set1_ps
#define v_add _mm512_add_ps
#define v_sub _mm512_sub_ps
#define v_mul _mm512_mul_ps
#define v_max _mm512_max_ps
#define v_fma _mm512_fmadd_ps
#define v_round(x) _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define v_pow2(n) _mm512_scalef_ps(_mm512_set1_ps(1.0f), n)
#define v_zero_below(x, limit, y) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), y)

PA_TARGET static inline uint16_t avx512_half(float x) {
	const __m128 top = _mm_set_ss(PA_LARGEST), bottom = _mm_set_ss(-PA_LARGEST);
	// The second operand is what a comparison with NaN gives.
	const __m128 v = _mm_max_ss(bottom, _mm_min_ss(top, _mm_set_ss(x)));
	return (uint16_t)_mm_cvtsi128_si32(_mm_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

#define h_put avx512_half
#define h_load(p) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))

#define PA_NAME(x) avx512_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv float
#define kv_put(x) (x)
#define kv_get(x) (x)
#define kv_load v_load
#define kv_load_half v_load_half
#include "attention_kernel.h"

#define PA_NAME(x) avx512_half_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv uint16_t
#define kv_put h_put
#define kv_get mq_float
#define kv_load h_load
#define kv_load_half(p) _mm512_zextps256_ps512(_mm256_cvtph_ps(_mm_loadu_si128((const void *)(p))))
#include "attention_kernel.h"

#define PA_NAME(x) avx512_bfloat_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv uint16_t
#define kv_put pa_bfloat
#define kv_get pa_wide
#define kv_load(p) \
	_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)(p))), 16))
#define kv_load_half(p) \
	_mm512_zextps256_ps512( \
	    _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p))), 16)))
#include "attention_kernel.h"

#define PA_NAME(x) avx512_code_##x
#define KV_SCALED 1
#define KV_DOTS 0
#define kv int8_t
#define kv_get(x) ((float)(x))
#define kv_load(p) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p))))
#define kv_load_half(p) \
	_mm512_zextps256_ps512(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p)))))
#include "attention_kernel.h"

const struct pa_kernel pa_avx512 = {
    "avx512",
    PA_AVX512,
    {
        {avx512_write, avx512_attend, avx512_merge},
        {avx512_half_write, avx512_half_attend, avx512_half_merge},
        {avx512_bfloat_write, avx512_bfloat_attend, avx512_bfloat_merge},
        {avx512_code_write, avx512_code_attend, avx512_code_merge},
    },
};

// With VNNI the functions for codes are others, those for floats the same.
#undef PA_TARGET
#define PA_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma,f16c")))
#undef PA_KBLOCKS
// Integer sums and their floats at once: with eight rows some of these leave the registers once for each group.
#define PA_KBLOCKS(rt) ((rt) <= 2 ? 4 : 2)

#define PA_NAME(x) avx512vnni_code_##x
#define KV_SCALED 1
#define KV_DOTS 1
#define kv int8_t
#define kv_get(x) ((float)(x))
#define kv_load(p) _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(p))))
#include "attention_kernel.h"

const struct pa_kernel pa_avx512vnni = {
    "avx512vnni",
    PA_AVX512,
    {
        {avx512_write, avx512_attend, avx512_merge},
        {avx512_half_write, avx512_half_attend, avx512_half_merge},
        {avx512_bfloat_write, avx512_bfloat_attend, avx512_bfloat_merge},
        {avx512vnni_code_write, avx512vnni_code_attend, avx512vnni_code_merge},
    },
};

#endif

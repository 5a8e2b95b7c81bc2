// Paged attention with AVX2 and FMA.

#if defined(__x86_64__)

#include <immintrin.h>

#include "attention.h"
#include "product.h"

#define PA_TARGET __attribute__((target("avx2,fma,f16c")))
#define PA_W 8
#define PA_TILE 6
// Sixteen registers: rows times vectors of sums, the vectors, one broadcast.
#define PA_KBLOCKS(rt) ((rt) <= 2 ? 2 : 1)
#define PA_VSLICE(rt) ((rt) <= 2 ? 4 : 2)

typedef __m256 vf;
#define v_load _mm256_loadu_ps
#define v_store _mm256_storeu_ps
#define v_load_half v_load
#define v_store_half v_store
#define v_set _mm256_set1_ps
#define v_add _mm256_add_ps
#define v_sub _mm256_sub_ps
#define v_mul _mm256_mul_ps
#define v_max _mm256_max_ps
#define v_fma _mm256_fmadd_ps
#define v_round(x) _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)
#define v_pow2(n) \
	_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23))
#define v_zero_below(x, limit, y) _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), y)

PA_TARGET static inline uint16_t avx2_half(float x) {
	const __m128 top = _mm_set_ss(PA_LARGEST), bottom = _mm_set_ss(-PA_LARGEST);
	// The second operand is what a comparison with NaN gives.
	const __m128 v = _mm_max_ss(bottom, _mm_min_ss(top, _mm_set_ss(x)));
	return (uint16_t)_mm_cvtsi128_si32(_mm_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}

#define h_put avx2_half
#define h_load(p) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))

#define PA_NAME(x) avx2_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv float
#define kv_put(x) (x)
#define kv_get(x) (x)
#define kv_load v_load
#define kv_load_half v_load_half
#include "attention_kernel.h"

#define PA_NAME(x) avx2_half_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv uint16_t
#define kv_put h_put
#define kv_get mq_float
#define kv_load h_load
#define kv_load_half kv_load
#include "attention_kernel.h"

#define PA_NAME(x) avx2_bfloat_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv uint16_t
#define kv_put pa_bfloat
#define kv_get pa_wide
#define kv_load(p) \
	_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)(p))), 16))
#define kv_load_half kv_load
#include "attention_kernel.h"

#define PA_NAME(x) avx2_code_##x
#define KV_SCALED 1
#define KV_DOTS 0
#define kv int8_t
#define kv_get(x) ((float)(x))
#define kv_load(p) _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(p))))
#define kv_load_half kv_load
#include "attention_kernel.h"

const struct pa_kernel pa_avx2 = {
    "avx2",
    PA_AVX2,
    {
        {avx2_write, avx2_attend, avx2_merge},
        {avx2_half_write, avx2_half_attend, avx2_half_merge},
        {avx2_bfloat_write, avx2_bfloat_attend, avx2_bfloat_merge},
        {avx2_code_write, avx2_code_attend, avx2_code_merge},
    },
};

#endif

// Paged attention with AVX-512.

#if defined(__x86_64__)

#include <immintrin.h>

#define PA_NAME(x) avx512_##x
#define PA_TARGET __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")))
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

#include "attention_kernel.h"

const struct pa_kernel pa_avx512 = {"avx512", avx512_write, avx512_attend, avx512_merge};

#endif

// Products with quantised matrices with AVX-512 and its VNNI.

#if defined(__x86_64__)

#include "product_vnni.h"

#define MQ_NAME(x) avx512vnni_##x
#define MQ_TARGET __attribute__((target("avx512vnni,avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")))
#define MQ_W 16
#define MQ_ROWS 8
#define MQ_UNSIGNED 1

typedef __m512i vi;
typedef __m512 vf;
#define i_load(p) _mm512_loadu_si512((const void *)(p))
#define i_set _mm512_set1_epi32
#define i_low(w) _mm512_and_si512(w, _mm512_set1_epi8(15))
#define i_high(w) _mm512_and_si512(_mm512_srli_epi16(w, 4), _mm512_set1_epi8(15))
#define i_plain_low i_low
#define i_plain_high i_high
#define vt vi
#define i_table(t) i_code(_mm512_broadcast_i32x4(_mm_loadu_si128((const void *)(t))))
#define i_pick _mm512_shuffle_epi8
#define i_code(w) _mm512_xor_si512(w, _mm512_set1_epi8(-128))
#define i_dot _mm512_dpbusd_epi32
#define f_scales(p) _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(p)))
#define f_bytes(p) _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)(p))))
#define f_load _mm512_loadu_ps
#define f_store _mm512_storeu_ps
#define f_set _mm512_set1_ps
#define f_mul _mm512_mul_ps
#define f_fma _mm512_fmadd_ps
#define f_zero _mm512_setzero_ps
#define f_of _mm512_cvtepi32_ps

MQ_TARGET static inline vi i_four(const int8_t *x) {
	int32_t v;
	memcpy(&v, x, sizeof v);
	return _mm512_set1_epi32(v);
}

#include "product_dot.h"

const struct mq_kernel mq_avx512vnni = {"avx512vnni", quantise, avx512vnni_multiply};

#endif

// Products with quantised matrices with AVX-VNNI: 256-bit vectors, on CPUs without AVX-512.

#if defined(__x86_64__)

#include "product_vnni.h"

#define MQ_NAME(x) avxvnni_##x
#define MQ_TARGET __attribute__((target("avxvnni,avx2,fma,f16c")))
#define MQ_W 8
#define MQ_ROWS 4
#define MQ_UNSIGNED 1

typedef __m256i vi;
typedef __m256 vf;
#define i_load(p) _mm256_loadu_si256((const void *)(p))
#define i_set _mm256_set1_epi32
#define i_low(w) _mm256_and_si256(w, _mm256_set1_epi8(15))
#define i_high(w) _mm256_and_si256(_mm256_srli_epi16(w, 4), _mm256_set1_epi8(15))
#define i_plain_low i_low
#define i_plain_high i_high
#define vt vi
#define i_table(t) i_code(_mm256_broadcastsi128_si256(_mm_loadu_si128((const void *)(t))))
#define i_pick _mm256_shuffle_epi8
#define i_code(w) _mm256_xor_si256(w, _mm256_set1_epi8(-128))
#define i_dot _mm256_dpbusd_avx_epi32
#define f_scales(p) _mm256_cvtph_ps(_mm_loadu_si128((const void *)(p)))
#define f_bytes(p) _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(p))))
#define f_load _mm256_loadu_ps
#define f_store _mm256_storeu_ps
#define f_set _mm256_set1_ps
#define f_mul _mm256_mul_ps
#define f_fma _mm256_fmadd_ps
#define f_zero _mm256_setzero_ps
#define f_of _mm256_cvtepi32_ps

MQ_TARGET static inline vi i_four(const int8_t *x) {
	int32_t v;
	memcpy(&v, x, sizeof v);
	return _mm256_set1_epi32(v);
}

#include "product_dot.h"

const struct mq_kernel mq_avxvnni = {"avxvnni", quantise, avxvnni_multiply};

#endif

// The instructions of VNNI and AVX-512 that the kernels use, made of AVX2's.
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define AVX2 __attribute__((target("avx2,fma,f16c"))) static inline

AVX2 __m256i emulated_dpbusd(__m256i sum, __m256i w, __m256i x) {
	int32_t s[8];
	uint8_t a[32];
	int8_t b[32];
	memcpy(s, &sum, 32), memcpy(a, &w, 32), memcpy(b, &x, 32);
	for (int i = 0; i < 32; i++) s[i / 4] += (int32_t)a[i] * b[i];
	memcpy(&sum, s, 32);
	return sum;
}
#define _mm256_dpbusd_avx_epi32 emulated_dpbusd

typedef struct { __m256i v[2]; } emulated_int;
typedef struct { __m256 v[2]; } emulated_float;
#define __m512i emulated_int
#define __m512 emulated_float

#define BOTH(type, arguments, name, value)              \
	AVX2 type emulated_##name arguments {                \
		type r;                                           \
		for (int i = 0; i < 2; i++) r.v[i] = value;       \
		return r;                                         \
	}
BOTH(emulated_int, (const void *p), loadi, _mm256_loadu_si256((const __m256i *)p + i))
BOTH(emulated_int, (int x), seti, _mm256_set1_epi32(x))
BOTH(emulated_int, (char x), setb, _mm256_set1_epi8(x))
BOTH(emulated_int, (emulated_int a, emulated_int b), and, _mm256_and_si256(a.v[i], b.v[i]))
BOTH(emulated_int, (emulated_int a, emulated_int b), xor, _mm256_xor_si256(a.v[i], b.v[i]))
BOTH(emulated_int, (emulated_int a, int n), srli, _mm256_srli_epi16(a.v[i], n))
BOTH(emulated_int, (emulated_int s, emulated_int a, emulated_int b), dot, emulated_dpbusd(s.v[i], a.v[i], b.v[i]))
BOTH(emulated_float, (__m256i h), widen,
     _mm256_cvtph_ps(i ? _mm256_extracti128_si256(h, 1) : _mm256_castsi256_si128(h)))
BOTH(emulated_float, (const float *p), loadf, _mm256_loadu_ps(p + 8 * i))
BOTH(emulated_float, (float x), setf, _mm256_set1_ps(x))
BOTH(emulated_float, (void), zero, _mm256_setzero_ps())
BOTH(emulated_float, (emulated_float a, emulated_float b), mul, _mm256_mul_ps(a.v[i], b.v[i]))
BOTH(emulated_float, (emulated_float a, emulated_float b, emulated_float c), fma,
     _mm256_fmadd_ps(a.v[i], b.v[i], c.v[i]))
BOTH(emulated_float, (emulated_int a), of, _mm256_cvtepi32_ps(a.v[i]))
AVX2 void emulated_store(float *p, emulated_float a) { _mm256_storeu_ps(p, a.v[0]), _mm256_storeu_ps(p + 8, a.v[1]); }

#define _mm512_loadu_si512 emulated_loadi
#define _mm512_set1_epi32 emulated_seti
#define _mm512_set1_epi8 emulated_setb
#define _mm512_and_si512 emulated_and
#define _mm512_xor_si512 emulated_xor
#define _mm512_srli_epi16 emulated_srli
#define _mm512_dpbusd_epi32 emulated_dot
#define _mm512_cvtph_ps emulated_widen
#define _mm512_loadu_ps emulated_loadf
#define _mm512_storeu_ps emulated_store
#define _mm512_set1_ps emulated_setf
#define _mm512_mul_ps emulated_mul
#define _mm512_fmadd_ps emulated_fma
#define _mm512_setzero_ps emulated_zero
#define _mm512_cvtepi32_ps emulated_of

// The instructions of VNNI and AVX-512 that the kernels use, made of AVX2's.
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
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
BOTH(emulated_int, (__m128i b), bytes, _mm256_cvtepu8_epi32(i ? _mm_srli_si128(b, 8) : b))
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
#define _mm512_cvtepu8_epi32 emulated_bytes
#define _mm512_loadu_ps emulated_loadf
#define _mm512_storeu_ps emulated_store
#define _mm512_set1_ps emulated_setf
#define _mm512_mul_ps emulated_mul
#define _mm512_fmadd_ps emulated_fma
#define _mm512_setzero_ps emulated_zero
#define _mm512_cvtepi32_ps emulated_of

BOTH(emulated_int, (__m128i b), all, _mm256_broadcastsi128_si256(b))
BOTH(emulated_int, (emulated_int a, emulated_int b), shuffle, _mm256_shuffle_epi8(a.v[i], b.v[i]))
#define _mm512_broadcast_i32x4 emulated_all
#define _mm512_shuffle_epi8 emulated_shuffle
BOTH(emulated_int, (emulated_int a, emulated_int b), sub, _mm256_sub_epi8(a.v[i], b.v[i]))
AVX2 void emulated_storei(void *p, emulated_int a) {
	_mm256_storeu_si256((__m256i *)p, a.v[0]), _mm256_storeu_si256((__m256i *)p + 1, a.v[1]);
}
#define _mm512_load_si512 emulated_loadi
#define _mm512_store_si512 emulated_storei
#define _mm512_sub_epi8 emulated_sub
#define _mm512_load_ps emulated_loadf
#define _mm512_store_ps emulated_store

// The tiles of AMX, made of arrays.
static struct {
	uint8_t palette, start, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
} emulated_shapes;
static uint8_t emulated_tiles[8][16][64];

// emulated_fault ends the program where a CPU would raise an exception.
static inline void emulated_fault(int wrong, const char *what) {
	if (!wrong) return;
	fprintf(stderr, "AMX: %s\n", what);
	abort();
}
static inline void emulated_configure(const void *c) {
	memcpy(&emulated_shapes, c, sizeof emulated_shapes);
	memset(emulated_tiles, 0, sizeof emulated_tiles);
	emulated_fault(emulated_shapes.palette != 1, "a palette that there is not");
	emulated_fault(emulated_shapes.start != 0, "it begins inside an instruction");
	for (int i = 0; i < 14; i++) emulated_fault(emulated_shapes.reserved[i] != 0, "reserved bytes are set");
	for (int t = 0; t < 16; t++) {
		const int rows = emulated_shapes.rows[t], bytes = emulated_shapes.bytes[t];
		emulated_fault(rows > 16 || bytes > 64 || !rows != !bytes, "a tile is larger than 16 rows of 64 bytes");
		emulated_fault(t >= 8 && rows, "there are 8 tiles");
	}
}
static inline void emulated_release(void) { memset(&emulated_shapes, 0, sizeof emulated_shapes); }
// emulated_tile says that an instruction takes a tile, which has to be configured.
static inline void emulated_tile(int t) { emulated_fault(t > 7 || !emulated_shapes.rows[t], "a tile has no shape"); }
static inline void emulated_tile_zero(int t) {
	emulated_tile(t);
	memset(emulated_tiles[t], 0, sizeof emulated_tiles[t]);
}
static inline void emulated_tile_load(int t, const void *p, long stride) {
	emulated_tile(t);
	for (int r = 0; r < emulated_shapes.rows[t]; r++)
		memcpy(emulated_tiles[t][r], (const uint8_t *)p + r * stride, emulated_shapes.bytes[t]);
}
static inline void emulated_tile_store(int t, void *p, long stride) {
	emulated_tile(t);
	for (int r = 0; r < emulated_shapes.rows[t]; r++)
		memcpy((uint8_t *)p + r * stride, emulated_tiles[t][r], emulated_shapes.bytes[t]);
}
static inline void emulated_tile_dot(int to, int a, int b) {
	emulated_tile(to), emulated_tile(a), emulated_tile(b);
	emulated_fault(to == a || to == b || a == b, "an instruction takes a tile twice");
	emulated_fault(emulated_shapes.rows[to] != emulated_shapes.rows[a] ||
	                   emulated_shapes.bytes[to] != emulated_shapes.bytes[b] ||
	                   emulated_shapes.bytes[a] != 4 * emulated_shapes.rows[b] || emulated_shapes.bytes[to] % 4,
	               "tiles do not fit each other");
	for (int r = 0; r < emulated_shapes.rows[to]; r++)
		for (int c = 0; c < emulated_shapes.bytes[to] / 4; c++)
			for (int k = 0; k < emulated_shapes.bytes[a]; k++) {
				int32_t sum;
				memcpy(&sum, &emulated_tiles[to][r][4 * c], 4);
				sum += (int8_t)emulated_tiles[a][r][k] * (int8_t)emulated_tiles[b][k / 4][4 * c + k % 4];
				memcpy(&emulated_tiles[to][r][4 * c], &sum, 4);
			}
}
#undef _tile_loadconfig
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#undef _tile_release
#define _tile_loadconfig emulated_configure
#define _tile_loadd emulated_tile_load
#define _tile_stored emulated_tile_store
#define _tile_zero emulated_tile_zero
#define _tile_dpbssd emulated_tile_dot
#define _tile_release emulated_release

// Measures what this machine can do at most: roof THREADS prints how fast it reads memory, in GB/s, how many billion
// multiply-adds of 8-bit numbers it makes in a second with the widest instruction for them, and that instruction; the
// best of seven of each. Compile it with -march=native.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

enum { BYTES = 512 << 20, WORDS = 4, ROUNDS = 1 << 22 };

typedef uint64_t words __attribute__((vector_size(8 * WORDS), aligned(8)));

static char *memory;
static int threads;
static volatile uint64_t kept;

static void *reader(void *arg) {
	const size_t part = BYTES / (size_t)threads, from = part * (size_t)(intptr_t)arg;
	words a = {0}, b = {0}, c = {0}, d = {0};
	for (size_t i = from; i + 4 * sizeof a <= from + part; i += 4 * sizeof a) {
		const words *w = (const words *)(memory + i);
		a ^= w[0], b ^= w[1], c ^= w[2], d ^= w[3];
		__builtin_prefetch(memory + i + 2048);
		__builtin_prefetch(memory + i + 2048 + 64);
	}
	a ^= b ^ c ^ d;
	for (int i = 0; i < WORDS; i++) kept ^= a[i];
	return NULL;
}

// multiplier makes ROUNDS times EACH multiply-adds. The accumulators of a round do not depend on each other.
#if defined(__AMX_INT8__)
#define INSTRUCTION "tdpbssd"
enum { EACH = 4 * 16 * 16 * 64 / 64, STEP = 64 }; // a round in 64, since one is long
static void *multiplier(void *arg) {
	static const struct {
		uint8_t palette, start, reserved[14];
		uint16_t columns[16];
		uint8_t rows[16];
	} config = {1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};
	static __thread int8_t ones[16 * 64] __attribute__((aligned(64)));
	static __thread int32_t out[16 * 16] __attribute__((aligned(64)));
	(void)arg;
	syscall(SYS_arch_prctl, 0x1023, 18); // ask for the tiles
	memset(ones, 1, sizeof ones);
	_tile_loadconfig(&config);
	_tile_zero(0);
	_tile_zero(1);
	_tile_zero(2);
	_tile_zero(3);
	_tile_loadd(4, ones, 64);
	_tile_loadd(5, ones, 64);
	_tile_loadd(6, ones, 64);
	_tile_loadd(7, ones, 64);
	for (int i = 0; i < ROUNDS; i += STEP) {
		_tile_dpbssd(0, 4, 6);
		_tile_dpbssd(1, 4, 7);
		_tile_dpbssd(2, 5, 6);
		_tile_dpbssd(3, 5, 7);
	}
	_tile_stored(0, out, 64);
	_tile_release();
	kept ^= (uint64_t)out[0];
	return NULL;
}
#else
#if defined(__AVX512VNNI__)
#define INSTRUCTION "vpdpbusd, 512 bits"
typedef __m512i vector;
enum { LANES = 64 };
#define MULTIPLY(a, b, c) _mm512_dpbusd_epi32(a, b, c)
#elif defined(__AVXVNNI__)
#define INSTRUCTION "vpdpbusd, 256 bits"
typedef __m256i vector;
enum { LANES = 32 };
#define MULTIPLY(a, b, c) _mm256_dpbusd_avx_epi32(a, b, c)
#elif defined(__AVX2__)
#define INSTRUCTION "vpmaddubsw, vpaddw"
typedef __m256i vector;
enum { LANES = 32 };
#define MULTIPLY(a, b, c) _mm256_add_epi16(a, _mm256_maddubs_epi16(b, c))
#elif defined(__ARM_FEATURE_MATMUL_INT8)
#define INSTRUCTION "smmla"
typedef int32x4_t vector;
enum { LANES = 32 };
#define MULTIPLY(a, b, c) vmmlaq_s32(a, (int8x16_t)(b), (int8x16_t)(c))
#elif defined(__ARM_FEATURE_DOTPROD)
#define INSTRUCTION "sdot"
typedef int32x4_t vector;
enum { LANES = 16 };
#define MULTIPLY(a, b, c) vdotq_s32(a, (int8x16_t)(b), (int8x16_t)(c))
#else
#define INSTRUCTION "plain C"
typedef int32_t vector;
enum { LANES = 1 };
#define MULTIPLY(a, b, c) ((a) + (b) * (c))
#endif
enum { SUMS = 12, EACH = SUMS * LANES };
static void *multiplier(void *arg) {
	vector sums[SUMS], b, c;
	memset(sums, 0, sizeof sums), memset(&b, 1, sizeof b), memset(&c, 1, sizeof c);
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
#pragma GCC unroll 12
		for (int j = 0; j < SUMS; j++) sums[j] = MULTIPLY(sums[j], b, c);
		__asm__ volatile("" : "+m"(b)); // a compiler must not know what is multiplied
	}
	for (int j = 0; j < SUMS; j++) kept ^= (uint64_t)((const uint8_t *)&sums[j])[0];
	return NULL;
}
#endif

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

// best is the least time of seven that all threads take for the work.
static double best(void *(*work)(void *)) {
	double least = 1e9;
	for (int round = 0; round < 7; round++) {
		pthread_t t[256];
		const double begin = now();
		for (intptr_t i = 0; i < threads; i++) pthread_create(&t[i], NULL, work, (void *)i);
		for (int i = 0; i < threads; i++) pthread_join(t[i], NULL);
		const double took = now() - begin;
		if (took < least) least = took;
	}
	return least;
}

int main(int argc, char **argv) {
	threads = argc > 1 ? atoi(argv[1]) : 1;
	if (threads < 1 || threads > 256) return 2;
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) return 1;
#ifdef MADV_HUGEPAGE
	madvise(memory, BYTES, MADV_HUGEPAGE);
#endif
	memset(memory, 1, BYTES);
	const double reading = best(reader), multiplying = best(multiplier);
	printf("%.1f %.0f %s\n", BYTES / reading / 1e9, 1e-9 * threads * (double)ROUNDS * EACH / multiplying, INSTRUCTION);
	return 0;
}

// A kernel as C: the threads of a block run one after the other, phase by phase, in an order that the test chooses.
#include <stdint.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

// The block that runs, and the order of its threads: stride is odd.
__attribute__((unused)) static u32 block, block_y, blocks_y = 1, stride, shift;

#define KERNEL(name) static void name
#define SHARED static
#define FUNCTION __attribute__((unused)) static inline
#define ALIGNED(n)
#define EACH(t) for (u32 t##_n = 0, t; t##_n < THREADS && (t = (t##_n * stride + shift) % THREADS, 1); t##_n++)
#define BARRIER()
#define BLOCK block
#define BLOCK_Y block_y
#define BLOCKS_Y blocks_y

FUNCTION u32 add_shared(u32 *p, u32 n) {
	u32 old = *p;
	*p += n;
	return old;
}
FUNCTION u64 high_product(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
FUNCTION u32 bits_of(float v) {
	u32 b;
	memcpy(&b, &v, sizeof b);
	return b;
}
FUNCTION float float_of(u32 b) {
	float v;
	memcpy(&v, &b, sizeof v);
	return v;
}

// of_half: a number of 16 bits times 2^112 has the exponent's bias of 32 bits.
FUNCTION float of_half(u32 h) {
	const u32 sign = (h & 0x8000) << 16, rest = (h & 0x7fff) << 13;
	if (rest >= 0x0f800000) return float_of(sign | rest | 0x7f800000);
	return float_of(sign | bits_of(float_of(rest) * float_of(0x77800000)));
}

// to_half rounds to the nearest number, of two as near to the even one.
FUNCTION u32 to_half(float v) {
	const u32 b = bits_of(v), sign = b >> 16 & 0x8000;
	u32 m = b & 0x7fffffff;
	if (m > 0x7f800000) return 0x7fff;
	if (m >= 0x47800000) return sign | 0x7c00;
	// Below 2^-14 numbers are multiples of 2^-24, which those from 1/2 to 1 are in 32 bits.
	if (m < 0x38800000) return sign | (bits_of(float_of(m) + 0.5f) - 0x3f000000);
	m += 0xfff + (m >> 13 & 1);
	return sign | (m - 0x38000000) >> 13;
}

// A kernel as C: the threads of a block run one after the other, phase by phase, in an order that the test chooses.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

// The block that runs, and the order of its threads: stride is odd.
__attribute__((unused)) static u32 block, block_y, blocks_y = 1, stride, shift;

#define KERNEL(name) static void name
#define KERNEL_OF(name, threads, blocks) static void name
#define SHARED static
// UNSET fills what a block of threads shares with what is no number: at first it holds anything.
#define UNSET(memory) memset(memory, 0xff, sizeof memory)
#define FUNCTION __attribute__((unused)) static inline
#define ALIGNED(n)
#define EACH(t) for (u32 t##_n = 0, t; t##_n < THREADS && (t = (t##_n * stride + shift) % THREADS, 1); t##_n++)
#define BARRIER()
#define FENCE()
#define UNROLL
#define UNROLL_BY(n)
#define BLOCK block
#define BLOCK_Y block_y
#define BLOCKS_Y blocks_y

FUNCTION u32 add_shared(u32 *p, u32 n) {
	u32 old = *p;
	*p += n;
	return old;
}
#define add_global(p, n) add_shared(p, n)
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

FUNCTION u32 to_bfloat_bits(float v) {
	const u32 b = bits_of(v);
	if ((b & 0x7fffffff) > 0x7f800000) return b >> 16 | 0x40;
	return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
FUNCTION u32 pack(float low, float high, u32 half) {
	return half ? to_half(low) | to_half(high) << 16 : to_bfloat_bits(low) | to_bfloat_bits(high) << 16;
}
FUNCTION float of_packed(u32 word, u32 i, u32 half) {
	const u32 n = word >> 16 * i & 0xffff;
	return half ? of_half(n) : float_of(n << 16);
}

#define power_of_two(v) exp2f(v)
#define square_root(v) sqrtf(v)
#define read_far(at) (*(at))
#define read_four_far(at) (*(at))

// Warps: what threads keep, and what all threads of a warp do together.
#define KEPT(type, name, n) static type name[MOST_THREADS][n]
#define AT(t) t
#define WARP_BARRIER()

// A copy is made when it begins, or when it is waited for, as late says: a device may do both. Only the threads of one
// block have copies under way.
struct copy_under_way {
	void *to;
	const void *from;
	u32 bytes, group;
};
enum { MOST_COPIES = 1 << 14 };
__attribute__((unused)) static struct copy_under_way copies[MOST_COPIES];
__attribute__((unused)) static u32 late, copies_count, copies_group;

FUNCTION void copy_now(const struct copy_under_way *c) {
	if (c->bytes)
		memcpy(c->to, c->from, 16);
	else
		memset(c->to, 0, 16);
}
FUNCTION void copy_ahead(void *to, const void *from, u32 bytes) {
	const struct copy_under_way c = {to, from, bytes, copies_group};
	if (!late) {
		copy_now(&c);
		return;
	}
	if (copies_count == MOST_COPIES) abort();
	copies[copies_count++] = c;
}
FUNCTION void wait_copies(u32 n) {
	u32 left = 0;
	for (u32 i = 0; i < copies_count; i++) {
		if (copies[i].group + n < copies_group)
			copy_now(&copies[i]);
		else
			copies[left++] = copies[i];
	}
	copies_count = left;
}
#define COPIES_END() copies_group++
#define COPIES_WAIT(n) wait_copies(n)

// load_matrices gives thread t of a warp its words of four matrices, of whose rows at says where they are.
FUNCTION void load_matrices(u32 *to, const u16 *const *at, u32 t, u32 transposed) {
	for (u32 m = 0; m < 4; m++) {
		const u16 *const *rows = at + 8 * m;
		const u32 a = t / 4, b = t % 4 * 2;
		to[m] = transposed ? rows[b][a] | (u32)rows[b + 1][a] << 16 : rows[a][b] | (u32)rows[a][b + 1] << 16;
	}
}
#define LOAD(to, i, t, at, transposed)                                                                     \
	for (u32 t##_warp = 0; t##_warp < THREADS; t##_warp += 32) {                                              \
		const u16 *t##_rows[32];                                                                                \
		for (u32 t = t##_warp; t < t##_warp + 32; t++) t##_rows[t % 32] = (const u16 *)(at);                    \
		for (u32 t = 0; t < 32; t++) load_matrices(&to[t##_warp + t][i], t##_rows, t, transposed);              \
	}
#define LOAD_MATRICES(to, i, t, at) LOAD(to, i, t, at, 0)
#define LOAD_TRANSPOSED(to, i, t, at) LOAD(to, i, t, at, 1)

// multiply adds what thread t of a warp holds of the product, whose factors the threads from a and b on hold, strides
// words apart.
FUNCTION void multiply(float *sum, const u32 *a, u32 a_stride, const u32 *b, u32 b_stride, u32 t, u32 half) {
	for (u32 c = 0; c < 4; c++) {
		const u32 row = t / 4 + c / 2 * 8, column = t % 4 * 2 + c % 2;
		for (u32 k = 0; k < 16; k++) {
			const u32 *const left = a + (row % 8 * 4 + k % 8 / 2) * a_stride + row / 8 + k / 8 * 2;
			const u32 *const right = b + (column * 4 + k % 8 / 2) * b_stride + k / 8;
			sum[c] += of_packed(*left, k % 2, half) * of_packed(*right, k % 2, half);
		}
	}
}
#define MULTIPLY(sum, h, a, i, b, j, half)                                                                      \
	for (u32 warp_t = 0; warp_t < THREADS; warp_t++)                                                               \
		multiply(&sum[warp_t][h], &a[warp_t / 32 * 32][i], sizeof a[0] / 4, &b[warp_t / 32 * 32][j],                  \
		         sizeof b[0] / 4, warp_t % 32, half)

#define QUAD(x, i, result)                                                   \
	for (u32 quad = 0; quad < THREADS; quad += 4) {                             \
		const float q[4] = {x[quad][i], x[quad + 1][i], x[quad + 2][i], x[quad + 3][i]}; \
		const float all_four = result;                                            \
		for (u32 l = 0; l < 4; l++) x[quad + l][i] = all_four;                    \
	}
#define QUAD_MAX(x, i) QUAD(x, i, fmaxf(fmaxf(q[0], q[1]), fmaxf(q[2], q[3])))
#define QUAD_SUM(x, i) QUAD(x, i, (q[0] + q[1]) + (q[2] + q[3]))

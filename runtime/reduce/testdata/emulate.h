// reduce.cu as C: the threads of a block run one after the other, phase by phase, in an order that the test chooses.
#include <stdint.h>
#include <string.h>

#define EMULATED
typedef uint32_t u32;
typedef uint64_t u64;

static u32 block, stride, shift;  // the order of the threads: stride is odd

#define KERNEL(name) static void name
#define SHARED static
#define FUNCTION static inline
#define EACH(t) for (u32 t##_n = 0, t; t##_n < THREADS && (t = (t##_n * stride + shift) % THREADS, 1); t##_n++)
#define BARRIER()
#define BLOCK block

static inline u32 add_shared(u32 *p, u32 n) {
	u32 old = *p;
	*p += n;
	return old;
}
static inline u64 high_product(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
static inline u32 bits_of(float v) {
	u32 b;
	memcpy(&b, &v, sizeof b);
	return b;
}
static inline float float_of(u32 b) {
	float v;
	memcpy(&v, &b, sizeof v);
	return v;
}

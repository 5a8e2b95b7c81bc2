// The kernels of runtime/attend.
#include "emulate.h"
#include "attend.cu"

#include "kernels.h"

typedef void attention(PARAMETERS);

static void run(attention *kernel, unsigned x, unsigned y, void **arguments) {
	stride = 1, blocks_y = y;
	for (block_y = 0; block_y < y; block_y++)
		for (block = 0; block < x; block++)
			kernel(ARGUMENT(const u16 *, 0), ARGUMENT(const u16 *, 1), ARGUMENT(const u16 *, 2), ARGUMENT(u16 *, 3),
			       ARGUMENT(u16 *, 4), ARGUMENT(u16 *, 5), ARGUMENT(const u32 *, 6), ARGUMENT(const u32 *, 7),
			       ARGUMENT(const u32 *, 8), ARGUMENT(const u16 *, 9), ARGUMENT(const u16 *, 10), ARGUMENT(const u16 *, 11),
			       ARGUMENT(const u16 *, 12), ARGUMENT(const u16 *, 13), ARGUMENT(float *, 14), ARGUMENT(u32 *, 15),
			       ARGUMENT(u32, 16), ARGUMENT(u32, 17), ARGUMENT(u32, 18), ARGUMENT(u32, 19), ARGUMENT(u32, 20),
			       ARGUMENT(u32, 21), ARGUMENT(u32, 22), ARGUMENT(u32, 23), ARGUMENT(u32, 24), ARGUMENT(u32, 25),
			       ARGUMENT(float, 26), ARGUMENT(float, 27), ARGUMENT(float, 28));
}

#define OF(name, threads)                                                                       \
	static void run_##name(unsigned x, unsigned y, void **arguments) { run(name, x, y, arguments); } \
	const struct kernel name##_kernel = {#name, threads, run_##name};
ATTENDS(OF)

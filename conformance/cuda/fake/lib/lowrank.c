// The kernels of runtime/lowrank.
#include "emulate.h"
#include "lowrank.cu"

#include "kernels.h"

// GRID runs a statement for each block.
#define GRID(statement)                                \
	stride = 1, blocks_y = y;                            \
	for (block_y = 0; block_y < y; block_y++)            \
		for (block = 0; block < x; block++) statement;

#define COMMON                                                                                                         \
	ARGUMENT(const u64 *, 2), ARGUMENT(u32, 3), ARGUMENT(u32, 4), ARGUMENT(u32, 5), ARGUMENT(u32, 6), ARGUMENT(u32, 7),  \
		ARGUMENT(u32, 8)

static void shrink(unsigned x, unsigned y, void **arguments) {
	GRID(tgi_lora_shrink(ARGUMENT(const u16 *, 0), ARGUMENT(float *, 1), COMMON))
}

static void expand(unsigned x, unsigned y, void **arguments) {
	GRID(tgi_lora_expand(ARGUMENT(u16 *, 0), ARGUMENT(const float *, 1), COMMON))
}

const struct kernel shrink_kernel = {"tgi_lora_shrink", THREADS, shrink};
const struct kernel expand_kernel = {"tgi_lora_expand", THREADS, expand};

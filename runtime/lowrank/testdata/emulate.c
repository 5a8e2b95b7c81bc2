#include "../../kernel/emulate.h"
#include "../../kernel/kerneltest/commands.h"
#include "../lowrank.cu"

// run runs both kernels: x, y, products, adapters, tokens and tile, sizes, flags. Blocks run from the last to the first.
static void run(const u64 *c) {
	const u32 tokens = (u32)c[5], tile = (u32)(c[5] >> 32), in = (u32)c[6], width = (u32)(c[6] >> 32);
	const u32 first = c[7] & 0xff, count = c[7] >> 8 & 0xff, half = c[7] >> 16 & 1, order = (u32)(c[7] >> 32);
	const u32 columns = (width + THREADS - 1) / THREADS;
	stride = order * 2 + 1;
	shift = order * 7;
	blocks_y = order % 5 + 1;
	for (u32 n = tokens * blocks_y; n-- > 0;) {
		block = n % tokens, block_y = n / tokens;
		tgi_lora_shrink((const u16 *)c[1], (float *)c[3], (const u64 *)c[4], tokens, in, first, count, half, tile);
	}
	for (u32 n = tokens * columns; n-- > 0;) {
		block = n % tokens, block_y = n / tokens;
		tgi_lora_expand((u16 *)c[2], (const float *)c[3], (const u64 *)c[4], tokens, width, first, count, half, tile);
	}
}

int main(void) { return serve(run); }

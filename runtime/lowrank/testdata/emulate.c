// A device that runs the kernels: commands come from standard input, answers go to standard output. A command is eight
// numbers, of which the first says what it is.
#include <stdio.h>
#include <stdlib.h>

#include "../../kernel/emulate.h"
#include "../lowrank.cu"

enum { MEMORY, WRITE, READ, RUN };

static void check(int ok) {
	if (!ok) exit(1);
}

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

int main(void) {
	u64 c[8];
	while (fread(c, sizeof c, 1, stdin) == 1) {
		switch (c[0]) {
		case MEMORY: {
			void *p = aligned_alloc(256, c[1] / 256 * 256 + 256);
			check(p && fwrite(&p, sizeof p, 1, stdout) == 1);
			memset(p, 0xff, c[1]);
			break;
		}
		case WRITE: check(fread((void *)c[1], 1, c[2], stdin) == c[2]); break;
		case READ: check(fwrite((void *)c[1], 1, c[2], stdout) == c[2]); break;
		default: run(c);
		}
		fflush(stdout);
	}
	return 0;
}

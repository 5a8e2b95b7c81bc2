// Low-rank adapters on a CUDA device: what lowrank.go defines, to the bit. tgi_lora_shrink makes of each token's x the
// products with its adapter's A, tgi_lora_expand adds those with B to the token's row of y. Tokens of one step may have
// different adapters, or none. A token's result does not depend on those beside it: each is summed by itself, in the
// same order, whatever the tile. LoRA: Hu et al. 2021; many adapters in one batch: Chen et al. 2023, "Punica".
// `make cuda-kernels` compiles this to lowrank.ptx.
//
// How kernels are written, and compiled: package kernel.

enum {
	THREADS = 256,
	WARP = 32,              // threads that multiply a row of A
	ROWS = THREADS / WARP,  // rows of A that a block multiplies at a time
	TILE = 8,               // most tokens that a block computes together, if they have the same adapter
	CHUNK = 8,              // columns that a thread reads at a time
	MAX_RANK = 1024,
	STRIDE = 3 * MAX_RANK,  // of the products of a token: a node has up to three matrices
};

// What an adapter adds to one matrix: scale * x A' B'. lowrank.go writes it.
struct site {
	u64 a;  // address of [rank, in], in rounded up to whole chunks
	u64 b;  // address of [rank, out]
	u32 in, out;
	u32 offset;     // the result goes to out columns of y from this on
	u32 rank;       // 0 where the adapter leaves the matrix alone
	float scale;
	u32 bfloat16;  // the elements of a and b; else 32-bit floats
};

struct ALIGNED(16) four {
	u32 w[4];
};

FUNCTION float of_bfloat(u32 b) { return float_of(b << 16); }

// to_bfloat rounds to the nearest number, of two as near to the even one.
FUNCTION u32 to_bfloat(float v) {
	const u32 b = bits_of(v);
	if ((b & 0x7fffffff) > 0x7f800000) return b >> 16 | 0x40;
	return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}

// of_number is a number of x or y, which are fp16 where half is not 0 and bf16 else.
FUNCTION float of_number(u32 n, u32 half) { return half ? of_half(n) : of_bfloat(n); }

// read_x reads a chunk of a row of x from column c on; zeros behind its end.
FUNCTION void read_x(float *to, const u16 *row, u32 c, u32 in, u32 half) {
	if (in % CHUNK == 0) {
		const struct four v = *(const struct four *)(row + c);
		for (u32 j = 0; j < CHUNK / 2; j++) {
			to[2 * j] = of_number(v.w[j] & 0xffff, half);
			to[2 * j + 1] = of_number(v.w[j] >> 16, half);
		}
		return;
	}
	for (u32 j = 0; j < CHUNK; j++) to[j] = c + j < in ? of_number(row[c + j], half) : 0.0f;
}

// read_a reads a chunk of row r of A.
FUNCTION void read_a(float *to, const struct site *s, u32 r, u32 c) {
	const u64 at = (u64)r * ((s->in + CHUNK - 1) / CHUNK * CHUNK) + c;
	if (s->bfloat16) {
		const struct four v = *(const struct four *)((const u16 *)s->a + at);
		for (u32 j = 0; j < CHUNK / 2; j++) {
			to[2 * j] = float_of(v.w[j] << 16);
			to[2 * j + 1] = float_of(v.w[j] & 0xffff0000);
		}
		return;
	}
	for (u32 i = 0; i < 2; i++) {
		const struct four v = *(const struct four *)((const float *)s->a + at + 4 * i);
		for (u32 j = 0; j < 4; j++) to[4 * i + j] = float_of(v.w[j]);
	}
}

// shared_until returns the end of the tokens that the block of token `from` computes, or `from` if another does. Tokens
// of a tile that follow one another with the same adapter are one block's, so that it is read once; tokens with
// different adapters have a block each, side by side.
FUNCTION u32 shared_until(const u64 *adapters, u32 tokens, u32 from, u32 tile) {
	const u64 adapter = adapters[from];
	if (!adapter || ((from & (tile - 1)) && adapters[from - 1] == adapter)) return from;
	const u32 whole = (from | (tile - 1)) + 1, end = whole < tokens ? whole : tokens;
	u32 to = from + 1;
	while (to < end && adapters[to] == adapter) to++;
	return to;
}

// Blocks: x counts tokens, y shares the rows of A. h has STRIDE numbers for each token, first those of the first
// matrix.
KERNEL(tgi_lora_shrink)
(const u16 *x, float *h, const u64 *adapters, u32 tokens, u32 in, u32 first, u32 count, u32 half, u32 tile) {
	SHARED float part[TILE][THREADS];
	const u32 from = BLOCK, to = shared_until(adapters, tokens, from, tile);
	if (from == to) return;
	const struct site *sites = (const struct site *)adapters[from] + first;
	u32 rows = 0;
	for (u32 s = 0; s < count; s++) rows += sites[s].rank;
	for (u32 row = BLOCK_Y * ROWS; row < rows; row += BLOCKS_Y * ROWS) {
		EACH(t) {
			float sum[TILE] = {0};
			if (row + t / WARP < rows) {
				u32 s = 0, r = row + t / WARP;
				while (r >= sites[s].rank) r -= sites[s++].rank;
				for (u32 c = t % WARP * CHUNK; c < in; c += WARP * CHUNK) {
					float a[CHUNK], v[CHUNK];
					read_a(a, &sites[s], r, c);
					for (u32 i = 0; i < TILE; i++) {
						if (from + i >= to) continue;
						read_x(v, x + (u64)(from + i) * in, c, in, half);
						for (u32 j = 0; j < CHUNK; j++) sum[i] = sum[i] + v[j] * a[j];
					}
				}
			}
			for (u32 i = 0; i < TILE; i++) part[i][t] = sum[i];
		}
		BARRIER();
		EACH(t) {
			const u32 i = t / ROWS;
			if (t < TILE * ROWS && from + i < to && row + t % ROWS < rows) {
				u32 s = 0, r = row + t % ROWS;
				while (r >= sites[s].rank) r -= sites[s++].rank;
				float sum[4] = {0};
				for (u32 k = 0; k < WARP; k++) sum[k % 4] = sum[k % 4] + part[i][t % ROWS * WARP + k];
				const float all = (sum[0] + sum[1]) + (sum[2] + sum[3]);
				h[(u64)(from + i) * STRIDE + row + t % ROWS] = all * sites[s].scale;
			}
		}
		BARRIER();
	}
}

// Blocks: x counts tokens, y tiles of THREADS columns.
KERNEL(tgi_lora_expand)
(u16 *y, const float *h, const u64 *adapters, u32 tokens, u32 width, u32 first, u32 count, u32 half, u32 tile) {
	const u32 from = BLOCK, to = shared_until(adapters, tokens, from, tile);
	if (from == to) return;
	const struct site *sites = (const struct site *)adapters[from] + first;
	EACH(t) {
		const u32 column = BLOCK_Y * THREADS + t;
		u32 s = 0, row = 0;
		while (s < count && column - sites[s].offset >= sites[s].out) row += sites[s++].rank;
		if (column < width && s < count && sites[s].rank) {
			const u32 own_column = column - sites[s].offset;
			const float *own = h + (u64)from * STRIDE + row;
			float sum[TILE] = {0};
			for (u32 r = 0; r < sites[s].rank; r++) {
				const u64 at = (u64)r * sites[s].out + own_column;
				const float b = sites[s].bfloat16 ? of_bfloat(((const u16 *)sites[s].b)[at]) : ((const float *)sites[s].b)[at];
				for (u32 i = 0; i < TILE; i++) {
					if (from + i < to) sum[i] = sum[i] + own[(u64)i * STRIDE + r] * b;
				}
			}
			for (u32 i = 0; i < TILE; i++) {
				if (from + i >= to) continue;
				u16 *at = y + (u64)(from + i) * width + column;
				const float v = of_number(*at, half) + sum[i];
				*at = (u16)(half ? to_half(v) : to_bfloat(v));
			}
		}
	}
}

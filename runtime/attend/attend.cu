// Attention of steps that decode, on a CUDA device: one new token for each sequence, whose keys and values lie in
// blocks of a cache. A block of threads computes the heads of queries that share a head of keys, for a part of one
// sequence's keys: it normalises and rotates the new token's heads, writes its key and value to the cache, multiplies
// queries and keys, and then probabilities and values, on tensor cores, in tiles of 16 keys that are copied ahead.
// Where the keys are in several parts, the block that ends last puts these together. Attention with running maxima
// and sums: Dao et al. 2022, "FlashAttention"; parts: Dao et al. 2023, "Flash-Decoding". `make cuda-kernels` compiles
// this to attend.ptx.
//
// How kernels are written, and compiled: package kernel.

enum {
	MOST_THREADS = 128,
	WARP = 32,
	ROWS = 16,   // heads of queries that a block computes
	KEYS = 16,   // keys of a tile
	CHUNK = 8,   // numbers that are read together
	PAD = 8,     // numbers behind a row in shared memory: rows begin in different banks
	MOST = 256,  // numbers of a head
};
#define THREADS threads  // of the kernel that calls; its warps take tiles of keys in turns

#define LOWEST -1e30f  // below all scores; a finite number, so that no difference is undefined
#define LOG2_E 1.44269504088896f

struct ALIGNED(16) four {
	u32 w[4];
};

// PARAMETERS of all kernels. Queries, keys and values of a token are q_stride and kv_stride numbers behind those of
// the token before. Blocks of the grid: x counts heads of keys and tiles of their queries in each sequence, y the
// parts.
#define PARAMETERS                                                                                                   \
	const u16 *q, const u16 *k, const u16 *v, u16 *out, u16 *keys, u16 *values, const u32 *table, const u32 *past,     \
		const u32 *slots, const u16 *cos, const u16 *sin, const u16 *q_norm, const u16 *k_norm, const u16 *sinks,         \
		float *parts, u32 *arrived, u32 q_stride, u32 kv_stride, u32 heads, u32 kv_heads, u32 page, u32 width, u32 turned, \
		u32 interleaved, u32 window, u32 splits, float scale, float cap, float epsilon
#define ARGUMENTS                                                                                                      \
	q, k, v, out, keys, values, table, past, slots, cos, sin, q_norm, k_norm, sinks, parts, arrived, q_stride, kv_stride, \
		heads, kv_heads, page, width, turned, interleaved, window, splits, scale, cap, epsilon

// load reads the four words of a chunk of numbers of 16 bits.
FUNCTION void load(u32 *words, const u16 *from) {
	const struct four v = *(const struct four *)from;
	UNROLL
	for (u32 i = 0; i < 4; i++) words[i] = v.w[i];
}

// widen makes floats of the words of a chunk.
FUNCTION void widen(float *to, const u32 *words, const u32 half) {
	UNROLL
	for (u32 i = 0; i < CHUNK / 2; i++) {
		to[2 * i] = half ? of_half(words[i] & 0xffff) : float_of(words[i] << 16);
		to[2 * i + 1] = half ? of_half(words[i] >> 16) : float_of(words[i] & 0xffff0000);
	}
}

// of_number is a number of 16 bits.
FUNCTION float of_number(u32 n, const u32 half) { return half ? of_half(n) : float_of(n << 16); }

// normalise multiplies a chunk by its weights and by the length of the head, of whose chunks sums holds the squares.
FUNCTION void normalise(float *x, const u16 *weights, const float *sums, float epsilon, const u32 hd, const u32 half) {
	u32 words[4];
	float sum = 0, w[CHUNK];
	load(words, weights);
	for (u32 i = 0; i < hd / CHUNK; i++) sum = sum + sums[i];
	const float by = 1.0f / square_root(sum / (float)hd + epsilon);
	widen(w, words, half);
	UNROLL
	for (u32 i = 0; i < CHUNK; i++) x[i] = x[i] * by * w[i];
}

// place_of_turn is where the cosines, or sines, of chunk c of a head are in those of its position. Pairs are
// neighbours, or half of what is turned apart.
FUNCTION u32 place_of_turn(u32 c, u32 turned, u32 interleaved) {
	const u32 at = c * CHUNK;
	return interleaved ? at / 2 : at < turned / 2 ? at : at - turned / 2;
}

// load_turn reads the cosines, or sines, of a chunk: half as many where pairs are neighbours.
FUNCTION void load_turn(u32 *words, const u16 *table, u32 c, u32 turned, u32 interleaved) {
	const u16 *const from = table + place_of_turn(c, turned, interleaved);
	if (!interleaved) {
		load(words, from);
		return;
	}
	words[0] = *(const u32 *)from, words[1] = *(const u32 *)(from + 2);
	words[2] = words[3] = 0;
}

// turn rotates chunk c of a head, whose partner is the chunk that it is paired with.
FUNCTION void turn(float *x, const float *partner, const u32 *cosine_words, const u32 *sine_words, u32 c, u32 turned,
                   u32 interleaved, const u32 half) {
	float cosines[CHUNK], sines[CHUNK];
	widen(cosines, cosine_words, half);
	widen(sines, sine_words, half);
	if (interleaved) {
		UNROLL
		for (u32 i = 0; i < CHUNK / 2; i++) {
			const float even = x[2 * i], odd = x[2 * i + 1];
			x[2 * i] = even * cosines[i] - odd * sines[i];
			x[2 * i + 1] = odd * cosines[i] + even * sines[i];
		}
		return;
	}
	UNROLL
	for (u32 i = 0; i < CHUNK; i++) {
		const float across = partner[i] * sines[i];
		x[i] = x[i] * cosines[i] + (c * CHUNK < turned / 2 ? -across : across);
	}
}

// copy_tile begins to copy a tile of keys, or values, to a warp's shared memory: zeros for what the query does not see,
// and for the new token, whose own are put there later.
FUNCTION void copy_tile(u16 *to, const u16 *cache, const u32 *table, u32 tile, u32 end, u32 low, u32 at, u32 page,
                        u32 kv_heads, u32 kv, u32 lane, const u32 hd) {
	const u32 stride = kv_heads * hd;
	const u16 *from = cache + kv * hd;
	if (tile < end) from = from + ((u64)table[tile * KEYS / page] * page + tile * KEYS % page) * stride;
	UNROLL
	for (u32 i = 0; i < KEYS * hd / CHUNK / WARP; i++) {
		const u32 c = i * WARP + lane, r = c / (hd / CHUNK), column = c % (hd / CHUNK) * CHUNK;
		const u32 position = tile * KEYS + r, seen = tile < end && position >= low && position < at;
		copy_ahead(to + r * (hd + PAD) + column, from + (seen ? r * stride : 0) + column, seen ? 16 : 0);
	}
}

// bounded keeps scores between -cap and cap: the hyperbolic tangent.
FUNCTION float bounded(float x, float cap) {
	return cap * (1.0f - 2.0f / (power_of_two(x / cap * (2 * LOG2_E)) + 1.0f));
}

// Sizes in shared memory, in numbers of 16 bits: each warp has a tile of keys and one of values.
#define TILE(hd) (KEYS * ((hd) + PAD))
#define RING(hd, threads) ((threads) / WARP * 2 * TILE(hd))
#define SUMS(hd, threads) ((ROWS + 1) * (hd) / CHUNK + 2 * ROWS * (threads) / WARP)
#define MEMORY(hd, threads) (RING(hd, threads) + ROWS * ((hd) + PAD) + 2 * ((hd) + PAD) + 2 * SUMS(hd, threads))

// COPY begins to copy the warps' next tiles of keys, which are at 0, or values, at 1.
#define COPY(which, cache, step)                                                                                     \
	EACH(t) {                                                                                                            \
		if ((step) < steps)                                                                                                \
			copy_tile(ring + (t / WARP * 2 + which) * TILE(hd), cache, table + (u64)row * width,                             \
			          begin + (step)*warps + t / WARP, end, low, at, page, kv_heads, kv, t % WARP, hd);                      \
	}                                                                                                                    \
	COPIES_END();

FUNCTION void attend(PARAMETERS, u16 *memory, u32 *last, const u32 hd, const u32 half, const u32 threads) {
	u16 *const ring = memory, *const queries = ring + RING(hd, threads), *const fresh = queries + ROWS * (hd + PAD);
	float *const sums = (float *)(fresh + 2 * (hd + PAD)), *const merged = (float *)ring;
	const u32 warps = threads / WARP, chunks = hd / CHUNK;
	const u32 group = heads / kv_heads, tiles = (group + ROWS - 1) / ROWS, row = BLOCK / tiles / kv_heads;
	const u32 kv = BLOCK / tiles % kv_heads, first = BLOCK % tiles * ROWS, at = past[row], newest = at / KEYS;
	const u32 n = group - first < ROWS ? group - first : ROWS, owner = BLOCK_Y + 1 == splits;
	KEPT(float, acc, MOST / 2);  // of rows t/4 and t/4+8 of the warp, columns t%4*2 and the next, each 8 columns
	KEPT(float, score, 8);       // of these rows, keys t%4*2 and the next, of both halves of a tile
	KEPT(float, top, 2);
	KEPT(float, most, 2);
	KEPT(float, sum, 2);
	KEPT(u32, query, MOST / 4);
	KEPT(u32, share, 4);
	KEPT(u32, tile, 4);
	KEPT(u32, ahead, 16);  // of a thread's first chunk: its words, its partner's, cosines and sines
	// The new token's heads, in chunks: queries, and in the last part the key and the value too. What memory has of the
	// first ones is asked for before anything else.
	const u16 *const own_q = q + (u64)row * q_stride + (kv * group + first) * hd;
	const u16 *const own_k = k + (u64)row * kv_stride + kv * hd, *const own_v = v + (u64)row * kv_stride + kv * hd;
	const u16 *const cosines = cos + (u64)at * (turned / 2), *const sines = sin + (u64)at * (turned / 2);
	const u32 tasks = (n + 2 * owner) * chunks, behind = turned / 2 / CHUNK;
#define HEAD(r) ((r) < n ? own_q + (r)*hd : (r) == n ? own_k : own_v)
#define PARTNER(c) ((c) < behind ? (c) + behind : (c)-behind)
	EACH(t) {
		if (t < tasks) {
			const u16 *const from = HEAD(t / chunks);
			load(&ahead[AT(t)][0], from + t % chunks * CHUNK);
			if (t % chunks * CHUNK < turned) {
				load(&ahead[AT(t)][4], from + PARTNER(t % chunks) * CHUNK);
				load_turn(&ahead[AT(t)][8], cosines, t % chunks, turned, interleaved);
				load_turn(&ahead[AT(t)][12], sines, t % chunks, turned, interleaved);
			}
		}
	}
	const u32 low = window && at >= window ? at + 1 - window : 0, all = newest + 1 - low / KEYS;
	const u32 begin = low / KEYS + all * BLOCK_Y / splits, end = low / KEYS + all * (BLOCK_Y + 1) / splits;
	const u32 steps = (end - begin + warps - 1) / warps;
	COPY(0, keys, 0)
	COPY(1, values, 0)
	if (q_norm) {
		EACH(t) {
			for (u32 task = t; task < (n + owner) * chunks; task += THREADS) {
				u32 words[4];
				float x[CHUNK], squares = 0;
				UNROLL
				for (u32 i = 0; i < 4; i++) words[i] = ahead[AT(t)][i];
				if (task != t) load(words, HEAD(task / chunks) + task % chunks * CHUNK);
				widen(x, words, half);
				UNROLL
				for (u32 i = 0; i < CHUNK; i++) squares = squares + x[i] * x[i];
				sums[task] = squares;
			}
		}
		BARRIER();
	}
	EACH(t) {
		const u32 slot = slots[row];
		for (u32 c = t; c < (ROWS - n) * chunks; c += THREADS) {
			const struct four none = {{0, 0, 0, 0}};
			*(struct four *)(queries + (n + c / chunks) * (hd + PAD) + c % chunks * CHUNK) = none;
		}
		for (u32 task = t; task < tasks; task += THREADS) {
			const u32 r = task / chunks, c = task % chunks;
			const u16 *const from = HEAD(r), *const norm = r < n ? q_norm : k_norm;
			u32 words[16];
			UNROLL
			for (u32 i = 0; i < 16; i++) words[i] = ahead[AT(t)][i];
			if (task != t) {
				load(words, from + c * CHUNK);
				if (c * CHUNK < turned) {
					load(words + 4, from + PARTNER(c) * CHUNK);
					load_turn(words + 8, cosines, c, turned, interleaved);
					load_turn(words + 12, sines, c, turned, interleaved);
				}
			}
			if (r <= n && (norm || c * CHUNK < turned)) {
				float x[CHUNK], other[CHUNK];
				widen(x, words, half);
				if (norm) normalise(x, norm + c * CHUNK, sums + r * chunks, epsilon, hd, half);
				if (c * CHUNK < turned) {
					widen(other, words + 4, half);
					if (norm) normalise(other, norm + PARTNER(c) * CHUNK, sums + r * chunks, epsilon, hd, half);
					turn(x, other, words + 8, words + 12, c, turned, interleaved, half);
				}
				UNROLL
				for (u32 i = 0; i < CHUNK / 2; i++) words[i] = pack(x[2 * i], x[2 * i + 1], half);
			}
			const struct four packed = {{words[0], words[1], words[2], words[3]}};
			if (r >= n && !(slot >> 31)) {
				u16 *const cache = r == n ? keys : values;
				*(struct four *)(cache + ((u64)slot * kv_heads + kv) * hd + c * CHUNK) = packed;
			}
			*(struct four *)((r < n ? queries + r * (hd + PAD) : fresh + (r - n) * (hd + PAD)) + c * CHUNK) = packed;
		}
		UNROLL
		for (u32 i = 0; i < hd / 2; i++) acc[AT(t)][i] = 0;
		UNROLL
		for (u32 i = 0; i < 2; i++) sum[AT(t)][i] = 0, most[AT(t)][i] = LOWEST;
	}
	BARRIER();
	if (hd < 128) {
		UNROLL
		for (u32 i = 0; i < hd / 16; i++)
			LOAD_MATRICES(query, 4 * i, t, queries + (t & 15) * (hd + PAD) + 16 * i + (t >> 4 & 1) * 8);
	}
	const float factor = scale * LOG2_E;
	for (u32 i = 0; i < steps; i++) {
		COPIES_WAIT(1);
		EACH(t) {
			if (owner && begin + i * warps + t / WARP == newest && t % WARP < chunks)
				*(struct four *)(ring + t / WARP * 2 * TILE(hd) + at % KEYS * (hd + PAD) + t % WARP * CHUNK) =
					*(const struct four *)(fresh + t % WARP * CHUNK);
			UNROLL
			for (u32 j = 0; j < 8; j++) score[AT(t)][j] = 0;
		}
		WARP_BARRIER();
		UNROLL
		for (u32 d = 0; d < hd / 16; d++) {
			if (hd >= 128) LOAD_MATRICES(query, 0, t, queries + (t & 15) * (hd + PAD) + 16 * d + (t >> 4 & 1) * 8);
			LOAD_MATRICES(tile, 0, t, ring + t / WARP * 2 * TILE(hd) +
			              ((t & 7) + (t >> 4 & 1) * 8) * (hd + PAD) + 16 * d + (t >> 3 & 1) * 8);
			MULTIPLY(score, 0, query, (hd >= 128 ? 0 : 4 * d), tile, 0, half);
			MULTIPLY(score, 4, query, (hd >= 128 ? 0 : 4 * d), tile, 2, half);
		}
		WARP_BARRIER();
		COPY(0, keys, i + 1)
		EACH(t) {
			const u32 number = begin + i * warps + t / WARP;
			UNROLL
			for (u32 j = 0; j < 2; j++) top[AT(t)][j] = most[AT(t)][j];
			UNROLL
			for (u32 j = 0; j < 8; j++) {
				const u32 position = number * KEYS + j / 4 * 8 + (t & 3) * 2 + (j & 1);
				float x = score[AT(t)][j] * factor;
				if (cap != 0) x = bounded(score[AT(t)][j] * scale, cap) * LOG2_E;
				if (number >= end || position < low || position > at) x = float_of(0xff800000);
				score[AT(t)][j] = x;
				if (x > top[AT(t)][j / 2 % 2]) top[AT(t)][j / 2 % 2] = x;
			}
		}
		QUAD_MAX(top, 0);
		QUAD_MAX(top, 1);
		COPIES_WAIT(1);
		EACH(t) {
			float fall[2];
			UNROLL
			for (u32 j = 0; j < 2; j++) {
				fall[j] = power_of_two(most[AT(t)][j] - top[AT(t)][j]);
				most[AT(t)][j] = top[AT(t)][j];
				sum[AT(t)][j] = sum[AT(t)][j] * fall[j];
			}
			UNROLL
			for (u32 j = 0; j < 4; j++) {
				const float a = power_of_two(score[AT(t)][2 * j] - most[AT(t)][j % 2]);
				const float b = power_of_two(score[AT(t)][2 * j + 1] - most[AT(t)][j % 2]);
				sum[AT(t)][j % 2] = sum[AT(t)][j % 2] + (a + b);
				share[AT(t)][j] = pack(a, b, half);
			}
			if (fall[0] != 1 || fall[1] != 1) {
				UNROLL
				for (u32 j = 0; j < hd / 2; j++) acc[AT(t)][j] = acc[AT(t)][j] * fall[j / 2 % 2];
			}
			if (owner && begin + i * warps + t / WARP == newest && t % WARP < chunks)
				*(struct four *)(ring + (t / WARP * 2 + 1) * TILE(hd) + at % KEYS * (hd + PAD) + t % WARP * CHUNK) =
					*(const struct four *)(fresh + hd + PAD + t % WARP * CHUNK);
		}
		WARP_BARRIER();
		UNROLL
		for (u32 d = 0; d < hd / 16; d++) {
			LOAD_TRANSPOSED(tile, 0, t, ring + (t / WARP * 2 + 1) * TILE(hd) + (t & 15) * (hd + PAD) + 16 * d +
			                (t >> 4 & 1) * 8);
			MULTIPLY(acc, 8 * d, share, 0, tile, 0, half);
			MULTIPLY(acc, 8 * d + 4, share, 0, tile, 2, half);
		}
		WARP_BARRIER();
		COPY(1, values, i + 1)
	}
	QUAD_SUM(sum, 0);
	QUAD_SUM(sum, 1);
	COPIES_WAIT(0);
	BARRIER();
	// The warps' rows, and behind the squares their maxima and sums.
	float *const state = sums + (ROWS + 1) * chunks;
	EACH(t) {
		UNROLL
		for (u32 j = 0; j < 2; j++) {
			const u32 r = t % WARP / 4 + 8 * j;
			if (r >= n) continue;
			UNROLL
			for (u32 d = 0; d < chunks; d++) {
				float *const to = merged + (t / WARP * ROWS + r) * hd + d * CHUNK + (t & 3) * 2;
				to[0] = acc[AT(t)][4 * d + 2 * j];
				to[1] = acc[AT(t)][4 * d + 2 * j + 1];
			}
			if (t % 4) continue;
			state[(t / WARP * ROWS + r) * 2] = most[AT(t)][j];
			state[(t / WARP * ROWS + r) * 2 + 1] = sum[AT(t)][j];
		}
	}
	BARRIER();
	const u32 items = n * hd / 4;
	u16 *const own_out = out + ((u64)row * heads + kv * group + first) * hd;
	float *const part = parts + ((u64)BLOCK * splits + BLOCK_Y) * (ROWS * (hd + 2));
	EACH(t) {
		for (u32 c = t; c < items; c += THREADS) {
			const u32 r = c / (hd / 4), to = 4 * c;
			float high = state[2 * r], all_sums = 0, x[4] = {0, 0, 0, 0};
			UNROLL
			for (u32 w = 1; w < warps; w++) high = state[(w * ROWS + r) * 2] > high ? state[(w * ROWS + r) * 2] : high;
			UNROLL
			for (u32 w = 0; w < warps; w++) {
				const float by = power_of_two(state[(w * ROWS + r) * 2] - high);
				all_sums = all_sums + state[(w * ROWS + r) * 2 + 1] * by;
				UNROLL
				for (u32 j = 0; j < 4; j++) x[j] = x[j] + merged[w * ROWS * hd + to + j] * by;
			}
			if (splits > 1) {
				struct four bits;
				UNROLL
				for (u32 j = 0; j < 4; j++) bits.w[j] = bits_of(x[j]);
				*(struct four *)(part + to) = bits;
				if (to % hd == 0) part[ROWS * hd + 2 * r] = high, part[ROWS * hd + 2 * r + 1] = all_sums;
				continue;
			}
			if (sinks) {
				const float sink = of_number(sinks[kv * group + first + r], half) * LOG2_E, over = sink > high ? sink : high;
				const float by = power_of_two(high - over);
				all_sums = all_sums * by + power_of_two(sink - over);
				UNROLL
				for (u32 j = 0; j < 4; j++) x[j] = x[j] * by;
			}
			u32 *const words = (u32 *)(own_out + to);
			words[0] = pack(x[0] / all_sums, x[1] / all_sums, half);
			words[1] = pack(x[2] / all_sums, x[3] / all_sums, half);
		}
	}
	if (splits == 1) return;
	BARRIER();
	EACH(t) {
		if (t == 0) {
			FENCE();
			*last = add_global(&arrived[BLOCK], 1) + 1 == splits;
			if (*last) arrived[BLOCK] = 0;
			FENCE();
		}
	}
	BARRIER();
	if (!*last) return;
	// The parts of all blocks: their maxima and sums, then their rows.
	const float *const own_parts = parts + (u64)BLOCK * splits * (ROWS * (hd + 2));
	float *const highs = merged, *const counts = merged + n * splits;
	EACH(t) {
		for (u32 c = t; c < n * splits; c += THREADS) {
			const float *const from = own_parts + (u64)(c / n) * (ROWS * (hd + 2)) + ROWS * hd + c % n * 2;
			highs[c] = read_far(from);
			counts[c] = read_far(from + 1);
		}
	}
	BARRIER();
	EACH(t) {
		for (u32 c = t; c < items; c += THREADS) {
			const u32 r = c / (hd / 4);
			float high = sinks ? of_number(sinks[kv * group + first + r], half) * LOG2_E : LOWEST, sink = high;
			UNROLL_BY(8)
			for (u32 s = 0; s < splits; s++) high = highs[s * n + r] > high ? highs[s * n + r] : high;
			float x[4] = {0, 0, 0, 0}, all_sums = sinks ? power_of_two(sink - high) : 0;
			UNROLL_BY(8)
			for (u32 s = 0; s < splits; s++) {
				const struct four bits = read_four_far((const struct four *)(own_parts + (u64)s * (ROWS * (hd + 2)) + 4 * c));
				const float by = power_of_two(highs[s * n + r] - high);
				all_sums = all_sums + counts[s * n + r] * by;
				UNROLL
				for (u32 j = 0; j < 4; j++) x[j] = x[j] + float_of(bits.w[j]) * by;
			}
			u32 *const words = (u32 *)(own_out + 4 * c);
			words[0] = pack(x[0] / all_sums, x[1] / all_sums, half);
			words[1] = pack(x[2] / all_sums, x[3] / all_sums, half);
		}
	}
}

// ATTEND is a kernel of so many threads, of which each processor is to hold some blocks.
#define ATTEND(name, hd, half, threads, blocks)                            \
	KERNEL_OF(name, threads, blocks)(PARAMETERS) {                           \
		SHARED ALIGNED(16) u16 memory[MEMORY(hd, threads)];                    \
		SHARED u32 last;                                                       \
		UNSET(memory);                                                         \
		attend(ARGUMENTS, memory, &last, hd, half, threads);                   \
	}

ATTEND(tgi_attend_16, 16, 0, 128, 4)
ATTEND(tgi_attend_32, 32, 0, 128, 4)
ATTEND(tgi_attend_64, 64, 0, 128, 4)
ATTEND(tgi_attend_80, 80, 0, 128, 4)
ATTEND(tgi_attend_96, 96, 0, 128, 4)
ATTEND(tgi_attend_128, 128, 0, 128, 4)
ATTEND(tgi_attend_256, 256, 0, 64, 4)
ATTEND(tgi_attend_16_half, 16, 1, 128, 4)
ATTEND(tgi_attend_32_half, 32, 1, 128, 4)
ATTEND(tgi_attend_64_half, 64, 1, 128, 4)
ATTEND(tgi_attend_80_half, 80, 1, 128, 4)
ATTEND(tgi_attend_96_half, 96, 1, 128, 4)
ATTEND(tgi_attend_128_half, 128, 1, 128, 4)
ATTEND(tgi_attend_256_half, 256, 1, 64, 4)

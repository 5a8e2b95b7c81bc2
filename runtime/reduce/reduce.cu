// The reduction of rows of logits (llm.Reduction, llm.Reduced) on a CUDA device: reduce.go says what it computes, and
// both give the same bits. One block of THREADS threads answers one question. `make cuda-kernels` compiles this to
// reduce.ptx.
//
// How kernels are written, and compiled: package kernel.

enum {
	THREADS = 1024,
	CANDIDATES = 256,
	TILE = 1024,       // tokens whose weights have a sum of their own
	TILES = 1024,      // most of them: reduce.MaxVocab
	WARP = 32,         // threads that sum a tile
	SLOTS = THREADS,   // tokens that are sorted
	BINS = 2048,
	NONE = 0xffffffff, // no key, or no such part of a question
};

// What is asked: see pack.go. Places count words from the beginning of the request.
struct question {
	u64 draw;        // the fraction times 2^64
	u32 row;         // of the logits
	float scale;
	u32 draws, raw;  // 0 or 1
	u32 edits, edit_count;
	u32 mask;        // its place, or NONE
	u32 scratch;     // the row of scratch memory for the processed row, or NONE if it is the row itself
};

struct edits {
	u32 kind, pairs, count;  // pairs is their place
};

struct edit {
	u32 token;
	float value;
};

struct token {
	u32 id;
	float logit, raw;
};

struct answer {
	u64 sum, raw_sum;
	float top, raw_top;
	u32 count, ties;
	struct token drawn;
	u32 unused;
	struct token candidates[CANDIDATES];
};

// live is false for NaN.
FUNCTION int live(float v) { return v > float_of(0xff800000); }

// key_of returns a number that is the smaller, the greater v is, which must be live; the two zeros have the same.
FUNCTION u32 key_of(float v) {
	u32 b = bits_of(v + 0.0f);
	return b >> 31 ? b : 0x7fffffff - b;
}

// logit_of is the inverse of key_of; -Inf for NONE.
FUNCTION float logit_of(u32 key) {
	return key == NONE ? float_of(0xff800000) : float_of(key >> 31 ? key : 0x7fffffff - key);
}

// rank_of ranks tokens: the smaller, the better.
FUNCTION u64 rank_of(float v, u32 token) { return (u64)key_of(v) << 32 | token; }

// weight returns e^((v-top)*scale) in units of 2^-43, rounded down; 0 for NaN and for what is negligible.
FUNCTION u64 weight(float v, float top, float scale) {
	float d = (v - top) * scale;
	if (!(d > -31.0f)) return 0;
	float t = d * float_of(0x3fb8aa3b);  // log2(e)
	float f = t + 12582912.0f;           // 1.5 * 2^23 leaves it rounded to an integer
	float r = t - (f - 12582912.0f);
	float p = float_of(0x3aaf844b) * r;
	p = (p + float_of(0x3c1e5fb6)) * r;
	p = (p + float_of(0x3d6357b6)) * r;
	p = (p + float_of(0x3e75fd25)) * r;
	p = (p + float_of(0x3f317218)) * r;
	p = p + 1.0f;
	return (u64)(float_of(bits_of(p) + (bits_of(f) << 23)) * 8796093022208.0f);
}

FUNCTION float edited(float v, u32 kind, float value) {
	if (kind == 0) return v + value;
	return v < 0 ? v * value : v / value;
}

KERNEL(tgi_reduce)
(const float *logits, const u32 *request, float *scratch, struct answer *answers, u32 vocab) {
	SHARED u64 slots[SLOTS], part[THREADS], raw_part[THREADS], tiles[TILES], prefix, place;
	SHARED u32 bins[BINS], found, ties, need, which, drawn;
	u32 *const keys = bins, *const raw_keys = bins + THREADS;  // until the bound is known

	const struct question *q = (const struct question *)request + BLOCK;
	struct answer *a = answers + BLOCK;
	const float *own = logits + (u64)q->row * vocab;
	const float *x = own;
	const u32 tile_count = (vocab + TILE - 1) / TILE;

	// The processed row.
	if (q->scratch != NONE) {
		float *y = scratch + (u64)q->scratch * vocab;
		EACH(t) {
			for (u32 i = t; i < vocab; i += THREADS) y[i] = own[i];
		}
		BARRIER();
		for (u32 n = 0; n < q->edit_count; n++) {
			const struct edits *e = (const struct edits *)(request + q->edits) + n;
			const struct edit *pairs = (const struct edit *)(request + e->pairs);
			EACH(t) {
				for (u32 i = t; i < e->count; i += THREADS) {
					y[pairs[i].token] = edited(y[pairs[i].token], e->kind, pairs[i].value);
				}
			}
			BARRIER();
		}
		if (q->mask != NONE) {
			const u32 *mask = request + q->mask;
			EACH(t) {
				for (u32 i = t; i < vocab; i += THREADS) {
					if (!(mask[i / 32] >> (i % 32) & 1)) y[i] = float_of(0xff800000);
				}
			}
			BARRIER();
		}
		x = y;
	}

	// Each thread's best token, and how many have a logit.
	EACH(t) {
		u32 best = NONE, raw_best = NONE, count = 0;
		for (u32 i = t; i < vocab; i += THREADS) {
			float v = x[i];
			if (live(v)) {
				u32 k = key_of(v);
				best = k < best ? k : best;
				count++;
			}
			if (q->raw && live(own[i])) {
				u32 k = key_of(own[i]);
				raw_best = k < raw_best ? k : raw_best;
			}
		}
		keys[t] = best;
		raw_keys[t] = raw_best;
		part[t] = count;
		raw_part[t] = 0;
		if (t == 0) found = ties = 0;
	}
	BARRIER();
	for (u32 half = THREADS / 2; half > 0; half /= 2) {
		EACH(t) {
			if (t < half) {
				part[t] += part[t + half];
				raw_keys[t] = raw_keys[t] < raw_keys[t + half] ? raw_keys[t] : raw_keys[t + half];
			}
		}
		BARRIER();
	}
	// So many threads' best that there are CANDIDATES tokens at least as good as the last of them: a bitonic sort.
	for (u32 size = 2; size <= THREADS; size *= 2) {
		for (u32 step = size / 2; step > 0; step /= 2) {
			EACH(t) {
				u32 other = t ^ step;
				if (other > t && (keys[t] > keys[other]) == ((t & size) == 0)) {
					u32 k = keys[t];
					keys[t] = keys[other];
					keys[other] = k;
				}
			}
			BARRIER();
		}
	}
	const u32 count = (u32)part[0], bound = keys[CANDIDATES - 1];
	const float top = logit_of(keys[0]), raw_top = logit_of(raw_keys[0]);
	BARRIER();

	// The weights of each tile, a warp for a tile, and the tokens within the bound.
	for (u32 first = 0; first < tile_count; first += THREADS / WARP) {
		EACH(t) {
			u64 sum = 0, raw_sum = 0;
			const u32 begin = (first + t / WARP) * TILE;
			for (u32 j = t % WARP; j < TILE; j += WARP) {
				const u32 i = begin + j;
				if (i >= vocab) break;
				const float v = x[i];
				sum += weight(v, top, q->scale);
				if (live(v) && key_of(v) <= bound) {
					const u32 at = add_shared(&found, 1u);
					if (at < SLOTS) slots[at] = rank_of(v, i);
				}
				if (q->raw) raw_sum += weight(own[i], raw_top, 1.0f);
			}
			part[t] = sum;
			raw_part[t] += raw_sum;
		}
		BARRIER();
		EACH(t) {
			if (t % WARP == 0 && first + t / WARP < tile_count) {
				u64 sum = 0;
				for (u32 j = 0; j < WARP; j++) sum += part[t + j];
				tiles[first + t / WARP] = sum;
			}
		}
		BARRIER();
	}
	EACH(t) { part[t] = t < tile_count ? tiles[t] : 0; }
	BARRIER();
	for (u32 half = THREADS / 2; half > 0; half /= 2) {
		EACH(t) {
			if (t < half) {
				part[t] += part[t + half];
				raw_part[t] += raw_part[t + half];
			}
		}
		BARRIER();
	}
	const u64 sum = part[0], raw_sum = raw_part[0];
	u32 held = found;
	BARRIER();

	// Where more tokens are within the bound than can be sorted, as with many equals: the rank of the last candidate by
	// its bits, most significant first, and then what is not behind it.
	if (held > SLOTS) {
		EACH(t) {
			if (t == 0) {
				prefix = 0;
				need = CANDIDATES;
				found = 0;
			}
		}
		BARRIER();
		for (u32 end = 64; end > 0;) {
			const u32 width = end > 9 ? 11 : 9, shift = end - width;
			EACH(t) {
				for (u32 b = t; b < BINS; b += THREADS) bins[b] = 0;
			}
			BARRIER();
			EACH(t) {
				for (u32 i = t; i < vocab; i += THREADS) {
					if (!live(x[i])) continue;
					const u64 rank = rank_of(x[i], i);
					if (end == 64 || (rank ^ prefix) >> end == 0) add_shared(&bins[rank >> shift & ((1u << width) - 1)], 1u);
				}
			}
			BARRIER();
			EACH(t) {
				if (t == 0) {
					u32 b = 0;
					for (; bins[b] < need; b++) need -= bins[b];
					prefix |= (u64)b << shift;
				}
			}
			BARRIER();
			end = shift;
		}
		EACH(t) {
			u32 equal = 0;
			for (u32 i = t; i < vocab; i += THREADS) {
				if (!live(x[i])) continue;
				const u64 rank = rank_of(x[i], i);
				if (rank <= prefix) {
					slots[add_shared(&found, 1u)] = rank;
				} else if (rank >> 32 == prefix >> 32) {
					equal++;
				}
			}
			add_shared(&ties, equal);
		}
		BARRIER();
		held = CANDIDATES;
	}

	// The candidates in order.
	EACH(t) {
		if (t >= held) slots[t] = ~(u64)0;
	}
	BARRIER();
	for (u32 size = 2; size <= SLOTS; size *= 2) {
		for (u32 step = size / 2; step > 0; step /= 2) {
			EACH(t) {
				u32 other = t ^ step;
				if (other > t && (slots[t] > slots[other]) == ((t & size) == 0)) {
					u64 r = slots[t];
					slots[t] = slots[other];
					slots[other] = r;
				}
			}
			BARRIER();
		}
	}
	EACH(t) {
		if (t < CANDIDATES && t < count) {
			const u32 id = (u32)slots[t];
			const struct token c = {id, x[id], own[id]};
			a->candidates[t] = c;
		} else if (t >= CANDIDATES && t < held && slots[t] >> 32 == slots[CANDIDATES - 1] >> 32) {
			add_shared(&ties, 1u);
		}
	}
	BARRIER();

	// The drawn token: its tile, then its place there.
	const int draws = q->draws && sum > 0;
	if (draws) {
		EACH(t) {
			if (t == 0) {
				u64 at = high_product(q->draw, sum);
				u32 n = 0;
				for (; at >= tiles[n]; n++) at -= tiles[n];
				place = at;
				which = n;
			}
		}
		BARRIER();
		EACH(t) {
			const u32 i = which * TILE + t;
			part[t] = i < vocab ? weight(x[i], top, q->scale) : 0;
		}
		BARRIER();
		EACH(t) {
			if (t < WARP) {
				u64 w = 0;
				for (u32 j = 0; j < TILE / WARP; j++) w += part[t * (TILE / WARP) + j];
				raw_part[t] = w;
			}
		}
		BARRIER();
		EACH(t) {
			if (t == 0) {
				u64 at = place;
				u32 n = 0;
				for (; at >= raw_part[n]; n++) at -= raw_part[n];
				for (n *= TILE / WARP; at >= part[n]; n++) at -= part[n];
				drawn = which * TILE + n;
			}
		}
		BARRIER();
	}
	EACH(t) {
		if (t == 0) {
			const struct token none = {0, 0, 0};
			const struct token one = {drawn, draws ? x[drawn] : 0, draws ? own[drawn] : 0};
			a->sum = sum;
			a->raw_sum = q->raw ? raw_sum : 0;
			a->top = top;
			a->raw_top = q->raw ? raw_top : 0;
			a->count = count;
			a->ties = ties;
			a->drawn = draws ? one : none;
			a->unused = 0;
		}
	}
}

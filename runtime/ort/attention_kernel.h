// The kernels of attention.h, written once over short vectors. A file includes
// this one for each form of the cache. It defines first:
//
//	PA_NAME(x)       the name of x in this variant
//	kv, kv_put(x), kv_get(x)  a number of the cache, a float as one, and one as a float
//	kv_load(p), kv_load_half(p)  PA_W of them, or 8, as a vector
//	KV_SCALED        numbers of the cache are codes with scales
//	KV_DOTS          their sums are those of attention_dots.h
//	h_put(x), h_load(p)  a float as a 16-bit float, PA_W of those as a vector
//	PA_TARGET        function attribute that admits the instructions
//	PA_W             floats of a vector: 4, 8 or 16
//	PA_TILE          most query rows held in registers at once
//	PA_KBLOCKS(rt), PA_VSLICE(rt)  key blocks, value vectors taken at once with rt rows
//	vf and v_load, v_store, v_load_half, v_store_half, v_set, v_add, v_sub,
//	v_mul, v_max, v_fma(a,b,c)=a*b+c, v_round, v_pow2, v_zero_below(x,limit,y)
//
// Every sum that decides a result is written with v_fma, so that all widths of
// tile round alike.

#include <math.h>
#include <string.h>

#include "attention.h"
#include "elementary.h"

#ifndef PA_UNROLL
#if defined(__clang__)
#define PA_UNROLL _Pragma("unroll")
#else
#define PA_UNROLL _Pragma("GCC unroll 16")
#endif
#define PA_INLINE PA_TARGET static inline __attribute__((always_inline))
#endif

// pa_span is the length of one head of a block, in numbers; codes are followed by the scales, PA_BLOCK for each group.
PA_INLINE int PA_NAME(span)(int hd) {
	return hd * PA_BLOCK + (KV_SCALED ? pa_groups(hd) * PA_BLOCK * (int)sizeof(uint16_t) : 0);
}

// scales are those of a group of one head's numbers, one for each of the block's tokens.
PA_INLINE uint16_t *PA_NAME(scales)(const kv *head, int hd, int group) {
	return (uint16_t *)(head + hd * PA_BLOCK) + group * PA_BLOCK;
}

// exp for x <= 0, zero below the smallest normal result (-inf included):
// 2^n * e^f with |f| <= ln2/2 and the polynomial of Cephes' expf.
PA_INLINE vf PA_NAME(exp)(vf x) {
	const vf limit = v_set(-87.33654f);
	vf c = v_max(x, limit);
	vf n = v_round(v_mul(c, v_set(1.44269504088896341f)));
	vf f = v_fma(n, v_set(-0.693359375f), c);
	f = v_fma(n, v_set(2.12194440e-4f), f);
	vf p = v_set(1.9875691500e-4f);
	p = v_fma(p, f, v_set(1.3981999507e-3f));
	p = v_fma(p, f, v_set(8.3334519073e-3f));
	p = v_fma(p, f, v_set(4.1665795894e-2f));
	p = v_fma(p, f, v_set(1.6666665459e-1f));
	p = v_fma(p, f, v_set(5.0000001201e-1f));
	p = v_add(v_fma(p, v_mul(f, f), f), v_set(1.0f));
	return v_zero_below(x, limit, v_mul(p, v_pow2(n)));
}

PA_INLINE void PA_NAME(normalise)(const struct pa_call *c, float *x, const float *norm) {
	const int hd = c->head_size;
	float lane[8] = {0}, sum = 0;
	for (int d = 0; d < hd; d += 8)
		for (int j = 0; j < 8; j++) lane[j] += x[d + j] * x[d + j];
	for (int j = 0; j < 8; j++) sum += lane[j];
	const float inv = 1.0f / sqrtf(sum / (float)hd + c->epsilon);
	for (int d = 0; d < hd; d++) x[d] = x[d] * inv * norm[d];
}

// prepare copies one head to dst, normalised and rotated as the call asks.
PA_TARGET static void PA_NAME(prepare)(const struct pa_call *c, const float *src, const float *norm, int64_t turn,
                                       float *dst) {
	const int half = c->half;
	memcpy(dst, src, (size_t)c->head_size * sizeof(float));
	if (norm && !c->norm_after) PA_NAME(normalise)(c, dst, norm);
	if (c->cos) {
		const float *cs = c->cos + turn * half, *sn = c->sin + turn * half;
		const int step = c->interleaved ? 2 : 1, apart = c->interleaved ? 1 : half;
		for (int i = 0; i < half; i++) {
			const float a = dst[i * step], b = dst[i * step + apart];
			dst[i * step] = a * cs[i] - b * sn[i];
			dst[i * step + apart] = b * cs[i] + a * sn[i];
		}
	}
	if (norm && c->norm_after) PA_NAME(normalise)(c, dst, norm);
}

// put stores a token's numbers of one head, step apart.
#if KV_SCALED
PA_TARGET static void PA_NAME(put)(kv *head, int hd, int at, int first, int step, const float *x) {
	for (int g = 0; g < pa_groups(hd); g++) {
		const int from = g * PA_GROUP, n = hd - from < PA_GROUP ? hd - from : PA_GROUP;
		float top = 0;
		int wrong = 0;
		for (int i = 0; i < n; i++) {
			const float a = fabsf(x[from + i]);
			top = a > top ? a : top;
			wrong |= a != a;
		}
		// What is not a number makes the group so, by its scale.
		const uint16_t half = h_put(wrong ? NAN : top / PA_CODES);
		const float scale = mq_float(half);
		PA_NAME(scales)(head, hd, g)[at] = half;
		for (int i = 0; i < n; i++) {
			float v = scale > 0 ? x[from + i] / scale : 0;
			v = v > PA_CODES ? PA_CODES : v < -PA_CODES ? -PA_CODES : v;
			head[first + (from + i) * step] = (kv)rintf(v);
		}
	}
}
#else
PA_TARGET static void PA_NAME(put)(kv *head, int hd, int at, int first, int step, const float *x) {
	(void)at;
	for (int d = 0; d < hd; d++) head[first + d * step] = kv_put(x[d]);
}
#endif

PA_TARGET static void PA_NAME(write)(const struct pa_call *c, int64_t from, int64_t to) {
	const int hd = c->head_size;
	float key[PA_MAX_HEAD];
	for (int64_t t = from; t < to; t++) {
		const int32_t slot = c->slots[t];
		if (slot < 0) continue;
		const int64_t block = slot / PA_BLOCK;
		const int at = slot % PA_BLOCK;
		for (int h = 0; h < c->kv_heads; h++) {
			const int64_t base = (block * c->kv_heads + h) * PA_NAME(span)(hd);
			PA_NAME(prepare)(c, c->k + t * c->k_stride + (int64_t)h * hd, c->k_norm, pa_turn(c, t), key);
			PA_NAME(put)((kv *)c->k_cache + base, hd, at, at, PA_BLOCK, key);
			if (c->latent) continue;  // values are in the keys
			PA_NAME(put)((kv *)c->v_cache + base, hd, at, at * hd, 1, c->v + t * c->v_stride + (int64_t)h * hd);
		}
	}
}

#if KV_DOTS
#include "attention_dots.h"
#else
// The queries of a tile are floats, [head_size][rows].
typedef float PA_NAME(query);
enum { PA_NAME(whole) = 0 };  // an element of a tile's queries is one number

// take puts query row i of a tile of rt rows at its place.
PA_INLINE void PA_NAME(take)(const float *head, int hd, float scale, int rt, int i, PA_NAME(query) *q) {
	for (int d = 0; d < hd; d++) q[d * rt + i] = head[d] * scale;
}

// scores of nb blocks of keys for rt query rows: out[i][16*b+p]. What lies at
// ahead, and at later, is fetched meanwhile: blocks lie scattered, so the
// processor does not foresee the next one.
PA_INLINE void PA_NAME(scores)(const int rt, const int nb, const PA_NAME(query) *q, const kv *const *keys,
                               const kv *const *ahead, const kv *const *later, int hd, float (*out)[PA_CHUNK]) {
	enum { PER = PA_BLOCK / PA_W, ROWS = PA_LINE / PA_BLOCK / sizeof(kv) };
	vf acc[8][4 * PER];
	PA_UNROLL for (int i = 0; i < rt; i++) {
		PA_UNROLL for (int j = 0; j < nb * PER; j++) acc[i][j] = v_set(0);
	}
	for (int from = 0; from < hd; from += KV_SCALED ? PA_GROUP : hd) {
		const int end = KV_SCALED && hd - from > PA_GROUP ? from + PA_GROUP : hd;
#if KV_SCALED
		vf scale[4 * PER];
		PA_UNROLL for (int j = 0; j < nb * PER; j++)
			scale[j] = h_load(PA_NAME(scales)(keys[j / PER], hd, from / PA_GROUP) + (j % PER) * PA_W);
		PA_UNROLL for (int j = 0; j < nb; j++) {
			__builtin_prefetch(PA_NAME(scales)(ahead[j], hd, from / PA_GROUP));
			__builtin_prefetch(PA_NAME(scales)(later[j], hd, from / PA_GROUP), 0, 2);
		}
#endif
		for (int line = from; line < end; line += ROWS) {
			PA_UNROLL for (int j = 0; j < nb; j++) {
				__builtin_prefetch(ahead[j] + line * PA_BLOCK);
				__builtin_prefetch(later[j] + line * PA_BLOCK, 0, 2);
			}
			PA_UNROLL for (int d = line; d < line + ROWS; d++) {
				vf k[4 * PER];
				PA_UNROLL for (int j = 0; j < nb * PER; j++)
					k[j] = kv_load(keys[j / PER] + d * PA_BLOCK + (j % PER) * PA_W);
#if KV_SCALED
				PA_UNROLL for (int j = 0; j < nb * PER; j++) k[j] = v_mul(k[j], scale[j]);
#endif
				PA_UNROLL for (int i = 0; i < rt; i++) {
					const vf x = v_set(q[d * rt + i]);
					PA_UNROLL for (int j = 0; j < nb * PER; j++) acc[i][j] = v_fma(k[j], x, acc[i][j]);
				}
			}
		}
	}
	PA_UNROLL for (int i = 0; i < rt; i++) {
		PA_UNROLL for (int j = 0; j < nb * PER; j++) v_store(out[i] + j * PA_W, acc[i][j]);
	}
}
#endif

// softmax turns the scores of a row into weights relative to their maximum and
// stores that maximum and the weights' sum. Scores outside [lo, hi) count as
// absent; the row spans [begin, end), multiples of the block size.
PA_INLINE void PA_NAME(softmax)(float *s, int begin, int end, int lo, int hi, float *max, float *sum) {
	if (lo < begin) lo = begin;
	if (hi > end) hi = end;
	if (lo >= hi) {
		memset(s + begin, 0, (size_t)(end - begin) * sizeof(float));
		*max = -INFINITY;
		*sum = 0;
		return;
	}
	for (int p = begin; p < lo; p++) s[p] = -INFINITY;
	for (int p = hi; p < end; p++) s[p] = -INFINITY;
	float lane[PA_W];
	vf m = v_load(s + begin);
	for (int p = begin + PA_W; p < end; p += PA_W) m = v_max(m, v_load(s + p));
	v_store(lane, m);
	float top = lane[0];
	for (int j = 1; j < PA_W; j++) top = lane[j] > top ? lane[j] : top;
	vf total = v_set(0);
	m = v_set(top);
	for (int p = begin; p < end; p += PA_W) {
		const vf w = PA_NAME(exp)(v_sub(v_load(s + p), m));
		v_store(s + p, w);
		total = v_add(total, w);
	}
	v_store(lane, total);
	float all = 0;
	for (int j = 0; j < PA_W; j++) all += lane[j];
	*max = top;
	*sum = all;
}

// bend caps the scores [begin, end) of a row and adds to them what their distance to key own is worth: by slope, or
// by a table of the distances up to farthest on both sides.
PA_TARGET static __attribute__((noinline)) void PA_NAME(bend)(float *s, int begin, int end, float cap, float slope,
                                                              const float *distances, int farthest, int own) {
	if (cap)
		for (int p = begin; p < end; p++) s[p] = cap * hyperbolic_tangent(s[p] / cap);
	if (slope)
		for (int p = begin; p < end; p++) s[p] += slope * (float)(p - own);
	if (distances)
		for (int p = begin; p < end; p++) {
			const int d = p - own;
			s[p] += distances[(d < -farthest ? -farthest : d > farthest ? farthest : d) + farthest];
		}
}

#if !KV_DOTS
// values adds up n vectors of weighted values for rt rows over the keys
// [begin, end) of a chunk. half says that the one vector has only 8 floats.
PA_INLINE void PA_NAME(values)(const int rt, const int n, const int half, float (*w)[PA_CHUNK],
                               const kv *const *values, const kv *const *later, int hd, int begin, int end, int x,
                               float *out, int stride) {
	enum { LINE = PA_LINE / sizeof(kv) };
	vf acc[8][4];
	PA_UNROLL for (int i = 0; i < rt; i++) {
		PA_UNROLL for (int j = 0; j < n; j++) acc[i][j] = v_set(0);
	}
	for (int p = begin; p < end;) {
		const int stop = (p / PA_BLOCK + 1) * PA_BLOCK < end ? (p / PA_BLOCK + 1) * PA_BLOCK : end;
		const kv *v = values[p / PA_BLOCK] + (p % PA_BLOCK) * hd + x;
		const int64_t ahead = stop < end ? values[stop / PA_BLOCK] - values[p / PA_BLOCK] : 0;
		const int64_t keys = later[p / PA_BLOCK] - values[p / PA_BLOCK];
#if KV_SCALED
		float scale[4][PA_BLOCK];
		PA_UNROLL for (int j = 0; j < n; j++) {
			const uint16_t *s = PA_NAME(scales)(values[p / PA_BLOCK], hd, (x + j * PA_W) / PA_GROUP);
			PA_UNROLL for (int i = 0; i < PA_BLOCK; i += PA_W) v_store(scale[j] + i, h_load(s + i));
		}
#endif
		for (; p < stop; p++, v += hd) {
			vf y[4];
			PA_UNROLL for (int j = 0; j < n; j++) y[j] = half ? kv_load_half(v) : kv_load(v + j * PA_W);
#if KV_SCALED
			PA_UNROLL for (int j = 0; j < n; j++) y[j] = v_mul(y[j], v_set(scale[j][p % PA_BLOCK]));
#endif
			PA_UNROLL for (int j = 0; j < n; j += LINE / PA_W) {
				__builtin_prefetch(v + ahead + j * PA_W);
				__builtin_prefetch(v + keys + j * PA_W, 0, 2);
			}
			PA_UNROLL for (int i = 0; i < rt; i++) {
				const vf a = v_set(w[i][p]);
				PA_UNROLL for (int j = 0; j < n; j++) acc[i][j] = v_fma(y[j], a, acc[i][j]);
			}
		}
	}
	PA_UNROLL for (int i = 0; i < rt; i++) {
		PA_UNROLL for (int j = 0; j < n; j++) {
			if (half)
				v_store_half(out + i * stride + x, acc[i][j]);
			else
				v_store(out + i * stride + x + j * PA_W, acc[i][j]);
		}
	}
}
#endif

// latents adds up weighted values that are the last size of the hd rows of keys, [PA_BLOCK] in each block, for rt rows
// over the keys [0, end) of a chunk. Each of the 16 places of a block has a sum of its own, so that the order does not
// depend on end.
PA_INLINE void PA_NAME(latents)(const int rt, float (*w)[PA_CHUNK], const kv *const *keys, int hd, int size, int end,
                                float *out, int stride) {
	enum { PER = PA_BLOCK / PA_W };
	const int whole = end / PA_BLOCK, rest = end % PA_BLOCK;
	for (int d = 0, row = hd - size; d < size; d++, row++) {
		vf acc[8][PER];
		PA_UNROLL for (int i = 0; i < rt; i++) {
			PA_UNROLL for (int j = 0; j < PER; j++) acc[i][j] = v_set(0);
		}
		for (int b = 0; b < whole; b++) {
			vf y[PER];
			PA_UNROLL for (int j = 0; j < PER; j++) y[j] = kv_load(keys[b] + row * PA_BLOCK + j * PA_W);
#if KV_SCALED
			const uint16_t *scale = PA_NAME(scales)(keys[b], hd, row / PA_GROUP);
			PA_UNROLL for (int j = 0; j < PER; j++) y[j] = v_mul(y[j], h_load(scale + j * PA_W));
#endif
			PA_UNROLL for (int i = 0; i < rt; i++) {
				PA_UNROLL for (int j = 0; j < PER; j++)
					acc[i][j] = v_fma(y[j], v_load(w[i] + b * PA_BLOCK + j * PA_W), acc[i][j]);
			}
		}
		if (rest) {  // what is behind the last key may be anything, so it is not read
			float last[PA_BLOCK] = {0};
			for (int p = 0; p < rest; p++) last[p] = kv_get(keys[whole][row * PA_BLOCK + p]);
#if KV_SCALED
			for (int p = 0; p < rest; p++) last[p] *= mq_float(PA_NAME(scales)(keys[whole], hd, row / PA_GROUP)[p]);
#endif
			PA_UNROLL for (int i = 0; i < rt; i++) {
				PA_UNROLL for (int j = 0; j < PER; j++)
					acc[i][j] = v_fma(v_load(last + j * PA_W), v_load(w[i] + whole * PA_BLOCK + j * PA_W), acc[i][j]);
			}
		}
		PA_UNROLL for (int i = 0; i < rt; i++) {
			float lane[PA_BLOCK], sum = 0;
			PA_UNROLL for (int j = 0; j < PER; j++) v_store(lane + j * PA_W, acc[i][j]);
			for (int j = 0; j < PA_BLOCK; j++) sum += lane[j];
			out[i * stride + d] = sum;
		}
	}
}

// pa_tile is some query rows against one chunk.
struct PA_NAME(tile) {
	const PA_NAME(query) *q;
	const kv *const *keys;       // of each block of the chunk
	const kv *const *values;     // of each block of the chunk; null if they are rows of the keys
	const kv *const *later;      // what to fetch of each block while there are scores: its values
	const kv *const *next;       // what to fetch while there are weighted values: the next chunk's keys
	const int *lo, *hi;          // keys that each row sees, relative to the chunk
	const float *slopes;         // of each row; null without
	const float *const *distances;  // of each row; null without
	const int *own;              // key of each row's own token, relative to the chunk
	int farthest;
	float cap;
	int begin, end;              // keys that any row sees, relative to the chunk
	int head_size, value_size;
	float *out;  // partial results, pa_stride apart
};

PA_INLINE void PA_NAME(tile_of)(const int rt, const struct PA_NAME(tile) *t) {
	float s[8][PA_CHUNK] __attribute__((aligned(64)));
	const int hd = t->head_size, vd = t->value_size, stride = pa_stride(vd);
	const int first = t->begin / PA_BLOCK, last = (t->end + PA_BLOCK - 1) / PA_BLOCK;
	int b = first;
	for (; b + PA_KBLOCKS(rt) <= last; b += PA_KBLOCKS(rt)) {
		const kv *const *ahead = t->keys + (b + 2 * PA_KBLOCKS(rt) <= last ? b + PA_KBLOCKS(rt) : b);
		PA_NAME(scores)(rt, PA_KBLOCKS(rt), t->q, t->keys + b, ahead, t->later + b, hd,
		                (float (*)[PA_CHUNK])(s[0] + b * PA_BLOCK));
	}
	for (; b < last; b++)
		PA_NAME(scores)(rt, 1, t->q, t->keys + b, t->keys + b, t->later + b, hd,
		                (float (*)[PA_CHUNK])(s[0] + b * PA_BLOCK));
	for (int i = 0; i < rt; i++) {
		float *tail = t->out + i * stride + vd;
		if (t->cap || t->slopes || t->distances)
			PA_NAME(bend)(s[i], first * PA_BLOCK, last * PA_BLOCK, t->cap, t->slopes ? t->slopes[i] : 0,
			              t->distances ? t->distances[i] : 0, t->farthest, t->own[i]);
		PA_NAME(softmax)(s[i], first * PA_BLOCK, last * PA_BLOCK, t->lo[i], t->hi[i], tail, tail + 1);
	}
	if (!t->values) {
		PA_NAME(latents)(rt, s, t->keys, hd, vd, t->end, t->out, stride);
		return;
	}
	int x = 0;
#if KV_DOTS
	for (; x < hd; x += PA_GROUP)
		PA_NAME(values)(rt, s, t->values, t->next, hd, t->begin, t->end, x, t->out, stride);
#else
	for (; x + PA_VSLICE(rt) * PA_W <= hd; x += PA_VSLICE(rt) * PA_W)
		PA_NAME(values)(rt, PA_VSLICE(rt), 0, s, t->values, t->next, hd, t->begin, t->end, x, t->out, stride);
	for (; x + PA_W <= hd; x += PA_W)
		PA_NAME(values)(rt, 1, 0, s, t->values, t->next, hd, t->begin, t->end, x, t->out, stride);
	if (x < hd) PA_NAME(values)(rt, 1, 1, s, t->values, t->next, hd, t->begin, t->end, x, t->out, stride);
#endif
}

PA_TARGET static void PA_NAME(run_tile)(int rows, const struct PA_NAME(tile) *t) {
	switch (rows) {
	case 1: PA_NAME(tile_of)(1, t); break;
	case 2: PA_NAME(tile_of)(2, t); break;
	case 3: PA_NAME(tile_of)(3, t); break;
	case 4: PA_NAME(tile_of)(4, t); break;
#if PA_TILE > 4
	case 5: PA_NAME(tile_of)(5, t); break;
	case 6: PA_NAME(tile_of)(6, t); break;
#endif
#if PA_TILE > 6
	case 7: PA_NAME(tile_of)(7, t); break;
	case 8: PA_NAME(tile_of)(8, t); break;
#endif
	}
}

// add merges one partial result into a running one.
PA_TARGET static __attribute__((noinline)) void PA_NAME(add)(float *into, const float *part, int hd) {
	if (part[hd + 1] == 0) return;
	if (into[hd + 1] == 0) {
		memcpy(into, part, (size_t)(hd + 2) * sizeof(float));
		return;
	}
	const float top = into[hd] > part[hd] ? into[hd] : part[hd];
	const float a = expf(into[hd] - top), b = expf(part[hd] - top);
	for (int d = 0; d < hd; d++) into[d] = into[d] * a + part[d] * b;
	into[hd] = top;
	into[hd + 1] = into[hd + 1] * a + part[hd + 1] * b;
}

// finish writes the result of a query row.
PA_TARGET static __attribute__((noinline)) void PA_NAME(finish)(const struct pa_call *c, const struct pa_unit *u, int i,
                                                                const float *state) {
	const int hd = c->value_size, r = u->first + i;
	const int64_t t = c->cu_seqlens[u->row] + r / c->group, head = (int64_t)u->kv_head * c->group + r % c->group;
	float *out = c->out + (t * c->heads + head) * hd;
	float inv = 1.0f / state[hd + 1];
	if (c->sinks) {
		const float top = state[hd] > c->sinks[head] ? state[hd] : c->sinks[head], own = expf(state[hd] - top);
		inv = own / (state[hd + 1] * own + expf(c->sinks[head] - top));
	}
	for (int d = 0; d < hd; d++) out[d] = state[d] * inv;
}

PA_TARGET static void PA_NAME(merge)(const struct pa_call *c, const struct pa_unit *u) {
	const int hd = c->value_size, stride = pa_stride(hd);
	float state[PA_MAX_HEAD + 8];
	for (int i = 0; i < u->count; i++) {
		state[hd + 1] = 0;
		for (int n = 0; n < u->end_chunk - u->first_chunk; n++)
			PA_NAME(add)(state, u->partials + ((int64_t)n * u->count + i) * stride, hd);
		PA_NAME(finish)(c, u, i, state);
	}
}

// The query rows of a unit are cut into tiles of nearly equal height.
PA_TARGET static void PA_NAME(attend)(const struct pa_call *c, const struct pa_unit *u) {
	float state[PA_ROWS * (PA_MAX_HEAD + 8)], part[8 * (PA_MAX_HEAD + 8)], head[PA_MAX_HEAD];
	PA_NAME(query) q[PA_ROWS * (PA_NAME(whole) ? 1 : PA_MAX_HEAD)];
	int from[PA_ROWS], to[PA_ROWS];  // keys that a query row sees
	const int hd = c->head_size, vd = c->value_size, stride = pa_stride(vd), per = PA_NAME(whole) ? 1 : hd;
	const int tiles = (u->count + PA_TILE - 1) / PA_TILE;
	const int32_t *table = c->block_table + u->row * c->max_blocks;
	for (int n = 0; n < tiles; n++) {
		const int a = u->count * n / tiles, rt = u->count * (n + 1) / tiles - a;
		for (int i = 0; i < rt; i++) {
			const int r = u->first + a + i;
			const int64_t t = c->cu_seqlens[u->row] + r / c->group;
			const int position = c->positions[t];
			to[a + i] = pa_key_end(c, t);
			from[a + i] = c->window && position + 1 > c->window ? position + 1 - c->window : 0;
			PA_NAME(prepare)(c, c->q + t * c->q_stride + ((int64_t)u->kv_head * c->group + r % c->group) * hd,
			                 c->q_norm, pa_turn(c, t), head);
			PA_NAME(take)(head, hd, pa_scale(c, position), rt, i, q + a * per);
			state[(a + i) * stride + vd + 1] = 0;
		}
	}
	for (int chunk = u->first_chunk; chunk < u->end_chunk; chunk++) {
		const int base = chunk * PA_CHUNK;
		const kv *keys[PA_CHUNK / PA_BLOCK], *values[PA_CHUNK / PA_BLOCK], *next[PA_CHUNK / PA_BLOCK];
		const int low = from[0] > base ? from[0] - base : 0;
		const int high = to[u->count - 1] - base < PA_CHUNK ? to[u->count - 1] - base : PA_CHUNK;
		for (int b = low / PA_BLOCK; b * PA_BLOCK < high; b++) {
			const int64_t at =
			    ((int64_t)table[base / PA_BLOCK + b] * c->kv_heads + u->kv_head) * PA_NAME(span)(hd);
			keys[b] = (const kv *)c->k_cache + at;
			if (!c->latent) values[b] = (const kv *)c->v_cache + at;
			next[b] = keys[b];
			const int after = base / PA_BLOCK + b + PA_CHUNK / PA_BLOCK;
			if (after * PA_BLOCK < to[u->count - 1])
				next[b] = (const kv *)c->k_cache +
				          ((int64_t)table[after] * c->kv_heads + u->kv_head) * PA_NAME(span)(hd);
		}
		for (int n = 0; n < tiles; n++) {
			const int a = u->count * n / tiles, rt = u->count * (n + 1) / tiles - a;
			float *out = u->partials
			                 ? u->partials + ((int64_t)(chunk - u->first_chunk) * u->count + a) * stride
			                 : part;
			struct PA_NAME(tile) t = {.q = q + a * per, .keys = keys, .values = c->latent ? NULL : values,
			                          .later = c->latent || n ? keys : values, .next = n ? keys : next,
			                          .farthest = c->farthest, .cap = c->cap, .head_size = hd, .value_size = vd,
			                          .out = out};
			int lo[8], hi[8], own[8];
			float slopes[8];
			const float *distances[8];
			for (int i = 0; i < rt; i++) {
				const int r = u->first + a + i, head = u->kv_head * c->group + r % c->group;
				lo[i] = from[a + i] - base;
				hi[i] = to[a + i] - base;
				own[i] = c->positions[c->cu_seqlens[u->row] + r / c->group] - base;
				if (c->slopes) slopes[i] = c->slopes[head];
				if (c->distances) distances[i] = c->distances + (int64_t)head * (2 * c->farthest + 1);
			}
			if (c->slopes) t.slopes = slopes;
			if (c->distances) t.distances = distances;
			t.own = own;
			t.lo = lo;
			t.hi = hi;
			t.begin = lo[0] > 0 ? lo[0] : 0;
			t.end = hi[rt - 1] < PA_CHUNK ? hi[rt - 1] : PA_CHUNK;
			if (t.begin >= t.end) {
				for (int i = 0; i < rt; i++) out[i * stride + vd + 1] = 0;
			} else {
				PA_NAME(run_tile)(rt, &t);
			}
			if (!u->partials)
				for (int i = 0; i < rt; i++) PA_NAME(add)(state + (a + i) * stride, part + i * stride, vd);
		}
	}
	if (!u->partials)
		for (int i = 0; i < u->count; i++) PA_NAME(finish)(c, u, i, state + i * stride);
}

#undef PA_NAME
#undef kv
#undef kv_put
#undef kv_get
#undef kv_load
#undef kv_load_half
#undef KV_SCALED
#undef KV_DOTS

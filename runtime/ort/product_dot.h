// Products with quantised matrices on CPUs with an instruction that adds up four products of bytes. Included once for
// each kind of CPU, which defines:
//
//	MQ_NAME(x), MQ_TARGET           names and instruction set of the functions
//	MQ_W, MQ_ROWS                   columns of a vector; rows whose sums fit the registers
//	MQ_UNSIGNED                     whether the instruction takes weights as unsigned bytes
//	vi, vf                          vectors of MQ_W integers and floats
//	i_load, i_set, i_four           64/V bytes; an integer in all lanes; four bytes in all lanes
//	i_low, i_high, i_code           codes of 4 bits, as bytes; codes of 8 bits; as the instruction takes them
//	i_plain_low, i_plain_high       codes of 4 bits of which 0 stands for 0
//	i_table, i_pick(table, codes)   a table of numbers, and those that codes of 4 bits stand for, as i_code gives them
//	i_dot(sum, w, x)                the instruction
//	f_scales, f_bytes               16-bit floats and unsigned bytes, as floats
//	f_load, f_store, f_set, f_mul, f_fma, f_zero, f_of
//
// With unsigned weights a sum begins at -8, -32 or -128 times the sum of the activations' codes, at 0 where a code of 0
// stands for 0.

#include "product.h"
#include "product_six.h"

#define MQ_V (MQ_GROUP / MQ_W)
#define MQ_INLINE MQ_TARGET static inline __attribute__((always_inline))
#define MQ_UNROLL _Pragma("GCC unroll 8")

// tile multiplies R rows by blocks of a group.
MQ_INLINE void MQ_NAME(tile)(const int R, const int BITS, const int OFFSETS, const struct mq_matrix *m, const uint8_t *w,
                             const uint8_t *shared, int64_t from, int64_t blocks, const int8_t *x,
                             const float *scales, const float *totals, const int32_t *sums, int64_t row_blocks,
                             float *y, int64_t stride) {
	const int block = m->block, parts = mq_sums(m), first = !from;
	const int TABLE = OFFSETS == MQ_TABLED, zero = BITS == 8 || TABLE ? 128 : OFFSETS ? 0 : 8;
	const vt table = TABLE ? i_table(mq_table(m)) : i_table(mq_tables[0]);
	vf f[MQ_ROWS][MQ_V];
	MQ_UNROLL for (int r = 0; r < R; r++)
		MQ_UNROLL for (int c = 0; c < MQ_V; c++) f[r][c] = first ? f_zero() : f_load(y + r * stride + MQ_W * c);
	for (int64_t b = 0; b < blocks; b++, sums += parts, scales++, totals++) {
		vf scale[MQ_V], offset[MQ_V];
		if (OFFSETS == MQ_FACTORS) {
			if (b && !((from + b) % MQ_SIX_BLOCKS)) shared = w, w += MQ_SHARED;
			MQ_UNROLL for (int c = 0; c < MQ_V; c++) {
				scale[c] = f_mul(f_scales(shared + 2 * MQ_W * c), f_bytes(w + MQ_W * c));
				offset[c] = f_mul(f_scales(shared + 2 * MQ_GROUP + 2 * MQ_W * c), f_bytes(w + MQ_GROUP + MQ_W * c));
			}
			w += 2 * MQ_GROUP;
		} else {
			MQ_UNROLL for (int c = 0; c < MQ_V; c++) scale[c] = f_scales(w + 2 * MQ_W * c);
			w += 2 * MQ_GROUP;
			if (OFFSETS == MQ_OFFSETS) {
				MQ_UNROLL for (int c = 0; c < MQ_V; c++) offset[c] = f_scales(w + 2 * MQ_W * c);
				w += 2 * MQ_GROUP;
			}
		}
		vi sum[MQ_ROWS][MQ_V];
		MQ_UNROLL for (int r = 0; r < R; r++) {
			int32_t begin = 0;
			if (MQ_UNSIGNED)
				for (int p = 0; zero && p < parts; p++) begin -= sums[r * row_blocks * parts + p] * zero;
			MQ_UNROLL for (int c = 0; c < MQ_V; c++) sum[r][c] = i_set(begin);
		}
		for (int at = 0; at < block; at += BITS == 4 ? 8 : 4, w += 64, x += BITS == 4 ? 8 : 4) {
			__builtin_prefetch(w + 2048);
			vi low[MQ_V], high[MQ_V];
			MQ_UNROLL for (int c = 0; c < MQ_V; c++) {
				const vi codes = i_load(w + 4 * MQ_W * c);
				if (BITS == 8)
					low[c] = i_code(codes);
				else if (TABLE)
					low[c] = i_pick(table, i_plain_low(codes)), high[c] = i_pick(table, i_plain_high(codes));
				else if (OFFSETS)
					low[c] = i_plain_low(codes), high[c] = i_plain_high(codes);
				else
					low[c] = i_low(codes), high[c] = i_high(codes);
			}
			MQ_UNROLL for (int r = 0; r < R; r++) {
				const int8_t *four = x + r * row_blocks * block;
				const vi v = i_four(four);
				MQ_UNROLL for (int c = 0; c < MQ_V; c++) sum[r][c] = i_dot(sum[r][c], low[c], v);
				if (BITS == 8) continue;
				const vi next = i_four(four + 4);
				MQ_UNROLL for (int c = 0; c < MQ_V; c++) sum[r][c] = i_dot(sum[r][c], high[c], next);
			}
		}
		MQ_UNROLL for (int r = 0; r < R; r++) {
			const vf s = f_set(scales[r * row_blocks]);
			MQ_UNROLL for (int c = 0; c < MQ_V; c++) f[r][c] = f_fma(f_of(sum[r][c]), f_mul(scale[c], s), f[r][c]);
			if (!OFFSETS || TABLE) continue;
			const vf total = f_set(totals[r * row_blocks]);
			MQ_UNROLL for (int c = 0; c < MQ_V; c++) f[r][c] = f_fma(offset[c], total, f[r][c]);
		}
	}
	MQ_UNROLL for (int r = 0; r < R; r++)
		MQ_UNROLL for (int c = 0; c < MQ_V; c++) f_store(y + r * stride + MQ_W * c, f[r][c]);
}

#define MQ_SIX_ROWS (MQ_ROWS > 4 ? MQ_ROWS : 2)  // rows whose two sums fit the registers

// six multiplies R rows by codes of 6 bits, of blocks that share scales.
MQ_INLINE void MQ_NAME(six)(const int R, const struct mq_six *w, const vf *scale, int64_t blocks, const int8_t *x,
                            const float *scales, const int32_t *sums, int64_t row_blocks, float *y, int64_t stride,
                            int first) {
	vf f[MQ_SIX_ROWS][MQ_V];
	MQ_UNROLL for (int r = 0; r < R; r++)
		MQ_UNROLL for (int c = 0; c < MQ_V; c++) f[r][c] = first ? f_zero() : f_load(y + r * stride + MQ_W * c);
	for (int64_t b = 0; b < blocks; b++, scales++, sums += 2) {
		const uint8_t *codes = w->codes[b];
		vf all[MQ_SIX_ROWS][MQ_V];  // integers, which are exact
		MQ_UNROLL for (int half = 0; half < 2; half++) {
			vi sum[MQ_SIX_ROWS][MQ_V];
			MQ_UNROLL for (int r = 0; r < R; r++) {
				const vi begin = i_set(MQ_UNSIGNED ? -32 * sums[r * row_blocks * 2 + half] : 0);
				MQ_UNROLL for (int c = 0; c < MQ_V; c++) sum[r][c] = begin;
			}
			MQ_UNROLL for (int i = 0; i < 16; i += 4, codes += 64, x += 4) {
				vi part[MQ_V];
				MQ_UNROLL for (int c = 0; c < MQ_V; c++) part[c] = i_load(codes + 4 * MQ_W * c);
				MQ_UNROLL for (int r = 0; r < R; r++) {
					const vi v = i_four(x + r * row_blocks * 32);
					MQ_UNROLL for (int c = 0; c < MQ_V; c++) sum[r][c] = i_dot(sum[r][c], part[c], v);
				}
			}
			MQ_UNROLL for (int c = 0; c < MQ_V; c++) {
				const vf factor = f_load(w->factors.floats[b][half] + MQ_W * c);
				MQ_UNROLL for (int r = 0; r < R; r++) {
					const vf of = f_of(sum[r][c]);
					all[r][c] = half ? f_fma(of, factor, all[r][c]) : f_mul(of, factor);
				}
			}
		}
		MQ_UNROLL for (int r = 0; r < R; r++) {
			const vf s = f_set(scales[r * row_blocks]);
			MQ_UNROLL for (int c = 0; c < MQ_V; c++) f[r][c] = f_fma(all[r][c], f_mul(scale[c], s), f[r][c]);
		}
	}
	MQ_UNROLL for (int r = 0; r < R; r++)
		MQ_UNROLL for (int c = 0; c < MQ_V; c++) f_store(y + r * stride + MQ_W * c, f[r][c]);
}

#define MQ_SIX_CASE(r)                                                                                      \
	MQ_NAME(six)(r, &s, scale, next - b, r_->codes + (i * blocks + b) * 32, r_->scales + i * blocks + b,    \
	             r_->sums + (i * blocks + b) * 2, blocks, y + (i - row) * stride, stride, !b)

MQ_TARGET static void MQ_NAME(multiply_six)(const struct mq_matrix *m, const struct mq_rows *r_, int64_t group,
                                            int64_t from, int64_t to, int64_t row, int64_t end, float *y,
                                            int64_t stride) {
	const int64_t blocks = mq_blocks(m);
	struct mq_six s;
	for (int64_t b = from, next; b < to; b = next) {
		next = mq_six_end(b, to);
		mq_six_open(!MQ_UNSIGNED, 0, &s, mq_six_at(m, group, b), next - b);
		vf scale[MQ_V];
		for (int c = 0; c < MQ_V; c++) scale[c] = f_scales(mq_six_scales(m, group, b) + 2 * MQ_W * c);
		int64_t i = row;
		for (; end - i >= MQ_SIX_ROWS; i += MQ_SIX_ROWS) MQ_SIX_CASE(MQ_SIX_ROWS);
		for (; MQ_SIX_ROWS > 4 && end - i >= 4; i += 4) MQ_SIX_CASE(4);
		for (; MQ_SIX_ROWS > 2 && end - i >= 2; i += 2) MQ_SIX_CASE(2);
		if (i < end) MQ_SIX_CASE(1);
	}
}

#define MQ_CASE(r, bits, offsets)                                                                            \
	MQ_NAME(tile)(r, bits, offsets, m, w, shared, from, to - from,                                            \
	              r_->codes + (row * blocks + from) * m->block, r_->scales + row * blocks + from,             \
	              r_->totals + row * blocks + from, r_->sums + (row * blocks + from) * mq_sums(m), blocks, y, stride)

#define MQ_ALL(bits, offsets)                               \
	for (; end - row >= MQ_ROWS; row += MQ_ROWS, y += MQ_ROWS * stride) MQ_CASE(MQ_ROWS, bits, offsets); \
	for (; MQ_ROWS > 4 && end - row >= 4; row += 4, y += 4 * stride) MQ_CASE(4, bits, offsets);          \
	switch (end - row) {                                     \
	case 3: MQ_CASE(3, bits, offsets); break;                \
	case 2: MQ_CASE(2, bits, offsets); break;                \
	case 1: MQ_CASE(1, bits, offsets);                       \
	}

MQ_TARGET static void MQ_NAME(multiply)(const struct mq_matrix *m, const struct mq_rows *r_, int64_t group,
                                        int64_t from, int64_t to, int64_t row, int64_t end, float *y, int64_t stride) {
	if (m->bits == 6) {
		MQ_NAME(multiply_six)(m, r_, group, from, to, row, end, y, stride);
		return;
	}
	const int64_t blocks = mq_blocks(m);
	const uint8_t *w = mq_at(m, group, from), *shared = mq_shared(m, group, from);
	if (m->table) {
		MQ_ALL(4, MQ_TABLED)
		return;
	}
	switch (m->bits + m->offsets) {
	case 4: MQ_ALL(4, 0) break;
	case 4 + MQ_OFFSETS: MQ_ALL(4, MQ_OFFSETS) break;
	case 4 + MQ_FACTORS: MQ_ALL(4, MQ_FACTORS) break;
	case 8: MQ_ALL(8, 0) break;
	case 8 + MQ_OFFSETS: MQ_ALL(8, MQ_OFFSETS) break;
	default: MQ_ALL(8, MQ_FACTORS)
	}
}

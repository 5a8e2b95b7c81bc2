// Codes of 6 bits, laid out for the kernels: up to 256 columns of a group at a time, which then meet all rows.
#ifndef TGI_PRODUCT_SIX_H
#define TGI_PRODUCT_SIX_H

#include <string.h>

#include "product.h"

// mq_six is the blocks of a group that share scales. Each kernel has its own form of codes and factors.
struct mq_six {
	// For each 4 columns 64 bytes: 4 codes of row 0, of row 1, ...
	_Alignas(64) uint8_t codes[MQ_SIX_BLOCKS][32 * MQ_GROUP];
	union {
		float floats[MQ_SIX_BLOCKS][2][MQ_GROUP];
		int32_t pairs[MQ_SIX_BLOCKS][2][MQ_GROUP];  // two 16-bit integers, which are the same
	} factors;
};

// mq_six_at is where a block of a group is, mq_six_scales where its scales are.
static inline const uint8_t *mq_six_scales(const struct mq_matrix *m, int64_t group, int64_t block) {
	return m->data + group * mq_group_bytes(m) + block / MQ_SIX_BLOCKS * MQ_SIX_BYTES;
}
static inline const uint8_t *mq_six_at(const struct mq_matrix *m, int64_t group, int64_t block) {
	return mq_six_scales(m, group, block) + 2 * MQ_GROUP + block % MQ_SIX_BLOCKS * MQ_SIX_BLOCK;
}

// mq_six_end is the first block behind a block that has other scales, or to.
static inline int64_t mq_six_end(int64_t block, int64_t to) {
	const int64_t end = (block / MQ_SIX_BLOCKS + 1) * MQ_SIX_BLOCKS;
	return end < to ? end : to;
}

// Vectors of 32 bytes, which are two where the CPU has only shorter ones.
typedef uint64_t mq_words __attribute__((vector_size(32), aligned(1), may_alias));
typedef int8_t mq_bytes8 __attribute__((vector_size(8), aligned(1), may_alias));
typedef int32_t mq_ints8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float mq_floats8 __attribute__((vector_size(32), aligned(4), may_alias));
#define MQ_SIX_INLINE static inline __attribute__((always_inline))

// mq_six_codes opens a block: codes of 0 to 63, or with SIGNED of -32 to 31.
MQ_SIX_INLINE void mq_six_codes(const int SIGNED, uint8_t *restrict to, const uint8_t *restrict from) {
	const uint64_t low = 0x0f0f0f0f0f0f0f0full, high = 0x3030303030303030ull;
	// Less 32 in each byte, without a borrow from the next.
	const uint64_t top = SIGNED ? 0x8080808080808080ull : 0, less = SIGNED ? 0x2020202020202020ull : 0;
#define MQ_SIX_STORE(at, code) *(mq_words *)(to + (at)) = (((code) | top) - less) ^ top
	for (int half = 0; half < 2; half++, from += 192, to += 256)
		for (int i = 0; i < 64; i += 32) {
			const mq_words h = *(const mq_words *)(from + i);
			const mq_words a = *(const mq_words *)(from + 64 + i), b = *(const mq_words *)(from + 128 + i);
			MQ_SIX_STORE(i, (a & low) | (h << 4 & high));
			MQ_SIX_STORE(64 + i, (a >> 4 & low) | (h << 2 & high));
			MQ_SIX_STORE(128 + i, (b & low) | (h & high));
			MQ_SIX_STORE(192 + i, (b >> 4 & low) | (h >> 2 & high));
		}
#undef MQ_SIX_STORE
}

// mq_six_open opens blocks at w. PAIRS says how factors are wanted.
MQ_SIX_INLINE void mq_six_open(const int SIGNED, const int PAIRS, struct mq_six *restrict s, const uint8_t *restrict w,
                               int64_t blocks) {
	for (int64_t b = 0; b < blocks; b++, w += MQ_SIX_BLOCK) {
		for (int i = 0; i < MQ_SIX_BLOCK; i += 64) __builtin_prefetch(w + 2048 + i);
		for (int i = 0; i < 2 * MQ_GROUP; i += 8) {
			const mq_ints8 f = __builtin_convertvector(*(const mq_bytes8 *)(w + i), mq_ints8);
			if (PAIRS)
				*(mq_ints8 *)(s->factors.pairs[b][0] + i) = (f & 0xffff) | f << 16;
			else
				*(mq_floats8 *)(s->factors.floats[b][0] + i) = __builtin_convertvector(f, mq_floats8);
		}
		mq_six_codes(SIGNED, s->codes[b], w + 2 * MQ_GROUP);
	}
}

#endif

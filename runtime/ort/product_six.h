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
		uint32_t pairs[MQ_SIX_BLOCKS][2][MQ_GROUP];  // two 16-bit integers, which are the same
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

// mq_six_codes opens a block: codes of 0 to 63, or with SIGNED of -32 to 31.
static inline __attribute__((always_inline)) void mq_six_codes(const int SIGNED, uint8_t *restrict to,
                                                              const uint8_t *restrict from) {
	const uint64_t low = 0x0f0f0f0f0f0f0f0full, high = 0x3030303030303030ull, top = 0x8080808080808080ull;
	for (int half = 0; half < 2; half++, from += 192, to += 256) {
		uint64_t h[8], l[16], c[32];
		memcpy(h, from, sizeof h);
		memcpy(l, from + 64, sizeof l);
		for (int i = 0; i < 8; i++) c[i] = (l[i] & low) | (h[i] << 4 & high);
		for (int i = 0; i < 8; i++) c[8 + i] = (l[i] >> 4 & low) | (h[i] << 2 & high);
		for (int i = 0; i < 8; i++) c[16 + i] = (l[8 + i] & low) | (h[i] & high);
		for (int i = 0; i < 8; i++) c[24 + i] = (l[8 + i] >> 4 & low) | (h[i] >> 2 & high);
		if (SIGNED)  // less 32 in each byte, without a borrow from the next
			for (int i = 0; i < 32; i++) c[i] = ((c[i] | top) - 0x2020202020202020ull) ^ top;
		memcpy(to, c, sizeof c);
	}
}

// mq_six_open opens blocks at w. PAIRS says how factors are wanted.
static inline __attribute__((always_inline)) void mq_six_open(const int SIGNED, const int PAIRS,
                                                             struct mq_six *restrict s, const uint8_t *restrict w,
                                                             int64_t blocks) {
	for (int64_t b = 0; b < blocks; b++, w += MQ_SIX_BLOCK) {
		for (int i = 0; i < MQ_SIX_BLOCK; i += 64) __builtin_prefetch(w + 2048 + i);
		const int8_t *f = (const int8_t *)w;
		for (int i = 0; i < 2 * MQ_GROUP; i++) {
			if (PAIRS)
				s->factors.pairs[b][i / MQ_GROUP][i % MQ_GROUP] = (uint32_t)(uint16_t)f[i] << 16 | (uint16_t)f[i];
			else
				s->factors.floats[b][i / MQ_GROUP][i % MQ_GROUP] = (float)f[i];
		}
		mq_six_codes(SIGNED, s->codes[b], w + 2 * MQ_GROUP);
	}
}

#endif

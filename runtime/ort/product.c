// What all kernels share: the order of groups, rows and columns.

#include "product.h"

enum {
	ROWS_AT_ONCE = 128,      // of activations that a group meets while they are in the cache
	COLUMNS_AT_ONCE = 1024,  // of them
	FEW_ROWS = 32,           // fewer stay there as a whole; groups are then read from first byte to last
};

void mq_multiply(const struct mq_kernel *k, const struct mq_matrix *m, const struct mq_rows *r, int64_t group,
                 int64_t last, int64_t row, int64_t end, float *y, int64_t stride) {
	if (k->multiply_groups) {
		k->multiply_groups(m, r, group, last, row, end, y, stride);
		return;
	}
	const int64_t blocks = mq_blocks(m), at_once = end - row < FEW_ROWS ? blocks : COLUMNS_AT_ONCE / m->block;
	for (int64_t next; row < end; y += (next - row) * stride, row = next) {
		next = end - row < ROWS_AT_ONCE ? end : row + ROWS_AT_ONCE;
		for (int64_t from = 0; from < blocks; from += at_once) {
			const int64_t to = blocks - from < at_once ? blocks : from + at_once;
			for (int64_t g = group; g < last; g++)
				k->multiply(m, r, g, from, to, row, next, y + (g - group) * MQ_GROUP, stride);
		}
	}
}

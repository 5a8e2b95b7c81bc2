// What the kernels with VNNI share: the sum of a block's codes is one number.
#include "product_x86.h"

static inline int32_t sum32(int even, int odd, int code) { return (void)code, even + odd; }

MQ_AVX2 static void quantise(const struct mq_matrix *m, const struct mq_rows *r, const float *x, int64_t row) {
	mq_quantise(m, r, x, row, sum32);
}

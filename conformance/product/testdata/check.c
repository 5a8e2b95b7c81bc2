// Compares a kernel for quantised products with the portable one, bit by bit: KERNEL is its name.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "product.h"

extern const struct mq_kernel KERNEL;

static uint64_t state = 88172645463325252ull;
static uint32_t next(void) {
	state ^= state << 13, state ^= state >> 7, state ^= state << 17;
	return (uint32_t)(state >> 16);
}
static float real(void) { return (float)(int32_t)next() * 0x1p-31f * (next() % 100 ? 1.0f : 20.0f); }

// run is some rows, rounded, and what they are multiplied to.
struct run {
	struct mq_rows rows;
	void *memory;
	size_t codes, scales, results;
	float *y;
};

static struct run run(const struct mq_kernel *k, const struct mq_matrix *m, const float *x, int64_t rows) {
	struct run r;
	r.scales = (size_t)(rows * mq_blocks(m)), r.codes = r.scales * (size_t)m->block;
	r.results = (size_t)(rows * mq_groups(m) * MQ_GROUP);
	r.memory = malloc(mq_rows_bytes(m, rows));
	r.rows = mq_rows_in(m, rows, r.memory);
	r.y = malloc(r.results * sizeof *r.y);
	for (int64_t i = 0; i < rows; i++) k->quantise(m, &r.rows, x + i * m->k, i);
	return r;
}

// by_blocks multiplies by some blocks of a group at a time.
static void by_blocks(const struct mq_kernel *k, const struct mq_matrix *m, struct run *r, int64_t rows, int64_t cut) {
	const int64_t blocks = mq_blocks(m), stride = mq_groups(m) * MQ_GROUP;
	memset(r->y, -1, r->results * sizeof *r->y);
	for (int64_t g = 0; g < mq_groups(m); g++)
		for (int64_t from = 0; from < blocks; from += cut)
			k->multiply(m, &r->rows, g, from, from + cut < blocks ? from + cut : blocks, 0, rows, r->y + g * MQ_GROUP,
			            stride);
}

// as_operators multiplies as the operators do: whole rows by groups that lie side by side.
static void as_operators(const struct mq_kernel *k, const struct mq_matrix *m, struct run *r, int64_t rows) {
	const int64_t groups = mq_groups(m), stride = groups * MQ_GROUP, half = rows / 2 / 16 * 16;
	memset(r->y, -1, r->results * sizeof *r->y);
	mq_multiply(k, m, &r->rows, 0, groups, 0, half, r->y, stride);
	mq_multiply(k, m, &r->rows, 0, 1, half, rows, r->y + half * stride, stride);
	mq_multiply(k, m, &r->rows, 1, groups, half, rows, r->y + half * stride + MQ_GROUP, stride);
}

static void release(struct run *r) { free(r->memory), free(r->y); }

static int same(const float *a, const float *b, size_t n) {
	for (size_t i = 0; i < n; i++)
		if (memcmp(a + i, b + i, sizeof *a) && !(isnan(a[i]) && isnan(b[i]))) return 0;
	return 1;
}

int main(void) {
	static const int bits[] = {4, 4, 4, 8, 8, 8, 4, 8, 4, 8, 4, 4, 4, 6};
	static const int block[] = {32, 64, 128, 32, 64, 128, 32, 32, 32, 32, 32, 32, 32, 32};
	static const int tables[] = {[10] = MQ_IQ4, [11] = MQ_MXFP4, [12] = MQ_NF4, [13] = 0};
	static const int offsets[] = {[6] = MQ_OFFSETS, [7] = MQ_OFFSETS, [8] = MQ_FACTORS, [9] = MQ_FACTORS, [13] = 0};
	static const int64_t widths[] = {1, 31, 32, 100, 129, 300, 1100}, counts[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 17, 33, 70};
	int checks = 0, bad = 0;
	for (int f = 0; f < 14; f++)
		for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
			for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
				const int64_t rows = counts[c];
				struct mq_matrix m = {.n = rows == 33 ? 300 : 40, .k = widths[w], .bits = bits[f], .block = block[f]};
				m.offsets = offsets[f], m.table = tables[f];
				const int factors = m.offsets == MQ_FACTORS;
				if (m.bits == 6 || factors) m.k = (m.k + MQ_SIX - 1) / MQ_SIX * MQ_SIX;
				const int64_t one = m.bits == 6 ? MQ_SIX_BYTES
				                    : factors   ? MQ_SHARED + MQ_SIX_BLOCKS * mq_block_bytes(&m)
				                                : mq_block_bytes(&m);
				const size_t bytes = (size_t)mq_bytes(&m), step = (size_t)one;
				uint8_t *data = malloc(bytes);
				for (size_t i = 0; i < bytes; i++) data[i] = (uint8_t)next();
				for (size_t at = 0; at < bytes; at += step)
					for (int i = 0; i < MQ_GROUP * (1 + (m.offsets != 0)); i++)  // finite
						data[at + 2 * i + 1] = 0x20 | (data[at + 2 * i + 1] & 0x83);
				if (m.bits == 4 && m.offsets)  // the largest sums, of the first block
					memset(data + (factors ? MQ_SHARED + 2 * MQ_GROUP : 4 * MQ_GROUP), 0xff, 16 * MQ_GROUP);
				if (m.bits == 6)  // the largest sums, of the first block of a group
					for (size_t at = 2 * MQ_GROUP; at < bytes; at += (size_t)mq_group_bytes(&m)) {
						memset(data + at, -128, 2 * MQ_GROUP);
						memset(data + at + 2 * MQ_GROUP, 0, 2 * 192);
					}
				m.data = data;
				float *x = malloc((size_t)(rows * m.k) * sizeof *x);
				for (int64_t i = 0; i < rows * m.k; i++) x[i] = i < 32 ? 1 : real();
				static const float odd[] = {INFINITY, NAN, 1e-40f, 3e38f, 3e-31f, -INFINITY, 0};
				for (int64_t i = 1; i < rows && i <= 7; i++) x[i * m.k + (int64_t)(next() % (uint32_t)m.k)] = odd[i - 1];
				struct run a = run(&mq_portable, &m, x, rows), b = run(&KERNEL, &m, x, rows);
				by_blocks(&mq_portable, &m, &a, rows, mq_blocks(&m));
				int as = !memcmp(a.rows.codes, b.rows.codes, a.codes) && same(a.rows.scales, b.rows.scales, a.scales) &&
				         (!m.offsets || same(a.rows.totals, b.rows.totals, a.scales));
				as_operators(&KERNEL, &m, &b, rows);
				as &= same(a.y, b.y, a.results);
				for (int i = 0; KERNEL.multiply && i < 2; i++) {
					by_blocks(&KERNEL, &m, &b, rows, i ? 3 : mq_blocks(&m));
					as &= same(a.y, b.y, a.results);
				}
				checks++;
				if (!as) {
					printf("%d bits, blocks of %d, offsets %d, table %d, %d columns, %d rows: other bits\n", m.bits,
					       m.block, m.offsets, m.table, (int)m.k, (int)rows);
					bad++;
				}
				release(&a), release(&b), free(data), free(x);
			}
	printf("%s: %d of %d as the portable kernel\n", KERNEL.name, checks - bad, checks);
	return bad != 0;
}

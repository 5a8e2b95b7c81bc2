// Products with quantised matrices on the CPU: the form of a matrix, and the kernels that multiply by it.
//
// A matrix of n rows (columns of the result) and k columns is cut into blocks of 32, 64 or 128 weights of a row, which
// share a scale. Sixteen rows are one group. A group's blocks follow each other from the first column to the last:
//
//	16 scales, as 16-bit floats
//	with offsets, 16 of them, as 16-bit floats: a weight is its code times the scale, plus the offset
//	codes of 8 bits: for each 4 columns of the block, 64 bytes: 4 signed codes of row 0, of row 1, ... of row 15
//	codes of 4 bits: for each 8 columns of the block, 64 bytes: the codes of columns 0 to 3 of every row, as above, in the
//	lower halves of the bytes, and those of columns 4 to 7 in the upper ones; 8 stands for 0, with offsets 0 does
//
// So a product needs no sums across a vector, and a group is read from its first byte to its last. What is missing in
// the last group and in the last block are codes of zero.
//
// Codes of 4 bits may stand for numbers of a table instead, signed bytes: see mq_table.
//
// With factors, as GGUF's types Q4_K and Q5_K have them, 256 columns of a row share two 16-bit floats, and each block
// of 32 has a factor of the one, which gives its scale, and of the other, which gives its offset; k is a multiple of
// 256. For each 256 columns of a group there are
//
//	16 scales and 16 offsets, as 16-bit floats
//	8 times, for each block: 16 factors of the scale and 16 of the offset, as unsigned bytes, and the codes
//
// Codes of 6 bits are those of GGUF's type Q6_K: 256 columns of a row share a scale, and each 16 of them have a factor
// of 8 bits besides. A weight is its code less 32, times the factor, times the scale. Blocks of 32 are then what
// activations have; k is a multiple of 256. For each 256 columns of a group there are
//
//	16 scales, as 16-bit floats
//	8 times, for each 32 columns: 16 factors of the first 16 columns, 16 of the others, as signed bytes, and for each
//	16 columns 64 bytes with the upper two bits of the codes, those of columns 0 to 3 of row 0, of row 1, ... in the
//	lowest bits of the bytes, those of columns 4 to 7 above them, and so on, and 128 bytes with the lower halves, as
//	codes of 4 bits have them
//
// Activations are rounded to 8 bits too, with a scale for each row and block. The sum of a block is then one of
// integers, which is exact, and those of blocks are added in the order of k, with one fused multiply-add each, and one
// more for an offset, which the total of the block's activations is multiplied by. With codes of 6 bits the sum of a
// block is that of two halves, each times its factor: at most 2*16*32*127*128, which a float holds exactly. A row's
// result is therefore the same, bit by bit, whatever rows are beside it, however the work is divided, and whatever
// kernel computes it.
#ifndef TGI_PRODUCT_H
#define TGI_PRODUCT_H

#include <stddef.h>
#include <stdint.h>

enum {
	MQ_GROUP = 16,       // columns of the result that lie together
	MQ_HALF_CHUNK = 64,  // columns of 4-bit codes whose products AVX2 adds up in 16 bits
	MQ_SIX = 256,        // columns that share a scale of codes of 6 bits, or with factors
	MQ_SIX_BLOCKS = 8,   // blocks of them
	MQ_SHARED = 4 * MQ_GROUP,  // bytes of the scales and offsets of so many columns, with factors
	MQ_SIX_BLOCK = 2 * MQ_GROUP + 2 * 192,  // bytes of a block: factors and codes
	MQ_SIX_BYTES = 2 * MQ_GROUP + MQ_SIX_BLOCKS * MQ_SIX_BLOCK,
};

// mq_matrix is a matrix of n rows and k columns.
struct mq_matrix {
	const uint8_t *data;
	int64_t n, k;
	int bits, block;  // block is 32 with 6 bits
	int offsets;  // how blocks have them, if they do; they are of 32 then
	int table;  // what codes of 4 bits in blocks of 32 stand for; 0 for themselves
};

// The tables.
enum { MQ_IQ4 = 1, MQ_MXFP4 = 2, MQ_NF4 = 3, MQ_TABLES = 3 };
extern const int8_t mq_tables[MQ_TABLES][16];
// mq_table returns the numbers that codes of 4 bits stand for, or null if they have no table.
static inline const int8_t *mq_table(const struct mq_matrix *m) { return m->table ? mq_tables[m->table - 1] : NULL; }

// What mq_matrix.offsets may be besides 0. Kernels say MQ_TABLED in its place where there is a table, which has none.
enum { MQ_OFFSETS = 1, MQ_FACTORS = 2, MQ_TABLED = 3 };

static inline int64_t mq_blocks(const struct mq_matrix *m) { return (m->k + m->block - 1) / m->block; }
static inline int64_t mq_groups(const struct mq_matrix *m) { return (m->n + MQ_GROUP - 1) / MQ_GROUP; }
// mq_block_bytes is the bytes of a block, except with 6 bits.
static inline int64_t mq_block_bytes(const struct mq_matrix *m) {
	return MQ_GROUP * (2 + 2 * (m->offsets == MQ_OFFSETS) + (int64_t)m->block * m->bits / 8);
}
static inline int64_t mq_group_bytes(const struct mq_matrix *m) {
	if (m->bits == 6) return m->k / MQ_SIX * MQ_SIX_BYTES;
	return mq_blocks(m) * mq_block_bytes(m) + (m->offsets == MQ_FACTORS ? m->k / MQ_SIX * MQ_SHARED : 0);
}
// mq_shared is where the scales and offsets are that a block has factors of, mq_at where the block itself is, except
// with 6 bits.
static inline const uint8_t *mq_shared(const struct mq_matrix *m, int64_t group, int64_t block) {
	const int64_t bytes = MQ_SHARED + MQ_SIX_BLOCKS * mq_block_bytes(m);
	return m->data + group * mq_group_bytes(m) + block / MQ_SIX_BLOCKS * bytes;
}
static inline const uint8_t *mq_at(const struct mq_matrix *m, int64_t group, int64_t block) {
	if (m->offsets == MQ_FACTORS)
		return mq_shared(m, group, block) + MQ_SHARED + block % MQ_SIX_BLOCKS * mq_block_bytes(m);
	return m->data + (group * mq_blocks(m) + block) * mq_block_bytes(m);
}
// mq_zero is the code of 4 bits that stands for 0.
static inline int mq_zero(const struct mq_matrix *m) { return m->offsets ? 0 : 8; }
static inline int64_t mq_bytes(const struct mq_matrix *m) { return mq_groups(m) * mq_group_bytes(m); }
// mq_fits says whether there are matrices of such a form.
static inline int mq_fits(const struct mq_matrix *m) {
	if (m->bits == 6) return m->block == 32 && !m->offsets && !m->table && m->k % MQ_SIX == 0;
	if (m->table) return m->table > 0 && m->table <= MQ_TABLES && m->bits == 4 && m->block == 32 && !m->offsets;
	if (m->offsets < 0 || m->offsets > MQ_FACTORS || (m->offsets == MQ_FACTORS && m->k % MQ_SIX)) return 0;
	return (m->bits == 4 || m->bits == 8) && (m->block == 32 || (!m->offsets && (m->block == 64 || m->block == 128)));
}
// mq_sums is the number of sums of a block of activations.
static inline int mq_sums(const struct mq_matrix *m) {
	if (m->bits == 6) return 2;
	return m->block > MQ_HALF_CHUNK ? m->block / MQ_HALF_CHUNK : 1;
}

// mq_rows holds activations, rounded.
struct mq_rows {
	int8_t *codes;  // [count][blocks*block]
	float *scales;  // [count][blocks]; NaN where a block has a number that is not finite
	int32_t *sums;  // [count][blocks*mq_sums]: of the codes, as the kernel needs them
	float *totals;  // [count][blocks], if the matrix has offsets: the sum of the codes times the scale
};

// mq_rows_bytes is the memory that count rows take, mq_rows_in divides it.
static inline size_t mq_rows_bytes(const struct mq_matrix *m, int64_t count) {
	const size_t blocks = (size_t)(count * mq_blocks(m));
	return blocks * (sizeof(float) * (m->offsets ? 2 : 1) + (size_t)mq_sums(m) * sizeof(int32_t) + (size_t)m->block);
}
static inline struct mq_rows mq_rows_in(const struct mq_matrix *m, int64_t count, void *memory) {
	const size_t blocks = (size_t)(count * mq_blocks(m));
	struct mq_rows r = {.scales = memory};
	r.totals = r.scales + blocks;
	r.sums = (int32_t *)(r.totals + (m->offsets ? blocks : 0));
	r.codes = (int8_t *)(r.sums + blocks * (size_t)mq_sums(m));
	return r;
}

// mq_kernel is one implementation for one kind of CPU.
struct mq_kernel {
	const char *name;
	// quantise rounds one row: k floats at x.
	void (*quantise)(const struct mq_matrix *, const struct mq_rows *, const float *x, int64_t row);
	// multiply multiplies rows [row, end) by blocks [from, to) of a group. y is where the row's 16 results go, in steps
	// of stride floats from row to row. They are added to what is there unless from is 0. A kernel has it, or
	void (*multiply)(const struct mq_matrix *, const struct mq_rows *, int64_t group, int64_t from, int64_t to,
	                 int64_t row, int64_t end, float *y, int64_t stride);
	// multiply_groups, which multiplies rows [row, end) by all blocks of groups [group, last), whose results lie side
	// by side.
	void (*multiply_groups)(const struct mq_matrix *, const struct mq_rows *, int64_t group, int64_t last, int64_t row,
	                        int64_t end, float *y, int64_t stride);
};

extern const struct mq_kernel mq_portable;
#if defined(__x86_64__)
extern const struct mq_kernel mq_avx2, mq_avxvnni, mq_avx512vnni;
#if defined(__linux__)
extern const struct mq_kernel mq_amx;
// mq_has_amx reports whether the CPU has AMX and the system lets this process use it, which it asks for.
int mq_has_amx(void);
#endif
#elif defined(__aarch64__)
extern const struct mq_kernel mq_neondot, mq_neoni8mm;
#endif

// MQ_LEAST is the least magnitude that a block of activations is not taken as zero for: below it the inverse of the
// scale would not be finite.
#define MQ_LEAST 1e-30f

// mq_float widens a 16-bit float.
float mq_float(uint16_t half);

// mq_multiply multiplies rows [row, end) by all blocks of groups [group, last), whose results lie side by side, in the
// order in which the kernel finds most in the caches.
void mq_multiply(const struct mq_kernel *, const struct mq_matrix *, const struct mq_rows *, int64_t group,
                 int64_t last, int64_t row, int64_t end, float *y, int64_t stride);

// mq_choose selects the kernel by name, or the best one for this CPU if the name is empty. It returns the kernel's
// name, or null if there is no such kernel or the CPU cannot run it. It must not run during a call.
const char *mq_choose(const char *name);

// mq_current is the selected kernel.
const struct mq_kernel *mq_current(void);

#endif

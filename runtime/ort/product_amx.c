// Products with quantised matrices with AMX: one instruction multiplies 16 rows of 64 codes by 64 columns of 16. Only
// the sums of integers are AMX's; what is below 16 rows is left to AVX-512, which computes the same.

#if defined(__x86_64__) && defined(__linux__)

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "product_six.h"
#include "product_vnni.h"

#define AMX __attribute__((target("amx-tile,amx-int8,avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c")))
#define AMX_INLINE AMX static inline __attribute__((always_inline))

enum {
	TILE_ROWS = 16,       // of activations
	AT_ONCE = 1024,       // columns whose codes are laid out at a time
	MAX_BLOCKS = AT_ONCE / 32,
	ARCH_REQ_XCOMP_PERM = 0x1023,
	XFEATURE_XTILEDATA = 18,
};

int mq_has_amx(void) {
	unsigned a, b, c, d;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 24 & 3) != 3) return 0;  // AMX-TILE, AMX-INT8
	// The operating system has to save the tiles of a thread, and gives a process that memory when it is asked.
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

// The tiles, by numbers that the instructions hold: 0 and 1 are sums of 16 rows and 16 columns, 2 and 3 codes of
// activations, a row each, 4 and 5 codes of the matrix, 4 columns a row. There are two of each, so that the instructions
// of one block need not wait for those of the one before.

// configure sets the tiles up for steps of 16, 32 or 64 columns.
AMX_INLINE void configure(int step) {
	struct {
		uint8_t palette, start, reserved[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} c = {.palette = 1};
	for (int i = 0; i < 2; i++) {
		c.rows[i] = TILE_ROWS, c.bytes[i] = 4 * MQ_GROUP;
		c.rows[2 + i] = TILE_ROWS, c.bytes[2 + i] = (uint16_t)step;
		c.rows[4 + i] = (uint8_t)(step / 4), c.bytes[4 + i] = 4 * MQ_GROUP;
	}
	_tile_loadconfig(&c);
}

// layout is some blocks of a group as the tiles read them, from aligned memory: the mapped file is not.
struct layout {
	_Alignas(64) int8_t codes[AT_ONCE * MQ_GROUP];
	_Alignas(64) float scales[MAX_BLOCKS * MQ_GROUP], offsets[MAX_BLOCKS * MQ_GROUP];
};

AMX_INLINE void lay_out(struct layout *l, const struct mq_matrix *m, const uint8_t *w, int64_t blocks) {
	const __m512i low = _mm512_set1_epi8(15), eight = _mm512_set1_epi8(8);
	int8_t *to = l->codes;
	for (int64_t b = 0; b < blocks; b++) {
		_mm512_store_ps(l->scales + b * MQ_GROUP, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)w)));
		w += 2 * MQ_GROUP;
		if (m->offsets) {
			_mm512_store_ps(l->offsets + b * MQ_GROUP, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)w)));
			w += 2 * MQ_GROUP;
		}
		for (int at = 0; at < m->block; at += m->bits == 4 ? 8 : 4, w += 64, to += 64) {
			__builtin_prefetch(w + 2048);
			const __m512i v = _mm512_loadu_si512((const void *)w);
			if (m->bits == 8) {
				_mm512_store_si512((void *)to, v);
				continue;
			}
			_mm512_store_si512((void *)to, _mm512_sub_epi8(_mm512_and_si512(v, low), eight));
			to += 64;
			_mm512_store_si512((void *)to,
			                   _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(v, 4), low), eight));
		}
	}
}

// SUM_BLOCK adds up the codes of a block with three tiles, and stores the sums.
#define SUM_BLOCK(sum, rows, cols, step, x, row_bytes, codes, block, out)   \
	do {                                                                    \
		_tile_zero(sum);                                                    \
		for (int at = 0; at < (block); at += (step)) {                      \
			_tile_loadd(rows, (x) + at, (row_bytes));                       \
			_tile_loadd(cols, (codes) + at * MQ_GROUP, 4 * MQ_GROUP);       \
			_tile_dpbssd(sum, rows, cols);                                  \
		}                                                                   \
		_tile_stored(sum, (out), 4 * MQ_GROUP);                             \
	} while (0)

// add adds the sums of a block, scaled, to the results of 16 rows.
AMX_INLINE void add(__m512 f[TILE_ROWS], const int32_t *sums, const struct layout *l, int64_t b, const float *scales,
                    const float *totals, int64_t row_blocks, const int OFFSETS) {
	const __m512 scale = _mm512_load_ps(l->scales + b * MQ_GROUP);
	const __m512 offset = OFFSETS ? _mm512_load_ps(l->offsets + b * MQ_GROUP) : scale;
	_Pragma("GCC unroll 16") for (int r = 0; r < TILE_ROWS; r++) {
		const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512((const void *)(sums + r * MQ_GROUP)));
		f[r] = _mm512_fmadd_ps(sum, _mm512_mul_ps(scale, _mm512_set1_ps(scales[b + r * row_blocks])), f[r]);
		if (OFFSETS) f[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(totals[b + r * row_blocks]), f[r]);
	}
}

// tile multiplies 16 rows by the blocks of a layout. The sums of a block are computed while those of the one before are
// added.
AMX_INLINE void tile(const int OFFSETS, const int BLOCK, const struct layout *l, int64_t blocks, const int8_t *x,
                     const float *scales, const float *totals, int64_t row_blocks, float *y, int64_t stride, int first) {
	const int step = BLOCK < 64 ? BLOCK : 64;
	const int64_t row_bytes = row_blocks * BLOCK;
	_Alignas(64) int32_t sums[2][TILE_ROWS * MQ_GROUP];
	__m512 f[TILE_ROWS];
	_Pragma("GCC unroll 16") for (int r = 0; r < TILE_ROWS; r++) f[r] =
	    first ? _mm512_setzero_ps() : _mm512_loadu_ps(y + r * stride);
	SUM_BLOCK(0, 2, 4, step, x, row_bytes, l->codes, BLOCK, sums[0]);
	for (int64_t b = 0; b < blocks; b += 2) {
		if (b + 1 < blocks)
			SUM_BLOCK(1, 3, 5, step, x + (b + 1) * BLOCK, row_bytes, l->codes + (b + 1) * BLOCK * MQ_GROUP, BLOCK,
			          sums[1]);
		add(f, sums[0], l, b, scales, totals, row_blocks, OFFSETS);
		if (b + 1 == blocks) break;
		if (b + 2 < blocks)
			SUM_BLOCK(0, 2, 4, step, x + (b + 2) * BLOCK, row_bytes, l->codes + (b + 2) * BLOCK * MQ_GROUP, BLOCK,
			          sums[0]);
		add(f, sums[1], l, b + 1, scales, totals, row_blocks, OFFSETS);
	}
	_Pragma("GCC unroll 16") for (int r = 0; r < TILE_ROWS; r++) _mm512_storeu_ps(y + r * stride, f[r]);
}

// tile_six multiplies 16 rows by codes of 6 bits, of blocks that share scales.
AMX_INLINE void tile_six(const struct mq_six *s, __m512 scale, int64_t blocks, const int8_t *x, const float *scales,
                         int64_t row_blocks, float *y, int64_t stride, int first) {
	const int64_t row_bytes = row_blocks * 32;
	_Alignas(64) int32_t sums[2][TILE_ROWS * MQ_GROUP];
	__m512 f[TILE_ROWS];
	_Pragma("GCC unroll 16") for (int r = 0; r < TILE_ROWS; r++) f[r] =
	    first ? _mm512_setzero_ps() : _mm512_loadu_ps(y + r * stride);
	for (int64_t b = 0; b < blocks; b++, x += 32) {
		SUM_BLOCK(0, 2, 4, 16, x, row_bytes, s->codes[b], 16, sums[0]);
		SUM_BLOCK(1, 3, 5, 16, x + 16, row_bytes, s->codes[b] + 16 * MQ_GROUP, 16, sums[1]);
		const __m512 one = _mm512_loadu_ps(s->factors.floats[b][0]), two = _mm512_loadu_ps(s->factors.floats[b][1]);
		_Pragma("GCC unroll 16") for (int r = 0; r < TILE_ROWS; r++) {
			const __m512 left = _mm512_cvtepi32_ps(_mm512_load_si512((const void *)(sums[0] + r * MQ_GROUP)));
			const __m512 right = _mm512_cvtepi32_ps(_mm512_load_si512((const void *)(sums[1] + r * MQ_GROUP)));
			const __m512 all = _mm512_fmadd_ps(right, two, _mm512_mul_ps(left, one));  // an integer, which is exact
			f[r] = _mm512_fmadd_ps(all, _mm512_mul_ps(scale, _mm512_set1_ps(scales[b + r * row_blocks])), f[r]);
		}
	}
	_Pragma("GCC unroll 16") for (int r = 0; r < TILE_ROWS; r++) _mm512_storeu_ps(y + r * stride, f[r]);
}

// multiply_six multiplies whole tiles of rows by codes of 6 bits.
AMX static void multiply_six(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t from,
                             int64_t to, int64_t row, int64_t end, float *y, int64_t stride) {
	const int64_t blocks = mq_blocks(m);
	struct mq_six s;
	configure(16);
	for (int64_t b = from, next; b < to; b = next) {
		next = mq_six_end(b, to);
		mq_six_open(1, 0, &s, mq_six_at(m, group, b), next - b);
		__asm__ volatile("" ::: "memory");  // as below
		const __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)mq_six_scales(m, group, b)));
		for (int64_t i = row; i < end; i += TILE_ROWS)
			tile_six(&s, scale, next - b, r->codes + (i * blocks + b) * 32, r->scales + i * blocks + b, blocks,
			         y + (i - row) * stride, stride, !b);
	}
	_tile_release();
}

AMX static void multiply(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t from, int64_t to,
                         int64_t row, int64_t end, float *y, int64_t stride) {
	const int64_t row_blocks = mq_blocks(m), bytes = mq_block_bytes(m), whole = row + (end - row) / TILE_ROWS * TILE_ROWS;
	if (whole > row && m->bits == 6) {
		multiply_six(m, r, group, from, to, row, whole, y, stride);
	} else if (whole > row) {
		struct layout l;
		configure(m->block < 64 ? m->block : 64);
		for (int64_t b = from, next; b < to; b = next) {
			next = to - b < AT_ONCE / m->block ? to : b + AT_ONCE / m->block;
			lay_out(&l, m, m->data + (group * row_blocks + b) * bytes, next - b);
			__asm__ volatile("" ::: "memory");  // the compiler does not know that tiles read memory
			for (int64_t i = row; i < whole; i += TILE_ROWS) {
				const int64_t at = i * row_blocks + b;
				const int8_t *x = r->codes + at * m->block;
				const float *scales = r->scales + at, *totals = r->totals + at;
				float *out = y + (i - row) * stride;
				if (m->offsets)
					tile(1, 32, &l, next - b, x, scales, totals, row_blocks, out, stride, !b);
				else if (m->block == 32)
					tile(0, 32, &l, next - b, x, scales, totals, row_blocks, out, stride, !b);
				else if (m->block == 64)
					tile(0, 64, &l, next - b, x, scales, totals, row_blocks, out, stride, !b);
				else
					tile(0, 128, &l, next - b, x, scales, totals, row_blocks, out, stride, !b);
			}
		}
		_tile_release();
	}
	if (end > whole)
		mq_avx512vnni.multiply(m, r, group, from, to, whole, end, y + (whole - row) * stride, stride);
}

const struct mq_kernel mq_amx = {"amx", quantise, multiply};

#endif

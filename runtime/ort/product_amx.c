// Products with quantised matrices with AMX: one instruction multiplies 16 rows of up to 64 codes by 16 columns. Only
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
	GROUPS = 16,          // that meet a tile's rows while those are in the nearest cache
	AT_ONCE = 1024,       // columns whose codes are laid out at a time
	MAX_BLOCKS = AT_ONCE / 32,
	STEP_BYTES = 64 * MQ_GROUP,  // of a tile of codes, at most
	ARCH_REQ_XCOMP_PERM = 0x1023,
	XFEATURE_XTILEDATA = 18,
};

int mq_has_amx(void) {
	unsigned a, b, c, d;
	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d >> 24 & 3) != 3) return 0;  // AMX-TILE, AMX-INT8
	// The operating system has to save the tiles of a thread, and gives a process that memory when it is asked.
	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

// The compiler does not know that the instructions of tiles read memory.
#define WRITTEN() __asm__ volatile("" ::: "memory")

// The tiles, by numbers that the instructions hold: 0 and 1 are sums of 16 rows and 16 columns, 2 and 3 codes of
// activations, a row each, 4 and 5 codes of the matrix, 4 columns a row.

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
	WRITTEN();
	_tile_loadconfig(&c);
}

// panel is some blocks of some groups as the tiles read them: the mapped file is not aligned, and has codes of 4 bits.
struct panel {
	_Alignas(64) int8_t codes[GROUPS * AT_ONCE * MQ_GROUP];
	_Alignas(64) float scales[GROUPS * MAX_BLOCKS * MQ_GROUP];  // of a block are those of the 16 columns
	union {
		_Alignas(64) float offsets[GROUPS * MAX_BLOCKS * MQ_GROUP];
		_Alignas(64) float factors[GROUPS * MAX_BLOCKS][2][MQ_GROUP];
	};
};

// strip is the same blocks of 16 rows of activations.
struct strip {
	_Alignas(64) int8_t codes[TILE_ROWS * AT_ONCE];  // by steps, of which each is a tile
	_Alignas(64) float scales[MAX_BLOCKS * TILE_ROWS], totals[MAX_BLOCKS * TILE_ROWS];
};

// halves widens 16 16-bit floats, bytes 16 unsigned bytes.
AMX_INLINE __m512 halves(const uint8_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
AMX_INLINE __m512 bytes(const uint8_t *p) {
	return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)));
}

// lay_out opens blocks of a group, from number from on, as the panel's blocks from number at on.
AMX_INLINE void lay_out(struct panel *p, int64_t at, const struct mq_matrix *m, int64_t group, int64_t from,
                        int64_t blocks) {
	const __m512i low = _mm512_set1_epi8(15), zero = _mm512_set1_epi8((char)mq_zero(m));
	const int8_t *numbers_of = m->table ? mq_table(m) : mq_tables[0];
	const __m512i table = _mm512_broadcast_i32x4(_mm_loadu_si128((const void *)numbers_of));
	int8_t *to = p->codes + at * m->block * MQ_GROUP;
	for (int64_t b = at; b < at + blocks; b++, from++) {
		const uint8_t *w = mq_at(m, group, from);
		const uint8_t *numbers = m->offsets == MQ_FACTORS ? mq_shared(m, group, from) : w;
		__m512 scale = halves(numbers), offset = scale;
		if (m->offsets) offset = halves(numbers + 2 * MQ_GROUP);
		if (m->offsets == MQ_FACTORS)
			scale = _mm512_mul_ps(scale, bytes(w)), offset = _mm512_mul_ps(offset, bytes(w + MQ_GROUP));
		_mm512_store_ps(p->scales + b * MQ_GROUP, scale);
		if (m->offsets) _mm512_store_ps(p->offsets + b * MQ_GROUP, offset);
		w += m->offsets == MQ_OFFSETS ? 4 * MQ_GROUP : 2 * MQ_GROUP;
		for (int i = 0; i < m->block; i += m->bits == 4 ? 8 : 4, w += 64, to += 64) {
			__builtin_prefetch(w + 2048);
			const __m512i v = _mm512_loadu_si512((const void *)w);
			if (m->bits == 8) {
				_mm512_store_si512((void *)to, v);
				continue;
			}
			if (m->table) {
				_mm512_store_si512((void *)to, _mm512_shuffle_epi8(table, _mm512_and_si512(v, low)));
				to += 64;
				_mm512_store_si512((void *)to,
				                   _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(v, 4), low)));
				continue;
			}
			_mm512_store_si512((void *)to, _mm512_sub_epi8(_mm512_and_si512(v, low), zero));
			to += 64;
			_mm512_store_si512((void *)to,
			                   _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(v, 4), low), zero));
		}
	}
}

// lay_out_six is lay_out for blocks [from, to) of a group with codes of 6 bits.
AMX_INLINE void lay_out_six(struct panel *p, int64_t at, const struct mq_matrix *m, int64_t group, int64_t from,
                            int64_t to) {
	struct mq_six s;
	for (int64_t b = from, next; b < to; b = next) {
		next = mq_six_end(b, to);
		mq_six_open(1, 0, &s, mq_six_at(m, group, b), next - b);
		const __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)mq_six_scales(m, group, b)));
		memcpy(p->codes + at * 32 * MQ_GROUP, s.codes, (size_t)(next - b) * sizeof *s.codes);
		memcpy(p->factors[at], s.factors.floats, (size_t)(next - b) * sizeof *s.factors.floats);
		for (int64_t i = b; i < next; i++, at++) _mm512_store_ps(p->scales + at * MQ_GROUP, scale);
	}
}

// gather lays out blocks of 16 rows, the first of which is number at of all of them.
AMX_INLINE void gather(struct strip *s, const struct mq_matrix *m, const struct mq_rows *r, int64_t at,
                       int64_t blocks) {
	const int64_t row_blocks = mq_blocks(m);
	const int step = m->block < 64 ? m->block : 64;
	for (int i = 0; i < TILE_ROWS; i++, at += row_blocks) {
		const int8_t *x = r->codes + at * m->block;
		int8_t *to = s->codes + i * step;
		if (step == 32)
			for (int64_t n = 0; n < blocks; n++) memcpy(to + n * 32 * TILE_ROWS, x + n * 32, 32);
		else
			for (int64_t n = 0; n < blocks * m->block / 64; n++) memcpy(to + n * 64 * TILE_ROWS, x + n * 64, 64);
		for (int64_t b = 0; b < blocks; b++) s->scales[b * TILE_ROWS + i] = r->scales[at + b];
		for (int64_t b = 0; m->offsets && b < blocks; b++) s->totals[b * TILE_ROWS + i] = r->totals[at + b];
	}
}

// read_results reads those of 16 rows, and fetches those of the next group.
AMX_INLINE void read_results(__m512 f[TILE_ROWS], const float *y, int64_t stride, int first, int last) {
	_Pragma("GCC unroll 16") for (int r = 0; r < TILE_ROWS; r++) {
		f[r] = first ? _mm512_setzero_ps() : _mm512_loadu_ps(y + r * stride);
		if (!last) __builtin_prefetch(y + r * stride + MQ_GROUP, 1);
	}
}

// write_results writes them.
AMX_INLINE void write_results(const __m512 f[TILE_ROWS], float *y, int64_t stride) {
	_Pragma("GCC unroll 16") for (int r = 0; r < TILE_ROWS; r++) _mm512_storeu_ps(y + r * stride, f[r]);
}

// QUARTER adds the sums of a block, scaled, to the results of 4 rows.
#define QUARTER(from)                                                                                            \
	_Pragma("GCC unroll 4") for (int r = (from); r < (from) + TILE_ROWS / 4; r++) {                               \
		const __m512 sum = _mm512_cvtepi32_ps(_mm512_load_si512((const void *)(own + r * MQ_GROUP)));             \
		f[r] = _mm512_fmadd_ps(sum, _mm512_mul_ps(scale, _mm512_set1_ps(scales[r])), f[r]);                       \
		if (OFFSETS) f[r] = _mm512_fmadd_ps(offset, _mm512_set1_ps(totals[r]), f[r]);                             \
	}

// tile multiplies 16 rows by the blocks of groups. While the sums of a block are added, those of the next are stored,
// and those of the one behind it computed, in turns in small steps: the processor looks ahead for less than a block.
AMX_INLINE void tile(const int OFFSETS, const int BLOCK, const struct panel *p, const struct strip *s, int64_t blocks,
                     int64_t groups, float *y, int64_t stride, int first) {
	const int step = BLOCK < 64 ? BLOCK : 64, bytes = BLOCK * MQ_GROUP;
	const int8_t *x = s->codes, *codes = p->codes;  // of the block that is computed
	const int8_t *const x_end = x + blocks * bytes, *const codes_end = codes + groups * blocks * bytes;
	_Alignas(64) int32_t sums[2][TILE_ROWS * MQ_GROUP];
#define MULTIPLY()                                             \
	do {                                                        \
		_tile_zero(0);                                          \
		_tile_dpbssd(0, 2, 4);                                  \
		if (BLOCK > 64) {                                       \
			_tile_loadd(2, x + STEP_BYTES, step);               \
			_tile_loadd(4, codes + STEP_BYTES, 4 * MQ_GROUP);   \
			_tile_dpbssd(0, 2, 4);                              \
		}                                                       \
		x += bytes, codes += bytes;                             \
		if (x == x_end) x = s->codes;                           \
		if (codes == codes_end) codes = p->codes; /* unused */  \
	} while (0)
	for (int i = 0; i < 2; i++) {
		_tile_loadd(2, x, step);
		_tile_loadd(4, codes, 4 * MQ_GROUP);
		MULTIPLY();
		if (!i) _tile_stored(0, sums[0], 4 * MQ_GROUP);
	}
	int64_t at = 0;
	for (int64_t g = 0; g < groups; g++, y += MQ_GROUP) {
		__m512 f[TILE_ROWS];
		read_results(f, y, stride, first, g + 1 == groups);
		const float *scales = s->scales, *totals = s->totals;
		for (int64_t b = 0; b < blocks; b++, at++, scales += TILE_ROWS, totals += TILE_ROWS) {
			const __m512 scale = _mm512_load_ps(p->scales + at * MQ_GROUP);
			const __m512 offset = OFFSETS ? _mm512_load_ps(p->offsets + at * MQ_GROUP) : scale;
			const int32_t *own = sums[at % 2];
			_tile_stored(0, sums[(at + 1) % 2], 4 * MQ_GROUP);
			QUARTER(0)
			_tile_loadd(2, x, step);
			QUARTER(4)
			_tile_loadd(4, codes, 4 * MQ_GROUP);
			QUARTER(8)
			MULTIPLY();
			QUARTER(12)
		}
		write_results(f, y, stride);
	}
#undef MULTIPLY
}

// SUM_HALF adds up the codes of 16 columns with three tiles, and stores the sums.
#define SUM_HALF(sum, rows, cols, x, codes, out)         \
	do {                                                  \
		_tile_zero(sum);                                  \
		_tile_loadd(rows, x, 32);                         \
		_tile_loadd(cols, codes, 4 * MQ_GROUP);           \
		_tile_dpbssd(sum, rows, cols);                    \
		_tile_stored(sum, out, 4 * MQ_GROUP);             \
	} while (0)

// tile_six is tile for codes of 6 bits.
AMX_INLINE void tile_six(const struct panel *p, const struct strip *s, int64_t blocks, int64_t groups, float *y,
                         int64_t stride, int first) {
	_Alignas(64) int32_t sums[2][TILE_ROWS * MQ_GROUP];
	const int8_t *codes = p->codes;
	int64_t at = 0;
	for (int64_t g = 0; g < groups; g++, y += MQ_GROUP) {
		__m512 f[TILE_ROWS];
		read_results(f, y, stride, first, g + 1 == groups);
		for (int64_t b = 0; b < blocks; b++, at++, codes += 32 * MQ_GROUP) {
			const int8_t *x = s->codes + b * 32 * TILE_ROWS;
			SUM_HALF(0, 2, 4, x, codes, sums[0]);
			SUM_HALF(1, 3, 5, x + 16, codes + 16 * MQ_GROUP, sums[1]);
			const __m512 scale = _mm512_load_ps(p->scales + at * MQ_GROUP);
			const __m512 one = _mm512_load_ps(p->factors[at][0]), two = _mm512_load_ps(p->factors[at][1]);
			_Pragma("GCC unroll 16") for (int r = 0; r < TILE_ROWS; r++) {
				const __m512 left = _mm512_cvtepi32_ps(_mm512_load_si512((const void *)(sums[0] + r * MQ_GROUP)));
				const __m512 right = _mm512_cvtepi32_ps(_mm512_load_si512((const void *)(sums[1] + r * MQ_GROUP)));
				const __m512 all = _mm512_fmadd_ps(right, two, _mm512_mul_ps(left, one));  // an integer, which is exact
				f[r] = _mm512_fmadd_ps(all, _mm512_mul_ps(scale, _mm512_set1_ps(s->scales[b * TILE_ROWS + r])), f[r]);
			}
		}
		write_results(f, y, stride);
	}
}

// multiply_tiles multiplies whole tiles of rows by at most GROUPS groups.
AMX static void multiply_tiles(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t last,
                               int64_t row, int64_t end, float *y, int64_t stride) {
	const int64_t row_blocks = mq_blocks(m), groups = last - group;
	struct panel p;
	struct strip s;
	configure(m->bits == 6 ? 16 : m->block < 64 ? m->block : 64);
	const int64_t most = AT_ONCE / m->block, parts = (row_blocks + most - 1) / most;
	const int64_t part = (row_blocks + parts - 1) / parts;  // no part is much shorter than the others
	for (int64_t b = 0, next; b < row_blocks; b = next) {
		next = row_blocks - b < part ? row_blocks : b + part;
		const int64_t blocks = next - b;
		for (int64_t g = group; g < last; g++)
			if (m->bits == 6)
				lay_out_six(&p, (g - group) * blocks, m, g, b, next);
			else
				lay_out(&p, (g - group) * blocks, m, g, b, blocks);
		for (int64_t i = row; i < end; i += TILE_ROWS) {
			gather(&s, m, r, i * row_blocks + b, blocks);
			WRITTEN();
			float *out = y + (i - row) * stride;
			if (m->bits == 6)
				tile_six(&p, &s, blocks, groups, out, stride, !b);
			else if (m->offsets)
				tile(1, 32, &p, &s, blocks, groups, out, stride, !b);
			else if (m->block == 32)
				tile(0, 32, &p, &s, blocks, groups, out, stride, !b);
			else if (m->block == 64)
				tile(0, 64, &p, &s, blocks, groups, out, stride, !b);
			else
				tile(0, 128, &p, &s, blocks, groups, out, stride, !b);
		}
	}
	_tile_release();
}

static void multiply_groups(const struct mq_matrix *m, const struct mq_rows *r, int64_t group, int64_t last,
                            int64_t row, int64_t end, float *y, int64_t stride) {
	const int64_t blocks = mq_blocks(m), whole = row + (end - row) / TILE_ROWS * TILE_ROWS;
	for (int64_t g = group, next; whole > row && g < last; g = next) {
		next = last - g < GROUPS ? last : g + GROUPS;
		multiply_tiles(m, r, g, next, row, whole, y + (g - group) * MQ_GROUP, stride);
	}
	y += (whole - row) * stride;
	for (int64_t g = group; end > whole && g < last; g++, y += MQ_GROUP)
		mq_avx512vnni.multiply(m, r, g, 0, blocks, whole, end, y, stride);
}

const struct mq_kernel mq_amx = {"amx", quantise, NULL, multiply_groups};

#endif

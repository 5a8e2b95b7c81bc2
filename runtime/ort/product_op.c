// The operators of quantised matrices: tgi.MatMulQ multiplies by one, tgi.GatherQ looks up its rows.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"
#include "product.h"
#include "product_six.h"

// Inputs of MatMulQ: activations [tokens, K], the matrix as bytes, and optionally a bias [N].
enum { MUL_X, MUL_MATRIX, MUL_BIAS, MUL_COUNT };
// Inputs of GatherQ: the matrix as bytes, and which rows [tokens].
enum { GET_MATRIX, GET_ROWS, GET_COUNT };

enum {
	PART_WORK = 131072,  // multiply-adds that are worth a part of their own
	MAX_PARTS = 256,
	SLAB = 128,          // rows of a part, where groups are multiplied together
	ENOUGH_PARTS = 32,   // that have fewer groups than MOST_GROUPS for it
	LEAST_GROUPS = 4,
	MOST_GROUPS = 16,
	GATED_GROUPS = 8,    // of each half that are multiplied together
	NO_ACTIVATION = -1,
	ROUNDING_WORK = 2,  // rounding one activation, in multiply-adds, for SERIAL_WORK
};

// read_form reads a node's attributes.
static OrtStatus *read_form(const char *op, const OrtKernelInfo *info, struct mq_matrix *m) {
	struct op_attributes a = {info, op, NULL};
	*m = (struct mq_matrix){.n = op_integer(&a, "N", 1, INT32_MAX, 0),
	                        .k = op_integer(&a, "K", 1, 1 << 24, 0),
	                        .bits = (int)op_integer(&a, "bits", 1, 8, 0),
	                        .block = (int)op_integer(&a, "block_size", 1, 128, 0),
	                        .offsets = (int)op_integer(&a, "offsets", 0, MQ_FACTORS, 0),
	                        .table = (int)op_integer(&a, "table", 0, MQ_TABLES, 0)};
	if (a.wrong) return a.wrong;
	if (!mq_fits(m))
		return op_invalid("tgi.MatMulQ, tgi.GatherQ: bits must be 4 or 8, block_size 32, 64 or 128, 32 with offsets "
		                  "or a table, which there are 3 of for 4 bits; or bits 6 or offsets 2, block_size 32 and K a "
		                  "multiple of 256");
	return NULL;
}

// new_kernel returns a copy of what a node says.
static OrtStatus *new_kernel(const void *node, size_t size, void **kernel) {
	*kernel = malloc(size);
	if (!*kernel) return op_invalid("tgi.MatMulQ, tgi.GatherQ: out of memory");
	memcpy(*kernel, node, size);
	return NULL;
}

// read_matrix returns the node's matrix with its data, if that has the right size.
static int read_matrix(const struct mq_matrix *node, const struct tensor *in, struct mq_matrix *m) {
	*m = *node;
	m->data = in->data;
	return in->size == mq_bytes(m);
}

// multiplier is what a node of MatMulQ says.
struct multiplier {
	struct mq_matrix matrix;
	// The activation of a gated unit, or -1: the first half of a product is its gate, and the result is activation(gate)
	// times the other half.
	int64_t activation;
};

struct product {
	const struct mq_kernel *kernel;
	glu_row *glu;  // null without an activation
	struct mq_matrix matrix;
	struct mq_rows rows;
	const float *x, *bias;
	float *y;
	int64_t tokens, width;  // of the result
	int64_t parts, slabs;   // each part of the groups has a unit of work for each slab of the tokens
};

static void round_row(void *work, size_t i) {
	const struct product *p = work;
	p->kernel->quantise(&p->matrix, &p->rows, p->x + (int64_t)i * p->matrix.k, (int64_t)i);
}

static void add_bias(const struct product *p, int64_t column, int64_t n, float *y, int64_t rows, int64_t stride) {
	for (int64_t r = 0; p->bias && r < rows; r++, y += stride)
		for (int64_t c = 0; c < n; c++) y[c] += p->bias[column + c];
}

// run_groups multiplies rows [row, end) by groups [first, last).
static void run_groups(const struct product *p, int64_t first, int64_t last, int64_t row, int64_t end) {
	const struct mq_matrix *m = &p->matrix;
	const int64_t whole = last * MQ_GROUP > m->n ? last - 1 : last;  // groups, of which the very last may have less
	const int64_t column = first * MQ_GROUP, rest = whole < last ? m->n - whole * MQ_GROUP : 0;
	float *y = p->y + row * m->n;
	mq_multiply(p->kernel, m, &p->rows, first, whole, row, end, y + column, m->n);
	for (int64_t at = row, next; rest && at < end; at = next) {
		float results[SLAB * MQ_GROUP];
		next = end - at < SLAB ? end : at + SLAB;
		mq_multiply(p->kernel, m, &p->rows, whole, last, at, next, results, MQ_GROUP);
		for (int64_t r = at; r < next; r++)
			memcpy(p->y + r * m->n + whole * MQ_GROUP, results + (r - at) * MQ_GROUP, (size_t)rest * sizeof *y);
	}
	add_bias(p, column, (whole - first) * MQ_GROUP + rest, y + column, end - row, m->n);
}

// run_gated multiplies rows [row, end) by groups [first, last) of the gate and those of the other half, and applies the
// activation, so that the product is never written to memory.
static void run_gated(const struct product *p, int64_t first, int64_t last, int64_t row, int64_t end) {
	const struct mq_matrix *m = &p->matrix;
	const int64_t half = mq_groups(m) / 2;
	for (int64_t at = row, stop; at < end; at = stop) {
		stop = end - at < SLAB ? end : at + SLAB;
		for (int64_t g = first, next; g < last; g = next) {
			next = last - g < GATED_GROUPS ? last : g + GATED_GROUPS;
			float gate[SLAB * GATED_GROUPS * MQ_GROUP], up[SLAB * GATED_GROUPS * MQ_GROUP];
			const int64_t n = (next - g) * MQ_GROUP, column = g * MQ_GROUP;
			mq_multiply(p->kernel, m, &p->rows, g, next, at, stop, gate, n);
			mq_multiply(p->kernel, m, &p->rows, half + g, half + next, at, stop, up, n);
			add_bias(p, column, n, gate, stop - at, n);
			add_bias(p, half * MQ_GROUP + column, n, up, stop - at, n);
			for (int64_t r = 0; r < stop - at; r++)
				p->glu(gate + r * n, up + r * n, p->y + (at + r) * p->width + column, n);
		}
	}
}

// run_part multiplies a slab of rows by a part of the groups.
static void run_part(void *work, size_t i) {
	const struct product *p = work;
	const int64_t part = (int64_t)i / p->slabs, slab = (int64_t)i % p->slabs;
	const int64_t groups = mq_groups(&p->matrix) / (p->glu ? 2 : 1);
	const int64_t first = groups * part / p->parts, last = groups * (part + 1) / p->parts;
	const int64_t row = slab * SLAB, end = slab + 1 == p->slabs ? p->tokens : row + SLAB;
	(p->glu ? run_gated : run_groups)(p, first, last, row, end);
}

// divide cuts the work into parts and slabs.
static void divide(struct product *p, int64_t work) {
	const int64_t groups = mq_groups(&p->matrix) / (p->glu ? 2 : 1);
	int64_t most = groups;
	p->slabs = 1;
	if (p->kernel->multiply_groups) {
		p->slabs = (p->tokens + SLAB - 1) / SLAB;
		int64_t each = groups * p->slabs / ENOUGH_PARTS;
		each = each < LEAST_GROUPS ? LEAST_GROUPS : each > MOST_GROUPS ? MOST_GROUPS : each;
		most = (groups + each - 1) / each;
	}
	p->parts = work / PART_WORK / p->slabs;
	if (p->parts > most) p->parts = most;
	if (p->parts > MAX_PARTS) p->parts = MAX_PARTS;
	if (p->parts < 1) p->parts = 1;
}

// with_rows gives p memory for its rounded rows, which the caller gives back.
static void *with_rows(struct product *p) {
	void *memory = op_scratch(mq_rows_bytes(&p->matrix, p->tokens));
	if (memory) p->rows = mq_rows_in(&p->matrix, p->tokens, memory);
	return memory;
}

static OrtStatus *multiply(void *kernel, OrtKernelContext *ctx) {
	struct tensor in[MUL_COUNT];
	size_t count = 0;
	memset(in, 0, sizeof in);
	OrtStatus *status = tgi_ort.KernelContext_GetInputCount(ctx, &count);
	for (size_t i = 0; !status && i < count && i < MUL_COUNT; i++) status = op_input(ctx, i, &in[i]);
	if (status) return status;
	struct product p = {.kernel = mq_current(), .x = in[MUL_X].data, .bias = in[MUL_BIAS].data};
	const struct multiplier *node = kernel;
	if (!read_matrix(&node->matrix, &in[MUL_MATRIX], &p.matrix))
		return op_invalid("tgi.MatMulQ: the matrix has another size than N, K, bits and block_size say");
	const int64_t n = p.matrix.n, k = p.matrix.k;
	if (in[MUL_X].rank != 2 || in[MUL_X].dims[1] != k) return op_invalid("tgi.MatMulQ: the rows have not K columns");
	if (p.bias && in[MUL_BIAS].size != n) return op_invalid("tgi.MatMulQ: the bias has not N numbers");
	if (node->activation != NO_ACTIVATION) p.glu = glu_choose(node->activation);
	p.tokens = in[MUL_X].dims[0], p.width = p.glu ? n / 2 : n;
	const int64_t shape[2] = {p.tokens, p.width};
	status = op_output(ctx, shape, 2, &p.y);
	if (status || !p.tokens) return status;
	void *memory = with_rows(&p);
	if (!memory) return op_invalid("tgi.MatMulQ: out of memory");
	const int64_t work = p.tokens * n * k;
	status = op_spread(ctx, round_row, (size_t)p.tokens, p.tokens * k * ROUNDING_WORK, &p);
	divide(&p, work);
	if (!status) status = op_spread(ctx, run_part, (size_t)(p.parts * p.slabs), work, &p);
	op_scratch_free(memory);
	return status;
}

// look_up_six is look_up for codes of 6 bits.
static void look_up_six(const struct mq_matrix *m, int64_t row, float *out) {
	const int64_t group = row / MQ_GROUP, lane = row % MQ_GROUP;
	for (int64_t b = 0; b < mq_blocks(m); b++, out += 32) {
		uint16_t half;
		memcpy(&half, mq_six_scales(m, group, b) + 2 * lane, sizeof half);
		const uint8_t *w = mq_six_at(m, group, b);
		uint8_t codes[32 * MQ_GROUP];
		mq_six_codes(0, codes, w + 2 * MQ_GROUP);
		for (int i = 0; i < 32; i++) {
			const float scale = mq_float(half) * (float)(int8_t)w[i / 16 * MQ_GROUP + lane];
			out[i] = scale * (float)(codes[i / 4 * 64 + 4 * lane + i % 4] - 32);
		}
	}
}

// look_up writes one row of a matrix.
static void look_up(const struct mq_matrix *m, int64_t row, float *out) {
	if (m->bits == 6) {
		look_up_six(m, row, out);
		return;
	}
	const int64_t group = row / MQ_GROUP, lane = row % MQ_GROUP;
	const int zero = mq_zero(m), factors = m->offsets == MQ_FACTORS;
	const int8_t *table = mq_table(m);
	for (int64_t b = 0, at = 0; at < m->k; b++, at += m->block) {
		const uint8_t *w = mq_at(m, group, b), *numbers = factors ? mq_shared(m, group, b) : w;
		uint16_t half;
		memcpy(&half, numbers + 2 * lane, sizeof half);
		const int64_t n = m->k - at < m->block ? m->k - at : m->block;
		float scale = mq_float(half), offset = 0;
		if (m->offsets) {
			memcpy(&half, numbers + 2 * MQ_GROUP + 2 * lane, sizeof half);
			offset = mq_float(half);
		}
		if (factors) scale *= (float)w[lane], offset *= (float)w[MQ_GROUP + lane];
		const uint8_t *codes = w + (m->offsets == MQ_OFFSETS ? 4 : 2) * MQ_GROUP + 4 * lane;
		for (int64_t i = 0; i < n; i++) {
			const int half = codes[i / 8 * 64 + i % 4] >> i % 8 / 4 * 4 & 15;
			const int code = m->bits == 8 ? (int8_t)codes[i / 4 * 64 + i % 4] : table ? table[half] : half - zero;
			out[at + i] = m->offsets ? fmaf(scale, (float)code, offset) : scale * (float)code;
		}
	}
}

static OrtStatus *gather(void *kernel, OrtKernelContext *ctx) {
	struct tensor in[GET_COUNT];
	for (size_t i = 0; i < GET_COUNT; i++) {
		OrtStatus *status = op_input(ctx, i, &in[i]);
		if (status) return status;
	}
	struct mq_matrix m;
	if (!read_matrix(kernel, &in[GET_MATRIX], &m))
		return op_invalid("tgi.GatherQ: the matrix has another size than N, K, bits and block_size say");
	if (in[GET_ROWS].rank != 1) return op_invalid("tgi.GatherQ: the rows' numbers are no vector");
	const int64_t *rows = in[GET_ROWS].data, tokens = in[GET_ROWS].size, shape[2] = {tokens, m.k};
	for (int64_t i = 0; i < tokens; i++)
		if (rows[i] < 0 || rows[i] >= m.n) return op_invalid("tgi.GatherQ: a row's number is out of bounds");
	float *out;
	OrtStatus *status = op_output(ctx, shape, 2, &out);
	for (int64_t i = 0; !status && i < tokens; i++) look_up(&m, rows[i], out + i * m.k);
	return status;
}

static OrtStatus *create_mul(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	struct multiplier node = {.activation = NO_ACTIVATION};
	OrtStatus *status = read_form("tgi.MatMulQ", info, &node.matrix);
	if (status) return status;
	status = tgi_ort.KernelInfoGetAttribute_int64(info, "activation", &node.activation);
	if (status) {
		tgi_ort.ReleaseStatus(status), node.activation = NO_ACTIVATION;
	} else if (!glu_choose(node.activation) || node.matrix.n % (2 * MQ_GROUP)) {
		return op_invalid("tgi.MatMulQ: activation is out of bounds, or N no multiple of 32 beside it");
	}
	return new_kernel(&node, sizeof node, kernel);
}
static OrtStatus *create_get(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	struct mq_matrix m;
	OrtStatus *status = read_form("tgi.GatherQ", info, &m);
	return status ? status : new_kernel(&m, sizeof m, kernel);
}
static void destroy(void *kernel) { free(kernel); }
static const char *mul_name(const struct tgi_custom_op *op) { return (void)op, "MatMulQ"; }
static const char *get_name(const struct tgi_custom_op *op) { return (void)op, "GatherQ"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, NULL; }
static size_t mul_inputs(const struct tgi_custom_op *op) { return (void)op, MUL_COUNT; }
static size_t get_inputs(const struct tgi_custom_op *op) { return (void)op, GET_COUNT; }
static size_t op_outputs(const struct tgi_custom_op *op) { return (void)op, 1; }
static unsigned mul_type(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i == MUL_MATRIX ? TGI_ORT_UINT8 : TGI_ORT_FLOAT;
}
static unsigned get_type(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i == GET_MATRIX ? TGI_ORT_UINT8 : TGI_ORT_INT64;
}
static unsigned op_output_type(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_FLOAT; }
static unsigned mul_kind(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i == MUL_BIAS ? TGI_ORT_OPTIONAL : TGI_ORT_REQUIRED;
}
static unsigned op_kind(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }
static int op_memory(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_MEM_DEFAULT; }

const struct tgi_custom_op tgi_matmul_q = {
    .version = TGI_CUSTOM_OP_VERSION,
    .GetName = mul_name,
    .GetExecutionProviderType = op_provider,
    .GetInputType = mul_type,
    .GetInputTypeCount = mul_inputs,
    .GetOutputType = op_output_type,
    .GetOutputTypeCount = op_outputs,
    .KernelDestroy = destroy,
    .GetInputCharacteristic = mul_kind,
    .GetOutputCharacteristic = op_kind,
    .GetInputMemoryType = op_memory,
    .CreateKernelV2 = create_mul,
    .KernelComputeV2 = multiply,
};

const struct tgi_custom_op tgi_gather_q = {
    .version = TGI_CUSTOM_OP_VERSION,
    .GetName = get_name,
    .GetExecutionProviderType = op_provider,
    .GetInputType = get_type,
    .GetInputTypeCount = get_inputs,
    .GetOutputType = op_output_type,
    .GetOutputTypeCount = op_outputs,
    .KernelDestroy = destroy,
    .GetInputCharacteristic = op_kind,
    .GetOutputCharacteristic = op_kind,
    .GetInputMemoryType = op_memory,
    .CreateKernelV2 = create_get,
    .KernelComputeV2 = gather,
};

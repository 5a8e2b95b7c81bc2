// The operators of quantised matrices: tgi.MatMulQ multiplies by one, tgi.GatherQ looks up its rows.

#include <math.h>
#include <stdio.h>
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
	ROWS_AT_ONCE = 128,      // of activations that a group meets while they are in the cache
	COLUMNS_AT_ONCE = 1024,  // of them
	PART_WORK = 131072,      // multiply-adds that are worth a part of their own
	MAX_PARTS = 256,
	ROUNDING_WORK = 2,  // rounding one activation, in multiply-adds, for SERIAL_WORK
};

static OrtStatus *attribute(const OrtKernelInfo *info, const char *op, const char *name, int64_t max, int64_t *out) {
	OrtStatus *status = tgi_ort.KernelInfoGetAttribute_int64(info, name, out);
	if (!status && *out >= 1 && *out <= max) return NULL;
	if (status) tgi_ort.ReleaseStatus(status);
	char text[96];
	snprintf(text, sizeof text, "%s: attribute missing or out of bounds: %s", op, name);
	return op_invalid(text);
}

// new_matrix reads a node's attributes.
static OrtStatus *new_matrix(const char *op, const OrtKernelInfo *info, void **kernel) {
	int64_t n, k, bits, block;
	OrtStatus *status = attribute(info, op, "N", INT32_MAX, &n);
	if (!status) status = attribute(info, op, "K", 1 << 24, &k);
	if (!status) status = attribute(info, op, "bits", 8, &bits);
	if (!status) status = attribute(info, op, "block_size", 128, &block);
	if (status) return status;
	int64_t offsets = 0;  // an attribute that may be absent
	status = tgi_ort.KernelInfoGetAttribute_int64(info, "offsets", &offsets);
	if (status) tgi_ort.ReleaseStatus(status), offsets = 0;
	const struct mq_matrix form = {.n = n, .k = k, .bits = (int)bits, .block = (int)block, .offsets = offsets != 0};
	if (!mq_fits(&form))
		return op_invalid("tgi.MatMulQ, tgi.GatherQ: bits must be 4 or 8, block_size 32, 64 or 128, 32 with offsets; "
		                  "or bits 6, block_size 32 and K a multiple of 256");
	struct mq_matrix *m = malloc(sizeof *m);
	if (!m) return op_invalid("tgi.MatMulQ, tgi.GatherQ: out of memory");
	*m = form;
	*kernel = m;
	return NULL;
}

// read_matrix returns the node's matrix with its data, if that has the right size.
static int read_matrix(const struct mq_matrix *node, const struct tensor *in, struct mq_matrix *m) {
	*m = *node;
	m->data = in->data;
	return in->size == mq_bytes(m);
}

struct product {
	const struct mq_kernel *kernel;
	struct mq_matrix matrix;
	struct mq_rows rows;
	const float *x, *bias;
	float *y;
	int64_t tokens, parts;
};

static void round_row(void *work, size_t i) {
	const struct product *p = work;
	p->kernel->quantise(&p->matrix, &p->rows, p->x + (int64_t)i * p->matrix.k, (int64_t)i);
}

// run_group multiplies rows [row, end) by some columns of a group.
static void run_group(const struct product *p, int64_t group, int64_t from, int64_t to, int64_t row, int64_t end) {
	const struct mq_matrix *m = &p->matrix;
	const int64_t column = group * MQ_GROUP, n = m->n - column < MQ_GROUP ? m->n - column : MQ_GROUP;
	float *y = p->y + row * m->n + column, part[ROWS_AT_ONCE * MQ_GROUP];
	if (n == MQ_GROUP) {
		p->kernel->multiply(m, &p->rows, group, from, to, row, end, y, m->n);
	} else {
		for (int64_t r = 0; r < end - row && from; r++) memcpy(part + r * MQ_GROUP, y + r * m->n, (size_t)n * sizeof *y);
		p->kernel->multiply(m, &p->rows, group, from, to, row, end, part, MQ_GROUP);
		for (int64_t r = 0; r < end - row; r++) memcpy(y + r * m->n, part + r * MQ_GROUP, (size_t)n * sizeof *y);
	}
	if (!p->bias || to < mq_blocks(m)) return;
	for (int64_t r = 0; r < end - row; r++)
		for (int64_t c = 0; c < n; c++) y[r * m->n + c] += p->bias[column + c];
}

static void run_part(void *work, size_t i) {
	const struct product *p = work;
	const int64_t groups = mq_groups(&p->matrix), blocks = mq_blocks(&p->matrix);
	const int64_t first = groups * (int64_t)i / p->parts, last = groups * (int64_t)(i + 1) / p->parts;
	const int64_t step = COLUMNS_AT_ONCE / p->matrix.block;
	// Few rows stay in the cache as a whole, and groups are then read from their first byte to their last.
	const int64_t at_once = p->tokens < 32 ? blocks : step;
	for (int64_t row = 0; row < p->tokens; row += ROWS_AT_ONCE) {
		const int64_t end = p->tokens - row < ROWS_AT_ONCE ? p->tokens : row + ROWS_AT_ONCE;
		for (int64_t from = 0; from < blocks; from += at_once) {
			const int64_t to = blocks - from < at_once ? blocks : from + at_once;
			for (int64_t g = first; g < last; g++) run_group(p, g, from, to, row, end);
		}
	}
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
	if (!read_matrix(kernel, &in[MUL_MATRIX], &p.matrix))
		return op_invalid("tgi.MatMulQ: the matrix has another size than N, K, bits and block_size say");
	const int64_t n = p.matrix.n, k = p.matrix.k;
	if (in[MUL_X].rank != 2 || in[MUL_X].dims[1] != k) return op_invalid("tgi.MatMulQ: the rows have not K columns");
	if (p.bias && in[MUL_BIAS].size != n) return op_invalid("tgi.MatMulQ: the bias has not N numbers");
	p.tokens = in[MUL_X].dims[0];
	const int64_t shape[2] = {p.tokens, n};
	status = op_output(ctx, shape, 2, &p.y);
	if (status || !p.tokens) return status;
	void *memory = with_rows(&p);
	if (!memory) return op_invalid("tgi.MatMulQ: out of memory");
	const int64_t work = p.tokens * n * k, groups = mq_groups(&p.matrix);
	status = op_spread(ctx, round_row, (size_t)p.tokens, p.tokens * k * ROUNDING_WORK, &p);
	p.parts = work / PART_WORK < MAX_PARTS ? work / PART_WORK : MAX_PARTS;
	if (p.parts > groups) p.parts = groups;
	if (p.parts < 1) p.parts = 1;
	if (!status) status = op_spread(ctx, run_part, (size_t)p.parts, work, &p);
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
	const int64_t blocks = mq_blocks(m), bytes = mq_block_bytes(m), lane = row % MQ_GROUP;
	const uint8_t *w = m->data + row / MQ_GROUP * blocks * bytes;
	for (int64_t at = 0; at < m->k; at += m->block, w += bytes) {
		uint16_t half;
		memcpy(&half, w + 2 * lane, sizeof half);
		const float scale = mq_float(half);
		const int64_t n = m->k - at < m->block ? m->k - at : m->block;
		float offset = 0;
		if (m->offsets) {
			memcpy(&half, w + 2 * MQ_GROUP + 2 * lane, sizeof half);
			offset = mq_float(half);
		}
		const uint8_t *codes = w + 2 * MQ_GROUP * (1 + m->offsets) + 4 * lane;
		for (int64_t i = 0; i < n; i++) {
			const int code = m->bits == 8 ? (int8_t)codes[i / 4 * 64 + i % 4]
			                              : (codes[i / 8 * 64 + i % 4] >> i % 8 / 4 * 4 & 15) - 8;
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
	return new_matrix("tgi.MatMulQ", info, kernel);
}
static OrtStatus *create_get(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	return new_matrix("tgi.GatherQ", info, kernel);
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

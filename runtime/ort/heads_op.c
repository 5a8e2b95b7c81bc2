// The operator tgi.HeadMatMul: products of each head of a row with a matrix of its own, as multi-head latent attention
// has them before its queries and behind its results.
//
// Products are those of tgi.MatMulQ, or dot products of floats with a fixed order of sums, so a row's result does not
// depend on the others.

#include <stdlib.h>
#include <string.h>

#include "op.h"
#include "product.h"

// Inputs: rows [rows, heads*(k+tail)], and the heads' matrices [n, k], one after another: floats, or packed as for
// tgi.MatMulQ. The result is [rows, heads*(tail+n)]: of each head its tail, which comes behind the k numbers that are
// multiplied, and then the product.
enum { HM_X, HM_MATRICES, HM_COUNT };

enum { COLUMNS = 64 };  // of a head's product that are one unit of work

struct heads_node {
	int64_t heads, n, k, tail, bits, block;
};

static OrtStatus *create(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	struct op_attributes a = {info, "tgi.HeadMatMul", NULL};
	const struct heads_node n = {
	    .heads = op_integer(&a, "heads", 1, 1 << 12, 0), .n = op_integer(&a, "N", 1, 1 << 16, 0),
	    .k = op_integer(&a, "K", 1, 1 << 16, 0), .tail = op_integer(&a, "tail", 0, 1 << 16, -1),
	    .bits = op_integer(&a, "bits", 0, 8, -1), .block = op_integer(&a, "block_size", 0, 128, -1)};
	if (a.wrong) return a.wrong;
	const int packed = (n.bits == 4 || n.bits == 8) && (n.block == 32 || n.block == 64 || n.block == 128);
	if (n.bits && !packed) return op_invalid("tgi.HeadMatMul: bits must be 0, 4 or 8, block_size 32, 64 or 128");
	struct heads_node *own = malloc(sizeof *own);
	if (!own) return op_invalid("tgi.HeadMatMul: out of memory");
	*own = n;
	*kernel = own;
	return NULL;
}

struct work {
	const struct heads_node *node;
	const struct mq_kernel *kernel;
	struct mq_matrix matrix;  // of the first head
	int64_t head_bytes, rows, units;
	struct mq_rows rounded;  // [heads][rows]
	const float *x;
	float *y;    // [heads][rows][stride], of the products
	float *out;
	int64_t stride;
};

// source is a row's numbers of a head.
static const float *source(const struct work *w, int64_t head, int64_t row) {
	const struct heads_node *n = w->node;
	return w->x + (row * n->heads + head) * (n->k + n->tail);
}

static void round_row(void *p, size_t i) {
	const struct work *w = p;
	w->kernel->quantise(&w->matrix, &w->rounded, source(w, (int64_t)i / w->rows, (int64_t)i % w->rows), (int64_t)i);
}

static void multiply(void *p, size_t unit) {
	const struct work *w = p;
	const struct heads_node *n = w->node;
	const int64_t head = (int64_t)unit / w->units, part = (int64_t)unit % w->units;
	struct mq_matrix m = w->matrix;
	m.data += head * w->head_bytes;
	float *y = w->y + head * w->rows * w->stride;
	if (!n->bits) {
		const int64_t end = (part + 1) * COLUMNS < n->n ? (part + 1) * COLUMNS : n->n;
		for (int64_t row = 0; row < w->rows; row++)
			for (int64_t c = part * COLUMNS; c < end; c++)
				op_dots((const float *)m.data + c * n->k, source(w, head, row), n->k, 1, y + row * w->stride + c, 0);
		return;
	}
	const int64_t groups = mq_groups(&m), per_unit = COLUMNS / MQ_GROUP, first = part * per_unit;
	const int64_t last = first + per_unit < groups ? first + per_unit : groups;
	mq_multiply(w->kernel, &m, &w->rounded, first, last, head * w->rows, (head + 1) * w->rows, y + first * MQ_GROUP,
	            w->stride);
}

static void finish(void *p, size_t row) {
	const struct work *w = p;
	const struct heads_node *n = w->node;
	for (int64_t head = 0; head < n->heads; head++) {
		float *out = w->out + ((int64_t)row * n->heads + head) * (n->tail + n->n);
		memcpy(out, source(w, head, (int64_t)row) + n->k, (size_t)n->tail * sizeof *out);
		memcpy(out + n->tail, w->y + (head * w->rows + (int64_t)row) * w->stride, (size_t)n->n * sizeof *out);
	}
}

static OrtStatus *compute(void *kernel, OrtKernelContext *ctx) {
	const struct heads_node *n = kernel;
	struct tensor in[HM_COUNT];
	OrtStatus *status = op_input(ctx, HM_X, &in[HM_X]);
	if (!status) status = op_input(ctx, HM_MATRICES, &in[HM_MATRICES]);
	if (status) return status;
	const int64_t rows = in[HM_X].rank == 2 ? in[HM_X].dims[0] : -1;
	if (rows < 0 || in[HM_X].dims[1] != n->heads * (n->k + n->tail))
		return op_invalid("tgi.HeadMatMul: the rows have another width");
	struct work w = {.node = n, .kernel = mq_current(), .rows = rows, .x = in[HM_X].data,
	                 .matrix = {in[HM_MATRICES].data, n->n, n->k, (int)n->bits, (int)n->block, 0},
	                 .units = (n->n + COLUMNS - 1) / COLUMNS, .stride = (n->n + MQ_GROUP - 1) / MQ_GROUP * MQ_GROUP};
	w.head_bytes = n->bits ? mq_bytes(&w.matrix) : n->n * n->k * (int64_t)sizeof(float);
	const int64_t bytes = in[HM_MATRICES].size * (n->bits ? 1 : (int64_t)sizeof(float));
	if (in[HM_MATRICES].type != (n->bits ? TGI_ORT_UINT8 : TGI_ORT_FLOAT) || bytes != n->heads * w.head_bytes)
		return op_invalid("tgi.HeadMatMul: the matrices have another size or type than the attributes say");
	const int64_t shape[2] = {rows, n->heads * (n->tail + n->n)};
	status = op_output(ctx, shape, 2, &w.out);
	if (status || !rows) return status;
	const size_t product = (size_t)(n->heads * rows * w.stride) * sizeof(float);
	char *memory = op_scratch(product + (n->bits ? mq_rows_bytes(&w.matrix, n->heads * rows) : 0));
	if (!memory) return op_invalid("tgi.HeadMatMul: out of memory");
	w.y = (float *)memory;
	if (n->bits) {
		w.rounded = mq_rows_in(&w.matrix, n->heads * rows, memory + product);
		status = op_spread(ctx, round_row, (size_t)(n->heads * rows), n->heads * rows * n->k * 2, &w);
	}
	const int64_t work = n->heads * rows * n->n * n->k;
	if (!status) status = op_spread(ctx, multiply, (size_t)(n->heads * w.units), work, &w);
	if (!status) status = op_spread(ctx, finish, (size_t)rows, rows * shape[1], &w);
	op_scratch_free(memory);
	return status;
}

static const char *op_name(const struct tgi_custom_op *op) { return (void)op, "HeadMatMul"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, NULL; }
static size_t op_inputs(const struct tgi_custom_op *op) { return (void)op, HM_COUNT; }
static size_t op_outputs(const struct tgi_custom_op *op) { return (void)op, 1; }
static unsigned op_input_type(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i == HM_MATRICES ? TGI_ORT_ANY : TGI_ORT_FLOAT;
}
static unsigned op_output_type(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_FLOAT; }
static unsigned op_kind(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }
static int op_memory(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_MEM_DEFAULT; }

const struct tgi_custom_op tgi_head_matmul = {
    .version = TGI_CUSTOM_OP_VERSION,
    .GetName = op_name,
    .GetExecutionProviderType = op_provider,
    .GetInputType = op_input_type,
    .GetInputTypeCount = op_inputs,
    .GetOutputType = op_output_type,
    .GetOutputTypeCount = op_outputs,
    .KernelDestroy = free,
    .GetInputCharacteristic = op_kind,
    .GetOutputCharacteristic = op_kind,
    .GetInputMemoryType = op_memory,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
};

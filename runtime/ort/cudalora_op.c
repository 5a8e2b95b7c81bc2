// The operator tgi.LoRA on a CUDA device: adds to each row of a product what the row's low-rank adapter says, by the
// kernels of runtime/lowrank.

#include <stdio.h>
#include <stdlib.h>

#include "cudalora.h"
#include "op.h"

// Inputs: the product [tokens, width], what was multiplied [tokens, in], the address on the device of each token's
// adapter, 0 for none, and the address of a struct tgi_cuda_lora, the only one in the host's memory.
enum { IN_PRODUCT, IN_X, IN_ADAPTERS, IN_DEVICE, IN_COUNT };

enum {
	SINGLE = 64,         // so many tokens are computed one by one, so that they spread over the device
	TILE = 8,            // of more, neighbours with one adapter are computed together, so that it is read less often
	SHRINK_BLOCKS = 16,  // that share the rows of an adapter
	ARGUMENTS = 9,
};

struct cuda_lora_node {
	int64_t first, count;
};

// launch runs both kernels on some tokens.
static int launch(const struct tgi_cuda_lora *d, const struct cuda_lora_node *n, void *stream, const uint64_t *at,
                  int64_t tokens, int64_t in, int64_t width, int half) {
	const unsigned tile = tokens > SINGLE ? TILE : 1, count = (unsigned)tokens;
	uint64_t shrink[ARGUMENTS] = {at[IN_X], (uint64_t)(uintptr_t)d->products, at[IN_ADAPTERS], (uint64_t)tokens,
	                              (uint64_t)in, (uint64_t)n->first, (uint64_t)n->count, (uint64_t)half, tile};
	uint64_t expand[ARGUMENTS] = {at[IN_PRODUCT], shrink[1], shrink[2], shrink[3], (uint64_t)width, shrink[5], shrink[6],
	                              shrink[7], tile};
	const unsigned columns = (unsigned)((width + d->threads - 1) / d->threads);
	int error = d->launch(d->device, d->shrink, count, SHRINK_BLOCKS, (unsigned)d->threads, stream, shrink, ARGUMENTS);
	if (!error) error = d->launch(d->device, d->expand, count, columns, (unsigned)d->threads, stream, expand, ARGUMENTS);
	return error;
}

static OrtStatus *compute(void *kernel, OrtKernelContext *ctx) {
	const struct cuda_lora_node *n = kernel;
	struct tensor in[IN_COUNT];
	for (size_t i = 0; i < IN_COUNT; i++) {
		OrtStatus *status = op_input(ctx, i, &in[i]);
		if (status) return status;
	}
	if (in[IN_PRODUCT].rank != 2 || in[IN_X].rank != 2 || in[IN_ADAPTERS].rank != 1 || in[IN_DEVICE].size != 1 ||
	    in[IN_X].dims[0] != in[IN_PRODUCT].dims[0] || in[IN_ADAPTERS].dims[0] != in[IN_PRODUCT].dims[0])
		return op_invalid("tgi.LoRA: the inputs are not two matrices and a vector of as many rows");
	float *sum;
	OrtStatus *status = op_output(ctx, in[IN_PRODUCT].dims, 2, &sum);
	if (status) return status;
	if ((void *)sum != in[IN_PRODUCT].data) return op_invalid("tgi.LoRA: the product is not added to in place");
	struct tgi_cuda_lora *d = (struct tgi_cuda_lora *)(intptr_t) * (int64_t *)in[IN_DEVICE].data;
	const int64_t tokens = in[IN_PRODUCT].dims[0], width = in[IN_PRODUCT].dims[1], columns = in[IN_X].dims[1];
	if (!d || n->first + n->count > d->count || n->count > d->most)
		return op_invalid("tgi.LoRA: first or count is out of bounds");
	for (int64_t i = n->first; i < n->first + n->count; i++)
		d->shapes[i] = (struct tgi_cuda_lora_shape){columns, width};
	if (!d->used) return NULL;
	void *stream = NULL;
	status = tgi_ort.KernelContext_GetGPUComputeStream(ctx, &stream);
	uint64_t at[IN_COUNT];
	for (int64_t done = 0; !status && done < tokens; done += d->tokens) {
		const int64_t some = tokens - done < d->tokens ? tokens - done : d->tokens;
		at[IN_PRODUCT] = (uint64_t)(uintptr_t)in[IN_PRODUCT].data + (uint64_t)(2 * done * width);
		at[IN_X] = (uint64_t)(uintptr_t)in[IN_X].data + (uint64_t)(2 * done * columns);
		at[IN_ADAPTERS] = (uint64_t)(uintptr_t)in[IN_ADAPTERS].data + (uint64_t)(8 * done);
		const int error = launch(d, n, stream, at, some, columns, width, in[IN_X].type == TGI_ORT_FLOAT16);
		if (!error) continue;
		char text[128];
		snprintf(text, sizeof text, "tgi.LoRA: launching a kernel: CUDA error %d: %s", error, d->error(error));
		status = tgi_ort.CreateStatus(TGI_ORT_FAIL, text);
	}
	return status;
}

static OrtStatus *create(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	struct cuda_lora_node n;
	OrtStatus *status = tgi_ort.KernelInfoGetAttribute_int64(info, "first", &n.first);
	if (!status) status = tgi_ort.KernelInfoGetAttribute_int64(info, "count", &n.count);
	if (status) return status;
	if (n.first < 0 || n.count < 1 || n.first > INT32_MAX || n.count > INT32_MAX)
		return op_invalid("tgi.LoRA: first or count is out of bounds");
	struct cuda_lora_node *kept = malloc(sizeof *kept);
	if (!kept) return op_invalid("tgi.LoRA: out of memory");
	*kept = n;
	*kernel = kept;
	return NULL;
}

static size_t alias(int **input, int **output) {
	static int first[1] = {0};
	*input = *output = first;
	return 1;
}

static void release_alias(int *input, int *output) { (void)input, (void)output; }

static void destroy(void *kernel) { free(kernel); }
static const char *op_name(const struct tgi_custom_op *op) { return (void)op, "LoRA"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, "CUDAExecutionProvider"; }
static size_t op_inputs(const struct tgi_custom_op *op) { return (void)op, IN_COUNT; }
static size_t op_outputs(const struct tgi_custom_op *op) { return (void)op, 1; }
static unsigned bfloat_input(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i >= IN_ADAPTERS ? TGI_ORT_INT64 : TGI_ORT_BFLOAT16;
}
static unsigned bfloat_output(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_BFLOAT16; }
static unsigned half_input(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i >= IN_ADAPTERS ? TGI_ORT_INT64 : TGI_ORT_FLOAT16;
}
static unsigned half_output(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_FLOAT16; }
static unsigned op_kind(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }
static int op_memory(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i == IN_DEVICE ? TGI_ORT_MEM_CPU_INPUT : TGI_ORT_MEM_DEFAULT;
}

#define OPERATOR(kind)                                                                                                 \
	{                                                                                                                    \
		.version = TGI_ALIAS_OP_VERSION, .GetName = op_name, .GetExecutionProviderType = op_provider,                      \
		.GetInputType = kind##_input, .GetInputTypeCount = op_inputs, .GetOutputType = kind##_output,                      \
		.GetOutputTypeCount = op_outputs, .KernelDestroy = destroy, .GetInputCharacteristic = op_kind,                     \
		.GetOutputCharacteristic = op_kind, .GetInputMemoryType = op_memory, .CreateKernelV2 = create,                     \
		.KernelComputeV2 = compute, .GetAliasMap = alias, .ReleaseAliasMap = release_alias,                                \
	}

static const struct tgi_custom_op bfloat_operator = OPERATOR(bfloat), half_operator = OPERATOR(half);

const struct tgi_custom_op *const *tgi_cuda_operators(void) {
	static const struct tgi_custom_op *const list[] = {&bfloat_operator, &half_operator, &tgi_cuda_attend_bfloat,
	                                                   &tgi_cuda_attend_half, NULL};
	return list;
}

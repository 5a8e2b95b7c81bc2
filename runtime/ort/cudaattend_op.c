// The operator tgi.PagedAttention on a CUDA device: steps that decode are computed by the kernel of runtime/attend, all
// others by ONNX Runtime's com.microsoft.PagedAttention, which has the same inputs and attributes.

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudaattend.h"
#include "op.h"

// Inputs of com.microsoft.PagedAttention, and the address of a struct tgi_cuda_attend. That and the metadata are in the
// host's memory.
enum {
	IN_QUERY, IN_KEY, IN_VALUE, IN_KEYS, IN_VALUES, IN_STARTS, IN_PAST, IN_TABLE, IN_COS, IN_SIN, IN_SLOTS, IN_SINKS,
	IN_QUERY_NORM, IN_KEY_NORM, IN_KEY_SCALE, IN_VALUE_SCALE, IN_METADATA, IN_DEVICE, IN_COUNT,
};
enum { OUT_RESULT, OUT_KEYS, OUT_VALUES, OUT_COUNT };
enum { META_QUERIES, META_KEYS };  // of the longest row
enum { ARGUMENTS = 29 };

struct cuda_attend_node {
	OrtOp *other;  // com.microsoft.PagedAttention
	int64_t heads, kv_heads, rotates, interleaved, window;
	float scale, cap, epsilon;
};

// copy_attributes makes attributes of those of a node that it has.
static OrtStatus *copy_attributes(const OrtKernelInfo *info, OrtOpAttr **made, int *count) {
	static const char *const integers[] = {"num_heads",          "kv_num_heads",     "do_rotary",
	                                       "rotary_interleaved", "local_window_size"};
	static const char *const reals[] = {"scale", "softcap", "qk_norm_epsilon"};
	OrtStatus *status = NULL;
	for (size_t i = 0; !status && i < sizeof integers / sizeof *integers; i++) {
		int64_t v;
		OrtStatus *none = tgi_ort.KernelInfoGetAttribute_int64(info, integers[i], &v);
		if (none) tgi_ort.ReleaseStatus(none);
		else status = tgi_ort.CreateOpAttr(integers[i], &v, 1, TGI_ORT_ATTRIBUTE_INT, &made[(*count)++]);
	}
	for (size_t i = 0; !status && i < sizeof reals / sizeof *reals; i++) {
		float v;
		OrtStatus *none = tgi_ort.KernelInfoGetAttribute_float(info, reals[i], &v);
		if (none) tgi_ort.ReleaseStatus(none);
		else status = tgi_ort.CreateOpAttr(reals[i], &v, 1, TGI_ORT_ATTRIBUTE_FLOAT, &made[(*count)++]);
	}
	return status;
}

// create_other makes ONNX Runtime's operator of the same attributes.
static OrtStatus *create_other(const OrtKernelInfo *info, unsigned type, OrtOp **other) {
	enum { MOST = 8 };
	static const char *names[] = {"T", "S", "T_CACHE"};
	const unsigned types[] = {type, TGI_ORT_INT32, type};
	OrtOpAttr *attributes[MOST] = {NULL};
	int count = 0;
	OrtStatus *status = copy_attributes(info, attributes, &count);
	if (!status)
		status = tgi_ort.CreateOp(info, "PagedAttention", "com.microsoft", 1, names,
		                          (const enum ONNXTensorElementDataType *)types, 3, (const OrtOpAttr *const *)attributes,
		                          count, IN_DEVICE, OUT_COUNT, other);
	for (int i = 0; i < count; i++)
		if (attributes[i]) tgi_ort.ReleaseOpAttr(attributes[i]);
	return status;
}

// parts_of returns how many parts the keys are split into. It depends on sizes that a recorded run keeps.
static int64_t parts_of(const struct tgi_cuda_attend *d, int64_t columns, int64_t keys) {
	if (columns >= d->aim) return 1;
	int64_t parts = (d->aim + columns / 2) / columns;
	const int64_t most = (keys + d->part_keys - 1) / d->part_keys;
	if (parts > most) parts = most;
	if (parts > d->most_parts) parts = d->most_parts;
	return parts < 1 ? 1 : parts;
}

static uint64_t address(const void *p) { return (uint64_t)(uintptr_t)p; }

static uint64_t bits(float v) {
	uint32_t b;
	memcpy(&b, &v, sizeof b);
	return b;
}

// decode launches the kernel.
static OrtStatus *decode(const struct cuda_attend_node *n, const struct tgi_cuda_attend *d, const struct tensor *in,
                         void *out, void *stream) {
	const int64_t head = in[IN_KEYS].dims[3], page = in[IN_KEYS].dims[1], rows = in[IN_PAST].size;
	const int64_t group = n->heads / n->kv_heads, columns = rows * n->kv_heads * ((group + d->heads - 1) / d->heads);
	const int64_t parts = parts_of(d, columns, ((const int32_t *)in[IN_METADATA].data)[META_KEYS]);
	const uint64_t query = address(in[IN_QUERY].data), size = 2 * (uint64_t)head;
	uint64_t key = address(in[IN_KEY].data), value = address(in[IN_VALUE].data);
	int64_t stride = n->heads * head, kv_stride = n->kv_heads * head;
	if (!key) {  // behind the queries
		key = query + size * (uint64_t)n->heads;
		value = key + size * (uint64_t)n->kv_heads;
		kv_stride = stride += 2 * kv_stride;
	}
	const uint64_t turned = n->rotates ? 2 * (uint64_t)in[IN_COS].dims[1] : 0;
	uint64_t a[ARGUMENTS] = {
		query, key, value, address(out), address(in[IN_KEYS].data), address(in[IN_VALUES].data),
		address(in[IN_TABLE].data), address(in[IN_PAST].data), address(in[IN_SLOTS].data), address(in[IN_COS].data),
		address(in[IN_SIN].data), address(in[IN_QUERY_NORM].data), address(in[IN_KEY_NORM].data),
		address(in[IN_SINKS].data), address(d->parts), address(d->arrived), (uint64_t)stride, (uint64_t)kv_stride,
		(uint64_t)n->heads, (uint64_t)n->kv_heads, (uint64_t)page, (uint64_t)in[IN_TABLE].dims[1], turned,
		(uint64_t)n->interleaved, (uint64_t)(n->window > 0 ? n->window : 0), (uint64_t)parts,
		bits(n->scale != 0 ? n->scale : 1 / sqrtf((float)head)), bits(n->cap), bits(n->epsilon)};
	const int error = d->launch(d->device, d->kernel, (unsigned)columns, (unsigned)parts, (unsigned)d->threads, stream, a,
	                            ARGUMENTS);
	if (!error) return NULL;
	char text[128];
	snprintf(text, sizeof text, "tgi.PagedAttention: launching a kernel: CUDA error %d: %s", error, d->error(error));
	return tgi_ort.CreateStatus(TGI_ORT_FAIL, text);
}

// check returns what is wrong with the inputs of a step that decodes.
static OrtStatus *check(const struct cuda_attend_node *n, const struct tensor *in) {
	const struct tensor *query = &in[IN_QUERY], *keys = &in[IN_KEYS];
	if (query->rank != 2 || keys->rank != 4 || in[IN_VALUES].rank != 4 || in[IN_TABLE].rank != 2 ||
	    in[IN_TABLE].dims[0] != in[IN_PAST].size || in[IN_SLOTS].size != query->dims[0] || keys->dims[1] % 16 ||
	    keys->dims[2] != n->kv_heads || in[IN_VALUES].size != keys->size)
		return op_invalid("tgi.PagedAttention: the inputs do not fit together");
	const int64_t head = keys->dims[3], packed = (n->heads + 2 * n->kv_heads) * head;
	if (query->dims[1] != (in[IN_KEY].data ? n->heads * head : packed) || !in[IN_KEY].data != !in[IN_VALUE].data ||
	    (in[IN_KEY].data && (in[IN_KEY].size != query->dims[0] * n->kv_heads * head ||
	                         in[IN_VALUE].size != in[IN_KEY].size)))
		return op_invalid("tgi.PagedAttention: queries, keys and values do not fit together");
	if (n->rotates && (in[IN_COS].rank != 2 || in[IN_SIN].size != in[IN_COS].size || in[IN_COS].dims[1] % 8 ||
	                   2 * in[IN_COS].dims[1] > head))
		return op_invalid("tgi.PagedAttention: cosines and sines do not fit the heads");
	if ((in[IN_QUERY_NORM].data && in[IN_QUERY_NORM].size != head) || !in[IN_QUERY_NORM].data != !in[IN_KEY_NORM].data ||
	    (in[IN_KEY_NORM].data && in[IN_KEY_NORM].size != head) || (in[IN_SINKS].data && in[IN_SINKS].size != n->heads) ||
	    in[IN_KEY_SCALE].data || in[IN_VALUE_SCALE].data)
		return op_invalid("tgi.PagedAttention: weights do not fit the heads");
	return NULL;
}

static OrtStatus *compute(void *kernel, OrtKernelContext *ctx) {
	const struct cuda_attend_node *n = kernel;
	struct tensor in[IN_COUNT];
	const OrtValue *values[IN_COUNT] = {NULL};
	OrtStatus *status = NULL;
	for (size_t i = 0; !status && i < IN_COUNT; i++) {
		status = op_input(ctx, i, &in[i]);
		if (!status) status = tgi_ort.KernelContext_GetInput(ctx, i, &values[i]);
	}
	if (status) return status;
	if (in[IN_DEVICE].size != 1 || in[IN_METADATA].size < 2 || in[IN_QUERY].rank != 2 || in[IN_KEYS].rank != 4)
		return op_invalid("tgi.PagedAttention: the inputs do not fit together");
	const struct tgi_cuda_attend *d = (struct tgi_cuda_attend *)(intptr_t) * (int64_t *)in[IN_DEVICE].data;
	const int64_t tokens = in[IN_QUERY].dims[0], dims[] = {tokens, n->heads * in[IN_KEYS].dims[3]};
	OrtValue *out[OUT_COUNT] = {NULL};
	void *data[OUT_COUNT] = {NULL};
	for (size_t i = 0; !status && i < OUT_COUNT; i++) {
		const struct tensor *cache = &in[i == OUT_KEYS ? IN_KEYS : IN_VALUES];
		status = tgi_ort.KernelContext_GetOutput(ctx, i, i == OUT_RESULT ? dims : cache->dims, i == OUT_RESULT ? 2 : 4,
		                                         &out[i]);
		if (!status) status = tgi_ort.GetTensorMutableData(out[i], &data[i]);
	}
	if (status) return status;
	if (data[OUT_KEYS] != in[IN_KEYS].data || data[OUT_VALUES] != in[IN_VALUES].data)
		return op_invalid("tgi.PagedAttention: the cache is not written in place");
	if (!d || !d->kernel || ((const int32_t *)in[IN_METADATA].data)[META_QUERIES] != 1 || tokens != in[IN_PAST].size)
		return tgi_ort.InvokeOp(ctx, n->other, values, IN_DEVICE, out, OUT_COUNT);
	void *stream = NULL;
	status = check(n, in);
	if (!status) status = tgi_ort.KernelContext_GetGPUComputeStream(ctx, &stream);
	return status ? status : decode(n, d, in, data[OUT_RESULT], stream);
}

static OrtStatus *create_node(unsigned type, const OrtKernelInfo *info, void **kernel) {
	struct op_attributes a = {info, "tgi.PagedAttention", NULL};
	struct cuda_attend_node n = {
		.heads = op_integer(&a, "num_heads", 1, 1 << 16, 0),
		.kv_heads = op_integer(&a, "kv_num_heads", 1, 1 << 16, 0),
		.rotates = op_integer(&a, "do_rotary", 0, 1, 0),
		.interleaved = op_integer(&a, "rotary_interleaved", 0, 1, 0),
		.window = op_integer(&a, "local_window_size", -1, INT32_MAX, -1),
		.scale = op_real(&a, "scale", 0),
		.cap = op_real(&a, "softcap", 0),
		.epsilon = op_real(&a, "qk_norm_epsilon", 1e-6f),
	};
	if (a.wrong) return a.wrong;
	if (n.heads % n.kv_heads) return op_invalid("tgi.PagedAttention: num_heads is not a multiple of kv_num_heads");
	OrtStatus *status = create_other(info, type, &n.other);
	if (status) return status;
	struct cuda_attend_node *kept = malloc(sizeof *kept);
	if (!kept) {
		tgi_ort.ReleaseOp(n.other);
		return op_invalid("tgi.PagedAttention: out of memory");
	}
	*kept = n;
	*kernel = kept;
	return NULL;
}

static void destroy(void *kernel) {
	struct cuda_attend_node *n = kernel;
	tgi_ort.ReleaseOp(n->other);
	free(n);
}

static size_t alias(int **input, int **output) {
	static int from[] = {IN_KEYS, IN_VALUES}, to[] = {OUT_KEYS, OUT_VALUES};
	*input = from, *output = to;
	return 2;
}

static void release_alias(int *input, int *output) { (void)input, (void)output; }
static const char *op_name(const struct tgi_custom_op *op) { return (void)op, "PagedAttention"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, "CUDAExecutionProvider"; }
static size_t op_inputs(const struct tgi_custom_op *op) { return (void)op, IN_COUNT; }
static size_t op_outputs(const struct tgi_custom_op *op) { return (void)op, OUT_COUNT; }
static unsigned op_required(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }

static unsigned op_kind(const struct tgi_custom_op *op, size_t i) {
	(void)op;
	const int optional = i == IN_KEY || i == IN_VALUE || i == IN_COS || i == IN_SIN || (i >= IN_SINKS && i < IN_METADATA);
	return optional ? TGI_ORT_OPTIONAL : TGI_ORT_REQUIRED;
}

static int op_memory(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i == IN_DEVICE || i == IN_METADATA ? TGI_ORT_MEM_CPU_INPUT : TGI_ORT_MEM_DEFAULT;
}

// input_type is that of an input, where queries are of a type.
static unsigned input_type(size_t i, unsigned type) {
	switch (i) {
	case IN_STARTS: case IN_PAST: case IN_TABLE: case IN_SLOTS: case IN_METADATA: return TGI_ORT_INT32;
	case IN_DEVICE: return TGI_ORT_INT64;
	case IN_KEY_SCALE: case IN_VALUE_SCALE: return TGI_ORT_FLOAT;
	default: return type;
	}
}

#define TYPED(kind, type)                                                                                              \
	static OrtStatus *kind##_create(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info,          \
	                                void **kernel) {                                                                     \
		return (void)op, (void)api, create_node(type, info, kernel);                                                       \
	}                                                                                                                    \
	static unsigned kind##_input(const struct tgi_custom_op *op, size_t i) { return (void)op, input_type(i, type); }     \
	static unsigned kind##_output(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, type; }          \
	const struct tgi_custom_op tgi_cuda_attend_##kind = {                                                                \
		.version = TGI_ALIAS_OP_VERSION, .GetName = op_name, .GetExecutionProviderType = op_provider,                      \
		.GetInputType = kind##_input, .GetInputTypeCount = op_inputs, .GetOutputType = kind##_output,                      \
		.GetOutputTypeCount = op_outputs, .KernelDestroy = destroy, .GetInputCharacteristic = op_kind,                     \
		.GetOutputCharacteristic = op_required, .GetInputMemoryType = op_memory, .CreateKernelV2 = kind##_create,          \
		.KernelComputeV2 = compute, .GetAliasMap = alias, .ReleaseAliasMap = release_alias,                                \
	};

TYPED(bfloat, TGI_ORT_BFLOAT16)
TYPED(half, TGI_ORT_FLOAT16)

// The operator tgi.GLU: activation(gate) * up, where a row of the input holds the
// gate's values and then as many of the up projection's. One pass where ONNX
// Runtime's own operators take three (split, activation, product), and one
// matrix product in front of it instead of two.

#include "attention.h"
#include "elementary.h"
#include "op.h"

#include <stdlib.h>

// ELEMENT_WORK is one element in multiply-adds, for SERIAL_WORK.
enum { ELEMENT_WORK = 16 };

// The activations, by the number that the node's attribute has.
enum { SILU, GELU_TANH, GELU, RELU, ACTIVATIONS };

// Two of them are x / (1 + e^z): silu with z = -x, and since x/2 (1 + tanh z) is x / (1 + e^-2z), gelu_tanh.
ELEMENTARY silu_power(float x) { return -x; }
ELEMENTARY gelu_tanh_power(float x) { return -1.5957691216057308f * (x + 0.044715f * x * x * x); }
ELEMENTARY gelu(float x) { return x * normal_distribution(x); }
ELEMENTARY relu(float x) { return x > 0 ? x : 0; }

#define ROW(function, name, target)                                                                    \
	target static void name(const float *restrict gate, const float *restrict up, float *restrict out, \
	                        int64_t n) {                                                               \
		for (int64_t i = 0; i < n; i++) out[i] = function(gate[i]) * up[i];                             \
	}
// Divisors are computed in a loop of their own: in one with the division, compilers divide three times, once for each
// case of the exponential's bounds.
#define QUOTIENTS(power, name, target)                                                                 \
	target static void name(const float *restrict gate, const float *restrict up, float *restrict out, \
	                        int64_t n) {                                                               \
		float divisors[64];                                                                             \
		for (int64_t at = 0, end; at < n; at = end) {                                                   \
			end = n - at < 64 ? n : at + 64;                                                             \
			for (int64_t i = at; i < end; i++) divisors[i - at] = 1.0f + exponential(power(gate[i]));    \
			for (int64_t i = at; i < end; i++) out[i] = gate[i] / divisors[i - at] * up[i];              \
		}                                                                                               \
	}
#define ROWS(suffix, target)                                \
	QUOTIENTS(silu_power, silu_##suffix, target)           \
	QUOTIENTS(gelu_tanh_power, gelu_tanh_##suffix, target) \
	ROW(gelu, gelu_##suffix, target)                       \
	ROW(relu, relu_##suffix, target)

ROWS(portable, )
#if defined(__x86_64__)
ROWS(avx2, __attribute__((target("avx2,fma"))))
ROWS(avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))))
#endif

glu_row *glu_choose(int64_t activation) {
#define OF_SET(suffix) {silu_##suffix, gelu_tanh_##suffix, gelu_##suffix, relu_##suffix}
	static glu_row *const rows[PA_SETS][ACTIVATIONS] = {
	    [PA_BASE] = OF_SET(portable),
#if defined(__x86_64__)
	    [PA_AVX2] = OF_SET(avx2),
	    [PA_AVX512] = OF_SET(avx512),
#endif
	};
	return activation < 0 || activation >= ACTIVATIONS ? NULL : rows[pa_current()->set][activation];
}

struct glu {
	glu_row *row;
	const float *in;
	float *out;
	int64_t width;  // of the output
};

static void run_row(void *work, size_t i) {
	const struct glu *s = work;
	const float *gate = s->in + (int64_t)i * 2 * s->width;
	s->row(gate, gate + s->width, s->out + (int64_t)i * s->width, s->width);
}

static OrtStatus *compute(void *kernel, OrtKernelContext *ctx) {
	struct tensor in;
	OrtStatus *status = op_input(ctx, 0, &in);
	if (status) return status;
	if (in.rank != 2 || in.dims[1] % 2) return op_invalid("tgi.GLU: the input is no matrix of an even width");
	const int64_t shape[2] = {in.dims[0], in.dims[1] / 2};
	struct glu s = {.row = glu_choose(*(const int *)kernel), .in = in.data, .width = shape[1]};
	status = op_output(ctx, shape, 2, &s.out);
	if (status) return status;
	return op_spread(ctx, run_row, (size_t)shape[0], shape[0] * shape[1] * ELEMENT_WORK, &s);
}

static OrtStatus *create(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	int64_t activation = -1;
	OrtStatus *status = tgi_ort.KernelInfoGetAttribute_int64(info, "activation", &activation);
	if (status) return status;
	if (!glu_choose(activation)) return op_invalid("tgi.GLU: activation is out of bounds");
	int *own = malloc(sizeof *own);
	if (!own) return op_invalid("tgi.GLU: out of memory");
	*own = (int)activation;
	*kernel = own;
	return NULL;
}

static const char *op_name(const struct tgi_custom_op *op) { return (void)op, "GLU"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, NULL; }
static size_t op_one(const struct tgi_custom_op *op) { return (void)op, 1; }
static unsigned op_type(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_FLOAT; }
static unsigned op_kind(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }
static int op_memory(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_MEM_DEFAULT; }

const struct tgi_custom_op tgi_glu = {
    .version = TGI_CUSTOM_OP_VERSION,
    .GetName = op_name,
    .GetExecutionProviderType = op_provider,
    .GetInputType = op_type,
    .GetInputTypeCount = op_one,
    .GetOutputType = op_type,
    .GetOutputTypeCount = op_one,
    .KernelDestroy = free,
    .GetInputCharacteristic = op_kind,
    .GetOutputCharacteristic = op_kind,
    .GetInputMemoryType = op_memory,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
};

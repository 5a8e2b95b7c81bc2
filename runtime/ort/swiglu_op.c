// The operator tgi.SwiGLU: silu(gate) * up, where a row of the input holds the
// gate's values and then as many of the up projection's. One pass where ONNX
// Runtime's own operators take three (split, activation, product), and one
// matrix product in front of it instead of two.

#include "attention.h"
#include "op.h"

#include <string.h>

// ELEMENT_WORK is one element in multiply-adds, for SERIAL_WORK.
enum { ELEMENT_WORK = 16 };

// e^x for any x, by range reduction and the polynomial of Cephes' expf; without
// branches and calls, so that the compiler turns the loop below into vectors.
static inline __attribute__((always_inline)) float exponential(float x) {
	x = x < -87.0f ? -87.0f : x;
	x = x > 87.0f ? 87.0f : x;
	const float shift = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer
	const float n = x * 1.44269504088896341f + shift - shift;
	const float f = x - n * 0.693359375f + n * 2.12194440e-4f;
	float p = 1.9875691500e-4f;
	p = p * f + 1.3981999507e-3f;
	p = p * f + 8.3334519073e-3f;
	p = p * f + 4.1665795894e-2f;
	p = p * f + 1.6666665459e-1f;
	p = p * f + 5.0000001201e-1f;
	p = p * f * f + f + 1.0f;
	const int32_t bits = ((int32_t)n + 127) << 23;
	float power;
	memcpy(&power, &bits, sizeof power);
	return p * power;
}

#define SWIGLU(name, target)                                                                          \
	target static void name(const float *restrict gate, const float *restrict up, float *restrict out, \
	                        int64_t n) {                                                               \
		for (int64_t i = 0; i < n; i++) out[i] = gate[i] / (1.0f + exponential(-gate[i])) * up[i];      \
	}

SWIGLU(swiglu_portable, )
#if defined(__x86_64__)
SWIGLU(swiglu_avx2, __attribute__((target("avx2,fma"))))
SWIGLU(swiglu_avx512, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))))
#endif

typedef void swiglu_row(const float *, const float *, float *, int64_t);

// current goes with the attention kernel, so that one switch chooses for both.
static swiglu_row *current(void) {
#if defined(__x86_64__)
	if (pa_current() == &pa_avx512) return swiglu_avx512;
	if (pa_current() == &pa_avx2) return swiglu_avx2;
#endif
	return swiglu_portable;
}

struct swiglu {
	swiglu_row *row;
	const float *in;
	float *out;
	int64_t width;  // of the output
};

static void run_row(void *work, size_t i) {
	const struct swiglu *s = work;
	const float *gate = s->in + (int64_t)i * 2 * s->width;
	s->row(gate, gate + s->width, s->out + (int64_t)i * s->width, s->width);
}

static OrtStatus *compute(void *kernel, OrtKernelContext *ctx) {
	(void)kernel;
	struct tensor in;
	OrtStatus *status = op_input(ctx, 0, &in);
	if (status) return status;
	if (in.rank != 2 || in.dims[1] % 2) return op_invalid("tgi.SwiGLU: the input is no matrix of an even width");
	const int64_t shape[2] = {in.dims[0], in.dims[1] / 2};
	struct swiglu s = {.row = current(), .in = in.data, .width = shape[1]};
	status = op_output(ctx, shape, 2, &s.out);
	if (status) return status;
	return op_spread(ctx, run_row, (size_t)shape[0], shape[0] * shape[1] * ELEMENT_WORK, &s);
}

static OrtStatus *create(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api, (void)info;
	*kernel = NULL;
	return NULL;
}

static void destroy(void *kernel) { (void)kernel; }
static const char *op_name(const struct tgi_custom_op *op) { return (void)op, "SwiGLU"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, NULL; }
static size_t op_one(const struct tgi_custom_op *op) { return (void)op, 1; }
static unsigned op_type(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_FLOAT; }
static unsigned op_kind(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }
static int op_memory(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_MEM_DEFAULT; }

const struct tgi_custom_op tgi_swiglu = {
    .version = TGI_CUSTOM_OP_VERSION,
    .GetName = op_name,
    .GetExecutionProviderType = op_provider,
    .GetInputType = op_type,
    .GetInputTypeCount = op_one,
    .GetOutputType = op_type,
    .GetOutputTypeCount = op_one,
    .KernelDestroy = destroy,
    .GetInputCharacteristic = op_kind,
    .GetOutputCharacteristic = op_kind,
    .GetInputMemoryType = op_memory,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
};

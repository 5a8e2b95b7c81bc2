#include "op.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"

OrtStatus *op_input(const OrtKernelContext *ctx, size_t i, struct tensor *in) {
	const OrtValue *value = NULL;
	memset(in, 0, sizeof *in);
	OrtStatus *status = tgi_ort.KernelContext_GetInput(ctx, i, &value);
	if (status || !value) return status;
	status = tgi_ort.GetTensorMutableData((OrtValue *)value, &in->data);
	if (!status) status = tgi_ort.GetTensorElementTypeAndShapeDataReference(value, &in->type, &in->dims, &in->rank);
	in->size = 1;
	for (size_t d = 0; !status && d < in->rank; d++) in->size *= in->dims[d];
	return status;
}

OrtStatus *op_output(OrtKernelContext *ctx, const int64_t *dims, size_t rank, float **data) {
	OrtValue *out = NULL;
	OrtStatus *status = tgi_ort.KernelContext_GetOutput(ctx, 0, dims, rank, &out);
	return status ? status : tgi_ort.GetTensorMutableData(out, (void **)data);
}

// scratch is a piece of memory, behind its size.
struct scratch {
	size_t bytes;
	_Alignas(64) char data[];
};

static struct scratch *kept;
enum { MOST_KEPT = 32 << 20 };

static struct scratch *exchange(struct scratch *s) { return __atomic_exchange_n(&kept, s, __ATOMIC_ACQ_REL); }

void *op_scratch(size_t bytes) {
	struct scratch *s = exchange(NULL);
	if (s && s->bytes >= bytes) return s->data;
	free(s);
	const size_t all = (sizeof *s + bytes + 63) / 64 * 64;
	s = aligned_alloc(64, all);
	if (!s) return NULL;
	s->bytes = all - sizeof *s;
	return s->data;
}

void op_scratch_free(void *memory) {
	if (!memory) return;
	struct scratch *s = (struct scratch *)((char *)memory - offsetof(struct scratch, data));
	free(s->bytes > MOST_KEPT ? s : exchange(s));
}

void op_scratch_trim(void) { free(exchange(NULL)); }

OrtStatus *op_invalid(const char *text) { return tgi_ort.CreateStatus(TGI_ORT_INVALID_ARGUMENT, text); }

int64_t op_integer(struct op_attributes *a, const char *name, int64_t min, int64_t max, int64_t fallback) {
	int64_t v = fallback;
	OrtStatus *status = tgi_ort.KernelInfoGetAttribute_int64(a->info, name, &v);
	if (status) tgi_ort.ReleaseStatus(status), v = fallback;
	if (v >= min && v <= max) return v;
	if (!a->wrong) {
		char text[192];
		snprintf(text, sizeof text, "%s: attribute missing or out of bounds: %s (%lld, want %lld to %lld)", a->op, name,
		         (long long)v, (long long)min, (long long)max);
		a->wrong = op_invalid(text);
	}
	return min;
}

float op_real(const struct op_attributes *a, const char *name, float fallback) {
	float v = fallback;
	OrtStatus *status = tgi_ort.KernelInfoGetAttribute_float(a->info, name, &v);
	if (!status) return v;
	tgi_ort.ReleaseStatus(status);
	return fallback;
}

OrtStatus *op_spread(const OrtKernelContext *ctx, void (*fn)(void *, size_t), size_t n, int64_t work, void *p) {
	if (n > 1 && work >= SERIAL_WORK) return tgi_ort.KernelContext_ParallelFor(ctx, fn, n, n, p);
	for (size_t i = 0; i < n; i++) fn(p, i);
	return NULL;
}

typedef float lanes __attribute__((vector_size(32), aligned(4)));

// A dot product in the order of 16 lanes, for one row of weights and some rows of x.
#define DOTS(name, target)                                                                               \
	target static void name(const float *w, const float *x, int64_t k, int64_t rows, float *y, int64_t stride) { \
		for (int64_t r = 0; r < rows; r++, x += k) {                                                       \
			lanes a = {0}, b = {0};                                                                         \
			int64_t d = 0;                                                                                  \
			for (; d + 16 <= k; d += 16) {                                                                  \
				a += *(const lanes *)(w + d) * *(const lanes *)(x + d);                                      \
				b += *(const lanes *)(w + d + 8) * *(const lanes *)(x + d + 8);                              \
			}                                                                                               \
			a += b;                                                                                         \
			float sum = ((a[0] + a[4]) + (a[1] + a[5])) + ((a[2] + a[6]) + (a[3] + a[7]));                  \
			for (; d < k; d++) sum += w[d] * x[d];                                                          \
			y[r * stride] = sum;                                                                            \
		}                                                                                                  \
	}

DOTS(dots_portable, )
#if defined(__x86_64__)
DOTS(dots_avx2, __attribute__((target("avx2,fma"))))
#endif

void op_dots(const float *w, const float *x, int64_t k, int64_t rows, float *y, int64_t stride) {
#if defined(__x86_64__)
	if (pa_current()->set != PA_BASE) {
		dots_avx2(w, x, k, rows, y, stride);
		return;
	}
#endif
	dots_portable(w, x, k, rows, y, stride);
}

const struct tgi_custom_op *const *tgi_operators(void) {
	static const struct tgi_custom_op *const list[] = {&tgi_paged_attention, &tgi_glu, &tgi_experts, &tgi_lora_operator,
	                                                   &tgi_matmul_q,        &tgi_gather_q, &tgi_encoder_attention,
	                                                   &tgi_head_matmul, NULL};
	return list;
}

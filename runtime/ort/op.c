#include "op.h"

#include <string.h>

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

OrtStatus *op_invalid(const char *text) { return tgi_ort.CreateStatus(TGI_ORT_INVALID_ARGUMENT, text); }

OrtStatus *op_spread(const OrtKernelContext *ctx, void (*fn)(void *, size_t), size_t n, int64_t work, void *p) {
	if (n > 1 && work >= SERIAL_WORK) return tgi_ort.KernelContext_ParallelFor(ctx, fn, n, n, p);
	for (size_t i = 0; i < n; i++) fn(p, i);
	return NULL;
}

const struct tgi_custom_op *const *tgi_operators(void) {
	static const struct tgi_custom_op *const list[] = {&tgi_paged_attention, &tgi_glu, &tgi_experts, &tgi_lora_operator,
	                                                   &tgi_matmul_q,        &tgi_gather_q, &tgi_encoder_attention, NULL};
	return list;
}

// What the operators of the domain "tgi" share: reading inputs, refusing them,
// and spreading work over the session's threads.
#ifndef TGI_OP_H
#define TGI_OP_H

#include "shim.h"

// SERIAL_WORK is the work, in multiply-adds, that is worth less than waking a
// thread: about 10 µs of it.
enum { SERIAL_WORK = 400000 };

// tensor is an input's data and shape; data is null when the input is absent.
struct tensor {
	void *data;
	const int64_t *dims;
	size_t rank;
	int64_t size;  // elements
	unsigned type;
};

// op_input reads input i.
OrtStatus *op_input(const OrtKernelContext *ctx, size_t i, struct tensor *in);

// op_output makes output 0 of the given shape and sets *data to its floats.
OrtStatus *op_output(OrtKernelContext *ctx, const int64_t *dims, size_t rank, float **data);

// op_scratch returns memory for one call of an operator, or null; op_scratch_free gives it back. One piece is kept for
// the next call, so that large ones do not get pages from the system, and give them back, in each layer.
void *op_scratch(size_t bytes);
void op_scratch_free(void *memory);

// op_scratch_trim frees what is kept.
void op_scratch_trim(void);

// op_invalid is a status that says what is wrong with a node or its inputs.
OrtStatus *op_invalid(const char *text);

// op_attributes are those of a node of an operator; wrong is what op_integer refused first.
struct op_attributes {
	const OrtKernelInfo *info;
	const char *op;
	OrtStatus *wrong;
};

// op_integer reads an attribute in [min, max]; a fallback inside the bounds makes it optional. What is refused is min.
int64_t op_integer(struct op_attributes *a, const char *name, int64_t min, int64_t max, int64_t fallback);

// op_real reads an optional attribute.
float op_real(const struct op_attributes *a, const char *name, float fallback);

// op_spread runs fn(p, 0..n-1): on the session's threads when work is worth it.
OrtStatus *op_spread(const OrtKernelContext *ctx, void (*fn)(void *, size_t), size_t n, int64_t work, void *p);

// op_dots multiplies a row of k weights by rows of x, k numbers each. Sums have a fixed order; results are stride apart.
void op_dots(const float *w, const float *x, int64_t k, int64_t rows, float *y, int64_t stride);

// glu_row writes n numbers of activation(gate) * up.
typedef void glu_row(const float *gate, const float *up, float *out, int64_t n);

// glu_choose returns the function for this CPU of an activation, numbered as tgi.GLU's attribute, or null.
glu_row *glu_choose(int64_t activation);

// The operators' descriptions.
extern const struct tgi_custom_op tgi_paged_attention, tgi_encoder_attention, tgi_glu, tgi_experts, tgi_lora_operator,
    tgi_matmul_q, tgi_gather_q, tgi_head_matmul, tgi_cuda_attend_bfloat, tgi_cuda_attend_half;

#endif

// What the operator tgi.LoRA reads on a CUDA device. Go fills it in C memory.
#ifndef TGI_CUDALORA_H
#define TGI_CUDALORA_H

#include <stdint.h>

// tgi_cuda_lora_shape are the sizes of the node that computes a matrix.
struct tgi_cuda_lora_shape {
	int64_t in, width;
};

struct tgi_cuda_lora {
	// launch and error are those of runtime/cuda (kernel.h).
	int (*launch)(int device, void *function, unsigned x, unsigned y, unsigned threads, void *stream, uint64_t *arguments,
	              int n);
	const char *(*error)(int code);
	void *shrink, *expand;  // the kernels
	void *products;         // on the device, for so many tokens
	int64_t tokens;
	int64_t threads;  // of a block
	int64_t most;     // matrices of a node
	int64_t count;    // matrices of the model
	struct tgi_cuda_lora_shape *shapes;  // of each matrix; the operator fills them
	int device;
	int used;  // a row of the step has an adapter: else nothing is launched
};

#endif

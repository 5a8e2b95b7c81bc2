// What the operator tgi.PagedAttention reads on a CUDA device. Go fills it in C memory.
#ifndef TGI_CUDAATTEND_H
#define TGI_CUDAATTEND_H

#include <stdint.h>

struct tgi_cuda_attend {
	// launch and error are those of runtime/cuda (kernel.h).
	int (*launch)(int device, void *function, unsigned x, unsigned y, unsigned threads, void *stream, uint64_t *arguments,
	              int n);
	const char *(*error)(int code);
	void *kernel;            // null where there is none for the model's heads
	void *parts, *arrived;   // on the device: for twice as many blocks as steps with parts aim at, and for as many
	int64_t aim;             // blocks
	int64_t threads;         // of a block
	int64_t heads;           // of queries that a block computes
	int64_t part_keys, most_parts;
	int device;
};

#endif

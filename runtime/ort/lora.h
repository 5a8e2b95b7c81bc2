// Low-rank adapters: what the operator tgi.LoRA reads. Go fills it in C memory.
#ifndef TGI_LORA_H
#define TGI_LORA_H

#include <stdint.h>

// A matrix is packed such that it is read from its first byte to its last. Its rows are taken LORA_ROWS at a time, and of
// these LORA_CHUNK columns at a time, one row after the other; what is missing in the last ones is zero. 32-bit floats of
// such a piece are in order. Those of bfloat16 are pairs, of numbers i and i + LORA_CHUNK/2, which one shift and one mask
// take apart.
enum { LORA_ROWS = 4, LORA_CHUNK = 32 };

// tgi_lora_site is what an adapter adds to one matrix of the model: scale * x A' B', where x has in columns and the
// result goes to columns offset to offset+out of the node's output. rank is 0 where the adapter leaves the matrix alone.
struct tgi_lora_site {
	const void *a;  // [rank, in], packed
	const void *b;  // [rank, out], packed: transposed, so that a row adds to all columns
	int64_t in, out, offset, rank;
	float scale;
	int bfloat16;  // the elements of a and b; else 32-bit floats
};

// tgi_lora is one adapter.
struct tgi_lora {
	int64_t count;
	struct tgi_lora_site *sites;
};

#endif

// Paged attention on the CPU: calls, their division into units, and the kernels
// that run a unit.
//
// The cache holds blocks of PA_BLOCK tokens. A block's keys are transposed,
// [kv_head][head_size][PA_BLOCK], so that the scores of 16 keys are plain
// multiply-adds; its values are [kv_head][PA_BLOCK][head_size], unless they are a part of the keys.
// They have one of the forms of pa_form. Where they are codes, each head of a block is followed by the scales of its
// groups, [groups][PA_BLOCK] 16-bit floats: PA_GROUP numbers of a token have one. So what is written of a token does
// not depend on the tokens beside it.
//
// A call has two phases with a barrier between them: first the new keys and
// values of all tokens are written, then all tokens attend. So a row may read
// what another row of the same call writes (two sequences share a prefix that
// one of them is still computing).
//
// Keys are processed in chunks that start at multiples of PA_CHUNK of the
// sequence's positions. Each chunk gives a partial result, and the partial
// results are merged in order. The result of a token therefore depends only on
// its own sequence: not on other rows of the batch, not on how a prompt was
// split into steps, not on how units were distributed over threads.
#ifndef TGI_ATTENTION_H
#define TGI_ATTENTION_H

#include <math.h>
#include <stdint.h>
#include <string.h>

enum {
	PA_BLOCK = 16,      // tokens of a cache block
	PA_CHUNK = 256,     // keys of one partial result
	PA_ROWS = 48,       // most query rows of one unit
	PA_MAX_HEAD = 576,  // largest head size
	PA_GROUP = 32,      // numbers of one scale
	PA_CODES = 127,     // largest code
	PA_LINE = 64,       // bytes of a line of the processor's caches
};

// pa_form is what keys and values are stored as.
enum pa_form { PA_FLOAT32, PA_FLOAT16, PA_BFLOAT16, PA_INT8, PA_FORMS };

// pa_groups is how many scales a token's head has, where it has any.
static inline int pa_groups(int head_size) { return (head_size + PA_GROUP - 1) / PA_GROUP; }

// pa_head_bytes is the size of the keys, or values, of one head of a block.
static inline int pa_head_bytes(enum pa_form form, int head_size) {
	switch (form) {
	case PA_FLOAT32: return head_size * PA_BLOCK * 4;
	case PA_INT8: return (head_size + 2 * pa_groups(head_size)) * PA_BLOCK;
	default: return head_size * PA_BLOCK * 2;
	}
}

// pa_call is one node's work. Strides are in floats from one token to the next.
struct pa_call {
	const float *q, *k, *v;
	int64_t q_stride, k_stride, v_stride;
	void *k_cache, *v_cache;  // [blocks, kv_heads] of pa_head_bytes each
	float *out;  // [tokens, heads*head_size]
	const int32_t *cu_seqlens, *past_lens, *block_table, *slots;
	const int32_t *positions;  // of each token in its sequence
	const float *cos, *sin;    // [positions, half], or [tokens, half]; null without rotary embedding
	const float *q_norm, *k_norm;  // [head_size]; null without normalisation
	const float *sinks;   // [heads], scores that take weight and have no value (attention sinks); null without
	const float *slopes;  // [heads], what a score loses for each position back (ALiBi); null without
	const int32_t *key_ends;  // [tokens], the position behind the last key that each sees; null: behind its own
	int64_t tokens, rows, max_blocks;
	int heads, kv_heads, group, head_size;
	int value_size;   // of a head's values, and of its result: head_size unless latent
	int latent;       // the last value_size numbers of a key are its value (multi-head latent attention); no v_cache
	int half;         // rotated pairs of a head
	int by_token;     // cos and sin have a row for each token of the call
	int interleaved;  // pairs are (2i, 2i+1) instead of (i, i+half)
	int window;       // keys that a token sees, itself and those before it; 0 is all
	const float *distances;  // [heads, 2*farthest+1], what a score gains by its key's place behind the query; or null
	int farthest;
	int norm_after;   // heads are normalised after they are rotated
	int stretch_from; // positions from which queries grow, by stretch (Llama 4's temperature); 0 is none
	float stretch;
	float cap;        // scores are cap * tanh(score / cap); 0 is none
	float scale, epsilon;
};

// pa_turn is the row of cos and sin of a token.
static inline int64_t pa_turn(const struct pa_call *c, int64_t token) {
	return c->by_token ? token : c->positions[token];
}

// pa_key_end is the position behind the last key that a token sees.
static inline int pa_key_end(const struct pa_call *c, int64_t token) {
	return c->key_ends ? c->key_ends[token] : c->positions[token] + 1;
}

// pa_scale is what the query at a position is multiplied by.
static inline float pa_scale(const struct pa_call *c, int position) {
	if (!c->stretch_from) return c->scale;
	return c->scale * (1 + c->stretch * logf((float)(1 + position / c->stretch_from)));
}

// pa_unit is the attention of some query rows of one sequence and key/value
// head over some chunks. A sequence with S tokens has S*group query rows per
// key/value head: row r is token r/group, head group*kv_head + r%group.
struct pa_unit {
	int32_t row, kv_head;
	int32_t first, count;            // query rows, count <= PA_ROWS
	int32_t first_chunk, end_chunk;  // chunks
	float *partials;  // [chunk][count][pa_stride]; null: merge and write the result
};

// pa_stride is the length of one query row's partial result: the weighted sum
// of values, then the largest score, then the sum of weights.
static inline int pa_stride(int head_size) { return head_size + 8; }

// pa_functions are those for one form of cache.
struct pa_functions {
	// write stores the keys and values of tokens [from, to).
	void (*write)(const struct pa_call *, int64_t from, int64_t to);
	// attend runs a unit.
	void (*attend)(const struct pa_call *, const struct pa_unit *);
	// merge writes the result of a query tile whose chunks, all of them from the
	// first to the last, lie at u->partials.
	void (*merge)(const struct pa_call *, const struct pa_unit *u);
};

// pa_set are the instruction sets that operators are compiled for. Those beside attention take the one of the selected
// kernel, so that one switch chooses for all.
enum pa_set { PA_BASE, PA_AVX2, PA_AVX512, PA_SETS };

// pa_kernel is one implementation for one kind of CPU.
struct pa_kernel {
	const char *name;
	enum pa_set set;
	struct pa_functions forms[PA_FORMS];
};

// PA_LARGEST is the largest 16-bit float: keys and values beyond it are stored as it.
#define PA_LARGEST 65504.0f

// pa_bfloat is the nearest bfloat16, of two as near the even one.
static inline uint16_t pa_bfloat(float x) {
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	if (x != x) return (uint16_t)(bits >> 16 | 0x40);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// pa_wide is a bfloat16 as a float.
static inline float pa_wide(uint16_t x) {
	const uint32_t bits = (uint32_t)x << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

extern const struct pa_kernel pa_portable;
#if defined(__x86_64__)
extern const struct pa_kernel pa_avx2, pa_avx512, pa_avx512vnni;
#elif defined(__aarch64__)
extern const struct pa_kernel pa_neon;
#endif

// pa_choose selects the kernel by name, or the best one for this CPU if the name
// is empty. It returns the kernel's name, or null if there is no such kernel or
// the CPU cannot run it. It must not run during a call.
const char *pa_choose(const char *name);

// pa_current is the selected kernel.
const struct pa_kernel *pa_current(void);

#endif

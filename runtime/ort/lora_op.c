// The operator tgi.LoRA: adds to each row of a product what the row's low-rank adapter says. Rows of one step may have
// different adapters, or none. LoRA: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models"; many
// adapters in one batch: Chen et al. 2023, "Punica", and Sheng et al. 2023, "S-LoRA".
//
// A row's result does not depend on the rows beside it: each row is summed by itself, in the same order.

#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "lora.h"
#include "op.h"

// Inputs: the product [tokens, width], what was multiplied [tokens, in], and each token's struct tgi_lora *, 0 for none.
enum { IN_PRODUCT, IN_X, IN_ADAPTERS, IN_COUNT };

enum {
	UNIT = 16,           // tokens of one adapter that are computed together, so that its matrices are read once
	COLUMNS = 512,       // of the output that stay in the cache meanwhile
	PREFETCHED = 4096,   // bytes that are fetched ahead: further than the hardware does, which ends with each page
	RANKS = 64,          // rows of both matrices that are read one after the other, as they lie in memory
	MAX_RANK = 1024,
	ROWS = LORA_ROWS,
	CHUNK = LORA_CHUNK,
	HALF = CHUNK / 2,
	MOST = 4,            // tokens of a kernel
};

// lora_node is what a node's attributes say: which of the adapter's sites it adds.
struct lora_node {
	int64_t first, count;
};

// A kernel computes 1, 2 or 4 tokens at once, so that the numbers of a matrix are read and widened once for all.
enum { SINGLE, PAIR, FOUR, KINDS };

// kernels of one number type and instruction set, for ROWS rows of a matrix, of which they read whole chunks.
struct lora_kernels {
	// dot sets each token's h to the products of the rows with its x.
	void (*dot[KINDS])(float (*h)[ROWS], const float *const *x, const void *a, int64_t chunks);
	// add adds each token's h times the rows to its y.
	void (*add[KINDS])(float *const *y, const void *b, float (*h)[ROWS], int64_t chunks);
	int widest;  // of the kinds: more would not fit into registers
};

// VECTORS defines the vectors of a set of instructions, of n lanes.
#define VECTORS(set, n)                                                                               \
	enum { set##_LANES = n };                                                                          \
	typedef float set##_lanes __attribute__((vector_size(4 * n), aligned(4), may_alias));              \
	typedef uint32_t set##_bits __attribute__((vector_size(4 * n), aligned(4), may_alias));

// Vectors that are wider than registers would live in memory.
VECTORS(portable, 4)
VECTORS(avx2, 8)
VECTORS(avx512, 16)

// PAIR_* define vector q of the first half of a chunk's row, and of its second.
#define PAIR_float(set, p, q, first, second)                                                          \
	const set##_lanes first = *(const set##_lanes *)((p) + (q) * set##_LANES),                         \
	                  second = *(const set##_lanes *)((p) + HALF + (q) * set##_LANES)
#define PAIR_bfloat(set, p, q, first, second)                                                         \
	const set##_bits first##_both = *(const set##_bits *)((p) + 2 * (q) * set##_LANES);                \
	const set##_lanes first = (set##_lanes)(first##_both << 16),                                       \
	                  second = (set##_lanes)(first##_both & 0xffff0000u)

// total adds up n lanes.
static inline __attribute__((always_inline)) float total(const void *lanes, int n) {
	float sum[HALF];
	memcpy(sum, lanes, (size_t)n * sizeof *sum);
	for (int step = n / 2; step; step /= 2)
		for (int l = 0; l < step; l++) sum[l] += sum[l + step];
	return sum[0];
}

#define UNROLL _Pragma("GCC unroll 8")

// Each token has a sum of its own for each row, and they are added up in the same order however many there are.
#define KERNEL(set, kind, element, n, target)                                                         \
	target static void set##_##kind##_dot##n(float (*h)[ROWS], const float *const *x, const void *from, \
	                                         int64_t chunks) {                                         \
		const element *a = from;                                                                       \
		set##_lanes s[n][ROWS] = {{{0}}};                                                              \
		for (int64_t c = 0; c < chunks; c++, a += ROWS * CHUNK) {                                      \
			UNROLL for (int p = 0; p < ROWS * CHUNK * (int)sizeof *a; p += 64)                          \
				__builtin_prefetch((const char *)a + PREFETCHED + p);                                  \
			UNROLL for (int q = 0; q < HALF / set##_LANES; q++) {                                       \
				set##_lanes u[n], v[n];                                                                  \
				UNROLL for (int t = 0; t < n; t++) {                                                     \
					PAIR_float(set, x[t] + c * CHUNK, q, first, second);                                  \
					u[t] = first, v[t] = second;                                                          \
				}                                                                                        \
				UNROLL for (int r = 0; r < ROWS; r++) {                                                  \
					PAIR_##kind(set, a + r * CHUNK, q, first, second);                                    \
					UNROLL for (int t = 0; t < n; t++) {                                                  \
						s[t][r] += u[t] * first;                                                           \
						s[t][r] += v[t] * second;                                                          \
					}                                                                                     \
				}                                                                                        \
			}                                                                                           \
		}                                                                                              \
		UNROLL for (int t = 0; t < n; t++) {                                                           \
			UNROLL for (int r = 0; r < ROWS; r++) h[t][r] = total(&s[t][r], set##_LANES);               \
		}                                                                                              \
	}                                                                                                 \
	target static void set##_##kind##_add##n(float *const *y, const void *from, float (*h)[ROWS],      \
	                                         int64_t chunks) {                                         \
		const element *b = from;                                                                       \
		float own[n][ROWS];                                                                            \
		memcpy(own, h, sizeof own);                                                                    \
		for (int64_t c = 0; c < chunks; c++, b += ROWS * CHUNK) {                                      \
			UNROLL for (int p = 0; p < ROWS * CHUNK * (int)sizeof *b; p += 64)                          \
				__builtin_prefetch((const char *)b + PREFETCHED + p);                                  \
			UNROLL for (int q = 0; q < HALF / set##_LANES; q++) {                                       \
				set##_lanes f[ROWS], l[ROWS];                                                            \
				UNROLL for (int r = 0; r < ROWS; r++) {                                                  \
					PAIR_##kind(set, b + r * CHUNK, q, first, second);                                    \
					f[r] = first, l[r] = second;                                                          \
				}                                                                                        \
				UNROLL for (int t = 0; t < n; t++) {                                                     \
					float *to = y[t] + c * CHUNK + q * set##_LANES;                                       \
					set##_lanes first = *(set##_lanes *)to, second = *(set##_lanes *)(to + HALF);         \
					UNROLL for (int r = 0; r < ROWS; r++) first += own[t][r] * f[r], second += own[t][r] * l[r]; \
					*(set##_lanes *)to = first;                                                           \
					*(set##_lanes *)(to + HALF) = second;                                                 \
				}                                                                                        \
			}                                                                                           \
		}                                                                                              \
	}

#define KERNELS(set, kind, element, most, target)                                                     \
	KERNEL(set, kind, element, 1, target)                                                              \
	KERNEL(set, kind, element, 2, target)                                                              \
	KERNEL(set, kind, element, 4, target)                                                              \
	static const struct lora_kernels set##_##kind = {                                                  \
	    {set##_##kind##_dot1, set##_##kind##_dot2, set##_##kind##_dot4},                               \
	    {set##_##kind##_add1, set##_##kind##_add2, set##_##kind##_add4}, most};

#define KERNELS_OF(set, most, target)        \
	KERNELS(set, float, float, most, target) \
	KERNELS(set, bfloat, uint16_t, most, target)

KERNELS_OF(portable, PAIR, )
#if defined(__x86_64__)
KERNELS_OF(avx2, PAIR, __attribute__((target("avx2,fma"))))
KERNELS_OF(avx512, FOUR, __attribute__((target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma"))))
#endif

static const struct lora_kernels *current(int bfloat16) {
	static const struct lora_kernels *const kernels[PA_SETS][2] = {
	    [PA_BASE] = {&portable_float, &portable_bfloat},
#if defined(__x86_64__)
	    [PA_AVX2] = {&avx2_float, &avx2_bfloat},
	    [PA_AVX512] = {&avx512_float, &avx512_bfloat},
#endif
	};
	return kernels[pa_current()->set][bfloat16];
}

// lora_unit is some tokens of one adapter.
struct lora_unit {
	const struct tgi_lora *adapter;
	int64_t *tokens;
	int64_t count;
};

struct lora_work {
	const struct lora_node *node;
	const float *x;
	float *y;
	int64_t in, width;
	struct lora_unit *units;
};

// product sets h to the products of ROWS rows of a with the x of 1 << kind tokens.
static void product(const struct lora_kernels *k, int kind, float (*h)[ROWS], const float *const *x, const char *a,
                    int64_t in, int64_t size) {
	const int64_t chunks = in / CHUNK, rest = in % CHUNK;
	k->dot[kind](h, x, a, chunks);
	if (!rest) return;
	float last[MOST][CHUNK] = {{0}}, more[MOST][ROWS];
	const float *ends[MOST];
	for (int t = 0; t < 1 << kind; t++) {
		memcpy(last[t], x[t] + in - rest, (size_t)rest * sizeof *last[t]);
		ends[t] = last[t];
	}
	k->dot[kind](more, ends, a + chunks * ROWS * CHUNK * size, 1);
	for (int t = 0; t < 1 << kind; t++)
		for (int r = 0; r < ROWS; r++) h[t][r] += more[t][r];
}

// spread adds each token's h times ROWS rows of b to n columns of its y.
static void spread(const struct lora_kernels *k, int kind, float *const *y, const char *b, float (*h)[ROWS], int64_t n,
                   int64_t size) {
	const int64_t chunks = n / CHUNK, rest = n % CHUNK;
	k->add[kind](y, b, h, chunks);
	if (!rest) return;
	float last[MOST][CHUNK] = {{0}}, *ends[MOST];
	for (int t = 0; t < 1 << kind; t++) {
		memcpy(last[t], y[t] + n - rest, (size_t)rest * sizeof *last[t]);
		ends[t] = last[t];
	}
	k->add[kind](ends, b + chunks * ROWS * CHUNK * size, h, 1);
	for (int t = 0; t < 1 << kind; t++) memcpy(y[t] + n - rest, last[t], (size_t)rest * sizeof *last[t]);
}

// kind_of chooses the kernel for the next of some tokens.
static int kind_of(const struct lora_kernels *k, int64_t tokens) {
	int kind = k->widest;
	while (1 << kind > tokens) kind--;
	return kind;
}

// run_site adds one site to the tokens of a unit.
static void run_site(const struct lora_work *w, const struct lora_unit *u, const struct tgi_lora_site *s) {
	const struct lora_kernels *k = current(s->bfloat16);
	const int64_t size = s->bfloat16 ? 2 : 4;
	const int64_t a_rows = ROWS * size * ((s->in + CHUNK - 1) / CHUNK * CHUNK);
	const int64_t b_rows = ROWS * size * ((s->out + CHUNK - 1) / CHUNK * CHUNK);
	const char *a = s->a, *b = s->b;
	float h[RANKS / ROWS][UNIT][ROWS], *y[UNIT];
	const float *x[UNIT];
	for (int64_t t = 0; t < u->count; t++) x[t] = w->x + u->tokens[t] * w->in;
	for (int64_t first = 0; first < s->rank; first += RANKS) {
		const int groups = (int)(((s->rank - first < RANKS ? s->rank - first : RANKS) + ROWS - 1) / ROWS);
		for (int g = 0; g < groups; g++, a += a_rows) {
			for (int64_t t = 0, kind; t < u->count; t += 1 << kind) {
				kind = kind_of(k, u->count - t);
				product(k, (int)kind, h[g] + t, x + t, a, s->in, size);
			}
			for (int64_t t = 0; t < u->count; t++)
				for (int i = 0; i < ROWS; i++) h[g][t][i] *= s->scale;
		}
		for (int g = 0; g < groups; g++, b += b_rows)
			for (int64_t at = 0; at < s->out; at += COLUMNS) {
				const int64_t n = s->out - at < COLUMNS ? s->out - at : COLUMNS;
				for (int64_t t = 0; t < u->count; t++) y[t] = w->y + u->tokens[t] * w->width + s->offset + at;
				for (int64_t t = 0, kind; t < u->count; t += 1 << kind) {
					kind = kind_of(k, u->count - t);
					spread(k, (int)kind, y + t, b + at * ROWS * size, h[g] + t, n, size);
				}
			}
	}
}

static void run_unit(void *work, size_t i) {
	const struct lora_work *w = work;
	const struct lora_unit *u = &w->units[i];
	for (int64_t s = w->node->first; s < w->node->first + w->node->count; s++)
		if (u->adapter->sites[s].rank) run_site(w, u, &u->adapter->sites[s]);
}

// fits says whether an adapter's sites match the node's matrices.
static int fits(const struct tgi_lora *l, const struct lora_node *n, int64_t in, int64_t width) {
	if (n->first + n->count > l->count) return 0;
	for (int64_t i = n->first; i < n->first + n->count; i++) {
		const struct tgi_lora_site *s = &l->sites[i];
		if (s->rank && (s->in != in || s->offset < 0 || s->out < 1 || s->offset > width - s->out || s->rank > MAX_RANK))
			return 0;
	}
	return 1;
}

// work_of returns the multiply-adds of a token.
static int64_t work_of(const struct tgi_lora *l, const struct lora_node *n) {
	int64_t sum = 0;
	for (int64_t i = n->first; i < n->first + n->count; i++)
		sum += l->sites[i].rank * (l->sites[i].in + l->sites[i].out);
	return sum;
}

// group sorts the tokens by adapter into units, and returns how many there are; -1 if an adapter does not fit. order
// and units have a place for each token. *cost receives the multiply-adds.
static int64_t group(struct lora_work *w, const int64_t *adapters, int64_t tokens, int64_t *order, int64_t *cost) {
	int64_t units = 0, placed = 0;
	*cost = 0;
	for (int64_t t = 0; t < tokens; t++) order[t] = -1;
	int64_t *place = order + tokens;  // the tokens in the order of their units
	for (int64_t t = 0; t < tokens; t++) {
		const struct tgi_lora *l = (const struct tgi_lora *)(intptr_t)adapters[t];
		if (!l || order[t] == 0) continue;
		if (!fits(l, w->node, w->in, w->width)) return -1;
		const int64_t each = work_of(l, w->node);
		struct lora_unit *u = NULL;
		for (int64_t i = t; i < tokens && each; i++) {
			if (adapters[i] != adapters[t]) continue;
			order[i] = 0;
			if (!u || u->count == UNIT) {
				u = &w->units[units++];
				*u = (struct lora_unit){l, place + placed, 0};
			}
			u->tokens[u->count++] = i;
			placed++;
			*cost += each;
		}
	}
	return units;
}

static OrtStatus *compute(void *kernel, OrtKernelContext *ctx) {
	struct tensor in[IN_COUNT];
	for (size_t i = 0; i < IN_COUNT; i++) {
		OrtStatus *status = op_input(ctx, i, &in[i]);
		if (status) return status;
	}
	if (in[IN_PRODUCT].rank != 2 || in[IN_X].rank != 2 || in[IN_ADAPTERS].rank != 1 ||
	    in[IN_X].dims[0] != in[IN_PRODUCT].dims[0] || in[IN_ADAPTERS].dims[0] != in[IN_PRODUCT].dims[0])
		return op_invalid("tgi.LoRA: the inputs are not two matrices and a vector of as many rows");
	const int64_t tokens = in[IN_PRODUCT].dims[0], *adapters = in[IN_ADAPTERS].data;
	struct lora_work w = {.node = kernel, .x = in[IN_X].data, .in = in[IN_X].dims[1], .width = in[IN_PRODUCT].dims[1]};
	OrtStatus *status = op_output(ctx, in[IN_PRODUCT].dims, 2, &w.y);
	if (status) return status;
	// Outputs of the whole graph have memory of their own.
	if (w.y != in[IN_PRODUCT].data) memcpy(w.y, in[IN_PRODUCT].data, (size_t)in[IN_PRODUCT].size * sizeof *w.y);
	int64_t used = 0;
	for (int64_t t = 0; t < tokens; t++) used |= adapters[t];
	if (!used) return NULL;
	w.units = malloc((size_t)tokens * (sizeof *w.units + 2 * sizeof(int64_t)));
	if (!w.units) return op_invalid("tgi.LoRA: out of memory");
	int64_t cost, units = group(&w, adapters, tokens, (int64_t *)(w.units + tokens), &cost);
	if (units < 0)
		status = op_invalid("tgi.LoRA: an adapter does not fit the node");
	else
		status = op_spread(ctx, run_unit, (size_t)units, cost, &w);
	free(w.units);
	return status;
}

static OrtStatus *create(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	struct lora_node n;
	OrtStatus *status = tgi_ort.KernelInfoGetAttribute_int64(info, "first", &n.first);
	if (!status) status = tgi_ort.KernelInfoGetAttribute_int64(info, "count", &n.count);
	if (status) return status;
	if (n.first < 0 || n.count < 1 || n.first > INT32_MAX || n.count > INT32_MAX)
		return op_invalid("tgi.LoRA: first or count is out of bounds");
	struct lora_node *kept = malloc(sizeof *kept);
	if (!kept) return op_invalid("tgi.LoRA: out of memory");
	*kept = n;
	*kernel = kept;
	return NULL;
}

// alias says that output 0 is the memory of input 0, which no other node reads. MayInplace would not be enough: it is
// only taken where the library knows the shapes, and behind an operator of our own it does not.
static size_t alias(int **input, int **output) {
	static int first[1] = {0};
	*input = *output = first;
	return 1;
}

static void release_alias(int *input, int *output) { (void)input, (void)output; }

static void destroy(void *kernel) { free(kernel); }
static const char *op_name(const struct tgi_custom_op *op) { return (void)op, "LoRA"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, NULL; }
static size_t op_inputs(const struct tgi_custom_op *op) { return (void)op, IN_COUNT; }
static size_t op_outputs(const struct tgi_custom_op *op) { return (void)op, 1; }
static unsigned op_input_type(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i == IN_ADAPTERS ? TGI_ORT_INT64 : TGI_ORT_FLOAT;
}
static unsigned op_output_type(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_FLOAT; }
static unsigned op_kind(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }
static int op_memory(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_MEM_DEFAULT; }

const struct tgi_custom_op tgi_lora_operator = {
    .version = TGI_ALIAS_OP_VERSION,
    .GetName = op_name,
    .GetExecutionProviderType = op_provider,
    .GetInputType = op_input_type,
    .GetInputTypeCount = op_inputs,
    .GetOutputType = op_output_type,
    .GetOutputTypeCount = op_outputs,
    .KernelDestroy = destroy,
    .GetInputCharacteristic = op_kind,
    .GetOutputCharacteristic = op_kind,
    .GetInputMemoryType = op_memory,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
    .GetAliasMap = alias,
    .ReleaseAliasMap = release_alias,
};

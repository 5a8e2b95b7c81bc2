// The operator tgi.EncoderAttention: attention among the tokens of each text of
// a step, without a cache. Texts lie one after another and are not padded. It
// runs the kernels of attention.h on keys and values that it keeps for the
// length of the call, so a text's result is the same in any step.

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "op.h"

// Inputs: queries, keys and values in one tensor, or three; where texts begin,
// int64 [texts+1]; rotary tables [positions, pairs]; weights of the norms of
// heads; what scores gain by distance, [heads, 2*farthest+1].
enum { E_QUERY, E_KEY, E_VALUE, E_STARTS, E_COS, E_SIN, E_Q_NORM, E_K_NORM, E_DISTANCES, E_COUNT };

// encoder_node is what a node's attributes say.
struct encoder_node {
	int heads, kv_heads, head_size, causal, reach, rotary, interleaved, norm_after;
	float scale, epsilon, cap;
};

static OrtStatus *wrong(const char *why) {
	char text[160] = "tgi.EncoderAttention: ";
	strncat(text, why, sizeof text - strlen(text) - 1);
	return op_invalid(text);
}

static OrtStatus *create(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	struct op_attributes a = {info, "tgi.EncoderAttention", NULL};
	const struct encoder_node n = {
	    .heads = (int)op_integer(&a, "num_heads", 1, 1 << 16, 0),
	    .kv_heads = (int)op_integer(&a, "kv_num_heads", 1, 1 << 16, 0),
	    .head_size = (int)op_integer(&a, "head_size", 8, PA_MAX_HEAD, 0),
	    .causal = (int)op_integer(&a, "causal", 0, 1, 0), .reach = (int)op_integer(&a, "reach", -1, INT_MAX, -1),
	    .rotary = (int)op_integer(&a, "do_rotary", 0, 1, 0),
	    .interleaved = (int)op_integer(&a, "rotary_interleaved", 0, 1, 0),
	    .norm_after = (int)op_integer(&a, "qk_norm_after_rotary", 0, 1, 0),
	    .scale = op_real(&a, "scale", 1), .epsilon = op_real(&a, "qk_norm_epsilon", 1e-6f),
	    .cap = op_real(&a, "softcap", 0)};
	if (a.wrong) return a.wrong;
	if (n.heads % n.kv_heads) return wrong("num_heads is no multiple of kv_num_heads");
	if (n.head_size % 8) return wrong("head_size is no multiple of 8");
	struct encoder_node *own = malloc(sizeof *own);
	if (!own) return wrong("out of memory");
	*own = n;
	*kernel = own;
	return NULL;
}

// check returns what is wrong with the inputs, or null.
static const char *check(const struct encoder_node *n, const struct tensor *in) {
	const struct tensor *q = &in[E_QUERY], *k = &in[E_KEY], *v = &in[E_VALUE], *starts = &in[E_STARTS];
	const int64_t kv = (int64_t)n->kv_heads * n->head_size, own = (int64_t)n->heads * n->head_size;
	if (q->rank != 2 || q->dims[0] > INT_MAX / 2) return "query is not a matrix";
	const int64_t tokens = q->dims[0];
	if (!k->data != !v->data) return "key without value, or value without key";
	if (!k->data && q->dims[1] != own + 2 * kv) return "packed query has the wrong width";
	if (k->data && (q->dims[1] != own || k->size != tokens * kv || v->size != tokens * kv))
		return "query, key and value have the wrong widths";
	if (starts->rank != 1 || starts->size < 1) return "cu_seqlens is not a vector";
	const int64_t *at = starts->data;
	const int64_t texts = starts->size - 1;
	if (at[0] != 0 || at[texts] != tokens) return "cu_seqlens does not span the tokens";
	int64_t longest = 0;
	for (int64_t i = 0; i < texts; i++) {
		if (at[i + 1] < at[i]) return "cu_seqlens is not ascending";
		if (at[i + 1] - at[i] > longest) longest = at[i + 1] - at[i];
	}
	if (in[E_Q_NORM].data && in[E_Q_NORM].size != n->head_size) return "q_norm_weight has the wrong length";
	if (in[E_K_NORM].data && in[E_K_NORM].size != n->head_size) return "k_norm_weight has the wrong length";
	const struct tensor *d = &in[E_DISTANCES];
	if (d->data && (d->rank != 2 || d->dims[0] != n->heads || d->dims[1] % 2 != 1))
		return "distances have the wrong shape";
	if (n->rotary > 0) {
		const struct tensor *c = &in[E_COS], *s = &in[E_SIN];
		if (!c->data || !s->data || c->rank != 2 || s->size != c->size || 2 * c->dims[1] > n->head_size)
			return "cos_cache and sin_cache are missing, or have the wrong shapes";
		if (longest > c->dims[0]) return "a text is longer than cos_cache";
	}
	return NULL;
}

// work is a call with the memory that it needs.
struct work {
	struct pa_call call;
	const struct pa_functions *kernel;
	int ahead;       // keys behind itself that a token sees
	int32_t *ints;   // cu_seqlens, past_lens, positions, key_ends, slots, block_table
	float *cache;    // keys, then values
	struct pa_unit *units;
	size_t unit_count;
	int64_t cost;    // multiply-adds, roughly
};

static void work_free(struct work *w) {
	free(w->ints);
	free(w->cache);
	free(w->units);
}

enum { WRITE_TOKENS = 16, WRITE_WORK = 64 };

// work_make lays the texts out in blocks and cuts their queries into units.
static int work_make(struct work *w, const int64_t *starts) {
	struct pa_call *c = &w->call;
	int64_t blocks = 0, most = 0, units = 0;
	for (int64_t b = 0; b < c->rows; b++) {
		const int64_t len = starts[b + 1] - starts[b], own = (len + PA_BLOCK - 1) / PA_BLOCK;
		blocks += own;
		if (own > most) most = own;
		units += (len * c->group + PA_ROWS - 1) / PA_ROWS * c->kv_heads;
	}
	const size_t block = (size_t)c->kv_heads * (size_t)c->head_size * PA_BLOCK;
	c->max_blocks = most;
	w->ints = malloc((size_t)(2 * c->rows + 1 + 3 * c->tokens + c->rows * most + 1) * sizeof(int32_t));
	w->cache = malloc(((size_t)blocks * block * 2 + 1) * sizeof(float));
	w->units = malloc((size_t)(units + 1) * sizeof *w->units);
	if (!w->ints || !w->cache || !w->units) return 0;
	int32_t *cu = w->ints, *past = cu + c->rows + 1, *positions = past + c->rows, *ends = positions + c->tokens;
	int32_t *slots = ends + c->tokens, *table = slots + c->tokens, next = 0;
	cu[0] = 0;
	for (int64_t b = 0; b < c->rows; b++) {
		const int32_t len = (int32_t)(starts[b + 1] - starts[b]);
		cu[b + 1] = cu[b] + len;
		past[b] = 0;
		for (int32_t t = 0; t < len; t++) {
			positions[cu[b] + t] = t;
			ends[cu[b] + t] = w->ahead < len - t - 1 ? t + 1 + w->ahead : len;
			slots[cu[b] + t] = next * PA_BLOCK + t;
		}
		for (int64_t i = 0; i < most; i++) table[b * most + i] = next + (int32_t)i;
		next += (len + PA_BLOCK - 1) / PA_BLOCK;
	}
	c->cu_seqlens = cu, c->past_lens = past, c->positions = positions, c->key_ends = ends;
	c->slots = slots, c->block_table = table;
	c->k_cache = w->cache, c->v_cache = w->cache + (size_t)blocks * block;
	for (int64_t b = 0; b < c->rows; b++) {
		const int64_t rows = (int64_t)(cu[b + 1] - cu[b]) * c->group;
		for (int64_t first = 0; first < rows; first += PA_ROWS) {
			const int64_t count = rows - first < PA_ROWS ? rows - first : PA_ROWS;
			const int low = (int)(first / c->group), high = pa_key_end(c, cu[b] + (first + count - 1) / c->group);
			const int from = c->window && low + 1 > c->window ? low + 1 - c->window : 0;
			for (int h = 0; h < c->kv_heads; h++)
				w->units[w->unit_count++] = (struct pa_unit){(int32_t)b, h, (int32_t)first, (int32_t)count,
				                                             from / PA_CHUNK, (high + PA_CHUNK - 1) / PA_CHUNK, NULL};
			w->cost += (int64_t)(high - from) * count * 2 * c->head_size * c->kv_heads;
		}
	}
	return 1;
}

static void run_write(void *work, size_t i) {
	const struct work *w = work;
	const int64_t from = (int64_t)i * WRITE_TOKENS, end = from + WRITE_TOKENS;
	w->kernel->write(&w->call, from, end < w->call.tokens ? end : w->call.tokens);
}

static void run_unit(void *work, size_t i) {
	const struct work *w = work;
	w->kernel->attend(&w->call, &w->units[i]);
}

static void fill_call(struct pa_call *c, const struct encoder_node *n, const struct tensor *in) {
	const int64_t own = (int64_t)n->heads * n->head_size, kv = (int64_t)n->kv_heads * n->head_size;
	const int packed = !in[E_KEY].data;
	const float *q = in[E_QUERY].data;
	*c = (struct pa_call){
	    .q = q, .k = packed ? q + own : in[E_KEY].data, .v = packed ? q + own + kv : in[E_VALUE].data,
	    .q_stride = in[E_QUERY].dims[1], .k_stride = packed ? in[E_QUERY].dims[1] : kv,
	    .v_stride = packed ? in[E_QUERY].dims[1] : kv, .q_norm = in[E_Q_NORM].data, .k_norm = in[E_K_NORM].data,
	    .tokens = in[E_QUERY].dims[0], .rows = in[E_STARTS].size - 1, .heads = n->heads, .kv_heads = n->kv_heads,
	    .group = n->heads / n->kv_heads, .head_size = n->head_size, .value_size = n->head_size,
	    .interleaved = n->interleaved > 0,
	    .window = n->reach >= 0 ? n->reach + 1 : 0, .norm_after = n->norm_after > 0, .cap = n->cap, .scale = n->scale,
	    .epsilon = n->epsilon};
	if (n->rotary > 0) c->cos = in[E_COS].data, c->sin = in[E_SIN].data, c->half = (int)in[E_COS].dims[1];
	if (in[E_DISTANCES].data)
		c->distances = in[E_DISTANCES].data, c->farthest = (int)(in[E_DISTANCES].dims[1] / 2);
}

static OrtStatus *compute(void *kernel, OrtKernelContext *ctx) {
	const struct encoder_node *n = kernel;
	struct tensor in[E_COUNT];
	memset(in, 0, sizeof in);
	size_t count = 0;
	OrtStatus *status = tgi_ort.KernelContext_GetInputCount(ctx, &count);
	for (size_t i = 0; !status && i < count && i < E_COUNT; i++) status = op_input(ctx, i, &in[i]);
	if (status) return status;
	const char *why = check(n, in);
	if (why) return wrong(why);
	struct work w = {.kernel = &pa_current()->forms[PA_FLOAT32]};
	fill_call(&w.call, n, in);
	if (n->causal <= 0) w.ahead = n->reach >= 0 ? n->reach : INT_MAX;
	const int64_t shape[2] = {w.call.tokens, (int64_t)n->heads * n->head_size};
	status = op_output(ctx, shape, 2, &w.call.out);
	if (status || !w.call.tokens) return status;
	if (!work_make(&w, in[E_STARTS].data)) {
		work_free(&w);
		return wrong("out of memory");
	}
	const size_t writes = (size_t)((w.call.tokens + WRITE_TOKENS - 1) / WRITE_TOKENS);
	status = op_spread(ctx, run_write, writes, w.call.tokens * n->kv_heads * n->head_size * WRITE_WORK, &w);
	if (!status) status = op_spread(ctx, run_unit, w.unit_count, w.cost, &w);
	work_free(&w);
	return status;
}

static const char *op_name(const struct tgi_custom_op *op) { return (void)op, "EncoderAttention"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, NULL; }
static size_t input_count(const struct tgi_custom_op *op) { return (void)op, E_COUNT; }
static size_t output_count(const struct tgi_custom_op *op) { return (void)op, 1; }
static unsigned op_output_type(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_FLOAT; }
static unsigned op_output_kind(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }
static int op_memory(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_MEM_DEFAULT; }

static unsigned op_input_type(const struct tgi_custom_op *op, size_t i) {
	(void)op;
	return i == E_STARTS ? TGI_ORT_INT64 : TGI_ORT_FLOAT;
}

static unsigned op_input_kind(const struct tgi_custom_op *op, size_t i) {
	(void)op;
	return i == E_QUERY || i == E_STARTS ? TGI_ORT_REQUIRED : TGI_ORT_OPTIONAL;
}

const struct tgi_custom_op tgi_encoder_attention = {
    .version = TGI_CUSTOM_OP_VERSION,
    .GetName = op_name,
    .GetExecutionProviderType = op_provider,
    .GetInputType = op_input_type,
    .GetInputTypeCount = input_count,
    .GetOutputType = op_output_type,
    .GetOutputTypeCount = output_count,
    .KernelDestroy = free,
    .GetInputCharacteristic = op_input_kind,
    .GetOutputCharacteristic = op_output_kind,
    .GetInputMemoryType = op_memory,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
};

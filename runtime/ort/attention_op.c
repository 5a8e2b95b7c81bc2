// The operator tgi.PagedAttention: reads and checks a node's inputs, cuts the
// work into units and runs them on the session's threads.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "op.h"

// Inputs, in the order of com.microsoft.PagedAttention; the last three are ours.
enum {
	IN_QUERY, IN_KEY, IN_VALUE, IN_K_CACHE, IN_V_CACHE, IN_CU_SEQLENS, IN_PAST_LENS, IN_BLOCK_TABLE,
	IN_COS, IN_SIN, IN_SLOTS, IN_HEAD_SINK, IN_Q_NORM, IN_K_NORM, IN_SLOPES, IN_KEY_ENDS, IN_CACHE_FORM, IN_COUNT,
};

// attention_node is what a node's attributes say.
struct attention_node {
	int heads, kv_heads, head_size, value_size, window, rotary, by_token, interleaved, norm_after, stretch_from;
	float scale, epsilon, cap, stretch;
};

static OrtStatus *create(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	struct op_attributes a = {info, "tgi.PagedAttention", NULL};
	struct attention_node n = {
	    .heads = (int)op_integer(&a, "num_heads", 1, 1 << 16, 0),
	    .kv_heads = (int)op_integer(&a, "kv_num_heads", 1, 1 << 16, 0),
	    .head_size = (int)op_integer(&a, "head_size", 8, PA_MAX_HEAD, 0),
	    .value_size = (int)op_integer(&a, "latent_size", 0, PA_MAX_HEAD, 0),
	    .window = (int)op_integer(&a, "local_window_size", -1, INT32_MAX, -1),
	    .rotary = (int)op_integer(&a, "do_rotary", 0, 1, 0),
	    .by_token = (int)op_integer(&a, "rotary_by_token", 0, 1, 0),
	    .interleaved = (int)op_integer(&a, "rotary_interleaved", 0, 1, 0),
	    .norm_after = (int)op_integer(&a, "qk_norm_after_rotary", 0, 1, 0),
	    .stretch_from = (int)op_integer(&a, "query_stretch_from", 0, INT32_MAX, 0),
	    .stretch = op_real(&a, "query_stretch", 0), .cap = op_real(&a, "softcap", 0),
	    .scale = op_real(&a, "scale", 0), .epsilon = op_real(&a, "qk_norm_epsilon", 1e-6f)};
	if (a.wrong) return a.wrong;
	if (n.window < 0) n.window = 0;
	if (n.scale == 0) n.scale = 1.0f / sqrtf((float)n.head_size);
	if (n.heads % n.kv_heads) return op_invalid("tgi.PagedAttention: num_heads is not a multiple of kv_num_heads");
	if (n.head_size % 8) return op_invalid("tgi.PagedAttention: head_size is not a multiple of 8");
	if (n.value_size && (n.value_size > n.head_size || n.window))
		return op_invalid("tgi.PagedAttention: latent_size is larger than head_size, or beside a window");
	struct attention_node *own = malloc(sizeof *own);
	if (!own) return op_invalid("tgi.PagedAttention: out of memory");
	*own = n;
	*kernel = own;
	return NULL;
}

static OrtStatus *read_inputs(OrtKernelContext *ctx, struct tensor in[IN_COUNT]) {
	size_t count = 0;
	OrtStatus *status = tgi_ort.KernelContext_GetInputCount(ctx, &count);
	memset(in, 0, IN_COUNT * sizeof *in);
	for (size_t i = 0; !status && i < count && i < IN_COUNT; i++) status = op_input(ctx, i, &in[i]);
	return status;
}

// cache_form is what the cache's bytes are; check_shapes has checked it.
static enum pa_form cache_form(const struct tensor *in) {
	return (enum pa_form) * (const int32_t *)in[IN_CACHE_FORM].data;
}

// block_bytes is the size of a block's keys, or values.
static int64_t block_bytes(const struct attention_node *n, const struct tensor *in) {
	return (int64_t)n->kv_heads * pa_head_bytes(cache_form(in), n->head_size);
}

// check_shapes returns what is wrong with the inputs' shapes, or null.
static const char *check_shapes(const struct attention_node *n, const struct tensor *in) {
	const struct tensor *q = &in[IN_QUERY], *k = &in[IN_KEY], *v = &in[IN_VALUE], *bt = &in[IN_BLOCK_TABLE];
	const int64_t kv = (int64_t)n->kv_heads * n->head_size, own = (int64_t)n->heads * n->head_size;
	const int64_t rows = in[IN_PAST_LENS].size;
	if (q->rank != 2) return "query is not a matrix";
	const int64_t tokens = q->dims[0];
	if (n->value_size ? !k->data || v->data : !k->data != !v->data) return "key without value, or value without key";
	if (!k->data && tokens && q->dims[1] != own + 2 * kv) return "packed query has the wrong width";
	if (k->data && (q->dims[1] != own || k->size != tokens * kv || (v->data && v->size != tokens * kv)))
		return "query, key and value have the wrong widths";
	const struct tensor *vc = n->value_size ? &in[IN_K_CACHE] : &in[IN_V_CACHE];
	if (n->value_size && in[IN_V_CACHE].data) return "v_cache beside latent_size";
	if (in[IN_CACHE_FORM].size != 1) return "cache_form is not one number";
	const int32_t form = *(const int32_t *)in[IN_CACHE_FORM].data;
	if (form < 0 || form >= PA_FORMS) return "cache_form is unknown";
	if (in[IN_K_CACHE].size % block_bytes(n, in) || vc->size != in[IN_K_CACHE].size)
		return "k_cache and v_cache are not blocks of 16 tokens";
	if (in[IN_CU_SEQLENS].size != rows + 1) return "cu_seqlens and past_lens disagree";
	if (bt->rank != 2 || bt->dims[0] != rows) return "block_table has the wrong number of rows";
	if (in[IN_SLOTS].size != tokens) return "slot_mapping has the wrong length";
	if (in[IN_HEAD_SINK].data && in[IN_HEAD_SINK].size != n->heads) return "head_sink has the wrong length";
	if (in[IN_SLOPES].data && in[IN_SLOPES].size != n->heads) return "alibi_slopes has the wrong length";
	if (in[IN_KEY_ENDS].data && in[IN_KEY_ENDS].size != tokens) return "key_ends has the wrong length";
	if (in[IN_KEY_ENDS].data && in[IN_SLOPES].data) return "key_ends and alibi_slopes exclude each other";
	if (in[IN_Q_NORM].data && in[IN_Q_NORM].size != n->head_size) return "q_norm_weight has the wrong length";
	if (in[IN_K_NORM].data && in[IN_K_NORM].size != n->head_size) return "k_norm_weight has the wrong length";
	if (n->rotary) {
		const struct tensor *c = &in[IN_COS], *s = &in[IN_SIN];
		if (!c->data || !s->data) return "do_rotary without cos_cache and sin_cache";
		if (c->rank != 2 || s->size != c->size) return "cos_cache and sin_cache have the wrong shapes";
		if (2 * c->dims[1] > n->head_size) return "cos_cache is wider than half a head";
		if (n->by_token && c->dims[0] != tokens) return "cos_cache does not have a row for each token";
	}
	return NULL;
}

static void fill_call(struct pa_call *c, const struct attention_node *n, const struct tensor *in) {
	memset(c, 0, sizeof *c);
	c->heads = n->heads, c->kv_heads = n->kv_heads, c->group = n->heads / n->kv_heads, c->head_size = n->head_size;
	c->latent = n->value_size != 0, c->value_size = n->value_size ? n->value_size : n->head_size;
	c->window = n->window, c->by_token = n->by_token, c->interleaved = n->interleaved;
	c->scale = n->scale, c->epsilon = n->epsilon;
	c->norm_after = n->norm_after, c->stretch_from = n->stretch_from, c->stretch = n->stretch, c->cap = n->cap;
	c->sinks = in[IN_HEAD_SINK].data, c->slopes = in[IN_SLOPES].data;
	c->key_ends = in[IN_KEY_ENDS].data;
	c->tokens = in[IN_QUERY].dims[0], c->rows = in[IN_PAST_LENS].size, c->max_blocks = in[IN_BLOCK_TABLE].dims[1];
	c->q = in[IN_QUERY].data, c->q_stride = in[IN_QUERY].dims[1];
	if (in[IN_KEY].data) {
		c->k = in[IN_KEY].data, c->v = in[IN_VALUE].data;
		c->k_stride = c->v_stride = (int64_t)n->kv_heads * n->head_size;
	} else {
		c->k = c->q + (int64_t)n->heads * n->head_size;
		c->v = c->k + (int64_t)n->kv_heads * n->head_size;
		c->k_stride = c->v_stride = c->q_stride;
	}
	c->k_cache = in[IN_K_CACHE].data, c->v_cache = in[IN_V_CACHE].data;
	c->cu_seqlens = in[IN_CU_SEQLENS].data, c->past_lens = in[IN_PAST_LENS].data;
	c->block_table = in[IN_BLOCK_TABLE].data, c->slots = in[IN_SLOTS].data;
	c->q_norm = in[IN_Q_NORM].data, c->k_norm = in[IN_K_NORM].data;
	if (n->rotary) c->cos = in[IN_COS].data, c->sin = in[IN_SIN].data, c->half = (int)in[IN_COS].dims[1];
}

// first_key is the first position that the row's first token sees.
static int64_t first_key(const struct pa_call *c, int64_t row) {
	const int64_t end = (int64_t)c->past_lens[row] + 1;
	return c->window && end > c->window ? end - c->window : 0;
}

// check_values returns what is wrong with the step, or null: after it nothing
// reads or writes outside a tensor.
static const char *check_values(const struct pa_call *c, int64_t blocks, int64_t positions) {
	if (c->cu_seqlens[0] != 0 || c->cu_seqlens[c->rows] != c->tokens) return "cu_seqlens does not span the tokens";
	for (int64_t t = 0; t < c->tokens; t++)
		if (c->slots[t] < -1 || c->slots[t] >= blocks * PA_BLOCK) return "slot_mapping is out of bounds";
	for (int64_t b = 0; b < c->rows; b++) {
		if (c->cu_seqlens[b + 1] < c->cu_seqlens[b]) return "cu_seqlens is not ascending";
		if (c->past_lens[b] < 0) return "past_lens is negative";
		const int64_t end = (int64_t)c->past_lens[b] + c->cu_seqlens[b + 1] - c->cu_seqlens[b];
		if (end > c->max_blocks * PA_BLOCK) return "a row is longer than its blocks";
		if (c->cos && !c->by_token && end > positions) return "a row is longer than cos_cache";
		for (int64_t t = c->cu_seqlens[b]; c->key_ends && t < c->cu_seqlens[b + 1]; t++) {
			if (c->key_ends[t] <= c->past_lens[b] + t - c->cu_seqlens[b] || c->key_ends[t] > end)
				return "key_ends is out of bounds";
			if (t > c->cu_seqlens[b] && c->key_ends[t] < c->key_ends[t - 1]) return "key_ends is not ascending";
		}
		for (int64_t i = first_key(c, b) / PA_BLOCK; i * PA_BLOCK < end; i++) {
			const int32_t block = c->block_table[b * c->max_blocks + i];
			if (block < 0 || block >= blocks) return "block_table is out of bounds";
		}
	}
	return NULL;
}

// plan is the work of a call: positions of its tokens, query tiles, and units.
// Units are the tiles themselves, or the tiles' chunks.
struct plan {
	struct pa_call call;
	const struct pa_functions *kernel;
	int32_t *positions;
	struct pa_unit *tiles, *units;
	size_t tile_count, unit_count;
	float *partials;  // of all tiles; null when units are tiles
	int64_t work;     // multiply-adds, roughly
};

enum {
	FEW_TILES = 16,        // fewer tiles than this are cut into chunks
	WRITE_TOKENS = 16,     // tokens of a unit of writing
	WRITE_WORK = 64,       // multiply-adds that writing one float of a key costs
};

static void plan_free(struct plan *p) {
	free(p->positions);
	free(p->tiles);
	if (p->units != p->tiles) free(p->units);
	free(p->partials);
}

static int plan_tiles(struct plan *p) {
	const struct pa_call *c = &p->call;
	size_t most = 0;
	for (int64_t b = 0; b < c->rows; b++) {
		const int64_t rows = (int64_t)(c->cu_seqlens[b + 1] - c->cu_seqlens[b]) * c->group;
		most += (size_t)((rows + PA_ROWS - 1) / PA_ROWS) * (size_t)c->kv_heads;
	}
	p->tiles = malloc((most ? most : 1) * sizeof *p->tiles);
	if (!p->tiles) return 0;
	p->units = p->tiles;
	for (int64_t b = 0; b < c->rows; b++) {
		const int64_t rows = (int64_t)(c->cu_seqlens[b + 1] - c->cu_seqlens[b]) * c->group;
		for (int64_t first = 0; first < rows; first += PA_ROWS) {
			const int64_t count = rows - first < PA_ROWS ? rows - first : PA_ROWS;
			const int64_t low = c->past_lens[b] + first / c->group;
			const int64_t high = pa_key_end(c, c->cu_seqlens[b] + (first + count - 1) / c->group);
			const int64_t from = c->window && low + 1 > c->window ? low + 1 - c->window : 0;
			for (int h = 0; h < c->kv_heads; h++)
				p->tiles[p->tile_count++] = (struct pa_unit){
				    (int32_t)b, h, (int32_t)first, (int32_t)count,
				    (int32_t)(from / PA_CHUNK), (int32_t)((high + PA_CHUNK - 1) / PA_CHUNK), NULL};
			p->work += (high - from) * count * 2 * c->head_size * c->kv_heads;
		}
	}
	p->unit_count = p->tile_count;
	return 1;
}

// plan_chunks cuts the tiles into chunks when there are too few of them to
// keep the threads busy. The results are the same either way.
static int plan_chunks(struct plan *p) {
	const struct pa_call *c = &p->call;
	size_t chunks = 0, floats = 0;
	for (size_t i = 0; i < p->tile_count; i++) {
		const size_t n = (size_t)(p->tiles[i].end_chunk - p->tiles[i].first_chunk);
		chunks += n;
		floats += n * (size_t)p->tiles[i].count * (size_t)pa_stride(c->value_size);
	}
	if (p->tile_count >= FEW_TILES || p->work < SERIAL_WORK || chunks == p->tile_count) return 1;
	struct pa_unit *units = malloc(chunks * sizeof *units);
	float *partials = malloc(floats * sizeof *partials);
	if (!units || !partials) {
		free(units);
		free(partials);
		return 0;
	}
	p->units = units;
	p->partials = partials;
	p->unit_count = 0;
	for (size_t i = 0; i < p->tile_count; i++) {
		struct pa_unit *tile = &p->tiles[i];
		tile->partials = partials;
		for (int n = tile->first_chunk; n < tile->end_chunk; n++) {
			struct pa_unit *u = &units[p->unit_count++];
			*u = *tile;
			u->first_chunk = n, u->end_chunk = n + 1;
			u->partials = partials;
			partials += (size_t)tile->count * (size_t)pa_stride(c->value_size);
		}
	}
	return 1;
}

static int plan_make(struct plan *p) {
	struct pa_call *c = &p->call;
	p->positions = malloc((size_t)(c->tokens ? c->tokens : 1) * sizeof *p->positions);
	if (!p->positions) return 0;
	for (int64_t b = 0; b < c->rows; b++)
		for (int32_t t = c->cu_seqlens[b]; t < c->cu_seqlens[b + 1]; t++)
			p->positions[t] = c->past_lens[b] + t - c->cu_seqlens[b];
	c->positions = p->positions;
	return plan_tiles(p) && plan_chunks(p);
}

static void run_write(void *plan, size_t i) {
	const struct plan *p = plan;
	const int64_t from = (int64_t)i * WRITE_TOKENS, end = from + WRITE_TOKENS;
	p->kernel->write(&p->call, from, end < p->call.tokens ? end : p->call.tokens);
}

static void run_unit(void *plan, size_t i) {
	const struct plan *p = plan;
	p->kernel->attend(&p->call, &p->units[i]);
}

static OrtStatus *run_plan(OrtKernelContext *ctx, struct plan *p) {
	const struct pa_call *c = &p->call;
	const size_t writes = (size_t)((c->tokens + WRITE_TOKENS - 1) / WRITE_TOKENS);
	const int64_t write_work = c->tokens * c->kv_heads * c->head_size * WRITE_WORK;
	OrtStatus *status = op_spread(ctx, run_write, writes, write_work, p);
	if (!status) status = op_spread(ctx, run_unit, p->unit_count, p->work, p);
	if (!status && p->partials)
		for (size_t i = 0; i < p->tile_count; i++) p->kernel->merge(c, &p->tiles[i]);
	return status;
}

static OrtStatus *wrong(const char *why) {
	char text[160] = "tgi.PagedAttention: ";
	strncat(text, why, sizeof text - strlen(text) - 1);
	return op_invalid(text);
}

static OrtStatus *compute(void *kernel, OrtKernelContext *ctx) {
	const struct attention_node *n = kernel;
	struct tensor in[IN_COUNT];
	OrtStatus *status = read_inputs(ctx, in);
	if (status) return status;
	const char *why = check_shapes(n, in);
	if (why) return wrong(why);
	struct plan p = {.kernel = &pa_current()->forms[cache_form(in)]};
	fill_call(&p.call, n, in);
	why = check_values(&p.call, in[IN_K_CACHE].size / block_bytes(n, in), n->rotary ? in[IN_COS].dims[0] : 0);
	if (why) return wrong(why);
	const int64_t shape[2] = {p.call.tokens, (int64_t)n->heads * p.call.value_size};
	status = op_output(ctx, shape, 2, &p.call.out);
	if (status || !p.call.tokens) return status;
	status = plan_make(&p) ? run_plan(ctx, &p) : wrong("out of memory");
	plan_free(&p);
	return status;
}

static const char *op_name(const struct tgi_custom_op *op) { return (void)op, "PagedAttention"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, NULL; }
static size_t input_count(const struct tgi_custom_op *op) { return (void)op, IN_COUNT; }
static size_t output_count(const struct tgi_custom_op *op) { return (void)op, 1; }
static unsigned op_output_type(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_FLOAT; }
static unsigned op_output_kind(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }
static int op_memory(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_MEM_DEFAULT; }

static unsigned op_input_type(const struct tgi_custom_op *op, size_t i) {
	(void)op;
	if (i == IN_K_CACHE || i == IN_V_CACHE) return TGI_ORT_UINT8;
	const int ints = i == IN_CU_SEQLENS || i == IN_PAST_LENS || i == IN_BLOCK_TABLE || i == IN_SLOTS ||
	                 i == IN_KEY_ENDS || i == IN_CACHE_FORM;
	return ints ? TGI_ORT_INT32 : TGI_ORT_FLOAT;
}

static unsigned op_input_kind(const struct tgi_custom_op *op, size_t i) {
	(void)op;
	const int optional = i == IN_KEY || i == IN_VALUE || i == IN_COS || i == IN_SIN || i == IN_V_CACHE ||
	                     (i >= IN_HEAD_SINK && i != IN_CACHE_FORM);
	return optional ? TGI_ORT_OPTIONAL : TGI_ORT_REQUIRED;
}

const struct tgi_custom_op tgi_paged_attention = {
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

// The operator tgi.Experts: a mixture of gated MLPs, of which each token takes a few.
//
// Tokens are sorted by expert, so that a matrix is read once for all that take it. The products are those of
// tgi.MatMulQ, or dot products of floats with a fixed order of sums; what the experts of a token give is added in the
// order of their scores. So a token's result does not depend on the others.

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attention.h"
#include "elementary.h"
#include "op.h"
#include "product.h"

// Inputs: tokens [tokens, hidden], the router's scores [tokens, experts], and for each expert, one after another, the
// matrices of gate and up [2*inner, hidden] and of down [hidden, inner]: floats, or packed as for tgi.MatMulQ.
// Optionally their biases [experts, 2*inner] and [experts, hidden], and a correction [experts] that is added to shares
// for the choice of experts.
enum { EX_X, EX_SCORES, EX_GATE_UP, EX_DOWN, EX_GATE_UP_BIAS, EX_DOWN_BIAS, EX_CORRECTION, EX_COUNT };

enum {
	UNIT_COLUMNS = 64,   // of a product that are one unit of work
	EXPERTS_MAX = 1024,
};

struct experts_node {
	int64_t count, per_token, hidden, inner, normalise, activation;
	int block, bits, offsets, table;             // block_size and the form of gates and ups; bits is 0 for floats
	int down_bits, down_offsets, down_table;  // of the second matrices
	int64_t sigmoid;  // shares are the sigmoids of scores; else their softmax
	// Experts are divided into groups of neighbours, of which a token takes some: those whose group_best best experts
	// have the highest sum.
	int64_t groups, groups_per_token, group_best;
	float alpha, limit;  // of gpt-oss' activation, which is taken if limit is not 0
	float scale;         // of the weights
	float least;         // that weights are divided by, if they are normalised
};

// matrix_of describes the first expert's matrix of a product.
static struct mq_matrix matrix_of(const struct experts_node *n, int second, const void *data) {
	if (second)
		return (struct mq_matrix){data, n->hidden, n->inner, n->down_bits, n->block, n->down_offsets, n->down_table};
	return (struct mq_matrix){data, 2 * n->inner, n->hidden, n->bits, n->block, n->offsets, n->table};
}

static OrtStatus *create(const struct tgi_custom_op *op, const void *api, const OrtKernelInfo *info, void **kernel) {
	(void)op, (void)api;
	struct experts_node n;
	struct op_attributes a = {info, "tgi.Experts", NULL};
	n.count = op_integer(&a, "experts", 1, EXPERTS_MAX, 0);
	n.per_token = op_integer(&a, "per_token", 1, n.count, 0);
	n.hidden = op_integer(&a, "hidden", 1, 1 << 20, 0), n.inner = op_integer(&a, "inner", 1, 1 << 20, 0);
	n.normalise = op_integer(&a, "normalise", 0, 1, -1), n.activation = op_integer(&a, "activation", 0, 255, -1);
	n.alpha = op_real(&a, "alpha", 0), n.limit = op_real(&a, "limit", 0);
	n.scale = op_real(&a, "scale", 1), n.least = op_real(&a, "least", 0);
	n.sigmoid = op_integer(&a, "sigmoid", 0, 1, 0);
	n.groups = op_integer(&a, "groups", 1, n.count, 1);
	n.groups_per_token = op_integer(&a, "groups_per_token", 1, n.groups, 1);
	n.group_best = op_integer(&a, "group_best", 1, n.count / n.groups, 1);
	n.block = (int)op_integer(&a, "block_size", 0, 128, -1);
	n.bits = (int)op_integer(&a, "bits", 0, 8, -1), n.down_bits = (int)op_integer(&a, "down_bits", 0, 8, n.bits);
	n.offsets = (int)op_integer(&a, "offsets", 0, MQ_FACTORS, 0);
	n.down_offsets = (int)op_integer(&a, "down_offsets", 0, MQ_FACTORS, n.offsets);
	n.table = (int)op_integer(&a, "table", 0, MQ_TABLES, 0);
	n.down_table = (int)op_integer(&a, "down_table", 0, MQ_TABLES, n.table);
	if (a.wrong) return a.wrong;
	if (n.count % n.groups || n.groups_per_token * (n.count / n.groups) < n.per_token)
		return op_invalid("tgi.Experts: groups do not fit the experts");
	const struct mq_matrix one = matrix_of(&n, 0, NULL), two = matrix_of(&n, 1, NULL);
	const int plain = !n.bits && !n.down_bits && !n.offsets && !n.down_offsets && !n.table && !n.down_table;
	if (!plain && (!mq_fits(&one) || !mq_fits(&two)))
		return op_invalid("tgi.Experts: bits must be 0, 4 or 8, block_size 32, 64 or 128, 32 with offsets or a table, "
		                  "which there are 3 of for 4 bits; or bits 6 or offsets 2, block_size 32 and rows of a "
		                  "multiple of 256");
	if (!glu_choose(n.activation)) return op_invalid("tgi.Experts: activation is out of bounds");
	struct experts_node *own = malloc(sizeof *own);
	if (!own) return op_invalid("tgi.Experts: out of memory");
	*own = n;
	*kernel = own;
	return NULL;
}

// place is a token's expert, with what its result is multiplied by.
struct place {
	int32_t token, expert;
	float weight;
};

// step is one product of all experts: rows of width k by matrices of n rows, to rows of stride floats.
struct step {
	struct mq_matrix matrix;  // of the first expert; bits is 0 for floats
	int64_t expert_bytes;
	struct mq_rows rows;  // rounded; unused for floats
	const float *x;       // [slots, k]
	float *y;
	int64_t stride, units_per_expert;
};

struct work {
	const struct experts_node *node;
	const struct mq_kernel *kernel;
	glu_row *glu;
	const float *x, *scores, *gate_up_bias, *down_bias, *correction;
	float *out;
	int64_t tokens, slots;
	struct place *places;  // [tokens][per_token], in the order of their scores
	int32_t *slot_of;      // of each place, in the order of experts
	int32_t *place_at;     // of each slot
	int64_t *first;        // slot of each expert, and the number of slots
	int32_t *active;       // experts that have slots
	int64_t active_count;
	float *gathered, *gate_up, *gated, *down;
	struct step one, two;
};

// best returns the index of the largest of n numbers, the first of equal ones, among those that are not taken.
static int32_t best(const float *of, const unsigned char *taken, int64_t n) {
	int32_t at = -1;
	for (int32_t i = 0; i < n; i++)
		if (!taken[i] && (at < 0 || of[i] > of[at])) at = i;
	return at;
}

// leave_groups takes the experts of all but the best groups out of the choice.
static void leave_groups(const struct experts_node *n, const float *choice, unsigned char *taken) {
	const int64_t size = n->count / n->groups;
	float sums[EXPERTS_MAX];
	unsigned char left[EXPERTS_MAX] = {0}, seen[EXPERTS_MAX];
	for (int64_t g = 0; g < n->groups; g++) {
		memset(seen, 0, (size_t)size);
		sums[g] = 0;
		for (int64_t i = 0; i < n->group_best; i++) {
			const int32_t at = best(choice + g * size, seen, size);
			seen[at] = 1;
			sums[g] += choice[g * size + at];
		}
	}
	memset(taken, 1, (size_t)n->count);
	for (int64_t i = 0; i < n->groups_per_token; i++) {
		const int32_t g = best(sums, left, n->groups);
		left[g] = 1;
		memset(taken + g * size, 0, (size_t)size);
	}
}

// route chooses a token's experts: those of the highest shares, corrected if there is a correction, the first of equal
// ones. Their weights are their shares, or those divided by their sum.
static void route(void *p, size_t token) {
	const struct work *w = p;
	const struct experts_node *n = w->node;
	const int64_t count = n->count, k = n->per_token;
	const float *scores = w->scores + (int64_t)token * count;
	struct place *places = w->places + (int64_t)token * k;
	float share[EXPERTS_MAX], corrected[EXPERTS_MAX];
	float top = scores[0], all = 0;
	for (int64_t e = 1; e < count; e++) top = scores[e] > top ? scores[e] : top;
	for (int64_t e = 0; e < count; e++) {
		share[e] = n->sigmoid ? 1.0f / (1.0f + expf(-scores[e])) : expf(scores[e] - top);
		all += share[e];
	}
	if (n->sigmoid) all = 1;  // what shares are divided by
	const float *choice = scores;  // which are in the order of shares
	if (w->correction || n->groups > 1) {
		for (int64_t e = 0; e < count; e++)
			corrected[e] = share[e] / all + (w->correction ? w->correction[e] : 0);
		choice = corrected;
	}
	unsigned char taken[EXPERTS_MAX] = {0};
	if (n->groups > 1) leave_groups(n, choice, taken);
	float sum = 0;
	for (int64_t i = 0; i < k; i++) {
		const int32_t e = best(choice, taken, count);
		places[i] = (struct place){(int32_t)token, e, share[e]};
		taken[e] = 1;
		sum += share[e];
	}
	if (!n->normalise) sum = all;
	if (sum < n->least) sum = n->least;
	for (int64_t i = 0; i < k; i++) places[i].weight = places[i].weight / sum * n->scale;
}

// sort gives places their slots, by expert and then by token.
static void sort(struct work *w) {
	const int64_t count = w->node->count;
	memset(w->first, 0, (size_t)(count + 1) * sizeof *w->first);
	for (int64_t i = 0; i < w->slots; i++) w->first[w->places[i].expert + 1]++;
	w->active_count = 0;
	for (int64_t e = 0; e < count; e++) {
		if (w->first[e + 1]) w->active[w->active_count++] = (int32_t)e;
		w->first[e + 1] += w->first[e];
	}
	for (int64_t i = 0; i < w->slots; i++) {
		const int64_t slot = w->first[w->places[i].expert]++;
		w->slot_of[i] = (int32_t)slot;
		w->place_at[slot] = (int32_t)i;
	}
	for (int64_t e = count; e > 0; e--) w->first[e] = w->first[e - 1];
	w->first[0] = 0;
}

// gather copies, or rounds, a slot's token.
static void gather(void *p, size_t slot) {
	const struct work *w = p;
	const float *x = w->x + (int64_t)w->places[w->place_at[slot]].token * w->node->hidden;
	if (w->node->bits)
		w->kernel->quantise(&w->one.matrix, &w->one.rows, x, (int64_t)slot);
	else
		memcpy(w->gathered + (int64_t)slot * w->node->hidden, x, (size_t)w->node->hidden * sizeof *x);
}

// clamped is gpt-oss' activation.
static void clamped(const float *gate, const float *up, float *out, int64_t n, float alpha, float limit) {
	for (int64_t i = 0; i < n; i++) {
		const float g = gate[i] > limit ? limit : gate[i], most = up[i] > limit ? limit : up[i];
		out[i] = g / (1.0f + exponential(-alpha * g)) * (1.0f + (most < -limit ? -limit : most));
	}
}

// activate applies the activation to a slot's row, and rounds it.
static void activate(void *p, size_t slot) {
	const struct work *w = p;
	const int64_t inner = w->node->inner;
	float *row = w->gate_up + (int64_t)slot * w->one.stride, *out = w->gated + (int64_t)slot * inner;
	if (w->gate_up_bias) {
		const float *bias = w->gate_up_bias + w->places[w->place_at[slot]].expert * 2 * inner;
		for (int64_t i = 0; i < 2 * inner; i++) row[i] += bias[i];
	}
	if (w->node->limit)
		clamped(row, row + inner, out, inner, w->node->alpha, w->node->limit);
	else
		w->glu(row, row + inner, out, inner);
	if (w->node->bits) w->kernel->quantise(&w->two.matrix, &w->two.rows, out, (int64_t)slot);
}

// run_unit computes some columns of one expert's product.
static void run_unit(const struct work *w, const struct step *s, size_t unit) {
	const int32_t expert = w->active[unit / (size_t)s->units_per_expert];
	const int64_t part = (int64_t)unit % s->units_per_expert, row = w->first[expert], end = w->first[expert + 1];
	struct mq_matrix m = s->matrix;
	m.data += (int64_t)expert * s->expert_bytes;
	if (!m.bits) {
		const float *weights = (const float *)m.data;
		const int64_t last = (part + 1) * UNIT_COLUMNS < m.n ? (part + 1) * UNIT_COLUMNS : m.n;
		for (int64_t c = part * UNIT_COLUMNS; c < last; c++)
			op_dots(weights + c * m.k, s->x + row * m.k, m.k, end - row, s->y + row * s->stride + c, s->stride);
		return;
	}
	const int64_t groups = mq_groups(&m), per_unit = UNIT_COLUMNS / MQ_GROUP, first = part * per_unit;
	const int64_t last = first + per_unit < groups ? first + per_unit : groups;
	mq_multiply(w->kernel, &m, &s->rows, first, last, row, end, s->y + row * s->stride + first * MQ_GROUP, s->stride);
}

static void first_product(void *p, size_t unit) { run_unit(p, &((const struct work *)p)->one, unit); }
static void second_product(void *p, size_t unit) { run_unit(p, &((const struct work *)p)->two, unit); }

// add sums up what a token's experts gave.
static void add(void *p, size_t token) {
	const struct work *w = p;
	const int64_t hidden = w->node->hidden, k = w->node->per_token;
	float *out = w->out + (int64_t)token * hidden;
	for (int64_t i = 0; i < k; i++) {
		const int64_t place = (int64_t)token * k + i;
		const float *y = w->down + w->slot_of[place] * w->two.stride, weight = w->places[place].weight;
		const float *bias = w->down_bias ? w->down_bias + w->places[place].expert * hidden : NULL;
		for (int64_t d = 0; d < hidden; d++) {
			const float own = (bias ? y[d] + bias[d] : y[d]) * weight;
			out[d] = i ? out[d] + own : own;
		}
	}
}

// lay_out describes a product; it returns the bytes that its rounded rows take.
static size_t lay_out(const struct work *w, struct step *s, int second, const void *data) {
	s->matrix = matrix_of(w->node, second, data);
	const int64_t n = s->matrix.n, k = s->matrix.k;
	s->stride = (n + MQ_GROUP - 1) / MQ_GROUP * MQ_GROUP;
	s->units_per_expert = (n + UNIT_COLUMNS - 1) / UNIT_COLUMNS;
	if (!w->node->bits) {
		s->expert_bytes = n * k * (int64_t)sizeof(float);
		return 0;
	}
	s->expert_bytes = mq_bytes(&s->matrix);
	return mq_rows_bytes(&s->matrix, w->slots);
}

// arena hands out parts of one allocation; without a base it only counts.
struct arena {
	char *base;
	size_t used;
};

static void *take(struct arena *a, size_t n, size_t size) {
	void *at = a->base ? a->base + a->used : NULL;
	a->used += (n * size + 63) / 64 * 64;
	return at;
}

// divide gives w its memory.
static void divide(struct work *w, struct arena *a, size_t rounded_one, size_t rounded_two) {
	const struct experts_node *n = w->node;
	const size_t slots = (size_t)w->slots;
	w->places = take(a, slots, sizeof *w->places);
	w->slot_of = take(a, slots, sizeof *w->slot_of);
	w->place_at = take(a, slots, sizeof *w->place_at);
	w->first = take(a, (size_t)n->count + 1, sizeof *w->first);
	w->active = take(a, (size_t)n->count, sizeof *w->active);
	w->gathered = take(a, n->bits ? 0 : slots * (size_t)n->hidden, sizeof(float));
	w->gate_up = take(a, slots * (size_t)w->one.stride, sizeof(float));
	w->gated = take(a, slots * (size_t)n->inner, sizeof(float));
	w->down = take(a, slots * (size_t)w->two.stride, sizeof(float));
	char *one = take(a, rounded_one, 1), *two = take(a, rounded_two, 1);
	if (!a->base) return;
	if (n->bits) {
		w->one.rows = mq_rows_in(&w->one.matrix, w->slots, one);
		w->two.rows = mq_rows_in(&w->two.matrix, w->slots, two);
	}
	w->one.x = w->gathered, w->one.y = w->gate_up, w->two.x = w->gated, w->two.y = w->down;
}

static OrtStatus *compute(void *kernel, OrtKernelContext *ctx) {
	const struct experts_node *n = kernel;
	struct tensor in[EX_COUNT];
	size_t inputs = 0;
	memset(in, 0, sizeof in);
	OrtStatus *status = tgi_ort.KernelContext_GetInputCount(ctx, &inputs);
	for (size_t i = 0; !status && i < inputs && i < EX_COUNT; i++) status = op_input(ctx, i, &in[i]);
	if (status) return status;
	const int64_t tokens = in[EX_X].rank == 2 ? in[EX_X].dims[0] : -1;
	if (tokens < 0 || in[EX_X].dims[1] != n->hidden) return op_invalid("tgi.Experts: the tokens have another width");
	if (in[EX_SCORES].size != tokens * n->count) return op_invalid("tgi.Experts: the scores have the wrong size");
	struct work w = {.node = n, .kernel = mq_current(), .glu = glu_choose(n->activation), .x = in[EX_X].data,
	                 .scores = in[EX_SCORES].data, .gate_up_bias = in[EX_GATE_UP_BIAS].data,
	                 .down_bias = in[EX_DOWN_BIAS].data, .correction = in[EX_CORRECTION].data, .tokens = tokens,
	                 .slots = tokens * n->per_token};
	const size_t rounded_one = lay_out(&w, &w.one, 0, in[EX_GATE_UP].data);
	const size_t rounded_two = lay_out(&w, &w.two, 1, in[EX_DOWN].data);
	const unsigned type = n->bits ? TGI_ORT_UINT8 : TGI_ORT_FLOAT;
	const int64_t size = n->bits ? 1 : (int64_t)sizeof(float);
	if (in[EX_GATE_UP].type != type || in[EX_DOWN].type != type ||
	    in[EX_GATE_UP].size * size != n->count * w.one.expert_bytes ||
	    in[EX_DOWN].size * size != n->count * w.two.expert_bytes)
		return op_invalid("tgi.Experts: the matrices have another size or type than the attributes say");
	if ((w.gate_up_bias && in[EX_GATE_UP_BIAS].size != n->count * 2 * n->inner) ||
	    (w.down_bias && in[EX_DOWN_BIAS].size != n->count * n->hidden))
		return op_invalid("tgi.Experts: the biases have the wrong size");
	if (w.correction && in[EX_CORRECTION].size != n->count)
		return op_invalid("tgi.Experts: the correction has the wrong size");
	const int64_t shape[2] = {tokens, n->hidden};
	status = op_output(ctx, shape, 2, &w.out);
	if (status || !tokens) return status;

	struct arena arena = {0};
	divide(&w, &arena, rounded_one, rounded_two);
	arena = (struct arena){op_scratch(arena.used), 0};
	if (!arena.base) return op_invalid("tgi.Experts: out of memory");
	divide(&w, &arena, rounded_one, rounded_two);
	const size_t slots = (size_t)w.slots;
	const int64_t multiplications = w.slots * n->inner * n->hidden;
	status = op_spread(ctx, route, (size_t)tokens, tokens * n->count * (n->per_token + 8), &w);
	if (!status) {
		sort(&w);
		status = op_spread(ctx, gather, slots, w.slots * n->hidden * 2, &w);
	}
	if (!status)
		status = op_spread(ctx, first_product, (size_t)(w.active_count * w.one.units_per_expert), 2 * multiplications, &w);
	if (!status) status = op_spread(ctx, activate, slots, w.slots * n->inner * 16, &w);
	if (!status)
		status = op_spread(ctx, second_product, (size_t)(w.active_count * w.two.units_per_expert), multiplications, &w);
	if (!status) status = op_spread(ctx, add, (size_t)tokens, w.slots * n->hidden, &w);
	op_scratch_free(arena.base);
	return status;
}

static void destroy(void *kernel) { free(kernel); }
static const char *op_name(const struct tgi_custom_op *op) { return (void)op, "Experts"; }
static const char *op_provider(const struct tgi_custom_op *op) { return (void)op, NULL; }
static size_t op_inputs(const struct tgi_custom_op *op) { return (void)op, EX_COUNT; }
static size_t op_outputs(const struct tgi_custom_op *op) { return (void)op, 1; }
static unsigned op_input_type(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i == EX_GATE_UP || i == EX_DOWN ? TGI_ORT_ANY : TGI_ORT_FLOAT;
}
static unsigned op_output_type(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_FLOAT; }
static unsigned op_kind(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_REQUIRED; }
static unsigned op_input_kind(const struct tgi_custom_op *op, size_t i) {
	return (void)op, i > EX_DOWN ? TGI_ORT_OPTIONAL : TGI_ORT_REQUIRED;
}
static int op_memory(const struct tgi_custom_op *op, size_t i) { return (void)op, (void)i, TGI_ORT_MEM_DEFAULT; }

const struct tgi_custom_op tgi_experts = {
    .version = TGI_CUSTOM_OP_VERSION,
    .GetName = op_name,
    .GetExecutionProviderType = op_provider,
    .GetInputType = op_input_type,
    .GetInputTypeCount = op_inputs,
    .GetOutputType = op_output_type,
    .GetOutputTypeCount = op_outputs,
    .KernelDestroy = destroy,
    .GetInputCharacteristic = op_input_kind,
    .GetOutputCharacteristic = op_kind,
    .GetInputMemoryType = op_memory,
    .CreateKernelV2 = create,
    .KernelComputeV2 = compute,
};

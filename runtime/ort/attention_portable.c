// Paged attention in portable C: four floats at a time with the compiler's own
// vectors, which every architecture has or imitates.

#include <stdint.h>
#include <string.h>

#include "attention.h"
#include "product.h"

#define PA_TARGET
#define PA_W 4
#define PA_TILE 4
#define PA_KBLOCKS(rt) 1
#define PA_VSLICE(rt) 2

typedef float vf __attribute__((vector_size(16)));
typedef int32_t vi __attribute__((vector_size(16)));

static inline vf v_load(const float *p) {
	vf v;
	memcpy(&v, p, sizeof v);
	return v;
}
static inline void v_store(float *p, vf v) { memcpy(p, &v, sizeof v); }
#define v_load_half v_load
#define v_store_half v_store
static inline vf v_set(float x) { return (vf){x, x, x, x}; }
static inline vf v_add(vf a, vf b) { return a + b; }
static inline vf v_sub(vf a, vf b) { return a - b; }
static inline vf v_mul(vf a, vf b) { return a * b; }
static inline vf v_fma(vf a, vf b, vf c) { return a * b + c; }
static inline vf v_pick(vi mask, vf a, vf b) { return (vf)(((vi)a & mask) | ((vi)b & ~mask)); }
static inline vf v_max(vf a, vf b) { return v_pick((vi)(a > b), a, b); }
static inline vf v_zero_below(vf x, vf limit, vf y) { return v_pick((vi)(x < limit), v_set(0), y); }
// Adding 1.5*2^23 leaves the nearest integer in the low bits of the mantissa.
static inline vf v_round(vf x) { return (x + 12582912.0f) - 12582912.0f; }
static inline vf v_pow2(vf n) { return (vf)((((vi)(n + 12582912.0f) - 0x4B400000) + 127) << 23); }

static inline uint16_t portable_half(float x) {
	if (x > PA_LARGEST) x = PA_LARGEST;
	if (x < -PA_LARGEST) x = -PA_LARGEST;
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	const uint16_t sign = bits >> 16 & 0x8000;
	bits &= 0x7fffffff;
	if (bits > 0x7f800000) return sign | 0x7e00;  // not a number
	if (bits < 0x38800000) {                      // below the least normal one: adding rounds to multiples of 2^-24
		float small;
		memcpy(&small, &bits, sizeof small);
		small += 0.5f;
		memcpy(&bits, &small, sizeof bits);
		return sign | (uint16_t)(bits - 0x3f000000);
	}
	bits += 0xfff + (bits >> 13 & 1);  // to the nearest, ties to even
	return sign | (uint16_t)((bits - 0x38000000) >> 13);
}

static inline vf portable_wide(const uint16_t *p) {
	return (vf){mq_float(p[0]), mq_float(p[1]), mq_float(p[2]), mq_float(p[3])};
}

static inline vf portable_bfloats(const uint16_t *p) {
	return (vf){pa_wide(p[0]), pa_wide(p[1]), pa_wide(p[2]), pa_wide(p[3])};
}

static inline vf portable_codes(const int8_t *p) { return (vf){p[0], p[1], p[2], p[3]}; }

#define h_put portable_half
#define h_load portable_wide

#define PA_NAME(x) portable_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv float
#define kv_put(x) (x)
#define kv_get(x) (x)
#define kv_load v_load
#define kv_load_half v_load_half
#include "attention_kernel.h"

#define PA_NAME(x) portable_half_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv uint16_t
#define kv_put h_put
#define kv_get mq_float
#define kv_load h_load
#define kv_load_half kv_load
#include "attention_kernel.h"

#define PA_NAME(x) portable_bfloat_##x
#define KV_SCALED 0
#define KV_DOTS 0
#define kv uint16_t
#define kv_put pa_bfloat
#define kv_get pa_wide
#define kv_load portable_bfloats
#define kv_load_half kv_load
#include "attention_kernel.h"

#define PA_NAME(x) portable_code_##x
#define KV_SCALED 1
#define KV_DOTS 0
#define kv int8_t
#define kv_get(x) ((float)(x))
#define kv_load portable_codes
#define kv_load_half kv_load
#include "attention_kernel.h"

const struct pa_kernel pa_portable = {
    "portable",
    PA_BASE,
    {
        {portable_write, portable_attend, portable_merge},
        {portable_half_write, portable_half_attend, portable_half_merge},
        {portable_bfloat_write, portable_bfloat_attend, portable_bfloat_merge},
        {portable_code_write, portable_code_attend, portable_code_merge},
    },
};

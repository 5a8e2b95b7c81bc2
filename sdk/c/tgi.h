/* tgi.h: plugins for the token loop in C, ABI version 1. Header only.
 *
 * A plugin is one C file:
 *
 *     #include "tgi.h"
 *
 *     TGI_PLUGIN("{\"name\":\"ban-zero\",\"version\":\"1.0.0\",\"kinds\":[\"logits\"],\"modes\":[\"deny\"]}", TGI_NO_INIT)
 *
 *     static uint32_t banned[] = {0};
 *     static tgi_error begin(tgi_text params, tgi_tokens prompt) { return TGI_OK; }
 *     static tgi_error process(tgi_step *s) { tgi_deny(s, banned, 1); return TGI_OK; }
 *     TGI_LOGITS(begin, process)
 *
 * Build: see README.md. Test natively: include it
 * in a program together with tgi_test.h, built by the machine's own compiler.
 *
 * An instance serves one sequence: globals are the state of that sequence, and
 * nothing needs to be freed. Names, layouts and limits are those of ../abi,
 * where they are described.
 */
#ifndef TGI_H
#define TGI_H

#include <stddef.h>
#include <stdint.h>

/* ---- the contract's numbers ---- */

enum { TGI_STEP_SIZE = 64, TGI_MAX_FORCED = 256, TGI_MAX_TEXT = 4096, TGI_ALIGNMENT = 16 };
enum { TGI_PASS, TGI_ALLOW, TGI_DENY, TGI_SPARSE, TGI_BITMASK, TGI_VIEW, TGI_ROW };
enum { TGI_FLAG_ONLY = 1, TGI_FLAG_STOP = 2 };
enum { TGI_DEBUG, TGI_INFO, TGI_WARN, TGI_ERROR };
enum { TGI_TOKEN_SPECIAL = 1, TGI_TOKEN_END = 2 };

/* Pointers in the step struct are 4 bytes in a guest; natively they are the
 * machine's, and the struct is then longer than TGI_STEP_SIZE. */
typedef struct { uint32_t id; float value; } tgi_entry;                    /* view: logit; sparse: bias */
typedef struct { uint32_t id; float logit, logprob; } tgi_candidate;
typedef struct {
  uint32_t size;               /* in: TGI_STEP_SIZE */
  const uint32_t *tokens;      /* in: the sequence, prompt first */
  uint32_t token_count;        /* in: the position of the token to be chosen */
  uint32_t prompt_count;       /* in: how many of tokens are the prompt */
  uint32_t new_count;          /* in: how many at the end are new since the last call */
  tgi_entry *view;             /* in: most likely tokens, if needed */
  uint32_t view_count;
  float *row;                  /* in: all logits, if needed */
  uint32_t row_count;
  uint32_t mode;               /* out: TGI_PASS to TGI_ROW */
  const void *out;             /* out: what the mode calls for */
  uint32_t out_count;          /* out: entries in it */
  uint32_t flags;              /* out: TGI_FLAG_ONLY, TGI_FLAG_STOP */
  float temperature;           /* out: NaN leaves the request's */
  const uint32_t *force;       /* out: tokens that come next */
  uint32_t force_count;
} tgi_step;

typedef struct { const char *ptr; uint32_t len; } tgi_text;
typedef struct { const uint32_t *ids; uint32_t count; } tgi_tokens;
typedef tgi_text tgi_error;    /* empty: no error */
#define TGI_OK ((tgi_error){0, 0})

static inline uint32_t tgi_strlen(const char *s) {
  uint32_t n = 0;
  while (s[n]) n++;
  return n;
}
static inline tgi_text tgi_str(const char *s) { return (tgi_text){s, tgi_strlen(s)}; }

/* ---- memory: a bump allocator; what it gave lives as long as the sequence ---- */

#if defined(__wasm__)
#define TGI_IMPORT(name) __attribute__((import_module("tgi"), import_name(name)))
#define TGI_EXPORT(name) __attribute__((export_name(name), used))
extern unsigned char __heap_base;
static uintptr_t tgi__top, tgi__end;

/* Zeroed room, aligned to 16, or 0 where memory has come to its limit. */
static void *tgi_new(size_t size) {
  if (!tgi__top) {
    tgi__top = ((uintptr_t)&__heap_base + 15) & ~(uintptr_t)15;
    tgi__end = (uintptr_t)__builtin_wasm_memory_size(0) << 16;
  }
  uintptr_t at = tgi__top;
  if (size > 0x7fffffffu) return 0;
  size = (size + 15) & ~(size_t)15;
  if (size > tgi__end - at) {
    size_t pages = (size - (tgi__end - at) + 65535) >> 16;
    if (__builtin_wasm_memory_grow(0, pages) == (size_t)-1) return 0;
    tgi__end += pages << 16;
  }
  tgi__top = at + size;
  return (void *)at;
}

/* Grows memory so that this many bytes can be had without growing: called
 * before the snapshot, so that an instance can be used again. */
static void tgi__reserve(size_t size) {
  void *p = tgi_new(size);
  if (p) tgi__top = (uintptr_t)p;
}
#else
#include <stdlib.h>
#define TGI_IMPORT(name)
#define TGI_EXPORT(name) __attribute__((unused))
static inline void *tgi_new(size_t size) { return calloc(1, size ? size : 1); }
static inline void tgi__reserve(size_t size) { (void)size; }
#endif

/* ---- the host ---- */

TGI_IMPORT("log") void tgi_import_log(uint32_t level, const char *text, uint32_t len);
TGI_IMPORT("vocab_size") uint32_t tgi_vocab_size(void);
TGI_IMPORT("token_bytes") int32_t tgi_token_bytes(uint32_t id, char *to, uint32_t room);
TGI_IMPORT("token_flags") int32_t tgi_token_flags(uint32_t id);
TGI_IMPORT("encode") int32_t tgi_encode(const char *text, uint32_t len, uint32_t *to, uint32_t room);
TGI_IMPORT("rand_u64") uint64_t tgi_rand(void);

static inline void tgi_log(uint32_t level, const char *s) { tgi_import_log(level, s, tgi_strlen(s)); }

/* A number from 0 to below 1, of 53 random bits. */
static inline double tgi_rand_float(void) { return (double)(tgi_rand() >> 11) * 0x1p-53; }

/* ---- texts ---- */

/* A text that is put together; what does not fit TGI_MAX_TEXT is dropped. */
typedef struct { char *ptr; uint32_t len; } tgi_buf;

static inline tgi_buf *tgi_put(tgi_buf *b, tgi_text t) {
  if (!b->ptr) b->ptr = (char *)tgi_new(TGI_MAX_TEXT);
  if (!b->ptr) return b;
  for (uint32_t i = 0; i < t.len && b->len < TGI_MAX_TEXT; i++) b->ptr[b->len++] = t.ptr[i];
  return b;
}
static inline tgi_buf *tgi_puts(tgi_buf *b, const char *s) { return tgi_put(b, tgi_str(s)); }
static inline tgi_buf *tgi_putu(tgi_buf *b, uint64_t v) {
  char d[20];
  uint32_t n = 20;
  do d[--n] = (char)('0' + v % 10); while (v /= 10);
  return tgi_put(b, (tgi_text){d + n, 20 - n});
}
static inline tgi_error tgi_fail(const char *s) { return tgi_str(s); }
static inline tgi_error tgi_fail_buf(const tgi_buf *b) { return (tgi_error){b->ptr, b->len}; }

static inline int tgi_same(tgi_text t, const char *s) {
  uint32_t i = 0;
  for (; i < t.len; i++)
    if (!s[i] || s[i] != t.ptr[i]) return 0;
  return !s[i];
}

/* ---- results of a step; the arrays must stay until the next step ---- */

static inline void tgi_result(tgi_step *s, uint32_t mode, const void *out, uint32_t count) {
  s->mode = mode;
  s->out = out;
  s->out_count = count;
}
static inline void tgi_allow(tgi_step *s, const uint32_t *ids, uint32_t n) { tgi_result(s, TGI_ALLOW, ids, n); }
static inline void tgi_deny(tgi_step *s, const uint32_t *ids, uint32_t n) { tgi_result(s, TGI_DENY, ids, n); }
static inline void tgi_bias(tgi_step *s, const tgi_entry *e, uint32_t n) { tgi_result(s, TGI_SPARSE, e, n); }
/* words: (tgi_vocab_size() + 31) / 32 of them. */
static inline void tgi_mask(tgi_step *s, const uint32_t *words, uint32_t n) { tgi_result(s, TGI_BITMASK, words, n); }
/* The first n entries of the view, edited in place. */
static inline void tgi_edit_view(tgi_step *s, uint32_t n) { tgi_result(s, TGI_VIEW, s->view, n); }
/* The row, edited in place. */
static inline void tgi_edit_row(tgi_step *s) { tgi_result(s, TGI_ROW, s->row, s->row_count); }
/* With tgi_bias and tgi_edit_view: tokens without an entry are denied. */
static inline void tgi_only(tgi_step *s) { s->flags |= TGI_FLAG_ONLY; }
static inline void tgi_stop(tgi_step *s) { s->flags |= TGI_FLAG_STOP; }
static inline void tgi_force(tgi_step *s, const uint32_t *ids, uint32_t n) { s->force = ids, s->force_count = n; }

/* ---- exports ---- */

#if defined(__wasm__)
static inline uint64_t tgi__pack(tgi_text t) { return t.len ? (uint64_t)(uintptr_t)t.ptr << 32 | t.len : 0; }
#else
/* The machine's pointers do not fit: natively the text is kept aside and the
 * result is its length. */
static tgi_text tgi__text;
static inline uint64_t tgi__pack(tgi_text t) { tgi__text = t; return t.len; }
#endif
static inline tgi_error tgi__no_init(tgi_text config) { (void)config; return TGI_OK; }
/* For TGI_PLUGIN, when there is nothing to set up. */
#define TGI_NO_INIT tgi__no_init

typedef tgi_error (*tgi_begin_func)(tgi_text params, tgi_tokens prompt);
/* Begin functions of the kinds in this file; validate asks them all. */
static tgi_begin_func tgi__begin_logits, tgi__begin_sampler;

#define TGI_BEGIN_ARGS const char *params, uint32_t params_len, const uint32_t *prompt, uint32_t prompt_count

/* Room that init leaves before the snapshot, in bytes. */
#ifndef TGI_RESERVE
#define TGI_RESERVE (1u << 20)
#endif

/* TGI_PLUGIN: description is JSON; init is called once with the configuration.
 * Parameters are validated by calling the begin functions with an empty
 * prompt, in an instance that is thrown away. */
#define TGI_PLUGIN(description, init)                                                                       \
  TGI_EXPORT("tgi_abi_v1") void tgi_abi_v1(void) {}                                                         \
  TGI_EXPORT("tgi_alloc") void *tgi_alloc(uint32_t size) { return tgi_new(size ? size : 1); }               \
  TGI_EXPORT("tgi_describe") uint64_t tgi_describe(void) { return tgi__pack(tgi_str(description)); }        \
  TGI_EXPORT("tgi_init") uint64_t tgi_init(const char *config, uint32_t len) {                              \
    tgi_error e = init((tgi_text){config, len});                                                            \
    tgi__reserve(TGI_RESERVE);                                                                              \
    return tgi__pack(e);                                                                                    \
  }                                                                                                         \
  TGI_EXPORT("tgi_validate") uint64_t tgi_validate(const char *params, uint32_t len) {                      \
    tgi_error e = TGI_OK;                                                                                   \
    if (tgi__begin_logits) e = tgi__begin_logits((tgi_text){params, len}, (tgi_tokens){0, 0});              \
    if (!e.len && tgi__begin_sampler) e = tgi__begin_sampler((tgi_text){params, len}, (tgi_tokens){0, 0});  \
    return tgi__pack(e);                                                                                    \
  }

/* TGI_LOGITS: tgi_error process(tgi_step *). */
#define TGI_LOGITS(begin, process)                                                                          \
  static tgi_begin_func tgi__begin_logits = begin;                                                          \
  static tgi_step tgi__step __attribute__((aligned(16)));                                                   \
  TGI_EXPORT("tgi_logits_step") tgi_step *tgi_logits_step(void) { return &tgi__step; }                      \
  TGI_EXPORT("tgi_logits_begin") uint64_t tgi_logits_begin(TGI_BEGIN_ARGS) {                                \
    return tgi__pack(begin((tgi_text){params, params_len}, (tgi_tokens){prompt, prompt_count}));            \
  }                                                                                                         \
  TGI_EXPORT("tgi_logits_process") int32_t tgi_logits_process(tgi_step *s) {                                \
    tgi_error e = process(s);                                                                               \
    if (!e.len) return 0;                                                                                   \
    s->out = e.ptr, s->out_count = e.len;                                                                   \
    return 1;                                                                                               \
  }

/* TGI_SAMPLER: int32_t sample(const tgi_candidate *, uint32_t n), the index chosen. */
#define TGI_SAMPLER(begin, sample)                                                                          \
  static tgi_begin_func tgi__begin_sampler = begin;                                                         \
  TGI_EXPORT("tgi_sampler_begin") uint64_t tgi_sampler_begin(TGI_BEGIN_ARGS) {                              \
    return tgi__pack(begin((tgi_text){params, params_len}, (tgi_tokens){prompt, prompt_count}));            \
  }                                                                                                         \
  TGI_EXPORT("tgi_sampler_sample") int32_t tgi_sampler_sample(const tgi_candidate *c, uint32_t n) {         \
    return sample(c, n);                                                                                    \
  }

#if defined(__wasm__)
_Static_assert(sizeof(tgi_step) == TGI_STEP_SIZE, "the step struct has no padding");
_Static_assert(sizeof(tgi_entry) == 8 && sizeof(tgi_candidate) == 12, "entries have no padding");
#endif

#endif

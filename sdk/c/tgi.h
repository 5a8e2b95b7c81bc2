/* tgi.h: plugins in C, ABI version 1: logits processors, samplers, chat
 * templates, parsers of tool calls and grammars. Header only.
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
 * TGI_SAMPLER, TGI_DRAFT, TGI_TEMPLATE, TGI_TOOLS and TGI_STEPS, below, are other kinds;
 * tgi_guard.h has TGI_GUARD, and tgi_program.h TGI_PROGRAM.
 *
 * README.md has the build command. To test a plugin natively, include its file
 * and then tgi_test.h in a program, and build that with the native compiler.
 *
 * An instance serves one sequence: globals are the state of that sequence, and
 * nothing needs to be freed. ../abi describes the names, layouts and limits,
 * which are the same here.
 */
#ifndef TGI_H
#define TGI_H

#include <stddef.h>
#include <stdint.h>

/* ---- numbers of the binary interface ---- */

enum { TGI_STEP_SIZE = 64, TGI_MAX_FORCED = 256, TGI_MAX_TEXT = 4096, TGI_ALIGNMENT = 16 };
enum { TGI_PASS, TGI_ALLOW, TGI_DENY, TGI_SPARSE, TGI_BITMASK, TGI_VIEW, TGI_ROW };
enum { TGI_FLAG_ONLY = 1, TGI_FLAG_STOP = 2 };
enum { TGI_DEBUG, TGI_INFO, TGI_WARN, TGI_ERROR };
enum { TGI_TOKEN_SPECIAL = 1, TGI_TOKEN_END = 2 };
enum { TGI_RENDERED_SIZE = 20, TGI_MAX_RENDERED = 1 << 24, TGI_MAX_SPANS = 1 << 18 };
enum { TGI_EVENT_SIZE = 36, TGI_MAX_EVENTS = 4096 };
enum { TGI_CONTENT, TGI_REASONING, TGI_BEGIN, TGI_ARGUMENTS, TGI_END, TGI_FAILED };
enum { TGI_INCOMPLETE, TGI_UNKNOWN, TGI_MALFORMED, TGI_TOO_LONG, TGI_TOO_MANY };
enum { TGI_PIECE_SPECIAL = 1, TGI_FINISH_END = 0, TGI_FINISH_CUT = 1 };
#define TGI_NO_CALL 0xffffffffu
enum { TGI_MASK_ALL = 2 };

/* In a guest the pointers in the step struct have 4 bytes. Natively they are
 * longer, and so is the struct: longer than TGI_STEP_SIZE. */
typedef struct { uint32_t id; float value; } tgi_entry;                    /* view: logit; sparse: bias */
typedef struct { uint32_t id; float logit, logprob; } tgi_candidate;
typedef struct {
  uint32_t size;               /* in: TGI_STEP_SIZE */
  const uint32_t *tokens;      /* in: the sequence, prompt first */
  uint32_t token_count;        /* in: also the position of the token to be chosen */
  uint32_t prompt_count;       /* in: number of tokens in the prompt */
  uint32_t new_count;          /* in: number of tokens added since the last call */
  tgi_entry *view;             /* in: most likely tokens, if needed */
  uint32_t view_count;
  float *row;                  /* in: all logits, if needed */
  uint32_t row_count;
  uint32_t mode;               /* out: TGI_PASS to TGI_ROW */
  const void *out;             /* out: the data of the mode */
  uint32_t out_count;          /* out: number of entries in out */
  uint32_t flags;              /* out: TGI_FLAG_ONLY, TGI_FLAG_STOP */
  float temperature;           /* out: NaN keeps the request's */
  const uint32_t *force;       /* out: tokens that come next */
  uint32_t force_count;
} tgi_step;

typedef struct { const char *ptr; uint32_t len; } tgi_text;
typedef struct { const uint32_t *ids; uint32_t count; } tgi_tokens;
typedef tgi_text tgi_error;    /* empty: no error */

typedef struct { uint32_t from, to; } tgi_span;                            /* bytes */
typedef struct {
  uint32_t status;             /* 0: rendered; 1: refused, and text is the error */
  tgi_text text;
  const tgi_span *spans;       /* ranges of text that are data */
  uint32_t span_count;
} tgi_rendered;
typedef struct {
  uint32_t kind;               /* TGI_CONTENT to TGI_FAILED */
  uint32_t index;              /* of the call; TGI_NO_CALL if it failed before it began */
  tgi_text text, name, id;
  uint32_t reason;             /* TGI_INCOMPLETE to TGI_TOO_MANY */
} tgi_event;
#define TGI_OK ((tgi_error){0, 0})

static inline uint32_t tgi_strlen(const char *s) {
  uint32_t n = 0;
  while (s[n]) n++;
  return n;
}
static inline tgi_text tgi_str(const char *s) { return (tgi_text){s, tgi_strlen(s)}; }

/* ---- memory: a bump allocator; nothing is freed before the sequence ends ---- */

#if defined(__wasm__)
#define TGI_IMPORT(name) __attribute__((import_module("tgi"), import_name(name)))
#define TGI_EXPORT(name) __attribute__((export_name(name), used))
extern unsigned char __heap_base;
static uintptr_t tgi__top, tgi__end;

/* Returns size zeroed bytes, aligned to 16, or 0 if the memory limit is reached. */
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

/* tgi__release frees the memory allocated since the mark; no pointer to it may
 * remain. It zeroes the memory, because tgi_new returns zeroed memory. */
static inline uintptr_t tgi__mark(void) { return tgi__top; }
static inline void tgi__release(uintptr_t mark) {
  if (!mark) return; /* nothing was allocated: the start of the heap is unknown */
  __builtin_memset((void *)mark, 0, tgi__top - mark);
  tgi__top = mark;
}

/* Grows memory so that size bytes can be allocated without growing it. Called
 * before the snapshot, so that an instance can be reused. */
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
static inline uintptr_t tgi__mark(void) { return 0; }
static inline void tgi__release(uintptr_t mark) { (void)mark; }
#endif

/* ---- the host ---- */

TGI_IMPORT("log") void tgi_import_log(uint32_t level, const char *text, uint32_t len);
TGI_IMPORT("vocab_size") uint32_t tgi_vocab_size(void);
TGI_IMPORT("token_bytes") int32_t tgi_token_bytes(uint32_t id, char *to, uint32_t room);
TGI_IMPORT("token_flags") int32_t tgi_token_flags(uint32_t id);
TGI_IMPORT("encode") int32_t tgi_encode(const char *text, uint32_t len, uint32_t *to, uint32_t room);
TGI_IMPORT("rand_u64") uint64_t tgi_rand(void);

static inline void tgi_log(uint32_t level, const char *s) { tgi_import_log(level, s, tgi_strlen(s)); }

/* Returns a random number in [0, 1) with 53 random bits. */
static inline double tgi_rand_float(void) { return (double)(tgi_rand() >> 11) * 0x1p-53; }

/* ---- texts ---- */

/* A text under construction. Bytes beyond TGI_MAX_TEXT are dropped. */
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

/* ---- results of a step; their arrays must remain valid until the next step ---- */

static inline void tgi_result(tgi_step *s, uint32_t mode, const void *out, uint32_t count) {
  s->mode = mode;
  s->out = out;
  s->out_count = count;
}
static inline void tgi_allow(tgi_step *s, const uint32_t *ids, uint32_t n) { tgi_result(s, TGI_ALLOW, ids, n); }
static inline void tgi_deny(tgi_step *s, const uint32_t *ids, uint32_t n) { tgi_result(s, TGI_DENY, ids, n); }
static inline void tgi_bias(tgi_step *s, const tgi_entry *e, uint32_t n) { tgi_result(s, TGI_SPARSE, e, n); }
/* n must be (tgi_vocab_size() + 31) / 32. */
static inline void tgi_mask(tgi_step *s, const uint32_t *words, uint32_t n) { tgi_result(s, TGI_BITMASK, words, n); }
/* Makes the first n entries of the view, edited in place, the result. */
static inline void tgi_edit_view(tgi_step *s, uint32_t n) { tgi_result(s, TGI_VIEW, s->view, n); }
/* Makes the row, edited in place, the result. */
static inline void tgi_edit_row(tgi_step *s) { tgi_result(s, TGI_ROW, s->row, s->row_count); }
/* Makes tgi_bias and tgi_edit_view also deny the tokens without an entry. */
static inline void tgi_only(tgi_step *s) { s->flags |= TGI_FLAG_ONLY; }
static inline void tgi_stop(tgi_step *s) { s->flags |= TGI_FLAG_STOP; }
static inline void tgi_force(tgi_step *s, const uint32_t *ids, uint32_t n) { s->force = ids, s->force_count = n; }

/* ---- texts that grow ---- */

typedef struct { char *ptr; uint32_t len, room; } tgi_string;

/* Appends t. Returns 0 if the memory limit is reached. */
static inline int tgi_append(tgi_string *s, tgi_text t) {
  if (t.len > 0x40000000u - s->len) return 0;
  if (t.len > s->room - s->len) {
    uint32_t room = s->room ? s->room : 256;
    while (room - s->len < t.len) room *= 2;
    char *p = (char *)tgi_new(room);
    if (!p) return 0;
    for (uint32_t i = 0; i < s->len; i++) p[i] = s->ptr[i];
    s->ptr = p, s->room = room;
  }
  for (uint32_t i = 0; i < t.len; i++) s->ptr[s->len++] = t.ptr[i];
  return 1;
}
static inline tgi_text tgi_whole(const tgi_string *s) { return (tgi_text){s->ptr, s->len}; }

static inline int tgi_starts(tgi_text t, tgi_text with) {
  if (t.len < with.len) return 0;
  for (uint32_t i = 0; i < with.len; i++)
    if (t.ptr[i] != with.ptr[i]) return 0;
  return 1;
}
static inline int tgi_equal(tgi_text a, tgi_text b) { return a.len == b.len && tgi_starts(a, b); }

/* ---- output of a template ---- */

typedef struct { tgi_string text, spans; int full; } tgi_output;

/* Writes text of the template itself. Special tokens in it are recognised. */
static inline void tgi_template(tgi_output *o, tgi_text t) {
  if (!tgi_append(&o->text, t)) o->full = 1;
}
static inline void tgi_templates(tgi_output *o, const char *s) { tgi_template(o, tgi_str(s)); }

/* Writes text of the request. No special token is recognised in it, so clients
 * cannot forge one. */
static inline void tgi_data(tgi_output *o, tgi_text t) {
  if (!t.len) return;
  tgi_span span = {o->text.len, o->text.len + t.len};
  tgi_span *last = o->spans.len ? (tgi_span *)(void *)(o->spans.ptr + o->spans.len) - 1 : 0;
  tgi_template(o, t);
  if (last && last->to == span.from) last->to = span.to;
  else if (!tgi_append(&o->spans, (tgi_text){(const char *)&span, sizeof span})) o->full = 1;
}

/* ---- events of a parser of tool calls ---- */

/* Collects events and numbers the calls. A call is open from tgi_call_begin to
 * tgi_call_end or tgi_call_failed. Texts must remain valid until the host calls the
 * plugin again. The piece is valid until then; tgi_keep copies a text for later. */
typedef struct { tgi_string list; uint32_t calls; int open; } tgi_events;

static inline void tgi__event(tgi_events *e, tgi_event v) {
  if (!tgi_append(&e->list, (tgi_text){(const char *)&v, sizeof v})) __builtin_trap();
}
static inline uint32_t tgi_event_count(const tgi_events *e) { return e->list.len / (uint32_t)sizeof(tgi_event); }
static inline const tgi_event *tgi_event_at(const tgi_events *e, uint32_t i) {
  return (const tgi_event *)(const void *)e->list.ptr + i;
}
static inline tgi_text tgi_keep(tgi_text t) {
  tgi_string s = {0};
  if (!t.len || !tgi_append(&s, t)) return (tgi_text){"", 0};
  return tgi_whole(&s);
}
static inline void tgi_content(tgi_events *e, tgi_text t) {
  if (t.len) tgi__event(e, (tgi_event){.kind = TGI_CONTENT, .text = t});
}
static inline void tgi_reasoning(tgi_events *e, tgi_text t) {
  if (t.len) tgi__event(e, (tgi_event){.kind = TGI_REASONING, .text = t});
}
static inline void tgi_call_begin(tgi_events *e, tgi_text name, tgi_text id) {
  tgi__event(e, (tgi_event){.kind = TGI_BEGIN, .index = e->calls++, .name = name, .id = id});
  e->open = 1;
}
static inline void tgi_call_arguments(tgi_events *e, tgi_text t) {
  if (t.len) tgi__event(e, (tgi_event){.kind = TGI_ARGUMENTS, .index = e->calls - 1, .text = t});
}
static inline void tgi_call_end(tgi_events *e) {
  tgi__event(e, (tgi_event){.kind = TGI_END, .index = e->calls - 1});
  e->open = 0;
}
/* t is what the model wrote of the call, which is open or has not begun. */
static inline void tgi_call_failed(tgi_events *e, uint32_t reason, tgi_text t) {
  tgi__event(e, (tgi_event){.kind = TGI_FAILED, .index = e->open ? e->calls - 1 : TGI_NO_CALL, .text = t, .reason = reason});
  e->open = 0;
}
/* Returns an id of a call in OpenAI's form, made of the host's random numbers:
 * requests with the same seed get the same ids. */
static inline tgi_text tgi_call_id(void) {
  char id[29] = "call_";
  for (int i = 5; i < 29; i++)
    id[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"[(tgi_rand() >> 32) * 62 >> 32];
  return tgi_keep((tgi_text){id, 29});
}

/* ---- tokens that a grammar allows ---- */

/* One bit for each token. If all is not 0, every token is allowed and words is ignored. */
typedef struct { uint32_t *words; uint32_t tokens; int all; } tgi_mask_bits;

/* Allows a token. Ignores a token that is not in the vocabulary. */
static inline void tgi_may(tgi_mask_bits *m, uint32_t id) {
  if (id < m->tokens) m->words[id / 32] |= 1u << id % 32;
}
/* Allows the tokens whose bits are set in a mask of (tokens + 31) / 32 words. */
static inline void tgi_may_words(tgi_mask_bits *m, const uint32_t *words) {
  for (uint32_t i = 0; i < (m->tokens + 31) / 32; i++) m->words[i] |= words[i];
}
/* Allows every token, including special tokens. */
static inline void tgi_may_all(tgi_mask_bits *m) { m->all = 1; }

/* ---- exports ---- */

#if defined(__wasm__)
static inline uint64_t tgi__pack(tgi_text t) { return t.len ? (uint64_t)(uintptr_t)t.ptr << 32 | t.len : 0; }
#else
/* Native pointers do not fit in a packed result: natively the result is only the
 * length, and the text is kept in this variable. */
static tgi_text tgi__text;
static inline uint64_t tgi__pack(tgi_text t) { tgi__text = t; return t.len; }
#endif
static inline tgi_error tgi__no_init(tgi_text config) { (void)config; return TGI_OK; }
/* The init of TGI_PLUGIN for plugins that have nothing to set up. */
#define TGI_NO_INIT tgi__no_init

typedef tgi_error (*tgi_begin_func)(tgi_text params, tgi_tokens prompt);
/* Begin functions of the kinds. tgi_validate calls all of them. */
static tgi_begin_func tgi__begin_logits, tgi__begin_sampler, tgi__begin_draft, tgi__begin_guard;
/* How the other kinds validate parameters; 0 if they accept none. */
typedef tgi_error (*tgi_validate_func)(tgi_text params);
static tgi_validate_func tgi__validate_template, tgi__validate_tools, tgi__validate_steps, tgi__validate_program;

/* The validate of TGI_TEMPLATE, TGI_TOOLS and TGI_STEPS for plugins without parameters. */
static inline tgi_error tgi__no_params(tgi_text params) {
  for (uint32_t i = 0; i < params.len; i++)
    if (params.ptr[i] == '"') return tgi_fail("the plugin takes no parameters");
  return TGI_OK;
}
#define TGI_NO_PARAMS tgi__no_params

#define TGI_BEGIN_ARGS const char *params, uint32_t params_len, const uint32_t *prompt, uint32_t prompt_count

/* Bytes of memory that init reserves before the snapshot. */
#ifndef TGI_RESERVE
#define TGI_RESERVE (1u << 20)
#endif

/* TGI_PLUGIN: description is JSON. init is called once with the configuration.
 * Parameters are validated by calls of the begin functions with an empty
 * prompt, in a separate instance that is then discarded. */
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
    if (!e.len && tgi__begin_draft) e = tgi__begin_draft((tgi_text){params, len}, (tgi_tokens){0, 0});      \
    if (!e.len && tgi__begin_guard) e = tgi__begin_guard((tgi_text){params, len}, (tgi_tokens){0, 0});      \
    if (!e.len && tgi__validate_template) e = tgi__validate_template((tgi_text){params, len});              \
    if (!e.len && tgi__validate_tools) e = tgi__validate_tools((tgi_text){params, len});                    \
    if (!e.len && tgi__validate_steps) e = tgi__validate_steps((tgi_text){params, len});                    \
    if (!e.len && tgi__validate_program) e = tgi__validate_program((tgi_text){params, len});                \
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

/* TGI_SAMPLER: int32_t sample(const tgi_candidate *, uint32_t n) returns the chosen index. */
#define TGI_SAMPLER(begin, sample)                                                                          \
  static tgi_begin_func tgi__begin_sampler = begin;                                                         \
  TGI_EXPORT("tgi_sampler_begin") uint64_t tgi_sampler_begin(TGI_BEGIN_ARGS) {                              \
    return tgi__pack(begin((tgi_text){params, params_len}, (tgi_tokens){prompt, prompt_count}));            \
  }                                                                                                         \
  TGI_EXPORT("tgi_sampler_sample") int32_t tgi_sampler_sample(const tgi_candidate *c, uint32_t n) {         \
    return sample(c, n);                                                                                    \
  }

/* TGI_DRAFT: int32_t propose(tgi_tokens tokens, uint32_t fresh, uint32_t *to, uint32_t room) writes up to
 * room tokens that it expects behind tokens, the next one first, and returns their number, or -1 if it failed:
 * then the sequence goes on without the plugin. The last fresh of tokens are others than in the last call. */
#define TGI_DRAFT(begin, propose)                                                                           \
  static tgi_begin_func tgi__begin_draft = begin;                                                           \
  TGI_EXPORT("tgi_draft_begin") uint64_t tgi_draft_begin(TGI_BEGIN_ARGS) {                                  \
    return tgi__pack(begin((tgi_text){params, params_len}, (tgi_tokens){prompt, prompt_count}));            \
  }                                                                                                         \
  TGI_EXPORT("tgi_draft_propose")                                                                           \
  int32_t tgi_draft_propose(const uint32_t *tokens, uint32_t count, uint32_t fresh, uint32_t *to, uint32_t room) { \
    return propose((tgi_tokens){tokens, count}, fresh, to, room);                                           \
  }

/* TGI_TEMPLATE: tgi_error validate(tgi_text params), tgi_error render(tgi_text
 * request, tgi_output *out). The request is JSON, see ../abi. An error refuses the
 * request, and the client gets its text. */
#define TGI_TEMPLATE(validate, render)                                                                      \
  static tgi_validate_func tgi__validate_template = validate;                                               \
  TGI_EXPORT("tgi_template_render") tgi_rendered *tgi_template_render(const char *request, uint32_t len) {  \
    static tgi_rendered r;                                                                                  \
    tgi_output out = {0};                                                                                   \
    tgi_error e = render((tgi_text){request, len}, &out);                                                   \
    if (!e.len && out.full) e = tgi_fail("the rendered text does not fit the plugin's memory");             \
    r = e.len ? (tgi_rendered){1, e, 0, 0}                                                                  \
              : (tgi_rendered){0, tgi_whole(&out.text), (const tgi_span *)(const void *)out.spans.ptr,      \
                               out.spans.len / (uint32_t)sizeof(tgi_span)};                                 \
    return &r;                                                                                              \
  }

#if defined(__wasm__)
static inline uint64_t tgi__told(tgi_events *e) {
  return e->list.len ? (uint64_t)(uintptr_t)e->list.ptr << 32 | tgi_event_count(e) : 0;
}
#else
/* Native tests read the events in the struct itself. */
static tgi_events *tgi__events;
static inline uint64_t tgi__told(tgi_events *e) { tgi__events = e; return tgi_event_count(e); }
#endif

/* TGI_TOOLS: tgi_error validate(tgi_text params), tgi_error begin(tgi_text
 * request), void feed(tgi_text piece, int special, tgi_events *), void
 * finish(int cut, tgi_events *). The same text must give the same events however
 * it is split into pieces. */
#define TGI_TOOLS(validate, begin, feed, finish)                                                            \
  static tgi_validate_func tgi__validate_tools = validate;                                                  \
  static tgi_events tgi__told_now;                                                                          \
  TGI_EXPORT("tgi_tools_begin") uint64_t tgi_tools_begin(const char *request, uint32_t len) {               \
    tgi__told_now = (tgi_events){0};                                                                        \
    return tgi__pack(begin((tgi_text){request, len}));                                                      \
  }                                                                                                         \
  TGI_EXPORT("tgi_tools_feed") uint64_t tgi_tools_feed(const char *piece, uint32_t len, uint32_t flags) {   \
    tgi__told_now.list.len = 0;                                                                             \
    feed((tgi_text){piece, len}, flags & TGI_PIECE_SPECIAL, &tgi__told_now);                                \
    return tgi__told(&tgi__told_now);                                                                       \
  }                                                                                                         \
  TGI_EXPORT("tgi_tools_finish") uint64_t tgi_tools_finish(uint32_t reason) {                               \
    tgi__told_now.list.len = 0;                                                                             \
    finish(reason == TGI_FINISH_CUT, &tgi__told_now);                                                       \
    return tgi__told(&tgi__told_now);                                                                       \
  }

#if defined(__wasm__)
static inline uint64_t tgi__ids(tgi_tokens t) { return t.count ? (uint64_t)(uintptr_t)t.ids << 32 | t.count : 0; }
#else
/* Natively the result is the number of ids, and the ids are kept in this variable. */
static tgi_tokens tgi__forced;
static inline uint64_t tgi__ids(tgi_tokens t) { tgi__forced = t; return t.count; }
#endif
/* key and forced of TGI_STEPS for plugins whose states have no keys or that force nothing. */
static inline uint64_t tgi__no_key(void) { return 0; }
static inline tgi_tokens tgi__no_forced(void) { return (tgi_tokens){0, 0}; }
#define TGI_NO_KEY tgi__no_key
#define TGI_NO_FORCED tgi__no_forced

/* TGI_STEPS: a grammar whose plugin computes at each step which tokens are allowed.
 * The description has "modes": ["steps"] and "languages".
 *
 *   tgi_error validate(tgi_text params)
 *   tgi_error begin(tgi_text request)     starts a text; request is JSON, see ../abi, valid during the call
 *   int accept(uint32_t token)            moves past a token; 0 if it is not allowed, which ends the sequence
 *   void mask(tgi_mask_bits *)            calls tgi_may for each token that may come next, and where the text
 *                                         may end also for those that end it; must not change the state
 *   uint64_t key(void)                    key of the state, 0 for none; states of one request with the same
 *                                         key have the same mask, computed once; or TGI_NO_KEY
 *   tgi_tokens forced(void)               the tokens that must come next, at most TGI_MAX_FORCED; the ids
 *                                         must remain valid until the next call; or TGI_NO_FORCED
 */
#define TGI_STEPS(validate, begin, accept, mask, key, forced)                                               \
  static tgi_validate_func tgi__validate_steps = validate;                                                  \
  TGI_EXPORT("tgi_grammar_begin") uint64_t tgi_grammar_begin(const char *request, uint32_t len) {           \
    return tgi__pack(begin((tgi_text){request, len}));                                                      \
  }                                                                                                         \
  TGI_EXPORT("tgi_grammar_accept") uint32_t tgi_grammar_accept(const uint32_t *tokens, uint32_t count) {    \
    for (uint32_t i = 0; i < count; i++)                                                                    \
      if (!accept(tokens[i])) return 1;                                                                     \
    return 0;                                                                                               \
  }                                                                                                         \
  TGI_EXPORT("tgi_grammar_mask") uint32_t tgi_grammar_mask(uint32_t *words) {                               \
    tgi_mask_bits m = {words, tgi_vocab_size(), 0};                                                         \
    for (uint32_t i = 0; i < (m.tokens + 31) / 32; i++) words[i] = 0;                                       \
    mask(&m);                                                                                               \
    return m.all ? TGI_MASK_ALL : 0;                                                                        \
  }                                                                                                         \
  TGI_EXPORT("tgi_grammar_forced") uint64_t tgi_grammar_forced(void) { return tgi__ids(forced()); }         \
  TGI_EXPORT("tgi_grammar_key") uint64_t tgi_grammar_key(void) { return key(); }

#if defined(__wasm__)
_Static_assert(sizeof(tgi_rendered) == TGI_RENDERED_SIZE, "the result of a template has no padding");
_Static_assert(sizeof(tgi_event) == TGI_EVENT_SIZE, "events have no padding");
_Static_assert(sizeof(tgi_step) == TGI_STEP_SIZE, "the step struct has no padding");
_Static_assert(sizeof(tgi_entry) == 8 && sizeof(tgi_candidate) == 12, "entries have no padding");
#endif

#endif

/* tgi_guard.h: guards in C, which decide which of the generated tokens go out.
 *
 *     #include "tgi_guard.h"
 *
 *     TGI_PLUGIN("{\"name\":\"calm\",\"version\":\"1.0.0\",\"kinds\":[\"guard\"],"
 *                "\"guard\":{\"hold\":4,\"verdicts\":[\"stop\"]}}", TGI_NO_INIT)
 *
 *     static tgi_error begin(tgi_text params, tgi_tokens prompt) { return TGI_OK; }
 *     static tgi_error check(tgi_held *h) {
 *       for (uint32_t i = h->context; i < h->text_len; i++)
 *         if (h->text[i] == '!') { tgi_guard_stop(h, tgi_token_at(h, i), tgi_str("no shouting")); break; }
 *       return TGI_OK;
 *     }
 *     TGI_GUARD(begin, check)
 *
 * Natively test it with tgi_test_guard.h.
 */
#ifndef TGI_GUARD_H
#define TGI_GUARD_H

#include "tgi.h"

enum { TGI_GUARD_SIZE = 64, TGI_MAX_HOLD = 256, TGI_MAX_CONTEXT = 4096, TGI_MAX_BIASES = 4096 };
enum { TGI_MAX_GUARD_TEXT = 4096, TGI_MAX_REASON = 256, TGI_MAX_EDITS = 4096, TGI_FLAG_DONE = 1, TGI_FLAG_EDITS = 2 };
enum { TGI_RELEASE, TGI_REWIND, TGI_INSERT, TGI_REPLACE, TGI_HALT };           /* verdicts */
enum { TGI_GOES_ON, TGI_ENDS_MODEL, TGI_ENDS_LENGTH, TGI_ENDS_STOP, TGI_ENDS_GUARD }; /* why the sequence is about to end */

/* What is held back. Positions count tokens of the sequence, the prompt's included. */
typedef struct {
  uint32_t size;               /* in: TGI_GUARD_SIZE */
  const uint32_t *tokens;      /* in: the sequence, prompt first */
  uint32_t token_count;
  uint32_t prompt_count;       /* in: number of tokens in the prompt */
  uint32_t new_count;          /* in: how many at the end are others than in the last call */
  uint32_t released;           /* in: how many are final: the prompt and what went out */
  const char *text;            /* in: the model's own, of the last released tokens, then of those that are held back */
  uint32_t text_len;
  uint32_t context;            /* in: how many bytes are of released tokens; a character at the front may be cut */
  const uint32_t *ends;        /* in: for each token that is held back, where its text ends in text */
  uint32_t reason;             /* in: TGI_GOES_ON to TGI_ENDS_GUARD; at the end everything is to be released, or taken back */
  uint32_t verdict;            /* out: TGI_RELEASE to TGI_HALT */
  uint32_t position;           /* out */
  const void *out;             /* out: what the verdict calls for; must remain valid until the next call */
  uint32_t out_count;          /* out: entries, or bytes of a text */
  uint32_t flags;              /* out: TGI_FLAG_DONE, TGI_FLAG_EDITS */
} tgi_held;

/* Words that stand instead of the bytes of the text from `from` to `to`. */
typedef struct {
  uint32_t from, to;
  const char *words;
  uint32_t len;
} tgi_edit;

/* Returns the position of the token that has byte i of the text, which is held back. */
static inline uint32_t tgi_token_at(const tgi_held *h, uint32_t i) {
  uint32_t at = h->released;
  while (at < h->token_count && h->ends[at - h->released] <= i) at++;
  return at;
}

static inline void tgi__judge(tgi_held *h, uint32_t verdict, uint32_t position, const void *out, uint32_t count) {
  h->verdict = verdict, h->position = position, h->out = out, h->out_count = count, h->flags &= TGI_FLAG_DONE;
}
/* Lets the tokens before position go out and holds the others back. A check that says nothing releases all. */
static inline void tgi_release(tgi_held *h, uint32_t position) { tgi__judge(h, TGI_RELEASE, position, 0, 0); }
/* Takes back all tokens from position on. The biases are added to the logits of the token that comes there
 * instead; -Inf forbids. Without any, the token that was there is forbidden. */
static inline void tgi_rewind(tgi_held *h, uint32_t position, const tgi_entry *biases, uint32_t n) {
  tgi__judge(h, TGI_REWIND, position, biases, n);
}
/* Takes back all tokens from position on and goes on with a text. */
static inline void tgi_insert(tgi_held *h, uint32_t position, tgi_text t) {
  tgi__judge(h, TGI_INSERT, position, t.ptr, t.len);
}
/* Gives the client a text instead of the tokens before position. Where other guards replace as well, what this one
 * changes is guessed from the text, and more may go; tgi_guard_edit says it. */
static inline void tgi_replace(tgi_held *h, uint32_t position, tgi_text t) {
  tgi__judge(h, TGI_REPLACE, position, t.ptr, t.len);
}
/* Gives the client the text of the tokens before position with other words instead of some bytes of it. Edits are in the
 * order of the text and do not overlap; the first is not before context. */
static inline void tgi_guard_edit(tgi_held *h, uint32_t position, const tgi_edit *edits, uint32_t n) {
  tgi__judge(h, TGI_REPLACE, position, edits, n);
  h->flags |= TGI_FLAG_EDITS;
}
/* Lets the tokens before position go out and ends the text; the client is told why. */
static inline void tgi_guard_stop(tgi_held *h, uint32_t position, tgi_text why) {
  tgi__judge(h, TGI_HALT, position, why.ptr, why.len);
}
/* The guard is not asked again: all that comes is released. */
static inline void tgi_guard_done(tgi_held *h) { h->flags |= TGI_FLAG_DONE; }

/* TGI_GUARD: tgi_error check(tgi_held *). The instance is not taken back with the sequence: it keeps what it
 * knows. The description has "guard": {"hold": ..., "every": ..., "verdicts": [...]}. A plugin of this kind is
 * neither TGI_LOGITS nor TGI_SAMPLER. */
#define TGI_GUARD(begin, check)                                                                             \
  static tgi_begin_func tgi__begin_guard = begin;                                                           \
  static tgi_held tgi__held __attribute__((aligned(16)));                                                   \
  TGI_EXPORT("tgi_guard_step") tgi_held *tgi_guard_step(void) { return &tgi__held; }                        \
  TGI_EXPORT("tgi_guard_begin") uint64_t tgi_guard_begin(TGI_BEGIN_ARGS) {                                  \
    return tgi__pack(begin((tgi_text){params, params_len}, (tgi_tokens){prompt, prompt_count}));            \
  }                                                                                                         \
  TGI_EXPORT("tgi_guard_check") int32_t tgi_guard_check(tgi_held *h) {                                      \
    tgi_release(h, h->token_count);                                                                         \
    tgi_error e = check(h);                                                                                 \
    if (!e.len) return 0;                                                                                   \
    h->out = e.ptr, h->out_count = e.len;                                                                   \
    return 1;                                                                                               \
  }

#if defined(__wasm__)
_Static_assert(sizeof(tgi_held) == TGI_GUARD_SIZE, "the guard's struct has no padding");
_Static_assert(sizeof(tgi_edit) == 16, "an edit has no padding");
#endif

#endif

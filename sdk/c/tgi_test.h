/* tgi_test.h: a host for native tests of a plugin in C. Include the plugin's file
 * and then this one in a program with a main function:
 *
 *     #include "plugin.c"
 *     #include "tgi_test.h"
 *     int main(void) {
 *       const char *vocab[] = {"a", "b", " the", "</s>"};
 *       tgi_test_vocab(vocab, 4);
 *       TGI_CHECK(tgi_test_begin("{\"ban\":[1]}", 0, 0) == 0);
 *       tgi_step *s = tgi_test_step(0, 0);
 *       TGI_CHECK(s->mode == TGI_DENY && ((const uint32_t *)s->out)[0] == 1);
 *       return tgi_test_done();
 *     }
 *
 * If the plugin has an init function, call it before the first sequence:
 * TGI_CHECK(!init(tgi_str("{}")).len).
 *
 * Test a template with tgi_test_render, and a parser of tool calls with
 * tgi_tools_begin, tgi_test_feed and tgi_test_finish, both after tgi_test_params.
 * Test a grammar with tgi_test_grammar, tgi_test_allowed and tgi_grammar_accept.
 *
 * encode splits a text from left to right into the longest tokens that match. The
 * guest's log is written to standard error.
 */
#ifndef TGI_TEST_H
#define TGI_TEST_H

#include "tgi.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const *tgi_test__words;
static uint32_t tgi_test__count, tgi_test__seen, tgi_test__prompt;
static int tgi_test__faults;
static uint64_t tgi_test__seed = 1;

#define TGI_CHECK(x) ((x) ? (void)0 : (void)(tgi_test__faults++, fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #x)))

static inline int tgi_test_done(void) { return tgi_test__faults ? 1 : 0; }
static inline void tgi_test_vocab(const char *const *words, uint32_t count) { tgi_test__words = words, tgi_test__count = count; }
static inline void tgi_test_seed(uint64_t seed) { tgi_test__seed = seed; }

void tgi_import_log(uint32_t level, const char *text, uint32_t len) { fprintf(stderr, "log %u: %.*s\n", level, (int)len, text); }
uint32_t tgi_vocab_size(void) { return tgi_test__count; }
int32_t tgi_token_bytes(uint32_t id, char *to, uint32_t room) {
  if (id >= tgi_test__count) return -1;
  uint32_t n = (uint32_t)strlen(tgi_test__words[id]);
  if (n <= room) memcpy(to, tgi_test__words[id], n);
  return (int32_t)n;
}
/* A token with a text like <this> is special; </s> ends the sequence. */
int32_t tgi_token_flags(uint32_t id) {
  if (id >= tgi_test__count) return -1;
  const char *w = tgi_test__words[id];
  size_t n = strlen(w);
  if (!strcmp(w, "</s>")) return TGI_TOKEN_SPECIAL | TGI_TOKEN_END;
  return n > 2 && w[0] == '<' && w[n - 1] == '>' ? TGI_TOKEN_SPECIAL : 0;
}
int32_t tgi_encode(const char *text, uint32_t len, uint32_t *to, uint32_t room) {
  int32_t n = 0;
  for (uint32_t at = 0; at < len; n++) {
    uint32_t best = 0, id = 0;
    for (uint32_t t = 0; t < tgi_test__count; t++) {
      uint32_t l = (uint32_t)strlen(tgi_test__words[t]);
      if (l > best && l <= len - at && !memcmp(tgi_test__words[t], text + at, l)) best = l, id = t;
    }
    if (!best) return -1;
    if ((uint32_t)n < room) to[n] = id;
    at += best;
  }
  return n;
}
/* SplitMix64. */
uint64_t tgi_rand(void) {
  uint64_t z = tgi_test__seed += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Begins a sequence. Returns 0 or the plugin's error text. */
static inline const char *tgi_test_begin(const char *params, const uint32_t *prompt, uint32_t count) {
  static char text[TGI_MAX_TEXT + 1];
  tgi_tokens p = {prompt, count};
  tgi_error e = TGI_OK;
  tgi_test__seen = tgi_test__prompt = count;
  if (tgi__begin_logits) e = tgi__begin_logits(tgi_str(params), p);
  if (!e.len && tgi__begin_sampler) e = tgi__begin_sampler(tgi_str(params), p);
  if (!e.len) return 0;
  uint32_t n = e.len < TGI_MAX_TEXT ? e.len : TGI_MAX_TEXT;
  memcpy(text, e.ptr, n);
  text[n] = 0;
  return text;
}

static tgi_entry *tgi_test__view;
static uint32_t tgi_test__view_count;
static float *tgi_test__row;

/* Set the view and the row of the next steps; 0 for none. The row has one logit
 * for each token of the vocabulary. */
static inline void tgi_test_view(tgi_entry *view, uint32_t count) { tgi_test__view = view, tgi_test__view_count = count; }
static inline void tgi_test_row(float *row) { tgi_test__row = row; }

int32_t tgi_logits_process(tgi_step *s);
int32_t tgi_sampler_sample(const tgi_candidate *c, uint32_t n);

/* Runs one step. tokens is the whole sequence so far, the prompt first. Returns
 * the step with its result, or 0 if the plugin failed. */
static inline tgi_step *tgi_test_step(const uint32_t *tokens, uint32_t count) {
  static tgi_step s;
  s = (tgi_step){.size = TGI_STEP_SIZE, .tokens = tokens, .token_count = count, .prompt_count = tgi_test__prompt,
                 .new_count = count - tgi_test__seen, .view = tgi_test__view, .view_count = tgi_test__view_count,
                 .row = tgi_test__row, .row_count = tgi_test__row ? tgi_test__count : 0, .temperature = NAN};
  tgi_test__seen = count;
  return tgi_logits_process(&s) ? 0 : &s;
}

/* Returns the index that the sampler chose. */
static inline int32_t tgi_test_sample(const tgi_candidate *c, uint32_t n) { return tgi_sampler_sample(c, n); }

uint64_t tgi_validate(const char *params, uint32_t len);

/* Validates parameters as the server does when it admits a request. Returns the
 * plugin's error text, empty if it accepts them. */
static inline tgi_text tgi_test_params(tgi_text params) {
  return tgi_validate(params.ptr, params.len) ? tgi__text : (tgi_text){"", 0};
}

tgi_rendered *tgi_template_render(const char *request, uint32_t len);
uint64_t tgi_tools_begin(const char *request, uint32_t len);
uint64_t tgi_tools_feed(const char *piece, uint32_t len, uint32_t flags);
uint64_t tgi_tools_finish(uint32_t reason);

/* Renders a request, which is JSON. The result is valid until the next call. */
static inline const tgi_rendered *tgi_test_render(tgi_text request) { return tgi_template_render(request.ptr, request.len); }

/* Return the events of a piece, and of the end of the text; valid until the next call. */
static inline const tgi_events *tgi_test_feed(tgi_text piece, int special) {
  tgi_tools_feed(piece.ptr, piece.len, special ? TGI_PIECE_SPECIAL : 0);
  return tgi__events;
}
static inline const tgi_events *tgi_test_finish(int cut) {
  tgi_tools_finish(cut ? TGI_FINISH_CUT : TGI_FINISH_END);
  return tgi__events;
}

uint64_t tgi_grammar_begin(const char *request, uint32_t len);
uint32_t tgi_grammar_accept(const uint32_t *tokens, uint32_t count);
uint32_t tgi_grammar_mask(uint32_t *words);
uint64_t tgi_grammar_forced(void);
uint64_t tgi_grammar_key(void);

/* Begins a text with a grammar. The request is JSON. Returns the plugin's error
 * text, empty if it accepts the grammar. */
static inline tgi_text tgi_test_grammar(tgi_text request) {
  return tgi_grammar_begin(request.ptr, request.len) ? tgi__text : (tgi_text){"", 0};
}

/* Returns the allowed words of the vocabulary, with a space between them, or "*" if
 * all tokens are allowed; valid until the next call. */
static inline tgi_text tgi_test_allowed(void) {
  static char text[1 << 16];
  static uint32_t words[2048];
  uint32_t n = 0;
  if (tgi_grammar_mask(words) == TGI_MASK_ALL) return tgi_str("*");
  for (uint32_t id = 0; id < tgi_test__count && id < 32 * 2048; id++) {
    size_t l = strlen(tgi_test__words[id]);
    if (!(words[id / 32] >> id % 32 & 1) || n + l + 1 > sizeof text) continue;
    if (n) text[n++] = ' ';
    memcpy(text + n, tgi_test__words[id], l);
    n += (uint32_t)l;
  }
  return (tgi_text){text, n};
}

/* Returns the tokens that must come next. */
static inline tgi_tokens tgi_test_forced(void) {
  tgi_grammar_forced();
  return tgi__forced;
}

#endif

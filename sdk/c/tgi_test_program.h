/* tgi_test_program.h: native tests of a program in C, on a scripted model. Include the plugin's file and then this
 * one, which includes tgi_test.h:
 *
 *     #include "plugin.c"
 *     #include "tgi_test_program.h"
 *     static const char *next(const char *text) { return " yes"; }    // what the model writes behind a text
 *     int main(void) {
 *       const char *vocab[] = {"Q", " yes", "</s>"};
 *       tgi_test_vocab(vocab, 3);
 *       tgi_script(next);
 *       TGI_CHECK(!tgi_script_run("{}", "Q").len && tgi_same(tgi_script_emitted(), " yes"));
 *       return tgi_test_done();
 *     }
 */
#ifndef TGI_TEST_PROGRAM_H
#define TGI_TEST_PROGRAM_H

#include "tgi_program.h"
#include "tgi_test.h"

enum { TGI_SCRIPT_CONTEXTS = 64, TGI_SCRIPT_TOKENS = 4096 };
typedef struct { uint32_t tokens[TGI_SCRIPT_TOKENS], count, from, reason, said; int open, ended; } tgi_script__context;
static tgi_script__context tgi_script__all[TGI_SCRIPT_CONTEXTS];
static const char *(*tgi_script__next)(const char *text);
static float (*tgi_script__likely)(const char *text, const char *word);
static const char *tgi_script__why = "", *tgi_script__grammar;
static tgi_string tgi_script__emitted;
static int32_t (*tgi_script__calls)(const char *text);
static uint32_t tgi_script__runs, tgi_script__asked, tgi_script__prompt;

/* Sets what the model writes behind a text, until it ends it; and the log-probability of a word, -1 without it. */
static inline void tgi_script(const char *(*next)(const char *text)) { tgi_script__next = next; }
static inline void tgi_script_likely(float (*likely)(const char *text, const char *word)) { tgi_script__likely = likely; }
/* Gives the request a grammar: this text, literally; 0 takes it away. */
static inline void tgi_script_grammar(const char *source) { tgi_script__grammar = source; }
/* Sets what a text behind the prompt has of calls; none without it. */
static inline void tgi_script_calls(int32_t (*calls)(const char *text)) { tgi_script__calls = calls; }
/* Return what was emitted in the last run of the program, and how many runs of contexts it had. */
static inline tgi_text tgi_script_emitted(void) { return tgi_whole(&tgi_script__emitted); }
static inline uint32_t tgi_script_runs(void) { return tgi_script__runs; }
/* Returns how many questions were begun in the last run of the program. */
static inline uint32_t tgi_script_asked(void) { return tgi_script__asked; }

static inline int32_t tgi_script__refuse(const char *why) { tgi_script__why = why; return TGI_BAD_ARGUMENT; }
static inline tgi_script__context *tgi_script__get(tgi_ctx c) {
  int ok = c >= 0 && c < TGI_SCRIPT_CONTEXTS && tgi_script__all[c].open;
  if (!ok) tgi_script__refuse("there is no such context");
  return ok ? &tgi_script__all[c] : 0;
}
/* Returns the text of tokens, without special ones, with a NUL behind it. */
static inline tgi_text tgi_script__spell(const uint32_t *ids, uint32_t count) {
  tgi_string s = {0, 0, 0};
  for (uint32_t i = 0; i < count; i++)
    if (!(tgi_token_flags(ids[i]) & TGI_TOKEN_SPECIAL)) tgi_append(&s, tgi_str(tgi_test__words[ids[i]]));
  tgi_append(&s, (tgi_text){"", 1});
  return (tgi_text){s.ptr, s.len - 1};
}
/* The token that ends texts: </s>, or 0 without one. */
static inline uint32_t tgi_script__end(void) {
  for (uint32_t id = 0; id < tgi_test__count; id++)
    if (tgi_same(tgi_str(tgi_test__words[id]), "</s>")) return id;
  return 0;
}
static inline tgi_ctx tgi_script__add(void) {
  for (tgi_ctx c = 0; c < TGI_SCRIPT_CONTEXTS; c++)
    if (!tgi_script__all[c].open) {
      tgi_script__context *x = &tgi_script__all[c];
      x->count = x->reason = x->said = 0, x->ended = 0, x->open = 1;
      return c;
    }
  tgi_script__why = "there are as many contexts as may be";
  return TGI_NO_ROOM;
}
static inline int32_t tgi_script__append(tgi_script__context *x, tgi_text t, uint32_t most) {
  uint32_t room = TGI_SCRIPT_TOKENS - x->count;
  int32_t n = tgi_encode(t.ptr, t.len, x->tokens + x->count, room);
  if (n < 0 || (uint32_t)n > room) return tgi_script__refuse("the text is not in the vocabulary");
  if ((uint32_t)n > most) n = (int32_t)most;
  x->count += (uint32_t)n;
  x->ended &= !n;
  return n;
}

/* Runs the program on a prompt. params is JSON. Returns the program's error, empty if there is none. */
uint64_t tgi_program_run(const char *request, uint32_t len);
static inline tgi_error tgi_script_run(const char *params, const char *prompt) {
  tgi_string request = {0, 0, 0};
  memset(tgi_script__all, 0, sizeof tgi_script__all);
  tgi_script__emitted.len = tgi_script__runs = tgi_script__asked = 0;
  tgi_script__append(&tgi_script__all[tgi_script__add()], tgi_str(prompt), TGI_SCRIPT_TOKENS);
  tgi_script__prompt = tgi_script__all[TGI_PROMPT].count;
  tgi_append(&request, tgi_str(tgi_script__grammar ? "{\"settings\":{\"grammar\":true}," : "{\"settings\":{},"));
  tgi_append(&request, tgi_str("\"prompt_count\":1,\"limits\":{\"max_new_tokens\":100,\"tokens\":10000},\"params\":"));
  tgi_append(&request, tgi_str(params));
  tgi_append(&request, tgi_str("}"));
  return tgi_program_run(request.ptr, request.len) ? tgi__text : TGI_OK;
}

tgi_ctx tgi_ctx_fork(tgi_ctx c) {
  tgi_script__context *x = tgi_script__get(c);
  tgi_ctx n = x ? tgi_script__add() : TGI_BAD_ARGUMENT;
  if (n >= 0) tgi_script__all[n] = *x;
  return n;
}
int32_t tgi_ctx_drop(tgi_ctx c) {
  tgi_script__context *x = tgi_script__get(c);
  return x ? x->open = 0 : TGI_BAD_ARGUMENT;
}
int32_t tgi_import_append(tgi_ctx c, const char *text, uint32_t len, uint32_t flags) {
  tgi_script__context *x = tgi_script__get(c);
  (void)flags;
  return x ? tgi_script__append(x, (tgi_text){text, len}, TGI_SCRIPT_TOKENS) : TGI_BAD_ARGUMENT;
}
int32_t tgi_ctx_push(tgi_ctx c, const uint32_t *ids, uint32_t count) {
  tgi_script__context *x = tgi_script__get(c);
  if (!x || count > TGI_SCRIPT_TOKENS - x->count) return TGI_BAD_ARGUMENT;
  memcpy(x->tokens + x->count, ids, count * sizeof *ids);
  x->count += count;
  x->ended &= !count;
  return 0;
}
int32_t tgi_ctx_len(tgi_ctx c) {
  tgi_script__context *x = tgi_script__get(c);
  return x ? (int32_t)x->count : TGI_BAD_ARGUMENT;
}
int32_t tgi_ctx_rewind(tgi_ctx c, int32_t position) {
  tgi_script__context *x = tgi_script__get(c);
  if (!x || position < 0 || (uint32_t)position > x->count) return tgi_script__refuse("there is no such place");
  x->ended &= x->count == (uint32_t)position;
  x->count = (uint32_t)position;
  return 0;
}
int32_t tgi_ctx_read(tgi_ctx c, int32_t from, uint32_t what, void *to, uint32_t room) {
  tgi_script__context *x = tgi_script__get(c);
  if (!x || from < 0 || (uint32_t)from > x->count) return tgi_script__refuse("there is no such place");
  tgi_text t = tgi_script__spell(x->tokens + from, x->count - (uint32_t)from);
  uint32_t n = what == TGI_READ_BYTES ? t.len : x->count - (uint32_t)from;
  if (n && n <= room) memcpy(to, what == TGI_READ_BYTES ? (const void *)t.ptr : x->tokens + from, what == TGI_READ_BYTES ? n : 4 * n);
  return (int32_t)n;
}
/* Writes a run: all of what the model says, up to max_tokens or a stop text. Where its first token is denied, or the end
 * that comes first, there is none: the script knows no other. */
int32_t tgi_import_start(tgi_ctx c, const char *settings, uint32_t len) {
  tgi_script__context *x = tgi_script__get(c);
  tgi_text set = {settings, len};
  if (!x) return TGI_BAD_ARGUMENT;
  tgi_text said = tgi_str(tgi_script__next(tgi_script__spell(x->tokens, x->count).ptr));
  uint32_t most = 100;
  tgi_script__runs++;
  x->from = x->count, x->reason = TGI_RUN_END;
  if (len) {
    tgi_json j = tgi_json_open(tgi_json_find(set, "stop"));
    if (tgi_json_find(set, "stop").len)
      for (tgi_json_array(&j); tgi_json_item(&j);) {
        tgi_text stop = tgi_json_string(&j);
        for (uint32_t i = 0; i + stop.len <= said.len; i++)
          if (tgi_starts((tgi_text){said.ptr + i, said.len - i}, stop)) said.len = i + stop.len, x->reason = TGI_RUN_STOP;
      }
    j = tgi_json_open(tgi_json_find(set, "max_tokens"));
    if (tgi_json_find(set, "max_tokens").len) most = (uint32_t)tgi_json_number(&j);
  }
  int32_t n = tgi_script__append(x, said, most);
  if (n < 0) return n;
  if ((uint32_t)n == most) x->reason = TGI_RUN_LENGTH;
  tgi_json deny = tgi_json_open(tgi_json_find(set, "deny"));
  if (len && tgi_json_find(set, "deny").len)
    for (tgi_json_array(&deny); tgi_json_item(&deny);)
      if (tgi_json_number(&deny) == (n ? x->tokens[x->from] : tgi_script__end())) x->reason = TGI_RUN_DENIED;
  if (x->reason == TGI_RUN_DENIED) x->count = x->from, n = 0;
  x->said = (uint32_t)n;
  x->ended = x->reason == TGI_RUN_END;
  if (len && tgi_same(tgi_json_find(set, "emit"), "true")) return tgi_emit(c, (int32_t)x->from, n);
  return 0;
}
int32_t tgi_wait(const tgi_ctx *list, uint32_t count, uint32_t flags) {
  (void)list, (void)flags;
  return count ? 0 : tgi_script__refuse("no contexts to wait for");
}
int32_t tgi_import_span(tgi_ctx c, tgi_run *to) {
  tgi_script__context *x = tgi_script__get(c);
  if (!x) return TGI_BAD_ARGUMENT;
  *to = (tgi_run){x->from, x->said, x->reason, x->reason == TGI_RUN_END ? tgi_script__end() : 0, -(double)x->said};
  return 0;
}
static inline float tgi_script__of(const uint32_t *ids, uint32_t count, uint32_t id) {
  return tgi_script__likely ? tgi_script__likely(tgi_script__spell(ids, count).ptr, tgi_test__words[id]) : -1;
}
int32_t tgi_ctx_row(tgi_ctx c, float *to) {
  tgi_script__context *x = tgi_script__get(c);
  for (uint32_t id = 0; x && id < tgi_test__count; id++) to[id] = tgi_script__of(x->tokens, x->count, id);
  return x ? (int32_t)tgi_test__count : TGI_BAD_ARGUMENT;
}
int32_t tgi_ctx_top(tgi_ctx c, int32_t k, tgi_candidate *to) {
  tgi_script__context *x = tgi_script__get(c);
  int32_t n = 0;
  for (uint32_t id = 0; x && id < tgi_test__count; id++) {
    float p = tgi_script__of(x->tokens, x->count, id);
    int32_t at = n;
    while (at > 0 && to[at - 1].logit < p) at--;
    if (at >= k) continue;
    if (n < k) n++;
    memmove(to + at + 1, to + at, (size_t)(n - at - 1) * sizeof *to);
    to[at] = (tgi_candidate){id, p, p};
  }
  return x ? n : TGI_BAD_ARGUMENT;
}
int32_t tgi_ctx_entropy(tgi_ctx c, double *to) {
  tgi_script__context *x = tgi_script__get(c);
  double sum = 0, h = 0;
  for (uint32_t id = 0; x && id < tgi_test__count; id++) sum += exp(tgi_script__of(x->tokens, x->count, id));
  for (uint32_t id = 0; x && id < tgi_test__count; id++) {
    double v = tgi_script__of(x->tokens, x->count, id);
    h -= exp(v) / sum * (v - log(sum));
  }
  *to = h;
  return x ? 0 : TGI_BAD_ARGUMENT;
}
int32_t tgi_ctx_score(tgi_ctx c, const uint32_t *ids, uint32_t count, float *to) {
  tgi_script__context *x = tgi_script__get(c);
  if (!x || count > TGI_SCRIPT_TOKENS - x->count) return TGI_BAD_ARGUMENT;
  for (uint32_t i = 0; i < count; i++) {
    to[i] = tgi_script__of(x->tokens, x->count + i, ids[i]);
    x->tokens[x->count + i] = ids[i]; /* behind the end: the context stays as it is */
  }
  return 0;
}
int32_t tgi_ctx_ask(tgi_ctx c, const uint32_t *ids, uint32_t count) {
  tgi_script__context *x = tgi_script__get(c);
  if (!x || count > TGI_SCRIPT_TOKENS - x->count || (count && !ids)) return TGI_BAD_ARGUMENT;
  tgi_script__asked++;
  return 0;
}
int32_t tgi_emit(tgi_ctx c, int32_t from, int32_t count) {
  tgi_script__context *x = tgi_script__get(c);
  if (!x || from < 0 || count < 0 || (uint32_t)from + (uint32_t)count > x->count + (uint32_t)x->ended)
    return tgi_script__refuse("there are no such tokens");
  if ((uint32_t)from + (uint32_t)count > x->count) count--; /* the end, which has no text */
  tgi_append(&tgi_script__emitted, tgi_script__spell(x->tokens + from, (uint32_t)count));
  return 0;
}
int32_t tgi_import_emit_text(const char *text, uint32_t len) { return !tgi_append(&tgi_script__emitted, (tgi_text){text, len}); }
tgi_ctx tgi_import_render(const char *request, uint32_t len) {
  tgi_ctx c = tgi_script__add();
  if (c < 0) return c;
  int32_t n = tgi_script__append(&tgi_script__all[c], (tgi_text){request, len}, TGI_SCRIPT_TOKENS);
  return n < 0 ? n : c;
}
/* The longest beginning that is also one of the grammar's source: the language "literal". None is the request's. */
int32_t tgi_import_prefix(const char *grammar, uint32_t len, const char *text, uint32_t text_len) {
  tgi_text source = tgi_json_text(tgi_json_find((tgi_text){grammar, len}, "source"));
  uint32_t n = 0;
  if (!len && !tgi_script__grammar) return tgi_script__refuse("grammar: the request has none");
  if (!len) source = tgi_str(tgi_script__grammar);
  while (n < text_len && n < source.len && text[n] == source.ptr[n]) n++;
  return (int32_t)n;
}
int32_t tgi_ctx_calls(tgi_ctx c) {
  tgi_script__context *x = tgi_script__get(c);
  if (!x) return TGI_BAD_ARGUMENT;
  uint32_t n = x->count < tgi_script__prompt ? x->count : tgi_script__prompt;
  return tgi_script__calls ? tgi_script__calls(tgi_script__spell(x->tokens + n, x->count - n).ptr) : TGI_CALLS_NONE;
}
int32_t tgi_import_why(char *to, uint32_t room) {
  uint32_t n = tgi_strlen(tgi_script__why);
  if (n && n <= room) memcpy(to, tgi_script__why, n);
  return (int32_t)n;
}

#endif

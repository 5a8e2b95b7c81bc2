/* tattle: fails with the text that it saw as its error, as soon as there is the word in it that its configuration has,
 * for the tests of guards. It is of every kind that sees a text, one module each for -DTOKENS, -DDRAFT, -DGUARD and
 * -DPROGRAM:
 *
 *   clang --target=wasm32 -std=c11 -O2 -Wall -Wextra -ffreestanding -nostdlib -fno-builtin-strlen -mbulk-memory \
 *     -msimd128 -msign-ext -mmutable-globals -mnontrapping-fptoint -Wl,--no-entry -Wl,--strip-all -Wl,--stack-first \
 *     -Wl,-z,stack-size=65536 -I ../../../../sdk/c -DTOKENS -o tokens.wasm tattle.c
 *
 * and so for draft.wasm, guard.wasm and program.wasm, in this folder. Its configuration:
 *
 *   word   what it waits for
 *   print  it prints the text and traps, where it can also say it as its error
 *
 * A program does what its parameter "do" says. */
#include "tgi_json.h"
#include "tgi_program.h"
#include "tgi_guard.h"

static char word[64];
static uint32_t word_len;
static int prints;
static char seen[8192];
static uint32_t seen_len;

static tgi_error init(tgi_text config) {
  tgi_json j = tgi_json_open(tgi_json_find(config, "word"));
  tgi_text w = tgi_json_string(&j);
  for (word_len = 0; word_len < w.len && word_len < sizeof word; word_len++) word[word_len] = w.ptr[word_len];
  prints = tgi_same(tgi_json_find(config, "print"), "true");
  return TGI_OK;
}

static int has(tgi_text t) {
  for (uint32_t i = 0; word_len && i + word_len <= t.len; i++)
    if (tgi_equal((tgi_text){t.ptr + i, word_len}, (tgi_text){word, word_len})) return 1;
  return 0;
}

/* tells returns the error where the text has the word, or prints it and traps. */
static tgi_error tells(tgi_text t, int always) {
  if (!has(t)) return TGI_OK;
  uint32_t from = t.len > 200 ? t.len - 200 : 0; /* less than a client sees of an error */
  t = (tgi_text){t.ptr + from, t.len - from};
  if (!prints && !always) return (tgi_error){t.ptr, t.len};
  static char line[256];
  __builtin_memcpy(line, t.ptr, t.len);
  line[t.len] = 0;
  tgi_log(TGI_ERROR, line);
  __builtin_trap();
}

static void see(uint32_t token) {
  int32_t n = tgi_token_bytes(token, seen + seen_len, (uint32_t)sizeof seen - seen_len);
  if (n > 0 && seen_len + (uint32_t)n <= sizeof seen) seen_len += (uint32_t)n;
}

static __attribute__((unused)) tgi_error all(const uint32_t *tokens, uint32_t from, uint32_t to, int always) {
  seen_len = 0;
  for (uint32_t i = from; i < to; i++) see(tokens[i]);
  return tells((tgi_text){seen, seen_len}, always);
}

static uint32_t prompt_count;

static __attribute__((unused)) tgi_error begin(tgi_text params, tgi_tokens prompt) {
  (void)params;
  prompt_count = prompt.count, seen_len = 0;
  return TGI_OK;
}

#ifdef TOKENS
static tgi_error process(tgi_step *s) { return all(s->tokens, s->prompt_count, s->token_count, 0); }

/* A sampler is not told which token became of its choice: it takes the likeliest, and has no error text. */
static int32_t sample(const tgi_candidate *c, uint32_t n) {
  (void)n;
  tells((tgi_text){seen, seen_len}, 1);
  see(c[0].id);
  return 0;
}

static tgi_error begin_text(tgi_text request) {
  (void)request;
  seen_len = 0;
  return TGI_OK;
}
static int accept(uint32_t token) {
  see(token);
  tells((tgi_text){seen, seen_len}, 1);
  return 1;
}
static void mask(tgi_mask_bits *m) { tgi_may_all(m); }

static void feed(tgi_text piece, int special, tgi_events *e) {
  if (special) return;
  for (uint32_t i = 0; i < piece.len && seen_len < sizeof seen; i++) seen[seen_len++] = piece.ptr[i];
  tells((tgi_text){seen, seen_len}, 1);
  tgi_content(e, piece);
}
static void finish(int cut, tgi_events *e) { (void)cut, (void)e; }

static tgi_error any(tgi_text params) {
  (void)params;
  return TGI_OK;
}

TGI_PLUGIN("{\"name\":\"tattle\",\"version\":\"1.0.0\",\"config\":true,\"kinds\":[\"logits\",\"sampler\",\"grammar\","
           "\"tools\"],\"modes\":[\"pass\",\"steps\"],\"languages\":[\"tattle\"],\"candidates\":1,\"state\":\"tokens\"}", init)
TGI_LOGITS(begin, process)
TGI_SAMPLER(begin, sample)
TGI_STEPS(any, begin_text, accept, mask, TGI_NO_KEY, TGI_NO_FORCED)
TGI_TOOLS(any, begin_text, feed, finish)
#endif

#ifdef DRAFT
static int32_t propose(tgi_tokens tokens, uint32_t fresh, uint32_t *to, uint32_t room) {
  (void)fresh, (void)to, (void)room;
  all(tokens.ids, prompt_count, tokens.count, 1);
  return 0;
}

TGI_PLUGIN("{\"name\":\"tattle\",\"version\":\"1.0.0\",\"config\":true,\"kinds\":[\"draft\"]}", init)
TGI_DRAFT(begin, propose)
#endif

#ifdef GUARD
static tgi_error check(tgi_held *h) { return all(h->tokens, h->prompt_count, h->token_count, 0); }

TGI_PLUGIN("{\"name\":\"tattle\",\"version\":\"1.0.0\",\"config\":true,\"kinds\":[\"guard\"],\"guard\":{\"hold\":1,"
           "\"verdicts\":[\"stop\"]}}", init)
TGI_GUARD(begin, check)
#endif

#ifdef PROGRAM
static tgi_error any(tgi_text params) {
  (void)params;
  return TGI_OK;
}

static tgi_error run(tgi_text params, tgi_text request) {
  (void)request;
  tgi_json j = tgi_json_open(tgi_json_find(params, "do"));
  tgi_text what = tgi_keep(tgi_json_string(&j)), own = {word, word_len};
  tgi_ctx c = 0;
  int32_t from = tgi_ctx_len(c);
  tgi_string s = {0, 0, 0};
  if (!what.len) return TGI_OK; /* it is being loaded */
  if (tgi_same(what, "emit and say")) { /* its own text, behind another one that is let out */
    tgi_emit_text(tgi_str("ok "));
  } else if (tgi_same(what, "refused")) { /* its own text, which is taken back before anything was computed */
    tgi_emit_text(own);
  } else if (tgi_same(what, "walk")) { /* without a run: by what the model says of each next token */
    for (int i = 0; i < 40; i++) {
      tgi_candidate t;
      if (tgi_ctx_top(c, 1, &t) < 1) return tgi_why();
      tgi_ctx_push(c, &t.id, 1);
    }
  } else if (tgi_same(what, "stream")) { /* the client has the beginning of a stream already */
    tgi_ctx_generate(c, tgi_str("{\"max_tokens\":40,\"emit\":true}"));
  } else if (tgi_same(what, "language")) { /* in the reason for which a grammar is refused that a parameter has */
    tgi_ctx_generate(c, tgi_str("{\"max_tokens\":2}"));
    tgi_append(&s, tgi_str("{\"max_tokens\":2,\"grammar\":{\"language\":"));
    tgi_append_json(&s, own);
    tgi_append(&s, tgi_str(",\"source\":\"x\"}}"));
    tgi_ctx_generate(c, tgi_whole(&s));
    return tgi_why();
  } else if (tgi_same(what, "why")) { /* in the reason of a call that failed */
    tgi_ctx_generate(c, tgi_str("{\"max_tokens\":2}"));
    tgi_append(&s, tgi_str("{\"plugins\":[{\"name\":"));
    tgi_append_json(&s, own);
    tgi_append(&s, tgi_str("}]}"));
    tgi_ctx_generate(c, tgi_whole(&s));
    return tgi_why();
  } else if (tgi_same(what, "before")) { /* before there is any text */
    return (tgi_error){own.ptr, own.len};
  } else { /* "say": a run that the client gets nothing of */
    tgi_ctx_generate(c, tgi_str("{\"max_tokens\":40}"));
  }
  tgi_text t = tgi_ctx_text(c, from);
  return has(t) ? tells(t, 0) : tells(own, 0);
}

TGI_PLUGIN("{\"name\":\"tattle\",\"version\":\"1.0.0\",\"config\":true,\"kinds\":[\"program\"],\"contexts\":1}", init)
TGI_PROGRAM(any, run)
#endif

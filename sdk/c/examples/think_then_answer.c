/* think-then-answer lets the model think for "budget" tokens (default 64). Where it has not come to "end" by then,
 * it is told that the time is up. Then it answers. All of it goes out as it comes; where the request has a
 * grammar, the thoughts are free and stay here, and the answer that the grammar holds goes out. Without "end" that
 * is "</think>"; a model that has no token for it marks no thoughts, and answers as ever. */
#include "tgi_program.h"

typedef struct { uint32_t budget; tgi_text end, hint; } settings;

static tgi_error read_params(tgi_text params, settings *p) {
  tgi_json j = tgi_json_open(params);
  tgi_text key;
  *p = (settings){64, tgi_str(""), tgi_str("\nTime is up.\n")};
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    if (tgi_same(key, "budget")) {
      double n = tgi_json_number(&j);
      if (!j.error && !(n >= 1 && n <= 100000 && n == (uint32_t)n)) return tgi_fail("budget: want a whole number from 1 to 100000");
      p->budget = j.error ? 1 : (uint32_t)n;
    } else if (tgi_same(key, "end") || tgi_same(key, "hint")) {
      tgi_text *to = tgi_same(key, "end") ? &p->end : &p->hint;
      *to = tgi_keep(tgi_json_string(&j));
      if (!j.error && !to->len) return tgi_fail("end, hint: want a text");
    } else return tgi_fail("unknown parameter, want budget, end or hint");
  }
  return tgi_json_close(&j) ? TGI_OK : tgi_fail(j.error);
}

static tgi_error validate(tgi_text params) {
  settings p;
  return read_params(params, &p);
}

static tgi_error run(tgi_text params, tgi_text request) {
  settings p;
  tgi_string set = {0, 0, 0}, think = {0, 0, 0};
  tgi_error e = read_params(params, &p);
  if (e.len) return e;
  int shown = !tgi_request_has_grammar(request);
  if (!p.end.len) {
    uint32_t id;
    p.end = tgi_str("</think>");
    if (shown && tgi_encode(p.end.ptr, p.end.len, &id, 1) != 1)
      return tgi_ctx_generate(TGI_PROMPT, tgi_str("{\"emit\":true}")) < 0 ? tgi_why() : TGI_OK;
  }
  tgi_append(&think, tgi_str(shown ? "{\"emit\":true," : "{"));
  tgi_append(&think, tgi_str("\"grammar\":null,\"stop\":["));
  tgi_append_json(&think, p.end);
  tgi_append(&think, tgi_str("]}"));
  tgi_append(&set, tgi_str("{\"max_tokens\":"));
  tgi_append_number(&set, p.budget);
  tgi_append(&set, tgi_str(","));
  tgi_append(&set, (tgi_text){think.ptr + 1, think.len - 1});
  if (tgi_ctx_generate(TGI_PROMPT, tgi_whole(&set)) < 0) return tgi_why();
  /* Nothing is put into a call of a tool. */
  int32_t calls = shown ? tgi_ctx_finish_call(TGI_PROMPT, tgi_whole(&think)) : TGI_CALLS_NONE;
  if (calls < 0) return tgi_why();
  uint32_t reason = tgi_ctx_span(TGI_PROMPT).reason;
  if (reason == TGI_RUN_END && shown) return TGI_OK; /* it answered without an end of its thoughts */
  if (reason != TGI_RUN_STOP && calls != TGI_CALLS_MADE) {
    int32_t from = tgi_ctx_len(TGI_PROMPT);
    /* The end may be a special token; it is a client's word about its own reply. */
    if (reason == TGI_RUN_LENGTH && tgi_ctx_append(TGI_PROMPT, p.hint) < 0) return tgi_why();
    if (tgi_ctx_append_special(TGI_PROMPT, p.end) < 0) return tgi_why();
    if (shown && tgi_emit_from(TGI_PROMPT, from) < 0) return tgi_why();
  }
  return tgi_ctx_generate(TGI_PROMPT, tgi_str("{\"emit\":true}")) < 0 ? tgi_why() : TGI_OK;
}

TGI_PLUGIN("{\"name\":\"think-then-answer\",\"version\":\"1.0.0\",\"kinds\":[\"program\"],\"contexts\":1,\"revision\":2,"
           "\"doc\":\"Lets the model think within a budget of tokens, and answer then.\",\"params\":{\"type\":\"object\","
           "\"properties\":{\"budget\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":100000},\"end\":{\"type\":\"string\"},"
           "\"hint\":{\"type\":\"string\"}}}}", TGI_NO_INIT)
TGI_PROGRAM(validate, run)

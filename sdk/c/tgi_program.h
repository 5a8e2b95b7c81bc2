/* tgi_program.h: programs in C, which generate the texts of a request themselves, by contexts of the model that
 * they fork, rewind and score.
 *
 *     static tgi_error run(tgi_text params, tgi_text request) {
 *       tgi_ctx a = tgi_ctx_fork(TGI_PROMPT), b = tgi_ctx_fork(TGI_PROMPT);
 *       if (a < 0 || b < 0 || tgi_ctx_start(a, TGI_AS_ASKED) < 0 || tgi_ctx_start(b, TGI_AS_ASKED) < 0) return tgi_why();
 *       if (tgi_wait((tgi_ctx[]){a, b}, 2, TGI_WAIT_ALL) < 0) return tgi_why();
 *       return tgi_emit_span(tgi_ctx_span(a).count < tgi_ctx_span(b).count ? a : b) < 0 ? tgi_why() : TGI_OK;
 *     }
 *     TGI_PROGRAM(TGI_NO_PARAMS, run)
 *
 * Results below 0 say that a call failed, and tgi_why tells the server's reason. Natively test a program with
 * tgi_test_program.h.
 */
#ifndef TGI_PROGRAM_H
#define TGI_PROGRAM_H

#include "tgi.h"
#include "tgi_json.h"

/* The number of a text of tokens. It rests, or it runs, from tgi_ctx_start until it was waited for. */
typedef int32_t tgi_ctx;

enum { TGI_PROMPT = 0 };       /* the context of the request's prompt */
enum { TGI_BAD_ARGUMENT = -1, TGI_NO_PURSE = -2, TGI_NO_ROOM = -3, TGI_BAD_GRAMMAR = -4, TGI_REFUSED = -5, TGI_BAD_PLUGIN = -6 };
enum { TGI_WAIT_ALL, TGI_WAIT_ANY };
/* What the text behind the prompt has of calls of tools, as the parser of the reply reads it: none; it ends inside a
 * call, or with what may begin one; it has calls, and does not end inside one; it has something of a call that the
 * request's strict tools do not allow, to which runs that go on from there are not held. */
enum { TGI_CALLS_NONE, TGI_CALLS_OPEN, TGI_CALLS_MADE, TGI_CALLS_BROKEN };
enum { TGI_READ_IDS, TGI_READ_BYTES };
enum { TGI_RUN_NONE, TGI_RUN_LENGTH, TGI_RUN_END, TGI_RUN_STOP, TGI_RUN_DENIED };   /* why a run ended */

/* What a context generated in its last run: count tokens from the token from on. The token that ended it, where the
 * model did, is no part of the context; end is 0 where another reason did. */
typedef struct { uint32_t from, count, reason, end; double logprob; } tgi_run;

/* The functions of ../abi/program.go. Room is of ids or bytes; what does not fit is not written. */
TGI_IMPORT("ctx_fork") tgi_ctx tgi_ctx_fork(tgi_ctx c);
TGI_IMPORT("ctx_drop") int32_t tgi_ctx_drop(tgi_ctx c);
TGI_IMPORT("ctx_append") int32_t tgi_import_append(tgi_ctx c, const char *text, uint32_t len, uint32_t flags);
TGI_IMPORT("ctx_push") int32_t tgi_ctx_push(tgi_ctx c, const uint32_t *ids, uint32_t count);
TGI_IMPORT("ctx_len") int32_t tgi_ctx_len(tgi_ctx c);
TGI_IMPORT("ctx_rewind") int32_t tgi_ctx_rewind(tgi_ctx c, int32_t position);
TGI_IMPORT("ctx_read") int32_t tgi_ctx_read(tgi_ctx c, int32_t from, uint32_t what, void *to, uint32_t room);
TGI_IMPORT("ctx_start") int32_t tgi_import_start(tgi_ctx c, const char *settings, uint32_t len);
TGI_IMPORT("wait") int32_t tgi_wait(const tgi_ctx *list, uint32_t count, uint32_t flags);
TGI_IMPORT("span") int32_t tgi_import_span(tgi_ctx c, tgi_run *to);
TGI_IMPORT("ctx_top") int32_t tgi_ctx_top(tgi_ctx c, int32_t k, tgi_candidate *to);
TGI_IMPORT("ctx_row") int32_t tgi_ctx_row(tgi_ctx c, float *to);
TGI_IMPORT("ctx_entropy") int32_t tgi_ctx_entropy(tgi_ctx c, double *to);
TGI_IMPORT("ctx_score") int32_t tgi_ctx_score(tgi_ctx c, const uint32_t *ids, uint32_t count, float *to);
/* Begins to compute what tgi_ctx_score of these tokens tells, or without any, and of one, what tgi_ctx_top, tgi_ctx_row
 * and tgi_ctx_entropy do, and returns at once. The context runs until it was waited for; those answer at once then. So
 * the answers of many contexts are computed together. */
TGI_IMPORT("ctx_ask") int32_t tgi_ctx_ask(tgi_ctx c, const uint32_t *ids, uint32_t count);
TGI_IMPORT("emit") int32_t tgi_emit(tgi_ctx c, int32_t from, int32_t count);
TGI_IMPORT("emit_text") int32_t tgi_import_emit_text(const char *text, uint32_t len);
TGI_IMPORT("render") tgi_ctx tgi_import_render(const char *request, uint32_t len);
TGI_IMPORT("grammar_prefix") int32_t tgi_import_prefix(const char *grammar, uint32_t len, const char *text, uint32_t text_len);
TGI_IMPORT("ctx_calls") int32_t tgi_ctx_calls(tgi_ctx c);
TGI_IMPORT("why") int32_t tgi_import_why(char *to, uint32_t room);

/* Settings of a run that are all as the request says. */
#define TGI_AS_ASKED ((tgi_text){0, 0})

/* Lets a context generate, and returns at once. settings is a JSON object, see ../abi/program.go. */
static inline int32_t tgi_ctx_start(tgi_ctx c, tgi_text settings) { return tgi_import_start(c, settings.ptr, settings.len); }
/* Lets a context generate, and waits for it. */
static inline int32_t tgi_ctx_generate(tgi_ctx c, tgi_text settings) {
  int32_t n = tgi_ctx_start(c, settings);
  return n < 0 ? n : tgi_wait(&c, 1, TGI_WAIT_ALL);
}
static inline tgi_run tgi_ctx_span(tgi_ctx c) {
  tgi_run r = {0, 0, 0, 0, 0};
  tgi_import_span(c, &r);
  return r;
}
/* Appends a text, in which no special token is recognised. Returns how many tokens it is. */
static inline int32_t tgi_ctx_append(tgi_ctx c, tgi_text t) { return tgi_import_append(c, t.ptr, t.len, 0); }
/* Appends a text, in which special tokens are recognised. Never append what a client wrote with it. */
static inline int32_t tgi_ctx_append_special(tgi_ctx c, tgi_text t) { return tgi_import_append(c, t.ptr, t.len, 1); }
/* Returns the text of the tokens from a place on, without special ones; empty if there is no such place. */
static inline tgi_text tgi_ctx_text(tgi_ctx c, int32_t from) {
  int32_t n = tgi_ctx_read(c, from, TGI_READ_BYTES, 0, 0);
  char *b = n > 0 ? (char *)tgi_new((size_t)n) : 0;
  if (!b) return (tgi_text){"", 0};
  tgi_ctx_read(c, from, TGI_READ_BYTES, b, (uint32_t)n);
  return (tgi_text){b, (uint32_t)n};
}
/* Returns whether the text ends where the model ended it in the last run. */
static inline int tgi_ctx_ended(tgi_ctx c) {
  tgi_run r = tgi_ctx_span(c);
  return r.reason == TGI_RUN_END && r.from + r.count == (uint32_t)tgi_ctx_len(c);
}
/* Gives the client all tokens from a place on and, if the model ended the text there, the end, behind which nothing can
 * be emitted: a guard that reads the end refuses it here, and not when the program is over. */
static inline int32_t tgi_emit_to_end(tgi_ctx c, int32_t from) {
  return tgi_emit(c, from, tgi_ctx_len(c) + tgi_ctx_ended(c) - from);
}
/* Give the client tokens: all from a place on, and what the last run generated. */
static inline int32_t tgi_emit_from(tgi_ctx c, int32_t from) { return tgi_emit(c, from, tgi_ctx_len(c) - from); }
static inline int32_t tgi_emit_span(tgi_ctx c) {
  tgi_run r = tgi_ctx_span(c);
  return tgi_emit(c, (int32_t)r.from, (int32_t)r.count);
}
static inline int32_t tgi_emit_text(tgi_text t) { return tgi_import_emit_text(t.ptr, t.len); }
/* Returns a context of a conversation through the model's template. The request is a template's, as JSON. */
static inline tgi_ctx tgi_render(tgi_text request) { return tgi_import_render(request.ptr, request.len); }
/* Returns whether the client wants the reply held to a grammar, such as a schema. A run that sets none is held to it. */
static inline int tgi_request_has_grammar(tgi_text request) {
  return tgi_same(tgi_json_find(tgi_json_find(request, "settings"), "grammar"), "true");
}
/* Returns how many bytes of a text a text of the grammar, a JSON object, can begin with; an empty text is the grammar of
 * the request. */
static inline int32_t tgi_grammar_prefix(tgi_text grammar, tgi_text t) {
  return tgi_import_prefix(grammar.ptr, grammar.len, t.ptr, t.len);
}
/* Returns the server's reason of the last call that failed. */
static inline tgi_error tgi_why(void) {
  int32_t n = tgi_import_why(0, 0);
  char *b = n > 0 ? (char *)tgi_new((size_t)n) : 0;
  if (!b) return tgi_fail("a call of the server failed");
  tgi_import_why(b, (uint32_t)n);
  return (tgi_error){b, (uint32_t)n};
}

/* Appends a text as a JSON string, for settings. Returns 0 if the memory limit is reached. */
static inline int tgi_append_json(tgi_string *s, tgi_text t) {
  int ok = tgi_append(s, tgi_str("\""));
  for (uint32_t i = 0; ok && i < t.len; i++) {
    unsigned char c = (unsigned char)t.ptr[i];
    char escaped[6] = {'\\', 'u', '0', '0', "0123456789abcdef"[c >> 4], "0123456789abcdef"[c & 15]};
    ok = c < 32 || c == '"' || c == '\\' ? tgi_append(s, (tgi_text){escaped, 6}) : tgi_append(s, (tgi_text){t.ptr + i, 1});
  }
  return ok && tgi_append(s, tgi_str("\""));
}
/* Appends a number to settings. */
static inline int tgi_append_number(tgi_string *s, uint64_t v) {
  char d[20];
  uint32_t n = 20;
  do d[--n] = (char)('0' + v % 10); while (v /= 10);
  return tgi_append(s, (tgi_text){d + n, 20 - n});
}

/* Appends a list of tokens to settings, such as the value of "deny". */
static inline int tgi_append_tokens(tgi_string *s, const uint32_t *ids, uint32_t count) {
  int ok = tgi_append(s, tgi_str("["));
  for (uint32_t i = 0; ok && i < count; i++) ok = (!i || tgi_append(s, tgi_str(","))) && tgi_append_number(s, ids[i]);
  return ok && tgi_append(s, tgi_str("]"));
}

/* Lets a context whose text ends inside a call of a tool, or with what may begin one, generate until it does not, and
 * returns what it has of calls then: one with calls is an answer, and what is appended to it is read as its content.
 * settings are those of the runs, an object that is not empty and has no "max_tokens". */
static inline int32_t tgi_ctx_finish_call(tgi_ctx c, tgi_text settings) {
  for (uint32_t most = 1; tgi_ctx_calls(c) == TGI_CALLS_OPEN; most = most < 32 ? 2 * most : 64) {
    tgi_string s = {0, 0, 0};
    int ok = tgi_append(&s, tgi_str("{\"max_tokens\":")) && tgi_append_number(&s, most) && tgi_append(&s, tgi_str(",")) &&
             tgi_append(&s, (tgi_text){settings.ptr + 1, settings.len - 1});
    int32_t n = ok ? tgi_ctx_generate(c, tgi_whole(&s)) : TGI_NO_ROOM;
    if (n < 0) return n;
    if (tgi_ctx_span(c).reason != TGI_RUN_LENGTH) break;
  }
  return tgi_ctx_calls(c);
}

/* Appends a plugin of a run to settings: what stands between the brackets of "plugins":[], which takes the place of all
 * plugins of the request. params is a JSON object, or empty. */
static inline int tgi_append_plugin(tgi_string *s, tgi_text name, tgi_text params) {
  return (!s->len || s->ptr[s->len - 1] == '[' || tgi_append(s, tgi_str(","))) && tgi_append(s, tgi_str("{\"name\":")) &&
         tgi_append_json(s, name) && (!params.len || (tgi_append(s, tgi_str(",\"params\":")) && tgi_append(s, params))) &&
         tgi_append(s, tgi_str("}"));
}

/* TGI_PROGRAM: tgi_error validate(tgi_text params), tgi_error run(tgi_text params, tgi_text request). What was
 * emitted when run returns is the text; an error fails it. The request is JSON, see ../abi/program.go. The
 * description's "contexts" is how many contexts run at once. */
#define TGI_PROGRAM(validate, run)                                                                          \
  static tgi_validate_func tgi__validate_program = validate;                                                \
  TGI_EXPORT("tgi_program_run") uint64_t tgi_program_run(const char *request, uint32_t len) {               \
    tgi_text r = {request, len};                                                                            \
    return tgi__pack(run(tgi_json_find(r, "params"), r));                                                   \
  }

_Static_assert(sizeof(tgi_run) == 24, "a run has no padding");

#endif

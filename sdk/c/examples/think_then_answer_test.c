/* Native test of think-then-answer: cc -fsanitize=address,undefined think_then_answer_test.c -lm && ./a.out */
#include "think_then_answer.c"
#include "tgi_test_program.h"

static const char *thoughts;
static const char *next(const char *text) { return strcmp(text, "Q") ? " 4" : thoughts; }

static void gives(const char *params, const char *said, const char *want, uint32_t runs) {
  thoughts = said;
  TGI_CHECK(!tgi_script_run(params, "Q").len);
  TGI_CHECK(tgi_same(tgi_script_emitted(), want) && tgi_script_runs() == runs);
}

static const char *behind;
static const char *held(const char *text) { return strcmp(text, behind) ? thoughts : " 4"; }

/* Where the request has a grammar, the thoughts stay here. */
static void keeps(const char *params, const char *said, const char *before) {
  thoughts = said, behind = before;
  tgi_script(held);
  tgi_script_grammar(" 4");
  TGI_CHECK(!tgi_script_run(params, "Q").len);
  TGI_CHECK(tgi_same(tgi_script_emitted(), " 4") && tgi_script_runs() == 2);
  TGI_CHECK(tgi_grammar_prefix(tgi_str(""), tgi_str(" 5")) == 1);
  tgi_script_grammar(0);
  TGI_CHECK(tgi_grammar_prefix(tgi_str(""), tgi_str(" 5")) < 0);
  tgi_script(next);
}

/* Where the budget ends inside a call of a tool, or of what may be one, that is finished. Behind a call nothing is put. */
static const char *called;
static const char *goes_on(const char *text) { return strstr(text, "Time is up") ? " 4" : called + strlen(text) - 1; }
static int ends(const char *text, const char *with) {
  return strlen(text) >= strlen(with) && !strcmp(text + strlen(text) - strlen(with), with);
}
static int32_t calls(const char *text) {
  if (ends(text, "[/tool]") || ends(text, " 4")) return TGI_CALLS_MADE;
  return ends(text, " [") || strstr(text, "tool]") ? TGI_CALLS_OPEN : TGI_CALLS_NONE;
}
static void finishes(const char *said, const char *want) {
  called = said;
  tgi_script(goes_on);
  tgi_script_calls(calls);
  TGI_CHECK(!tgi_script_run("{\"budget\": 1}", "Q").len && tgi_same(tgi_script_emitted(), want));
  tgi_script_calls(0);
  tgi_script(next);
}

static float likely(const char *text, const char *word) { return !strcmp(text, "Q") && !strcmp(word, " 4") ? -0.5f : -2; }

/* A model without a token for the usual end of thoughts answers, unless the end is named. */
static const char *unmarked(const char *text) { return (void)text, " 4 4"; }
static void marks(const char *params, const char *want) {
  tgi_script(unmarked);
  TGI_CHECK(!tgi_script_run(params, "Q").len && tgi_same(tgi_script_emitted(), want));
  tgi_script(next);
}

int main(void) {
  const char *vocab[] = {"Q", " hm", "</think>", " 4", "\nTime is up.\n", "hint", "</s>"};
  const char *tools[] = {"Q", " [", "tool]", " x", "[/tool]", " 4", "\nTime is up.\n", "</think>", "</s>"};
  const uint32_t ids[] = {3, 1};
  tgi_candidate top[2];
  float scores[2], row[7];
  double entropy;
  tgi_test_vocab(tools, 9);
  finishes(" [tool] x x x[/tool]", " [tool] x x x[/tool]");         /* the model ends its text there */
  finishes(" [tool] x x[/tool] 4 4 4", " [tool] x x[/tool] 4 4 4"); /* and here it goes on */
  finishes(" [ x x x", " [ x\nTime is up.\n 4");
  finishes(" x x x", " x\nTime is up.\n 4");
  const char *no_mark[] = {"Q", " 4", " up", "</", "think>", "</s>"};
  tgi_test_vocab(no_mark, 6);
  marks("{\"budget\": 1, \"hint\": \" up\"}", " 4 4");
  marks("{\"budget\": 1, \"hint\": \" up\", \"end\": \"</think>\"}", " 4 up</think> 4 4");
  tgi_test_vocab(vocab, 7);
  tgi_script(next);
  gives("{\"budget\": 9}", " hm hm</think> more", " hm hm 4", 2); /* it comes to an end; markup has no text */
  gives("{\"budget\": 2}", " hm hm hm</think>", " hm hm\nTime is up.\n 4", 2);
  gives("{\"budget\": 2, \"hint\": \"hint\"}", " hm hm hm", " hm hmhint 4", 2);
  gives("{}", " 4", " 4", 1); /* it ends its text */
  keeps("{\"budget\": 9}", " hm</think>", "Q hm");
  keeps("{\"budget\": 1}", " hm hm", "Q hm\nTime is up.\n");
  keeps("{\"budget\": 9}", " hm", "Q hm");
  thoughts = " hm hm";
  TGI_CHECK(tgi_same(tgi_script_run("{\"budget\": 1, \"hint\": \"elsewhere\"}", "Q"), "the text is not in the vocabulary"));
  TGI_CHECK(tgi_test_params(tgi_str("{\"budget\": 0}")).len && tgi_test_params(tgi_str("{\"budget\": 1.5}")).len);
  TGI_CHECK(tgi_test_params(tgi_str("{\"end\": \"\"}")).len && tgi_test_params(tgi_str("{\"x\": 1}")).len);
  TGI_CHECK(!tgi_test_params(tgi_str("{\"budget\": 3, \"end\": \"</t>\"}")).len);

  /* the scripted model itself */
  gives("{}", " 4", " 4", 1);
  tgi_script_likely(likely);
  tgi_ctx c = tgi_ctx_fork(TGI_PROMPT);
  TGI_CHECK(c > 0 && tgi_ctx_len(c) == 2 && !tgi_ctx_rewind(c, 1) && tgi_same(tgi_ctx_text(c, 0), "Q"));
  TGI_CHECK(tgi_ctx_top(c, 2, top) == 2 && top[0].id == 3 && top[0].logprob == -0.5f && top[1].logprob == -2);
  TGI_CHECK(!tgi_ctx_score(c, ids, 2, scores) && scores[0] == -0.5f && scores[1] == -2 && tgi_ctx_len(c) == 1);
  tgi_ctx both[] = {c, tgi_ctx_fork(TGI_PROMPT)};
  TGI_CHECK(!tgi_ctx_ask(both[0], 0, 0) && !tgi_ctx_ask(both[1], ids, 2) && !tgi_wait(both, 2, TGI_WAIT_ALL));
  TGI_CHECK(tgi_script_asked() == 2 && tgi_ctx_ask(63, 0, 0) == TGI_BAD_ARGUMENT);
  TGI_CHECK(tgi_ctx_row(c, row) == 7 && row[3] == -0.5f && !tgi_ctx_entropy(c, &entropy) && entropy > 0);
  TGI_CHECK(!tgi_ctx_drop(c) && tgi_ctx_len(c) < 0 && tgi_same(tgi_why(), "there is no such context"));
  TGI_CHECK(tgi_grammar_prefix(tgi_str("{\"source\":\"ab\"}"), tgi_str("ac")) == 1);

  /* a run begins with no token that it is denied, and its end can be emitted */
  tgi_script_run("{}", "Q");
  TGI_CHECK((c = tgi_ctx_fork(TGI_PROMPT)) > 0 && !tgi_ctx_rewind(c, 1) && !tgi_ctx_ended(c));
  TGI_CHECK(!tgi_ctx_generate(c, tgi_str("{\"deny\":[3]}")) && tgi_ctx_span(c).reason == TGI_RUN_DENIED);
  TGI_CHECK(!tgi_ctx_span(c).count && !tgi_ctx_ended(c) && tgi_emit(c, 1, 1) < 0);
  TGI_CHECK(!tgi_ctx_generate(c, tgi_str("{\"deny\":[1,6]}")) && tgi_ctx_span(c).end == 6 && tgi_ctx_ended(c));
  tgi_ctx more = tgi_ctx_fork(c);
  TGI_CHECK(more > 0 && !tgi_ctx_push(more, ids, 1) && !tgi_ctx_ended(more) && tgi_emit(more, 1, 3) < 0);
  TGI_CHECK(!tgi_emit_to_end(c, 1) && tgi_emit(c, 1, 3) < 0 && tgi_same(tgi_script_emitted(), " 4 4"));

  /* plugins of a run, and tokens that it is denied */
  tgi_string set = {0, 0, 0};
  TGI_CHECK(tgi_append(&set, tgi_str("[")) && tgi_append_plugin(&set, tgi_str("a\""), tgi_str("{\"b\":1}")));
  TGI_CHECK(tgi_append_plugin(&set, tgi_str("c"), tgi_str("")) && tgi_append(&set, tgi_str("]")));
  TGI_CHECK(tgi_same(tgi_whole(&set), "[{\"name\":\"a\\u0022\",\"params\":{\"b\":1}},{\"name\":\"c\"}]"));
  tgi_string list = {0, 0, 0};
  TGI_CHECK(tgi_append_tokens(&list, ids, 2) && tgi_append_tokens(&list, ids, 0) && tgi_same(tgi_whole(&list), "[3,1][]"));
  return tgi_test_done();
}

/* Native tests of banned-and-boost: cc -fsanitize=address,undefined examples_test.c && ./a.out */
#include "banned_and_boost.c"
#include "tgi_test.h"

static const char *const vocab[] = {"a", "b", "ab", " the", "<s>", "</s>", "\xc3\xa9", "\"", "\xf0\x9f\x98\x80"};
enum { VOCAB = sizeof vocab / sizeof *vocab };

static void check_error(const char *params, const char *want) {
  const char *got = tgi_test_begin(params, 0, 0);
  if (!got || strcmp(got, want)) {
    tgi_test__faults++;
    fprintf(stderr, "%s: error %s, want %s\n", params, got ? got : "none", want);
  }
}

static void errors(void) {
  check_error("", "want a JSON object");
  check_error("[]", "want a JSON object");
  check_error("{", "JSON ends too early");
  check_error("{} x", "something follows the JSON value");
  check_error("{\"ban\":[9]}", "ban: no such token id");
  check_error("{\"ban\":[1.5]}", "ban: no such token id");
  check_error("{\"ban\":[-1]}", "ban: no such token id");
  check_error("{\"ban\":[01]}", "a bad JSON number");
  check_error("{\"ban\":[\"aab\"]}", "ban: want the text of one token, not aab");
  check_error("{\"ban\":[\"\"]}", "ban: want the text of one token, not ");
  check_error("{\"ban\":[true]}", "want a JSON number for ban");
  check_error("{\"ban\":{}}", "want a JSON array for ban");
  check_error("{\"ban\":[1,]}", "want a JSON number for ban");
  check_error("{\"ban\":[1 2]}", "want a comma in JSON");
  check_error("{\"ban\":[\"\\q\"]}", "a bad escape in a JSON string");
  check_error("{\"ban\":[\"\\u12\"]}", "a bad escape in a JSON string");
  check_error("{\"ban\":[\"a", "a JSON string has no end");
  check_error("{\"ban\":[\"a\\", "a JSON string has no end");
  check_error("{\"ban\":[\"a\n\"]}", "a control character in a JSON string");
  check_error("{\"boost\":{\"#9\":1}}", "boost: no such token id");
  check_error("{\"boost\":{\"a\":101}}", "boost: want a bias from -100 to 100 for a");
  check_error("{\"boost\":{\"a\":1e400}}", "boost: want a bias from -100 to 100 for a");
  check_error("{\"boost\":{\"a\" 1}}", "want a colon in JSON");
  check_error("{\"bann\":[]}", "unknown parameter: bann");
  check_error("{\"only\":[]}", "only: every token of it is banned");
  check_error("{\"only\":[1],\"ban\":[\"b\"]}", "only: every token of it is banned");
}

static void results(void) {
  uint32_t prompt[] = {0, 3};
  TGI_CHECK(!tgi_test_begin("{}", prompt, 2));
  TGI_CHECK(tgi_test_step(prompt, 2)->mode == TGI_PASS);

  TGI_CHECK(!tgi_test_begin(" {\"ban\" : [ 1 , \"\\u00e9\", \"\\ud83d\\ude00\", \"\\\"\" ] } ", prompt, 2));
  tgi_step *s = tgi_test_step(prompt, 2);
  const uint32_t *deny = s->out;
  TGI_CHECK(s->mode == TGI_DENY && s->out_count == 4 && deny[0] == 1 && deny[1] == 6 && deny[2] == 8 && deny[3] == 7);

  TGI_CHECK(!tgi_test_begin("{\"ban\":[1],\"boost\":{\"ab\":-1.25e+1,\"b\":3,\"#3\":0.5}}", prompt, 2));
  s = tgi_test_step(prompt, 2);
  const tgi_entry *e = s->out;
  TGI_CHECK(s->mode == TGI_SPARSE && s->out_count == 3 && s->flags == 0);
  TGI_CHECK(e[0].id == 1 && isinf(e[0].value) && e[0].value < 0);
  TGI_CHECK(e[1].id == 2 && e[1].value == -12.5f && e[2].id == 3 && e[2].value == 0.5f);

  TGI_CHECK(!tgi_test_begin("{\"only\":[0,1,\"</s>\"],\"ban\":[1]}", prompt, 2));
  s = tgi_test_step(prompt, 2);
  const uint32_t *allow = s->out;
  TGI_CHECK(s->mode == TGI_ALLOW && s->out_count == 2 && allow[0] == 0 && allow[1] == 5);

  TGI_CHECK(!tgi_test_begin("{\"only\":[0,1],\"boost\":{\"a\":2,\"ab\":2}}", prompt, 2));
  s = tgi_test_step(prompt, 2);
  TGI_CHECK(s->mode == TGI_SPARSE && s->flags == TGI_FLAG_ONLY && s->out_count == 3);
}

int main(void) {
  tgi_test_vocab(vocab, VOCAB);
  errors();
  results();
  return tgi_test_done();
}

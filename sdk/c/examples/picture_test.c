/* Native test of picture: cc -fsanitize=address,undefined picture_test.c && ./a.out */
#include "picture.c"
#include "tgi_test.h"
#include "vectors.h"

enum { WORDS = 16 };

/* Takes the words of a case for the vocabulary. */
static void vocabulary(tgi_text c) {
  static const char *words[WORDS];
  uint32_t n = 0;
  tgi_json j = tgi_json_open(tgi_json_find(c, "words"));
  for (tgi_json_array(&j); tgi_json_item(&j) && n < WORDS;) {
    tgi_text s = tgi_json_text(tgi_json_raw(&j));
    char *word = tgi_new(s.len + 1);
    memcpy(word, s.ptr, s.len);
    words[n++] = word;
  }
  TGI_CHECK(tgi_json_close(&j));
  tgi_test_vocab(words, n);
}

/* Compares the state with the next of what is wanted. */
static void compare(tgi_json *allowed, tgi_json *ahead, tgi_text about) {
  TGI_CHECK(tgi_json_item(allowed));
  same(tgi_test_allowed(), tgi_json_text(tgi_json_raw(allowed)), about);
  tgi_tokens f = tgi_test_forced();
  uint32_t n = 0;
  TGI_CHECK(tgi_json_item(ahead));
  tgi_json list = tgi_json_open(tgi_json_raw(ahead));
  for (tgi_json_array(&list); tgi_json_item(&list); n++) TGI_CHECK(n < f.count && tgi_json_number(&list) == f.ids[n]);
  TGI_CHECK(n == f.count);
}

int main(void) {
  tgi_json j = tgi_json_open(vectors(__FILE__, "../../testdata/vectors/picture.json"));
  int n = 0;
  for (tgi_json_array(&j); tgi_json_item(&j); n++) {
    tgi_text c = tgi_json_raw(&j), about = tgi_json_find(c, "about"), bad = tgi_json_find(c, "bad");
    vocabulary(c);
    tgi_text refused = tgi_test_grammar(or_empty(c, "request"));
    same(refused, tgi_json_text(tgi_json_find(c, "error")), about);
    if (refused.len) continue;
    tgi_json tokens = tgi_json_open(tgi_json_find(c, "tokens")), allowed = tgi_json_open(tgi_json_find(c, "allowed"));
    tgi_json ahead = tgi_json_open(tgi_json_find(c, "forced"));
    tgi_json_array(&allowed), tgi_json_array(&ahead);
    compare(&allowed, &ahead, about);
    uint64_t before = tgi_grammar_key();
    for (tgi_json_array(&tokens); tgi_json_item(&tokens);) {
      uint32_t id = (uint32_t)tgi_json_number(&tokens);
      TGI_CHECK(tgi_grammar_accept(&id, 1) == 0);
      compare(&allowed, &ahead, about);
      TGI_CHECK(tgi_grammar_key() >= before);
    }
    TGI_CHECK(tgi_json_close(&tokens) && !tgi_json_item(&allowed) && !tgi_json_item(&ahead));
    if (bad.len) {
      tgi_json number = tgi_json_open(bad);
      uint32_t id = (uint32_t)tgi_json_number(&number);
      TGI_CHECK(tgi_grammar_accept(&id, 1) == 1);
    }
  }
  TGI_CHECK(tgi_json_close(&j) && n == 10);
  TGI_CHECK(!tgi_test_params(tgi_str("{}")).len && tgi_test_params(tgi_str("{\"n\":1}")).len);
  tgi_mask_bits m = {0, 0, 0};
  tgi_may_all(&m);
  TGI_CHECK(m.all);
  return tgi_test_done();
}

/* Native test of banned-strings: cc -fsanitize=address,undefined banned_strings_test.c && ./a.out */
#include "banned_strings.c"
#include "tgi_test_guard.h"

/* Shows the guard tokens, and checks what the client has and how many tokens are left. */
static void push(uint32_t token, uint32_t reason, uint32_t verdict, const char *shown, uint32_t left) {
  const tgi_held *h = tgi_watch_push(token, reason);
  TGI_CHECK(h && h->verdict == verdict);
  TGI_CHECK(tgi_same(tgi_watch_shown(), shown));
  TGI_CHECK(tgi_watch_tokens().count == left);
}

int main(void) {
  const char *vocab[] = {"a", " de", "lve", " x", "</s>", "lta", "d"};
  const uint32_t prompt[] = {0};
  tgi_test_vocab(vocab, 7);
  TGI_CHECK(!tgi_watch("{\"strings\": [\"delve\", \"delta\"]}", prompt, 1));
  push(0, TGI_GOES_ON, TGI_RELEASE, "a", 2);
  push(1, TGI_GOES_ON, TGI_RELEASE, "a", 3);           /* it may be the beginning */
  push(2, TGI_GOES_ON, TGI_REWIND, "a", 2);            /* it was: the token " de" goes */
  push(1, TGI_GOES_ON, TGI_RELEASE, "a", 3);
  push(5, TGI_GOES_ON, TGI_REWIND, "a", 2);            /* the other text */
  push(1, TGI_GOES_ON, TGI_RELEASE, "a", 3);
  push(3, TGI_GOES_ON, TGI_RELEASE, "a de x", 4);      /* neither */
  push(6, TGI_GOES_ON, TGI_RELEASE, "a de x", 5);
  push(4, TGI_ENDS_MODEL, TGI_RELEASE, "a de xd", 6);  /* nothing more comes */
  TGI_CHECK(!tgi_watch("{\"strings\": [\"d de?\", \" delve\"]}", prompt, 1));
  push(6, TGI_GOES_ON, TGI_RELEASE, "", 2);
  push(1, TGI_GOES_ON, TGI_RELEASE, "", 3);
  push(2, TGI_GOES_ON, TGI_REWIND, "", 2);             /* it begins where the first of the held tokens ends */
  TGI_CHECK(!tgi_watch("{}", prompt, 1));
  push(1, TGI_GOES_ON, TGI_RELEASE, " de", 2);
  push(2, TGI_GOES_ON, TGI_RELEASE, " delve", 3);
  TGI_CHECK(tgi_watch("{\"strings\": [\"\"]}", 0, 0) && tgi_watch("{\"strings\": [7]}", 0, 0));
  TGI_CHECK(tgi_watch("{\"ban\": []}", 0, 0) && tgi_watch("{", 0, 0));
  TGI_CHECK(tgi_test_params(tgi_str("{\"strings\": [\"\"]}")).len && !tgi_test_params(tgi_str("{}")).len);
  return tgi_test_done();
}

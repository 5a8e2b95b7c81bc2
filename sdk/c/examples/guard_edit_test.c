/* A guard that says its edits: the client gets other words instead of some bytes, and the rest as it is. */
#include "tgi_guard.h"

TGI_PLUGIN("{\"name\":\"no-x\",\"version\":\"1.0.0\",\"kinds\":[\"guard\"],\"guard\":{\"hold\":1,\"verdicts\":[\"replace\"]}}",
           TGI_NO_INIT)

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  (void)params, (void)prompt;
  return TGI_OK;
}

static tgi_error check(tgi_held *h) {
  static tgi_edit edits[64];
  uint32_t n = 0;
  for (uint32_t i = h->context; i < h->text_len && n < 64; i++)
    if (h->text[i] == 'x') edits[n] = (tgi_edit){i, i + 1, "<>", n % 3 ? 2 : 0}, n++;
  for (uint32_t i = h->context; i < h->text_len; i++) /* which the server refuses */
    if (h->text[i] == '!') edits[n] = (tgi_edit){i, i + 2, "", 0}, n++;
    else if (h->text[i] == '#') edits[n] = (tgi_edit){i, i + 1, "\xed\xa0\x80", 3}, n++;
    else if (h->text[i] == '&') edits[n] = (tgi_edit){i, i + 1, "\xf0\x9f\xa6\x8a\xc3\xa9", 6}, n++;
    else if (h->text[i] == '@') return tgi_rewind(h, h->token_count, 0, 0), TGI_OK;
    else if (h->text[i] == '%') return tgi_insert(h, h->token_count + 1, tgi_str("x")), TGI_OK;
  if (n) tgi_guard_edit(h, h->token_count, edits, n);
  return TGI_OK;
}
TGI_GUARD(begin, check)

#include "tgi_test_guard.h"

int main(void) {
  const char *vocab[] = {"a", "x", "bxxcx", "!", "!\xc3\xa9", "#", "@", "%", "!?", "&", "</s>"};
  tgi_test_vocab(vocab, 11);
  TGI_CHECK(!tgi_watch("{}", 0, 0));
  TGI_CHECK(tgi_watch_push(0, TGI_GOES_ON)->verdict == TGI_RELEASE);
  const tgi_held *h = tgi_watch_push(2, TGI_GOES_ON);
  TGI_CHECK(h->verdict == TGI_REPLACE && h->flags == TGI_FLAG_EDITS && h->out_count == 3);
  TGI_CHECK(tgi_same(tgi_watch_shown(), "ab<>c<>"));
  TGI_CHECK(tgi_watch_push(0, TGI_GOES_ON)->flags == 0);
  TGI_CHECK(tgi_watch_push(1, TGI_GOES_ON)->out_count == 1);
  TGI_CHECK(tgi_same(tgi_watch_shown(), "ab<>c<>a"));
  for (uint32_t token = 3; token < 8; token++) { /* bytes beyond the text, inside a character, no UTF-8, positions */
    TGI_CHECK(!tgi_watch("{}", 0, 0));
    TGI_CHECK(!tgi_watch_push(token, TGI_GOES_ON));
  }
  TGI_CHECK(!tgi_watch("{}", 0, 0));
  TGI_CHECK(tgi_watch_push(8, TGI_GOES_ON) && tgi_watch_push(9, TGI_GOES_ON));
  TGI_CHECK(tgi_same(tgi_watch_shown(), "\xf0\x9f\xa6\x8a\xc3\xa9"));
  return tgi_test_done();
}

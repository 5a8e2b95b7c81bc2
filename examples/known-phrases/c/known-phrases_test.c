/* Tests known-phrases natively. */
#include "known-phrases.c"
#include "../../../sdk/c/tgi_test.h"

int main(void) {
  const char *vocab[] = {"a", "b", "c", "d", "e", "</s>"};
  tgi_test_vocab(vocab, 6);
  uint32_t to[8] = {9, 9, 9, 9, 9, 9, 9, 9};
  TGI_CHECK(begin(tgi_str("{\"phrases\": [1]}"), (tgi_tokens){0, 0}).len);
  TGI_CHECK(begin(tgi_str("{\"phrase\": []}"), (tgi_tokens){0, 0}).len);
  TGI_CHECK(!begin(tgi_str("{\"phrases\": [\"abcde\", \"bbca\"]}"), (tgi_tokens){0, 0}).len);
  uint32_t text[] = {4, 0, 1, 2};
  TGI_CHECK(tgi_draft_propose(text, 4, 4, to, 8) == 2 && to[0] == 3 && to[1] == 4 && to[2] == 9);
  TGI_CHECK(tgi_draft_propose(text, 4, 4, to, 1) == 1);
  uint32_t other[] = {1, 1, 2};
  TGI_CHECK(tgi_draft_propose(other, 3, 3, to, 8) == 1 && to[0] == 0);
  uint32_t none[] = {2, 2};
  TGI_CHECK(tgi_draft_propose(none, 2, 2, to, 8) == 0);
  return tgi_test_done();
}

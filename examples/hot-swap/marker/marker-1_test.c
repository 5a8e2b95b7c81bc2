/* cc -fsanitize=address,undefined marker-1_test.c -lm && ./a.out */
#include "marker-1.c"
#include "../../../sdk/c/tgi_test.h"

static const char *const vocab[] = {"<", "1", ">", " a", "</s>", "<1"};

int main(void) {
  uint32_t tokens[] = {3, 5, 2, 3, 3, 5, 2};
  const uint32_t *out;
  tgi_test_vocab(vocab, 6);
  TGI_CHECK(!tgi_init("{}", 2));
  TGI_CHECK(!strcmp(tgi_test_begin("{\"token\":1}", 0, 0), "unknown parameter, want tokens"));
  TGI_CHECK(!strcmp(tgi_test_begin("{\"tokens\":-1}", 0, 0), "tokens: want a number from 0 to 1000000"));

  TGI_CHECK(!tgi_test_begin("{\"tokens\":2}", tokens, 1));
  tgi_step *s = tgi_test_step(tokens, 1);
  TGI_CHECK(s->force_count == 2 && s->force[0] == 5 && s->force[1] == 2);
  for (uint32_t n = 3; n < 5; n++) {
    s = tgi_test_step(tokens, n);
    out = s->out;
    TGI_CHECK(s->mode == TGI_DENY && s->out_count == 1 && out[0] == 4 && !s->force_count && !s->flags);
  }
  TGI_CHECK(tgi_test_step(tokens, 5)->force_count == 2);
  TGI_CHECK(tgi_test_step(tokens, 7)->flags == TGI_FLAG_STOP);
  return tgi_test_done();
}

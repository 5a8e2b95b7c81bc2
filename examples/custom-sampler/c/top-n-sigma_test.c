/* cc -fsanitize=address,undefined top-n-sigma_test.c -lm && ./a.out */
#include "top-n-sigma.c"
#include "../../../sdk/c/tgi_test.h"

static void check_error(const char *params, const char *want) {
  const char *got = tgi_test_begin(params, 0, 0);
  TGI_CHECK(got && !strcmp(got, want));
}

/* The logits lie one standard deviation above and below their mean, so the
 * lower two are two deviations away from the best. */
static void check_shares(const char *params, const double want[4]) {
  float high = logf(0.4f), low = logf(0.1f);
  const tgi_candidate c[] = {{0, high, high}, {1, high, high}, {2, low, low}, {3, low, low}};
  double share[4] = {0};
  TGI_CHECK(!tgi_test_begin(params, 0, 0));
  for (int i = 0; i < 10000; i++) share[tgi_test_sample(c, 4)] += 1e-4;
  for (int i = 0; i < 4; i++) TGI_CHECK(fabs(share[i] - want[i]) < 0.02 && (want[i] > 0 || share[i] == 0));
}

int main(void) {
  check_error("{\"n\":0}", "n: want a number above 0, at most 100");
  check_error("{\"n\":1e400}", "n: want a number above 0, at most 100");
  check_error("{\"n\":\"1\"}", "want a JSON number for n");
  check_error("{\"sigma\":1}", "unknown parameter: sigma");
  check_error("{", "JSON ends too early");
  check_shares("{}", (double[]){0.5, 0.5, 0, 0});
  check_shares("{\"n\":1.9}", (double[]){0.5, 0.5, 0, 0});
  check_shares("{\"n\":2.1}", (double[]){0.4, 0.4, 0.1, 0.1});
  return tgi_test_done();
}

/* top-n-sigma: a sampler. It keeps the candidates whose logit lies within "n"
 * (default 1) standard deviations of the greatest, and draws one of them by its
 * probability (Tang et al. 2024, arXiv:2411.07641).
 */
#include "../../../sdk/c/tgi.h"
#include "../../../sdk/c/tgi_json.h"
#include "../../../sdk/c/tgi_math.h"

static double deviations;

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  (void)prompt;
  deviations = 1;
  tgi_json j = tgi_json_open(params);
  tgi_text key;
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    if (!tgi_same(key, "n")) {
      tgi_buf b = {0};
      return tgi_fail_buf(tgi_put(tgi_puts(&b, "unknown parameter: "), key));
    }
    deviations = tgi_json_number(&j);
    if (deviations <= 0 || deviations > 100) tgi_json_fail(&j, "n: want a number above 0, at most 100");
  }
  return tgi_json_close(&j) ? TGI_OK : tgi_fail(j.error);
}

static double square(double x) { return x * x; }

/* The square of the logits' standard deviation. */
static double variance(const tgi_candidate *c, uint32_t n) {
  double mean = 0, sum = 0;
  for (uint32_t i = 0; i < n; i++) mean += (double)c[i].logit / n;
  for (uint32_t i = 0; i < n; i++) sum += square(c[i].logit - mean);
  return sum / n;
}

static int32_t sample(const tgi_candidate *c, uint32_t n) {
  double reach = deviations * deviations * variance(c, n), total = 0;
  uint32_t kept = 0;
  for (; kept < n && square(c[0].logit - c[kept].logit) <= reach; kept++) total += tgi_exp(c[kept].logprob);
  double left = tgi_rand_float() * total;
  for (uint32_t i = 0; i < kept; i++)
    if ((left -= tgi_exp(c[i].logprob)) < 0) return (int32_t)i;
  return (int32_t)kept - 1;
}

TGI_PLUGIN("{\"name\":\"top-n-sigma\",\"version\":\"1.0.0\",\"kinds\":[\"sampler\"],\"candidates\":1024,"
           "\"doc\":\"Draws among the tokens within n standard deviations of the best logit.\","
           "\"params\":{\"type\":\"object\",\"additionalProperties\":false,"
           "\"properties\":{\"n\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":100}}}}",
           TGI_NO_INIT)
TGI_SAMPLER(begin, sample)

/* epsilon-greedy: a sampler. It chooses the most likely token, or, with
 * probability "epsilon" (default 0.1), one of the tokens whose log-probability is
 * within "margin" (default 2) of it, uniformly.
 */
#include "tgi.h"
#include "tgi_json.h"

static double epsilon, margin;

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  (void)prompt;
  epsilon = 0.1, margin = 2;
  tgi_json j = tgi_json_open(params);
  tgi_text key;
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    if (tgi_same(key, "epsilon")) epsilon = tgi_json_number(&j);
    else if (tgi_same(key, "margin")) margin = tgi_json_number(&j);
    else {
      tgi_buf b = {0};
      return tgi_fail_buf(tgi_put(tgi_puts(&b, "unknown parameter: "), key));
    }
  }
  if (!tgi_json_close(&j)) return tgi_fail(j.error);
  if (!(epsilon >= 0 && epsilon <= 1)) return tgi_fail("epsilon: want a number from 0 to 1");
  if (!(margin >= 0)) return tgi_fail("margin: want a number from 0 up");
  return TGI_OK;
}

static int32_t sample(const tgi_candidate *c, uint32_t n) {
  if (tgi_rand_float() >= epsilon) return 0;
  uint32_t near = 1;
  while (near < n && (double)c[0].logprob - (double)c[near].logprob <= margin) near++;
  return (int32_t)((tgi_rand() >> 32) * near >> 32);
}

TGI_PLUGIN("{\"name\":\"epsilon-greedy\",\"version\":\"1.0.0\",\"kinds\":[\"sampler\"],\"candidates\":256,"
           "\"doc\":\"The most likely token, or now and then one of those near it.\","
           "\"params\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
           "\"epsilon\":{\"type\":\"number\",\"minimum\":0,\"maximum\":1},\"margin\":{\"type\":\"number\",\"minimum\":0}}}}",
           TGI_NO_INIT)
TGI_SAMPLER(begin, sample)

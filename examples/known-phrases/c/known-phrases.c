/* known-phrases: a draft. It guesses that a text goes on as one of the phrases of the request does, where its last
 * tokens stand in the phrase: "phrases" is an array of texts, such as answers that are on file. */
#include "../../../sdk/c/tgi.h"
#include "../../../sdk/c/tgi_json.h"

enum { MOST_PHRASES = 64, MOST_TOKENS = 8192, LEAST = 2, LONGEST = 8 };

static uint32_t ids[MOST_TOKENS];
static uint32_t ends[MOST_PHRASES];
static uint32_t phrases;

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  (void)prompt;
  phrases = 0;
  uint32_t used = 0;
  tgi_json j = tgi_json_open(params);
  tgi_text key;
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    if (!tgi_same(key, "phrases")) {
      tgi_buf b = {0};
      return tgi_fail_buf(tgi_put(tgi_puts(&b, "unknown parameter: "), key));
    }
    for (tgi_json_array(&j); tgi_json_item(&j);) {
      tgi_text t = tgi_json_string(&j);
      if (phrases == MOST_PHRASES) return tgi_fail("phrases: want at most 64");
      int32_t n = tgi_encode(t.ptr, t.len, ids + used, MOST_TOKENS - used);
      if (n < 0 || (uint32_t)n > MOST_TOKENS - used) return tgi_fail("phrases: want at most 8192 tokens in all");
      used += (uint32_t)n;
      ends[phrases++] = used;
    }
  }
  return tgi_json_close(&j) ? TGI_OK : tgi_fail(j.error);
}

/* same returns how many tokens before the ends of a and b are equal, at most LONGEST. */
static uint32_t same(const uint32_t *a, uint32_t a_len, const uint32_t *b, uint32_t b_len) {
  uint32_t n = 0;
  while (n < LONGEST && n < a_len && n < b_len && a[a_len - 1 - n] == b[b_len - 1 - n]) n++;
  return n;
}

static int32_t propose(tgi_tokens tokens, uint32_t fresh, uint32_t *to, uint32_t room) {
  (void)fresh;
  uint32_t best = LEAST - 1, from = 0, until = 0;
  for (uint32_t p = 0, start = 0; p < phrases; start = ends[p++]) {
    for (uint32_t at = start + LEAST; at < ends[p]; at++) {
      uint32_t n = same(tokens.ids, tokens.count, ids + start, at - start);
      if (n > best) best = n, from = at, until = ends[p];
    }
  }
  uint32_t n = 0;
  for (; n < room && from + n < until; n++) to[n] = ids[from + n];
  return (int32_t)n;
}

TGI_PLUGIN("{\"name\":\"known-phrases\",\"version\":\"1.0.0\",\"kinds\":[\"draft\"],"
           "\"doc\":\"Guesses that a text goes on as one of the given phrases.\","
           "\"params\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
           "\"phrases\":{\"type\":\"array\",\"maxItems\":64,\"items\":{\"type\":\"string\"}}}}}",
           TGI_NO_INIT)
TGI_DRAFT(begin, propose)

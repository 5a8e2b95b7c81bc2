/* marker: every text begins and ends with MARK, which tells the version of the
 * plugin that made it. Between the two come "tokens" (default 4) of the model.
 */
#include "../../../sdk/c/tgi.h"
#include "../../../sdk/c/tgi_json.h"

enum { MOST = 64 };

/* Set once, before the server's snapshot. */
static uint32_t mark[MOST], mark_count;
static uint32_t ends[MOST], end_count; /* tokens that would end the text too early */

static double between;

static tgi_error init(tgi_text config) {
  (void)config;
  int32_t n = tgi_encode(MARK, tgi_strlen(MARK), mark, MOST);
  if (n < 1 || n > MOST) return tgi_fail("the mark is not a text of 1 to 64 tokens");
  mark_count = (uint32_t)n;
  for (uint32_t id = 0; id < tgi_vocab_size() && end_count < MOST; id++) {
    int32_t flags = tgi_token_flags(id);
    if (flags > 0 && flags & TGI_TOKEN_END) ends[end_count++] = id;
  }
  return TGI_OK;
}

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  (void)prompt;
  between = 4;
  tgi_json j = tgi_json_open(params);
  tgi_text key;
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    if (!tgi_same(key, "tokens")) tgi_json_fail(&j, "unknown parameter, want tokens");
    between = tgi_json_number(&j);
  }
  if (!(between >= 0 && between <= 1e6)) tgi_json_fail(&j, "tokens: want a number from 0 to 1000000");
  return tgi_json_close(&j) ? TGI_OK : tgi_fail(j.error);
}

static tgi_error process(tgi_step *s) {
  uint32_t written = s->token_count - s->prompt_count;
  if (written == 0) tgi_force(s, mark, mark_count);
  else if (written < mark_count + (uint32_t)between) tgi_deny(s, ends, end_count);
  else if (written == mark_count + (uint32_t)between) tgi_force(s, mark, mark_count);
  else tgi_stop(s);
  return TGI_OK;
}

TGI_PLUGIN("{\"name\":\"marker\",\"version\":\"" VERSION "\",\"kinds\":[\"logits\"],\"modes\":[\"deny\",\"force\",\"stop\"],"
           "\"doc\":\"Begins and ends every text with a mark.\"}", init)
TGI_LOGITS(begin, process)

/* rules: a guard that keeps a string from clients, in the way that its configuration or parameters name, for the tests
 * of guards; script.c has the command that builds it.
 *
 *   string  what it looks for, nothing if it is empty; with: what it inserts
 *   do      "insert": goes on with other words; "weaken": takes it back with a bias that leaves it possible, twice, and
 *           then inserts; "stop": ends the text in front of it */
#include "tgi_guard.h"
#include "tgi_json.h"

static tgi_text string, with, way;
static uint32_t weakened;
static tgi_entry bias;

static tgi_error init(tgi_text settings) {
  tgi_json j = tgi_json_open(settings);
  tgi_text key;
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    if (tgi_same(key, "string")) string = tgi_keep(tgi_json_string(&j));
    else if (tgi_same(key, "with")) with = tgi_keep(tgi_json_string(&j));
    else if (tgi_same(key, "do")) way = tgi_keep(tgi_json_string(&j));
    else return tgi_fail("no such member");
  }
  return tgi_json_close(&j) ? TGI_OK : tgi_fail(j.error);
}

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  (void)prompt;
  weakened = 0;
  return init(params);
}

static tgi_error check(tgi_held *h) {
  tgi_text text = {h->text, h->text_len};
  for (uint32_t i = h->context; string.len && i < text.len; i++) {
    tgi_text rest = {text.ptr + i, text.len - i};
    uint32_t at = tgi_token_at(h, i);
    if (tgi_starts(rest, string)) {
      if (tgi_same(way, "stop")) tgi_guard_stop(h, at, tgi_str("a secret"));
      else if (tgi_same(way, "weaken") && weakened++ % 3 < 2) {
        bias = (tgi_entry){h->tokens[at], -1};
        tgi_rewind(h, at, &bias, 1);
      } else tgi_insert(h, at, with);
      return TGI_OK;
    }
    if (tgi_starts(string, rest) && h->reason == TGI_GOES_ON) return tgi_release(h, at), TGI_OK;
  }
  return TGI_OK;
}

TGI_PLUGIN("{\"name\":\"rules\",\"version\":\"1.0.0\",\"kinds\":[\"guard\"],\"revision\":2,\"config\":true,"
           "\"guard\":{\"hold\":64,\"verdicts\":[\"rewind\",\"insert\",\"stop\"]},"
           "\"doc\":\"Keeps a string from clients.\",\"params\":{\"type\":\"object\"}}", init)
TGI_GUARD(begin, check)

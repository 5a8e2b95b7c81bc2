/* banned-strings takes the texts of its parameter "strings" back before a client sees them, and has the model go
 * another way: {"strings": ["delve", "as an AI"]}. A text is taken back with the token it begins in. */
#include "tgi_guard.h"
#include "tgi_json.h"

enum { MOST = 16 };
static tgi_text banned[MOST];
static uint32_t count;

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  tgi_json j = tgi_json_open(params);
  tgi_text key;
  (void)prompt;
  count = 0;
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    if (!tgi_same(key, "strings")) return tgi_fail("unknown parameter, want strings");
    for (tgi_json_array(&j); tgi_json_item(&j);) {
      if (count == MOST) return tgi_fail("strings: want at most 16");
      tgi_text t = tgi_json_string(&j);
      if (!j.error && (!t.len || t.len > 100)) return tgi_fail("strings: want 1 to 100 bytes each");
      banned[count++] = tgi_keep(t);
    }
  }
  return tgi_json_close(&j) ? TGI_OK : tgi_fail(j.error);
}

/* Whether one of the texts is at byte i, or, if cut is set, could be once more text has come. */
static int is_at(tgi_text text, uint32_t i, int cut) {
  tgi_text rest = {text.ptr + i, text.len - i};
  for (uint32_t b = 0; b < count; b++)
    if (tgi_starts(rest, banned[b]) || (cut && tgi_starts(banned[b], rest))) return 1;
  return 0;
}

static tgi_error check(tgi_held *h) {
  tgi_text text = {h->text, h->text_len};
  for (uint32_t i = h->context; i < text.len; i++)
    if (is_at(text, i, 0)) return tgi_rewind(h, tgi_token_at(h, i), 0, 0), TGI_OK;
  if (h->reason != TGI_GOES_ON) return TGI_OK; /* no more can come: all of it goes out */
  uint32_t i = h->context;
  while (i < text.len && !is_at(text, i, 1)) i++;
  if (i < text.len) tgi_release(h, tgi_token_at(h, i));
  return TGI_OK;
}

TGI_PLUGIN("{\"name\":\"banned-strings\",\"version\":\"1.0.0\",\"kinds\":[\"guard\"],\"revision\":2,"
           "\"guard\":{\"hold\":100,\"verdicts\":[\"rewind\"]},\"doc\":\"Takes texts back and has the model go another way.\","
           "\"params\":{\"type\":\"object\",\"properties\":{\"strings\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}}}", TGI_NO_INIT)
TGI_GUARD(begin, check)

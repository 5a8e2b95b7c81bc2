/* Native test of plain-chat: cc -fsanitize=address,undefined plain_chat_test.c && ./a.out */
#include "plain_chat.c"
#include "tgi_test.h"
#include "vectors.h"

/* The text wanted, and its data: the elements of "out" that are arrays. */
static void compare(tgi_text c, const tgi_rendered *r) {
  tgi_string text = {0}, spans = {0};
  tgi_json j = tgi_json_open(tgi_json_find(c, "out"));
  for (tgi_json_array(&j); tgi_json_item(&j);) {
    tgi_text p = tgi_json_raw(&j);
    int data = *p.ptr == '[';
    tgi_text s = tgi_json_text(data ? (tgi_text){p.ptr + 1, p.len - 2} : p);
    tgi_span span = {text.len, text.len + s.len};
    tgi_append(&text, s);
    if (data) tgi_append(&spans, (tgi_text){(const char *)&span, sizeof span});
  }
  TGI_CHECK(!j.error && r->status == 0);
  same(r->text, tgi_whole(&text), tgi_json_find(c, "about"));
  TGI_CHECK(tgi_equal((tgi_text){(const char *)r->spans, r->span_count * (uint32_t)sizeof(tgi_span)}, tgi_whole(&spans)));
}

int main(void) {
  tgi_json j = tgi_json_open(vectors(__FILE__, "../../testdata/vectors/plain-chat.json"));
  int n = 0;
  for (tgi_json_array(&j); tgi_json_item(&j); n++) {
    tgi_text c = tgi_json_raw(&j), request = tgi_json_find(c, "request"), want = tgi_json_text(tgi_json_find(c, "error"));
    TGI_CHECK(!init(or_empty(c, "config")).len);
    tgi_text refused = tgi_test_params(or_empty(request, "params"));
    const tgi_rendered *r = refused.len ? 0 : tgi_test_render(request);
    if (r && r->status == 0) compare(c, r);
    same(refused.len ? refused : r->status ? r->text : tgi_str(""), want, tgi_json_find(c, "about"));
  }
  TGI_CHECK(tgi_json_close(&j) && n > 10);
  return tgi_test_done();
}

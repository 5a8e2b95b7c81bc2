/* Native test of call-lines: cc -fsanitize=address,undefined call_lines_test.c && ./a.out */
#include "call_lines.c"
#include "tgi_test.h"
#include "vectors.h"

static tgi_string told;   /* events as the vectors write them, joined by NUL */
static uint32_t last[2];  /* kind and index of the event that was written last */

/* Writes events; those that say together what one would say are joined. */
static void take(const tgi_events *e) {
  static const char *const names[] = {"content", "reasoning", "begin", "arguments", "end", "failed"};
  for (uint32_t i = 0; i < tgi_event_count(e); i++) {
    const tgi_event *v = tgi_event_at(e, i);
    int joins = told.len && v->kind == last[0] && v->index == last[1] && (v->kind <= TGI_REASONING || v->kind == TGI_ARGUMENTS);
    char head[64];
    int n = snprintf(head, sizeof head, "%s%s", told.len ? "|" : "", names[v->kind]);
    if (v->kind >= TGI_BEGIN && v->index == TGI_NO_CALL) n += snprintf(head + n, sizeof head - (size_t)n, " -");
    else if (v->kind >= TGI_BEGIN) n += snprintf(head + n, sizeof head - (size_t)n, " %u", v->index);
    if (v->kind == TGI_FAILED) n += snprintf(head + n, sizeof head - (size_t)n, " %u", v->reason);
    if (v->kind != TGI_END) n += snprintf(head + n, sizeof head - (size_t)n, " ");
    if (!joins) tgi_append(&told, (tgi_text){head, (uint32_t)n});
    tgi_append(&told, v->kind == TGI_BEGIN ? v->name : v->text);
    TGI_CHECK(v->id.len == (v->kind == TGI_BEGIN ? 29 : 0));
    last[0] = v->kind, last[1] = v->index;
  }
}

/* Feeds a text whole, or character by character. */
static void text_of(tgi_text list, int single) {
  tgi_json j = tgi_json_open(list);
  for (tgi_json_array(&j); tgi_json_item(&j);) {
    tgi_text p = tgi_json_raw(&j);
    int special = *p.ptr == '[';
    tgi_text s = tgi_json_text(special ? (tgi_text){p.ptr + 1, p.len - 2} : p);
    for (uint32_t at = 0, n; at < s.len; at += n) {
      for (n = 1; at + n < s.len && (!single || special || (s.ptr[at + n] & 0xc0) == 0x80);) n++;
      char *piece = malloc(n); /* the room of a piece is used again */
      memcpy(piece, s.ptr + at, n);
      take(tgi_test_feed((tgi_text){piece, n}, special));
      memset(piece, '#', n);
      free(piece);
    }
  }
}

static void events_wanted(tgi_text list, tgi_string *to) {
  tgi_json j = tgi_json_open(list);
  for (tgi_json_array(&j); tgi_json_item(&j);) {
    if (to->len) tgi_append(to, tgi_str("|"));
    tgi_append(to, tgi_json_string(&j));
  }
}

int main(void) {
  tgi_json j = tgi_json_open(vectors(__FILE__, "../../testdata/vectors/call-lines.json"));
  int n = 0;
  for (tgi_json_array(&j); tgi_json_item(&j); n++) {
    tgi_text c = tgi_json_raw(&j), request = tgi_json_find(c, "request"), about = tgi_json_find(c, "about");
    tgi_text fault = init(or_empty(c, "config"));
    if (!fault.len) fault = tgi_test_params(or_empty(request, "params"));
    same(fault, tgi_json_text(tgi_json_find(c, "error")), about);
    for (int single = 0; !fault.len && single < 2; single++) {
      tgi_string want = {0};
      told = (tgi_string){0};
      TGI_CHECK(!tgi_tools_begin(request.ptr, request.len));
      text_of(tgi_json_find(c, "text"), single);
      take(tgi_test_finish(tgi_same(tgi_json_find(c, "cut"), "true")));
      events_wanted(tgi_json_find(c, "events"), &want);
      same(tgi_whole(&told), tgi_whole(&want), about);
    }
  }
  TGI_CHECK(tgi_json_close(&j) && n > 10);
  return tgi_test_done();
}

/* call-lines: a parser of tool calls in an invented format. A line
 * `CALL name(json)` is a call; everything else is content. The setting "word"
 * replaces the word CALL.
 */
#include "tgi.h"
#include "tgi_json.h"

enum { LONGEST = 4096 }; /* longest line of a call, in bytes */

static tgi_string word;       /* the word and a space */
static tgi_text tools;        /* JSON of the tools in the request; empty: calls are not allowed */
static tgi_text demanded;     /* the one tool that may be called */
static int demands, parallel; /* a call is required; more than one is allowed */
static tgi_string held;       /* the line so far, if it is a call or can become one */
static int text;              /* the line is content */

static tgi_error init(tgi_text config) {
  tgi_text w = tgi_str("CALL"), key;
  tgi_json j = tgi_json_open(config);
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    tgi_buf b = {0};
    tgi_text value = tgi_json_raw(&j);
    if (tgi_same(key, "model")) continue;
    if (!tgi_same(key, "word")) return tgi_fail_buf(tgi_put(tgi_puts(&b, "unknown setting: "), key));
    w = tgi_json_text(value);
    int bad = w.len < 1 || w.len > 16;
    for (uint32_t i = 0; i < w.len; i++) bad |= w.ptr[i] < 'A' || w.ptr[i] > 'Z';
    if (bad) return tgi_fail("word: want 1 to 16 capital letters");
  }
  word.len = 0;
  return tgi_append(&word, w) && tgi_append(&word, tgi_str(" ")) ? TGI_OK : tgi_fail("out of memory");
}

static tgi_error begin(tgi_text request) {
  tgi_text choice = tgi_json_find(request, "tool_choice");
  held.len = 0, text = 0;
  tools = tgi_keep(tgi_json_find(request, "tools")); /* the request is valid only during this call */
  if (tgi_same(choice, "\"none\"") || tgi_same(tools, "[]")) tools.len = 0;
  demanded = tgi_json_text(tgi_json_find(choice, "name"));
  demands = choice.len && !tgi_same(choice, "\"auto\"");
  parallel = !tgi_same(tgi_json_find(request, "parallel_tool_calls"), "false");
  return TGI_OK;
}

/* Whether the request allows a call of this tool. */
static int allowed(tgi_text name) {
  if (demanded.len && !tgi_equal(name, demanded)) return 0;
  tgi_json j = tgi_json_open(tools);
  for (tgi_json_array(&j); tgi_json_item(&j);)
    if (tgi_equal(name, tgi_json_text(tgi_json_find(tgi_json_find(tgi_json_raw(&j), "function"), "name")))) return 1;
  return 0;
}

static int is_name(tgi_text s) {
  for (uint32_t i = 0; i < s.len; i++) {
    char c = s.ptr[i];
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-')) return 0;
  }
  return s.len >= 1 && s.len <= 64;
}

/* Parses `name(json)`. Returns the reason of a failure, or -1. */
static int call(tgi_text s, tgi_text *name, tgi_text *arguments) {
  uint32_t open = 0;
  while (s.len && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t' || s.ptr[s.len - 1] == '\r')) s.len--;
  while (open < s.len && s.ptr[open] != '(') open++;
  if (open + 1 >= s.len || s.ptr[s.len - 1] != ')') return TGI_MALFORMED;
  *name = (tgi_text){s.ptr, open};
  *arguments = (tgi_text){s.ptr + open + 1, s.len - open - 2};
  if (!is_name(*name) || !tgi_json_is_object(*arguments)) return TGI_MALFORMED;
  return allowed(*name) ? -1 : TGI_UNKNOWN;
}

/* Parses the held line. end is the text that ended it. */
static void line(const char *end, tgi_events *e) {
  tgi_text l = tgi_whole(&held), name, arguments;
  held = (tgi_string){0}; /* events still point to the old text */
  if (tgi_starts(l, tgi_whole(&word))) {
    int wrong = call((tgi_text){l.ptr + word.len, l.len - word.len}, &name, &arguments);
    if (wrong < 0 && l.len > LONGEST) wrong = TGI_TOO_LONG;
    if (wrong < 0 && !parallel && e->calls) {
      tgi_call_failed(e, TGI_TOO_MANY, l);
      return;
    }
    if (wrong < 0) {
      tgi_call_begin(e, name, tgi_call_id());
      tgi_call_arguments(e, arguments);
      tgi_call_end(e);
      return;
    }
    if (demands) {
      tgi_call_failed(e, (uint32_t)wrong, l);
      return;
    }
  }
  tgi_content(e, l);
  tgi_content(e, tgi_str(end));
}

/* Reads a part of a line, without its end. */
static void part(tgi_text p, tgi_events *e) {
  if (text) {
    tgi_content(e, p);
    return;
  }
  if (!tgi_append(&held, p)) __builtin_trap();
  tgi_text l = tgi_whole(&held), w = tgi_whole(&word);
  if (tgi_starts(l, w) || tgi_starts(w, l)) return;
  text = 1;
  held = (tgi_string){0};
  tgi_content(e, l);
}

static void feed(tgi_text piece, int special, tgi_events *e) {
  if (special) return;
  if (!tools.len) {
    tgi_content(e, piece);
    return;
  }
  for (uint32_t from = 0, to; from < piece.len; from = to + 1) {
    for (to = from; to < piece.len && piece.ptr[to] != '\n';) to++;
    part((tgi_text){piece.ptr + from, to - from}, e);
    if (to == piece.len) return;
    if (text) tgi_content(e, tgi_str("\n"));
    else line("\n", e);
    text = 0;
  }
}

static void finish(int cut, tgi_events *e) {
  if (cut && tgi_starts(tgi_whole(&held), tgi_whole(&word))) tgi_call_failed(e, TGI_INCOMPLETE, tgi_whole(&held));
  else line("", e);
}

TGI_PLUGIN("{\"name\":\"call-lines\",\"version\":\"1.0.0\",\"config\":true,\"kinds\":[\"tools\"],"
           "\"doc\":\"Tool calls of the form CALL name(json), each on a line of its own.\"}", init)
TGI_TOOLS(TGI_NO_PARAMS, begin, feed, finish)

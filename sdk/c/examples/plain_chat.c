/* plain-chat: a chat template for models without markup. Each message is a
 * line such as "user: ...". Text of clients is written as data. The parameter
 * "user" replaces the name "user" in these lines.
 */
#include "tgi.h"
#include "tgi_json.h"

static tgi_text bos; /* text of the model's first token */

static tgi_error init(tgi_text config) {
  bos = tgi_json_text(tgi_json_find(tgi_json_find(tgi_json_find(config, "model"), "tokens"), "bos_token"));
  return TGI_OK;
}

static tgi_error validate(tgi_text params) {
  tgi_json j = tgi_json_open(params);
  tgi_text key;
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    tgi_buf b = {0};
    if (!tgi_same(key, "user")) return tgi_fail_buf(tgi_put(tgi_puts(&b, "unknown parameter: "), key));
    uint32_t n = tgi_json_text(tgi_json_raw(&j)).len;
    if (n < 1 || n > 32) return tgi_fail("user: want 1 to 32 bytes");
  }
  return tgi_json_close(&j) ? TGI_OK : tgi_fail(j.error);
}

/* Returns the error of a message that cannot be rendered. */
static tgi_error refuse(uint32_t message, const char *why, tgi_text what, const char *end) {
  tgi_buf b = {0};
  tgi_putu(tgi_puts(&b, "message "), message);
  return tgi_fail_buf(tgi_puts(tgi_put(tgi_puts(&b, why), what), end));
}

/* Writes one part of a message's content. */
static tgi_error part(tgi_text p, uint32_t message, tgi_output *out) {
  if (p.len && *p.ptr == '"') {
    tgi_data(out, tgi_json_text(p));
    return TGI_OK;
  }
  tgi_text type = tgi_json_text(tgi_json_find(p, "type"));
  if (!tgi_same(type, "text")) return refuse(message, ": only text is understood, not ", type.len ? type : tgi_str("a part without type"), "");
  tgi_data(out, tgi_json_text(tgi_json_find(p, "text")));
  return TGI_OK;
}

static tgi_error content(tgi_text c, uint32_t message, tgi_output *out) {
  if (!c.len) return TGI_OK;
  if (*c.ptr != '[') return part(c, message, out);
  tgi_json j = tgi_json_open(c);
  for (tgi_json_array(&j); tgi_json_item(&j);) {
    tgi_error e = part(tgi_json_raw(&j), message, out);
    if (e.len) return e;
  }
  return TGI_OK;
}

static tgi_error render(tgi_text request, tgi_output *out) {
  tgi_text messages = tgi_json_find(request, "messages"), tools = tgi_json_find(request, "tools");
  tgi_text user = tgi_json_text(tgi_json_find(tgi_json_find(request, "params"), "user"));
  int continues = tgi_same(tgi_json_find(request, "continue_final_message"), "true");
  if (tools.len) return tgi_fail("this template shows no tools");
  tgi_template(out, bos);
  tgi_json j = tgi_json_open(messages);
  uint32_t i = 0;
  for (tgi_json_array(&j); tgi_json_item(&j); i++) {
    /* The line of a message ends before the next message, or at the end. */
    if (i) tgi_templates(out, "\n");
    tgi_text m = tgi_json_raw(&j), role = tgi_json_text(tgi_json_find(m, "role"));
    if (tgi_same(role, "user") && user.len) tgi_data(out, user);
    else if (tgi_same(role, "system") || tgi_same(role, "user") || tgi_same(role, "assistant") || tgi_same(role, "tool")) tgi_template(out, role);
    else return refuse(i, ": unknown role \"", role, "\"");
    tgi_templates(out, ": ");
    tgi_error e = content(tgi_json_find(m, "content"), i, out);
    if (e.len) return e;
  }
  if (!tgi_json_close(&j)) return tgi_fail(j.error);
  if (i && !continues) tgi_templates(out, "\n");
  if (tgi_same(tgi_json_find(request, "add_generation_prompt"), "true")) tgi_templates(out, "assistant:");
  return TGI_OK;
}

TGI_PLUGIN("{\"name\":\"plain-chat\",\"version\":\"1.0.0\",\"kinds\":[\"template\"],"
           "\"doc\":\"A line for each message, for models without markup.\","
           "\"params\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
           "\"user\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":32}}}}", init)
TGI_TEMPLATE(validate, render)

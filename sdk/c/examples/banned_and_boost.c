/* banned-and-boost: parameters {"ban": [token...], "boost": {token: bias}, "only": [token...]}.
 *
 * A token is written as its id or its text. As a member name in boost, "#17" is
 * the token with id 17. ban denies tokens, only denies all others, boost adds a
 * bias to the logit. The plugin uses the cheapest mode that is sufficient.
 */
#include "tgi.h"
#include "tgi_json.h"

static tgi_entry *entries; /* boosts, and bans as -inf; with only: the allowed tokens and their biases */
static uint32_t entry_count;
static uint32_t *ids; /* the same without biases */
static int use_only, use_bias;

typedef struct { uint32_t *ids; uint32_t count, room; } list;

static int add(list *l, uint32_t id) {
  if (l->count == l->room) {
    uint32_t room = l->room ? l->room * 2 : 16;
    uint32_t *to = tgi_new(room * sizeof *to);
    if (!to) return 0;
    for (uint32_t i = 0; i < l->count; i++) to[i] = l->ids[i];
    l->ids = to, l->room = room;
  }
  l->ids[l->count++] = id;
  return 1;
}

static tgi_error fault(const char *field, const char *why, tgi_text what) {
  tgi_buf b = {0};
  return tgi_fail_buf(tgi_put(tgi_puts(tgi_puts(tgi_puts(&b, field), ": "), why), what));
}

static tgi_error known(const char *field, double id, uint32_t *out) {
  if (!(id >= 0 && id < tgi_vocab_size()) || id != (double)(uint32_t)id)
    return fault(field, "no such token id", tgi_str(""));
  *out = (uint32_t)id;
  return TGI_OK;
}

static tgi_error by_text(const char *field, tgi_text t, uint32_t *out) {
  int32_t n = tgi_encode(t.ptr, t.len, out, 1);
  return n == 1 ? TGI_OK : fault(field, "want the text of one token, not ", t);
}

static tgi_error tokens(tgi_json *j, const char *field, list *l) {
  for (tgi_json_array(j); tgi_json_item(j);) {
    uint32_t id = 0;
    tgi_error e;
    if (tgi_json_peek(j) == '"') {
      tgi_text t = tgi_json_string(j);
      if (j->error) break;
      e = by_text(field, t, &id);
    } else {
      double d = tgi_json_number(j);
      if (j->error) break;
      e = known(field, d, &id);
    }
    if (e.len) return e;
    if (!add(l, id)) return tgi_fail("out of memory");
  }
  return TGI_OK;
}

static tgi_error name_of(tgi_text key, uint32_t *id) {
  if (key.len < 2 || key.ptr[0] != '#') return by_text("boost", key, id);
  double d = 0;
  for (uint32_t i = 1; i < key.len; i++) {
    if (key.ptr[i] < '0' || key.ptr[i] > '9') return by_text("boost", key, id);
    d = d * 10 + (key.ptr[i] - '0');
  }
  return known("boost", d, id);
}

typedef struct { list l; float *bias; } biases;

static tgi_error boosts(tgi_json *j, biases *b) {
  tgi_text key;
  uint32_t room = 0;
  for (tgi_json_object(j); tgi_json_key(j, &key);) {
    uint32_t id = 0;
    tgi_error e = name_of(key, &id);
    if (e.len) return e;
    double v = tgi_json_number(j);
    if (j->error) break;
    if (!(v >= -100 && v <= 100)) return fault("boost", "want a bias from -100 to 100 for ", key);
    if (b->l.count == room) {
      float *to = tgi_new((room = room ? room * 2 : 16) * sizeof *to);
      if (!to) return tgi_fail("out of memory");
      for (uint32_t i = 0; i < b->l.count; i++) to[i] = b->bias[i];
      b->bias = to;
    }
    b->bias[b->l.count] = (float)v;
    if (!add(&b->l, id)) return tgi_fail("out of memory");
  }
  return TGI_OK;
}

static int has(const list *l, uint32_t id) {
  for (uint32_t i = 0; i < l->count; i++)
    if (l->ids[i] == id) return 1;
  return 0;
}

/* Computes the result that process returns at every step. */
static tgi_error plan(const list *ban, const list *only, const biases *boost) {
  use_bias = boost->l.count > 0;
  const list *base = use_only ? only : ban;
  uint32_t most = base->count + boost->l.count;
  entries = tgi_new(most * sizeof *entries);
  ids = tgi_new(most * sizeof *ids);
  if (!entries || !ids) return tgi_fail("out of memory");
  entry_count = 0;
  for (uint32_t i = 0; i < base->count; i++) {
    if (use_only && has(ban, base->ids[i])) continue;
    ids[entry_count] = base->ids[i];
    entries[entry_count++] = (tgi_entry){base->ids[i], use_only ? 0 : -__builtin_inff()};
  }
  for (uint32_t i = 0; i < boost->l.count; i++) {
    uint32_t id = boost->l.ids[i];
    if (has(ban, id) || (use_only && !has(only, id))) continue;
    ids[entry_count] = id;
    entries[entry_count++] = (tgi_entry){id, boost->bias[i]};
  }
  if (use_only && !entry_count) return tgi_fail("only: every token of it is banned");
  return TGI_OK;
}

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  (void)prompt;
  list ban = {0}, only = {0};
  biases boost = {0};
  tgi_json j = tgi_json_open(params);
  tgi_text key;
  use_only = 0;
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    tgi_error e;
    if (tgi_same(key, "ban")) e = tokens(&j, "ban", &ban);
    else if (tgi_same(key, "only")) use_only = 1, e = tokens(&j, "only", &only);
    else if (tgi_same(key, "boost")) e = boosts(&j, &boost);
    else return fault("unknown parameter", "", key);
    if (e.len) return e;
  }
  if (!tgi_json_close(&j)) return tgi_fail(j.error);
  return plan(&ban, &only, &boost);
}

static tgi_error process(tgi_step *s) {
  if (use_bias) {
    tgi_bias(s, entries, entry_count);
    if (use_only) tgi_only(s);
  } else if (use_only) {
    tgi_allow(s, ids, entry_count);
  } else if (entry_count) {
    tgi_deny(s, ids, entry_count);
  }
  return TGI_OK;
}

TGI_PLUGIN("{\"name\":\"banned-and-boost\",\"version\":\"1.0.0\",\"kinds\":[\"logits\"],"
           "\"doc\":\"Denies, requires or favours tokens.\",\"modes\":[\"allow\",\"deny\",\"sparse\"],\"needs\":[],"
           "\"params\":{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
           "\"ban\":{\"type\":\"array\",\"items\":{\"type\":[\"integer\",\"string\"]}},"
           "\"only\":{\"type\":\"array\",\"items\":{\"type\":[\"integer\",\"string\"]}},"
           "\"boost\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"number\",\"minimum\":-100,\"maximum\":100}}}}}",
           TGI_NO_INIT)
TGI_LOGITS(begin, process)

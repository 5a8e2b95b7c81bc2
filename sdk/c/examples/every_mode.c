/* every-mode: returns results in every mode, as its parameters say, and checks that
 * the host keeps to the binary interface. It is for tests of servers and SDKs.
 *
 *   mode         "pass" (default), "allow", "deny", "sparse", "bitmask", "topk", "row"
 *   ids          the tokens of the result; bias (default 1): added to their logits
 *                by sparse, topk and row; only: deny all others (sparse, topk)
 *   stop_at, fail_at, trap_at, force_at: number of an output token, from 0
 *   force        tokens that are forced at force_at
 *   temperature  of every step
 *   pick         sampler: index of the candidate; random: any candidate
 */
#include "tgi.h"
#include "tgi_json.h"

enum { MOST = 256, WORDS = 8192 };

static const char *const modes[] = {"pass", "allow", "deny", "sparse", "bitmask", "topk", "row"};

static struct {
  uint32_t mode, ids[MOST], count, force[MOST], force_count, stop_at, fail_at, trap_at, force_at, pick;
  int only, random, hot;
  float bias, temperature;
} p;
static tgi_entry entries[MOST];
static uint32_t words[WORDS];
static uint32_t seen;
static int begun_logits, begun_sampler;

static uint32_t number(tgi_json *j) {
  double d = tgi_json_number(j);
  if (!(d >= 0 && d <= 4294967295.0) || d != (double)(uint32_t)d) { tgi_json_fail(j, "want a whole number from 0 to 4294967295"); return 0; }
  return (uint32_t)d;
}

static uint32_t list(tgi_json *j, uint32_t *to) {
  uint32_t n = 0;
  for (tgi_json_array(j); tgi_json_item(j);) {
    if (n == MOST) tgi_json_fail(j, "more than 256 tokens");
    else to[n++] = number(j);
  }
  return n;
}

static uint32_t mode_named(tgi_json *j) {
  tgi_text t = tgi_json_string(j);
  for (uint32_t m = TGI_PASS; m <= TGI_ROW; m++)
    if (tgi_same(t, modes[m])) return m;
  tgi_json_fail(j, "mode: no such mode");
  return TGI_PASS;
}

static int option(tgi_json *j, tgi_text key) {
  if (tgi_same(key, "mode")) p.mode = mode_named(j);
  else if (tgi_same(key, "ids")) p.count = list(j, p.ids);
  else if (tgi_same(key, "force")) p.force_count = list(j, p.force);
  else if (tgi_same(key, "bias")) p.bias = (float)tgi_json_number(j);
  else if (tgi_same(key, "only")) p.only = tgi_json_bool(j);
  else if (tgi_same(key, "random")) p.random = tgi_json_bool(j);
  else if (tgi_same(key, "stop_at")) p.stop_at = number(j);
  else if (tgi_same(key, "fail_at")) p.fail_at = number(j);
  else if (tgi_same(key, "trap_at")) p.trap_at = number(j);
  else if (tgi_same(key, "force_at")) p.force_at = number(j);
  else if (tgi_same(key, "pick")) p.pick = number(j);
  else if (tgi_same(key, "temperature")) p.temperature = (float)tgi_json_number(j), p.hot = 1;
  else return 0;
  return 1;
}

static tgi_error read(tgi_text params) {
  tgi_text key;
  p.mode = p.count = p.force_count = p.pick = 0;
  p.only = p.random = p.hot = 0;
  p.stop_at = p.fail_at = p.trap_at = p.force_at = UINT32_MAX;
  p.bias = 1;
  tgi_json j = tgi_json_open(params);
  for (tgi_json_object(&j); tgi_json_key(&j, &key);)
    if (!option(&j, key)) {
      tgi_buf b = {0};
      return tgi_fail_buf(tgi_put(tgi_puts(&b, "unknown parameter: "), key));
    }
  if (!tgi_json_close(&j)) return tgi_fail(j.error);
  if (p.mode == TGI_BITMASK && tgi_vocab_size() > WORDS * 32) return tgi_fail("mode: the vocabulary is too large for bitmask");
  for (uint32_t i = 0; i < p.count + p.force_count; i++)
    if ((i < p.count ? p.ids[i] : p.force[i - p.count]) >= tgi_vocab_size()) return tgi_fail("no such token id");
  return TGI_OK;
}

static tgi_error begin_logits(tgi_text params, tgi_tokens prompt) {
  if (begun_logits) return tgi_fail("this memory has served another sequence");
  begun_logits = 1;
  seen = prompt.count;
  return read(params);
}

static int wanted(uint32_t id) {
  for (uint32_t i = 0; i < p.count; i++)
    if (p.ids[i] == id) return 1;
  return 0;
}

static tgi_error result(tgi_step *s) {
  uint32_t n = 0;
  switch (p.mode) {
  case TGI_ALLOW: tgi_allow(s, p.ids, p.count); break;
  case TGI_DENY: tgi_deny(s, p.ids, p.count); break;
  case TGI_SPARSE:
    for (uint32_t i = 0; i < p.count; i++) entries[i] = (tgi_entry){p.ids[i], p.bias};
    tgi_bias(s, entries, p.count);
    break;
  case TGI_BITMASK:
    for (uint32_t i = 0; i < WORDS; i++) words[i] = 0;
    for (uint32_t i = 0; i < p.count; i++) words[p.ids[i] / 32] |= 1u << p.ids[i] % 32;
    tgi_mask(s, words, (tgi_vocab_size() + 31) / 32);
    break;
  case TGI_VIEW:
    if (!s->view_count) return tgi_fail("host: the view is missing");
    for (uint32_t i = 0; i < s->view_count; i++) {
      tgi_entry e = s->view[i];
      if (wanted(e.id)) e.value += p.bias;
      else if (p.only) continue;
      s->view[n++] = e;
    }
    tgi_edit_view(s, n);
    break;
  case TGI_ROW:
    if (s->row_count != tgi_vocab_size()) return tgi_fail("host: the row is missing");
    for (uint32_t i = 0; i < p.count; i++) s->row[p.ids[i]] += p.bias;
    tgi_edit_row(s);
  }
  if (p.only && (p.mode == TGI_SPARSE || p.mode == TGI_VIEW)) tgi_only(s);
  return TGI_OK;
}

static tgi_error process(tgi_step *s) {
  if (s->token_count < s->prompt_count || s->token_count - s->new_count != seen) return tgi_fail("host: new_count does not go on from the last call");
  seen = s->token_count;
  uint32_t at = s->token_count - s->prompt_count;
  if (at == p.trap_at) __builtin_trap();
  if (at == p.fail_at) {
    tgi_buf b = {0};
    return tgi_fail_buf(tgi_putu(tgi_puts(&b, "asked to fail at "), at));
  }
  if (at == p.stop_at) tgi_stop(s);
  if (at == p.force_at) tgi_force(s, p.force, p.force_count);
  if (p.hot) s->temperature = p.temperature;
  return result(s);
}

static tgi_error begin_sampler(tgi_text params, tgi_tokens prompt) {
  (void)prompt;
  if (begun_sampler) return tgi_fail("this memory has served another sequence");
  begun_sampler = 1;
  return read(params);
}

static int32_t sample(const tgi_candidate *c, uint32_t n) {
  (void)c;
  if (p.random) return (int32_t)((tgi_rand() >> 32) * n >> 32);
  return (int32_t)(p.pick < n ? p.pick : n - 1);
}

TGI_PLUGIN("{\"name\":\"every-mode\",\"version\":\"1.0.0\",\"kinds\":[\"logits\",\"sampler\"],"
           "\"doc\":\"Does what its parameters say, for tests.\","
           "\"modes\":[\"allow\",\"deny\",\"sparse\",\"bitmask\",\"topk\",\"row\",\"stop\",\"force\",\"temperature\"],"
           "\"needs\":[\"topk:16\",\"row\"],\"candidates\":64}",
           TGI_NO_INIT)
TGI_LOGITS(begin_logits, process)
TGI_SAMPLER(begin_sampler, sample)

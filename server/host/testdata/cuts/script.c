/* script: has the model write a text that holds a secret in each of its cuts into tokens, for the tests of guards:
 *
 *   clang --target=wasm32 -std=c11 -O2 -Wall -Wextra -ffreestanding -nostdlib -fno-builtin-strlen -mbulk-memory \
 *     -msimd128 -msign-ext -mmutable-globals -mnontrapping-fptoint -Wl,--no-entry -Wl,--strip-all -Wl,--stack-first \
 *     -Wl,-z,stack-size=65536 -I ../../../../sdk/c -o script.wasm script.c
 *
 * and so for rules.c, in this folder. Its configuration has
 *
 *   parts   the token ids of the texts in front of, between and behind the places of the secret
 *   pieces  the id of each part of the secret: of the bytes i to j at i * bytes + j
 *   bytes   how many the secret has; end: the token that ends the text
 *
 * A prompt that ends in "#N" asks for cut N: the secret's byte i ends a token where bit i of N is set. Where the text
 * is another one from some token on, because a guard took tokens back, it goes on behind that place of the secret. */
#include "tgi.h"
#include "tgi_json.h"

enum { PARTS = 8, PART = 128, BYTES = 8 };
static uint32_t parts[PARTS][PART], lengths[PARTS], part_count;
static uint32_t pieces[BYTES * BYTES], bytes, end;
static uint32_t text[PARTS * (PART + BYTES)], starts[PARTS], length; /* the whole text, and where its parts begin */
static tgi_entry want;

static uint32_t ids(tgi_json *j, uint32_t *to, uint32_t room) {
  uint32_t n = 0;
  for (tgi_json_array(j); tgi_json_item(j);) {
    if (n == room) tgi_json_fail(j, "too many tokens");
    else to[n++] = (uint32_t)tgi_json_number(j);
  }
  return n;
}

static tgi_error init(tgi_text config) {
  tgi_json j = tgi_json_open(config);
  tgi_text key;
  for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
    if (tgi_same(key, "parts")) {
      for (tgi_json_array(&j); tgi_json_item(&j);) {
        if (part_count == PARTS) return tgi_fail("parts: too many");
        lengths[part_count] = ids(&j, parts[part_count], PART);
        part_count++;
      }
    } else if (tgi_same(key, "pieces")) ids(&j, pieces, BYTES * BYTES);
    else if (tgi_same(key, "bytes")) bytes = (uint32_t)tgi_json_number(&j);
    else if (tgi_same(key, "end")) end = (uint32_t)tgi_json_number(&j);
    else return tgi_fail("no such member");
  }
  if (bytes > BYTES) return tgi_fail("bytes: too many");
  return tgi_json_close(&j) ? TGI_OK : tgi_fail(j.error);
}

static void add(const uint32_t *list, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) text[length++] = list[i];
}

static void secret(uint32_t cut) {
  for (uint32_t i = 0, from = 0; i < bytes; i++)
    if (i + 1 == bytes || cut >> i & 1) {
      add(&pieces[from * bytes + i], 1);
      from = i + 1;
    }
}

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  uint32_t cut = 0;
  int asked = 0, digits = 0;
  (void)params;
  for (uint32_t i = 0; i < prompt.count; i++) {
    char b[64];
    int32_t n = tgi_token_bytes(prompt.ids[i], b, sizeof b);
    for (int32_t k = 0; k < n && k < (int32_t)sizeof b; k++) {
      if (b[k] == '#') cut = 0, asked = digits = 1;
      else if (digits && b[k] >= '0' && b[k] <= '9') cut = cut * 10 + (uint32_t)(b[k] - '0');
      else digits = 0;
    }
  }
  length = 0;
  for (uint32_t i = 0; asked && i < part_count; i++) {
    if (i) secret(cut);
    starts[i] = length;
    add(parts[i], lengths[i]);
  }
  if (asked) text[length++] = end;
  return TGI_OK;
}

static tgi_error process(tgi_step *s) {
  const uint32_t *out = s->tokens + s->prompt_count;
  uint32_t n = s->token_count - s->prompt_count, part = 0, at = 0; /* in the text, behind the first i tokens of out */
  for (uint32_t i = 0; i < n && at < length; i++) {
    while (part + 1 < part_count && starts[part + 1] <= at) part++;
    if (out[i] == text[at]) at++;
    else at = part + 1 < part_count ? starts[part + 1] : length;
  }
  if (!length) return TGI_OK;
  want = (tgi_entry){at < length ? text[at] : end, 100};
  tgi_bias(s, &want, 1);
  return TGI_OK;
}

TGI_PLUGIN("{\"name\":\"script\",\"version\":\"1.0.0\",\"kinds\":[\"logits\"],\"modes\":[\"sparse\"],"
           "\"state\":\"none\",\"config\":true,\"doc\":\"Writes a secret in each of its cuts.\"}", init)
TGI_LOGITS(begin, process)

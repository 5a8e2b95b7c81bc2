/* picture: a grammar of texts that look like its source, in which # stands for
 * a digit, @ for a small letter, and everything else for itself. It follows the
 * text itself and says at each step which tokens may come. */
#include "../tgi.h"
#include "../tgi_json.h"

enum { LONGEST = 64 };

typedef struct { uint32_t id; tgi_text bytes; } spelt;

static tgi_text picture;          /* the source */
static uint32_t at;               /* how much of it is written */
static tgi_string spelling, ends; /* tokens that fit somewhere, spelt; ids of those that end the text */

static int looks(char c, char p) {
  if (p == '#') return c >= '0' && c <= '9';
  if (p == '@') return c >= 'a' && c <= 'z';
  return c == p;
}

/* Whether bytes can stand in a place of the picture. */
static int fits(tgi_text b, uint32_t place) {
  if (!b.len || b.len > picture.len - place) return 0;
  for (uint32_t i = 0; i < b.len; i++)
    if (!looks(b.ptr[i], picture.ptr[place + i])) return 0;
  return 1;
}

static tgi_error begin(tgi_text request) {
  char bytes[LONGEST];
  at = 0, spelling = ends = (tgi_string){0};
  picture = tgi_keep(tgi_json_text(tgi_json_find(request, "source"))); /* the request does not stay */
  if (picture.len < 1 || picture.len > LONGEST) {
    tgi_buf b = {0};
    return tgi_fail_buf(tgi_puts(tgi_putu(tgi_puts(&b, "the picture has "), picture.len), " bytes, want 1 to 64"));
  }
  for (uint32_t id = 0; id < tgi_vocab_size(); id++) {
    int32_t flags = tgi_token_flags(id), n = flags ? 0 : tgi_token_bytes(id, bytes, LONGEST);
    spelt s = {id, {bytes, (uint32_t)n}};
    int full = 0;
    if (flags & TGI_TOKEN_END) full = !tgi_append(&ends, (tgi_text){(const char *)&id, sizeof id});
    for (uint32_t place = 0; n <= LONGEST && place < picture.len; place++) {
      if (!fits(s.bytes, place)) continue;
      s.bytes = tgi_keep(s.bytes);
      full = !tgi_append(&spelling, (tgi_text){(const char *)&s, sizeof s});
      break;
    }
    if (full) return tgi_fail("the vocabulary does not fit the plugin's memory");
  }
  return TGI_OK;
}

static const spelt *spelt_at(uint32_t i) { return (const spelt *)(const void *)spelling.ptr + i; }
static uint32_t spelt_count(void) { return spelling.len / (uint32_t)sizeof(spelt); }

static int accept(uint32_t token) {
  int32_t flags = tgi_token_flags(token);
  if (flags > 0 && flags & TGI_TOKEN_END) return at == picture.len;
  for (uint32_t i = 0; i < spelt_count(); i++) {
    const spelt *s = spelt_at(i);
    if (s->id != token) continue;
    if (!fits(s->bytes, at)) return 0;
    at += s->bytes.len;
    return 1;
  }
  return 0;
}

static void mask(tgi_mask_bits *m) {
  for (uint32_t i = 0; at < picture.len && i < spelt_count(); i++)
    if (fits(spelt_at(i)->bytes, at)) tgi_may(m, spelt_at(i)->id);
  for (uint32_t i = 0; at == picture.len && i < ends.len / sizeof(uint32_t); i++)
    tgi_may(m, ((const uint32_t *)(const void *)ends.ptr)[i]);
}

static uint64_t key(void) { return 1 + at; }

/* What stands for itself, up to the next # or @, unless special tokens spell it. */
static tgi_tokens forced(void) {
  static uint32_t ids[LONGEST];
  uint32_t end = at;
  while (end < picture.len && picture.ptr[end] != '#' && picture.ptr[end] != '@') end++;
  int32_t n = tgi_encode(picture.ptr + at, end - at, ids, LONGEST);
  if (n < 0 || n > LONGEST) return (tgi_tokens){0, 0};
  for (int32_t i = 0; i < n; i++)
    if (tgi_token_flags(ids[i])) return (tgi_tokens){0, 0};
  return (tgi_tokens){ids, (uint32_t)n};
}

TGI_PLUGIN("{\"name\":\"picture\",\"version\":\"1.0.0\",\"kinds\":[\"grammar\"],\"modes\":[\"steps\"],\"languages\":[\"picture\"],"
           "\"doc\":\"Texts that look like the source: # is a digit, @ a small letter.\"}",
           TGI_NO_INIT)
TGI_STEPS(TGI_NO_PARAMS, begin, accept, mask, key, forced)

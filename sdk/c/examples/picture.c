/* picture: a grammar plugin whose sources are patterns: # matches a digit, @ a
 * lower-case letter, and any other character matches itself. The plugin computes
 * at each step which tokens may come next. */
#include "tgi.h"
#include "tgi_json.h"

enum { LONGEST = 64 };

static tgi_text picture;              /* the source */
static uint32_t at;                   /* how many bytes of it are written */
static uint32_t *masks[LONGEST + 1];  /* the tokens that may come at each position, the end included */

static int looks(char c, char p) {
  if (p == '#') return c >= '0' && c <= '9';
  if (p == '@') return c >= 'a' && c <= 'z';
  return c == p;
}

static void set(uint32_t *mask, uint32_t id) { mask[id / 32] |= 1u << id % 32; }

/* Adds a token to the masks of all positions at which its bytes match. */
static void place(uint32_t id, const char *b, uint32_t len) {
  for (uint32_t from = 0; len && from + len <= picture.len; from++) {
    uint32_t i = 0;
    while (i < len && looks(b[i], picture.ptr[from + i])) i++;
    if (i == len) set(masks[from], id);
  }
}

static tgi_error begin(tgi_text request) {
  char bytes[LONGEST];
  at = 0;
  picture = tgi_keep(tgi_json_text(tgi_json_find(request, "source"))); /* the request is valid only during this call */
  if (picture.len < 1 || picture.len > LONGEST) {
    tgi_buf b = {0};
    return tgi_fail_buf(tgi_puts(tgi_putu(tgi_puts(&b, "the picture has "), picture.len), " bytes, want 1 to 64"));
  }
  for (uint32_t i = 0; i <= picture.len; i++) {
    masks[i] = tgi_new((tgi_vocab_size() + 31) / 32 * sizeof(uint32_t));
    if (!masks[i]) return tgi_fail("the vocabulary does not fit the plugin's memory");
  }
  for (uint32_t id = 0; id < tgi_vocab_size(); id++) {
    int32_t flags = tgi_token_flags(id), n = flags ? 0 : tgi_token_bytes(id, bytes, LONGEST);
    if (flags & TGI_TOKEN_END) set(masks[picture.len], id);
    if (n > 0 && n <= LONGEST) place(id, bytes, (uint32_t)n);
  }
  return TGI_OK;
}

static int accept(uint32_t token) {
  if (token >= tgi_vocab_size() || !(masks[at][token / 32] >> token % 32 & 1)) return 0;
  if (at < picture.len) at += (uint32_t)tgi_token_bytes(token, 0, 0);
  return 1;
}

static void mask(tgi_mask_bits *m) { tgi_may_words(m, masks[at]); }

static uint64_t key(void) { return 1 + at; }

/* Returns the literal text up to the next # or @, unless it encodes to special tokens. */
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

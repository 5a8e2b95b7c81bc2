/* tgi_test_guard.h: native tests of a guard in C. Include the plugin's file and
 * then this one, which includes tgi_test.h:
 *
 *     #include "plugin.c"
 *     #include "tgi_test_guard.h"
 *     int main(void) {
 *       const char *vocab[] = {"a", " b", "</s>"};
 *       tgi_test_vocab(vocab, 3);
 *       TGI_CHECK(!tgi_watch("{}", 0, 0));
 *       TGI_CHECK(tgi_watch_push(1, TGI_GOES_ON)->verdict == TGI_RELEASE);
 *       TGI_CHECK(tgi_same(tgi_watch_shown(), " b"));
 *       return tgi_test_done();
 *     }
 */
#ifndef TGI_TEST_GUARD_H
#define TGI_TEST_GUARD_H

#include "tgi_guard.h"
#include "tgi_test.h"

enum { TGI_WATCH_TOKENS = 4096, TGI_WATCH_TEXT = 1 << 16 };
static uint32_t tgi_watch__tokens[TGI_WATCH_TOKENS], tgi_watch__ends[TGI_WATCH_TOKENS];
static uint32_t tgi_watch__count, tgi_watch__prompt, tgi_watch__released, tgi_watch__known, tgi_watch__seen;
static char tgi_watch__text[TGI_WATCH_TEXT];
static tgi_string tgi_watch__shown;

/* Starts a sequence of the guard. Returns 0 or the plugin's error text, which the next call overwrites. */
static inline const char *tgi_watch(const char *params, const uint32_t *prompt, uint32_t count) {
  static char fault[TGI_MAX_TEXT + 1];
  tgi_error e = tgi__begin_guard(tgi_str(params), (tgi_tokens){prompt, count});
  if (count) memcpy(tgi_watch__tokens, prompt, count * sizeof *prompt);
  tgi_watch__count = tgi_watch__prompt = tgi_watch__released = tgi_watch__known = count;
  tgi_watch__seen = tgi_watch__shown.len = 0;
  if (!e.len) return 0;
  uint32_t n = e.len < TGI_MAX_TEXT ? e.len : TGI_MAX_TEXT;
  memcpy(fault, e.ptr, n);
  fault[n] = 0;
  return fault;
}

/* Returns the text that a client has. */
static inline tgi_text tgi_watch_shown(void) { return tgi_whole(&tgi_watch__shown); }

/* Returns the sequence, the prompt first, without what was taken back. */
static inline tgi_tokens tgi_watch_tokens(void) { return (tgi_tokens){tgi_watch__tokens, tgi_watch__count}; }

int32_t tgi_guard_check(tgi_held *h);

/* Fills the struct as the server does, and its text from the byte `from` of the whole text on. */
static inline uint32_t tgi_watch__fill(tgi_held *h, uint32_t reason) {
  uint32_t n = 0, from = tgi_watch__seen > TGI_MAX_CONTEXT ? tgi_watch__seen - TGI_MAX_CONTEXT : 0;
  for (uint32_t i = tgi_watch__prompt; i < tgi_watch__count; i++) {
    uint32_t id = tgi_watch__tokens[i];
    if (!(tgi_token_flags(id) & TGI_TOKEN_SPECIAL)) n += (uint32_t)tgi_token_bytes(id, tgi_watch__text + n, TGI_WATCH_TEXT - n);
    if (i >= tgi_watch__released) tgi_watch__ends[i - tgi_watch__released] = n - from;
  }
  *h = (tgi_held){.size = TGI_GUARD_SIZE, .tokens = tgi_watch__tokens, .token_count = tgi_watch__count,
                  .prompt_count = tgi_watch__prompt, .new_count = tgi_watch__count - tgi_watch__known,
                  .released = tgi_watch__released, .text = tgi_watch__text + from, .text_len = n - from,
                  .context = tgi_watch__seen - from, .ends = tgi_watch__ends, .reason = reason};
  return from;
}

static inline const char *tgi_watch__verdict(const tgi_held *h) {
  static const char *const names[] = {"release", "rewind", "insert", "replace", "stop"};
  return h->verdict < 5 ? names[h->verdict] : "unknown";
}

static inline int tgi_watch__utf8(const void *text, uint32_t len) {
  const unsigned char *s = text;
  for (uint32_t i = 0; i < len;) {
    uint32_t c = s[i], more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 4;
    if (more == 4 || more >= len - i) return 0;
    uint32_t first = more ? s[i + 1] : 0;
    if ((c == 0xe0 && first < 0xa0) || (c == 0xed && first > 0x9f) || (c == 0xf0 && first < 0x90) || (c == 0xf4 && first > 0x8f)) return 0;
    for (uint32_t k = 1; k <= more; k++)
      if ((s[i + k] & 0xc0) != 0x80) return 0;
    i += more + 1;
  }
  return 1;
}

/* Says what the server would of edits; the text of the tokens before their position ends at end. */
static inline int tgi_watch__refused(const tgi_held *h, uint32_t end) {
  const tgi_edit *e = h->out;
  uint32_t done = h->context;
  uint64_t size = end - done;
#define TGI_INSIDE(at) ((at) < h->text_len && (h->text[at] & 0xc0) == 0x80)
  for (uint32_t i = 0; i < h->out_count && i < TGI_MAX_EDITS; done = e[i++].to) {
    int order = e[i].from >= done && e[i].to >= e[i].from && e[i].to <= end;
    if (!order || TGI_INSIDE(e[i].from) || TGI_INSIDE(e[i].to)) {
      fprintf(stderr, "verdict replace: edit %u takes bytes %u to %u, ", i, e[i].from, e[i].to);
      if (order) fprintf(stderr, "which are no whole characters\n");
      else fprintf(stderr, "want them in order from %u to %u\n", done, end);
      return 1;
    }
    if (!tgi_watch__utf8(e[i].words, e[i].len)) {
      fprintf(stderr, "verdict replace: the words of edit %u are not UTF-8\n", i);
      return 1;
    }
    size += e[i].len, size -= e[i].to - e[i].from;
  }
#undef TGI_INSIDE
  if (h->out_count > TGI_MAX_EDITS || size > TGI_MAX_GUARD_TEXT) {
    fprintf(stderr, "verdict replace: %u edits and a text of %u bytes, the limits are %u and %u\n", h->out_count,
            (unsigned)size, TGI_MAX_EDITS, TGI_MAX_GUARD_TEXT);
    return 1;
  }
  return 0;
}

/* Shows the guard a token and does what it says, but for biases. What it takes back is gone from
 * tgi_watch_tokens, what it inserts is there. After a replacement the guard is asked again while tokens are
 * held back. Returns what it said, or 0 if it failed, or with a line on stderr if the server refuses that. */
static inline const tgi_held *tgi_watch_push(uint32_t token, uint32_t reason) {
  static tgi_held h;
  tgi_watch__tokens[tgi_watch__count++] = token;
  for (;;) {
    uint32_t from = tgi_watch__fill(&h, reason);
    if (tgi_guard_check(&h)) return 0;
    tgi_watch__known = tgi_watch__count;
    uint32_t least = tgi_watch__released + (h.verdict == TGI_REPLACE), most = tgi_watch__count - (h.verdict == TGI_REWIND);
    if (h.verdict == TGI_RELEASE && reason) least = tgi_watch__count;
    if (h.position < least || h.position > most) {
      fprintf(stderr, "verdict %s: position %u, want %u to %u\n", tgi_watch__verdict(&h), h.position, least, most);
      return 0;
    }
    int text = h.verdict == TGI_INSERT || h.verdict == TGI_HALT || h.verdict == TGI_REPLACE;
    if (text && !(h.flags & TGI_FLAG_EDITS) && !tgi_watch__utf8(h.out, h.out_count)) {
      fprintf(stderr, "verdict %s: the text is not UTF-8\n", tgi_watch__verdict(&h));
      return 0;
    }
    if (h.verdict == TGI_REWIND || h.verdict == TGI_INSERT) {
      tgi_watch__known = tgi_watch__count = h.position;
      if (h.verdict == TGI_INSERT) {
        int32_t n = tgi_encode((const char *)h.out, h.out_count, tgi_watch__tokens + h.position, TGI_WATCH_TOKENS - h.position);
        tgi_watch__count += n > 0 ? (uint32_t)n : 0;
      }
      return &h;
    }
    uint32_t end = h.position == tgi_watch__released ? tgi_watch__seen : tgi_watch__ends[h.position - tgi_watch__released - 1] + from;
    if (h.flags & TGI_FLAG_EDITS && tgi_watch__refused(&h, end - from)) return 0;
    if (h.flags & TGI_FLAG_EDITS) {
      const tgi_edit *e = h.out;
      uint32_t at = tgi_watch__seen;
      for (uint32_t i = 0; i < h.out_count; at = e[i++].to + from) {
        tgi_append(&tgi_watch__shown, (tgi_text){tgi_watch__text + at, e[i].from + from - at});
        tgi_append(&tgi_watch__shown, (tgi_text){e[i].words, e[i].len});
      }
      tgi_append(&tgi_watch__shown, (tgi_text){tgi_watch__text + at, end - at});
    } else if (h.verdict == TGI_REPLACE) tgi_append(&tgi_watch__shown, (tgi_text){(const char *)h.out, h.out_count});
    else tgi_append(&tgi_watch__shown, (tgi_text){tgi_watch__text + tgi_watch__seen, end - tgi_watch__seen});
    tgi_watch__seen = end, tgi_watch__released = h.position;
    if (h.verdict != TGI_REPLACE || h.position == tgi_watch__count) return &h;
  }
}

#endif

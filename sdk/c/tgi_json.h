/* tgi_json.h: reads the JSON of configuration and parameters, piece by piece.
 *
 *     tgi_json j = tgi_json_open(params);
 *     tgi_text key;
 *     for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
 *       if (tgi_same(key, "n")) n = tgi_json_number(&j);
 *       else return tgi_fail("unknown parameter");
 *     }
 *     if (!tgi_json_close(&j)) return tgi_fail(j.error);
 *
 * The first fault is kept in error, every later call then does nothing and
 * says "no more", so that one look at the end is enough.
 *
 * What is looked at more than once is kept as its JSON: tgi_json_find gives the
 * JSON of a member, tgi_json_text the string that a JSON text is.
 */
#ifndef TGI_JSON_H
#define TGI_JSON_H

#include "tgi.h"

enum { TGI_JSON_DEPTH = 64 };

typedef struct {
  const char *p, *end;
  const char *error;   /* 0: none */
  int depth;
  int fresh;           /* nothing of the innermost object or array was read yet */
  tgi_text key;        /* the name that was read last */
} tgi_json;

static inline void tgi_json_fail(tgi_json *j, const char *why) {
  if (!j->error) j->error = why;
  j->p = j->end;
}
/* The fault of a value that is another than wanted. It names the member. */
static inline void tgi_json__want(tgi_json *j, const char *what) {
  static const char between[] = " for ";
  uint32_t n = 0, key = j->key.len;
  while (what[n]) n++;
  char *text = key && !j->error ? (char *)tgi_new((size_t)n + sizeof between + key) : 0;
  if (text) {
    char *to = text;
    for (uint32_t i = 0; i < n; i++) *to++ = what[i];
    for (uint32_t i = 0; i < sizeof between - 1; i++) *to++ = between[i];
    for (uint32_t i = 0; i < key; i++) *to++ = j->key.ptr[i];
    *to = 0;
    what = text;
  }
  tgi_json_fail(j, what);
}
static inline void tgi_json__space(tgi_json *j) {
  while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\t' || *j->p == '\r')) j->p++;
}
static inline tgi_json tgi_json_open(tgi_text t) { return (tgi_json){t.ptr, t.ptr + t.len, 0, 0, 0, {"", 0}}; }

/* What comes next: one of { [ " t f n, 0 for a number, -1 for the end or a fault. */
static inline int tgi_json_peek(tgi_json *j) {
  tgi_json__space(j);
  if (j->p >= j->end) return -1;
  char c = *j->p;
  if (c == '-' || (c >= '0' && c <= '9')) return 0;
  for (const char *k = "{[\"tfn"; *k; k++)
    if (c == *k) return c;
  return -1;
}

static inline void tgi_json__enter(tgi_json *j, char c, const char *why) {
  tgi_json__space(j);
  if (j->p >= j->end || *j->p != c) { tgi_json__want(j, why); return; }
  if (++j->depth > TGI_JSON_DEPTH) { tgi_json_fail(j, "JSON is nested deeper than 64"); return; }
  j->p++;
  j->fresh = 1;
}
static inline void tgi_json_object(tgi_json *j) { tgi_json__enter(j, '{', "want a JSON object"); }
static inline void tgi_json_array(tgi_json *j) { tgi_json__enter(j, '[', "want a JSON array"); }

/* More of the innermost object or array? Leaves it when there is none. */
static inline int tgi_json__more(tgi_json *j, char close) {
  int fresh = j->fresh;
  j->fresh = 0;
  tgi_json__space(j);
  if (j->error) return 0;
  if (j->p >= j->end) { tgi_json_fail(j, "JSON ends too early"); return 0; }
  if (*j->p == close) { j->p++; j->depth--; return 0; }
  if (fresh) return 1;
  if (*j->p != ',') { tgi_json_fail(j, "want a comma in JSON"); return 0; }
  j->p++;
  return 1;
}
static inline int tgi_json_item(tgi_json *j) { return tgi_json__more(j, ']'); }

static inline int tgi_json__hex(tgi_json *j) {
  int v = 0;
  if (j->end - j->p < 4) return -1;
  for (int i = 0; i < 4; i++) {
    char c = *j->p++;
    int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (d < 0) return -1;
    v = v << 4 | d;
  }
  return v;
}

/* The code point of an escape after \u; -1 is a fault. A lone half of a pair becomes U+FFFD. */
static inline int tgi_json__rune(tgi_json *j) {
  int v = tgi_json__hex(j);
  if (v >= 0xdc00 && v <= 0xdfff) return 0xfffd;
  if (v < 0xd800 || v > 0xdbff) return v;
  if (j->end - j->p < 6 || j->p[0] != '\\' || j->p[1] != 'u') return 0xfffd;
  const char *back = j->p;
  j->p += 2;
  int w = tgi_json__hex(j);
  if (w >= 0xdc00 && w <= 0xdfff) return 0x10000 + ((v - 0xd800) << 10) + (w - 0xdc00);
  j->p = back;
  return 0xfffd;
}

static inline char *tgi_json__utf8(char *o, int r) {
  if (r < 0x80) { *o++ = (char)r; return o; }
  if (r < 0x800) { *o++ = (char)(0xc0 | r >> 6); *o++ = (char)(0x80 | (r & 63)); return o; }
  if (r < 0x10000) *o++ = (char)(0xe0 | r >> 12);
  else { *o++ = (char)(0xf0 | r >> 18); *o++ = (char)(0x80 | (r >> 12 & 63)); }
  *o++ = (char)(0x80 | (r >> 6 & 63));
  *o++ = (char)(0x80 | (r & 63));
  return o;
}

/* A string, its escapes resolved, in memory of its own. */
static inline tgi_text tgi_json_string(tgi_json *j) {
  const tgi_text none = {"", 0};
  if (tgi_json_peek(j) != '"') { tgi_json__want(j, "want a JSON string"); return none; }
  const char *end = ++j->p;
  while (end < j->end && *end != '"') end += *end == '\\' ? 2 : 1;
  if (end >= j->end) { tgi_json_fail(j, "a JSON string has no end"); return none; }
  char *to = (char *)tgi_new((size_t)(end - j->p) + 1), *o = to;
  if (!to) { tgi_json_fail(j, "out of memory"); return none; }
  while (j->p < end) {
    char c = *j->p++;
    if ((unsigned char)c < 32) { tgi_json_fail(j, "a control character in a JSON string"); return none; }
    if (c != '\\') { *o++ = c; continue; }
    int r;
    switch (c = *j->p++) {
    case 'b': r = '\b'; break;
    case 'f': r = '\f'; break;
    case 'n': r = '\n'; break;
    case 'r': r = '\r'; break;
    case 't': r = '\t'; break;
    case 'u': r = tgi_json__rune(j); break;
    default: r = c == '"' || c == '\\' || c == '/' ? c : -1;
    }
    if (r < 0 || j->p > end) { tgi_json_fail(j, "a bad escape in a JSON string"); return none; }
    o = tgi_json__utf8(o, r);
  }
  j->p++;
  return (tgi_text){to, (uint32_t)(o - to)};
}

static inline int tgi_json_key(tgi_json *j, tgi_text *key) {
  if (!tgi_json__more(j, '}')) return 0;
  j->key.len = 0;
  j->key = *key = tgi_json_string(j);
  tgi_json__space(j);
  if (!j->error && (j->p >= j->end || *j->p++ != ':')) tgi_json_fail(j, "want a colon in JSON");
  return !j->error;
}

static inline int tgi_json__digit(const tgi_json *j) { return j->p < j->end && *j->p >= '0' && *j->p <= '9'; }

/* A number; exact up to 15 digits, within one part in 2^50 beyond. */
static inline double tgi_json_number(tgi_json *j) {
  if (tgi_json_peek(j) != 0) { tgi_json__want(j, "want a JSON number"); return 0; }
  int negative = *j->p == '-', exp = 0, digits = 0;
  double v = 0;
  if (negative) j->p++;
  const char *first = j->p;
  for (; tgi_json__digit(j); j->p++, digits++) v = v * 10 + (*j->p - '0');
  int bad = digits == 0 || (digits > 1 && *first == '0');
  if (j->p < j->end && *j->p == '.') {
    j->p++;
    bad |= !tgi_json__digit(j);
    for (; tgi_json__digit(j); j->p++)
      if (v < 0x1p53) v = v * 10 + (*j->p - '0'), exp--;
  }
  if (j->p < j->end && (*j->p == 'e' || *j->p == 'E')) {
    int e = 0, minus = 0;
    j->p++;
    if (j->p < j->end && (*j->p == '+' || *j->p == '-')) minus = *j->p++ == '-';
    bad |= !tgi_json__digit(j);
    for (; tgi_json__digit(j); j->p++)
      if (e < 10000) e = e * 10 + (*j->p - '0');
    exp += minus ? -e : e;
  }
  if (bad) { tgi_json_fail(j, "a bad JSON number"); return 0; }
  if (v == 0) return 0;
  double p = 1, b = 10;
  for (int e = exp < 0 ? -exp : exp; e; e >>= 1, b *= b)
    if (e & 1) p *= b;
  v = exp < 0 ? v / p : v * p;
  return negative ? -v : v;
}

static inline int tgi_json__word(tgi_json *j, const char *w) {
  const char *p = j->p;
  for (; *w; w++, p++)
    if (p >= j->end || *p != *w) return 0;
  j->p = p;
  return 1;
}

static inline int tgi_json_bool(tgi_json *j) {
  int c = tgi_json_peek(j);
  if (c == 't' && tgi_json__word(j, "true")) return 1;
  if (c != 'f' || !tgi_json__word(j, "false")) tgi_json__want(j, "want true or false in JSON");
  return 0;
}

/* Passes over a value of any type. */
static inline void tgi_json_skip(tgi_json *j) {
  tgi_text key;
  switch (tgi_json_peek(j)) {
  case '{': for (tgi_json_object(j); tgi_json_key(j, &key);) tgi_json_skip(j); break;
  case '[': for (tgi_json_array(j); tgi_json_item(j);) tgi_json_skip(j); break;
  case '"': tgi_json_string(j); break;
  case 0: tgi_json_number(j); break;
  case 'n': if (!tgi_json__word(j, "null")) tgi_json_fail(j, "want null in JSON"); break;
  default: tgi_json_bool(j);
  }
}

/* Passes over a value of any type and returns it as it is written; empty after
 * a fault. Nothing that it needs meanwhile stays in memory. */
static inline tgi_text tgi_json_raw(tgi_json *j) {
  const uintptr_t mark = tgi__mark();
  tgi_json__space(j);
  const char *from = j->p;
  tgi_json_skip(j);
  tgi__release(mark);
  return j->error ? (tgi_text){"", 0} : (tgi_text){from, (uint32_t)(j->p - from)};
}

/* Nothing may follow; says whether all of it was sound. */
static inline int tgi_json_close(tgi_json *j) {
  tgi_json__space(j);
  if (!j->error && j->p < j->end) tgi_json_fail(j, "something follows the JSON value");
  return !j->error;
}

/* The JSON of a member of the object that this JSON is, the last of that name;
 * empty where there is none, or where it is null or no object. */
static inline tgi_text tgi_json_find(tgi_text object, const char *name) {
  tgi_json j = tgi_json_open(object);
  tgi_text found = {"", 0}, key;
  if (tgi_json_peek(&j) != '{') return found;
  const uintptr_t mark = tgi__mark();
  for (tgi_json_object(&j); tgi_json_key(&j, &key); tgi__release(mark)) {
    int same = tgi_same(key, name);
    tgi_text value = tgi_json_raw(&j);
    if (same) found = tgi_same(value, "null") ? (tgi_text){"", 0} : value;
  }
  return found;
}

/* The string that this JSON is, in memory of its own; empty if it is none. */
static inline tgi_text tgi_json_text(tgi_text json) {
  tgi_json j = tgi_json_open(json);
  tgi_text s = tgi_json_string(&j);
  return j.error ? (tgi_text){"", 0} : s;
}

/* Whether this JSON is an object, and sound. */
static inline int tgi_json_is_object(tgi_text json) {
  tgi_json j = tgi_json_open(json);
  if (tgi_json_peek(&j) != '{') return 0;
  tgi_json_raw(&j);
  return tgi_json_close(&j);
}

#endif

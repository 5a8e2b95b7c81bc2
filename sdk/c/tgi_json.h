/* tgi_json.h: reads the JSON of configuration and parameters, one value at a time.
 *
 *     tgi_json j = tgi_json_open(params);
 *     tgi_text key;
 *     for (tgi_json_object(&j); tgi_json_key(&j, &key);) {
 *       if (tgi_same(key, "n")) n = tgi_json_number(&j);
 *       else return tgi_fail("unknown parameter");
 *     }
 *     if (!tgi_json_close(&j)) return tgi_fail(j.error);
 *
 * The field error keeps the first error. After it every call does nothing and
 * returns "no more", so it is enough to check the result of tgi_json_close.
 *
 * To read a value more than once, keep its JSON: tgi_json_find returns the JSON
 * of a member, tgi_json_text decodes a JSON string.
 */
#ifndef TGI_JSON_H
#define TGI_JSON_H

#include "tgi.h"

enum { TGI_JSON_DEPTH = 64 };

typedef struct {
  const char *p, *end;
  const char *error;   /* 0: none */
  int depth;
  int fresh;           /* nothing of the innermost object or array has been read yet */
  tgi_text key;        /* the last name that was read */
} tgi_json;

static inline void tgi_json_fail(tgi_json *j, const char *why) {
  if (!j->error) j->error = why;
  j->p = j->end;
}
/* Records that a value is not what is wanted. The error names the member. */
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

/* Returns the kind of the next value: { [ " t f n, 0 for a number, -1 at the end or after an error. */
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

/* Whether the innermost object or array has more members. Leaves it if not. */
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

/* Reads the code point after \u, or -1 for an error. Half a surrogate pair becomes U+FFFD. */
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

/* Reads a string and decodes its escapes. The result is a copy. */
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

/* Reads a number: exact up to 15 digits, with a relative error of at most 2^-50 beyond. */
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

/* Skips a value of any type. */
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

/* Reads a value of any type and returns its JSON, empty after an error. It frees
 * the memory that it uses. */
static inline tgi_text tgi_json_raw(tgi_json *j) {
  const uintptr_t mark = tgi__mark();
  tgi_json__space(j);
  const char *from = j->p;
  tgi_json_skip(j);
  tgi__release(mark);
  return j->error ? (tgi_text){"", 0} : (tgi_text){from, (uint32_t)(j->p - from)};
}

/* Checks that nothing follows the value. Returns whether there was no error at all. */
static inline int tgi_json_close(tgi_json *j) {
  tgi_json__space(j);
  if (!j->error && j->p < j->end) tgi_json_fail(j, "something follows the JSON value");
  return !j->error;
}

/* Returns the JSON of a member of a JSON object, the last one of that name. Empty
 * if there is none, if it is null, or if the JSON is not an object. */
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

/* Decodes a JSON string into a copy. Empty if the JSON is not a string. */
static inline tgi_text tgi_json_text(tgi_text json) {
  tgi_json j = tgi_json_open(json);
  tgi_text s = tgi_json_string(&j);
  return j.error ? (tgi_text){"", 0} : s;
}

/* Whether this is a valid JSON object. */
static inline int tgi_json_is_object(tgi_text json) {
  tgi_json j = tgi_json_open(json);
  if (tgi_json_peek(&j) != '{') return 0;
  tgi_json_raw(&j);
  return tgi_json_close(&j);
}

#endif

/* Reads the vectors that the examples of all languages are tested with:
 * ../../testdata/vectors. Included after tgi_test.h. */
#include "tgi_json.h"

/* The file whose path follows that of the test. */
static tgi_text vectors(const char *test, const char *file) {
  static char path[4096], buffer[1 << 16];
  const char *slash = strrchr(test, '/');
  snprintf(path, sizeof path, "%.*s%s", (int)(slash ? slash - test + 1 : 0), test, file);
  FILE *f = fopen(path, "rb");
  size_t n = f ? fread(buffer, 1, sizeof buffer, f) : 0;
  if (f) fclose(f);
  TGI_CHECK(n > 0 && n < sizeof buffer);
  return (tgi_text){buffer, (uint32_t)n};
}

/* A member of a case, {} where it is absent. */
static tgi_text or_empty(tgi_text c, const char *name) {
  tgi_text v = tgi_json_find(c, name);
  return v.len ? v : tgi_str("{}");
}

static void same(tgi_text got, tgi_text want, tgi_text about) {
  if (tgi_equal(got, want)) return;
  tgi_test__faults++;
  fprintf(stderr, "%.*s:\n got  %.*s\n want %.*s\n", (int)about.len, about.ptr, (int)got.len, got.ptr, (int)want.len, want.ptr);
}

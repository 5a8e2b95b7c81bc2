/* Guests that time the host's modes: what a process does is chosen at compile time.
 *
 *   flags="--target=wasm32 -std=c11 -O2 -ffreestanding -nostdlib -fno-builtin-strlen -mbulk-memory -msimd128 -msign-ext
 *     -mmutable-globals -mnontrapping-fptoint -Wl,--no-entry -Wl,--strip-all -Wl,--stack-first -Wl,-z,stack-size=65536"
 *   for m in NOOP ROW SPARSE VIEW; do
 *     clang $flags -I../../../sdk/c -D$m -o bench-$(echo $m | tr A-Z a-z).wasm bench.c
 *   done
 */
#include "tgi.h"

#define HEAD "{\"name\":\"bench\",\"version\":\"1\",\"kinds\":[\"logits\"],"

static tgi_error begin(tgi_text params, tgi_tokens prompt) {
  (void)params, (void)prompt;
  return TGI_OK;
}

#if defined(ROW)
TGI_PLUGIN(HEAD "\"modes\":[\"row\"],\"needs\":[\"row\"]}", TGI_NO_INIT)
static tgi_error process(tgi_step *s) {
  for (uint32_t i = 0; i < 5; i++) s->row[1000 * i + 7] += 1.5f;
  tgi_edit_row(s);
  return TGI_OK;
}
#elif defined(SPARSE)
TGI_PLUGIN(HEAD "\"modes\":[\"sparse\"]}", TGI_NO_INIT)
static tgi_error process(tgi_step *s) {
  static tgi_entry e[5];
  for (uint32_t i = 0; i < 5; i++) e[i] = (tgi_entry){1000 * i + 7, 1.5f};
  tgi_bias(s, e, 5);
  return TGI_OK;
}
#elif defined(VIEW)
TGI_PLUGIN(HEAD "\"modes\":[\"topk\"],\"needs\":[\"topk:64\"]}", TGI_NO_INIT)
static tgi_error process(tgi_step *s) {
  s->view[0].value -= 1.0f;
  tgi_edit_view(s, s->view_count);
  return TGI_OK;
}
#else
TGI_PLUGIN(HEAD "\"modes\":[]}", TGI_NO_INIT)
static tgi_error process(tgi_step *s) {
  (void)s;
  return TGI_OK;
}
#endif

TGI_LOGITS(begin, process)

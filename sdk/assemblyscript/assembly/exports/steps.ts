// Exports of kind grammar in the mode "steps"; a plugin's file re-exports them with "export *".

import { Mask } from "../grammar";
import { pack, runAccept, runFollow, runForced, runKey, runMask } from "../registry";

const MASK_ALL: u32 = 2;
let ahead = new StaticArray<u32>(0); // kept alive until the next call

export function tgi_grammar_begin(request: usize, len: u32): u64 {
  return pack(runFollow(request, len));
}

export function tgi_grammar_accept(tokens: usize, count: u32): u32 {
  for (let i: u32 = 0; i < count; i++) if (!runAccept(load<u32>(tokens + (i << 2)))) return 1;
  return 0;
}

export function tgi_grammar_mask(words: usize): u32 {
  const m = new Mask(words);
  runMask(m);
  return m.all ? MASK_ALL : 0;
}

export function tgi_grammar_forced(): u64 {
  ahead = runForced();
  return ahead.length ? (<u64>changetype<usize>(ahead) << 32) | <u64>ahead.length : 0;
}

export function tgi_grammar_key(): u64 {
  return runKey();
}

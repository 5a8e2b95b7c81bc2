// Exports of kind guard; a plugin's file re-exports them with "export *".

import { Held } from "../guard";
import { pack, runCheck, runGuard } from "../registry";
import { Tokens } from "../step";

const held = memory.data(64, 16);

export function tgi_guard_step(): usize {
  return held;
}

export function tgi_guard_begin(params: usize, len: u32, prompt: usize, count: u32): u64 {
  return pack(runGuard(params, len, new Tokens(prompt, count)));
}

export function tgi_guard_check(at: usize): i32 {
  const h = new Held(at);
  h.release(h.tokenCount);
  const fault = runCheck(h);
  if (!fault) return 0;
  const text = pack(fault);
  store<u32>(at, <u32>(text >> 32), 52);
  store<u32>(at, <u32>text, 56);
  return 1;
}

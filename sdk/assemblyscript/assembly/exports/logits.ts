// Exports of kind logits; a plugin's file re-exports them with "export *".

import { pack, runLogits, runProcess } from "../registry";
import { Step, Tokens } from "../step";

const room = memory.data(64, 16);
const step = new Step(room);

export function tgi_logits_step(): usize {
  return room;
}

export function tgi_logits_begin(params: usize, len: u32, prompt: usize, count: u32): u64 {
  return pack(runLogits(params, len, new Tokens(prompt, count)));
}

export function tgi_logits_process(at: usize): i32 {
  const fault = runProcess(step);
  if (!fault) return 0;
  const text = pack(fault);
  store<u32>(at, <u32>(text >> 32), 40);
  store<u32>(at, <u32>text, 44);
  return 1;
}

// Exports of kind draft; a plugin's file re-exports them with "export *".

import { Guess } from "../draft";
import { ERROR, log } from "../host";
import { pack, runDraft, runPropose } from "../registry";
import { Tokens } from "../step";

export function tgi_draft_begin(params: usize, len: u32, prompt: usize, count: u32): u64 {
  return pack(runDraft(params, len, new Tokens(prompt, count)));
}

export function tgi_draft_propose(tokens: usize, count: u32, fresh: u32, to: usize, room: u32): i32 {
  const guess = new Guess(to, room);
  const fault = runPropose(new Tokens(tokens, count), fresh, guess);
  if (!fault) return guess.length;
  log(ERROR, fault);
  return -1;
}

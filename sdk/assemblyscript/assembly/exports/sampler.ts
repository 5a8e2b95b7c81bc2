// Exports of kind sampler; a plugin's file re-exports them with "export *".

import { pack, runSample, runSampler } from "../registry";
import { Candidates, Tokens } from "../step";

export function tgi_sampler_begin(params: usize, len: u32, prompt: usize, count: u32): u64 {
  return pack(runSampler(params, len, new Tokens(prompt, count)));
}

export function tgi_sampler_sample(candidates: usize, n: u32): i32 {
  return runSample(new Candidates(candidates, n));
}

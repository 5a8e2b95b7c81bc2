// top-n-sigma: a sampler. It keeps the candidates whose logit lies within "n"
// (default 1) standard deviations of the greatest, and draws one of them by its
// probability (Tang et al. 2024, arXiv:2411.07641).

import { Candidates, describe, randFloat, Reader, sampler, Sampler, Tokens } from "../../../sdk/assemblyscript/assembly";
export * from "../../../sdk/assemblyscript/assembly/exports/common";
export * from "../../../sdk/assemblyscript/assembly/exports/sampler";

class Sigma extends Sampler {
  constructor(private n: f64) {
    super();
  }

  sample(c: Candidates): i32 {
    const reach = this.n * this.n * variance(c);
    let kept = 0;
    let total = 0.0;
    for (; kept < c.length && square(c.logit(0) - c.logit(kept)) <= reach; kept++) total += Math.exp(c.logprob(kept));
    let left = randFloat() * total;
    for (let i = 0; i < kept; i++) {
      left -= Math.exp(c.logprob(i));
      if (left < 0) return i;
    }
    return kept - 1;
  }
}

/** The square of the logits' standard deviation. */
function variance(c: Candidates): f64 {
  const n = <f64>c.length;
  let mean = 0.0;
  let sum = 0.0;
  for (let i = 0; i < c.length; i++) mean += <f64>c.logit(i) / n;
  for (let i = 0; i < c.length; i++) sum += square(<f64>c.logit(i) - mean);
  return sum / n;
}

function square(x: f64): f64 {
  return x * x;
}

describe(
  '{"name":"top-n-sigma","version":"1.0.0","kinds":["sampler"],"candidates":1024,' +
    '"doc":"Draws among the tokens within n standard deviations of the best logit.",' +
    '"params":{"type":"object","additionalProperties":false,"properties":{"n":{"type":"number","exclusiveMinimum":0,"maximum":100}}}}',
);

sampler((r: Reader, prompt: Tokens): Sampler => {
  let n = 1.0;
  for (r.object(); r.key(); ) {
    if (r.name != "n") r.fail("unknown parameter: " + r.name);
    else n = r.number();
  }
  if (n <= 0 || n > 100) r.fail("n: want a number above 0, at most 100");
  return new Sigma(n);
});

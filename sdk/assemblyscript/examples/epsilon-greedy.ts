// epsilon-greedy: a sampler. It chooses the most likely token, or, with
// probability "epsilon" (default 0.1), one of the tokens whose log-probability is
// within "margin" (default 2) of it, uniformly.

import { Candidates, describe, rand, randFloat, Reader, sampler, Sampler, Tokens } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/sampler";

class Greedy extends Sampler {
  constructor(private epsilon: f64, private margin: f64) {
    super();
  }

  sample(c: Candidates): i32 {
    if (randFloat() >= this.epsilon) return 0;
    let near = 1;
    while (near < c.length && <f64>c.logprob(0) - <f64>c.logprob(near) <= this.margin) near++;
    return <i32>(((rand() >> 32) * near) >> 32);
  }
}

describe(
  '{"name":"epsilon-greedy","version":"1.0.0","kinds":["sampler"],"candidates":256,' +
    '"doc":"The most likely token, or now and then one of those near it.",' +
    '"params":{"type":"object","additionalProperties":false,"properties":{' +
    '"epsilon":{"type":"number","minimum":0,"maximum":1},"margin":{"type":"number","minimum":0}}}}',
);

sampler((r: Reader, prompt: Tokens): Sampler => {
  let epsilon = 0.1;
  let margin: f64 = 2;
  for (r.object(); r.key(); ) {
    if (r.name == "epsilon") epsilon = r.number();
    else if (r.name == "margin") margin = r.number();
    else r.fail("unknown parameter: " + r.name);
  }
  if (!r.close()) {
    if (epsilon < 0 || epsilon > 1) r.fail("epsilon: want a number from 0 to 1");
    else if (margin < 0) r.fail("margin: want a number from 0 up");
  }
  return new Greedy(epsilon, margin);
});

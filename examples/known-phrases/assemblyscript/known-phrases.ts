// known-phrases: a draft, as ../c/known-phrases.c. It guesses that a text goes on as one of the phrases of the request
// does, where its last tokens stand in the phrase: "phrases" is an array of texts, such as answers that are on file.

import { describe, draft, Drafter, encode, Guess, Reader, Tokens } from "../../../sdk/assemblyscript/assembly";
export * from "../../../sdk/assemblyscript/assembly/exports/common";
export * from "../../../sdk/assemblyscript/assembly/exports/draft";

const MOST_PHRASES = 64;
const MOST_TOKENS = 8192;
const LEAST = 2;
const LONGEST = 8;

class Phrases extends Drafter {
  constructor(private phrases: StaticArray<u32>[]) {
    super();
  }

  propose(tokens: Tokens, fresh: i32, guess: Guess): string | null {
    let best = LEAST - 1;
    let from = 0;
    let phrase: StaticArray<u32> | null = null;
    for (let p = 0; p < this.phrases.length; p++) {
      const ids = this.phrases[p];
      for (let at = LEAST; at < ids.length; at++) {
        const n = same(tokens, ids, at);
        if (n > best) {
          best = n;
          from = at;
          phrase = ids;
        }
      }
    }
    if (phrase) while (from < phrase.length && guess.push(phrase[from])) from++;
    return null;
  }
}

/** Returns how many tokens before the ends of both are equal, at most LONGEST. */
function same(tokens: Tokens, ids: StaticArray<u32>, end: i32): i32 {
  const most = min(LONGEST, min(tokens.length, end));
  let n = 0;
  while (n < most && tokens[tokens.length - 1 - n] == ids[end - 1 - n]) n++;
  return n;
}

describe(
  '{"name":"known-phrases","version":"1.0.0","kinds":["draft"],' +
    '"doc":"Guesses that a text goes on as one of the given phrases.",' +
    '"params":{"type":"object","additionalProperties":false,"properties":{' +
    '"phrases":{"type":"array","maxItems":64,"items":{"type":"string"}}}}}',
);

draft((r: Reader, prompt: Tokens): Drafter => {
  const phrases: StaticArray<u32>[] = [];
  let used = 0;
  for (r.object(); r.key(); ) {
    if (r.name != "phrases") {
      r.fail("unknown parameter: " + r.name);
      break;
    }
    for (r.array(); r.item(); ) {
      const ids = encode(r.string());
      used += ids.length;
      if (phrases.length == MOST_PHRASES) r.fail("phrases: want at most 64");
      else if (used > MOST_TOKENS) r.fail("phrases: want at most 8192 tokens in all");
      else phrases.push(ids);
    }
  }
  return new Phrases(phrases);
});

// no-long-numbers: a rule of the house. No answer holds a number of more than
// "digits" digits. Where one more would come most likely, "instead" is written;
// no further digit is allowed until a letter has ended the number. Both are the
// operator's settings; a request has no say, so the plugin takes no parameters.

import { describe, encode, logits, onInit, Processor, Reader, Step, tokenBytes, Tokens, vocabSize } from "../../sdk/assemblyscript/assembly";
export * from "../../sdk/assemblyscript/assembly/exports/common";
export * from "../../sdk/assemblyscript/assembly/exports/logits";

// Set once, before the server's snapshot, and shared by all sequences.
let most: i32 = 6;
let instead: StaticArray<u32> = new StaticArray<u32>(0);
/** Tokens that must not follow a number, by how many digits it has. */
const denied: StaticArray<u32>[] = [];

onInit((r: Reader): void => {
  let text = "...";
  for (r.object(); r.key(); ) {
    if (r.name == "digits") most = <i32>r.uint();
    else if (r.name == "instead") text = r.string();
    else r.fail("unknown setting: " + r.name);
  }
  if (most < 1 || most > 20) r.fail("digits: want a number from 1 to 20");
  instead = encode(text);
  if (!instead.length || instead.length > 256) r.fail("instead: want a text of 1 to 256 tokens");
  if (!r.failed) fillDenied();
});

function fillDenied(): void {
  const lists: u32[][] = [];
  for (let digits = 0; digits <= most; digits++) lists.push([]);
  for (let id: u32 = 0; id < vocabSize(); id++) {
    const text = tokenBytes(id);
    for (let digits = most; digits >= 0 && after(digits, text) > most; digits--) lists[digits].push(id);
  }
  for (let i = 0; i < lists.length; i++) denied.push(StaticArray.fromArray<u32>(lists[i]));
}

/** How long a number of so many digits is once text follows: 0 when a letter ends it, more than most when it becomes
 *  too long on the way. */
function after(digits: i32, text: StaticArray<u8> | null): i32 {
  if (!text) return digits; // a gap in the vocabulary
  for (let i = 0; i < text.length && digits <= most; i++) {
    const c = text[i];
    if (c >= 48 && c <= 57) digits++;
    else if (c >= 65) digits = 0; // what comes before "A" only divides: 555-12 34
  }
  return digits;
}

/** The state of one sequence. */
class Rule extends Processor {
  private digits: i32 = 0;
  private told: bool = false;

  process(s: Step): string | null {
    const tokens = s.tokens;
    for (let i = tokens.length - s.newCount; i < tokens.length; i++) {
      this.digits = min(after(this.digits, tokenBytes(tokens[i])), most); // beyond most by another plugin's will alone
      if (!this.digits) this.told = false;
    }
    if (!this.told && after(this.digits, tokenBytes(s.viewID(0))) > most) {
      this.told = true;
      s.force(instead);
    } else {
      s.deny(denied[this.digits]);
    }
    return null;
  }
}

describe(
  '{"name":"no-long-numbers","version":"1.0.0","config":true,"kinds":["logits"],"modes":["deny","force"],"needs":["topk:1"],' +
    '"doc":"Keeps numbers short. Settings: digits, instead."}',
);

logits((r: Reader, prompt: Tokens): Processor => {
  for (r.object(); r.key(); ) r.fail("unknown parameter: " + r.name);
  return new Rule();
});

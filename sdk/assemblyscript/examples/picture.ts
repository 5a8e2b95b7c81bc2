// picture: a grammar plugin whose sources are patterns: # matches a digit, @ a lower-case letter, and any other
// character matches itself. The plugin computes at each step which tokens may come next.

import { describe, encode, isEnd, isSpecial, Mask, Source, Steps, steps, tokenBytes, vocabSize } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/steps";

const LONGEST = 64;
const DIGIT: u8 = 35; // #
const LETTER: u8 = 64; // @

function looks(c: u8, p: u8): bool {
  if (p == DIGIT) return c >= 48 && c <= 57;
  if (p == LETTER) return c >= 97 && c <= 122;
  return c == p;
}

class Picture extends Steps {
  /** The source, as bytes. */
  private picture: Uint8Array = new Uint8Array(0);
  /** How many bytes of it are written. */
  private at: i32 = 0;
  /** The tokens that may come at each position, the end included. */
  private masks: StaticArray<u32>[] = [];

  begin(r: Source): string | null {
    this.picture = Uint8Array.wrap(String.UTF8.encode(r.text));
    const n = this.picture.length;
    if (n < 1 || n > LONGEST) return "the picture has " + n.toString() + " bytes, want 1 to 64";
    for (let i = 0; i <= n; i++) this.masks.push(new StaticArray<u32>((vocabSize() + 31) / 32));
    for (let id: u32 = 0; id < vocabSize(); id++) {
      if (isEnd(id)) this.set(n, id);
      else if (!isSpecial(id)) this.place(id, tokenBytes(id)!);
    }
    return null;
  }

  private set(place: i32, id: u32): void {
    this.masks[place][id >> 5] |= 1 << (id & 31);
  }

  /** Adds a token to the masks of all positions at which its bytes match. */
  private place(id: u32, b: StaticArray<u8>): void {
    for (let from = 0; b.length && from + b.length <= this.picture.length; from++) {
      let i = 0;
      while (i < b.length && looks(b[i], this.picture[from + i])) i++;
      if (i == b.length) this.set(from, id);
    }
  }

  accept(token: u32): bool {
    if (token >= vocabSize() || !((this.masks[this.at][token >> 5] >> (token & 31)) & 1)) return false;
    if (this.at < this.picture.length) this.at += tokenBytes(token)!.length;
    return true;
  }

  mask(m: Mask): void {
    m.allowWords(this.masks[this.at]);
  }

  key(): u64 {
    return 1 + <u64>this.at;
  }

  /** Returns the literal text up to the next # or @, unless it encodes to special tokens. */
  forced(): StaticArray<u32> {
    let end = this.at;
    if (end < this.picture.length && (this.picture[end] & 0xc0) == 0x80) return new StaticArray<u32>(0); // inside a character
    while (end < this.picture.length && this.picture[end] != DIGIT && this.picture[end] != LETTER) end++;
    const ids = encode(String.UTF8.decodeUnsafe(this.picture.dataStart + this.at, end - this.at));
    for (let i = 0; i < ids.length; i++) if (isSpecial(ids[i])) return new StaticArray<u32>(0);
    return ids;
  }
}

describe(
  '{"name":"picture","version":"1.0.0","kinds":["grammar"],"modes":["steps"],"languages":["picture"],' +
    '"doc":"Texts that look like the source: # is a digit, @ a small letter."}',
);

steps(new Picture());

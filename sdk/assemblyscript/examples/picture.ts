// picture: a grammar of texts that look like its source, in which # stands for a digit, @ for a small letter, and
// everything else for itself. It follows the text itself and says at each step which tokens may come.

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
  /** How much of it is written. */
  private at: i32 = 0;
  /** Tokens that fit somewhere, and how they are spelt. */
  private ids: u32[] = [];
  private spelt: StaticArray<u8>[] = [];
  private ends: u32[] = [];

  begin(r: Source): string | null {
    this.picture = Uint8Array.wrap(String.UTF8.encode(r.text));
    const n = this.picture.length;
    if (n < 1 || n > LONGEST) return "the picture has " + n.toString() + " bytes, want 1 to 64";
    for (let id: u32 = 0; id < vocabSize(); id++) {
      if (isEnd(id)) this.ends.push(id);
      if (isSpecial(id) || isEnd(id)) continue;
      const b = tokenBytes(id)!;
      for (let place = 0; place < n; place++) {
        if (!this.fits(b, place)) continue;
        this.ids.push(id);
        this.spelt.push(b);
        break;
      }
    }
    return null;
  }

  /** Whether bytes can stand in a place of the picture. */
  private fits(b: StaticArray<u8>, place: i32): bool {
    if (!b.length || b.length > this.picture.length - place) return false;
    for (let i = 0; i < b.length; i++) if (!looks(b[i], this.picture[place + i])) return false;
    return true;
  }

  accept(token: u32): bool {
    if (isEnd(token)) return this.at == this.picture.length;
    const i = this.ids.indexOf(token);
    if (i < 0 || !this.fits(this.spelt[i], this.at)) return false;
    this.at += this.spelt[i].length;
    return true;
  }

  mask(m: Mask): void {
    if (this.at == this.picture.length) {
      for (let i = 0; i < this.ends.length; i++) m.allow(this.ends[i]);
      return;
    }
    for (let i = 0; i < this.ids.length; i++) if (this.fits(this.spelt[i], this.at)) m.allow(this.ids[i]);
  }

  key(): u64 {
    return 1 + <u64>this.at;
  }

  /** What stands for itself, up to the next # or @, unless special tokens spell it. */
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

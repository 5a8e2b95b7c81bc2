// The kind guard: decides which of the generated tokens go out.

import { Entries, Tokens } from "./step";

/** A guard of one sequence. It is not taken back with the sequence: it keeps what it knows. */
export abstract class Guard {
  /** Looks at what is held back and calls one of the methods that set the verdict. If it calls none, all goes out.
   *  Returns null, or an error text, which ends the sequence. */
  abstract check(h: Held): string | null;
}

/** Why a sequence is about to end. */
export enum Ending {
  /** It goes on. */
  NONE = 0,
  /** The model ends it. */
  MODEL = 1,
  /** It has as many tokens as it may have. */
  LENGTH = 2,
  /** The last token completes a stop string. */
  STOP = 3,
  /** Another guard ends it. */
  GUARD = 4,
}

/** The verdicts of the contract. */
export enum Verdict {
  RELEASE = 0,
  REWIND = 1,
  INSERT = 2,
  REPLACE = 3,
  STOP = 4,
}

// Keep the data that the struct points to alive until the next call.
let keptBiases: StaticArray<u32> | null = null;
let keptText: ArrayBuffer | null = null;
let keptEdits: StaticArray<u32> | null = null;
let keptWords: StaticArray<ArrayBuffer> | null = null;

/** Words that stand instead of the bytes of the text from `from` to `to`. */
export class Edit {
  constructor(
    public from: i32,
    public to: i32,
    public words: string,
  ) {}
}

/** What is held back behind a token. Positions count tokens of the sequence, the prompt's included. It is valid during
 *  the call. */
export class Held {
  constructor(private ptr: usize) {}

  /** The sequence so far, the prompt first. */
  get tokens(): Tokens {
    return new Tokens(load<usize>(this.ptr, 4), load<i32>(this.ptr, 8));
  }
  /** Length of tokens. */
  get tokenCount(): i32 {
    return load<i32>(this.ptr, 8);
  }
  /** Number of tokens in the prompt. */
  get promptCount(): i32 {
    return load<i32>(this.ptr, 12);
  }
  /** How many tokens, at the end, came since the last call, those among them that were taken back and came again. */
  get newCount(): i32 {
    return load<i32>(this.ptr, 16);
  }
  /** How many tokens are final: the prompt and what went out. */
  get released(): i32 {
    return load<i32>(this.ptr, 20);
  }
  /** Bytes of the text: the model's own, of the last released tokens and those held back; special ones have none. */
  get textLength(): i32 {
    return load<i32>(this.ptr, 28);
  }
  /** How many bytes of the text are of released tokens. A character at the front may be cut. */
  get context(): i32 {
    return load<i32>(this.ptr, 32);
  }
  /** Returns a byte of the text. */
  byte(i: i32): u8 {
    if (<u32>i >= <u32>this.textLength) throw new RangeError("text index");
    return load<u8>(load<usize>(this.ptr, 24) + i);
  }
  /** Returns the text from a byte on, both of UTF-8. */
  text(from: i32): string {
    if (<u32>from > <u32>this.textLength) throw new RangeError("text index");
    return String.UTF8.decodeUnsafe(load<usize>(this.ptr, 24) + from, this.textLength - from);
  }
  /** Returns how many bytes of a text in UTF-8 are at byte i, all of it or what is there until the end of the text:
   *  -1 if another text is there. */
  match(i: i32, what: StaticArray<u8>): i32 {
    const n = min(what.length, this.textLength - i);
    for (let k = 0; k < n; k++) if (this.byte(i + k) != what[k]) return -1;
    return n;
  }
  /** Returns the position of the token that has byte i of the text, which is held back. */
  tokenAt(i: i32): i32 {
    const ends = load<usize>(this.ptr, 36);
    let at = this.released;
    while (at < this.tokenCount && load<i32>(ends + ((at - this.released) << 2)) <= i) at++;
    return at;
  }
  /** Why the sequence is about to end; at the end everything is to be released, or taken back. */
  get ending(): Ending {
    return load<i32>(this.ptr, 40);
  }

  private judge(verdict: Verdict, position: i32, out: usize, count: i32): void {
    store<i32>(this.ptr, verdict, 44);
    store<i32>(this.ptr, position, 48);
    store<usize>(this.ptr, out, 52);
    store<i32>(this.ptr, count, 56);
    store<u32>(this.ptr, load<u32>(this.ptr, 60) & 1, 60);
  }
  private say(verdict: Verdict, position: i32, text: string): void {
    const b = String.UTF8.encode(text);
    keptText = b;
    this.judge(verdict, position, changetype<usize>(b), b.byteLength);
  }

  /** Lets the tokens before position go out and holds the others back. */
  release(position: i32): void {
    this.judge(Verdict.RELEASE, position, 0, 0);
  }
  /** Takes back all tokens from position on. The biases are added to the logits of the token that comes there instead;
   *  negative infinity forbids. Without any, the token that was there is forbidden. */
  rewind(position: i32, biases: Entries | null = null): void {
    if (!biases) return this.judge(Verdict.REWIND, position, 0, 0);
    keptBiases = biases.words;
    this.judge(Verdict.REWIND, position, changetype<usize>(biases.words), biases.length);
  }
  /** Takes back all tokens from position on and goes on with a text. */
  insert(position: i32, text: string): void {
    this.say(Verdict.INSERT, position, text);
  }
  /** Gives the client a text instead of the tokens before position. Where other guards replace as well, what this one
   *  changes is guessed from the text, and more may go; edit says it. */
  replace(position: i32, text: string): void {
    this.say(Verdict.REPLACE, position, text);
  }
  /** Gives the client the text of the tokens before position with other words instead of some bytes of it. Edits are in
   *  the order of the text and do not overlap; the first is not before context. */
  edit(position: i32, edits: Array<Edit>): void {
    const list = new StaticArray<u32>(edits.length << 2);
    const words = new StaticArray<ArrayBuffer>(edits.length);
    for (let i = 0; i < edits.length; i++) {
      const b = String.UTF8.encode(edits[i].words);
      words[i] = b;
      list[i << 2] = edits[i].from;
      list[(i << 2) + 1] = edits[i].to;
      list[(i << 2) + 2] = <u32>changetype<usize>(b);
      list[(i << 2) + 3] = b.byteLength;
    }
    keptEdits = list;
    keptWords = words;
    this.judge(Verdict.REPLACE, position, changetype<usize>(list), edits.length);
    store<u32>(this.ptr, load<u32>(this.ptr, 60) | 2, 60);
  }
  /** Lets the tokens before position go out and ends the text; the client is told why. */
  stop(position: i32, why: string): void {
    this.say(Verdict.STOP, position, why);
  }
  /** The guard is not asked again: all that comes is released. */
  done(): void {
    store<u32>(this.ptr, load<u32>(this.ptr, 60) | 1, 60);
  }
}

/** Returns the bytes of a text in UTF-8, for Held.match. */
export function utf8(text: string): StaticArray<u8> {
  const b = String.UTF8.encode(text);
  const out = new StaticArray<u8>(b.byteLength);
  memory.copy(changetype<usize>(out), changetype<usize>(b), b.byteLength);
  return out;
}

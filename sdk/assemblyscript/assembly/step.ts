// Views of what the host hands over, and the results of a step.

/** A StaticArray of ids from an array literal. */
export function u32s(list: u32[]): StaticArray<u32> {
  return StaticArray.fromArray<u32>(list);
}

/** Token ids in room of the host; they can be read for the life of the instance. */
export class Tokens {
  constructor(private ptr: usize, readonly length: i32) {}

  @operator("[]") at(i: i32): u32 {
    if (<u32>i >= <u32>this.length) throw new RangeError("token index");
    return load<u32>(this.ptr + (<usize>i << 2));
  }
}

/** A list of tokens, each with a bias; what Step.bias takes. */
export class Entries {
  words: StaticArray<u32> = new StaticArray<u32>(16);
  length: i32 = 0;

  push(id: u32, bias: f32): void {
    if (this.length * 2 == this.words.length) {
      const grown = new StaticArray<u32>(this.words.length * 2);
      memory.copy(changetype<usize>(grown), changetype<usize>(this.words), <usize>this.words.length << 2);
      this.words = grown;
    }
    this.words[this.length * 2] = id;
    this.words[this.length * 2 + 1] = reinterpret<u32>(bias);
    this.length++;
  }
}

/** Candidates of a sampler, the most likely first; they end with the call. */
export class Candidates {
  constructor(private ptr: usize, readonly length: i32) {}

  private entry(i: i32): usize {
    if (<u32>i >= <u32>this.length) throw new RangeError("candidate index");
    return this.ptr + <usize>i * 12;
  }
  id(i: i32): u32 {
    return load<u32>(this.entry(i));
  }
  /** After temperature. */
  logit(i: i32): f32 {
    return load<f32>(this.entry(i), 4);
  }
  /** Natural logarithm of the probability. */
  logprob(i: i32): f32 {
    return load<f32>(this.entry(i), 8);
  }
}

// What the step struct points to: kept from the collector until the next step.
let keptOut: StaticArray<u32> | null = null;
let keptForce: StaticArray<u32> | null = null;

/** One position of the sequence for which a token is to be chosen; it ends with the call. */
export class Step {
  constructor(private ptr: usize) {}

  /** The sequence so far, the prompt first. */
  get tokens(): Tokens {
    return new Tokens(load<usize>(this.ptr, 4), load<i32>(this.ptr, 8));
  }
  /** Length of tokens: the position of the token to be chosen. */
  get tokenCount(): i32 {
    return load<i32>(this.ptr, 8);
  }
  /** How many of the tokens are the prompt. */
  get promptCount(): i32 {
    return load<i32>(this.ptr, 12);
  }
  /** How many tokens, at the end, the last call did not have: 0 in the first call, then 1, more after forced ones. */
  get newCount(): i32 {
    return load<i32>(this.ptr, 16);
  }

  /** How many of the most likely tokens can be seen, if the description needs them. */
  get viewCount(): i32 {
    return load<i32>(this.ptr, 24);
  }
  private entry(i: i32): usize {
    if (<u32>i >= <u32>this.viewCount) throw new RangeError("view index");
    return load<usize>(this.ptr, 20) + (<usize>i << 3);
  }
  viewID(i: i32): u32 {
    return load<u32>(this.entry(i));
  }
  viewLogit(i: i32): f32 {
    return load<f32>(this.entry(i), 4);
  }
  /** Edits the view; editView says how much of it counts. */
  setView(i: i32, id: u32, logit: f32): void {
    store<u32>(this.entry(i), id);
    store<f32>(this.entry(i), logit, 4);
  }

  /** How many logits the row has, if the description needs it: all. */
  get rowCount(): i32 {
    return load<i32>(this.ptr, 32);
  }
  private cell(id: u32): usize {
    if (id >= <u32>this.rowCount) throw new RangeError("row index");
    return load<usize>(this.ptr, 28) + (<usize>id << 2);
  }
  logit(id: u32): f32 {
    return load<f32>(this.cell(id));
  }
  /** Edits the row; editRow says that it counts. */
  setLogit(id: u32, logit: f32): void {
    store<f32>(this.cell(id), logit);
  }
  /** Address of the row, for loops over all of it with load<f32> and v128. */
  get rowAddress(): usize {
    return load<usize>(this.ptr, 28);
  }

  private result(mode: u32, out: StaticArray<u32>, count: i32): void {
    keptOut = out;
    store<u32>(this.ptr, mode, 36);
    store<usize>(this.ptr, changetype<usize>(out), 40);
    store<i32>(this.ptr, count, 44);
  }

  /** Denies every token but these. An array given here must not change until the next step. */
  allow(ids: StaticArray<u32>): void {
    this.result(1, ids, ids.length);
  }
  /** Denies these tokens. */
  deny(ids: StaticArray<u32>): void {
    this.result(2, ids, ids.length);
  }
  /** Adds biases; negative infinity denies. Entries of one token add up. */
  bias(entries: Entries): void {
    this.result(3, entries.words, entries.length);
  }
  /** Denies every token t whose bit t % 32 in words[t / 32] is 0; (vocabSize() + 31) / 32 words. */
  mask(words: StaticArray<u32>): void {
    this.result(4, words, words.length);
  }
  /** Takes the first n entries of the view, as edited. */
  editView(n: i32): void {
    store<u32>(this.ptr, 5, 36);
    store<usize>(this.ptr, load<usize>(this.ptr, 20), 40);
    store<i32>(this.ptr, n, 44);
  }
  /** Takes the row, as edited. */
  editRow(): void {
    store<u32>(this.ptr, 6, 36);
    store<usize>(this.ptr, this.rowAddress, 40);
    store<i32>(this.ptr, this.rowCount, 44);
  }
  /** Makes bias and editView deny the tokens that have no entry. */
  only(): void {
    store<u32>(this.ptr, load<u32>(this.ptr, 48) | 1, 48);
  }
  /** Ends the sequence at this position. */
  stop(): void {
    store<u32>(this.ptr, load<u32>(this.ptr, 48) | 2, 48);
  }
  /** Sets the temperature of this step; 0 takes the most likely token. */
  temperature(t: f32): void {
    store<f32>(this.ptr, t, 52);
  }
  /** Makes ids, at most 256, the tokens from this position on; process is called again after them. */
  force(ids: StaticArray<u32>): void {
    keptForce = ids;
    store<usize>(this.ptr, changetype<usize>(ids), 56);
    store<i32>(this.ptr, ids.length, 60);
  }
}

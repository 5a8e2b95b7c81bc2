// Views of data of the host, and the results of a step.

/** Returns a StaticArray of ids, from an array literal. */
export function u32s(list: u32[]): StaticArray<u32> {
  return StaticArray.fromArray<u32>(list);
}

/** Token ids in memory of the host. They can be read for the life of the instance. */
export class Tokens {
  constructor(private ptr: usize, readonly length: i32) {}

  @operator("[]") at(i: i32): u32 {
    if (<u32>i >= <u32>this.length) throw new RangeError("token index");
    return load<u32>(this.ptr + (<usize>i << 2));
  }
}

/** A list of tokens, each with a bias, for Step.bias. */
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

/** Candidates of a sampler, the most likely first. They are valid during the call. */
export class Candidates {
  constructor(private ptr: usize, readonly length: i32) {}

  private entry(i: i32): usize {
    if (<u32>i >= <u32>this.length) throw new RangeError("candidate index");
    return this.ptr + <usize>i * 12;
  }
  id(i: i32): u32 {
    return load<u32>(this.entry(i));
  }
  /** The logit of candidate i after temperature. */
  logit(i: i32): f32 {
    return load<f32>(this.entry(i), 4);
  }
  /** The natural logarithm of the probability of candidate i. */
  logprob(i: i32): f32 {
    return load<f32>(this.entry(i), 8);
  }
}

// Keep the data that the step struct points to alive until the next step.
let keptOut: StaticArray<u32> | null = null;
let keptForce: StaticArray<u32> | null = null;

/** One position of the sequence, for which a token will be chosen. It is valid during the call. */
export class Step {
  constructor(private ptr: usize) {}

  /** The sequence so far, the prompt first. */
  get tokens(): Tokens {
    return new Tokens(load<usize>(this.ptr, 4), load<i32>(this.ptr, 8));
  }
  /** Length of tokens, and the position of the token to be chosen. */
  get tokenCount(): i32 {
    return load<i32>(this.ptr, 8);
  }
  /** Number of tokens in the prompt. */
  get promptCount(): i32 {
    return load<i32>(this.ptr, 12);
  }
  /** Number of tokens added since the last call: 0 in the first call, then 1, or more after forced tokens. */
  get newCount(): i32 {
    return load<i32>(this.ptr, 16);
  }

  /** Number of entries in the view: the most likely tokens, if the description asks for them. */
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
  /** Edits entry i of the view. editView makes the view the result. */
  setView(i: i32, id: u32, logit: f32): void {
    store<u32>(this.entry(i), id);
    store<f32>(this.entry(i), logit, 4);
  }

  /** Number of logits in the row: all, if the description asks for the row. */
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
  /** Edits the row. editRow makes the row the result. */
  setLogit(id: u32, logit: f32): void {
    store<f32>(this.cell(id), logit);
  }
  /** Address of the row, for loops over it with load<f32> and v128. */
  get rowAddress(): usize {
    return load<usize>(this.ptr, 28);
  }

  private result(mode: u32, out: StaticArray<u32>, count: i32): void {
    keptOut = out;
    store<u32>(this.ptr, mode, 36);
    store<usize>(this.ptr, changetype<usize>(out), 40);
    store<i32>(this.ptr, count, 44);
  }

  /** Denies every token except these. Here and below, an array must not change until the next step. */
  allow(ids: StaticArray<u32>): void {
    this.result(1, ids, ids.length);
  }
  /** Denies these tokens. */
  deny(ids: StaticArray<u32>): void {
    this.result(2, ids, ids.length);
  }
  /** Adds biases; negative infinity denies. If a token has several entries, their biases are added. */
  bias(entries: Entries): void {
    this.result(3, entries.words, entries.length);
  }
  /** Denies every token t whose bit t % 32 in words[t / 32] is 0; (vocabSize() + 31) / 32 words. */
  mask(words: StaticArray<u32>): void {
    this.result(4, words, words.length);
  }
  /** Makes the first n entries of the edited view the result. */
  editView(n: i32): void {
    store<u32>(this.ptr, 5, 36);
    store<usize>(this.ptr, load<usize>(this.ptr, 20), 40);
    store<i32>(this.ptr, n, 44);
  }
  /** Makes the edited row the result. */
  editRow(): void {
    store<u32>(this.ptr, 6, 36);
    store<usize>(this.ptr, this.rowAddress, 40);
    store<i32>(this.ptr, this.rowCount, 44);
  }
  /** Makes bias and editView also deny the tokens that have no entry. */
  only(): void {
    store<u32>(this.ptr, load<u32>(this.ptr, 48) | 1, 48);
  }
  /** Ends the sequence at this position. */
  stop(): void {
    store<u32>(this.ptr, load<u32>(this.ptr, 48) | 2, 48);
  }
  /** Sets the temperature of this step. With 0 the most likely token is chosen. */
  temperature(t: f32): void {
    store<f32>(this.ptr, t, 52);
  }
  /** Makes ids, at most 256 tokens, the next tokens from this position on. process is called again after them. */
  force(ids: StaticArray<u32>): void {
    keptForce = ids;
    store<usize>(this.ptr, changetype<usize>(ids), 56);
    store<i32>(this.ptr, ids.length, 60);
  }
}

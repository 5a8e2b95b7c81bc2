// The kind grammar in the mode "steps": the plugin computes the allowed tokens at each step.

import { vocabSize } from "./host";
import { noParameters } from "./template";
import { Value } from "./value";

/** A grammar whose plugin computes the allowed tokens at each step. One instance serves one text. The description has
 *  "modes": ["steps"] and "languages". */
export abstract class Steps {
  /** See Template.open. */
  open(config: Value): string | null {
    return null;
  }
  /** See Template.validate. */
  validate(params: Value): string | null {
    return noParameters(params);
  }
  /** Starts the text. An error text refuses the request; null is success. */
  abstract begin(r: Source): string | null;
  /** Moves past a token. Returns false if it is not allowed here, which ends the sequence. */
  abstract accept(token: u32): bool;
  /** Allows the tokens that may come next, and where the text may end also the tokens that end it. Must not change
   *  the state. */
  abstract mask(m: Mask): void;
  /** Returns the key of the state, 0 for none. States of one request with the same key must have the same mask: the
   *  server asks for it once. */
  key(): u64 {
    return 0;
  }
  /** Returns the tokens that must come next, at most 256; none if there is a choice. */
  forced(): StaticArray<u32> {
    return new StaticArray<u32>(0);
  }
}

/** The grammar of a request. */
export class Source {
  constructor(
    /** The request, as ../abi describes it. */
    readonly request: Value,
  ) {}

  /** The language of the grammar, one of the description's "languages". */
  get language(): string {
    return this.request.get("language").text;
  }
  /** The grammar. */
  get text(): string {
    return this.request.get("source").text;
  }
  /** The request's parameters for this plugin. */
  get params(): Value {
    return this.request.get("params");
  }
}

/** The set of tokens that may come next. It is empty at first. */
export class Mask {
  /** Whether every token is allowed, including special tokens. */
  all: bool = false;
  private readonly tokens: u32 = vocabSize();

  constructor(private words: usize) {
    memory.fill(words, 0, ((this.tokens + 31) / 32) << 2);
  }

  /** Allows a token. Ignores a token that is not in the vocabulary. */
  allow(token: u32): void {
    if (token >= this.tokens) return;
    const at = this.words + ((token >> 5) << 2);
    store<u32>(at, load<u32>(at) | (1 << (token & 31)));
  }

  /** Allows the tokens whose bits are set: bit t % 32 of words[t / 32] is token t. */
  allowWords(words: StaticArray<u32>): void {
    for (let i = 0; i < min(words.length, (this.tokens + 31) / 32); i++) {
      const at = this.words + (i << 2);
      store<u32>(at, load<u32>(at) | unchecked(words[i]));
    }
  }

  /** Allows every token, including special tokens. */
  allowAll(): void {
    this.all = true;
  }
}

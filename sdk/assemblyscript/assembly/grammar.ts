// The kind grammar, in the form that follows a text step by step and says which tokens may come.

import { vocabSize } from "./host";
import { noParameters } from "./template";
import { Value } from "./value";

/** A grammar that a plugin follows itself; one instance follows one text. The description has "modes": ["steps"] and
 *  "languages". */
export abstract class Steps {
  /** As Template.open. */
  open(config: Value): string | null {
    return null;
  }
  /** As Template.validate. */
  validate(params: Value): string | null {
    return noParameters(params);
  }
  /** Begins the text. The text returned refuses the request. */
  abstract begin(r: Source): string | null;
  /** Moves on by a token; false, of one that may not come here, ends the sequence. */
  abstract accept(token: u32): bool;
  /** Allows the tokens that may come next, those that end the text among them where it may end. Asking changes
   *  nothing. */
  abstract mask(m: Mask): void;
  /** Names the state, 0 for none: states of one request with the same key have the same mask, and the server asks
   *  once. */
  key(): u64 {
    return 0;
  }
  /** At most 256 tokens that come next whatever the model says; none where there is a choice. */
  forced(): StaticArray<u32> {
    return new StaticArray<u32>(0);
  }
}

/** A grammar that a request brings. */
export class Source {
  constructor(
    /** The request as the contract describes it. */
    readonly request: Value,
  ) {}

  /** One of the description's "languages". */
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

/** Which tokens may come next: none at first. */
export class Mask {
  /** Every token may come, special ones among them. */
  all: bool = false;
  private readonly tokens: u32 = vocabSize();

  constructor(private words: usize) {
    memory.fill(words, 0, ((this.tokens + 31) / 32) << 2);
  }

  /** Lets a token come. One that the vocabulary does not have is passed over. */
  allow(token: u32): void {
    if (token >= this.tokens) return;
    const at = this.words + ((token >> 5) << 2);
    store<u32>(at, load<u32>(at) | (1 << (token & 31)));
  }

  /** Lets the tokens come whose bits are set, in a mask made before. */
  allowWords(words: StaticArray<u32>): void {
    for (let i = 0; i < min(words.length, (this.tokens + 31) / 32); i++) {
      const at = this.words + (i << 2);
      store<u32>(at, load<u32>(at) | unchecked(words[i]));
    }
  }

  /** Lets every token come. */
  allowAll(): void {
    this.all = true;
  }
}

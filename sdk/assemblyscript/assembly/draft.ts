// The kind draft: guesses which tokens come next, so that a step of the model may compute several.
//
//   class Again extends Drafter {
//     propose(tokens: Tokens, fresh: i32, guess: Guess): string | null {
//       guess.push(tokens[tokens.length - 1]);   // the last token once more
//       return null;
//     }
//   }
//   draft((r: Reader, prompt: Tokens): Drafter => { r.skip(); return new Again(); });
//
// What is guessed changes no text: the model keeps the guesses that it would have chosen.

import { Tokens } from "./step";

/** Guesses for one sequence. It is not taken back with the sequence. */
export abstract class Drafter {
  /** Adds tokens that it expects behind tokens to guess, the next one first; none is no guess. tokens is the sequence so
   *  far, the prompt first; the last fresh of them are others than in the last call. Returns null, or an error text: the
   *  sequence then goes on without the plugin. */
  abstract propose(tokens: Tokens, fresh: i32, guess: Guess): string | null;
}

/** The room for guesses. */
export class Guess {
  /** How many tokens it has. */
  length: i32 = 0;

  constructor(
    private to: usize,
    /** How many it may have. */
    readonly room: i32,
  ) {}

  /** Adds a token; false if there is no more room. */
  push(id: u32): bool {
    if (this.length >= this.room) return false;
    store<u32>(this.to + (<usize>this.length << 2), id);
    this.length++;
    return true;
  }
}

// Functions of the server that a plugin may call.

// @ts-ignore: decorator
@external("tgi", "log")
declare function importLog(level: u32, text: usize, len: u32): void;
// @ts-ignore: decorator
@external("tgi", "vocab_size")
declare function importVocabSize(): u32;
// @ts-ignore: decorator
@external("tgi", "token_bytes")
declare function importTokenBytes(id: u32, to: usize, room: u32): i32;
// @ts-ignore: decorator
@external("tgi", "token_flags")
declare function importTokenFlags(id: u32): i32;
// @ts-ignore: decorator
@external("tgi", "encode")
declare function importEncode(text: usize, len: u32, to: usize, room: u32): i32;
// @ts-ignore: decorator
@external("tgi", "rand_u64")
declare function importRand(): u64;

// Levels of log.
export const DEBUG: u32 = 0;
export const INFO: u32 = 1;
export const WARN: u32 = 2;
export const ERROR: u32 = 3;

/** Writes to the server's log. A text is cut at 4 KiB. If the plugin traps, the error contains the last line. */
export function log(level: u32, text: string): void {
  const b = String.UTF8.encode(text);
  importLog(level, changetype<usize>(b), b.byteLength);
}

/** Returns the number of token ids: they are 0 to vocabSize() - 1. */
export function vocabSize(): u32 {
  return importVocabSize();
}

/** Returns the bytes that a token stands for, or the text of a special token. null if there is no such token. */
export function tokenBytes(id: u32): StaticArray<u8> | null {
  const n = importTokenBytes(id, 0, 0);
  if (n < 0) return null;
  const b = new StaticArray<u8>(n);
  importTokenBytes(id, changetype<usize>(b), n);
  return b;
}

/** Whether a token is markup of the model rather than text. */
export function isSpecial(id: u32): bool {
  const f = importTokenFlags(id);
  return f >= 0 && (f & 1) != 0;
}

/** Whether choosing the token ends the sequence. */
export function isEnd(id: u32): bool {
  const f = importTokenFlags(id);
  return f >= 0 && (f & 2) != 0;
}

/** Returns the token ids of a text. Recognises special tokens in it and adds none. */
export function encode(text: string): StaticArray<u32> {
  const b = String.UTF8.encode(text);
  const n = importEncode(changetype<usize>(b), b.byteLength, 0, 0);
  const ids = new StaticArray<u32>(n > 0 ? n : 0);
  if (n > 0) importEncode(changetype<usize>(b), b.byteLength, changetype<usize>(ids), n);
  return ids;
}

/** Returns 64 random bits. Requests with the same seed get the same bits. */
export function rand(): u64 {
  return importRand();
}

/** Returns a random number in [0, 1). */
export function randFloat(): f64 {
  return <f64>(importRand() >> 11) * (1.0 / 9007199254740992.0);
}

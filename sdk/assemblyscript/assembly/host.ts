// What a plugin may ask of the server.

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

/** Writes to the server's log; text beyond 4 KiB is cut. The last line stands in the fault when the plugin traps. */
export function log(level: u32, text: string): void {
  const b = String.UTF8.encode(text);
  importLog(level, changetype<usize>(b), b.byteLength);
}

/** The number of token ids, 0 to vocabSize() - 1. */
export function vocabSize(): u32 {
  return importVocabSize();
}

/** The bytes that a token stands for; of a special token, its text. null where there is no such token. */
export function tokenBytes(id: u32): StaticArray<u8> | null {
  const n = importTokenBytes(id, 0, 0);
  if (n < 0) return null;
  const b = new StaticArray<u8>(n);
  importTokenBytes(id, changetype<usize>(b), n);
  return b;
}

/** Whether a token is markup of the model and not text. */
export function isSpecial(id: u32): bool {
  const f = importTokenFlags(id);
  return f >= 0 && (f & 1) != 0;
}

/** Whether choosing the token ends the sequence. */
export function isEnd(id: u32): bool {
  const f = importTokenFlags(id);
  return f >= 0 && (f & 2) != 0;
}

/** The token ids of a text; special tokens in it are recognised, none are added. */
export function encode(text: string): StaticArray<u32> {
  const b = String.UTF8.encode(text);
  const n = importEncode(changetype<usize>(b), b.byteLength, 0, 0);
  const ids = new StaticArray<u32>(n > 0 ? n : 0);
  if (n > 0) importEncode(changetype<usize>(b), b.byteLength, changetype<usize>(ids), n);
  return ids;
}

/** 64 random bits: the same for the same seed of the request. */
export function rand(): u64 {
  return importRand();
}

/** A random number from 0 to below 1. */
export function randFloat(): f64 {
  return <f64>(importRand() >> 11) * (1.0 / 9007199254740992.0);
}

// Exports of every guest; a plugin's file re-exports them with "export *".

import "../abort";
import { packDescription, runInit, runValidate } from "../registry";

// Bytes of memory that init reserves before the snapshot.
const RESERVE: usize = 1 << 20;

export function tgi_abi_v1(): void {}

export function tgi_alloc(size: u32): usize {
  return size < 1 << 29 ? heap.alloc(size) : 0;
}

export function tgi_describe(): u64 {
  return packDescription();
}

export function tgi_init(config: usize, len: u32): u64 {
  const fault = runInit(config, len);
  heap.free(heap.alloc(RESERVE));
  return fault;
}

export function tgi_validate(params: usize, len: u32): u64 {
  return runValidate(params, len);
}

// The export of kind program; a plugin's file re-exports it with "export *".

import { pack, runProgram } from "../registry";

export function tgi_program_run(request: usize, len: u32): u64 {
  return pack(runProgram(request, len));
}

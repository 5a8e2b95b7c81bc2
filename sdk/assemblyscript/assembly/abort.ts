import { ERROR, log } from "./host";

/** What a failed assertion or a bad index ends in: the server shows the line with the trap. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  log(ERROR, (message ? message : "abort") + " in " + (file ? file : "?") + " line " + line.toString());
  unreachable();
}

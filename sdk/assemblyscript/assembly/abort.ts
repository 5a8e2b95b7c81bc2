import { ERROR, log } from "./host";

/** Called after a failed assertion or a bad index. Logs the line, which the server shows with the trap. */
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  log(ERROR, (message ? message : "abort") + " in " + (file ? file : "?") + " line " + line.toString());
  unreachable();
}

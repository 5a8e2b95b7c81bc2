// A program of the tests: it denies its runs what they begin with, and emits the end of one.

import { describe, program, Program, Reason, Request, Settings, why } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/program";

class Denies extends Program {
  run(r: Request): string | null {
    const c = r.context; // Q, behind which the script has " a" alone
    const none = c.generate(new Settings().deny([1]));
    if (!none || none.reason != Reason.DENIED || none.count || c.ended || c.emit(1, 1)) return "it is not denied";
    const run = c.generate(new Settings().deny([2, 3]));
    if (!run || run.reason != Reason.END || run.count != 1 || run.end != 3 || !c.ended) return "it does not end";
    const f = c.fork();
    if (!f || !c.push([2]) || c.ended || c.emit(1, 3)) return "what goes on has an end";
    if (!f.emitToEnd(1) || f.emit(1, 3)) return why();
    const end = f.generate(new Settings().deny([3])); // only the end comes
    return end && end.reason == Reason.DENIED ? null : "the end is not denied";
  }
}

describe('{"name":"denies","version":"1.0.0","kinds":["program"],"contexts":2,"revision":2,"doc":"Denies."}');
program(new Denies());

// A program of the tests: it asks about three contexts at the same time, and runs with settings that no example has.

import { describe, program, Program, Request, Settings, wait, why } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/program";

class Asks extends Program {
  run(r: Request): string | null {
    const kids = r.context.forkN(3);
    if (!kids[0].ask("") || !kids[1].ask(" a b") || !kids[2].ask(" b") || !wait(kids)) return why();
    if (r.context.ask("elsewhere")) return "a text without tokens is asked about";
    if (kids[1].score(" a b") != -2) return "the score differs";
    const last = new Settings().minP(0.25).plugin("x", '{"a":1}').plugin('y"').maxTokens(1).emit();
    return r.context.generate(new Settings().plugin("z")) && r.context.generate(last) ? null : why();
  }
}

describe('{"name":"asks","version":"1.0.0","kinds":["program"],"contexts":3,"revision":2,"doc":"Asks."}');
program(new Asks());

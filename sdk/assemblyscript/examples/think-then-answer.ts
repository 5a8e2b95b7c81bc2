// think-then-answer lets the model think for "budget" tokens (default 64). Where it has not come to "end" by then, it
// is told that the time is up. Then it answers. All of it goes out as it comes; where the request has a grammar, the
// thoughts are free and stay here, and the answer that the grammar holds goes out. Without "end" that is "</think>";
// a model that has no token for it marks no thoughts, and answers as ever.

import { Calls, describe, encode, program, Program, Reason, Request, Settings, Value, why } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/program";

class Params {
  budget: i32 = 64;
  end: string = "";
  hint: string = "\nTime is up.\n";
  fault: string | null = null;

  constructor(params: Value) {
    for (let i = 0; i < params.length; i++) {
      const name = params.names[i];
      const v = params.items[i];
      if (name == "budget") {
        const n = v.number();
        if (n >= 1 && n <= 100000 && n == Math.floor(n)) this.budget = <i32>n;
        else this.fault = "budget: want a whole number from 1 to 100000";
      } else if (name == "end" || name == "hint") {
        if (!v.isText || !v.text.length) this.fault = name + ": want a text";
        else if (name == "end") this.end = v.text;
        else this.hint = v.text;
      } else this.fault = "unknown parameter: " + name;
    }
  }
}

class Think extends Program {
  validate(params: Value): string | null {
    return new Params(params).fault;
  }

  run(r: Request): string | null {
    const p = new Params(r.params);
    const c = r.context;
    const shown = !r.hasGrammar;
    if (!p.end.length) {
      p.end = "</think>";
      if (shown && encode(p.end).length != 1) return c.generate(new Settings().emit()) ? null : why();
    }
    const think = new Settings().free().stop([p.end]);
    if (shown) think.emit();
    if (!c.generate(think.clone().maxTokens(p.budget))) return why();
    const calls = shown ? c.finishCall(think) : Calls.NONE; // nothing is put into a call of a tool
    if (calls == Calls.FAILED) return why();
    const reason = c.span().reason;
    if (reason == Reason.END && shown) return null; // it answered without an end of its thoughts
    if (reason != Reason.STOP && calls != Calls.MADE) {
      const from = c.length;
      // The end may be a special token; it is a client's word about its own reply.
      if (reason == Reason.LENGTH && c.append(p.hint) < 0) return why();
      if (c.appendSpecial(p.end) < 0 || (shown && !c.emitFrom(from))) return why();
    }
    return c.generate(new Settings().emit()) ? null : why();
  }
}

describe(
  '{"name":"think-then-answer","version":"1.0.0","kinds":["program"],"contexts":1,"revision":2,' +
    '"doc":"Lets the model think within a budget of tokens, and answer then.","params":{"type":"object","properties":{' +
    '"budget":{"type":"integer","minimum":1,"maximum":100000},"end":{"type":"string"},"hint":{"type":"string"}}}}',
);
program(new Think());

// A guard that says its edits: the client gets "<é>" instead of each x, and nothing instead of a y.

import { describe, Edit, guard, Guard, Held, Reader, Tokens } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/guard";

class NoX extends Guard {
  check(h: Held): string | null {
    const edits: Edit[] = [];
    for (let i = h.context; i < h.textLength; i++) {
      if (h.byte(i) == 0x78) edits.push(new Edit(i, i + 1, "<é>"));
      else if (h.byte(i) == 0x21) edits.push(new Edit(i, i + 2, "")); // which the server refuses, at the end of the text
      else if (h.byte(i) == 0x79) edits.push(new Edit(i, i + 1, ""));
    }
    if (edits.length) h.edit(h.tokenCount, edits);
    return null;
  }
}

describe('{"name":"no-x","version":"1.0.0","kinds":["guard"],"guard":{"hold":1,"verdicts":["replace"]}}');

guard((r: Reader, prompt: Tokens): Guard => {
  r.skip();
  return new NoX();
});

// banned-strings takes the texts of its parameter "strings" back before a client sees them, and has the model go another
// way: {"strings": ["delve", "as an AI"]}. A text is taken back with the token it begins in.

import { describe, Ending, guard, Guard, Held, Reader, Tokens, utf8 } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/guard";

class Banned extends Guard {
  constructor(private list: StaticArray<u8>[]) {
    super();
  }

  check(h: Held): string | null {
    let open = -1; // where one of the texts may begin
    for (let i = h.context; i < h.textLength; i++) {
      for (let k = 0; k < this.list.length; k++) {
        const n = h.match(i, this.list[k]);
        if (n == this.list[k].length) {
          h.rewind(h.tokenAt(i));
          return null;
        }
        if (n >= 0 && open < 0) open = i;
      }
    }
    if (open >= 0 && h.ending == Ending.NONE) h.release(h.tokenAt(open));
    return null;
  }
}

describe(
  '{"name":"banned-strings","version":"1.0.0","kinds":["guard"],"revision":2,"guard":{"hold":100,"verdicts":["rewind"]},' +
    '"doc":"Takes texts back and has the model go another way.","params":{"type":"object","properties":{' +
    '"strings":{"type":"array","items":{"type":"string"}}}}}',
);

guard((r: Reader, prompt: Tokens): Guard => {
  const list: StaticArray<u8>[] = [];
  for (r.object(); r.key(); ) {
    if (r.name != "strings") {
      r.fail("unknown parameter, want strings");
      continue;
    }
    for (r.array(); r.item(); ) {
      const text = utf8(r.string());
      if (!text.length || text.length > 100) r.fail("strings: want 1 to 100 bytes each");
      else if (list.length == 16) r.fail("strings: want at most 16");
      else list.push(text);
    }
  }
  return new Banned(list);
});

// banned-and-boost: parameters {"ban": [token...], "boost": {token: bias}, "only": [token...]}.
//
// A token is written as its id or its text. As a member name in boost, "#17" is
// the token with id 17. ban denies tokens, only denies all others, boost adds a
// bias to the logit. The plugin uses the cheapest mode that is sufficient.

import { describe, encode, Entries, logits, Processor, Reader, Step, Tokens, vocabSize } from "../assembly";
export * from "../assembly/exports/common";
export * from "../assembly/exports/logits";

/** The result of every step of one sequence, computed once. */
class Plan extends Processor {
  constructor(private ids: StaticArray<u32>, private entries: Entries, private useBias: bool, private useOnly: bool) {
    super();
  }

  process(s: Step): string | null {
    if (this.useBias) {
      s.bias(this.entries);
      if (this.useOnly) s.only();
    } else if (this.useOnly) s.allow(this.ids);
    else if (this.ids.length) s.deny(this.ids);
    return null;
  }
}

function known(r: Reader, field: string, id: f64): u32 {
  if (id >= 0 && id < <f64>vocabSize() && id == Math.floor(id)) return <u32>id;
  r.fail(field + ": no such token id");
  return 0;
}

function byText(r: Reader, field: string, text: string): u32 {
  if (r.failed) return 0;
  const ids = encode(text);
  if (ids.length == 1) return ids[0];
  r.fail(field + ": want the text of one token, not " + text);
  return 0;
}

function tokens(r: Reader, field: string): u32[] {
  const ids: u32[] = [];
  for (r.array(); r.item(); ) ids.push(r.peek() == 34 ? byText(r, field, r.string()) : known(r, field, r.number()));
  return ids;
}

function named(r: Reader, key: string): u32 {
  if (key.length < 2 || !key.startsWith("#")) return byText(r, "boost", key);
  let id: f64 = 0;
  for (let i = 1; i < key.length; i++) {
    const d = key.charCodeAt(i) - 48;
    if (d < 0 || d > 9) return byText(r, "boost", key);
    id = id * 10 + <f64>d;
  }
  return known(r, "boost", id);
}

class Boosts {
  ids: u32[] = [];
  values: f32[] = [];
}

function boosts(r: Reader): Boosts {
  const b = new Boosts();
  for (r.object(); r.key(); ) {
    const key = r.name;
    b.ids.push(named(r, key));
    const v = r.number();
    if (!(v >= -100 && v <= 100)) r.fail("boost: want a bias from -100 to 100 for " + key);
    b.values.push(<f32>v);
  }
  return b;
}

function plan(r: Reader, ban: u32[], only: u32[] | null, boost: Boosts): Plan {
  const ids: u32[] = [];
  const entries = new Entries();
  const base = only ? only : ban;
  for (let i = 0; i < base.length; i++) {
    if (only && ban.includes(base[i])) continue;
    ids.push(base[i]);
    entries.push(base[i], only ? 0 : -Infinity);
  }
  for (let i = 0; i < boost.ids.length; i++) {
    const id = boost.ids[i];
    if (!ban.includes(id) && (!only || only.includes(id))) entries.push(id, boost.values[i]);
  }
  if (only && !entries.length && !r.close()) r.fail("only: every token of it is banned");
  return new Plan(StaticArray.fromArray<u32>(ids), entries, boost.ids.length > 0, only != null);
}

describe(
  '{"name":"banned-and-boost","version":"1.0.0","kinds":["logits"],' +
    '"doc":"Denies, requires or favours tokens.","modes":["allow","deny","sparse"],"needs":[],' +
    '"params":{"type":"object","additionalProperties":false,"properties":{' +
    '"ban":{"type":"array","items":{"type":["integer","string"]}},' +
    '"only":{"type":"array","items":{"type":["integer","string"]}},' +
    '"boost":{"type":"object","additionalProperties":{"type":"number","minimum":-100,"maximum":100}}}}}',
);

logits((r: Reader, prompt: Tokens): Processor => {
  let ban: u32[] = [];
  let only: u32[] | null = null;
  let boost = new Boosts();
  for (r.object(); r.key(); ) {
    if (r.name == "ban") ban = tokens(r, "ban");
    else if (r.name == "only") only = tokens(r, "only");
    else if (r.name == "boost") boost = boosts(r);
    else r.fail("unknown parameter: " + r.name);
  }
  return plan(r, ban, only, boost);
});
